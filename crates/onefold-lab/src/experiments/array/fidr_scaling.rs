//! FIDR: throughput over processors, what each idea gives, and the six percentages both ways.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "FIDR's High Scalability" and "FIDR's Efficient System Resource Usage";
//! the abstract of FIDR for 3.3. Nothing is fitted here: costs are those of CIDR+.

use onefold_array::Report;

use super::{Server, run_all, stopped_by};
use crate::error::Result;
use crate::experiments::lives::ends;
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::above;

/// The ideas, one by one and together.
const IDEAS: [&str; 5] = ["cidr+", "fidr-index", "fidr-nic", "fidr-direct", "fidr"];
/// Loads: read share, share of duplicates.
const LOADS: [(f64, f64); 6] =
    [(0.0, 0.2), (0.0, 0.5), (0.0, 0.8), (0.5, 0.2), (0.5, 0.5), (0.5, 0.8)];
/// 2 Tb/s in GB/s.
const TWO_TBPS: f64 = 250.0;

/// Runs all of it.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    over_processors(settings, data)?;
    ideas(settings, data)?;
    readings(settings, data)
}

/// Of everything but processors and memory, more than these can use.
const PLENTY: [(&str, u64); 6] = [
    ("engine.count", 24),
    ("nic.count", 64),
    ("ssd.count", 128),
    ("table_ssd.count", 128),
    ("buffer.client_bytes", 1 << 50),
    ("workload.outstanding", 100_000),
];

fn plenty(preset: &str) -> Server {
    Server::of(preset).with_all(&PLENTY)
}

fn over_processors(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let sockets = settings.numbers("sockets")?;
    let presets = ["cidr+", "fidr"];
    let all = presets.iter().flat_map(|preset| {
        sockets.iter().map(move |&count| plenty(preset).with("cpu.sockets", count))
    });
    let reports = run_all(settings, &all.collect::<Vec<_>>())?;
    let line = Line::new("throughput", "GB/s").over("processors", "");
    let (baseline, fidr) = reports.split_at(sockets.len());
    for ((&count, before), after) in sockets.iter().zip(baseline).zip(fidr) {
        data.put(&line.of("cidr+"), count, before.gb_per_s).note(stopped_by(before));
        data.put(&line.of("fidr"), count, after.gb_per_s).note(stopped_by(after));
        // The prototype has one processor; the talk does not say how many the 80 GB/s take, so
        // that they have no place among numbers of processors.
        if count == 1 {
            let alone = Line::new("throughput on the prototype's processor", "GB/s").of("fidr");
            data.beside(("FIDR", "throughput_max"), &alone, (), after.gb_per_s)?
                .note(stopped_by(after));
            let factor = Line::new("throughput beside CIDR+", "x").of("fidr");
            let measured = after.gb_per_s / before.gb_per_s;
            data.beside(("FIDR vs CIDR+", "speedup_max"), &factor, (), measured)?;
        }
    }
    let (upper, lower) = (data.curve(&line.of("fidr")), data.curve(&line.of("cidr+")));
    let (is_above, figure) = above(&upper, &lower, 0.0);
    data.shows("fidr-above", is_above, figure)?;
    let Some((&most, report)) = sockets.iter().zip(fidr).next_back() else { return Ok(()) };
    let best = report.gb_per_s;
    let figure = format!(
        "{} GB/s with {most} processors, {}; at that rate 2 Tb/s take {}",
        show(best),
        stopped_by(report),
        show((TWO_TBPS / (best / most as f64)).ceil())
    );
    data.shows("multi-tbps", reaches_two_tbps(best), figure)
}

fn reaches_two_tbps(gb_per_s: f64) -> bool {
    gb_per_s >= TWO_TBPS
}

/// Whether something is saved wherever it was looked for.
fn saves_everywhere(percents: &[f64]) -> bool {
    !percents.is_empty() && percents.iter().all(|&percent| percent > 0.0)
}

fn ideas(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let servers: Vec<Server> = IDEAS.iter().map(|preset| plenty(preset)).collect();
    let reports = run_all(settings, &servers)?;
    let line = Line::new("throughput on one processor", "GB/s").over("ideas", "").of("server");
    for (idea, report) in IDEAS.iter().zip(&reports) {
        data.put(&line, *idea, report.gb_per_s).note(stopped_by(report));
    }
    Ok(())
}

/// Percent fewer cores, and percent fewer bytes through memory, at the same throughput.
fn fewer(before: &Report, after: &Report) -> [(&'static str, f64); 2] {
    let percent = |before: f64, after: f64| 100.0 * (1.0 - after / before);
    let bytes = |report: &Report| report.memory_bytes_per_client_byte;
    [
        ("fewer cores", percent(before.cores, after.cores)),
        ("less memory traffic", percent(bytes(before), bytes(after))),
    ]
}

fn pairs(settings: &Settings<'_>, changes: &[Vec<(&str, String)>]) -> Result<Vec<Report>> {
    let rate = settings.real("equal_gb_per_s")?;
    let server = |preset: &str, change: &[(&str, String)]| {
        let paced = plenty(preset).with("workload.load", "poisson");
        let paced = paced.with("workload.gb_per_s", rate);
        change.iter().fold(paced, |server, (key, value)| server.with(key, value))
    };
    let all = changes.iter().flat_map(|change| [server("cidr+", change), server("fidr", change)]);
    run_all(settings, &all.collect::<Vec<_>>())
}

fn readings(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let printed = settings.published.numbers.iter();
    let printed = printed.filter(|number| number.column == "dedup_cache_hit_rate");
    let (low, high) = ends(printed.map(|number| number.value));
    let loads: Vec<Vec<(&str, String)>> = LOADS
        .iter()
        .map(|(reads, duplicates)| {
            vec![
                ("workload.read_share", reads.to_string()),
                ("workload.duplicate_share", duplicates.to_string()),
            ]
        })
        .collect();
    let reports = pairs(settings, &loads)?;
    let mut saved = Vec::new();
    for ((reads, duplicates), pair) in LOADS.iter().zip(reports.chunks(2)) {
        let [before, after] = pair else { continue };
        let load = format!("{:.0} % reads, {:.0} % duplicates", 100.0 * reads, 100.0 * duplicates);
        for (name, percent) in fewer(before, after) {
            let line = Line::new(name, "%").over("load", "").of("fidr");
            data.put(&line, load.as_str(), percent);
            saved.push(percent);
        }
    }
    let (least, most) = ends(saved.iter().copied());
    let figure = format!("{} to {} %", show(least), show(most));
    data.shows("less-of-both", saves_everywhere(&saved), figure.clone())?;
    let inside = saved.iter().filter(|percent| (low..=high).contains(percent)).count();
    let figure = format!("{figure}; {inside} of {} within", saved.len());
    data.shows("percentages-as-reductions", inside == saved.len(), figure)?;
    hit_rates(settings, (low, high), data)
}

/// The same over sizes of the cache, whose hit rates pass through the printed range.
fn hit_rates(settings: &Settings<'_>, (low, high): (f64, f64), data: &mut Data) -> Result<()> {
    let sizes = settings.numbers("cache_mib")?;
    let changes: Vec<Vec<(&str, String)>> =
        sizes.iter().map(|mib| vec![("table.cache_bytes", (mib << 20).to_string())]).collect();
    let reports = pairs(settings, &changes)?;
    let mut within = Vec::new();
    for pair in reports.chunks(2) {
        let [before, after] = pair else { continue };
        let hits = 100.0 * before.table_hit_share.unwrap_or(0.0);
        for (name, percent) in fewer(before, after) {
            let line = Line::new(name, "%").over("hit rate of the table's cache", "%").of("fidr");
            data.put(&line, hits, percent);
            if (low..=high).contains(&hits) {
                within.push(percent);
            }
        }
    }
    let least = within.iter().copied().fold(f64::MAX, f64::min);
    let figure = match within.len() {
        0 => "no size of the cache has such a hit rate".to_owned(),
        count => format!("at least {} % less in {count} figures", show(least)),
    };
    data.shows("percentages-as-hit-rates", saves_everywhere(&within), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_terabits_are_250_gigabytes() {
        assert!(reaches_two_tbps(250.0) && !reaches_two_tbps(249.9));
    }

    #[test]
    fn nothing_is_saved_where_one_figure_is_none() {
        assert!(saves_everywhere(&[0.1, 50.0]));
        assert!(!saves_everywhere(&[0.0, 50.0]) && !saves_everywhere(&[50.0, -0.1]));
        assert!(!saves_everywhere(&[]));
    }
}
