// A whole engine: command queues, orchestrator, metadata buffers, and arrays of 4 hash units, 4
// compression units and 2 decompression units, each array behind arbiter, buffers and crossbar.
// Written chunks come as words of 4 bytes behind their commands: to be hashed, compressed, or both
// at once, when they are taken for unique. Stored chunks come as words of 8 bytes behind theirs. A
// result leaves as soon as it is there, with the tag of its command. The ports are what a PCIe DMA
// has queues for; the DMA itself is not described.
// Source: [ajdari-talk], "CIDR: Detailed System Architecture". Which units share a board, and that
// reads have a port of their own, is ours.
module cidr_engine #(
    // Chunks have at most 2 to the power of this bytes.
    parameter int LOG_CHUNK = 12,
    parameter int TAG = 16,
    // Commands that wait are 2 to the power of this.
    parameter int LOG_QUEUE = 4
) (
    input  logic               clk,
    input  logic               rst,
    // Commands for written chunks: hash, compress, and the tag.
    input  logic               write_command_valid,
    output logic               write_command_ready,
    input  logic               write_command_hash,
    input  logic               write_command_compress,
    input  logic [TAG-1:0]     write_command_tag,
    input  logic               write_valid,
    output logic               write_ready,
    input  logic [31:0]        write_data,
    input  logic [2:0]         write_bytes,
    input  logic               write_last,
    // Commands for stored chunks: how long they are once decompressed, and the tag.
    input  logic               read_command_valid,
    output logic               read_command_ready,
    input  logic [LOG_CHUNK:0] read_command_limit,
    input  logic [TAG-1:0]     read_command_tag,
    input  logic               read_valid,
    output logic               read_ready,
    input  logic [63:0]        read_data,
    input  logic [3:0]         read_bytes,
    input  logic               read_last,
    // Digests.
    output logic               digest_valid,
    input  logic               digest_ready,
    output logic [255:0]       digest,
    output logic [TAG-1:0]     digest_tag,
    // Compressed chunks, raw if they did not shrink.
    output logic               stored_valid,
    input  logic               stored_ready,
    output logic [31:0]        stored_data,
    output logic [2:0]         stored_bytes,
    output logic               stored_last,
    output logic               stored_raw,
    output logic [TAG-1:0]     stored_tag,
    // Decompressed chunks, from each unit.
    output logic [1:0]         plain_valid,
    input  logic [1:0]         plain_ready,
    output logic [127:0]       plain_data,
    output logic [7:0]         plain_bytes,
    output logic [1:0]         plain_last,
    output logic [1:0]         plain_error,
    output logic [2*TAG-1:0]   plain_tag,
    // Units that worked in this cycle.
    output logic [3:0]         hash_busy,
    output logic [3:0]         compress_busy,
    output logic [1:0]         decompress_busy
);
    // ---- written chunks ---------------------------------------------------------------------------
    logic           command_valid;
    logic           command_ready;
    logic           hashes;
    logic           compresses;
    logic [TAG-1:0] tag;

    buffer #(.WIDTH(TAG + 2), .LOG_DEPTH(LOG_QUEUE)) write_commands (
        .clk(clk), .rst(rst),
        .in_valid(write_command_valid), .in_ready(write_command_ready),
        .in_data({write_command_hash, write_command_compress, write_command_tag}),
        .out_valid(command_valid), .out_ready(command_ready), .out_data({hashes, compresses, tag})
    );

    // A word goes to one array or both, to each as soon as that takes it, and is gone when all
    // have it.
    logic hash_has;
    logic compress_has;
    logic hash_valid;
    logic hash_ready;
    logic compress_valid;
    logic compress_ready;
    logic offered;
    logic moves;

    assign offered        = write_valid && command_valid;
    assign hash_valid     = offered && hashes && !hash_has;
    assign compress_valid = offered && compresses && !compress_has;
    assign moves          = offered && (!hashes || hash_has || hash_ready)
                                    && (!compresses || compress_has || compress_ready);
    assign write_ready    = moves;
    assign command_ready  = moves && write_last;

    always_ff @(posedge clk) begin
        if (rst || moves) begin
            hash_has     <= 1'b0;
            compress_has <= 1'b0;
        end else begin
            if (hash_valid && hash_ready) hash_has <= 1'b1;
            if (compress_valid && compress_ready) compress_has <= 1'b1;
        end
    end

    hash_array #(.N(4), .LOG_N(2), .LOG_DEPTH(LOG_CHUNK - 2), .TAG(TAG)) hash (
        .clk(clk), .rst(rst), .in_valid(hash_valid), .in_ready(hash_ready), .in_data(write_data),
        .in_last(write_last), .in_bytes(write_bytes), .in_tag(tag),
        .out_valid(digest_valid), .out_ready(digest_ready), .out_digest(digest),
        .out_tag(digest_tag), .busy(hash_busy)
    );

    compress_array #(.N(4), .LOG_N(2), .LOG_CHUNK(LOG_CHUNK), .TAG(TAG)) compress (
        .clk(clk), .rst(rst), .in_valid(compress_valid), .in_ready(compress_ready),
        .in_data(write_data), .in_last(write_last), .in_bytes(write_bytes), .in_tag(tag),
        .out_valid(stored_valid), .out_ready(stored_ready), .out_data(stored_data),
        .out_bytes(stored_bytes), .out_last(stored_last), .out_raw(stored_raw),
        .out_tag(stored_tag), .busy(compress_busy)
    );

    // ---- stored chunks ----------------------------------------------------------------------------
    logic               stored_command_valid;
    logic               stored_command_ready;
    logic [LOG_CHUNK:0] limit;
    logic [TAG-1:0]     read_tag;
    logic               decompress_ready;

    buffer #(.WIDTH(TAG + LOG_CHUNK + 1), .LOG_DEPTH(LOG_QUEUE)) read_commands (
        .clk(clk), .rst(rst),
        .in_valid(read_command_valid), .in_ready(read_command_ready),
        .in_data({read_command_limit, read_command_tag}),
        .out_valid(stored_command_valid), .out_ready(stored_command_ready),
        .out_data({limit, read_tag})
    );

    assign read_ready           = stored_command_valid && decompress_ready;
    assign stored_command_ready = read_valid && read_ready && read_last;

    decompress_array #(.N(2), .LOG_N(1), .LOG_CHUNK(LOG_CHUNK), .TAG(TAG)) decompress (
        .clk(clk), .rst(rst), .in_valid(read_valid && stored_command_valid),
        .in_ready(decompress_ready), .in_data(read_data), .in_last(read_last),
        .in_bytes(read_bytes), .in_limit(limit), .in_tag(read_tag),
        .out_valid(plain_valid), .out_ready(plain_ready), .out_data(plain_data),
        .out_bytes(plain_bytes), .out_last(plain_last), .out_error(plain_error),
        .out_tag(plain_tag), .busy(decompress_busy)
    );
endmodule
