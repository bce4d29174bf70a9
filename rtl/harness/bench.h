// What all parts of the bench share: the clock, bytes on pipes, words of messages.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "Vbench.h"
#include "verilated.h"

// More cycles than any message takes: a module that hangs ends the process with 2.
inline constexpr uint64_t kMostIdleCycles = 1 << 20;

inline Vbench* bench = nullptr;
// The clock of the module that is driven.
inline CData* module_clock = nullptr;

inline void settle() {
    *module_clock = 0;
    bench->eval();
}

inline void tick() {
    *module_clock = 1;
    bench->eval();
}

inline void reset(CData& clock) {
    module_clock = &clock;
    bench->rst = 1;
    settle();
    tick();
    settle();
    tick();
    bench->rst = 0;
}

inline bool read_all(void* to, size_t size) { return fread(to, 1, size, stdin) == size; }

inline void write_all(const void* from, size_t size) { fwrite(from, 1, size, stdout); }

inline bool read_number(uint32_t& number) {
    uint8_t bytes[4];
    if (!read_all(bytes, 4)) return false;
    number = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | uint32_t(bytes[3]) << 24;
    return true;
}

inline bool read_message(std::vector<uint8_t>& message) {
    uint32_t size = 0;
    if (!read_number(size)) return false;
    message.resize(size);
    return size == 0 || read_all(message.data(), size);
}

// The word of a message at a place, and how many of its bytes are the message's.
inline uint32_t word_at(const std::vector<uint8_t>& message, size_t at, uint32_t& bytes) {
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
inline size_t words_of(const std::vector<uint8_t>& message) {
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

inline void append(std::vector<uint8_t>& to, uint64_t word, int width, int count) {
    for (int i = 0; i < count; i++) to.push_back(uint8_t(word >> (8 * (width - 1 - i))));
}

// Up to `width` bytes of a block as a word, the first in the upper ones.
inline uint64_t word_of(const std::vector<uint8_t>& bytes, size_t at, int width, uint32_t& count) {
    uint64_t word = 0;
    count = 0;
    for (int i = 0; i < width; i++) {
        const bool there = at + i < bytes.size();
        word = word << 8 | (there ? bytes[at + i] : 0xa5);
        count += there;
    }
    return word;
}

// The modules, each in the mode that main.cpp describes: what the process ends with.
int sha(uint64_t seed);
int array();
int arbiter();
int buffer();
int lz4_enc(uint64_t seed);
int lz4_dec(uint64_t seed);
int index_unit(uint64_t seed);
int engine(uint64_t seed);
