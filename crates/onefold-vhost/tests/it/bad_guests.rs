//! What a guest gets that does not keep to the rules, and that nobody else notices.
//! Room: onefold-vhost.

use crate::guest::{
    BYTES, DATA, DISCARD, ENTRIES, FLAG_INDIRECT, FLUSH, Guest, NAME, READ, READ_ONLY, START,
    Scene, WRITE,
};

/// A guest that keeps to the rules is served as ever.
fn others_go_on(scene: &Scene) {
    let mut other = scene.connect();
    other.fill(DATA, 512, 9);
    assert_eq!(other.do_now(WRITE, 5, (DATA, 512)), 0);
    assert_eq!(other.do_now(READ, 5, (DATA + 512, 512)), 0);
    assert_eq!(other.bytes(DATA + 512, 512), [9; 512]);
}

#[test]
fn requests_past_the_end_or_of_odd_lengths_or_kinds_fail_and_the_next_does_not() {
    let scene = Scene::of_memory((1 << 20) + 100);
    let mut guest = scene.connect();
    assert_eq!(guest.sectors(), 2048, "what is left at the end is no sector");
    for (kind, sector, len, status) in [
        (READ, 2047, 512, 0),
        (READ, 2048, 512, 1),
        (READ, 2047, 1024, 1),
        (WRITE, 2048, 512, 1),
        (READ, u64::MAX, 512, 1),
        (READ, u64::MAX / 512, 512, 1),
        (WRITE, u64::MAX / 512 - 1, 512, 1),
        (READ, 0, 511, 1),
        (WRITE, 0, 513, 1),
        (READ, 0, 0, 1),
        (WRITE, 0, 0, 1),
        (NAME, 0, 19, 1),
        (DISCARD, 0, 0, 1),
        (2, 0, 512, 2),
        (99, 0, 512, 2),
        (u32::MAX, 0, 512, 2),
        (FLUSH, 7, 0, 0),
    ] {
        assert_eq!(guest.do_now(kind, sector, (DATA, len)), status, "{kind} {sector} {len}");
    }
    others_go_on(&scene);
}

#[test]
fn a_disk_that_is_read_only_is_told_so_and_refuses_changes() {
    let scene = Scene::new(std::sync::Arc::new(onefold_block::MemDevice::new(1 << 20)), true);
    let mut guest = Guest::connect(&scene, |features| features | READ_ONLY);
    assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0);
    guest.fill(DATA, 512, 9);
    assert_eq!(guest.do_now(WRITE, 0, (DATA, 512)), 1);
    assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0);
    assert_eq!(guest.bytes(DATA, 512), [0; 512]);
}

#[test]
fn chains_that_loop_or_lie_are_given_back_and_touch_nothing() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    guest.fill(DATA, 4096, 0x55);
    let far = START + BYTES;
    let (header, status) = guest.header(100, READ, 0);
    let loops = [(header, 16, 1, 1), (DATA, 512, 3, 0)];
    let leaves = [(header, 16, 1, ENTRIES), (DATA, 512, 2, 0)];
    let table = DATA + 0x10_0000;
    let many = |guest: &Guest| {
        // An indirect table in an indirect table.
        guest.put_descriptor_at(table, (table, 32, FLAG_INDIRECT, 0));
    };
    many(&guest);
    let chains: [&[(u64, u32, u16, u16)]; 10] = [
        &loops,
        &leaves,
        // All that a request has is there, and more was promised.
        &[(header, 16, 1, 1), (DATA, 513, 3, ENTRIES)],
        // A descriptor that the guest reads before one that it writes.
        &[(status, 1, 3, 1), (header, 16, 0, 0)],
        // An indirect table that is none: its length, its place, one within another.
        &[(table, 17, FLAG_INDIRECT, 0)],
        &[(far, 32, FLAG_INDIRECT, 0)],
        &[(table, 32, FLAG_INDIRECT, 0)],
        &[(table, 16 * 70_000, FLAG_INDIRECT, 0)],
        // Four times 2 GiB.
        &[(DATA, 1 << 31, 3, 1), (DATA, 1 << 31, 3, 2), (DATA, 1 << 31, 3, 3), (status, 1, 2, 0)],
        // No status.
        &[(header, 16, 0, 0)],
    ];
    for (number, chain) in chains.into_iter().enumerate() {
        for (place, &descriptor) in chain.iter().enumerate() {
            guest.put_descriptor(place as u16, descriptor);
        }
        guest.offer(0);
        guest.kick();
        assert_eq!(guest.wait(), [(0, 0)], "chain {number}");
        assert_eq!(guest.status(100), 0xee, "chain {number}");
        assert_eq!(guest.bytes(DATA, 4096), [0x55; 4096], "chain {number}");
    }
    assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0, "the queue goes on");
    others_go_on(&scene);
}

#[test]
fn an_indirect_table_has_as_many_pieces_as_a_queue_may_have_and_no_more() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    let table = DATA + 0x10_0000;
    for (pieces, status) in [(1024u16, 0), (1025, 0xee)] {
        let (header, at) = guest.header(100, READ, 0);
        guest.put_descriptor_at(table, (header, 16, 1, 1));
        for number in 1..pieces - 1 {
            let place = table + 16 * u64::from(number);
            guest.put_descriptor_at(place, (DATA, 512, 3, number + 1));
        }
        let place = table + 16 * u64::from(pieces - 1);
        guest.put_descriptor_at(place, (at, 1, 2, 0));
        // Another one comes with it.
        let first = guest.ask(READ, 0, (DATA, 512));
        guest.put_descriptor(120, (table, 16 * u32::from(pieces), FLAG_INDIRECT, 0));
        guest.offer(120);
        guest.kick();
        guest.wait();
        assert_eq!((guest.status(first), guest.status(100)), (0, status), "{pieces}");
    }
    others_go_on(&scene);
}

#[test]
fn data_that_lie_outside_of_the_memory_fail_and_headers_and_status_as_well() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    let end = START + BYTES;
    for at in [0, START - 512, end - 511, end, u64::MAX - 511, u64::MAX] {
        for kind in [READ, WRITE] {
            assert_eq!(guest.do_now(kind, 0, (at, 512)), 1, "{kind} {at:x}");
        }
        let (header, status) = guest.header(100, READ, 0);
        guest.chain(&[(at, 16, false), (DATA, 512, true), (status, 1, true)]);
        guest.chain(&[(header, 16, false), (DATA, 512, true), (at, 1, true)]);
        guest.kick();
        assert_eq!(guest.wait().len(), 2, "{at:x}");
    }
    // One that fails leaves the ones that came with it alone.
    guest.fill(DATA, 1024, 6);
    let heads = [
        guest.ask(WRITE, 20, (DATA, 512)),
        guest.ask(WRITE, 21, (end, 512)),
        guest.ask(WRITE, 22, (DATA + 512, 512)),
    ];
    guest.kick();
    guest.wait();
    assert_eq!(heads.map(|head| guest.status(head)), [0, 1, 0]);
    assert_eq!(guest.do_now(READ, 20, (DATA, 1536)), 0);
    assert_eq!(guest.bytes(DATA, 1536), [[6; 512], [0; 512], [6; 512]].concat());
    others_go_on(&scene);
}

#[test]
fn a_queue_that_says_more_than_it_can_hold_is_left_alone() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0);
    guest.say_made(guest.made.wrapping_add(ENTRIES + 1));
    guest.kick();
    assert!(guest.is_silent());
    assert!(guest.is_served(), "its monitor is heard");
    others_go_on(&scene);
    // Set up anew, as after a reset, it is served again.
    let next = guest.frontend_base();
    assert_eq!(next, guest.made);
    guest.say_made(guest.made);
    guest.set_up(next);
    assert_eq!(guest.do_now(READ, 0, (DATA, 512)), 0);
}

#[test]
fn a_chain_with_a_number_that_is_none_ends_its_queue_alone() {
    let scene = Scene::of_memory(1 << 20);
    let mut guest = scene.connect();
    guest.offer(ENTRIES);
    guest.kick();
    assert!(guest.is_silent());
    assert!(guest.is_served());
    others_go_on(&scene);
}
