//! One shard of the index: buckets in tag order, so that it grows by a quarter at a time.
//! Room: onefold-pool.
//! Invariant: an entry is in the bucket that its tag gives or, that one having been full, in one of
//! the next few; every bucket it was pushed past says so.

use super::bucket::SLOTS;
use super::table::Table;
use super::{Place, TAG_BITS};

/// Buckets looked at for one tag.
const PROBE_MAX: usize = 16;
/// Buckets of a new shard.
const BUCKETS_MIN: usize = 4;
/// A table that is fuller than this grows, in hundredths.
const LOAD_PERCENT_MAX: usize = 82;

/// Places that a lookup found, at most four: more equal tags than that are bad luck, and the
/// chunk is then stored again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Candidates {
    places: [Option<Place>; 4],
    len: usize,
}

impl Candidates {
    fn push(&mut self, place: Place) {
        if let Some(slot) = self.places.get_mut(self.len) {
            *slot = Some(place);
            self.len += 1;
        }
    }

    /// The places.
    pub fn iter(&self) -> impl Iterator<Item = Place> {
        self.places.into_iter().flatten()
    }

    /// How many there are.
    #[cfg(test)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether this place is among them.
    #[cfg(test)]
    pub fn contains(&self, place: Place) -> bool {
        self.iter().any(|p| p == place)
    }
}

/// A growing table of entries.
pub struct Shard {
    buckets: Table,
    len: usize,
    buckets_max: usize,
    let_go: u64,
}

impl Shard {
    /// An empty shard whose table takes at most `bytes_max`. For the moment in which it grows, a
    /// copy of it is there besides.
    pub fn new(bytes_max: usize) -> Self {
        let buckets_max = Table::len_within(bytes_max).max(BUCKETS_MIN);
        Self { buckets: Table::default(), len: 0, buckets_max, let_go: 0 }
    }

    /// Entries held.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Entries let go for lack of memory.
    pub const fn let_go(&self) -> u64 {
        self.let_go
    }

    /// Memory in use.
    pub const fn bytes(&self) -> usize {
        self.buckets.bytes()
    }

    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.buckets.len() as u64) >> TAG_BITS) as usize
    }

    /// The buckets that may hold a tag, as positions.
    fn probe(&self, tag: u32) -> impl Iterator<Item = usize> + use<> {
        let (home, len) = (self.home(tag), self.buckets.len());
        (0..PROBE_MAX.min(len)).map(move |step| (home + step) % len)
    }

    pub(super) fn lookup(&mut self, tag: u32) -> Candidates {
        let mut found = Candidates::default();
        for at in self.probe(tag) {
            let bucket = &mut self.buckets[at];
            for slot in 0..SLOTS {
                let entry = bucket.slots()[slot];
                if entry != 0 && entry_tag(entry) == tag {
                    bucket.touch(slot);
                    found.push(Place(entry & Place::MASK));
                }
            }
            if !bucket.overflowed() {
                break;
            }
        }
        found
    }

    pub(super) fn insert(&mut self, tag: u32, place: Place) {
        let entry = u64::from(tag) << (64 - TAG_BITS) | place.0;
        if entry == 0 || self.holds(tag, entry) {
            return;
        }
        let roomy = self.len * 100 < self.buckets.len() * SLOTS * LOAD_PERCENT_MAX;
        if !roomy {
            self.grow();
        }
        while !self.push(entry, 1) {
            if !self.grow() {
                let home = self.home(tag);
                self.buckets[home].replace_oldest(entry, Place::MASK);
                self.let_go += 1;
                return;
            }
        }
        self.len += 1;
    }

    pub(super) fn remove(&mut self, tag: u32, place: Place) {
        let entry = u64::from(tag) << (64 - TAG_BITS) | place.0;
        for at in self.probe(tag) {
            if self.buckets[at].remove(entry) {
                self.len -= 1;
                return;
            }
            if !self.buckets[at].overflowed() {
                return;
            }
        }
    }

    fn holds(&self, tag: u32, entry: u64) -> bool {
        for at in self.probe(tag) {
            if self.buckets[at].slots().contains(&entry) {
                return true;
            }
            if !self.buckets[at].overflowed() {
                return false;
            }
        }
        false
    }

    /// Put an entry into the first of its buckets with room; false if none has any.
    fn push(&mut self, entry: u64, age: u64) -> bool {
        for at in self.probe(entry_tag(entry)) {
            if self.buckets[at].push(entry, age) {
                return true;
            }
            self.buckets[at].set_overflowed();
        }
        false
    }

    /// A quarter more buckets; false at the limit.
    fn grow(&mut self) -> bool {
        let old = self.buckets.len();
        let wanted = (old + old / 4 + 1).max(BUCKETS_MIN).min(self.buckets_max);
        if wanted <= old {
            return false;
        }
        let former = self.buckets.to_vec();
        self.buckets.clear_and_grow(wanted);
        for bucket in &former {
            for slot in 0..SLOTS {
                let entry = bucket.slots()[slot];
                if entry != 0 && !self.push(entry, bucket.age(slot)) {
                    let home = self.home(entry_tag(entry));
                    self.buckets[home].replace_oldest(entry, Place::MASK);
                    self.len -= 1;
                    self.let_go += 1;
                }
            }
        }
        true
    }
}

const fn entry_tag(entry: u64) -> u32 {
    (entry >> (64 - TAG_BITS)) as u32
}
