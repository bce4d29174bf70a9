//! The fingerprint index: where a chunk with this fingerprint might be.
//! Room: onefold-pool.
//! In: 64 bits of fingerprints. Out: candidates, which the caller must verify.
//! Invariants: (1) memory never exceeds the budget; (2) below the budget nothing is let go;
//! (3) an entry may be stale: it names a container that is gone, or another chunk.
//! Cost: 8 bytes a chunk in buckets of one cache line, 74 to 92 % full: 9.1 to 10.7 bytes a chunk.
//! One in 64 entries, by hash, is a hook. When there is no room for all, hooks are kept rather than
//! others, up to half of the memory: by them the rest of what was stored with them is found.
//! Source: hooks as in [sparse-index-09]; reading ahead what was stored together as in [ddfs-08];
//! [dm-vdo] keeps a sparse index of the same density.
//! A search costs misses of the cache and of the TLB. Those of a batch are made at the same time,
//! which at 4 million chunks takes 60 ns a chunk, where one search after another took 200.
//!
//! Searches take one lock for the whole batch, shared with all but a shard that grows: entries are
//! hints, so that one that changes meanwhile does no harm.

mod arena;
mod entry;
#[cfg(test)]
mod life_tests;
mod resize;
mod shard;
mod table;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use onefold_block::ContainerId;

pub use self::entry::Place;
use self::entry::{AGE_AHEAD, AGE_NEW, is_hook_tag, tag_of_hash};
pub use self::shard::Candidates;
use self::shard::{Inserted, Layout};
use self::table::{Table, buckets_per_shard, shards_for};
use crate::pba::CHUNKS_PER_CONTAINER_MAX;

/// Bytes that an entry takes, about.
const ENTRY_BYTES: u64 = 10;
/// Hashes whose first slots are asked for at once.
const AHEAD: usize = 64;

/// Whether the chunk with this hash is a hook.
pub const fn is_hook(hash: u64) -> bool {
    is_hook_tag(tag_of_hash(hash))
}

/// The whole index.
pub struct FingerprintIndex {
    tables: RwLock<Tables>,
    /// Held by the one thread that inserts.
    growth: Mutex<Growth>,
    let_go: AtomicU64,
    /// Entries were let go since the budget last grew.
    full: AtomicBool,
    /// Of these, hooks.
    full_of_hooks: AtomicBool,
    /// Seniority of the last place that can be asked of runs on disk.
    in_runs_to: AtomicU64,
    runs_are_asked: AtomicBool,
}

/// What is there to grow with.
struct Growth {
    layout: Layout,
    buckets_per_shard: usize,
    budget_bytes: u64,
}

struct Tables {
    now: Table,
    /// What there was before the budget grew to more than these shards serve well. It is asked
    /// until its entries are in the other one.
    former: Option<Table>,
}

/// What the index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Entries held.
    pub entries: u64,
    /// Entries let go because the budget was used up.
    pub let_go: u64,
    /// Memory in use, in bytes.
    pub bytes: u64,
    /// Memory that may be used, in bytes.
    pub budget_bytes: u64,
}

impl FingerprintIndex {
    /// An empty index that will never use more than `budget_bytes`.
    pub fn new(budget_bytes: u64) -> Self {
        let shards = shards_for(budget_bytes);
        let growth = Growth {
            layout: Layout::default(),
            buckets_per_shard: buckets_per_shard(budget_bytes, shards),
            budget_bytes,
        };
        Self {
            tables: RwLock::new(Tables { now: Table::new(shards), former: None }),
            growth: Mutex::new(growth),
            let_go: AtomicU64::new(0),
            full: AtomicBool::new(false),
            full_of_hooks: AtomicBool::new(false),
            in_runs_to: AtomicU64::new(0),
            runs_are_asked: AtomicBool::new(true),
        }
    }

    fn tables(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn tables_mut(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn growth(&self) -> MutexGuard<'_, Growth> {
        self.growth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many entries went, and among them so many hooks.
    fn note_let_go(&self, entries: u64, hooks: u64) {
        if entries > 0 {
            self.let_go.fetch_add(entries, Ordering::Relaxed);
            self.full.store(true, Ordering::Relaxed);
        }
        if hooks > 0 {
            self.full_of_hooks.store(true, Ordering::Relaxed);
        }
    }

    /// Places at which the chunks with these hashes might be, one answer per hash after what is in
    /// `found`, and a note that they were asked for.
    pub fn lookup_many(&self, hashes: &[u64], found: &mut Vec<Candidates>) {
        let tables = self.tables();
        let from = found.len();
        for hashes in hashes.chunks(AHEAD) {
            tables.now.ask_for(hashes.iter().copied());
            found.extend(hashes.iter().map(|&hash| tables.now.lookup(hash)));
        }
        if let Some(former) = &tables.former {
            for (&hash, found) in hashes.iter().zip(&mut found[from..]) {
                if found.is_empty() {
                    *found = former.lookup(hash);
                }
            }
        }
    }

    /// Note where chunks are.
    pub fn insert_many(&self, entries: &[(u64, Place)]) {
        self.insert_aged(entries, AGE_NEW);
    }

    /// Note where chunks are that will be asked for.
    pub fn insert_ahead(&self, entries: &[(u64, Place)]) {
        self.insert_aged(entries, AGE_AHEAD);
    }

    fn insert_aged(&self, entries: &[(u64, Place)], age: u64) {
        let mut growth = self.growth();
        let mut done = 0;
        while done < entries.len() {
            let (now, full) = self.insert_until_full(&entries[done..], age);
            done += now;
            if let Some(number) = full {
                let mut tables = self.tables_mut();
                // Nothing goes for want of the memory that is lent to the former table.
                if tables.now.is_grown_next(number, growth.buckets_per_shard) {
                    tables.end_former(&mut growth);
                }
                let Table { shards, arena } = &mut tables.now;
                let shard = &mut shards[number];
                let most = growth.buckets_per_shard;
                let let_go = shard.grow(arena, most, number, &mut growth.layout);
                // Without memory this one is not noted: its chunk may be stored again.
                done += usize::from(let_go.is_none());
                self.note_let_go(let_go.unwrap_or(1), 0);
            }
        }
    }

    /// Insert up to the first entry whose shard must grow. Returns how many were inserted, and
    /// which shard that is.
    fn insert_until_full(&self, entries: &[(u64, Place)], age: u64) -> (usize, Option<usize>) {
        let table = &self.tables().now;
        let asked = self.runs_are_asked.load(Ordering::Relaxed);
        let in_runs_to = if asked { self.in_runs_to.load(Ordering::Relaxed) } else { 0 };
        for (number, &(hash, place)) in entries.iter().enumerate() {
            if number % AHEAD == 0 {
                table.ask_for(entries[number..].iter().take(AHEAD).map(|&(hash, _)| hash));
            }
            let (at, shard) = table.shard(hash);
            match shard.insert(&table.arena, (tag_of_hash(hash), place, age), in_runs_to) {
                Inserted::Yes => {}
                Inserted::InsteadOfAnother => self.note_let_go(1, 0),
                Inserted::InsteadOfHook => self.note_let_go(1, 1),
                Inserted::MustGrow => return (number, Some(at)),
            }
        }
        (entries.len(), None)
    }

    /// Forget a place that turned out to hold nothing.
    pub fn remove(&self, hash: u64, place: Place) {
        let tables = self.tables();
        for table in std::iter::once(&tables.now).chain(&tables.former) {
            table.shard(hash).1.remove(&table.arena, tag_of_hash(hash), place);
        }
    }

    /// What was last said of that.
    #[cfg(test)]
    pub fn in_runs_to(&self) -> u64 {
        self.in_runs_to.load(Ordering::Relaxed)
    }

    /// What is in containers up to this one can be asked of runs on disk: it goes first.
    pub fn is_in_runs(&self, newest: ContainerId) {
        let last = Place::new(newest, CHUNKS_PER_CONTAINER_MAX as u16 - 1);
        self.in_runs_to.store(last.map_or(0, Place::seniority), Ordering::Relaxed);
    }

    /// What was last said of that, too.
    #[cfg(test)]
    pub fn are_runs_asked(&self) -> bool {
        self.runs_are_asked.load(Ordering::Relaxed)
    }

    /// Whether they are: if not, age alone decides.
    pub fn runs_are_asked(&self, asked: bool) {
        if self.runs_are_asked.load(Ordering::Relaxed) != asked {
            self.runs_are_asked.store(asked, Ordering::Relaxed);
        }
    }

    /// Entries that have room, about.
    pub fn room(&self) -> u64 {
        self.growth().budget_bytes / ENTRY_BYTES
    }

    /// Whether another entry might push one out.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Whether a former table is asked, too.
    #[cfg(test)]
    pub fn asks_former(&self) -> bool {
        self.tables().former.is_some()
    }

    /// Whether another hook might push one out.
    pub fn is_full_of_hooks(&self) -> bool {
        self.full_of_hooks.load(Ordering::Relaxed)
    }

    /// What it holds now, without what is to be had from a former table alone.
    pub fn stats(&self) -> IndexStats {
        // In the order in which an insertion takes them.
        let growth = self.growth();
        let (beside, budget_bytes) = (growth.layout.bytes(), growth.budget_bytes);
        drop(growth);
        let tables = self.tables();
        let former = tables.former.as_ref().map_or(0, Table::bytes);
        IndexStats {
            entries: tables.now.len() as u64,
            let_go: self.let_go.load(Ordering::Relaxed),
            bytes: (tables.now.bytes() + former + beside) as u64,
            budget_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::shard::Shard;
    use super::*;

    fn mix(n: u64) -> u64 {
        let x = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let x = (x ^ (x >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^ (x >> 29)
    }

    fn place(n: u64) -> Place {
        Place::new(ContainerId::new((n / 1000) as u32 + 1), (n % 1000) as u16).unwrap()
    }

    fn lookup(index: &FingerprintIndex, hash: u64) -> Candidates {
        let mut found = Vec::new();
        index.lookup_many(&[hash], &mut found);
        found[0]
    }

    fn insert(index: &FingerprintIndex, numbers: std::ops::Range<u64>) {
        let entries: Vec<(u64, Place)> = numbers.map(|n| (mix(n), place(n))).collect();
        index.insert_many(&entries);
    }

    #[test]
    fn below_the_budget_nothing_is_let_go_and_memory_is_thin() {
        let index = FingerprintIndex::new(8 << 20);
        let mut each = Vec::new();
        let count = 500_000;
        for from in (0..count).step_by(1000) {
            insert(&index, from..from + 1000);
            let stats = index.stats();
            assert_eq!((stats.entries, stats.let_go), (from + 1000, 0));
            each.push(stats.bytes as f64 / stats.entries as f64);
        }
        let most = each[250..].iter().copied().fold(0.0, f64::max);
        assert!(most < 11.8, "{most} bytes per entry at some time");
        let blocks = index.tables().now.shards.iter().map(Shard::blocks).collect::<Vec<_>>();
        assert!(blocks.iter().all(|(held, needed)| held == needed), "{blocks:?}");
        let hashes: Vec<u64> = (0..2 * count).map(mix).collect();
        let mut found = Vec::new();
        index.lookup_many(&hashes, &mut found);
        for n in 0..count {
            assert!(found[n as usize].contains(place(n)), "entry {n}");
        }
        let strangers: usize = found[count as usize..].iter().map(Candidates::len).sum();
        assert!(strangers < count as usize / 100, "{strangers} false candidates");
    }

    #[test]
    fn past_the_budget_the_oldest_unused_go_and_are_counted() {
        let index = FingerprintIndex::new(1 << 20);
        let count = 400_000;
        for n in 0..count {
            insert(&index, n..n + 1);
            let used = n % 1000; // a thousand entries are asked for again and again
            lookup(&index, mix(used));
        }
        let stats = index.stats();
        assert!(stats.bytes <= 1 << 20, "{} bytes", stats.bytes);
        assert!(stats.entries > (1 << 20) / 12, "only {} entries held", stats.entries);
        assert_eq!(stats.entries + stats.let_go, count);
        assert!(index.is_full());
        let held = |n: u64| lookup(&index, mix(n)).contains(place(n));
        let used = (0..1000).filter(|&n| held(n)).count();
        let newest = (count - 50_000..count).filter(|&n| held(n)).count();
        let oldest = (1000..201_000).filter(|&n| held(n)).count();
        assert!(used > 950, "{used} of the thousand in use");
        assert!(newest > 45_000, "{newest} of the newest 50,000");
        assert!(oldest < 10_000, "{oldest} of the old 200,000");
    }

    #[test]
    fn what_there_is_no_memory_for_is_not_noted_and_is_counted() {
        let index = FingerprintIndex::new(1 << 20);
        onefold_block::memory::refused(|| insert(&index, 0..7));
        let stats = index.stats();
        assert_eq!((stats.entries, stats.let_go, index.is_full()), (0, 7, true));
        insert(&index, 0..7);
        assert_eq!((index.stats().entries, index.stats().let_go), (7, 7));
    }

    #[test]
    fn past_the_budget_hooks_stay_and_others_go() {
        let index = FingerprintIndex::new(1 << 20);
        let count = 1_000_000;
        insert(&index, 0..count);
        let held = |n: u64| lookup(&index, mix(n)).contains(place(n));
        let hooks: Vec<u64> = (0..count).filter(|&n| is_hook(mix(n))).collect();
        let per_hook = count as f64 / hooks.len() as f64;
        assert!((60.0..68.0).contains(&per_hook), "one in {per_hook}");
        let kept = hooks.iter().filter(|&&n| held(n)).count();
        assert!(kept * 100 > hooks.len() * 99, "{kept} of {} hooks", hooks.len());
        let newest = (count - 30_000..count).filter(|&n| held(n)).count();
        assert!(newest > 27_000, "{newest} of the newest 30,000");
        // More hooks than half of it holds: then the oldest of them go.
        assert!(index.stats().let_go > 0 && !index.is_full_of_hooks());
        let more: Vec<(u64, Place)> =
            (count..20 * count).filter(|&n| is_hook(mix(n))).map(|n| (mix(n), place(n))).collect();
        index.insert_many(&more);
        assert!(index.is_full_of_hooks());
        let newest = (count - 10_000..count).filter(|&n| held(n)).count();
        assert!(newest > 4_000, "{newest} of the newest 10,000 that are no hooks");
    }

    #[test]
    fn what_runs_on_disk_tell_as_well_goes_before_what_nothing_else_knows() {
        let index = FingerprintIndex::new(1 << 20);
        // All of a container, and nothing of the next.
        index.is_in_runs(ContainerId::new(7));
        let at = |container, number| Place::new(ContainerId::new(container), number).unwrap();
        let last = at(7, CHUNKS_PER_CONTAINER_MAX as u16 - 1).seniority();
        assert!((last..at(8, 0).seniority()).contains(&index.in_runs_to()));
        let (count, covered) = (150_000, 110_000);
        insert(&index, 0..covered);
        index.is_in_runs(ContainerId::new((covered / 1000) as u32));
        // All of them are of use, and most go all the same.
        for n in 0..covered {
            lookup(&index, mix(n));
        }
        insert(&index, covered..count);
        let held = |n: u64| lookup(&index, mix(n)).contains(place(n));
        let others = (covered..count).filter(|&n| held(n)).count() as u64;
        assert!(others * 100 > (count - covered) * 98, "{others} of {}", count - covered);
        assert!((0..count).filter(|&n| is_hook(mix(n))).all(held));
        assert!(index.stats().entries > (1 << 20) / 13);
        // However much comes, what is of use again and again has a part of the memory.
        let used: Vec<u64> = (0..8000).map(|n| n * 13).filter(|&n| held(n)).collect();
        for from in (count..3 * count).step_by(1000) {
            insert(&index, from..from + 1000);
            for &n in &used {
                lookup(&index, mix(n));
            }
        }
        let stay = used.iter().filter(|&&n| held(n)).count();
        assert!(used.len() > 2000 && stay * 2 > used.len(), "{stay} of {}", used.len());
    }

    #[test]
    fn it_shrinks_to_its_hooks_and_what_was_of_use_and_goes_on() {
        for (before, after) in [(4 << 20, 1 << 20), (4 << 20, 7 << 19), (1 << 20, 400 << 10)] {
            let index = FingerprintIndex::new(before);
            let count = before / 14;
            insert(&index, 0..count);
            let used: Vec<u64> = (0..1000).map(|n| n * 37).collect();
            for &n in &used {
                lookup(&index, mix(n));
            }
            index.set_budget(after);
            let stats = index.stats();
            assert!(stats.bytes <= after, "{} bytes of {after}", stats.bytes);
            assert_eq!((stats.entries + stats.let_go, stats.budget_bytes), (count, after));
            assert!(stats.entries > after / 13 || after < 1 << 20, "{} entries", stats.entries);
            let held = |n: u64| lookup(&index, mix(n)).contains(place(n));
            assert!(used.iter().all(|&n| held(n)));
            assert!((0..count).filter(|&n| is_hook(mix(n))).all(held));
            assert!(!index.is_full_of_hooks());
            // As a smaller one that was always so small.
            insert(&index, count..4 * count);
            let newest = (4 * count - after / 40..4 * count).filter(|&n| held(n)).count() as u64;
            assert!(newest > after / 45, "{newest} of the newest");
            assert!(index.stats().bytes <= after, "{} of {after}", index.stats().bytes);
        }
    }

    #[test]
    fn it_keeps_to_any_budget_one_after_another_and_hooks_stay() {
        let index = FingerprintIndex::new(32 << 20);
        let count = 350_000;
        insert(&index, 0..count);
        let held = |n: u64| lookup(&index, mix(n)).contains(place(n));
        let hooks = || (0..count).filter(|&n| is_hook(mix(n)));
        // To the least, where as many shards as before would have next to nothing each.
        for after in [8 << 20, 9 << 19, 4 << 20, 1 << 20, 768 << 10] {
            assert!(!index.set_budget(after));
            let stats = index.stats();
            assert!(stats.bytes <= after, "{} bytes of {after}", stats.bytes);
            assert_eq!((stats.entries + stats.let_go, stats.budget_bytes), (count, after));
            let expected = (after / 13).min(count);
            assert!(stats.entries >= expected, "{} of {after}", stats.entries);
            assert!(hooks().all(held), "hooks are held");
            assert_eq!(index.is_full(), stats.let_go > 0);
        }
        let small = index.stats().entries;
        let shards = index.tables().now.shards.len();
        assert_eq!(shards, 16, "fewer shards");
        assert!(index.set_budget(32 << 20), "what was let go is to be inserted again");
        // Until it is there, what was known is known, and nothing goes.
        assert!(!index.is_full() && index.tables().former.is_some());
        let before: Vec<u64> = (0..count).filter(|&n| held(n)).collect();
        assert_eq!(before.len() as u64, small);
        for from in (0..count).step_by(1000) {
            insert(&index, from..from + 1000);
            assert!(index.stats().bytes <= 32 << 20);
            assert!(before.iter().step_by(97).all(|&n| held(n)));
        }
        assert!((0..count).all(held) && !index.is_full());
        index.forget_former();
        assert!((0..count).all(held) && index.tables().former.is_none());
        assert_eq!(index.stats().entries, count);
        // What fits into the same shards grows with them.
        assert!(!index.set_budget(64 << 20));
        assert!((0..count).all(held) && index.tables().former.is_none());
    }

    #[test]
    fn the_former_table_goes_before_anything_is_let_go_for_it() {
        let index = FingerprintIndex::new(1 << 20);
        insert(&index, 0..200_000);
        assert!(index.is_full() && index.set_budget(17 << 20));
        assert!(index.tables().former.is_some());
        let mut inserted = 0;
        while index.tables().former.is_some() {
            assert!(inserted < 2_000_000, "it never goes");
            insert(&index, inserted..inserted + 10_000);
            inserted += 10_000;
            let stats = index.stats();
            assert_eq!((stats.entries, index.is_full()), (inserted, false));
            assert!(stats.bytes <= 17 << 20, "{} bytes", stats.bytes);
        }
        // Its memory is the other one's.
        insert(&index, inserted..inserted + 20_000);
        assert_eq!((index.stats().entries, index.is_full()), (inserted + 20_000, false));
    }

    #[test]
    fn with_less_memory_before_all_is_inserted_again_the_fuller_table_stays() {
        for inserted in [1000, 300_000] {
            let index = FingerprintIndex::new(1 << 20);
            insert(&index, 0..200_000);
            let small = index.stats().entries;
            assert!(index.set_budget(17 << 20));
            insert(&index, 0..inserted);
            assert!(index.tables().former.is_some());
            assert!(!index.set_budget(16 << 20) && index.is_full());
            assert!(index.tables().former.is_none());
            assert_eq!(index.stats().entries, small.max(inserted));
            // It has the memory that is left, and lets nothing go for want of it.
            insert(&index, 300_000..400_000);
            assert_eq!(index.stats().entries, small.max(inserted) + 100_000);
            // It is full, and so there is something to insert again once there is more memory.
            assert!(index.set_budget(17 << 20) && !index.is_full());
            insert(&index, 0..1_000_000);
            assert_eq!((index.stats().entries, index.is_full()), (1_000_000, false));
        }
    }

    #[test]
    fn behaves_as_a_map_of_hashes_to_places() {
        let index = FingerprintIndex::new(4 << 20);
        let mut model: HashMap<u64, Vec<Place>> = HashMap::new();
        for step in 0..200_000u64 {
            let key = mix(mix(step) % 5000);
            let at = place(mix(step + 7) % 100_000);
            let places = model.entry(key).or_default();
            if mix(step + 3).is_multiple_of(3) {
                index.remove(key, at);
                places.retain(|&p| p != at);
            } else if !places.contains(&at) && places.len() < 2 {
                index.insert_many(&[(key, at)]);
                places.push(at);
            }
        }
        for (key, places) in &model {
            let found = lookup(&index, *key);
            assert!(places.iter().all(|p| found.contains(*p)), "{key:x}");
            assert_eq!(found.len(), places.len(), "{key:x}");
        }
        assert_eq!(index.stats().entries, model.values().map(Vec::len).sum::<usize>() as u64);
    }

    #[test]
    fn others_search_and_remove_while_one_inserts_and_tables_grow() {
        let index = FingerprintIndex::new(2 << 20);
        let (count, index) = (100_000, &index);
        std::thread::scope(|scope| {
            let inserts = scope.spawn(move || {
                for from in (0..count).step_by(100) {
                    insert(index, from..from + 100);
                }
            });
            scope.spawn(move || {
                while !inserts.is_finished() {
                    for n in (0..count).step_by(97) {
                        lookup(index, mix(n));
                    }
                }
            });
            scope
                .spawn(move || (0..count).step_by(10).for_each(|n| index.remove(mix(n), place(n))));
        });
        for n in (0..count).step_by(10) {
            index.remove(mix(n), place(n));
        }
        let held = |n: u64| lookup(index, mix(n)).contains(place(n));
        assert!((0..count).all(|n| held(n) != n.is_multiple_of(10)));
        assert_eq!(index.stats().entries, count - count / 10);
    }

    #[test]
    fn memory_that_it_is_to_do_without_is_given_back_at_once() {
        let index = FingerprintIndex::new(1 << 20);
        insert(&index, 0..80_000);
        let mut before = index.stats().bytes;
        for budget in [900 << 10, 600 << 10, 400 << 10] {
            index.set_budget(budget);
            let bytes = index.stats().bytes;
            assert!(bytes <= budget && bytes < before, "{bytes} of {budget}, {before} before");
            before = bytes;
            // Nothing is kept for blocks that a shard may not have.
            let blocks = index.growth().buckets_per_shard / arena::BLOCK_BUCKETS;
            let most = blocks * size_of::<arena::BlockNumber>();
            assert!(index.tables().now.shards.iter().all(|shard| shard.bytes() <= most));
        }
    }
}
