// lz4_enc and lz4_dec: blocks follow each other without a pause, as far as the unit lets them.
#include "bench.h"

namespace {

struct Block {
    uint32_t limit;
    std::vector<uint8_t> bytes;
};

// All blocks of standard input; decoders have a limit before each.
std::vector<Block> read_blocks(bool has_limits) {
    std::vector<Block> blocks;
    Block block{0, {}};
    while ((!has_limits || read_number(block.limit)) && read_message(block.bytes)) {
        blocks.push_back(block);
    }
    return blocks;
}

void answer(uint8_t flag, uint32_t cycles, const std::vector<uint8_t>& bytes) {
    const uint32_t size = uint32_t(bytes.size());
    write_all(&flag, 1);
    write_all(&cycles, 4);
    write_all(&size, 4);
    write_all(bytes.data(), bytes.size());
}

}  // namespace

int lz4_enc(uint64_t seed) {
    reset(bench->enc_clk);
    Coin coin{seed, seed == 0};
    const std::vector<Block> blocks = read_blocks(false);
    std::vector<uint8_t> out;
    size_t block = 0;
    size_t sent = 0;
    uint32_t cycles = 0;
    uint64_t idle = 0;
    for (size_t answered = 0; answered < blocks.size(); cycles++) {
        if (++idle > kMostIdleCycles) return 2;
        const bool offers = block < blocks.size() && coin.toss();
        uint32_t count = 0;
        const uint64_t word = offers ? word_of(blocks[block].bytes, sent, 4, count) : 0xdeadbeef;
        const bool is_last = offers && sent + 4 >= blocks[block].bytes.size();
        bench->enc_in_valid = offers;
        bench->enc_in_data = uint32_t(word);
        bench->enc_in_bytes = uint8_t(count);
        bench->enc_in_last = is_last;
        bench->enc_out_ready = coin.toss();
        settle();
        const bool moved = offers && bench->enc_in_ready;
        if (bench->enc_out_valid && bench->enc_out_ready) {
            idle = 0;
            if (bench->enc_out_drop) {
                out.clear();
            } else {
                append(out, bench->enc_out_data, 4, bench->enc_out_bytes);
            }
            if (bench->enc_out_last) {
                answer(bench->enc_out_raw, cycles, out);
                out.clear();
                answered++;
                cycles = 0;
            }
        }
        tick();
        if (moved) {
            idle = 0;
            sent = is_last ? 0 : sent + 4;
            block += is_last;
        }
    }
    return 0;
}

int lz4_dec(uint64_t seed) {
    reset(bench->dec_clk);
    Coin coin{seed, seed == 0};
    const std::vector<Block> blocks = read_blocks(true);
    std::vector<uint8_t> out;
    size_t block = 0;
    size_t sent = 0;
    uint32_t cycles = 0;
    uint64_t idle = 0;
    for (size_t answered = 0; answered < blocks.size(); cycles++) {
        if (++idle > kMostIdleCycles) return 2;
        const bool offers = block < blocks.size() && coin.toss();
        uint32_t count = 0;
        const uint64_t word = offers ? word_of(blocks[block].bytes, sent, 8, count) : 0xdeadbeef;
        const bool is_last = offers && sent + 8 >= blocks[block].bytes.size();
        bench->dec_in_valid = offers;
        bench->dec_in_data = word;
        bench->dec_in_bytes = uint8_t(count);
        bench->dec_in_last = is_last;
        bench->dec_in_limit = offers && sent == 0 ? blocks[block].limit : 0;
        bench->dec_out_ready = coin.toss();
        settle();
        const bool moved = offers && bench->dec_in_ready;
        if (bench->dec_out_valid && bench->dec_out_ready) {
            idle = 0;
            append(out, bench->dec_out_data, 8, bench->dec_out_bytes);
            if (bench->dec_out_last) {
                answer(bench->dec_out_error, cycles, out);
                out.clear();
                answered++;
                cycles = 0;
            }
        }
        tick();
        if (moved) {
            idle = 0;
            sent = is_last ? 0 : sent + 8;
            block += is_last;
        }
    }
    return 0;
}
