//! Virtual pages: the indirection between logical pages that share one physical page.
//! Room: onefold-flash.   Source: [caftl-11], [park-shin] sec. III; aliases are ours.
//! Invariants: the count of a virtual page is the number of map entries that name it plus the
//! virtual pages in use that are an alias of it; a virtual page is given out only at the second
//! reference, and again only after what it freed it is durable.
//! Cost: 8 B per virtual page. Following aliases takes O(log references) steps, because the
//! virtual page with fewer references becomes the alias.

/// One virtual page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Virtual {
    /// Where it is, or [`ALIAS`] and the virtual page that it is an alias of.
    target: u32,
    /// Map entries and aliases that name it; 0 for a free one.
    references: u32,
}

const ALIAS: u32 = 1 << 31;
/// The stored entry of a virtual page that was never given out.
pub const UNUSED: u32 = u32::MAX;

/// The table of virtual pages.
#[derive(Clone, Debug, Default)]
pub struct VirtualTable {
    entries: Vec<Virtual>,
    free: Vec<u32>,
    /// Freed since the last sync: a power cut may still bring back who named them.
    resting: Vec<u32>,
}

impl VirtualTable {
    /// A virtual page for `ppn` with no reference yet.
    pub fn allocate(&mut self, ppn: u32) -> u32 {
        let entry = Virtual { target: ppn, references: 0 };
        if let Some(vpn) = self.free.pop() {
            self.entries[vpn as usize] = entry;
            return vpn;
        }
        self.entries.push(entry);
        (self.entries.len() - 1) as u32
    }

    /// One more reference.
    pub fn acquire(&mut self, vpn: u32) {
        self.entries[vpn as usize].references += 1;
    }

    /// One reference less; the page that nobody wants any more, if it was the last.
    pub fn release(&mut self, mut vpn: u32) -> Option<u32> {
        loop {
            let entry = &mut self.entries[vpn as usize];
            assert!(entry.references > 0, "virtual page {vpn} released more often than acquired");
            entry.references -= 1;
            if entry.references > 0 {
                return None;
            }
            self.resting.push(vpn);
            if entry.target & ALIAS == 0 {
                return Some(entry.target);
            }
            vpn = entry.target & !ALIAS;
        }
    }

    /// The virtual page that this one is an alias of, in the end; itself if it is none.
    pub fn resolve(&self, mut vpn: u32) -> u32 {
        loop {
            let target = self.entries[vpn as usize].target;
            if target & ALIAS == 0 {
                return vpn;
            }
            vpn = target & !ALIAS;
        }
    }

    /// Where a virtual page is.
    pub fn ppn(&self, vpn: u32) -> u32 {
        self.entries[self.resolve(vpn) as usize].target
    }

    /// Moves a virtual page that is no alias.
    pub fn relocate(&mut self, vpn: u32, ppn: u32) {
        let target = &mut self.entries[vpn as usize].target;
        assert_eq!(*target & ALIAS, 0, "virtual page {vpn} is an alias");
        *target = ppn;
    }

    /// Makes one virtual page an alias of another one; both must be in use and no aliases.
    pub fn alias(&mut self, vpn: u32, of: u32) {
        assert_ne!(vpn, of, "an alias of itself");
        self.entries[vpn as usize].target = ALIAS | of;
        self.acquire(of);
    }

    /// References of a virtual page.
    pub fn references(&self, vpn: u32) -> u32 {
        self.entries[vpn as usize].references
    }

    /// What freed numbers is durable: they may be given out again.
    pub fn synced(&mut self) {
        self.free.append(&mut self.resting);
    }

    /// Numbers ever given out: virtual pages are `0..len`.
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Whether no virtual page was ever given out.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Virtual pages in use.
    pub fn live(&self) -> u32 {
        (self.entries.len() - self.free.len() - self.resting.len()) as u32
    }

    /// The stored form of a virtual page.
    pub(super) fn stored(&self, vpn: u32) -> u32 {
        self.entries.get(vpn as usize).map_or(UNUSED, |entry| entry.target)
    }

    /// What an alias stands for.
    pub(super) fn alias_of(&self, vpn: u32) -> Option<u32> {
        let target = self.entries[vpn as usize].target;
        (target & ALIAS != 0).then_some(target & !ALIAS)
    }

    /// The table of stored entries and the names that the map holds. Entries that nobody names
    /// are free; entries that are named but stand for nothing are the second answer.
    pub(super) fn recovered(stored: &[u32], names: &[u32]) -> (Self, Vec<u32>) {
        let entry = |(&target, &references)| Virtual { target, references };
        let mut entries: Vec<Virtual> = stored.iter().zip(names).map(entry).collect();
        let bound = entries.len() as u32;
        cut_circles(&mut entries);
        // An alias counts while somebody names it: those that nobody does let go of their target.
        for vpn in 0..entries.len() {
            let target = entries[vpn].target;
            if target != UNUSED && target & ALIAS != 0 && target & !ALIAS < bound {
                entries[(target & !ALIAS) as usize].references += 1;
            }
        }
        for start in 0..entries.len() {
            let mut vpn = start;
            // `names` of a free entry is 0; its target loses the reference counted above once.
            while entries[vpn].references == 0 && entries[vpn].target != UNUSED {
                let target = std::mem::replace(&mut entries[vpn].target, UNUSED);
                if target & ALIAS == 0 || target & !ALIAS >= bound {
                    break;
                }
                vpn = (target & !ALIAS) as usize;
                entries[vpn].references -= 1;
            }
        }
        let mut lost = Vec::new();
        let mut free = Vec::new();
        for (vpn, entry) in (0..).zip(&mut entries) {
            let dangles = entry.target != UNUSED
                && entry.target & ALIAS != 0
                && entry.target & !ALIAS >= bound;
            if entry.references == 0 {
                free.push(vpn);
            } else if entry.target == UNUSED || dangles {
                entry.target = 0;
                lost.push(vpn);
            }
        }
        free.reverse();
        (Self { entries, free, resting: Vec::new() }, lost)
    }
}

/// Aliases of each other stand for nothing: the last of each circle is left without what it named.
fn cut_circles(entries: &mut [Virtual]) {
    let mut seen = vec![None; entries.len()];
    for start in 0..entries.len() {
        let mut vpn = start;
        while seen.get(vpn) == Some(&None) {
            seen[vpn] = Some(start);
            let target = entries[vpn].target;
            let of = (target & !ALIAS) as usize;
            if target & ALIAS == 0 {
                break;
            }
            if seen.get(of) == Some(&Some(start)) {
                entries[vpn].target = UNUSED;
            }
            vpn = of;
        }
    }
}

/// The stored form of an alias.
pub(super) const fn stored_alias(of: u32) -> u32 {
    ALIAS | of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_count_as_one_reference_and_let_go_in_turn() {
        let mut table = VirtualTable::default();
        assert!(table.is_empty());
        let (a, b) = (table.allocate(10), table.allocate(20));
        for vpn in [a, a, b, b] {
            table.acquire(vpn);
        }
        table.alias(a, b);
        assert_eq!((table.ppn(a), table.references(b), table.live()), (20, 3, 2));
        table.relocate(b, 30);
        assert_eq!((table.ppn(a), table.resolve(a)), (30, b));
        assert_eq!((table.release(b), table.release(b), table.release(a)), (None, None, None));
        assert_eq!(table.release(a), Some(30), "the last name of the alias frees the page");
        assert_eq!(table.live(), 0);
        assert_eq!(table.allocate(1), 2, "freed numbers rest until the next sync");
        table.synced();
        assert!(table.allocate(1) < 2);
    }

    #[test]
    fn a_recovered_table_counts_names_and_live_aliases() {
        let stored = [5, stored_alias(0), stored_alias(1), 7, UNUSED, stored_alias(3)];
        let (table, lost) = VirtualTable::recovered(&stored, &[0, 0, 2, 1, 0, 0]);
        assert!(lost.is_empty());
        let counts: Vec<u32> = (0..6).map(|vpn| table.references(vpn)).collect();
        assert_eq!(counts, [1, 1, 2, 1, 0, 0]);
        assert_eq!((table.ppn(2), table.ppn(3), table.live()), (5, 7, 4));
        let (_, lost) = VirtualTable::recovered(&[UNUSED], &[1]);
        assert_eq!(lost, [0]);
    }

    /// Whoever follows aliases comes to an end, whatever was stored.
    #[test]
    fn aliases_in_a_circle_are_lost() {
        let of = stored_alias;
        let stored = [of(1), of(2), of(0), of(3), of(2), of(6), 7];
        let (table, lost) = VirtualTable::recovered(&stored, &[0, 1, 0, 1, 1, 1, 0]);
        assert_eq!(lost, [2, 3]);
        let ends: Vec<u32> = (1..7).map(|vpn| table.resolve(vpn)).collect();
        assert_eq!(ends, [2, 2, 3, 2, 6, 6]);
        let counts: Vec<u32> = (0..7).map(|vpn| table.references(vpn)).collect();
        assert_eq!(counts, [0, 1, 2, 1, 1, 1, 1]);
    }
}
