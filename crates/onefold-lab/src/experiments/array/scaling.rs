//! CIDR: throughput over engines, beside software over processors.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "CIDR's High Throughput Scalability", which assumes `PCIe` 4. The slide
//! calls its baseline high-end and does not name its processors: the host is the largest of then.

use super::{Server, on_high_end, run_all, stopped_by};
use crate::error::Result;
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::{Way, above, at, goes, straight};

/// What the spec calls this host.
const HIGH_END: &str = "high-end host";
/// The 24-core machine's processors, four of them.
const OF_24_CORES: &str = "four processors of the 24-core machine";

/// Of everything but processors, memory and engines, more than these can use.
const PLENTY: [(&str, u64); 4] = [
    ("nic.count", 16),
    ("ssd.count", 64),
    ("buffer.client_bytes", 2 << 30),
    ("workload.outstanding", 32_768),
];

/// Runs software on 1 to 4 processors and CIDR with 1 to 10 engines.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let sockets = settings.numbers("sockets")?;
    let engines = settings.numbers("engines")?;
    let most = sockets.iter().copied().max();
    let most = most.ok_or_else(|| settings.refused("no number of processors"))?;
    let software = Server::of("software").with_all(&PLENTY);
    let cidr = |count: u64| {
        let server = Server::of(&format!("cidr-{count}")).with_all(&PLENTY);
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
    let (adds, figure) = each_adds(&cidr);
    data.shows("each-engine-adds", adds, figure)?;
    let (Some(&last), Some(&most)) = (software.last(), cidr.last()) else { return Ok(()) };
    let (below, figure) = above(&[(4.0, at(&cidr, 4.0))], &[last], 0.0);
    data.shows("software-stays-below", below, figure)?;
    let factor = most.1 / last.1;
    data.shows("order-of-magnitude", is_far_above(factor), format!("{} times", show(factor)))
}

/// Whether a curve rises from point to point, in a straight line.
fn each_adds(curve: &[(f64, f64)]) -> (bool, String) {
    let (rises, figure) = goes(Way::Rises, curve, 0.0);
    let fit = straight(curve);
    (rises && is_line(fit), format!("{figure}; the fit of a line is {}", show(fit)))
}

/// Whether a line fits so well that points lie on one.
fn is_line(fit: f64) -> bool {
    fit > 0.99
}

/// Whether so many times as fast is almost an order of magnitude.
fn is_far_above(times: f64) -> bool {
    times >= 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_adds_as_much_as_the_others() {
        let adds = |last: f64| each_adds(&[(1.0, 10.0), (2.0, 20.0), (4.0, last)]);
        assert_eq!(adds(40.0), (true, "from 10 to 40; the fit of a line is 1".to_owned()));
        assert!(!adds(21.0).0, "the last ones add less");
        assert!(!each_adds(&[(1.0, 40.0), (2.0, 30.0), (3.0, 20.0)]).0, "each takes away");
        assert!(is_line(0.991) && !is_line(0.99));
        assert!(is_far_above(8.0) && !is_far_above(7.9));
    }
}
