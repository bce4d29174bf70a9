//! What the last look-ups in directories that are not in memory say of those directories.
//! Room: onefold-pool.
//! In: duplicates that were verified by reading one entry each. Out: whether the whole directory is
//! worth reading. It is if what is written follows the container (an earlier duplicate is as far
//! back in it as on the volume, or two are about as far, and at least half of those in it are), or
//! if the container is popular. What is scattered over many containers is neither, at any size of
//! the memory: one entry each costs less than directories that push each other out. Of a few
//! containers, some duplicate is always about as far by chance: by a profile, such directories were
//! about a third of what verifying took where half of them fit.

use onefold_block::{ContainerId, Lba};

/// Look-ups that are remembered.
const MISSES: usize = 256;
/// Of these, so many in one container make it popular: to read a directory takes as long as to read
/// a hundred entries.
const POPULAR: u32 = 64;
/// Blocks on the volume over which one container is followed, at most.
const BLOCKS_MAX: u64 = 2048;
/// Of the blocks or records between two duplicates, one part in so many may be something else's,
const OTHERS_SHARE: u64 = 16;
/// and so many in any case.
const OTHERS: u64 = 4;

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

    /// How far this one comes behind another of its container, on the volume and in that container,
    /// if it does.
    fn behind(&self, other: &Self) -> Option<(u64, u64)> {
        let blocks = self.lba.checked_sub(other.lba).filter(|&by| by > 0 && by <= BLOCKS_MAX)?;
        let records = self.ordinal.checked_sub(other.ordinal)?;
        (records > 0).then_some((blocks, records))
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
    /// Their containers, apart: most look-ups find theirs among few or none of these, and that is
    /// told by a kibibyte of numbers.
    containers: [u32; MISSES],
    at: usize,
}

impl Default for Misses {
    fn default() -> Self {
        Self { last: [Miss::default(); MISSES], containers: [0; MISSES], at: 0 }
    }
}

impl Misses {
    /// What these say of the directory that would tell whether `now` is a duplicate too.
    pub fn worth(&self, now: &Miss) -> Option<Worth> {
        let is_same = |&id: &u32| u32::from(id == now.container);
        let same: u32 = self.containers.iter().map(is_same).sum();
        if same == 0 {
            return None;
        }
        let (mut aligned, mut followed) = (0, 0);
        for (miss, _) in self.last.iter().zip(&self.containers).filter(|(_, id)| is_same(id) > 0) {
            // Blocks that are zero or other containers' duplicates may lie between, and records
            // that were written for something else.
            if let Some((blocks, records)) = now.behind(miss) {
                let about = blocks.abs_diff(records) <= OTHERS + blocks / OTHERS_SHARE;
                followed += if blocks == records { 2 } else { u32::from(about) };
                aligned += u32::from(about);
            }
        }
        if followed >= 2 && aligned * 2 >= same {
            return Some(Worth::Followed);
        }
        (same >= POPULAR).then_some(Worth::Popular)
    }

    /// It was one.
    pub fn note(&mut self, miss: Miss) {
        self.last[self.at] = miss;
        self.containers[self.at] = miss.container;
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
    fn one_is_behind_another_if_it_is_further_on_in_both() {
        let first = miss(7, 60, 1060);
        let behind = |ordinal, lba| miss(7, ordinal, lba).behind(&first);
        assert_eq!(behind(61, 1061), Some((1, 1)));
        assert_eq!(behind(90, 1060 + BLOCKS_MAX), Some((BLOCKS_MAX, 30)));
        for (ordinal, lba) in [(60, 1061), (61, 1060), (59, 1061), (61, 1059)] {
            assert_eq!(behind(ordinal, lba), None, "{ordinal} {lba}");
        }
        assert_eq!(behind(61, 1061 + BLOCKS_MAX), None, "too far");
    }

    #[test]
    fn a_copy_follows_its_container_from_the_second_duplicate_on() {
        let mut misses = Misses::default();
        for container in [1, 2, 7] {
            assert_eq!(misses.worth(&miss(container, 60, 1060)), None, "nothing is known");
        }
        misses.note(miss(7, 60, 1060));
        // That another container comes so does not count.
        misses.note(miss(8, 500, 2000));
        assert_eq!(misses.worth(&miss(8, 125, 1125)), None);
        // Other clients write between.
        for other in 0..200 {
            misses.note(miss(100 + other, 3, 50_000 + u64::from(other) * 997));
        }
        assert_eq!(misses.worth(&miss(7, 125, 1125)), Some(Worth::Followed));
        for unlike in [miss(8, 125, 1125), miss(7, 20, 1125), miss(7, 1900, 1125)] {
            assert_eq!(misses.worth(&unlike), None);
        }
        assert_eq!(misses.worth(&miss(7, 125, 900_000)), None);
        assert_eq!(misses.worth(&miss(7, 60, 1060)), None, "the same again");
        // A few blocks between are something else's: it takes one duplicate more.
        assert_eq!(misses.worth(&miss(7, 120, 1125)), None);
        misses.note(miss(7, 120, 1125));
        assert_eq!(misses.worth(&miss(7, 180, 1188)), Some(Worth::Followed));
        assert_eq!(misses.worth(&miss(7, 300, 1188)), None);
    }

    #[test]
    fn what_is_scattered_over_containers_is_worth_none_of_them() {
        let mut misses = Misses::default();
        let mut random = SplitMix64::new(1);
        let mut worth = 0;
        for n in 0..100_000 {
            let scattered = miss(1 + random.below(50) as u32, random.below(2000) as usize, n);
            worth += usize::from(misses.worth(&scattered).is_some());
            misses.note(scattered);
        }
        assert!(worth < 500, "{worth} of 100,000");
        // Of so few that every other block is about as far in one of them as in the last one.
        let mut few = Misses::default();
        let mut worth = 0;
        for n in 0..100_000 {
            let scattered = miss(1 + random.below(6) as u32, random.below(2000) as usize, n);
            worth += usize::from(few.worth(&scattered) == Some(Worth::Followed));
            few.note(scattered);
        }
        assert!(worth < 100, "{worth} of 100,000");
        for ordinal in 0..POPULAR as usize {
            misses.note(miss(999, 1000 - 10 * ordinal, 10 * ordinal as u64));
        }
        assert_eq!(misses.worth(&miss(999, 5, 77)), Some(Worth::Popular));
    }

    #[test]
    fn how_far_and_how_many_decides_to_the_block_whether_a_container_is_followed() {
        let after = |noted: &[Miss], now: Miss| {
            let mut misses = Misses::default();
            for miss in noted {
                misses.note(*miss);
            }
            misses.worth(&now)
        };
        let (one, follows) = (miss(7, 100, 1000), Some(Worth::Followed));
        for (by, worth) in [(0, None), (1, follows), (2048, follows), (2049, None)] {
            assert_eq!(after(&[one], miss(7, 100 + by as usize, 1000 + by)), worth, "{by} on");
        }
        // Of 160 blocks, 14 may be something else's; that takes two.
        for (more, worth) in [(14, follows), (15, None)] {
            for records in [260 + more, 260 - more] {
                let now = miss(7, records, 1160);
                assert_eq!(after(&[one, one], now), worth, "{records}");
                assert_eq!(after(&[one], now), None, "{records}");
            }
        }
        // Half of those in the container must agree.
        let other = miss(7, 5000, 900);
        let now = miss(7, 110, 1010);
        assert_eq!(after(&[one, other], now), follows);
        assert_eq!(after(&[one, other, other], now), None);
        for (count, worth) in [(63, None), (64, Some(Worth::Popular))] {
            assert_eq!(after(&vec![other; count], now), worth);
            assert_eq!(after(&vec![other; count], miss(8, 110, 1010)), None);
        }
        // So many are remembered.
        let strangers = |count| (0..count).map(|n| miss(50 + n, 3, 5)).collect::<Vec<_>>();
        assert_eq!(after(&[vec![one], strangers(255)].concat(), now), follows);
        assert_eq!(after(&[vec![one], strangers(256)].concat(), now), None);
    }
}
