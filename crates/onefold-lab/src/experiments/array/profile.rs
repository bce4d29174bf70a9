//! CIDR: what 24 cores of the software baseline spend their time on.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "Heavy Computations on CPUs".

use super::{OTHERS, Server, cores_of, run_all, stopped_by};
use crate::error::Result;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Profiles a saturated server under both loads.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let software = Server::of("software");
    let servers = [software.clone(), mixed(&software, settings)?];
    let reports = run_all(settings, &servers)?;
    let cores = Line::new("cores in use", "cores").over("task", "");
    let speed = Line::new("throughput", "GB/s").over("load", "");
    let rows: [(&str, &str, &[&str]); 2] = [
        ("write-only", "write-only", &["hash", "compression", "others"]),
        ("read/write", "mixed", &["hash", "compression", "decompression", "others"]),
    ];
    for ((printed, load, tasks), report) in rows.into_iter().zip(&reports) {
        for task in tasks {
            let booked: &[&str] = match *task {
                "hash" => &["hash"],
                "compression" => &["compress"],
                "decompression" => &["decompress"],
                _ => &OTHERS,
            };
            let row = format!("{printed} {task}");
            let measured = cores_of(report, booked);
            data.beside((&row, "value"), &cores.of("software").under(load), *task, measured)?;
        }
        data.put(&speed.of("software"), load, report.gb_per_s).note(stopped_by(report));
    }
    Ok(())
}

/// The mixed load of the profile, whose read share and decompression are calibrated.
pub fn mixed(server: &Server, settings: &Settings<'_>) -> Result<Server> {
    Ok(server
        .clone()
        .with("workload.read_share", settings.real("read_share")?)
        .with("cpu.decompress_ns_per_byte", settings.real("decompress_ns_per_byte")?))
}
