//! Clients that lie, babble or leave: they get the right error or lose their connection, and
//! nobody else notices.
//! Room: onefold-nbd.

use std::sync::Arc;

use onefold_block::BlockDevice;
use onefold_nbd::protocol::constants::{
    MAX_DRAIN_BYTES, MAX_REQUEST_BYTES, chunk, command, command_flag,
};

use crate::device::{BLOCK, Mood, TestDevice};
use crate::raw::{Fixture, Raw, option_bytes, pattern, request, wait_until};

fn fixture(size: u64) -> (Arc<TestDevice>, Fixture) {
    let device = Arc::new(TestDevice::new(size));
    let fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    (device, fixture)
}

#[test]
fn refused_requests_are_answered_and_the_next_ones_served() {
    let (_, fixture) = fixture(1 << 20);
    let mut raw = fixture.ready(false);
    for (cookie, command, offset, len, errno) in [
        (1, command::READ, 1 << 20, 1, 22),
        (2, 999, 0, 0, 22),
        (3, command::READ, 0, MAX_REQUEST_BYTES + 1, 22),
        (4, command::WRITE_ZEROES, u64::MAX, 2, 28),
        (5, command::BLOCK_STATUS, 0, 512, 22),
        (6, command::CACHE, 1 << 20, 1, 22),
    ] {
        raw.request(command, 0, cookie, offset, len);
        assert_eq!(raw.simple(), (errno, cookie));
    }
    raw.write(0, 7, (1 << 20) - 1, b"ab");
    assert_eq!(raw.simple(), (28, 7));
    raw.write(0, 8, (1 << 20) - 2, b"ab");
    assert_eq!(raw.simple(), (0, 8));
    assert_eq!(raw.read_simple((1 << 20) - 2, 2), *b"ab");
}

#[test]
fn payloads_of_refused_writes_are_thrown_away() {
    let (device, fixture) = fixture(1 << 20);
    let mut raw = fixture.ready(false);
    raw.write(0, 1, 0, &pattern(1, 3 << 20));
    assert_eq!(raw.simple(), (28, 1));
    raw.write(0, 2, 0, &pattern(2, MAX_REQUEST_BYTES as usize + 5));
    assert_eq!(raw.simple(), (22, 2));
    raw.write(command_flag::NO_HOLE, 3, 0, &pattern(3, 700));
    assert_eq!(raw.simple(), (22, 3));
    raw.write(0, 4, 9, b"kept");
    assert_eq!(raw.simple(), (0, 4));
    assert_eq!(device.contents()[..16], *b"\0\0\0\0\0\0\0\0\0kept\0\0\0");
    raw.request(command::WRITE, 0, 5, 0, MAX_DRAIN_BYTES + 1);
    assert!(raw.is_closed());
}

#[test]
fn a_refused_write_is_answered_once_all_of_its_payload_has_come() {
    let (_, fixture) = fixture(1 << 20);
    let mut raw = fixture.ready(false);
    let payload = pattern(1, 8 << 20);
    let (front, rest) = payload.split_at(payload.len() - 1);
    raw.request(command::WRITE, 0, 1, 0, payload.len() as u32);
    // No socket holds so much: once it is sent, the server has looked at the header and receives.
    raw.send(front);
    assert!(!raw.is_answered());
    raw.send(rest);
    assert_eq!(raw.simple(), (28, 1));
    raw.write(0, 2, 9, b"kept");
    assert_eq!(raw.simple(), (0, 2));
}

#[test]
fn a_read_only_export_refuses_changes() {
    let fixture = Fixture::new(Arc::new(TestDevice::read_only(1 << 20)));
    let mut raw = fixture.ready(false);
    raw.write(0, 1, 0, &pattern(1, 1 << 20));
    assert_eq!(raw.simple(), (1, 1));
    raw.request(command::TRIM, 0, 2, 0, 4096);
    assert_eq!(raw.simple(), (1, 2));
    raw.request(command::FLUSH, 0, 3, 0, 0);
    assert_eq!(raw.simple(), (0, 3));
    assert_eq!(raw.read_simple(0, 1), [0]);
}

#[test]
fn a_request_without_its_magic_ends_the_connection() {
    let (_, fixture) = fixture(1 << 20);
    let mut raw = fixture.ready(false);
    raw.request(command::READ, 0, 1, 0, 1);
    let mut bad = request(command::READ, 0, 2, 0, 1);
    bad[0] ^= 0x80;
    raw.send(&bad);
    assert!(raw.is_closed());
    assert_eq!(fixture.ready(false).read_simple(0, 1), [0]);
}

#[test]
fn a_sick_device_fails_requests_not_connections() {
    let (device, fixture) = fixture(9 << 20);
    device.write_at(0, &pattern(5, 9 << 20), false).unwrap();
    device.set_mood(300, Mood::Corrupt);
    device.set_mood(400, Mood::Panic);
    device.set_mood(500, Mood::NoSpace);
    let mut raw = fixture.ready(true);
    // The first pieces of the long read have been answered when the corrupt block is met.
    raw.request(command::READ, 0, 1, 0, 2 << 20);
    let mut told = 0;
    let error = loop {
        let piece = raw.chunk();
        if piece.kind != chunk::OFFSET_DATA {
            break piece;
        }
        assert!(!piece.done);
        told += piece.payload.len() - 8;
    };
    assert!(0 < told && told <= 300 * BLOCK as usize, "{told}");
    assert_eq!((error.kind, error.done), (chunk::ERROR_OFFSET, true));
    assert_eq!(error.payload[..4], [0, 0, 0, 5]);
    assert!(String::from_utf8_lossy(&error.payload).contains("corrupt data: LBA 300"));
    for (command, block, errno) in [
        (command::READ, 400, 5),
        (command::WRITE_ZEROES, 400, 5),
        (command::TRIM, 400, 5),
        (command::WRITE_ZEROES, 500, 28),
    ] {
        raw.request(command, 0, 2, block * BLOCK, BLOCK as u32);
        let error = raw.chunk();
        assert_eq!((error.payload[3], error.done), (errno, true), "{command} on {block}");
    }
    raw.write(0, 3, 400 * BLOCK, &pattern(1, 4096));
    assert_eq!(raw.chunk().payload[3], 5);
    raw.write(0, 4, 500 * BLOCK, &pattern(1, 4096));
    assert_eq!(raw.chunk().payload[3], 28);
    raw.request(command::READ, 0, 5, 0, 16);
    assert_eq!(raw.chunk().payload[8..], device.contents()[..16]);

    let mut simple = fixture.ready(false);
    for len in [2 << 20, 8 << 20] {
        simple.request(command::READ, 0, 6, 0, len);
        assert_eq!(simple.simple(), (5, 6), "no data before the error");
    }
    // Several writes in one batch, of which one panics: all that were in the call fail.
    let writes = (398..402).flat_map(|block| {
        let header = request(command::WRITE, 0, block, block * BLOCK, 4096);
        [&header[..], &pattern(block, 4096)].concat()
    });
    simple.send(&writes.collect::<Vec<u8>>());
    let mut errors = 0;
    for _ in 0..4 {
        errors += u32::from(simple.simple().0 == 5);
    }
    assert!(errors >= 1);
    assert_eq!(simple.read_simple(0, 1).len(), 1);
}

#[test]
fn fast_zero_that_is_not_fast_is_refused_as_such() {
    let (_, fixture) = fixture(1 << 20);
    let mut raw = fixture.ready(false);
    raw.request(command::WRITE_ZEROES, command_flag::FAST_ZERO, 1, 1, 4096);
    assert_eq!(raw.simple(), (95, 1));
    raw.request(command::WRITE_ZEROES, command_flag::FAST_ZERO, 2, 4096, 4096);
    assert_eq!(raw.simple(), (0, 2));
}

/// Leave after the first `sent` bytes of `bytes`, while another client works.
fn leave_after(fixture: &Fixture, ready: bool, bytes: &[u8], sent: usize) {
    let mut raw = if ready { fixture.ready(true) } else { Raw::connect(fixture.socket()) };
    // The server may have closed already: that is its good right.
    let _ = raw.try_send(&bytes[..sent]);
}

#[test]
fn leaving_anywhere_harms_nobody() {
    let (device, fixture) = fixture(16 << 20);
    let mut other = fixture.ready(false);
    let handshake = [3u32.to_be_bytes().to_vec(), option_bytes(7, &[0; 6])].concat();
    for sent in 0..handshake.len() {
        leave_after(&fixture, false, &handshake, sent);
    }
    let mut requests = Vec::new();
    for cookie in 0..64u64 {
        requests.extend(request(command::READ, 0, cookie, 0, 128 << 10));
        requests.extend(request(command::WRITE, 0, cookie, 1 << 20, 64 << 10));
        requests.extend(pattern(cookie, 64 << 10));
    }
    for sent in [1, 27, 28, 29, 60, 70_000, 400_000, requests.len() - 1] {
        leave_after(&fixture, true, &requests, sent);
        other.write(0, sent as u64, 0, b"still here");
        assert_eq!(other.simple(), (0, sent as u64));
    }
    // A long write of which half arrives.
    let mut raw = fixture.ready(false);
    raw.request(command::WRITE, 0, 1, 0, 12 << 20);
    raw.send(&pattern(1, 6 << 20));
    drop(raw);
    wait_until("only the other client is left", || fixture.server().connection_count() == 1);
    assert_eq!(device.waiting.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[test]
fn babble_harms_nobody() {
    let (_, fixture) = fixture(1 << 20);
    let mut other = fixture.ready(false);
    for seed in 0..200u64 {
        let noise = pattern(seed, 64 + (seed as usize * 37) % 4000);
        let mut raw = if seed % 2 == 0 { fixture.ready(seed % 4 == 0) } else { fixture.raw() };
        let magic = if seed % 2 == 0 { &b"\x25\x60\x95\x13"[..] } else { b"IHAVEOPT" };
        for piece in noise.chunks(24) {
            // Half of the pieces pass for requests or options, with random contents.
            let sent = if piece[0] & 1 == 0 { [magic, piece].concat() } else { piece.to_vec() };
            if raw.try_send(&sent).is_err() {
                break;
            }
        }
        raw.end_of_sending();
        assert!(raw.is_closed(), "seed {seed}");
        assert_eq!(other.read_simple(0, 1).len(), 1);
    }
    wait_until("only the other client is left", || fixture.server().connection_count() == 1);
}
