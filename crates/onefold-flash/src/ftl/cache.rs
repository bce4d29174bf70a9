//! Which mapping pages are in DRAM, if not all of them are.
//! Room: onefold-flash.   Source: demand-based mapping as in [dftl-09], whole mapping pages
//! at a time; second chance for eviction.
//! Cost: 6 B per mapping page.

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

    /// Whether a segment is in DRAM; if so, it has a second chance.
    #[inline]
    pub fn hit(&mut self, segment: u32) -> bool {
        let held = self.resident[segment as usize];
        self.referenced[segment as usize] |= held;
        held
    }

    /// The segment to leave next where more are held than fit.
    pub fn last_too_many(&self) -> Option<u32> {
        if self.ring.len() > self.capacity { self.ring.last().copied() } else { None }
    }

    /// The segment that came last leaves.
    pub fn drop_last(&mut self) {
        if let Some(segment) = self.ring.pop() {
            self.resident[segment as usize] = false;
        }
        self.hand = 0;
    }

    /// Takes the next segment without a second chance out of a full ring.
    pub fn evict(&mut self) -> Option<u32> {
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
    pub fn admit(&mut self, segment: u32, left: Option<u32>) {
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
        assert!(cache.hit(1));
        assert_eq!(cache.evict(), Some(2), "1 was asked for again, 2 was not");
        cache.admit(6, Some(2));
        assert!(cache.holds(1) && cache.holds(5) && cache.holds(6) && !cache.holds(0));
        assert!(!MapCache::new(8 * 512, 512, 8).is_partial());
    }
}
