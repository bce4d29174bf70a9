//! What a monitor gets that says what makes no sense.
//! Room: onefold-vhost.

use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::guest::{DATA, READ, Scene, readable, sealed};
use crate::sessions::Slow;

/// A message: number, flags, payload.
fn message(ask: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [ask, flags, payload.len() as u32].map(u32::to_le_bytes).concat();
    bytes.extend(payload);
    bytes
}

fn send(stream: &UnixStream, bytes: &[u8], files: &[OwnedFd]) {
    let files: Vec<BorrowedFd<'_>> = files.iter().map(OwnedFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    }
    sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
}

/// Whether the server closes the connection, and whether it says before that it failed.
fn ends(mut stream: &UnixStream) -> Option<Vec<u8>> {
    let mut said = Vec::new();
    let mut piece = [0; 64];
    while readable(&stream) {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return Some(said),
            Ok(count) => said.extend(&piece[..count]),
        }
    }
    None
}

#[test]
fn messages_that_make_no_sense_end_their_session_and_no_other() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    let region = |guest: u64, bytes: u64, offset: u64| {
        let mut payload = [1u32, 0].map(u32::to_le_bytes).concat();
        for field in [guest, bytes, 0x7000_0000, offset] {
            payload.extend(field.to_le_bytes());
        }
        message(5, 1, &payload)
    };
    let pair = |first: u32, second: u32| [first, second].map(u32::to_le_bytes).concat();
    let unsealed = || {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        OwnedFd::from(file)
    };
    let cases: Vec<(&str, Vec<u8>, Vec<OwnedFd>)> = vec![
        ("another version", message(1, 2, &[]), vec![]),
        ("an answer", message(1, 5, &[]), vec![]),
        ("too long", message(2, 1, &[0; 513]), vec![]),
        ("an endless one", [2, 1, u32::MAX].map(u32::to_le_bytes).concat(), vec![]),
        ("not offered", message(6, 1, &[0; 8]), vec![]),
        ("no such", message(4711, 1, &[]), vec![]),
        ("cut short", message(2, 1, &[0; 7]), vec![]),
        ("all features", message(2, 1, &[0xff; 8]), vec![]),
        ("all features of the protocol", message(16, 1, &[0xff; 8]), vec![]),
        ("a queue of 3", message(8, 1, &pair(0, 3)), vec![]),
        ("a queue of 0", message(8, 1, &pair(0, 0)), vec![]),
        ("a queue of 2048", message(8, 1, &pair(0, 2048)), vec![]),
        ("the 65th queue", message(8, 1, &pair(64, 128)), vec![]),
        ("queue 4294967295", message(18, 1, &pair(u32::MAX, 1)), vec![]),
        ("a region without a file", region(0, 4096, 0), vec![]),
        ("a region that is longer than its file", region(0, 1 << 21, 0), vec![sealed(1 << 20)]),
        ("a region of nothing", region(0, 0, 0), vec![sealed(1 << 20)]),
        ("a region that wraps around", region(u64::MAX, 4096, 0), vec![sealed(1 << 20)]),
        ("a region past its file", region(0, 4096, u64::MAX - 4096), vec![sealed(1 << 20)]),
        ("a file that may be cut", region(0, 4096, 0), vec![unsealed()]),
        ("more files than regions", region(0, 4096, 0), vec![sealed(4096), sealed(4096)]),
        ("nine files", message(1, 1, &[]), (0..9).map(|_| sealed(4096)).collect()),
        (
            "a huge part of the configuration",
            {
                let fields = [0u32, u32::MAX, 0].map(u32::to_le_bytes).concat();
                message(24, 1, &fields)
            },
            vec![],
        ),
    ];
    for (what, bytes, files) in cases {
        let stream = UnixStream::connect(&scene.path).unwrap();
        send(&stream, &bytes, &files);
        assert_eq!(ends(&stream).as_deref(), Some(&[] as &[u8]), "{what}");
        assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0, "{what}");
    }
}

#[test]
fn who_asks_for_an_answer_hears_how_it_ended() {
    let scene = Scene::of_memory(1 << 20);
    let mut stream = UnixStream::connect(&scene.path).unwrap();
    // REPLY_ACK, with a wish for an answer before it is agreed on, and the end of the configuration
    // with what later ones have behind it; then a queue of 128 entries, with such a wish and
    // without, and one of 3.
    stream.write_all(&message(16, 1 | 8, &8u64.to_le_bytes())).unwrap();
    // Eight files may come along, needed or not.
    let files: Vec<OwnedFd> = (0..8).map(|_| sealed(4096)).collect();
    send(&stream, &message(3, 1, &[]), &files);
    // As much of it as a message holds.
    let whole = [0u32, 500, 0].map(u32::to_le_bytes).concat();
    stream.write_all(&message(24, 1, &[&whole[..], &[9; 500]].concat())).unwrap();
    let mut found = vec![0; 12 + 512];
    stream.read_exact(&mut found).unwrap();
    assert!(found[..24] == message(24, 1 | 4, &[&whole[..], &[0; 500]].concat())[..24]);
    assert_eq!(found[12 + 12 + 60..], [0; 440]);
    let asked = [50u32, 20, 0].map(u32::to_le_bytes).concat();
    stream.write_all(&message(24, 1, &[&asked[..], &[9; 20]].concat())).unwrap();
    let some = [0u32, 128].map(u32::to_le_bytes).concat();
    stream.write_all(&message(8, 1 | 8, &some)).unwrap();
    stream.write_all(&message(8, 1, &some)).unwrap();
    for entries in [1u32, 1024] {
        stream.write_all(&message(8, 1, &[0, entries].map(u32::to_le_bytes).concat())).unwrap();
    }
    let three = [0u32, 3].map(u32::to_le_bytes).concat();
    stream.write_all(&message(8, 1 | 8, &three)).unwrap();
    let space = [0x40, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let expected = [
        message(24, 1 | 4, &[&asked[..], &space].concat()),
        message(8, 1 | 4, &0u64.to_le_bytes()),
        message(8, 1 | 4, &1u64.to_le_bytes()),
    ];
    assert_eq!(ends(&stream), Some(expected.concat()));
}

#[test]
fn a_monitor_that_does_not_hear_what_it_is_told_is_served_all_the_same() {
    let device = Slow::new();
    let scene = Scene::new(Arc::clone(&device) as _, false);
    let mut stream = UnixStream::connect(&scene.path).unwrap();
    // BACKEND_REQ and CONFIG, and a way back that has no room left.
    stream.write_all(&message(16, 1, &(1u64 << 5 | 1 << 9).to_le_bytes())).unwrap();
    let (mut full, _other) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while full.write(&[0; 4096]).is_ok() {}
    while full.write(&[0; 1]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    send(&stream, &message(21, 1, &[]), &[full.into()]);
    device.set_size(2 << 20);
    // It is looked at again and again.
    let looks = device.looks();
    assert!((0..6000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        device.looks() >= looks + 2
    }));
    stream.write_all(&message(1, 1, &[])).unwrap();
    assert!(readable(&stream));
}

#[test]
fn a_queue_elsewhere_ends_the_session_before_anything_is_read() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    let places = vhost::VringConfigData {
        queue_max_size: 128,
        queue_size: 128,
        flags: 0,
        desc_table_addr: 0x1000,
        used_ring_addr: 0x2000,
        avail_ring_addr: 0x3000,
        log_addr: None,
    };
    // Its answer is not waited for, so that it may arrive before the end is seen.
    let _ = vhost::VhostBackend::set_vring_addr(&guest.frontend, 0, &places);
    assert!(!guest.is_served());
    let mut other = scene.connect();
    assert_eq!(other.do_now(READ, 0, (DATA, 512)), 0);
}

#[test]
fn more_monitors_than_may_come_are_closed_and_places_come_free() {
    let scene = Scene::of_memory(1 << 20);
    let mut guests: Vec<_> = (0..3).map(|_| scene.connect()).collect();
    let fourth = UnixStream::connect(&scene.path).unwrap();
    assert_eq!(ends(&fourth).as_deref(), Some(&[] as &[u8]));
    assert!(guests.iter_mut().all(crate::guest::Guest::is_served));
    drop(guests.pop());
    for _ in 0..6000 {
        if scene.connections() < 3 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(scene.connect().do_now(READ, 0, (DATA, 512)), 0);
}
