// SHA-256 units behind one port: a buffer before each, an arbiter and a crossbar before all.
// In: chunks as words of 32 bits, at most one a cycle, in_bytes as in sha256_unit, and with the
// first word of a chunk its tag. Out: digests, each with the tag of its chunk, in any order.
// A unit takes 16 words in 65 cycles and the port brings one a cycle, so that four units keep up
// with it, if a buffer holds a chunk: 2^10 words are 4 KiB.
module hash_array #(
    parameter int N = 4,
    parameter int LOG_N = 2,
    parameter int LOG_DEPTH = 10,
    parameter int TAG = 16
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             in_valid,
    output logic             in_ready,
    input  logic [31:0]      in_data,
    input  logic             in_last,
    input  logic [2:0]       in_bytes,
    input  logic [TAG-1:0]   in_tag,
    output logic             out_valid,
    input  logic             out_ready,
    output logic [255:0]     out_digest,
    output logic [TAG-1:0]   out_tag,
    output logic [N-1:0]     busy
);
    localparam int BEAT = 36;

    logic [N-1:0]     empty;
    logic [N-1:0]     to_valid;
    logic [N-1:0]     to_ready;
    logic [BEAT-2:0]  to_data;
    logic             to_last;
    logic [N-1:0]     back_valid;
    logic [N-1:0]     back_ready;
    logic [N*256-1:0] back_data;
    logic [N-1:0]     begins;
    logic [N-1:0]     room;
    logic [N*TAG-1:0] tags;
    logic [LOG_N-1:0] unit;
    /* verilator lint_off UNUSEDSIGNAL */
    logic             last;
    /* verilator lint_on UNUSEDSIGNAL */

    xbar #(.N(N), .LOG_N(LOG_N), .IN_WIDTH(BEAT - 1), .OUT_WIDTH(256)) crossbar (
        .clk(clk), .rst(rst),
        .in_valid(in_valid), .in_ready(in_ready), .in_data({in_bytes, in_data}), .in_last(in_last),
        .in_begins(begins),
        .unit_free(empty & room),
        .unit_valid(to_valid), .unit_ready(to_ready), .unit_data(to_data), .unit_last(to_last),
        .back_valid(back_valid), .back_ready(back_ready), .back_data(back_data),
        .back_last({N{1'b1}}),
        .out_valid(out_valid), .out_ready(out_ready), .out_data(out_digest), .out_last(last),
        .out_unit(unit)
    );

    unit_tags #(.N(N), .TAG(TAG)) metadata (
        .clk(clk), .rst(rst), .begins(begins), .in_tag(in_tag), .room(room),
        .ends(back_valid & back_ready), .tags(tags)
    );

    always_comb begin
        out_tag = '0;
        for (int i = 0; i < N; i++) if (unit == LOG_N'(i)) out_tag = tags[i*TAG +: TAG];
    end

    for (genvar i = 0; i < N; i++) begin : units
        logic            valid;
        logic            ready;
        logic [BEAT-1:0] beat;

        assign empty[i] = !valid;

        buffer #(.WIDTH(BEAT), .LOG_DEPTH(LOG_DEPTH)) waiting (
            .clk(clk), .rst(rst),
            .in_valid(to_valid[i]), .in_ready(to_ready[i]), .in_data({to_last, to_data}),
            .out_valid(valid), .out_ready(ready), .out_data(beat)
        );

        sha256_unit sha (
            .clk(clk), .rst(rst),
            .in_valid(valid), .in_ready(ready),
            .in_data(beat[31:0]), .in_bytes(beat[34:32]), .in_last(beat[35]),
            .out_valid(back_valid[i]), .out_ready(back_ready[i]),
            .out_digest(back_data[i*256 +: 256]), .busy(busy[i])
        );
    end
endmodule
