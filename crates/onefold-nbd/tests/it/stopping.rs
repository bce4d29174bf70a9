//! Stopping: what was received is answered, what hangs is cut off.
//! Room: onefold-nbd.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onefold_block::BlockDevice;
use onefold_nbd::ShutdownReport;
use onefold_nbd::protocol::constants::command;

use crate::device::{BLOCK, Mood, TestDevice};
use crate::raw::{Fixture, PATIENCE, wait_until};

#[test]
fn requests_in_flight_finish_and_idle_clients_are_closed() {
    let device = Arc::new(TestDevice::new(1 << 20));
    device.make_flush_wait();
    let mut fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let mut idle = fixture.ready(false);
    let mut silent = fixture.raw();
    let mut busy = fixture.ready(false);
    busy.request(command::FLUSH, 0, 1, 0, 0);
    wait_until("the flush has begun", || device.waiting.load(Ordering::SeqCst) == 1);
    let server = fixture.server.take().unwrap();
    let handle = server.handle();
    let stopping = std::thread::spawn(move || server.shutdown(PATIENCE));
    assert!(idle.is_closed());
    assert!(silent.is_closed());
    wait_until("only the busy one is left", || handle.connection_count() == 1);
    device.open_gate();
    assert_eq!(busy.simple(), (0, 1));
    assert!(busy.is_closed());
    let report = stopping.join().unwrap();
    assert_eq!(report, ShutdownReport { closed_by_force: 0, still_running: 0 });
    assert!(!fixture.socket().exists());
}

#[test]
fn a_client_that_takes_no_replies_is_cut_off() {
    let device = Arc::new(TestDevice::new(4 << 20));
    let mut fixture = Fixture::new(device);
    let mut stalled = fixture.ready(false);
    stalled.request(command::READ, 0, 1, 0, 4 << 20);
    assert_eq!(stalled.simple(), (0, 1), "the reply is on its way");
    let report = fixture.server.take().unwrap().shutdown(Duration::from_millis(50));
    assert_eq!(report, ShutdownReport { closed_by_force: 1, still_running: 0 });
}

#[test]
fn a_device_that_hangs_is_left_behind() {
    let device = Arc::new(TestDevice::new(1 << 20));
    device.set_mood(3, Mood::Wait);
    let mut fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let mut raw = fixture.ready(false);
    raw.request(command::READ, 0, 1, 3 * BLOCK, 1);
    wait_until("the read has begun", || device.waiting.load(Ordering::SeqCst) == 1);
    let report = fixture.server.take().unwrap().shutdown(Duration::from_millis(50));
    assert_eq!(report, ShutdownReport { closed_by_force: 1, still_running: 1 });
    device.open_gate();
}
