//! One simulated file: what is durable, and every version of each sector since.
//! Room: onefold-block.
//! Invariants: (1) the visible contents past the visible length are zeroes; (2) a sector or a
//! length without pending versions is durable as it is seen; (3) versions are in the order of
//! the operations that made them.
//! Cost: 512 B and a map entry per pending sector; contents share pages between crash images.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::space::{PAGE_BYTES, PageSet, touched_pages};

/// The largest piece that a simulated disk writes whole or not at all, in bytes.
pub const SECTOR_BYTES: u64 = 512;

const SECTOR: usize = SECTOR_BYTES as usize;
const PAGE: usize = PAGE_BYTES as usize;
const SECTORS_PER_PAGE: u64 = PAGE_BYTES / SECTOR_BYTES;

type Page = [u8; PAGE];

/// The bytes of one sector inside the buffer of the write that made them.
#[derive(Clone, Debug)]
struct SectorBytes {
    buffer: Arc<[u8]>,
    start: usize,
}

impl SectorBytes {
    fn get(&self) -> &[u8] {
        &self.buffer[self.start..self.start + SECTOR]
    }
}

/// A state that a sector or the length had after an operation.
#[derive(Clone, Debug)]
pub(super) struct Version<T> {
    /// The number of the operation.
    pub(super) at: u64,
    /// A sync failed since: no later sync makes this version durable.
    pub(super) doubtful: bool,
    pub(super) state: T,
}

/// A simulated file.
#[derive(Clone, Debug, Default)]
pub(super) struct SimFile {
    pages: BTreeMap<u64, Arc<Page>>,
    durable_len: u64,
    /// Versions by sector number; `None` is a sector of zeroes.
    pending: BTreeMap<u64, Vec<Version<Option<SectorBytes>>>>,
    pending_lens: Vec<Version<u64>>,
    pub(super) space: PageSet,
    durable_space: PageSet,
}

impl SimFile {
    pub(super) fn len(&self) -> u64 {
        self.pending_lens.last().map_or(self.durable_len, |v| v.state)
    }

    /// Fill `buf` from `offset`, also past the end, where everything is zeroes.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let inside = (at % SECTOR_BYTES) as usize;
            let count = (SECTOR - inside).min(buf.len() - done);
            let out = &mut buf[done..done + count];
            let sector = at / SECTOR_BYTES;
            match self.pending.get(&sector).and_then(|v| v.last()) {
                Some(Version { state: Some(bytes), .. }) => {
                    out.copy_from_slice(&bytes.get()[inside..inside + count]);
                }
                Some(Version { state: None, .. }) => out.fill(0),
                None => match self.pages.get(&(sector / SECTORS_PER_PAGE)) {
                    Some(page) => {
                        let start = (at % PAGE_BYTES) as usize;
                        out.copy_from_slice(&page[start..start + count]);
                    }
                    None => out.fill(0),
                },
            }
            done += count;
        }
    }

    pub(super) fn write(&mut self, op: u64, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        self.overlay(op, offset, data);
        let in_doubt = self.pending_lens.last().is_some_and(|version| version.doubtful);
        if end > self.len() {
            self.push_len(op, end);
        } else if in_doubt && end > self.durable_len {
            // Else a sync that succeeds would not make durable what was written before it.
            self.push_len(op, self.len());
        }
        self.space.insert(touched_pages(offset..end));
    }

    pub(super) fn set_len(&mut self, op: u64, len: u64) {
        self.zero(op, len, self.len());
        self.push_len(op, len);
        self.space.remove(len.div_ceil(PAGE_BYTES)..u64::MAX);
    }

    /// Zero a range inside the file and give its whole pages back.
    pub(super) fn punch(&mut self, op: u64, range: Range<u64>) {
        self.zero(op, range.start, range.end.min(self.len()));
        let end = range.end.min(self.len().next_multiple_of(PAGE_BYTES));
        self.space.remove(range.start.div_ceil(PAGE_BYTES)..end / PAGE_BYTES);
    }

    /// Set space aside; a range below `2^63`.
    pub(super) fn reserve(&mut self, range: Range<u64>) {
        self.space.insert(touched_pages(range));
    }

    /// A sync that succeeds: everything seen becomes durable, save what a failed sync has put
    /// in doubt and nobody has written since.
    pub(super) fn sync(&mut self) {
        let pages = &mut self.pages;
        self.pending.retain(|&sector, versions| match versions.last() {
            Some(Version { doubtful: false, state, .. }) => {
                store_sector(pages, sector, state.as_ref());
                false
            }
            _ => true,
        });
        if let Some(Version { doubtful: false, state, .. }) = self.pending_lens.last() {
            self.durable_len = *state;
            self.pending_lens.clear();
        }
        self.durable_space = self.space.clone();
    }

    /// A sync that fails: whatever was not durable may or may not become so, ever.
    pub(super) fn fail_sync(&mut self) {
        for version in self.pending.values_mut().flatten() {
            version.doubtful = true;
        }
        for version in &mut self.pending_lens {
            version.doubtful = true;
        }
    }

    /// Make everything seen durable, doubtful or not.
    pub(super) fn settle(&mut self) {
        for (sector, versions) in std::mem::take(&mut self.pending) {
            let state = versions.last().and_then(|v| v.state.as_ref());
            store_sector(&mut self.pages, sector, state);
        }
        self.durable_len = self.len();
        self.pending_lens.clear();
        self.durable_space = self.space.clone();
    }

    /// The operations whose effect is pending here.
    pub(super) fn pending_ops(&self) -> impl Iterator<Item = u64> + '_ {
        let sectors = self.pending.values().flatten().map(|v| v.at);
        sectors.chain(self.pending_lens.iter().map(|v| v.at))
    }

    /// The sectors that one operation wrote and that are pending: first to one past the last.
    pub(super) fn sectors_of(&self, op: u64) -> Range<u64> {
        let mut sectors = self.pending.iter();
        let hit = |(_, versions): &(&u64, &Vec<Version<_>>)| versions.iter().any(|v| v.at == op);
        let first = sectors.find(hit).map(|(&sector, _)| sector);
        let last = self.pending.iter().rev().find(hit).map(|(&sector, _)| sector);
        first.unwrap_or(0)..last.map_or(0, |sector| sector + 1)
    }

    /// The file as a disk may hold it after a power cut. `choose_sector` and `choose_len` pick
    /// one of the versions by index, or `None` for what is durable; `keep_space` says whether
    /// unsynced reservations survive.
    pub(super) fn after_crash(
        &self,
        mut choose_sector: impl FnMut(u64, &[(u64, bool)]) -> Option<usize>,
        choose_len: impl FnOnce(&[(u64, bool)]) -> Option<usize>,
        keep_space: bool,
    ) -> Self {
        let mut file = Self {
            pages: self.pages.clone(),
            durable_len: self.durable_len,
            space: if keep_space { self.space.clone() } else { self.durable_space.clone() },
            ..Self::default()
        };
        if let Some(index) = choose_len(&marks(&self.pending_lens)) {
            file.durable_len = self.pending_lens[index].state;
        }
        for (&sector, versions) in &self.pending {
            if let Some(index) = choose_sector(sector, &marks(versions)) {
                store_sector(&mut file.pages, sector, versions[index].state.as_ref());
            }
        }
        file.cut_contents();
        for &page in file.pages.keys() {
            file.space.insert(page..page + 1);
        }
        file.durable_space = file.space.clone();
        file
    }

    /// Drop durable contents past the durable length.
    fn cut_contents(&mut self) {
        let len = self.durable_len;
        self.pages.split_off(&len.div_ceil(PAGE_BYTES));
        let inside = (len % PAGE_BYTES) as usize;
        if inside > 0
            && let Some(page) = self.pages.get_mut(&(len / PAGE_BYTES))
        {
            Arc::make_mut(page)[inside..].fill(0);
        }
    }

    /// Zero the visible bytes from `start` to `end`, touching only sectors that hold something.
    fn zero(&mut self, op: u64, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let whole = start.div_ceil(SECTOR_BYTES)..end / SECTOR_BYTES;
        if whole.start > whole.end {
            // The range lies inside one sector.
            self.overlay(op, start, &vec![0; (end - start) as usize]);
            return;
        }
        let (head_end, tail_start) = (whole.start * SECTOR_BYTES, whole.end * SECTOR_BYTES);
        self.overlay(op, start, &vec![0; (head_end - start) as usize]);
        self.overlay(op, tail_start, &vec![0; (end - tail_start) as usize]);
        let pages = whole.start / SECTORS_PER_PAGE..whole.end.div_ceil(SECTORS_PER_PAGE);
        let durable = self
            .pages
            .range(pages)
            .flat_map(|(&page, _)| page * SECTORS_PER_PAGE..(page + 1) * SECTORS_PER_PAGE);
        let seen = self.pending.range(whole.clone()).map(|(&sector, _)| sector);
        let sectors: Vec<u64> = durable.filter(|s| whole.contains(s)).chain(seen).collect();
        for sector in sectors {
            let versions = self.pending.entry(sector).or_default();
            if !matches!(versions.last(), Some(Version { state: None, doubtful: false, .. })) {
                versions.push(Version { at: op, doubtful: false, state: None });
            }
        }
    }

    /// Add a version to each sector of a range, with the old bytes around ragged ends.
    fn overlay(&mut self, op: u64, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        let sectors = offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        let first_byte = sectors.start * SECTOR_BYTES;
        let mut buffer = vec![0; (sectors.end - sectors.start) as usize * SECTOR];
        let total = buffer.len();
        self.read(first_byte, &mut buffer[..SECTOR]);
        self.read(sectors.end * SECTOR_BYTES - SECTOR_BYTES, &mut buffer[total - SECTOR..]);
        let start = (offset - first_byte) as usize;
        buffer[start..start + data.len()].copy_from_slice(data);
        let buffer: Arc<[u8]> = buffer.into();
        for (index, sector) in sectors.enumerate() {
            let state = Some(SectorBytes { buffer: Arc::clone(&buffer), start: index * SECTOR });
            let version = Version { at: op, doubtful: false, state };
            self.pending.entry(sector).or_default().push(version);
        }
    }

    fn push_len(&mut self, op: u64, len: u64) {
        self.pending_lens.push(Version { at: op, doubtful: false, state: len });
    }
}

/// What a chooser may know of each version: the operation, and whether it is doubtful.
fn marks<T>(versions: &[Version<T>]) -> Vec<(u64, bool)> {
    versions.iter().map(|v| (v.at, v.doubtful)).collect()
}

fn store_sector(pages: &mut BTreeMap<u64, Arc<Page>>, sector: u64, state: Option<&SectorBytes>) {
    let number = sector / SECTORS_PER_PAGE;
    let start = (sector % SECTORS_PER_PAGE) as usize * SECTOR;
    match state {
        Some(bytes) => {
            let page = pages.entry(number).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[start..start + SECTOR].copy_from_slice(bytes.get());
        }
        None => {
            if let Some(page) = pages.get_mut(&number) {
                Arc::make_mut(page)[start..start + SECTOR].fill(0);
                if page.iter().all(|&byte| byte == 0) {
                    pages.remove(&number);
                }
            }
        }
    }
}
