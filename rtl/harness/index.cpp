// index_unit.
#include "bench.h"

int index_unit(uint64_t seed) {
    reset(bench->index_clk);
    Coin coin{seed, seed == 0};
    std::vector<std::pair<uint32_t, bool>> asked;
    uint32_t key = 0;
    uint8_t changes = 0;
    while (read_number(key) && read_all(&changes, 1)) asked.push_back({key, changes != 0});
    size_t sent = 0;
    uint64_t cycles = 0;
    uint64_t idle = 0;
    for (size_t answered = 0; answered < asked.size(); cycles++) {
        if (++idle > kMostIdleCycles) return 2;
        const bool offers = sent < asked.size() && coin.toss();
        bench->index_in_valid = offers;
        bench->index_in_key = offers ? asked[sent].first : 0xdeadbeef;
        bench->index_in_changes = offers && asked[sent].second;
        bench->index_out_ready = coin.toss();
        settle();
        const bool moved = offers && bench->index_in_ready;
        if (bench->index_out_valid && bench->index_out_ready) {
            const uint8_t flags = bench->index_out_hit | bench->index_out_evicts << 1
                                | bench->index_out_evicted_changed << 2;
            const uint32_t line = bench->index_out_line;
            const uint32_t evicted = bench->index_out_evicted;
            write_all(&flags, 1);
            write_all(&line, 4);
            write_all(&evicted, 4);
            answered++;
            idle = 0;
        }
        // The time in which the sets are emptied does not count.
        if (sent == 0 && !moved) cycles = 0;
        tick();
        sent += moved;
    }
    write_all(&cycles, 8);
    return 0;
}
