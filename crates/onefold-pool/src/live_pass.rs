//! A pass over all maps for what refers to closed containers, in turns, while others write, and
//! make and delete snapshots, between any two of these.
//! Room: onefold-pool.
//! In: containers that were closed to sharing before. Out: where references into them lead.
//! Invariants: (1) a reference that there is at the end of the last turn leads where one that was
//! found does. Nothing is shared in closed containers, so that it was there before, or was copied
//! with a leaf that a snapshot still has; and leaves come to be another tree's in two ways: with a
//! new snapshot, which comes later in the order of trees, or when a deletion leaves them to an
//! heir, which is looked at again; (2) a map that cannot be read is an error; (3) who makes or
//! deletes a snapshot waits for one turn; (4) nothing of it is on disk.
//! Cost: distinct pages once, and those again that an heir has as its own; 4 bytes of memory per
//! reference that is found.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use onefold_block::{ContainerId, Lba};

use crate::engine::Inner;
use crate::error::PoolError;
use crate::map::ENTRIES_PER_PAGE;
use crate::map_pass::LEAF_BYTES;
use crate::pba::Location;
use crate::sync;

/// Leaves that are read while nobody else makes or deletes a snapshot.
const LEAVES_PER_TURN: u64 = if cfg!(test) { 1 } else { 64 };
/// So many places where a tree has no page of its own take as long as a leaf.
const PASSED_PER_LEAF: u64 = 64;
/// References held in memory, at most: those that are known at first, and as many copies.
const REFERENCES_MAX: u64 = 2 << 20;
/// Trees that are looked at again, at most, so that deletions without end do not keep a pass.
const AGAIN_MAX: u32 = 256;

/// Trees that deletions left pages to; changes with the lineage held.
pub type Handed = BTreeSet<u32>;

/// A pass that is under way.
#[derive(Default)]
pub struct LivePass {
    /// In order.
    closed: Vec<ContainerId>,
    /// The tree that is being looked at, and its block that comes next.
    at: Option<(u32, u64)>,
    /// Trees from this number on were not looked at yet.
    next: u32,
    /// These are to be looked at again.
    again: BTreeSet<u32>,
    looked_again: u32,
    found: HashMap<ContainerId, Vec<Location>>,
    references: u64,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is more to look at.
    More,
    /// All references were found.
    Whole,
    /// It will not come to its end.
    GivenUp,
}

impl LivePass {
    /// One for these containers, which are closed; in order.
    pub fn of(closed: Vec<ContainerId>) -> Self {
        Self { closed, ..Self::default() }
    }

    /// Into which containers.
    pub fn closed(&self) -> &[ContainerId] {
        &self.closed
    }

    /// Where references into a container lead, each at least as often as there are such.
    pub fn found(&self, id: ContainerId) -> &[Location] {
        self.found.get(&id).map_or(&[], Vec::as_slice)
    }
}

impl Inner {
    /// The same as [`Inner::lock_lineage`], for work that can wait: who comes meanwhile is next.
    pub fn lock_lineage_for_a_turn(&self) -> MutexGuard<'_, ()> {
        sync::point("lineage");
        sync::lock(&self.lineage)
    }

    /// Whether somebody waits who makes or deletes snapshots.
    pub fn is_lineage_wanted(&self) -> bool {
        self.lineage_wanted.load(Ordering::Acquire) > 0
    }

    /// Go on with a pass. Returns the bytes read with what it came to.
    pub fn live_turn(&self, pass: &mut LivePass) -> Result<(Turn, u64), PoolError> {
        let _lineage = self.lock_lineage_for_a_turn();
        {
            let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
            // Those from `next` on are still to come.
            pass.again.extend(std::mem::take(&mut *handed).range(..pass.next));
        }
        let (mut done, mut turn) = (0, Turn::More);
        while turn == Turn::More && done < LEAVES_PER_TURN * PASSED_PER_LEAF {
            if pass.references > REFERENCES_MAX || pass.looked_again > AGAIN_MAX {
                turn = Turn::GivenUp;
            } else if let Some((tree, block)) = pass.at.or_else(|| self.next_tree(pass)) {
                let (next, is_leaf) = self.look_at(pass, tree, block)?;
                pass.at = next.map(|block| (tree, block));
                done += if is_leaf { PASSED_PER_LEAF } else { 1 };
            } else {
                turn = Turn::Whole;
            }
        }
        Ok((turn, done.div_ceil(PASSED_PER_LEAF).max(1) * LEAF_BYTES))
    }

    fn next_tree(&self, pass: &mut LivePass) -> Option<(u32, u64)> {
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((&number, _)) = volumes.range(pass.next..).next() {
            pass.next = number + 1;
            return Some((number, 0));
        }
        let number = pass.again.pop_first()?;
        pass.looked_again += 1;
        Some((number, 0))
    }

    /// Find what is referred to in one leaf, or pass over what is not the tree's own; the block
    /// that comes next, if any does, and whether there was a leaf.
    fn look_at(
        &self,
        pass: &mut LivePass,
        tree: u32,
        block: u64,
    ) -> Result<(Option<u64>, bool), PoolError> {
        let end = self.map.blocks_max(tree).unwrap_or(0);
        if block >= end {
            return Ok((None, false));
        }
        let lba = Lba::new(block);
        // What comes before it ended with a leaf, and so does the tree.
        let whole = ENTRIES_PER_PAGE as u64;
        let mut entries = Vec::new();
        let run = self.map.not_own_run(tree, lba, end - block).and_then(|run| {
            if run == 0 {
                entries.reserve(whole as usize);
                self.map.entries(tree, lba, whole, &mut entries)?;
            }
            Ok(if run == 0 { whole } else { run })
        });
        let run = match run {
            Ok(run) => run,
            // Its blocks were all given up.
            Err(PoolError::VolumeDeleted) => return Ok((None, false)),
            Err(error) => return Err(error),
        };
        for pba in entries.iter().filter_map(|entry| entry.pba()) {
            if pass.closed.binary_search(&pba.container).is_ok() {
                pass.found.entry(pba.container).or_default().push(pba.location);
                pass.references += 1;
            }
        }
        Ok((Some(block + run), !entries.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, SimFolder};

    use super::*;
    use crate::PoolSettings;

    #[test]
    fn a_pass_goes_on_with_as_much_as_it_may_hold_and_look_at_and_with_no_more() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let turn = |references, looked_again| {
            let mut pass = LivePass { looked_again, references, ..LivePass::default() };
            let (turn, read) = pool.inner.live_turn(&mut pass).unwrap();
            assert_eq!(read, LEAF_BYTES, "as much as a leaf, at least");
            turn
        };
        assert_eq!(turn(REFERENCES_MAX, AGAIN_MAX), Turn::Whole);
        assert_eq!(turn(REFERENCES_MAX + 1, 0), Turn::GivenUp);
        assert_eq!(turn(0, AGAIN_MAX + 1), Turn::GivenUp);
        // One leaf in a turn, here.
        let volume = pool.create_volume("main", ByteSize(2 << 20)).unwrap();
        volume.write_at(0, &[7; 4096], false).unwrap();
        assert_eq!(turn(0, 0), Turn::More);
    }

    #[test]
    fn each_block_of_each_volume_is_found_once() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let mut expected = 0;
        // Numbered one after another; in leaves of 512 blocks, and from the first to the last one.
        for (name, blocks) in [("a", 513), ("b", 1), ("c", 1030), ("d", 512)] {
            let volume = pool.create_volume(name, ByteSize(blocks * 4096)).unwrap();
            for block in [0, 1, 511, 512, 513, 1029].into_iter().filter(|&block| block < blocks) {
                let mut bytes = [7; 4096];
                bytes[..8].copy_from_slice(&(blocks << 32 | block).to_le_bytes());
                volume.write_at(block * 4096, &bytes, false).unwrap();
                expected += 1;
            }
        }
        let id = pool.inner.newest();
        let mut pass = LivePass::of(vec![id]);
        while pool.inner.live_turn(&mut pass).unwrap().0 != Turn::Whole {}
        let mut found = pass.found(id).to_vec();
        assert_eq!((found.len(), pass.references), (expected, expected as u64));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), expected);
        // One that a deletion left pages to is looked at once more.
        let number = pool.volume("b").unwrap().state.number;
        pool.inner.handed.lock().unwrap().insert(number);
        while pool.inner.live_turn(&mut pass).unwrap().0 != Turn::Whole {}
        assert_eq!((pass.found(id).len(), pass.looked_again), (expected + 1, 1));
    }

    #[test]
    fn what_a_deletion_leaves_to_a_volume_that_was_looked_at_is_found() {
        let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1024 * 4096)).unwrap();
        let write = |block: u64, byte| volume.write_at(block * 4096, &[byte; 4096], false).unwrap();
        write(0, 1);
        write(600, 2);
        pool.snapshot("main@one", 0, false).unwrap();
        write(600, 3);
        let id = pool.inner.newest();
        let mut pass = LivePass::of(vec![id]);
        // All of the volume: its first leaf is the snapshot's.
        assert_eq!(pool.inner.live_turn(&mut pass).unwrap().0, Turn::More);
        assert_eq!(pass.found(id).len(), 1);
        pool.delete_snapshot("main@one").unwrap();
        while !pool.give_up_deleted(u64::MAX).unwrap() {}
        while pool.inner.live_turn(&mut pass).unwrap().0 != Turn::Whole {}
        let mut found = pass.found(id).to_vec();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn who_waits_to_make_a_snapshot_is_seen_until_it_is_its_turn() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let inner = &pool.inner;
        assert!(!inner.is_lineage_wanted());
        let turn = inner.lock_lineage_for_a_turn();
        let seen = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(inner.lock_lineage()));
            while inner.lineage_wanted.load(Ordering::Acquire) == 0 {
                assert!(!waiting.is_finished(), "it waits for the turn");
                std::thread::yield_now();
            }
            let seen = inner.is_lineage_wanted();
            drop(turn);
            seen
        });
        assert!(seen);
        assert!(!inner.is_lineage_wanted());
    }
}
