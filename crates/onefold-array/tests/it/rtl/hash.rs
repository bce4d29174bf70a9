//! Hash units and their array against SHA-256 in software.

use onefold_block::SplitMix64;
use onefold_content::{FingerprintKind, Fingerprinter};

use super::{ask, bench, bytes, dose, framed};

/// Lengths around every border of the padding, the vectors of FIPS 180-4, and random chunks.
fn messages(random: &mut SplitMix64) -> Vec<Vec<u8>> {
    let two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    let mut all = vec![b"abc".to_vec(), two_blocks.into(), vec![b'a'; 20_000]];
    all.extend((0..=130).map(|length| bytes(random, length)));
    all.extend((0..dose(24)).map(|_| {
        // Short ones as often as long ones.
        let most = 1 << random.below(17);
        let length = 1 + random.below(most);
        bytes(random, length)
    }));
    all
}

#[test]
fn a_hash_unit_computes_sha_256_at_any_pace() {
    let Some(bench) = bench() else { return };
    let all = messages(&mut SplitMix64::new(1));
    let hasher = Fingerprinter::new(FingerprintKind::Sha256);
    for args in [&["sha"][..], &["sha", "77"]] {
        let answers = ask(bench, args, framed(&all));
        assert_eq!(answers.len(), 36 * all.len());
        for (message, answer) in all.iter().zip(answers.chunks(36)) {
            let expected = hasher.hash(message);
            assert_eq!(answer[..32], expected.as_bytes()[..], "{args:?}: {} bytes", message.len());
            let cycles = u64::from(u32::from_le_bytes(answer[32..].try_into().unwrap()));
            // The padding is a bit and 8 bytes of length.
            let blocks = (message.len() as u64 + 9).div_ceil(64);
            let stalls = args.len() > 1;
            assert!(cycles == 65 * blocks || stalls && cycles > 65 * blocks, "{cycles} {blocks}");
        }
    }
}

#[test]
fn an_array_answers_every_chunk_and_its_units_do_not_idle() {
    let Some(bench) = bench() else { return };
    let random = &mut SplitMix64::new(2);
    let equal: Vec<Vec<u8>> = (0..120).map(|_| bytes(random, 4096)).collect();
    for (all, busiest) in [(equal, true), (messages(random), false)] {
        let answers = ask(bench, &["array"], framed(&all));
        assert_eq!(answers.len(), 36 * all.len() + 52);
        let hasher = Fingerprinter::new(FingerprintKind::Sha256);
        let mut seen = vec![false; all.len()];
        for answer in answers.chunks(36).take(all.len()) {
            let number = u32::from_le_bytes(answer[32..].try_into().unwrap()) as usize;
            assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
            assert_eq!(answer[..32], hasher.hash(&all[number]).as_bytes()[..], "{number}");
        }
        let word = |from_end: usize| {
            let at = answers.len() - from_end;
            u64::from_le_bytes(answers[at..at + 8].try_into().unwrap())
        };
        let (cycles, busy) = (word(16), word(8));
        assert!(!busiest || busy as f64 > 0.95 * 4.0 * cycles as f64, "{busy} of 4 x {cycles}");
    }
}
