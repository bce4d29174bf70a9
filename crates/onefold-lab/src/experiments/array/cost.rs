//! FIDR: what a server with reduction costs of one without, by capacity.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "FIDR's Cost-effectiveness". Arithmetic: drives cost by the byte that is
//! stored, processors, memory and engines once.

use onefold_array::ServerSpec;

use super::Server;
use crate::error::Result;
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::{Way, at, goes};

/// The unit of the printed numbers, which a chart shows beside those that have it too.
const UNIT: &str = "% of no-reduction cost";

/// A part and what it costs, in percent of a server without reduction.
type Parts = [(&'static str, f64); 4];

/// Costs at the printed capacities, the saving over capacity, and where it breaks even.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let spec = Server::of("fidr").spec(settings)?;
    let part = Line::new("cost", UNIT).over("part", "");
    let saving = Line::new("saved", UNIT).over("capacity", "TB").of("fidr");
    let capacities = settings.numbers("capacity_tb")?;
    for &capacity in &capacities {
        let parts = parts(settings, &spec, capacity as f64)?;
        let saved = 100.0 - parts.iter().map(|(_, percent)| percent).sum::<f64>();
        if capacity != 200 && capacity != 400 {
            data.put(&saving, capacity, saved);
            continue;
        }
        let row = format!("{capacity} TB");
        for (name, percent) in parts {
            data.beside((&row, name), &part.of(&row), name, percent)?;
        }
        data.beside((&row, "saving"), &saving, capacity, saved)?;
    }
    let curve = data.curve(&saving);
    let (rises, figure) = goes(Way::Rises, &curve, 0.0);
    data.shows("larger-saves-more", rises, figure)?;
    let overall = data.printed("conclusion", "cost_saving")?;
    let (few, many) = (at(&curve, 200.0), at(&curve, 400.0));
    let figure = format!("{} and {} %", show(few), show(many));
    data.shows("overall-lies-between", lies_between(overall, few, many), figure)?;
    let once = fixed(settings, &spec)?.iter().map(|(_, usd)| usd).sum::<f64>();
    let reduction = settings.real("reduction_percent")? / 100.0;
    let reaches = |saved: f64| once / (spec.price.ssd_usd_per_tb * (reduction - saved));
    let capacity = Line::new("capacity", "TB").over("saving", "").of("fidr");
    data.put(&capacity, "none: break-even", reaches(0.0));
    data.put(&capacity, "59.3 %, as the conclusion says", reaches(overall / 100.0));
    Ok(())
}

/// Whether a figure is more than one and less than another.
fn lies_between(figure: f64, low: f64, high: f64) -> bool {
    low < figure && figure < high
}

/// What is bought once, in dollars.
fn fixed(settings: &Settings<'_>, spec: &ServerSpec) -> Result<[(&'static str, f64); 3]> {
    Ok([
        ("cpu", settings.real("cores")? * spec.price.core_usd),
        ("dram", settings.real("dram_gb")? * spec.price.dram_usd_per_gb),
        ("fpga", settings.real("engines")? * spec.price.engine_usd),
    ])
}

fn parts(settings: &Settings<'_>, spec: &ServerSpec, capacity_tb: f64) -> Result<Parts> {
    let whole = capacity_tb * spec.price.ssd_usd_per_tb;
    let [cpu, dram, fpga] = fixed(settings, spec)?.map(|(name, usd)| (name, 100.0 * usd / whole));
    Ok([("ssd", 100.0 - settings.real("reduction_percent")?), cpu, dram, fpga])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_at_an_end_does_not_lie_between() {
        let between = [59.0, 59.1, 60.9, 61.0].map(|figure| lies_between(figure, 59.0, 61.0));
        assert_eq!(between, [false, true, true, false]);
    }
}
