// Every module that is tested, each on its own, with a clock of its own: only the one that is
// driven takes time.
module bench (
    input  logic         rst,
    // sha256_unit
    input  logic         sha_clk,
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
    input  logic         array_clk,
    input  logic         array_in_valid,
    output logic         array_in_ready,
    input  logic [31:0]  array_in_data,
    input  logic         array_in_last,
    input  logic [2:0]   array_in_bytes,
    input  logic [15:0]  array_in_tag,
    output logic         array_out_valid,
    input  logic         array_out_ready,
    output logic [255:0] array_out_digest,
    output logic [15:0]  array_out_tag,
    output logic [3:0]   array_busy,
    // rr_arbiter
    input  logic         arbiter_clk,
    input  logic [7:0]   arbiter_request,
    input  logic         arbiter_take,
    output logic [7:0]   arbiter_grant,
    // buffer
    input  logic         buffer_clk,
    input  logic         buffer_in_valid,
    output logic         buffer_in_ready,
    input  logic [7:0]   buffer_in_data,
    output logic         buffer_out_valid,
    input  logic         buffer_out_ready,
    output logic [7:0]   buffer_out_data,
    // lz4_enc
    input  logic         enc_clk,
    input  logic         enc_in_valid,
    output logic         enc_in_ready,
    input  logic [31:0]  enc_in_data,
    input  logic [2:0]   enc_in_bytes,
    input  logic         enc_in_last,
    output logic         enc_out_valid,
    input  logic         enc_out_ready,
    output logic [31:0]  enc_out_data,
    output logic [2:0]   enc_out_bytes,
    output logic         enc_out_last,
    output logic         enc_out_raw,
    output logic         enc_out_drop,
    output logic         enc_busy,
    // lz4_dec
    input  logic         dec_clk,
    input  logic         dec_in_valid,
    output logic         dec_in_ready,
    input  logic [63:0]  dec_in_data,
    input  logic [3:0]   dec_in_bytes,
    input  logic         dec_in_last,
    input  logic [16:0]  dec_in_limit,
    output logic         dec_out_valid,
    input  logic         dec_out_ready,
    output logic [63:0]  dec_out_data,
    output logic [3:0]   dec_out_bytes,
    output logic         dec_out_last,
    output logic         dec_out_error,
    output logic         dec_busy,
    // index_unit
    input  logic         index_clk,
    input  logic         index_in_valid,
    output logic         index_in_ready,
    input  logic [31:0]  index_in_key,
    input  logic         index_in_changes,
    output logic         index_out_valid,
    input  logic         index_out_ready,
    output logic         index_out_hit,
    output logic [8:0]   index_out_line,
    output logic         index_out_evicts,
    output logic [31:0]  index_out_evicted,
    output logic         index_out_evicted_changed,
    // cidr_engine
    input  logic         engine_clk,
    input  logic         engine_write_command_valid,
    output logic         engine_write_command_ready,
    input  logic         engine_write_command_hash,
    input  logic         engine_write_command_compress,
    input  logic [15:0]  engine_write_command_tag,
    input  logic         engine_write_valid,
    output logic         engine_write_ready,
    input  logic [31:0]  engine_write_data,
    input  logic [2:0]   engine_write_bytes,
    input  logic         engine_write_last,
    input  logic         engine_read_command_valid,
    output logic         engine_read_command_ready,
    input  logic [12:0]  engine_read_command_limit,
    input  logic [15:0]  engine_read_command_tag,
    input  logic         engine_read_valid,
    output logic         engine_read_ready,
    input  logic [63:0]  engine_read_data,
    input  logic [3:0]   engine_read_bytes,
    input  logic         engine_read_last,
    output logic         engine_digest_valid,
    input  logic         engine_digest_ready,
    output logic [255:0] engine_digest,
    output logic [15:0]  engine_digest_tag,
    output logic         engine_stored_valid,
    input  logic         engine_stored_ready,
    output logic [31:0]  engine_stored_data,
    output logic [2:0]   engine_stored_bytes,
    output logic         engine_stored_last,
    output logic         engine_stored_raw,
    output logic [15:0]  engine_stored_tag,
    output logic [1:0]   engine_plain_valid,
    input  logic [1:0]   engine_plain_ready,
    output logic [127:0] engine_plain_data,
    output logic [7:0]   engine_plain_bytes,
    output logic [1:0]   engine_plain_last,
    output logic [1:0]   engine_plain_error,
    output logic [31:0]  engine_plain_tag,
    output logic [3:0]   engine_hash_busy,
    output logic [3:0]   engine_compress_busy,
    output logic [1:0]   engine_decompress_busy
);
    sha256_unit sha (
        .clk(sha_clk), .rst(rst), .in_valid(sha_in_valid), .in_ready(sha_in_ready),
        .in_data(sha_in_data), .in_last(sha_in_last), .in_bytes(sha_in_bytes),
        .out_valid(sha_out_valid), .out_ready(sha_out_ready), .out_digest(sha_out_digest),
        .busy(sha_busy)
    );

    hash_array #(.N(4), .LOG_N(2), .LOG_DEPTH(10), .TAG(16)) array (
        .clk(array_clk), .rst(rst), .in_valid(array_in_valid), .in_ready(array_in_ready),
        .in_data(array_in_data), .in_last(array_in_last), .in_bytes(array_in_bytes),
        .in_tag(array_in_tag),
        .out_valid(array_out_valid), .out_ready(array_out_ready), .out_digest(array_out_digest),
        .out_tag(array_out_tag), .busy(array_busy)
    );

    rr_arbiter #(.N(8)) arbiter (
        .clk(arbiter_clk), .rst(rst), .request(arbiter_request), .take(arbiter_take),
        .grant(arbiter_grant)
    );

    buffer #(.WIDTH(8), .LOG_DEPTH(4)) queue (
        .clk(buffer_clk), .rst(rst), .in_valid(buffer_in_valid), .in_ready(buffer_in_ready),
        .in_data(buffer_in_data), .out_valid(buffer_out_valid), .out_ready(buffer_out_ready),
        .out_data(buffer_out_data)
    );

    lz4_enc #(.LOG_BLOCK(16), .LOG_TABLE(12)) enc (
        .clk(enc_clk), .rst(rst), .in_valid(enc_in_valid), .in_ready(enc_in_ready),
        .in_data(enc_in_data), .in_bytes(enc_in_bytes), .in_last(enc_in_last),
        .out_valid(enc_out_valid), .out_ready(enc_out_ready), .out_data(enc_out_data),
        .out_bytes(enc_out_bytes), .out_last(enc_out_last), .out_raw(enc_out_raw),
        .out_drop(enc_out_drop), .busy(enc_busy)
    );

    lz4_dec #(.LOG_BLOCK(16)) dec (
        .clk(dec_clk), .rst(rst), .in_valid(dec_in_valid), .in_ready(dec_in_ready),
        .in_data(dec_in_data), .in_bytes(dec_in_bytes), .in_last(dec_in_last), .in_limit(dec_in_limit),
        .out_valid(dec_out_valid), .out_ready(dec_out_ready), .out_data(dec_out_data),
        .out_bytes(dec_out_bytes), .out_last(dec_out_last), .out_error(dec_out_error),
        .busy(dec_busy)
    );

    index_unit #(.LOG_SETS(6), .LOG_WAYS(3), .KEY(32)) index (
        .clk(index_clk), .rst(rst), .in_valid(index_in_valid), .in_ready(index_in_ready),
        .in_key(index_in_key), .in_changes(index_in_changes),
        .out_valid(index_out_valid), .out_ready(index_out_ready), .out_hit(index_out_hit),
        .out_line(index_out_line), .out_evicts(index_out_evicts),
        .out_evicted(index_out_evicted), .out_evicted_changed(index_out_evicted_changed)
    );

    cidr_engine #(.LOG_CHUNK(12), .TAG(16), .LOG_QUEUE(4)) engine (
        .clk(engine_clk), .rst(rst), .write_command_valid(engine_write_command_valid),
        .write_command_ready(engine_write_command_ready),
        .write_command_hash(engine_write_command_hash),
        .write_command_compress(engine_write_command_compress),
        .write_command_tag(engine_write_command_tag), .write_valid(engine_write_valid),
        .write_ready(engine_write_ready), .write_data(engine_write_data),
        .write_bytes(engine_write_bytes), .write_last(engine_write_last),
        .read_command_valid(engine_read_command_valid),
        .read_command_ready(engine_read_command_ready),
        .read_command_limit(engine_read_command_limit), .read_command_tag(engine_read_command_tag),
        .read_valid(engine_read_valid), .read_ready(engine_read_ready),
        .read_data(engine_read_data), .read_bytes(engine_read_bytes), .read_last(engine_read_last),
        .digest_valid(engine_digest_valid), .digest_ready(engine_digest_ready),
        .digest(engine_digest), .digest_tag(engine_digest_tag), .stored_valid(engine_stored_valid),
        .stored_ready(engine_stored_ready), .stored_data(engine_stored_data),
        .stored_bytes(engine_stored_bytes), .stored_last(engine_stored_last),
        .stored_raw(engine_stored_raw), .stored_tag(engine_stored_tag),
        .plain_valid(engine_plain_valid), .plain_ready(engine_plain_ready),
        .plain_data(engine_plain_data), .plain_bytes(engine_plain_bytes),
        .plain_last(engine_plain_last), .plain_error(engine_plain_error),
        .plain_tag(engine_plain_tag), .hash_busy(engine_hash_busy),
        .compress_busy(engine_compress_busy), .decompress_busy(engine_decompress_busy)
    );
endmodule
