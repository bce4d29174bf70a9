//! A RAM device that remembers holes and misbehaves on request.
//! Room: onefold-nbd.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use onefold_block::device::check_range;
use onefold_block::{BlockDevice, BlockError, Extent, ExtentKind, WriteRequest, ZeroOptions};

use crate::raw::PATIENCE;

pub const BLOCK: u64 = 4096;

/// What a call takes on a slow disk.
const SLOW_CALL: Duration = Duration::from_millis(1);

/// What happens to calls that touch a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Corrupt,
    Panic,
    NoSpace,
    /// Wait until [`TestDevice::open_gate`].
    Wait,
    /// Wait until two calls are here at once; fail if no second one comes.
    Together,
}

struct State {
    bytes: Vec<u8>,
    kinds: Vec<ExtentKind>,
    moods: Vec<(u64, Mood)>,
    flush_waits: bool,
    gate_open: bool,
}

pub struct TestDevice {
    size: u64,
    read_only: bool,
    state: Mutex<State>,
    gate: Condvar,
    pub flushes: AtomicUsize,
    pub waiting: AtomicUsize,
    pub fua_writes: AtomicUsize,
    /// Calls made by the threads that receive, and not by helpers.
    pub calls_by_receivers: AtomicUsize,
    /// How many writes each call with several brought.
    pub batches: Mutex<Vec<usize>>,
    /// Whether calls take as long as on a slow disk.
    pub slow: AtomicBool,
}

impl TestDevice {
    pub fn new(size: u64) -> Self {
        let blocks = size.div_ceil(BLOCK) as usize;
        Self {
            size,
            read_only: false,
            state: Mutex::new(State {
                bytes: vec![0; size as usize],
                kinds: vec![ExtentKind::Hole; blocks],
                moods: Vec::new(),
                flush_waits: false,
                gate_open: false,
            }),
            gate: Condvar::new(),
            flushes: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            fua_writes: AtomicUsize::new(0),
            calls_by_receivers: AtomicUsize::new(0),
            batches: Mutex::new(Vec::new()),
            slow: AtomicBool::new(false),
        }
    }

    pub fn read_only(size: u64) -> Self {
        Self { read_only: true, ..Self::new(size) }
    }

    /// Calls that touch `block` do as `mood` says.
    pub fn set_mood(&self, block: u64, mood: Mood) {
        self.state.lock().unwrap().moods.push((block, mood));
    }

    /// Flushes wait until [`TestDevice::open_gate`].
    pub fn make_flush_wait(&self) {
        self.state.lock().unwrap().flush_waits = true;
    }

    pub fn open_gate(&self) {
        self.state.lock().unwrap().gate_open = true;
        self.gate.notify_all();
    }

    pub fn contents(&self) -> Vec<u8> {
        self.state.lock().unwrap().bytes.clone()
    }

    fn wait_at_gate(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let state = self.state.lock().unwrap();
        drop(self.gate.wait_while(state, |state| !state.gate_open).unwrap());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn wait_for_another(&self) -> Result<(), BlockError> {
        let here = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        let mut state = self.state.lock().unwrap();
        state.gate_open |= here >= 2;
        self.gate.notify_all();
        let waited = self.gate.wait_timeout_while(state, PATIENCE, |state| !state.gate_open);
        if waited.unwrap().1.timed_out() {
            return Err(BlockError::Corrupt("nobody else came".into()));
        }
        Ok(())
    }

    fn meet(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        check_range(offset, len, self.size)?;
        if std::thread::current().name() == Some("nbd-client") {
            self.calls_by_receivers.fetch_add(1, Ordering::SeqCst);
        }
        if self.slow.load(Ordering::SeqCst) {
            std::thread::sleep(SLOW_CALL);
        }
        let touched = offset / BLOCK..(offset + len).div_ceil(BLOCK);
        let moods = self.state.lock().unwrap().moods.clone();
        for (block, mood) in moods.into_iter().filter(|(block, _)| touched.contains(block)) {
            match mood {
                Mood::Corrupt => return Err(BlockError::Corrupt(format!("LBA {block}"))),
                Mood::NoSpace => return Err(BlockError::NoSpace("the pool is full".into())),
                Mood::Panic => panic!("block {block} panics"),
                Mood::Wait => self.wait_at_gate(),
                Mood::Together => self.wait_for_another()?,
            }
        }
        Ok(())
    }

    fn change(
        &self,
        offset: u64,
        len: u64,
        kind: Option<ExtentKind>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), BlockError> {
        if self.read_only {
            return Err(BlockError::ReadOnly);
        }
        self.meet(offset, len)?;
        let mut state = self.state.lock().unwrap();
        change(&mut state.bytes[offset as usize..(offset + len) as usize]);
        let touched = offset / BLOCK..(offset + len).div_ceil(BLOCK);
        for block in touched {
            let whole =
                block * BLOCK >= offset && ((block + 1) * BLOCK).min(self.size) <= offset + len;
            let new = if whole { kind } else { None };
            state.kinds[block as usize] = new.unwrap_or(ExtentKind::Data);
        }
        Ok(())
    }

    /// Block by block, the slow obvious way.
    pub fn kind_of_byte(&self, at: u64) -> ExtentKind {
        self.state.lock().unwrap().kinds[(at / BLOCK) as usize]
    }
}

impl BlockDevice for TestDevice {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn preferred_block_bytes(&self) -> u32 {
        BLOCK as u32
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.meet(offset, buf.len() as u64)?;
        let state = self.state.lock().unwrap();
        buf.copy_from_slice(&state.bytes[offset as usize..offset as usize + buf.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.fua_writes.fetch_add(usize::from(fua), Ordering::SeqCst);
        self.change(offset, data.len() as u64, None, |bytes| bytes.copy_from_slice(data))
    }

    fn write_batch(
        &self,
        requests: &[WriteRequest<'_>],
        results: &mut Vec<Result<(), BlockError>>,
    ) {
        self.batches.lock().unwrap().push(requests.len());
        results.clear();
        results.extend(requests.iter().map(|r| self.write_at(r.offset, r.data, r.fua)));
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        if options.fast_only && !offset.is_multiple_of(BLOCK) {
            return Err(BlockError::NotFast);
        }
        let kind = if options.no_hole { ExtentKind::Zero } else { ExtentKind::Hole };
        self.change(offset, len, Some(kind), |bytes| bytes.fill(0))
    }

    fn trim(&self, offset: u64, len: u64, _fua: bool) -> Result<(), BlockError> {
        check_range(offset, len, self.size)?;
        let start = offset.next_multiple_of(BLOCK);
        let end =
            if offset + len == self.size { self.size } else { (offset + len) / BLOCK * BLOCK };
        if start >= end {
            return Ok(());
        }
        self.change(start, end - start, Some(ExtentKind::Hole), |bytes| bytes.fill(0))
    }

    fn flush(&self) -> Result<(), BlockError> {
        if self.state.lock().unwrap().flush_waits {
            self.wait_at_gate();
        }
        self.flushes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        check_range(offset, len, self.size)?;
        let state = self.state.lock().unwrap();
        let mut list: Vec<Extent> = Vec::new();
        let mut at = offset;
        while at < offset + len {
            let next = ((at / BLOCK + 1) * BLOCK).min(offset + len);
            let kind = *state.kinds.get((at / BLOCK) as usize).ok_or_else(|| BlockError::Io {
                context: "block status".into(),
                source: io::Error::other("no such block"),
            })?;
            match list.last_mut() {
                Some(last) if last.kind == kind => last.len_bytes += next - at,
                _ => list.push(Extent { len_bytes: next - at, kind }),
            }
            at = next;
        }
        Ok(list)
    }
}
