//! The suite of checks for [`BlockDevice`].
//! Room: onefold-block.
//! Cost: well under a second for a device in memory; every check makes devices of its own.

use std::sync::Arc;

use super::{assert_same, ok};
use crate::device::{BlockDevice, BlockError, Extent, ExtentKind, WriteRequest, ZeroOptions};
use crate::seeded::SplitMix64;

/// Makes a new device of the given size in bytes that reads as zeroes.
pub type MakeDevice<'a> = dyn Fn(u64) -> Arc<dyn BlockDevice> + 'a;

/// A named check.
pub type DeviceCheck = (&'static str, fn(&MakeDevice<'_>));

/// Size of the devices that are checked, in bytes: a multiple of every accepted chunk size.
const SIZE: u64 = 2 << 20;

/// The largest preferred block that leaves enough blocks to check, in bytes.
const BLOCK_MAX: u64 = 128 << 10;

const MODEL_SEEDS: u64 = 4;
const MODEL_STEPS: u64 = 250;

/// Every check of the suite.
pub const CHECKS: &[DeviceCheck] = &[
    ("new device is zeroes", new_device_is_zeroes),
    ("writes of any alignment", writes_of_any_alignment),
    ("overlapping writes", overlapping_writes),
    ("range errors", range_errors),
    ("empty ranges", empty_ranges),
    ("write batch", write_batch),
    ("zeroes with every option", zeroes_with_every_option),
    ("no-hole zeroes stay allocated", no_hole_zeroes_stay_allocated),
    ("trim", trim),
    ("block status", block_status),
    ("flush, FUA and prefetch keep contents", flush_fua_and_prefetch_keep_contents),
    ("ragged device size", ragged_device_size),
    ("threads", threads),
    ("model", model),
];

/// Put a device through every check. `make` is asked for sizes that are multiples of 64 KiB, and
/// once for one that is not: there it may round up.
pub fn check_device(make: &MakeDevice<'_>) {
    for (_, check) in CHECKS {
        check(make);
    }
}

/// Check that a read-only device refuses every change, with [`BlockError::ReadOnly`], and reads.
pub fn check_read_only_device(device: &dyn BlockDevice) {
    assert!(device.is_read_only(), "a read-only device says so");
    let len = device.size_bytes().min(4096);
    let mut before = vec![0; len as usize];
    ok(device.read_at(0, &mut before), "reading");
    let data = vec![0x5a; len as usize];
    let mut results = Vec::new();
    device.write_batch(&[WriteRequest { offset: 0, data: &data, fua: false }], &mut results);
    assert_eq!(results.len(), 1, "one result per request");
    results.push(device.write_at(0, &data, false));
    results.push(device.write_zeroes(0, len, ZeroOptions::default()));
    results.push(device.trim(0, len, false));
    for result in results {
        assert!(matches!(result, Err(BlockError::ReadOnly)), "not refused: {result:?}");
    }
    ok(device.flush(), "flushing a read-only device");
    status(device, 0, len);
    let mut after = vec![0; len as usize];
    ok(device.read_at(0, &mut after), "reading");
    assert_same(&after, &before, 0, "read-only contents");
}

/// A device beside the plain array that it must equal.
struct Twin {
    device: Arc<dyn BlockDevice>,
    plain: Vec<u8>,
    block: u64,
}

impl Twin {
    fn new(make: &MakeDevice<'_>) -> Self {
        let device = make(SIZE);
        assert_eq!(device.size_bytes(), SIZE, "the device has the size asked for");
        let block = u64::from(device.preferred_block_bytes());
        assert!(block.is_power_of_two(), "preferred block of {block} bytes is no power of two");
        assert!(block <= BLOCK_MAX, "preferred blocks over {BLOCK_MAX} bytes cannot be checked");
        assert!(!device.is_read_only(), "a new device can be written");
        Self { device, plain: vec![0; SIZE as usize], block }
    }

    /// A device full of bytes that differ from block to block.
    fn filled(make: &MakeDevice<'_>) -> Self {
        let mut twin = Self::new(make);
        let data = SplitMix64::new(1).bytes(SIZE as usize);
        twin.write(0, &data, false);
        twin
    }

    fn plain_range(&mut self, offset: u64, len: u64) -> &mut [u8] {
        &mut self.plain[offset as usize..(offset + len) as usize]
    }

    fn write(&mut self, offset: u64, data: &[u8], fua: bool) {
        let what = format!("writing {} bytes at {offset}", data.len());
        ok(self.device.write_at(offset, data, fua), what);
        self.plain_range(offset, data.len() as u64).copy_from_slice(data);
    }

    /// Zero a range; a fast zero may be refused, and then it must have done nothing.
    fn zero(&mut self, offset: u64, len: u64, options: ZeroOptions) {
        match self.device.write_zeroes(offset, len, options) {
            Err(BlockError::NotFast) if options.fast_only => {}
            result => {
                ok(result, format!("zeroing {len} bytes at {offset} with {options:?}"));
                self.plain_range(offset, len).fill(0);
            }
        }
    }

    fn trim(&mut self, offset: u64, len: u64, fua: bool) {
        ok(self.device.trim(offset, len, fua), format!("trimming {len} bytes at {offset}"));
        let start = offset.next_multiple_of(self.block);
        let end = (offset + len) / self.block * self.block;
        if start < end {
            self.plain_range(start, end - start).fill(0);
        }
    }

    fn verify_range(&self, offset: u64, len: u64, what: &str) {
        let mut found = vec![0xa5; len as usize];
        ok(self.device.read_at(offset, &mut found), format!("reading {len} bytes at {offset}"));
        let expected = &self.plain[offset as usize..(offset + len) as usize];
        assert_same(&found, expected, offset, what);
    }

    fn verify(&self, what: &str) {
        self.verify_range(0, SIZE, what);
    }
}

/// The extents of a range, asking again until it is covered; checks that they add up.
fn status(device: &dyn BlockDevice, offset: u64, len: u64) -> Vec<Extent> {
    let mut all = Vec::new();
    let mut covered = 0;
    while covered < len {
        let (at, left) = (offset + covered, len - covered);
        let what = format!("block status of {left} bytes at {at}");
        let extents = ok(device.block_status(at, left), &what);
        assert!(!extents.is_empty(), "{what} has no extent");
        assert!(extents.iter().all(|e| e.len_bytes > 0), "{what} has an empty extent");
        let total: u64 = extents.iter().map(|e| e.len_bytes).sum();
        assert!(total <= left, "{what} describes {total} bytes");
        covered += total;
        all.extend(extents);
    }
    all
}

/// Ranges around block edges: aligned, ragged at either end, inside one block, over several.
fn ragged_ranges(block: u64) -> Vec<(u64, u64)> {
    let near_end = SIZE - 3 * block;
    vec![
        (0, block),
        (0, 1),
        (block - 1, 2),
        (block + 1, block - 2),
        (block / 2, 3 * block),
        (3 * block - 7, block + 14),
        (4 * block, 4 * block),
        (511, 513),
        (near_end + 1, 3 * block - 1),
        (SIZE - block, block),
        (SIZE - 1, 1),
        (SIZE - block - 1, 2),
    ]
}

fn new_device_is_zeroes(make: &MakeDevice<'_>) {
    let twin = Twin::new(make);
    twin.verify("new device");
    status(&*twin.device, 0, SIZE);
}

fn writes_of_any_alignment(make: &MakeDevice<'_>) {
    let mut twin = Twin::new(make);
    let mut random = SplitMix64::new(2);
    for (offset, len) in ragged_ranges(twin.block) {
        twin.write(offset, &random.bytes(len as usize), false);
        twin.verify_range(offset, len, "what was just written");
        twin.verify("after a ragged write");
    }
    for (offset, len) in ragged_ranges(twin.block) {
        twin.verify_range(offset, len, "ragged read");
    }
}

fn overlapping_writes(make: &MakeDevice<'_>) {
    let mut twin = Twin::filled(make);
    let block = twin.block;
    let same = vec![0x11; 4 * block as usize];
    for shift in [0, 1, block / 2, block - 1, block] {
        twin.write(shift, &same, false);
        twin.write(shift + block / 2, &vec![0x22; block as usize], false);
        twin.write(shift + 1, &[0x33; 3], true);
        twin.verify("after overlapping writes");
    }
    // The same contents again, and the contents of another place.
    twin.write(0, &same, false);
    twin.write(8 * block, &same, false);
    twin.write(8 * block, &[0], false);
    twin.verify("after writing duplicates");
}

fn range_errors(make: &MakeDevice<'_>) {
    let twin = Twin::filled(make);
    let device = &*twin.device;
    let far = [SIZE, SIZE + 1, 1 << 40, 1 << 63, u64::MAX - 1, u64::MAX];
    let mut ranges: Vec<(u64, u64)> = far.into_iter().map(|offset| (offset, 1)).collect();
    ranges.extend([(SIZE - 1, 2), (0, SIZE + 1), (SIZE + 1, 0), (u64::MAX, 0)]);
    for &(offset, len) in &ranges {
        let mut buf = vec![0; len as usize];
        let mut results = vec![Ok(())];
        let good = WriteRequest { offset: 0, data: &twin.plain[..10], fua: false };
        device.write_batch(&[good, WriteRequest { offset, data: &buf, ..good }], &mut results);
        assert_eq!(results.len(), 2, "one result per request");
        ok(results.remove(0), "the good request beside a bad one");
        results.push(device.write_at(offset, &buf, false));
        results.push(device.read_at(offset, &mut buf));
        for result in results {
            assert_out_of_range(&result, offset, len);
        }
    }
    let huge = [(0, u64::MAX), (1, u64::MAX), (SIZE, u64::MAX), (u64::MAX, u64::MAX)];
    for (offset, len) in ranges.into_iter().chain(huge) {
        for result in [
            device.write_zeroes(offset, len, ZeroOptions::default()),
            device.write_zeroes(
                offset,
                len,
                ZeroOptions { fua: true, no_hole: true, fast_only: true },
            ),
            device.trim(offset, len, true),
            device.block_status(offset, len).map(drop),
            device.prefetch(offset, len),
        ] {
            assert_out_of_range(&result, offset, len);
        }
    }
    twin.verify("after requests out of range");
}

fn assert_out_of_range(result: &Result<(), BlockError>, offset: u64, len: u64) {
    match result {
        Err(BlockError::OutOfRange { offset: o, len: l, size: SIZE }) => {
            assert_eq!((*o, *l), (offset, len), "the error names the request");
        }
        other => panic!("{len} bytes at {offset} of {SIZE}: expected OutOfRange, got {other:?}"),
    }
}

fn empty_ranges(make: &MakeDevice<'_>) {
    let twin = Twin::filled(make);
    let device = &*twin.device;
    for offset in [0, 1, twin.block, SIZE - 1, SIZE] {
        ok(device.read_at(offset, &mut []), "reading nothing");
        ok(device.write_at(offset, &[], true), "writing nothing");
        ok(device.write_zeroes(offset, 0, ZeroOptions::default()), "zeroing nothing");
        ok(device.trim(offset, 0, false), "trimming nothing");
        ok(device.prefetch(offset, 0), "prefetching nothing");
        let extents = ok(device.block_status(offset, 0), "block status of nothing");
        assert!(extents.is_empty(), "nothing has no extents: {extents:?}");
    }
    twin.verify("after empty requests");
}

fn write_batch(make: &MakeDevice<'_>) {
    let mut twin = Twin::new(make);
    let mut random = SplitMix64::new(3);
    let block = twin.block;
    let mut results = vec![Err(BlockError::ReadOnly)];
    twin.device.write_batch(&[], &mut results);
    assert!(results.is_empty(), "results of an earlier batch are cleared");
    for _ in 0..8 {
        // Later requests of a batch win over earlier ones that they overlap.
        let pieces: Vec<(u64, Vec<u8>, bool)> = (0..40)
            .map(|_| {
                let len = random.below(2 * block) as usize;
                let offset = random.below(16 * block - len as u64 % block);
                let data = if random.chance(1, 4) { vec![0; len] } else { random.bytes(len) };
                (offset.min(SIZE - len as u64), data, random.chance(1, 4))
            })
            .collect();
        let requests: Vec<WriteRequest<'_>> = pieces
            .iter()
            .map(|(offset, data, fua)| WriteRequest { offset: *offset, data, fua: *fua })
            .collect();
        twin.device.write_batch(&requests, &mut results);
        assert_eq!(results.len(), requests.len(), "one result per request");
        for (result, (offset, data, _)) in results.drain(..).zip(&pieces) {
            ok(result, "a write of a batch");
            twin.plain_range(*offset, data.len() as u64).copy_from_slice(data);
        }
        twin.verify("after a batch");
    }
}

fn zeroes_with_every_option(make: &MakeDevice<'_>) {
    for bits in 0..8 {
        let [fua, no_hole, fast_only] = [1, 2, 4].map(|bit| bits & bit != 0);
        let mut twin = Twin::filled(make);
        for (offset, len) in ragged_ranges(twin.block) {
            twin.zero(offset, len, ZeroOptions { fua, no_hole, fast_only });
            twin.verify("after zeroing");
        }
        twin.zero(0, SIZE, ZeroOptions { fua, no_hole, fast_only });
        twin.verify("after zeroing all");
        twin.write(5, &[1; 100], false);
        twin.verify("after writing into zeroes");
    }
}

fn no_hole_zeroes_stay_allocated(make: &MakeDevice<'_>) {
    let twin = Twin::filled(make);
    let block = twin.block;
    let no_hole = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
    ok(twin.device.trim(0, 8 * block, false), "trimming");
    // Over data, over holes, and over both.
    for (offset, len) in [(10 * block, 2 * block), (block, 2 * block), (7 * block, 2 * block)] {
        ok(twin.device.write_zeroes(offset, len, no_hole), "zeroing without a hole");
        let extents = status(&*twin.device, offset, len);
        let allocated = extents.iter().all(|e| e.kind != ExtentKind::Hole);
        assert!(allocated, "zeroes that should stay allocated at {offset}: {extents:?}");
    }
}

fn trim(make: &MakeDevice<'_>) {
    let mut twin = Twin::filled(make);
    let block = twin.block;
    for (offset, len) in ragged_ranges(block) {
        twin.trim(offset, len, len % 2 == 0);
        twin.verify("after trimming");
        let start = offset.next_multiple_of(block);
        let end = (offset + len) / block * block;
        if start < end {
            let extents = status(&*twin.device, start, end - start);
            let holes = extents.iter().all(|e| e.kind == ExtentKind::Hole);
            assert!(holes, "trimmed blocks {start}..{end} are no holes: {extents:?}");
        }
    }
    twin.write(0, &SplitMix64::new(4).bytes(6 * block as usize), false);
    twin.verify("after writing into holes");
    twin.trim(0, SIZE, false);
    twin.verify("after trimming all");
}

fn block_status(make: &MakeDevice<'_>) {
    let mut twin = Twin::new(make);
    let block = twin.block;
    let mut random = SplitMix64::new(5);
    for index in [0, 1, 4, 7, 8, 11] {
        twin.write(index * block, &random.bytes(block as usize), false);
    }
    twin.trim(block, block, false);
    twin.zero(4 * block, block, ZeroOptions::default());
    twin.write(13 * block + 17, &[9], false);
    let mut ranges = ragged_ranges(block);
    ranges.push((0, SIZE));
    for (offset, len) in ranges {
        let mut at = offset;
        for extent in status(&*twin.device, offset, len) {
            let bytes = &twin.plain[at as usize..(at + extent.len_bytes) as usize];
            if extent.kind != ExtentKind::Data {
                let zeroes = bytes.iter().all(|&b| b == 0);
                assert!(zeroes, "{extent:?} at {at} covers bytes that are not zero");
            }
            at += extent.len_bytes;
        }
    }
}

fn flush_fua_and_prefetch_keep_contents(make: &MakeDevice<'_>) {
    let mut twin = Twin::new(make);
    ok(twin.device.flush(), "flushing a new device");
    let mut random = SplitMix64::new(6);
    for round in 0..10 {
        let offset = random.below(SIZE - 100_000);
        twin.write(offset, &random.bytes(10_000), round % 2 == 0);
        ok(twin.device.flush(), "flushing");
        ok(twin.device.prefetch(offset, 20_000), "prefetching");
        twin.trim(random.below(SIZE - 50_000), 50_000, true);
        twin.verify("after flush and prefetch");
    }
}

fn ragged_device_size(make: &MakeDevice<'_>) {
    let device = make(SIZE + 1000);
    let size = device.size_bytes();
    assert!(size >= SIZE + 1000, "{size} bytes are less than were asked for");
    let data = SplitMix64::new(7).bytes(1500);
    ok(device.write_at(size - 1500, &data, true), "writing the last bytes");
    let mut found = vec![0; 1501];
    ok(device.read_at(size - 1501, &mut found), "reading the last bytes");
    assert_same(&found[1..], &data, size - 1500, "end of a device of ragged size");
    assert_eq!(found[0], 0, "the byte before");
    assert!(device.write_at(size - 1499, &data, false).is_err(), "one byte too many");
    status(&*device, 0, size);
    ok(device.write_zeroes(size - 1500, 1500, ZeroOptions::default()), "zeroing the end");
    ok(device.read_at(size - 1501, &mut found), "reading the last bytes");
    assert_same(&found, &[0; 1501], size - 1501, "zeroed end");
}

fn threads(make: &MakeDevice<'_>) {
    const THREADS: u64 = 4;
    let twin = Twin::new(make);
    let (device, block) = (&*twin.device, twin.block);
    let half = SIZE / 2;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut random = SplitMix64::new(thread);
                // Bytes next to those of the other threads, on no common boundary.
                let share = half / THREADS;
                let (start, len) = (thread * share + thread, share - THREADS);
                for _ in 0..20 {
                    let count = random.below(3 * block.min(len / 4)) + 1;
                    let offset = start + random.below(len - count);
                    let data = random.bytes(count as usize);
                    ok(device.write_at(offset, &data, random.chance(1, 8)), "writing");
                    let mut found = vec![0; data.len()];
                    ok(device.read_at(offset, &mut found), "reading");
                    assert_same(&found, &data, offset, "own bytes beside other threads'");
                    // Whole blocks that all threads fight over.
                    let fill = vec![thread as u8 + 1; 4 * block as usize];
                    ok(device.write_at(half, &fill, false), "writing in competition");
                    ok(device.flush(), "flushing in competition");
                }
            });
        }
    });
    let mut fought = vec![0; 4 * block as usize];
    ok(device.read_at(half, &mut fought), "reading");
    for piece in fought.chunks(block as usize) {
        let whole = piece[0] > 0 && piece.iter().all(|&b| b == piece[0]);
        assert!(whole, "a block mixes two writes: {} and others", piece[0]);
    }
}

fn model(make: &MakeDevice<'_>) {
    for seed in 0..MODEL_SEEDS {
        check_model(make, seed, MODEL_STEPS);
    }
}

/// Random requests against a plain array. A failure names the seed and the step.
pub fn check_model(make: &MakeDevice<'_>, seed: u64, steps: u64) {
    let mut twin = Twin::new(make);
    let mut random = SplitMix64::new(seed);
    let block = twin.block;
    // Few distinct blocks, so that duplicates are common.
    let pool: Vec<Vec<u8>> = (0..6).map(|_| random.bytes(block as usize)).collect();
    for step in 0..steps {
        let what = format!("model seed {seed}, step {step}");
        let mut offset = random.below(SIZE);
        let len_bound = if random.chance(1, 10) { SIZE / 4 } else { 4 * block };
        let mut len = random.below(len_bound);
        if random.chance(1, 2) {
            offset = offset / block * block;
            len = len.next_multiple_of(block);
        }
        len = len.min(SIZE - offset);
        let fua = random.chance(1, 16);
        match random.below(10) {
            0..=4 => twin.write(offset, &pool_data(&mut random, &pool, len), fua),
            5 => {
                let options = ZeroOptions {
                    fua,
                    no_hole: random.chance(1, 2),
                    fast_only: random.chance(1, 4),
                };
                twin.zero(offset, len, options);
            }
            6 => twin.trim(offset, len, fua),
            7 => ok(twin.device.flush(), &what),
            8 => {
                status(&*twin.device, offset, len);
            }
            _ => ok(twin.device.prefetch(offset, len), &what),
        }
        twin.verify_range(offset, len, &what);
        if step % 16 == 0 {
            twin.verify(&what);
        }
    }
    twin.verify(&format!("model seed {seed}, at the end"));
}

fn pool_data(random: &mut SplitMix64, pool: &[Vec<u8>], len: u64) -> Vec<u8> {
    let mut data = Vec::new();
    while data.len() < len as usize {
        let index = random.below(pool.len() as u64 + 2) as usize;
        match pool.get(index) {
            Some(block) => data.extend_from_slice(block),
            None if index == pool.len() => data.resize(data.len() + pool[0].len(), 0),
            None => data.extend(random.bytes(pool[0].len())),
        }
    }
    data.truncate(len as usize);
    data
}
