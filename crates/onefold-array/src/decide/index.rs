//! The index from fingerprint to place: what a look-up finds, and what it reads to find it.
//! Room: onefold-array.   In: a content, and whether it is stored.   Out: a [`LookUp`].
//! Invariants: what is said to be found is stored; what is stored and not found is stored once
//! more and counted as missed.

use onefold_block::SplitMix64;
use onefold_cache::OptionError;

use super::contents::Content;
use super::hooks::Hooks;
use super::table_cache::TableCache;
use crate::spec::{TableKind, TableSpec};

/// What a look-up said, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookUp {
    /// Whether the chunk was found to be stored.
    pub found: bool,
    /// Pages read from the table's drives.
    pub reads: u32,
    /// Pages written to them.
    pub writes: u32,
}

/// Look-ups so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub look_ups: u64,
    /// Those for which nothing was read.
    pub unread: u64,
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Chunks that were found.
    pub found: u64,
    /// Chunks that were stored and not found.
    pub missed: u64,
}

/// Pages that look-ups move between memory and the table's drives, where somebody asks which.
#[derive(Debug, Default)]
pub struct Moves {
    wanted: bool,
    list: Vec<Move>,
}

/// A page of the table that is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its number.
    pub page: u64,
    /// Whether it is written.
    pub write: bool,
}

impl Moves {
    /// Where somebody asks.
    #[cfg(test)]
    pub(super) fn asked() -> Self {
        Self { wanted: true, list: Vec::new() }
    }

    pub(super) fn read(&mut self, page: u64) {
        if self.wanted {
            self.list.push(Move { page, write: false });
        }
    }

    pub(super) fn write(&mut self, page: u64) {
        if self.wanted {
            self.list.push(Move { page, write: true });
        }
    }
}

enum Kind {
    Buckets(TableCache),
    Hooks(Hooks),
}

/// An index of either kind.
pub struct Index {
    kind: Kind,
    counts: Counts,
    moves: Moves,
}

impl Index {
    /// The index of a description that was checked, which knows the contents 0 to `stored`.
    ///
    /// # Errors
    /// The name or the options of the cache's policy.
    pub fn new(table: &TableSpec, stored: Content, seed: u64) -> Result<Self, OptionError> {
        let kind = match table.kind {
            TableKind::Buckets => Kind::Buckets(TableCache::new(table, seed)?),
            TableKind::Hooks => Kind::Hooks(Hooks::new(table, stored, seed)?),
        };
        Ok(Self { kind, counts: Counts::default(), moves: Moves::default() })
    }

    /// Whether [`Self::take_moves`] says which pages are moved, from now on.
    pub fn name_moves(&mut self, wanted: bool) {
        self.moves.wanted = wanted;
    }

    /// Takes the pages that were moved since the last call, in their order.
    pub fn take_moves(&mut self, to: &mut Vec<Move>) {
        to.append(&mut self.moves.list);
    }

    /// Looks a fingerprint up, and enters it if it is not found. `stored` is the truth.
    pub fn look_up(&mut self, content: Content, stored: bool) -> LookUp {
        let cost = match &mut self.kind {
            Kind::Buckets(table) => table.look_up(content, stored, &mut self.moves),
            Kind::Hooks(hooks) => hooks.look_up(content, &mut self.moves),
        };
        debug_assert!(stored || !cost.found, "{content} was found and is not stored");
        let counts = &mut self.counts;
        counts.look_ups += 1;
        counts.unread += u64::from(cost.reads == 0);
        counts.reads += u64::from(cost.reads);
        counts.writes += u64::from(cost.writes);
        counts.found += u64::from(cost.found);
        counts.missed += u64::from(stored && !cost.found);
        cost
    }

    /// What was counted.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Forgets the count so far.
    pub fn restart_count(&mut self) {
        self.counts = Counts::default();
    }
}

/// Whether a fingerprint is the one in `one_in` that is chosen by its own bits, so that equal
/// chunks are chosen alike.
pub(super) fn is_sampled(content: Content, one_in: u64) -> bool {
    one_in <= 1 || mixed(content, 0x5a3b << 32).is_multiple_of(one_in)
}

/// Evenly distributed bits of a fingerprint.
pub(super) fn mixed(content: Content, salt: u64) -> u64 {
    SplitMix64::new(u64::from(content) ^ salt).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecBuilder;

    #[test]
    fn every_look_up_is_counted_as_found_missed_or_new() {
        for kind in ["buckets", "hooks"] {
            let builder = SpecBuilder::preset("cidr+").unwrap();
            let small = [
                "table.entries=20000",
                "table.cache_bytes=100000",
                "table.sample_one_in=8",
                "workload.addresses=3000",
            ];
            let builder = small.iter().fold(builder, |builder, set| builder.set(set).unwrap());
            let spec = builder.set(&format!("table.kind={kind}")).unwrap().build().unwrap();
            let mut index = Index::new(&spec.table, 3000, 1).unwrap();
            // New ones, then every one of them again in another order.
            let asked = (3000..9000).map(|new| (new, false));
            let again = (0..9000).map(|at| (at * 7919 % 9000, true));
            let mut moves = Vec::new();
            for (at, (content, stored)) in asked.chain(again).enumerate() {
                // Nobody asked which pages move before this one.
                if at == 1000 {
                    index.take_moves(&mut moves);
                    assert_eq!(moves, []);
                    index.name_moves(true);
                }
                let cost = index.look_up(content, stored);
                if at >= 1000 {
                    let before = moves.len();
                    index.take_moves(&mut moves);
                    let written = moves[before..].iter().filter(|page| page.write).count() as u32;
                    let read = (moves.len() - before) as u32 - written;
                    assert_eq!((read, written), (cost.reads, cost.writes), "{kind} {content}");
                }
            }
            let pages = spec.table.pages();
            assert!(moves.iter().all(|page| page.page < pages), "{kind}");
            let distinct: std::collections::HashSet<u64> =
                moves.iter().map(|page| page.page).collect();
            assert!(distinct.len() as u64 > pages / 4, "{kind}: {} of {pages}", distinct.len());
            let counts = index.counts();
            assert_eq!(counts.look_ups, 15_000);
            assert_eq!(counts.found + counts.missed, 9000, "{kind}: {counts:?}");
            assert!(counts.found > 900 && counts.missed > 900, "{kind}: {counts:?}");
            assert!(counts.unread < 15_000 && counts.reads > 0, "{kind}: {counts:?}");
            index.restart_count();
            assert_eq!(index.counts(), Counts::default());
        }
    }

    #[test]
    fn one_fingerprint_in_so_many_is_sampled() {
        for one_in in [2, 16] {
            let sampled = (0..4000 * one_in as Content).filter(|&c| is_sampled(c, one_in)).count();
            assert!((3800..4200).contains(&sampled), "{sampled}");
        }
        assert!((0..100).all(|content| is_sampled(content, 1)));
    }
}
