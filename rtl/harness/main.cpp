// Drives one module of the Verilated bench with bytes from standard input, and answers on standard
// output. The first argument says which module and how:
//
//   sha [SEED]      in: messages, each a length of 4 bytes and its bytes. out: for each message its
//                   digest, 32 bytes, and its cycles, 4 bytes. With a seed, words come and digests
//                   are taken only in some cycles.
//   array           in: messages as above, offered as fast as the port takes them. out: for each
//                   digest its 32 bytes and the number of the message, 4 bytes; at the end, 32
//                   zero bytes, all ones, and the cycles and the busy cycles of all units, 8 each.
//   arbiter         in: for each cycle a byte of requests and one for "take". out: the grant.
//   buffer          in: for each cycle a byte, bit 0 "in valid", bit 1 "out ready", and the item.
//                   out: bit 0 "in ready", bit 1 "out valid", and the item.
//
// All numbers are little-endian. The clock ticks once for each cycle that is answered.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vbench.h"
#include "verilated.h"

namespace {

// More cycles than any message takes: a module that hangs ends the process with 2.
constexpr uint64_t kMostIdleCycles = 1 << 20;

Vbench* bench = nullptr;

void settle() {
    bench->clk = 0;
    bench->eval();
}

void tick() {
    bench->clk = 1;
    bench->eval();
}

void reset() {
    bench->rst = 1;
    settle();
    tick();
    settle();
    tick();
    bench->rst = 0;
}

bool read_all(void* to, size_t size) { return fread(to, 1, size, stdin) == size; }

void write_all(const void* from, size_t size) { fwrite(from, 1, size, stdout); }

bool read_message(std::vector<uint8_t>& message) {
    uint8_t head[4];
    if (!read_all(head, 4)) return false;
    const uint32_t size = head[0] | head[1] << 8 | head[2] << 16 | uint32_t(head[3]) << 24;
    message.resize(size);
    return size == 0 || read_all(message.data(), size);
}

// The word of a message at a place, and how many of its bytes are the message's.
uint32_t word_at(const std::vector<uint8_t>& message, size_t at, uint32_t& bytes) {
    uint32_t word = 0;
    bytes = 0;
    for (size_t i = 0; i < 4; i++) {
        const bool there = at * 4 + i < message.size();
        word = word << 8 | (there ? message[at * 4 + i] : 0);
        bytes += there;
    }
    return word;
}

// Words of a message: an empty one has a word without bytes.
size_t words_of(const std::vector<uint8_t>& message) {
    return message.empty() ? 1 : (message.size() + 3) / 4;
}

template <typename Wide>
void write_digest(const Wide& digest) {
    uint8_t bytes[32];
    for (int i = 0; i < 8; i++) {
        const uint32_t word = digest[7 - i];
        for (int j = 0; j < 4; j++) bytes[i * 4 + j] = word >> (24 - 8 * j);
    }
    write_all(bytes, 32);
}

struct Coin {
    uint64_t state;
    bool always;
    bool toss() {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return always || (state >> 62) != 0;
    }
};

int sha(uint64_t seed) {
    Coin coin{seed, seed == 0};
    std::vector<uint8_t> message;
    while (read_message(message)) {
        const size_t words = words_of(message);
        size_t sent = 0;
        uint32_t cycles = 0;
        for (uint64_t idle = 0;; idle++) {
            if (idle > kMostIdleCycles) return 2;
            uint32_t bytes = 0;
            const bool offers = sent < words && coin.toss();
            bench->sha_in_valid = offers;
            bench->sha_in_data = offers ? word_at(message, sent, bytes) : 0xdeadbeef;
            bench->sha_in_last = offers && sent + 1 == words;
            bench->sha_in_bytes = bytes;
            bench->sha_out_ready = coin.toss();
            settle();
            const bool moved = offers && bench->sha_in_ready;
            const bool done = bench->sha_out_valid && bench->sha_out_ready;
            if (done) write_digest(bench->sha_out_digest);
            cycles += !bench->sha_out_valid;
            tick();
            if (moved) {
                sent++;
                idle = 0;
            }
            if (done) break;
        }
        write_all(&cycles, 4);
    }
    return 0;
}

int array() {
    std::vector<std::vector<uint8_t>> messages;
    for (std::vector<uint8_t> message; read_message(message);) messages.push_back(message);
    std::deque<uint32_t> of_unit[4];
    size_t message = 0;
    size_t sent = 0;
    size_t answered = 0;
    uint64_t cycles = 0;
    uint64_t busy = 0;
    for (uint64_t idle = 0; answered < messages.size(); idle++, cycles++) {
        if (idle > kMostIdleCycles) return 2;
        const bool offers = message < messages.size();
        uint32_t bytes = 0;
        const size_t words = offers ? words_of(messages[message]) : 0;
        bench->array_in_valid = offers;
        bench->array_in_data = offers ? word_at(messages[message], sent, bytes) : 0;
        bench->array_in_bytes = bytes;
        bench->array_in_last = offers && sent + 1 == words;
        bench->array_out_ready = 1;
        settle();
        busy += __builtin_popcount(bench->array_busy);
        const bool moved = offers && bench->array_in_ready;
        if (bench->array_out_valid) {
            std::deque<uint32_t>& queue = of_unit[bench->array_out_unit];
            if (queue.empty()) return 3;
            write_digest(bench->array_out_digest);
            write_all(&queue.front(), 4);
            queue.pop_front();
            answered++;
            idle = 0;
        }
        if (moved && sent == 0) of_unit[bench->array_in_unit].push_back(uint32_t(message));
        tick();
        if (moved) {
            idle = 0;
            if (++sent == words) {
                sent = 0;
                message++;
            }
        }
    }
    const uint8_t zeros[32] = {};
    const uint32_t end = UINT32_MAX;
    write_all(zeros, 32);
    write_all(&end, 4);
    write_all(&cycles, 8);
    write_all(&busy, 8);
    return 0;
}

int arbiter() {
    uint8_t cycle[2];
    while (read_all(cycle, 2)) {
        bench->arbiter_request = cycle[0];
        bench->arbiter_take = cycle[1] & 1;
        settle();
        const uint8_t grant = bench->arbiter_grant;
        write_all(&grant, 1);
        tick();
    }
    return 0;
}

int buffer() {
    uint8_t cycle[2];
    while (read_all(cycle, 2)) {
        bench->buffer_in_valid = cycle[0] & 1;
        bench->buffer_out_ready = cycle[0] >> 1 & 1;
        bench->buffer_in_data = cycle[1];
        settle();
        const uint8_t flags = bench->buffer_in_ready | bench->buffer_out_valid << 1;
        const uint8_t answer[2] = {flags, bench->buffer_out_data};
        write_all(answer, 2);
        tick();
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    VerilatedContext context;
    bench = new Vbench{&context};
    reset();
    const std::string mode = argc > 1 ? argv[1] : "";
    int status = 64;
    if (mode == "sha") status = sha(argc > 2 ? strtoull(argv[2], nullptr, 10) : 0);
    if (mode == "array") status = array();
    if (mode == "arbiter") status = arbiter();
    if (mode == "buffer") status = buffer();
    if (status == 64) fprintf(stderr, "usage: bench sha [SEED] | array | arbiter | buffer\n");
    delete bench;
    return status;
}
