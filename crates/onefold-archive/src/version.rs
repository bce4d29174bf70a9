//! A version, open to be read: its entries in order, any path by search, any file's recipe.
//! Room: onefold-archive.
//! Cost: 12 bytes of memory per entry; a search reads as many entries as their number has bits.

use std::cmp::Ordering;

use onefold_block::{Folder, MediaError};

use crate::error::ArchiveError;
use crate::format::chunk_ref::{ChunkRef, REF_BYTES};
use crate::format::entry::{self, Entry, Recipe};
use crate::format::log_record::VersionInfo;
use crate::format::version_file::{
    self, ContainerUse, FOOTER_BYTES, Footer, HEADER_BYTES, ROW_BYTES, Row, USE_BYTES, file_name,
};
use crate::packed::PackedFile;

/// References read at a time.
const REFS_AT_ONCE: u64 = 1024;

/// A version of an archive.
pub struct Version {
    info: VersionInfo,
    name: String,
    file: PackedFile,
    footer: Footer,
    rows: Vec<Row>,
}

impl Version {
    /// Opens a version in the folder of the versions of the archive `uuid`.
    pub(crate) fn open(
        folder: &dyn Folder,
        uuid: &[u8; 16],
        info: &VersionInfo,
    ) -> Result<Self, ArchiveError> {
        let whose = (info.number, info.generation);
        let name = file_name(whose.0, whose.1);
        let corrupt = |problem: String| ArchiveError::corrupt(&name, 0, problem);
        let file = open_file(folder, &name)?;
        let len = file.file_bytes();
        if len != info.file_bytes {
            let expected = info.file_bytes;
            return Err(corrupt(format!("it is {len} bytes long, {expected} were expected")));
        }
        let (footer, checksum) = read_ends(&file, &name, whose, uuid)?;
        if ![checksum, version_file::ANY_FOOTER].contains(&info.footer_checksum) {
            return Err(corrupt("its footer is not the one that the log tells of".to_owned()));
        }
        let (facts, _) = read_facts(&file, &name, &footer, whose)?;
        let footer_checksum = info.footer_checksum;
        let as_told = VersionInfo { file_bytes: len, footer_checksum, ..facts };
        if as_told != *info {
            return Err(corrupt("time, label or totals differ from what the log tells".to_owned()));
        }
        let rows = read_rows(&file, &name, &footer)?;
        Ok(Self { info: as_told, name, file, footer, rows })
    }

    /// What the file of version `number` says of it, whatever the log says: for a log that has to
    /// be written again. Also returns the next container's number at that time.
    pub(crate) fn describe(
        folder: &dyn Folder,
        uuid: &[u8; 16],
        (number, generation): (u32, u32),
    ) -> Result<(VersionInfo, u32), ArchiveError> {
        let name = file_name(number, generation);
        let file = open_file(folder, &name)?;
        let (footer, footer_checksum) = read_ends(&file, &name, (number, generation), uuid)?;
        let rows = read_rows(&file, &name, &footer)?;
        let (info, next) = read_facts(&file, &name, &footer, (number, generation))?;
        let info = VersionInfo { file_bytes: file.file_bytes(), footer_checksum, ..info };
        let version = Self { info, name, file, footer, rows };
        version.containers()?;
        Ok((version.info, next))
    }

    /// Number, time, label and totals.
    pub const fn info(&self) -> &VersionInfo {
        &self.info
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The containers that it refers to.
    pub fn containers(&self) -> Result<Vec<ContainerUse>, ArchiveError> {
        let len = self.footer.uses as usize * USE_BYTES;
        let bytes = self.file.read(self.footer.uses_at, len)?;
        version_file::decode_uses(&bytes, &self.name, &self.footer)
    }

    /// The entry with this index in path order; the index is below [`Version::len`].
    pub fn entry(&self, index: usize) -> Result<Entry, ArchiveError> {
        let Row { at, len } = self.rows[index];
        let bytes = self.file.read(at, len as usize)?;
        let entry = entry::decode(&bytes, at);
        let entry = entry.ok_or_else(|| {
            ArchiveError::corrupt(&self.name, at, format!("entry {index} is damaged"))
        })?;
        let end = entry.recipe.chunks.checked_mul(REF_BYTES as u64);
        let end = end.and_then(|bytes| bytes.checked_add(entry.recipe.at));
        if end.is_none_or(|end| end > self.footer.rows_at) {
            let problem = format!("entry {index} has its recipe outside of the file");
            return Err(ArchiveError::corrupt(&self.name, at, problem));
        }
        Ok(entry)
    }

    /// All entries, in path order.
    pub fn entries(&self) -> impl Iterator<Item = Result<Entry, ArchiveError>> {
        (0..self.rows.len()).map(|index| self.entry(index))
    }

    /// The index of the entry of this path, or of the first one after it.
    fn position(&self, path: &[u8]) -> Result<(usize, Option<Entry>), ArchiveError> {
        let (mut low, mut high) = (0, self.rows.len());
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.entry(middle)?;
            match entry::compare_paths(&entry.path, path) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok((middle, Some(entry))),
            }
        }
        Ok((low, None))
    }

    /// The entry of a path.
    pub fn find(&self, path: &[u8]) -> Result<Entry, ArchiveError> {
        let (_, found) = self.position(path)?;
        found.ok_or_else(|| self.no_path(path))
    }

    /// The indices of a path and everything in it; an empty path means everything.
    pub fn within(&self, path: &[u8]) -> Result<std::ops::Range<usize>, ArchiveError> {
        if path.is_empty() {
            return Ok(0..self.rows.len());
        }
        // What lies in a folder comes right after it, whether the folder has an entry or not.
        let (start, _) = self.position(path)?;
        let (mut low, mut high) = (start, self.rows.len());
        while low < high {
            let middle = low.midpoint(high);
            if entry::is_within(&self.entry(middle)?.path, path) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if start == low { Err(self.no_path(path)) } else { Ok(start..low) }
    }

    fn no_path(&self, path: &[u8]) -> ArchiveError {
        let path = String::from_utf8_lossy(path).into_owned();
        ArchiveError::NoPath { version: self.info.number, path }
    }

    /// The chunks of a file in order. After an error the iterator goes on with the next one.
    pub fn chunks(&self, recipe: Recipe) -> Chunks<'_> {
        let Recipe { at, chunks, .. } = recipe;
        Chunks { version: self, at, left: chunks, buffer: Vec::new(), taken: 0 }
    }
}

fn open_file(folder: &dyn Folder, name: &str) -> Result<PackedFile, ArchiveError> {
    match folder.open(name) {
        Err(MediaError::NotFound { .. }) => Err(ArchiveError::corrupt(name, 0, "it is missing")),
        media => PackedFile::open(media?, name, HEADER_BYTES),
    }
}

/// Check the header of a version's file; its footer, and what the log keeps of that.
fn read_ends(
    file: &PackedFile,
    name: &str,
    whose: (u32, u32),
    uuid: &[u8; 16],
) -> Result<(Footer, u32), ArchiveError> {
    let len = file.len();
    let header = file.read(0, HEADER_BYTES)?;
    version_file::check_header(&header, name, whose.0, whose.1, uuid)?;
    // Its header alone is longer.
    let footer = file.read(len.saturating_sub(FOOTER_BYTES as u64), FOOTER_BYTES)?;
    let sum = version_file::footer_sum(&footer);
    Ok((version_file::decode_footer(&footer, name, whose, len)?, sum))
}

fn read_facts(
    file: &PackedFile,
    name: &str,
    footer: &Footer,
    whose: (u32, u32),
) -> Result<(VersionInfo, u32), ArchiveError> {
    let facts = file.read(footer.facts_at, footer.facts_bytes as usize)?;
    version_file::decode_facts(&facts, name, footer, whose)
}

fn read_rows(file: &PackedFile, name: &str, footer: &Footer) -> Result<Vec<Row>, ArchiveError> {
    let bytes = file.read(footer.rows_at, footer.rows as usize * ROW_BYTES)?;
    version_file::decode_rows(&bytes, name, footer)
}

/// The chunks of a file.
pub struct Chunks<'a> {
    version: &'a Version,
    at: u64,
    left: u64,
    buffer: Vec<u8>,
    taken: usize,
}

impl Iterator for Chunks<'_> {
    type Item = Result<ChunkRef, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        if self.taken == self.buffer.len() {
            let count = self.left.min(REFS_AT_ONCE) as usize;
            self.taken = 0;
            let read = self.version.file.read_into(self.at, count * REF_BYTES, &mut self.buffer);
            if let Err(error) = read {
                self.left = 0;
                return Some(Err(error));
            }
        }
        let (at, number) = (self.at, self.version.info.number);
        let bytes = self.buffer[self.taken..].first_chunk::<REF_BYTES>();
        let chunk = bytes.and_then(|bytes| ChunkRef::decode(bytes, number, at));
        self.taken += REF_BYTES;
        self.at += REF_BYTES as u64;
        self.left -= 1;
        Some(chunk.ok_or_else(|| {
            ArchiveError::corrupt(&self.version.name, at, "a chunk reference is damaged")
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_block::{ContainerId, SimFolder};
    use onefold_content::Compression;

    use super::*;
    use crate::format::chunk_ref::ChunkName;
    use crate::format::entry::{Kind, Metadata, Stamp};
    use crate::format::version_file::Header;
    use crate::manifest::Manifest;
    use crate::settings::{ArchiveIdentity, ArchiveSettings};

    const UUID: [u8; 16] = [1; 16];

    fn written(containers: u32, recipes: &[Recipe]) -> (SimFolder, VersionInfo) {
        let folder = SimFolder::new();
        let settings =
            ArchiveSettings { compression: Compression::None, ..ArchiveSettings::default() };
        let identity = ArchiveIdentity { uuid: UUID, key: [2; 32] };
        let header = Header { number: 1, generation: 0, settings, identity };
        let mut manifest = Manifest::create(Arc::new(folder.clone()), header).unwrap();
        for container in 1..=containers {
            let (container, name) = (ContainerId::new(container), ChunkName([0; 16]));
            manifest.chunk(&ChunkRef { container, offset: 0, len: 5, name }).unwrap();
        }
        for (number, &recipe) in recipes.iter().enumerate() {
            let (path, kind) = (format!("{number}").into_bytes(), Kind::File);
            let (metadata, stamp) = (Metadata::default(), Stamp::default());
            manifest.entry(&Entry { path, kind, metadata, stamp, recipe }).unwrap();
        }
        let info = manifest.finish(VersionInfo::default(), 2).unwrap();
        (folder, info)
    }

    #[test]
    fn a_version_is_described_only_if_it_tells_its_containers() {
        // So many that a page of the file holds nothing else.
        let (folder, info) = written(70_000, &[]);
        let name = file_name(1, 0);
        let tail = info.file_bytes - 600_000;
        assert!(Version::describe(&folder, &UUID, (1, 0)).is_ok());
        folder.flip_bit(&name, tail + 300_000, 0).unwrap();
        let version = Version::open(&folder, &UUID, &info).unwrap();
        assert!(version.is_empty());
        let page = "a page of it is damaged";
        assert!(version.containers().unwrap_err().to_string().contains(page));
        let error = Version::describe(&folder, &UUID, (1, 0)).err().unwrap().to_string();
        assert!(error.contains(page), "{error}");
    }

    #[test]
    fn recipes_end_before_the_table_and_damaged_references_are_named_one_by_one() {
        let first = HEADER_BYTES as u64;
        let recipe = |at, chunks| Recipe { size: 5, at, chunks };
        let some =
            [recipe(first, 3), recipe(first + 64, 1), recipe(0, u64::MAX), recipe(u64::MAX, 1)];
        let (folder, info) = written(3, &some);
        let version = Version::open(&folder, &UUID, &info).unwrap();
        assert!(!version.is_empty() && version.len() == 4);
        let containers = |index| -> Vec<u32> {
            let recipe = version.entry(index).unwrap().recipe;
            version.chunks(recipe).map(|chunk| chunk.unwrap().container.get()).collect()
        };
        assert_eq!((containers(0), containers(1)), (vec![1, 2, 3], vec![3]));
        for index in [2, 3] {
            let error = version.entry(index).unwrap_err().to_string();
            let expected = format!("entry {index} has its recipe outside of the file");
            assert!(error.ends_with(&expected), "{error}");
        }
        // One that begins elsewhere than it was written for, between two that are right.
        let shifted = version.chunks(recipe(first - 32, 3));
        let found: Vec<String> = shifted
            .map(|chunk| match chunk {
                Ok(chunk) => chunk.container.get().to_string(),
                Err(error) => error.to_string(),
            })
            .collect();
        let damaged = "corrupt 00000001.version at byte 78: a chunk reference is damaged";
        assert_eq!(found, [damaged, "1", "2"]);
        let table = version.footer.rows_at;
        let (_, at_table) = (first, (table - first) / 32);
        let last = written(3, &[recipe(first, at_table)]);
        let rows_at = Version::open(&last.0, &UUID, &last.1).unwrap().footer.rows_at;
        let most = (rows_at - first) / 32;
        for (chunks, fits) in [(most, true), (most + 1, false)] {
            let (folder, info) = written(3, &[recipe(rows_at - 32 * most, chunks)]);
            let version = Version::open(&folder, &UUID, &info).unwrap();
            assert_eq!(version.entry(0).is_ok(), fits, "{chunks}");
        }
        // What cannot be read at all is said once.
        let mut chunks = version.chunks(recipe(1 << 40, 5));
        assert!(chunks.next().unwrap().is_err() && chunks.next().is_none());
    }

    #[test]
    fn what_the_log_says_otherwise_is_named() {
        let (folder, info) = written(1, &[]);
        let said =
            |info: &VersionInfo| Version::open(&folder, &UUID, info).err().unwrap().to_string();
        let shorter = VersionInfo { file_bytes: info.file_bytes - 1, ..info.clone() };
        let len = info.file_bytes;
        let expected = format!("it is {len} bytes long, {} were expected", len - 1);
        assert_eq!(said(&shorter), format!("corrupt 00000001.version at byte 0: {expected}"));
        let later = VersionInfo { time_s: 9, ..info.clone() };
        let expected = "time, label or totals differ from what the log tells";
        assert_eq!(said(&later), format!("corrupt 00000001.version at byte 0: {expected}"));
        let other = VersionInfo { number: 2, ..info };
        assert_eq!(said(&other), "corrupt 00000002.version at byte 0: it is missing");
    }
}
