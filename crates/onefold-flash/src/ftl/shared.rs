//! Virtual pages: the indirection between logical pages that share one physical page.
//! Room: onefold-flash.   Source: CAFTL (FAST'11), seed 002 sec. III.
//! Invariants: the count of a virtual page is the number of map entries that name it; a virtual
//! page is given out only at the second reference, and again only after a sync since it was freed.
//! Cost: 8 B per virtual page.

/// One virtual page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Virtual {
    /// Where it is.
    pub ppn: u32,
    /// Logical pages that name it; 0 for a free one.
    pub references: u32,
}

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
        let entry = Virtual { ppn, references: 0 };
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
    pub fn release(&mut self, vpn: u32) -> Option<u32> {
        let entry = &mut self.entries[vpn as usize];
        assert!(entry.references > 0, "virtual page {vpn} released more often than acquired");
        entry.references -= 1;
        (entry.references == 0).then(|| {
            self.resting.push(vpn);
            entry.ppn
        })
    }

    /// Where a virtual page is.
    pub fn ppn(&self, vpn: u32) -> u32 {
        self.entries[vpn as usize].ppn
    }

    /// Moves a virtual page.
    pub fn relocate(&mut self, vpn: u32, ppn: u32) {
        self.entries[vpn as usize].ppn = ppn;
    }

    /// References of a virtual page.
    pub fn references(&self, vpn: u32) -> u32 {
        self.entries[vpn as usize].references
    }

    /// Everything that was overwritten is durable: freed numbers may be given out again.
    pub fn synced(&mut self) {
        self.free.append(&mut self.resting);
    }

    /// The entries, to be stored in a checkpoint.
    pub fn entries(&self) -> &[Virtual] {
        &self.entries
    }

    /// Virtual pages in use.
    pub fn live(&self) -> u32 {
        (self.entries.len() - self.free.len() - self.resting.len()) as u32
    }
}
