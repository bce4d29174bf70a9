//! What a drive does first in idle moments: what the load needs, and the rest after it.
//! Room: onefold-flash.

use onefold_block::SplitMix64;
use onefold_flash::DriveSpec;
use onefold_flash::run::{Completion, Report};
use onefold_workload::{Identity, Op, Request};

use crate::support;

/// Four packages of one plane each that are full, at a load that leaves them idle nearly always.
const DRIVE: &str = "\
precondition = \"prefill\"
[geometry]
channels = 4
packages = 4
dies_per_package = 1
planes_per_die = 1
blocks_per_plane = 40
pages_per_block = 32
page_bytes = 4096
oob_bytes = 0
[timing]
read_latency_ns = 25_000
program_latency_ns = 200_000
erase_latency_ns = 1_500_000
parallel_unit = \"package\"
[ftl]
over_provisioning = 0.35
gc_reserve_blocks = 3
allocation = \"idle-first\"
[controller]
idle_after_ns = 300_000
[dedup]
policy = \"gleaner\"
[workload]
finish_offline = false
";
const MS: u64 = 1_000_000;

fn drive(assignments: &[&str]) -> DriveSpec {
    support::drive(DRIVE, assignments)
}

/// Overwrites of random pages about five milliseconds apart, in the midst of reads, a third of them
/// duplicates.
fn trickle(spec: &DriveSpec) -> Vec<Request> {
    let mut random = SplitMix64::new(8);
    let pages = u64::from(spec.logical_pages());
    let write = |number: u64| Request {
        time_ns: number * 5 * MS + number * 7_919 % 25_000,
        op: Op::Write,
        offset: random.below(pages) * 4096,
        length: 4096,
        identity: Some(Identity::of_number(1, number - number % 3 % 2)),
        stream: None,
        pid: None,
        deduplicate: None,
    };
    (1..2 * pages).map(write).collect()
}

fn run(assignments: &[&str]) -> (Report, Vec<Completion>) {
    let spec = drive(assignments);
    support::replay(&spec, trickle(&spec))
}

fn longest(log: &[Completion]) -> u64 {
    log.iter().map(|done| done.answered_ns - done.request.arrival_ns).max().expect("requests")
}

#[test]
fn by_need_no_write_waits_for_anything_but_its_own_program() {
    let (report, log) = run(&[]);
    assert!(report.flash_operations["erase"].gc > 50, "there is something to collect");
    // A unit is free and room was made; a comparison in vain is the writer's own.
    let waited = |done: &&Completion| {
        done.verdict.programmed > 0 && done.answered_ns - done.request.arrival_ns > 200_000
    };
    let waited = log.iter().filter(waited).count() as u64;
    let in_vain = report.dedup.compared_different;
    assert!(waited <= in_vain && in_vain < 10, "{waited} of {in_vain} in vain");
    assert!(longest(&log) <= 225_000, "{}", longest(&log));
    assert!(report.dedup.inline_pages + report.dedup.offline_pages > 500);
    // Whoever looks for duplicates first has his writes collect.
    let (dedup_first, log) = run(&["idle_order=\"dedup-first\""]);
    assert!(longest(&log) > 400_000, "{}", longest(&log));
    // Need by need, what is found is the same.
    let found = |report: &Report| report.dedup.inline_pages + report.dedup.offline_pages;
    assert!(found(&report) + 5 >= found(&dedup_first));
}

#[test]
fn the_order_is_that_of_the_policy_unless_it_is_said() {
    let hash = |assignments: &[&str]| run(assignments).0.result_hash;
    assert_eq!(hash(&[]), hash(&["idle_order=\"by-need\""]));
    assert_ne!(hash(&[]), hash(&["idle_order=\"dedup-first\""]));
    let ses = "policy=\"ses-device\"";
    assert_eq!(hash(&[ses]), hash(&[ses, "idle_order=\"dedup-first\""]));
}
