//! `onefold array calibrate`: what storing takes on this machine, as a description for the model.
//! Room: onefold.
//! Times are CPU times. Kernels are those of the pool. What they do not explain of a store in a
//! real pool is metadata (of duplicates, which move nothing) and what new chunks take by the chunk
//! and by the byte (of two loads that leave much and little to store). Loads that none of this was
//! measured on are then stored and held against the model. Every figure is the middle one of
//! rounds in which everything is measured in turn: what else runs meanwhile slows all of it.

mod checks;
mod costs;
pub mod kernels;
mod pool;

use std::fmt::Write as _;

use onefold_content::FingerprintKind;
use serde::Serialize;

use crate::args::models::ArrayCalibrateArgs;
use crate::failure::{Failure, Result};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;
use crate::table::{Align, Table};
use checks::{Check, Load};
use costs::{Costs, Round};

/// Fewest client bytes of a run: below, what happens once shows.
const BYTES_MIN: u64 = 8 << 20;
/// Most: a run's bytes are in memory.
const BYTES_MAX: u64 = 4 << 30;
/// What `--check` holds the model against.
const CHECKED: [FingerprintKind; 2] = [FingerprintKind::Blake3, FingerprintKind::Sha256];
/// Deviation up to which the model counts as right.
const RIGHT: f64 = 0.15;

/// What was measured with a fingerprint.
#[derive(Serialize)]
struct Measured {
    fingerprint: String,
    costs: Costs,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct CalibrateJson<'a> {
    schema_version: u32,
    chunk_bytes: u64,
    bytes: u64,
    rounds: u32,
    cores: usize,
    measured: &'a [Measured],
}

/// Measure, check and print.
pub fn run(args: ArrayCalibrateArgs, printer: &Printer) -> Result<()> {
    if !(BYTES_MIN..=BYTES_MAX).contains(&args.bytes.0) {
        let message = format!("--bytes {}: expected 8M to 4G", args.bytes);
        return Err(Failure::nothing_done(message));
    }
    let kinds = if args.check { &CHECKED[..] } else { &[args.fingerprint] };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let measured = measure(args, kinds, cores, printer)?;
    if args.json {
        return printer.json(&CalibrateJson {
            schema_version: JSON_SCHEMA_VERSION,
            chunk_bytes: args.chunk.bytes() as u64,
            bytes: args.bytes.0,
            rounds: args.rounds,
            cores,
            measured: &measured,
        });
    }
    if args.check {
        let checks =
            measured.iter().flat_map(|of| of.checks.iter().map(|one| (&*of.fingerprint, one)));
        return printer.data(&table(args, checks.collect()));
    }
    let Measured { costs, checks, .. } = &measured[0];
    printer.data(&(heading(args, costs, checks) + &costs.description(args.chunk, cores)))
}

/// All rounds, and the model of their loads from the middle of the costs.
fn measure(
    args: ArrayCalibrateArgs,
    kinds: &[FingerprintKind],
    cores: usize,
    printer: &Printer,
) -> Result<Vec<Measured>> {
    let loads = Load::all();
    let mut all: Vec<Vec<Round>> = vec![Vec::new(); kinds.len()];
    let mut stores = vec![vec![Vec::new(); loads.len()]; kinds.len()];
    let bar = progress::counted(printer, "measuring", "rounds", Some(args.rounds.into()));
    for _ in 0..args.rounds {
        for (kind, rounds) in kinds.iter().zip(&mut all) {
            rounds.push(Round::measure(args, *kind)?);
        }
        for (at, load) in loads.iter().enumerate() {
            let data = pool::mixed(args, load.duplicate_share);
            for (kind, stores) in kinds.iter().zip(&mut stores) {
                stores[at].push(pool::store(args, *kind, &data, load.threads)?);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let measured = kinds.iter().zip(all).zip(stores).map(|((kind, rounds), stores)| {
        let costs = Costs::of(&rounds, args.chunk);
        let description = costs.description(args.chunk, cores);
        let rows = loads.iter().zip(stores);
        let checks = rows.map(|(load, stored)| Check::of(load, &stored, &description));
        let checks = checks.collect::<Result<_>>()?;
        Ok(Measured { fingerprint: kind.to_string(), costs, checks })
    });
    measured.collect()
}

/// The middle one of some values, the upper one of an even number.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn heading(args: ArrayCalibrateArgs, costs: &Costs, checks: &[Check]) -> String {
    let mut text = format!(
        "# Measured by `onefold array calibrate`: chunks of {}, {}, LZ4, on data of which {:.0} %\n\
         # are left. Metadata holds the index too. A copy in memory takes {:.3} ns a byte.\n\
         # Loads that were not used for this, CPU seconds a GiB, measured and in the model:\n",
        args.chunk,
        args.fingerprint,
        100.0 * costs.compressed_share,
        costs.copy_ns_per_byte
    );
    for check in checks {
        let _ = writeln!(
            text,
            "#   {:2.0} % duplicates, {} thread(s): {:.2} and {:.2}, {:+.0} %",
            100.0 * check.duplicate_share,
            check.threads,
            check.measured_cpu_s_per_gib,
            check.model_cpu_s_per_gib,
            100.0 * check.deviation
        );
    }
    text
}

/// Every check, those first that are farthest off.
fn table(args: ArrayCalibrateArgs, mut rows: Vec<(&str, &Check)>) -> String {
    rows.sort_by(|(_, a), (_, b)| b.deviation.abs().total_cmp(&a.deviation.abs()));
    let right = rows.iter().filter(|(_, check)| check.deviation.abs() <= RIGHT).count();
    let mut table =
        Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right]);
    table.row(["stored by", "duplicates", "measured", "model", "off by"]);
    for (fingerprint, check) in &rows {
        table.row([
            format!("{fingerprint}, {} thread(s)", check.threads),
            format!("{:.0} %", 100.0 * check.duplicate_share),
            format!("{:.3}", check.measured_cpu_s_per_gib),
            format!("{:.3}", check.model_cpu_s_per_gib),
            format!("{:+.1} %", 100.0 * check.deviation),
        ]);
    }
    let mut text = format!(
        "CPU seconds a GiB, {} each time in chunks of {}, the middle of {} round(s):\n",
        args.bytes, args.chunk, args.rounds
    );
    for line in table.lines(2) {
        text.push_str(&line);
        text.push('\n');
    }
    let _ = writeln!(text, "{right} of {} are within {:.0} %.", rows.len(), 100.0 * RIGHT);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::Folder;

    #[test]
    fn the_middle_is_that_of_the_order_and_a_load_has_a_size() {
        let of = |values: &[u32]| middle(values.iter().map(|&v| f64::from(v)).collect()) as u32;
        assert_eq!([of(&[3, 1, 2]), of(&[4, 1, 3, 2]), of(&[7])], [2, 3, 7]);
        let here = Folder::new();
        for bytes in ["8388607", "4294967297"] {
            let said = here.refused(&format!("array calibrate --bytes {bytes}"), 2);
            assert!(said.ends_with("expected 8M to 4G\n"), "{said}");
        }
    }

    #[test]
    fn checks_are_a_table_with_the_farthest_off_first() {
        use crate::args::Command;
        use crate::args::models::{ArrayCommand, ModelCommand};
        use crate::commands::heard;

        let command = heard::parsed("array calibrate --bytes 8M --rounds 3");
        let Command::Model(ModelCommand::Array(ArrayCommand::Calibrate(args))) = command else {
            panic!("another command")
        };
        let check = |threads, deviation| Check {
            duplicate_share: 0.5,
            threads,
            measured_cpu_s_per_gib: 1.0,
            model_cpu_s_per_gib: 1.0 + deviation,
            deviation,
        };
        let (near, far) = (check(1, 0.15), check(2, -0.25));
        let told = table(args, vec![("blake3", &near), ("sha256", &far)]);
        let expected = "CPU seconds a GiB, 8 MiB each time in chunks of 4 KiB, the middle of 3 \
            round(s):\n\
            \x20 stored by            duplicates  measured  model   off by\n\
            \x20 sha256, 2 thread(s)        50 %     1.000  0.750  -25.0 %\n\
            \x20 blake3, 1 thread(s)        50 %     1.000  1.150  +15.0 %\n\
            1 of 2 are within 15 %.\n";
        assert_eq!(told, expected);
    }
}
