// A first-in first-out buffer: nothing is lost, doubled or overtaken.
// In and out: one item a cycle, when valid and ready are both set. It takes no item while full and
// gives none while empty; an item that comes in can leave one cycle later.
module buffer #(
    parameter int WIDTH = 32,
    // Items that it holds are 2 to the power of this.
    parameter int LOG_DEPTH = 4
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             in_valid,
    output logic             in_ready,
    input  logic [WIDTH-1:0] in_data,
    output logic             out_valid,
    input  logic             out_ready,
    output logic [WIDTH-1:0] out_data
);
    logic [WIDTH-1:0] items [0:(1 << LOG_DEPTH)-1];
    // One bit more than an address: full and empty differ in it.
    logic [LOG_DEPTH:0] head;
    logic [LOG_DEPTH:0] tail;

    assign in_ready  = (head ^ tail) != {1'b1, {LOG_DEPTH{1'b0}}};
    assign out_valid = head != tail;
    assign out_data  = items[head[LOG_DEPTH-1:0]];

    always_ff @(posedge clk) begin
        if (in_valid && in_ready) items[tail[LOG_DEPTH-1:0]] <= in_data;
        if (rst) begin
            head <= '0;
            tail <= '0;
        end else begin
            if (in_valid && in_ready) tail <= tail + 1'b1;
            if (out_valid && out_ready) head <= head + 1'b1;
        end
    end
endmodule
