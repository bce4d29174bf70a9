//! A folder whose files are encrypted page by page; names, and settings, are as they are.
//! Room: onefold-archive.
//! A file begins with a header of one sector: the archive's settings, wrapped key and all, so that
//! they can be put together again from any file, and what its pages are bound to. Then the pages.
//! Invariants: (1) a page that is not authentic is an error, never data  (2) a change within a page
//! writes the page anew, so what must survive a power cut beside it has pages of its own.
//! Cost: a page is read before a part of it is written; writers of a folder take turns.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use onefold_block::bytes::Writer;
use onefold_block::{Folder, Media, MediaError, small_file};

use super::pages::{FileId, Geometry, OVERHEAD};
use super::protection::Keys;
use crate::archive::CONTAINERS;
use crate::format::bytes::{checked, checksum};
use crate::format::log_record::LOG_FILES;
use crate::format::settings_file::SETTINGS_FILES;

/// Bytes before the first page: one sector.
pub const HEADER_BYTES: usize = 512;
/// What a file begins with.
pub const MAGIC: &[u8; 8] = b"OFSEALED";
/// First byte of the settings in a header.
pub const SETTINGS_AT: usize = MAGIC.len() + 16;
/// Largest gap that a write or a new length may leave, in bytes: archives leave none.
const GAP_BYTES_MAX: u64 = 1 << 20;

/// What all files of an archive share.
struct Shared {
    keys: Arc<Keys>,
    /// The settings as they stand in headers.
    settings: Vec<u8>,
    /// Held by one that writes, shared by those that read.
    turns: RwLock<()>,
}

/// A folder of encrypted files.
pub struct SealedFolder {
    inner: Arc<dyn Folder>,
    shared: Arc<Shared>,
    /// The path from the archive's folder, with a `/` at its end; empty for that itself.
    path: String,
}

impl SealedFolder {
    /// An archive's folder. `settings` go into headers.
    pub fn new(inner: Arc<dyn Folder>, keys: Arc<Keys>, settings: Vec<u8>) -> Self {
        assert!(SETTINGS_AT + settings.len() + 4 <= HEADER_BYTES, "a sector holds the settings");
        let shared = Arc::new(Shared { keys, settings, turns: RwLock::new(()) });
        Self { inner, shared, path: String::new() }
    }

    fn is_open_to_all(&self, name: &str) -> bool {
        let name = name.strip_suffix(small_file::UNFINISHED).unwrap_or(name);
        self.path.is_empty() && SETTINGS_FILES.contains(&name)
    }

    fn media(&self, name: &str, inner: Arc<dyn Media>) -> Arc<dyn Media> {
        if self.is_open_to_all(name) {
            return inner;
        }
        let geometry = if self.path.is_empty() && LOG_FILES.contains(&name) {
            Geometry::LOG
        } else if self.path.trim_end_matches('/') == CONTAINERS {
            Geometry::CONTAINER
        } else {
            Geometry::OTHER
        };
        let name = format!("{}{name}", self.path);
        let shared = Arc::clone(&self.shared);
        Arc::new(SealedMedia { inner, shared, geometry, name, id: OnceLock::new() })
    }

    fn within(&self, name: &str, inner: Arc<dyn Folder>) -> Arc<dyn Folder> {
        let path = format!("{}{name}/", self.path);
        Arc::new(Self { inner, shared: Arc::clone(&self.shared), path })
    }
}

impl Folder for SealedFolder {
    fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        Ok(self.media(name, self.inner.open(name)?))
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        Ok(self.media(name, self.inner.create(name)?))
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        self.inner.list()
    }

    fn sync_names(&self) -> Result<(), MediaError> {
        self.inner.sync_names()
    }

    fn reads_at_once(&self) -> usize {
        self.inner.reads_at_once()
    }

    fn gives_pages_back(&self) -> bool {
        self.inner.gives_pages_back()
    }

    fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        Ok(self.within(name, self.inner.subfolder(name)?))
    }

    fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        Ok(self.within(name, self.inner.existing_subfolder(name)?))
    }

    fn remove_subfolder(&self, name: &str) -> Result<(), MediaError> {
        self.inner.remove_subfolder(name)
    }
}

/// The settings in the header of an encrypted file; `None` if it is none, or damaged.
pub fn settings_in_header(header: &[u8]) -> Option<&[u8]> {
    checked(header)?;
    let body = header.strip_prefix(MAGIC)?;
    body.get(SETTINGS_AT - MAGIC.len()..)
}

/// An encrypted file.
struct SealedMedia {
    inner: Arc<dyn Media>,
    shared: Arc<Shared>,
    geometry: Geometry,
    name: String,
    /// What its pages are bound to, once there is a header.
    id: OnceLock<FileId>,
}

impl SealedMedia {
    fn damaged(&self, offset: u64, problem: &str) -> MediaError {
        MediaError::Damaged { name: self.name.clone(), offset, problem: problem.to_owned() }
    }

    fn too_large(&self, action: &'static str) -> MediaError {
        let source = std::io::ErrorKind::FileTooLarge.into();
        MediaError::Io { action, name: self.name.clone(), source }
    }

    fn len_now(&self) -> Result<u64, MediaError> {
        Ok(self.geometry.content(self.inner.len()?.saturating_sub(HEADER_BYTES as u64)))
    }

    /// Bytes on disk of so many bytes of content, the header among them.
    fn stored(&self, plain: u64, action: &'static str) -> Result<u64, MediaError> {
        let stored = self.geometry.stored(plain);
        let stored = stored.and_then(|bytes| bytes.checked_add(HEADER_BYTES as u64));
        stored.ok_or_else(|| self.too_large(action))
    }

    fn header(&self, id: &FileId) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(MAGIC);
        out.bytes(id);
        out.bytes(&self.shared.settings);
        out.0.resize(HEADER_BYTES - 4, 0);
        checksum(&mut out);
        out.0
    }

    /// What its pages are bound to, by its header.
    fn id(&self) -> Result<FileId, MediaError> {
        if let Some(id) = self.id.get() {
            return Ok(*id);
        }
        let mut header = [0; HEADER_BYTES];
        self.inner.read(0, &mut header)?;
        let id = checked(&header).and_then(|mut reader| {
            (reader.array() == Some(*MAGIC)).then(|| reader.array()).flatten()
        });
        let id = id.ok_or_else(|| self.damaged(0, "its header is damaged"))?;
        Ok(*self.id.get_or_init(|| id))
    }

    /// Whole pages from number `first` on, of a file with `len` bytes of content: `take` gets each.
    fn read_pages(
        &self,
        (first, last): (u64, u64),
        len: u64,
        mut take: impl FnMut(u64, &[u8]),
    ) -> Result<(), MediaError> {
        let id = self.id()?;
        let Geometry { plain, slot } = self.geometry;
        let bytes_of = |page: u64| (len - page * plain).min(plain) as usize + OVERHEAD;
        let start = HEADER_BYTES as u64 + first * slot;
        let mut bytes = vec![0; ((last - first) * slot) as usize + bytes_of(last)];
        self.inner.read(start, &mut bytes)?;
        for (page, slot_bytes) in (first..=last).zip(bytes.chunks_mut(slot as usize)) {
            let sealed = slot_bytes.get_mut(..bytes_of(page));
            let content = sealed.and_then(|bytes| self.shared.keys.pages.open(&id, page, bytes));
            let problem = "it was not written with this archive's key, or was changed since";
            take(page, content.ok_or_else(|| self.damaged(page * plain, problem))?);
        }
        Ok(())
    }

    /// Write content that begins where a page does and ends where one does, or the file.
    fn write_pages(&self, first: u64, content: &[u8]) -> Result<(), MediaError> {
        let Geometry { plain, slot } = self.geometry;
        let is_new = self.inner.len()? < HEADER_BYTES as u64;
        let id = if is_new {
            *self.id.get_or_init(|| self.shared.keys.pages.file_id(&self.name))
        } else {
            self.id()?
        };
        let mut out = if is_new { self.header(&id) } else { Vec::new() };
        let before = out.len();
        out.reserve(content.len().div_ceil(plain as usize) * slot as usize);
        let start = if is_new { 0 } else { HEADER_BYTES as u64 + first * slot };
        assert!(!is_new || first == 0, "gaps are filled before");
        for (page, bytes) in (first..).zip(content.chunks(plain as usize)) {
            self.shared.keys.pages.seal(&id, page, bytes, &mut out);
            if bytes.len() as u64 == plain {
                out.resize(before + ((page - first + 1) * slot) as usize, 0);
            }
        }
        self.inner.write(start, &out)
    }

    /// The content of a page as far as it goes.
    fn page(&self, page: u64, len: u64) -> Result<Vec<u8>, MediaError> {
        let mut content = Vec::new();
        if page * self.geometry.plain < len {
            self.read_pages((page, page), len, |_, bytes| content.extend_from_slice(bytes))?;
        }
        Ok(content)
    }

    /// Write within what there is, or right behind it; other writers wait.
    fn write_now(&self, offset: u64, data: &[u8], len: u64) -> Result<(), MediaError> {
        let plain = self.geometry.plain;
        let end = offset + data.len() as u64;
        let (first, last) = (offset / plain, (end - 1) / plain);
        // What is written over as a whole may be damaged.
        let is_whole = first < last || end >= len || end.is_multiple_of(plain);
        let mut content = if offset.is_multiple_of(plain) && is_whole {
            Vec::new()
        } else {
            self.page(first, len)?
        };
        // What is left of the last page, behind what is written.
        let tail = match () {
            () if end >= len || end.is_multiple_of(plain) => Vec::new(),
            () if first == last => content.clone(),
            () => self.page(last, len)?,
        };
        content.truncate((offset - first * plain) as usize);
        content.extend_from_slice(data);
        content.extend_from_slice(tail.get((end - last * plain) as usize..).unwrap_or_default());
        self.write_pages(first, &content)
    }

    fn fill_to(&self, to: u64, action: &'static str) -> Result<(), MediaError> {
        let len = self.len_now()?;
        if to > len {
            if to - len > GAP_BYTES_MAX {
                return Err(self.too_large(action));
            }
            self.write_now(len, &vec![0; (to - len) as usize], len)?;
        }
        Ok(())
    }
}

impl Media for SealedMedia {
    fn len(&self) -> Result<u64, MediaError> {
        self.len_now()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let _turn = self.shared.turns.read().unwrap_or_else(PoisonError::into_inner);
        let len = self.len_now()?;
        let end = offset.saturating_add(buf.len() as u64);
        if end > len {
            return Err(MediaError::Truncated { name: self.name.clone(), len, offset, end });
        }
        if buf.is_empty() {
            return Ok(());
        }
        let plain = self.geometry.plain;
        self.read_pages((offset / plain, (end - 1) / plain), len, |page, content| {
            let page_start = page * plain;
            let from = offset.max(page_start);
            let to = end.min(page_start + content.len() as u64);
            buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(
                &content[(from - page_start) as usize..(to - page_start) as usize],
            );
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let _turn = self.shared.turns.write().unwrap_or_else(PoisonError::into_inner);
        let end = offset.checked_add(data.len() as u64);
        self.stored(end.ok_or_else(|| self.too_large("write"))?, "write")?;
        if data.is_empty() {
            return Ok(());
        }
        self.fill_to(offset, "write")?;
        self.write_now(offset, data, self.len_now()?)
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        let _turn = self.shared.turns.write().unwrap_or_else(PoisonError::into_inner);
        let stored = self.stored(len, "set the length of")?;
        let now = self.len_now()?;
        if len > now {
            self.fill_to(len, "set the length of")?;
        } else if len < now && !len.is_multiple_of(self.geometry.plain) {
            let page = len / self.geometry.plain;
            let mut content = self.page(page, now)?;
            content.truncate((len - page * self.geometry.plain) as usize);
            self.write_pages(page, &content)?;
        }
        // One without a header stays so.
        let has_header = self.inner.len()? >= HEADER_BYTES as u64;
        self.inner.set_len(if has_header { stored } else { 0 })
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.inner.sync()
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let end = offset.checked_add(len).ok_or_else(|| self.too_large("reserve"))?;
        self.inner.reserve(0, self.stored(end, "reserve")?)
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>, MediaError> {
        let len = self.len_now()?;
        if offset >= len {
            return Ok(None);
        }
        // Without its header there is no data in it that could be read.
        self.id()?;
        let Geometry { plain, slot } = self.geometry;
        let next = self.inner.next_data(HEADER_BYTES as u64 + offset / plain * slot)?;
        let page = next.map(|stored| stored.saturating_sub(HEADER_BYTES as u64) / slot * plain);
        Ok(page.map(|start| start.max(offset)).filter(|&start| start < len))
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        self.inner.allocated_bytes()
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{SimFolder, SplitMix64};

    use super::*;

    fn sealed() -> (SimFolder, SealedFolder) {
        let inner = SimFolder::new();
        let keys = Arc::new(Keys::new([7; 32]));
        (inner.clone(), SealedFolder::new(Arc::new(inner), keys, vec![1; 100]))
    }

    #[test]
    fn writes_at_every_border_of_pages_are_those_of_plain_files() {
        let borders = [0, 1, 511, 512, 513, 1023, 1024, 1025, 1536];
        let (_, folder) = sealed();
        let mut seed = 0;
        for before in borders {
            for from in borders {
                for len in borders {
                    seed += 1;
                    let file = folder.create("log.0").unwrap();
                    let mut model = SplitMix64::new(seed).bytes(before);
                    file.write(0, &model).unwrap();
                    let data = SplitMix64::new(seed + 10_000).bytes(len);
                    file.write(from as u64, &data).unwrap();
                    if len > 0 {
                        model.resize(before.max(from + len), 0);
                        model[from..from + len].copy_from_slice(&data);
                    }
                    let mut found = vec![0; model.len()];
                    file.read(0, &mut found).unwrap();
                    assert!(found == model, "{before} bytes, then {len} from {from}");
                    assert_eq!(file.len().unwrap(), model.len() as u64);
                    file.set_len(from as u64).unwrap();
                    model.resize(from, 0);
                    let mut found = vec![0; from];
                    file.read(0, &mut found).unwrap();
                    assert!(found == model, "{before} bytes, {len} from {from}, then cut");
                }
            }
        }
    }

    #[test]
    fn a_damaged_page_that_is_written_over_as_a_whole_is_good_again() {
        let damaged = || {
            let (inner, folder) = sealed();
            let file = folder.create("log.0").unwrap();
            file.write(0, &[5; 1300]).unwrap();
            // The second page, and the last one.
            for page in [1, 2] {
                inner.flip_bit("log.0", 512 + page * 1024 + 30, 0).unwrap();
            }
            file
        };
        for (from, len) in [(512, 788), (0, 1300), (512, 1024)] {
            let file = damaged();
            file.write(from, &vec![6; len]).unwrap();
            assert!(file.read(from, &mut vec![0; len]).is_ok());
        }
        let file = damaged();
        file.write(1024, &[6; 276]).unwrap();
        assert!(file.read(1024, &mut [0; 276]).is_ok());
        let said = |result: Result<(), MediaError>| result.unwrap_err().to_string();
        let problem = "it was not written with this archive's key, or was changed since";
        let expected = said(file.read(600, &mut [0; 5]));
        assert!(expected.contains(problem) && expected.contains("512"), "{expected}");
        assert!(said(file.write(600, &[1])).contains(problem));
    }

    #[test]
    fn a_header_stays_where_there_is_one_and_is_told_where_it_is_damaged() {
        let (inner, folder) = sealed();
        let file = folder.create("x").unwrap();
        file.set_len(0).unwrap();
        let stored = || inner.open("x").unwrap().len().unwrap();
        assert_eq!(stored(), 0);
        file.write(0, b"some").unwrap();
        assert_eq!(stored(), 512 + 44);
        for _ in 0..2 {
            file.set_len(0).unwrap();
            assert_eq!((stored(), file.len().unwrap()), (512, 0));
        }
        file.write(0, b"more").unwrap();
        let log = inner.op_log();
        assert!(log.trim_end().ends_with("Write x bytes 512..556"), "{log}");
        let mut header = [0; HEADER_BYTES];
        inner.open("x").unwrap().read(0, &mut header).unwrap();
        assert_eq!(
            settings_in_header(&header).map(|rest| &rest[..101]),
            Some(&[[1; 100].as_slice(), &[0]].concat()[..])
        );
        header[400] ^= 1;
        assert_eq!(settings_in_header(&header), None);
        inner.flip_bit("x", 400, 0).unwrap();
        let error = folder.open("x").unwrap().read(0, &mut [0; 4]).unwrap_err();
        let MediaError::Damaged { name, offset, problem } = error else { panic!("{error}") };
        assert_eq!((name.as_str(), offset, problem.as_str()), ("x", 0, "its header is damaged"));
    }

    #[test]
    fn gaps_and_lengths_have_their_limits() {
        let (_, folder) = sealed();
        let file = folder.create("x").unwrap();
        file.write(0, b"12345").unwrap();
        let too_large = |result: Result<(), MediaError>| {
            matches!(result, Err(MediaError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::FileTooLarge)
        };
        assert!(too_large(file.set_len(5 + (1 << 20) + 1)));
        assert!(too_large(file.write(5 + (1 << 20) + 1, b"x")));
        assert!(too_large(file.write(u64::MAX, b"")));
        assert!(too_large(file.write(u64::MAX, b"x")));
        assert!(too_large(file.set_len(u64::MAX)));
        assert!(too_large(file.reserve(u64::MAX, 1)) && too_large(file.reserve(u64::MAX, 0)));
        assert_eq!(file.len().unwrap(), 5);
        file.set_len(5 + (1 << 20)).unwrap();
        assert_eq!(file.len().unwrap(), 5 + (1 << 20));
        assert_eq!(file.next_data(0).unwrap(), Some(0));
        assert_eq!(file.next_data(5000).unwrap(), Some(5000));
        assert_eq!(file.next_data(5 + (1 << 20)).unwrap(), None);
        assert!(file.read(u64::MAX, &mut [0]).is_err());
        assert!(file.read(5 + (1 << 20), &mut [0; 0]).is_ok());
    }
}
