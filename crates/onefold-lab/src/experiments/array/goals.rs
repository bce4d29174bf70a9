//! CIDR: its design goals and key ideas, each on and off.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "CIDR: Design Goals" and "CIDR: Key Ideas". The table of O and X lost its
//! cells in the text; what the slides around it say in words is decided here. The board is made
//! small, so that units and not its link are what there is too little of.

use onefold_array::Report;

use super::{Server, run_all, stopped_by};
use crate::error::Result;
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Ways of using a board: what is on.
const WAYS: [(&str, &[(&str, &str)]); 5] = [
    ("dedicated", &[]),
    ("+ prediction", &[("predictor.kind", "recent")]),
    ("+ scheduling", &[("schedule.short_term", "on")]),
    ("+ reconfiguration", &[("schedule.long_term", "on")]),
    (
        "cidr",
        &[
            ("predictor.kind", "recent"),
            ("schedule.short_term", "on"),
            ("schedule.long_term", "on"),
        ],
    ),
];

/// Loads that a board is used for.
const LOADS: [(&str, f64, f64); 3] = [
    ("write-only, many duplicates", 0.0, 0.8),
    ("write-only, few duplicates", 0.0, 0.2),
    ("mixed", 0.5, 0.5),
];

/// Requests outstanding that keep four processors busy.
const ENOUGH: u64 = 16_384;

/// Runs every way under every load, then the host's limits.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    ideas(settings, data)?;
    bursts(settings, data)?;
    scalability(settings, data)
}

/// The small board, without any idea.
fn board(settings: &Settings<'_>) -> Result<Server> {
    let mut server = Server::of("dedicated");
    for key in ["hash_units", "compress_units", "decompress_units", "luts"] {
        server = server.with(&format!("engine.{key}"), settings.number(key)?);
    }
    Ok(server)
}

fn ideas(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let board = board(settings)?;
    let mut servers = Vec::new();
    for (_, reads, duplicates) in LOADS {
        for (_, on) in WAYS {
            let server = board.clone().with("workload.read_share", reads);
            let server = server.with("workload.duplicate_share", duplicates);
            servers.push(on.iter().fold(server, |server, (key, value)| server.with(key, value)));
        }
    }
    let reports = run_all(settings, &servers)?;
    let line = Line::new("throughput of the same board", "GB/s").over("load", "");
    for ((load, ..), reports) in LOADS.iter().zip(reports.chunks(WAYS.len())) {
        for ((way, _), report) in WAYS.iter().zip(reports) {
            data.put(&line.of(way), *load, report.gb_per_s).note(stopped_by(report));
        }
    }
    let under = |load: usize| -> [f64; WAYS.len()] {
        std::array::from_fn(|way| reports[load * WAYS.len() + way].gb_per_s)
    };
    let [dedicated, .., cidr] = under(0);
    let figure = format!("{} GB/s against {}", show(dedicated), show(cidr));
    data.shows("dedicated-wastes", gains(&[cidr / dedicated]), figure)?;
    let reconfigured = |load: usize| {
        let [dedicated, _, _, reconfigured, _] = under(load);
        reconfigured / dedicated
    };
    let times: Vec<f64> = (0..LOADS.len()).map(reconfigured).collect();
    let words: Vec<String> = times.iter().map(|&times| show(times)).collect();
    data.shows("reconfiguration-helps", gains(&times), format!("{} times", words.join(", ")))
}

/// Whether every throughput, of what it was before, is more.
fn gains(times: &[f64]) -> bool {
    times.iter().all(|&times| times > 1.0)
}

/// Whether scheduling helps, by more than 2 %.
fn scheduling_helps(on: f64, off: f64) -> bool {
    on > 1.02 * off
}

/// Whether throughput is beyond 100 GB/s.
fn scales(gb_per_s: f64) -> bool {
    gb_per_s > 100.0
}

/// Whether two servers store as much of what came in, in percent.
fn stores_as_much(before: f64, after: f64) -> bool {
    (before - after).abs() < 0.5
}

/// More than the boards can do comes in bursts, and the pauses are for what was left. Without
/// scheduling, batches go to boards in turn: an even number of boards falls into step with writes
/// and delayed chunks that alternate, and half of the units idle.
fn bursts(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let each = settings.real("burst_gb_per_s_a_board")?;
    let boards = settings.numbers("burst_boards")?;
    let base = board(settings)?.with("predictor.kind", "recent");
    let base = base.with("workload.load", "bursts");
    let server = |&count: &u64| {
        let paced = base.clone().with("engine.count", count);
        let paced = paced.with("workload.gb_per_s", each * count as f64);
        ["off", "on"].map(|on| paced.clone().with("schedule.short_term", on))
    };
    let reports = run_all(settings, &boards.iter().flat_map(server).collect::<Vec<_>>())?;
    let line = Line::new("throughput under bursts", "GB/s").over("boards", "").of("cidr");
    let (mut helps, mut words) = (true, Vec::new());
    for (&count, pair) in boards.iter().zip(reports.chunks(2)) {
        let [off, on] = pair else { continue };
        for (name, report) in [("scheduling off", off), ("scheduling on", on)] {
            data.put(&line.under(name), count, report.gb_per_s).note(stopped_by(report));
        }
        helps &= scheduling_helps(on.gb_per_s, off.gb_per_s);
        words.push(format!(
            "{count} boards {} GB/s off, {} on",
            show(off.gb_per_s),
            show(on.gb_per_s)
        ));
    }
    data.shows("scheduling-helps", helps, words.join("; "))
}

fn scalability(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let efficiency = settings.real("link_efficiency")?;
    let small = |preset: &str| Server::of(preset).with("workload.outstanding", 500);
    let reports = run_all(
        settings,
        &[
            Server::of("software").with("cpu.sockets", 4).with("workload.outstanding", ENOUGH),
            Server::of("cidr-10")
                .with("link.efficiency", efficiency)
                .with("schedule.long_term", "off"),
            small("software"),
            small("cidr"),
        ],
    )?;
    let [software, cidr, stored, offloaded] = reports.as_slice() else { return Ok(()) };
    let line = Line::new("throughput on four processors", "GB/s").over("server", "").of("host");
    data.put(&line, "software", software.gb_per_s).note(stopped_by(software));
    data.put(&line, "cidr", cidr.gb_per_s).note(stopped_by(cidr));
    let says = |report: &Report| format!("{} GB/s, {}", show(report.gb_per_s), stopped_by(report));
    data.shows("software-scales-not", !scales(software.gb_per_s), says(software))?;
    data.shows("cidr-scales", scales(cidr.gb_per_s), says(cidr))?;
    let kept = |report: &Report| 100.0 * report.bytes.stored as f64 / report.bytes.client_in as f64;
    let (before, after) = (kept(stored), kept(offloaded));
    let figure = format!("{} and {} % of what came in", show(before), show(after));
    data.shows("reduction-is-equal", stores_as_much(before, after), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_before_is_no_gain() {
        assert!(gains(&[1.01, 2.0]) && !gains(&[2.0, 1.0]) && !gains(&[0.9]));
        assert!(scheduling_helps(2.05, 2.0) && !scheduling_helps(1.02, 1.0));
        assert!(scales(100.1) && !scales(100.0));
    }

    #[test]
    fn servers_store_as_much_up_to_half_a_percent_either_way() {
        assert!(stores_as_much(50.0, 50.4) && stores_as_much(50.4, 50.0));
        assert!(!stores_as_much(50.0, 50.5) && !stores_as_much(50.5, 50.0));
    }
}
