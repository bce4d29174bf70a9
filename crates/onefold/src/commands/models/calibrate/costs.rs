//! What storing takes, from kernels and from loads in a real pool.
//! Room: onefold.

use onefold_block::ChunkSize;
use onefold_content::FingerprintKind;
use serde::Serialize;

use super::{kernels, middle, pool};
use crate::args::models::ArrayCalibrateArgs;
use crate::failure::Result;

/// What was measured: ns of CPU time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Costs {
    hash_ns_per_byte: f64,
    compress_ns_per_byte: f64,
    decompress_ns_per_byte: f64,
    metadata_ns_per_chunk: f64,
    /// Of a chunk that is new, on top.
    store_ns_per_chunk: f64,
    /// Of what is left of it.
    submit_ns_per_byte: f64,
    nic_ns_per_byte: f64,
    nic_ns_per_chunk: f64,
    /// Of a copy in memory, for the reader: the model has no key for it.
    pub copy_ns_per_byte: f64,
    /// Compressed share of the load that compression was measured on.
    pub compressed_share: f64,
}

impl Costs {
    /// Measures everything once.
    pub fn measure(args: ArrayCalibrateArgs, kind: FingerprintKind) -> Result<Self> {
        let chunk_bytes = args.chunk.bytes();
        let hash = kernels::hash(kind, chunk_bytes);
        let half = kernels::lz4(chunk_bytes, kernels::HALF)?;
        let thin = kernels::lz4(chunk_bytes, kernels::THIN)?;
        let (nic_ns_per_chunk, nic_ns_per_byte) = kernels::socket(chunk_bytes)?;
        let loads = pool::calibration(args, kind)?;
        let chunk = chunk_bytes as f64;
        let metadata = (loads.duplicates - hash) * chunk;
        // What new chunks take beside kernels and what duplicates take too: by the chunk, and by
        // the byte that is left. Two loads that leave all and little tell them apart.
        let rest = |unique: f64, compress: f64| (unique - compress - loads.duplicates) * chunk;
        let (all, little) = (rest(loads.noise, 0.0), rest(loads.thin, thin.compress_ns_per_byte));
        let (store, submit) = fit([(chunk, all), (chunk * loads.thin_share, little)]);
        Ok(Self {
            hash_ns_per_byte: hash,
            compress_ns_per_byte: half.compress_ns_per_byte,
            decompress_ns_per_byte: half.decompress_ns_per_byte,
            metadata_ns_per_chunk: metadata,
            store_ns_per_chunk: store,
            submit_ns_per_byte: submit,
            nic_ns_per_byte,
            nic_ns_per_chunk,
            copy_ns_per_byte: kernels::copy(),
            compressed_share: half.left_share,
        })
    }

    /// The middle of each cost. What comes from differences is not below 0.
    pub fn middle(rounds: &[Self]) -> Self {
        let of = |cost: fn(&Self) -> f64| middle(rounds.iter().map(cost).collect()).max(0.0);
        Self {
            hash_ns_per_byte: of(|costs| costs.hash_ns_per_byte),
            compress_ns_per_byte: of(|costs| costs.compress_ns_per_byte),
            decompress_ns_per_byte: of(|costs| costs.decompress_ns_per_byte),
            metadata_ns_per_chunk: of(|costs| costs.metadata_ns_per_chunk),
            store_ns_per_chunk: of(|costs| costs.store_ns_per_chunk),
            submit_ns_per_byte: of(|costs| costs.submit_ns_per_byte),
            nic_ns_per_byte: of(|costs| costs.nic_ns_per_byte),
            nic_ns_per_chunk: of(|costs| costs.nic_ns_per_chunk),
            copy_ns_per_byte: of(|costs| costs.copy_ns_per_byte),
            compressed_share: of(|costs| costs.compressed_share),
        }
    }

    /// A server of one processor like this machine's.
    pub fn description(&self, chunk: ChunkSize, cores: usize) -> String {
        let chunk = chunk.bytes();
        let Self {
            hash_ns_per_byte: hash,
            compress_ns_per_byte: compress,
            decompress_ns_per_byte: decompress,
            metadata_ns_per_chunk: metadata,
            store_ns_per_chunk: store,
            submit_ns_per_byte: submit,
            nic_ns_per_byte: nic,
            nic_ns_per_chunk: request,
            ..
        } = self;
        format!(
            "name = \"software-today\"\nchunk_bytes = {chunk}\n\n\
             [cpu]\nsockets = 1\ncores_per_socket = {cores}\n\
             nic_ns_per_byte = {nic:.4}\nnic_ns_per_chunk = {request:.1}\n\
             hash_ns_per_byte = {hash:.4}\ncompress_ns_per_byte = {compress:.4}\n\
             decompress_ns_per_byte = {decompress:.4}\nindex_ns_per_chunk = 0.0\n\
             metadata_ns_per_chunk = {metadata:.1}\nstore_ns_per_chunk = {store:.1}\n\
             submit_ns_per_byte = {submit:.4}\n\n\
             [workload]\nrequest_bytes = {chunk}\n"
        )
    }
}

/// What a chunk takes and what a byte takes, neither below 0, from two loads: bytes that are left of
/// a chunk, and ns that it took. Where no such costs explain both loads, those with the least
/// squares of what they miss: one cost set to 0 after the other was solved for would miss both.
fn fit([(x, a), (y, b)]: [(f64, f64); 2]) -> (f64, f64) {
    let byte = (a - b) / (x - y);
    let chunk = a - byte * x;
    if byte < 0.0 {
        return (f64::midpoint(a, b).max(0.0), 0.0);
    }
    if chunk < 0.0 {
        return (0.0, ((a * x + b * y) / (x * x + y * y)).max(0.0));
    }
    (chunk, byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_explain_two_loads_as_well_as_costs_that_are_not_below_zero_can() {
        let close = |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() + (b - d).abs() < 1e-9;
        assert!(close(fit([(4096.0, 1200.0), (512.0, 304.0)]), (176.0, 0.25)));
        for (a, b) in [(1000.0, -100.0), (1000.0, 50.0), (100.0, 400.0), (-5.0, -9.0)] {
            let missed = |(chunk, byte): (f64, f64)| {
                (chunk + 4096.0 * byte - a).powi(2) + (chunk + 512.0 * byte - b).powi(2)
            };
            let found = fit([(4096.0, a), (512.0, b)]);
            assert!(found.0 >= 0.0 && found.1 >= 0.0, "{found:?}");
            for chunk in 0..60 {
                for byte in 0..60 {
                    let other = (10.0 * f64::from(chunk), 0.01 * f64::from(byte));
                    assert!(missed(found) <= missed(other) + 1e-6, "{a} {b}: {found:?} {other:?}");
                }
            }
        }
    }
}
