//! Broken folders and media.
//! Room: onefold-block.

use std::sync::Arc;

use onefold_block::conformance::media::CHECKS;
use onefold_block::{Folder, Media, MediaError, SimFolder};

use super::{Memory, all_are_caught, fails};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    ListsBackwards,
    ListsOnlyTheFirst,
    OpensWhatIsNotThere,
    RemovesWhatIsNotThere,
    MapsBadNames,
    CreatesWithoutEmptying,
    CreatesHalfEmpty,
    RemoveEmptiesHandles,
    RenameLeavesTheOldName,
    RenameKeepsWhatIsThere,
    SubfolderIsItself,
    SubfolderIsMade,
    SubfolderGoesWithAll,
    SubfolderStays,
    SubfolderIsMissedByNobody,
    GapsAreDirty,
    WritingNothingGrows,
    ReadsZeroesPastTheEnd,
    LosesLastByte,
    NeverShrinks,
    ShrinkingKeepsOldBytes,
    WrapsOffsets,
    ReservingGrows,
    ReservationsStay,
    PunchReachesTooFar,
    PunchShortens,
    HandlesHaveTheirOwnBytes,
    OtherThreadsLoseBytes,
    EveryFiftiethWriteIsLost,
    SyncLosesTheEnd,
}

/// Each bug and the check that must catch it.
const BUGS: &[(Bug, &str)] = &[
    (Bug::ListsBackwards, "names come and go"),
    (Bug::ListsOnlyTheFirst, "names come and go"),
    (Bug::OpensWhatIsNotThere, "names come and go"),
    (Bug::RemovesWhatIsNotThere, "names come and go"),
    (Bug::MapsBadNames, "bad names are refused"),
    (Bug::CreatesWithoutEmptying, "creating empties"),
    (Bug::CreatesHalfEmpty, "creating empties"),
    (Bug::RemoveEmptiesHandles, "removed media stay readable"),
    (Bug::SubfolderIsItself, "subfolders are apart"),
    (Bug::SubfolderIsMade, "subfolders are apart"),
    (Bug::SubfolderGoesWithAll, "empty subfolders are removed"),
    (Bug::SubfolderStays, "empty subfolders are removed"),
    (Bug::SubfolderIsMissedByNobody, "empty subfolders are removed"),
    (Bug::GapsAreDirty, "writes and gaps"),
    (Bug::WritingNothingGrows, "writes and gaps"),
    (Bug::LosesLastByte, "writes and gaps"),
    (Bug::SyncLosesTheEnd, "writes and gaps"),
    (Bug::ReadsZeroesPastTheEnd, "reads past the end"),
    (Bug::NeverShrinks, "cutting and extending"),
    (Bug::ShrinkingKeepsOldBytes, "cutting and extending"),
    (Bug::WrapsOffsets, "absurd offsets"),
    (Bug::RenameLeavesTheOldName, "renaming"),
    (Bug::RenameKeepsWhatIsThere, "renaming"),
    (Bug::ReservingGrows, "reserving and punching"),
    (Bug::ReservationsStay, "reserving and punching"),
    (Bug::PunchReachesTooFar, "reserving and punching"),
    (Bug::PunchShortens, "reserving and punching"),
    (Bug::HandlesHaveTheirOwnBytes, "handles share one media"),
    (Bug::OtherThreadsLoseBytes, "threads"),
    (Bug::EveryFiftiethWriteIsLost, "model"),
];

#[derive(Clone)]
struct BrokenFolder {
    inner: Arc<dyn Folder>,
    bug: Option<Bug>,
    memory: Arc<Memory>,
}

struct BrokenMedia {
    inner: Arc<dyn Media>,
    bug: Option<Bug>,
    memory: Arc<Memory>,
}

impl BrokenFolder {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn media(&self, inner: Arc<dyn Media>) -> Arc<dyn Media> {
        Arc::new(BrokenMedia { inner, bug: self.bug, memory: Arc::clone(&self.memory) })
    }

    fn name(&self, name: &str) -> String {
        if self.has(Bug::MapsBadNames) && name.len() < 200 {
            format!("n{}", name.replace(['/', '\0'], "_"))
        } else {
            name.to_owned()
        }
    }
}

fn copy_of(media: &dyn Media) -> Result<Arc<dyn Media>, MediaError> {
    let mut bytes = vec![0; media.len()? as usize];
    media.read(0, &mut bytes)?;
    let copy = SimFolder::new().create("copy")?;
    copy.write(0, &bytes)?;
    Ok(copy)
}

impl Folder for BrokenFolder {
    fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        match self.inner.open(&self.name(name)) {
            Err(MediaError::NotFound { .. }) if self.has(Bug::OpensWhatIsNotThere) => {
                self.create(name)
            }
            Ok(media) if self.has(Bug::HandlesHaveTheirOwnBytes) => copy_of(&*media),
            result => result.map(|media| self.media(media)),
        }
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        let name = self.name(name);
        let old = self.inner.open(&name);
        match (self.bug, old) {
            (Some(Bug::CreatesWithoutEmptying), Ok(old)) => Ok(self.media(old)),
            (Some(Bug::CreatesHalfEmpty), Ok(old)) => {
                let kept = copy_of(&*old)?;
                let mut bytes = vec![0; kept.len()? as usize];
                kept.read(0, &mut bytes)?;
                let new = self.inner.create(&name)?;
                new.write(0, &bytes)?;
                new.set_len(1)?;
                Ok(self.media(new))
            }
            _ => self.inner.create(&name).map(|media| self.media(media)),
        }
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        if self.has(Bug::RemoveEmptiesHandles) {
            self.inner.open(name)?.set_len(0)?;
        }
        match self.inner.remove(&self.name(name)) {
            Err(MediaError::NotFound { .. }) if self.has(Bug::RemovesWhatIsNotThere) => Ok(()),
            result => result,
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        match self.bug {
            Some(Bug::RenameLeavesTheOldName) => {
                let copy = self.inner.open(from)?;
                self.inner.rename(from, to)?;
                let mut bytes = vec![0; copy.len()? as usize];
                copy.read(0, &mut bytes)?;
                self.inner.create(from)?.write(0, &bytes)
            }
            Some(Bug::RenameKeepsWhatIsThere) if self.inner.open(to).is_ok() => {
                self.inner.remove(from)
            }
            _ => self.inner.rename(&self.name(from), &self.name(to)),
        }
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        let mut names = self.inner.list()?;
        match self.bug {
            Some(Bug::ListsBackwards) => names.reverse(),
            Some(Bug::ListsOnlyTheFirst) => names.truncate(1),
            _ => {}
        }
        Ok(names)
    }

    fn sync_names(&self) -> Result<(), MediaError> {
        self.inner.sync_names()
    }

    fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        let mut folder = self.clone();
        if !self.has(Bug::SubfolderIsItself) {
            folder.inner = self.inner.subfolder(&self.name(name))?;
        }
        Ok(Arc::new(folder))
    }

    fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        let mut folder = self.clone();
        if self.has(Bug::SubfolderIsMade) {
            folder.inner = self.inner.subfolder(&self.name(name))?;
        } else if !self.has(Bug::SubfolderIsItself) {
            folder.inner = self.inner.existing_subfolder(&self.name(name))?;
        }
        Ok(Arc::new(folder))
    }

    fn remove_subfolder(&self, name: &str) -> Result<(), MediaError> {
        let mapped = self.name(name);
        if self.has(Bug::SubfolderGoesWithAll)
            && let Ok(inner) = self.inner.existing_subfolder(&mapped)
        {
            inner.list()?.iter().try_for_each(|name| inner.remove(name))?;
        }
        match self.inner.remove_subfolder(&mapped) {
            Err(MediaError::NotFound { .. }) if self.has(Bug::SubfolderIsMissedByNobody) => Ok(()),
            Ok(()) if self.has(Bug::SubfolderStays) => self.inner.subfolder(&mapped).map(drop),
            result => result,
        }
    }
}

impl BrokenMedia {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

impl Media for BrokenMedia {
    fn len(&self) -> Result<u64, MediaError> {
        self.inner.len()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        match self.inner.read(offset, buf) {
            Err(MediaError::Truncated { .. }) if self.has(Bug::ReadsZeroesPastTheEnd) => Ok(()),
            result => result,
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let len = self.len()?;
        let last = data.len().saturating_sub(1);
        match self.bug {
            Some(Bug::GapsAreDirty) if offset > len && !data.is_empty() => {
                self.inner.write(len, &vec![0xff; (offset - len) as usize])?;
                self.inner.write(offset, data)
            }
            Some(Bug::WritingNothingGrows) if data.is_empty() => {
                self.inner.set_len(offset.max(len))
            }
            Some(Bug::LosesLastByte) => self.inner.write(offset, &data[..last]),
            Some(Bug::OtherThreadsLoseBytes) if self.memory.is_stranger() => {
                self.inner.write(offset, &data[..last])
            }
            Some(Bug::EveryFiftiethWriteIsLost) if self.memory.every(50) => Ok(()),
            Some(Bug::WrapsOffsets) => self.inner.write(offset & 0xffff_ffff, data),
            _ => self.inner.write(offset, data),
        }
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        let old = self.len()?;
        match self.bug {
            Some(Bug::NeverShrinks) => self.inner.set_len(len.max(old)),
            Some(Bug::ShrinkingKeepsOldBytes) if len > old => {
                self.inner.set_len(len)?;
                self.inner.write(old, &[1])
            }
            Some(Bug::ReservationsStay) => {
                let taken = self.inner.allocated_bytes()?;
                self.inner.set_len(len)?;
                self.inner.reserve(0, taken)
            }
            _ => self.inner.set_len(len),
        }
    }

    fn sync(&self) -> Result<(), MediaError> {
        if self.has(Bug::SyncLosesTheEnd) {
            self.inner.set_len(self.len()?.saturating_sub(1))?;
        }
        self.inner.sync()
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        if self.has(Bug::ReservingGrows) {
            let end = self.len()?.max(offset + len);
            self.inner.set_len(end)?;
        }
        self.inner.reserve(offset, len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        match self.bug {
            Some(Bug::PunchReachesTooFar) => self.inner.punch(offset / 512 * 512, len),
            Some(Bug::PunchShortens) if offset.saturating_add(len) >= self.len()? => {
                self.inner.set_len(offset.min(self.len()?))
            }
            _ => self.inner.punch(offset, len),
        }
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        self.inner.allocated_bytes()
    }
}

#[test]
fn every_broken_folder_is_caught() {
    let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    all_are_caught(BUGS, &names, |name, bug| {
        let (_, check) = CHECKS.iter().find(|(n, _)| *n == name).expect("the name is of the table");
        fails(|| {
            check(&|| {
                let (inner, memory) = (Arc::new(SimFolder::new()), Arc::new(Memory::new()));
                Arc::new(BrokenFolder { inner, bug, memory })
            });
        })
    });
}
