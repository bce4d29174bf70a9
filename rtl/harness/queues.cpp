// rr_arbiter and buffer.
#include "bench.h"

int arbiter() {
    reset(bench->arbiter_clk);
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
    reset(bench->buffer_clk);
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
