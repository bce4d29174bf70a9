//! Giving back the space of chunks that no version refers to: what is still needed of a container
//! moves to a new one, and versions' files are written again with the new places. A group of which
//! everything is needed moves as it is stored; of others, chunks do.
//! Room: onefold-archive.
//! Invariants: (1) a container goes only when no version in the log refers to it  (2) a version's
//! new file counts once the log tells of it, and its old one goes after that  (3) every chunk that
//! moves is compared with its fingerprint first.
//! Cost: 8 bytes of memory per chunk that versions refer to, about 60 per chunk that moves; what
//! moves, and the files of the versions that refer to it, are on disk twice for a while.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use onefold_block::ContainerId;

use crate::archive::Archive;
use crate::container_writer::ContainerWriter;
use crate::containers::{self, GroupReader};
use crate::error::ArchiveError;
use crate::format::chunk_ref::ChunkRef;
use crate::format::container::{DirectoryEntry, ENTRY_BYTES};
use crate::format::entry::{Kind, Recipe};
use crate::format::group::is_large;
use crate::format::log_record::{LogEvent, VersionInfo};
use crate::format::version_file::Header;
use crate::group_compressor::GroupCompressor;
use crate::manifest::Manifest;
use crate::version::Version;

/// What compacting did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Containers that went.
    pub containers: u64,
    /// Their bytes, less those of the containers that took what was needed of them.
    pub freed_bytes: u64,
    /// Bytes of chunks that moved, as stored.
    pub moved_bytes: u64,
    /// Bytes of chunks that nobody refers to and that are still there.
    pub unused_bytes: u64,
    /// Why nothing, or not everything, could be done.
    pub obstacles: Vec<String>,
}

/// A container and what of it is needed.
struct Candidate {
    id: ContainerId,
    live: u64,
    dead: u64,
}

/// Where a chunk lies: its container, and its first byte in the content of that.
type Place = (ContainerId, u32);
/// Where chunks that moved are now, by where they were.
type Moved = HashMap<Place, ChunkRef>;

impl Archive {
    /// Give back what no version refers to, until that is at most `unused_percent` of what they
    /// do refer to. `progress` is told the bytes of containers done and to be done, and answers
    /// whether to go on.
    pub fn compact(
        &mut self,
        unused_percent: u32,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Compacted, ArchiveError> {
        self.complete_copies()?;
        let left = self.discard_pending()?;
        let unused = self.remove_unused()?;
        let mut report = Compacted {
            containers: left.containers + unused.containers,
            freed_bytes: left.bytes + unused.bytes,
            ..Compacted::default()
        };
        let live = match self.live_chunks() {
            Ok(live) => live,
            Err(error) if error.is_corruption() => {
                report.obstacles.push(format!("nothing moves beside damage: {error}"));
                return Ok(report);
            }
            Err(error) => return Err(error),
        };
        let chosen = self.choose(&live, unused_percent, &mut report)?;
        if chosen.is_empty() {
            return Ok(report);
        }
        match self.move_chunks(&chosen, &live, &mut report, progress) {
            Ok(()) => Ok(report),
            Err(error) => {
                // Versions that were written again stay so: either file says the same.
                if !self.log.in_doubt {
                    self.discard_pending()?;
                }
                Err(error)
            }
        }
    }

    /// Container and offset of every chunk that a version refers to, in order.
    fn live_chunks(&self) -> Result<Vec<Place>, ArchiveError> {
        let mut live = Vec::new();
        let numbers: Vec<u32> = self.versions().map(|info| info.number).collect();
        for number in numbers {
            let version = self.version(Some(number))?;
            for entry in version.entries() {
                let entry = entry?;
                if entry.kind == Kind::File {
                    for chunk in version.chunks(entry.recipe) {
                        live.push(place(&chunk?));
                    }
                }
            }
            live.sort_unstable();
            live.dedup();
        }
        Ok(live)
    }

    /// The containers to move chunks out of: those of which most is unused, as far as is needed.
    fn choose(
        &self,
        live: &[Place],
        unused_percent: u32,
        report: &mut Compacted,
    ) -> Result<Vec<Candidate>, ArchiveError> {
        let mut candidates = Vec::new();
        let (mut live_bytes, mut unused) = (0_u64, 0_u64);
        let (store, uuid) = (&self.store, &self.identity.uuid);
        let ids = store.list()?;
        containers::read_directories(store, uuid, &ids, |id, directory| {
            let directory = match directory {
                Ok(directory) => directory,
                Err(error) if error.is_corruption() => {
                    report.obstacles.push(error.to_string());
                    return Ok(true);
                }
                Err(error) => return Err(error),
            };
            let mut candidate = Candidate { id, live: 0, dead: 0 };
            // A chunk takes its share of what its container takes.
            let stored: u64 = directory.groups.groups().iter().map(|g| u64::from(g.stored)).sum();
            let content = u64::from(directory.groups.content_bytes()).max(1);
            for entry in directory.chunks {
                let bytes = u64::from(entry.len) * stored / content + ENTRY_BYTES as u64;
                if live.binary_search(&place(&entry.reference(id))).is_ok() {
                    candidate.live += bytes;
                } else {
                    candidate.dead += bytes;
                }
            }
            live_bytes += candidate.live;
            unused += candidate.dead;
            candidates.push(candidate);
            Ok(true)
        })?;
        // By the share that is unused, the largest first.
        candidates.sort_by(|a, b| {
            let share = |c: &Candidate, other: &Candidate| {
                u128::from(c.dead) * u128::from(other.live + other.dead)
            };
            share(b, a).cmp(&share(a, b)).then(a.id.cmp(&b.id))
        });
        let limit = (u128::from(live_bytes) * u128::from(unused_percent) / 100) as u64;
        let mut chosen = Vec::new();
        for candidate in candidates {
            if unused <= limit {
                break;
            }
            unused -= candidate.dead;
            chosen.push(candidate);
        }
        report.unused_bytes = unused;
        // In their own order, so that what lies together stays together.
        chosen.sort_by_key(|candidate| candidate.id);
        Ok(chosen)
    }

    fn move_chunks(
        &mut self,
        chosen: &[Candidate],
        live: &[Place],
        report: &mut Compacted,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(), ArchiveError> {
        let ids: HashSet<ContainerId> = chosen.iter().map(|candidate| candidate.id).collect();
        let mut affected: Vec<VersionInfo> = Vec::new();
        for info in self.versions() {
            let uses = self.version(Some(info.number))?.containers()?;
            if uses.iter().any(|container| ids.contains(&container.id)) {
                affected.push(info.clone());
            }
        }
        self.begin_work(affected.len() as u32)?;
        let (moved, next_container) = self.copy_live(chosen, live, report, progress)?;
        for info in affected {
            let version = self.version(Some(info.number))?;
            let info = self.rewrite_version(&version, &moved, next_container)?;
            self.commit(next_container, LogEvent::Added(info))?;
        }
        let removed = self.clear_leftovers()?;
        self.end_work()?;
        report.containers += removed.containers;
        // What moved takes about as much as before.
        report.freed_bytes += removed.bytes.saturating_sub(report.moved_bytes);
        Ok(())
    }

    /// Copy what is needed of the chosen containers to new ones, and make those durable.
    fn copy_live(
        &self,
        chosen: &[Candidate],
        live: &[Place],
        report: &mut Compacted,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(Moved, u32), ArchiveError> {
        let settings = &self.settings;
        let mut writer = ContainerWriter::new(
            Arc::clone(&self.store),
            self.identity.uuid,
            settings.container_bytes as usize,
            GroupCompressor::moving(settings.compression),
            self.log.next_container,
        );
        let mut reader = GroupReader::new(settings.sizes().max());
        let mut moved = Moved::new();
        let total = chosen.iter().map(|candidate| candidate.live + candidate.dead).sum();
        let mut done = 0;
        for candidate in chosen {
            if !progress(done, total) {
                return Err(ArchiveError::Interrupted);
            }
            done += candidate.live + candidate.dead;
            match self.move_needed(candidate.id, live, &mut reader, &mut writer) {
                Ok(here) => moved.extend(here),
                // It stays as it is; what was copied of it is one more copy.
                Err(error) if error.is_corruption() => {
                    report.unused_bytes += candidate.dead;
                    report.obstacles.push(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        writer.finish()?;
        report.moved_bytes += writer.stored_bytes();
        progress(total, total);
        Ok((moved, writer.next()))
    }

    /// Copy what is needed of a container, each chunk found to be right. Answers where what is now.
    fn move_needed(
        &self,
        id: ContainerId,
        live: &[Place],
        reader: &mut GroupReader,
        writer: &mut ContainerWriter,
    ) -> Result<Moved, ArchiveError> {
        let directory = containers::read_directory(&*self.store, id, &self.identity.uuid)?;
        let fingerprinter = self.fingerprinter();
        let mut moved = Moved::new();
        let is_live =
            |chunk: &DirectoryEntry| live.binary_search(&place(&chunk.reference(id))).is_ok();
        // Of what nobody needs nothing is decoded.
        containers::read_wanted(&*self.store, (id, &directory), reader, is_live, |group| {
            let mut chunks = group.chunks.to_vec();
            chunks.retain(is_live);
            for entry in &chunks {
                let data = group.bytes_of(entry)?;
                containers::check_name(&fingerprinter, &entry.reference(id), data)?;
            }
            let whole = chunks.len() == group.chunks.len();
            // Small groups compress less: one that is small is put together with others.
            if whole && is_large(group.group.len as usize) && writer.may_begin_group() {
                let now = writer.copy_group(&chunks, &group.group, group.stored)?;
                moved.extend(chunks.iter().map(|chunk| (id, chunk.offset)).zip(now));
                return Ok(());
            }
            let group_bytes = group.group.bytes_max();
            for entry in chunks {
                let now = writer.append(entry.name, group.bytes_of(&entry)?, group_bytes)?;
                moved.insert((id, entry.offset), now);
            }
            Ok(())
        })?;
        Ok(moved)
    }

    /// Write a version's file again, as its next generation, with chunks where they are now.
    fn rewrite_version(
        &self,
        version: &Version,
        moved: &Moved,
        next_container: u32,
    ) -> Result<VersionInfo, ArchiveError> {
        let info = version.info();
        let generation = info.generation.checked_add(1).ok_or_else(|| {
            let number = info.number;
            ArchiveError::Setting(format!("version {number} was written anew too many times"))
        })?;
        let header = Header {
            number: info.number,
            generation,
            settings: self.settings,
            identity: self.identity,
        };
        let mut linked = HashSet::new();
        for entry in version.entries() {
            let entry = entry?;
            if matches!(entry.kind, Kind::HardLink { .. }) {
                linked.insert(entry.recipe.at);
            }
        }
        let mut manifest = Manifest::create(Arc::clone(&self.versions_folder), header)?;
        let mut recipes: HashMap<u64, Recipe> = HashMap::new();
        for entry in version.entries() {
            let mut entry = entry?;
            let old = entry.recipe;
            if entry.kind == Kind::File {
                entry.recipe.at = manifest.position();
                for chunk in version.chunks(old) {
                    let chunk = chunk?;
                    let now = moved.get(&place(&chunk));
                    manifest.chunk(now.unwrap_or(&chunk))?;
                }
                if linked.contains(&old.at) {
                    recipes.insert(old.at, entry.recipe);
                }
            } else if matches!(entry.kind, Kind::HardLink { .. }) {
                let target = recipes.get(&old.at).copied().ok_or_else(|| {
                    let path = String::from_utf8_lossy(&entry.path).into_owned();
                    ArchiveError::corrupt(path, 0, "it is a link to a file that is not there")
                })?;
                entry.recipe = target;
            }
            manifest.entry(&entry)?;
        }
        manifest.finish(info.clone(), next_container)
    }
}

const fn place(chunk: &ChunkRef) -> Place {
    (chunk.container, chunk.offset)
}

#[cfg(test)]
mod tests {
    use onefold_block::{SimFolder, SplitMix64};
    use onefold_content::Compression;

    use super::*;
    use crate::format::chunk_ref::ChunkName;
    use crate::format::group::GROUP_BYTES;
    use crate::settings::{ArchiveIdentity, ArchiveSettings};

    /// An archive with containers of chunks of these lengths; the places of all.
    fn with(containers: &[&[usize]]) -> (SimFolder, Archive, Vec<Vec<Place>>) {
        let folder = SimFolder::new();
        let identity = ArchiveIdentity { uuid: [1; 16], key: [2; 32] };
        Archive::create(&folder, &ArchiveSettings::default(), identity).unwrap();
        let mut archive = Archive::open(Arc::new(folder.clone())).unwrap();
        archive.commit(9, LogEvent::Rebuilt(1)).unwrap();
        let mut all = Vec::new();
        for (number, lens) in (1..).zip(containers) {
            let compressor = GroupCompressor::moving(Compression::None);
            let store = Arc::clone(&archive.store);
            let mut writer = ContainerWriter::new(store, [1; 16], 1 << 20, compressor, number);
            let mut places = Vec::new();
            for (seed, &len) in (0..).zip(*lens) {
                let data = SplitMix64::new(seed).bytes(len);
                let name = ChunkName::of(&archive.fingerprinter().hash(&data));
                places.push(place(&writer.append(name, &data, GROUP_BYTES).unwrap()));
            }
            writer.finish().unwrap();
            all.push(places);
        }
        (folder, archive, all)
    }

    fn chosen(archive: &Archive, live: &[Place], percent: u32) -> (Vec<u32>, Compacted) {
        let mut report = Compacted::default();
        let chosen = archive.choose(live, percent, &mut report).unwrap();
        (chosen.iter().map(|candidate| candidate.id.get()).collect(), report)
    }

    #[test]
    fn space_is_won_back_where_the_share_that_is_unused_is_largest_and_as_far_as_is_needed() {
        // With their rows: 120 of 480 unused, 520 of 1040, 120 of 1060.
        let (_, archive, places) = with(&[&[100, 340], &[500, 500], &[920, 100]]);
        let live = [places[0][1], places[1][0], places[2][0]];
        for (percent, expected, unused) in [
            (100, vec![], 760),
            // Of 1,820 that are used.
            (42, vec![], 760),
            (41, vec![2], 240),
            (14, vec![2], 240),
            (13, vec![1, 2], 120),
            (6, vec![1, 2, 3], 0),
            (0, vec![1, 2, 3], 0),
        ] {
            let (ids, report) = chosen(&archive, &live, percent);
            assert_eq!((ids, report.unused_bytes), (expected, unused), "{percent} percent");
        }
        // Of equal shares the older container comes first.
        let (_, archive, places) = with(&[&[80, 80], &[80, 80], &[80, 80]]);
        let live = [places[0][0], places[1][0], places[2][0]];
        assert_eq!(chosen(&archive, &live, 70).0, [1]);
        assert_eq!(chosen(&archive, &live, 100).0, [0; 0]);
    }

    #[test]
    fn as_much_as_is_used_may_be_unused_to_the_byte() {
        for (dead, expected) in [(300, vec![]), (301, vec![1])] {
            let (_, archive, places) = with(&[&[300, dead]]);
            let (ids, report) = chosen(&archive, &places[0][..1], 100);
            let unused = if ids.is_empty() { dead as u64 + 20 } else { 0 };
            assert_eq!((ids, report.unused_bytes), (expected, unused));
        }
        // A chunk of a byte takes that and its row.
        let (_, archive, _) = with(&[&[1]]);
        let mut report = Compacted::default();
        let all = archive.choose(&[], 0, &mut report).unwrap();
        let sizes: Vec<(u64, u64)> = all.iter().map(|found| (found.live, found.dead)).collect();
        assert_eq!(sizes, [(0, 21)]);
    }

    #[test]
    fn what_stands_in_the_way_is_told() {
        let (folder, archive, places) = with(&[&[300, 300], &[400, 400]]);
        let live = [places[0][0], places[1][0]];
        let mut report = Compacted::default();
        let all = archive.choose(&live, 0, &mut report).unwrap();
        folder.flip_bit("containers/00000001.container", 70, 0).unwrap();
        let mut heard = Vec::new();
        let progress = &mut |done, total| {
            heard.push((done, total));
            true
        };
        let (moved, next) = archive.copy_live(&all, &live, &mut report, progress).unwrap();
        // The other one moved.
        let after = archive.log.next_container;
        assert_eq!((moved.len(), next), (1, after + 1));
        assert_eq!((report.unused_bytes, report.moved_bytes), (320, 400));
        let problem = "the chunk at 0 of its content has a wrong fingerprint";
        assert_eq!(report.obstacles, [format!("corrupt container 1 at byte 0: {problem}")]);
        assert_eq!(heard, [(0, 1480), (640, 1480), (1480, 1480)]);
        let len = archive.store.len(ContainerId::new(2)).unwrap();
        folder.truncate("containers/00000002.container", len - 1).unwrap();
        let (_, report) = chosen(&archive, &live, 0);
        let problem = "its footer is damaged";
        let expected = format!("corrupt container 2 at byte {}: {problem}", len - 37);
        assert_eq!(report.obstacles, [expected]);
    }
}
