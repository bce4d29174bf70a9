//! What holds of every run, whatever its figures are.
//! Room: onefold-flash.

use std::sync::{Arc, Mutex};
use std::thread;

use onefold_sim::{ResourceState, SimError};
use onefold_workload::{Identity, Op, Request};

use super::told::{drive, requests, told, told_on};
use crate::dedup::NoDedup;
use crate::ftl::FtlError;
use crate::nand::Interruptible as _;
use crate::op::{Cause, Driver as _, FlashOp, OpKind};
use crate::run::ready::{nand, prepared};
use crate::run::simulation::Simulation;
use crate::run::source::Source;
use crate::run::{Answer, Completion, Report, RunError, RunOptions, attach, run};
use crate::spec::WriteBuffer;

#[test]
fn what_is_handed_in_is_answered_and_counted_as_in_a_run() {
    let drives: [&[&str]; 3] = [
        &[],
        &["controller.write_buffer=\"back\"", "controller.write_buffer_pages=5"],
        &["dedup.policy=\"caftl-online\"", "host.queue_entries=4"],
    ];
    for lines in drives {
        let spec = drive(lines);
        let mut done: Vec<Completion> = Vec::new();
        let mut keep = |completion: &Completion| {
            done.push(*completion);
            Ok(())
        };
        let trace = requests(&spec, 200, 4);
        let options = RunOptions {
            trace: Some(Box::new(trace.into_iter().map(Ok))),
            observer: Some(&mut keep),
            ..RunOptions::default()
        };
        let report = run(&spec, options).expect("runs").report;
        let answers = done.iter().map(|one| (one.request.number, one.answered_ns));
        let answers: Vec<(u64, u64)> = answers.collect();
        done.sort_by_key(|one| one.request.number);
        let mut attached = attach(&spec).expect("a drive");
        for one in &done {
            attached.submit(one.request).expect("it is taken");
        }
        attached.advance(report.elapsed_ns).expect("time passes");
        let mut taken: Vec<Answer> = Vec::new();
        attached.take_answers(&mut taken);
        let taken: Vec<(u64, u64)> = taken.iter().map(|one| (one.number, one.at_ns)).collect();
        assert_eq!(taken, answers, "{lines:?}");
        assert!(!attached.has_answers(), "they were taken");

        let counts = attached.counts();
        let asked = |op: Op| -> u64 {
            let of = done.iter().filter(|one| one.request.op == op);
            of.map(|one| u64::from(one.request.pages)).sum()
        };
        assert_eq!(counts.pages_written, asked(Op::Write), "{lines:?}");
        assert_eq!(counts.pages_trimmed, asked(Op::Trim), "{lines:?}");
        // What a page that is written in part held is read as well.
        let read = asked(Op::Read) + report.requests.partial_pages;
        assert!(counts.pages_read <= read && counts.pages_read * 10 > read * 8, "{lines:?}");
        assert_eq!(counts.pages_shared, report.dedup.inline_pages, "{lines:?}");
        if spec.controller.write_buffer == WriteBuffer::Through {
            // With the last answer everything is in the flash.
            let all = |kind| {
                let ops = &report.flash_operations[kind];
                ops.host + ops.gc + ops.wear + ops.map + ops.dedup
            };
            assert_eq!(counts.pages_programmed, all("program"), "{lines:?}");
            assert_eq!(counts.erases, all("erase"), "{lines:?}");
            let busy = report.utilisation.units_mean * report.elapsed_ns as f64;
            assert!((counts.busy_ns - busy).abs() < 1.0, "{} is not {busy}", counts.busy_ns);
        }
    }
}

/// A write of so many bytes from the beginning of a page, or without any a TRIM of the page.
fn piece(time_ns: u64, page: u64, length: u64, content: u64) -> Request {
    let identity = (length > 0).then(|| Identity::of_number(1, content));
    let (op, length) = if length > 0 { (Op::Write, length) } else { (Op::Trim, 4096) };
    let (stream, pid, deduplicate) = (None, None, None);
    Request { time_ns, op, offset: page * 4096, length, identity, stream, pid, deduplicate }
}

fn report_of(lines: &[&str], trace: Vec<Request>) -> Report {
    let trace = Some(Box::new(trace.into_iter().map(Ok)) as _);
    run(&drive(lines), RunOptions { trace, ..RunOptions::default() }).expect("runs").report
}

/// Pages that are equal are told by being missed where nothing is deduplicated.
#[test]
fn a_page_that_was_trimmed_or_overwritten_holds_nothing_of_before() {
    let empty = ["precondition=\"none\""];
    let missed = |trace| report_of(&empty, trace).dedup.missed_pages;
    let part = |time_ns, page, content| piece(time_ns, page, 512, content);
    let whole = |time_ns, page, content| piece(time_ns, page, 4096, content);
    // Bytes of 3 over nothing: as they are, and after other ones were trimmed.
    let trimmed = vec![part(0, 7, 3), part(0, 8, 4), piece(1_000_000, 8, 0, 0)];
    let after = |mut before: Vec<Request>, more: Request| {
        before.push(more);
        before
    };
    assert_eq!(missed(after(trimmed.clone(), part(2_000_000, 8, 3))), Some(1));
    assert_eq!(missed(after(trimmed, part(2_000_000, 8, 5))), Some(0));
    // Bytes of 3 over a page of 6: as they are, and after bytes further on were overwritten.
    let further = Request { offset: 8 * 4096 + 2048, ..part(0, 8, 4) };
    let overwritten = vec![whole(0, 7, 6), part(1_000_000, 7, 3), further, whole(1_000_000, 8, 6)];
    assert_eq!(missed(after(overwritten, part(2_000_000, 8, 3))), Some(1));
}

#[test]
fn where_nothing_is_scrambled_both_sides_of_the_scrambler_are_the_same() {
    let on = |side: &str, scrambler: &str| {
        let lines = [
            &format!("ftl.compression=\"{side}-scrambler\""),
            &format!("media.scrambler=\"{scrambler}\""),
            "controller.write_buffer=\"back\"",
            "workload.compressed_percent=40",
            "workload.requests=150",
        ];
        told("", &lines, None)
    };
    assert_eq!(on("after", "none"), on("before", "none"));
    // What is scrambled is not compressed.
    assert_ne!(on("after", "lba-prbs31"), on("before", "lba-prbs31"));
}

/// Nothing of the kind happens to a sound drive: something of it is taken away.
#[test]
fn a_run_that_is_stuck_says_where() {
    let stuck = |lines: &[&str], broken: &dyn Fn(&mut Simulation<'_, _, NoDedup>)| {
        let spec = drive(&[&["workload.requests=5"], lines, &["precondition=\"none\""]].concat());
        let source = Source::new(&spec, None).expect("a source");
        let (ftl, host, _) = prepared(&spec, nand(&spec).unwrap(), NoDedup, source).unwrap();
        let mut simulation = Simulation::new(&spec, ftl, host, None, None);
        broken(&mut simulation);
        match simulation.run() {
            Err(RunError::Stalled(SimError::Stalled { work_left, blocked, .. })) => {
                (work_left, blocked)
            }
            other => panic!("{other:?}"),
        }
    };
    let at = |name: &str, servers, busy, waiting| {
        vec![ResourceState { name: name.to_owned(), servers, busy, waiting }]
    };
    let queue = at("queue of the drive", 0, 0, 3);
    let closed = ["workload.arrivals=\"closed\"", "workload.queue_depth=3"];
    assert_eq!(stuck(&closed, &|run| run.host.queue_entries = 0), (3, queue));
    // All that will ever come is there, and nothing of it is done.
    let open = ["workload.arrivals=\"constant\"", "workload.interarrival_ns=1000"];
    let queue = at("queue of the drive", 0, 0, 5);
    assert_eq!(stuck(&open, &|run| run.host.queue_entries = 0), (5, queue));
    let buffer = at("write buffer", 1, 1, 5);
    let back = [open[0], open[1], "controller.write_buffer=\"back\""];
    assert_eq!(stuck(&back, &|run| run.host.buffer_used = 1 << 20), (5, buffer));
    // The host has its answers, but something in the background never ends.
    let last = drive(&[]).geometry.pages() - 1;
    let never_ends = |run: &mut Simulation<'_, _, NoDedup>| {
        let (kind, cause) = (OpKind::Read, Cause::Gc);
        run.controller.issue(FlashOp { kind, cause, ppn: last, foreground: false });
        run.controller.next_event();
    };
    let one = ["workload.requests=1"];
    assert_eq!(stuck(&one, &never_ends), (0, at("flash unit 7", 1, 1, 0)));
}

/// What waits to be packed is programmed for a flush once its write is decided on.
#[test]
fn a_flush_that_finds_no_page_for_what_waits_ends_the_run() {
    let spec = drive(&[
        "precondition=\"none\"",
        "ftl.compression=\"before-scrambler\"",
        "controller.compress_mb_per_s=10",
        "controller.write_buffer=\"back\"",
    ]);
    let runs = |bad_from: u32| {
        let write = piece(0, 3, 4096, 7);
        let flush = Request { op: Op::Flush, offset: 0, length: 0, identity: None, ..write };
        let trace = Box::new([write, flush].into_iter().map(Ok));
        let source = Source::new(&spec, Some(trace)).expect("a source");
        let (mut ftl, host, _) = prepared(&spec, nand(&spec).unwrap(), NoDedup, source).unwrap();
        (bad_from..spec.geometry.blocks()).for_each(|block| ftl.nand().mark_bad(block));
        let mut simulation = Simulation::new(&spec, ftl, host, None, None);
        simulation.run().map(|()| simulation.ftl.counters().packed_pages)
    };
    assert!(matches!(runs(spec.geometry.blocks()), Ok(1)));
    let failed = runs(0);
    assert!(matches!(failed, Err(RunError::Ftl { request: 0, .. })), "{failed:?}");
}

#[test]
fn a_run_leaves_nothing_behind() {
    let closed = ["workload.arrivals=\"closed\"", "workload.queue_depth=3"];
    let spec = drive(&[closed[0], closed[1], "workload.read_share=0.4"]);
    let source = Source::new(&spec, None).expect("a source");
    let (ftl, host, _) = prepared(&spec, nand(&spec).unwrap(), NoDedup, source).unwrap();
    let mut simulation = Simulation::new(&spec, ftl, host, None, None);
    simulation.run().expect("runs");
    assert_eq!(simulation.controller.blocked(), []);
    // Numbers of requests are used again: no more of them than are under way at a time.
    assert!(simulation.underway.len() <= 3, "{} numbers", simulation.underway.len());
}

/// Of one request for a page of an empty drive: how long it takes, and what else is counted.
fn alone(lines: &[&str], op: Op) -> (u64, Report) {
    let length = if op.has_range() { 512 } else { 0 };
    let (stream, pid, deduplicate, identity) = (None, None, None, None);
    let (time_ns, offset) = (1000, 1024);
    let request = Request { time_ns, op, offset, length, identity, stream, pid, deduplicate };
    let lines = [lines, &["geometry.page_bytes=512"]].concat();
    let report = report_of(&lines, vec![request]);
    (report.elapsed_ns - 1000, report)
}

#[test]
fn what_takes_a_nanosecond_takes_one() {
    let (read, report) = alone(&[], Op::Read);
    assert_eq!((read, report.energy_nj, report.utilisation.unit_queue_max), (25_000, 3, 1));
    let (write, report) = alone(&[], Op::Write);
    assert_eq!((write, report.energy_nj, report.utilisation.unit_queue_max), (200_000, 50, 1));
    assert_eq!(report.waf.total, Some(1.0));
    let (flush, report) = alone(&[], Op::Flush);
    assert_eq!((flush, report.energy_nj, report.utilisation.unit_queue_max), (0, 0, 0));
    for (line, longer_reads, longer_writes) in [
        ("host.link_mb_per_s=1000000", 1, 1),
        ("host.link_latency_ns=1", 1, 1),
        ("controller.request_ns=1", 1, 1),
        ("controller.ecc_decode_ns=1", 1, 0),
        ("timing.command_overhead_ns=1", 1, 1),
        ("timing.bus_mb_per_s=1000000", 1, 1),
    ] {
        assert_eq!(alone(&[line], Op::Read).0 - read, longer_reads, "{line}");
        assert_eq!(alone(&[line], Op::Write).0 - write, longer_writes, "{line}");
    }
    let hashes = ["dedup.policy=\"caftl-online\"", "controller.hash_ns=1"];
    assert_eq!(alone(&hashes, Op::Write).0 - write, 1);
    // What crosses the channel costs energy, however short a time it takes.
    assert_eq!(alone(&["timing.bus_mb_per_s=1000000"], Op::Read).1.energy_nj, 11_003);
}

#[test]
fn a_bus_that_takes_no_time_is_not_waited_for() {
    let lines = ["workload.requests=200", "workload.queue_depth=8"];
    let cached = told("", &[lines[0], lines[1], "timing.cache_program=true"], None);
    assert_eq!(cached, told("", &lines, None));
}

#[test]
fn an_idle_moment_begins_so_long_after_the_beginning() {
    let spec = drive(&["controller.idle_after_ns=50000", "ftl.gc_idle_blocks=9"]);
    let mut attached = attach(&spec).expect("a drive");
    attached.advance(0).expect("time passes");
    assert_eq!(attached.next_event_ns(), Some(50_000));
}

/// Clients of a trace ask once more when there is nothing left, which is in an idle moment here.
#[test]
fn background_work_that_is_not_to_be_finished_begins_no_more_after_the_last_request() {
    let merged = |finish: &str| {
        let lines = [
            "precondition=\"none\"",
            "dedup.policy=\"crc-compare\"",
            "controller.idle_after_ns=50000",
            "controller.idle_steps=1",
            "workload.trace_timing=\"closed\"",
            "workload.queue_depth=8",
            "workload.think_time=\"constant\"",
            "workload.think_time_ns=60000",
            finish,
        ];
        let trace = (0..8).map(|page| piece(0, page, 4096, 7)).collect();
        report_of(&lines, trace).dedup.offline_pages
    };
    assert_eq!(merged("workload.finish_offline=true"), 7);
    assert_eq!(merged("workload.finish_offline=false"), 1, "the one that had begun");
}

/// A second one reads ahead in a trace, and ends when the run does, however long the trace is.
#[test]
fn requests_are_drawn_by_the_second_thread_until_the_run_ends() {
    let spec = drive(&["controller.idle_after_ns=50000", "precondition=\"none\""]);
    for threads in [0, 1, 2] {
        let drawn = Arc::new(Mutex::new(None));
        let by = Arc::clone(&drawn);
        let endless = (0_u64..).map(move |number| {
            *by.lock().expect("nobody panics with it") = Some(thread::current().id());
            Ok(piece(number * 1_000_000, number % 9, 4096, number))
        });
        let mut stop = |completion: &Completion| match completion.request.number {
            10 => Err(RunError::Log("enough".to_owned())),
            _ => Ok(()),
        };
        let (trace, observer) = (Some(Box::new(endless) as _), Some(&mut stop as _));
        let stopped = run(&spec, RunOptions { trace, observer, threads, ..Default::default() });
        assert!(matches!(stopped, Err(RunError::Log(_))), "{stopped:?}");
        let drawn = drawn.lock().expect("nobody panics with it").expect("some were drawn");
        assert_eq!(drawn == thread::current().id(), threads < 2, "{threads} threads");
    }
}

#[test]
fn addresses_beyond_the_drive_begin_again_where_they_may() {
    let lines = ["controller.idle_after_ns=0", "controller.idle_hint=false"];
    let wraps = [lines[0], lines[1], "workload.wrap_addresses=true"];
    let spec = drive(&lines);
    let bytes = u64::from(spec.logical_pages()) * 4096;
    let trace: Vec<Request> = requests(&spec, 150, 6)
        .into_iter()
        .filter(|request| request.op.has_range())
        .map(|request| Request { length: request.length.next_multiple_of(4096), ..request })
        .map(|request| Request { offset: request.offset / 4096 * 4096, ..request })
        .collect();
    let beyond = trace
        .iter()
        .zip(0..)
        .map(|(request, turn)| Request { offset: request.offset + bytes * (turn % 3), ..*request });
    let beyond: Vec<Request> = beyond.collect();
    let inside = told("", &lines, Some(trace));
    assert_eq!(told("", &wraps, Some(beyond.clone())), inside);
    assert_eq!(told_on(2, "", &wraps, Some(beyond)), inside);
    // Over the end in the middle of a request: all of its pages are there, and read again.
    let over = piece(0, u64::from(spec.logical_pages()) - 1, 3 * 4096, 7);
    let again = Request { time_ns: 9_000_000, op: Op::Read, identity: None, ..over };
    let before = Request { offset: 0, length: 8192, ..again };
    for threads in [1, 2] {
        let empty = [&wraps[..], &["precondition=\"none\""]].concat();
        let trace = Some(Box::new([over, again, before].into_iter().map(Ok)) as _);
        let options = RunOptions { trace, threads, ..RunOptions::default() };
        let report = run(&drive(&empty), options).expect("runs").report;
        let (reads, programs) =
            (&report.flash_operations["read"], &report.flash_operations["program"]);
        assert_eq!((reads.host, programs.host), (5, 3), "{threads} threads");
    }
}

#[test]
fn a_run_ends_after_so_many_requests_and_keeps_so_many_operations() {
    for operations in [0, 1, 5] {
        let asked =
            RunOptions { requests: Some(90), chrome_operations: operations, ..Default::default() };
        let outcome = run(&drive(&[]), asked).expect("runs");
        assert_eq!(outcome.report.requests.completed, 90);
        assert_eq!(outcome.chrome.is_some(), operations > 0, "{operations} operations");
    }
}

#[test]
fn what_makes_no_sense_is_refused_however_it_was_made() {
    let sound = drive(&[]);
    let mut small = sound.clone();
    small.ftl.over_provisioning = 1e-9;
    let mut unknown = sound.clone();
    unknown.dedup.options.insert("nothing".to_owned(), 1.into());
    let mut through =
        drive(&["ftl.compression=\"before-scrambler\"", "controller.write_buffer=\"back\""]);
    through.controller.write_buffer = WriteBuffer::Through;
    for (spec, name) in [(small, "Spec"), (unknown, "Dedup"), (through, "PackingThrough")] {
        let error = run(&spec, RunOptions::default()).expect_err(name);
        assert!(format!("{error:?}").starts_with(name), "{error:?}");
        let Err(error) = attach(&spec) else { panic!("{name} is not refused") };
        assert!(format!("{error:?}").starts_with(name), "{error:?}");
    }
}

#[test]
fn what_a_refusal_advises_is_enough() {
    let mut small = drive(&["ftl.model_metadata=true", "ftl.checkpoint_pages=40"]);
    let error = loop {
        // The less is set aside, the less is left for what the FTL keeps for itself.
        small.ftl.over_provisioning *= 0.95;
        match run(&small, RunOptions { requests: Some(1), ..RunOptions::default() }) {
            Ok(_) => {}
            Err(error @ RunError::Format(_)) => break error,
            Err(error) => panic!("{error:?}"),
        }
    };
    let remedy = error.remedy(&small).expect("there is one");
    let (key, value) = remedy.split_once('=').expect("a key and a value");
    assert_eq!(key, "ftl.over_provisioning");
    small.ftl.over_provisioning = value.parse().expect("a number");
    run(&small, RunOptions { requests: Some(1), ..RunOptions::default() }).expect("runs");
    // A page is left for data, or none is and nothing helps.
    let no_room = |usable| {
        let (logical, own, good, kept) = (9, 5, 1, 0);
        RunError::Format(FtlError::NoRoom { logical, own, good, kept, usable }).remedy(&small)
    };
    let share = f64::from(small.geometry.pages()) - 1.0;
    assert_eq!(no_room(6), Some(format!("ftl.over_provisioning={share:.4}")));
    assert_eq!((no_room(5), no_room(4)), (None, None));
}
