//! Park & Shin Figs. 3 to 5: write response, offline overhead and page copies of four schemes.
//! Room: onefold-lab.
//! Source: seed 002 sec. IV. The two traces are not to be had: writes in bursts with idle gaps,
//! with the paper's duplicate ratios, take their place, on a drive filled to 90 %.

use onefold_flash::run::Report;
use onefold_flash::spec::{BlockCount, DriveSpec};
use onefold_sim::{RandomStreams, Ratio};
use onefold_workload::{ContentProfile, Identity, Op, Request};

use crate::error::{LabError, Result};
use crate::experiments::drives::{replay_as_is, with_policy, write_us};
use crate::row::{Kind, Row};
use crate::settings::Settings;

/// Name in the paper, duplicate ratio and idle gap of a workload.
const WORKLOADS: [(&str, &str, &str); 2] = [
    ("WebVM (FIU)", "webvm_duplicate_percent", "webvm_idle_us"),
    ("AppInstall", "appinstall_duplicate_percent", "appinstall_idle_us"),
];

/// Policy, options and name of a scheme.
const SCHEMES: [(&str, &str, &str); 4] = [
    ("caftl-online", "", "online"),
    ("caftl-offline", "", "offline"),
    ("block-separation", "", "block separation"),
    ("crc-compare", "", "proposed"),
];

fn drive(settings: &Settings<'_>) -> Result<DriveSpec> {
    let mut spec = DriveSpec::preset("park-shin").expect("a preset of that name");
    spec.seed = settings.number("seed")?;
    spec.geometry.blocks_per_plane = settings.number("blocks_per_plane")? as u32;
    spec.ftl.gc_reserve_blocks = BlockCount::Blocks(4);
    // Small drives keep the same reserve of blocks, which would eat up the spare space.
    let blocks = f64::from(spec.geometry.blocks_per_plane);
    spec.ftl.over_provisioning = 0.15 + 8.0 / blocks;
    spec.workload.footprint_share = settings.real("filled_share")?;
    spec.workload.finish_offline = false;
    spec.controller.idle_after_ns = settings.number("idle_after_us")? * 1000;
    spec.controller.hash_engines = 1;
    Ok(spec)
}

/// Bursts of writes to random pages, some of them soon again, with idle gaps in between.
fn bursts(
    settings: &Settings<'_>,
    spec: &DriveSpec,
    percent: u64,
    idle_us: u64,
) -> Result<Vec<Request>> {
    let count = settings.number("writes")?;
    let (burst, pause_us) = (settings.number("burst")?, settings.number("pause_us")?);
    let again = settings.number("again_percent")?;
    let profile = ContentProfile {
        duplicate_ratio: Ratio::percent(percent),
        hot_fingerprint_ratio: Ratio::percent(settings.number("hot_fingerprints_percent")?),
        hot_share: Ratio::percent(settings.number("hot_share_percent")?),
    };
    let refused = |problem: String| LabError::Refused { id: settings.id.to_owned(), problem };
    let contents: Vec<Identity> =
        profile.data_set(count, spec.seed).map_err(|e| refused(e.to_string()))?.collect();
    let mut random = RandomStreams::new(spec.seed).stream("bursts");
    let bytes = u64::from(spec.geometry.page_bytes);
    let (mut time_us, mut last) = (0, 0);
    let write = |(number, identity): (usize, Identity)| {
        let number = number as u64;
        time_us += if number.is_multiple_of(burst) { idle_us } else { pause_us };
        // A page of this burst again, or any page.
        let page =
            if random.below(100) < again { last } else { random.below(spec.footprint_pages()) };
        last = page;
        Request {
            time_ns: time_us * 1000,
            op: Op::Write,
            offset: page * bytes,
            length: bytes,
            identity: Some(identity),
            stream: None,
            pid: None,
        }
    };
    Ok(contents.into_iter().enumerate().map(write).collect())
}

fn count(report: &Report, name: &str) -> f64 {
    report.dedup.policy_counts.get(name).map_or(0.0, |&count| count as f64)
}

/// Time spent on deduplication beside the host's requests, in microseconds per page written, CRC
/// included for the schemes that make one.
fn overhead_us(spec: &DriveSpec, report: &Report, scheme: &str) -> f64 {
    let reads = report.flash_operations["read"].dedup as f64;
    let compared = (report.dedup.compared_equal + report.dedup.compared_different) as f64;
    let crc = if scheme == "offline" || scheme == "online" { 0.0 } else { 1.0 };
    let pages = report.requests.pages_written as f64;
    let ns = reads * spec.timing.read_latency_ns as f64
        + count(report, "pages_hashed") * spec.controller.hash_ns as f64
        + compared * spec.controller.compare_ns as f64
        + crc * pages * spec.controller.light_hash_ns as f64;
    ns / pages / 1000.0
}

/// All schemes under both workloads; the reports in the order of the schemes.
fn reports(settings: &Settings<'_>) -> Result<Vec<(&'static str, DriveSpec, Vec<Report>)>> {
    let mut points = Vec::new();
    for workload in WORKLOADS {
        points.extend(SCHEMES.map(|scheme| (workload, scheme)));
    }
    let all = settings.sweep(&points, |&((_, duplicates, idle), (policy, options, _))| {
        let mut spec = drive(settings)?;
        let requests =
            bursts(settings, &spec, settings.number(duplicates)?, settings.number(idle)?)?;
        with_policy(&mut spec, policy, options);
        replay_as_is(settings, &spec, requests)
    });
    let mut all = all.into_iter();
    let mut out = Vec::new();
    for (name, ..) in WORKLOADS {
        let these = all.by_ref().take(SCHEMES.len()).collect::<Result<Vec<_>>>()?;
        out.push((name, drive(settings)?, these));
    }
    Ok(out)
}

/// Fig. 3: mean write response.
pub fn fig3(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (workload, _, reports) in reports(settings)? {
        for (report, (.., scheme)) in reports.iter().zip(SCHEMES) {
            rows.push(Row::new(settings.id, workload, scheme, write_us(report), "us"));
        }
        let change = 100.0 * (write_us(&reports[3]) / write_us(&reports[0]) - 1.0);
        let column = "offline_vs_online_write_latency";
        rows.push(settings.published.row(workload, column, change)?);
    }
    Ok(rows)
}

/// Fig. 4: time of offline deduplication, relative to CAFTL's.
pub fn fig4(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut saved = f64::INFINITY;
    for (workload, spec, reports) in reports(settings)? {
        let times: Vec<f64> = reports
            .iter()
            .zip(SCHEMES)
            .map(|(report, (.., scheme))| overhead_us(&spec, report, scheme))
            .collect();
        for (&time, (.., scheme)) in times.iter().zip(SCHEMES).skip(1) {
            rows.push(Row::new(settings.id, workload, scheme, time, "us a page"));
        }
        let change = 100.0 * (times[3] / times[1] - 1.0);
        saved = saved.min(-change);
    }
    rows.push(settings.published.row("proposed vs offline", "dedup_overhead", -saved)?.note(
        "the smaller saving of the two workloads; the CRC of every page is counted as overhead",
    ));
    Ok(rows)
}

/// Fig. 5: page copies of garbage collection, and what the ND blocks held.
pub fn fig5(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (workload, _, reports) in reports(settings)? {
        let copies = |report: &Report| report.flash_operations["program"].gc as f64;
        for (report, (.., scheme)) in reports.iter().zip(SCHEMES) {
            let relative = copies(report) / copies(&reports[0]);
            rows.push(Row::new(settings.id, workload, scheme, relative, "of online"));
        }
        let unique = count(&reports[3], "undetermined_found_unique");
        let settled = unique + count(&reports[3], "undetermined_found_duplicate");
        let row =
            settings.published.row(workload, "nd_pages_found_unique", 100.0 * unique / settled)?;
        rows.push(row.kind(Kind::NotReproducible).note(
            "the share depends on how often a page's partner is overwritten before the next idle \
             moment, which only the traces say; collisions of CRC-32 explain none of it",
        ));
    }
    Ok(rows)
}
