//! Scrubbing: every stored record is read and verified, container by container, beside others who
//! use the pool.
//! Room: onefold-pool.
//! In: the container after which to go on. Out: what is wrong in the next one, and which blocks
//! that hits.
//! Invariant: nothing is changed, and a record that is damaged is never passed over: what cannot be
//! read, or is not in the directory, counts as damaged for the blocks that refer to it.
//! Cost: one read of each container, past the page cache where that is possible, and a checksum of
//! its bytes; a pass over the maps for each container in which something is wrong, or of which
//! pages were punched.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use onefold_block::{ContainerId, Lba, StoreError};

use crate::check::{CheckReport, for_each_entry};
use crate::container::directories;
use crate::container::table::ContainerInfo;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::format::container;
use crate::format::record;
use crate::pba::{Location, Pba, UNIT_BYTES};
use crate::pool::Pool;
use crate::victim::Reader;

/// Problems of one container that are named; the rest are counted.
const PROBLEMS_MAX: usize = 20;
/// Ranges of blocks of one container that are named.
const RANGES_MAX: usize = 1000;

/// Neighbouring blocks of a volume that refer to damaged records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedBlocks {
    /// The volume's name, or a snapshot's.
    pub volume: String,
    /// The first block.
    pub first: Lba,
    /// How many.
    pub count: u64,
}

/// What a step of a scrub read, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    /// The container.
    pub container: ContainerId,
    /// Its bytes.
    pub bytes: u64,
    /// Records verified.
    pub records: u64,
    /// What is wrong with it, at most twenty things.
    pub problems: Vec<String>,
    /// How much is wrong, named or not.
    pub problems_total: u64,
    /// Blocks that cannot be read for that, at most a thousand ranges.
    pub blocks: Vec<DamagedBlocks>,
    /// How many blocks, named or not.
    pub blocks_total: u64,
}

/// A scrub under way; it can be begun again at its position.
#[derive(Default)]
pub struct Scrubber {
    reader: Reader,
    last: u32,
}

impl Scrubber {
    /// Go on after the container with this number; 0 begins.
    pub fn after(last: u32) -> Self {
        Self { reader: Reader::default(), last }
    }

    /// Number of the container that was read last.
    pub const fn position(&self) -> u32 {
        self.last
    }

    /// Read and verify the next container; `None` after the last. Those that are still being filled
    /// are left out.
    ///
    /// # Errors
    /// [`PoolError`] where the maps cannot be read for which blocks are hit. Damage to containers
    /// is no error.
    pub fn step(&mut self, pool: &Pool) -> Result<Option<Scrubbed>, PoolError> {
        let inner = &*pool.inner;
        loop {
            let next = inner.engine().table.next_sealed(ContainerId::new(self.last));
            let Some((id, info)) = next else { return Ok(None) };
            self.last = id.get();
            if inner.live(id).is_some() {
                // Not all of it is in the store yet.
                continue;
            }
            let mut found = Scrubbed {
                container: id,
                bytes: u64::from(info.len_bytes),
                records: 0,
                problems: Vec::new(),
                problems_total: 0,
                blocks: Vec::new(),
                blocks_total: 0,
            };
            let Some((good, punched)) = self.read(inner, (id, &info), &mut found) else {
                // Nothing refers to it any more, and it went while it was read.
                continue;
            };
            if !found.problems.is_empty() || punched {
                list_blocks(inner, &good, &mut found);
                if found.problems.is_empty() && !found.blocks.is_empty() {
                    found.found(format!("{id}: records are gone that blocks refer to"));
                }
            }
            return Ok(Some(found));
        }
    }

    /// The places of the good records, and whether pages were punched; `None` if the container has
    /// gone.
    fn read(
        &mut self,
        inner: &Inner,
        (id, info): (ContainerId, &ContainerInfo),
        found: &mut Scrubbed,
    ) -> Option<(BTreeSet<Location>, bool)> {
        let most = inner.settings.container_bytes;
        let read = self.reader.read_bytes(&*inner.plain, id, (info.len_bytes, most));
        // It is marked before it is punched or removed: what was there when all was read tells.
        let punched = inner.engine().table.get(id)?.is_punched();
        let bytes = match read {
            Ok((bytes, None)) => bytes,
            Ok((bytes, Some(error))) => {
                found.found(error.to_string());
                bytes
            }
            Err(error) => {
                let missing = matches!(error, PoolError::Store(StoreError::NotFound { .. }));
                let what = if missing { format!("{id} is missing") } else { error.to_string() };
                found.found(what);
                return Some((BTreeSet::new(), punched));
            }
        };
        if let Err(error) = container::check_header(bytes, id, &inner.identity.uuid) {
            found.found(error.to_string());
        }
        let entries = match directories::of(bytes, id) {
            Ok(entries) => entries,
            Err(error) => {
                found.found(error.to_string());
                let good = walk(id, bytes, inner.chunk_bytes());
                found.records = good.len() as u64;
                return Some((good, punched));
            }
        };
        let mut good = BTreeSet::new();
        for entry in &entries {
            let location = entry.location;
            let at = location.offset_bytes();
            let record = bytes.get(at..location.end_bytes());
            let verified =
                record.map(|bytes| record::verify(bytes, Pba { container: id, location }));
            match verified {
                Some(Ok(_)) => drop(good.insert(location)),
                // Nothing refers to what was punched; if something does, its blocks say so.
                _ if punched => {}
                Some(Err(problem)) => found.found(format!("corrupt {id} at byte {at}: {problem}")),
                None => found.found(format!("corrupt {id} at byte {at}: the record is cut short")),
            }
        }
        found.records = entries.len() as u64;
        Some((good, punched))
    }
}

impl Scrubbed {
    fn found(&mut self, problem: String) {
        self.problems_total += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

/// The places of good records, without a directory.
fn walk(id: ContainerId, bytes: &[u8], chunk_bytes: usize) -> BTreeSet<Location> {
    let (mut good, mut at) = (BTreeSet::new(), container::HEADER_BYTES);
    while at < bytes.len() {
        let found = record::probe(bytes, at, id, chunk_bytes);
        at = found.map_or(at + UNIT_BYTES, Location::end_bytes);
        good.extend(found);
    }
    good
}

/// Blocks of volumes and snapshots that refer to this container where no good record is.
fn list_blocks(inner: &Inner, good: &BTreeSet<Location>, found: &mut Scrubbed) {
    let mut volumes = inner.all_volumes();
    volumes.retain(|volume| !volume.deleting.load(Ordering::Acquire));
    for volume in volumes {
        let name = volume.name();
        // Damage to a map is not what is looked for here; a check names it.
        let mut ignored = CheckReport::default();
        // Pages that are shared, too: each volume and snapshot is told of by itself.
        for_each_entry(inner, &volume, (true, false), &mut ignored, &mut |_, lba, _, entry| {
            let Some(pba) = entry.pba().filter(|pba| pba.container == found.container) else {
                return;
            };
            if good.contains(&pba.location) {
                return;
            }
            found.blocks_total += 1;
            let end = |range: &DamagedBlocks| range.first.get() + range.count;
            let named = found.blocks.len();
            match found.blocks.last_mut() {
                Some(last) if last.volume == name && end(last) == lba.get() => last.count += 1,
                _ if named < RANGES_MAX => {
                    found.blocks.push(DamagedBlocks { volume: name.clone(), first: lba, count: 1 });
                }
                _ => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, FaultKind, Folder as _, OpKind, SimFolder};

    use super::*;
    use crate::{OpenOptions, PoolSettings};

    #[test]
    fn a_damaged_header_and_what_could_not_be_read_at_first_are_named_beside_good_records() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &[7; 4096], false).unwrap();
        drop(volume);
        pool.close().unwrap();
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        let scrubbed = || Scrubber::after(0).step(&pool).unwrap().unwrap();
        let problems = |found: &Scrubbed| (found.problems.len(), found.records, found.blocks_total);
        assert_eq!(problems(&scrubbed()), (0, 1, 0));
        folder.fail_once(&[OpKind::Read], 1, FaultKind::Eio);
        assert_eq!(problems(&scrubbed()), (1, 1, 0));
        let containers = folder.existing_subfolder("containers").unwrap();
        let name = containers.list().unwrap().remove(0);
        containers.open(&name).unwrap().write(13, &[0xA5]).unwrap();
        let found = scrubbed();
        assert_eq!(problems(&found), (1, 1, 0));
        assert!(found.problems[0].contains("header"), "{found:?}");
    }
}
