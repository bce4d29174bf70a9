// Looks up which line of the table's cache holds a bucket, and gives the bucket the line of the one
// that was used least recently if none does: one look-up a cycle.
// In: the number of a bucket, and whether it will be changed. Out, two cycles later, in the same
// order: the line, whether the bucket was there, and if not, which one has to make room and whether
// that was changed. Who asks brings the bucket in and searches it: the leaves stay with the host.
// Lines are in sets of WAYS; a set is kept in the order of use, so that the order is the state.
// Source: [ajdari-talk], "Three Key Ideas of FIDR": 1. How its engine is built is not published.
module index_unit #(
    parameter int LOG_SETS = 11,
    parameter int LOG_WAYS = 3,
    // Bits of a bucket's number; the lower ones choose the set.
    parameter int KEY = 32
) (
    input  logic                         clk,
    input  logic                         rst,
    input  logic                         in_valid,
    output logic                         in_ready,
    input  logic [KEY-1:0]               in_key,
    input  logic                         in_changes,
    output logic                         out_valid,
    input  logic                         out_ready,
    output logic                         out_hit,
    output logic [LOG_SETS+LOG_WAYS-1:0] out_line,
    output logic                         out_evicts,
    output logic [KEY-1:0]               out_evicted,
    output logic                         out_evicted_changed
);
    localparam int WAYS = 1 << LOG_WAYS;
    localparam int TAG = KEY - LOG_SETS;
    // A way: whether it is used, whether it was changed, its tag, and which line of the set it is.
    localparam int WAY = 2 + TAG + LOG_WAYS;

    logic [WAYS*WAY-1:0] sets [0:(1 << LOG_SETS)-1];
    logic [WAYS*WAY-1:0] got;
    logic [LOG_SETS-1:0] clearing;
    logic                is_clear;
    logic                go;

    assign go       = !out_valid || out_ready;
    assign in_ready = is_clear && go;

    // ---- the first cycle: the set is read -------------------------------------------------------
    logic           asked;
    logic [KEY-1:0] key;
    logic           changes;

    // What was written last may be younger than what was read.
    logic [LOG_SETS-1:0] last_set;
    logic [WAYS*WAY-1:0] last_ways;
    logic                is_last;

    // ---- the second cycle: it is searched and written -------------------------------------------
    logic [LOG_SETS-1:0] set;
    logic [TAG-1:0]      tag;
    logic [WAYS*WAY-1:0] ways;
    logic [WAYS*WAY-1:0] next;
    logic [WAYS*WAY-1:0] empty;
    logic [WAYS-1:0]     same;
    logic [WAY-1:0]      found;
    logic                hit;

    assign set   = key[LOG_SETS-1:0];
    assign tag   = key[KEY-1:LOG_SETS];
    assign ways  = is_last && last_set == set ? last_ways : got;
    assign hit   = same != '0;

    for (genvar i = 0; i < WAYS; i++) begin : each
        assign same[i] = ways[i*WAY + WAY - 1] && ways[i*WAY + LOG_WAYS +: TAG] == tag;
        // Ways behind the one that is used stay where they are, those before it move back by one.
        if (i == 0) begin : front
            assign next[0 +: WAY] = {1'b1, (hit && found[WAY-2]) || changes, tag,
                                     found[LOG_WAYS-1:0]};
        end else begin : behind
            assign next[i*WAY +: WAY] = same[i-1:0] != '0 ? ways[i*WAY +: WAY] : ways[(i-1)*WAY +: WAY];
        end
        assign empty[i*WAY +: WAY] = WAY'(i);
    end

    always_comb begin
        // If none is the same, the last one has to go.
        found = ways[(WAYS-1)*WAY +: WAY];
        for (int i = 0; i < WAYS; i++) if (same[i]) found = ways[i*WAY +: WAY];
    end

    always_ff @(posedge clk) begin
        if (!is_clear) sets[clearing] <= empty;
        else if (go && asked) sets[set] <= next;
        if (go) got <= sets[in_key[LOG_SETS-1:0]];
    end

    always_ff @(posedge clk) begin
        if (!is_clear) begin
            clearing <= clearing + 1'b1;
            is_clear <= clearing == '1;
        end
        if (go) begin
            asked   <= in_valid && in_ready;
            key     <= in_key;
            changes <= in_changes;
            if (asked) begin
                last_set  <= set;
                last_ways <= next;
                is_last   <= 1'b1;
            end
            out_valid           <= asked;
            out_hit             <= hit;
            out_line            <= {set, found[LOG_WAYS-1:0]};
            out_evicts          <= !hit && found[WAY-1];
            out_evicted         <= {found[LOG_WAYS +: TAG], set};
            out_evicted_changed <= found[WAY-2];
        end
        if (rst) begin
            is_clear  <= 1'b0;
            clearing  <= '0;
            asked     <= 1'b0;
            is_last   <= 1'b0;
            out_valid <= 1'b0;
        end
    end
endmodule
