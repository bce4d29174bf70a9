//! A worker on a queue that its driver fills by hand, in one thread.
//! Room: onefold-vhost.

use std::sync::Mutex as StdMutex;

use onefold_block::{
    BlockDevice, BlockError, Extent, MemDevice, SplitMix64, WriteRequest, ZeroOptions,
};
use vm_memory::GuestAddress;

use super::*;

const TABLE: u64 = 0x1000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x6000;
/// Where requests are, and how much room each has.
const AREA: u64 = 0x1_0000;
const ROOM: u64 = 0x8_0000;
/// Where what is longer than that room is.
const DATA: u64 = 0xd0_0000;
const MEMORY: usize = 16 << 20;
const ENTRIES: u16 = 256;
const DISK: u64 = 1 << 20;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const NAME: u32 = 8;
const DISCARD: u32 = 11;
const ZEROES: u32 = 13;

/// A disk that notes how durable each change was asked to be.
struct Noting {
    inner: MemDevice,
    notes: StdMutex<Vec<String>>,
}

impl Noting {
    fn note(&self, note: String) {
        self.notes.lock().unwrap().push(note);
    }

    fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap())
    }
}

impl BlockDevice for Noting {
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
        self.note(format!("write {} {fua}", data.len()));
        self.inner.write_at(offset, data, fua)
    }
    fn write_batch(&self, writes: &[WriteRequest<'_>], results: &mut Vec<Result<(), BlockError>>) {
        let lengths: Vec<usize> = writes.iter().map(|write| write.data.len()).collect();
        let all = writes.iter().all(|write| write.fua);
        self.note(format!("batch {lengths:?} {all}"));
        assert!(writes.iter().all(|write| write.offset != 512 * 77), "a panic on purpose");
        self.inner.write_batch(writes, results);
    }
    fn write_zeroes(&self, at: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        let ZeroOptions { fua, no_hole, .. } = options;
        self.note(format!("zeroes {len} {fua}{}", if no_hole { " no hole" } else { "" }));
        self.inner.write_zeroes(at, len, options)
    }
    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.note(format!("trim {len} {fua}"));
        self.inner.trim(offset, len, fua)
    }
    fn flush(&self) -> Result<(), BlockError> {
        self.note("flush".to_owned());
        self.inner.flush()
    }
    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.inner.block_status(offset, len)
    }
}

/// A driver, its queue's worker, and the disk.
struct Driver {
    worker: Worker,
    device: Arc<Noting>,
    made: u16,
    seen: u16,
    /// The next descriptor, and where the next request goes.
    next: u16,
    at: u64,
}

impl Driver {
    fn new(event_index: bool) -> Self {
        let range = [(GuestAddress(0), MEMORY)];
        let memory = Arc::new(Mapped::from_ranges(&range).unwrap());
        let mut queue = Queue::new(1024).unwrap();
        queue.try_set_size(ENTRIES).unwrap();
        queue.try_set_desc_table_address(GuestAddress(TABLE)).unwrap();
        queue.try_set_avail_ring_address(GuestAddress(AVAILABLE)).unwrap();
        queue.try_set_used_ring_address(GuestAddress(USED)).unwrap();
        queue.set_event_idx(event_index);
        queue.set_ready(true);
        let device = Arc::new(Noting { inner: MemDevice::new(DISK), notes: StdMutex::default() });
        let disk = Disk::new(Arc::clone(&device) as _, false, "a disk", "test".to_owned());
        disk.writes_through.store(false, Ordering::Relaxed);
        let event = || eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let worker = Worker {
            queue,
            memory,
            disk: Arc::new(disk),
            kick: Arc::new(event()),
            call: Arc::new(Mutex::new(Some(event()))),
            stop: Arc::new(Stop::new().unwrap()),
        };
        Self { worker, device, made: 0, seen: 0, next: 0, at: AREA }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.worker.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.worker.memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        bytes
    }

    fn half(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.bytes(at, 2).try_into().unwrap())
    }

    fn offer(&mut self, head: u16) {
        self.put(AVAILABLE + 4 + u64::from(self.made % ENTRIES) * 2, &head.to_le_bytes());
        self.made = self.made.wrapping_add(1);
        self.put(AVAILABLE + 2, &self.made.to_le_bytes());
    }

    /// Offer a chain of pieces: address, length, whether the guest reads it.
    fn chain(&mut self, pieces: &[(u64, u32, bool)]) -> u16 {
        let count = pieces.len() as u16;
        let head = if self.next + count > ENTRIES { 0 } else { self.next };
        self.next = head + count;
        for (number, &(at, len, reads)) in (head..).zip(pieces) {
            let more = u16::from(number + 1 < head + count);
            let flags = more | if reads { 2 } else { 0 };
            let halves = [flags, number + 1].map(u16::to_le_bytes).concat();
            let bytes = [&at.to_le_bytes()[..], &len.to_le_bytes(), &halves].concat();
            self.put(TABLE + u64::from(number) * 16, &bytes);
        }
        self.offer(head);
        head
    }

    /// Offer a request that lies in one piece with what it brings, and has so much room; where
    /// what it gets will be.
    fn ask(&mut self, kind: u32, sector: u64, brings: &[u8], takes: u32) -> u64 {
        let (begin, into) = self.lay_out(kind, sector, brings);
        self.chain(&[(begin, 16 + brings.len() as u32, false), (into, takes + 1, true)]);
        into
    }

    /// A request in memory, and where there is room for what it gets.
    fn lay_out(&mut self, kind: u32, sector: u64, brings: &[u8]) -> (u64, u64) {
        let begin = self.at;
        self.at += ROOM;
        if self.at + ROOM > DATA {
            self.at = AREA;
        }
        let header = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        self.put(begin, &[&header, brings].concat());
        let into = begin + ROOM / 2;
        self.put(into, &vec![0xee; 24 << 10]);
        (begin, into)
    }

    /// Have one batch done; the used lengths.
    fn run(&mut self) -> Vec<u32> {
        let mut scratch = Scratch::default();
        if self.worker.take(&mut scratch).unwrap() {
            self.worker.answer(&mut scratch).unwrap();
        }
        self.used()
    }

    fn used(&mut self) -> Vec<u32> {
        let mut lengths = Vec::new();
        while self.seen != self.half(USED + 2) {
            let slot = USED + 4 + u64::from(self.seen % ENTRIES) * 8 + 4;
            lengths.push(u32::from_le_bytes(self.bytes(slot, 4).try_into().unwrap()));
            self.seen = self.seen.wrapping_add(1);
        }
        lengths
    }

    /// How often the guest was called since this was asked.
    fn calls(&self) -> u64 {
        let mut count = [0; 8];
        let call = self.worker.call.lock().unwrap();
        let read = rustix::io::read(call.as_ref().unwrap(), &mut count);
        read.map_or(0, |_| u64::from_le_bytes(count))
    }
}

/// One range of a discard or a zeroing.
fn span(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn each_change_is_as_durable_as_a_guest_with_or_without_flushes_wants_it() {
    let long = vec![7; (1 << 20) - 512];
    for through in [false, true] {
        let mut driver = Driver::new(false);
        driver.worker.disk.writes_through.store(through, Ordering::Relaxed);
        driver.ask(WRITE, 0, &[1; 512], 0);
        driver.ask(WRITE, 1, &[2; 1024], 0);
        driver.ask(FLUSH, 0, &[], 0);
        driver.ask(DISCARD, 0, &[span(0, 1, 0), span(8, 2, 0)].concat(), 0);
        driver.ask(ZEROES, 0, &[span(0, 3, 0), span(8, 4, 1)].concat(), 0);
        assert_eq!(driver.run(), [1; 5]);
        let mut notes = vec![
            format!("batch [512, 1024] {through}"),
            "flush".to_owned(),
            format!("trim 512 {through}"),
            format!("trim 1024 {through}"),
            format!("zeroes 1536 {through} no hole"),
            format!("zeroes 2048 {through}"),
        ];
        assert_eq!(driver.device.notes(), notes);
        // Up to a MiB of writes is one call, and what is longer is done by itself.
        let begin = driver.lay_out(WRITE, 0, &[]).0;
        driver.put(DATA, &long);
        let status = (begin + 32, 1, true);
        let header = (begin, 16, false);
        let piece = |len: u32| (DATA, len, false);
        driver.chain(&[header, piece(1 << 19), status]);
        driver.chain(&[header, piece(1 << 19), status]);
        driver.chain(&[header, piece(512), status]);
        driver.chain(&[header, piece(1 << 19), piece(1 << 19), status]);
        assert_eq!(driver.run(), [1; 4]);
        let half = 1 << 19;
        notes = vec![format!("batch [{half}, {half}] {through}"), format!("batch [512] {through}")];
        notes.push(format!("batch [{}] {through}", 2 * half));
        assert_eq!(driver.device.notes(), notes);
    }
}

#[test]
fn a_write_that_is_longer_than_what_is_held_is_done_in_pieces_and_made_durable_at_its_end() {
    for through in [false, true] {
        let mut driver = Driver::new(false);
        let device = MemDevice::new(4 << 20);
        let device = Arc::new(Noting { inner: device, notes: StdMutex::default() });
        let disk = Disk::new(Arc::clone(&device) as _, false, "a disk", "test".to_owned());
        disk.writes_through.store(through, Ordering::Relaxed);
        driver.worker.disk = Arc::new(disk);
        let (begin, into) = driver.lay_out(WRITE, 0, &[]);
        let piece = (DATA, 1 << 20, false);
        driver.chain(&[(begin, 16, false), piece, piece, (begin, 512, false), (into, 1, true)]);
        assert_eq!((driver.run(), driver.bytes(into, 1)), (vec![1], vec![0]));
        let mut notes = vec!["write 1048576 false", "write 1048576 false", "write 512 false"];
        notes.extend(through.then_some("flush"));
        assert_eq!(device.notes(), notes);
    }
}

#[test]
fn requests_do_the_same_whatever_pieces_they_are_cut_into() {
    let mut random = SplitMix64::new(11);
    let mut driver = Driver::new(false);
    let mut plain = vec![0; DISK as usize];
    for round in 0..150 {
        let mut expected = Vec::new();
        for _ in 0..=random.below(4) {
            let kind = [READ, WRITE, WRITE, FLUSH, NAME, DISCARD, ZEROES][random.below(7) as usize];
            // Of what is discarded, whole blocks read as zeroes.
            let unit = if kind == DISCARD { 8 } else { 1 };
            let mut sector = || random.below(2000 / unit) * unit;
            let (sector, other) = (sector(), sector());
            let sectors = (random.below(40 / unit) + 1) * unit;
            let range = sector as usize * 512..(sector + sectors) as usize * 512;
            let spans = [span(sector, sectors as u32, 0), span(other, unit as u32, 0)].concat();
            let (brings, gets) = match kind {
                READ => (vec![], plain[range.clone()].to_vec()),
                WRITE => (random.bytes(sectors as usize * 512), vec![]),
                NAME => (vec![], b"a disk\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
                FLUSH => (vec![], vec![]),
                _ => (spans, vec![]),
            };
            if kind == WRITE {
                plain[range.clone()].copy_from_slice(&brings);
            }
            if kind == DISCARD || kind == ZEROES {
                plain[range].fill(0);
                plain[other as usize * 512..][..unit as usize * 512].fill(0);
            }
            let (begin, into) = driver.lay_out(kind, sector, &brings);
            // The status is at the end of the room for what is read.
            let mut pieces = cut(&mut random, begin, 16 + brings.len() as u32, false);
            pieces.extend(cut(&mut random, into, gets.len() as u32 + 1, true));
            driver.chain(&pieces);
            expected.push((into, gets));
        }
        let lengths: Vec<u32> = expected.iter().map(|(_, gets)| gets.len() as u32 + 1).collect();
        assert_eq!(driver.run(), lengths, "round {round}");
        for (into, gets) in expected {
            let found = driver.bytes(into, gets.len() + 2);
            assert!(found[..gets.len()] == gets, "round {round}");
            assert_eq!(found[gets.len()..], [0, 0xee], "round {round}: its status, and no more");
        }
    }
    let mut found = vec![0; plain.len()];
    driver.device.inner.read_at(0, &mut found).unwrap();
    assert!(found == plain);
}

/// Pieces that lie behind each other, some of them of no bytes.
fn cut(random: &mut SplitMix64, mut at: u64, len: u32, reads: bool) -> Vec<(u64, u32, bool)> {
    let end = at + u64::from(len);
    let mut pieces = Vec::new();
    while at < end {
        let most = [1, 20, 600, u64::MAX][random.below(4) as usize].min(end - at);
        let piece = if pieces.len() == 6 { end - at } else { random.below(most + 1) };
        pieces.push((at, piece as u32, reads));
        at += piece;
    }
    if random.below(3) == 0 {
        pieces.push((at, 0, reads));
    }
    pieces
}

#[test]
fn a_batch_has_64_requests_and_what_one_takes_is_not_kept_for_the_next() {
    let mut driver = Driver::new(false);
    driver.ask(READ, 0, &[], 512);
    let head = 0;
    (1..130).for_each(|_| driver.offer(head));
    let mut scratch = Scratch::default();
    for requests in [64, 64, 2, 0] {
        assert_eq!(driver.worker.take(&mut scratch).unwrap(), requests > 0);
        assert_eq!((scratch.requests.len(), scratch.pieces.len()), (requests, 2 * requests));
        driver.worker.answer(&mut scratch).unwrap();
        assert_eq!(driver.used().len(), requests);
    }
}

#[test]
fn a_worker_that_is_to_stop_answers_what_it_took_and_says_which_is_the_next() {
    for (asked, next) in [(true, 64), (false, 100)] {
        let mut driver = Driver::new(false);
        driver.ask(READ, 0, &[], 512);
        (1..100).for_each(|_| driver.offer(0));
        if asked {
            driver.worker.stop.ask();
        }
        driver.worker.drain(&mut Scratch::default()).unwrap();
        assert_eq!(driver.used().len(), next);
        assert_eq!(usize::from(driver.worker.queue.next_avail()), next);
        // While it works it need not be called; once it has found nothing, it has to be.
        assert_eq!(driver.half(USED), u16::from(asked));
        driver.worker.stop.ask();
        assert!(!driver.worker.wait().unwrap());
    }
}

#[test]
fn a_call_is_taken_once_and_one_that_cannot_be_read_is_an_error() {
    let mut driver = Driver::new(false);
    for _ in 0..2 {
        rustix::io::write(&*driver.worker.kick, &1u64.to_le_bytes()).unwrap();
        assert!(driver.worker.wait().unwrap());
    }
    assert!(rustix::io::read(&*driver.worker.kick, &mut [0; 8]).is_err(), "it was read");
    let (end, other) = std::os::unix::net::UnixStream::pair().unwrap();
    drop(other);
    driver.worker.kick = Arc::new(end.into());
    let broken = driver.worker.wait().unwrap_err();
    assert!(matches!(broken, Broken::Kick(rustix::io::Errno::PIPE)), "{broken}");
}

#[test]
fn a_guest_is_called_for_each_128_kib_it_gets_and_at_the_end() {
    let mut driver = Driver::new(false);
    for (len, count, calls) in [(512, 1, 1), (512, 60, 1), (64 << 10, 5, 3), (128 << 10, 2, 3)] {
        let (begin, into) = driver.lay_out(READ, 0, &[]);
        for _ in 0..count {
            driver.chain(&[(begin, 16, false), (into, len + 1, true)]);
        }
        assert_eq!(driver.run(), vec![len + 1; count]);
        assert_eq!(driver.calls(), calls, "{count} times {len} bytes");
    }
}

#[test]
fn a_guest_that_says_how_far_is_called_there_and_told_when_to_call() {
    let mut driver = Driver::new(true);
    let (used_event, available_event) =
        (AVAILABLE + 4 + 2 * u64::from(ENTRIES), USED + 4 + 8 * u64::from(ENTRIES));
    driver.put(used_event, &2u16.to_le_bytes());
    for (made, calls) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
        driver.ask(READ, 0, &[], 512);
        driver.worker.drain(&mut Scratch::default()).unwrap();
        assert_eq!((driver.calls(), driver.half(available_event)), (calls, made));
    }
}

#[test]
fn a_queue_that_has_requests_and_gives_none_is_left() {
    let mut driver = Driver::new(false);
    // More than it can hold.
    driver.put(AVAILABLE + 2, &(ENTRIES + 1).to_le_bytes());
    assert!(matches!(driver.worker.drain(&mut Scratch::default()), Err(Broken::Queue(_))));
    assert_eq!(driver.used(), [0; 0]);
}

#[test]
fn what_goes_wrong_is_counted_once_for_each_request() {
    let mut driver = Driver::new(false);
    driver.ask(READ, DISK / 512, &[], 512);
    driver.ask(READ, 0, &[], 512);
    driver.ask(99, 0, &[], 512);
    driver.ask(WRITE, 0, &[0; 512], 0);
    let (begin, into) = driver.lay_out(WRITE, 0, &[]);
    driver.chain(&[(begin, 16, false), (MEMORY as u64, 512, false), (into, 1, true)]);
    assert_eq!(driver.run(), [1, 513, 1, 1, 1]);
    assert_eq!(driver.worker.disk.failures(), 3);
    assert_eq!(driver.bytes(into, 1), [1]);
    // One whose status cannot be told was given nothing.
    let (begin, into) = driver.lay_out(READ, 0, &[]);
    driver.chain(&[(begin, 16, false), (into, 512, true), (MEMORY as u64, 1, true)]);
    assert_eq!((driver.run(), driver.bytes(into, 1)), (vec![0], vec![0]));
    // A device that panics fails all that it was given at once, and is asked again.
    let ends: Vec<u64> = [76, 77, 78].map(|at| driver.ask(WRITE, at, &[1; 512], 0)).to_vec();
    assert_eq!(driver.run(), [1; 3]);
    assert!(ends.iter().all(|&end| driver.bytes(end, 1) == [1]));
    let end = driver.ask(WRITE, 76, &[1; 512], 0);
    assert_eq!((driver.run(), driver.bytes(end, 1)), (vec![1], vec![0]));
    assert_eq!(driver.worker.disk.failures(), 4);
    let end = driver.ask(READ, 77, &[], 512) + 512;
    assert_eq!((driver.run(), driver.bytes(end, 1)), (vec![1], vec![1]));
    assert_eq!(driver.worker.disk.failures(), 5);
    // A queue that is no longer served counts as well.
    let disk = Arc::clone(&driver.worker.disk);
    driver.put(AVAILABLE + 2, &(driver.made + ENTRIES + 1).to_le_bytes());
    let made = driver.made;
    driver.worker.stop.ask();
    assert_eq!((driver.worker.run(), disk.failures()), (made, 6));
}

#[test]
fn a_bell_is_heard_once_it_was_rung_and_not_before() {
    let stop = Stop::new().unwrap();
    assert!(!stop.is_asked() && rustix::io::read(&stop.bell, &mut [0; 8]).is_err());
    stop.ask();
    assert!(stop.is_asked() && rustix::io::read(&stop.bell, &mut [0; 8]).is_ok());
}

/// Counts what is told.
#[derive(Clone, Default)]
struct Told(Arc<std::sync::atomic::AtomicU64>);

impl tracing::Subscriber for Told {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_guest_whose_requests_fail_again_and_again_does_not_fill_the_log() {
    let (told, mut driver) = (Told::default(), Driver::new(false));
    tracing::subscriber::with_default(told.clone(), || {
        driver.ask(READ, DISK, &[], 512);
        (1..200).for_each(|_| driver.offer(0));
        driver.worker.drain(&mut Scratch::default()).unwrap();
    });
    // The 1st, 2nd, 4th and so on up to the 128th.
    assert_eq!((driver.used().len(), told.0.load(Ordering::SeqCst)), (200, 8));
}
