//! The pool's kernels, each alone on one thread: ns of CPU time.
//! Room: onefold.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use onefold_block::SplitMix64;
use onefold_content::{
    Codec, Compression, Compressor, Decompressor, Fingerprint, FingerprintKind, Fingerprinter,
};
use rustix::time::{ClockId, clock_gettime};

use crate::failure::{Failure, Result};

/// Bytes that a kernel works on: beyond caches, as in a pool.
const BYTES: usize = 32 << 20;
/// Repetitions, of which the middle one counts.
const REPEATS: usize = 5;
/// Header of a request and of an answer of the NBD protocol.
const NBD_HEADERS: (usize, usize) = (28, 16);

/// CPU time so far, in ns.
pub fn cpu_ns(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// ns for each of `count` of something that is done, the middle of some repetitions.
pub fn each(count: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let begin = cpu_ns(ClockId::ThreadCPUTime);
            work();
            (cpu_ns(ClockId::ThreadCPUTime) - begin) / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[REPEATS / 2]
}

/// Random bytes of every 512 of which LZ4 leaves about half.
pub const HALF: usize = 256;
/// And of which it leaves little.
pub const THIN: usize = 32;

/// Chunks of so many random bytes and zeros in turn, 512 together, no two chunks alike.
pub fn compressible(random: &mut SplitMix64, bytes: usize, noise: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    for stretch in all.chunks_mut(512) {
        let noise = stretch.len().min(noise);
        random.fill(&mut stretch[..noise]);
    }
    all
}

/// Random bytes.
pub fn noise(random: &mut SplitMix64, bytes: usize) -> Vec<u8> {
    let words = bytes.div_ceil(8);
    let mut all: Vec<u8> = (0..words).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    all.truncate(bytes);
    all
}

/// Fingerprints, ns a byte.
pub fn hash(kind: FingerprintKind, chunk: usize) -> f64 {
    let data = noise(&mut SplitMix64::new(1), BYTES);
    let chunks: Vec<&[u8]> = data.chunks_exact(chunk).collect();
    let hasher = Fingerprinter::new(kind);
    let mut out = vec![Fingerprint::ZERO; chunks.len()];
    each(BYTES, || {
        hasher.hash_many(&chunks, &mut out);
        black_box(&out);
    })
}

/// LZ4, ns a byte of the chunk.
#[derive(Clone, Copy, Debug)]
pub struct Lz4 {
    pub compress_ns_per_byte: f64,
    pub decompress_ns_per_byte: f64,
    /// Share of the bytes that is left.
    pub left_share: f64,
}

/// LZ4 of chunks of so many random bytes in every 512.
pub fn lz4(chunk: usize, noise: usize) -> Result<Lz4> {
    let data = compressible(&mut SplitMix64::new(2), BYTES, noise);
    let mut compressor = Compressor::new(Compression::Lz4);
    // Into the same place again and again, as in the pool: new memory would cost more than LZ4.
    let mut out = Vec::with_capacity(chunk);
    let compress = each(BYTES, || {
        for chunk in data.chunks_exact(chunk) {
            out.clear();
            compressor.compress_into(chunk, &mut out, chunk.len() - 1);
            black_box(&out);
        }
    });
    let mut coded: Vec<Vec<u8>> = Vec::new();
    for chunk in data.chunks_exact(chunk) {
        let mut out = Vec::new();
        compressor.compress_into(chunk, &mut out, chunk.len() - 1);
        coded.push(out);
    }
    let left: usize = coded.iter().map(Vec::len).sum();
    let mut decompressor = Decompressor::new();
    let mut out = vec![0; chunk];
    let mut refused = None;
    let decompress = each(BYTES, || {
        for stored in &coded {
            refused = decompressor.decompress_into(Codec::Lz4, stored, &mut out).err();
            black_box(&out);
        }
    });
    match refused {
        Some(error) => Err(Failure::bad(error.to_string())),
        None => Ok(Lz4 {
            compress_ns_per_byte: compress,
            decompress_ns_per_byte: decompress,
            left_share: left as f64 / BYTES as f64,
        }),
    }
}

/// A copy in memory, ns a byte.
pub fn copy() -> f64 {
    let from = noise(&mut SplitMix64::new(3), BYTES);
    let mut to = vec![0; BYTES];
    each(BYTES, || {
        to.copy_from_slice(&from);
        black_box(&to);
    })
}

/// What a server takes of a core for writes over a socket: ns a request and ns a byte, from small
/// and large ones.
pub fn socket(chunk: usize) -> Result<(f64, f64)> {
    let large = 16 * chunk;
    let (small_ns, large_ns) = (requests(chunk)?, requests(large)?);
    let byte = ((large_ns - small_ns) / (large - chunk) as f64).max(0.0);
    Ok(((small_ns - byte * chunk as f64).max(0.0), byte))
}

/// ns of the receiving side for each request of this size.
fn requests(size: usize) -> Result<f64> {
    let broke = |error: std::io::Error| Failure::bad(format!("cannot use a socket: {error}"));
    let count = BYTES / size;
    let (mut server, mut client) = UnixStream::pair().map_err(broke)?;
    let mut answers = client.try_clone().map_err(broke)?;
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || {
            let request = vec![7; NBD_HEADERS.0 + size];
            (0..REPEATS * count).try_for_each(|_| client.write_all(&request))
        });
        let reader = scope.spawn(move || {
            let mut answer = [0; NBD_HEADERS.1];
            (0..REPEATS * count).try_for_each(|_| answers.read_exact(&mut answer))
        });
        let mut failed = None;
        let (mut header, mut body) = ([0; NBD_HEADERS.0], vec![0; size]);
        let ns = each(count, || {
            let mut serve = || {
                server.read_exact(&mut header)?;
                server.read_exact(&mut body)?;
                server.write_all(&[0; NBD_HEADERS.1])
            };
            let result = (0..count).try_for_each(|_| serve());
            if let Err(error) = result {
                failed = Some(error);
            }
        });
        // A side that is gone ends the others.
        drop(server);
        let sent = sender.join().expect("it does not panic");
        let read = reader.join().expect("it does not panic");
        match failed.map_or(Ok(()), Err).and(sent).and(read) {
            Ok(()) => Ok(ns),
            Err(error) => Err(broke(error)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_as_random_as_they_are_to_be() {
        let random = &mut SplitMix64::new(1);
        let zeros = |bytes: &[u8]| bytes.iter().map(|&byte| usize::from(byte == 0)).sum::<usize>();
        let noise = noise(random, 1003);
        assert!(noise.len() == 1003 && zeros(&noise) < 20, "{}", zeros(&noise));
        let half = compressible(random, 1024 + 100, HALF);
        assert_eq!(half.len(), 1124);
        for stretch in half.chunks(512) {
            let (random, rest) = stretch.split_at(stretch.len().min(HALF));
            assert!(zeros(random) < 10 && zeros(rest) == rest.len());
        }
        let mut done = 0;
        let took = each(10, || done += 1);
        assert!(done == REPEATS && took >= 0.0, "{took}");
    }
}
