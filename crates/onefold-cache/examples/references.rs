//! What Toll gains by knowing how many files use a container: the same reads, told and not told.
//! Room: onefold-cache.
//! `cargo run --release -p onefold-cache --example references [SEED]`: hit rate in per cent and
//! cache fills written, of 16 GiB of which 128 GiB are read, behind a cache for a tenth.

#![expect(clippy::print_stdout, reason = "a tool for people")]
#![allow(clippy::disallowed_methods, reason = "an example or benchmark reads its arguments")]

use std::error::Error;

use onefold_cache::simulate::{Plan, run_one};
use onefold_cache::trace::Trace;
use onefold_cache::workload::WorkloadSpec;
use onefold_cache::{Choice, OptionError};

const SIZE: f64 = 0.1;
const FILLS: [f64; 3] = [2.0, 5.0, 20.0];

/// Reads, and what is done to them.
fn families(seed: u64) -> Vec<(&'static str, WorkloadSpec)> {
    let plain = WorkloadSpec { read_gib: 128.0, seed, ..WorkloadSpec::default() };
    let shared = WorkloadSpec { sharing: 1.0, shared_kib: 4096, ..plain };
    let zipf = |exponent| WorkloadSpec { sharing_exponent: exponent, ..shared };
    vec![
        ("half share, anywhere", plain),
        ("all share, anywhere", shared),
        ("shared by Zipf .75", zipf(0.75)),
        ("shared by Zipf 1.5", zipf(1.5)),
        ("little is shared, Zipf 1", WorkloadSpec { shared_kib: 512, ..zipf(1.0) }),
        ("half share, Zipf 1", WorkloadSpec { sharing: 0.5, ..zipf(1.0) }),
        ("the same, 512 KiB containers", WorkloadSpec { container_kib: 512, ..zipf(1.0) }),
        ("files read by Zipf .8", WorkloadSpec { zipf_exponent: 0.8, ..zipf(1.0) }),
        ("popularity jumps 8 times", WorkloadSpec { drift_steps: 8, ..zipf(1.0) }),
        ("scans", WorkloadSpec { scan_every: 2000, ..zipf(1.0) }),
    ]
}

/// Hit rate in per cent, and fills written.
fn run(trace: &Trace, fills: f64) -> Result<(f64, f64), OptionError> {
    let per_object = trace.requests.len() as f64 / (trace.containers() as f64 * SIZE);
    let choice = Choice::parse(&format!("toll:fills={fills},period={per_object}"))?;
    let run = run_one(trace, None, &choice, SIZE, &Plan::of_one(1))?;
    Ok((100.0 * run.hit_rate, run.fills))
}

fn main() -> Result<(), Box<dyn Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    println!("{:<30} told, and not told, at {FILLS:?} fills", "");
    for (name, workload) in families(seed) {
        let told = workload.trace()?;
        let mut untold = told.clone();
        untold.references.fill(0);
        print!("{name:<30}");
        for fills in FILLS {
            let ((with, wrote), (without, wrote_without)) =
                (run(&told, fills)?, run(&untold, fills)?);
            print!(" | {with:5.1} {wrote:4.1}  {without:5.1} {wrote_without:4.1}");
        }
        println!();
    }
    Ok(())
}
