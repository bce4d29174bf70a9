//! What is around a run: threads, several runs, what is refused before it begins.
//! Room: onefold-flash.

use std::sync::atomic::{AtomicU64, Ordering};

use super::told::{drive, requests, told_on};
use crate::run::{RunError, RunOptions, attach, run, sweep};

/// In more than one batch, with pages that are written in part, and where decisions wait for time.
#[test]
fn two_threads_tell_what_one_tells() {
    let idle = ["controller.idle_after_ns=0", "controller.idle_hint=false"];
    let drives: [&[&str]; 4] = [
        &[idle[0], idle[1], "workload.requests=1300"],
        &[idle[0], idle[1], "dedup.policy=\"crc-compare\"", "workload.content=\"uniform\""],
        &["dedup.policy=\"caftl-online\"", "controller.idle_after_ns=3000000"],
        &["precondition=\"none\"", "workload.content=\"unique\"", "workload.requests=1100"],
    ];
    for lines in drives {
        let name = lines.join(", ");
        for trace in [None, Some(requests(&drive(lines), 400, 5))] {
            let one = told_on(1, &name, lines, trace.clone());
            let two = told_on(2, &name, lines, trace);
            assert!(one == two, "{one}\n{two}");
        }
    }
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
    assert!(matches!(with(needed - 1), Err(RunError::Dram { .. })));
    let codewords = [
        "dedup.policy=\"codeword\"",
        "dedup.codeword_bytes=2048",
        "controller.write_buffer=\"back\"",
    ];
    let refused = attach(&drive(&codewords)).err();
    assert!(matches!(refused, Some(RunError::CodewordsAttached)), "{refused:?}");
}
