//! The state of every erase block: what it is for, how full, how live, how worn.
//! Room: onefold-flash.
//! Invariants: `live` is the number of pages of the block with an owner (of sub-pages, where flash
//! pages are packed); a plane's `free` list
//! holds exactly its blocks in state `Free`.
//! Cost: about 24 B per block.

use crate::ftl::error::FtlError;
use crate::geometry::{Divider, Geometry};
use crate::memory::prefetch;

/// Free blocks that are looked at to find the least worn one: a drive in use has fewer.
const FREE_LOOKED_AT: usize = 64;

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Erased.
    Free,
    /// Being filled by a stream.
    Open,
    /// Full, or closed before it was.
    Full,
    /// Being collected.
    Victim,
    /// Failed while being programmed: to be emptied and taken out of use.
    Condemned,
    /// Out of use.
    Bad,
}

/// The blocks of a drive.
#[derive(Clone, Debug)]
pub struct Blocks {
    geometry: Geometry,
    state: Vec<BlockState>,
    /// Live pages if the block is full, `u32::MAX` otherwise: what greedy selection scans.
    score: Vec<u32>,
    live: Vec<u32>,
    written: Vec<u32>,
    erases: Vec<u32>,
    closed_at: Vec<u64>,
    /// Sequence of the journal record that must be durable before the block is erased.
    needs: Vec<u64>,
    hot: Vec<bool>,
    free: Vec<Vec<u32>>,
    condemned: Vec<Vec<u32>>,
    live_of_plane: Vec<u32>,
    good_of_plane: Vec<u32>,
    hot_of_plane: Vec<u32>,
    by_plane: Divider,
}

impl Blocks {
    /// All blocks erased and never used.
    pub fn new(geometry: Geometry) -> Self {
        let blocks = geometry.blocks() as usize;
        let plane = geometry.blocks_per_plane;
        let free = (0..geometry.planes())
            .map(|at| (at * plane..(at + 1) * plane).rev().collect())
            .collect();
        Self {
            geometry,
            state: vec![BlockState::Free; blocks],
            score: vec![u32::MAX; blocks],
            live: vec![0; blocks],
            written: vec![0; blocks],
            erases: vec![0; blocks],
            closed_at: vec![0; blocks],
            needs: vec![0; blocks],
            hot: vec![false; blocks],
            free,
            condemned: vec![Vec::new(); geometry.planes() as usize],
            live_of_plane: vec![0; geometry.planes() as usize],
            good_of_plane: vec![plane; geometry.planes() as usize],
            hot_of_plane: vec![0; geometry.planes() as usize],
            by_plane: Divider::new(plane),
        }
    }

    /// What a block is doing.
    pub fn state(&self, block: u32) -> BlockState {
        self.state[block as usize]
    }

    /// Live pages of a block.
    pub fn live(&self, block: u32) -> u32 {
        self.live[block as usize]
    }

    /// A page of the block will soon die.
    #[inline]
    pub fn prefetch(&self, block: u32) {
        prefetch(&self.live, block as usize);
        prefetch(&self.score, block as usize);
    }

    /// Pages programmed in a block since it was erased.
    pub fn written(&self, block: u32) -> u32 {
        self.written[block as usize]
    }

    /// Erases that a block has seen.
    pub fn erases(&self, block: u32) -> u32 {
        self.erases[block as usize]
    }

    /// Whether a block is full and holds nothing live.
    pub fn is_dead(&self, block: u32) -> bool {
        self.score[block as usize] == 0
    }

    /// When a full block was closed, in the FTL's sequence.
    pub fn closed_at(&self, block: u32) -> u64 {
        self.closed_at[block as usize]
    }

    /// Free blocks of a plane.
    pub fn free_of(&self, plane: u32) -> u32 {
        self.free[plane as usize].len() as u32
    }

    /// Blocks of a plane that are not bad.
    pub fn good_of(&self, plane: u32) -> u32 {
        self.good_of_plane[plane as usize]
    }

    /// Blocks of a plane's hot pool.
    pub fn hot_of(&self, plane: u32) -> u32 {
        self.hot_of_plane[plane as usize]
    }

    /// Whether a block belongs to the hot pool.
    pub fn is_hot(&self, block: u32) -> bool {
        self.hot[block as usize]
    }

    /// Puts a block that was just opened into the hot pool.
    pub fn make_hot(&mut self, block: u32) {
        self.hot[block as usize] = true;
        self.hot_of_plane[self.by_plane.of(block) as usize] += 1;
    }

    /// The record that must be durable before a block is erased.
    pub fn needs(&self, block: u32) -> u64 {
        self.needs[block as usize]
    }

    /// A page of the block is dead because of a record.
    pub fn need(&mut self, block: u32, seq: u64) {
        self.needs[block as usize] = seq;
    }

    /// The next block of a plane that failed and still has to be emptied.
    pub fn condemned_of(&self, plane: u32) -> Option<u32> {
        self.condemned[plane as usize].last().copied()
    }

    /// Live pages of a plane.
    pub fn live_of_plane(&self, plane: u32) -> u32 {
        self.live_of_plane[plane as usize]
    }

    /// Live pages of each full block of a plane, `u32::MAX` for the others.
    pub fn scores(&self, plane: u32) -> &[u32] {
        let first = (plane * self.geometry.blocks_per_plane) as usize;
        &self.score[first..first + self.geometry.blocks_per_plane as usize]
    }

    /// Takes the least worn free block of a plane (or the most worn, for cold data), of the last
    /// few dozen that became free.
    pub fn take_free(&mut self, plane: u32, most_worn: bool) -> Option<u32> {
        let free = &mut self.free[plane as usize];
        let wear = |block: u32| self.erases[block as usize];
        let mut best = free.len().checked_sub(1)?;
        for at in (best.saturating_sub(FREE_LOOKED_AT)..best).rev() {
            let (here, there) = (wear(free[at]), wear(free[best]));
            if (most_worn && here > there) || (!most_worn && here < there) {
                best = at;
            }
        }
        let block = free.swap_remove(best);
        self.state[block as usize] = BlockState::Open;
        Some(block)
    }

    /// Counts one programmed page of an open block; the answer is its number in the block.
    pub fn append(&mut self, block: u32) -> u32 {
        let written = &mut self.written[block as usize];
        assert!(*written < self.geometry.pages_per_block, "block {block} is full");
        *written += 1;
        *written - 1
    }

    /// Whether an open block has no page left.
    pub fn is_full(&self, block: u32) -> bool {
        self.written[block as usize] == self.geometry.pages_per_block
    }

    /// Closes an open block.
    pub fn close(&mut self, block: u32, seq: u64) {
        self.state[block as usize] = BlockState::Full;
        self.closed_at[block as usize] = seq;
        self.score[block as usize] = self.live[block as usize];
    }

    /// A program in the block failed: it is written no more, and is the next to be emptied.
    pub fn condemn(&mut self, block: u32) {
        let plane = self.by_plane.of(block) as usize;
        self.free[plane].retain(|&free| free != block);
        self.state[block as usize] = BlockState::Condemned;
        self.score[block as usize] = u32::MAX;
        self.condemned[plane].push(block);
        self.good_of_plane[plane] -= 1;
    }

    /// A block that is out of use turns out to hold live pages.
    pub(super) fn condemn_retired(&mut self, block: u32) {
        self.state[block as usize] = BlockState::Condemned;
        self.condemned[self.by_plane.of(block) as usize].push(block);
    }

    /// Takes a full block out of the choice of victims.
    pub fn begin_collection(&mut self, block: u32) {
        self.state[block as usize] = BlockState::Victim;
        self.score[block as usize] = u32::MAX;
    }

    /// So many more live pages.
    #[inline]
    pub fn gain(&mut self, block: u32, pages: u32) {
        self.live[block as usize] += pages;
        self.live_of_plane[self.by_plane.of(block) as usize] += pages;
        let score = &mut self.score[block as usize];
        // `u32::MAX` marks a block that is not full, and stays.
        *score = score.saturating_add(pages);
    }

    /// So many live pages less.
    #[inline]
    pub fn lose(&mut self, block: u32, pages: u32) {
        let live = &mut self.live[block as usize];
        assert!(*live >= pages, "block {block} has no live page to lose");
        *live -= pages;
        self.live_of_plane[self.by_plane.of(block) as usize] -= pages;
        let score = &mut self.score[block as usize];
        if *score != u32::MAX {
            *score -= pages;
        }
    }

    /// The block was erased.
    pub fn erased(&mut self, block: u32) {
        assert_eq!(self.live[block as usize], 0, "block {block} erased with live pages");
        self.erases[block as usize] += 1;
        self.written[block as usize] = 0;
        self.needs[block as usize] = 0;
        self.cool(block);
        self.score[block as usize] = u32::MAX;
        self.state[block as usize] = BlockState::Free;
        self.free[self.by_plane.of(block) as usize].push(block);
    }

    /// The block is taken out of use; it must hold nothing live.
    pub fn retire(&mut self, block: u32) {
        assert_eq!(self.live[block as usize], 0, "block {block} retired with live pages");
        let plane = self.by_plane.of(block) as usize;
        match self.state[block as usize] {
            BlockState::Bad => return,
            BlockState::Condemned => self.condemned[plane].retain(|&at| at != block),
            _ => {
                self.free[plane].retain(|&free| free != block);
                self.good_of_plane[plane] -= 1;
            }
        }
        self.cool(block);
        self.score[block as usize] = u32::MAX;
        self.state[block as usize] = BlockState::Bad;
    }

    fn cool(&mut self, block: u32) {
        if std::mem::take(&mut self.hot[block as usize]) {
            self.hot_of_plane[self.by_plane.of(block) as usize] -= 1;
        }
    }

    /// What recovery found: a block with so many pages used, which goes on being filled or not.
    pub(super) fn restore(&mut self, block: u32, state: BlockState, written: u32, closed_at: u64) {
        self.free[self.by_plane.of(block) as usize].retain(|&free| free != block);
        self.state[block as usize] = state;
        self.written[block as usize] = written;
        self.closed_at[block as usize] = closed_at;
        let full = state == BlockState::Full;
        self.score[block as usize] = if full { self.live[block as usize] } else { u32::MAX };
    }

    /// The erase count that a checkpoint remembers.
    pub(super) fn restore_erases(&mut self, block: u32, erases: u32) {
        self.erases[block as usize] = erases;
    }

    /// The least worn full block of a plane.
    pub fn least_worn_full(&self, plane: u32) -> Option<u32> {
        let first = plane * self.geometry.blocks_per_plane;
        let full = (first..first + self.geometry.blocks_per_plane)
            .filter(|&block| self.state[block as usize] == BlockState::Full);
        full.min_by_key(|&block| self.erases[block as usize])
    }

    /// Blocks in use by erase count.
    pub fn erase_histogram(&self) -> std::collections::BTreeMap<u32, u32> {
        let mut histogram = std::collections::BTreeMap::new();
        for (&erases, &state) in self.erases.iter().zip(&self.state) {
            if !matches!(state, BlockState::Bad | BlockState::Condemned) {
                *histogram.entry(erases).or_default() += 1;
            }
        }
        histogram
    }

    /// Blocks in use.
    pub fn good(&self) -> u32 {
        self.good_of_plane.iter().sum()
    }

    /// Blocks out of use.
    pub fn bad(&self) -> u32 {
        self.geometry.blocks() - self.good()
    }

    /// There is no block left to write to.
    pub(super) fn no_space(&self) -> FtlError {
        FtlError::NoSpace { bad_blocks: self.bad(), blocks: self.geometry.blocks() }
    }

    /// Lowest and highest erase count of the blocks in use.
    pub fn wear_range(&self) -> (u32, u32) {
        let all = self.erases.iter().zip(&self.state);
        let used = all.filter(|(_, state)| **state != BlockState::Bad).map(|(&erases, _)| erases);
        used.clone().min().zip(used.max()).unwrap_or_default()
    }
}
