// N units behind one port. A batch, all beats up to its last, goes whole and in order to one unit
// that is free, round robin; results leave one at a time, all beats up to the last, each with the
// number of its unit. A unit that has given a beat of a result goes on giving up to the last.
// Back pressure: a beat that no unit takes waits at the port, a result that the port does not take
// waits in its unit. Nothing is lost.
module xbar #(
    parameter int N = 4,
    parameter int LOG_N = 2,
    parameter int IN_WIDTH = 32,
    parameter int OUT_WIDTH = 256
) (
    input  logic                   clk,
    input  logic                   rst,
    // The port in.
    input  logic                   in_valid,
    output logic                   in_ready,
    input  logic [IN_WIDTH-1:0]    in_data,
    input  logic                   in_last,
    // One-hot: the unit to which the first beat of a batch goes in this cycle.
    output logic [N-1:0]           in_begins,
    // To units: which may begin a batch, and beats.
    input  logic [N-1:0]           unit_free,
    output logic [N-1:0]           unit_valid,
    input  logic [N-1:0]           unit_ready,
    output logic [IN_WIDTH-1:0]    unit_data,
    output logic                   unit_last,
    // From units.
    input  logic [N-1:0]           back_valid,
    output logic [N-1:0]           back_ready,
    input  logic [N*OUT_WIDTH-1:0] back_data,
    input  logic [N-1:0]           back_last,
    // The port out.
    output logic                   out_valid,
    input  logic                   out_ready,
    output logic [OUT_WIDTH-1:0]   out_data,
    output logic                   out_last,
    output logic [LOG_N-1:0]       out_unit
);
    // The unit that has begun a batch and not had its last beat, or none.
    logic [N-1:0] current;
    logic [N-1:0] chosen;
    logic [N-1:0] goes_to;
    logic         begins;
    logic         moves;
    logic [N-1:0] back_grant;

    assign goes_to    = current != '0 ? current : chosen;
    assign begins     = current == '0 && in_valid;
    assign unit_valid = in_valid ? goes_to : '0;
    assign in_ready   = (goes_to & unit_ready) != '0;
    assign moves      = in_valid && in_ready;
    assign unit_data  = in_data;
    assign unit_last  = in_last;
    assign in_begins  = moves && current == '0 ? chosen : '0;

    rr_arbiter #(.N(N)) scatter (
        .clk(clk), .rst(rst), .request(begins ? unit_free : '0), .take(moves), .grant(chosen)
    );

    always_ff @(posedge clk) begin
        if (rst) current <= '0;
        else if (moves) current <= in_last ? '0 : goes_to;
    end

    rr_arbiter #(.N(N)) gather (
        .clk(clk), .rst(rst), .request(back_valid), .take(out_ready && out_last),
        .grant(back_grant)
    );

    assign out_valid  = back_grant != '0;
    assign back_ready = out_ready ? back_grant : '0;
    assign out_last   = (back_grant & back_last) != '0;

    always_comb begin
        out_data = '0;
        out_unit = '0;
        for (int i = 0; i < N; i++) begin
            if (back_grant[i]) begin
                out_data = back_data[i*OUT_WIDTH +: OUT_WIDTH];
                out_unit = i[LOG_N-1:0];
            end
        end
    end
endmodule
