//! Beyond the papers: a compression engine on either side of the scrambler, and deduplication.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. IV asks where an engine may be, and leaves out what it gains.

use onefold_flash::run::Report;
use onefold_flash::spec::{
    ArrivalKind, BlockCount, CompressionPlace, ContentKind, DriveSpec, Precondition, ThinkKind,
    WriteBuffer,
};

use crate::error::{LabError, Result};
use crate::experiments::drives::{PLENTY, simulate, with_policy};
use crate::experiments::lives::{self, Wear, latency_us, mean};
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Policies, and whether their fingerprint is that of what the engine puts out.
const POLICIES: [(&str, bool); 4] =
    [("none", false), ("ses-host", true), ("ses-device", true), ("gleaner", true)];
/// Those of them that the predictions are about: gleaner could not be compressed with then.
const PREDICTED: [&str; 3] = ["none", "ses-host", "ses-device"];

/// Where the engine is, in the words of the specification and in ours.
const BEFORE: (&str, &str) = ("before-scrambler", "before the scrambler");
const BEHIND: (&str, &str) = ("after-scrambler", "behind the scrambler");
const WITHOUT: (&str, &str) = ("none", "no engine");
const PLACES: [(&str, &str); 3] = [WITHOUT, BEFORE, BEHIND];

/// A drive that is written without end, with an engine there.
fn drive(
    settings: &Settings<'_>,
    (policy, by_output): (&str, bool),
    place: &str,
    percent: u64,
) -> Result<DriveSpec> {
    let mut spec = DriveSpec::preset(settings.text("flash")?)
        .map_or_else(|| Err(settings.refused("no such preset")), Ok)?;
    spec.geometry.planes_per_die = 1;
    spec.geometry.blocks_per_plane = settings.number("blocks_per_plane")? as u32;
    spec.geometry.pages_per_block = settings.number("pages_per_block")? as u32;
    spec.ftl.gc_reserve_blocks = BlockCount::Blocks(3);
    spec.ftl.over_provisioning = settings.real("over_provisioning")?;
    spec.ftl.compression = match place {
        "before-scrambler" => CompressionPlace::BeforeScrambler,
        "after-scrambler" => CompressionPlace::AfterScrambler,
        _ => CompressionPlace::None,
    };
    spec.ftl.subpages = settings.number("subpages")? as u32;
    spec.precondition = Precondition::Steady;
    let rate = settings.number("compress_mb_per_s")?;
    spec.controller.compress_mb_per_s = rate;
    spec.controller.decompress_mb_per_s = 2 * rate;
    spec.controller.write_buffer = WriteBuffer::Back;
    spec.controller.write_buffer_pages = settings.number("write_buffer_pages")? as u32;
    spec.controller.idle_after_ns = settings.span_of_us("idle_after_us")?.ns();
    spec.controller.dram_bytes = PLENTY;
    let workload = &mut spec.workload;
    workload.arrivals = ArrivalKind::Closed;
    workload.queue_depth = settings.number("queue_depth")? as u32;
    workload.think_time = ThinkKind::Exponential;
    workload.think_time_ns = settings.number("think_time_ns")?;
    workload.read_share = settings.number("reads_percent")? as f64 / 100.0;
    workload.content = ContentKind::Profile;
    workload.duplicate_ratio = settings.number("duplicate_percent")? as f64 / 100.0;
    workload.hot_fingerprint_ratio = 0.15;
    workload.hot_share = 0.8;
    workload.finish_offline = false;
    workload.compressed_percent = percent as u32;
    workload.compressed_spread_percent = settings.number("spread_percent")? as u32;
    let options = if by_output { format!("compression = '{place}'") } else { String::new() };
    with_policy(&mut spec, policy, &options);
    spec.workload.requests = spec.footprint_pages() * settings.number("requests_percent")? / 100;
    Ok(spec)
}

/// What is taken of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    wear: Wear,
    write_us: f64,
    write_p99_us: f64,
    read_us: f64,
    stored: f64,
}

impl Figures {
    fn of(report: &Report) -> Self {
        let [write_us, write_p99_us] = latency_us(report, "write");
        let [read_us, _] = latency_us(report, "read");
        let stored = report.compression.as_ref().and_then(|packed| packed.stored_share);
        Self {
            wear: Wear::of(report),
            write_us,
            write_p99_us,
            read_us,
            stored: 100.0 * stored.unwrap_or(1.0),
        }
    }
}

/// A quantity with its unit, and how it is taken of a run.
type Measure = (&'static str, &'static str, fn(&Figures) -> f64);

const MEASURES: [Measure; 4] = [
    ("mean write latency", "us", |f| f.write_us),
    ("99th percentile of write latency", "us", |f| f.write_p99_us),
    ("mean read latency", "us", |f| f.read_us),
    ("flash that stored pages take", "% of what they take whole", |f| f.stored),
];

/// The runs of one drive, one for each seed.
struct Runs {
    policy: &'static str,
    place: (&'static str, &'static str),
    percent: u64,
    figures: Vec<Figures>,
}

/// Every policy with the engine at every place, over content of every compressibility.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (percents, seeds) = (settings.numbers("compressed_percent")?, settings.numbers("seeds")?);
    let mut points = Vec::new();
    for policy in POLICIES {
        for place in PLACES {
            let all = if sees_lengths(policy.0, place) { &percents[..] } else { &percents[..1] };
            for &percent in all {
                points.extend(seeds.iter().map(|&seed| (policy, place, percent, seed)));
            }
        }
    }
    let found = settings.sweep(&points, |&(policy, place, percent, seed)| {
        let mut spec = drive(settings, policy, place.0, percent)?;
        spec.seed = seed;
        Ok::<_, LabError>(Figures::of(&simulate(settings, &spec)?))
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    let mut all = Vec::new();
    for (figures, point) in found.chunks(seeds.len()).zip(points.chunks(seeds.len())) {
        let [(policy, place, percent, _), ..] = point else { continue };
        let (policy, figures) = (policy.0, figures.to_vec());
        let here = [*percent];
        let beside = if sees_lengths(policy, *place) { &here[..] } else { &percents[..] };
        for &percent in beside {
            all.push(Runs { policy, place: *place, percent, figures: figures.clone() });
        }
    }
    let plain = &all[0].figures;
    for runs in &all {
        put(runs, plain, data);
    }
    predicted(&all, &percents, data)
}

/// Whether an engine has pages before it that get shorter. Where none has, one drive stands beside
/// every length: an engine that puts noise out as it comes in asks for no length.
fn sees_lengths(policy: &str, place: (&str, &str)) -> bool {
    place == BEFORE || (place == BEHIND && policy == "ses-host")
}

fn put(runs: &Runs, plain: &[Figures], data: &mut Data) {
    let line = |quantity: &str, unit: &str| {
        let line = Line::new(quantity, unit).over("length of a compressed page", "%");
        line.of(runs.policy).under(runs.place.1)
    };
    let unit = "no engine and no deduplication = 1";
    let wears = (&wear(&runs.figures)[..], &wear(plain)[..]);
    lives::put_wear(line, (runs.percent, unit), wears, data);
    for (quantity, unit, value) in MEASURES {
        let values: Vec<f64> = runs.figures.iter().map(value).collect();
        lives::put(&line(quantity, unit), runs.percent, &values, data);
    }
}

fn wear(runs: &[Figures]) -> Vec<Wear> {
    runs.iter().map(|run| run.wear).collect()
}

/// Whether drives so far apart, in %, write alike.
fn is_alike(apart: f64) -> bool {
    apart <= 3.0
}

/// Whether so many % fewer programs are as good as none.
fn gains_nothing(fewer: f64) -> bool {
    fewer < 3.0
}

/// Whether what was predicted holds.
fn predicted(all: &[Runs], percents: &[u64], data: &mut Data) -> Result<()> {
    let of = |policy: &str, place: (&str, &str), percent: u64| {
        let runs = all
            .iter()
            .find(|runs| (runs.policy, runs.place.0, runs.percent) == (policy, place.0, percent));
        runs.map_or(&[][..], |runs| &runs.figures)
    };
    let waf = |policy: &str, place: (&str, &str), percent: u64| {
        let runs = of(policy, place, percent);
        mean(runs.iter().map(|run| run.wear.amplification))
    };
    let mut most: f64 = 0.0;
    for &percent in percents {
        for policy in PREDICTED {
            let like = if policy == "ses-host" { BEFORE } else { WITHOUT };
            let off = waf(policy, BEHIND, percent) / waf(policy, like, percent) - 1.0;
            most = most.max(off.abs());
        }
    }
    let figure = format!("{} % apart at most", show(100.0 * most));
    data.shows("behind-as-without", is_alike(100.0 * most), figure)?;

    let long = percents.iter().copied().max().unwrap_or_default();
    let fewer = PREDICTED
        .map(|policy| 100.0 * (1.0 - waf(policy, BEFORE, long) / waf(policy, WITHOUT, long)));
    let words: Vec<String> = fewer.map(show).into();
    let figure = format!("{} % fewer at {long} %, policy by policy", words.join(", "));
    data.shows("long-gains-nothing", fewer.into_iter().all(gains_nothing), figure)?;

    let half = percents.iter().copied().find(|&percent| percent == 50).unwrap_or(long);
    let plain = of("none", WITHOUT, half);
    let life =
        |policy: &str, place| mean(lives::lives(&wear(of(policy, place, half)), &wear(plain)));
    let (mut holds, mut words) = (true, Vec::new());
    for policy in &PREDICTED[1..] {
        let (alone, engine) = (life(policy, WITHOUT), life("none", BEFORE));
        let both = life(policy, BEFORE);
        holds &= both > alone.max(engine) && both < alone * engine;
        words.push(format!(
            "{policy} {} times as long, the engine {}, both {}",
            show(alone),
            show(engine),
            show(both)
        ));
    }
    data.shows("together-less-than-the-product", holds, words.join("; "))?;

    let short = percents.iter().copied().min().unwrap_or(long);
    let (mut holds, mut words) = (true, Vec::new());
    for policy in PREDICTED {
        let read = |place| {
            let runs = of(policy, place, short);
            mean(runs.iter().map(|run| run.read_us))
        };
        let (with, without) = (read(BEFORE), read(WITHOUT));
        holds &= with < without;
        words.push(format!("{policy} {} us instead of {}", show(with), show(without)));
    }
    data.shows("reads-sooner", holds, words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::settings::Options;

    /// Pages programmed for each of the host and the read latency under a policy with an engine
    /// there, of which all predictions hold.
    fn sound(policy: &str, place: (&str, &str), percent: u64) -> (f64, f64) {
        let shortens = place == BEFORE || (place == BEHIND && policy == "ses-host");
        let amplification = match (policy, shortens, percent) {
            ("none", false, _) => 4.0,
            ("none", true, 80) => 3.9,
            ("none", true, _) | (_, false, _) => 2.0,
            (_, true, 80) => 1.95,
            (_, true, _) => 1.25,
        };
        (amplification, if place == BEFORE { 1.0 } else { 2.0 })
    }

    /// What fails if one drive does otherwise.
    fn fails(drive: (&str, (&str, &str), u64), does: (f64, f64)) -> Vec<String> {
        let options = Options::default();
        let settings = Settings::new(find("beyond/compression").unwrap()[0], &options).unwrap();
        let mut data = Data::new(&settings);
        let percents = [80, 50, 25];
        let mut all = Vec::new();
        for policy in PREDICTED {
            for place in PLACES {
                for percent in percents {
                    let other = (policy, place, percent) == drive;
                    let (amplification, read_us) =
                        if other { does } else { sound(policy, place, percent) };
                    let mut figures = Figures { read_us, ..Figures::default() };
                    figures.wear.amplification = amplification;
                    all.push(Runs { policy, place, percent, figures: vec![figures] });
                }
            }
        }
        predicted(&all, &percents, &mut data).unwrap();
        assert_eq!(data.claims.len(), 4);
        let missed = data.claims.into_iter().filter(|claim| !claim.holds);
        missed.map(|claim| claim.id).collect()
    }

    #[test]
    fn each_prediction_holds_and_fails_by_its_own_figures() {
        let nothing: [&str; 0] = [];
        assert_eq!(fails(("none", WITHOUT, 80), (4.0, 2.0)), nothing);
        // 3 % apart, to either side.
        assert_eq!(fails(("none", BEHIND, 25), (4.1, 2.0)), nothing);
        assert_eq!(fails(("none", BEHIND, 25), (4.2, 2.0)), ["behind-as-without"]);
        assert_eq!(fails(("ses-device", BEHIND, 80), (1.9, 2.0)), ["behind-as-without"]);
        assert_eq!(fails(("ses-host", BEHIND, 50), (2.0, 2.0)), ["behind-as-without"]);
        assert!(is_alike(3.0) && !is_alike(3.1) && gains_nothing(2.9) && !gains_nothing(3.0));
        // 4 % fewer at the greatest length alone.
        assert_eq!(fails(("ses-device", BEFORE, 80), (1.92, 1.0)), ["long-gains-nothing"]);
        // No longer than with the policy alone, and as long as the product says.
        let together = ["together-less-than-the-product"];
        assert_eq!(fails(("ses-device", BEFORE, 50), (2.0, 1.0)), together);
        assert_eq!(fails(("ses-device", BEFORE, 50), (1.0, 1.0)), together);
        // As late as without.
        assert_eq!(fails(("none", BEFORE, 25), (2.0, 2.0)), ["reads-sooner"]);
        assert_eq!(fails(("none", BEFORE, 50), (2.0, 2.0)), nothing);
    }
}
