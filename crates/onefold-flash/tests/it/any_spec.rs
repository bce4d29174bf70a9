//! Whatever a specification says and a trace asks for, a run of it ends: with a report that adds
//! up, or with a refusal that says why.
//! Room: onefold-flash.
//! `ONEFOLD_ANY_SPECS` is how many are drawn (1,000 take some four minutes of a core), or which:
//! `274..275` is the seed 274 alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use onefold_block::SplitMix64;
use onefold_flash::DriveSpec;
use onefold_flash::dedup::{Kind, POLICIES};
use onefold_flash::run::{Report, RunError, RunOptions, run};
use onefold_flash::spec::keys::{Accepts, KEYS};
use onefold_flash::spec::{PRESET_NAMES, SpecBuilder};
use onefold_workload::{Identity, Op, Request};

/// Specifications without the variable.
const DEFAULT: u64 = 48;

/// Values of keys that would make a test large, or would nearly always be refused.
const SMALL: &[(&str, &[&str])] = &[
    ("name", &["\"drawn\""]),
    ("geometry.channels", &["1", "2", "2", "3"]),
    ("geometry.packages", &["2", "4", "6"]),
    ("geometry.dies_per_package", &["1", "2"]),
    ("geometry.planes_per_die", &["1", "2", "3"]),
    ("geometry.blocks_per_plane", &["8", "24", "33", "64", "100"]),
    ("geometry.pages_per_block", &["1", "2", "5", "16", "64"]),
    ("geometry.page_bytes", &["512", "1000", "4096", "8192", "16384"]),
    ("geometry.oob_bytes", &["0", "64", "320"]),
    ("media.factory_bad_blocks_ppm", &["0", "0", "20000"]),
    ("media.scrambler", &["\"none\"", "\"lba-prbs31\""]),
    ("ftl.over_provisioning", &["0.07", "0.3", "0.6", "1.0", "3.0"]),
    ("ftl.gc_reserve_blocks", &["2", "3", "5", "\"5%\"", "\"10%\""]),
    ("ftl.gc_idle_blocks", &["0", "4", "9", "1000"]),
    ("ftl.victim_choices", &["1", "3", "100"]),
    ("ftl.wear_spread", &["0", "0", "1", "5"]),
    ("ftl.checkpoint_pages", &["0", "1", "17", "1000"]),
    ("ftl.map_cache_bytes", &["0", "0", "1", "2048", "4000", "20000", "1000000"]),
    ("ftl.compression", &["\"none\"", "\"before-scrambler\"", "\"after-scrambler\""]),
    ("ftl.subpages", &["2", "4", "5", "8"]),
    ("ftl.packing_pages", &["1", "2", "7"]),
    ("controller.compression_engines", &["1", "2"]),
    ("controller.compress_mb_per_s", &["0", "7", "1000"]),
    ("controller.cpu_cores", &["1", "2", "1024"]),
    ("controller.hash_engines", &["1", "2", "1024"]),
    ("controller.ecc_engines", &["1", "2"]),
    ("controller.dram_bytes", &["1000000000", "1000000000", "1000000000", "20000"]),
    ("controller.write_buffer_pages", &["1", "3", "64", "5000"]),
    ("controller.idle_after_ns", &["0", "1", "10000", "1000000"]),
    ("controller.idle_hint", &["true", "false"]),
    ("host.scrambler_cores", &["1", "3"]),
    ("host.scrambler_mb_per_s", &["0", "50", "5000"]),
    ("controller.idle_steps", &["1", "8", "65536"]),
    ("host.queue_entries", &["1", "2", "64", "65536"]),
    ("dedup.policy", &["\"none\""]),
    ("workload.requests", &["1", "40", "300", "900"]),
    ("workload.request_pages", &["1", "1", "2", "7", "40"]),
    ("workload.content_values", &["1", "2", "30", "2000"]),
    ("workload.hot_fingerprint_ratio", &["0.0", "0.1", "0.5", "0.999"]),
    ("workload.zipf_exponent", &["0", "0.8", "1.0", "3"]),
    ("workload.queue_depth", &["1", "4", "64", "2000"]),
];

/// Shares that are as often at their ends as between them.
const SHARES: &[&str] = &["0.0", "0.1", "0.5", "0.9", "1.0"];
/// Times from none to long.
const TIMES: &[&str] = &["0", "1", "500", "20000", "3000000"];

fn pick<'a>(random: &mut SplitMix64, of: &[&'a str]) -> &'a str {
    of[random.below(of.len() as u64) as usize]
}

/// A value that the key accepts.
fn value(random: &mut SplitMix64, path: &str, accepts: &Accepts) -> String {
    if let Some((_, values)) = SMALL.iter().find(|(key, _)| *key == path) {
        return pick(random, values).to_owned();
    }
    match accepts {
        Accepts::Switch => pick(random, &["true", "false"]).to_owned(),
        Accepts::Word(words) => format!("\"{}\"", pick(random, words)),
        Accepts::Number(..) => pick(random, SHARES).to_owned(),
        _ if path.ends_with("_ns") => pick(random, TIMES).to_owned(),
        Accepts::Whole(min, max) => (min + random.below(1 + (max - min).min(5_000))).to_string(),
        Accepts::WholeOrPercent(..) | Accepts::Text => unreachable!("{path} has values of its own"),
    }
}

fn option(random: &mut SplitMix64, kind: Kind) -> String {
    match kind {
        Kind::Share(_) => pick(random, &["0.001", "0.05", "1.0"]).to_owned(),
        Kind::Multiple(_) => pick(random, &["0.001", "0.2", "4.0"]).to_owned(),
        Kind::Count { min, max, .. } => {
            (min + random.below(1 + (max - min).min(3_000))).to_string()
        }
        Kind::Switch(_) => pick(random, &["true", "false"]).to_owned(),
        Kind::Word(words) => format!("\"{}\"", pick(random, words)),
        Kind::Ranges => pick(random, &["[]", "[[0, 40]]", "[[3, 3], [50, 4000000]]"]).to_owned(),
    }
}

/// What is set over a preset.
fn assignments(random: &mut SplitMix64) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for key in KEYS {
        // The shape is always a small one; the rest keeps the preset's value half of the time.
        if key.table() == "geometry"
            || key.path == "workload.requests"
            || key.path == "controller.dram_bytes"
            || ["ftl.over_provisioning", "ftl.gc_reserve_blocks"].contains(&key.path)
            || random.chance(1, 2)
        {
            all.push(format!("{}={}", key.path, value(random, key.path, &key.accepts)));
        }
    }
    let policy = POLICIES[random.below(POLICIES.len() as u64) as usize];
    all.push(format!("dedup.policy=\"{}\"", policy.name));
    for info in policy.options {
        if random.chance(1, 2) {
            all.push(format!("dedup.{}={}", info.key, option(random, info.kind)));
        }
    }
    // What compression goes with, most of the time.
    let place = all.iter().find_map(|set| set.strip_prefix("ftl.compression=")).map(str::to_owned);
    if let Some(place) = place.filter(|place| place != "\"none\"")
        && random.chance(7, 8)
    {
        all.extend(
            ["controller.write_buffer=\"back\"", "ftl.map_cache_bytes=0"].map(str::to_owned),
        );
        if policy.options.iter().any(|info| info.key == "compression") {
            all.push(format!("dedup.compression={place}"));
        }
    }
    all
}

/// Requests of all kinds to a drive, anywhere in its pages, with any contents and pauses.
fn requests(random: &mut SplitMix64, spec: &DriveSpec) -> Vec<Request> {
    let page = u64::from(spec.geometry.page_bytes);
    let size = u64::from(spec.logical_pages()) * page;
    let touched = [size, size, size / 9].map(|bytes| bytes.max(page));
    let touched = touched[random.below(3) as usize];
    let unit = [1, 512, page, page][random.below(4) as usize];
    let kinds: &[Op] = match random.below(4) {
        0 => &[Op::Write],
        1 => &[Op::Write, Op::Write, Op::Read, Op::Flush],
        2 => &[Op::Write, Op::Write, Op::Write, Op::Trim, Op::Read],
        _ => &[Op::Write, Op::Write, Op::Read, Op::Trim, Op::Flush, Op::Idle],
    };
    let contents = [1, 7, 90, 4_000][random.below(4) as usize];
    let mut time_ns = 0;
    let one = |_| {
        time_ns += [0, 0, 1, 900, 40_000, 2_000_000][random.below(6) as usize];
        let op = kinds[random.below(kinds.len() as u64) as usize];
        let offset = random.below(touched.div_ceil(unit)) * unit;
        let length = ([1, 1, 2, 9][random.below(4) as usize] * unit).min(size - offset);
        let (offset, length) = if op.has_range() { (offset, length) } else { (0, 0) };
        // Now and then all of a device that is larger than the drive.
        let all = op == Op::Trim && random.chance(1, 20);
        let (offset, length) = if all { (0, 2 * size) } else { (offset, length) };
        let known = op == Op::Write && random.chance(3, 4);
        let identity = known.then(|| Identity::of_number(1, random.below(contents)));
        let word = [None, None, None, Some(true), Some(false)];
        let deduplicate = word[random.below(5) as usize].filter(|_| op == Op::Write);
        Request { time_ns, op, offset, length, identity, stream: None, pid: None, deduplicate }
    };
    (0..spec.workload.requests).map(one).collect()
}

/// Two shares that were computed in different ways.
fn close(got: f64, want: f64) -> bool {
    (got - want).abs() <= 1e-9 * want.abs().max(1.0)
}

/// What must hold between the figures of any report.
fn adds_up(spec: &DriveSpec, report: &Report) {
    let asked = &report.requests;
    assert_eq!(asked.completed, asked.generated);
    let kinds = asked.reads + asked.writes + asked.trims + asked.flushes + asked.idle_hints;
    assert_eq!(kinds, asked.completed);
    for (kind, latency) in report.latency_ns.iter().filter_map(|(k, l)| Some((k, l.as_ref()?))) {
        let order = [latency.p50, latency.p90, latency.p99, latency.p999];
        assert!(order.is_sorted() && latency.mean <= latency.max as f64, "{kind}: {latency:?}");
    }
    let programs = &report.flash_operations["program"];
    let programmed = [programs.host, programs.gc, programs.wear, programs.map, programs.dedup];
    let programmed: u64 = programmed.iter().sum();
    let waf = &report.waf;
    if let (Some(total), Some(host)) = (waf.total, waf.host) {
        let causes = [waf.host, waf.gc, waf.wear, waf.map].into_iter().flatten().sum();
        assert!(close(total, causes), "{waf:?}");
        let written = asked.pages_written as f64;
        if spec.dedup.policy != "codeword" {
            assert!(close(total * written, programmed as f64), "{waf:?}, {programs:?}, {asked:?}");
        }
        if !spec.packs() {
            assert_eq!(programs.host + report.dedup.inline_pages, asked.pages_written);
        }
        let settled = &report.settled;
        for (interval, of_all) in
            [(settled.programmed_share, host), (settled.write_amplification, total)]
        {
            let Some(interval) = interval else { continue };
            assert!(close(interval.mean, of_all), "{settled:?}, {waf:?}");
            assert!(interval.low <= interval.mean && interval.mean <= interval.high, "{settled:?}");
        }
    }
    let lifetime = &report.lifetime;
    let ends = [
        lifetime.terabytes_written_low,
        lifetime.terabytes_written,
        lifetime.terabytes_written_high,
    ];
    let settled = report.settled.settled;
    assert!(ends.is_sorted() && ends[1].is_some() == settled, "{lifetime:?}, {settled}");
    let busy = &report.utilisation;
    let doing = busy.units_reading + busy.units_programming + busy.units_erasing;
    assert!(close(doing, busy.units_mean), "{busy:?}");
    let servers = busy.servers.values().map(|server| server.mean);
    let most = servers.fold(busy.units_max, f64::max);
    assert!(most <= 1.0, "{most} of the time busy");
    let erases = &report.erases;
    let blocks: u64 = erases.histogram.iter().map(|bar| bar.blocks).sum();
    let all: u64 = erases.histogram.iter().map(|bar| bar.blocks * u64::from(bar.erases)).sum();
    assert!(close(erases.mean * blocks as f64, all as f64), "{erases:?}");
    let dram = &report.dram;
    let used = dram.items.iter().map(|item| item.bytes).sum();
    assert!(dram.used_bytes == used && used <= dram.budget_bytes, "{dram:?}");
}

/// A report, or the sentence of a refusal; of the drive's own workload, or of a drawn trace.
fn outcome(preset: &str, set: &[String], trace: Option<u64>) -> Result<Report, String> {
    let builder = SpecBuilder::preset(preset).expect("a preset of the list");
    let spec = set.iter().try_fold(builder, |builder, one| builder.set(one));
    let spec = spec.and_then(SpecBuilder::build).map_err(|error| error.to_string())?;
    let trace = trace.map(|seed| requests(&mut SplitMix64::new(seed), &spec));
    let run_on = |threads| {
        let requests = trace.clone().map(|requests| Box::new(requests.into_iter().map(Ok)) as _);
        run(&spec, RunOptions { trace: requests, threads, ..RunOptions::default() })
    };
    let (outcome, again) = (run_on(1), run_on(2));
    assert_eq!(
        again.as_ref().map(|outcome| &outcome.report).map_err(ToString::to_string),
        outcome.as_ref().map(|outcome| &outcome.report).map_err(ToString::to_string),
        "on two threads",
    );
    if let Ok(outcome) = &outcome {
        adds_up(&spec, &outcome.report);
    }
    match outcome {
        Ok(outcome) => Ok(outcome.report),
        Err(
            error @ (RunError::Spec(_)
            | RunError::Format(_)
            | RunError::Workload(_)
            | RunError::Dedup(_)
            | RunError::PackingThrough
            | RunError::Dram { .. }),
        ) => Err(error.to_string()),
        Err(error) => panic!("failed in the middle: {error}"),
    }
}

#[test]
fn any_specification_ends_with_a_report_or_a_refusal() {
    let seeds = std::env::var("ONEFOLD_ANY_SPECS").map_or(0..DEFAULT, |text| {
        let (first, end) = text.split_once("..").unwrap_or(("0", &text));
        let number = |text: &str| text.parse().expect("ONEFOLD_ANY_SPECS is a number, or two");
        number(first)..number(end)
    });
    let count = seeds.end - seeds.start;
    let (mut reports, mut broken) = (0, Vec::new());
    for seed in seeds {
        let mut random = SplitMix64::new(0xa_5bec ^ seed);
        let preset = pick(&mut random, &PRESET_NAMES);
        let set = assignments(&mut random);
        let trace = random.chance(1, 2).then(|| random.next_u64());
        match catch_unwind(AssertUnwindSafe(|| outcome(preset, &set, trace))) {
            Ok(Ok(_)) => reports += 1,
            Ok(Err(refusal)) => assert!(!refusal.is_empty(), "seed {seed}"),
            Err(_) => broken.push(format!("seed {seed}: {preset} {}", set.join(" "))),
        }
    }
    assert!(broken.is_empty(), "{} of {count} broke:\n{}", broken.len(), broken.join("\n"));
    assert!(reports * 8 > count, "only {reports} of {count} specifications could be run");
}

/// With mapping pages in the flash, whatever the array remembers of them.
#[test]
fn every_policy_runs_with_little_of_the_map_in_dram_from_every_state() {
    // That of codewords takes all of the map in DRAM, and says so.
    for policy in POLICIES.iter().filter(|policy| policy.name != "codeword") {
        for precondition in ["none", "steady", "prefill"] {
            let set = [
                "geometry.channels=2",
                "geometry.packages=2",
                "geometry.planes_per_die=2",
                "geometry.blocks_per_plane=64",
                "geometry.pages_per_block=16",
                "geometry.page_bytes=512",
                "ftl.over_provisioning=0.6",
                "ftl.gc_reserve_blocks=3",
                "ftl.map_cache_bytes=2048",
                "controller.dram_bytes=1000000000",
                "workload.requests=900",
                &format!("precondition=\"{precondition}\""),
                &format!("dedup.policy=\"{}\"", policy.name),
            ]
            .map(str::to_owned);
            let report = outcome("ses-slc", &set, None);
            let report =
                report.unwrap_or_else(|why| panic!("{} {precondition}: {why}", policy.name));
            assert_eq!(report.requests.completed, 900, "{} {precondition}", policy.name);
        }
    }
}
