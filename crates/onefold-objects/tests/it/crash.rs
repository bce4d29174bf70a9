//! A client dies, or a request or its answer is lost, at every request: earlier versions stay, an
//! acknowledged one is there.

use std::sync::Arc;

use onefold_archive::{Archive, ArchiveError};
use onefold_objects::sim::Loss;
use onefold_objects::{SimObjects, Use};

use crate::support::{Tree, add, assert_sound, create, folder, lock, open, read, trees, try_open};
use crate::versions::{Step, assert_versions};

/// Make an archive, add three versions, remove one and give back its space, add another, until
/// something goes wrong with request `lost`; true if it did.
fn run(seed: u64, lost: u64, loss: Loss, encrypted: bool) -> bool {
    let context = format!("seed {seed}, {loss:?} at request {lost}, encrypted: {encrypted}");
    let trees = trees(seed, 4);
    let store = SimObjects::new();
    store.lose(lost, loss);
    let mut done = Vec::new();
    let outcome = drive(&store, &trees, encrypted, &mut done);
    if !store.has_lost() {
        outcome.unwrap_or_else(|e| panic!("{context}: {e}"));
        return false;
    }
    let context = format!("{context} ({:?})", store.log().get(lost as usize - 1));
    if loss == Loss::Repeated {
        outcome.unwrap_or_else(|e| panic!("{context}: {e}"));
    }
    let mut after = store.after_crash();
    // The lock of whoever died ends by itself.
    after.pass_s(400);
    if lost.is_multiple_of(3) {
        // Recovery, that is the next addition, dies too.
        after.lose(1 + lost % 11, Loss::DiesAfter);
        if let Ok(mut archive) = try_open(&after) {
            let _ = add(&mut archive, &trees[0]);
        }
        after = after.after_crash();
        after.pass_s(400);
    }
    match try_open(&after) {
        Ok(_) => {}
        Err(_) if done.is_empty() => {
            // The creation was cut short: it can be done again.
            create(&after, encrypted).unwrap_or_else(|e| panic!("{context}: {e}"));
        }
        Err(error) => panic!("{context}: {error}"),
    }
    let archive = open(&after);
    assert_sound(&archive, &context);
    assert_versions(&archive, &trees, &done, &context);
    // Life goes on, and what is left of the interrupted work goes.
    let lease = lock(&after, Use::Add, 77).unwrap_or_else(|e| panic!("{context}: {e}"));
    let mut archive = open(&after);
    let info = add(&mut archive, &trees[1]).unwrap_or_else(|e| panic!("{context}: {e}"));
    drop(lease);
    let archive = open(&after);
    assert!(read(&archive, info.number).unwrap() == trees[1], "{context}: the version after");
    assert_versions(&archive, &trees, &done, &context);
    assert_sound(&archive, &context);
    let report = archive.verify(&mut |_, _| true).unwrap();
    let removal = done.iter().any(|step| matches!(step, Step::Removing(_)));
    assert!(removal || report.unused_containers == 0, "{context}: containers leak");
    let names: Vec<String> = after.contents().into_keys().collect();
    assert!(!names.iter().any(|name| name.contains(".new")), "{context}: {names:?}");
    true
}

fn drive(
    store: &SimObjects,
    trees: &[Tree],
    encrypted: bool,
    done: &mut Vec<Step>,
) -> Result<(), ArchiveError> {
    // A lock that cannot be had is no error of the archive's.
    let locked = |usage, token| {
        lock(store, usage, token).map_err(|error| ArchiveError::Setting(error.to_string()))
    };
    let lease = locked(Use::Remove, 1)?;
    create(store, encrypted)?;
    done.push(Step::Made);
    drop(lease);
    for (number, tree) in trees.iter().enumerate() {
        // Each in a process of its own.
        let lease = locked(Use::Add, number as u64 + 2)?;
        let mut archive = try_open(store)?;
        let info = add(&mut archive, tree)?;
        done.push(Step::Added(info.number, number));
        drop((archive, lease));
        if number == 2 {
            let _lease = locked(Use::Remove, 9)?;
            let mut archive = try_open(store)?;
            done.push(Step::Removing(1));
            archive.remove(1)?;
            done.push(Step::Removed(1));
            archive.compact(0, &mut |_, _| true)?;
        }
    }
    Ok(())
}

fn lose_everywhere(seed: u64, loss: Loss, encrypted: bool) {
    let mut lost = 1;
    while run(seed, lost, loss, encrypted) {
        lost += 1;
    }
    assert!(lost > 100, "the workload has only {lost} requests");
}

#[test]
fn a_client_that_dies_before_any_request_loses_no_acknowledged_version() {
    lose_everywhere(1, Loss::DiesBefore, false);
}

#[test]
fn a_client_that_dies_after_any_request_loses_no_acknowledged_version() {
    lose_everywhere(2, Loss::DiesAfter, false);
}

#[test]
fn a_request_that_is_lost_loses_no_acknowledged_version() {
    lose_everywhere(3, Loss::RequestLost, false);
}

#[test]
fn an_answer_that_is_lost_loses_no_acknowledged_version() {
    lose_everywhere(4, Loss::AnswerLost, false);
}

#[test]
fn a_request_that_the_client_repeats_for_a_lost_answer_does_no_harm() {
    lose_everywhere(5, Loss::Repeated, false);
}

#[test]
fn no_loss_loses_a_version_of_an_encrypted_archive() {
    lose_everywhere(6, Loss::DiesAfter, true);
    lose_everywhere(7, Loss::AnswerLost, true);
}

#[test]
fn a_repair_that_is_cut_short_anywhere_is_done_by_the_next_one() {
    for loss in [Loss::DiesBefore, Loss::DiesAfter, Loss::AnswerLost, Loss::Repeated] {
        let trees = trees(8, 2);
        let sound = SimObjects::new();
        create(&sound, false).unwrap();
        for tree in &trees {
            add(&mut open(&sound), tree).unwrap();
        }
        for name in ["archive.1", "log.0"] {
            sound.damage(name, |_| None);
        }
        sound.damage("log.1", |bytes| Some(bytes[..512].to_vec()));
        let repair = |store: &SimObjects| Archive::check(Arc::new(folder(store)), true);
        let mut lost = 1;
        loop {
            let context = format!("{loss:?} at request {lost}");
            let store = sound.after_crash();
            store.lose(lost, loss);
            let first = repair(&store);
            let after = store.after_crash();
            if !store.has_lost() || loss == Loss::Repeated {
                first.unwrap_or_else(|e| panic!("{context}: {e}"));
            }
            repair(&after).unwrap_or_else(|e| panic!("{context}: {e}"));
            let archive = open(&after);
            assert_sound(&archive, &context);
            for (tree, number) in trees.iter().zip(1..) {
                assert!(read(&archive, number).unwrap() == *tree, "{context}");
            }
            if !store.has_lost() {
                break;
            }
            lost += 1;
        }
        assert!(lost > 15, "{lost}");
    }
}
