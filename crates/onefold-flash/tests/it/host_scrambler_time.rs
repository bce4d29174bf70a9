//! The software scrambler as cores of the host: what it takes, of which pages, and of whom.
//! Room: onefold-flash.   Source: [ses-dedup] sec. III.

use onefold_flash::DriveSpec;
use onefold_flash::run::{Completion, Report};
use onefold_workload::{Identity, Op, Request};

use crate::support;

const DRIVE: &str = "\
precondition = \"none\"
[geometry]
channels = 2
packages = 2
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
journal = false
[dedup]
policy = \"ses-host\"
[host]
scrambler_mb_per_s = 4096
[workload]
finish_offline = false
";
/// A page at 4096 x 10^6 bytes a second.
const PAGE_NS: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

fn drive(assignments: &[&str]) -> DriveSpec {
    support::drive(DRIVE, assignments)
}

fn replay(assignments: &[&str], requests: &[Request]) -> (Report, Vec<Completion>) {
    support::replay(&drive(assignments), requests.to_vec())
}

/// Latencies in the order of the answers.
fn latencies(assignments: &[&str], requests: &[Request]) -> Vec<u64> {
    let (_, log) = replay(assignments, requests);
    log.iter().map(|done| done.answered_ns - done.request.arrival_ns).collect()
}

fn of(time_ns: u64, op: Op, page: u64, pages: u64) -> Request {
    let identity = (op == Op::Write).then(|| Identity::of_number(1, time_ns + page));
    let (offset, length) = (page * 4096, pages * 4096);
    Request { time_ns, op, offset, length, identity, stream: None, pid: None, deduplicate: None }
}

#[test]
fn a_page_is_scrambled_before_the_link_and_undone_behind_it() {
    let all = [of(0, Op::Write, 3, 1), of(SECOND, Op::Read, 3, 1), of(2 * SECOND, Op::Flush, 0, 0)];
    assert_eq!(latencies(&[], &all), [200_000 + PAGE_NS, 25_000 + PAGE_NS, 0]);
    assert_eq!(latencies(&["scrambler_mb_per_s=0"], &all), [200_000, 25_000, 0]);
    assert_eq!(latencies(&["link_latency_ns=70"], &all)[..2], [201_070, 26_070]);
    let (report, log) = replay(&[], &all);
    for (kind, name) in [(0, "write"), (1, "read")] {
        assert!((report.latency_breakdown_ns[name]["host"] - PAGE_NS as f64).abs() < 1e-9);
        assert_eq!(log[kind].breakdown.iter().sum::<u64>(), latencies(&[], &all)[kind]);
    }
    let cores = &report.utilisation.servers["host_scrambler"];
    assert_eq!((cores.count, cores.jobs), (1, 2));
    let (_, none) = (0, replay(&["scrambler_mb_per_s=0"], &all).0);
    assert!(!none.utilisation.servers.contains_key("host_scrambler"));
}

#[test]
fn cores_are_waited_for() {
    // Four pages of two requests at once: the second waits for the only core.
    let all = [of(0, Op::Write, 0, 2), of(0, Op::Write, 2, 2)];
    let waits =
        |cores: &str| replay(&[cores], &all).0.utilisation.servers["host_scrambler"].clone();
    let (one, two) = (waits("scrambler_cores=1"), waits("scrambler_cores=2"));
    assert!((one.wait_ns_mean - PAGE_NS as f64).abs() < 1e-9, "{one:?}");
    assert!(two.wait_ns_mean.abs() < 1e-9, "{two:?}");
    // Both are busy for four pages in all, of the time until the last one is programmed.
    let busy = |cores: &str| {
        let (report, _) = replay(&[cores], &all);
        let of = &report.utilisation.servers["host_scrambler"];
        of.mean * f64::from(of.count) * report.elapsed_ns as f64
    };
    for cores in ["scrambler_cores=1", "scrambler_cores=2"] {
        assert!((busy(cores) - 4.0 * PAGE_NS as f64).abs() < 1.0, "{}", busy(cores));
    }
}

#[test]
fn only_pages_that_the_host_wants_take_its_time() {
    let ranges = "dedup.lba_ranges=[[0, 9]]";
    let all = [
        of(0, Op::Write, 8, 4),
        of(SECOND, Op::Read, 8, 4),
        of(2 * SECOND, Op::Write, 20, 1),
        of(3 * SECOND, Op::Read, 20, 1),
    ];
    let plain = latencies(&[ranges, "scrambler_mb_per_s=0"], &all);
    let got = latencies(&[ranges], &all);
    let more: Vec<u64> = got.iter().zip(&plain).map(|(got, plain)| got - plain).collect();
    assert_eq!(more, [2 * PAGE_NS, 2 * PAGE_NS, 0, 0]);
    // The word of a request counts more than its address, and is remembered for the reading.
    let said = |deduplicate| Request { deduplicate: Some(deduplicate), ..all[2] };
    let kept = Request { deduplicate: Some(false), ..of(0, Op::Write, 8, 1) };
    let asked = [said(true), of(3 * SECOND, Op::Read, 20, 1)];
    let left = [kept, of(3 * SECOND, Op::Read, 8, 1)];
    let more = |all: &[Request]| -> Vec<u64> {
        let plain = latencies(&[ranges, "scrambler_mb_per_s=0"], all);
        latencies(&[ranges], all).iter().zip(plain).map(|(got, plain)| got - plain).collect()
    };
    assert_eq!((more(&asked), more(&left)), (vec![PAGE_NS; 2], vec![0; 2]));
}

#[test]
fn no_other_policy_takes_the_host_s_time() {
    let all = [of(0, Op::Write, 3, 1), of(SECOND, Op::Read, 3, 1)];
    for policy in ["none", "crc-compare", "gleaner"] {
        let policy = format!("dedup.policy={policy}");
        let with = |rate: &str| latencies(&[&policy, rate], &all);
        assert_eq!(with("scrambler_mb_per_s=1"), with("scrambler_mb_per_s=0"), "{policy}");
    }
    // A compression engine before the drive's scrambler: the host's is off.
    let off = ["dedup.compression='before-scrambler'"];
    assert_eq!(latencies(&off, &all), latencies(&["scrambler_mb_per_s=0", off[0]], &all));
}
