//! Pictures of blocks: few cells say what many do.
//! Room: onefold-flash.

use crate::drive::Picture;
use crate::ftl::blocks::{BlockState, Blocks};
use crate::testing::plane::plane;

/// Twelve blocks of four pages in each state.
fn blocks() -> Blocks {
    let mut blocks = Blocks::new(plane(12, 4));
    for (number, written) in (0..).zip([4, 4, 1, 3, 2, 4]) {
        let block = blocks.take_free(0, false).unwrap();
        assert_eq!(block, number);
        (0..written).for_each(|_| assert!(blocks.append(block) < 4));
    }
    blocks
}

#[test]
fn cells_are_what_most_of_their_blocks_are() {
    let geometry = plane(12, 4);
    let mut blocks = blocks();
    for (block, live) in [(0, 3), (1, 1), (2, 1), (3, 3), (5, 4)] {
        blocks.gain(block, live);
    }
    blocks.close(0, 1);
    blocks.close(1, 2);
    blocks.close(5, 3);
    let of = |blocks: &Blocks, cells| Picture::of(blocks, &geometry, cells);
    let fine = of(&blocks, 12);
    assert_eq!((fine.blocks, fine.blocks_per_cell), (12, 1));
    assert_eq!(fine.states, "uuooouffffff");
    assert_eq!(fine.written, [100, 100, 25, 75, 50, 100, 0, 0, 0, 0, 0, 0]);
    assert_eq!(fine.live, [75, 25, 25, 75, 0, 100, 0, 0, 0, 0, 0, 0]);
    assert_eq!(of(&blocks, 100), fine, "no cell stands for less than a block");
    let coarse = of(&blocks, 5);
    assert_eq!((coarse.blocks, coarse.blocks_per_cell), (12, 3));
    // 9 of 12 pages, 9 of 12, none, none; 5 and 7 live ones, rounded up.
    assert_eq!(coarse.states, "uoff");
    assert_eq!(coarse.written, [75, 75, 0, 0]);
    assert_eq!(coarse.live, [42, 59, 0, 0]);
    // The last cell stands for fewer blocks.
    let uneven = of(&blocks, 2);
    // As many are open as are full.
    assert_eq!((uneven.blocks_per_cell, uneven.states.as_str()), (6, "of"));
    assert_eq!(of(&blocks, 3).blocks_per_cell, 4);
    let last = of(&blocks, 11);
    assert_eq!((last.blocks_per_cell, last.written.len()), (2, 6));
    for one in [0, 1] {
        let whole = of(&blocks, one);
        assert_eq!((whole.blocks_per_cell, whole.states.as_str()), (12, "f"));
        // 18 of 48 pages are written, 12 live.
        assert_eq!((whole.written, whole.live), (vec![38], vec![25]));
    }
    assert_eq!(of(&blocks, 7).states.len(), 6);
}

#[test]
fn what_is_rare_is_shown_where_it_matters() {
    let geometry = plane(12, 4);
    let mut blocks = blocks();
    for block in 0..6 {
        blocks.close(block, 1);
    }
    let states = |blocks: &Blocks, cells| Picture::of(blocks, &geometry, cells).states;
    assert_eq!(states(&blocks, 4), "uuff");
    // One that is collected is shown whatever the others do.
    blocks.begin_collection(4);
    assert_eq!(blocks.state(4), BlockState::Victim);
    assert_eq!(states(&blocks, 4), "uvff");
    blocks.condemn(1);
    assert_eq!(states(&blocks, 12), "ucuuvuffffff");
    assert_eq!(states(&blocks, 4), "uvff", "others go by their number");
    // Of equally many, what is worse.
    assert_eq!(states(&blocks, 6), "cuvfff");
}

#[test]
fn a_block_of_one_page_is_empty_or_full() {
    let geometry = plane(8, 1);
    let mut blocks = Blocks::new(geometry);
    let block = blocks.take_free(0, false).unwrap();
    blocks.append(block);
    blocks.gain(block, 1);
    let picture = Picture::of(&blocks, &geometry, 8);
    assert_eq!((picture.written[0], picture.live[0], picture.written[1]), (100, 100, 0));
}
