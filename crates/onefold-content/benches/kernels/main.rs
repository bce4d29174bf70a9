//! Speed of every kernel in GB/s per CPU second, with ratios to a reference in the same run.
//! Room: onefold-content.
//! Run: `cargo bench -p onefold-content -- [--quick] [--files DIR]... [NAME]...`, NAME being any of
//! `hash`, `lz4`, `zstd`, `decode`, `skip`, `chunk`, `zero`; all of them without one.
//! Blocks come from a working set larger than L2 and are visited in a scattered order, as in a
//! pool. Rounds of all candidates interleave; the median counts, because machines are noisy.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

mod data;
mod measure;

use std::path::PathBuf;

use data::DataSet;
use measure::{Candidate, Settings, table};
use onefold_content::{
    ChunkSizes, Codec, Compression, Compressor, Decompressor, FastCdc, Fingerprint,
    FingerprintKind, Fingerprinter, Rabin, is_zero, looks_incompressible,
};
use sha2::Digest as _;

/// Blocks handed over in one batch, as the pool does.
const BATCH: usize = 64;

fn main() {
    let mut settings = Settings { quick: false };
    let mut roots = Vec::new();
    let mut wanted = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => settings.quick = true,
            "--files" => roots.extend(args.next().map(PathBuf::from)),
            "--bench" => {} // cargo passes it
            name => wanted.push(name.to_owned()),
        }
    }
    let want = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let bytes = if settings.quick { 4 << 20 } else { 24 << 20 };
    let random = DataSet::random(bytes);
    let half = DataSet::half_compressible(bytes);
    let files = DataSet::files(&roots, bytes);
    if want("hash") {
        for block in [512, 4096, 8192, 65536] {
            hashes(settings, &random, block);
        }
        for kind in [FingerprintKind::Blake3, FingerprintKind::Sha256] {
            batches(settings, &random, 4096, kind);
        }
    }
    if want("lz4") {
        for block in [4096, 8192, 65536] {
            for set in [&half, &files, &random] {
                lz4(settings, set, block);
            }
        }
    }
    if want("zstd") {
        for set in [&half, &files, &random] {
            zstd(settings, set, 4096);
        }
    }
    if want("decode") {
        for set in [&half, &files] {
            decode(settings, set, 4096);
        }
    }
    if want("skip") {
        for block in [4096, 65536] {
            for set in [&files, &random] {
                skip(settings, set, block);
            }
        }
    }
    if want("chunk") {
        chunkers(settings, &random);
    }
    if want("zero") {
        zeros(settings, bytes, 4096);
    }
}

/// Every fingerprint, one block at a time and in batches.
fn hashes(settings: Settings, set: &DataSet, block: usize) {
    let blocks = set.blocks(block);
    let mut out = vec![Fingerprint::ZERO; blocks.len()];
    let mut copy = vec![0; block];
    let mut candidates = vec![
        Candidate::new("memcpy", |()| {
            for b in &blocks {
                std::hint::black_box(&mut copy[..]).copy_from_slice(b);
            }
        }),
        Candidate::new("sha2 crate, one by one", |()| {
            for b in &blocks {
                std::hint::black_box(sha2::Sha256::digest(b));
            }
        }),
        Candidate::new("blake3::hash, one by one", |()| {
            for b in &blocks {
                std::hint::black_box(blake3::hash(b));
            }
        }),
    ];
    let names = ["blake3 batch", "sha256 batch", "sha1 batch", "crc32 batch"];
    let out = std::cell::RefCell::new(&mut out);
    for (kind, name) in FingerprintKind::ALL.into_iter().zip(names) {
        let (blocks, out) = (&blocks, &out);
        let engine = Fingerprinter::new(kind);
        candidates.push(Candidate::new(name, move |()| {
            let mut out = out.borrow_mut();
            for (blocks, out) in blocks.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
                engine.hash_many(blocks, out);
            }
        }));
    }
    table(settings, &format!("fingerprints, {block}-byte blocks"), set.bytes(), candidates);
}

/// How the speed grows with the blocks handed over at once.
fn batches(settings: Settings, set: &DataSet, block: usize, kind: FingerprintKind) {
    let blocks = set.blocks(block);
    let rows = [
        (1, "batches of 1"),
        (2, "2"),
        (3, "3"),
        (4, "4"),
        (6, "6"),
        (8, "8"),
        (12, "12"),
        (16, "16"),
        (20, "20"),
        (64, "64"),
    ];
    let candidates = rows
        .into_iter()
        .map(|(batch, name)| {
            let engine = Fingerprinter::new(kind);
            let blocks = &blocks;
            let mut out = vec![Fingerprint::ZERO; batch];
            Candidate::new(name, move |()| {
                for blocks in blocks.chunks(batch) {
                    engine.hash_many(blocks, &mut out[..blocks.len()]);
                }
            })
        })
        .collect();
    table(settings, &format!("{kind}, {block}-byte blocks"), set.bytes(), candidates);
}

/// LZ4 encoders against `LZ4_compress_default`, speed and size.
fn lz4(settings: Settings, set: &DataSet, block: usize) {
    let blocks = set.blocks(block);
    let bound = block + block / 200 + 16;
    let mut out = vec![0_u8; bound];
    let mut ours = Compressor::new(Compression::Lz4);
    let mut limited = Compressor::new(Compression::Lz4);
    let (mut buffer, mut buffer2) = (Vec::new(), Vec::new());
    let candidates = vec![
        Candidate::sized("LZ4_compress_default", |stored| {
            for data in &blocks {
                *stored += data::lz4_reference(data, &mut out).min(data.len());
            }
        }),
        Candidate::sized("Compressor lz4", |stored| {
            for data in &blocks {
                buffer.clear();
                let codec = ours.compress_into(data, &mut buffer, bound);
                *stored +=
                    if codec == Codec::Raw { data.len() } else { buffer.len().min(data.len()) };
            }
        }),
        Candidate::sized("Compressor lz4, at least 512 B saved", |stored| {
            for data in &blocks {
                buffer2.clear();
                let codec = limited.compress_into(data, &mut buffer2, data.len() - 512);
                *stored += if codec == Codec::Raw { data.len() } else { buffer2.len() };
            }
        }),
    ];
    table(settings, &format!("lz4, {block}-byte blocks, {}", set.name), set.bytes(), candidates);
}

/// zstd at a few levels.
fn zstd(settings: Settings, set: &DataSet, block: usize) {
    let blocks = set.blocks(block);
    let candidates = [(-3, "zstd:-3"), (1, "zstd:1"), (3, "zstd:3")]
        .into_iter()
        .map(|(level, name)| {
            let blocks = &blocks;
            let mut engine = Compressor::new(Compression::Zstd(level));
            let mut buffer = Vec::new();
            Candidate::sized(name, move |stored| {
                for data in blocks {
                    buffer.clear();
                    let codec = engine.compress_into(data, &mut buffer, data.len() - 512);
                    *stored += if codec == Codec::Raw { data.len() } else { buffer.len() };
                }
            })
        })
        .collect();
    table(settings, &format!("zstd, {block}-byte blocks, {}", set.name), set.bytes(), candidates);
}

/// Decompression.
fn decode(settings: Settings, set: &DataSet, block: usize) {
    let blocks = set.blocks(block);
    let encoded: Vec<Vec<(Codec, Vec<u8>)>> = [Compression::Lz4, Compression::Zstd(3)]
        .into_iter()
        .map(|compression| {
            let mut engine = Compressor::new(compression);
            let encode = |data: &&[u8]| {
                let mut out = Vec::new();
                let codec = engine.compress_into(data, &mut out, data.len());
                (codec, if codec == Codec::Raw { data.to_vec() } else { out })
            };
            blocks.iter().map(encode).collect()
        })
        .collect();
    let candidates = encoded
        .iter()
        .zip(["lz4", "zstd:3"])
        .map(|(chunks, name)| {
            let mut engine = Decompressor::new();
            let mut out = vec![0; block];
            Candidate::new(name, move |()| {
                for (codec, stored) in chunks {
                    engine.decompress_into(*codec, stored, &mut out).expect("own encoding");
                }
            })
        })
        .collect();
    table(settings, &format!("decode, {block}-byte blocks, {}", set.name), set.bytes(), candidates);
}

/// What the compressibility test costs, and what it would lose.
fn skip(settings: Settings, set: &DataSet, block: usize) {
    let blocks = set.blocks(block);
    let mut out = vec![0_u8; block + block / 200 + 16];
    let (mut saved, mut lost, mut refused, mut hopeless) = (0, 0, 0, 0);
    let mut zstd = Compressor::new(Compression::Zstd(3));
    let (mut zstd_saved, mut zstd_lost, mut buffer) = (0, 0, Vec::new());
    for data in &blocks {
        let stored = data::lz4_reference(data, &mut out);
        let saving = if stored + 512 <= data.len() { data.len() - stored } else { 0 };
        buffer.clear();
        zstd.compress_into(data, &mut buffer, data.len() - 512);
        let zstd_saving = if buffer.is_empty() { 0 } else { data.len() - buffer.len() };
        saved += saving;
        zstd_saved += zstd_saving;
        hopeless += usize::from(saving == 0);
        if looks_incompressible(data) {
            refused += 1;
            lost += saving;
            zstd_lost += zstd_saving;
        }
    }
    let share = |part: usize, whole: usize| 100.0 * part as f64 / (whole.max(1)) as f64;
    println!(
        "skip test, {block}-byte blocks, {}: skips {:.2} % of blocks, {:.2} % are hopeless, \
         lost saving lz4 {:.4} %, zstd:3 {:.4} %",
        set.name,
        share(refused, blocks.len()),
        share(hopeless, blocks.len()),
        share(lost, saved),
        share(zstd_lost, zstd_saved),
    );
    let candidates = vec![
        Candidate::new("LZ4_compress_default", |()| {
            for data in &blocks {
                std::hint::black_box(data::lz4_reference(data, &mut out));
            }
        }),
        Candidate::new("looks_incompressible", |()| {
            for data in &blocks {
                std::hint::black_box(looks_incompressible(data));
            }
        }),
    ];
    table(settings, &format!("skip, {block}-byte blocks, {}", set.name), set.bytes(), candidates);
}

/// Content-defined chunking.
fn chunkers(settings: Settings, set: &DataSet) {
    let sizes = ChunkSizes::new(2048, 8192, 65536).expect("valid sizes");
    let (fast, rabin) = (FastCdc::new(sizes), Rabin::new(sizes));
    let data = &set.data;
    let candidates = vec![
        Candidate::new("fastcdc crate v2020", |()| {
            std::hint::black_box(fastcdc::v2020::FastCDC::new(data, 2048, 8192, 65536).count());
        }),
        Candidate::new("FastCdc", |()| {
            std::hint::black_box(fast.cuts(data).count());
        }),
        Candidate::new("Rabin", |()| {
            std::hint::black_box(rabin.cuts(data).count());
        }),
    ];
    table(settings, "chunkers, 2 KiB / 8 KiB / 64 KiB, random", set.bytes(), candidates);
}

/// The all-zero test on zero blocks, its slowest case.
fn zeros(settings: Settings, bytes: usize, block: usize) {
    let zero = DataSet { name: "zeros", data: vec![0; bytes] };
    let blocks = zero.blocks(block);
    let mut copy = vec![0; block];
    let candidates = vec![
        Candidate::new("memcpy", |()| {
            for b in &blocks {
                std::hint::black_box(&mut copy[..]).copy_from_slice(b);
            }
        }),
        Candidate::new("is_zero", |()| {
            assert!(blocks.iter().all(|b| std::hint::black_box(is_zero(b))));
        }),
    ];
    table(settings, "zero test, 4096-byte zero blocks", zero.bytes(), candidates);
}
