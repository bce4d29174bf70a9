//! One cache line of the index: seven entries and how recently each was of use.
//! Room: onefold-pool.

/// Entries of a bucket.
pub const SLOTS: usize = 7;

/// Two bits of recency per slot.
const AGE_BITS: u32 = 2;
const AGE_MAX: u64 = (1 << AGE_BITS) - 1;
/// Set once an entry that belongs here was put into a later bucket.
const OVERFLOWED: u64 = 1 << 63;

/// Seven entries; an empty slot is zero.
#[derive(Clone)]
#[repr(align(64))]
pub struct Bucket {
    slots: [u64; SLOTS],
    meta: u64,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// Seven empty slots.
    pub const EMPTY: Self = Self { slots: [0; SLOTS], meta: 0 };

    /// All slots.
    pub const fn slots(&self) -> &[u64; SLOTS] {
        &self.slots
    }

    /// Whether entries that belong here may be in a later bucket.
    pub const fn overflowed(&self) -> bool {
        self.meta & OVERFLOWED != 0
    }

    /// An entry that belongs here was put into a later bucket.
    pub const fn set_overflowed(&mut self) {
        self.meta |= OVERFLOWED;
    }

    /// How recently a slot was of use, 0 to 3.
    pub const fn age(&self, slot: usize) -> u64 {
        (self.meta >> (slot as u32 * AGE_BITS)) & AGE_MAX
    }

    const fn set_age(&mut self, slot: usize, age: u64) {
        let shift = slot as u32 * AGE_BITS;
        self.meta = self.meta & !(AGE_MAX << shift) | age << shift;
    }

    /// A slot was of use.
    pub const fn touch(&mut self, slot: usize) {
        self.set_age(slot, AGE_MAX);
    }

    /// Put an entry into an empty slot; false if there is none.
    pub fn push(&mut self, entry: u64, age: u64) -> bool {
        let Some(slot) = self.slots.iter().position(|&s| s == 0) else { return false };
        self.slots[slot] = entry;
        self.set_age(slot, age);
        true
    }

    /// Empty the slot that holds `entry`; false if none does.
    pub fn remove(&mut self, entry: u64) -> bool {
        let Some(slot) = self.slots.iter().position(|&s| s == entry) else { return false };
        self.slots[slot] = 0;
        self.set_age(slot, 0);
        true
    }

    /// Replace the entry that was of use least recently; of several, the one with the lowest
    /// number under `mask` (the oldest container). All others of the bucket grow older.
    pub fn replace_oldest(&mut self, entry: u64, mask: u64) {
        let oldest = (0..SLOTS)
            .min_by_key(|&slot| (self.age(slot), self.slots[slot] & mask))
            .expect("a bucket has slots");
        let by = self.age(oldest);
        for slot in 0..SLOTS {
            self.set_age(slot, self.age(slot) - by);
        }
        self.slots[oldest] = entry;
        self.set_age(oldest, 1);
    }
}
