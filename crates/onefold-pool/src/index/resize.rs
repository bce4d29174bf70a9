//! The index keeps to another budget while it is asked.
//! Room: onefold-pool.
//! In: a budget. Out: a table that keeps to it, with what of the former one has room.
//! With less memory, hooks stay and what was of use last; where that would leave shards too small
//! to fill well, several become one. With more, shards grow; past four times the memory their tags
//! tell too few entries apart, and a new table begins beside the former one, which is asked as long
//! as its entries are not in the new one: whoever inserts knows their hashes, the entries do not.
//! Invariants: (1) both tables together keep to the budget, as soon as this returns; (2) searches
//! wait for one shard at a time.

use std::sync::atomic::Ordering;

use super::arena::Arena;
use super::shard::{Layout, Shard, buckets_for};
use super::table::{Table, buckets_per_shard, shards_for};
use super::{FingerprintIndex, Growth, Tables};

/// Times of their usual size that shards may have: one search in 70 then finds a stranger.
const SHARD_GROWTH_MAX: u64 = 4;
/// Shards that would have less than this become fewer.
const SHARD_BYTES_MIN: u64 = 32 << 10;
/// What they are brought to before.
const BEFORE_MERGE_BYTES: u64 = 8 << 10;

impl FingerprintIndex {
    /// Never use more than `budget_bytes` from now on. With less, what does not fit is let go. With
    /// more, it is not full any more. True if what it should have held all along is to be inserted
    /// again: what was let go before, and what only a former table knows.
    pub fn set_budget(&self, budget_bytes: u64) -> bool {
        let mut growth = self.growth();
        if budget_bytes > growth.budget_bytes {
            return self.grow(&mut growth, budget_bytes);
        }
        if budget_bytes < growth.budget_bytes {
            self.shrink(&mut growth, budget_bytes);
        }
        false
    }

    /// All that was to be inserted again is there: nobody asks a former table any more.
    pub fn forget_former(&self) {
        let mut growth = self.growth();
        self.tables_mut().end_former(&mut growth);
    }

    fn grow(&self, growth: &mut Growth, budget_bytes: u64) -> bool {
        let mut tables = self.tables_mut();
        growth.budget_bytes = budget_bytes;
        let wanted = shards_for(budget_bytes);
        if wanted > tables.now.shards.len() as u64 * SHARD_GROWTH_MAX {
            let before = std::mem::replace(&mut tables.now, Table::new(wanted));
            // Of two former ones, the fuller.
            let former = tables.former.take().filter(|former| former.len() > before.len());
            tables.former = Some(former.unwrap_or(before));
        }
        tables.give_all(growth);
        self.full_of_hooks.store(false, Ordering::Relaxed);
        self.full.swap(false, Ordering::Relaxed) || tables.former.is_some()
    }

    fn shrink(&self, growth: &mut Growth, budget_bytes: u64) {
        growth.budget_bytes = budget_bytes;
        let shards = {
            let mut tables = self.tables_mut();
            if let Some(former) = tables.former.take() {
                // What only the other one knows goes.
                self.full.store(true, Ordering::Relaxed);
                if former.len() > tables.now.len() {
                    tables.now = former;
                    tables.now.shards.iter_mut().for_each(Shard::may_grow);
                }
            }
            tables.now.shards.len() as u64
        };
        if budget_bytes / shards >= SHARD_BYTES_MIN || shards <= shards_for(budget_bytes) {
            self.shrink_shards(growth, budget_bytes);
        } else {
            self.shrink_shards(growth, budget_bytes.max(shards * BEFORE_MERGE_BYTES));
            self.merge_shards(growth, budget_bytes);
        }
    }

    /// Every shard has its part of so many bytes at most.
    fn shrink_shards(&self, growth: &mut Growth, bytes: u64) {
        let shards = self.tables().now.shards.len();
        let most = buckets_per_shard(bytes, shards as u64);
        growth.buckets_per_shard = most;
        let each = |step: &mut dyn FnMut(&mut Shard, &mut Arena)| {
            for number in 0..shards {
                let Table { shards, arena } = &mut self.tables_mut().now;
                step(&mut shards[number], arena);
            }
        };
        each(&mut |shard, arena| {
            // Without memory to do it in, that shard stays as it is.
            let gone = shard.shrink(arena, most, &mut growth.layout).unwrap_or_default();
            self.note_let_go(gone.0, gone.1);
        });
        growth.layout = Layout::default();
        let end = self.tables_mut().now.arena.begin_cut();
        each(&mut |shard, arena| shard.move_below(arena, end));
        self.tables_mut().now.arena.cut(end);
    }

    /// As few shards as a budget needs, with what those before had. Nobody inserts meanwhile; what
    /// is removed meanwhile may come back, as a hint that leads nowhere.
    fn merge_shards(&self, growth: &mut Growth, budget_bytes: u64) {
        let count = shards_for(budget_bytes);
        let most = buckets_per_shard(budget_bytes, count);
        let mut merged = Table::new(count);
        let tables = self.tables();
        let former = &tables.now;
        let mut entries = Vec::new();
        for (number, shard) in merged.shards.iter_mut().enumerate() {
            entries.clear();
            for part in former.shards.iter().skip(number).step_by(count as usize) {
                part.add_entries(&former.arena, &mut entries);
            }
            let all = entries.len() as u64;
            let buckets = buckets_for(entries.len()).min(most);
            let gone = shard.take_in(&mut merged.arena, buckets, &mut entries, &mut growth.layout);
            if buckets < most {
                shard.may_grow();
            }
            // Without memory, what was in these is let go.
            let (entries, hooks) = gone.unwrap_or((all, all));
            self.note_let_go(entries, hooks);
        }
        drop(tables);
        growth.layout = Layout::default();
        growth.buckets_per_shard = most;
        self.tables_mut().now = merged;
    }
}

impl Tables {
    /// There is no former table any more: the memory is the other's.
    pub(super) fn end_former(&mut self, growth: &mut Growth) {
        if self.former.take().is_some() {
            self.give_all(growth);
        }
    }

    /// All memory but the former table's is the other one's to grow into.
    fn give_all(&mut self, growth: &mut Growth) {
        let lent = self.former.as_ref().map_or(0, Table::bytes) as u64;
        let bytes = growth.budget_bytes.saturating_sub(lent);
        growth.buckets_per_shard = buckets_per_shard(bytes, self.now.shards.len() as u64);
        self.now.shards.iter_mut().for_each(Shard::may_grow);
    }
}
