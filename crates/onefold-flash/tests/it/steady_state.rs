//! A drive in its steady state: contents of the workload, collection under way, and figures that do
//! not depend on how long one looks.
//! Room: onefold-flash.   Source: Poisson occupancy for deduplicated content; [desnoyers-12].

use crate::validation::laws;
use onefold_flash::run::{IntervalReport, Report, RunOptions, run};
use onefold_flash::spec::{DriveSpec, SpecBuilder};
use onefold_workload::{Op, Request};

/// 65,536 pages in eight planes, five blocks of each kept free.
const DRIVE: &str = "
[geometry]
channels = 8
packages = 8
dies_per_package = 1
planes_per_die = 1
blocks_per_plane = 64
pages_per_block = 128
[ftl]
over_provisioning = 0.22
gc_reserve_blocks = '5%'
";

fn spec(more: &[&str]) -> DriveSpec {
    let builder = SpecBuilder::preset("ses-slc").and_then(|builder| builder.file("drive", DRIVE));
    let with = |builder: SpecBuilder, set: &&str| builder.set(set);
    let spec = builder.and_then(|builder| more.iter().try_fold(builder, with));
    spec.and_then(SpecBuilder::build).unwrap_or_else(|error| panic!("{more:?}: {error}"))
}

fn report(spec: &DriveSpec) -> Report {
    run(spec, RunOptions::default()).unwrap_or_else(|error| panic!("{error}")).report
}

/// The drive with contents drawn from 0.3 values for each logical page.
fn uniform(policy: &str, overwrites: f64) -> DriveSpec {
    let mut spec = spec(&["workload.content=uniform", &format!("dedup.policy={policy}")]);
    let logical = f64::from(spec.logical_pages());
    spec.workload.content_values = (0.3 * logical) as u64;
    spec.workload.requests = (overwrites * logical) as u64;
    spec
}

fn waf(report: &Report) -> IntervalReport {
    report.settled.write_amplification.expect("there were writes")
}

#[test]
fn contents_are_those_of_endless_writes_from_the_first_request_on() {
    let form = laws::dedup_unique_share(1.0, 0.3);
    for policy in ["caftl-online", "ses-host"] {
        let mut spec = uniform(policy, 1.0);
        if policy == "ses-host" {
            spec.dedup.options = "table_share = 4".parse().expect("options");
            spec.workload.queue_depth = 1;
        }
        let report = report(&spec);
        let share = report.waf.host.expect("there were writes");
        // 1,900 of 53,700 pages are programmed: one part in 44 is a standard deviation.
        assert!((share / form - 1.0).abs() < 0.07, "{policy}: {share} against {form}");
        assert!(report.settled.settled, "{policy}: {:?}", report.settled);
        // Hardly anything is moved: seven of ten pages of the log are dead.
        let total = report.waf.total.expect("there were writes");
        assert!((1.0..1.15).contains(&(total / share)), "{policy}: {total} and {share}");
        assert!(report.erases.mean > 0.0, "{policy}");
    }
}

#[test]
fn a_lifetime_does_not_depend_on_how_long_one_looks() {
    let reports = [1.0, 3.0, 9.0].map(|overwrites| report(&uniform("caftl-online", overwrites)));
    let lives = reports.each_ref().map(|report| {
        let life = &report.lifetime;
        let of = |end: Option<f64>| end.unwrap_or_else(|| panic!("{:?}", report.settled));
        (of(life.terabytes_written_low), of(life.terabytes_written_high))
    });
    for (low, high) in lives {
        assert!(low < high && high / low < 1.12, "{lives:?}");
        for (other_low, other_high) in lives {
            assert!(low < other_high && other_low < high, "{lives:?}");
        }
    }
}

#[test]
fn profiles_go_on_without_end_as_their_closed_form_says() {
    // Of 100 pages 70 - 12 - 1.06 are unique; 6 contents have two copies, and 1.06 have 23.7: a
    // content with c copies in as many draws as there are pages is absent with e^-c.
    let mut spec = spec(&[
        "workload.content=profile",
        "workload.duplicate_ratio=0.3",
        "dedup.policy=caftl-online",
    ]);
    spec.workload.requests = u64::from(spec.logical_pages());
    let report = report(&spec);
    let (cold, hot) = (0.06, 0.06 * 0.15 / 0.85);
    let copies = (hot + 0.24) / hot;
    let unique = 1.0 - 2.0 * cold - hot - 0.24;
    let form = unique + 2.0 * cold * (-2.0_f64).exp() + (hot + 0.24) * f64::exp(-copies);
    let share = report.settled.programmed_share.expect("there were writes");
    assert!((share.mean / form - 1.0).abs() < 0.01, "{share:?} against {form}");
    assert!(report.settled.settled, "{:?}", report.settled);
}

#[test]
fn plain_drives_of_small_planes_amplify_as_the_closed_form_says() {
    for more in [&["requests=200000"][..], &["requests=200000", "victim=fifo"]] {
        let report = report(&spec(more));
        let form = match more.len() {
            1 => laws::greedy(report.effective_alpha, 128),
            _ => laws::fifo(report.effective_alpha),
        };
        let waf = waf(&report);
        assert!((waf.mean / form - 1.0).abs() < 0.01, "{more:?}: {waf:?} against {form}");
        assert!(report.settled.settled && waf.low < waf.high, "{:?}", report.settled);
    }
}

#[test]
fn other_patterns_and_long_requests_begin_where_they_stay() {
    for more in [
        &["pattern=zipf"][..],
        &["pattern=hot-cold", "streams=2"],
        &["pattern=sequential"],
        &["request_pages=4"],
        &["request_pages=32"],
        &["victim=cost-benefit", "pattern=zipf", "zipf_exponent=1.2"],
    ] {
        let of = |requests: u64| {
            let mut spec = spec(more);
            spec.workload.requests = requests / u64::from(spec.workload.request_pages);
            let report = report(&spec);
            assert!(report.settled.settled, "{more:?}: {:?}", report.settled);
            waf(&report)
        };
        let (short, long) = (of(50_000), of(200_000));
        assert!((short.mean / long.mean - 1.0).abs() < 0.03, "{more:?}: {short:?} and {long:?}");
    }
}

#[test]
fn what_has_not_settled_has_no_lifetime_and_says_how_long_it_takes() {
    for state in ["none", "prefill"] {
        let mut spec = spec(&["requests=20000", &format!("precondition={state}")]);
        let mut tries = 0;
        let settled = loop {
            let report = report(&spec);
            let (settled, life) = (&report.settled, &report.lifetime);
            if settled.settled {
                assert!(life.terabytes_written.is_some());
                break report;
            }
            assert_eq!((life.terabytes_written, life.terabytes_written_low), (None, None));
            assert_eq!(life.drive_writes_per_day_5_years, None);
            assert!(settled.lacks.is_some(), "{settled:?}");
            spec.workload.requests += settled.requests_needed.expect("it says");
            tries += 1;
            assert!(tries < 8, "{state}: {settled:?}");
        };
        assert!(tries > 0, "{state}");
        assert!(waf(&settled).mean > 2.0, "{state}: {:?}", settled.settled);
    }
}

#[test]
fn traces_without_writes_and_with_few_settle_at_nothing() {
    let of = |op: Op, count: u64| {
        let request = move |time_ns: u64| {
            let offset = time_ns * 8192;
            let (identity, stream, pid, deduplicate) = (None, None, None, None);
            Ok(Request { time_ns, op, offset, length: 8192, identity, stream, pid, deduplicate })
        };
        let trace: Option<onefold_flash::run::TraceRequests> =
            Some(Box::new((0..count).map(request)));
        let outcome = run(&spec(&[]), RunOptions { trace, ..RunOptions::default() });
        outcome.unwrap_or_else(|error| panic!("{error}")).report.settled
    };
    let reads = of(Op::Read, 2_000);
    assert_eq!((reads.settled, reads.lacks), (false, Some("writes")));
    assert_eq!(reads.requests_needed, None);
    let few = of(Op::Write, 100);
    assert_eq!((few.settled, few.lacks, few.requests_needed), (false, Some("writes"), Some(412)));
}
