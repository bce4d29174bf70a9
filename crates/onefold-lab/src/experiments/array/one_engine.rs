//! CIDR: one engine beside 24 cores, and the cores that it leaves busy at the same throughput.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "CIDR's High Throughput (Single FPGA)" and "CIDR's Low CPU Utilization";
//! the abstract of CIDR for 12.8 GB/s, 2.47 and 3.2.

use super::profile::mixed;
use super::{OTHERS, Server, cores_of, run_all, stopped_by};
use crate::error::Result;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Loads of the four bars: whether mixed, which share of duplicates, and which of the labels
/// of the slide in their order, 1.9, 2.5, 2.5 and 3.2, is read as theirs.
const BARS: [(&str, bool, &str, usize); 4] = [
    ("write-only, 50 % duplicates", false, "usual", 1),
    ("write-only, 80 % duplicates", false, "many", 0),
    ("mixed, 50 % duplicates", true, "usual", 3),
    ("mixed, 80 % duplicates", true, "many", 2),
];

/// Runs the four loads on both, then the engine at the throughput of the software.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let engine = Server::of("cidr")
        .with("link.efficiency", settings.real("link_efficiency")?)
        .with("schedule.window_ns", settings.number("window_ns")?);
    let mut servers = Vec::new();
    for (_, is_mixed, duplicates, _) in BARS {
        let share = settings.real(&format!("{duplicates}_duplicates"))?;
        for server in [&Server::of("software"), &engine] {
            let server = server.clone().with("workload.duplicate_share", share);
            servers.push(if is_mixed { mixed(&server, settings)? } else { server });
        }
    }
    let reports = run_all(settings, &servers)?;
    let speed = Line::new("throughput", "GB/s").over("load", "");
    let gain = Line::new("throughput beside the software", "x").over("load", "").of("cidr");
    let stated = Line::new("the same, as the abstract states it", "x").over("load", "").of("cidr");
    // Bars carry no names: this is one reading, fixed in the spec.
    let printed = super::in_order(settings, "single FPGA", "speedup");
    for (at, ((load, _, _, label), pair)) in BARS.into_iter().zip(reports.chunks(2)).enumerate() {
        let [software, cidr] = pair else { continue };
        data.put(&speed.of("software"), load, software.gb_per_s).note(stopped_by(software));
        let factor = cidr.gb_per_s / software.gb_per_s;
        if at == 0 {
            data.beside(("single FPGA", "throughput"), &speed.of("cidr"), load, cidr.gb_per_s)?
                .note(stopped_by(cidr));
            data.beside(("write-only", "speedup_max"), &stated, load, factor)?;
        } else {
            data.put(&speed.of("cidr"), load, cidr.gb_per_s).note(stopped_by(cidr));
        }
        if at == 2 {
            data.beside(("mixed", "speedup_expected"), &stated, load, factor)?;
        }
        data.beside_number(printed[label], &gain, load, factor)?;
    }
    equal_throughput(settings, &engine, reports[0].gb_per_s, data)
}

/// Cores in use when the engine carries what 24 cores carried.
fn equal_throughput(
    settings: &Settings<'_>,
    engine: &Server,
    gb_per_s: f64,
    data: &mut Data,
) -> Result<()> {
    let paced = engine.clone().with("workload.load", "poisson").with("workload.gb_per_s", gb_per_s);
    let report = paced.run(settings)?;
    let cores = Line::new("cores in use at the throughput of 24 cores", "cores").of("cidr");
    data.beside(("CIDR", "cores"), &cores, (), report.cores)?.note(
        "the slide says 1 core for CIDR's software and 1 for others, which took 3 before; here \
         others take what they took",
    );
    for (name, tasks) in [("CIDR's software", &["predict", "schedule"][..]), ("others", &OTHERS)] {
        let own = cores_of(&report, &["predict", "schedule"]);
        let taken = cores_of(&report, tasks) - if name == "others" { own } else { 0.0 };
        let line = Line::new("of these", "cores").over("part", "").of("cidr");
        data.put(&line, name, taken);
    }
    Ok(())
}
