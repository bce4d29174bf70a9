// What is remembered of the batches of N units: a tag for each, given back with its result. It is
// the metadata buffer of an array.
module unit_tags #(
    parameter int N = 4,
    parameter int TAG = 16,
    // Batches that a unit may have begun and not answered are 2 to the power of this.
    parameter int LOG_DEPTH = 4
) (
    input  logic             clk,
    input  logic             rst,
    // One-hot: the unit that begins a batch, and its tag.
    input  logic [N-1:0]     begins,
    input  logic [TAG-1:0]   in_tag,
    // Which units may begin one.
    output logic [N-1:0]     room,
    // One-hot: the unit whose result is complete.
    input  logic [N-1:0]     ends,
    // The tags of the results to come.
    output logic [N*TAG-1:0] tags
);
    for (genvar i = 0; i < N; i++) begin : units
        /* verilator lint_off UNUSEDSIGNAL */
        logic valid;
        /* verilator lint_on UNUSEDSIGNAL */

        buffer #(.WIDTH(TAG), .LOG_DEPTH(LOG_DEPTH)) waiting (
            .clk(clk), .rst(rst),
            .in_valid(begins[i]), .in_ready(room[i]), .in_data(in_tag),
            .out_valid(valid), .out_ready(ends[i]), .out_data(tags[i*TAG +: TAG])
        );
    end
endmodule
