//! One entry of the index, in eight bytes.
//! Room: onefold-pool.
//!
//! | bits | what |
//! |---|---|
//! | 41..64 | tag: the high bits of the fingerprint's 64 |
//! | 39..41 | age: how recently it was of use, 3 the most |
//! | 0..39 | place; zero if the slot is free |

use onefold_block::ContainerId;

use crate::pba::CHUNKS_PER_CONTAINER_MAX;

/// Bits of a container number that an entry holds: the newest container with these bits is meant.
pub const CONTAINER_BITS: u32 = 26;
/// Bits of a chunk's ordinal in its container.
const ORDINAL_BITS: u32 = CHUNKS_PER_CONTAINER_MAX.trailing_zeros();
const PLACE_BITS: u32 = CONTAINER_BITS + ORDINAL_BITS;
const AGE_BITS: u32 = 2;
/// Bits of the fingerprint that an entry holds. They give the bucket, so that tables can grow
/// without the fingerprints at hand, and what is left of them tells entries of a bucket apart.
pub const TAG_BITS: u32 = 64 - PLACE_BITS - AGE_BITS;

/// The age of an entry that was just of use.
pub const AGE_MAX: u64 = (1 << AGE_BITS) - 1;
/// The age of an entry that is new.
pub const AGE_NEW: u64 = 1;
/// The age of an entry that is about to be asked for: its container may be an old one.
pub const AGE_AHEAD: u64 = 2;

/// A slot without an entry.
pub const FREE: u64 = 0;

/// Where a chunk might be: a container's low bits and the chunk's ordinal in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// The place of chunk `ordinal` of a container; `None` for the one in 2^26 containers' chunks
    /// whose bits are all zero.
    pub fn new(id: ContainerId, ordinal: u16) -> Option<Self> {
        debug_assert!(usize::from(ordinal) < CHUNKS_PER_CONTAINER_MAX);
        let bits = u64::from(id.get()) << ORDINAL_BITS | u64::from(ordinal);
        let place = Self::of(bits);
        (place.0 != 0).then_some(place)
    }

    const fn of(entry: u64) -> Self {
        Self(entry & ((1 << PLACE_BITS) - 1))
    }

    /// The container meant, given that `newest` is the last one made; `None` if there is none.
    pub fn container(self, newest: ContainerId) -> Option<ContainerId> {
        let low = (self.0 >> ORDINAL_BITS) as u32;
        let window = 1u32 << CONTAINER_BITS;
        let candidate = (newest.get() & !(window - 1)) | low;
        let number =
            if candidate <= newest.get() { candidate } else { candidate.checked_sub(window)? };
        (number > 0).then_some(ContainerId::new(number))
    }

    /// The chunk's ordinal in its container.
    pub const fn ordinal(self) -> usize {
        (self.0 & ((1 << ORDINAL_BITS) - 1)) as usize
    }

    /// Lower for older containers, as long as fewer than 2^26 were made.
    pub const fn seniority(self) -> u64 {
        self.0
    }
}

/// A new entry of this age.
pub const fn entry(tag: u32, place: Place, age: u64) -> u64 {
    (tag as u64) << (64 - TAG_BITS) | age << PLACE_BITS | place.0
}

/// The tag of a hash: its high bits. The low bits choose the shard.
pub const fn tag_of_hash(hash: u64) -> u32 {
    (hash >> (64 - TAG_BITS)) as u32
}

/// An entry's tag.
pub const fn tag_of(entry: u64) -> u32 {
    (entry >> (64 - TAG_BITS)) as u32
}

/// Bits of a tag that are zero in a hook's: one in 64.
const HOOK_BITS: u32 = 6;

/// Whether chunks with this tag are hooks: the low bits of it, as the high ones say in which bucket
/// it is.
pub const fn is_hook_tag(tag: u32) -> bool {
    tag & ((1 << HOOK_BITS) - 1) == 0
}

/// An entry's place; `None` if the slot holds none.
pub const fn place_of(entry: u64) -> Option<Place> {
    let place = Place::of(entry);
    if place.0 == 0 { None } else { Some(place) }
}

/// An entry's age.
pub const fn age_of(entry: u64) -> u64 {
    entry >> PLACE_BITS & AGE_MAX
}

/// The same entry with another age.
pub const fn with_age(entry: u64, age: u64) -> u64 {
    entry & !(AGE_MAX << PLACE_BITS) | age << PLACE_BITS
}

/// Whether two slots hold the same entry, whatever its age.
pub const fn same(a: u64, b: u64) -> bool {
    (a ^ b) & !(AGE_MAX << PLACE_BITS) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_tag_place_and_age_apart() {
        for tag in [0, 1, (1 << TAG_BITS) - 1] {
            for id in [1, (1 << CONTAINER_BITS) - 1] {
                for ordinal in [0, 8191] {
                    let place = Place::new(ContainerId::new(id), ordinal).unwrap();
                    for age in 0..=AGE_MAX {
                        let aged = with_age(entry(tag, place, AGE_NEW), age);
                        assert_eq!((tag_of(aged), place_of(aged)), (tag, Some(place)));
                        assert_eq!((age_of(aged), place.ordinal()), (age, usize::from(ordinal)));
                        assert!(same(aged, entry(tag, place, AGE_NEW)) && !same(aged, FREE));
                    }
                }
            }
        }
        assert_eq!(place_of(FREE), None);
        assert_eq!(Place::new(ContainerId::new(1 << CONTAINER_BITS), 0), None);
    }

    #[test]
    fn a_place_means_the_newest_container_with_its_low_bits() {
        let window = 1 << CONTAINER_BITS;
        for (number, newest) in
            [(1, 1), (5, window), (window, window), (window + 3, window + 9), (9, window + 3)]
        {
            let place = Place::new(ContainerId::new(number), 8191).unwrap();
            assert_eq!(place.container(ContainerId::new(newest)), Some(ContainerId::new(number)));
        }
        let place = Place::new(ContainerId::new(7), 0).unwrap();
        assert_eq!(place.container(ContainerId::new(6)), None);
    }
}
