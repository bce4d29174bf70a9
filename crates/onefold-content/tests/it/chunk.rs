//! Laws of the chunkers.
//! Room: onefold-content.

use onefold_content::{ChunkSizes, Chunker, Cut, FastCdc, FixedChunker, Rabin};
use proptest::prelude::*;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

fn chunkers() -> Vec<Chunker> {
    let sizes = ChunkSizes::new(64, 256, 1024).expect("valid sizes");
    vec![
        Chunker::Fixed(FixedChunker::new(300).expect("valid sizes")),
        Chunker::FastCdc(FastCdc::new(sizes)),
        Chunker::Rabin(Rabin::new(sizes)),
    ]
}

fn one_shot(chunker: &Chunker, data: &[u8]) -> Vec<Cut> {
    let cuts: Vec<_> = match chunker {
        Chunker::Fixed(c) => c.cuts(data).collect(),
        Chunker::FastCdc(c) => c.cuts(data).collect(),
        Chunker::Rabin(c) => c.cuts(data).collect(),
    };
    cuts.into_iter().map(|(offset, len)| Cut { offset: offset as u64, len }).collect()
}

proptest! {
    #[test]
    fn pieces_and_one_shot_cut_alike(
        seed: u64,
        len in 0_usize..12_000,
        splits in prop::collection::vec(0_usize..3000, 1..12),
    ) {
        let data = noise(seed, len);
        for mut chunker in chunkers() {
            let mut cuts = Vec::new();
            let mut rest = &data[..];
            for &split in splits.iter().cycle().take(10_000) {
                if rest.is_empty() { break }
                let (piece, tail) = rest.split_at(split.max(1).min(rest.len()));
                chunker.push(piece, |cut| cuts.push(cut));
                rest = tail;
            }
            cuts.extend(chunker.finish());
            prop_assert_eq!(&cuts, &one_shot(&chunker, &data));
            let mut at = 0;
            for cut in &cuts {
                prop_assert_eq!(cut.offset, at);
                at += cut.len as u64;
            }
            prop_assert_eq!(at, data.len() as u64);
        }
    }
}
