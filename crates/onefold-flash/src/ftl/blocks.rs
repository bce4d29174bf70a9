//! The state of every erase block: what it is for, how full, how live, how worn.
//! Room: onefold-flash.
//! Invariants: `live` is the number of pages of the block with an owner; a plane's `free` list
//! holds exactly its blocks in state `Free`.
//! Cost: about 24 B per block.

use crate::geometry::Geometry;

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
    free: Vec<Vec<u32>>,
    live_of_plane: Vec<u32>,
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
            free,
            live_of_plane: vec![0; geometry.planes() as usize],
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

    /// Pages programmed in a block since it was erased.
    pub fn written(&self, block: u32) -> u32 {
        self.written[block as usize]
    }

    /// Erases that a block has seen.
    pub fn erases(&self, block: u32) -> u32 {
        self.erases[block as usize]
    }

    /// When a full block was closed, in the FTL's sequence.
    pub fn closed_at(&self, block: u32) -> u64 {
        self.closed_at[block as usize]
    }

    /// Free blocks of a plane.
    pub fn free_of(&self, plane: u32) -> u32 {
        self.free[plane as usize].len() as u32
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

    /// Takes the least worn free block of a plane (or the most worn, for cold data).
    pub fn take_free(&mut self, plane: u32, most_worn: bool) -> Option<u32> {
        let free = &mut self.free[plane as usize];
        let wear = |block: u32| self.erases[block as usize];
        let mut best = free.len().checked_sub(1)?;
        for at in (0..best).rev() {
            let (here, there) = (wear(free[at]), wear(free[best]));
            if (most_worn && here > there) || (!most_worn && here < there) {
                best = at;
            }
        }
        let block = free.remove(best);
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

    /// Takes a full block out of the choice of victims.
    pub fn begin_collection(&mut self, block: u32) {
        self.state[block as usize] = BlockState::Victim;
        self.score[block as usize] = u32::MAX;
    }

    /// One more live page.
    pub fn gain(&mut self, block: u32) {
        self.live[block as usize] += 1;
        self.live_of_plane[self.geometry.plane_of_block(block) as usize] += 1;
        let score = &mut self.score[block as usize];
        // `u32::MAX` marks a block that is not full, and stays.
        *score = score.saturating_add(1);
    }

    /// One live page less.
    pub fn lose(&mut self, block: u32) {
        let live = &mut self.live[block as usize];
        assert!(*live > 0, "block {block} has no live page to lose");
        *live -= 1;
        self.live_of_plane[self.geometry.plane_of_block(block) as usize] -= 1;
        let score = &mut self.score[block as usize];
        if *score != u32::MAX {
            *score -= 1;
        }
    }

    /// The block was erased.
    pub fn erased(&mut self, block: u32) {
        assert_eq!(self.live[block as usize], 0, "block {block} erased with live pages");
        self.erases[block as usize] += 1;
        self.written[block as usize] = 0;
        self.score[block as usize] = u32::MAX;
        self.state[block as usize] = BlockState::Free;
        self.free[self.geometry.plane_of_block(block) as usize].push(block);
    }

    /// The block is taken out of use; it must hold nothing live.
    pub fn retire(&mut self, block: u32) {
        assert_eq!(self.live[block as usize], 0, "block {block} retired with live pages");
        self.score[block as usize] = u32::MAX;
        self.state[block as usize] = BlockState::Bad;
        self.free[self.geometry.plane_of_block(block) as usize].retain(|&free| free != block);
    }

    /// Lowest and highest erase count of the blocks in use.
    pub fn wear_range(&self) -> (u32, u32) {
        let used = self.erases.iter().zip(&self.state).filter(|(_, s)| **s != BlockState::Bad);
        used.fold((u32::MAX, 0), |(low, high), (&e, _)| (low.min(e), high.max(e)))
    }
}
