//! Tests: what is to become of the chunks of a batch.
//! Room: onefold-pool.

use onefold_block::{BlockDevice as _, ByteSize, SimFolder};
use onefold_content::FingerprintKind;

use super::*;
use crate::PoolSettings;
use crate::index::Place;

#[test]
fn a_chunk_that_a_batch_has_twice_is_stored_for_the_first_whatever_the_fingerprint() {
    for fingerprint in [FingerprintKind::Blake3, FingerprintKind::Crc32] {
        let settings = PoolSettings { fingerprint, ..PoolSettings::default() };
        let pool = crate::empty_pool::new(&SimFolder::new(), &settings);
        let chunks = [7, 0, 8, 7].map(|byte| [byte; 4096]);
        let write = |(lba, data)| ChunkWrite { lba: Lba::new(lba), data, expected: None };
        let writes: Vec<ChunkWrite<'_>> =
            (0..).zip(chunks.iter().map(|chunk| &chunk[..])).map(write).collect();
        let mut scratch = pool.inner.take_scratch();
        let batch = pool.inner.plan(&writes, Sharing::Wanted, &mut scratch);
        let [Plan::Draft(0), Plan::Hole, Plan::Draft(1), Plan::SameAs(0)] = batch.plans[..] else {
            panic!("{fingerprint}: other plans")
        };
    }
}

#[test]
fn a_place_that_has_another_chunk_is_counted_once_and_not_shared() {
    let pool = crate::empty_pool::new(&SimFolder::new(), &PoolSettings::default());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &[7; 4096], false).unwrap();
    let (inner, mut entries) = (&pool.inner, Vec::new());
    inner.map.entries(volume.state.number, Lba::new(0), 1, &mut entries).unwrap();
    let place = Place::new(entries[0].pba().unwrap().container, 0).unwrap();
    let writes = [ChunkWrite { lba: Lba::new(1), data: &[8; 4096], expected: None }];
    let mut scratch = inner.take_scratch();
    let mut plan = || inner.plan(&writes, Sharing::Wanted, &mut scratch);
    let hash = plan().drafts[0].fingerprint.prefix64();
    inner.index.insert_many(&[(hash, place)]);
    let batch = plan();
    assert!(matches!(batch.plans[..], [Plan::Draft(0)]));
    assert_eq!(pool.activity().false_candidates, 1);
}
