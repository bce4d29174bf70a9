//! Beyond the papers: deduplication by codeword that runs, with what its map costs, and from what
//! share of common codewords on it wins.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. IV, last paragraph, leaves it to future work.

use onefold_flash::run::Report;
use onefold_flash::spec::{
    ArrivalKind, BlockCount, ContentKind, DriveSpec, Precondition, ThinkKind, WriteBuffer,
};

use crate::error::{LabError, Result};
use crate::experiments::drives::{PLENTY, simulate, with_policy};
use crate::experiments::lives::{self, Wear, latency_us, mean};
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Nothing, by page, and by codeword.
const POLICIES: [&str; 3] = ["none", "caftl-online", "codeword"];
const BY_PAGE: &str = "caftl-online";
const BY_CODEWORD: &str = "codeword";

/// A drive that is written without end, with so many common codewords of a hundred.
fn drive(settings: &Settings<'_>, policy: &str, percent: u64) -> Result<DriveSpec> {
    let mut spec = DriveSpec::preset(settings.text("flash")?)
        .map_or_else(|| Err(settings.refused("no such preset")), Ok)?;
    spec.geometry.planes_per_die = 1;
    spec.geometry.blocks_per_plane = settings.number("blocks_per_plane")? as u32;
    spec.geometry.pages_per_block = settings.number("pages_per_block")? as u32;
    spec.ftl.gc_reserve_blocks = BlockCount::Blocks(3);
    spec.ftl.over_provisioning = settings.real("over_provisioning")?;
    // Mapping pages and journal are written: there are more of them by codeword.
    spec.ftl.model_metadata = true;
    spec.precondition = Precondition::Steady;
    spec.controller.lookup_ns = settings.number("lookup_ns")?;
    spec.controller.hash_ns = settings.number("hash_ns")?;
    spec.controller.write_buffer = WriteBuffer::Back;
    spec.controller.write_buffer_pages = settings.number("write_buffer_pages")? as u32;
    spec.controller.dram_bytes = PLENTY;
    let codeword_bytes = settings.number("codeword_bytes")?;
    let options = match policy {
        BY_CODEWORD => format!("codeword_bytes = {codeword_bytes}"),
        _ => String::new(),
    };
    with_policy(&mut spec, policy, &options);
    let pages = spec.footprint_pages();
    let codewords = pages * u64::from(spec.geometry.page_bytes) / codeword_bytes;
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
    workload.common_codewords_percent = percent as u32;
    workload.common_codewords = codewords * settings.number("common_permille")? / 1000;
    workload.finish_offline = false;
    workload.requests = pages * settings.number("requests_percent")? / 100;
    Ok(spec)
}

/// What is taken of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    wear: Wear,
    write_us: f64,
    write_p99_us: f64,
    read_us: f64,
    read_p99_us: f64,
    /// Flash pages that are read for a page of the host.
    sensed: f64,
    /// Pages programmed by collection, and for map and journal, for a page of the host.
    moved: f64,
    mapped: f64,
    /// Bytes of the tables for a page of the host.
    table_bytes: f64,
}

/// What a drive has in memory whatever it maps.
const BUFFERS: [&str; 4] = ["write_buffer", "page_buffers", "packing_buffers", "journal_buffer"];

impl Figures {
    fn of(report: &Report) -> Self {
        let [write_us, write_p99_us] = latency_us(report, "write");
        let [read_us, read_p99_us] = latency_us(report, "read");
        let host_reads = report.flash_operations["read"].host;
        let tables = report.dram.items.iter().filter(|item| !BUFFERS.contains(&&*item.name));
        let bytes: u64 = tables.map(|item| item.bytes).sum();
        Self {
            wear: Wear::of(report),
            write_us,
            write_p99_us,
            read_us,
            read_p99_us,
            sensed: host_reads as f64 / report.requests.pages_read as f64,
            moved: report.waf.gc.unwrap_or(f64::NAN),
            mapped: report.waf.map.unwrap_or(f64::NAN),
            table_bytes: bytes as f64 / f64::from(report.logical_pages),
        }
    }
}

/// A quantity with its unit, and how it is taken of a run.
type Measure = (&'static str, &'static str, fn(&Figures) -> f64);

const MEASURES: [Measure; 8] = [
    ("programmed by collection", "per page of the host", |f| f.moved),
    ("programmed for map and journal", "per page of the host", |f| f.mapped),
    ("mean write latency", "us", |f| f.write_us),
    ("99th percentile of write latency", "us", |f| f.write_p99_us),
    ("mean read latency", "us", |f| f.read_us),
    ("99th percentile of read latency", "us", |f| f.read_p99_us),
    ("flash pages read", "per page of the host", |f| f.sensed),
    ("tables in memory", "bytes per page of the host", |f| f.table_bytes),
];

/// The runs of one drive, one for each seed.
struct Runs {
    policy: &'static str,
    percent: u64,
    figures: Vec<Figures>,
}

impl Runs {
    fn mean(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        mean(self.figures.iter().map(of))
    }
}

/// Every policy over every share of common codewords.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (percents, seeds) = (settings.numbers("common_percent")?, settings.numbers("seeds")?);
    let mut points = Vec::new();
    for policy in POLICIES {
        // By page nothing is common: one drive stands beside every share.
        let all = if policy == BY_CODEWORD { &percents[..] } else { &percents[..1] };
        for &percent in all {
            points.extend(seeds.iter().map(|&seed| (policy, percent, seed)));
        }
    }
    let found = settings.sweep(&points, |&(policy, percent, seed)| {
        let mut spec = drive(settings, policy, percent)?;
        spec.seed = seed;
        Ok::<_, LabError>(Figures::of(&simulate(settings, &spec)?))
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    let mut all = Vec::new();
    for (figures, point) in found.chunks(seeds.len()).zip(points.chunks(seeds.len())) {
        let [(policy, percent, _), ..] = point else { continue };
        let here = [*percent];
        let beside = if *policy == BY_CODEWORD { &here[..] } else { &percents[..] };
        for &percent in beside {
            all.push(Runs { policy, percent, figures: figures.to_vec() });
        }
    }
    let plain = &all[0].figures;
    for runs in &all {
        put(runs, plain, data);
    }
    break_even(&all, &percents, data);
    predicted(&all, &percents, data)
}

fn put(runs: &Runs, plain: &[Figures], data: &mut Data) {
    let line = |quantity: &str, unit: &str| {
        let line = Line::new(quantity, unit).over("common codewords", "%");
        line.of(runs.policy)
    };
    let wear = |figures: &[Figures]| figures.iter().map(|run| run.wear).collect::<Vec<_>>();
    let (here, unit) = (wear(&runs.figures), "no deduplication = 1");
    lives::put_wear(line, (runs.percent, unit), (&here, &wear(plain)), data);
    for (quantity, unit, value) in MEASURES {
        let values: Vec<f64> = runs.figures.iter().map(value).collect();
        lives::put(&line(quantity, unit), runs.percent, &values, data);
    }
}

fn of<'a>(all: &'a [Runs], policy: &str, percent: u64) -> &'a Runs {
    let found = all.iter().find(|runs| (runs.policy, runs.percent) == (policy, percent));
    found.expect("every policy was run at every share")
}

/// Figures in which less is better.
const LESS: [Measure; 3] = [
    ("life", "by write amplification", |f| f.wear.amplification),
    ("mean write latency", "us", |f| f.write_us),
    ("mean read latency", "us", |f| f.read_us),
];

/// From what share on codewords win, between shares by a straight line; nothing where they do not.
fn break_even(all: &[Runs], percents: &[u64], data: &mut Data) {
    for against in ["none", BY_PAGE] {
        let line = Line::new("common codewords from which on codewords win", "%").of(against);
        for (name, _, value) in LESS {
            // Above 0 where codewords lose.
            let behind: Vec<(f64, f64)> = (percents.iter())
                .map(|&percent| {
                    let with = of(all, BY_CODEWORD, percent).mean(value);
                    (percent as f64, with / of(all, against, percent).mean(value) - 1.0)
                })
                .collect();
            let from = wins_from(&behind);
            let point = data.put(&line, name, from);
            match from {
                None => point.note("nowhere up to the last share"),
                Some(0.0) => point.note("at every share"),
                Some(_) => point,
            };
        }
    }
}

/// The share from which on no figure is above 0.
fn wins_from(behind: &[(f64, f64)]) -> Option<f64> {
    let Some(last) = behind.iter().rposition(|&(_, by)| by > 0.0) else { return Some(0.0) };
    let (&(before, lost), &(after, won)) = (&behind[last], behind.get(last + 1)?);
    // A line between two shares says little where the loss is many times the gain.
    Some((before + (after - before) * lost / (lost - won)).round())
}

/// Whether what was predicted holds.
fn predicted(all: &[Runs], percents: &[u64], data: &mut Data) -> Result<()> {
    let ratio = |percent: u64, value: fn(&Figures) -> f64| {
        of(all, BY_CODEWORD, percent).mean(value) / of(all, BY_PAGE, percent).mean(value)
    };
    let bytes = ratio(percents[0], |f| f.table_bytes);
    let figure = format!("{} times", show(bytes));
    data.shows("memory", (7.0..=8.5).contains(&bytes), figure)?;

    let (life, reads) =
        (1.0 / ratio(percents[0], |f| f.wear.amplification), ratio(percents[0], |f| f.read_us));
    let holds = percents[0] == 0 && (0.95..=1.05).contains(&life) && reads > 1.0;
    let figure = format!("life {} times, reads {} times", show(life), show(reads));
    data.shows("nothing-common", holds, figure)?;

    let (mut longer, mut later, mut sooner) = (true, true, true);
    let mut words: [Vec<String>; 3] = Default::default();
    for &percent in percents.iter().filter(|&&percent| percent != 0) {
        let life = 1.0 / ratio(percent, |f| f.wear.amplification);
        longer &= life >= 1.0 / (1.0 - percent as f64 / 100.0);
        words[0].push(format!("{} times at {percent} %", show(life)));
        let reads = ratio(percent, |f| f.read_us);
        later &= reads > 1.0;
        words[1].push(format!("{} times at {percent} %", show(reads)));
        if percent >= 25 {
            let writes = ratio(percent, |f| f.write_us);
            sooner &= writes < 1.0;
            words[2].push(format!("{} times at {percent} %", show(writes)));
        }
    }
    data.shows("life", longer, words[0].join(", "))?;
    data.shows("reads-later", later, words[1].join(", "))?;
    data.shows("writes-sooner", sooner, words[2].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::settings::Options;

    /// What is said of drives that write so much and wait so long by codeword, where those by page
    /// write and wait 1 and have tables of 10 bytes.
    fn said(bytes: f64, at: &[(u64, f64, f64, f64)]) -> Vec<(String, bool)> {
        let options = Options::default();
        let settings = Settings::new(find("beyond/codeword").unwrap()[0], &options).unwrap();
        let mut data = Data::new(&settings);
        let figures = |amplification: f64, write_us, read_us, table_bytes| {
            let mut figures = Figures::default();
            figures.wear.amplification = amplification;
            Figures { write_us, read_us, table_bytes, ..figures }
        };
        let mut all = Vec::new();
        for (number, &(percent, amplification, write_us, read_us)) in at.iter().enumerate() {
            // Memory is compared at the first share.
            let bytes = if number == 0 { bytes } else { 20.0 };
            let by_page = vec![figures(1.0, 1.0, 1.0, 10.0)];
            all.push(Runs { policy: BY_PAGE, percent, figures: by_page });
            let figures = vec![figures(amplification, write_us, read_us, 10.0 * bytes)];
            all.push(Runs { policy: BY_CODEWORD, percent, figures });
        }
        let percents: Vec<u64> = at.iter().map(|point| point.0).collect();
        predicted(&all, &percents, &mut data).unwrap();
        data.claims.into_iter().map(|claim| (claim.id, claim.holds)).collect()
    }

    #[test]
    fn each_prediction_holds_and_fails_by_its_own_figures() {
        let sound = [(0, 1.04, 1.5, 1.2), (10, 0.9, 1.0, 1.1), (25, 0.75, 0.99, 1.1)];
        let fails = |bytes: f64, at: usize, point: (u64, f64, f64, f64)| {
            let mut points = sound;
            points[at] = point;
            let said = said(bytes, &points).into_iter();
            said.filter(|(_, holds)| !holds).map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert!(fails(8.0, 0, sound[0]).is_empty());
        assert!(fails(7.0, 0, sound[0]).is_empty() && fails(8.5, 0, sound[0]).is_empty());
        assert_eq!(fails(6.9, 0, sound[0]), ["memory"]);
        assert_eq!(fails(8.6, 0, sound[0]), ["memory"]);
        for nothing in [(0, 1.06, 1.5, 1.2), (0, 0.94, 1.5, 1.2), (0, 1.04, 1.5, 1.0)] {
            assert_eq!(fails(8.0, 0, nothing), ["nothing-common"], "{nothing:?}");
        }
        assert_eq!(fails(8.0, 0, (1, 1.0, 1.5, 1.2)), ["nothing-common", "life"]);
        assert_eq!(fails(8.0, 1, (10, 0.91, 1.0, 1.1)), ["life"]);
        assert_eq!(fails(8.0, 1, (10, 0.9, 1.0, 1.0)), ["reads-later"]);
        assert_eq!(fails(8.0, 2, (25, 0.75, 1.0, 1.1)), ["writes-sooner"]);
    }

    #[test]
    fn the_share_from_which_codewords_win_is_where_they_no_longer_lose() {
        assert_eq!(wins_from(&[(0.0, -0.1), (50.0, -0.2)]), Some(0.0));
        assert_eq!(wins_from(&[(0.0, 0.0), (50.0, -0.2)]), Some(0.0), "as much is no loss");
        assert_eq!(wins_from(&[(0.0, 0.1), (50.0, -0.1), (75.0, -0.3)]), Some(25.0));
        assert_eq!(wins_from(&[(0.0, -0.1), (50.0, 0.3), (60.0, -0.1)]), Some(58.0));
        assert_eq!(wins_from(&[(0.0, -0.1), (50.0, 0.3)]), None);
    }
}
