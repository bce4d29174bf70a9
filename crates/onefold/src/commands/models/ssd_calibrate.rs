//! `onefold ssd calibrate`: what the software scrambler of `ses-host` takes on this machine.
//! Room: onefold.
//! CPU time of one thread over memory that no cache holds, as a host has it that sends pages; the
//! middle one of some repetitions, since what else runs meanwhile slows some of them.

use std::hint::black_box;

use onefold_block::SplitMix64;
use onefold_code::{PageAddress, Scrambler, ScramblerSpec, SeedSource};
use serde::Serialize;

use super::calibrate::kernels;
use super::ssd_spec;
use crate::args::models::SsdCalibrateArgs;
use crate::failure::{Failure, Result};
use crate::output::{JSON_SCHEMA_VERSION, Printer};

/// Bytes that are scrambled at a time: beyond caches.
const BYTES: usize = 64 << 20;

/// The object of `--json`.
#[derive(Serialize)]
struct CalibrateJson<'a> {
    schema_version: u32,
    scrambler: &'a str,
    page_bytes: u32,
    scrambler_mb_per_s: u64,
}

/// Measure and print.
pub fn run(args: &SsdCalibrateArgs, printer: &Printer) -> Result<()> {
    let spec = ssd_spec::build(ssd_spec::builder(None, &args.drive)?)?;
    let (name, page_bytes) = (&spec.media.scrambler, spec.geometry.page_bytes);
    let refused = |why: &str| Failure::nothing_done(format!("media.scrambler = '{name}': {why}"));
    let scrambler = onefold_code::preset(name).map_err(|error| refused(&error.to_string()))?;
    if scrambler.seed_source != SeedSource::Lba {
        return Err(refused("the host cannot know its seeds, so it scrambles nothing"));
    }
    let scrambler = ScramblerSpec::compile(&scrambler).map_err(|e| refused(&e.to_string()))?;
    let scrambler_mb_per_s = mb_per_s(&scrambler, page_bytes as usize, &refused)?;
    if args.json {
        let schema_version = JSON_SCHEMA_VERSION;
        let json =
            CalibrateJson { schema_version, scrambler: name, page_bytes, scrambler_mb_per_s };
        return printer.json(&json);
    }
    printer.data(&format!(
        "# Measured by `onefold ssd calibrate`: scrambler {name}, pages of {page_bytes} bytes, one \
         core.\n[host]\nscrambler_mb_per_s = {scrambler_mb_per_s}\n"
    ))
}

/// Pages scrambled in place, in 10^6 bytes a second of CPU time, at least 1.
fn mb_per_s(
    scrambler: &Scrambler,
    page_bytes: usize,
    refused: &dyn Fn(&str) -> Failure,
) -> Result<u64> {
    let mut random = SplitMix64::new(1);
    let mut pages = kernels::noise(&mut random, BYTES);
    let mut failed = None;
    let ns_per_byte = kernels::each(BYTES, || {
        for (lpn, page) in (0..).zip(pages.chunks_exact_mut(page_bytes)) {
            if let Err(error) = scrambler.scramble(&PageAddress::of(lpn), page) {
                failed = Some(error);
            }
        }
        black_box(&pages);
    });
    match failed {
        Some(error) => Err(refused(&error.to_string())),
        None => Ok(((1_000.0 / ns_per_byte) as u64).max(1)),
    }
}
