// A round-robin arbiter: who asks waits for at most N - 1 grants to others.
// In: requests, and whether this cycle's grant is taken. Out: the grant, one-hot or none, in the
// same cycle. A grant that is not taken is not withdrawn while its request stays.
module rr_arbiter #(
    parameter int N = 4
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [N-1:0] request,
    input  logic         take,
    output logic [N-1:0] grant
);
    // Requesters behind the last one that was served, all ones after it.
    logic [N-1:0] behind;
    logic [N-1:0] first;
    logic [N-1:0] held;
    logic [N-1:0] candidates;

    assign candidates = (request & behind) != '0 ? request & behind : request;
    assign first      = candidates & (~candidates + 1'b1);
    assign grant      = (request & held) != '0 ? held : first;

    always_ff @(posedge clk) begin
        if (rst) begin
            behind <= '1;
            held   <= '0;
        end else if (grant != '0) begin
            if (take) begin
                // All places above the one that is served.
                behind <= ~(grant | (grant - 1'b1));
                held   <= '0;
            end else begin
                held <= grant;
            end
        end else begin
            held <= '0;
        end
    end
endmodule
