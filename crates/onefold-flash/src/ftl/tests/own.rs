//! How the drive's own pages are numbered, when they are due, and what is known of them.
//! Room: onefold-flash.

use crate::ftl::FtlSettings;
use crate::ftl::root::Root;
use crate::ftl::rounds::Rounds;
use crate::ftl::segments::Segments;
use crate::ftl::slots::Slots;
use crate::geometry::Geometry;
use crate::nand::PageKey;
use crate::testing::plane::plane;

#[test]
fn the_drives_own_pages_are_numbered_like_this() {
    // 32 entries a page: 200 pages are 7 of them, 200 + 128 virtual ones 11; 64 blocks and two
    // words for each of these are 100 words, which take 4 pages.
    let slots = Slots::new(&Geometry { page_bytes: 128, ..plane(64, 16) }, 200);
    assert_eq!((slots.entries, slots.logical, slots.segments, slots.states), (32, 7, 18, 4));
    assert_eq!((slots.state(3, false), slots.state(0, true), slots.state(3, true)), (21, 22, 25));
    assert_eq!((slots.root(), slots.first_journal()), (26, 27));
    assert!(slots.is_of_map(6) && !slots.is_of_map(7));
    assert_eq!(
        (slots.of(31), slots.of(32), slots.of_virtual(31), slots.of_virtual(32)),
        (0, 1, 7, 8)
    );
    assert_eq!(slots.lpns(2), 64..96);
    let keys = [17, 18, 21, 22, 25, 26, 27, 30].map(|slot| slots.key(slot));
    let expected = [
        PageKey::Map(17),
        PageKey::Directory(0),
        PageKey::Directory(3),
        PageKey::Directory(0),
        PageKey::Directory(3),
        PageKey::Root(0),
        PageKey::Journal(0),
        PageKey::Journal(3),
    ];
    assert_eq!(keys, expected);
}

#[test]
fn a_root_says_what_it_was_told() {
    let root = Root { seq: 1 << 40, logical_pages: 7, pages: 1 << 20, odd: true, subpages: 1 };
    for root in [root, Root { odd: false, ..root }, Root { subpages: 2, ..root }] {
        let bytes = root.encode();
        assert_eq!(bytes.len(), if root.subpages > 1 { 26 } else { 25 });
        assert_eq!(Root::decode(&bytes), Some(root));
        for short in 0..25 {
            assert_eq!(Root::decode(&bytes[..short]), None, "{short} bytes");
        }
        let mut other = bytes;
        other[3] ^= 1;
        assert_eq!(Root::decode(&other), None);
    }
    let mut zero = root.encode();
    zero.push(0);
    assert_eq!(Root::decode(&zero), Some(root), "no sub-pages are one");
}

#[test]
fn checkpoints_advance_with_host_pages_and_with_the_journal() {
    let geometry = plane(64, 16);
    let rounds = |checkpoint_pages| {
        Rounds::new(&geometry, &FtlSettings { checkpoint_pages, ..FtlSettings::default() }, 3)
    };
    // A segment of three is due every ten of thirty pages.
    let mut ten = rounds(30);
    let steps: Vec<u32> = (1..=60)
        .filter(|_| {
            ten.count();
            ten.take_step()
        })
        .collect();
    assert_eq!(steps, [10, 20, 30, 40, 50, 60]);
    assert!(!ten.take_step());
    // By itself a checkpoint takes half a drive of pages.
    let mut half = rounds(0);
    let first = (1..10_000).find(|_| {
        half.count();
        half.take_step()
    });
    assert_eq!(first, Some((64_u32 * 16 / 2).div_ceil(3)));
    // As many pages of the journal as may live are as good as a whole checkpoint.
    assert_eq!(ten.journal_pages(), 8);
    (0..8).for_each(|_| ten.hurry());
    // 8 times 30 * 3 / 8, rounded down.
    let mut due = 0;
    while ten.take_step() {
        due += 1;
    }
    assert_eq!(due, 2);
    let codewords = FtlSettings {
        checkpoint_pages: 30,
        codewords: true,
        subpages: 4,
        ..FtlSettings::default()
    };
    let mut of_codewords = Rounds::new(&geometry, &codewords, 3);
    let first = (1..10_000).find(|_| {
        of_codewords.count();
        of_codewords.take_step()
    });
    assert_eq!(first, Some(40));
    let large = Geometry { blocks_per_plane: 4096, ..plane(64, 16) };
    assert_eq!(Rounds::new(&large, &FtlSettings::default(), 3).journal_pages(), 16);
    assert_eq!(Rounds::new(&large, &codewords, 3).journal_pages(), 64);
    let mut round = rounds(30);
    round.begin(50, vec![4]);
    assert_eq!((round.seq(), round.is_odd(), round.open()), (50, true, &[4][..]));
    for segment in 0..3 {
        assert_eq!(round.next_segment(), Some(segment));
        round.advance();
    }
    assert_eq!(round.next_segment(), None);
    round.begin(60, Vec::new());
    assert_eq!((round.next_segment(), round.is_odd()), (Some(0), false));
    round.resume(true);
    assert!(round.is_odd());
}

/// What comes at once keeps the plane that the drive's own pages are on from all else: a dozen
/// mapping pages had writes wait for twenty milliseconds.
#[test]
fn a_page_of_the_journal_has_few_mapping_pages_stored_behind_it_at_any_grain() {
    let large = Geometry { blocks_per_plane: 4096, page_bytes: 8192, ..plane(64, 16) };
    for (codewords, subpages) in [(false, 1), (true, 2), (true, 8)] {
        let settings = FtlSettings { subpages, codewords, ..FtlSettings::default() };
        let logical_pages = large.pages() * settings.logical_per_page();
        let slots = Slots::new(&large, logical_pages);
        let mut rounds = Rounds::new(&large, &settings, slots.segments);
        rounds.hurry();
        let stored = (0..slots.segments).take_while(|_| rounds.take_step()).count();
        assert!((1..=4).contains(&stored), "{subpages} to a page: {stored}");
    }
}

#[test]
fn a_segment_is_changed_from_its_first_change_until_it_is_stored() {
    let slots = Slots::new(&Geometry { page_bytes: 128, ..plane(64, 16) }, 200);
    let mut segments = Segments::new(true, slots);
    assert_eq!(segments.len(), 18);
    segments.note(33, 10);
    segments.note(40, 20);
    segments.note_virtual(5, 15);
    assert!(!segments.is_clean(1) && !segments.is_clean(7) && segments.is_clean(0));
    assert_eq!([9, 10, 11].map(|seq| segments.changed_by(1, seq)), [false, true, true]);
    segments.stored(1, 30);
    assert!(segments.is_clean(1) && !segments.changed_by(1, u64::MAX - 1));
    segments.found(2, 5 + (7 << 32));
    assert_eq!((segments.stored_at(1), segments.stored_at(2)), (30, 5 + (7 << 32)));
    let words: Vec<u32> = segments.words().collect();
    assert_eq!((words.len(), &words[2..6]), (36, &[30, 0, 5, 7][..]));
    let mut restored = Segments::new(true, slots);
    restored.restore(&words);
    assert_eq!(restored.stored_at(2), 5 + (7 << 32));
    let mut off = Segments::new(false, slots);
    off.note(33, 10);
    off.note_virtual(5, 10);
    assert_eq!((off.len(), off.words().count()), (0, 0));
}
