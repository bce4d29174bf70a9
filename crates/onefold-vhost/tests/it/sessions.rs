//! Beginnings, ends and new sizes.
//! Room: onefold-vhost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use onefold_block::{BlockDevice, BlockError, Extent, MemDevice, ZeroOptions};
use vhost::VhostBackend as _;
use vhost::vhost_user::{
    FrontendReqHandler, HandlerResult, VhostUserFrontend as _, VhostUserFrontendReqHandler,
};

use crate::guest::{
    DATA, FEATURE_EVENT_INDEX, FEATURE_PROTOCOL, Guest, READ, Scene, WRITE, all_that_is_offered,
    readable,
};

#[test]
fn a_monitor_is_told_what_there_is() {
    let scene = Scene::of_memory(3 << 20);
    let mut guest = scene.connect();
    assert_eq!(guest.frontend.get_protocol_features().unwrap(), all_that_is_offered());
    assert_eq!(guest.frontend.get_queue_num().unwrap(), 64);
    assert_eq!(guest.sectors(), 6144);
    assert_eq!(guest.config()[20..24], 512u32.to_le_bytes());
}

#[test]
fn a_source_without_a_device_serves_nobody_until_there_is_one() {
    let scene = Scene::of_memory(1 << 20);
    let device = scene.source.0.lock().unwrap().clone();
    *scene.source.0.lock().unwrap() = Err("there is no such volume".to_owned());
    let stream = std::os::unix::net::UnixStream::connect(&scene.path).unwrap();
    assert!(readable(&stream), "closed");
    *scene.source.0.lock().unwrap() = device;
    assert_eq!(scene.connect().do_now(READ, 0, (DATA, 512)), 0);
}

#[test]
fn a_queue_goes_on_where_it_was_stopped_and_so_does_a_monitor_that_connects_again() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    guest.fill(DATA, 512, 3);
    for _ in 0..5 {
        assert_eq!(guest.do_now(WRITE, 1, (DATA, 512)), 0);
    }
    let next = guest.frontend_base();
    assert_eq!(next, 5);
    let head = guest.ask(READ, 1, (DATA + 512, 512));
    guest.kick();
    assert!(guest.is_silent(), "it is stopped");
    guest.set_up(next);
    guest.kick();
    guest.wait();
    assert_eq!((guest.status(head), guest.bytes(DATA + 512, 1)), (0, vec![3]));
    // A request that was made while nobody served is there when somebody comes.
    guest.frontend.set_vring_enable(0, false).unwrap();
    let head = guest.ask(READ, 1, (DATA + 512, 512));
    guest.frontend.set_vring_enable(0, true).unwrap();
    guest.wait();
    assert_eq!(guest.status(head), 0, "without a call");
}

#[test]
fn a_queue_that_is_not_enabled_is_not_served_and_other_events_are_heard() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0);
    guest.frontend.set_vring_enable(0, false).unwrap();
    assert!(guest.is_served(), "its monitor was heard");
    let head = guest.ask(READ, 0, (DATA, 512));
    guest.kick();
    assert!(guest.is_silent());
    guest.frontend.set_vring_enable(0, true).unwrap();
    guest.wait();
    assert_eq!(guest.status(head), 0);
    guest.change_events();
    for _ in 0..2 {
        assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0);
    }
}

/// The call for an answer may have gone to what the monitor is replacing.
#[test]
fn a_new_call_event_is_signalled_once_for_answers_that_were_called_for_by_the_old_one() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    let head = guest.ask(READ, 0, (DATA, 512));
    guest.kick();
    assert!(guest.is_called());
    // Nobody has heard it.
    guest.change_events();
    assert!(guest.is_called());
    guest.wait();
    assert_eq!(guest.status(head), 0);
}

#[test]
fn each_queue_is_one_by_itself_in_whatever_order_its_parts_are_told() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    // Where it begins is told before what the guest calls with.
    for (first, queue) in [(0, 63), (1, 32), (5, 1)] {
        let next = guest.frontend_base();
        guest.frontend.set_vring_enable(guest.queue, false).unwrap();
        guest.queue = queue;
        guest.set_up_from(first, next);
        for _ in 0..2 {
            assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0, "queue {queue} from {first}");
        }
    }
}

#[test]
fn a_monitor_that_knows_nothing_of_enabling_is_served() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = Guest::connect(&scene, |features| features & !FEATURE_PROTOCOL);
    assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0);
}

#[test]
fn a_guest_that_takes_no_calls_is_served_all_the_same() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    guest.fill_call();
    for _ in 0..3 {
        guest.ask(READ, 0, (DATA, 512));
        guest.kick();
        // That it was answered is seen without a call.
        let is_answered = (0..60_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            guest.is_answered()
        });
        assert!(is_answered);
    }
    guest.frontend_base();
}

#[test]
fn a_server_that_is_stopped_or_dropped_serves_nobody_any_more() {
    for by_drop in [false, true] {
        let mut scene = Scene::of_memory(1 << 20);
        let mut guest = scene.connect();
        assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0);
        let server = scene.server.take().unwrap();
        if by_drop {
            drop(server);
        } else {
            assert_eq!(server.shutdown(Duration::from_mins(1)), 0, "who hangs");
        }
        assert!(!guest.is_served());
        // Nobody listens any more.
        std::os::unix::net::UnixStream::connect(&scene.path).unwrap_err();
    }
}

#[test]
fn indexes_of_events_are_kept_to_from_when_they_are_agreed_on() {
    let scene = Scene::of_memory(1 << 20);
    let mut features = 0;
    let mut guest = Guest::connect(&scene, |chosen| {
        features = chosen;
        chosen
    });
    assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0);
    assert_eq!(guest.must_call_from(), 0, "nobody speaks of it");
    guest.frontend.set_features(features | FEATURE_EVENT_INDEX).unwrap();
    for _ in 0..3 {
        guest.want_call_after(guest.made);
        assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0);
    }
    for _ in 0..6000 {
        if guest.must_call_from() == guest.made {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the guest is not told that it has to call");
}

#[test]
fn a_queue_that_is_served_goes_on_in_other_memory() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    guest.fill(DATA, 512, 3);
    assert_eq!(guest.do_now(WRITE, 1, (DATA, 512)), 0);
    guest.move_memory();
    assert_eq!(guest.do_now(READ, 1, (DATA + 512, 512)), 0);
    assert_eq!(guest.bytes(DATA + 512, 512), [3; 512]);
    guest.fill(DATA, 512, 4);
    assert_eq!(guest.do_now(WRITE, 1, (DATA, 512)), 0);
    assert_eq!(guest.do_now(READ, 1, (DATA + 512, 512)), 0);
    assert_eq!(guest.bytes(DATA + 512, 512), [4; 512]);
}

/// A device whose size changes, and whose reads wait.
pub struct Slow {
    inner: MemDevice,
    size: AtomicU64,
    /// How often its size was asked for.
    looks: AtomicU64,
    gate: (Mutex<bool>, Condvar),
    waiting: AtomicU64,
}

impl Slow {
    pub fn new() -> Arc<Self> {
        let gate = (Mutex::new(true), Condvar::new());
        let (inner, size) = (MemDevice::new(4 << 20), AtomicU64::new(1 << 20));
        let (looks, waiting) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { inner, size, looks, gate, waiting })
    }

    pub fn set_size(&self, bytes: u64) {
        self.size.store(bytes, Ordering::SeqCst);
    }

    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::SeqCst)
    }

    fn open_gate(&self, open: bool) {
        *self.gate.0.lock().unwrap() = open;
        self.gate.1.notify_all();
    }

    fn wait_for_reader(&self) {
        for _ in 0..6000 {
            if self.waiting.load(Ordering::SeqCst) > 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nobody reads");
    }
}

impl BlockDevice for Slow {
    fn size_bytes(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.size.load(Ordering::SeqCst)
    }
    fn preferred_block_bytes(&self) -> u32 {
        4096
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut open = self.gate.0.lock().unwrap();
        while !*open {
            open = self.gate.1.wait(open).unwrap();
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.inner.write_at(offset, data, fua)
    }
    fn write_zeroes(&self, at: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.inner.write_zeroes(at, len, options)
    }
    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.inner.trim(offset, len, fua)
    }
    fn flush(&self) -> Result<(), BlockError> {
        self.inner.flush()
    }
    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.inner.block_status(offset, len)
    }
}

/// Counts how often the configuration changed.
#[derive(Default)]
struct Changes(AtomicU64);

impl VhostUserFrontendReqHandler for Changes {
    fn handle_config_change(&self) -> HandlerResult<u64> {
        Ok(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

#[test]
fn a_new_size_is_told_and_served_at_once() {
    let device = Slow::new();
    let scene = Scene::new(Arc::clone(&device) as _, false);
    let mut guest = scene.connect();
    let changes = Arc::new(Changes::default());
    let mut backwards = FrontendReqHandler::new(Arc::clone(&changes)).unwrap();
    guest.frontend.set_backend_request_fd(&BackwardsEnd(backwards.get_tx_raw_fd())).unwrap();
    assert_eq!(guest.sectors(), 2048);
    assert_eq!(guest.do_now(READ, 2048, (DATA, 512)), 1);
    device.set_size(2 << 20);
    backwards.handle_request().unwrap();
    assert_eq!(changes.0.load(Ordering::SeqCst), 1);
    assert_eq!(guest.sectors(), 4096);
    assert_eq!(guest.do_now(READ, 2048, (DATA, 512)), 0);
    device.set_size(1 << 20);
    backwards.handle_request().unwrap();
    assert_eq!(guest.sectors(), 2048);
    assert_eq!(guest.do_now(READ, 2048, (DATA, 512)), 1);
}

struct BackwardsEnd(std::os::fd::RawFd);

impl std::os::fd::AsRawFd for BackwardsEnd {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0
    }
}

#[test]
fn a_guest_that_waits_for_its_device_keeps_nobody_waiting() {
    let device = Slow::new();
    let scene = Scene::new(Arc::clone(&device) as _, false);
    let (mut one, mut two) = (scene.connect(), scene.connect());
    device.open_gate(false);
    let head = one.ask(READ, 0, (DATA, 512));
    one.kick();
    device.wait_for_reader();
    two.fill(DATA, 512, 4);
    assert_eq!(two.do_now(WRITE, 0, (DATA, 512)), 0);
    assert!(one.is_served(), "its monitor is heard meanwhile");
    device.open_gate(true);
    one.wait();
    assert_eq!((one.status(head), one.bytes(DATA, 1)), (0, vec![4]));
}

#[test]
fn stopping_answers_what_was_taken_and_says_who_hangs() {
    let device = Slow::new();
    let mut scene = Scene::new(Arc::clone(&device) as _, false);
    let mut guest = scene.connect();
    device.open_gate(false);
    let head = guest.ask(READ, 0, (DATA, 512));
    guest.kick();
    device.wait_for_reader();
    let server = scene.server.take().unwrap();
    let handle = server.handle();
    assert_eq!(server.shutdown(Duration::from_millis(20)), 1);
    device.open_gate(true);
    guest.wait();
    assert_eq!(guest.status(head), 0, "it was taken before");
    for _ in 0..6000 {
        if handle.connection_count() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(handle.connection_count(), 0);
    assert!(!guest.is_served());
}

impl Guest {
    /// Stop the queue; which request would have been the next.
    pub fn frontend_base(&self) -> u16 {
        self.frontend.get_vring_base(self.queue).unwrap() as u16
    }
}
