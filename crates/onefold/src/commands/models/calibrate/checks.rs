//! Loads that nothing was measured on, beside the model of them.
//! Room: onefold.

use onefold_array::spec::SpecBuilder;
use onefold_array::{ServerSpec, simulate};
use serde::Serialize;

use super::middle;
use super::pool::Stored;
use crate::commands::models::array_spec;
use crate::failure::{Failure, Result};

/// Shares of duplicates that are checked.
const SHARES: [f64; 3] = [0.0, 0.3, 0.75];
/// Threads that store.
const THREADS: [usize; 2] = [1, 2];
/// A GiB in GB.
const GIB: f64 = 1.073_741_824;

/// What is stored.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Share of chunks that equal an earlier one.
    pub duplicate_share: f64,
    /// Threads that store it together.
    pub threads: usize,
}

impl Load {
    /// All that are checked.
    pub fn all() -> Vec<Self> {
        let with = |duplicate_share| THREADS.map(|threads| Self { duplicate_share, threads });
        SHARES.into_iter().flat_map(with).collect()
    }
}

/// A load beside the model of it: CPU seconds for 2^30 client bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Check {
    pub duplicate_share: f64,
    pub threads: usize,
    pub measured_cpu_s_per_gib: f64,
    pub model_cpu_s_per_gib: f64,
    /// Of the model from what was measured, as a share of that.
    pub deviation: f64,
}

impl Check {
    /// The middle of what storing the load took, and what the model says of a server of this
    /// description.
    pub fn of(load: &Load, stored: &[Stored], description: &str) -> Result<Self> {
        // ns a byte are s a GB.
        let measured = GIB * middle(stored.iter().map(|stored| stored.ns_per_byte).collect());
        let left = middle(stored.iter().map(|stored| stored.left_share).collect());
        let spec = spec_of(description, load.duplicate_share, left)?;
        let report = simulate(&spec).map_err(|error| Failure::bad(error.to_string()))?;
        let model = GIB * report.cores / report.gb_per_s;
        Ok(Self {
            duplicate_share: load.duplicate_share,
            threads: load.threads,
            measured_cpu_s_per_gib: measured,
            model_cpu_s_per_gib: model,
            deviation: model / measured - 1.0,
        })
    }
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
