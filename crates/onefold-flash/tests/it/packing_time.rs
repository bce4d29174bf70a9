//! Compressed pages in virtual time: what the engine, the packing buffer and reads of packed pages
//! take, and what `ssd run` measures beside the closed forms.
//! Room: onefold-flash.

use crate::validation::laws;
use onefold_flash::DriveSpec;
use onefold_flash::run::{Report, RunError, RunOptions, run};
use onefold_workload::{Op, Request};

use crate::support;

const DRIVE: &str = "\
precondition = \"none\"
[geometry]
channels = 2
packages = 2
dies_per_package = 1
planes_per_die = 1
blocks_per_plane = 64
pages_per_block = 32
page_bytes = 4096
oob_bytes = 0
[timing]
read_latency_ns = 25_000
program_latency_ns = 200_000
erase_latency_ns = 1_500_000
[ftl]
over_provisioning = 0.25
gc_reserve_blocks = 2
compression = \"before-scrambler\"
subpages = 4
packing_pages = 1
[controller]
idle_after_ns = 0
write_buffer = \"back\"
compress_mb_per_s = 4096
decompress_mb_per_s = 8192
dram_bytes = 1_000_000_000
[workload]
compressed_percent = 25
";
/// A page through the engine, one way and the other.
const COMPRESS: u64 = 1_000;
const DECOMPRESS: u64 = 500;
const READ: u64 = 25_000;
const PROGRAM: u64 = 200_000;
const SECOND: u64 = 1_000_000_000;

fn built(assignments: &[&str]) -> DriveSpec {
    support::drive(DRIVE, assignments)
}

fn report(assignments: &[&str]) -> Report {
    run(&built(assignments), RunOptions::default()).unwrap_or_else(|error| panic!("{error}")).report
}

fn at(time_ns: u64, op: Op, page: u64) -> Request {
    let length = if op == Op::Flush { 0 } else { 4096 };
    Request {
        time_ns,
        op,
        offset: page * 4096,
        length,
        identity: None,
        stream: None,
        pid: None,
        deduplicate: None,
    }
}

fn replay(assignments: &[&str], requests: Vec<Request>) -> (Report, Vec<u64>) {
    let (report, mut log) = support::replay(&built(assignments), requests);
    log.sort_unstable_by_key(|done| done.request.number);
    (report, log.iter().map(|done| done.answered_ns - done.request.arrival_ns).collect())
}

fn close(got: f64, want: f64, share: f64) {
    assert!((got / want - 1.0).abs() <= share, "{got} is not within {share} of {want}");
}

#[test]
fn the_engine_the_buffer_and_a_packed_page_take_what_they_should() {
    let mut requests: Vec<Request> = (0..4).map(|n| at(n * SECOND, Op::Write, n)).collect();
    requests.push(at(4 * SECOND, Op::Read, 0));
    requests.push(at(5 * SECOND, Op::Write, 4));
    requests.push(at(6 * SECOND, Op::Read, 0));
    requests.push(at(7 * SECOND, Op::Flush, 0));
    requests.push(at(8 * SECOND, Op::Read, 4));
    let (report, latencies) = replay(&[], requests);
    let packed = READ + DECOMPRESS;
    // Writes are answered from the buffer; page 0 is read from where it waits, then from the flash
    // page that page 4 made room by programming; a flush has page 4 alone to program.
    assert_eq!(latencies, [0, 0, 0, 0, 0, 0, packed, PROGRAM, packed]);
    let compression = report.compression.expect("there is an engine");
    assert_eq!((compression.compressed_pages, compression.buffer_reads), (5, 1));
    assert_eq!((compression.packed_pages, compression.filled_share), (2, Some(5.0 / 8.0)));
    assert_eq!(compression.stored_share, Some(0.25));
    let engine = &report.utilisation.servers["compression"];
    assert_eq!((engine.count, engine.jobs), (1, 7));
    let busy = (5 * COMPRESS + 2 * DECOMPRESS) as f64;
    close(engine.mean * report.elapsed_ns as f64, busy, 1e-6);
}

/// A flush is answered when what came before it is in the flash, packed or not.
#[test]
fn a_flush_waits_for_what_the_writes_before_it_left_to_be_packed() {
    let requests = || vec![at(0, Op::Write, 0), at(10, Op::Write, 1), at(20, Op::Flush, 0)];
    let slow = ["compress_mb_per_s=4"];
    // 4096 bytes at 4 x 10^6 bytes a second, one page after the other.
    let (_, latencies) = replay(&slow, requests());
    assert_eq!(latencies, [0, 0, 2 * 1_024_000 + PROGRAM - 20]);
    let two = ["compress_mb_per_s=4", "compression_engines=2"];
    assert_eq!(replay(&two, requests()).1, [0, 0, 10 + 1_024_000 + PROGRAM - 20]);
    // Where buffers survive a power cut there is nothing to wait for.
    let protected = ["compress_mb_per_s=4", "power_loss_protection=true"];
    assert_eq!(replay(&protected, requests()).1, [0, 0, 0]);
}

/// The steady state of a run is that of a drive of smaller pages.
#[test]
fn runs_amplify_as_the_closed_form_of_smaller_pages_says() {
    let steady = ["precondition=steady", "requests=60000", "over_provisioning=0.25"];
    for (percent, together) in [("50", 2), ("25", 4)] {
        let percent = format!("compressed_percent={percent}");
        let report = report(&[&steady[..], &[&percent]].concat());
        let expected = laws::packed(report.effective_alpha, 32, together);
        close(report.waf.total.expect("writes"), expected, 0.04);
        let compression = report.compression.expect("there is an engine");
        close(compression.filled_share.expect("packed"), 1.0, 0.02);
        let times = f64::from(together);
        close(compression.alpha_of_stored.expect("full"), times * report.effective_alpha, 0.01);
    }
}

/// [ses-dedup] sec. IV: behind the scrambler the engine has noise, and costs time alone.
#[test]
fn behind_the_scrambler_a_run_is_that_of_a_drive_without_an_engine_but_slower() {
    let steady = |place: &str| {
        report(&["precondition=steady", "requests=30000", &format!("ftl.compression={place}")])
    };
    let (none, behind) = (steady("none"), steady("after-scrambler"));
    let before = steady("before-scrambler");
    assert!(none.compression.is_none() && !none.utilisation.servers.contains_key("compression"));
    assert_eq!(behind.compression.as_ref().map(|it| it.compressed_pages), Some(0));
    close(behind.waf.total.unwrap(), none.waf.total.unwrap(), 0.03);
    assert!(before.waf.total.unwrap() < 0.4 * none.waf.total.unwrap());
    assert!(before.iops.unwrap() > 2.0 * none.iops.unwrap());
    assert!(behind.utilisation.servers["compression"].jobs >= 30_000);
    // Without a scrambler both sides are the same, and so are they for what the host has scrambled
    // ahead.
    let unscrambled =
        report(&["ftl.compression=after-scrambler", "scrambler=none", "requests=3000"]);
    assert_eq!(unscrambled.compression.unwrap().compressed_pages, 3000);
    let host = [
        "ftl.compression=after-scrambler".to_owned(),
        "policy=ses-host".to_owned(),
        "dedup.compression=after-scrambler".to_owned(),
        "dedup.lba_ranges=[[0, 999]]".to_owned(),
        "workload=sequential".to_owned(),
        "requests=3000".to_owned(),
    ];
    let host: Vec<&str> = host.iter().map(String::as_str).collect();
    assert_eq!(report(&host).compression.unwrap().compressed_pages, 1000);
}

/// Content meets time: contents drawn at random leave as many pages to be stored as the closed form
/// says, and each takes its share of a flash page.
#[test]
fn what_deduplication_leaves_is_packed() {
    let base =
        ["precondition=steady", "requests=60000", "content=uniform", "over_provisioning=0.6"];
    let logical = f64::from(built(&base).logical_pages());
    let values = format!("content_values={}", logical as u64);
    for policy in ["caftl-online", "ses-host", "gleaner"] {
        let mut set = [&base[..], &[&values[..]]].concat();
        let policy = format!("policy={policy}");
        set.push(&policy);
        if !policy.ends_with("caftl-online") {
            set.extend(["dedup.compression=before-scrambler", "dedup.table_share=4.0"]);
            if policy.ends_with("ses-host") {
                set.push("dedup.offline=false");
            }
            // Candidates are compared only on idle units.
            set.extend(["queue_depth=1", "think_time=constant", "think_time_ns=5000000"]);
        }
        let report = report(&set);
        let stored = report.compression.as_ref().expect("there is an engine");
        let share = stored.compressed_pages as f64 / report.requests.pages_written as f64;
        close(share, laws::dedup_unique_share(logical, logical), 0.05);
        assert_eq!(stored.stored_share, Some(0.25), "{policy}");
        let left = laws::dedup_live_pages(logical, logical) * 0.25;
        let alpha = report.effective_alpha * logical / left;
        close(stored.alpha_of_stored.expect("full"), alpha, 0.05);
    }
}

#[test]
fn what_cannot_be_had_together_is_refused_by_name() {
    let refused = |assignments: &[&str]| {
        let spec = built(assignments);
        let error = run(&spec, RunOptions::default()).map(drop).expect_err("refused");
        (error.to_string(), error.remedy(&spec))
    };
    let (why, remedy) = refused(&["write_buffer=through"]);
    assert!(why.contains("write_buffer"), "{why}");
    assert_eq!(remedy.as_deref(), Some("controller.write_buffer=back"));
    for policy in ["ses-host", "ses-device", "gleaner"] {
        let (why, remedy) = refused(&[&format!("policy={policy}")]);
        assert!(why.contains(policy), "{why}");
        let remedy = remedy.expect("there is one");
        assert_eq!(remedy, "dedup.compression=before-scrambler");
        let spec = built(&[&format!("policy={policy}"), &remedy, "requests=100"]);
        run(&spec, RunOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    }
    for (assignments, said) in [
        (&["subpages=3"][..], "ftl.subpages = 3"),
        (&["map_cache_bytes=65536"], "map_cache_bytes"),
        (&["ftl.compression=after-scrambler", "scrambler=allwinner-1024"], "after-scrambler"),
    ] {
        let why = match support::try_drive(DRIVE, assignments) {
            Err(error) => error.to_string(),
            Ok(spec) => match run(&spec, RunOptions::default()) {
                Err(RunError::Spec(error)) => error.to_string(),
                other => panic!("{assignments:?}: {:?}", other.map(drop)),
            },
        };
        assert!(why.contains(said), "{why}");
    }
    // A drive with too little memory for the places of its fragments says what takes it.
    let (why, _) = refused(&["dram_bytes=100000"]);
    assert!(why.contains("packing_buffers") && why.contains("reverse_map"), "{why}");
}
