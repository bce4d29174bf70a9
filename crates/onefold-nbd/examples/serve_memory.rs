//! Serves a RAM disk until its standard input closes, to measure the server by itself.
//! Room: onefold-nbd.
//!
//! `serve_memory unix:/run/ram.sock 256M [BUSY_NS]`: `BUSY_NS` is CPU time burnt per 4 KiB read
//! or written, in nanoseconds, to stand in for a device that hashes and compresses.

use std::error::Error;
use std::io::Read;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use onefold_block::device::check_range;
use onefold_block::{BlockDevice, BlockError, ByteSize, Extent, ExtentKind, ZeroOptions};
use onefold_nbd::{ExportTable, Server, ServerConfig};

/// Bytes under one lock.
const STRIPE_BYTES: u64 = 1 << 20;

struct Ram {
    size_bytes: u64,
    stripes: Vec<RwLock<Box<[u8]>>>,
    busy_ns_per_block: u64,
}

impl Ram {
    fn new(size_bytes: u64, busy_ns_per_block: u64) -> Self {
        let stripe = || RwLock::new(vec![0; STRIPE_BYTES as usize].into_boxed_slice());
        let stripes = (0..size_bytes.div_ceil(STRIPE_BYTES)).map(|_| stripe()).collect();
        Self { size_bytes, stripes, busy_ns_per_block }
    }

    fn burn(&self, len: usize) {
        let blocks = len.div_ceil(4096) as u64;
        let until = Instant::now() + Duration::from_nanos(blocks * self.busy_ns_per_block);
        while self.busy_ns_per_block > 0 && Instant::now() < until {
            std::hint::spin_loop();
        }
    }

    /// The pieces of a range: stripe, first byte in it, length.
    fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done;
            let start = at % STRIPE_BYTES;
            let count = (STRIPE_BYTES - start).min(len - done);
            done += count;
            let piece = ((at / STRIPE_BYTES) as usize, start as usize, count as usize);
            (count > 0).then_some(piece)
        })
    }

    fn change(&self, offset: u64, len: u64, mut change: impl FnMut(&mut [u8])) {
        for (stripe, start, count) in Self::pieces(offset, len) {
            let mut bytes = self.stripes[stripe].write().unwrap_or_else(PoisonError::into_inner);
            change(&mut bytes[start..start + count]);
        }
    }
}

impl BlockDevice for Ram {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn preferred_block_bytes(&self) -> u32 {
        4096
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        check_range(offset, buf.len() as u64, self.size_bytes)?;
        self.burn(buf.len());
        let mut done = 0;
        for (stripe, start, count) in Self::pieces(offset, buf.len() as u64) {
            let bytes = self.stripes[stripe].read().unwrap_or_else(PoisonError::into_inner);
            buf[done..done + count].copy_from_slice(&bytes[start..start + count]);
            done += count;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], _fua: bool) -> Result<(), BlockError> {
        check_range(offset, data.len() as u64, self.size_bytes)?;
        self.burn(data.len());
        let mut rest = data;
        self.change(offset, data.len() as u64, |bytes| {
            let (now, later) = rest.split_at(bytes.len());
            bytes.copy_from_slice(now);
            rest = later;
        });
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64, _: ZeroOptions) -> Result<(), BlockError> {
        check_range(offset, len, self.size_bytes)?;
        self.change(offset, len, |bytes| bytes.fill(0));
        Ok(())
    }

    fn trim(&self, offset: u64, len: u64, _fua: bool) -> Result<(), BlockError> {
        check_range(offset, len, self.size_bytes)
    }

    fn flush(&self) -> Result<(), BlockError> {
        Ok(())
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        check_range(offset, len, self.size_bytes)?;
        Ok(vec![Extent { len_bytes: len, kind: ExtentKind::Data }])
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: serve_memory unix:PATH|tcp:HOST:PORT SIZE [BUSY_NS]";
    let mut arguments = std::env::args().skip(1);
    let listener = arguments.next().ok_or(usage)?.parse()?;
    let size: ByteSize = arguments.next().ok_or(usage)?.parse()?;
    let busy_ns = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let device = Arc::new(Ram::new(size.bytes(), busy_ns));
    let exports = ExportTable::new().with("ram", "a RAM disk", device);
    let config = ServerConfig { listeners: vec![listener], ..ServerConfig::default() };
    let server = Server::start(Arc::new(exports), &config)?;
    for address in server.addresses() {
        println!("{}", address.uri("", false));
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.shutdown(Duration::from_secs(5));
    Ok(())
}
