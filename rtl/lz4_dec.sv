// Decodes one LZ4 block after another, up to 8 bytes a cycle.
// In: words of 8 bytes, the first byte in the upper ones; of the last word of a block in_bytes
// says how many count (0 to 8), of all others 8. Out: the same, but the last word may be empty;
// with it comes out_error, which says that the block is not valid: it breaks off, has a distance of
// zero or one to before its begin, or yields more than in_limit bytes. Of a block that is not valid
// some bytes may have come out, never more than in_limit. It is read to its end, so that the next
// one is found.
// A token, up to 8 literals and the distance behind them take one cycle, then each 8 bytes of a
// match one. Lengths of 15 and more take a cycle for each byte that they are written with.
// Source: LZ4 block format description, lz4.github.io.
module lz4_dec #(
    // Blocks yield at most 2 to the power of this, from 6 to 16.
    parameter int LOG_BLOCK = 16
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               in_valid,
    output logic               in_ready,
    input  logic [63:0]        in_data,
    input  logic [3:0]         in_bytes,
    input  logic               in_last,
    // With the first word of a block: the most bytes that it may yield.
    input  logic [LOG_BLOCK:0] in_limit,
    output logic               out_valid,
    input  logic               out_ready,
    output logic [63:0]        out_data,
    output logic [3:0]         out_bytes,
    output logic               out_last,
    output logic               out_error,
    // Whether it worked in this cycle.
    output logic               busy
);
    localparam int P = LOG_BLOCK + 1;

    // TOKEN: a token and its first literals. LIT_LENGTH, LITERALS: the rest of a long run, with the
    // distance at its end. MATCH_LENGTH, MATCH: what is copied. FINISH: the last word. DRAIN: the
    // rest of a block that is not valid.
    typedef enum logic [2:0] {TOKEN, LIT_LENGTH, LITERALS, MATCH_LENGTH, MATCH, FINISH, DRAIN}
        state_t;

    state_t       state;
    logic [P-1:0] pos;
    // What is left to copy of literals or of a match.
    logic [P-1:0] left;
    logic [3:0]   match_code;
    logic [15:0]  distance;
    logic         failed;
    logic [P-1:0] limit;
    logic         is_new;

    // ---- the bytes to come ------------------------------------------------------------------
    logic [191:0] sight;
    logic [4:0]   have;
    logic         ended;
    logic [4:0]   leave;
    logic         restart;

    byte_window #(.BYTES(24), .IN(8), .LOG(5)) window (
        .clk(clk), .rst(rst), .in_valid(in_valid), .in_ready(in_ready), .in_data(in_data),
        .in_bytes({1'b0, in_bytes}), .in_last(in_last), .leave(leave), .restart(restart),
        .sight(sight), .have(have), .ended(ended)
    );

    // A token, 8 literals and a distance are 11 bytes.
    logic go;
    logic room;
    assign room = !out_valid || out_ready;
    assign go   = room && (ended || have >= 5'd11);
    assign busy = go && have != 5'd0;

    // ---- literals and the distance behind them ----------------------------------------------
    logic [7:0]   first;
    logic [P-1:0] literals;
    logic [3:0]   count;
    logic [4:0]   behind;
    logic [71:0]  run;
    logic [15:0]  pair;
    logic [15:0]  next_distance;
    logic         is_run;
    logic         is_whole;
    logic [3:0]   code;

    assign code          = state == TOKEN ? first[3:0] : match_code;
    assign first         = sight[191:184];
    assign is_run        = (state == TOKEN && first[7:4] != 4'd15) || state == LITERALS;
    assign literals      = state == TOKEN ? P'(first[7:4]) : left;
    assign is_whole      = literals <= P'(8);
    assign count         = is_whole ? literals[3:0] : 4'd8;
    assign behind        = {1'b0, count} + (state == TOKEN ? 5'd1 : 5'd0);
    assign run           = sight[191:120];
    assign next_distance = {pair[7:0], pair[15:8]};

    always_comb begin
        pair = 16'd0;
        for (int i = 0; i < 10; i++) if (behind == 5'(i)) pair = sight[(22 - i)*8 +: 16];
    end

    // ---- copies -------------------------------------------------------------------------------
    // The last 16 bytes, the latest in the lowest: what is nearer than the memory can be read.
    logic [127:0] recent;
    logic [63:0]  near;
    logic [63:0]  far;
    logic [63:0]  data;
    logic [3:0]   moved;
    logic         copies;

    always_comb begin
        near = 64'd0;
        for (int o = 1; o < 16; o++) begin
            if (distance == 16'(o)) begin
                for (int i = 0; i < 8; i++) begin
                    // Byte i comes from 1 + (o - 1 - i mod o) places back.
                    near[(7 - i)*8 +: 8] = recent[(o - 1 - i % o)*8 +: 8];
                end
            end
        end
    end

    assign copies = state == MATCH;
    always_comb begin
        if (copies) begin
            data  = distance < 16'd16 ? near : far;
            moved = left <= P'(8) ? left[3:0] : 4'd8;
        end else begin
            data  = state == TOKEN ? run[63:0] : run[71:8];
            moved = is_run ? count : 4'd0;
        end
    end

    // ---- what is wrong ------------------------------------------------------------------------
    logic         over;
    logic         ends;
    logic         wrong;
    logic [P:0]   after;
    logic [8:0]   more;
    logic [P:0]   longer;

    assign after  = {1'b0, pos} + (P+1)'(moved);
    assign over   = after > {1'b0, limit};
    assign ends   = is_run && is_whole && ended && have == behind;
    assign more   = {1'b0, first};
    assign longer = {1'b0, left} + (P+1)'(more);

    always_comb begin
        unique case (state)
            TOKEN, LITERALS: begin
                if (have == 5'd0 || over) wrong = 1'b1;
                else if (!is_run) wrong = 1'b0;
                else if (!is_whole) wrong = have < behind;
                else if (ends) wrong = 1'b0;
                else wrong = have < behind + 5'd2 || next_distance == 16'd0
                          || (P+16)'(next_distance) > (P+16)'(after);
            end
            // A length beyond all limits is refused before it can run over.
            LIT_LENGTH, MATCH_LENGTH: wrong = have == 5'd0 || longer > (P+1)'(1 << LOG_BLOCK);
            MATCH: wrong = over;
            default: wrong = 1'b0;
        endcase
    end

    // ---- memory of what came out: eight banks, a byte of each eight in each ---------------------
    logic [2:0]           lane;
    logic [63:0]          turned;
    logic [7:0]           written;
    logic                 writes;
    logic                 reads;
    logic [LOG_BLOCK-1:0] from;
    logic [LOG_BLOCK-1:0] source;
    logic [63:0]          banks;
    logic [63:0]          word;
    logic [63:0]          collected;

    assign lane   = pos[2:0];
    assign turned = 64'({data, data} >> {lane, 3'b000});
    assign writes = go && !wrong && moved != 4'd0;
    // The distance is known one cycle before its bytes are needed, and each read is ahead by one.
    // The bytes are there: nearer ones than 16 come from `recent`.
    assign reads  = go;
    always_comb begin
        unique case (state)
            MATCH:        from = source + LOG_BLOCK'(8);
            MATCH_LENGTH: from = LOG_BLOCK'(pos) - LOG_BLOCK'(distance);
            default:      from = LOG_BLOCK'(after) - LOG_BLOCK'(next_distance);
        endcase
    end

    for (genvar b = 0; b < 8; b++) begin : bank
        localparam logic [3:0] B = 4'(b);

        logic [7:0]           bytes [0:(1 << (LOG_BLOCK - 3))-1];
        logic [7:0]           got;
        logic [2:0]           at;
        logic [LOG_BLOCK-4:0] write_row;
        logic [LOG_BLOCK-4:0] read_row;

        assign at         = B[2:0] - lane;
        assign written[b] = {1'b0, at} < moved;
        assign write_row  = pos[LOG_BLOCK-1:3] + (LOG_BLOCK-3)'(B < {1'b0, lane});
        assign read_row   = from[LOG_BLOCK-1:3] + (LOG_BLOCK-3)'(B < {1'b0, from[2:0]});
        assign banks[(7 - b)*8 +: 8] = got;
        // Bytes of the word that goes out: those before this cycle's, and this cycle's.
        assign word[(7 - b)*8 +: 8] = B < {1'b0, lane} ? collected[(7 - b)*8 +: 8]
                                                   : turned[(7 - b)*8 +: 8];

        always_ff @(posedge clk) begin
            if (writes && written[b]) bytes[write_row] <= turned[(7 - b)*8 +: 8];
            if (reads) got <= bytes[read_row];
            if (writes && written[b]) collected[(7 - b)*8 +: 8] <= turned[(7 - b)*8 +: 8];
        end
    end
    // The distance turns on until a match begins: `source` belongs to what was read last.
    assign far = 64'({banks, banks} >> {3'd0 - source[2:0], 3'b000});

    // ---- state ----------------------------------------------------------------------------------
    logic leaves_block;
    assign leaves_block = room && state == FINISH;
    assign restart      = leaves_block;

    always_comb begin
        leave = 5'd0;
        if (state == DRAIN) begin
            leave = have;
        end else if (go && !wrong) begin
            unique case (state)
                TOKEN, LITERALS: begin
                    if (!is_run) leave = 5'd1;
                    else leave = behind + (is_whole && !ends ? 5'd2 : 5'd0);
                end
                LIT_LENGTH, MATCH_LENGTH: leave = 5'd1;
                default: leave = 5'd0;
            endcase
        end
    end

    always_ff @(posedge clk) begin
        if (reads) source <= from;
        if (writes) begin
            recent <= 128'({recent, data} >> {4'd8 - moved, 3'b000});
            pos    <= P'(after);
        end
        if (room) begin
            out_valid <= writes && {1'b0, lane} + moved >= 4'd8;
            out_data  <= word;
            out_bytes <= 4'd8;
            out_last  <= 1'b0;
            out_error <= 1'b0;
        end
        if (go) begin
            unique case (state)
                TOKEN, LITERALS: begin
                    match_code <= code;
                    if (!is_run) begin
                        state <= LIT_LENGTH;
                        left  <= P'(15);
                    end else if (!is_whole) begin
                        state <= LITERALS;
                        left  <= literals - P'(8);
                    end else if (ends) begin
                        state <= FINISH;
                    end else begin
                        distance <= next_distance;
                        if (code == 4'd15) begin
                            state <= MATCH_LENGTH;
                            left  <= P'(19);
                        end else begin
                            state <= MATCH;
                            left  <= P'(code) + P'(4);
                        end
                    end
                end
                LIT_LENGTH, MATCH_LENGTH: begin
                    left <= P'(longer);
                    if (first != 8'hff) state <= state == LIT_LENGTH ? LITERALS : MATCH;
                end
                MATCH: begin
                    left <= left - P'(moved);
                    if (left <= P'(8)) state <= TOKEN;
                end
                default: ;
            endcase
            if (wrong) begin
                state  <= DRAIN;
                failed <= 1'b1;
            end
        end
        if (state == DRAIN && ended) state <= FINISH;
        if (leaves_block) begin
            out_valid <= 1'b1;
            out_data  <= collected;
            out_bytes <= {1'b0, lane};
            out_last  <= 1'b1;
            out_error <= failed;
        end
        if (in_valid && in_ready) begin
            if (is_new) limit <= in_limit;
            is_new <= 1'b0;
        end
        if (rst || leaves_block) begin
            is_new <= 1'b1;
            state  <= TOKEN;
            pos    <= '0;
            failed <= 1'b0;
        end
        if (rst) out_valid <= 1'b0;
    end
endmodule
