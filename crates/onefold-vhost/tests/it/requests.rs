//! What a guest that keeps to the rules gets.
//! Room: onefold-vhost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_block::{BlockDevice, BlockError, Extent, MemDevice, ZeroOptions};
use vm_memory::{Bytes as _, GuestAddress};

use crate::guest::{DATA, DISCARD, FEATURE_FLUSH, FLUSH, Guest, NAME, READ, Scene, WRITE, ZEROES};

/// Counts what is made durable, and what kind of call it was.
struct Durable {
    inner: MemDevice,
    flushes: AtomicU64,
    writes_with_fua: AtomicU64,
    writes_without: AtomicU64,
}

impl Durable {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemDevice::new(1 << 20),
            flushes: AtomicU64::new(0),
            writes_with_fua: AtomicU64::new(0),
            writes_without: AtomicU64::new(0),
        })
    }

    fn counts(&self) -> (u64, u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
        (of(&self.flushes), of(&self.writes_with_fua), of(&self.writes_without))
    }
}

impl BlockDevice for Durable {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn preferred_block_bytes(&self) -> u32 {
        4096
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        assert_ne!(offset, 512 * 77, "a panic on purpose");
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        let count = if fua { &self.writes_with_fua } else { &self.writes_without };
        count.fetch_add(1, Ordering::SeqCst);
        self.inner.write_at(offset, data, fua)
    }
    fn write_zeroes(&self, at: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.inner.write_zeroes(at, len, options)
    }
    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.inner.trim(offset, len, fua)
    }
    fn flush(&self) -> Result<(), BlockError> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.inner.flush()
    }
    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.inner.block_status(offset, len)
    }
}

/// One range of a discard or a zeroing, at `DATA`.
fn range(guest: &Guest, number: u64, (sector, sectors, flags): (u64, u32, u32)) {
    let mut bytes = sector.to_le_bytes().to_vec();
    bytes.extend(sectors.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    guest.memory.write_slice(&bytes, GuestAddress(DATA + 16 * number)).unwrap();
}

#[test]
fn what_is_written_is_read_whatever_its_pieces_are() {
    let scene = Scene::of_memory(4 << 20);
    let mut guest = scene.connect();
    let pattern: Vec<u8> = (0..3_000_320u32).map(|at| (at.wrapping_mul(at) >> 5) as u8).collect();
    guest.memory.write_slice(&pattern, GuestAddress(DATA)).unwrap();
    // Longer than what is held at once, in pieces that end nowhere in particular, the header and
    // the status in pieces as well.
    let (header, status) = guest.header(40, WRITE, 3);
    let cut = [(header, 5, false), (header + 5, 11, false)];
    let data = [(DATA, 700_001, false), (DATA + 700_001, 1, false)];
    let rest = (DATA + 700_002, 3_000_320 - 700_002, false);
    guest.chain(&[cut[0], cut[1], data[0], data[1], rest, (status, 1, true)]);
    guest.kick();
    assert_eq!(guest.wait().last().unwrap().1, 1, "bytes put into the guest's memory");
    assert_eq!(guest.status(40), 0);
    let into = DATA + 0x30_0000;
    let (header, status) = guest.header(41, READ, 3);
    guest.chain(&[
        (header, 16, false),
        (into, 4097, true),
        (into + 4097, 3_000_320 - 4097, true),
        (status, 1, true),
    ]);
    guest.kick();
    assert_eq!(guest.wait().last().unwrap().1, 3_000_321);
    assert_eq!(guest.status(41), 0);
    assert!(guest.bytes(into, pattern.len()) == pattern);
}

#[test]
fn a_header_may_lie_in_one_piece_with_the_data_and_the_status_as_well() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    let (header, status) = guest.header(40, WRITE, 3);
    let mut together = vec![0; 16];
    guest.memory.read_slice(&mut together, GuestAddress(header)).unwrap();
    together.extend([1; 700]);
    guest.memory.write_slice(&together, GuestAddress(DATA)).unwrap();
    guest.fill(DATA + 4096, 324, 2);
    guest.chain(&[(DATA, 716, false), (DATA + 4096, 324, false), (status, 1, true)]);
    guest.kick();
    guest.wait();
    assert_eq!(guest.status(40), 0);
    let (header, _) = guest.header(43, READ, 3);
    guest.fill(DATA, 2048, 9);
    guest.chain(&[(header, 16, false), (DATA, 500, true), (DATA + 1024, 525, true)]);
    guest.kick();
    assert_eq!(guest.wait().last().unwrap().1, 1025);
    let read = [guest.bytes(DATA, 500), guest.bytes(DATA + 1024, 524)].concat();
    assert!(read == [vec![1; 700], vec![2; 324]].concat());
    // The status is the last byte; around it nothing was touched.
    assert_eq!(guest.bytes(DATA + 1548, 2), [0, 9]);
    assert_eq!(guest.bytes(DATA + 500, 2), [9, 9]);
}

#[test]
fn requests_that_came_together_are_answered_in_their_order_and_writes_join() {
    let device = Durable::new();
    let scene = Scene::new(Arc::clone(&device) as _, false);
    let mut guest = scene.connect();
    guest.fill(DATA, 4096, 7);
    guest.fill(DATA + 4096, 4096, 8);
    let heads = [
        guest.ask(WRITE, 8, (DATA, 4096)),
        guest.ask(WRITE, 8, (DATA + 4096, 4096)),
        guest.ask(READ, 8, (DATA + 8192, 4096)),
        guest.ask(FLUSH, 0, (0, 0)),
        guest.ask(NAME, 0, (DATA + 12288, 20)),
    ];
    guest.kick();
    let answers = guest.wait();
    let (order, used): (Vec<u16>, Vec<u32>) = answers.into_iter().unzip();
    assert_eq!(order, heads);
    assert_eq!(used, [1, 1, 4097, 1, 21]);
    assert!(heads.iter().all(|&head| guest.status(head) == 0));
    assert_eq!(guest.bytes(DATA + 8192, 4096), [8; 4096], "the later write");
    assert_eq!(guest.bytes(DATA + 12288, 20), *b"main\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(device.counts(), (1, 0, 2));
}

#[test]
fn a_guest_without_flushes_has_every_write_durable() {
    let device = Durable::new();
    let scene = Scene::new(Arc::clone(&device) as _, false);
    let mut guest = Guest::connect(&scene, |offered| offered & !FEATURE_FLUSH);
    guest.fill(DATA, 4096, 7);
    assert_eq!(guest.do_now(WRITE, 0, (DATA, 4096)), 0);
    assert_eq!(device.counts(), (0, 1, 0));
}

#[test]
fn ranges_are_discarded_and_zeroed_where_all_of_them_are_right() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    let seven = |guest: &mut Guest| {
        guest.fill(DATA, 16384, 7);
        assert_eq!(guest.do_now(WRITE, 0, (DATA, 16384)), 0);
    };
    let now = |guest: &mut Guest| {
        assert_eq!(guest.do_now(READ, 0, (DATA, 16384)), 0);
        guest.bytes(DATA, 16384).chunks(4096).map(|block| block[0]).collect::<Vec<u8>>()
    };
    seven(&mut guest);
    range(&guest, 0, (0, 8, 0));
    range(&guest, 1, (16, 8, 0));
    assert_eq!(guest.do_now(DISCARD, 0, (DATA, 32)), 0);
    assert_eq!(now(&mut guest), [0, 7, 0, 7]);
    for (flags, status) in [(0, 0), (1, 0), (2, 2)] {
        seven(&mut guest);
        range(&guest, 0, (8, 8, flags));
        assert_eq!(guest.do_now(ZEROES, 0, (DATA, 16)), status, "flags {flags}");
        assert_eq!(now(&mut guest), if status == 0 { [7, 0, 7, 7] } else { [7; 4] });
    }
    seven(&mut guest);
    range(&guest, 0, (0, 8, 0));
    range(&guest, 1, (2048, 1, 0));
    assert_eq!(guest.do_now(DISCARD, 0, (DATA, 32)), 1, "the second is past the end");
    range(&guest, 0, (0, 8, 1));
    assert_eq!(guest.do_now(DISCARD, 0, (DATA, 16)), 2, "a flag that discards do not have");
    assert_eq!(guest.do_now(DISCARD, 0, (DATA, 17)), 1);
    guest.fill(DATA, 33 * 16, 0);
    assert_eq!(guest.do_now(DISCARD, 0, (DATA, 33 * 16)), 1, "more ranges than were offered");
    guest.fill(DATA, 16384, 7);
    assert_eq!(now(&mut guest), [7; 4], "nothing of it was done");
}

#[test]
fn a_device_that_panics_fails_the_request_and_nothing_else() {
    let scene = Scene::new(Durable::new(), false);
    let mut guest = scene.connect();
    assert_eq!(guest.do_now(READ, 77, (DATA, 512)), 1);
    assert_eq!(guest.do_now(READ, 78, (DATA, 512)), 0);
}
