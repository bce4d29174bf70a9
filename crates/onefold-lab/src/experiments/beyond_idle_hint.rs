//! Beyond the papers: background work that begins by a timer, and by the host's word.
//! Room: onefold-lab.
//! Source: [park-shin] sec. III: the host tells of idle time. One load for every way of beginning:
//! bursts with short gaps inside, which a timer cannot tell from the long pauses between them, and
//! which the host can.

use onefold_flash::run::Report;
use onefold_flash::spec::{BlockCount, DriveSpec, Precondition};
use onefold_sim::{RandomStreams, Ratio, SimSpan};
use onefold_workload::{ContentProfile, Op, Request};

use crate::error::{LabError, Result};
use crate::experiments::drives::{PLENTY, of_written, replay_as_is, with_policy, write_us};
use crate::experiments::lives::ends;
use crate::series::{Data, Line, Spread};
use crate::settings::Settings;

/// Policies that work in idle moments, and their options.
const POLICIES: [(&str, &str); 4] = [
    ("caftl-offline", ""),
    ("crc-compare", ""),
    ("ses-device", "inline = false\ntable_share = 1.0"),
    ("gleaner", ""),
];

/// How background work begins.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    /// The drive's clock, in microseconds; 0 for none.
    after_us: u64,
    announced: Announced,
}

/// What the host says before it pauses.
#[derive(Clone, Copy, Debug)]
enum Announced {
    Nothing,
    /// How long a pause between bursts is.
    Pauses,
    /// Before every gap that one is coming.
    Gaps,
}

const fn way(name: &'static str, after_us: u64, announced: Announced) -> Way {
    Way { name, after_us, announced }
}

/// The pause that a host announces which does so before every gap.
const GAP_NS: u64 = 1_000;

const WAYS: [Way; 7] = [
    way("timer, 1 us", 1, Announced::Nothing),
    way("timer, 1 ms", 1_000, Announced::Nothing),
    way("timer, 10 ms", 10_000, Announced::Nothing),
    way("timer, 50 ms", 50_000, Announced::Nothing),
    way("hint", 0, Announced::Pauses),
    way("hint, and timer, 10 ms", 10_000, Announced::Pauses),
    way("hint before every gap", 0, Announced::Gaps),
];

fn drive(settings: &Settings<'_>, way: Way, seed: u64) -> Result<DriveSpec> {
    let mut spec = DriveSpec::preset("park-shin").expect("a preset of that name");
    spec.seed = seed;
    spec.geometry.planes_per_die = 1;
    spec.geometry.blocks_per_plane = settings.number("blocks_per_plane")? as u32;
    spec.ftl.gc_reserve_blocks = BlockCount::Blocks(4);
    spec.ftl.gc_idle_blocks = 7;
    spec.ftl.over_provisioning = settings.real("over_provisioning")?;
    spec.precondition = Precondition::Prefill;
    spec.workload.finish_offline = false;
    spec.workload.idle_hint_ns = match way.announced {
        Announced::Nothing => 0,
        Announced::Pauses => settings.span_of_us("pause_us")?.ns(),
        Announced::Gaps => GAP_NS,
    };
    spec.controller.idle_after_ns = SimSpan::from_us(way.after_us).ns();
    spec.controller.dram_bytes = PLENTY;
    Ok(spec)
}

/// Bursts of random overwrites with exponential gaps, and pauses between the bursts.
fn requests(settings: &Settings<'_>, spec: &DriveSpec) -> Result<Vec<Request>> {
    let pages = spec.footprint_pages();
    let count = pages * settings.number("writes_percent")? / 100;
    let profile = ContentProfile {
        duplicate_ratio: Ratio::percent(settings.number("duplicate_percent")?),
        hot_fingerprint_ratio: Ratio::percent(15),
        hot_share: Ratio::percent(80),
    };
    let refused = |problem: String| LabError::Refused { id: settings.id.to_owned(), problem };
    let contents = profile.data_set(count, spec.seed);
    let contents = contents.map_err(|error| refused(error.to_string()))?;
    let (burst, pause) = (settings.number("burst")?, settings.span_of_us("pause_us")?);
    let mean = settings.span_of_us("gap_us")?;
    let mut random = RandomStreams::new(spec.seed).stream("idle hint");
    let (bytes, mut time_ns) = (u64::from(spec.geometry.page_bytes), 0);
    let request = |(number, identity): (u64, _)| {
        let first = number.is_multiple_of(burst);
        time_ns += if first { pause.ns() } else { random.exponential(mean).ns() };
        Request {
            time_ns,
            op: Op::Write,
            offset: random.below(pages) * bytes,
            length: bytes,
            identity: Some(identity),
            stream: None,
            pid: None,
            deduplicate: None,
        }
    };
    Ok((0..).zip(contents).map(request).collect())
}

/// What is taken of a run.
#[derive(Clone, Copy, Debug)]
struct Figures {
    latency_us: f64,
    p99_us: f64,
    found: f64,
    amplification: f64,
}

impl Figures {
    fn of(report: &Report) -> Self {
        let latency = report.latency_ns.get("write").and_then(Option::as_ref);
        let pages = report.dedup.inline_pages + report.dedup.offline_pages;
        Self {
            latency_us: write_us(report),
            p99_us: latency.map_or(f64::NAN, |latency| latency.p99 as f64 / 1000.0),
            found: of_written(report, pages),
            amplification: report.waf.total.unwrap_or(f64::NAN),
        }
    }
}

/// A quantity with its unit, and how it is taken of a run.
type Measure = (&'static str, &'static str, fn(&Figures) -> f64);

/// What is said of every run.
const MEASURES: [Measure; 4] = [
    ("mean write latency", "us", |f| f.latency_us),
    ("99th percentile of write latency", "us", |f| f.p99_us),
    ("found in all", "% of written pages", |f| f.found),
    ("write amplification", "", |f| f.amplification),
];

/// The figures of every policy with every way of beginning, on the same requests.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let seeds = settings.numbers("seeds")?;
    let mut points = Vec::new();
    for policy in POLICIES {
        for way in WAYS {
            points.extend(seeds.iter().map(|&seed| (policy, way, seed)));
        }
    }
    let found = settings.sweep(&points, |&((policy, options), way, seed)| {
        let mut spec = drive(settings, way, seed)?;
        let requests = requests(settings, &spec)?;
        with_policy(&mut spec, policy, options);
        Ok::<_, LabError>(Figures::of(&replay_as_is(settings, &spec, requests)?))
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    for (runs, point) in found.chunks_exact(seeds.len()).zip(points.chunks_exact(seeds.len())) {
        let [((policy, _), way, _), ..] = point else { continue };
        for (quantity, unit, value) in MEASURES {
            let line = Line::new(quantity, unit).over("background work begins by", "").of(policy);
            let values: Vec<f64> = runs.iter().map(value).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let (low, high) = ends(values.iter().copied());
            data.put(&line, way.name, mean).range(low, high, Spread::Extremes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::settings::Options;

    #[test]
    fn a_pause_stands_before_every_burst() {
        let options = Options::default();
        let settings = Settings::new(find("beyond/idle-hint").unwrap()[0], &options).unwrap();
        let requests = requests(&settings, &drive(&settings, WAYS[0], 1).unwrap()).unwrap();
        let of = |name: &str| settings.number(name).unwrap();
        let (burst, pause_ns) = (of("burst") as usize, of("pause_us") * 1000);
        assert_eq!(requests[0].time_ns, pause_ns);
        let gaps = requests.windows(2).map(|pair| pair[1].time_ns - pair[0].time_ns);
        let pauses = gaps.enumerate().filter(|&(_, gap)| gap == pause_ns).map(|(at, _)| at + 1);
        assert!(pauses.eq((burst..requests.len()).step_by(burst)));
    }
}
