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
//   enc [SEED]      in: blocks as messages above. out: for each whether it is raw, 1 byte, its cycles
//                   and its length, 4 bytes each, and its bytes. What the unit drops is left out.
//   dec [SEED]      in: for each block a limit of 4 bytes, then as above. out: for each whether it is
//                   not valid, 1 byte, its cycles and its length, 4 bytes each, and its bytes.
//   index [SEED]    in: for each look-up the number of a bucket, 4 bytes, and whether it is changed,
//                   1 byte. out: a byte, bit 0 "hit", bit 1 "evicts", bit 2 "that was changed"; the
//                   line and the evicted bucket, 4 bytes each. At the end the cycles, 8 bytes.
//   engine [SEED]   in: commands: a byte, bit 0 "hash", bit 1 "compress", bit 2 "decompress", then a
//                   limit of 4 bytes and the chunk as above. out: results: a byte, 0 digest, 1
//                   compressed, 2 raw, 3 decompressed, 4 not valid; the number of the command and the
//                   length, 4 bytes each, and the bytes. At the end a byte of all ones, and the cycles
//                   and the busy cycles of all units of each kind, 8 bytes each.
//
// Cycles of a block are those since the end of the one before it.
// All numbers are little-endian. The clock ticks once for each cycle that is answered.
#include "bench.h"

int main(int argc, char** argv) {
    VerilatedContext context;
    bench = new Vbench{&context};
    const std::string mode = argc > 1 ? argv[1] : "";
    const uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 0;
    int status = 64;
    if (mode == "sha") status = sha(seed);
    if (mode == "array") status = array();
    if (mode == "arbiter") status = arbiter();
    if (mode == "buffer") status = buffer();
    if (mode == "enc") status = lz4_enc(seed);
    if (mode == "dec") status = lz4_dec(seed);
    if (mode == "index") status = index_unit(seed);
    if (mode == "engine") status = engine(seed);
    if (status == 64) fprintf(stderr, "usage: bench MODE [SEED]; main.cpp has the modes\n");
    delete bench;
    return status;
}
