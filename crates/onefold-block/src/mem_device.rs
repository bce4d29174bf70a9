//! A block device in RAM: sparse, for tests, measurements and as the plainest example.
//! Room: onefold-block.
//! Invariants: those of [`crate::device`], save that nothing outlives the process: flush and
//! FUA have nothing to do.
//! Cost: 4 KiB and a map entry per page that holds data; one lock per 64 KiB touched.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::device::{BlockDevice, BlockError, Extent, ExtentKind, ZeroOptions, check_range};

const PAGE: usize = 4096;
const PAGE_BYTES: u64 = PAGE as u64;

/// Neighbouring pages that share a lock, so that large requests take few.
const PAGES_PER_RUN: u64 = 16;

/// Number of locks: a few per core of any machine met so far.
const SHARDS: u64 = 64;

/// The most bytes that one answer to a status request covers; callers ask again for the rest.
const STATUS_BYTES_MAX: u64 = 1 << 30;

/// A page that is not a hole; holes are pages without an entry.
#[derive(Debug)]
enum Page {
    /// Allocated, and all zeroes.
    Zero,
    Data(Box<[u8; PAGE]>),
}

type Shard = HashMap<u64, Page>;

/// A device of a fixed size whose contents live in memory.
#[derive(Debug)]
pub struct MemDevice {
    size_bytes: u64,
    read_only: bool,
    shards: Vec<RwLock<Shard>>,
}

/// The part of a request that falls into one page.
struct Piece {
    page: u64,
    /// The bytes of the page.
    inside: Range<usize>,
    /// The bytes of the request.
    at: Range<usize>,
}

impl MemDevice {
    /// A device of `size_bytes`, which may be any number, that is one hole.
    pub fn new(size_bytes: u64) -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Self { size_bytes, read_only: false, shards }
    }

    /// The same contents, with all changes refused from now on.
    #[must_use]
    pub fn into_read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Bytes of memory that pages with data take.
    pub fn resident_bytes(&self) -> u64 {
        let data = |shard: &Shard| shard.values().filter(|p| matches!(p, Page::Data(_))).count();
        let pages: usize = (0..SHARDS).map(|index| data(&self.read_shard(index))).sum();
        pages as u64 * PAGE_BYTES
    }

    fn shard_of(page: u64) -> u64 {
        page / PAGES_PER_RUN % SHARDS
    }

    /// A holder of the lock that panicked has left whole pages behind: carry on.
    fn read_shard(&self, index: u64) -> RwLockReadGuard<'_, Shard> {
        self.shards[index as usize].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_shard(&self, index: u64) -> RwLockWriteGuard<'_, Shard> {
        self.shards[index as usize].write().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_change(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        if self.read_only {
            return Err(BlockError::ReadOnly);
        }
        check_range(offset, len, self.size_bytes)
    }

    /// Change the pages of a checked range, a run of them under one lock.
    fn for_each_page(&self, offset: u64, len: u64, mut change: impl FnMut(&mut Shard, Piece)) {
        let mut at = offset;
        while at < offset + len {
            let run_bytes = PAGES_PER_RUN * PAGE_BYTES;
            let run_end = (at / run_bytes + 1).saturating_mul(run_bytes).min(offset + len);
            let mut shard = self.write_shard(Self::shard_of(at / PAGE_BYTES));
            for piece in pieces(at, run_end - at) {
                change(&mut shard, piece);
            }
            at = run_end;
        }
    }

    /// Whether a piece covers its page, or all of it that lies inside the device.
    fn is_whole(&self, piece: &Piece) -> bool {
        let page_end = (self.size_bytes - piece.page * PAGE_BYTES).min(PAGE_BYTES);
        piece.inside.start == 0 && piece.inside.end as u64 == page_end
    }

    /// The pages that a checked range covers as far as they lie inside the device.
    fn whole_pages(&self, offset: u64, len: u64) -> Range<u64> {
        let end = offset + len;
        let first = offset.div_ceil(PAGE_BYTES);
        if end == self.size_bytes {
            first..end.div_ceil(PAGE_BYTES)
        } else {
            first..end / PAGE_BYTES
        }
    }

    /// Make holes. A range of more pages than memory could hold costs no more than those do.
    fn remove_pages(&self, pages: Range<u64>) {
        if pages.end.saturating_sub(pages.start) > SHARDS * PAGES_PER_RUN {
            for index in 0..SHARDS {
                self.write_shard(index).retain(|page, _| !pages.contains(page));
            }
        } else {
            for page in pages {
                self.write_shard(Self::shard_of(page)).remove(&page);
            }
        }
    }

    fn kind_of(&self, page: u64) -> ExtentKind {
        match self.read_shard(Self::shard_of(page)).get(&page) {
            None => ExtentKind::Hole,
            Some(Page::Zero) => ExtentKind::Zero,
            Some(Page::Data(_)) => ExtentKind::Data,
        }
    }
}

/// Cut a range, which must not wrap, at page boundaries.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = offset + done;
        let start = (at % PAGE_BYTES) as usize;
        let count = (PAGE - start).min((len - done) as usize);
        let request = done as usize..done as usize + count;
        done += count as u64;
        Some(Piece { page: at / PAGE_BYTES, inside: start..start + count, at: request })
    })
}

/// The bytes of a page, which becomes one with data.
fn page_bytes(shard: &mut Shard, page: u64) -> &mut [u8; PAGE] {
    let entry = shard.entry(page).or_insert(Page::Zero);
    if matches!(entry, Page::Zero) {
        *entry = Page::Data(Box::new([0; PAGE]));
    }
    match entry {
        Page::Data(bytes) => bytes,
        Page::Zero => unreachable!("the page was just given bytes"),
    }
}

impl BlockDevice for MemDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn preferred_block_bytes(&self) -> u32 {
        PAGE as u32
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        check_range(offset, buf.len() as u64, self.size_bytes)?;
        for piece in pieces(offset, buf.len() as u64) {
            let out = &mut buf[piece.at];
            match self.read_shard(Self::shard_of(piece.page)).get(&piece.page) {
                Some(Page::Data(bytes)) => out.copy_from_slice(&bytes[piece.inside]),
                Some(Page::Zero) | None => out.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], _fua: bool) -> Result<(), BlockError> {
        self.check_change(offset, data.len() as u64)?;
        let mut rest = data;
        self.for_each_page(offset, data.len() as u64, |shard, piece| {
            let (now, later) = rest.split_at(piece.inside.len());
            page_bytes(shard, piece.page)[piece.inside].copy_from_slice(now);
            rest = later;
        });
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.check_change(offset, len)?;
        if options.no_hole {
            self.for_each_page(offset, len, |shard, piece| match shard.get_mut(&piece.page) {
                Some(Page::Data(bytes)) if !self.is_whole(&piece) => bytes[piece.inside].fill(0),
                _ => {
                    shard.insert(piece.page, Page::Zero);
                }
            });
            return Ok(());
        }
        let zero_part = |start: u64, end: u64| {
            self.for_each_page(start, end.saturating_sub(start), |shard, piece| {
                if let Some(Page::Data(bytes)) = shard.get_mut(&piece.page) {
                    bytes[piece.inside].fill(0);
                }
            });
        };
        let (end, whole) = (offset + len, self.whole_pages(offset, len));
        if whole.is_empty() {
            zero_part(offset, end);
        } else {
            zero_part(offset, whole.start * PAGE_BYTES);
            zero_part(whole.end.saturating_mul(PAGE_BYTES), end);
            self.remove_pages(whole);
        }
        Ok(())
    }

    fn trim(&self, offset: u64, len: u64, _fua: bool) -> Result<(), BlockError> {
        self.check_change(offset, len)?;
        self.remove_pages(self.whole_pages(offset, len));
        Ok(())
    }

    fn flush(&self) -> Result<(), BlockError> {
        Ok(())
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        check_range(offset, len, self.size_bytes)?;
        let end = (offset + len).min(offset.saturating_add(STATUS_BYTES_MAX));
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset;
        while at < end {
            let kind = self.kind_of(at / PAGE_BYTES);
            let page_end = (at / PAGE_BYTES + 1).saturating_mul(PAGE_BYTES).min(end);
            match extents.last_mut() {
                Some(last) if last.kind == kind => last.len_bytes += page_end - at,
                _ => extents.push(Extent { len_bytes: page_end - at, kind }),
            }
            at = page_end;
        }
        Ok(extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_holes_zeroes_or_data() {
        let device = MemDevice::new(4 * PAGE_BYTES + 100);
        let kinds = |device: &MemDevice| -> Vec<(u64, ExtentKind)> {
            let all = device.block_status(0, device.size_bytes()).unwrap();
            all.iter().map(|e| (e.len_bytes, e.kind)).collect()
        };
        assert_eq!(kinds(&device), [(16_484, ExtentKind::Hole)]);
        let no_hole = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
        device.write_zeroes(4095, 2, no_hole).unwrap();
        device.write_at(8192, &[0], false).unwrap();
        device.write_at(16_384, &[1; 100], false).unwrap();
        assert_eq!(device.resident_bytes(), 2 * PAGE_BYTES);
        assert_eq!(
            kinds(&device),
            [
                (8192, ExtentKind::Zero),
                (4096, ExtentKind::Data),
                (4096, ExtentKind::Hole),
                (100, ExtentKind::Data)
            ]
        );
        device.trim(8192, 8291, false).unwrap();
        assert_eq!(kinds(&device)[1], (8192, ExtentKind::Hole));
        assert_eq!(kinds(&device)[2], (100, ExtentKind::Data), "one byte short of the end");
        device.trim(16_384, 100, false).unwrap();
        device.write_zeroes(0, 8192, ZeroOptions::default()).unwrap();
        assert_eq!(kinds(&device), [(16_484, ExtentKind::Hole)]);
        assert_eq!(device.resident_bytes(), 0);
    }

    #[test]
    fn a_huge_device_costs_only_what_it_holds() {
        let device = MemDevice::new(u64::MAX);
        device.write_at(u64::MAX - 3, b"end", false).unwrap();
        device.write_at(1 << 62, &[7; 4096], false).unwrap();
        let extents = device.block_status(1 << 62, 1 << 62).unwrap();
        assert_eq!(extents[0], Extent { len_bytes: 4096, kind: ExtentKind::Data });
        let told = |at, len| -> u64 {
            device.block_status(at, len).unwrap().iter().map(|extent| extent.len_bytes).sum()
        };
        assert_eq!((told(1 << 62, 1 << 62), told(5, 1 << 40)), (1 << 30, 1 << 30));
        assert_eq!((told(5, 1 << 30), told(5, (1 << 30) - 1)), (1 << 30, (1 << 30) - 1));
        device.trim(1, u64::MAX - 2, false).unwrap();
        assert_eq!(device.resident_bytes(), PAGE_BYTES, "the last page is not wholly trimmed");
        let mut end = [0; 3];
        device.read_at(u64::MAX - 3, &mut end).unwrap();
        assert_eq!(&end, b"end");
        device.write_zeroes(1, u64::MAX - 1, ZeroOptions::default()).unwrap();
        assert_eq!(device.resident_bytes(), 0);
    }

    #[test]
    fn a_read_only_device_refuses_changes_and_reads_on() {
        let device = MemDevice::new(8192);
        device.write_at(5, b"abc", false).unwrap();
        let device = device.into_read_only();
        assert!(device.is_read_only());
        let mut buf = [0; 3];
        device.read_at(5, &mut buf).unwrap();
        assert_eq!(&buf, b"abc");
        for result in [
            device.write_at(5, b"x", false),
            device.write_zeroes(0, 8192, ZeroOptions::default()),
            device.trim(0, 8192, false),
        ] {
            assert!(matches!(result, Err(BlockError::ReadOnly)));
        }
        device.flush().unwrap();
    }

    /// Bytes, and of each page what backs it.
    #[test]
    fn it_is_bytes_and_what_backs_each_page() {
        const PAGES: usize = 40;
        const SIZE: usize = PAGES * PAGE + 100;
        let device = MemDevice::new(SIZE as u64);
        let (mut bytes, mut kinds) = (vec![0; SIZE], vec![ExtentKind::Hole; PAGES + 1]);
        let mut random = crate::SplitMix64::new(3);
        for step in 0..400 {
            // At borders of pages and beside them, also over several runs that share a lock.
            let mut edge = || {
                let page = random.below(PAGES as u64 + 1) as usize * PAGE;
                [page, page + 1, (page + 99).min(SIZE), SIZE][random.below(4) as usize]
            };
            let (a, b) = (edge(), edge());
            let (start, end) = (a.min(b), a.max(b));
            let (at, len) = (start as u64, (end - start) as u64);
            let whole = start.div_ceil(PAGE)..if end == SIZE { PAGES + 1 } else { end / PAGE };
            let touched = if len == 0 { 0..0 } else { start / PAGE..end.div_ceil(PAGE) };
            match random.below(4) {
                0 => {
                    let data = random.bytes(end - start);
                    device.write_at(at, &data, false).unwrap();
                    bytes[start..end].copy_from_slice(&data);
                    kinds[touched].fill(ExtentKind::Data);
                }
                1 => {
                    device.write_zeroes(at, len, ZeroOptions::default()).unwrap();
                    bytes[start..end].fill(0);
                    whole.for_each(|page| kinds[page] = ExtentKind::Hole);
                }
                2 => {
                    let no_hole = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
                    device.write_zeroes(at, len, no_hole).unwrap();
                    bytes[start..end].fill(0);
                    for page in touched {
                        if whole.contains(&page) || kinds[page] != ExtentKind::Data {
                            kinds[page] = ExtentKind::Zero;
                        }
                    }
                }
                _ => {
                    device.trim(at, len, false).unwrap();
                    for page in whole {
                        bytes[page * PAGE..((page + 1) * PAGE).min(SIZE)].fill(0);
                        kinds[page] = ExtentKind::Hole;
                    }
                }
            }
            let mut found = vec![1; SIZE];
            device.read_at(0, &mut found).unwrap();
            assert!(found == bytes, "step {step}");
            let mut told = Vec::new();
            for extent in device.block_status(0, SIZE as u64).unwrap() {
                told.extend(std::iter::repeat_n(
                    extent.kind,
                    extent.len_bytes.div_ceil(4096) as usize,
                ));
            }
            assert_eq!(told, kinds, "step {step}");
            let data = kinds.iter().filter(|&&kind| kind == ExtentKind::Data).count();
            assert_eq!(device.resident_bytes(), data as u64 * PAGE_BYTES, "step {step}");
        }
        assert!(device.block_status(1, SIZE as u64).is_err());
    }

    #[test]
    fn a_range_of_more_pages_than_are_looked_at_one_by_one_leaves_what_is_beside_it() {
        let device = MemDevice::new(1 << 30);
        let places = [0, 5 << 20, (600 << 20) - 4096, 600 << 20, (1 << 30) - 4096];
        for at in places {
            device.write_at(at, &[7; 4096], false).unwrap();
        }
        device.trim(4096, (600 << 20) - 4096, false).unwrap();
        let left = places.map(|at| device.kind_of(at / PAGE_BYTES) == ExtentKind::Data);
        assert_eq!(left, [true, false, false, true, true]);
        device.flush().unwrap();
    }
}
