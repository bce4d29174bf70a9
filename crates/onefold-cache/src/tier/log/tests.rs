//! What a log does with extents, step by step.
//! Room: onefold-cache.

use onefold_block::SplitMix64;

use super::*;

#[test]
fn segments_are_written_from_end_to_end_and_hold_what_the_index_says() {
    let shape = Shape::of(4 << 20);
    assert!(shape.segments >= 20, "{shape:?}");
    let mut log = Log::new(shape);
    let mut random = SplitMix64::new(9);
    let (mut put, mut moved, mut opened) = (0, 0, 0);
    for step in 0..20_000 {
        let container = random.below(100) as u32;
        let extent = Extent {
            container,
            start: random.below(30) as u32 * CELL,
            len: (1 + random.below(256) as u32) * 64,
        };
        let mut steps = Vec::new();
        log.put(extent, None, &mut steps);
        for step in &steps {
            match *step {
                Step::Put { extent, .. } => put += u64::from(extent.flash_bytes()),
                Step::Move { from, .. } => {
                    moved += u64::from(from.extent.flash_bytes());
                    assert!(from.uses > 0);
                }
                Step::Open { .. } => opened += 1,
                Step::Seal { .. } | Step::Drop(_) => {}
            }
        }
        if let Some(kept) = log.index.covering(container, extent.start) {
            if random.below(2) == 0 {
                log.touch(kept);
            }
            if random.below(20) == 0 {
                log.remove(kept.extent.key());
            }
        }
        if step % 500 == 0 {
            check(&log);
        }
    }
    assert!(opened > 100 && moved > 0, "{opened} segments, {moved} bytes moved");
    assert!(moved * 1000 <= put * MOVED_PER_MILLE, "{moved} of {put}");
}

const CELL: u32 = super::super::extent::CELL_BYTES;

/// Live bytes are those of the index, and no two extents lie on one another.
fn check(log: &Log) {
    let on_device = |kept: &Kept| kept.place != Place::HELD;
    let mut all: Vec<Kept> = log.index.iter().filter(on_device).collect();
    all.sort_unstable_by_key(|kept| kept.place);
    let bytes: u64 = all.iter().map(|kept| u64::from(kept.extent.flash_bytes())).sum();
    assert_eq!(log.live_bytes(), bytes);
    let empty = log.segments.iter().filter(|segment| segment.sequence == 0).count();
    assert_eq!((log.empty as usize, log.has_empty_segment()), (empty, empty > 0));
    for pair in all.windows(2) {
        let end = pair[0].place.0 + pair[0].extent.flash_bytes() / ALIGN;
        assert!(end <= pair[1].place.0, "{pair:?}");
    }
    for (slot, segment) in log.segments.iter().enumerate() {
        let of = || all.iter().filter(|kept| log.shape.at(kept.place).0 == slot as u32);
        let used = of().filter(|kept| kept.uses > 0);
        let used: u32 = used.map(|kept| kept.extent.flash_bytes()).sum();
        assert_eq!(segment.used, used);
    }
}

/// Segments that hold six of the extents of [`small`].
const SIX: Shape = Shape { segment_bytes: 4096, segments: 8 };

/// An extent that takes 512 bytes on the device.
fn small(container: u32) -> Extent {
    Extent { container, start: 0, len: 64 }
}

fn put(log: &mut Log, extent: Extent, left: Option<u64>) -> Vec<Step> {
    let mut steps = Vec::new();
    assert!(log.put(extent, left, &mut steps), "{extent:?}");
    steps
}

fn touch(log: &mut Log, container: u32, times: u32) {
    for _ in 0..times {
        let kept = log.index.by_key(small(container).key()).unwrap();
        log.touch(kept);
    }
}

/// All segments are full: extents 0 to 5 lie in segment 0, 6 to 11 in segment 1, and so on.
fn full() -> Log {
    let mut log = Log::new(SIX);
    for container in 0..48 {
        put(&mut log, small(container), None);
    }
    log.purse = 0;
    log
}

#[test]
fn shapes_are_these() {
    for (bytes, segment_bytes, segments) in [
        (0, 196_608, 8),
        (10 * 196_608 - 1, 196_608, 9),
        (64 * 200_703, 196_608, 65),
        (64 * 200_704, 200_704, 64),
        (1 << 30, 16 << 20, 64),
        (65 << 24, 16 << 20, 65),
        (u64::MAX, 16 << 20, 131_071),
    ] {
        assert_eq!(Shape::of(bytes), Shape { segment_bytes, segments }, "{bytes}");
    }
    // Every place has a number, and the last number stands for memory.
    let least = Shape { segment_bytes: ALIGN, segments: 8 };
    assert_eq!(least.resized(u64::MAX).segments, u32::MAX - 1);
    let shape = Shape { segment_bytes: 196_608, segments: 10 };
    assert_eq!(shape.usable_bytes(), 1_519_744);
}

#[test]
fn a_segment_takes_what_fits_with_its_header_and_its_table() {
    // A header, two extents, two entries and the table's checksum.
    for (segment_bytes, second) in [(512 + 2 * 512 + 2 * 24 + 4, 0), (512 + 1024 + 51, 1)] {
        let mut log = Log::new(Shape { segment_bytes, segments: 8 });
        let each = segment_bytes / ALIGN;
        assert_eq!(
            put(&mut log, small(0), None),
            [Step::Open { slot: 0, sequence: 1 }, Step::Put { extent: small(0), to: Place(1) },]
        );
        let steps = put(&mut log, small(1), None);
        let to = Place(second * each + 2 - second);
        assert_eq!(steps.last(), Some(&Step::Put { extent: small(1), to }));
        let opened = [Step::Seal { slot: 0 }, Step::Open { slot: 1, sequence: 2 }];
        assert_eq!(steps[..steps.len() - 1], opened[..2 * second as usize]);
        assert_eq!(log.sequence_at(to), u64::from(second) + 1);
    }
}

#[test]
fn of_the_oldest_quarter_the_segment_goes_of_which_least_was_used_or_left() {
    // What was used, how often; what went; which segment is written over.
    type Case = (&'static [(u32, u32)], &'static [u32], u32);
    let cases: [Case; 9] = [
        (&[], &[], 0),
        (&[(3, 1)], &[], 1),
        (&[(3, 1), (7, 1)], &[], 0),
        (&[(3, 1), (7, 3)], &[], 0),
        (&[(3, 1), (4, 1), (7, 3)], &[], 1),
        (&[], &[8], 1),
        (&[], &[8, 2], 0),
        (&[(7, 1)], &[8, 9], 0),
        (&[], &[12, 13, 14], 0),
    ];
    for (used, gone, opened) in cases {
        let mut log = full();
        for &(container, times) in used {
            touch(&mut log, container, times);
        }
        for &container in gone {
            assert!(log.remove(small(container).key()).is_some());
        }
        check(&log);
        let steps = put(&mut log, small(99), None);
        let open = Step::Open { slot: opened, sequence: 9 };
        assert_eq!(steps[..2], [Step::Seal { slot: 7 }, open], "{used:?} {gone:?}");
    }
}

/// What became of the extents of segment 0, which is written over, in their order.
fn fates(used: &[(u32, u32)], purse: u64, left: Option<u64>) -> Vec<(u32, &'static str)> {
    let mut log = full();
    // Segment 1 is used more than segment 0, or that would go.
    for container in 6..12 {
        touch(&mut log, container, 1);
    }
    for &(container, times) in used {
        touch(&mut log, container, times);
    }
    log.purse = purse;
    let steps = put(&mut log, small(99), left);
    check(&log);
    let spent = steps.iter().filter(|step| matches!(step, Step::Move { .. })).count() as u64;
    assert_eq!(log.purse, purse - spent * 512_000 + 512 * MOVED_PER_MILLE);
    let mut next = 1;
    let fate = |step: &Step| match *step {
        Step::Move { from, sequence, to } => {
            assert_eq!((sequence, to), (1, Place(next)));
            next += 1;
            let kept = log.index.by_key(from.extent.key()).unwrap();
            assert_eq!((kept.place, kept.uses), (to, 0), "it has to be used anew");
            Some((from.extent.container, "moves"))
        }
        Step::Drop(kept) => {
            assert_eq!(log.index.by_key(kept.extent.key()), None);
            Some((kept.extent.container, "goes"))
        }
        _ => None,
    };
    steps.iter().filter_map(fate).collect()
}

#[test]
fn what_was_used_most_moves_first_as_far_as_may_be_written() {
    let rest = |from: u32| (from..6).map(|container| (container, "goes"));
    let all = |first: &[(u32, &'static str)], from| -> Vec<(u32, &'static str)> {
        first.iter().copied().chain(rest(from)).collect()
    };
    let rich = 1 << 40;
    let two = [(0, 1), (1, 2)];
    let moved = all(&[(1, "moves"), (0, "moves")], 2);
    let one = all(&[(1, "moves"), (0, "goes")], 2);
    let none = all(&[(1, "goes"), (0, "goes")], 2);
    // A move costs a thousand times its bytes.
    assert_eq!(fates(&two, rich, None), moved);
    assert_eq!(fates(&two, 1_024_000, None), moved);
    assert_eq!(fates(&two, 1_023_999, None), one);
    assert_eq!(fates(&two, 512_000, None), one);
    assert_eq!(fates(&two, 511_999, None), none);
    // The new extent may need a header, and has an entry, as has each that moves.
    let new = 512 + 2 * 24 + 512;
    for (left, expected) in [
        (new + 2 * 536, &moved),
        (new + 2 * 536 - 1, &one),
        (new + 536, &one),
        (new + 535, &none),
        (0, &none),
    ] {
        assert_eq!(fates(&two, rich, Some(left)), *expected, "{left}");
    }
    // No more than half a segment and an extent.
    let five = [(0, 3), (1, 3), (2, 2), (3, 2), (4, 1)];
    let moves: Vec<_> = (0..5).map(|container| (container, "moves")).collect();
    assert_eq!(fates(&five, rich, None), all(&moves, 5));
}

#[test]
fn a_segment_that_could_not_be_written_goes_with_all_that_is_in_it_and_comes_next() {
    let mut log = full();
    for (slot, sequence) in [(3, 3), (3, 5), (8, 9)] {
        assert_eq!(log.lost(slot, sequence), [], "another turn of it, or none");
    }
    assert_eq!(log.index.len(), 48);
    let gone: Vec<u32> = log.lost(3, 4).iter().map(|kept| kept.extent.container).collect();
    assert_eq!(gone, [18, 19, 20, 21, 22, 23]);
    check(&log);
    assert_eq!((log.index.len(), log.live_bytes()), (42, 42 * 512));
    assert_eq!(put(&mut log, small(99), None)[1], Step::Open { slot: 3, sequence: 9 });
    assert_eq!(log.lost(3, 4), [], "it has another number now");
    check(&log);
}

#[test]
fn a_segment_is_closed_once_and_only_if_there_is_something_in_it() {
    let mut log = Log::new(SIX);
    assert_eq!(log.seal(), None);
    put(&mut log, small(0), None);
    assert_eq!((log.is_filling(), log.sequence()), (true, 1));
    assert_eq!((log.seal(), log.is_filling()), (Some(Step::Seal { slot: 0 }), false));
    assert_eq!(log.seal(), None);
    log.filling = Some(Filling { slot: 2, end: HEADER_BYTES, extents: 0 });
    assert_eq!((log.seal(), log.is_filling()), (None, false));
}

#[test]
fn of_what_is_found_the_newer_counts() {
    let at = |start: u32, len: u32| Extent { container: 5, start, len };
    // What was there, what is found, and whether the first is still kept then.
    for (old, new, stays) in [
        (at(CELL, 1024), at(CELL + 960, 64), false),
        (at(CELL - 64, 128), at(CELL, 64), false),
        (at(CELL - 64, 64), at(CELL, 64), true),
        (at(CELL, 64), at(CELL - 64, 64), true),
        (at(CELL, 64), at(CELL - 64, 128), false),
        (at(CELL, 64), at(CELL + 640, 64), false),
        (at(CELL, 64), at(2 * CELL, 64), true),
        (at(CELL, 64), Extent { container: 6, start: CELL, len: 64 }, true),
    ] {
        let mut log = Log::new(SIX);
        log.found_segment(2, 7);
        log.found_segment(3, 6);
        log.found_segment(8, 50);
        assert_eq!((log.sequence(), log.sequence_at(Place(3 * 8))), (7, 6));
        assert_eq!(log.sequence_at(Place(8 * 8)), 0, "there is no such segment");
        log.found(old, Place(2 * 8 + 1));
        log.found(new, Place(3 * 8 + 1));
        check(&log);
        assert_eq!(log.index.by_key(new.key()).map(|kept| kept.extent), Some(new));
        assert_eq!(log.index.len(), 1 + usize::from(stays), "{old:?}, {new:?}");
        // The same of what is put there, but that what is kept stays.
        let mut log = Log::new(SIX);
        put(&mut log, old, None);
        let mut steps = Vec::new();
        assert_eq!(log.put(new, None, &mut steps), stays, "{old:?}, {new:?}");
        assert_eq!((steps.len(), log.index.len()), if stays { (1, 2) } else { (0, 1) });
    }
}

#[test]
fn uses_are_counted_up_to_three_and_bytes_that_are_used_once() {
    let mut log = full();
    for (times, used) in [(0, 0), (1, 512), (1, 512), (1, 512), (1, 512)] {
        touch(&mut log, 3, times);
        check(&log);
        assert_eq!(log.segments[0].used, used);
    }
    assert_eq!(log.index.by_key(small(3).key()).unwrap().uses, USES_MAX);
    touch(&mut log, 4, 2);
    assert_eq!(log.index.by_key(small(4).key()).unwrap().uses, 2);
    assert_eq!((log.segments[0].used, log.segments[0].live), (1024, 6 * 512));
    log.remove(small(3).key());
    assert_eq!((log.segments[0].used, log.segments[0].live), (512, 5 * 512));
    assert_eq!(log.remove(small(3).key()), None);
}

#[test]
fn what_is_held_in_memory_takes_no_room_until_it_is_put() {
    let mut log = Log::new(SIX);
    put(&mut log, small(0), None);
    assert!(log.hold(small(1)) && !log.hold(small(1)) && !log.hold(small(0)));
    assert_eq!(log.index.by_key(small(1).key()).unwrap().uses, 0);
    touch(&mut log, 1, 1);
    assert_eq!((log.index.len(), log.live_bytes(), log.segments[0].used), (2, 512, 0));
    let other = Extent { len: 128, ..small(1) };
    let mut steps = Vec::new();
    assert!(!log.put(other, None, &mut steps), "another of the same cell is held");
    assert_eq!(log.index.by_key(small(1).key()).unwrap().place, Place::HELD);
    assert_eq!(put(&mut log, small(1), None), [Step::Put { extent: small(1), to: Place(2) }]);
    let kept = log.index.by_key(small(1).key()).unwrap();
    assert_eq!((kept.place, kept.uses, log.live_bytes()), (Place(2), 0, 1024));
    assert!(!log.put(small(1), None, &mut steps), "it is there");
    assert_eq!(log.purse, 2 * 512 * MOVED_PER_MILLE);
}

#[test]
fn a_smaller_log_loses_its_end_and_one_of_other_segments_all() {
    for (shape, kept, filling) in [
        (Shape { segments: 12, ..SIX }, 44, true),
        (Shape { segments: 8, ..SIX }, 44, true),
        (Shape { segments: 7, ..SIX }, 42, false),
        (Shape { segments: 3, ..SIX }, 18, false),
        (Shape { segment_bytes: 8192, segments: 8 }, 0, false),
    ] {
        let mut log = Log::new(SIX);
        for container in 0..44 {
            put(&mut log, small(container), None);
        }
        assert!(log.hold(small(99)));
        let gone = log.resize(shape);
        check(&log);
        assert_eq!(gone.len() as u32, 44 - kept, "{shape:?}");
        // What is in memory is no part of the log.
        assert_eq!(log.index.len() as u32, kept + 1);
        let here = |container| log.index.by_key(small(container).key()).is_some();
        assert!((0..kept).all(here) && !here(kept));
        assert_eq!((log.shape(), log.is_filling()), (shape, filling), "{shape:?}");
        assert_eq!(log.segments.len() as u32, shape.segments);
        let left = SIX.left_by(shape).min(SIX.segments).min(shape.segments) as usize;
        assert!(log.segments[left..].iter().all(|segment| segment.sequence == 0), "{shape:?}");
        assert_eq!(log.sequence(), 8, "numbers go on");
        let steps = put(&mut log, small(50), None);
        check(&log);
        let opens = (!filling).then_some(Step::Open { slot: 0, sequence: 9 });
        assert_eq!(steps.first().filter(|_| steps.len() > 1), opens.as_ref(), "{shape:?}");
    }
}

#[test]
fn what_moves_has_room_even_if_what_was_found_lies_on_one_another() {
    let mut log = Log::new(SIX);
    for slot in 0..8 {
        log.found_segment(slot, u64::from(slot) + 1);
    }
    // Together more than a segment, as only a table can say that none of us wrote.
    for (container, len, place) in [(0, 1984, 1), (1, 1472, 2), (2, 1984, 9), (3, 1984, 10)] {
        log.found(Extent { container, start: 0, len }, Place(place));
        touch(&mut log, container, if container == 0 { 2 } else { 1 });
    }
    log.purse = 1 << 40;
    let steps = put(&mut log, small(9), None);
    let [Step::Open { slot: 0, sequence: 9 }, Step::Move { from, .. }, Step::Drop(gone), last] =
        steps[..]
    else {
        panic!("{steps:?}");
    };
    assert_eq!((from.extent.container, gone.extent.container), (0, 1));
    assert_eq!(last, Step::Put { extent: small(9), to: Place(1 + 4) });
}
