//! CIDR+: what cores and memory are busy with, and what stops it as drives are added.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "Limited Scalability of Baseline", "Why is CPU the Bottleneck?" and "Why
//! is Memory the Bottleneck?".

use super::{Server, cores_of, memory_share, run_all, stopped_by};
use crate::error::Result;
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::{Way, goes};

/// Shares of one run, then throughput over drives.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    shares(settings, data)?;
    over_drives(settings, data)
}

fn shares(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let many = settings.real("many_duplicates")?;
    let usual = Server::of("cidr+");
    let reports = run_all(
        settings,
        &[
            usual.clone(),
            usual.clone().with("workload.duplicate_share", many),
            usual.with("workload.duplicate_share", many).with("predictor.kind", "oracle"),
        ],
    )?;
    let cpu = Line::new("share of processor time", "%").over("task", "").of("cidr+");
    let of_cores = |tasks: &[&str]| 100.0 * cores_of(&reports[0], tasks) / reports[0].cores;
    for (printed, tasks) in [("cache indexing", &["index"][..]), ("FPGA scheduling", &["schedule"])]
    {
        data.beside((printed, "cpu_share"), &cpu, printed, of_cores(tasks))?;
    }
    let settings_of = ["50 % duplicates", "84 % duplicates", "84 % duplicates, all guessed right"];
    for (at, (report, setting)) in reports.iter().zip(settings_of).enumerate() {
        let line = Line::new("share of memory traffic", "%").over("cause", "").of("cidr+");
        let line = line.under(setting);
        for (cause, booked) in [
            ("FPGA", &["engine"][..]),
            ("NIC", &["nic"]),
            ("CPU", &["index", "hash", "compress", "decompress"]),
            ("SSD", &["ssd"]),
        ] {
            let share = memory_share(report, booked);
            if at == 0 {
                data.beside((cause, "share"), &line, cause, share)?;
            } else {
                data.put(&line, cause, share);
            }
        }
        data.put(&line, "table drives", memory_share(report, &["table"]))
            .note("not named on the slide, whose shares sum to 76");
    }
    Ok(())
}

/// A unit of scaling is a drive for data, one for the table, a card and an engine.
fn over_drives(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let counts = settings.numbers("drives")?;
    let server = |preset: &str, count: u64| {
        let server = Server::of(preset).with("cpu.sockets", 4).with("ssd.count", count);
        let server = server.with("table_ssd.count", count).with("nic.count", count);
        server.with("engine.count", count)
    };
    let presets = ["cidr+", "fidr"];
    let all = presets.iter().flat_map(|preset| counts.iter().map(|&count| server(preset, count)));
    let reports = run_all(settings, &all.collect::<Vec<_>>())?;
    let line = |name: &str, unit: &str| Line::new(name, unit).over("drives", "");
    for (preset, reports) in presets.iter().zip(reports.chunks(counts.len())) {
        for (&count, report) in counts.iter().zip(reports) {
            data.put(&line("throughput", "GB/s").of(preset), count, report.gb_per_s)
                .note(stopped_by(report));
            for (name, resource) in
                [("cores in use", "cores"), ("memory bandwidth in use", "memory")]
            {
                let row = report.resources.iter().find(|row| row.name == resource);
                let used = row.map_or(0.0, |row| 100.0 * row.utilisation);
                data.put(&line(name, "%").of(preset), count, used);
            }
        }
    }
    let of = |data: &Data, preset: &str| data.curve(&line("throughput", "GB/s").of(preset));
    let (baseline, fidr) = (of(data, "cidr+"), of(data, "fidr"));
    let last = |curve: &[(f64, f64)]| match curve {
        [.., before, last] => last.1 / before.1,
        _ => 1.0,
    };
    let (flat, on) = (last(&baseline), last(&fidr));
    let figure = format!("the last step is {} times for CIDR+, {} for FIDR", show(flat), show(on));
    data.shows("saturates", saturates(flat, on), figure)?;
    let used = |name: &str| goes(Way::Rises, &data.curve(&line(name, "%").of("cidr+")), 2.0);
    let both = [("cores", used("cores in use")), ("memory", used("memory bandwidth in use"))];
    let both = both.map(|(name, answer)| (name.to_owned(), answer));
    let (rise, figure) = crate::shape::all(both);
    data.shows("cpu-and-memory-rise", rise, figure)
}

/// Whether one server stops gaining where the other goes on, by what the last step gives.
fn saturates(flat: f64, on: f64) -> bool {
    flat < 1.05 && on > 1.05
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_still_gains_a_twentieth_has_not_stopped() {
        assert!(saturates(1.04, 1.06));
        assert!(!saturates(1.05, 1.06) && !saturates(1.04, 1.05));
    }
}
