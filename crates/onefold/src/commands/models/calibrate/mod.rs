//! `onefold array calibrate`: what storing takes on this machine, as a description for the model.
//! Room: onefold.
//! Times are CPU times, of the whole process where the pool works with threads of its own. Kernels
//! are those of the pool. What they do not explain of a store in a real pool is metadata (of
//! duplicates, which move nothing) and submission (of what is new). Loads that none of this was
//! measured on are then stored and held against the model.

mod kernels;
mod pool;

use std::fmt::Write as _;

use onefold_array::spec::SpecBuilder;
use onefold_array::{ServerSpec, simulate};
use serde::Serialize;

use super::array_spec;
use crate::args::models::ArrayCalibrateArgs;
use crate::failure::{Failure, Result};
use crate::output::{JSON_SCHEMA_VERSION, Printer};

/// Shares of duplicates in the loads that the model is held against.
const CHECKED: [f64; 3] = [0.0, 0.3, 0.75];
/// Fewest client bytes of a run: below, what happens once shows.
const BYTES_MIN: u64 = 8 << 20;
/// Most: a run's bytes are in memory.
const BYTES_MAX: u64 = 4 << 30;

/// What was measured: ns of CPU time.
#[derive(Clone, Copy, Debug, Serialize)]
struct Costs {
    hash_ns_per_byte: f64,
    compress_ns_per_byte: f64,
    decompress_ns_per_byte: f64,
    metadata_ns_per_chunk: f64,
    submit_ns_per_byte: f64,
    nic_ns_per_byte: f64,
    nic_ns_per_chunk: f64,
    /// Of a copy in memory, for the reader: the model has no key for it.
    copy_ns_per_byte: f64,
    /// Compressed share of the load that compression was measured on.
    compressed_share: f64,
}

/// A load beside the model of it.
#[derive(Clone, Copy, Debug, Serialize)]
struct Check {
    duplicate_share: f64,
    measured_cpu_s_per_gb: f64,
    model_cpu_s_per_gb: f64,
    deviation: f64,
}

#[derive(Serialize)]
struct CalibrateJson {
    schema_version: u32,
    chunk_bytes: u64,
    fingerprint: String,
    cores: usize,
    costs: Costs,
    checks: Vec<Check>,
}

/// Measure, check and print.
pub fn run(args: ArrayCalibrateArgs, printer: &Printer) -> Result<()> {
    if !(BYTES_MIN..=BYTES_MAX).contains(&args.bytes.0) {
        let message = format!("--bytes {}: expected 8M to 4G", args.bytes);
        return Err(Failure::nothing_done(message));
    }
    let costs = measure(args)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = description(args, &costs, cores);
    let checks = CHECKED.map(|share| check(args, &text, share));
    let checks = checks.into_iter().collect::<Result<Vec<Check>>>()?;
    if args.json {
        return printer.json(&CalibrateJson {
            schema_version: JSON_SCHEMA_VERSION,
            chunk_bytes: chunk_bytes(args),
            fingerprint: args.fingerprint.to_string(),
            cores,
            costs,
            checks,
        });
    }
    printer.data(&(heading(args, &costs, &checks) + &text))
}

fn chunk_bytes(args: ArrayCalibrateArgs) -> u64 {
    args.chunk.bytes() as u64
}

fn measure(args: ArrayCalibrateArgs) -> Result<Costs> {
    let chunk = chunk_bytes(args) as usize;
    let hash = kernels::hash(args.fingerprint, chunk);
    let (compress, decompress, compressed_share) = kernels::lz4(chunk)?;
    let (nic_ns_per_chunk, nic_ns_per_byte) = kernels::socket(chunk)?;
    let (unique, duplicate) = pool::unique_then_duplicate(args)?;
    let chunk = chunk as f64;
    Ok(Costs {
        hash_ns_per_byte: hash,
        compress_ns_per_byte: compress,
        decompress_ns_per_byte: decompress,
        metadata_ns_per_chunk: (duplicate * chunk - hash * chunk).max(0.0),
        submit_ns_per_byte: (unique - duplicate).max(0.0),
        nic_ns_per_byte,
        nic_ns_per_chunk,
        copy_ns_per_byte: kernels::copy(),
        compressed_share,
    })
}

/// Stores a load that nothing was measured on, and asks the model for the same.
fn check(args: ArrayCalibrateArgs, description: &str, duplicate_share: f64) -> Result<Check> {
    let (measured, stored_share) = pool::mixed(args, duplicate_share)?;
    let spec = spec_of(description, duplicate_share, stored_share)?;
    let report = simulate(&spec).map_err(|error| Failure::bad(error.to_string()))?;
    let model = report.cores / report.gb_per_s;
    Ok(Check {
        duplicate_share,
        // ns a byte are s a GB.
        measured_cpu_s_per_gb: measured,
        model_cpu_s_per_gb: model,
        deviation: model / measured - 1.0,
    })
}

/// The description under this load, without the network, which the pool alone does not have.
fn spec_of(description: &str, duplicates: f64, compressed: f64) -> Result<ServerSpec> {
    let refused = |error: &dyn std::fmt::Display| Failure::bad(error.to_string());
    let builder = SpecBuilder::preset("software").map_err(|error| refused(&error))?;
    let builder = builder.file("what was measured", description).map_err(|e| refused(&e))?;
    let settings = [
        format!("workload.duplicate_share={duplicates:?}"),
        format!("workload.compressed_share={:?}", compressed.clamp(0.01, 1.0)),
        "workload.compressed_spread=0.0".to_owned(),
        "cpu.nic_ns_per_byte=0".to_owned(),
        "cpu.nic_ns_per_chunk=0".to_owned(),
        "workload.requests=100000".to_owned(),
    ];
    let builder = settings.iter().try_fold(builder, |all, one| array_spec::set(all, one))?;
    array_spec::build(&builder)
}

fn heading(args: ArrayCalibrateArgs, costs: &Costs, checks: &[Check]) -> String {
    let mut text = format!(
        "# Measured by `onefold array calibrate`: chunks of {}, {}, LZ4, on data of which {:.0} %\n\
         # are left. Metadata holds the index too. A copy in memory takes {:.3} ns a byte.\n\
         # Loads that were not used for this, CPU seconds a GB, measured and in the model:\n",
        args.chunk,
        args.fingerprint,
        100.0 * costs.compressed_share,
        costs.copy_ns_per_byte
    );
    for check in checks {
        let _ = writeln!(
            text,
            "#   {:2.0} % duplicates: {:.2} and {:.2}, {:+.0} %",
            100.0 * check.duplicate_share,
            check.measured_cpu_s_per_gb,
            check.model_cpu_s_per_gb,
            100.0 * check.deviation
        );
    }
    text
}

fn description(args: ArrayCalibrateArgs, costs: &Costs, cores: usize) -> String {
    let chunk = chunk_bytes(args);
    let Costs {
        hash_ns_per_byte: hash,
        compress_ns_per_byte: compress,
        decompress_ns_per_byte: decompress,
        metadata_ns_per_chunk: metadata,
        submit_ns_per_byte: submit,
        nic_ns_per_byte: nic,
        nic_ns_per_chunk: request,
        ..
    } = costs;
    format!(
        "name = \"software-today\"\nchunk_bytes = {chunk}\n\n\
         [cpu]\nsockets = 1\ncores_per_socket = {cores}\n\
         nic_ns_per_byte = {nic:.4}\nnic_ns_per_chunk = {request:.1}\n\
         hash_ns_per_byte = {hash:.4}\ncompress_ns_per_byte = {compress:.4}\n\
         decompress_ns_per_byte = {decompress:.4}\nindex_ns_per_chunk = 0.0\n\
         metadata_ns_per_chunk = {metadata:.1}\nsubmit_ns_per_byte = {submit:.4}\n\n\
         [workload]\nrequest_bytes = {chunk}\n"
    )
}
