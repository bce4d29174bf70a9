//! The blocks of a drive as a picture: what each does, how full and how live it is.
//! Room: onefold-flash.   In: the state of every block.   Out: at most so many cells.
//! Cost: a look at each block.

use serde::Serialize;

use crate::ftl::blocks::{BlockState, Blocks};
use crate::geometry::Geometry;

/// A picture. Each cell stands for the same number of blocks, the last one for fewer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Picture {
    /// Blocks of the drive.
    pub blocks: u32,
    /// Blocks in a cell.
    pub blocks_per_cell: u32,
    /// What most of the cell's blocks do: `f`ree, `o`pen, f`u`ll, `v`ictim, `c`ondemned or `b`ad;
    /// one that is being collected is always shown.
    pub states: String,
    /// Pages that are programmed, in percent.
    pub written: Vec<u8>,
    /// Pages that are live, in percent.
    pub live: Vec<u8>,
    /// Erases that its blocks have seen, on the average.
    pub erases: Vec<u32>,
}

/// The letters of states, those that are shown before others first.
const LETTERS: [char; 6] = ['v', 'c', 'b', 'o', 'u', 'f'];

const fn rank(state: BlockState) -> usize {
    match state {
        BlockState::Victim => 0,
        BlockState::Condemned => 1,
        BlockState::Bad => 2,
        BlockState::Open => 3,
        BlockState::Full => 4,
        BlockState::Free => 5,
    }
}

impl Picture {
    /// Of these blocks, in at most `cells_max` cells.
    pub fn of(blocks: &Blocks, geometry: &Geometry, cells_max: u32) -> Self {
        let all = geometry.blocks();
        let per_cell = all.div_ceil(cells_max.max(1)).max(1);
        let mut picture = Self { blocks: all, blocks_per_cell: per_cell, ..Self::default() };
        for first in (0..all).step_by(per_cell as usize) {
            let cell = first..all.min(first.saturating_add(per_cell));
            let count = u64::from(cell.end - cell.start);
            let (mut ranks, mut written, mut live, mut erases) = ([0_u32; 6], 0, 0, 0);
            for block in cell {
                ranks[rank(blocks.state(block))] += 1;
                written += u64::from(blocks.written(block));
                live += u64::from(blocks.live(block));
                erases += u64::from(blocks.erases(block));
            }
            let shown = if ranks[0] > 0 {
                0
            } else {
                // The first of those that are equally many.
                (1..ranks.len()).rev().max_by_key(|&rank| ranks[rank]).unwrap_or(0)
            };
            let pages = count * u64::from(geometry.pages_per_block);
            let percent = |part: u64| (part * 100).div_ceil(pages.max(1)).min(100) as u8;
            picture.states.push(LETTERS[shown]);
            picture.written.push(percent(written));
            picture.live.push(percent(live));
            picture.erases.push((erases / count) as u32);
        }
        picture
    }
}
