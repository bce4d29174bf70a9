// Encodes one block after another as LZ4 blocks, or says that a block does not shrink.
// In: words of 4 bytes, the first byte in the upper ones; of the last word of a block in_bytes
// says how many count (0 to 4), of all others 4. A block has at most 2^LOG_BLOCK bytes.
// Out: the same, of which the last word may be empty. A block that would not be smaller ends with a
// word with out_drop, which is not data and makes all that came out of it worthless; then it comes
// out as it is, with out_raw. What comes out depends on the block alone.
// It looks at one byte a cycle where it finds nothing, and up to 4 a cycle, as fast as they come,
// inside a match; a match costs 2 cycles before it goes on. The search and the writing of what was
// found overlap, also from one block to the next.
// Source: LZ4 block format description, lz4.github.io: the last 5 bytes are literals, and no match
// begins in the last 12. Greedy search with one candidate for each hash of 4 bytes.
module lz4_enc #(
    // From 6 to 16.
    parameter int LOG_BLOCK = 16,
    parameter int LOG_TABLE = 12
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        in_valid,
    output logic        in_ready,
    input  logic [31:0] in_data,
    input  logic [2:0]  in_bytes,
    input  logic        in_last,
    output logic        out_valid,
    input  logic        out_ready,
    output logic [31:0] out_data,
    output logic [2:0]  out_bytes,
    output logic        out_last,
    output logic        out_raw,
    output logic        out_drop,
    // Whether the search went on in this cycle.
    output logic        busy
);
    localparam int P = LOG_BLOCK + 1;
    // The mark of a block in the table, so that it need not be emptied for each: with a place it
    // is as wide as three block RAMs of 4096 words.
    localparam int MARK = 27 - LOG_BLOCK;

    // A sequence: literals, then a match with its distance; the last one has no match, and in its
    // place how long the block is.
    localparam int SEQUENCE = 1 + 2*P + LOG_BLOCK;
    logic                found_valid;
    logic                found_ready;
    logic [SEQUENCE-1:0] found;
    logic                taken_valid;
    logic                taken_ready;
    logic [SEQUENCE-1:0] taken;

    buffer #(.WIDTH(SEQUENCE), .LOG_DEPTH(3)) sequences (
        .clk(clk), .rst(rst),
        .in_valid(found_valid), .in_ready(found_ready), .in_data(found),
        .out_valid(taken_valid), .out_ready(taken_ready), .out_data(taken)
    );

    // ---- what comes in --------------------------------------------------------------------------
    // The search looks at 8 bytes; those behind them only have to be there.
    /* verilator lint_off UNUSEDSIGNAL */
    logic [159:0] sight;
    /* verilator lint_on UNUSEDSIGNAL */
    logic [4:0]   have;
    logic         ended;
    logic [4:0]   leave;
    logic         restart;
    logic         ring_room;
    logic         window_ready;
    logic         takes;
    // Words of the block that have come in, which are also in memory.
    logic [P-3:0] words;

    assign in_ready = window_ready && ring_room;
    assign takes    = in_valid && in_ready;

    byte_window #(.BYTES(20), .IN(4), .LOG(5)) window (
        .clk(clk), .rst(rst), .in_valid(in_valid && ring_room), .in_ready(window_ready),
        .in_data(in_data), .in_bytes({2'b00, in_bytes}), .in_last(in_last),
        .leave(leave), .restart(restart), .sight(sight), .have(have), .ended(ended)
    );

    // ---- the search -----------------------------------------------------------------------------
    // SEARCH: one place a cycle, in three steps: its hash and the table; the bytes of the
    // candidate; the comparison. `lead` is how many places the first step is ahead of the third.
    // EXTEND: the match goes on after 8 bytes. CLEAR: all marks have been used.
    typedef enum logic [1:0] {CLEAR, SEARCH, EXTEND} search_t;

    search_t              search;
    logic [1:0]           lead;
    logic [P-1:0]         pos;
    logic [P-1:0]         anchor;
    logic [P-1:0]         literals;
    logic [P-1:0]         matched;
    logic [LOG_BLOCK-1:0] distance;
    logic [MARK-1:0]      mark;
    logic [LOG_TABLE-1:0] clearing;

    logic                 go;
    logic                 tail;
    logic                 hit;
    logic                 whole;
    logic [3:0]           common;
    logic [4:0]           allowed;
    logic [4:0]           length;

    // A match and the 8 bytes behind it are in sight, or the end of the block.
    assign go   = search != CLEAR && found_ready && (ended || have >= 5'd16);
    assign tail = ended && have < 5'd12;
    assign busy = go;

    // The first step. The hash is a remainder of polynomials, which mixes as well as a product and
    // takes no multiplier.
    logic [31:0]          four;
    logic [LOG_TABLE-1:0] slot;
    logic [26:0]          entries [0:(1 << LOG_TABLE)-1];
    logic [26:0]          entry;

    always_comb begin
        unique case (lead)
            2'd0: four = sight[159:128];
            2'd1: four = sight[151:120];
            default: four = sight[143:112];
        endcase
        slot = '0;
        for (int i = 31; i >= 0; i--) begin
            slot = {slot[LOG_TABLE-2:0], four[i]}
                 ^ (slot[LOG_TABLE-1] ? LOG_TABLE'(12'h80f) : '0);
        end
    end

    always_ff @(posedge clk) begin
        if (search == CLEAR) entries[clearing] <= 27'd0;
        else if (go && search == SEARCH) entries[slot] <= {mark, LOG_BLOCK'(pos) + LOG_BLOCK'(lead)};
        if (go) entry <= entries[slot];
    end

    // The second step: the candidate, or what follows the bytes that were equal.
    logic [LOG_BLOCK-1:0] place;
    logic [LOG_BLOCK-1:0] source;
    logic                 is_known;
    logic [63:0]          banks;
    logic [63:0]          earlier;

    assign place = search == EXTEND || hit ? source + LOG_BLOCK'(8) : entry[LOG_BLOCK-1:0];

    for (genvar b = 0; b < 8; b++) begin : bank
        localparam logic [3:0] B = 4'(b);

        logic [7:0]           bytes [0:(1 << (LOG_BLOCK - 3))-1];
        logic [7:0]           got;
        logic [LOG_BLOCK-4:0] row;

        assign row = place[LOG_BLOCK-1:3] + (LOG_BLOCK-3)'(B < {1'b0, place[2:0]});
        assign banks[(7 - b)*8 +: 8] = got;

        always_ff @(posedge clk) begin
            if (takes && words[0] == B[2]) begin
                bytes[words[LOG_BLOCK-3:1]] <= in_data[(3 - b % 4)*8 +: 8];
            end
            if (go) got <= bytes[row];
        end
    end
    assign earlier = 64'({banks, banks} >> {3'd0 - source[2:0], 3'b000});

    // The third step.
    logic [63:0] differs;
    assign differs = sight[159:96] ^ earlier;

    always_comb begin
        common = 4'd8;
        for (int i = 7; i >= 0; i--) if (differs[(7 - i)*8 +: 8] != 8'd0) common = 4'(i);
        if (!ended || have >= 5'd13) allowed = 5'd8;
        else if (have <= 5'd5) allowed = 5'd0;
        else allowed = have - 5'd5;
        length = {1'b0, common} < allowed ? {1'b0, common} : allowed;
    end
    assign hit   = search == SEARCH && lead == 2'd2 && !tail && is_known && length >= 5'd4;
    assign whole = length == 5'd8;

    logic ends_match;
    assign ends_match  = (hit || search == EXTEND) && !whole;
    assign found_valid = go && (ends_match || (search == SEARCH && tail));
    assign restart     = go && search == SEARCH && tail;

    always_comb begin
        if (search == SEARCH && tail) found = {1'b1, pos - anchor + P'(have), pos + P'(have),
                                               LOG_BLOCK'(0)};
        else if (search == EXTEND) found = {1'b0, literals, matched + P'(length), distance};
        else found = {1'b0, pos - anchor, P'(length), LOG_BLOCK'(pos) - source};

        leave = 5'd0;
        if (go) begin
            if (search == EXTEND || hit) leave = length;
            else if (lead == 2'd2) leave = 5'd1;
        end
    end

    always_ff @(posedge clk) begin
        if (go) begin
            source   <= place;
            is_known <= entry[26:LOG_BLOCK] == mark;
            pos      <= pos + P'(leave);
            if (search == SEARCH && lead != 2'd2) lead <= lead + 2'd1;
            if (hit) begin
                literals <= pos - anchor;
                distance <= LOG_BLOCK'(pos) - source;
                matched  <= P'(8);
                if (whole) search <= EXTEND;
            end
            if (search == EXTEND) matched <= matched + P'(8);
            if (ends_match) begin
                search <= SEARCH;
                lead   <= 2'd0;
                anchor <= pos + P'(length);
            end
        end
        if (takes) words <= words + 1'b1;
        if (search == CLEAR) begin
            clearing <= clearing + 1'b1;
            if (clearing == '1) search <= SEARCH;
        end
        if (restart) begin
            lead   <= 2'd0;
            pos    <= '0;
            anchor <= '0;
            words  <= '0;
            mark   <= mark == '1 ? MARK'(1) : mark + 1'b1;
            if (mark == '1) search <= CLEAR;
        end
        if (rst) begin
            search   <= CLEAR;
            clearing <= '0;
            mark     <= MARK'(1);
            lead     <= 2'd0;
            pos      <= '0;
            anchor   <= '0;
            words    <= '0;
        end
    end

    // ---- what goes out --------------------------------------------------------------------------
    lz4_writer #(.LOG_BLOCK(LOG_BLOCK)) writer (
        .clk(clk), .rst(rst),
        .in_valid(takes && in_bytes != 3'd0), .in_room(ring_room), .in_data(in_data),
        .sequence_valid(taken_valid), .sequence_ready(taken_ready), .sequence_data(taken),
        .out_valid(out_valid), .out_ready(out_ready), .out_data(out_data), .out_bytes(out_bytes),
        .out_last(out_last), .out_raw(out_raw), .out_drop(out_drop)
    );
endmodule
