//! What the last look-ups in directories that are not in memory say of those directories.
//! Room: onefold-pool.
//! In: duplicates that were verified by reading one entry each. Out: whether the whole directory is
//! worth reading. It is if what is written follows the container (an earlier duplicate is as far
//! back in it as it is on the volume), or if the container is popular. What is scattered over many
//! containers is neither, at any size of the memory: one entry each costs less than directories
//! that push each other out.

use onefold_block::{ContainerId, Lba};

/// Look-ups that are remembered.
const MISSES: usize = 256;
/// Of these, so many in one container make it popular.
const POPULAR: usize = 8;
/// Blocks on the volume over which one container is followed, at most.
const BLOCKS_MAX: u64 = 8192;
/// Records between two duplicates, or blocks, that may belong to something else.
const SLACK: u64 = 64;

/// Where in its container a duplicate is, and where on its volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Miss {
    container: u32,
    ordinal: u64,
    lba: u64,
}

impl Miss {
    /// Chunk `ordinal` of a container, which block `lba` is a duplicate of.
    pub const fn new(id: ContainerId, ordinal: usize, lba: Lba) -> Self {
        Self { container: id.get(), ordinal: ordinal as u64, lba: lba.get() }
    }

    /// Whether this one comes as far behind the other on the volume as in their container. Blocks
    /// that are duplicates of other containers' chunks, or zero, may lie between; and so may
    /// records that were written for something else.
    fn follows(&self, other: &Self) -> bool {
        let behind = |now: u64, then: u64| now.checked_sub(then).filter(|&by| by > 0);
        let blocks = behind(self.lba, other.lba).filter(|&blocks| blocks <= BLOCKS_MAX);
        let (Some(blocks), Some(records)) = (blocks, behind(self.ordinal, other.ordinal)) else {
            return false;
        };
        self.container == other.container
            && records <= 2 * blocks + SLACK
            && blocks <= 4 * records + SLACK
    }
}

/// Why a directory is worth reading as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// What is written follows the container: the rest of it will be asked for as well.
    Followed,
    /// Many look-ups are in it.
    Popular,
}

/// The last look-ups that were duplicates.
pub struct Misses {
    last: [Miss; MISSES],
    at: usize,
}

impl Default for Misses {
    fn default() -> Self {
        Self { last: [Miss::default(); MISSES], at: 0 }
    }
}

impl Misses {
    /// What these say of the directory that would tell whether `now` is a duplicate too.
    pub fn worth(&self, now: &Miss) -> Option<Worth> {
        let (mut same, mut followed) = (0, false);
        for miss in &self.last {
            same += usize::from(miss.container == now.container);
            followed |= now.follows(miss);
        }
        if followed {
            return Some(Worth::Followed);
        }
        (same >= POPULAR).then_some(Worth::Popular)
    }

    /// It was one.
    pub fn note(&mut self, miss: Miss) {
        self.last[self.at] = miss;
        self.at = (self.at + 1) % MISSES;
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;

    fn miss(container: u32, ordinal: usize, lba: u64) -> Miss {
        Miss::new(ContainerId::new(container), ordinal, Lba::new(lba))
    }

    #[test]
    fn a_copy_follows_its_container_from_the_second_duplicate_on() {
        let mut misses = Misses::default();
        assert_eq!(misses.worth(&miss(7, 60, 1060)), None);
        misses.note(miss(7, 60, 1060));
        // Other clients write between.
        for other in 0..200 {
            misses.note(miss(100 + other, 3, 50_000 + u64::from(other) * 997));
        }
        assert_eq!(misses.worth(&miss(7, 125, 1125)), Some(Worth::Followed));
        // Half of the blocks were zero, or half of the records something else's.
        assert_eq!(misses.worth(&miss(7, 92, 1125)), Some(Worth::Followed));
        assert_eq!(misses.worth(&miss(7, 190, 1125)), Some(Worth::Followed));
        for unlike in [miss(8, 125, 1125), miss(7, 20, 1125), miss(7, 1900, 1125)] {
            assert_eq!(misses.worth(&unlike), None);
        }
        assert_eq!(misses.worth(&miss(7, 125, 900_000)), None);
        assert_eq!(misses.worth(&miss(7, 60, 1060)), None, "the same again");
    }

    #[test]
    fn what_is_scattered_over_containers_is_worth_none_of_them() {
        let mut misses = Misses::default();
        let mut random = SplitMix64::new(1);
        let mut worth = 0;
        for _ in 0..100_000 {
            let scattered = miss(
                1 + random.below(400) as u32,
                random.below(2000) as usize,
                random.below(1 << 20),
            );
            worth += usize::from(misses.worth(&scattered).is_some());
            misses.note(scattered);
        }
        assert!(worth < 1000, "{worth} of 100,000");
        for ordinal in 0..POPULAR {
            misses.note(miss(999, 1000 - 100 * ordinal, 10 * ordinal as u64));
        }
        assert_eq!(misses.worth(&miss(999, 5, 77)), Some(Worth::Popular));
    }
}
