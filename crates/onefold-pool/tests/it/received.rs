//! What a device hears that a stream is received into, and where a reception goes on that was cut
//! short: as `received.txt` has it. `ONEFOLD_UPDATE=1` writes that file anew.

use std::fmt::Write as _;
use std::sync::Mutex;

use onefold_block::{
    BlockDevice, BlockError, ByteSize, Extent, ExtentKind, MemDevice, ZeroOptions,
};
use onefold_pool::Volume;
use onefold_pool::stream::{Receiver, StreamReader, receiving_bytes};

use crate::operations::hash;
use crate::streams::stream;
use crate::support::{assert_golden, content, new_pool, small};

const CHUNK: u64 = 4096;

/// A device that tells what it is told.
struct Telling {
    inner: MemDevice,
    told: Mutex<String>,
}

impl Telling {
    fn tell(&self, what: &str) {
        let mut told = self.told.lock().unwrap();
        told.push_str(what);
        told.push('\n');
    }
}

impl BlockDevice for Telling {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn preferred_block_bytes(&self) -> u32 {
        CHUNK as u32
    }
    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.tell(&format!("read {} bytes from {offset} on", buf.len()));
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        let (len, hash) = (data.len(), hash(data));
        self.tell(&format!("write {len} bytes from {offset} on, {hash}, fua {fua}"));
        self.inner.write_at(offset, data, fua)
    }
    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.tell(&format!("zeroes, {len} bytes from {offset} on, {options:?}"));
        self.inner.write_zeroes(offset, len, options)
    }
    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.tell(&format!("trim {len} bytes from {offset} on"));
        self.inner.trim(offset, len, fua)
    }
    fn flush(&self) -> Result<(), BlockError> {
        self.tell("flush");
        self.inner.flush()
    }
    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.inner.block_status(offset, len)
    }
}

fn write(volume: &Volume, blocks: std::ops::Range<u64>, seed: u64) {
    for block in blocks {
        let len = CHUNK.min(volume.size_bytes() - block * CHUNK) as usize;
        volume.write_at(block * CHUNK, &content(block + seed, len), false).unwrap();
    }
}

/// Receive a stream, the first `frames` of it, from where `device` says that it was cut short.
fn receive(device: &Telling, stream: &[u8], frames: usize) -> String {
    let mut reader = StreamReader::open(stream).unwrap();
    let mut receiver = Receiver::new(reader.header().clone(), device);
    device.tell(&format!("receive {:?}", reader.header()));
    let marked = receiver.marked().unwrap();
    device.tell(&format!("marked: {marked:?}, {} bytes", receiver.marked_bytes()));
    reader.skip_to(marked.unwrap_or(0));
    for _ in 0..frames {
        let Some(frame) = reader.next_frame().unwrap() else { break };
        device.tell(&format!("a frame of {}..{}", frame.from, frame.upto));
        receiver.store(&frame).unwrap();
        let (stored, marked) = (receiver.stored_bytes(), receiver.marked_bytes());
        device.tell(&format!("position {}, {stored} stored, {marked} marked", reader.position()));
    }
    std::mem::take(&mut device.told.lock().unwrap())
}

#[test]
fn what_a_receiver_does_is_what_it_was() {
    let (_folder, pool) = new_pool(&small());
    // More than a run of a megabyte side by side, over three marks, and an end within a block.
    let size = 200 * (1 << 20) + 1000;
    let volume = pool.create_volume_at("main", ByteSize(size), 1).unwrap();
    write(&volume, 0..600, 0);
    volume.trim(100 * CHUNK, 5 * CHUNK, false).unwrap();
    let zero = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
    volume.write_zeroes(200 * CHUNK, 7 * CHUNK, zero).unwrap();
    for first in [16_384, 20_000, 32_767, 40_000] {
        write(&volume, first..first + 450, 7);
    }
    let last = size / CHUNK;
    write(&volume, last - 2..last + 1, 9);
    pool.snapshot("main@a", 2, false).unwrap();
    write(&volume, 90..110, 5000);
    volume.trim(500 * CHUNK, 600 * CHUNK, false).unwrap();
    write(&volume, 40_100..40_103, 5000);
    pool.resize_volume("main", ByteSize(size + 5000), false).unwrap();
    write(&volume, last..last + 2, 6000);
    pool.snapshot("main@b", 3, false).unwrap();
    let mut told = String::new();
    let len = receiving_bytes(size + 5000, CHUNK as u32).unwrap();
    let device = Telling { inner: MemDevice::new(len), told: Mutex::default() };
    for (name, base) in [("main@a", None), ("main@b", Some("main@a")), ("main@b", None)] {
        writeln!(told, "# {name} since {base:?}\n").unwrap();
        let stream = stream(&pool, name, base);
        for frames in [3, usize::MAX] {
            told += &receive(&device, &stream, frames);
        }
        let volume = pool.volume(name).unwrap();
        // What is nothing but zeroes is long: its ends tell.
        let mut at = 0;
        for extent in volume.block_status(0, volume.size_bytes()).unwrap() {
            let end = at + extent.len_bytes;
            let whole = extent.kind == ExtentKind::Data || extent.len_bytes <= 2 * CHUNK;
            let (first, last) = (at..at + CHUNK, end - CHUNK..end);
            for part in if whole { [at..end, end..end] } else { [first, last] } {
                let len = (part.end - part.start) as usize;
                let (mut sent, mut received) = (vec![0; len], vec![0; len]);
                volume.read_at(part.start, &mut sent).unwrap();
                device.inner.read_at(part.start, &mut received).unwrap();
                assert!(sent == received, "{name}, {part:?}");
            }
            at = end;
        }
    }
    assert_golden("received.txt", &told);
}
