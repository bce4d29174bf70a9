//! CAL'17: processors and power at 4.5 GB/s, with and without an engine.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "SW-based Dedup: CPU Utilization" and "Evaluation (at 4.5 GB/s)".

use super::{Server, cores_of, run_all, stopped_by};
use crate::error::Result;
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::{Way, at, goes};

/// Tasks that the talk calls hashing and metadata management.
const OFFLOADED: [&str; 3] = ["hash", "metadata", "index"];
/// More than the software ever keeps busy.
const PLENTY_OF_SOCKETS: u64 = 8;

/// Runs both at the printed rate, then the software with more drives.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let rate = data.printed("dedup CAL17 prototype throughput", "value")?;
    let paced = |preset: &str| {
        let server = Server::of(preset).with("workload.load", "poisson");
        server.with("workload.gb_per_s", rate)
    };
    let reports = run_all(settings, &[paced("cal17-baseline"), paced("cal17")])?;
    let [baseline, offloaded] = reports.as_slice() else { return Ok(()) };
    let line = |name: &str, unit: &str| Line::new(name, unit).of("cal17");
    let speed = line("throughput", "GB/s");
    let carried = offloaded.gb_per_s;
    data.beside(("dedup CAL17 prototype throughput", "value"), &speed, (), carried)?
        .note("the load is set to it");
    let fewer = |before: f64, after: f64| 100.0 * (1.0 - after / before);
    let saved = fewer(baseline.cores, offloaded.cores);
    let cores = line("fewer cores in use", "%");
    data.beside(("CAL17 CPU utilisation reduction", "value"), &cores, (), saved)?;
    let saved = fewer(baseline.joules_per_gb, offloaded.joules_per_gb);
    let power = line("less power", "%");
    data.beside(("CAL17 chip power reduction", "value"), &power, (), saved)?;
    let share = 100.0 * cores_of(baseline, &OFFLOADED) / baseline.cores;
    let share_line = Line::new("share of hashing and metadata", "%").of("software");
    data.beside(("SW dedup hash+metadata share of CPU", "value"), &share_line, (), share)?;
    let cores = Line::new("cores in use at that rate", "cores").over("server", "").of("both");
    data.put(&cores, "software", baseline.cores);
    data.put(&cores, "with an engine", offloaded.cores);
    drives(settings, data)
}

/// The software with as many cores as it likes, over drives.
fn drives(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let counts = settings.numbers("drives")?;
    let server = |&count: &u64| {
        let server = Server::of("cal17-baseline").with("ssd.count", count);
        server.with("cpu.sockets", PLENTY_OF_SOCKETS)
    };
    let reports = run_all(settings, &counts.iter().map(server).collect::<Vec<_>>())?;
    let speed = Line::new("throughput", "GB/s").over("drives", "").of("software");
    let cores = Line::new("processors of 12 cores in use", "").over("drives", "").of("software");
    for (&count, report) in counts.iter().zip(&reports) {
        data.put(&speed, count, report.gb_per_s).note(stopped_by(report));
        data.put(&cores, count, report.cores / 12.0);
    }
    let (holds, figure) = from_one_to_three(&data.curve(&cores));
    data.shows("more-drives", holds, figure)
}

/// Whether processors in use rise with the drives, from about one at 4 to about three at 12.
fn from_one_to_three(processors: &[(f64, f64)]) -> (bool, String) {
    let (rises, figure) = goes(Way::Rises, processors, 0.0);
    let (few, many) = (at(processors, 4.0), at(processors, 12.0));
    let holds = rises && few.round() <= 1.0 && (2.5..3.5).contains(&many);
    (holds, format!("{figure}: {} at 4 drives, {} at 12", show(few), show(many)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_rise_from_about_one_to_about_three() {
        let of = |few, some, many| from_one_to_three(&[(4.0, few), (8.0, some), (12.0, many)]);
        let figure = "from 1.4 to 2.5: 1.4 at 4 drives, 2.5 at 12";
        assert_eq!(of(1.4, 2.0, 2.5), (true, figure.to_owned()));
        assert!(!of(1.5, 2.0, 2.5).0 && !of(1.4, 2.0, 2.4).0 && !of(1.4, 2.0, 3.5).0);
        assert!(!of(1.4, 3.0, 2.9).0, "it falls in between");
        assert!(!from_one_to_three(&[(8.0, 1.0), (12.0, 3.0)]).0);
    }
}
