//! Speed of timed runs: requests per CPU second, and the ratio to a plain loop that updates an
//! array at random places, in the same run.
//! Room: onefold-flash.
//! `cargo run --release -p onefold-flash --example timed_speed [REQUESTS]`

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::hint::black_box;

use onefold_block::SplitMix64;
use onefold_flash::DriveSpec;
use onefold_flash::run::{Completion, Report, RunOptions, run};
use onefold_flash::spec::SpecBuilder;

/// CPU time of this thread in ns.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says so");
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("the first number")
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = cpu_ns();
    let result = work();
    (result, (cpu_ns() - start) as f64 / 1e9)
}

/// Updates a second of a plain array with as many entries as the drive has pages.
fn plain_updates(count: u64) -> f64 {
    let mut array = vec![1_u32; 4 << 20];
    let mut random = SplitMix64::new(1);
    let ((), seconds) = timed(|| {
        for number in 0..count {
            array[random.below(4 << 20) as usize] = number as u32;
        }
    });
    black_box(array);
    count as f64 / seconds
}

fn spec(assignments: &[&str]) -> DriveSpec {
    let builder = SpecBuilder::preset("ses-slc").expect("a preset");
    (assignments.iter().try_fold(builder, |builder, text| builder.set(text)))
        .and_then(SpecBuilder::build)
        .expect("a drive")
}

fn case(name: &str, assignments: &[&str], plain: f64) -> f64 {
    let spec = spec(assignments);
    // Making the drive and its state, and the report, are not part of the rate: the clock runs
    // from the first answer to the last.
    let (mut start, mut end, mut answers, begin) = (0, 0, 0, cpu_ns());
    let mut watch = |_: &Completion| {
        answers += 1;
        if answers == 1 {
            start = cpu_ns();
        }
        if answers == spec.workload.requests {
            end = cpu_ns();
        }
        Ok(())
    };
    let options = RunOptions { observer: Some(&mut watch), ..RunOptions::default() };
    let Report { requests, waf, events, .. } = run(&spec, options).expect("runs").report;
    let seconds = (end - start) as f64 / 1e9;
    let rate = requests.completed as f64 / seconds;
    println!(
        "{name:<40} {:>6.2} M requests/CPU-s  {:>6.3} of plain updates  WAF {:.2}  {:.2} events a \
         request  ({:.2} s to make)",
        rate / 1e6,
        rate / plain,
        waf.total.unwrap_or(0.0),
        events as f64 / requests.completed as f64,
        (start - begin) as f64 / 1e9,
    );
    rate
}

fn main() {
    let requests = std::env::args().nth(1).unwrap_or_else(|| "2000000".to_owned());
    let requests = format!("requests={requests}");
    let plain = plain_updates(20_000_000);
    println!("plain random updates of 16 MiB: {:.1} M/CPU-s", plain / 1e6);
    let one = |name: &str, more: &[&str]| {
        case(name, &[&[requests.as_str(), "dram_bytes=68719476736"], more].concat(), plain)
    };
    one("write, no collection", &["precondition=none"]);
    one("write, no collection, 400 MB/s bus", &["precondition=none", "bus_mb_per_s=400"]);
    one("read of an empty drive", &["precondition=none", "read_share=1"]);
    one("half reads, no collection", &["precondition=none", "read_share=0.5"]);
    let steady = ["precondition=steady", "over_provisioning=0.3", "gc_reserve_blocks=4"];
    one("write, steady state", &steady);
    one("write, steady state, 400 MB/s bus", &[&steady[..], &["bus_mb_per_s=400"]].concat());
    let mut flat = Vec::new();
    for planes in [8, 32, 64, 256] {
        let name = format!("steady state, {} GiB", planes * 4);
        let planes = format!("planes_per_die={planes}");
        flat.push(one(&name, &[&steady[..], &[planes.as_str(), "queue_depth=512"]].concat()));
    }
    let (least, most) =
        flat.iter().fold((f64::MAX, 0.0_f64), |(low, high), &rate| (low.min(rate), high.max(rate)));
    println!("cost per request from 32 GiB to 1 TiB: {:.2} to 1", most / least);
}
