//! What a second thread brings to a timed run, and what the machine has for one.
//! Room: onefold-flash.
//! `cargo run --release -p onefold-flash --example two_threads [ROUNDS] [REQUESTS]`: for each case,
//! in turn and round by round, a run on one thread, one on two, and two runs side by side on one
//! thread each; medians. The clock runs from the first answer to the last. `CPU bound` is the CPU
//! time on one thread over that of the busier one of two: what two cores of one's own would bring.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]
#![expect(clippy::print_stdout, reason = "a tool for people")]

use std::time::Instant;

use onefold_flash::DriveSpec;
use onefold_flash::run::{Completion, RunOptions, run};
use onefold_flash::spec::SpecBuilder;
use rustix::time::{ClockId, clock_gettime};

const STEADY: [&str; 3] = ["precondition=steady", "over_provisioning=0.3", "gc_reserve_blocks=4"];

/// Seconds by the wall clock, of this thread's CPU time and of the process's.
#[derive(Clone, Copy, Default)]
struct Times {
    wall: f64,
    thread: f64,
    process: f64,
}

impl Times {
    fn now(start: Instant) -> Self {
        let seconds = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        Self {
            wall: start.elapsed().as_secs_f64(),
            thread: seconds(ClockId::ThreadCPUTime),
            process: seconds(ClockId::ProcessCPUTime),
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            wall: self.wall - earlier.wall,
            thread: self.thread - earlier.thread,
            process: self.process - earlier.process,
        }
    }
}

fn spec(requests: u64, assignments: &[&str]) -> DriveSpec {
    let requests = format!("requests={requests}");
    let all = [&[requests.as_str(), "dram_bytes=68719476736"], assignments].concat();
    let builder = SpecBuilder::preset("ses-slc").expect("a preset");
    (all.iter().try_fold(builder, |builder, text| builder.set(text)))
        .and_then(SpecBuilder::build)
        .expect("a drive")
}

/// A run, and what it took.
fn timed(spec: &DriveSpec, threads: usize) -> (String, Times) {
    let (mut first, mut last, mut answers) = (Times::default(), Times::default(), 0);
    let start = Instant::now();
    let mut watch = |_: &Completion| {
        answers += 1;
        if answers == 1 {
            first = Times::now(start);
        } else if answers == spec.workload.requests {
            last = Times::now(start);
        }
        Ok(())
    };
    let options = RunOptions { observer: Some(&mut watch), threads, ..RunOptions::default() };
    let report = run(spec, options).expect("runs").report;
    (report.result_hash, last.since(first))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |or: u64| arguments.next().map_or(or, |text| text.parse().expect("a number"));
    let (rounds, requests) = (number(5), number(2_000_000));
    let small = ["blocks_per_plane=64"];
    let cases: [(&str, Vec<&str>); 4] = [
        ("writes, no collection", vec!["precondition=none"]),
        ("writes, steady state", STEADY.to_vec()),
        ("the same, crc-compare, 8 GiB", [&STEADY[..], &small, &["policy=crc-compare"]].concat()),
        ("the same, ses-device, 8 GiB", [&STEADY[..], &small, &["policy=ses-device"]].concat()),
    ];
    println!(
        "| case | one thread, CPU ns a request | two: run | two: ahead | CPU bound | wall clock | \
         two runs at once |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, assignments) in cases {
        let spec = spec(requests, &assignments);
        let mut taken: [Vec<f64>; 6] = Default::default();
        for _ in 0..rounds {
            let (hash, one) = timed(&spec, 1);
            let (same, two) = timed(&spec, 2);
            assert_eq!(hash, same, "{name}");
            let both = std::thread::scope(|scope| {
                let runs = [(); 2].map(|()| scope.spawn(|| timed(&spec, 1).1.wall));
                runs.map(|run| run.join().expect("runs")).into_iter().fold(0.0, f64::max)
            });
            let (ns, ahead) = (1e9 / requests as f64, two.process - two.thread);
            let figures = [
                one.thread * ns,
                two.thread * ns,
                ahead * ns,
                one.thread / two.thread.max(ahead),
                one.wall / two.wall,
                2.0 * one.wall / both,
            ];
            taken.iter_mut().zip(figures).for_each(|(all, figure)| all.push(figure));
        }
        let [one, two, ahead, bound, wall, both] = taken.map(median);
        println!(
            "| {name} | {one:.0} | {two:.0} | {ahead:.0} | {bound:.2} | {wall:.2} | {both:.2} |"
        );
    }
}
