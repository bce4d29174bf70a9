//! Which thread does what, and how much at once: limits of helpers, batches and halves.
//! Room: onefold-nbd.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_block::BlockDevice;
use onefold_nbd::protocol::constants::{command, command_flag};

use crate::device::{BLOCK, Mood, TestDevice};
use crate::raw::{Fixture, Raw, request, wait_until};

fn fixture() -> (Arc<TestDevice>, Fixture) {
    let device = Arc::new(TestDevice::new(4 << 20));
    let fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    (device, fixture)
}

/// Writes of one block each, all of which arrive at once.
fn send_writes(raw: &mut Raw, count: u64, len: u32) {
    let writes = (0..count).flat_map(|at| {
        let header = request(command::WRITE, 0, at, at * BLOCK, len);
        [&header[..], &vec![2; len as usize]].concat()
    });
    raw.send(&writes.collect::<Vec<u8>>());
    for _ in 0..count {
        assert_eq!(raw.simple().0, 0);
    }
}

/// Let the connection find out that the device is slow.
fn make_slow(device: &TestDevice, raw: &mut Raw) {
    device.slow.store(true, Ordering::SeqCst);
    for cookie in 0..16 {
        assert_eq!(raw.read_simple(0, 1), [0]);
        raw.write(0, cookie, 4096, &[1; 4096]);
        assert_eq!(raw.simple(), (0, cookie));
    }
}

#[test]
fn a_slow_request_goes_to_a_helper_only_if_another_waits_behind_it() {
    let (device, fixture) = fixture();
    let mut raw = fixture.ready(false);
    make_slow(&device, &mut raw);
    assert_eq!(device.calls_by_receivers.load(Ordering::SeqCst), 32, "each of them was alone");
    raw.send(&[1, 2, 3].map(|at| request(command::READ, 0, at, at * BLOCK, 1)).concat());
    for _ in 0..3 {
        raw.simple();
        raw.bytes(1);
    }
    assert_eq!(device.calls_by_receivers.load(Ordering::SeqCst), 33, "the last is nobody's way");
}

#[test]
fn more_than_sixteen_slow_writes_are_split_and_sixteen_are_not() {
    let (device, fixture) = fixture();
    let mut raw = fixture.ready(false);
    make_slow(&device, &mut raw);
    send_writes(&mut raw, 16, 4096);
    assert_eq!(*device.batches.lock().unwrap(), [16]);
    send_writes(&mut raw, 17, 4096);
    let mut batches = device.batches.lock().unwrap().split_off(1);
    batches.sort_unstable();
    assert_eq!(batches, [8, 9]);
}

#[test]
fn a_batch_has_at_most_256_requests() {
    let (device, fixture) = fixture();
    let mut raw = fixture.ready(false);
    send_writes(&mut raw, 300, 1);
    assert_eq!(device.batches.lock().unwrap()[0], 256);
}

#[test]
fn eight_helpers_work_64_requests_wait_and_the_next_is_the_receivers() {
    let (device, fixture) = fixture();
    device.set_mood(9, Mood::Wait);
    let mut raw = fixture.ready(false);
    let trim = |cookie| request(command::TRIM, command_flag::FUA, cookie, 9 * BLOCK, 4096);
    raw.send(&(0..8).flat_map(trim).collect::<Vec<u8>>());
    wait_until("all helpers are at work", || device.waiting.load(Ordering::SeqCst) == 8);
    raw.send(&(8..72).flat_map(trim).collect::<Vec<u8>>());
    assert_eq!(raw.read_simple(0, 1), [0], "all of them wait for a helper");
    let calls = || device.calls_by_receivers.load(Ordering::SeqCst);
    assert_eq!(calls(), 1, "the read's");
    raw.send(&trim(72));
    wait_until("the receiver does it", || calls() == 2);
    device.open_gate();
    let mut cookies: Vec<u64> = (0..73).map(|_| raw.simple().1).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..73).collect::<Vec<u64>>());
}

#[test]
fn helpers_hold_sixteen_mebibytes_and_no_byte_more() {
    let (device, fixture) = fixture();
    device.set_mood(0, Mood::Wait);
    let mut raw = fixture.ready(false);
    for cookie in 0..16 {
        raw.write(command_flag::FUA, cookie, 0, &vec![7; 1 << 20]);
    }
    let at = 3 << 20;
    assert_eq!(raw.read_simple(at, 1), [0], "helpers hold all of it");
    let calls = || device.calls_by_receivers.load(Ordering::SeqCst);
    assert_eq!(calls(), 1, "the read's");
    raw.write(command_flag::FUA, 16, 0, &[7]);
    wait_until("the receiver does it", || calls() == 2);
    device.open_gate();
    for _ in 0..17 {
        assert_eq!(raw.simple().0, 0);
    }
}
