//! FIDR: throughput over processors, what each idea gives, and the six percentages both ways.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "FIDR's High Scalability" and "FIDR's Efficient System Resource Usage";
//! the abstract of FIDR for 3.3. Nothing is fitted here: costs are those of CIDR+.

use onefold_array::Report;

use super::{Server, run_all, stopped_by};
use crate::error::Result;
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

/// Everything but processors and memory is plenty.
fn plenty(preset: &str) -> Server {
    let server = Server::of(preset).with("engine.count", 24).with("nic.count", 64);
    let server = server.with("ssd.count", 128).with("table_ssd.count", 128);
    server.with("buffer.client_bytes", 1_u64 << 50).with("workload.outstanding", 100_000)
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
    let best = fidr.last().map_or(0.0, |report| report.gb_per_s);
    let each = best / sockets.last().copied().unwrap_or(1) as f64;
    let stop = fidr.last().map_or_else(String::new, stopped_by);
    let figure = format!(
        "{} GB/s with {} processors, {stop}; at that rate 2 Tb/s take {}",
        show(best),
        sockets.last().copied().unwrap_or(1),
        show((TWO_TBPS / each).ceil())
    );
    data.shows("multi-tbps", best >= TWO_TBPS, figure)
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
    let printed: Vec<f64> = (1..=6)
        .map(|number| data.printed(&format!("workload {number}"), "dedup_cache_hit_rate"))
        .collect::<Result<_>>()?;
    let (low, high) = printed
        .iter()
        .fold((f64::MAX, 0.0), |(low, high), &value| (value.min(low), value.max(high)));
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
    let least = saved.iter().copied().fold(f64::MAX, f64::min);
    let most = saved.iter().copied().fold(f64::MIN, f64::max);
    let figure = format!("{} to {} %", show(least), show(most));
    data.shows("less-of-both", least > 0.0, figure.clone())?;
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
    data.shows("percentages-as-hit-rates", !within.is_empty() && least > 0.0, figure)
}
