//! Park & Shin Figs. 3 to 5: write response, offline overhead and page copies of four schemes.
//! Room: onefold-lab.
//! Source: [park-shin] sec. IV. The two traces are not to be had: writes in bursts with idle gaps,
//! with the paper's duplicate ratios, take their place, on a drive filled to 90 %.

use std::sync::Arc;

use onefold_flash::run::Report;
use onefold_flash::spec::{DriveSpec, Precondition};
use onefold_sim::{RandomStream, RandomStreams, Ratio};
use onefold_workload::{ContentProfile, Identity, Op, Request};

use crate::error::{LabError, Result};
use crate::experiments::drives::{replay_as_is, with_policy, write_us};
use crate::row::show;
use crate::series::{Data, Line, Point, Spread};
use crate::settings::Settings;

/// Name in the paper and in the parameters.
const WORKLOADS: [(&str, &str); 2] = [("WebVM (FIU)", "webvm"), ("AppInstall", "appinstall")];

/// Policy and options of a scheme; crc-compare is what the paper proposes. It trusts equal SHA-1;
/// the drive compares pages whose hash is a broken one, so it is SHA-256 here, at the paper's
/// time for SHA-1.
const SCHEMES: [(&str, &str); 5] = [
    ("none", ""),
    ("caftl-online", TRUSTED),
    ("caftl-offline", TRUSTED),
    ("block-separation", TRUSTED),
    ("crc-compare", ""),
];
const TRUSTED: &str = "hash = 'sha256'";
const ONLINE: usize = 1;
const OFFLINE: usize = 2;
const PROPOSED: usize = 4;

/// One drive of one run: blocks of a plane, and the seed.
type Place = (u64, u64);

/// The drives that every figure is the mean of.
fn points(settings: &Settings<'_>) -> Result<Vec<Place>> {
    let mut all = Vec::new();
    for blocks in settings.numbers("blocks_per_plane")? {
        all.extend(settings.numbers("seeds")?.into_iter().map(|seed| (blocks, seed)));
    }
    Ok(all)
}

fn drive(settings: &Settings<'_>, (blocks, seed): Place) -> Result<DriveSpec> {
    let mut spec = DriveSpec::preset("park-shin").expect("a preset of that name");
    spec.seed = seed;
    // A package does one thing at a time, whatever its planes: one of them is enough.
    spec.geometry.planes_per_die = 1;
    spec.geometry.blocks_per_plane = blocks as u32;
    let idle = settings.number("idle_blocks")? as u32;
    spec.ftl.gc_idle_blocks = spec.gc_reserve_blocks() + idle;
    spec.precondition = Precondition::Prefill;
    spec.workload.footprint_share = settings.real("filled_share")?;
    spec.workload.finish_offline = false;
    spec.controller.idle_after_ns = settings.span_of_us("idle_after_us")?.ns();
    Ok(spec)
}

/// Where the writes of a workload go.
enum Pages {
    /// So many of 100 to a fifth of the pages.
    Skewed(u64),
    /// One after the other, for so many at a time.
    Runs(u64),
}

/// A workload, by the parameters that begin with its name.
struct Workload {
    duplicates: u64,
    rewrites: u64,
    idle_us: u64,
    pages: Pages,
}

impl Workload {
    fn new(settings: &Settings<'_>, name: &str) -> Result<Self> {
        let of = |what: &str| settings.number(&format!("{name}_{what}"));
        Ok(Self {
            duplicates: of("duplicate_percent")?,
            rewrites: of("rewrites_percent")?,
            idle_us: of("idle_us")?,
            pages: match name {
                "webvm" => Pages::Skewed(of("skew_percent")?),
                _ => Pages::Runs(of("run_pages")?),
            },
        })
    }
}

impl Pages {
    fn next(&self, number: u64, last: Option<u64>, pages: u64, random: &mut RandomStream) -> u64 {
        match (self, last) {
            (Self::Skewed(percent), _) if random.below(100) < *percent => random.below(pages / 5),
            (Self::Runs(length), Some(last)) if !number.is_multiple_of(*length) => {
                (last + 1) % pages
            }
            _ => random.below(pages),
        }
    }
}

/// Bursts of writes with idle gaps in between. Of the redundant writes, so many of 100 write a
/// page with the content that it has; the others write what some page has to another one.
fn bursts(settings: &Settings<'_>, spec: &DriveSpec, workload: &Workload) -> Result<Vec<Request>> {
    let pages = spec.footprint_pages();
    let count = pages * settings.number("writes_percent")? / 100;
    let (burst, pause_us) = (settings.number("burst")?, settings.number("pause_us")?);
    let again = count * workload.duplicates * workload.rewrites / 10_000;
    let copied = count * workload.duplicates / 100 - again;
    let refused = |problem: String| LabError::Refused { id: settings.id.to_owned(), problem };
    let profile = ContentProfile {
        duplicate_ratio: Ratio::new(copied, count - again)
            .map_err(|error| refused(error.to_string()))?,
        hot_fingerprint_ratio: Ratio::percent(settings.number("hot_fingerprints_percent")?),
        hot_share: Ratio::percent(settings.number("hot_share_percent")?),
    };
    let contents = profile.data_set(count - again, spec.seed);
    let mut contents = contents.map_err(|error| refused(error.to_string()))?;
    let mut random = RandomStreams::new(spec.seed).stream("bursts");
    let bytes = u64::from(spec.geometry.page_bytes);
    let mut current: Vec<Option<Identity>> = vec![None; pages as usize];
    let (mut written, mut all, mut time_us): (Vec<u64>, Vec<Request>, u64) = Default::default();
    let (mut fresh_writes, mut last) = (0, None);
    for number in 0..count {
        time_us += if number.is_multiple_of(burst) { workload.idle_us } else { pause_us };
        let rewrite = !written.is_empty() && random.below(count) < again;
        let fresh = if rewrite { None } else { contents.next() };
        let page = if fresh.is_some() {
            let page = workload.pages.next(fresh_writes, last, pages, &mut random);
            last = Some(page);
            fresh_writes += 1;
            page
        } else {
            written[random.below(written.len() as u64) as usize]
        };
        let identity = fresh.or(current[page as usize]);
        current[page as usize] = identity;
        written.push(page);
        all.push(Request {
            time_ns: time_us * 1000,
            op: Op::Write,
            offset: page * bytes,
            length: bytes,
            identity,
            stream: None,
            pid: None,
            deduplicate: None,
        });
    }
    Ok(all)
}

fn count(report: &Report, name: &str) -> f64 {
    report.dedup.policy_counts.get(name).map_or(0.0, |&count| count as f64)
}

/// Time spent on deduplication beside the host's requests, in microseconds per page written, CRC
/// included for the schemes that make one.
fn overhead_us(spec: &DriveSpec, report: &Report, scheme: &str) -> f64 {
    let reads = report.flash_operations["read"].dedup as f64;
    let compared = (report.dedup.compared_equal + report.dedup.compared_different) as f64;
    let crc = if scheme == "crc-compare" || scheme == "block-separation" { 1.0 } else { 0.0 };
    let pages = report.requests.pages_written as f64;
    // The policy counts from the beginning: each page of the filling was hashed once.
    let hashed = count(report, "pages_hashed") - spec.footprint_pages() as f64;
    let ns = reads * spec.timing.read_latency_ns as f64
        + hashed.max(0.0) * spec.controller.hash_ns as f64
        + compared * spec.controller.compare_ns as f64
        + crc * pages * spec.controller.light_hash_ns as f64;
    ns / pages / 1000.0
}

/// What the figures take of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    write_us: f64,
    overhead_us: f64,
    /// Page copies of collection a page written.
    copies: f64,
    /// Of 100 pages of ND blocks.
    unique: f64,
}

impl Run {
    fn of(spec: &DriveSpec, report: &Report, scheme: &str) -> Self {
        let copies = report.flash_operations["program"].gc as f64;
        let unique = count(report, "undetermined_found_unique");
        let settled = unique + count(report, "undetermined_found_duplicate");
        Self {
            write_us: write_us(report),
            overhead_us: overhead_us(spec, report, scheme),
            copies: copies / report.requests.pages_written as f64,
            unique: 100.0 * unique / settled,
        }
    }
}

/// Of every scheme, on every drive.
type Runs = Vec<[Run; SCHEMES.len()]>;
/// The same of every workload, which comes first.
type All = Vec<(&'static str, Runs)>;

/// All schemes under both workloads on every drive. The figures have them in common.
fn runs(settings: &Settings<'_>) -> Result<Arc<All>> {
    settings.once("park-shin", || run_all(settings))
}

fn run_all(settings: &Settings<'_>) -> Result<All> {
    let drives = points(settings)?;
    let mut runs = Vec::new();
    for workload in WORKLOADS {
        for &point in &drives {
            runs.extend(SCHEMES.map(|scheme| (workload.1, point, scheme)));
        }
    }
    let all = settings.sweep(&runs, |&(name, point, (policy, options))| {
        let mut spec = drive(settings, point)?;
        let requests = bursts(settings, &spec, &Workload::new(settings, name)?)?;
        with_policy(&mut spec, policy, options);
        Ok::<_, LabError>(Run::of(&spec, &replay_as_is(settings, &spec, requests)?, policy))
    });
    let mut all = all.into_iter();
    let mut out = Vec::new();
    for (name, _) in WORKLOADS {
        let mut runs = Vec::new();
        for _ in &drives {
            let mut of_drive = [Run::default(); SCHEMES.len()];
            for run in &mut of_drive {
                *run = all.next().expect("a run for every scheme")?;
            }
            runs.push(of_drive);
        }
        out.push((name, runs));
    }
    Ok(out)
}

/// Mean, least and most of what every drive gave.
#[derive(Clone, Copy)]
struct Over {
    mean: f64,
    least: f64,
    most: f64,
}

impl Over {
    fn of(runs: &Runs, value: impl Fn(&[Run; SCHEMES.len()]) -> f64) -> Self {
        let values: Vec<f64> = runs.iter().map(value).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { mean: values.iter().sum::<f64>() / values.len() as f64, least, most }
    }

    fn around(self, point: &mut Point) -> &mut Point {
        point.range(self.least, self.most, Spread::Extremes)
    }

    fn words(self) -> String {
        format!("{} ({} to {})", show(self.mean), show(self.least), show(self.most))
    }
}

/// Whether a change of a time, in %, is for the better.
fn is_sooner(change: f64) -> bool {
    change < 0.0
}

/// Whether each figure is less than the one before.
fn falls<const N: usize>(figures: [f64; N]) -> bool {
    figures.is_sorted_by(|more, less| more > less)
}

/// A quantity of the schemes over the workloads.
fn line(name: &str, unit: &str) -> Line {
    Line::new(name, unit).over("workload", "")
}

/// Fig. 3: mean write response.
pub fn fig3(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let beside = line("mean write latency beside online", "%");
    let (mut holds, mut words) = (true, Vec::new());
    for (workload, runs) in runs(settings)?.iter() {
        let workload = *workload;
        for (at, (scheme, _)) in SCHEMES.iter().enumerate().skip(1) {
            let relative = Over::of(runs, |run| run[at].write_us / run[0].write_us);
            let line = line("mean write latency", "none = 1").of(scheme);
            relative.around(data.put(&line, workload, relative.mean));
        }
        for (at, (scheme, _)) in SCHEMES.iter().enumerate().skip(OFFLINE) {
            let change =
                Over::of(runs, |run| 100.0 * (run[at].write_us / run[ONLINE].write_us - 1.0));
            let line = beside.of(scheme);
            let point = if at == OFFLINE {
                let printed = (workload, "offline_vs_online_write_latency");
                data.beside(printed, &line, workload, change.mean)?
            } else {
                data.put(&line, workload, change.mean)
            };
            change.around(point);
            holds &= is_sooner(change.mean);
            words.push(format!("{workload}, {scheme} {} %", change.words()));
        }
    }
    data.shows("offline-sooner", holds, words.join("; "))
}

/// Fig. 4: time of offline deduplication, relative to CAFTL's.
pub fn fig4(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (mut saved, mut holds, mut words) = (f64::INFINITY, true, Vec::new());
    for (workload, runs) in runs(settings)?.iter() {
        let workload = *workload;
        let mut means = [0.0; 5];
        for (at, (scheme, _)) in SCHEMES.iter().enumerate().skip(OFFLINE) {
            let relative = Over::of(runs, |run| run[at].overhead_us / run[OFFLINE].overhead_us);
            let line_of = line("time of deduplication", "caftl-offline = 1").of(scheme);
            relative.around(data.put(&line_of, workload, relative.mean));
            let time = Over::of(runs, |run| run[at].overhead_us);
            let line_of = line("time of deduplication a page written", "us").of(scheme);
            time.around(data.put(&line_of, workload, time.mean));
            means[at] = relative.mean;
        }
        let change = Over::of(runs, |run| {
            100.0 * (run[PROPOSED].overhead_us / run[OFFLINE].overhead_us - 1.0)
        });
        saved = saved.min(-change.most);
        let [.., offline, separated, proposed] = means;
        holds &= falls([separated, offline, proposed]);
        words.push(format!(
            "{workload}: {} and {} of caftl-offline's",
            show(separated),
            show(proposed)
        ));
    }
    let least = Line::new("least change of the time of deduplication", "%").of("crc-compare");
    data.beside(("proposed vs offline", "dedup_overhead"), &least, (), -saved)?
        .note("on both workloads and all drives; the CRC of every page is counted");
    data.shows("separation-most", holds, words.join("; "))
}

/// Fig. 5: page copies of garbage collection, and what the ND blocks held.
pub fn fig5(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (mut holds, mut figure) = (false, String::new());
    for (workload, runs) in runs(settings)?.iter() {
        let workload = *workload;
        let mut means = [0.0; 5];
        for (at, (scheme, _)) in SCHEMES.iter().enumerate() {
            let spread = Over::of(runs, |run| run[at].copies);
            let line = line("copies of collection a page written", "").of(scheme);
            spread.around(data.put(&line, workload, spread.mean));
            means[at] = spread.mean;
        }
        let unique = Over::of(runs, |run| run[PROPOSED].unique);
        let line = line("ND pages found unique", "%").of("crc-compare");
        let point = data.beside((workload, "nd_pages_found_unique"), &line, workload, unique.mean);
        unique.around(point?);
        if workload == "AppInstall" {
            holds = falls([means[OFFLINE], means[PROPOSED]]);
            figure = format!("{} against {}", show(means[PROPOSED]), show(means[OFFLINE]));
        }
    }
    data.shows("proposed-copies-less", holds, figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_much_is_no_less() {
        assert!(is_sooner(-0.1) && !is_sooner(0.0));
        assert!(falls([3.0, 2.0, 1.0]) && !falls([3.0, 3.0, 1.0]) && !falls([3.0, 1.0, 2.0]));
    }
}
