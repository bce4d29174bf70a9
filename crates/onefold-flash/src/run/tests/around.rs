//! What is around a run: threads, several runs, what is refused before it begins.
//! Room: onefold-flash.

use std::sync::atomic::{AtomicU64, Ordering};

use onefold_workload::{Op, Request};

use super::told::{drive, requests, told_on};
use crate::run::{RunError, RunOptions, attach, run, sweep};

const NO_PAUSES: [&str; 2] = ["controller.idle_after_ns=0", "controller.idle_hint=false"];

#[track_caller]
fn two_threads_tell_what_one_tells(lines: &[&str], count: u64) {
    let spec = drive(lines);
    let name = lines.join(", ");
    let mut trace = requests(&spec, count, 5);
    if let Some(last) = trace.last().copied() {
        // More than the drive has is declared unused.
        let offset = u64::from(spec.logical_pages() - 1) * 4096;
        let beyond = Request { op: Op::Trim, offset, length: 8192, identity: None, ..last };
        trace.push(beyond);
    }
    for trace in [None, Some(trace)] {
        let one = told_on(1, &name, lines, trace.clone());
        let two = told_on(2, &name, lines, trace);
        assert!(one == two, "{one}\n{two}");
    }
}

#[test]
fn two_threads_tell_of_more_than_one_batch_what_one_tells() {
    let lines = [NO_PAUSES[0], NO_PAUSES[1], "workload.requests=1300"];
    two_threads_tell_what_one_tells(&lines, 300);
    let unique = ["precondition=\"none\"", "workload.content=\"unique\"", "workload.requests=1100"];
    two_threads_tell_what_one_tells(&unique, 10);
}

/// Whichever of its pages it is, a write in part waits for what the page held.
#[test]
fn two_threads_tell_of_pages_in_part_what_one_tells() {
    for (offset, length) in [(512, 7680), (0, 4608), (512, 1024), (512, 12_288), (0, 8192)] {
        let of = |time_ns, op, offset, length| {
            let (stream, pid, deduplicate, identity) = (None, None, None, None);
            Request { time_ns, op, offset, length, identity, stream, pid, deduplicate }
        };
        let write = of(3000, Op::Write, 40_960 + offset, length);
        let trace = [of(1, Op::Write, 0, 8192), write, of(9000, Op::Write, 4096, 4096)];
        for before in [0, 1] {
            let of = |threads| told_on(threads, "", &NO_PAUSES, Some(trace[before..].to_vec()));
            assert_eq!(of(2), of(1), "{length} bytes from {offset}, {before} left out");
        }
    }
}

#[test]
fn two_threads_tell_of_comparisons_what_one_tells() {
    let lines = [
        NO_PAUSES[0],
        NO_PAUSES[1],
        "dedup.policy=\"crc-compare\"",
        "workload.content=\"uniform\"",
        "workload.content_values=30",
        "controller.compare_ns=3000",
        "ftl.pacing=\"whole-block\"",
    ];
    two_threads_tell_what_one_tells(&lines, 400);
}

#[test]
fn two_threads_tell_where_decisions_wait_for_time_what_one_tells() {
    let lines = ["dedup.policy=\"caftl-online\"", "controller.idle_after_ns=3000000"];
    two_threads_tell_what_one_tells(&lines, 300);
    let busy = [
        "dedup.policy=\"caftl-offline\"",
        "controller.idle_after_ns=3000000",
        "controller.idle_hint=true",
        "controller.idle_order=\"by-need\"",
        "workload.arrivals=\"closed\"",
        "workload.queue_depth=1",
        "workload.trace_timing=\"closed\"",
        "controller.idle_steps=8",
        "workload.finish_offline=true",
    ];
    two_threads_tell_what_one_tells(&busy, 300);
}

#[test]
fn two_threads_tell_of_maps_and_buffers_what_one_tells() {
    let metadata = [
        NO_PAUSES[0],
        NO_PAUSES[1],
        "ftl.model_metadata=true",
        "ftl.checkpoint_pages=40",
        "ftl.map_cache_bytes=2048",
        "geometry.page_bytes=512",
        "geometry.blocks_per_plane=28",
        "workload.wrap_addresses=true",
        "workload.requests=300",
    ];
    two_threads_tell_what_one_tells(&metadata, 300);
    let buffered = [
        NO_PAUSES[0],
        NO_PAUSES[1],
        "controller.write_buffer=\"back\"",
        "controller.write_buffer_pages=5",
        "workload.queue_depth=9",
    ];
    two_threads_tell_what_one_tells(&buffered, 100);
}

#[test]
fn many_runs_give_what_each_gives_alone() {
    let specs = ["seed=1", "seed=2", "controller.dram_bytes=1"].map(|line| drive(&[line]));
    let answered = [const { AtomicU64::new(0) }; 3];
    let (done, threads) = (AtomicU64::new(0), 2);
    let count = || {
        done.fetch_add(1, Ordering::Relaxed);
    };
    let results = sweep(&specs, Some(90), threads, &|| Ok(None), &answered, &count);
    assert_eq!((results.len(), done.into_inner()), (3, 3));
    for (spec, result) in specs.iter().zip(&results[..2]) {
        let options = RunOptions { requests: Some(90), ..RunOptions::default() };
        let alone = run(spec, options).expect("runs").report;
        assert_eq!(result.as_ref().expect("runs"), &alone);
    }
    assert!(matches!(results[2], Err(RunError::Dram { .. })), "{:?}", results[2]);
    for threads in [0, 1] {
        let one = sweep(&specs[..1], Some(90), threads, &|| Ok(None), &[], &|| ());
        assert_eq!(one[0].as_ref().expect("runs"), results[0].as_ref().expect("runs"));
    }
    let answered = answered.map(AtomicU64::into_inner);
    assert_eq!(answered.map(|count| count > 0), [true, true, false]);
}

#[test]
fn a_run_is_refused_for_the_last_byte_of_memory_and_codewords_for_others() {
    let with = |bytes: u64| {
        let line = format!("controller.dram_bytes={bytes}");
        run(&drive(&[&line]), RunOptions::default())
    };
    let Err(RunError::Dram { needed, .. }) = with(1) else { panic!("nothing fits a byte") };
    with(needed).expect("just fits");
    // What is advised is whole mebibytes.
    let spec = drive(&[]);
    for (needed, advised) in [(1, 1 << 20), (1 << 20, 1 << 20), ((1 << 20) + 1, 2 << 20)] {
        let (list, smaller) = (String::new(), String::new());
        let remedy = RunError::Dram { budget: 0, needed, list, smaller }.remedy(&spec);
        assert_eq!(remedy, Some(format!("controller.dram_bytes={advised}")));
    }
    assert!(matches!(with(needed - 1), Err(RunError::Dram { .. })));
    let refusal = |policy: &str| {
        let lines = ["controller.dram_bytes=1", policy];
        run(&drive(&lines), RunOptions::default()).expect_err("nothing fits a byte").to_string()
    };
    assert!(!refusal("dedup.policy=\"none\"").contains("less with"));
    assert!(refusal("dedup.policy=\"block-separation\"").contains("; less with dedup."));
    let codewords = [
        "dedup.policy=\"codeword\"",
        "dedup.codeword_bytes=2048",
        "controller.write_buffer=\"back\"",
    ];
    let refused = attach(&drive(&codewords)).err();
    assert!(matches!(refused, Some(RunError::CodewordsAttached)), "{refused:?}");
}
