//! The mapping pages that are in DRAM, if not all of them are.
//! Room: onefold-flash.   Source: demand-based mapping as in [dftl-09], whole mapping pages
//! at a time; second chance for eviction.
//! Invariants: entries of a segment are looked at or changed only while it is in DRAM; a changed
//! segment is stored before it leaves.
//! Cost: a read of a mapping page per miss, a program per changed segment that leaves.

use crate::dedup::Policy;
use crate::ftl::map::NONE;
use crate::ftl::meta::CLEAN;
use crate::ftl::{Ftl, FtlError};
use crate::nand::{Nand, NandError};
use crate::op::{Cause, Driver, OpKind};

/// Which segments are in DRAM.
#[derive(Clone, Debug, Default)]
pub(super) struct MapCache {
    /// Segments that fit; 0 keeps the whole map in DRAM.
    capacity: usize,
    ring: Vec<u32>,
    hand: usize,
    resident: Vec<bool>,
    referenced: Vec<bool>,
}

impl MapCache {
    pub fn new(capacity_bytes: u64, page_bytes: u32, segments: u32) -> Self {
        let capacity = (capacity_bytes / u64::from(page_bytes)) as usize;
        if capacity == 0 || capacity >= segments as usize {
            return Self::default();
        }
        Self {
            capacity,
            resident: vec![false; segments as usize],
            referenced: vec![false; segments as usize],
            ..Self::default()
        }
    }

    /// Whether only a part of the map is in DRAM.
    pub const fn is_partial(&self) -> bool {
        self.capacity > 0
    }

    /// Segments that fit.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn holds(&self, segment: u32) -> bool {
        self.capacity == 0 || self.resident[segment as usize]
    }

    /// Takes the next segment without a second chance out of a full ring.
    fn evict(&mut self) -> Option<u32> {
        if self.ring.len() < self.capacity {
            return None;
        }
        loop {
            let segment = self.ring[self.hand];
            if !std::mem::take(&mut self.referenced[segment as usize]) {
                return Some(segment);
            }
            self.hand = (self.hand + 1) % self.ring.len();
        }
    }

    /// Puts a segment in the place of the one that left, or of none.
    fn admit(&mut self, segment: u32, left: Option<u32>) {
        match left {
            Some(old) => {
                self.resident[old as usize] = false;
                self.ring[self.hand] = segment;
                self.hand = (self.hand + 1) % self.ring.len();
            }
            None => self.ring.push(segment),
        }
        self.resident[segment as usize] = true;
        self.referenced[segment as usize] = true;
    }
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Sees to it that the entry of a logical page is in DRAM.
    #[inline]
    pub(super) fn touch(
        &mut self,
        lpn: u32,
        foreground: bool,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        if self.cache.is_partial() { self.touch_cached(lpn, foreground, d) } else { Ok(()) }
    }

    fn touch_cached(
        &mut self,
        lpn: u32,
        foreground: bool,
        d: &mut impl Driver,
    ) -> Result<(), FtlError> {
        let segment = lpn / self.meta.slots.entries;
        if self.cache.resident[segment as usize] {
            self.cache.referenced[segment as usize] = true;
            self.counters.map_hits += 1;
            return Ok(());
        }
        self.counters.map_misses += 1;
        let mut left = self.cache.evict();
        if let Some(old) = left
            && self.meta.dirty_at[old as usize] != CLEAN
        {
            match self.store_segment(old, d) {
                // A worn-out drive can still be read: what cannot be stored stays.
                Err(FtlError::NoSpace { .. }) => left = None,
                stored => stored?,
            }
        }
        if let Some(old) = left
            && N::KEEPS_META
        {
            // From here on the entries are in flash only.
            let lpns = self.meta.slots.lpns(old);
            self.map.forget(lpns);
        }
        let ppn = self.meta.place[segment as usize];
        if ppn == NONE {
            let lpns = self.meta.slots.lpns(segment);
            self.map.load(lpns, &[]);
        } else {
            if N::KEEPS_META {
                let lpns = self.meta.slots.lpns(segment);
                match self.nand.read_meta(self.page_of(ppn)) {
                    Ok(bytes) => self.map.load(lpns, &bytes),
                    Err(NandError::Uncorrectable { .. }) => {
                        self.map.lose(lpns);
                        self.meta.dirty(segment, self.seq);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            self.issue(d, OpKind::Read, Cause::Map, ppn, foreground);
        }
        self.cache.admit(segment, left);
        Ok(())
    }

    /// After recovery, when the whole map is in DRAM: what does not fit is stored if it changed,
    /// and leaves.
    pub(super) fn shrink_cache(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        if !self.cache.is_partial() {
            return Ok(());
        }
        for segment in 0..self.meta.slots.logical {
            if self.meta.dirty_at[segment as usize] == CLEAN {
                let lpns = self.meta.slots.lpns(segment);
                self.map.forget(lpns);
            } else {
                self.cache.admit(segment, None);
            }
        }
        while self.cache.ring.len() > self.cache.capacity {
            match self.shrink_by_one(d) {
                // A worn-out drive can still be read: what cannot be stored stays.
                Err(FtlError::NoSpace { .. }) => break,
                shrunk => shrunk?,
            }
        }
        Ok(())
    }

    fn shrink_by_one(&mut self, d: &mut impl Driver) -> Result<(), FtlError> {
        self.make_meta_room(d)?;
        let Some(&segment) = self.cache.ring.last() else { return Ok(()) };
        if self.meta.dirty_at[segment as usize] != CLEAN {
            self.store_segment(segment, d)?;
        }
        self.cache.ring.pop();
        self.cache.hand = 0;
        self.cache.resident[segment as usize] = false;
        let lpns = self.meta.slots.lpns(segment);
        self.map.forget(lpns);
        Ok(())
    }

    /// Brings the entry of a logical page into DRAM, so that [`Ftl::locate`] may be asked.
    ///
    /// # Errors
    /// [`FtlError::OutOfRange`], [`FtlError::Nand`].
    pub fn load(&mut self, lpn: u32, d: &mut impl Driver) -> Result<(), FtlError> {
        self.check_range(lpn)?;
        self.touch(lpn, true, d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segment_that_was_not_asked_for_again_leaves() {
        let mut cache = MapCache::new(3 * 512, 512, 8);
        for segment in 0..3 {
            assert_eq!(cache.evict(), None);
            cache.admit(segment, None);
        }
        // All have a second chance, so the first one that came leaves.
        assert_eq!(cache.evict(), Some(0));
        cache.admit(5, Some(0));
        cache.referenced[1] = true;
        assert_eq!(cache.evict(), Some(2), "1 was asked for again, 2 was not");
        cache.admit(6, Some(2));
        assert!(cache.holds(1) && cache.holds(5) && cache.holds(6) && !cache.holds(0));
        assert!(!MapCache::new(8 * 512, 512, 8).is_partial());
    }
}
