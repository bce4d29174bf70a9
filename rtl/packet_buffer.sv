// A buffer of packets: what comes in is given out once its last item is in, or forgotten when the
// one who gives it says so. The first packet must fit, or it never leaves.
module packet_buffer #(
    parameter int WIDTH = 32,
    // Items that it holds are 2 to the power of this.
    parameter int LOG_DEPTH = 4
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             in_valid,
    output logic             in_ready,
    input  logic [WIDTH-1:0] in_data,
    input  logic             in_last,
    // Forget the packet so far; the item that comes with this is none.
    input  logic             in_drop,
    output logic             out_valid,
    input  logic             out_ready,
    output logic [WIDTH-1:0] out_data
);
    logic [WIDTH-1:0] items [0:(1 << LOG_DEPTH)-1];
    // One bit more than an address: full and empty differ in it. `whole` is behind the last item
    // of the last packet that is complete.
    logic [LOG_DEPTH:0] head;
    logic [LOG_DEPTH:0] whole;
    logic [LOG_DEPTH:0] tail;

    assign in_ready  = (head ^ tail) != {1'b1, {LOG_DEPTH{1'b0}}};
    assign out_valid = head != whole;
    assign out_data  = items[head[LOG_DEPTH-1:0]];

    always_ff @(posedge clk) begin
        if (in_valid && in_ready) items[tail[LOG_DEPTH-1:0]] <= in_data;
        if (rst) begin
            head  <= '0;
            whole <= '0;
            tail  <= '0;
        end else begin
            if (in_valid && in_ready) begin
                tail <= in_drop ? whole : tail + 1'b1;
                if (in_last && !in_drop) whole <= tail + 1'b1;
            end
            if (out_valid && out_ready) head <= head + 1'b1;
        end
    end
endmodule
