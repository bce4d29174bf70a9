//! Known answers and batch laws of the fingerprints.
//! Room: onefold-content.

use onefold_content::{Fingerprint, FingerprintKind, Fingerprinter};
use proptest::prelude::*;

use crate::samples::noise;

/// The digest as hexadecimal, without the padding, by itself and in a batch of 20 lanes.
fn digest(kind: FingerprintKind, message: &[u8]) -> String {
    let engine = Fingerprinter::new(kind);
    let single = engine.hash(message);
    let mut batch = [Fingerprint::ZERO; 20];
    engine.hash_many(&[message; 20], &mut batch);
    assert!(batch.iter().all(|&one| one == single));
    let (digest, padding) = single.as_bytes().split_at(kind.digest_len());
    assert!(padding.iter().all(|&b| b == 0));
    let hex = single.to_string();
    assert_eq!(hex.len(), 64);
    hex[..2 * digest.len()].to_owned()
}

#[test]
fn published_vectors() {
    let million = vec![b'a'; 1_000_000];
    let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    // FIPS 180-4 examples (NIST) for SHA-1 and SHA-256.
    let sha256 = FingerprintKind::Sha256;
    let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(digest(sha256, b""), expected);
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(digest(sha256, b"abc"), expected);
    let expected = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
    assert_eq!(digest(sha256, two_blocks), expected);
    let expected = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    assert_eq!(digest(sha256, &million), expected);
    let sha1 = FingerprintKind::Sha1;
    assert_eq!(digest(sha1, b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_eq!(digest(sha1, two_blocks), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    assert_eq!(digest(sha1, &million), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    // The check value of CRC-32/ISO-HDLC is 0xCBF43926; fingerprints hold it little-endian.
    assert_eq!(digest(FingerprintKind::Crc32, b"123456789"), "2639f4cb");
    let expected = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(digest(FingerprintKind::Blake3, b""), expected);
}

#[test]
fn a_key_changes_blake3_and_nothing_else() {
    let data = noise(5, 4096);
    for kind in FingerprintKind::ALL {
        let [plain, one, two] = [
            Fingerprinter::new(kind),
            Fingerprinter::with_key(kind, [1; 32]),
            Fingerprinter::with_key(kind, [2; 32]),
        ]
        .map(|engine| engine.hash(&data));
        let keyed = kind == FingerprintKind::Blake3;
        assert_eq!((plain != one, one != two), (keyed, keyed), "{kind}");
    }
    let keyed = Fingerprinter::with_key(FingerprintKind::Blake3, [9; 32]);
    assert_eq!(keyed.hash(&data).as_bytes(), blake3::keyed_hash(&[9; 32], &data).as_bytes());
    assert!(!format!("{keyed:?}").contains('9'), "the key must not reach a log");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn batches_equal_single_calls(
        runs in prop::collection::vec(
            (
                prop_oneof![Just(512), Just(1024), Just(4096), Just(8192), 0..5000_usize],
                1..40_usize,
            ),
            0..6,
        ),
        key: Option<[u8; 32]>,
    ) {
        let data = noise(77, 16_384);
        let mut blocks: Vec<&[u8]> = Vec::new();
        for (len, count) in runs {
            blocks.extend((0..count).map(|i| &data[i * 11..][..len]));
        }
        for kind in FingerprintKind::ALL {
            let engine = match key {
                Some(key) => Fingerprinter::with_key(kind, key),
                None => Fingerprinter::new(kind),
            };
            prop_assert_eq!(engine.kind(), kind);
            let mut batch = vec![Fingerprint::ZERO; blocks.len()];
            engine.hash_many(&blocks, &mut batch);
            for (block, one) in blocks.iter().zip(batch) {
                prop_assert_eq!(engine.hash(block), one);
            }
        }
    }
}

#[test]
fn prefixes_of_every_kind_spread_over_64_bits() {
    for kind in FingerprintKind::ALL {
        let engine = Fingerprinter::new(kind);
        let prefixes: Vec<u64> =
            (0..4096_u32).map(|i| engine.hash(&i.to_le_bytes()).prefix64()).collect();
        for bit in 0..64 {
            let ones = prefixes.iter().filter(|&&prefix| prefix >> bit & 1 == 1).count();
            assert!((1800..2300).contains(&ones), "{kind} bit {bit}: {ones} of 4096");
        }
        let mut distinct = prefixes;
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 4096, "{kind}");
    }
}

#[test]
fn a_strong_prefix_is_the_first_8_bytes() {
    let mut bytes = [0x11; 32];
    bytes[..8].copy_from_slice(&0x0123_4567_89AB_CDEF_u64.to_le_bytes());
    assert_eq!(Fingerprint::from_bytes(bytes).prefix64(), 0x0123_4567_89AB_CDEF);
}

#[test]
fn names_numbers_and_strength() {
    for kind in FingerprintKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        assert_eq!(FingerprintKind::from_id(kind.id()), Some(kind));
    }
    assert_eq!((0..=255).filter_map(FingerprintKind::from_id).count(), 4);
    assert_eq!(FingerprintKind::default(), FingerprintKind::Blake3);
    let strong = FingerprintKind::ALL.map(FingerprintKind::is_strong);
    assert_eq!(strong, [true, true, false, false]);
    let error = "md5".parse::<FingerprintKind>().expect_err("no such kind");
    assert!(error.to_string().contains("md5") && error.to_string().contains("blake3"));
}

/// All shapes of trees that a block has, in batches that fill the lanes or do not.
#[test]
fn batches_of_every_size_and_length_hash_as_one_by_one() {
    let data = noise(8, 80_000);
    let lens = [0, 1, 511, 512, 513, 1023, 1024, 1025, 2048, 3072, 4096, 5120, 6144, 7168, 16_384];
    for kind in FingerprintKind::ALL {
        let engine = Fingerprinter::with_key(kind, [4; 32]);
        for len in lens {
            let blocks: Vec<&[u8]> = (0..35).map(|at| &data[at * 1000..][..len]).collect();
            let single: Vec<Fingerprint> = blocks.iter().map(|block| engine.hash(block)).collect();
            for count in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 35] {
                let mut batch = vec![Fingerprint::ZERO; count];
                engine.hash_many(&blocks[..count], &mut batch);
                assert_eq!(batch, single[..count], "{kind}: {count} of {len} bytes");
            }
        }
    }
}

#[test]
fn a_short_digest_is_mixed_and_a_long_one_is_itself() {
    let of = |first: u64, second: u64| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..16].copy_from_slice(&second.to_le_bytes());
        Fingerprint::from_bytes(bytes).prefix64()
    };
    assert_eq!([of(5, 7), of(1 << 32, 0), of(u64::MAX, 1)], [5, 1 << 32, u64::MAX]);
    assert_ne!(of(5, 0), 5);
    assert_ne!(of(5, 0), of(6, 0));
}
