//! What must stay as it is: where chunks end, what our encoder makes of a block, and limits of
//! lengths on both sides.
//! Room: onefold-content.
//! Chunks that end elsewhere deduplicate against nothing that is stored already.

use onefold_content::{
    ChunkSizes, Chunker, Codec, Compression, Compressor, FastCdc, FixedChunker, Rabin,
    looks_incompressible,
};

use crate::lz4_format::decode_strictly;
use crate::samples::noise;

/// Blocks between noise and text: pieces of noise, runs, and copies from further back.
fn sample(seed: u64, len: usize) -> Vec<u8> {
    let draws = noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), 8 * len / 3 + 64);
    let (mut out, mut at) = (Vec::new(), 0);
    while out.len() < len {
        let [kind, a, b, c] = [0, 1, 2, 3].map(|i| usize::from(draws[at + i]));
        at += 4;
        match kind % 4 {
            0 => {
                out.extend_from_slice(&draws[at..at + a % 40]);
                at += a % 40;
            }
            1 => out.resize(out.len() + a % 90, b as u8),
            _ => {
                let from = out.len().saturating_sub(1 + (b + 256 * c) % (1 << (3 + kind % 13)));
                for i in from..from + a % 70 {
                    out.push(out.get(i).copied().unwrap_or(7));
                }
            }
        }
    }
    out.truncate(len);
    out
}

#[test]
fn our_encoder_makes_the_same_of_every_block() {
    let mut encoder = Compressor::new(Compression::Lz4);
    let mut all = crc32fast::Hasher::new();
    let (mut bytes, mut stored) = (0, 0);
    let lens =
        (1..80).chain([255, 256, 270, 271, 525, 526, 1000, 4095, 4096, 9000, 65_535, 65_536]);
    for (seed, len) in (1..).zip(lens) {
        for data in [sample(seed, len), noise(seed, len), vec![3; len]] {
            let mut out = Vec::new();
            assert_eq!(encoder.compress_into(&data, &mut out, 2 * len + 40), Codec::Lz4);
            assert!(decode_strictly(&out) == data, "seed {seed}");
            all.update(&out);
            bytes += data.len();
            stored += out.len();
            let mut again = Vec::new();
            assert_eq!(encoder.compress_into(&data, &mut again, out.len()), Codec::Lz4);
            assert!(again == out);
            assert_eq!(encoder.compress_into(&data, &mut again, out.len() - 1), Codec::Raw);
            assert!(again == out, "what is too long leaves nothing behind");
        }
    }
    assert_eq!((bytes, stored, all.finalize()), ENCODED);
}

#[test]
fn chunks_end_where_they_always_did() {
    let mut found = Vec::new();
    for (min, avg, max) in
        [(64, 128, 129), (64, 256, 1024), (100, 1024, 1500), (2048, 8192, 65_536)]
    {
        let sizes = ChunkSizes::new(min, avg, max).expect("valid sizes");
        let chunkers = [
            Chunker::Fixed(FixedChunker::new(avg + 1).expect("valid size")),
            Chunker::FastCdc(FastCdc::new(sizes)),
            Chunker::Rabin(Rabin::new(sizes)),
        ];
        for mut chunker in chunkers {
            let (mut ends, mut count) = (crc32fast::Hasher::new(), 0);
            for data in [noise(5, 300_000), sample(6, 300_000), vec![0; 70_000]] {
                let mut note = |len: usize| {
                    ends.update(&len.to_le_bytes());
                    count += 1;
                };
                data.chunks(777).for_each(|piece| chunker.push(piece, |cut| note(cut.len)));
                chunker.finish().into_iter().for_each(|cut| note(cut.len));
            }
            found.push((count, ends.finalize()));
        }
    }
    assert_eq!(found, CHUNKS, "{found:#x?}");
}

#[test]
fn chunkers_know_their_sizes() {
    let sizes = ChunkSizes::new(64, 256, 1024).expect("valid sizes");
    assert_eq!((sizes.min(), sizes.avg(), sizes.max()), (64, 256, 1024));
    assert_eq!((FastCdc::new(sizes).sizes(), Rabin::new(sizes).sizes()), (sizes, sizes));
    assert!(FixedChunker::new(16 << 20).is_ok() && FixedChunker::new((16 << 20) + 1).is_err());
    assert!(FixedChunker::new(1).is_ok());
}

/// From evenly spread to uneven, in small steps: which blocks are still taken for random.
#[test]
fn the_line_between_random_and_uneven_is_where_it_was() {
    let mut found = Vec::new();
    for len in [2047, 2048, 3000, 4095, 4096, 4097, 6000, 8192, 8193, 12_288] {
        let mut judged = 0u64;
        for step in 0..64 {
            let mut data = noise(step + 1000 * len as u64, len);
            for (i, byte) in data.iter_mut().enumerate() {
                if (i as u64 * 37 + step) % 160 < step {
                    *byte &= 0x3f;
                }
            }
            judged |= u64::from(looks_incompressible(&data)) << step;
        }
        found.push(judged);
    }
    assert_eq!(found, JUDGED, "{found:#x?}");
}

#[test]
fn zstd_is_asked_at_every_level_and_lies_within_the_bound() {
    let data = sample(9, 20_000);
    for level in Compression::ZSTD_LEVELS {
        let mut compressor = Compressor::new(Compression::Zstd(level));
        assert_eq!(compressor.compression(), Compression::Zstd(level));
        let mut out = vec![1, 2];
        assert_eq!(compressor.compress_into(&data, &mut out, data.len()), Codec::Zstd);
        assert!(out.len() - 2 < data.len() * 3 / 4, "level {level}: {} bytes", out.len());
    }
    for (asked, made) in [(-100, -7), (100, 19)] {
        let [mut one, mut other] =
            [asked, made].map(|level| Compressor::new(Compression::Zstd(level)));
        let [mut a, mut b] = [Vec::new(), Vec::new()];
        one.compress_into(&data, &mut a, data.len());
        other.compress_into(&data, &mut b, data.len());
        assert!(a == b, "{asked} is taken for {made}");
    }
    // Noise is not tried above level 0, and is below, where it does not fit either.
    let noise = noise(4, 8192);
    for (level, expected) in [(1, Codec::Raw), (3, Codec::Raw), (-1, Codec::Zstd)] {
        let mut out = Vec::new();
        let mut compressor = Compressor::new(Compression::Zstd(level));
        assert_eq!(compressor.compress_into(&noise, &mut out, 9000), expected, "level {level}");
    }
}

const ENCODED: (usize, usize, u32) = (463_575, 199_208, 0x1812_58fd);
const CHUNKS: [(usize, u32); 12] = [
    (5195, 0x358a_065d),
    (5330, 0x2b64_6fe6),
    (6257, 0x6644_f20f),
    (2609, 0x6590_d88f),
    (2087, 0xce7f_5fb3),
    (1891, 0x8b08_aa68),
    (655, 0x3166_a6eb),
    (580, 0x7d62_e182),
    (720, 0x2ac9_f697),
    (83, 0xea78_54dd),
    (64, 0xf344_749a),
    (58, 0x0fe3_8a28),
];
const JUDGED: [u64; 10] = [
    0x0,
    0xf_ffff_ffff_ffff,
    0x4_3dff_3fff_ffff,
    0xfc3_ffff_ffff,
    0x33f_f31f_ffff,
    0xc_4cff_ffff,
    0x7_ffff_ffff,
    0xc00_ffff_ffff,
    0xc0_cf3f_ffff,
    0x13_cfff_ffff,
];
