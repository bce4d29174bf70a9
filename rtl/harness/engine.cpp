// cidr_engine: commands are given as soon as the engine takes them, each lane in its order.
#include "bench.h"

namespace {

struct Command {
    uint8_t kind;
    uint32_t limit;
    std::vector<uint8_t> bytes;
};

constexpr uint8_t kHash = 1;
constexpr uint8_t kCompress = 2;
constexpr uint8_t kDecompress = 4;

std::vector<Command> commands;

void answer(uint8_t kind, uint32_t tag, const std::vector<uint8_t>& bytes) {
    const uint32_t size = uint32_t(bytes.size());
    write_all(&kind, 1);
    write_all(&tag, 4);
    write_all(&size, 4);
    write_all(bytes.data(), bytes.size());
}

// One of the two ways in: which command is announced next, which one's data is sent.
struct Lane {
    bool reads;
    size_t announced = 0;
    size_t sending = 0;
    size_t sent = 0;

    bool is_mine(size_t at) const {
        return (commands[at].kind == kDecompress) == reads;
    }
    void skip() {
        while (announced < commands.size() && !is_mine(announced)) announced++;
        while (sending < commands.size() && !is_mine(sending)) sending++;
    }
    bool announces() const { return announced < commands.size(); }
    // Data may be ahead of its command: the engine waits for that.
    bool offers() const { return sending < commands.size(); }
    bool is_last(int width) const { return sent + width >= commands[sending].bytes.size(); }
    void moved(int width) {
        const bool last = is_last(width);
        sent = last ? 0 : sent + width;
        sending += last;
    }
};

}  // namespace

int engine(uint64_t seed) {
    reset(bench->engine_clk);
    Coin coin{seed, seed == 0};
    Command command{0, 0, {}};
    while (read_all(&command.kind, 1) && read_number(command.limit)
           && read_message(command.bytes)) {
        commands.push_back(command);
    }
    size_t expected = 0;
    for (const Command& given : commands) {
        expected += __builtin_popcount(given.kind);
    }
    Lane write{false};
    Lane read{true};
    std::vector<uint8_t> stored;
    std::vector<uint8_t> plain[2];
    uint64_t cycles = 0;
    uint64_t busy[3] = {};
    uint64_t idle = 0;
    for (size_t answered = 0; answered < expected; cycles++) {
        if (++idle > kMostIdleCycles) return 2;
        write.skip();
        read.skip();
        const bool announces_write = write.announces() && coin.toss();
        bench->engine_write_command_valid = announces_write;
        if (announces_write) {
            const uint8_t kind = commands[write.announced].kind;
            bench->engine_write_command_hash = (kind & kHash) != 0;
            bench->engine_write_command_compress = (kind & kCompress) != 0;
            bench->engine_write_command_tag = uint16_t(write.announced);
        }
        const bool announces_read = read.announces() && coin.toss();
        bench->engine_read_command_valid = announces_read;
        if (announces_read) {
            bench->engine_read_command_limit = uint16_t(commands[read.announced].limit);
            bench->engine_read_command_tag = uint16_t(read.announced);
        }
        const bool offers_write = write.offers() && coin.toss();
        bench->engine_write_valid = offers_write;
        if (offers_write) {
            uint32_t count = 0;
            bench->engine_write_data =
                uint32_t(word_of(commands[write.sending].bytes, write.sent, 4, count));
            bench->engine_write_bytes = uint8_t(count);
            bench->engine_write_last = write.is_last(4);
        }
        const bool offers_read = read.offers() && coin.toss();
        bench->engine_read_valid = offers_read;
        if (offers_read) {
            uint32_t count = 0;
            bench->engine_read_data = word_of(commands[read.sending].bytes, read.sent, 8, count);
            bench->engine_read_bytes = uint8_t(count);
            bench->engine_read_last = read.is_last(8);
        }
        bench->engine_digest_ready = coin.toss();
        bench->engine_stored_ready = coin.toss();
        bench->engine_plain_ready = uint8_t(coin.toss() | coin.toss() << 1);
        settle();
        if (bench->engine_digest_valid && bench->engine_digest_ready) {
            const uint8_t kind = 0;
            const uint32_t tag = bench->engine_digest_tag;
            const uint32_t size = 32;
            write_all(&kind, 1);
            write_all(&tag, 4);
            write_all(&size, 4);
            write_digest(bench->engine_digest);
            answered++;
            idle = 0;
        }
        if (bench->engine_stored_valid && bench->engine_stored_ready) {
            append(stored, bench->engine_stored_data, 4, bench->engine_stored_bytes);
            if (bench->engine_stored_last) {
                answer(bench->engine_stored_raw ? 2 : 1, bench->engine_stored_tag, stored);
                stored.clear();
                answered++;
            }
            idle = 0;
        }
        for (int unit = 0; unit < 2; unit++) {
            if (!(bench->engine_plain_valid & bench->engine_plain_ready & 1 << unit)) continue;
            const uint64_t word = uint64_t(bench->engine_plain_data[2 * unit + 1]) << 32
                                | bench->engine_plain_data[2 * unit];
            append(plain[unit], word, 8, bench->engine_plain_bytes >> (4 * unit) & 15);
            if (bench->engine_plain_last >> unit & 1) {
                const bool wrong = bench->engine_plain_error >> unit & 1;
                const uint32_t tag = bench->engine_plain_tag >> (16 * unit) & 0xffff;
                answer(wrong ? 4 : 3, tag, plain[unit]);
                plain[unit].clear();
                answered++;
            }
            idle = 0;
        }
        busy[0] += __builtin_popcount(bench->engine_hash_busy);
        busy[1] += __builtin_popcount(bench->engine_compress_busy);
        busy[2] += __builtin_popcount(bench->engine_decompress_busy);
        const bool took_write_command = announces_write && bench->engine_write_command_ready;
        const bool took_read_command = announces_read && bench->engine_read_command_ready;
        const bool took_write = offers_write && bench->engine_write_ready;
        const bool took_read = offers_read && bench->engine_read_ready;
        tick();
        write.announced += took_write_command;
        read.announced += took_read_command;
        if (took_write) write.moved(4);
        if (took_read) read.moved(8);
        if (took_write || took_read) idle = 0;
    }
    const uint8_t end = 255;
    write_all(&end, 1);
    write_all(&cycles, 8);
    write_all(busy, sizeof busy);
    return 0;
}
