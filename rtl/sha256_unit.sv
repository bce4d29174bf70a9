// SHA-256 of one message after another, with its padding: 65 cycles for each 64 bytes.
// In: words of 32 bits, the first byte in the upper ones, at most one a cycle; of the last word,
// in_bytes says how many of its bytes count (0 to 4), so that an empty message is one empty word.
// Out: the digest, once for each message, in the order of the messages.
// A word is taken in the round that uses it: no block is buffered. While there is no word, or the
// digest is not taken, the unit stands still and forgets nothing.
// Source: FIPS 180-4, sec. 5.1.1 for the padding, 5.3.3 and 6.2 for the rest.
module sha256_unit (
    input  logic         clk,
    input  logic         rst,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [31:0]  in_data,
    input  logic         in_last,
    input  logic [2:0]   in_bytes,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [255:0] out_digest,
    // Whether it worked in this cycle, to count how much of the time it does.
    output logic         busy
);
    localparam logic [255:0] INITIAL = {
        32'h6a09e667, 32'hbb67ae85, 32'h3c6ef372, 32'ha54ff53a,
        32'h510e527f, 32'h9b05688c, 32'h1f83d9ab, 32'h5be0cd19
    };

    // ROUND: one round a cycle. ADD: the block is added to the hash. DONE: the digest waits.
    typedef enum logic [1:0] {ROUND, ADD, DONE} phase_t;
    // Where words come from: the message, the bit that ends it, zeros up to the length.
    typedef enum logic [1:0] {DATA, MARK, ZERO} source_t;

    phase_t       phase;
    source_t      source;
    logic [5:0]   t;
    logic [255:0] hash;
    logic [255:0] work;
    logic [511:0] schedule;
    logic [31:0]  bytes;
    logic         has_length;

    function automatic logic [31:0] rotr(input logic [31:0] x, input int n);
        rotr = (x >> n) | (x << (32 - n));
    endfunction

    // ---- the word of this round -----------------------------------------------------------
    logic        from_input;
    logic        stalled;
    logic [31:0] marked;
    logic [31:0] fresh;
    logic [31:0] expanded;
    logic [31:0] word;
    logic [31:0] w0;
    logic [31:0] w1;
    logic [31:0] w9;
    logic [31:0] w14;

    assign from_input = phase == ROUND && t < 6'd16 && source == DATA;
    assign in_ready   = from_input;
    assign stalled    = from_input && !in_valid;
    assign {w0, w1}   = schedule[511:448];
    assign w9         = schedule[223:192];
    assign w14        = schedule[63:32];

    always_comb begin
        unique case (in_bytes)
            3'd0: marked = 32'h80000000;
            3'd1: marked = {in_data[31:24], 24'h800000};
            3'd2: marked = {in_data[31:16], 16'h8000};
            3'd3: marked = {in_data[31:8], 8'h80};
            default: marked = in_data;
        endcase
        unique case (source)
            DATA: fresh = in_last ? marked : in_data;
            MARK: fresh = 32'h80000000;
            default: begin
                // The length in bits; messages are shorter than 2^32 bytes.
                if (t == 6'd14) fresh = {29'd0, bytes[31:29]};
                else if (t == 6'd15 && has_length) fresh = {bytes[28:0], 3'd0};
                else fresh = 32'd0;
            end
        endcase
        expanded = (rotr(w14, 17) ^ rotr(w14, 19) ^ (w14 >> 10)) + w9
                 + (rotr(w1, 7) ^ rotr(w1, 18) ^ (w1 >> 3)) + w0;
        word = t < 6'd16 ? fresh : expanded;
    end

    // ---- one round ------------------------------------------------------------------------
    logic [31:0] k;
    logic [31:0] a;
    logic [31:0] b;
    logic [31:0] c;
    logic [31:0] d;
    logic [31:0] e;
    logic [31:0] f;
    logic [31:0] g;
    logic [31:0] h;
    logic [31:0] t1;
    logic [31:0] t2;

    assign {a, b, c, d, e, f, g, h} = work;

    always_comb begin
        unique case (t)
        6'd0: k = 32'h428a2f98; 6'd1: k = 32'h71374491;
        6'd2: k = 32'hb5c0fbcf; 6'd3: k = 32'he9b5dba5;
        6'd4: k = 32'h3956c25b; 6'd5: k = 32'h59f111f1;
        6'd6: k = 32'h923f82a4; 6'd7: k = 32'hab1c5ed5;
        6'd8: k = 32'hd807aa98; 6'd9: k = 32'h12835b01;
        6'd10: k = 32'h243185be; 6'd11: k = 32'h550c7dc3;
        6'd12: k = 32'h72be5d74; 6'd13: k = 32'h80deb1fe;
        6'd14: k = 32'h9bdc06a7; 6'd15: k = 32'hc19bf174;
        6'd16: k = 32'he49b69c1; 6'd17: k = 32'hefbe4786;
        6'd18: k = 32'h0fc19dc6; 6'd19: k = 32'h240ca1cc;
        6'd20: k = 32'h2de92c6f; 6'd21: k = 32'h4a7484aa;
        6'd22: k = 32'h5cb0a9dc; 6'd23: k = 32'h76f988da;
        6'd24: k = 32'h983e5152; 6'd25: k = 32'ha831c66d;
        6'd26: k = 32'hb00327c8; 6'd27: k = 32'hbf597fc7;
        6'd28: k = 32'hc6e00bf3; 6'd29: k = 32'hd5a79147;
        6'd30: k = 32'h06ca6351; 6'd31: k = 32'h14292967;
        6'd32: k = 32'h27b70a85; 6'd33: k = 32'h2e1b2138;
        6'd34: k = 32'h4d2c6dfc; 6'd35: k = 32'h53380d13;
        6'd36: k = 32'h650a7354; 6'd37: k = 32'h766a0abb;
        6'd38: k = 32'h81c2c92e; 6'd39: k = 32'h92722c85;
        6'd40: k = 32'ha2bfe8a1; 6'd41: k = 32'ha81a664b;
        6'd42: k = 32'hc24b8b70; 6'd43: k = 32'hc76c51a3;
        6'd44: k = 32'hd192e819; 6'd45: k = 32'hd6990624;
        6'd46: k = 32'hf40e3585; 6'd47: k = 32'h106aa070;
        6'd48: k = 32'h19a4c116; 6'd49: k = 32'h1e376c08;
        6'd50: k = 32'h2748774c; 6'd51: k = 32'h34b0bcb5;
        6'd52: k = 32'h391c0cb3; 6'd53: k = 32'h4ed8aa4a;
        6'd54: k = 32'h5b9cca4f; 6'd55: k = 32'h682e6ff3;
        6'd56: k = 32'h748f82ee; 6'd57: k = 32'h78a5636f;
        6'd58: k = 32'h84c87814; 6'd59: k = 32'h8cc70208;
        6'd60: k = 32'h90befffa; 6'd61: k = 32'ha4506ceb;
        6'd62: k = 32'hbef9a3f7; default: k = 32'hc67178f2;
        endcase
    end

    always_comb begin
        t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + k + word;
        t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    end

    logic [255:0] sum;
    always_comb begin
        for (int i = 0; i < 8; i++) sum[i*32 +: 32] = hash[i*32 +: 32] + work[i*32 +: 32];
    end

    // ---- state ----------------------------------------------------------------------------
    assign out_valid  = phase == DONE;
    assign out_digest = hash;
    assign busy       = phase == ADD || (phase == ROUND && !stalled);

    always_ff @(posedge clk) begin
        if (rst || (phase == DONE && out_ready)) begin
            phase      <= ROUND;
            source     <= DATA;
            t          <= 6'd0;
            hash       <= INITIAL;
            work       <= INITIAL;
            bytes      <= 32'd0;
            has_length <= 1'b0;
        end else if (phase == ROUND && !stalled) begin
            work     <= {t1 + t2, a, b, c, d + t1, e, f, g};
            schedule <= {schedule[479:0], word};
            t        <= t + 6'd1;
            if (t == 6'd63) phase <= ADD;
            if (from_input) begin
                bytes <= bytes + (in_last ? {29'd0, in_bytes} : 32'd4);
                if (in_last) source <= in_bytes[2] ? MARK : ZERO;
            end else if (t < 6'd16 && source == MARK) begin
                source <= ZERO;
            end
            // The length fits if the bit that ends the message came before its place.
            if (t == 6'd14 && source == ZERO) has_length <= 1'b1;
        end else if (phase == ADD) begin
            hash  <= sum;
            work  <= sum;
            phase <= has_length ? DONE : ROUND;
        end
    end
endmodule
