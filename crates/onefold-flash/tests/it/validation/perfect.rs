//! A deduplication policy that knows every page: what the closed forms and model checks assume.
//! Room: onefold-flash.

use std::collections::{BTreeMap, BTreeSet};

use onefold_block::SplitMix64;

use onefold_flash::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};
use onefold_flash::nand::Identity;

/// Knows where each content is; shares inline as often as it is told to, and the rest offline.
#[derive(Clone, Debug)]
pub struct PerfectTable {
    inline_percent: u64,
    random: SplitMix64,
    /// Pages that hold each content; several if not all were shared inline.
    pages: BTreeMap<u64, Vec<u32>>,
    content: BTreeMap<u32, u64>,
    /// Contents on several pages.
    duplicates: BTreeSet<u64>,
}

impl PerfectTable {
    /// A table that shares this share of the duplicates inline.
    pub fn new(inline_percent: u64, seed: u64) -> Self {
        Self {
            inline_percent,
            random: SplitMix64::new(seed),
            pages: BTreeMap::new(),
            content: BTreeMap::new(),
            duplicates: BTreeSet::new(),
        }
    }

    /// Pages with a content that another page has, too.
    pub fn duplicates(&self) -> usize {
        self.duplicates.len()
    }

    fn remove(&mut self, ppn: u32) {
        let Some(tag) = self.content.remove(&ppn) else { return };
        let Some(pages) = self.pages.get_mut(&tag) else { return };
        pages.retain(|&page| page != ppn);
        if pages.len() < 2 {
            self.duplicates.remove(&tag);
        }
        if pages.is_empty() {
            self.pages.remove(&tag);
        }
    }
}

impl Policy<Identity> for PerfectTable {
    fn decide(
        &mut self,
        _lpn: u32,
        page: &Identity,
        _prepared: Prepared,
        _look: &mut impl Look,
    ) -> Verdict {
        let tag = page.0 as u64;
        let candidate = self.pages.get(&tag).map(|pages| pages[0]);
        match candidate {
            Some(candidate) if self.random.chance(self.inline_percent, 100) => {
                Verdict::Verify { tag, candidate, apart: false }
            }
            _ => Verdict::Program { tag, apart: false },
        }
    }

    fn stored(&mut self, ppn: u32, tag: u64) {
        let pages = self.pages.entry(tag).or_default();
        pages.push(ppn);
        if pages.len() > 1 {
            self.duplicates.insert(tag);
        }
        self.content.insert(ppn, tag);
    }

    fn moved(&mut self, from: u32, to: u32, tag: u64) {
        self.remove(from);
        self.stored(to, tag);
    }

    fn died(&mut self, ppn: u32) {
        self.remove(ppn);
    }

    fn compared(&mut self, _candidate: u32, _equal: bool) {}

    fn next_offline(&mut self, _look: &mut impl Look) -> Option<Offline> {
        let tag = self.duplicates.first()?;
        let pages = &self.pages[tag];
        Some(Offline::Compare(Pair { duplicate: pages[1], original: pages[0] }))
    }

    fn scanned(&mut self, _ppn: u32, _page: &Identity, _look: &mut impl Look) {}

    fn settled(&mut self, pair: Pair, merged: bool) {
        if !merged {
            self.remove(pair.duplicate);
        }
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
        vec![("fingerprints", 16 * self.content.len() as u64)]
    }
}
