//! The limits of space, each at the last block or page on this side and the first on the other.
//! Room: onefold-flash.

use crate::ftl::blocks::{BlockState, Blocks};
use crate::ftl::layout::Layout;
use crate::ftl::space::Space;
use crate::ftl::stream::Stream;
use crate::ftl::{Durability, FtlError, FtlSettings, Temperature};
use crate::geometry::Geometry;
use crate::nand::IdentityNand;
use crate::testing::plane::plane;

const PAGES: u32 = 4;

/// So many planes of so many blocks of four pages, all free.
fn space_of(
    planes: u32,
    blocks: u32,
    settings: FtlSettings,
    has_own: bool,
    hot: Option<u32>,
) -> Space<IdentityNand> {
    let geometry = Geometry { planes_per_die: planes, ..plane(blocks, PAGES) };
    let layout = Layout::new(geometry, &settings);
    Space::new(layout, settings, Blocks::new(geometry), has_own, hot)
}

fn space(planes: u32, blocks: u32) -> Space<IdentityNand> {
    space_of(planes, blocks, FtlSettings::default(), true, None)
}

/// Takes blocks of a plane until so many are free.
fn leave(space: &mut Space<IdentityNand>, plane: u32, free: u32) {
    while space.blocks().free_of(plane) > free {
        space.take_free(plane);
    }
}

#[test]
fn a_plane_is_short_of_blocks_at_its_own_limit_for_each_purpose() {
    for (has_own, floor) in [(false, 2), (true, 3)] {
        for reserve in 2..6 {
            for idle in 0..9 {
                let settings = FtlSettings {
                    gc_reserve_blocks: reserve,
                    gc_idle_blocks: idle,
                    ..FtlSettings::default()
                };
                let mut space = space_of(1, 12, settings, has_own, None);
                assert_eq!(space.floor(), floor);
                for free in (0..=12).rev() {
                    leave(&mut space, 0, free);
                    let found = [
                        space.is_below_floor(0),
                        space.is_at_ease(0),
                        space.is_below_idle(0),
                        space.may_write(),
                        space.is_short(0, u64::from(PAGES)),
                        space.is_short(0, u64::from(PAGES) + 1),
                    ];
                    let enough = if idle > reserve { idle } else { reserve + 1 };
                    // The host has no open block: its pages begin another one.
                    let [one, two] = [2, 3].map(|more| free < enough.min(reserve + more));
                    let expected =
                        [free < floor, free > reserve, free < enough, free >= floor, one, two];
                    assert_eq!(found, expected, "{has_own}, {reserve}, {idle}: {free} free");
                }
            }
        }
    }
}

#[test]
fn a_block_that_failed_has_to_be_emptied_before_a_plane_is_at_ease() {
    let mut space = space(2, 12);
    let block = space.take_free(0).expect("free");
    space.hand_to(0, Stream::Host, block);
    space.give_up(block);
    assert_eq!(space.blocks().state(block), BlockState::Condemned);
    assert_eq!(space.open_of(0, Stream::Host), None, "it is filled no more");
    assert_eq!((space.is_at_ease(0), space.is_at_ease(1)), (false, true));
    let own = space.open_own(0).expect("free");
    space.give_up(own);
    assert_eq!(space.next_own_place(), None, "nor is one of the drive's own pages");
    space.retire(block);
    assert!(!space.is_at_ease(0) || own >= 12);
}

#[test]
fn a_plane_that_can_write_is_enough() {
    let mut space = space(3, 8);
    for plane in [0, 2] {
        leave(&mut space, plane, 0);
    }
    assert!(space.may_write());
    leave(&mut space, 1, 2);
    assert!(!space.may_write());
}

#[test]
fn host_pages_go_to_a_plane_while_collection_there_could_free_a_page() {
    let hot = Temperature::HotRange { hot_pages: 1, hot_writes_permille: 900 };
    for (has_own, reserve, apart, temperature, wear_spread, kept) in [
        (false, 2, false, Temperature::OnePool, 0, 3),
        (false, 9, false, Temperature::OnePool, 0, 3),
        (true, 2, false, Temperature::OnePool, 0, 4),
        (true, 9, false, Temperature::OnePool, 0, 4),
        (false, 2, true, Temperature::OnePool, 0, 4),
        (false, 2, false, Temperature::OnePool, 7, 4),
        (true, 2, true, hot, 1, 7),
    ] {
        let settings = FtlSettings {
            gc_reserve_blocks: reserve,
            apart,
            temperature,
            wear_spread,
            ..FtlSettings::default()
        };
        let mut space = space_of(1, 12, settings, has_own, None);
        let most = (12 - kept) * PAGES;
        for live in 0..=most {
            for preferred in [None, Some(0)] {
                let chosen = space.choose_plane(Stream::Host, None, preferred);
                assert_eq!(chosen.is_ok(), live < most, "{has_own}, {settings:?}: {live} live");
            }
            space.gain(live % (12 * PAGES), 1);
        }
    }
}

/// A block of codewords gives a page back only if it lacks one.
#[test]
fn planes_of_codewords_are_full_where_every_block_lacks_less_than_a_page() {
    let settings = FtlSettings { subpages: 4, codewords: true, ..FtlSettings::default() };
    let mut space = space_of(1, 12, settings, false, None);
    let most = (12 - 3) * (PAGES * 4 - 3);
    space.gain(0, most - 1);
    assert!(space.choose_plane(Stream::Host, None, None).is_ok());
    space.gain(0, 1);
    assert!(space.choose_plane(Stream::Host, None, None).is_err());
}

#[test]
fn planes_take_turns_and_are_let_off_once_for_each_page_of_the_drives_own() {
    let mut space = space(3, 12);
    let next = |space: &mut Space<IdentityNand>| {
        space.choose_plane(Stream::Host, None, None).expect("room")
    };
    assert_eq!([(); 4].map(|()| next(&mut space)), [0, 1, 2, 0]);
    let of_plane_1 = 12 * PAGES;
    space.own_programmed(of_plane_1);
    space.own_programmed(of_plane_1);
    assert_eq!([(); 8].map(|()| next(&mut space)), [2, 0, 2, 0, 1, 2, 0, 1]);
    assert_eq!(space.choose_plane(Stream::Host, None, Some(1)).expect("room"), 1);
    assert_eq!(next(&mut space), 2, "a wish is no turn");
    space.gain(0, (12 - 4) * PAGES);
    assert_eq!([(); 3].map(|()| next(&mut space)), [1, 2, 1], "the first plane is full");
    assert_eq!(space.choose_plane(Stream::Host, None, Some(0)).expect("room"), 2);
}

#[test]
fn the_hot_pool_is_due_beyond_its_share_of_blocks() {
    let mut space = space_of(1, 12, FtlSettings::default(), true, Some(2));
    for (blocks, stream) in [(1, Stream::Apart), (2, Stream::MovedHot)] {
        space.next_page(0, stream, 0).expect("room");
        assert_eq!((space.blocks().hot_of(0), space.hot_pool_is_due(0)), (blocks, Some(false)));
    }
    for stream in [Stream::Host, Stream::Moved, Stream::Levelled] {
        let page = space.next_page(0, stream, 0).expect("room");
        assert!(!space.blocks().is_hot(page / PAGES), "{stream:?}");
    }
    for _ in 0..PAGES {
        space.next_page(0, Stream::Apart, 0).expect("room");
    }
    assert_eq!((space.blocks().hot_of(0), space.hot_pool_is_due(0)), (3, Some(true)));
    let mut one_pool = self::space(1, 12);
    one_pool.next_page(0, Stream::Apart, 0).expect("room");
    assert_eq!((one_pool.blocks().hot_of(0), one_pool.hot_pool_is_due(0)), (0, None));
}

#[test]
fn a_full_block_is_closed_when_the_next_one_is_opened() {
    let mut space = space(1, 12);
    let pages: Vec<u32> =
        (0..5).map(|seq| space.next_page(0, Stream::Moved, 10 + seq).expect("room")).collect();
    let first = pages[0] / PAGES;
    assert_eq!(pages[..4], [0, 1, 2, 3].map(|at| first * PAGES + at));
    assert_ne!(pages[4] / PAGES, first);
    assert_eq!(space.blocks().state(first), BlockState::Full);
    assert_eq!(space.blocks().closed_at(first), 14);
}

#[test]
fn cold_pages_get_the_most_worn_block_and_others_the_least_worn() {
    let mut space = space(1, 6);
    for (block, erases) in [(0, 3), (1, 2), (2, 9), (3, 2), (4, 9), (5, 4)] {
        space.restore_erases(block, erases);
    }
    let opened = |space: &mut Space<IdentityNand>, stream| {
        space.next_page(0, stream, 0).expect("room") / PAGES
    };
    // Of equals the one that became free last, as the list has them: the first block.
    assert_eq!(opened(&mut space, Stream::Levelled), 2);
    assert_eq!(opened(&mut space, Stream::Host), 1);
}

#[test]
fn the_drives_own_pages_have_space_in_their_block_up_to_a_quarter_of_it() {
    let settings = FtlSettings::default();
    let geometry = plane(6, 16);
    let layout = Layout::<IdentityNand>::new(geometry, &settings);
    let mut space = Space::new(layout, settings, Blocks::new(geometry), true, None);
    assert!(!space.has_own_pages(0), "no block is open for them");
    let block = space.open_own(0).expect("free");
    for written in 0..16 {
        for more_than in 0..8 {
            let left = 16 - written;
            let expected = left > more_than.min(4);
            assert_eq!(space.has_own_pages(more_than), expected, "{left} left of {more_than}");
        }
        space.append(block);
    }
    assert!(!space.has_own_pages(0));
}

#[test]
fn the_last_own_page_of_a_protected_block_is_for_the_capacitor() {
    for (durability, usual) in [(Durability::Journal, PAGES), (Durability::Protected, PAGES - 1)] {
        let settings = FtlSettings { durability, ..FtlSettings::default() };
        let mut space = space_of(1, 6, settings, true, None);
        assert_eq!(space.next_own_place(), None, "a block must be opened first");
        let block = space.open_own(0).expect("free");
        let places: Vec<u32> = std::iter::from_fn(|| space.next_own_place()).collect();
        let expected: Vec<u32> = (block * PAGES..block * PAGES + usual).collect();
        assert_eq!(places, expected, "{durability:?}");
        assert!(!space.is_emergency());
        space.set_emergency(true);
        assert!(space.is_emergency());
        let last = std::iter::from_fn(|| space.next_own_place()).count() as u32;
        assert_eq!(usual + last, PAGES, "{durability:?}");
        space.set_emergency(false);
        assert!(!space.is_emergency());
    }
}

#[test]
fn the_drives_own_pages_go_to_the_first_of_the_planes_with_most_free_blocks() {
    let mut space = space(3, 8);
    leave(&mut space, 1, 7);
    for plane in [0, 2, 0, 1, 2] {
        let seq = u64::from(space.blocks().free_of(plane));
        let block = space.open_own(seq).expect("free");
        assert_eq!(block / 8, plane);
        space.append(block);
    }
    // Each one before was closed, full or not, when the next one was opened.
    let open: Vec<u32> =
        (0..24).filter(|&at| space.blocks().state(at) == BlockState::Full).collect();
    assert_eq!(open.len(), 4);
    for plane in 0..3 {
        leave(&mut space, plane, 0);
    }
    assert!(matches!(space.open_own(0), Err(FtlError::NoSpace { .. })));
}

/// In need a dead block is erased in the midst of anything, but not before its records are stored.
#[test]
fn a_dead_block_is_given_away_in_need_if_it_may_go() {
    let mut space = space(2, 8);
    let dead = [0, 1, 1].map(|plane| space.take_free(plane).expect("free"));
    assert_eq!(dead[0], 0, "the first block of all is one of them");
    for (&block, need) in dead.iter().zip([7, 5, 9]) {
        space.append(block);
        space.gain(block * PAGES, 1);
        space.close(block, 1);
        space.lose(block * PAGES, 1, Some(need));
    }
    let full = space.take_free(1).expect("free");
    space.gain(full * PAGES, 1);
    space.close(full, 1);
    for free in [[2, 0], [0, 2]] {
        let mut plenty = self::space(2, 8);
        leave(&mut plenty, 0, free[0]);
        leave(&mut plenty, 1, free[1]);
        plenty.close(if free[0] == 0 { 0 } else { 8 }, 1);
        assert_eq!(plenty.dead_block_in_need(|_| true), None, "{free:?}: no need");
    }
    leave(&mut space, 0, 1);
    leave(&mut space, 1, 1);
    assert_eq!(space.dead_block_in_need(|need| need <= 4), None);
    assert_eq!(space.dead_block_in_need(|need| need <= 5), Some(dead[1]));
    assert_eq!(space.dead_block_in_need(|_| true), Some(dead[0]), "the first one");
    leave(&mut space, 0, 0);
    leave(&mut space, 1, 0);
    assert_eq!(space.dead_block_in_need(|need| need > 7), Some(dead[2]));
}

#[test]
fn pages_for_the_rescue_are_all_but_those_of_the_two_emptiest_blocks() {
    for free in 0..6 {
        for written in [[0, 0, 0], [4, 1, 2], [3, 3, 3], [0, 4, 4], [1, 0, 2], [2, 3, 0]] {
            let mut space = space(2, 8);
            for (plane, (stream, pages)) in
                [Stream::Host, Stream::Moved, Stream::Apart].into_iter().zip(written).enumerate()
            {
                let block = space.take_free(plane as u32 % 2).expect("free");
                space.hand_to(plane as u32 % 2, stream, block);
                for _ in 0..pages {
                    space.append(block);
                }
            }
            leave(&mut space, 0, free / 2);
            leave(&mut space, 1, free - free / 2);
            let mut left: Vec<u32> = written.iter().map(|pages| PAGES - pages).collect();
            left.resize(3 + free as usize, PAGES);
            left.sort_unstable();
            let all_but_two: u32 = left[..left.len() - 2].iter().sum();
            assert_eq!(space.rescue_pages(), all_but_two, "{free} free, {written:?} written");
        }
    }
    let mut nothing = space(1, 4);
    leave(&mut nothing, 0, 1);
    assert_eq!(nothing.rescue_pages(), 0);
    leave(&mut nothing, 0, 0);
    assert_eq!(nothing.rescue_pages(), 0);
}

/// When the power has gone any open block does, then any free one, and then there is nothing.
#[test]
fn what_is_rescued_goes_to_open_blocks_first_and_then_to_the_last_free_ones() {
    let mut space = space(2, 3);
    let of_moved = space.next_page(1, Stream::Moved, 1).expect("room") / PAGES;
    let of_host = space.take_free(1).expect("free");
    space.hand_to(1, Stream::Host, of_host);
    for _ in 0..PAGES {
        space.append(of_host);
    }
    leave(&mut space, 0, 0);
    let places: Vec<u32> = (0..3).map(|_| space.any_place(20).expect("room")).collect();
    assert_eq!(places, [1, 2, 3].map(|at| of_moved * PAGES + at));
    let last = space.any_place(21).expect("the block for collection");
    let block = last / PAGES;
    assert!(block >= 3 && ![of_moved, of_host].contains(&block) && last == block * PAGES);
    assert_eq!(space.open_of(1, Stream::Host), Some(block));
    assert_eq!(space.blocks().state(of_host), BlockState::Full);
    assert_eq!(space.blocks().closed_at(of_host), 21);
    for at in 1..PAGES {
        assert_eq!(space.any_place(22).expect("room"), block * PAGES + at);
    }
    assert!(matches!(space.any_place(23), Err(FtlError::NoSpace { .. })));
}

#[test]
fn records_that_are_known_from_elsewhere_hold_every_block() {
    let mut space = space(2, 3);
    space.all_need(17);
    assert!((0..6).all(|block| space.blocks().needs(block) == 17));
    space.gain(0, 2);
    space.lose(0, 1, None);
    assert_eq!(space.blocks().needs(0), 17);
    space.lose(0, 1, Some(20));
    assert_eq!((space.blocks().needs(0), space.blocks().needs(1)), (20, 17));
}

#[test]
fn half_filled_blocks_that_are_found_are_filled_on_in_this_order() {
    let mut space = space(1, 12);
    let streams = [Stream::Moved, Stream::Host, Stream::Apart, Stream::MovedHot, Stream::Levelled];
    space.restore(0, false, PAGES, 9);
    assert_eq!((space.blocks().state(0), space.blocks().closed_at(0)), (BlockState::Full, 9));
    for (block, stream) in (1..).zip(streams) {
        assert_eq!(space.open_of(0, stream), None);
        space.restore(block, false, 2, 9);
        assert_eq!(space.open_of(0, stream), Some(block));
        assert_eq!(space.blocks().state(block), BlockState::Open);
        assert_eq!(space.blocks().written(block), 2);
    }
    space.restore(6, false, 2, 9);
    assert_eq!(space.blocks().state(6), BlockState::Full, "nobody is left to fill it");
    space.restore(7, true, 1, 9);
    assert_eq!(space.next_own_place(), Some(7 * PAGES + 1));
    space.restore(8, true, 1, 9);
    assert_eq!(space.blocks().state(8), BlockState::Full, "a second one of the drive's own");
    space.restore_unreadable(9, 3);
    let found = (space.blocks().state(9), space.blocks().written(9), space.blocks().closed_at(9));
    assert_eq!(found, (BlockState::Full, 3, 0));
    assert_eq!(space.blocks().free_of(0), 2);
}

#[test]
fn a_bad_block_that_is_found_is_emptied_if_anything_in_it_is_live() {
    let mut space = space(1, 4);
    for block in [1, 2] {
        space.retire(block);
    }
    space.gain(2 * PAGES, 1);
    space.restore_bad(1);
    space.restore_bad(2);
    assert_eq!(space.blocks().state(1), BlockState::Bad);
    assert_eq!(space.blocks().state(2), BlockState::Condemned);
    assert_eq!(space.blocks().condemned_of(0), Some(2));
}
