// Every module that is tested, each on its own, with one clock.
module bench (
    input  logic         clk,
    input  logic         rst,
    // sha256_unit
    input  logic         sha_in_valid,
    output logic         sha_in_ready,
    input  logic [31:0]  sha_in_data,
    input  logic         sha_in_last,
    input  logic [2:0]   sha_in_bytes,
    output logic         sha_out_valid,
    input  logic         sha_out_ready,
    output logic [255:0] sha_out_digest,
    output logic         sha_busy,
    // hash_array
    input  logic         array_in_valid,
    output logic         array_in_ready,
    input  logic [31:0]  array_in_data,
    input  logic         array_in_last,
    input  logic [2:0]   array_in_bytes,
    output logic [1:0]   array_in_unit,
    output logic         array_out_valid,
    input  logic         array_out_ready,
    output logic [255:0] array_out_digest,
    output logic [1:0]   array_out_unit,
    output logic [3:0]   array_busy,
    // rr_arbiter
    input  logic [7:0]   arbiter_request,
    input  logic         arbiter_take,
    output logic [7:0]   arbiter_grant,
    // buffer
    input  logic         buffer_in_valid,
    output logic         buffer_in_ready,
    input  logic [7:0]   buffer_in_data,
    output logic         buffer_out_valid,
    input  logic         buffer_out_ready,
    output logic [7:0]   buffer_out_data
);
    sha256_unit sha (
        .clk(clk), .rst(rst), .in_valid(sha_in_valid), .in_ready(sha_in_ready),
        .in_data(sha_in_data), .in_last(sha_in_last), .in_bytes(sha_in_bytes),
        .out_valid(sha_out_valid), .out_ready(sha_out_ready), .out_digest(sha_out_digest),
        .busy(sha_busy)
    );

    hash_array #(.N(4), .LOG_N(2), .LOG_DEPTH(10)) array (
        .clk(clk), .rst(rst), .in_valid(array_in_valid), .in_ready(array_in_ready),
        .in_data(array_in_data), .in_last(array_in_last), .in_bytes(array_in_bytes),
        .in_unit(array_in_unit),
        .out_valid(array_out_valid), .out_ready(array_out_ready), .out_digest(array_out_digest),
        .out_unit(array_out_unit), .busy(array_busy)
    );

    rr_arbiter #(.N(8)) arbiter (
        .clk(clk), .rst(rst), .request(arbiter_request), .take(arbiter_take),
        .grant(arbiter_grant)
    );

    buffer #(.WIDTH(8), .LOG_DEPTH(4)) queue (
        .clk(clk), .rst(rst), .in_valid(buffer_in_valid), .in_ready(buffer_in_ready),
        .in_data(buffer_in_data), .out_valid(buffer_out_valid), .out_ready(buffer_out_ready),
        .out_data(buffer_out_data)
    );
endmodule
