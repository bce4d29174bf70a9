//! What storing takes, from kernels and from loads in a real pool.
//! Room: onefold.

use onefold_block::ChunkSize;
use onefold_content::FingerprintKind;
use serde::Serialize;

use super::{kernels, middle, pool};
use crate::args::models::ArrayCalibrateArgs;
use crate::failure::Result;

/// What one round measured: ns of CPU time, of the kernels alone and of stores in a pool.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    hash: f64,
    half: kernels::Lz4,
    thin: kernels::Lz4,
    socket: (f64, f64),
    copy: f64,
    loads: pool::Calibration,
}

impl Round {
    /// Measures everything once.
    pub fn measure(args: ArrayCalibrateArgs, kind: FingerprintKind) -> Result<Self> {
        let chunk = args.chunk.bytes();
        Ok(Self {
            hash: kernels::hash(kind, chunk),
            half: kernels::lz4(chunk, kernels::HALF)?,
            thin: kernels::lz4(chunk, kernels::THIN)?,
            socket: kernels::socket(chunk)?,
            copy: kernels::copy(),
            loads: pool::calibration(args, kind)?,
        })
    }
}

/// What storing takes: ns of CPU time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Costs {
    hash_ns_per_byte: f64,
    compress_ns_per_byte: f64,
    decompress_ns_per_byte: f64,
    /// Of every chunk.
    metadata_ns_per_chunk: f64,
    /// Of a chunk that is new, on top.
    store_ns_per_chunk: f64,
    /// Of a chunk that is not new, on top.
    duplicate_ns_per_chunk: f64,
    /// Of what is left of a new chunk.
    submit_ns_per_byte: f64,
    nic_ns_per_byte: f64,
    nic_ns_per_chunk: f64,
    /// Of a copy in memory, for the reader: the model has no key for it.
    pub copy_ns_per_byte: f64,
    /// Compressed share of the load that compression was measured on.
    pub compressed_share: f64,
}

impl Costs {
    /// From the middle of everything that was measured of chunks of so many bytes.
    pub fn of(rounds: &[Round], chunk: ChunkSize) -> Self {
        let mid = |value: fn(&Round) -> f64| middle(rounds.iter().map(value).collect());
        let bytes = chunk.bytes() as f64;
        let hash = mid(|round| round.hash);
        // What kernels do not explain.
        let duplicate = (mid(|round| round.loads.duplicates) - hash) * bytes;
        let noise = (mid(|round| round.loads.noise) - hash) * bytes;
        let compress = mid(|round| round.thin.compress_ns_per_byte);
        let thin = (mid(|round| round.loads.thin) - hash - compress) * bytes;
        let left = bytes * mid(|round| round.loads.thin_share);
        let (new, submit) = by_chunk_and_byte([(bytes, noise), (left, thin)]);
        let shared = new.min(duplicate.max(0.0));
        Self {
            hash_ns_per_byte: hash,
            compress_ns_per_byte: mid(|round| round.half.compress_ns_per_byte),
            decompress_ns_per_byte: mid(|round| round.half.decompress_ns_per_byte),
            metadata_ns_per_chunk: shared,
            store_ns_per_chunk: new - shared,
            duplicate_ns_per_chunk: duplicate.max(0.0) - shared,
            submit_ns_per_byte: submit,
            nic_ns_per_byte: mid(|round| round.socket.1),
            nic_ns_per_chunk: mid(|round| round.socket.0),
            copy_ns_per_byte: mid(|round| round.copy),
            compressed_share: mid(|round| round.half.left_share),
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
            duplicate_ns_per_chunk: confirm,
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
             duplicate_ns_per_chunk = {confirm:.1}\n\
             submit_ns_per_byte = {submit:.4}\n\n\
             [workload]\nrequest_bytes = {chunk}\n"
        )
    }
}

/// What a chunk takes and what a byte takes, neither below 0, from two loads: bytes that are left
/// of a chunk, and ns that it took. Where no such costs explain both loads, those with the least
/// squares of what they miss: one cost set to 0 after the other was solved for would miss both.
fn by_chunk_and_byte([(x, a), (y, b)]: [(f64, f64); 2]) -> (f64, f64) {
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
        assert!(close(by_chunk_and_byte([(4096.0, 1200.0), (512.0, 304.0)]), (176.0, 0.25)));
        for (a, b) in [(1000.0, -100.0), (1000.0, 50.0), (100.0, 400.0), (-5.0, -9.0)] {
            let missed = |(chunk, byte): (f64, f64)| {
                (chunk + 4096.0 * byte - a).powi(2) + (chunk + 512.0 * byte - b).powi(2)
            };
            let found = by_chunk_and_byte([(4096.0, a), (512.0, b)]);
            assert!(found.0 >= 0.0 && found.1 >= 0.0, "{found:?}");
            for chunk in 0..60 {
                for byte in 0..60 {
                    let other = (10.0 * f64::from(chunk), 0.01 * f64::from(byte));
                    assert!(missed(found) <= missed(other) + 1e-6, "{a} {b}: {found:?} {other:?}");
                }
            }
        }
    }

    /// A round on a machine on which a chunk takes this beside kernels: ns of a duplicate, of a new
    /// one, and of each byte that is left of it.
    fn round(duplicate: f64, new: f64, byte: f64) -> Round {
        let lz4 = |compress| kernels::Lz4 {
            compress_ns_per_byte: compress,
            decompress_ns_per_byte: 0.25,
            left_share: 0.5,
        };
        let loads = pool::Calibration {
            noise: 0.5 + new / 4096.0 + byte,
            duplicates: 0.5 + duplicate / 4096.0,
            thin: 0.5 + 0.125 + new / 4096.0 + byte / 8.0,
            thin_share: 0.125,
        };
        Round {
            hash: 0.5,
            half: lz4(1.0),
            thin: lz4(0.125),
            socket: (1000.0, 0.0),
            copy: 0.1,
            loads,
        }
    }

    #[test]
    fn what_is_shared_and_what_comes_on_top_add_up_to_what_was_measured() {
        let chunk = ChunkSize::MIN;
        for (duplicate, new) in [(300.0, 200.0), (200.0, 300.0), (0.0, 100.0), (100.0, 0.0)] {
            let costs = Costs::of(&[round(duplicate, new, 0.25)], chunk);
            let close =
                |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{duplicate} {new}: {costs:?}");
            close(costs.metadata_ns_per_chunk + costs.store_ns_per_chunk, new);
            close(costs.metadata_ns_per_chunk + costs.duplicate_ns_per_chunk, duplicate);
            close(costs.submit_ns_per_byte, 0.25);
            let least = costs.store_ns_per_chunk.min(costs.duplicate_ns_per_chunk);
            assert!(least.abs() < 1e-6, "nothing that both take comes on top: {costs:?}");
        }
        let three = [round(900.0, 900.0, 1.0), round(300.0, 200.0, 0.25), round(9.0, 9.0, 0.0)];
        let three = Costs::of(&three, chunk);
        assert!((three.metadata_ns_per_chunk - 200.0).abs() < 1e-6, "{three:?}");
        assert!((three.duplicate_ns_per_chunk - 100.0).abs() < 1e-6, "{three:?}");
        let noise = Costs::of(&[round(-5.0, -9.0, 0.0)], chunk);
        let least = noise.metadata_ns_per_chunk + noise.duplicate_ns_per_chunk;
        assert!(least.abs() < 1e-6 && noise.store_ns_per_chunk.abs() < 1e-6, "{noise:?}");
    }
}
