//! Many requests at once on one connection: all answered, in any order, none in another's way.
//! Room: onefold-nbd.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_block::BlockDevice;
use onefold_nbd::protocol::constants::{command, command_flag};

use crate::device::{BLOCK, Mood, TestDevice};
use crate::raw::{Fixture, pattern, request, wait_until};

fn fixture(size: u64) -> (Arc<TestDevice>, Fixture) {
    let device = Arc::new(TestDevice::new(size));
    let fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    (device, fixture)
}

#[test]
fn a_slow_flush_holds_nothing_up() {
    let (device, fixture) = fixture(1 << 20);
    device.make_flush_wait();
    let mut raw = fixture.ready(false);
    raw.request(command::FLUSH, 0, 1, 0, 0);
    wait_until("the flush has begun", || device.waiting.load(Ordering::SeqCst) == 1);
    raw.write(0, 2, 0, b"meanwhile");
    assert_eq!(raw.simple(), (0, 2));
    assert_eq!(raw.read_simple(0, 9), *b"meanwhile");
    device.open_gate();
    assert_eq!(raw.simple(), (0, 1));
}

#[test]
fn slow_reads_that_arrive_together_are_done_at_once() {
    let (device, fixture) = fixture(1 << 20);
    let mut raw = fixture.ready(false);
    device.slow.store(true, Ordering::SeqCst);
    for _ in 0..16 {
        assert_eq!(raw.read_simple(0, 1), [0]);
    }
    device.set_mood(10, Mood::Together);
    device.set_mood(20, Mood::Together);
    raw.send(&[10, 20].map(|at| request(command::READ, 0, at, at * BLOCK, 1)).concat());
    for _ in 0..2 {
        assert_eq!(raw.simple().0, 0, "one waited for the other to end");
        raw.bytes(1);
    }
}

#[test]
fn slow_writes_that_join_are_split_in_two() {
    let (device, fixture) = fixture(1 << 20);
    let mut raw = fixture.ready(false);
    device.slow.store(true, Ordering::SeqCst);
    for cookie in 0..16 {
        raw.write(0, cookie, 0, &[1; 4096]);
        assert_eq!(raw.simple(), (0, cookie));
    }
    device.set_mood(12, Mood::Together);
    device.set_mood(42, Mood::Together);
    let writes = (10..44).flat_map(|at| {
        let header = request(command::WRITE, 0, at, at * BLOCK, 4096);
        [&header[..], &[2; 4096]].concat()
    });
    raw.send(&writes.collect::<Vec<u8>>());
    let answers: Vec<u32> = (10..44).map(|_| raw.simple().0).collect();
    assert_eq!(answers, [0; 34], "one half waited for the other");
}

#[test]
fn flushes_that_wait_are_done_together() {
    let (device, fixture) = fixture(1 << 20);
    device.make_flush_wait();
    let mut raw = fixture.ready(false);
    // As many as there are helpers begin one by one; the rest queue up behind them.
    for cookie in 0..8 {
        raw.request(command::FLUSH, 0, cookie, 0, 0);
        let begun = cookie as usize + 1;
        wait_until("it has begun", || device.waiting.load(Ordering::SeqCst) == begun);
    }
    for cookie in 8..40 {
        raw.request(command::FLUSH, 0, cookie, 0, 0);
    }
    raw.write(0, 100, 0, b"x");
    assert_eq!(raw.simple(), (0, 100));
    device.open_gate();
    let mut cookies: Vec<u64> = (0..40).map(|_| raw.simple().1).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..40).collect::<Vec<u64>>());
    assert!(device.flushes.load(Ordering::SeqCst) < 40);
}

#[test]
fn durable_writes_and_zeroes_wait_on_their_own() {
    let (device, fixture) = fixture(1 << 20);
    device.set_mood(9, Mood::Wait);
    let mut raw = fixture.ready(false);
    raw.write(command_flag::FUA, 1, 9 * BLOCK, &pattern(1, 4096));
    raw.request(command::WRITE_ZEROES, command_flag::FUA, 2, 9 * BLOCK, 4096);
    wait_until("both wait", || device.waiting.load(Ordering::SeqCst) == 2);
    assert_eq!(raw.read_simple(0, 1), [0]);
    device.open_gate();
    let answers =
        BTreeMap::from([raw.simple(), raw.simple()].map(|(errno, cookie)| (cookie, errno)));
    assert_eq!(answers, BTreeMap::from([(1, 0), (2, 0)]));
    assert_eq!(device.fua_writes.load(Ordering::SeqCst), 1);
}

#[test]
fn every_request_in_a_flood_is_answered_once_with_its_own_data() {
    let (device, fixture) = fixture(8 << 20);
    device.write_at(0, &pattern(3, 8 << 20), false).unwrap();
    let contents = device.contents();
    let mut raw = fixture.ready(false);
    let mut flood = Vec::new();
    for cookie in 0..2000u64 {
        // Reads below 4 MiB, writes above: neither disturbs the other.
        flood.extend(request(command::READ, 0, cookie, cookie * 1777, 100));
        flood.extend(request(command::WRITE, 0, cookie + 10_000, (4 << 20) + cookie * 512, 512));
        flood.extend(pattern(cookie, 512));
    }
    raw.request(command::FLUSH, 0, 50_000, 0, 0);
    let mut writer = raw.another_hand();
    let sending = std::thread::spawn(move || writer.send(&flood));
    let mut seen = BTreeMap::new();
    for _ in 0..4001 {
        let (errno, cookie) = raw.simple();
        assert_eq!(errno, 0);
        if cookie < 2000 {
            let at = cookie as usize * 1777;
            assert_eq!(raw.bytes(100), contents[at..at + 100], "read {cookie}");
        }
        *seen.entry(cookie).or_insert(0) += 1;
    }
    sending.join().unwrap();
    assert_eq!(seen.len(), 4001);
    assert!(seen.values().all(|&count| count == 1));
    let contents = device.contents();
    for cookie in 0..2000usize {
        let at = (4 << 20) + cookie * 512;
        assert_eq!(contents[at..at + 512], pattern(cookie as u64, 512));
    }
}

#[test]
fn nothing_comes_between_the_pieces_of_a_long_simple_reply() {
    let (device, fixture) = fixture(9 << 20);
    device.write_at(0, &pattern(4, 9 << 20), false).unwrap();
    let contents = device.contents();
    let mut raw = fixture.ready(false);
    let mut writer = raw.another_hand();
    let sending = std::thread::spawn(move || {
        for cookie in 0..8 {
            writer.request(command::FLUSH, 0, 100 + cookie, 0, 0);
            writer.request(command::READ, 0, cookie, cookie, 9 << 20 >> 1);
            writer.request(command::CACHE, 0, 200 + cookie, 0, 512);
        }
    });
    for _ in 0..24 {
        let (errno, cookie) = raw.simple();
        assert_eq!(errno, 0);
        if cookie < 100 {
            let at = cookie as usize;
            assert!(raw.bytes(9 << 20 >> 1) == contents[at..at + (9 << 20 >> 1)]);
        }
    }
    sending.join().unwrap();
}

#[test]
fn requests_of_every_length_keep_their_bytes() {
    let (device, fixture) = fixture(40 << 20);
    for structured in [false, true] {
        let mut raw = fixture.ready(structured);
        for (seed, offset, len) in [
            (1, 0, 1),
            (2, 4095, 2),
            (3, 513, 128 << 10),
            (4, 77, (1 << 20) + 1),
            (5, 4096, 4 << 20),
            (6, 1, (4 << 20) + 1),
            (7, 123_457, 32 << 20),
        ] {
            let data = pattern(seed, len);
            let flags = if seed % 2 == 0 { command_flag::FUA } else { 0 };
            raw.write(flags, seed, offset, &data);
            assert_eq!(raw.simple(), (0, seed));
            let at = offset as usize;
            assert!(device.contents()[at..at + len] == data[..], "written {len} at {offset}");
            if structured {
                raw.request(command::READ, 0, 1, offset, len as u32);
                let mut read = Vec::new();
                loop {
                    let chunk = raw.chunk();
                    assert_eq!(chunk.payload[..8], (offset + read.len() as u64).to_be_bytes());
                    read.extend_from_slice(&chunk.payload[8..]);
                    if chunk.done {
                        break;
                    }
                }
                assert!(read == data, "read {len} at {offset}");
            } else {
                assert!(raw.read_simple(offset, len as u32) == data, "read {len} at {offset}");
            }
        }
    }
    assert!(device.flushes.load(Ordering::SeqCst) >= 2, "a long durable write flushes");
}

#[test]
fn a_goodbye_is_taken_after_what_came_before_it() {
    let (device, fixture) = fixture(1 << 20);
    device.make_flush_wait();
    let mut raw = fixture.ready(false);
    raw.request(command::FLUSH, 0, 1, 0, 0);
    raw.write(0, 2, 0, b"last words");
    raw.request(command::DISC, 0, 3, 0, 0);
    assert_eq!(raw.simple(), (0, 2));
    device.open_gate();
    assert_eq!(raw.simple(), (0, 1));
    assert!(raw.is_closed());
    assert_eq!(device.contents()[..10], *b"last words");
}

#[test]
fn a_long_durable_write_is_flushed_before_its_answer_and_one_that_is_not_durable_is_not() {
    let (device, fixture) = fixture(8 << 20);
    let mut raw = fixture.ready(false);
    let data = pattern(5, 5 << 20);
    raw.write(0, 1, 4096, &data);
    assert_eq!((raw.simple(), device.flushes.load(Ordering::SeqCst)), ((0, 1), 0));
    raw.write(command_flag::FUA, 2, 4096, &data);
    assert_eq!((raw.simple(), device.flushes.load(Ordering::SeqCst)), ((0, 2), 1));
    assert!(device.contents()[4096..][..5 << 20] == data[..]);
}

#[test]
fn after_a_piece_of_a_long_write_that_failed_no_other_is_written() {
    let (device, fixture) = fixture(8 << 20);
    device.set_mood(0, Mood::NoSpace);
    let mut raw = fixture.ready(false);
    raw.write(0, 1, 0, &pattern(6, 5 << 20));
    assert_ne!(raw.simple().0, 0);
    assert!(device.contents().iter().all(|&byte| byte == 0));
    assert_eq!(raw.read_simple(4096, 1), [0], "the connection goes on");
}

#[test]
fn a_durable_write_between_others_is_the_only_durable_one() {
    let (device, fixture) = fixture(1 << 20);
    let mut raw = fixture.ready(false);
    let writes = [0, command_flag::FUA, 0].into_iter().zip(1..).map(|(flags, at)| {
        let header = request(command::WRITE, flags, at, at * BLOCK, 4096);
        [&header[..], &[3; 4096]].concat()
    });
    raw.send(&writes.collect::<Vec<_>>().concat());
    for _ in 0..3 {
        assert_eq!(raw.simple().0, 0);
    }
    assert_eq!(device.fua_writes.load(Ordering::SeqCst), 1);
}
