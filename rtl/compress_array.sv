// LZ4 encoders behind one port: a buffer of a chunk before each, one of whole results behind it,
// an arbiter and a crossbar around all.
// In: as hash_array. Out: words as lz4_enc gives them, without what it drops, all of a chunk in one
// piece, each with the tag of its chunk.
module compress_array #(
    parameter int N = 4,
    parameter int LOG_N = 2,
    // Chunks have at most 2 to the power of this bytes.
    parameter int LOG_CHUNK = 12,
    parameter int TAG = 16
) (
    input  logic           clk,
    input  logic           rst,
    input  logic           in_valid,
    output logic           in_ready,
    input  logic [31:0]    in_data,
    input  logic           in_last,
    input  logic [2:0]     in_bytes,
    input  logic [TAG-1:0] in_tag,
    output logic           out_valid,
    input  logic           out_ready,
    output logic [31:0]    out_data,
    output logic [2:0]     out_bytes,
    output logic           out_last,
    output logic           out_raw,
    output logic [TAG-1:0] out_tag,
    output logic [N-1:0]   busy
);
    localparam int BEAT = 36;

    logic [N-1:0]      empty;
    logic [N-1:0]      to_valid;
    logic [N-1:0]      to_ready;
    logic [BEAT-2:0]   to_data;
    logic              to_last;
    logic [N-1:0]      back_valid;
    logic [N-1:0]      back_ready;
    logic [N*BEAT-1:0] back_data;
    logic [N-1:0]      back_last;
    logic [N-1:0]      begins;
    logic [N-1:0]      room;
    logic [N*TAG-1:0]  tags;
    logic [LOG_N-1:0]  unit;

    xbar #(.N(N), .LOG_N(LOG_N), .IN_WIDTH(BEAT - 1), .OUT_WIDTH(BEAT)) crossbar (
        .clk(clk), .rst(rst),
        .in_valid(in_valid), .in_ready(in_ready), .in_data({in_bytes, in_data}), .in_last(in_last),
        .in_begins(begins),
        .unit_free(empty & room),
        .unit_valid(to_valid), .unit_ready(to_ready), .unit_data(to_data), .unit_last(to_last),
        .back_valid(back_valid), .back_ready(back_ready), .back_data(back_data),
        .back_last(back_last),
        .out_valid(out_valid), .out_ready(out_ready), .out_data({out_raw, out_bytes, out_data}),
        .out_last(out_last), .out_unit(unit)
    );

    unit_tags #(.N(N), .TAG(TAG)) metadata (
        .clk(clk), .rst(rst), .begins(begins), .in_tag(in_tag), .room(room),
        .ends(back_valid & back_ready & back_last), .tags(tags)
    );

    always_comb begin
        out_tag = '0;
        for (int i = 0; i < N; i++) if (unit == LOG_N'(i)) out_tag = tags[i*TAG +: TAG];
    end

    for (genvar i = 0; i < N; i++) begin : units
        logic            valid;
        logic            ready;
        logic [BEAT-1:0] beat;
        logic            coded_valid;
        logic            coded_ready;
        logic [31:0]     coded_data;
        logic [2:0]      coded_bytes;
        logic            coded_last;
        logic            coded_raw;
        logic            coded_drop;

        assign empty[i] = !valid;

        buffer #(.WIDTH(BEAT), .LOG_DEPTH(LOG_CHUNK - 2)) waiting (
            .clk(clk), .rst(rst),
            .in_valid(to_valid[i]), .in_ready(to_ready[i]), .in_data({to_last, to_data}),
            .out_valid(valid), .out_ready(ready), .out_data(beat)
        );

        lz4_enc #(.LOG_BLOCK(LOG_CHUNK)) encoder (
            .clk(clk), .rst(rst),
            .in_valid(valid), .in_ready(ready),
            .in_data(beat[31:0]), .in_bytes(beat[34:32]), .in_last(beat[35]),
            .out_valid(coded_valid), .out_ready(coded_ready), .out_data(coded_data),
            .out_bytes(coded_bytes), .out_last(coded_last), .out_raw(coded_raw),
            .out_drop(coded_drop), .busy(busy[i])
        );

        // Two chunks: one that leaves, one that comes, with what it may be longer in vain.
        packet_buffer #(.WIDTH(BEAT + 1), .LOG_DEPTH(LOG_CHUNK - 1)) results (
            .clk(clk), .rst(rst),
            .in_valid(coded_valid), .in_ready(coded_ready),
            .in_data({coded_last, coded_raw, coded_bytes, coded_data}),
            .in_last(coded_last), .in_drop(coded_drop),
            .out_valid(back_valid[i]), .out_ready(back_ready[i]),
            .out_data({back_last[i], back_data[i*BEAT +: BEAT]})
        );
    end
endmodule
