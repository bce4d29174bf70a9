//! What is made of a device and a saved state.
//! Room: onefold-cache.

use std::sync::Arc;

use onefold_block::{Folder as _, SimFolder};

use super::super::index::Place;
use super::super::saved::TierTotals;
use super::super::wear::Wear;
use super::*;

const OWNER: [u8; 16] = [7; 16];
const SHAPE: Shape = Shape { segment_bytes: 192 << 10, segments: 8 };

fn extent(container: u32, cell: u32) -> Extent {
    Extent { container, start: cell * 16_384, len: 64 }
}

fn device() -> (SimFolder, Arc<dyn Media>) {
    let folder = SimFolder::new();
    let media = folder.create("extents").unwrap();
    (folder, media)
}

/// Write a segment with extents of 512 bytes, each with the stamp of its container.
fn write(
    media: &dyn Media,
    slot: u32,
    (sequence, segment_bytes): (u64, u32),
    of: &[(Extent, u64)],
) {
    let mut bytes = vec![0; HEADER_BYTES as usize];
    let mut entries = Vec::new();
    for &(extent, stamp) in of {
        let offset = bytes.len() as u32;
        let seal = segment::Seal { sequence, stamp };
        segment::put(&mut bytes, offset, &extent, seal, &[9; 64]);
        entries.push(Entry { extent, offset, stamp });
    }
    segment::finish(&mut bytes, &OWNER, (sequence, segment_bytes), &entries);
    media.write(u64::from(slot * SHAPE.segment_bytes), &bytes).unwrap();
}

fn empty() -> Decider {
    Decider::new("lru", SHAPE, Wear::new(None)).unwrap()
}

/// What is kept then: extent and place in segment and offset.
fn kept(decider: &Decider) -> Vec<(Extent, (u32, u32))> {
    let all = decider.log.index.placed(0..u32::MAX);
    all.iter().map(|kept| (kept.extent, SHAPE.at(kept.place))).collect()
}

fn read(media: &dyn Media, present: &[u32]) -> (Decider, Found) {
    let mut decider = empty();
    let present = present.iter().copied().collect();
    let found = read_log(media, &OWNER, &mut decider, &present);
    (decider, found)
}

const FULL: u32 = SHAPE.segment_bytes;

#[test]
fn what_segments_tell_of_is_found_where_it_lies() {
    let (_folder, media) = device();
    assert_eq!(segment_bytes(&*media, &OWNER), None);
    assert_eq!(read(&*media, &[1]).1.torn, 0, "nothing was ever written");
    let in_first = [(extent(1, 0), 5), (extent(1, 3), 5), (extent(9, 0), 6)];
    write(&*media, 0, (4, FULL), &in_first);
    write(&*media, 2, (3, FULL), &[(extent(2, 0), 7), (extent(1, 3), 5)]);
    assert_eq!(segment_bytes(&*media, &OWNER), Some(FULL));
    assert_eq!(segment_bytes(&*media, &[8; 16]), None);
    let (decider, found) = read(&*media, &[1, 2, 3]);
    // The newer segment counts, although it comes first; and container 9 is not there any more.
    let expected = [(extent(1, 0), (0, 512)), (extent(1, 3), (0, 1024)), (extent(2, 0), (2, 512))];
    assert_eq!(kept(&decider), expected);
    assert_eq!((found.torn, found.stamps), (0, HashMap::from([(1, 5), (2, 7)])));
    assert_eq!(decider.log.sequence(), 4);
    assert_eq!(decider.log.sequence_at(Place(2 * FULL / 512)), 3);
}

#[test]
fn of_two_containers_of_one_number_the_newer_is_found() {
    let (_folder, media) = device();
    write(&*media, 0, (1, FULL), &[(extent(1, 0), 5), (extent(2, 0), 5)]);
    write(&*media, 1, (2, FULL), &[(extent(1, 1), 6), (extent(1, 2), 6)]);
    let (decider, found) = read(&*media, &[1, 2]);
    let of: Vec<Extent> = kept(&decider).into_iter().map(|(extent, _)| extent).collect();
    assert_eq!(of, [extent(1, 1), extent(1, 2), extent(2, 0)]);
    assert_eq!(found.stamps, HashMap::from([(1, 6), (2, 5)]));
}

/// What is done to a device, of which the folder can flip bits.
type Damage = fn(&SimFolder, &dyn Media);

#[test]
fn a_segment_that_is_not_whole_is_counted_and_nothing_of_it_is_found() {
    let one = [(extent(1, 0), 5)];
    let cases: [(&str, Damage, u64, usize); 6] = [
        ("none", |_, _| {}, 0, 2),
        ("a bit of the header", |folder, _| folder.flip_bit("extents", 24, 1).unwrap(), 1, 1),
        (
            "its last byte",
            |folder, _| {
                folder.flip_bit("extents", u64::from(FULL) + 51, 7).unwrap();
            },
            1,
            1,
        ),
        ("a bit of the table", |folder, _| folder.flip_bit("extents", 1024, 1).unwrap(), 1, 1),
        (
            "a bit of an extent, which is looked at when it is read",
            |folder, _| {
                folder.flip_bit("extents", 600, 1).unwrap();
            },
            0,
            2,
        ),
        (
            "of another size",
            |_, media| {
                write(media, 0, (4, FULL / 2), &[(extent(1, 0), 5)]);
            },
            1,
            1,
        ),
    ];
    for (what, damage, torn, extents) in cases {
        let (folder, media) = device();
        write(&*media, 0, (1, FULL), &one);
        write(&*media, 1, (2, FULL), &[(extent(2, 0), 5)]);
        damage(&folder, &*media);
        let (decider, found) = read(&*media, &[1, 2]);
        assert_eq!((found.torn, decider.log.index.len()), (torn, extents), "{what}");
    }
    // One that ends before its table does.
    let (_folder, media) = device();
    write(&*media, 0, (1, FULL), &one);
    media.set_len(1024 + 27).unwrap();
    assert_eq!(read(&*media, &[1]).1.torn, 1);
    media.set_len(511).unwrap();
    assert_eq!(read(&*media, &[1]).1.torn, 0, "nothing can be said of what is not there");
}

fn saved(state: &State, known: Vec<u64>) -> Saved {
    Saved {
        sequence: 1,
        policy: "lru".to_owned(),
        totals: TierTotals::default(),
        state: state.to_bytes(),
        shape: [FULL.into(), 8],
        per_day: 0,
        known,
        problem: String::new(),
    }
}

#[test]
fn policy_and_log_keep_the_same_afterwards() {
    let (_folder, media) = device();
    let of = |cells: &[u32]| -> Vec<(Extent, u64)> {
        cells.iter().map(|&cell| (extent(1, cell), 5)).collect()
    };
    write(&*media, 0, (4, FULL), &of(&[0, 1]));
    write(&*media, 1, (5, FULL), &of(&[2]));
    write(&*media, 2, (6, FULL), &of(&[3]));
    let entry = |cell: u64, size| StateEntry { key: 1 << 8 | cell, size, word: 0, list: 0 };
    // It knew of an extent that is not there, and of others in another order and size.
    let entries = vec![entry(1, 9), entry(9, 512), entry(0, 512), entry(1, 512)];
    let state = State { entries, ..empty().policy().export() };
    let other = State { policy: "fifo".to_owned(), ..state.clone() };
    let damaged = Saved { state: vec![1, 2, 3], ..saved(&state, vec![6]) };
    for (what, saved, cells) in [
        ("older and unknown: it was let go", Some(saved(&state, vec![5])), &[1, 0, 2, 3][..]),
        ("so was what lies in an older segment", Some(saved(&state, vec![6])), &[1, 0, 3]),
        ("nothing is newer", Some(saved(&state, vec![7])), &[1, 0]),
        ("of another policy", Some(saved(&other, vec![6])), &[3]),
        ("what it knew is lost", Some(damaged), &[3]),
        ("nothing was saved", None, &[0, 1, 2, 3]),
    ] {
        let (mut decider, _) = read(&*media, &[1]);
        warm(&mut decider, saved.as_ref());
        let keeps = decider.policy().export().entries;
        let expected: Vec<StateEntry> = cells.iter().map(|&cell| entry(cell, 512)).collect();
        assert_eq!(keeps, expected, "{what}");
        let mut cells = cells.to_vec();
        cells.sort_unstable();
        let found: Vec<u32> = kept(&decider).iter().map(|(extent, _)| extent.start).collect();
        let starts: Vec<u32> = cells.iter().map(|&cell| cell as u32 * 16_384).collect();
        assert_eq!(found, starts, "{what}");
    }
}
