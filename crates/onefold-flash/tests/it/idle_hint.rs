//! The host says that it is idle: what the drive does with that, and what it does not.
//! Room: onefold-flash.   Source: [park-shin] sec. III: the host tells of idle time.

use onefold_flash::DriveSpec;
use onefold_flash::run::{Completion, Report};
use onefold_workload::{Identity, Op, Request};

use crate::support;

const DRIVE: &str = "\
precondition = \"none\"
[geometry]
channels = 1
packages = 1
dies_per_package = 1
planes_per_die = 1
blocks_per_plane = 32
pages_per_block = 32
page_bytes = 4096
oob_bytes = 0
[timing]
read_latency_ns = 25_000
program_latency_ns = 200_000
erase_latency_ns = 1_500_000
[ftl]
over_provisioning = 0.5
gc_reserve_blocks = 2
[controller]
idle_after_ns = 0
[dedup]
policy = \"crc-compare\"
[workload]
finish_offline = false
";
const MS: u64 = 1_000_000;
/// Far more than there is to do.
const LATER: u64 = 100 * MS;

fn drive(assignments: &[&str]) -> DriveSpec {
    support::drive(DRIVE, assignments)
}

fn replay(assignments: &[&str], requests: &[Request]) -> (Report, Vec<Completion>) {
    support::replay(&drive(assignments), requests.to_vec())
}

fn merged(assignments: &[&str], requests: &[Request]) -> u64 {
    replay(assignments, requests).0.dedup.offline_pages
}

fn write(time_ns: u64, page: u64, content: u64) -> Request {
    Request {
        time_ns,
        op: Op::Write,
        offset: page * 4096,
        length: 4096,
        identity: Some(Identity::of_number(1, content)),
        stream: None,
        pid: None,
        deduplicate: None,
    }
}

fn hint(time_ns: u64) -> Request {
    Request { op: Op::Idle, offset: 0, length: 0, identity: None, ..write(time_ns, 0, 0) }
}

/// Ten pages of one content, whatever `between`, and a page after a pause.
fn burst(between: Option<Request>, pause_ns: u64) -> Vec<Request> {
    let mut all: Vec<Request> = (0..10).map(|page| write(0, page, 7)).collect();
    all.extend(between);
    all.push(write(pause_ns, 20, 8));
    all
}

#[test]
fn background_work_begins_at_once_where_the_host_says_so() {
    let said = burst(Some(hint(0)), LATER);
    assert_eq!(merged(&[], &said), 9);
    // The same without a word, with a word that is not heeded, and by a clock that is too slow.
    assert_eq!(merged(&[], &burst(None, LATER)), 0);
    assert_eq!(merged(&["idle_hint=false"], &said), 0);
    assert_eq!(merged(&["idle_hint=false", "idle_after_ns=200000000"], &said), 0);
    // The clock goes on beside it.
    assert_eq!(merged(&["idle_after_ns=1000000"], &burst(None, LATER)), 9);
    assert_eq!(merged(&["idle_after_ns=200000000"], &said), 9);
}

#[test]
fn work_begins_when_the_writes_before_the_hint_are_done_and_not_before() {
    let (_, plain) = replay(&[], &burst(None, LATER));
    let (_, said) = replay(&[], &burst(Some(hint(0)), LATER));
    let writes = |log: &[Completion]| -> Vec<(u64, u64)> {
        let of = log.iter().filter(|done| done.request.op == Op::Write);
        of.map(|done| (done.request.arrival_ns, done.answered_ns)).collect()
    };
    assert_eq!(writes(&plain), writes(&said));
}

#[test]
fn the_next_request_ends_it() {
    // A word that the host goes back on, and then a pause that nobody announces.
    let mut all = burst(Some(hint(0)), 10);
    all.push(write(LATER, 21, 9));
    assert_eq!(merged(&[], &all), 0);
}

#[test]
fn a_hint_that_a_request_overtakes_says_nothing() {
    // Both are on the link at the same time.
    let slow = ["link_latency_ns=1000000"];
    let mut all = burst(Some(hint(10 * MS)), 10 * MS + 10);
    all.push(write(LATER, 21, 9));
    assert_eq!(merged(&slow, &all), 0);
    // Alone on the link it counts.
    let mut all = burst(Some(hint(10 * MS)), 20 * MS);
    all.push(write(LATER, 21, 9));
    assert_eq!(merged(&slow, &all), 9);
}

#[test]
fn hints_are_counted_and_cost_what_a_command_costs() {
    let (report, log) = replay(&["link_latency_ns=700"], &burst(Some(hint(5 * MS)), LATER));
    assert_eq!((report.requests.idle_hints, report.requests.writes), (1, 11));
    assert_eq!(report.requests.generated, report.requests.completed);
    let done = log.iter().find(|done| done.request.op == Op::Idle).expect("answered");
    assert_eq!(done.answered_ns - done.request.arrival_ns, 700);
    // In a closed loop a hint is a turn of its client.
    let (report, _) = replay(&["trace_timing=closed"], &burst(Some(hint(0)), LATER));
    assert_eq!((report.requests.idle_hints, report.requests.completed), (1, 12));
}

#[test]
fn a_host_that_knows_can_be_put_before_any_trace() {
    let hinted = |ns: &str| replay(&[&format!("idle_hint_ns={ns}")], &burst(None, LATER)).0;
    let (there, explicit) = (hinted("100000000"), replay(&[], &burst(Some(hint(0)), LATER)).0);
    assert_eq!(there.result_hash, explicit.result_hash);
    assert_eq!(there.dedup.offline_pages, 9);
    assert_eq!(hinted("100000001").requests.idle_hints, 0);
}

#[test]
fn every_policy_with_idle_work_heeds_the_host() {
    for (policy, way) in [
        ("caftl-offline", "store_share=1.0"),
        ("block-separation", "hash_unique=true"),
        ("ses-host", "inline=false"),
        ("ses-device", "inline=false"),
        ("gleaner", "compare='when-idle'"),
    ] {
        let (name, way) = (format!("dedup.policy={policy}"), format!("dedup.{way}"));
        let found = |between| {
            let set = [name.as_str(), &way, "dram_bytes=1000000000"];
            let dedup = replay(&set, &burst(between, LATER)).0.dedup;
            dedup.inline_pages + dedup.offline_pages
        };
        assert_eq!(found(Some(hint(0))), 9, "{policy}");
        assert!(found(None) < 9, "{policy}");
    }
}
