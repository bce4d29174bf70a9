//! `onefold cache run --write-amplification`: what the drive makes of the cache's writes.
//! Room: onefold.

use std::path::Path;

use onefold_cache::simulate::on_all_cores;
use onefold_cache::trace::Trace;
use onefold_cache::{Choice, Spec};
use onefold_lab::experiments::plc::amplification::{Amplified, DriveShape, amplification};
use serde::Serialize;

use super::cache_trace::{read_trace, unusable};
use crate::args::models::CacheRunArgs;
use crate::failure::{Failure, Result};
use crate::output::Printer;
use crate::table::{Align, Table};

/// Pages programmed for the pages that one policy of one size wrote.
#[derive(Clone, Debug, Serialize)]
pub struct Amplification {
    policy: String,
    size: f64,
    unit_kib: u32,
    factor: f64,
    #[serde(flatten)]
    amplified: Amplified,
}

/// Replays every policy of every size in every unit; in containers if no unit is given.
pub fn run(
    units: &[u32],
    args: &CacheRunArgs,
    spec: &Spec,
    trace: &Trace,
    printer: &Printer,
) -> Result<Vec<Amplification>> {
    let plan = spec.plan().map_err(unusable)?;
    let own = match args.trace {
        Some(_) => spec.trace.container_kib,
        None => spec.workload.container_kib,
    };
    let units = if units.is_empty() { vec![own] } else { units.to_vec() };
    let mut found = Vec::new();
    for unit_kib in units {
        if unit_kib == 0 {
            return Err(Failure::nothing_done("--write-amplification 0: expected 1 KiB or more"));
        }
        let cut =
            if unit_kib == own { None } else { Some(in_units(unit_kib, args, spec, printer)?) };
        let trace = cut.as_ref().unwrap_or(trace);
        let pairs: Vec<(&Choice, f64)> = plan
            .policies
            .iter()
            .flat_map(|choice| plan.sizes.iter().map(move |&size| (choice, size)))
            .collect();
        let results = on_all_cores(pairs.len(), plan.threads, |at| {
            let (choice, size) = pairs[at];
            amplification(trace, choice, size, plan.seed, DriveShape::default())
        });
        for ((choice, size), amplified) in pairs.into_iter().zip(results) {
            let amplified = amplified.map_err(unusable)?;
            let (policy, factor) = (choice.text.clone(), amplified.factor());
            found.push(Amplification { policy, size, unit_kib, factor, amplified });
        }
    }
    Ok(found)
}

/// The same reads in other units.
fn in_units(unit_kib: u32, args: &CacheRunArgs, spec: &Spec, printer: &Printer) -> Result<Trace> {
    let mut spec = spec.clone();
    spec.workload.container_kib = unit_kib;
    spec.trace.container_kib = unit_kib;
    match &args.trace {
        Some(path) if path == Path::new("-") => Err(Failure::nothing_done(
            "--trace -: it would be read once for every unit of --write-amplification",
        )),
        Some(path) => read_trace(path, args.format, &spec, printer),
        None => spec.workload.trace().map_err(unusable),
    }
}

/// A table below the others.
pub fn text(runs: &[Amplification], printer: &Printer) -> String {
    let mut table =
        Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right]);
    table.row(["POLICY", "SIZE", "UNIT", "FILLS", "SSD WRITE AMPLIFICATION"]);
    for run in runs {
        table.row([
            run.policy.clone(),
            format!("{:.1}%", run.size * 100.0),
            format!("{} KiB", run.unit_kib),
            format!("{:.2}", run.amplified.fills),
            format!("{:.3}", run.factor),
        ]);
    }
    let mut lines = table.lines(0);
    if let Some(head) = lines.first_mut() {
        *head = printer.heading(head);
    }
    format!("\n{}\n", lines.join("\n"))
}
