// Writes LZ4 sequences: the second half of lz4_enc.
// In: the words of blocks, kept in a ring of two blocks, each block from the begin of a word; and
// sequences, whose literals are read from there, 4 a cycle. Out: as lz4_enc describes it.
module lz4_writer #(
    parameter int LOG_BLOCK = 16,
    localparam int P = LOG_BLOCK + 1,
    localparam int SEQUENCE = 1 + 2*P + LOG_BLOCK
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                in_valid,
    output logic                in_room,
    input  logic [31:0]         in_data,
    input  logic                sequence_valid,
    output logic                sequence_ready,
    // Whether it is the last one, literals, match (or size of the block), distance.
    input  logic [SEQUENCE-1:0] sequence_data,
    output logic                out_valid,
    input  logic                out_ready,
    output logic [31:0]         out_data,
    output logic [2:0]          out_bytes,
    output logic                out_last,
    output logic                out_raw,
    output logic                out_drop
);
    // TOKEN, LIT_LENGTH, LITERALS, DISTANCE, MATCH_LENGTH: the parts of a sequence. FINISH: the
    // last word, or the decision that it was in vain. RAW: the block as it is.
    typedef enum logic [2:0] {TOKEN, LIT_LENGTH, LITERALS, DISTANCE, MATCH_LENGTH, FINISH, RAW}
        state_t;

    state_t               state;
    logic                 is_last;
    logic [P-1:0]         literals;
    logic [P-1:0]         match;
    logic [LOG_BLOCK-1:0] distance;
    // What is left of a length or of literals.
    logic [P-1:0]         left;
    // Bytes written of the block.
    logic [P:0]           total;
    logic                 room;

    assign {is_last, literals, match, distance} = sequence_data;
    assign room = !out_valid || out_ready;

    // ---- the ring: words of the two blocks, a byte of each in each bank ---------------------------
    // Words that came in, and where the block begins that is written: a bit more than an address.
    logic [P-2:0]       written;
    logic [P-2:0]       begins;
    logic [LOG_BLOCK:0] place;
    logic [LOG_BLOCK:0] next_place;
    logic [31:0]        banks;
    logic [31:0]        bytes;

    assign in_room = written - begins != {1'b1, {(P-2){1'b0}}};

    for (genvar b = 0; b < 4; b++) begin : bank
        localparam logic [2:0] B = 3'(b);

        logic [7:0]           ring [0:(1 << (LOG_BLOCK - 1))-1];
        logic [7:0]           got;
        logic [LOG_BLOCK-2:0] row;

        assign row = next_place[LOG_BLOCK:2] + (LOG_BLOCK-1)'(B < {1'b0, next_place[1:0]});
        assign banks[(3 - b)*8 +: 8] = got;

        always_ff @(posedge clk) begin
            if (in_valid) ring[written[LOG_BLOCK-2:0]] <= in_data[(3 - b)*8 +: 8];
            // Read again in each cycle: what is not in the ring yet is not asked for.
            got <= ring[row];
        end
    end
    assign bytes = 32'({banks, banks} >> {2'd0 - place[1:0], 3'b000});

    // ---- what this cycle writes -------------------------------------------------------------------
    logic [31:0]  data;
    logic [2:0]   count;
    logic [2:0]   run;
    logic [P-1:0] match_extra;
    logic [3:0]   literal_code;
    logic [3:0]   match_code;
    logic [15:0]  back;
    logic [7:0]   part;
    logic         in_vain;

    assign match_extra  = match - P'(4);
    assign literal_code = literals < P'(15) ? literals[3:0] : 4'd15;
    assign match_code   = is_last ? 4'd0 : match_extra < P'(15) ? match_extra[3:0] : 4'd15;
    assign back         = 16'(distance);
    assign part         = left < P'(255) ? left[7:0] : 8'd255;
    assign run          = left < P'(4) ? left[2:0] : 3'd4;
    assign in_vain      = total >= {1'b0, match};

    always_comb begin
        data  = bytes;
        count = 3'd0;
        unique case (state)
            TOKEN: begin
                data  = {literal_code, match_code, 24'd0};
                count = {2'b00, sequence_valid};
            end
            LIT_LENGTH, MATCH_LENGTH: begin
                data  = {part, 24'd0};
                count = 3'd1;
            end
            LITERALS: count = run;
            DISTANCE: begin
                data  = {back[7:0], back[15:8], 16'd0};
                count = 3'd2;
            end
            default: ;
        endcase
    end

    always_comb begin
        next_place = place;
        if (rst) next_place = '0;
        else if (room) begin
            unique case (state)
                LITERALS: next_place = place + (P)'(run);
                DISTANCE: next_place = place + match;
                FINISH: next_place = in_vain ? {begins[P-3:0], 2'b00} : {after[P-3:0], 2'b00};
                RAW: next_place = left <= P'(4) ? {after[P-3:0], 2'b00} : place + P'(4);
                default: ;
            endcase
        end
    end

    // Where the next block begins.
    logic [P-2:0] after;
    assign after = begins + (P-1)'((match + P'(3)) >> 2);

    // ---- words ------------------------------------------------------------------------------------
    logic [1:0]  lane;
    logic [31:0] turned;
    logic [31:0] collected;
    logic [31:0] word;
    logic        is_full;

    assign lane    = total[1:0];
    assign turned  = 32'({data, data} >> {lane, 3'b000});
    assign is_full = {1'b0, lane} + count >= 3'd4;

    for (genvar b = 0; b < 4; b++) begin : lanes
        localparam logic [2:0] B = 3'(b);
        assign word[(3 - b)*8 +: 8] = B < {1'b0, lane} ? collected[(3 - b)*8 +: 8]
                                                       : turned[(3 - b)*8 +: 8];
    end

    logic ends_sequence;
    assign ends_sequence  = (state == DISTANCE && match_code != 4'd15)
                         || (state == MATCH_LENGTH && left < P'(255))
                         || (state == FINISH && !in_vain) || (state == RAW && left <= P'(4));
    assign sequence_ready = room && ends_sequence;

    always_ff @(posedge clk) begin
        place <= next_place;
        if (in_valid) written <= written + 1'b1;
        if (room) begin
            out_valid <= count != 3'd0 && is_full;
            out_data  <= word;
            out_bytes <= 3'd4;
            out_last  <= 1'b0;
            out_raw   <= 1'b0;
            out_drop  <= 1'b0;
            // Bytes that did not fill the word, from its begin if the last one is full.
            collected <= is_full ? turned : word;
            total     <= total + (P+1)'(count);
            unique case (state)
                TOKEN: if (sequence_valid) begin
                    left <= literal_code == 4'd15 ? literals - P'(15) : literals;
                    if (literal_code == 4'd15) state <= LIT_LENGTH;
                    else if (literals != '0) state <= LITERALS;
                    else state <= is_last ? FINISH : DISTANCE;
                end
                LIT_LENGTH: begin
                    left <= left - P'(255);
                    if (left < P'(255)) begin
                        left  <= literals;
                        state <= LITERALS;
                    end
                end
                LITERALS: begin
                    left <= left - P'(run);
                    if (left <= P'(4)) state <= is_last ? FINISH : DISTANCE;
                end
                DISTANCE: begin
                    left  <= match_extra - P'(15);
                    state <= match_code == 4'd15 ? MATCH_LENGTH : TOKEN;
                end
                MATCH_LENGTH: begin
                    left <= left - P'(255);
                    if (left < P'(255)) state <= TOKEN;
                end
                FINISH: begin
                    out_valid <= 1'b1;
                    out_bytes <= {1'b0, lane};
                    out_data  <= collected;
                    out_last  <= !in_vain;
                    out_drop  <= in_vain;
                    left      <= match;
                    state     <= in_vain ? RAW : TOKEN;
                end
                default: begin
                    out_valid <= 1'b1;
                    out_data  <= bytes;
                    out_bytes <= run;
                    out_last  <= left <= P'(4);
                    out_raw   <= 1'b1;
                    left      <= left - P'(4);
                    if (left <= P'(4)) state <= TOKEN;
                end
            endcase
            if ((state == FINISH && !in_vain) || (state == RAW && left <= P'(4))) begin
                begins <= after;
                total  <= '0;
            end
        end
        if (rst) begin
            state     <= TOKEN;
            written   <= '0;
            begins    <= '0;
            total     <= '0;
            out_valid <= 1'b0;
        end
    end
endmodule
