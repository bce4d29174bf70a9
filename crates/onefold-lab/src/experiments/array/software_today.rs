//! Beyond the papers: the talk's throughputs without any engine, on a processor of today.
//! Room: onefold-lab.
//! Source: ours; [ajdari-talk] for the throughputs and the savings that it prints. Costs are those
//! that `onefold array calibrate` measured of the pool; hardware is counted by `size`.

use onefold_array::size::{Goal, Sized, size};

use super::Server;
use crate::error::Result;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// The least server of each kind for each throughput: processors, bytes through memory, cost.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let sha256 = settings.real("sha256_ns_per_byte")?;
    let today = Server::of("software-today").with("cpu.hash_ns_per_byte", sha256);
    let servers = [("software-today", today), ("fidr", Server::of("fidr"))];
    let rates = settings.numbers("gb_per_s")?;
    let capacity_tb = settings.number("capacity_tb")? as f64;
    let reduction = settings.real("reduction_percent")? / 100.0;
    let points: Vec<(&str, &Server, u64)> = servers
        .iter()
        .flat_map(|(name, server)| rates.iter().map(move |&rate| (*name, server, rate)))
        .collect();
    let found = settings.sweep(&points, |&(_, server, rate)| {
        let goal = Goal { gb_per_s: rate as f64, capacity_tb, reduction };
        size(&server.builder(settings)?, goal).map_err(|error| settings.refused(error))
    });
    for ((name, _, rate), sized) in points.into_iter().zip(found) {
        put(data, name, rate, capacity_tb, &sized?);
    }
    Ok(())
}

fn put(data: &mut Data, name: &str, rate: u64, capacity_tb: f64, sized: &Sized) {
    let line = |what: &str, unit: &str| Line::new(what, unit).over("throughput", "GB/s").of(name);
    let count = |part: &str| {
        let found = sized.parts.iter().find(|one| one.name == part);
        found.map_or(0.0, |part| f64::from(part.count))
    };
    let stopped = sized.stopped_by.map_or_else(String::new, |by| format!("then stopped by {by}"));
    data.put(&line("processors", ""), rate, count("processors")).note(stopped);
    data.put(&line("through memory", "GB/s"), rate, sized.memory_gb_per_s);
    data.put(&line("boards", "thousand $"), rate, sized.cost.boards_usd / 1e3);
    data.put(&line("cores", "thousand $"), rate, sized.cost.cpu_usd / 1e3);
    data.put(&line("memory", "thousand $"), rate, sized.cost.dram_usd / 1e3);
    let saved = format!("saved of {capacity_tb} TB");
    data.put(&line(&saved, "% of no-reduction cost"), rate, 100.0 * sized.saved_share);
    let saved = format!("saved of {} TB", capacity_tb / 2.0);
    let half = 100.0 * sized.saved_share_at(0.5);
    data.put(&line(&saved, "% of no-reduction cost"), rate, half);
}
