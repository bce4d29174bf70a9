// The next bytes of a message: words come in behind, as many bytes as the user likes leave in
// front, and those in between are all in sight.
// In: words of IN bytes, the first byte in the upper ones; of the last word in_bytes says how many
// count, of all others all. Out: `sight`, the first byte in the upper ones, of which `have` count;
// `ended` once the last word is in. No word of the next message comes in before `restart`.
module byte_window #(
    parameter int BYTES = 24,
    parameter int IN = 8,
    // Bits of a number from 0 to BYTES.
    parameter int LOG = 5
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               in_valid,
    output logic               in_ready,
    input  logic [IN*8-1:0]    in_data,
    input  logic [LOG-1:0]     in_bytes,
    input  logic               in_last,
    // Bytes that leave in this cycle, at most `have`.
    input  logic [LOG-1:0]     leave,
    // Forget the rest: the next word is the first of a message.
    input  logic               restart,
    output logic [BYTES*8-1:0] sight,
    output logic [LOG-1:0]     have,
    output logic               ended
);
    logic [LOG-1:0]     rest;
    logic [BYTES*8-1:0] left;
    logic [BYTES*8-1:0] fresh;
    logic               takes;

    assign in_ready = !ended && have <= LOG'(BYTES - IN);
    assign takes    = in_valid && in_ready;
    assign rest     = have - leave;
    // Behind the bytes that count there are zeros, up to the last word, after which nothing comes.
    assign left     = sight << {leave, 3'b000};
    assign fresh    = {in_data, {(BYTES - IN)*8{1'b0}}} >> {rest, 3'b000};

    always_ff @(posedge clk) begin
        if (rst || restart) begin
            sight <= '0;
            have  <= '0;
            ended <= 1'b0;
        end else begin
            sight <= takes ? left | fresh : left;
            have  <= takes ? rest + in_bytes : rest;
            if (takes && in_last) ended <= 1'b1;
        end
    end
endmodule
