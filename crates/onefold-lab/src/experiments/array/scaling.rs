//! CIDR: throughput over engines, beside software over processors.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "CIDR's High Throughput Scalability", which assumes `PCIe` 4. The slide
//! calls its baseline high-end and does not name its processors: the host is the largest of then.

use super::{Server, on_high_end, run_all, stopped_by};
use crate::error::Result;
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::{Way, above, goes, straight};

/// What the spec calls this host.
const HIGH_END: &str = "high-end host";
/// The 24-core machine's processors, four of them.
const OF_24_CORES: &str = "four processors of the 24-core machine";

/// Runs software on 1 to 4 processors and CIDR with 1 to 10 engines.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let sockets = settings.numbers("sockets")?;
    let engines = settings.numbers("engines")?;
    let most = sockets.iter().copied().max().unwrap_or(1);
    let saturate = |server: Server| {
        let server = server.with("nic.count", 16).with("ssd.count", 64);
        let server = server.with("buffer.client_bytes", 2_u64 << 30);
        server.with("workload.outstanding", 32_768)
    };
    let software = saturate(Server::of("software"));
    let cidr = |count: u64| {
        let server = saturate(Server::of(&format!("cidr-{count}")));
        let server = server.with("link.efficiency", settings.real("link_efficiency")?);
        Ok(server.with("schedule.long_term", "off"))
    };
    let mut servers = Vec::new();
    for &count in &sockets {
        servers.push(on_high_end(&software, count, settings)?);
    }
    for &count in &engines {
        servers.push(on_high_end(&cidr(count)?, most, settings)?);
    }
    servers.push(software.clone().with("cpu.sockets", most));
    for &count in &engines {
        servers.push(cidr(count)?);
    }
    let reports = run_all(settings, &servers)?;
    let (on_sockets, rest) = reports.split_at(sockets.len());
    let (on_engines, rest) = rest.split_at(engines.len());
    let line = |of: &str, host: &str| {
        let over = if of == "software" { "processors" } else { "engines" };
        Line::new("throughput", "GB/s").over(over, "").of(of).under(host)
    };
    let (lower, upper) = (line("software", HIGH_END), line("cidr", HIGH_END));
    for (&count, report) in sockets.iter().zip(on_sockets) {
        let note = stopped_by(report);
        if count == most {
            let printed = ("high-end baseline", "throughput");
            data.beside(printed, &lower, count, report.gb_per_s)?.note(note);
        } else {
            data.put(&lower, count, report.gb_per_s).note(note);
        }
    }
    for (&count, report) in engines.iter().zip(on_engines) {
        let note = stopped_by(report);
        match count {
            8 | 10 => {
                let row = if count == 8 { "CIDR, eight engines" } else { "CIDR, ten engines" };
                data.beside((row, "throughput"), &upper, count, report.gb_per_s)?.note(note);
            }
            _ => {
                data.put(&upper, count, report.gb_per_s).note(note);
            }
        }
    }
    let usual = line("software", OF_24_CORES);
    data.put(&usual, most, rest[0].gb_per_s).note(stopped_by(&rest[0]));
    let usual = line("cidr", OF_24_CORES);
    for (&count, report) in engines.iter().zip(&rest[1..]) {
        data.put(&usual, count, report.gb_per_s).note(stopped_by(report));
    }
    let sum = on_engines.last().map_or(0.0, |report| report.cores);
    let cores = Line::new("cores in use with ten engines", "cores").of("cidr").under(HIGH_END);
    data.put(&cores, (), sum);
    shapes(&lower, &upper, data)
}

fn shapes(lower: &Line, upper: &Line, data: &mut Data) -> Result<()> {
    let (software, cidr) = (data.curve(lower), data.curve(upper));
    let (rises, figure) = goes(Way::Rises, &cidr, 0.0);
    let fit = straight(&cidr);
    let figure = format!("{figure}; the fit of a line is {}", show(fit));
    data.shows("each-engine-adds", rises && fit > 0.99, figure)?;
    let four = cidr.iter().copied().find(|point| (point.0 - 4.0).abs() < 0.5);
    let (last, most) = (software.last().copied(), cidr.last().copied());
    let (below, figure) = above(four.as_slice(), last.as_slice(), 0.0);
    data.shows("software-stays-below", below, figure)?;
    let factor = most.map_or(0.0, |point| point.1) / last.map_or(f64::NAN, |point| point.1);
    data.shows("order-of-magnitude", factor >= 8.0, format!("{} times", show(factor)))
}
