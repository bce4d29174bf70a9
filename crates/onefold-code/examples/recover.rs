//! Makes dumps of the presets with bit errors and recovers their scramblers: the table of
//! Room: onefold-code.
//! docs/scramblers.md, and one whole report.
//! Run: `cargo run --release -p onefold-code --example recover [-- RAW_BIT_ERROR_RATE]`

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::time::Instant;

use onefold_code::infer::{DumpMaker, InferError, InferOptions, Inference, SeedRuleKind, infer};
use onefold_code::{CodeError, PRESET_NAMES, ScramblerSpec, SeedMap, preset};

const PAGE: usize = 8192;
const PAGES: usize = 600;

fn main() -> Result<(), CodeError> {
    let rber = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1e-3);
    println!("| preset | recovered | seed rule | pages needed | raw bit error rate | time |");
    println!("|---|---|---|---|---|---|");
    for name in PRESET_NAMES {
        let (outcome, seconds) = recover(&in_block(preset(name)?), rber)?;
        match outcome {
            Ok(found) => {
                let rule = match found.rule {
                    SeedRuleKind::Constant => "constant".into(),
                    SeedRuleKind::Linear { address_bits } => format!("linear, {address_bits} bits"),
                    SeedRuleKind::Table { period } => format!("table of {period}"),
                };
                println!(
                    "| `{name}` | yes | {rule} | {} of {PAGES} | {:.2e} | {:.0} ms |",
                    found.pages_needed,
                    found.raw_bit_error_rate(),
                    seconds * 1e3
                );
            }
            Err(error) => println!("| `{name}` | no: {error} | | | | {:.0} ms |", seconds * 1e3),
        }
    }
    println!();
    match recover(&preset("allwinner-1024")?, rber)?.0 {
        Ok(found) => println!("{found}\n\n{}", found.spec.to_toml()),
        Err(error) => println!("{error}"),
    }
    Ok(())
}

/// The preset on blocks of at most 128 pages.
fn in_block(mut spec: ScramblerSpec) -> ScramblerSpec {
    if let SeedMap::Table { seeds } = &mut spec.seed_map {
        seeds.truncate(128);
    }
    spec
}

type Recovered = (Result<Inference, InferError>, f64);

fn recover(spec: &ScramblerSpec, rber: f64) -> Result<Recovered, CodeError> {
    let mut maker = DumpMaker::new(spec, 0, 0, rber, 1)?;
    let mut dump = Vec::with_capacity(PAGE * PAGES);
    for _ in 0..PAGES {
        dump.extend_from_slice(maker.page(&[0; PAGE])?);
    }
    let start = Instant::now();
    let found =
        infer(&dump, InferOptions { seed_source: spec.seed_source, ..InferOptions::zeros(PAGE) });
    Ok((found, start.elapsed().as_secs_f64()))
}
