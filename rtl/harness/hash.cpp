// sha256_unit and hash_array.
#include "bench.h"

int sha(uint64_t seed) {
    reset(bench->sha_clk);
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
    reset(bench->array_clk);
    std::vector<std::vector<uint8_t>> messages;
    for (std::vector<uint8_t> message; read_message(message);) messages.push_back(message);
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
        bench->array_in_tag = uint16_t(message);
        bench->array_out_ready = 1;
        settle();
        busy += __builtin_popcount(bench->array_busy);
        const bool moved = offers && bench->array_in_ready;
        if (bench->array_out_valid) {
            const uint32_t tag = bench->array_out_tag;
            write_digest(bench->array_out_digest);
            write_all(&tag, 4);
            answered++;
            idle = 0;
        }
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
