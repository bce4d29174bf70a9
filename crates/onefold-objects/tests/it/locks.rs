//! Who may use a place at the same time, and what becomes of the locks of the dead.

use std::cell::Cell;
use std::sync::Arc;

use onefold_block::Folder as _;
use onefold_objects::lease::{HOLD_MS, LEASE_S, Owner};
use onefold_objects::sim::Loss;
use onefold_objects::{Lease, LeaseError, ObjectFolder, Objects, SimObjects, Use};

use crate::support::{lock, owner};

const ALL: [Use; 3] = [Use::Read, Use::Add, Use::Remove];

#[test]
fn readers_go_beside_one_that_adds_and_nobody_beside_one_that_removes() {
    for first in ALL {
        for second in ALL {
            let store = SimObjects::new();
            let lease = lock(&store, first, 1).unwrap();
            store.pass_s(10);
            let found = lock(&store, second, 2);
            let together = first == Use::Read && second == Use::Read
                || first != Use::Remove && second != Use::Remove && first != second;
            match &found {
                Ok(_) => assert!(together, "{first:?} beside {second:?}"),
                Err(LeaseError::Held { holder }) => {
                    assert!(!together, "{first:?} beside {second:?}");
                    assert_eq!(holder, "process 1 on here");
                }
                Err(error) => panic!("{error}"),
            }
            drop((found, lease));
            assert!(store.contents().is_empty(), "a lock that is given up is gone");
        }
    }
}

#[test]
fn a_lock_of_the_dead_ends_by_itself_and_not_before() {
    let store = SimObjects::new();
    // Dead from the request after it has its lock.
    store.lose(3, Loss::DiesBefore);
    drop(lock(&store, Use::Add, 1).unwrap());
    let later = store.after_crash();
    later.pass_s(LEASE_S);
    assert!(matches!(lock(&later, Use::Add, 2), Err(LeaseError::Held { .. })));
    later.pass_s(1);
    let lease = lock(&later, Use::Add, 3).unwrap();
    assert_eq!(later.contents().len(), 1, "that of the dead is gone");
    drop(lease);
}

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(0) };
}

fn lock_by_the_clock(store: &SimObjects, usage: Use, token: u64) -> Lease {
    let objects: Arc<dyn Objects> = Arc::new(store.clone());
    Lease::take(&objects, usage, &owner(token), || NOW_MS.get(), &mut |_| ()).unwrap()
}

#[test]
fn whoever_was_away_too_long_changes_nothing_any_more() {
    let store = SimObjects::new();
    let lease = Arc::new(lock_by_the_clock(&store, Use::Add, 1));
    let folder = ObjectFolder::new(Arc::new(store.clone()), Some(Arc::clone(&lease)));
    let media = folder.create("a").unwrap();
    folder.sync_names().unwrap();
    media.write(0, b"late").unwrap();
    NOW_MS.set(HOLD_MS);
    media.sync().unwrap();
    assert!(lease.renew());
    NOW_MS.set(2 * HOLD_MS);
    media.write(0, b"LATE").unwrap();
    media.sync().unwrap();
    NOW_MS.set(2 * HOLD_MS + 1);
    media.write(0, b"no!!").unwrap();
    let error = media.sync().unwrap_err().to_string();
    assert!(error.contains("has run out"), "{error}");
    assert!(folder.remove("a").is_err());
    assert!(folder.subfolder("inner").is_err());
    assert_eq!(store.contents()["a"], b"LATE");
    // It does not come back either: others may have taken its place.
    assert!(!lease.renew() && lease.must_hold().is_err());
}

#[test]
fn who_was_away_too_long_and_only_looks_comes_back_unless_somebody_removes() {
    let store = SimObjects::new();
    NOW_MS.set(0);
    let lease = lock_by_the_clock(&store, Use::Read, 1);
    let gone_for = |ms: u64| {
        NOW_MS.set(NOW_MS.get() + ms);
        store.pass_s(ms as i64 / 1000);
    };
    // Nobody came meanwhile.
    gone_for(HOLD_MS + 1);
    assert!(lease.must_hold().is_err());
    assert!(lease.renew() && lease.must_hold().is_ok());
    // Somebody removes, who was let in as it was gone; it waits until that one has gone.
    gone_for(1000 * LEASE_S as u64 + 2000);
    let removes = lock(&store, Use::Remove, 2).unwrap();
    for _ in 0..2 {
        assert!(!lease.renew() && lease.must_hold().is_err());
        assert_eq!(store.contents().len(), 1, "it is in nobody's way");
    }
    drop(removes);
    assert!(lease.renew() && lease.must_hold().is_ok());
    assert!(matches!(lock(&store, Use::Remove, 3), Err(LeaseError::Held { .. })));
    // Beside one who adds it does not wait.
    gone_for(HOLD_MS + 1);
    let adds = lock(&store, Use::Add, 4).unwrap();
    assert!(lease.renew() && lease.must_hold().is_ok());
    drop((adds, lease));
    assert!(store.contents().is_empty());
}

#[test]
fn who_only_looks_takes_a_lock_again_that_somebody_took_away() {
    let store = SimObjects::new();
    NOW_MS.set(0);
    let lease = lock_by_the_clock(&store, Use::Read, 1);
    let name = store.contents().into_keys().next().unwrap();
    store.damage(&name, |_| None);
    assert!(!lease.renew() && lease.must_hold().is_err(), "it is found to be gone");
    assert!(lease.renew() && lease.must_hold().is_ok());
    assert_eq!(store.contents().len(), 1);
}

#[test]
fn a_lock_that_could_not_be_taken_again_whole_is_not_held() {
    let store = SimObjects::new();
    NOW_MS.set(0);
    let lease = lock_by_the_clock(&store, Use::Read, 1);
    for lost in 1..=2 {
        NOW_MS.set(NOW_MS.get() + HOLD_MS + 1);
        // Putting it, or looking who is there.
        store.lose(store.requests() + lost, Loss::RequestLost);
        assert!(!lease.renew() && lease.must_hold().is_err(), "request {lost}");
        assert!(lease.renew() && lease.must_hold().is_ok());
    }
}

#[test]
fn one_that_was_taken_away_is_not_renewed_and_one_with_a_lost_answer_is() {
    let store = SimObjects::new();
    let lease = lock_by_the_clock(&store, Use::Add, 1);
    store.lose(store.requests() + 1, Loss::Repeated);
    assert!(!lease.renew());
    assert!(lease.must_hold().is_ok() && lease.renew(), "it is still its own");
    let name = store.contents().into_keys().next().unwrap();
    store.damage(&name, |_| None);
    assert!(!lease.renew() && lease.must_hold().is_err());
    drop(lease);
    assert!(store.contents().is_empty(), "it did not come back");
}

#[test]
fn who_holds_a_lock_is_named_in_plain_words_or_not_at_all() {
    let objects: Arc<dyn Objects> = Arc::new(SimObjects::new());
    let long = "x".repeat(300);
    for (note, named) in [
        ("process 7 on there", "process 7 on there"),
        ("", "another process"),
        ("\u{1b}[2Jprocess 7", "another process"),
        ("two\nlines", "another process"),
        (&long, &long[..200]),
    ] {
        let owner = Owner { token: 1, note: note.to_owned() };
        let held = Lease::take(&objects, Use::Remove, &owner, || 0, &mut |_| ()).unwrap();
        let taken = Lease::take(&objects, Use::Read, &crate::support::owner(2), || 0, &mut |_| ());
        let Err(LeaseError::Held { holder }) = taken else { panic!("it is held") };
        assert_eq!(holder, named);
        drop(held);
    }
}

#[test]
fn of_two_that_come_together_both_never_go_on_and_one_does_at_last() {
    let store = SimObjects::new();
    store.pass_s(1_000_000);
    let rival = lock(&store, Use::Add, 5).unwrap();
    let objects: Arc<dyn Objects> = Arc::new(store.clone());
    // The other one gives up, as it sees this one too, while this one waits.
    let (rival, mut waits) = (Cell::new(Some(rival)), Vec::new());
    let mut wait = |ms| {
        waits.push(ms);
        drop(rival.take());
    };
    let lease = Lease::take(&objects, Use::Add, &owner(6), || 0, &mut wait).unwrap();
    drop(lease);
    // Half a second and up to three more, by the bits of its number.
    assert_eq!(waits, [500 + (6 << 7)]);
    // One that stays is waited for a few times, one that was there before not at all.
    let rival = lock(&store, Use::Add, 5).unwrap();
    let own = [500 + (7 << 7), 500 + (7 << 14) % 3000, 500 + (7 << 21) % 3000];
    for (passes_s, expected) in [(2, &own[..]), (1, &[])] {
        store.pass_s(passes_s);
        let mut waits = Vec::new();
        let taken = Lease::take(&objects, Use::Add, &owner(7), || 0, &mut |ms| waits.push(ms));
        assert!(matches!(taken, Err(LeaseError::Held { .. })));
        assert_eq!(waits, expected);
    }
    drop(rival);
}

#[test]
fn who_may_only_read_reads_without_a_lock() {
    let store = SimObjects::new();
    store.set_read_only();
    lock(&store, Use::Read, 1).unwrap();
    for usage in [Use::Add, Use::Remove] {
        let error = lock(&store, usage, 2).map(drop).unwrap_err().to_string();
        assert!(error.contains("access denied"), "{error}");
    }
}

#[test]
fn a_lock_is_renewed_until_it_is_dropped() {
    let store = SimObjects::new();
    let mut lease = lock(&store, Use::Read, 1).unwrap();
    lease.keep_renewing(|_| ()).unwrap();
    // The thread ends with it, however long it would wait.
    drop(lease);
    assert!(store.contents().is_empty());
}
