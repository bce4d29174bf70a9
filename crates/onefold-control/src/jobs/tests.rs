//! Jobs that wait, fail, are asked for again and are forgotten.
//! Room: onefold-control.

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::channel;

use super::*;

const LONG: Duration = Duration::from_mins(1);

/// A job that ends when the sender says so.
fn held() -> (std::sync::mpsc::Sender<()>, Work) {
    let (to, from) = channel::<()>();
    let work: Work = Box::new(move |_| {
        let _ = from.recv();
        Ok(Report::note("held"))
    });
    (to, work)
}

#[test]
fn a_job_that_is_sent_twice_is_done_once_and_can_be_asked_for_later() {
    let (jobs, done) = (Arc::new(Jobs::default()), Arc::new(AtomicUsize::new(0)));
    for _ in 0..2 {
        let done = Arc::clone(&done);
        let work: Work = Box::new(move |_| {
            done.fetch_add(1, Ordering::SeqCst);
            Ok(Report::note("made"))
        });
        jobs.begin("a-1", "volume create", Turn::Waits("volumes"), work).unwrap();
        let view = jobs.look("a-1", LONG).unwrap();
        assert_eq!((view.state, view.report), (State::Done, Some(Report::note("made"))));
    }
    assert_eq!(done.load(Ordering::SeqCst), 1);
    assert!(jobs.look("a-2", LONG).is_none());
    for id in ["", "a b", "../x", &"x".repeat(65)] {
        assert_eq!(jobs.begin(id, "x", Turn::None, held().1), Err(Busy::Id));
    }
}

#[test]
fn who_shares_a_turn_waits_or_is_refused_by_name() {
    let jobs = Arc::new(Jobs::default());
    let (release, work) = held();
    jobs.begin("first", "volume delete", Turn::Waits("volumes"), work).unwrap();
    let second: Work = Box::new(|_| Ok(Report::default()));
    jobs.begin("second", "volume create", Turn::Waits("volumes"), second).unwrap();
    assert_eq!(jobs.look("second", Duration::ZERO).unwrap().state, State::Waiting);
    let (end, work) = held();
    jobs.begin("space", "pool reclaim", Turn::Refused("space"), work).unwrap();
    let refused = jobs.begin("again", "pool deduplicate", Turn::Refused("space"), held().1);
    assert_eq!(refused, Err(Busy::Turn("pool reclaim", "space".to_owned())));
    assert!(jobs.look("again", Duration::ZERO).is_none());
    drop(release);
    assert_eq!(jobs.look("second", LONG).unwrap().state, State::Done);
    drop(end);
    assert_eq!(jobs.look("space", LONG).unwrap().state, State::Done);
    jobs.begin("later", "pool reclaim", Turn::Refused("space"), held().1).unwrap();
    assert!(jobs.close(LONG));
}

#[test]
fn jobs_are_few_and_forgotten_in_order_and_one_that_fails_is_told() {
    let jobs = Arc::new(Jobs::default());
    let held: Vec<_> = (0..RUNNING_MAX)
        .map(|number| {
            let (release, work) = held();
            jobs.begin(&format!("h{number}"), "x", Turn::None, work).unwrap();
            release
        })
        .collect();
    let quick = || -> Work { Box::new(|_| panic!("on purpose")) };
    assert!(matches!(jobs.begin("q", "x", Turn::None, quick()), Err(Busy::Full(_))));
    drop(held);
    for number in 0..RUNNING_MAX {
        jobs.look(&format!("h{number}"), LONG).unwrap();
    }
    for number in 0..ENDED_MAX + 2 {
        let id = format!("q{number}");
        jobs.begin(&id, "x", Turn::None, quick()).unwrap();
        let view = jobs.look(&id, LONG).unwrap();
        assert_eq!((view.state, view.error.unwrap().exit_status), (State::Failed, 1));
    }
    assert_eq!(jobs.list().len(), ENDED_MAX);
    assert!(jobs.look("q0", LONG).is_none() && jobs.look("q2", LONG).is_some());
}

#[test]
fn closing_asks_all_to_end_and_begins_none() {
    let jobs = Arc::new(Jobs::default());
    let work: Work = Box::new(|job| {
        while !job.is_cancelled() {
            std::thread::yield_now();
        }
        Ok(Report::default())
    });
    jobs.begin("w", "pool check", Turn::None, work).unwrap();
    assert!(jobs.close(LONG));
    assert!(matches!(jobs.begin("n", "x", Turn::None, held().1), Err(Busy::Full(_))));
}

#[test]
fn how_far_a_job_is_can_be_seen_and_that_it_does_not_end_in_time() {
    let jobs = Arc::new(Jobs::default());
    let (release, ends) = channel::<()>();
    let (told, hears) = channel();
    let work: Work = Box::new(move |job| {
        job.tell("reading", Unit::Blocks, 3, Some(9));
        told.send(()).unwrap();
        let _ = ends.recv();
        if job.is_cancelled() { Ok(Report::note("early")) } else { Ok(Report::default()) }
    });
    let id = "x".repeat(ID_BYTES_MAX);
    jobs.begin(&id, "pool check", Turn::None, work).unwrap();
    hears.recv().unwrap();
    let view = jobs.look(&id, Duration::ZERO).unwrap();
    let (doing, unit) = ("reading".to_owned(), Unit::Blocks);
    let progress = Some(Progress { doing, unit, done: 3, total: Some(9) });
    assert_eq!((view.state, view.progress), (State::Running, progress));
    assert_eq!((view.operation.as_str(), view.report, view.error), ("pool check", None, None));
    let other = jobs.begin(&id, "pool reclaim", Turn::None, held().1);
    assert_eq!(other, Err(Busy::Id), "it is that of another operation");
    assert!(!jobs.cancel("other") && jobs.cancel(&id));
    assert!(!jobs.close(Duration::ZERO), "it is under way still");
    drop(release);
    assert!(jobs.close(LONG));
    let listed = jobs.list();
    assert_eq!((listed.len(), listed[0].state), (1, State::Done));
    assert_eq!(listed[0].report, None, "what came of it is asked for by its id");
    assert_eq!(jobs.look(&id, LONG).unwrap().report, Some(Report::note("early")));
}

#[test]
fn an_id_stands_for_one_request_with_all_that_it_says() {
    let jobs = Arc::new(Jobs::default());
    let begin = |request: &[u8]| {
        let work: Work = Box::new(|_| Ok(Report::default()));
        jobs.begin("id", Asked::of("volume rename", request), Turn::None, work)
    };
    assert_eq!(begin(b"a to b"), Ok(()));
    assert!(jobs.look("id", LONG).is_some());
    assert_eq!(begin(b"a to b"), Ok(()), "it is sent again");
    assert_eq!(begin(b"b to a"), Err(Busy::Id));
    assert_eq!(begin(b""), Err(Busy::Id));
}

#[test]
fn who_names_no_job_gets_an_id_that_no_other_server_gives() {
    let (jobs, other) = (Arc::new(Jobs::default()), Jobs::default());
    let ids = [jobs.next_id(), jobs.next_id(), other.next_id(), other.next_id()];
    let different: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(different.len(), 4, "{ids:?}");
    for id in &ids {
        assert!(id.starts_with("unnamed-"));
        assert_eq!(jobs.begin(id, "x", Turn::None, Box::new(|_| Ok(Report::default()))), Ok(()));
    }
    assert!(jobs.close(LONG));
}

#[test]
fn progress_goes_to_who_watches_as_well() {
    let (told, hears) = channel();
    let job = Job::watched(move |progress| told.send(progress.clone()).unwrap());
    job.tell("copying", Unit::Bytes, 1, None);
    let progress = hears.try_recv().unwrap();
    assert_eq!((progress.done, progress.total, progress.unit), (1, None, Unit::Bytes));
    assert_eq!(*lock(&job.progress), Some(progress));
    assert!(!job.is_cancelled() && !Job::quiet().is_cancelled());
}

#[test]
fn of_those_that_wait_for_a_turn_one_runs_at_a_time() {
    let jobs = Arc::new(Jobs::default());
    let (begun, begins) = channel();
    let mut ends = BTreeMap::new();
    for id in ["a", "b", "c", "d"] {
        let (release, work) = held();
        let begun = begun.clone();
        let work: Work = Box::new(move |job| {
            begun.send(id).unwrap();
            work(job)
        });
        jobs.begin(id, "x", Turn::Waits("turn"), work).unwrap();
        ends.insert(id, release);
    }
    while !ends.is_empty() {
        let running = begins.recv_timeout(LONG).unwrap();
        // Long enough for whoever does not wait; whoever does never comes.
        assert!(begins.recv_timeout(Duration::from_millis(20)).is_err());
        for &id in ends.keys() {
            let state = if id == running { State::Running } else { State::Waiting };
            assert_eq!(jobs.look(id, Duration::ZERO).unwrap().state, state, "{id}");
        }
        ends.remove(running);
    }
    assert!(jobs.close(LONG));
    assert!(lock(&jobs.all).turns.is_empty());
}
