//! Prints theory, measurement and deviation of the FTL as a table, or puts drives through power
//! cuts: `validate [steady]`, `validate content`, `validate power
//! [--durability Journal|NoJournal|Protected] [--packed | --codewords]
//! [--seed N | --seeds N]`.
//! Room: onefold-flash.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::process::ExitCode;
use std::time::Instant;

use onefold_flash::FtlError;
use onefold_flash::ftl::Durability;

#[allow(dead_code, reason = "the tests take more of it")]
#[path = "../tests/it/validation/mod.rs"]
mod validation;

use validation::content;
use validation::power::{self, Ordeal};
use validation::steady::{self, Row, Scale};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        None | Some("steady") => print_rows(steady_rows().chain(content_rows())),
        Some("content") => print_rows(content_rows()),
        Some("power") => print_power(&arguments[1..]),
        Some(other) => {
            eprintln!("no such validation: {other}; there are steady, content and power");
            ExitCode::from(2)
        }
    }
}

/// Rows of one validation, or why there are none.
type Group = Result<Vec<Row>, FtlError>;

const SCALE: Scale = Scale { blocks: 4096, warm: 10, measured: 4 };

/// V1 to V4, and V8.
fn steady_rows() -> impl Iterator<Item = Group> {
    let groups: [fn() -> Group; 7] = [
        || steady::v1(SCALE, &[64, 256]),
        || steady::v2(SCALE),
        || steady::v3(SCALE, &[1, 2, 4, 10, 100]),
        || steady::v4(SCALE, 64),
        || steady::v4(SCALE, 256),
        || steady::v8(SCALE, 64),
        || steady::v8(Scale { measured: 1, ..SCALE }, 256),
    ];
    groups.into_iter().map(|group| group())
}

/// V5: a table without misses, then policy by policy.
fn content_rows() -> impl Iterator<Item = Group> {
    let scale = Scale { blocks: 1024, ..SCALE };
    let few = Scale { warm: 2, measured: 2, ..scale };
    let ratios = [0.5, 1.0, 2.0];
    let perfect = ratios.into_iter().map(move |ratio| content::perfect(scale, ratio));
    let inline = content::INLINE.iter().flat_map(move |&case| {
        ratios.into_iter().map(move |ratio| content::inline(scale, ratio, case))
    });
    let idle = content::IDLE.iter().flat_map(move |&case| {
        ratios.into_iter().map(move |ratio| Ok(vec![content::idle(few, ratio, case)?]))
    });
    perfect.chain(inline).chain(idle)
}

fn print_rows(groups: impl Iterator<Item = Group>) -> ExitCode {
    println!("| | case | theory | measured | deviation |");
    println!("|---|---|---|---|---|");
    for group in groups {
        match group {
            Ok(rows) => rows.iter().for_each(print_row),
            Err(error) => {
                eprintln!("validation failed: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn print_row(row: &Row) {
    let deviation = row.deviation() * 100.0;
    println!(
        "| {} | {} | {:.4} | {:.4} | {deviation:+.2} % |",
        row.id, row.what, row.theory, row.measured
    );
}

fn print_power(arguments: &[String]) -> ExitCode {
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let durability = match value("--durability").as_deref() {
        None | Some("Journal") => Durability::Journal,
        Some("NoJournal") => Durability::NoJournal,
        Some("Protected") => Durability::Protected,
        Some(other) => {
            eprintln!("no such durability: {other}; Journal, NoJournal and Protected lose power");
            return ExitCode::from(2);
        }
    };
    let number = |name: &str| value(name).and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("--seed") {
        Some(seed) => seed..seed + 1,
        None => 0..number("--seeds").unwrap_or(10_000),
    };
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let check = match (has("--packed"), has("--codewords")) {
        (true, _) => power::check_packed,
        (_, true) => power::check_codewords,
        _ => power::check,
    };
    let start = Instant::now();
    let count = seeds.end - seeds.start;
    let mut total = Ordeal::default();
    let mut failed = 0;
    let mut ended = 0;
    for seed in seeds {
        match check(seed, durability) {
            Ok(ordeal) => {
                total.cuts += ordeal.cuts;
                total.cuts_in_recovery += ordeal.cuts_in_recovery;
                total.operations += ordeal.operations;
                total.flash_operations += ordeal.flash_operations;
                total.shared += ordeal.shared;
                total.failures += ordeal.failures;
                ended += u32::from(ordeal.ended);
            }
            Err(what) => {
                failed += 1;
                if failed <= 10 {
                    println!("seed {seed}: {what}");
                }
            }
        }
    }
    println!(
        "{count} seeds, {failed} failed: {} power cuts ({} in recovery), {} host operations, {} \
         programs and erases, {} pages shared, {} blocks failed, {ended} drives worn out, {:.1} s",
        total.cuts,
        total.cuts_in_recovery,
        total.operations,
        total.flash_operations,
        total.shared,
        total.failures,
        start.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
