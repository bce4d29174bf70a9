//! Which duplicates are stored again, so that restores touch fewer containers.
//! Room: onefold-archive.   In: where a segment's chunks already lie.   Out: containers to leave.
//! Source: capping is [capping-13] sec. 4.1; HAR is [har-14] sec. 4. Differs: HAR's utilization
//! counts bytes of chunks referred to, repeated references again, so that no set of references need
//! be kept.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use onefold_block::ContainerId;

use crate::format::version_file::ContainerUse;

/// Chunks of a segment, over which capping counts containers.
pub const SEGMENT_CHUNKS: usize = 1024;
/// A container of which the last version uses less than this share is sparse (HAR).
const SPARSE_PERCENT: u64 = 50;
/// Most of the last version that HAR stores again, in percent of the bytes of its chunks.
const REWRITE_PERCENT: u64 = 5;

/// How to trade space for restore speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewriting {
    /// Old containers that a segment may refer to; the rest of its duplicates is stored again.
    pub cap: Option<u32>,
    /// Store again what lies in containers that the last version made little use of.
    pub har: bool,
}

/// The containers that a segment may not refer to: all but the `cap` that hold most of it. Of
/// containers that hold the same, the newer is kept.
pub fn beyond_cap(
    found: impl Iterator<Item = (ContainerId, u64)>,
    cap: Option<u32>,
) -> HashSet<ContainerId> {
    let Some(cap) = cap else { return HashSet::new() };
    let mut bytes: BTreeMap<ContainerId, u64> = BTreeMap::new();
    for (id, len) in found {
        *bytes.entry(id).or_default() += len;
    }
    let mut ranked: Vec<(u64, ContainerId)> = bytes.into_iter().map(|(id, n)| (n, id)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    ranked.into_iter().skip(cap as usize).map(|(_, id)| id).collect()
}

/// The sparse containers of the last version, emptiest first, as far as the limit goes.
/// `content_bytes` tells what chunks a container holds, in bytes.
pub fn sparse(
    uses: &[ContainerUse],
    mut content_bytes: impl FnMut(ContainerId) -> u64,
) -> BTreeSet<ContainerId> {
    let total: u64 = uses.iter().map(|container| u64::from(container.bytes)).sum();
    let is_sparse = |container: &&ContainerUse| {
        u64::from(container.bytes) * 100 < content_bytes(container.id) * SPARSE_PERCENT
    };
    let mut candidates: Vec<&ContainerUse> = uses.iter().filter(is_sparse).collect();
    candidates.sort_unstable_by_key(|container| (container.bytes, container.id));
    let mut sum = 0;
    let within = candidates.into_iter().take_while(|container| {
        sum += u64::from(container.bytes);
        sum * 100 <= total * REWRITE_PERCENT
    });
    within.map(|container| container.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> ContainerId {
        ContainerId::new(number)
    }

    #[test]
    fn the_cap_keeps_the_containers_that_hold_most() {
        let found = [(1, 10), (2, 5), (1, 10), (3, 15), (4, 5), (2, 9)];
        let beyond = |cap| beyond_cap(found.iter().map(|&(n, len)| (id(n), len)), cap);
        assert_eq!(beyond(None), HashSet::new());
        assert_eq!(beyond(Some(4)), HashSet::new());
        assert_eq!(beyond(Some(3)), HashSet::from([id(4)]));
        assert_eq!(beyond(Some(1)), HashSet::from([id(2), id(3), id(4)]));
        assert_eq!(beyond(Some(0)).len(), 4);
    }

    #[test]
    fn har_takes_the_emptiest_within_its_limit() {
        let uses: Vec<ContainerUse> = [(1, 10), (2, 90), (3, 2), (4, 3), (5, 100), (6, 49)]
            .map(|(n, bytes)| ContainerUse { id: id(n), bytes })
            .into();
        // 254 bytes in all: 12.7 may be stored again, so 2 + 3 but not 10 more.
        assert_eq!(sparse(&uses, |_| 100), BTreeSet::from([id(3), id(4)]));
        assert_eq!(sparse(&[], |_| 100), BTreeSet::new());
    }

    #[test]
    fn half_of_a_container_is_not_sparse_and_a_twentieth_of_all_is_within_the_limit() {
        let uses = |all: &[(u32, u32)]| -> Vec<ContainerUse> {
            all.iter().map(|&(n, bytes)| ContainerUse { id: id(n), bytes }).collect()
        };
        // 5 of 100 bytes, and then 1 more.
        let some = uses(&[(1, 2), (2, 3), (3, 95)]);
        assert_eq!(sparse(&some, |_| 95), BTreeSet::from([id(1), id(2)]));
        assert_eq!(sparse(&some, |_| 6), BTreeSet::from([id(1)]));
        assert_eq!(sparse(&some, |_| 4), BTreeSet::new());
        let less = uses(&[(1, 2), (2, 3), (3, 94)]);
        assert_eq!(sparse(&less, |_| 95), BTreeSet::from([id(1)]));
        // Of those that hold the same the first ones, and of the cap's the newest.
        let same = uses(&[(9, 3), (4, 3), (3, 94)]);
        assert_eq!(sparse(&same, |_| 95), BTreeSet::from([id(4)]));
        let found = [(1, 5), (2, 5), (3, 5)].map(|(n, len)| (id(n), len));
        assert_eq!(beyond_cap(found.into_iter(), Some(1)), HashSet::from([id(1), id(2)]));
    }
}
