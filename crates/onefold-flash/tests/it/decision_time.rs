//! When the drive decides: on a page when its fingerprint is ready, on the pages of one address in
//! the order in which they came; and what a page holds that was written in pieces.
//! Room: onefold-flash.

use onefold_flash::DriveSpec;
use onefold_flash::dedup::POLICIES;
use onefold_flash::run::{Completion, Report, RunOptions, run};
use onefold_workload::{Identity, Op, Request};

use crate::support;

/// One plane of 64 blocks x 32 pages of 8 KiB.
const SMALL: &str = "\
precondition = \"none\"
[geometry]
channels = 1
packages = 1
dies_per_package = 1
planes_per_die = 1
blocks_per_plane = 64
pages_per_block = 32
page_bytes = 8192
[timing]
read_latency_ns = 25_000
program_latency_ns = 200_000
[ftl]
over_provisioning = 0.5
gc_reserve_blocks = 2
[controller]
hash_ns = 0
parity_correction_ns = 0
idle_after_ns = 0
[workload]
finish_offline = false
";
const PAGE: u64 = 8192;
const SECOND: u64 = 1_000_000_000;

fn drive(assignments: &[&str]) -> DriveSpec {
    support::drive(SMALL, assignments)
}

fn replay(spec: &DriveSpec, requests: Vec<Request>) -> (Report, Vec<Completion>) {
    let (report, mut log) = support::replay(spec, requests);
    log.sort_by_key(|done: &Completion| done.request.number);
    (report, log)
}

fn piece(time_ns: u64, op: Op, offset: u64, length: u64, content: u64) -> Request {
    let identity = (op == Op::Write).then(|| Identity::of_number(1, content));
    Request { time_ns, op, offset, length, identity, stream: None, pid: None, deduplicate: None }
}

fn page(time_ns: u64, op: Op, page: u64, content: u64) -> Request {
    piece(time_ns, op, page * PAGE, PAGE, content)
}

fn took(done: &Completion) -> u64 {
    done.answered_ns - done.request.arrival_ns
}

#[test]
fn a_share_is_not_answered_before_its_only_copy_is_in_the_flash() {
    // The two that share what is not in the flash yet; the others look at idle units only.
    for policy in ["caftl-online", "gleaner"] {
        let spec = drive(&[&format!("policy=\"{policy}\"")]);
        let (report, log) = replay(
            &spec,
            vec![
                page(0, Op::Write, 1, 7),
                page(1_000, Op::Write, 2, 7),
                page(2_000, Op::Write, 1, 7),
                page(SECOND, Op::Write, 3, 7),
            ],
        );
        assert_eq!(log[0].answered_ns, 200_000, "{policy}");
        for done in &log[1..3] {
            assert!(done.answered_ns >= 200_000, "{policy}: answered at {}", done.answered_ns);
        }
        assert_eq!(report.dedup.inline_pages, 3, "{policy}");
        assert!(took(&log[3]) <= 25_000, "{policy}: what is in the flash is not waited for");
    }
}

#[test]
fn whether_a_candidate_is_idle_is_asked_when_the_fingerprint_is_ready() {
    let spec = drive(&["policy=\"ses-device\"", "parity_correction_ns=300000"]);
    let (report, log) = replay(
        &spec,
        vec![
            page(0, Op::Write, 1, 7),
            // Idle when the page comes, busy when its fingerprint is ready.
            page(SECOND, Op::Write, 2, 7),
            page(SECOND + 290_000, Op::Read, 1, 0),
            // The other way round.
            page(2 * SECOND - 10_000, Op::Read, 1, 0),
            page(2 * SECOND, Op::Write, 3, 7),
        ],
    );
    let shared = |at: usize| (log[at].verdict.programmed, log[at].verdict.shared);
    assert_eq!((shared(1), shared(4)), ((1, 0), (0, 1)));
    assert_eq!(report.dedup.policy_counts["busy_candidates"], 1);
    assert_eq!(took(&log[4]), 300_000 + 25_000, "the fingerprint, then the comparison");
    assert_eq!(took(&log[1]), 300_000 + 15_000 + 200_000, "what is left of the read is waited for");
}

#[test]
fn a_fingerprint_that_takes_next_to_no_time_changes_next_to_nothing() {
    let found = |ns: u64| {
        let spec = drive(&[
            "planes_per_die=8",
            "blocks_per_plane=32",
            "policy=\"ses-device\"",
            &format!("parity_correction_ns={ns}"),
            "content=uniform",
            "content_values=1000",
            "requests=8000",
            "queue_depth=16",
        ]);
        let report = run(&spec, RunOptions::default()).expect("runs").report;
        report.dedup.inline_pages as f64 / report.requests.writes as f64
    };
    let (at_once, soon) = (found(0), found(1));
    assert!((at_once - soon).abs() < 0.1 * at_once + 0.002, "{at_once} and {soon}");
}

#[test]
fn the_pages_of_one_address_are_decided_on_in_their_order() {
    for policy in POLICIES {
        let of_pages = support::of_pages(policy.name, PAGE as u32);
        let mut set: Vec<&str> = of_pages.iter().map(String::as_str).collect();
        set.push("hash_ns=90000");
        let spec = drive(&set);
        let (report, log) = replay(
            &spec,
            vec![
                page(0, Op::Write, 1, 1),
                page(0, Op::Write, 2, 2),
                // This one waits for a read of what is there; the next one is written whole.
                piece(SECOND, Op::Write, PAGE, 4096, 3),
                page(SECOND + 1_000, Op::Write, 1, 2),
                page(SECOND + 2_000, Op::Read, 1, 0),
                page(2 * SECOND, Op::Write, 3, 4),
                piece(3 * SECOND, Op::Write, 3 * PAGE, 4096, 3),
                page(3 * SECOND + 1_000, Op::Trim, 3, 0),
            ],
        );
        let name = policy.name;
        let kept = report.dedup.missed_pages.expect("content is known") + report.dedup.inline_pages;
        assert_eq!(kept, 1, "{name}: in the end page 1 holds what page 2 does");
        assert_eq!(report.requests.partial_pages, 2, "{name}");
        assert_eq!(took(&log[4]), 0, "{name}: what is on its way is in the controller's memory");
        assert_eq!(report.requests.buffer_hits, 1, "{name}");
        assert!(log[3].answered_ns > log[2].answered_ns - 200_000, "{name}");
    }
}

#[test]
fn nothing_that_changes_pages_overtakes_a_write_that_waits_for_the_buffer() {
    for policy in POLICIES {
        let of_pages = support::of_pages(policy.name, PAGE as u32);
        let mut set: Vec<&str> = of_pages.iter().map(String::as_str).collect();
        set.extend(["write_buffer=back", "write_buffer_pages=4", "finish_offline=true"]);
        // Two pages of the buffer are taken when a write of three comes, which waits.
        let begun = [piece(0, Op::Write, 0, 2 * PAGE, 1), piece(1, Op::Write, 0, 3 * PAGE, 2)];
        let stored = |then: &[Request]| {
            let requests = begun.iter().chain(then).copied().collect();
            let (report, log) = replay(&drive(&set), requests);
            let dedup = report.dedup;
            let missed = dedup.missed_pages.expect("content is known");
            (missed + dedup.inline_pages + dedup.offline_pages, log)
        };
        // One page has room, and holds in the end what it came with: as page 9.
        let small = [page(2, Op::Write, 1, 3), page(SECOND, Op::Write, 9, 3)];
        let (alike, log) = stored(&small);
        assert_eq!(alike, 1, "{}: page 1 is the one that came last", policy.name);
        assert!(log[2].answered_ns >= log[1].answered_ns, "{}", policy.name);
        // Of pages that are forgotten none is like one that comes later.
        let trim =
            [piece(2, Op::Trim, 0, 3 * PAGE, 0), piece(SECOND, Op::Write, 8 * PAGE, 3 * PAGE, 2)];
        let (alike, log) = stored(&trim);
        assert_eq!(alike, 0, "{}: all is forgotten", policy.name);
        assert!(log[2].answered_ns >= log[1].answered_ns, "{}", policy.name);
    }
}

#[test]
fn a_page_written_in_part_is_not_taken_for_its_last_piece() {
    let spec = drive(&["policy=\"none\""]);
    let whole = (0..1000).map(|number| page(0, Op::Write, number, number));
    let pieces = (0..1000).map(|number| piece(SECOND, Op::Write, number * PAGE, 4096, 5000));
    let (report, _) = replay(&spec, whole.clone().chain(pieces.clone()).collect());
    assert_eq!(report.dedup.missed_pages, Some(0), "the other halves differ");
    // With equal other halves as well all pages are equal, in whatever order they came.
    let others = (0..1000).map(|n| piece(SECOND + n % 2 * 9, Op::Write, n * PAGE + 4096, 4096, 5));
    let mut all: Vec<Request> = whole.chain(pieces).chain(others).collect();
    all.sort_by_key(|request| request.time_ns);
    let (report, _) = replay(&spec, all);
    assert_eq!(report.dedup.missed_pages, Some(999));
    // The same bytes of one content are the same; others are not.
    let shifted = vec![
        piece(0, Op::Write, 0, 3 * PAGE, 1),
        piece(0, Op::Write, 10 * PAGE + 4096, 3 * PAGE, 1),
        piece(0, Op::Write, 20 * PAGE, 3 * PAGE, 1),
    ];
    let (report, _) = replay(&spec, shifted);
    assert_eq!(report.dedup.missed_pages, Some(3), "pages 20 to 22 are those of 0 to 2");
}

/// Writes of one content a second apart, after one that is in the flash, three at a time.
fn three_at_a_time() -> Vec<Request> {
    let first = page(0, Op::Write, 1, 7);
    let others = (2..5).map(|at| page(SECOND, Op::Write, at, 7));
    std::iter::once(first).chain(others).collect()
}

#[test]
fn a_strong_hash_is_trusted_where_it_is_sooner_than_a_read() {
    // The first page was hashed beside its program. One engine: the third hash is not sooner.
    let spec = drive(&["policy=\"gleaner\"", "hash_ns=10_000"]);
    let (report, log) = replay(&spec, three_at_a_time());
    assert_eq!(log.iter().map(took).collect::<Vec<_>>(), [200_000, 10_000, 20_000, 25_000]);
    assert_eq!((report.dedup.inline_pages, report.dedup.compared_equal), (3, 1));
    assert_eq!(report.dedup.policy_counts["trusted_digests"], 2);
    // With two engines it is; a page that is not equal waits for no hash.
    let spec = drive(&["policy=\"gleaner\"", "hash_ns=10_000", "hash_engines=4"]);
    let mut requests = three_at_a_time();
    requests.push(page(2 * SECOND, Op::Write, 9, 8));
    let (report, log) = replay(&spec, requests);
    assert_eq!(
        log.iter().map(took).collect::<Vec<_>>(),
        [200_000, 10_000, 10_000, 10_000, 200_000]
    );
    assert_eq!((report.dedup.inline_pages, report.dedup.compared_equal), (3, 0));
    // Not trusted, or slower than a read: every duplicate is compared.
    for more in ["dedup.trust='never'", "hash_ns=25_000"] {
        let spec = drive(&["policy=\"gleaner\"", "hash_ns=10_000", more]);
        let (report, log) = replay(&spec, three_at_a_time());
        let times: Vec<u64> = log.iter().map(took).collect();
        assert_eq!(times, [200_000, 25_000, 50_000, 75_000], "{more}");
        assert_eq!((report.dedup.inline_pages, report.dedup.compared_equal), (3, 3), "{more}");
    }
}

#[test]
fn a_comparison_overtakes_no_more_than_the_program_that_it_saves_is_worth() {
    // On one unit: so many programs at once, and then a duplicate of what is in the flash.
    let behind = |programs: u64| {
        let spec = drive(&["policy=\"gleaner\"", "hash_ns=226_500"]);
        let mut requests = vec![page(0, Op::Write, 1, 7)];
        requests.extend((0..programs).map(|at| page(SECOND, Op::Write, 2 + at, 100 + at)));
        requests.push(page(SECOND + 1_000, Op::Write, 60, 7));
        let (report, log) = replay(&spec, requests);
        assert_eq!(report.dedup.inline_pages, 1, "{programs}");
        let last_program = took(&log[log.len() - 2]);
        (took(&log[log.len() - 1]) + 1_000, last_program)
    };
    // Eight waiting programs lose 25 us each, 200 us in all: as much as a program.
    assert_eq!(behind(9), (225_000, 9 * 200_000 + 25_000));
    // Nine would lose more: the comparison takes its turn, and nobody waits for it.
    assert_eq!(behind(10), (10 * 200_000 + 25_000, 10 * 200_000));
}
