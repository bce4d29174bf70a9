//! What is decided about reads, one at a time.
//! Room: onefold-cache.

use super::*;
use crate::registry::POLICIES;
use crate::state::Entry;

/// Bytes of the containers that are read.
const LEN: u32 = 200_000;
/// What the first cell of one takes in the log, and what that takes of the budget of wear if a
/// segment has to be begun for it.
const CELL: u32 = 16_896;
const FIRST: u64 = CELL as u64 + 512 + 24 + 4;
/// Of the smallest log: what the policy may count on, and what is written at once.
const USABLE: u64 = 1_139_808;
const AT_ONCE: u64 = 196_608 + 131_072 + 512 + 48;

fn with_budget(policy: &str, per_day: Option<u64>) -> Decider {
    Decider::new(policy, Shape::of(0), Wear::new(per_day)).unwrap()
}

fn decider(policy: &str) -> Decider {
    with_budget(policy, None)
}

/// A policy of its own, to be asked directly.
fn twin(policy: &str) -> Box<dyn Policy> {
    make_online(policy, Capacity { bytes: USABLE, objects: 17 }, 0).unwrap()
}

const fn key(container: u32) -> u64 {
    (container as u64) << 8
}

const fn cell(container: u32) -> Extent {
    Extent { container, start: 0, len: 16_384 }
}

/// What is to be kept of a read of a container's first bytes, whose bytes do not come yet.
fn ask(decider: &mut Decider, container: u32) -> Vec<(Extent, Keep)> {
    let parts = decider.read(container, LEN, 0, 1000).parts;
    let keep = |part: Part| match part {
        Part::Slow { keep, .. } => keep,
        Part::Kept { .. } => Vec::new(),
    };
    parts.into_iter().flat_map(keep).collect()
}

/// The same, and the bytes come. Whether it is kept.
fn read(decider: &mut Decider, container: u32) -> bool {
    for (extent, keep) in ask(decider, container) {
        decider.fetched(extent, keep);
    }
    decider.log.index.by_key(key(container)).is_some()
}

/// An extent is asked for whose bytes never come: it is not moved out of memory either.
fn access(policy: &mut dyn Policy, container: u32, size: u32) {
    for moved in policy.access(key(container), size).promoted.to_vec() {
        policy.remove(moved);
    }
}

#[test]
fn the_policy_decides_as_one_that_is_asked_directly() {
    let tiny = Shape { segment_bytes: 4096, segments: 8 };
    let mut differ = 0;
    for entry in POLICIES.iter().filter(|entry| !entry.offline) {
        let (mut ours, mut theirs) = (decider(entry.name), twin(entry.name));
        // Of so little a policy expects one object.
        let mut small = Decider::new(entry.name, tiny, Wear::new(None)).unwrap();
        let one_of =
            |objects| make_online(entry.name, Capacity { bytes: 20_832, objects }, 0).unwrap();
        let (mut one, mut two) = (one_of(1), one_of(2));
        for step in 0..60_u32 {
            let container = step * step % 17;
            if !theirs.contains(key(container)) {
                ask(&mut ours, container);
                ours.making.clear();
                access(&mut *theirs, container, CELL);
            }
            if !one.contains(key(container)) {
                small.read(container, 64, 0, 64);
                small.making.clear();
                access(&mut *one, container, 512);
            }
            if !two.contains(key(container)) {
                access(&mut *two, container, 512);
            }
        }
        assert!(ours.policy().export() == theirs.export(), "{}", entry.name);
        assert!(small.policy().export() == one.export(), "{}", entry.name);
        differ += usize::from(one.export() != two.export());
    }
    assert!(differ > 0, "it means something to some policy");
}

#[test]
fn what_is_passed_by_and_who_is_referred_to_is_told_to_the_policy() {
    for policy in ["plc", "toll"] {
        let (mut ours, mut theirs) = (decider(policy), twin(policy));
        ours.set_references(1, 1);
        ours.set_references(3, 9);
        ours.set_skip(2);
        for container in [1, 2] {
            assert_eq!(ask(&mut ours, container), []);
            theirs.set_references(key(1), 1);
            theirs.pass(key(container), CELL);
        }
        assert_eq!(ours.policy().export(), theirs.export(), "who is passed by is counted alone");
        for container in [1, 1, 1, 1, 3] {
            read(&mut ours, container);
            theirs.set_references(key(container), if container == 1 { 1 } else { 9 });
            theirs.access(key(container), CELL);
        }
        assert_eq!(ours.policy().export(), theirs.export(), "{policy}");
        let mut untold = decider(policy);
        for container in [1, 1, 1, 1, 3] {
            read(&mut untold, container);
        }
        assert_ne!(ours.policy().export(), untold.policy().export(), "{policy} makes use of it");
    }
    let mut poor = with_budget("plc", Some(1000));
    let mut theirs = twin("plc");
    for container in [1, 2] {
        assert_eq!(ask(&mut poor, container), []);
        theirs.pass(key(container), CELL);
    }
    assert_eq!(poor.policy().export(), theirs.export(), "what cannot be afforded is passed by");
}

#[test]
fn so_many_admissions_are_passed_by_as_was_said() {
    for skip in [0, 1, 2] {
        let mut decider = decider("lru");
        decider.set_skip(skip);
        for container in 0..3 {
            assert_eq!(read(&mut decider, container), u64::from(container) >= skip);
        }
        let mut decider = self::decider("lru");
        decider.set_skip(skip);
        for container in 0..3 {
            let (gone, steps) = decider.keep_new(cell(container));
            assert_eq!((gone.len(), steps.is_empty()), (0, u64::from(container) < skip));
            assert_eq!(decider.policy().contains(key(container)), u64::from(container) >= skip);
        }
    }
}

/// A decider that may still write so many bytes now.
fn has_left(left: u64) -> Decider {
    let mut decider = with_budget("lru", Some(AT_ONCE));
    assert_eq!(decider.wear.at_once, AT_ONCE);
    decider.wear.spend(AT_ONCE - left);
    assert_eq!(decider.wear.left(), left);
    decider
}

#[test]
fn what_is_kept_is_afforded_to_the_byte() {
    // An extent that is on its way may be as large as one can be.
    let second = FIRST + u64::from(EXTENT_MAX);
    for (left, kept) in [(FIRST - 1, 0), (FIRST, 1), (second - 1, 1), (second, 2), (AT_ONCE, 3)] {
        let mut decider = has_left(left);
        let found = (0..4).filter(|&container| !ask(&mut decider, container).is_empty()).count();
        assert_eq!(found, kept, "{left}");
    }
    // The second lies in a segment that is begun, which the budget has not been charged with yet.
    let second = FIRST + FIRST;
    for (left, kept) in [(FIRST - 1, 0), (FIRST, 1), (second - 1, 1), (second, 2)] {
        let mut decider = has_left(left);
        let found = (0..4).filter(|&container| read(&mut decider, container)).count();
        assert_eq!(found, kept, "{left}");
        let mut decider = has_left(left);
        let new = |container| !decider.keep_new(cell(container)).1.is_empty();
        assert_eq!((0..4).map(new).filter(|&new| new).count(), kept, "{left}");
    }
    // What nobody asked for leaves half an hour's budget to readers.
    for (left, new) in [(AT_ONCE + FIRST - 1, false), (AT_ONCE + FIRST, true)] {
        let mut decider = with_budget("lru", Some(12 * AT_ONCE));
        decider.wear.spend(2 * AT_ONCE - left);
        assert_eq!((decider.wear.left(), decider.wear.for_readers()), (left, AT_ONCE));
        assert_eq!(!decider.keep_new(cell(1)).1.is_empty(), new);
        assert!(read(&mut decider, 2), "a reader gets it");
    }
}

#[test]
fn a_segment_is_charged_when_it_is_closed() {
    let mut decider = has_left(AT_ONCE);
    assert!(!decider.seal_now());
    assert!(read(&mut decider, 1) && read(&mut decider, 2));
    assert_eq!(decider.wear.left(), AT_ONCE);
    assert!(decider.seal_now() && !decider.seal_now());
    assert_eq!(decider.wear.left(), AT_ONCE - FIRST - u64::from(CELL) - 24);
    let written = decider.wear.last_day();
    assert!(read(&mut decider, 3) && decider.seal_now());
    assert_eq!(decider.wear.last_day() - written, FIRST);
    // The other way: because the next has no room in it.
    let mut decider = self::decider("lru");
    for container in 0..12 {
        assert!(read(&mut decider, container));
    }
    assert_eq!(decider.wear.last_day(), 512 + 4 + 11 * (u64::from(CELL) + 24));
}

#[test]
fn what_comes_is_kept_only_if_it_is_what_was_asked_for_and_still_wanted() {
    let fresh = || {
        let mut decider = decider("lru");
        assert_eq!(ask(&mut decider, 1), [(cell(1), Keep::Fast)]);
        assert!(!decider.is_idle());
        decider
    };
    let mut wanted = fresh();
    assert_eq!(wanted.fetched(cell(1), Keep::Fast).len(), 2);
    assert!(wanted.is_idle());
    assert_eq!(wanted.fetched(cell(1), Keep::Fast), [], "once");
    let other = Extent { len: 64, ..cell(1) };
    assert_eq!(fresh().fetched(other, Keep::Fast), []);
    let mut lost = fresh();
    assert_eq!(lost.lost(key(1)), None);
    assert_eq!(lost.fetched(cell(1), Keep::Fast), []);
    let mut changed = fresh();
    assert_eq!(changed.invalidate(1, false), []);
    assert!(!changed.policy().contains(key(1)));
    changed.policy().allocate(key(1), CELL);
    assert_eq!(changed.fetched(cell(1), Keep::Fast), []);
    // Another container of those on their way is no matter.
    let mut both = fresh();
    ask(&mut both, 2);
    both.invalidate(2, false);
    assert!(both.policy().contains(key(1)) && !both.policy().contains(key(2)));
    assert_eq!(both.fetched(cell(2), Keep::Fast), []);
    assert_eq!(both.fetched(cell(1), Keep::Fast).len(), 2);
}

#[test]
fn what_could_not_be_had_is_not_kept() {
    let mut decider = decider("lru");
    ask(&mut decider, 1);
    decider.not_fetched(cell(1));
    assert!(decider.is_idle() && !decider.policy().contains(key(1)));
    // It changed meanwhile, and something else of that name is kept.
    ask(&mut decider, 1);
    decider.invalidate(1, false);
    decider.policy().allocate(key(1), CELL);
    decider.not_fetched(cell(1));
    assert!(decider.is_idle() && decider.policy().contains(key(1)));
    decider.not_fetched(cell(3));
}

#[test]
fn what_has_no_room_in_the_log_is_not_counted_by_the_policy() {
    let mut decider = decider("lru");
    let long = Extent { len: 32_768, ..cell(1) };
    assert_eq!(decider.keep_new(long).1.len(), 2);
    let second = Extent { start: 16_384, ..cell(1) };
    assert_eq!(decider.keep_new(second), (Vec::new(), Vec::new()), "it lies in the first");
    assert!(!decider.policy().contains(second.key()));
    assert_eq!(decider.kept_bytes(), u64::from(long.flash_bytes()));
    // In memory as well.
    let mut decider = self::decider("w-tinylfu:memory=1");
    let asked = ask(&mut decider, 1);
    assert_eq!(asked, [(cell(1), Keep::Memory)]);
    decider.log.hold(Extent { start: 64, len: 64, ..cell(1) });
    assert_eq!(decider.fetched(cell(1), Keep::Memory), []);
    assert!(!decider.policy().contains(key(1)));
}

#[test]
fn a_container_is_passed_over_once_before_any_of_a_long_pass_is_kept() {
    for (first, kept) in [(LEN, true), (LEN - 64, false)] {
        let mut decider = decider("lru");
        let answer = decider.read(1, LEN, 0, first);
        let slow = Part::Slow { from: 0, upto: first, keep: Vec::new() };
        assert_eq!(answer.parts, [slow]);
        assert_eq!(!ask(&mut decider, 1).is_empty(), kept, "{first}");
        // What is counted once more is no more than it takes.
        let passes = if kept { LEN } else { first + 1000 };
        assert_eq!(decider.numbers()[27..], [1, passes.into()]);
    }
}

/// Read a container from end to end; what is to be kept comes. Bytes of it that were kept before,
/// and how many extents are to be kept.
fn read_through(decider: &mut Decider, container: u32) -> (u32, usize) {
    let (mut hit, mut kept) = (0, 0);
    let answer = decider.read(container, LEN, 0, LEN);
    assert_eq!(answer.gone, []);
    for part in answer.parts {
        match part {
            Part::Kept { from, upto, .. } => hit += upto - from,
            Part::Slow { keep, .. } => {
                for (extent, how) in keep {
                    kept += usize::from(how == Keep::Fast);
                    decider.fetched(extent, how);
                }
            }
        }
    }
    (hit, kept)
}

#[test]
fn empty_segments_are_filled_with_what_is_read_once_and_nothing_leaves_for_it() {
    for entry in POLICIES.iter().filter(|entry| !entry.offline) {
        // A container has two extents, the second shorter, and takes one segment.
        let shape = Shape { segment_bytes: 262_144, segments: 16 };
        let mut decider = Decider::new(entry.name, shape, Wear::new(None)).unwrap();
        decider.fill_empty_segments();
        let filled = (0..17).take_while(|&number| read_through(&mut decider, number).1 == 2);
        let filled = filled.count() as u32;
        assert!((13..=16).contains(&filled), "{}: {filled}", entry.name);
        for container in 0..filled {
            assert_eq!(read_through(&mut decider, container), (LEN, 0), "{}", entry.name);
        }
        // From now on it is as ever.
        assert_eq!(read_through(&mut decider, 100), (0, 0));
        decider.lost(key(0));
        assert_eq!(read_through(&mut decider, 101), (0, 0), "{}: no segment is empty", entry.name);
    }
    // Nor is more written than may be, and the policy hears nothing of a long pass.
    let mut poor = with_budget("plc", Some(1000));
    poor.fill_empty_segments();
    assert_eq!(read_through(&mut poor, 1), (0, 0));
    assert_eq!(poor.policy().export(), twin("plc").export());
    let mut skips = decider("lru");
    skips.fill_empty_segments();
    skips.set_skip(1);
    assert_eq!(read_through(&mut skips, 1), (0, 1));
}

#[test]
fn of_a_container_that_goes_for_good_nothing_is_known_and_of_its_neighbour_all() {
    let whole = 4 << 20;
    let (mut ours, mut theirs) = (decider("plc"), twin("plc"));
    ours.set_references(1, 5);
    for (container, start) in [(1, 0), (1, whole - 1000), (2, 0), (0, whole - 1000)] {
        ours.read(container, whole, start, start + 1000);
        if container != 1 {
            theirs.access(u64::from(container) << 8 | u64::from(start / 16_384), CELL);
        }
    }
    ours.read(1, whole, 0, LEN);
    for forget in [false, true] {
        assert_eq!(ours.numbers()[27..], [1, LEN.into()], "it only changed");
        ours.invalidate(1, forget);
    }
    assert_eq!(ours.policy().export(), theirs.export());
    assert_eq!(ours.numbers().len(), 27);
    // Nor is it said that anybody refers to it. The long pass is over by then.
    for container in (100..116).chain([1]) {
        ask(&mut ours, container);
        theirs.access(key(container), CELL);
    }
    assert_eq!(ours.policy().export(), theirs.export());
}

fn entries(sizes: &[u32]) -> Vec<Entry> {
    let entry = |(key, &size): (u64, &u32)| Entry { key, size, word: 0, list: 0 };
    (1..).zip(sizes).map(entry).collect()
}

#[test]
fn of_what_a_policy_knew_it_takes_over_what_fits_the_newest_of_it() {
    for (capacity, left) in [(1536, 3), (1535, 2), (1024, 2), (1023, 1), (511, 0)] {
        let mut decider = decider("lru");
        let state = decider.policy().export();
        let entries = entries(&[512; 3]);
        decider.take_over(State { capacity, entries: entries.clone(), ..state });
        assert_eq!(decider.policy().export().entries, entries[3 - left..], "{capacity}");
    }
}

#[test]
fn what_does_not_suit_a_policy_is_told_of_without_its_order() {
    let mut decider = decider("lru");
    let mut known = entries(&[512; 3]);
    for entry in &mut known {
        (entry.word, entry.list) = (7, 5);
    }
    let other = State { policy: "other".to_owned(), ..decider.policy().export() };
    decider.take_over(State { entries: known.clone(), ..other.clone() });
    assert_eq!(decider.policy().export().entries, entries(&[512; 3]));
    // And what cannot be is not taken at all; nor does what was there stay.
    known.push(known[0]);
    decider.take_over(State { entries: known, ..other });
    assert_eq!(decider.policy().export().entries, []);
}

#[test]
fn numbers_come_back_as_they_were() {
    let mut decider = with_budget("lru", Some(1 << 30));
    decider.wear.tick(1_800_000_000);
    decider.wear.spend(77);
    decider.read(3, LEN, 0, LEN);
    assert!(read(&mut decider, 40));
    let numbers = decider.numbers();
    assert_eq!((numbers.len(), numbers[0], numbers[2]), (1 + 26 + 2, 1, 77));
    assert_eq!(numbers[27..], [3, LEN.into()]);
    let mut again = with_budget("lru", Some(1 << 30));
    assert_eq!(again.restore(&numbers), 1);
    assert_eq!(again.numbers()[1..], numbers[1..]);
    for few in [0, 1, 26] {
        let mut again = with_budget("lru", Some(1 << 30));
        let before = again.numbers();
        assert_eq!(again.restore(&numbers[..few]), u64::from(few > 0), "{few}");
        assert_eq!(again.numbers(), before);
    }
}
