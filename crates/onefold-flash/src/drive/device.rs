//! The emulated drive as a block device: requests of bytes become pages of the FTL.
//! Room: onefold-flash.   In: byte ranges.   Out: FTL calls, one request at a time.
//! Invariants: those of [`onefold_block::device`]; a page that cannot be corrected is
//! [`BlockError::Corrupt`], naming logical and physical page, and never other bytes; after a
//! failure of the file below, everything is refused until the drive is opened again.
//! Cost: a request of part of a page reads the whole page, and a write programs all of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_block::device::{WriteRequest, check_range};
use onefold_block::{BlockDevice, BlockError, Extent, ExtentKind, ZeroOptions};

use super::clock::Clock;
use super::host_counts::HostCounts;
use super::host_scrambler::HostScrambler;
use super::kept::Kept;
use super::pace::Pace;
use crate::dedup::Policy;
use crate::ftl::idle::{IdleWork, Scope};
use crate::ftl::{Ftl, FtlError};
use crate::nand::NandError;
use crate::nand::bytes::{ByteNand, PageBytes, Store};
use crate::spec::IdleOrder;

/// Most bytes that one answer to a status request covers.
const STATUS_BYTES_MAX: u64 = 1 << 30;
/// Steps of background work in one idle moment, so that requests do not wait long for it.
const IDLE_STEPS: u32 = 16;

/// An FTL over an array of bytes, with what makes it a drive.
#[derive(Debug)]
pub(super) struct Inner<S: Store, P> {
    pub ftl: Ftl<ByteNand<S>, P>,
    pub host: HostCounts,
    pub pace: Pace,
    idle_work: IdleWork,
    /// What the host does to pages before it sends them, and after they came back.
    host_side: Option<HostScrambler>,
    /// What survives this process besides the file, where there is memory for it.
    pub kept: Option<Kept>,
    /// Why nothing is done any more.
    pub poisoned: Option<String>,
    /// What the request in hand says: whether what it writes is to be deduplicated.
    asked: Option<bool>,
    /// Whether requests are refused because the drive was shut down.
    closed: bool,
    page_bytes: u64,
}

/// An emulated drive.
pub struct EmulatedDrive<S: Store, P: Policy<PageBytes>> {
    inner: Mutex<Inner<S, P>>,
    clock: Arc<dyn Clock>,
    /// Whether requests take as long as the model says.
    paced: bool,
    size_bytes: u64,
    page_bytes: u64,
}

/// The part of a request that falls into one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    lpn: u32,
    /// First byte within the page.
    start: usize,
    len: usize,
    /// First byte within the request.
    at: usize,
}

fn pieces(offset: u64, len: u64, page_bytes: u64) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = offset + done;
        let start = at % page_bytes;
        let count = (page_bytes - start).min(len - done);
        let piece = Piece {
            lpn: (at / page_bytes) as u32,
            start: start as usize,
            len: count as usize,
            at: done as usize,
        };
        done += count;
        Some(piece)
    })
}

impl<S: Store, P: Policy<PageBytes>> Inner<S, P> {
    fn check_usable(&self) -> Result<(), BlockError> {
        match &self.poisoned {
            Some(why) => Err(BlockError::Poisoned(why.clone())),
            None if self.closed => Err(BlockError::ShuttingDown),
            None => Ok(()),
        }
    }

    /// What a host is told of a failure at a logical page.
    fn failed(&mut self, lpn: Option<u32>, error: &FtlError) -> BlockError {
        self.host.errors += 1;
        let at = lpn.map(|lpn| format!("logical page {lpn}: ")).unwrap_or_default();
        match error {
            FtlError::NoSpace { .. } => BlockError::NoSpace(error.to_string()),
            FtlError::Lost { .. } | FtlError::Nand(NandError::Uncorrectable { .. }) => {
                BlockError::Corrupt(format!("{at}{error}"))
            }
            _ => {
                let why = format!("{at}{error}");
                self.poisoned = Some(why.clone());
                BlockError::Poisoned(why)
            }
        }
    }

    fn page(&mut self, lpn: u32) -> Result<Option<PageBytes>, BlockError> {
        let before = self.ftl.nand().health().retries;
        let read = self.ftl.read(lpn, &mut self.pace);
        let retries = self.ftl.nand().health().retries - before;
        self.pace.retried(u32::try_from(retries).unwrap_or(u32::MAX));
        match read {
            Ok(Some(page)) if page.is_plain_on_flash() => Ok(Some(self.undo(lpn, &page))),
            other => other.map_err(|error| self.failed(Some(lpn), &error)),
        }
    }

    /// A page that the host scrambled ahead, on its way back to it.
    fn undo(&mut self, lpn: u32, page: &PageBytes) -> PageBytes {
        let mut bytes = page.to_vec();
        self.ftl.nand().channel().scramble(lpn, &mut bytes);
        if let Some(host) = &self.host_side {
            host.apply(lpn, &mut bytes);
        }
        PageBytes::from(bytes)
    }

    /// A page on its way from the host through the drive's scrambler, if the host sends it
    /// scrambled ahead; else as it is.
    fn send(&mut self, lpn: u32, page: PageBytes) -> PageBytes {
        let Some(host) = self.host_side.as_ref().filter(|host| host.wants(lpn, self.asked)) else {
            return page;
        };
        let mut bytes = page.to_vec();
        host.apply(lpn, &mut bytes);
        self.ftl.nand().channel().scramble(lpn, &mut bytes);
        PageBytes::plain_on_flash(bytes)
    }

    fn put(&mut self, lpn: u32, page: PageBytes) -> Result<(), BlockError> {
        let page = self.send(lpn, page);
        let written = self.ftl.write_asked(lpn, &page, self.asked, &mut self.pace);
        written.map(|_| ()).map_err(|error| self.failed(Some(lpn), &error))
    }

    /// Whether a page holds something, or did and lost it. Its mapping page may have to be read.
    fn is_written(&mut self, lpn: u32) -> Result<bool, BlockError> {
        let loaded = self.ftl.load(lpn, &mut self.pace);
        loaded.map_err(|error| self.failed(Some(lpn), &error))?;
        Ok(self.ftl.is_written(lpn))
    }

    fn drop_page(&mut self, lpn: u32) -> Result<(), BlockError> {
        let trimmed = self.ftl.trim(lpn, &mut self.pace);
        trimmed.map_err(|error| self.failed(Some(lpn), &error))
    }

    /// Writes part of a page, or all of it.
    fn write_piece(&mut self, piece: Piece, data: &[u8]) -> Result<(), BlockError> {
        if piece.len as u64 == self.page_bytes {
            return self.put(piece.lpn, PageBytes::from(data));
        }
        let mut bytes = match self.page(piece.lpn)? {
            Some(page) => page.to_vec(),
            None => vec![0; self.page_bytes as usize],
        };
        bytes[piece.start..piece.start + piece.len].copy_from_slice(data);
        self.put(piece.lpn, PageBytes::from(bytes))
    }

    fn zero_piece(&mut self, piece: Piece, no_hole: bool) -> Result<(), BlockError> {
        let whole = piece.len as u64 == self.page_bytes;
        let stored = self.is_written(piece.lpn)?;
        if !no_hole && (whole || !stored) {
            return if stored { self.drop_page(piece.lpn) } else { Ok(()) };
        }
        self.write_piece(piece, &vec![0; piece.len])
    }

    fn idle_step(&mut self) -> Result<bool, FtlError> {
        self.idle_work.step(Scope::All, &mut self.ftl, true, &mut self.pace)
    }

    /// Before a request is answered: what is in this process alone is also where it outlives it.
    fn keep(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.hold(self.ftl.pending_records());
            kept.hold_pages(self.ftl.packing_version(), self.ftl.waiting());
        }
    }

    pub(super) fn make_durable(&mut self) -> Result<(), BlockError> {
        self.host.flushes += 1;
        let flushed = self.ftl.flush(&mut self.pace);
        flushed.map_err(|error| self.failed(None, &error))
    }
}

impl<S: Store, P: Policy<PageBytes>> EmulatedDrive<S, P> {
    /// Puts a drive around an FTL. `paced` makes requests take as long as `pace` says.
    ///
    /// # Errors
    /// [`BlockError::Io`] for pages that no block device can have: not a power of two.
    pub fn new(
        mut ftl: Ftl<ByteNand<S>, P>,
        pace: Pace,
        paced: bool,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BlockError> {
        let page_bytes = u64::from(ftl.geometry().page_bytes);
        if !page_bytes.is_power_of_two() {
            let source = std::io::Error::other("page_bytes must be a power of two");
            return Err(BlockError::Io { context: format!("pages of {page_bytes} bytes"), source });
        }
        let size_bytes = u64::from(ftl.settings().logical_pages) * page_bytes;
        ftl.nand().set_time(clock.unix_s());
        let host = HostCounts::default();
        let idle_work = IdleWork::new(IdleOrder::ByPolicy, ftl.counters());
        let inner = Inner {
            ftl,
            host,
            pace,
            idle_work,
            host_side: None,
            kept: None,
            poisoned: None,
            asked: None,
            closed: false,
            page_bytes,
        };
        Ok(Self { inner: Mutex::new(inner), clock, paced, size_bytes, page_bytes })
    }

    /// Chooses which background work goes first; without it, deduplication does.
    #[must_use]
    pub fn with_idle_order(self, order: IdleOrder) -> Self {
        let mut inner = self.lock();
        inner.idle_work = IdleWork::new(order, inner.ftl.counters());
        drop(inner);
        self
    }

    /// Puts a scrambler of the host's own before the drive.
    #[must_use]
    pub fn with_host_scrambler(self, host_side: Option<HostScrambler>) -> Self {
        self.lock().host_side = host_side;
        self
    }

    /// A holder of the lock that panicked may have left the FTL half-way.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<S, P>> {
        self.inner.lock().unwrap_or_else(|poisoned: PoisonError<_>| {
            let mut inner = poisoned.into_inner();
            inner.poisoned = Some("a request ended in a panic".to_owned());
            inner
        })
    }

    /// Does one request under the lock, and then takes as long as the model says.
    fn request<T>(
        &self,
        deed: impl FnOnce(&mut Inner<S, P>) -> Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        let (result, done_ns) = {
            let mut inner = self.lock();
            inner.check_usable()?;
            inner.pace.begin(self.clock.now_ns());
            let result = deed(&mut inner);
            inner.keep();
            (result, inner.pace.done_ns())
        };
        if self.paced {
            self.clock.wait_until(done_ns);
        }
        result
    }

    /// Writes with the request's word: whether the pages are to be deduplicated.
    pub(super) fn write_asked(
        &self,
        asked: Option<bool>,
        request: WriteRequest<'_>,
    ) -> Result<(), BlockError> {
        let WriteRequest { offset, data, fua } = request;
        check_range(offset, data.len() as u64, self.size_bytes)?;
        self.request(|inner| {
            inner.asked = asked;
            inner.host.writes += 1;
            inner.host.bytes_written += data.len() as u64;
            for piece in pieces(offset, data.len() as u64, self.page_bytes) {
                inner.write_piece(piece, &data[piece.at..piece.at + piece.len])?;
            }
            if fua { inner.make_durable() } else { Ok(()) }
        })
    }

    /// Writes zeroes with the request's word.
    pub(super) fn zero_asked(
        &self,
        asked: Option<bool>,
        (offset, len): (u64, u64),
        options: ZeroOptions,
    ) -> Result<(), BlockError> {
        check_range(offset, len, self.size_bytes)?;
        if options.fast_only && options.no_hole && len > 0 {
            return Err(BlockError::NotFast);
        }
        self.request(|inner| {
            inner.asked = asked;
            inner.host.writes += 1;
            for piece in pieces(offset, len, self.page_bytes) {
                inner.zero_piece(piece, options.no_hole)?;
            }
            if options.fua { inner.make_durable() } else { Ok(()) }
        })
    }

    /// Does some of the drive's background work: looks for duplicates and collects garbage, in the
    /// drive's idle order.
    /// `false` when there is nothing left to do.
    ///
    /// # Errors
    /// [`BlockError`] of the flash.
    pub fn idle(&self) -> Result<bool, BlockError> {
        let mut inner = self.lock();
        inner.check_usable()?;
        inner.ftl.nand().set_time(self.clock.unix_s());
        inner.pace.begin(self.clock.now_ns());
        let inner = &mut *inner;
        for _ in 0..IDLE_STEPS {
            match inner.idle_step() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => return Err(inner.failed(None, &error)),
            }
        }
        Ok(true)
    }

    /// Refuses everything from now on, for a reason that lies outside.
    pub fn condemn(&self, why: &str) {
        self.lock().poisoned.get_or_insert_with(|| why.to_owned());
    }

    /// What hosts asked for.
    pub fn host_counts(&self) -> HostCounts {
        self.lock().host
    }

    /// Looks at the FTL while no request is served.
    pub fn with_ftl<T>(&self, look: impl FnOnce(&mut Ftl<ByteNand<S>, P>) -> T) -> T {
        look(&mut self.lock().ftl)
    }

    /// Makes everything durable and refuses requests from now on.
    ///
    /// # Errors
    /// [`BlockError`] of the flash, or of an earlier failure.
    pub fn shut_down(&self) -> Result<(), BlockError> {
        let mut inner = self.lock();
        inner.check_usable()?;
        let inner = &mut *inner;
        // A checkpoint, so that the next opening has little to look at.
        let closed =
            inner.ftl.flush(&mut inner.pace).and_then(|()| inner.ftl.checkpoint(&mut inner.pace));
        closed.map_err(|error| inner.failed(None, &error))?;
        inner.closed = true;
        Ok(())
    }

    /// Takes the FTL out.
    pub fn into_ftl(self) -> Ftl<ByteNand<S>, P> {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner).ftl
    }
}

impl<S: Store, P: Policy<PageBytes> + Send> BlockDevice for EmulatedDrive<S, P> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.page_bytes as u32
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        check_range(offset, buf.len() as u64, self.size_bytes)?;
        self.request(|inner| {
            inner.host.reads += 1;
            inner.host.bytes_read += buf.len() as u64;
            for piece in pieces(offset, buf.len() as u64, self.page_bytes) {
                let out = &mut buf[piece.at..piece.at + piece.len];
                match inner.page(piece.lpn)? {
                    Some(page) => out.copy_from_slice(&page[piece.start..piece.start + piece.len]),
                    None => out.fill(0),
                }
            }
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.write_asked(None, WriteRequest { offset, data, fua })
    }

    /// Whole pages become holes unless that is forbidden; parts of pages are written.
    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.zero_asked(None, (offset, len), options)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        check_range(offset, len, self.size_bytes)?;
        self.request(|inner| {
            for lpn in offset.div_ceil(self.page_bytes)..(offset + len) / self.page_bytes {
                if inner.is_written(lpn as u32)? {
                    inner.drop_page(lpn as u32)?;
                }
            }
            if fua { inner.make_durable() } else { Ok(()) }
        })
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.request(Inner::make_durable)
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        check_range(offset, len, self.size_bytes)?;
        let mut inner = self.lock();
        inner.check_usable()?;
        let mut extents: Vec<Extent> = Vec::new();
        for piece in pieces(offset, len.min(STATUS_BYTES_MAX), self.page_bytes) {
            let stored = inner.is_written(piece.lpn)?;
            let kind = if stored { ExtentKind::Data } else { ExtentKind::Hole };
            let len_bytes = piece.len as u64;
            match extents.last_mut() {
                Some(last) if last.kind == kind => last.len_bytes += len_bytes,
                _ => extents.push(Extent { len_bytes, kind }),
            }
        }
        Ok(extents)
    }
}

impl<S: Store, P: Policy<PageBytes>> std::fmt::Debug for EmulatedDrive<S, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmulatedDrive")
            .field("size_bytes", &self.size_bytes)
            .finish_non_exhaustive()
    }
}
