//! Whatever a specification says, a run of it ends: with a report, or with a refusal that says why.
//! Room: onefold-flash.
//! `ONEFOLD_ANY_SPECS` is how many are drawn (1,000 take some four minutes of a core), or which:
//! `274..275` is the seed 274 alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use onefold_block::SplitMix64;
use onefold_flash::dedup::{Kind, POLICIES};
use onefold_flash::run::{Report, RunError, RunOptions, run};
use onefold_flash::spec::keys::{Accepts, KEYS};
use onefold_flash::spec::{PRESET_NAMES, SpecBuilder};

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

/// A report, or the sentence of a refusal.
fn outcome(preset: &str, set: &[String]) -> Result<Report, String> {
    let builder = SpecBuilder::preset(preset).expect("a preset of the list");
    let spec = set.iter().try_fold(builder, |builder, one| builder.set(one));
    let spec = spec.and_then(SpecBuilder::build).map_err(|error| error.to_string())?;
    let outcome = run(&spec, RunOptions::default());
    let again = run(&spec, RunOptions { threads: 2, ..RunOptions::default() });
    assert_eq!(
        again.as_ref().map(|outcome| &outcome.report).map_err(ToString::to_string),
        outcome.as_ref().map(|outcome| &outcome.report).map_err(ToString::to_string),
        "on two threads",
    );
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
        match catch_unwind(AssertUnwindSafe(|| outcome(preset, &set))) {
            Ok(Ok(report)) => {
                assert_eq!(report.requests.completed, report.requests.generated, "seed {seed}");
                let busy = &report.utilisation;
                let servers = busy.servers.values().map(|server| server.mean);
                let most = servers.fold(busy.units_max, f64::max);
                assert!(most <= 1.0, "seed {seed}: {most} of the time busy");
                reports += 1;
            }
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
            let report = outcome("ses-slc", &set);
            let report =
                report.unwrap_or_else(|why| panic!("{} {precondition}: {why}", policy.name));
            assert_eq!(report.requests.completed, 900, "{} {precondition}", policy.name);
        }
    }
}
