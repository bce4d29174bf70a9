//! Laws of the chunkers: tiling, bounds, independence of pieces, locality of change.
//! Room: onefold-content.

use onefold_content::{ChunkSizes, ChunkSizesError, Chunker, Cut, FastCdc, FixedChunker, Rabin};
use proptest::prelude::*;

use crate::samples::{block, noise};

fn chunkers() -> [Chunker; 3] {
    let sizes = ChunkSizes::new(64, 256, 1024).expect("valid sizes");
    [
        Chunker::Fixed(FixedChunker::new(300).expect("valid size")),
        Chunker::FastCdc(FastCdc::new(sizes)),
        Chunker::Rabin(Rabin::new(sizes)),
    ]
}

fn one_shot(chunker: &Chunker, data: &[u8]) -> Vec<Cut> {
    let cuts: Vec<_> = match chunker {
        Chunker::Fixed(chunker) => chunker.cuts(data).collect(),
        Chunker::FastCdc(chunker) => chunker.cuts(data).collect(),
        Chunker::Rabin(chunker) => chunker.cuts(data).collect(),
    };
    cuts.into_iter().map(|(offset, len)| Cut { offset: offset as u64, len }).collect()
}

proptest! {
    #[test]
    fn pieces_and_one_shot_cut_alike_and_tile_the_stream(
        seed: u64,
        structured in block(12_000),
        len in 0_usize..12_000,
        splits in prop::collection::vec(prop_oneof![1_usize..8, 1_usize..3000], 1..12),
    ) {
        for data in [noise(seed, len), structured] {
            for mut chunker in chunkers() {
                let mut cuts = Vec::new();
                let mut rest = &data[..];
                let mut lens = splits.iter().cycle();
                while let (false, Some(&len)) = (rest.is_empty(), lens.next()) {
                    let (piece, tail) = rest.split_at(len.min(rest.len()));
                    chunker.push(piece, |cut| cuts.push(cut));
                    rest = tail;
                }
                cuts.extend(chunker.finish());
                prop_assert_eq!(chunker.finish(), None, "as new");
                prop_assert_eq!(&cuts, &one_shot(&chunker, &data));
                let mut at = 0;
                for (i, cut) in cuts.iter().enumerate() {
                    prop_assert_eq!(cut.offset, at);
                    at += cut.len as u64;
                    prop_assert!(cut.len <= 1024);
                    prop_assert!(cut.len >= 64 || i + 1 == cuts.len());
                }
                prop_assert_eq!(at, data.len() as u64);
            }
        }
    }
}

#[test]
fn an_insertion_moves_the_cuts_with_the_content() {
    let data = noise(9, 200_000);
    let mut shifted = noise(10, 1237);
    shifted.extend_from_slice(&data);
    for chunker in &chunkers()[1..] {
        let ends = |cuts: Vec<Cut>, shift: u64| -> Vec<u64> {
            cuts.iter().filter_map(|cut| cut.offset.checked_sub(shift)).collect()
        };
        let before = ends(one_shot(chunker, &data), 0);
        let after = ends(one_shot(chunker, &shifted), 1237);
        let common = before.iter().filter(|end| after.binary_search(end).is_ok()).count();
        assert!(common * 10 > before.len() * 9, "{common} of {}", before.len());
    }
}

#[test]
fn constant_data_is_cut_into_equal_chunks() {
    for byte in [0, 0x55, 0xFF] {
        for chunker in &chunkers()[1..] {
            let cuts = one_shot(chunker, &[byte; 10_240]);
            let first = cuts[0].len;
            assert!(cuts[..cuts.len() - 1].iter().all(|cut| cut.len == first), "{byte}");
        }
    }
}

#[test]
fn bad_sizes_are_refused_with_a_reason() {
    use ChunkSizesError::{Avg, Max, Min, Size};
    let check = |min, avg, max, expected| {
        assert_eq!(ChunkSizes::new(min, avg, max), Err(expected));
    };
    check(63, 256, 1024, Min { got: 63 });
    check(64, 300, 1024, Avg { got: 300, min: 64 });
    check(256, 256, 1024, Avg { got: 256, min: 256 });
    check(64, 256, 256, Max { got: 256, avg: 256 });
    check(64, 256, (16 << 20) + 1, Max { got: (16 << 20) + 1, avg: 256 });
    assert!(ChunkSizes::new(64, 128, 129).is_ok());
    assert!(ChunkSizes::new(64, 8 << 20, 16 << 20).is_ok());
    assert_eq!(FixedChunker::new(0).err(), Some(Size { got: 0 }));
    let text = Max { got: 256, avg: 256 }.to_string();
    assert!(text.contains("256") && text.contains("16777216"), "{text}");
}

/// Pieces shorter than a window, of which several make one up.
#[test]
fn pieces_of_any_one_length_cut_as_the_whole() {
    let data = noise(3, 9_001);
    for len in [1, 2, 7, 31, 47, 48, 49, 63, 64, 65, 500] {
        for mut chunker in chunkers() {
            let mut cuts = Vec::new();
            for piece in data.chunks(len) {
                chunker.push(piece, |cut| cuts.push(cut));
            }
            cuts.extend(chunker.finish());
            assert_eq!(cuts, one_shot(&chunker, &data), "{len}");
        }
    }
}

#[test]
fn fixed_sizes_are_accepted_from_the_first_to_the_last() {
    let made =
        [0, 1, ChunkSizes::MAX, ChunkSizes::MAX + 1].map(|size| FixedChunker::new(size).is_ok());
    assert_eq!(made, [false, true, true, false]);
}
