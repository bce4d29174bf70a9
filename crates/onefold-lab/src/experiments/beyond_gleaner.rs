//! Beyond the papers: every policy in the same memory, with little idle time, on every data set.
//! Room: onefold-lab.
//! The drive takes bursts by the clock with short gaps; tables are cut to what SES-Dedup's take.
//! And (lifetime): write amplification and bytes written until worn, under endless writes.

use onefold_flash::dedup::{AnyPolicy, Identities, Policy, Site};
use onefold_flash::nand::Identity as PageIdentity;
use onefold_flash::spec::{ArrivalKind, BlockCount, ContentKind, DriveSpec, ThinkKind};
use onefold_sim::RandomStreams;
use onefold_workload::content::PRESETS;
use onefold_workload::{ContentProfile, Request};

use crate::error::{LabError, Result};
use crate::experiments::drives::{
    filled_once, mixed, of_written, replay_as_is, simulate, with_policy, write_us,
};
use crate::row::Row;
use crate::settings::Settings;

/// Policies, the option that sizes their table, and other options.
const POLICIES: [(&str, &str, &str); 8] = [
    ("none", "", ""),
    ("caftl-online", "store_share", "hash = 'sha256'"),
    ("caftl-offline", "store_share", ""),
    ("block-separation", "store_share", ""),
    ("crc-compare", "table_share", ""),
    ("ses-host", "table_share", ""),
    ("ses-device", "table_share", ""),
    ("gleaner", "table_share", ""),
];

/// Bytes of memory that a policy takes on this drive.
fn dram(spec: &DriveSpec, policy: &str, options: &str) -> u64 {
    let site = Site { geometry: spec.geometry, seed_source: None };
    let table = options.parse().expect("experiments write valid options");
    let policy = AnyPolicy::new::<PageIdentity>(policy, &table, &site, Identities)
        .expect("experiments write valid options");
    Policy::<PageIdentity>::dram(&policy).iter().map(|(_, bytes)| bytes).sum()
}

/// Options with the largest table that keeps a policy within `budget`; the smallest if none does.
fn sized(spec: &DriveSpec, (policy, key, options): (&str, &str, &str), budget: u64) -> String {
    let with = |share: f64| format!("{options}\n{key} = {share}");
    if key.is_empty() {
        return options.to_owned();
    }
    let fits =
        |thousandths: &u32| dram(spec, policy, &with(f64::from(*thousandths) / 1000.0)) <= budget;
    let largest = (1..=1000).rev().step_by(5).find(fits).unwrap_or(1);
    with(f64::from(largest) / 1000.0)
}

/// The requests of a data set in bursts: random arrivals at a rate, then a gap.
fn timed(settings: &Settings<'_>, spec: &DriveSpec, set: &str) -> Result<Vec<Request>> {
    let profile = ContentProfile::named(set);
    let mut requests = mixed(spec, profile, settings.number("reads_percent")?)?;
    let (burst, gap_us) = (settings.number("burst")?, settings.number("gap_us")?);
    let mean_ns = settings.number("interarrival_ns")?;
    let mut random = RandomStreams::new(spec.seed).stream("arrivals");
    let mut time_ns = 0;
    for (number, request) in requests.iter_mut().enumerate() {
        time_ns += 2 * random.below(mean_ns);
        if (number as u64).is_multiple_of(burst) {
            time_ns += gap_us * 1000;
        }
        request.time_ns = time_ns;
    }
    Ok(requests)
}

/// Latency and total reduction of every policy on every data set.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let mut points = Vec::new();
    for set in &PRESETS {
        points.extend(POLICIES.map(|policy| (set, policy)));
    }
    let preset = settings.spec.text("flash", settings.options.full)?;
    let found = settings.sweep(&points, |&(set, policy)| {
        let mut spec = filled_once(preset, settings.number("pages")?);
        spec.seed = settings.number("seed")?;
        spec.workload.finish_offline = false;
        spec.controller.idle_after_ns = settings.number("idle_after_us")? * 1000;
        let requests = timed(settings, &spec, set.name)?;
        let budget = dram(&spec, "ses-device", "");
        let options = sized(&spec, policy, budget);
        let used = dram(&spec, policy.0, &options);
        with_policy(&mut spec, policy.0, &options);
        let report = replay_as_is(settings, &spec, requests)?;
        Ok::<_, LabError>((report, used, f64::from(spec.geometry.pages())))
    });
    let mut rows = Vec::new();
    for (&(set, (name, ..)), report) in points.iter().zip(found) {
        let (report, used, pages) = report?;
        let row = format!("{}, {name}", set.name);
        let latency = report.latency_ns.get("write").and_then(Option::as_ref);
        let p99 = latency.map_or(f64::NAN, |latency| latency.p99 as f64 / 1000.0);
        let inline = of_written(&report, report.dedup.inline_pages);
        let total = inline + of_written(&report, report.dedup.offline_pages);
        for (column, value, unit) in [
            ("mean write latency", write_us(&report), "us"),
            ("p99 write latency", p99, "us"),
            ("found inline", inline, "% of written"),
            ("found in all", total, "% of written"),
            ("memory", used as f64 / pages, "B a page"),
        ] {
            rows.push(Row::new(settings.id, &row, column, value, unit));
        }
    }
    Ok(rows)
}

/// Write amplification and bytes until worn of every policy.
pub fn lifetime(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let found = settings.sweep(&POLICIES, |&(policy, _, options)| {
        let preset = settings.spec.text("flash", settings.options.full)?;
        let mut spec = DriveSpec::preset(preset).expect("experiments name presets that exist");
        spec.seed = settings.number("seed")?;
        spec.geometry.blocks_per_plane = settings.number("blocks_per_plane")? as u32;
        spec.ftl.gc_reserve_blocks = BlockCount::Blocks(4);
        let blocks = f64::from(spec.geometry.blocks_per_plane);
        spec.ftl.over_provisioning = 0.07 + 10.0 / blocks;
        spec.workload.requests = settings.number("writes")?;
        spec.workload.arrivals = ArrivalKind::Closed;
        spec.workload.queue_depth = 16;
        spec.workload.think_time = ThinkKind::Exponential;
        spec.workload.think_time_ns = settings.number("think_time_ns")?;
        spec.workload.content = ContentKind::Profile;
        spec.workload.duplicate_ratio = settings.real("duplicate_ratio")?;
        spec.workload.hot_fingerprint_ratio = 0.15;
        spec.workload.hot_share = 0.8;
        spec.workload.finish_offline = false;
        spec.controller.idle_after_ns = 200_000;
        spec.controller.dram_bytes = 1 << 32;
        with_policy(&mut spec, policy, options);
        simulate(settings, &spec)
    });
    let (mut rows, mut plain) = (Vec::new(), f64::NAN);
    for ((name, ..), report) in POLICIES.iter().zip(found) {
        let report = report?;
        let waf = report.waf.total.unwrap_or(f64::NAN);
        if *name == "none" {
            plain = waf;
        }
        let written = report.lifetime.terabytes_written.unwrap_or(f64::NAN);
        for (column, value, unit) in [
            ("write amplification", waf, ""),
            ("terabytes until worn", written, "TB"),
            ("life beside no deduplication", plain / waf, "times"),
        ] {
            rows.push(Row::new(settings.id, name, column, value, unit));
        }
    }
    Ok(rows)
}
