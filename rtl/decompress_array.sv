// LZ4 decoders behind one port: a buffer of a chunk before each, an arbiter before all; each has
// a port out of its own, since one of the same width could not keep two busy.
// In: as lz4_dec, with the tag of a chunk as long as its words come. Out: as lz4_dec, with the tag.
module decompress_array #(
    parameter int N = 2,
    parameter int LOG_N = 1,
    parameter int LOG_CHUNK = 12,
    parameter int TAG = 16
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               in_valid,
    output logic               in_ready,
    input  logic [63:0]        in_data,
    input  logic               in_last,
    input  logic [3:0]         in_bytes,
    input  logic [LOG_CHUNK:0] in_limit,
    input  logic [TAG-1:0]     in_tag,
    output logic [N-1:0]       out_valid,
    input  logic [N-1:0]       out_ready,
    output logic [N*64-1:0]    out_data,
    output logic [N*4-1:0]     out_bytes,
    output logic [N-1:0]       out_last,
    output logic [N-1:0]       out_error,
    output logic [N*TAG-1:0]   out_tag,
    output logic [N-1:0]       busy
);
    localparam int P = LOG_CHUNK + 1;
    localparam int BEAT = 69 + P;

    logic [N-1:0]    empty;
    logic [N-1:0]    to_valid;
    logic [N-1:0]    to_ready;
    logic [BEAT-2:0] to_data;
    logic            to_last;
    logic [N-1:0]    begins;
    logic [N-1:0]    room;
    /* verilator lint_off UNUSEDSIGNAL */
    logic [N-1:0]     back_ready;
    logic             back_valid;
    logic             back_data;
    logic             back_last;
    logic [LOG_N-1:0] unit;
    /* verilator lint_on UNUSEDSIGNAL */

    // Only its way in is used.
    xbar #(.N(N), .LOG_N(LOG_N), .IN_WIDTH(BEAT - 1), .OUT_WIDTH(1)) crossbar (
        .clk(clk), .rst(rst),
        .in_valid(in_valid), .in_ready(in_ready), .in_data({in_limit, in_bytes, in_data}),
        .in_last(in_last), .in_begins(begins),
        .unit_free(empty & room),
        .unit_valid(to_valid), .unit_ready(to_ready), .unit_data(to_data), .unit_last(to_last),
        .back_valid('0), .back_ready(back_ready), .back_data('0), .back_last('0),
        .out_valid(back_valid), .out_ready(1'b0), .out_data(back_data), .out_last(back_last),
        .out_unit(unit)
    );

    unit_tags #(.N(N), .TAG(TAG)) metadata (
        .clk(clk), .rst(rst), .begins(begins), .in_tag(in_tag), .room(room),
        .ends(out_valid & out_ready & out_last), .tags(out_tag)
    );

    for (genvar i = 0; i < N; i++) begin : units
        logic            valid;
        logic            ready;
        logic [BEAT-1:0] beat;

        assign empty[i] = !valid;

        buffer #(.WIDTH(BEAT), .LOG_DEPTH(LOG_CHUNK - 3)) waiting (
            .clk(clk), .rst(rst),
            .in_valid(to_valid[i]), .in_ready(to_ready[i]), .in_data({to_last, to_data}),
            .out_valid(valid), .out_ready(ready), .out_data(beat)
        );

        lz4_dec #(.LOG_BLOCK(LOG_CHUNK)) decoder (
            .clk(clk), .rst(rst),
            .in_valid(valid), .in_ready(ready), .in_data(beat[63:0]), .in_bytes(beat[67:64]),
            .in_limit(beat[68 +: P]), .in_last(beat[BEAT-1]),
            .out_valid(out_valid[i]), .out_ready(out_ready[i]), .out_data(out_data[i*64 +: 64]),
            .out_bytes(out_bytes[i*4 +: 4]), .out_last(out_last[i]), .out_error(out_error[i]),
            .busy(busy[i])
        );
    end
endmodule
