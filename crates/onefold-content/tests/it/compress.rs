//! Laws of the compressors: round trips, length limits, history, corruption.
//! Room: onefold-content.

use onefold_content::{
    Codec, Compression, Compressor, DecompressError, Decompressor, ParseCompressionError,
};
use proptest::prelude::*;

use crate::lz4_format::decode_strictly;
use crate::samples::{block, noise};

const ALL: [Compression; 4] =
    [Compression::Lz4, Compression::Zstd(1), Compression::Zstd(-5), Compression::None];

/// No limit: what any codec may need at most.
fn unlimited(data: &[u8]) -> usize {
    data.len() + data.len() / 100 + 64
}

fn compress(compression: Compression, data: &[u8], max_len: usize) -> (Codec, Vec<u8>) {
    let mut out = Vec::new();
    let codec = Compressor::new(compression).compress_into(data, &mut out, max_len);
    (codec, out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_compressed_comes_back_within_the_limit(
        data in block(70_000),
        limit in 0..80_000_usize,
    ) {
        for compression in ALL {
            for max_len in [limit, unlimited(&data)] {
                let mut out = b"kept".to_vec();
                let mut compressor = Compressor::new(compression);
                let codec = compressor.compress_into(&data, &mut out, max_len);
                prop_assert_eq!(&out[..4], b"kept");
                if codec == Codec::Raw {
                    prop_assert_eq!(out.len(), 4);
                    continue;
                }
                prop_assert!(out.len() - 4 <= max_len);
                let mut back = vec![0xA5; data.len()];
                Decompressor::new().decompress_into(codec, &out[4..], &mut back).expect("valid");
                prop_assert!(back == data, "{compression}");
                if codec == Codec::Lz4 {
                    prop_assert!(decode_strictly(&out[4..]) == data);
                }
            }
        }
    }

    #[test]
    fn the_length_limit_is_exact(data in block(9000)) {
        for compression in [Compression::Lz4, Compression::Zstd(1)] {
            let (codec, whole) = compress(compression, &data, unlimited(&data));
            if codec == Codec::Raw {
                continue;
            }
            let exact = compress(compression, &data, whole.len());
            if compression == Compression::Lz4 {
                prop_assert_eq!(&exact, &(Codec::Lz4, whole.clone()));
            }
            prop_assert_eq!(compress(compression, &data, whole.len() - 1), (Codec::Raw, vec![]));
        }
    }

    #[test]
    fn history_does_not_change_the_encoding(first in block(9000), second in block(70_000)) {
        for compression in ALL {
            let mut used = Compressor::new(compression);
            used.compress_into(&first, &mut Vec::new(), unlimited(&first));
            used.compress_into(&first, &mut Vec::new(), 10);
            let mut out = Vec::new();
            let codec = used.compress_into(&second, &mut out, unlimited(&second));
            prop_assert_eq!((codec, out), compress(compression, &second, unlimited(&second)));
        }
    }

    #[test]
    fn what_is_cut_short_is_refused(data in block(9000), cut: usize) {
        let mut decompressor = Decompressor::new();
        for compression in ALL {
            let (codec, stored) = compress(compression, &data, unlimited(&data));
            let mut out = vec![0; data.len()];
            if !stored.is_empty() {
                let short = &stored[..cut % stored.len()];
                prop_assert!(decompressor.decompress_into(codec, short, &mut out).is_err());
            }
        }
    }

    /// Says nothing of the outcome: a changed bit may well give another valid encoding of as many
    /// bytes. That the bytes are the right ones is for the fingerprint to say.
    #[test]
    fn corrupt_input_never_panics(data in block(9000), seed: u64, cut in 0..9000_usize) {
        let mut decompressor = Decompressor::new();
        for compression in ALL {
            let (codec, mut stored) = compress(compression, &data, unlimited(&data));
            let mut out = vec![0; data.len()];
            if !stored.is_empty() {
                let at = seed as usize % stored.len();
                stored[at] ^= 1 << (seed >> 32 & 7);
                drop(decompressor.decompress_into(codec, &stored, &mut out));
                stored.truncate(cut % stored.len());
                drop(decompressor.decompress_into(codec, &stored, &mut out));
            }
            let garbage = noise(seed, cut);
            for codec in [Codec::Lz4, Codec::Zstd] {
                drop(decompressor.decompress_into(codec, &garbage, &mut out));
            }
        }
    }
}

#[test]
fn every_short_length_and_the_table_limits_come_back() {
    let mut compressor = Compressor::new(Compression::Lz4);
    let lens = (1..300).chain([4095, 4096, 4097, 65_535, 65_536, 65_537, 131_072, 1 << 20]);
    for len in lens {
        let mut data = noise(len as u64, len);
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = if i / 100 % 2 == 0 { *byte % 5 } else { (i / 500) as u8 };
        }
        let mut out = Vec::new();
        assert_eq!(compressor.compress_into(&data, &mut out, unlimited(&data)), Codec::Lz4);
        assert!(decode_strictly(&out) == data, "{len} bytes");
    }
}

#[test]
fn half_random_blocks_halve() {
    let mut data = vec![0; 4096];
    for (segment, random) in data.chunks_mut(512).zip(noise(0x5EED, 2048).chunks(256)) {
        segment[..256].copy_from_slice(random);
    }
    let (codec, stored) = compress(Compression::Lz4, &data, 4096 - 512);
    assert_eq!(codec, Codec::Lz4);
    assert!((2048..2130).contains(&stored.len()), "{}", stored.len());
}

#[test]
fn noise_and_nothing_are_stored_raw() {
    for compression in ALL {
        let data = noise(3, 4096);
        assert_eq!(compress(compression, &data, 4096 - 512), (Codec::Raw, vec![]));
        assert_eq!(compress(compression, &[], 100), (Codec::Raw, vec![]));
        assert_eq!(compress(compression, &[0; 4096], 0), (Codec::Raw, vec![]));
    }
}

#[test]
fn wrong_lengths_are_named() {
    let mut decompressor = Decompressor::new();
    let mut check = |codec, stored: &[u8], len: usize, expected: DecompressError| {
        let got = decompressor.decompress_into(codec, stored, &mut vec![0; len]);
        assert_eq!(got, Err(expected));
    };
    check(Codec::Raw, b"abc", 4, DecompressError::RawLength { stored: 3, expected: 4 });
    check(Codec::Raw, b"abc", 2, DecompressError::RawLength { stored: 3, expected: 2 });
    for (compression, codec) in
        [(Compression::Lz4, Codec::Lz4), (Compression::Zstd(3), Codec::Zstd)]
    {
        let (_, stored) = compress(compression, &[7; 1000], 500);
        let malformed = DecompressError::Malformed { codec, stored: stored.len() };
        check(codec, &stored, 999, malformed);
        check(
            codec,
            &stored,
            1001,
            DecompressError::Length { codec, decoded: 1000, expected: 1001 },
        );
    }
    for codec in [Codec::Lz4, Codec::Zstd] {
        assert!(decompressor.decompress_into(codec, &[], &mut [0; 10]).is_err());
    }
}

#[test]
fn the_front_of_a_chunk_comes_back_whatever_was_decoded_before() {
    // Some blocks of zstd, of at most 128 KiB each.
    let data: Vec<u8> = noise(9, 500_000).iter().map(|byte| byte % 17).collect();
    let mut decompressor = Decompressor::new();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(3)] {
        let (codec, mut stored) = compress(compression, &data, unlimited(&data));
        if codec == Codec::Raw {
            stored.clone_from(&data);
        }
        let mut out = vec![0; data.len()];
        for front in [0, 1, 131_072, 131_073, 300_000, 499_999, 500_000] {
            out.fill(0xA5);
            decompressor.decompress_front(codec, &stored, &mut out, front).expect("valid");
            assert!(out[..front] == data[..front], "{front} bytes of {codec}");
            decompressor.decompress_into(codec, &stored, &mut out).expect("valid");
            assert!(out == data, "{codec} after {front} bytes");
        }
        // Too little was stored, or what belongs to a shorter or a longer chunk.
        let cut = &stored[..stored.len() / 2];
        assert!(decompressor.decompress_front(codec, cut, &mut out, 400_000).is_err(), "{codec}");
        let (_, short) = compress(compression, &data[..400_000], unlimited(&data));
        assert!(decompressor.decompress_front(codec, &short, &mut out, 400_001).is_err());
        let longer = decompressor.decompress_front(codec, &stored, &mut out[..499_999], 400_000);
        assert!(longer.is_err(), "{codec}");
    }
    // Of zstd nothing is decoded that nobody wants.
    let (codec, mut stored) = compress(Compression::Zstd(3), &data, unlimited(&data));
    let len = stored.len();
    stored[len / 2..].fill(0xFF);
    let mut out = vec![0; data.len()];
    decompressor.decompress_front(codec, &stored, &mut out, 100_000).expect("valid up to there");
    assert!(out[..100_000] == data[..100_000]);
    let malformed = DecompressError::Malformed { codec, stored: len };
    let all = decompressor.decompress_front(codec, &stored, &mut out, 499_999);
    assert_eq!(all, Err(malformed));
    decompressor.decompress_front(codec, &stored, &mut out, 1).expect("valid after an error");
}

#[test]
fn names_and_numbers_go_both_ways() {
    for text in ["none", "lz4", "zstd:3", "zstd:-7", "zstd:19"] {
        assert_eq!(text.parse::<Compression>().map(|c| c.to_string()), Ok(text.to_owned()));
    }
    assert_eq!("zstd".parse(), Ok(Compression::Zstd(3)));
    assert_eq!(Compression::default(), Compression::Lz4);
    for level in ["20", "-8", "", "x", "3.5"] {
        let expected = ParseCompressionError::BadLevel(level.to_owned());
        assert_eq!(format!("zstd:{level}").parse::<Compression>(), Err(expected));
    }
    for name in ["", "LZ4", "gzip", "zstd3", "lz4:1"] {
        let expected = ParseCompressionError::UnknownName(name.to_owned());
        assert_eq!(name.parse::<Compression>(), Err(expected));
    }
    let codecs: Vec<_> = (0..=255).filter_map(Codec::from_id).collect();
    assert_eq!(codecs, [Codec::Raw, Codec::Lz4, Codec::Zstd]);
    assert!(codecs.iter().all(|&codec| Codec::from_id(codec.id()) == Some(codec)));
}

#[test]
fn the_numbers_on_disk_stand_for_the_same_compression_for_ever() {
    let known = [
        (Compression::None, (0, 0)),
        (Compression::Lz4, (1, 0)),
        (Compression::Zstd(-7), (2, -7)),
        (Compression::Zstd(19), (2, 19)),
    ];
    for (compression, numbers) in known {
        assert_eq!(compression.numbers(), numbers);
        assert_eq!(Compression::from_numbers(numbers.0, numbers.1), Some(compression));
    }
    for (codec, level) in [(2, -8), (2, 20), (2, i32::MIN), (3, 0), (255, 3)] {
        assert_eq!(Compression::from_numbers(codec, level), None);
    }
}

/// Of few letters: matches begin in the first bytes, and go on before where they are found.
#[test]
fn short_blocks_that_repeat_themselves_early_come_back() {
    let mut compressor = Compressor::new(Compression::Lz4);
    let mut random = onefold_block::SplitMix64::new(2);
    let mut smaller = 0;
    for round in 0..6_000 {
        let letters = 2 + round % 3;
        let start: Vec<u8> =
            (0..3 + random.below(9)).map(|_| random.below(letters) as u8).collect();
        let mut data = start.clone();
        while data.len() < 40 {
            data.extend((0..random.below(3)).map(|_| random.below(letters) as u8));
            data.extend(&start[random.below(start.len() as u64) as usize..]);
        }
        let mut stored = Vec::new();
        if compressor.compress_into(&data, &mut stored, data.len() - 1) == Codec::Lz4 {
            smaller += 1;
            assert_eq!(decode_strictly(&stored), data, "{round}");
        }
    }
    assert!(smaller > 3_000, "{smaller}");
}
