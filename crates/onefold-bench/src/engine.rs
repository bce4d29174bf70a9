//! The engine in process: one volume, 4 KiB blocks, 128 KiB requests, one and two threads.
//! Room: onefold-bench.
//! References: hashing and LZ4 alone on the same blocks, in batches of 64, for unique data;
//! hashing alone for duplicates; LZ4 decoding alone, and copying, for reads. All rounds interleave.
//! What the kernel takes for putting the stored bytes into its page cache is a figure of its own.
//! The same bytes are written and removed right before, because on a virtual machine whose host
//! takes free pages back, the first touch of a page can cost more than all the rest.
//! Shares compare CPU seconds, those of the final flush included, of the round that took least of
//! each: other programs, and first touches that remain, only ever add. The median of the rounds'
//! own shares stands beside. What the second core adds is from undisturbed time, least as well.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Result, ensure};
use onefold_block::{BlockDevice, ByteSize};
use onefold_content::{
    Codec, Compression, Compressor, Decompressor, Fingerprint, FingerprintKind, Fingerprinter,
};
use onefold_pool::{Budgets, Volume};

use crate::data::{self, BLOCK};
use crate::lab::{Lab, new_pool, open_pool};
use crate::measure::{Usage, here, least_of, median_of, on_threads};
use crate::report::{Goal, Row, Unit};

const GROUP: &str = "engine";
/// Bytes of a request.
const REQUEST: usize = 128 << 10;
/// Bytes of a container of the pool.
const CONTAINER: usize = 4 << 20;
/// Blocks hashed together by the references, as in the pool.
const BATCH: usize = 64;
const GIB: f64 = (1u64 << 30) as f64;

/// What is measured in each round, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    HashAndCompress,
    Hash,
    /// Write as many bytes as are stored to plain files.
    Files,
    WriteUnique,
    WriteDuplicates,
    Decompress,
    Copy,
    ReadUncached,
    ReadCached,
}

const ALL: [Work; 9] = [
    Work::HashAndCompress,
    Work::Hash,
    Work::Files,
    Work::WriteUnique,
    Work::WriteDuplicates,
    Work::Decompress,
    Work::Copy,
    Work::ReadUncached,
    Work::ReadCached,
];

/// One round's usages, in the order of [`ALL`].
type Round = [Usage; ALL.len()];

fn of(round: &Round, work: Work) -> Usage {
    round[ALL.iter().position(|w| *w == work).expect("all are listed")]
}

/// The bytes of all rounds, and the pieces of them that are cached.
struct Samples {
    data: Vec<u8>,
    stored: Vec<Vec<u8>>,
    cached_bytes: usize,
}

/// Measure the engine.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let bytes = lab.pick(256 << 20, 8 << 20);
    let data = data::unique(1, bytes);
    let mut compressor = Compressor::new(Compression::Lz4);
    let compress = |block: &[u8]| {
        let mut out = Vec::new();
        let codec = compressor.compress_into(block, &mut out, BLOCK - 1);
        assert_eq!(codec, Codec::Lz4, "the data is compressible");
        out
    };
    let stored = data.chunks_exact(BLOCK).map(compress).collect();
    let samples = Samples { data, stored, cached_bytes: bytes / 4 };
    let mut by_threads = [Vec::new(), Vec::new()];
    for round in 0..lab.rounds {
        eprintln!("engine: round {} of {}", round + 1, lab.rounds);
        for (threads, rounds) in (1..).zip(&mut by_threads) {
            rounds.push(one_round(lab, &samples, threads)?);
        }
    }
    Ok(rows(&samples, &by_threads))
}

fn one_round(lab: &Lab, samples: &Samples, threads: usize) -> Result<Round> {
    let scratch = lab.scratch()?;
    let path = scratch.path().join("pool");
    let data = &samples.data;
    let mut round = Round::default();
    let mut put = |work, usage| {
        round[ALL.iter().position(|w| *w == work).expect("all are listed")] = usage;
    };
    put(Work::HashAndCompress, hash_and_compress(data, threads));
    put(Work::Hash, hash(data, threads));
    {
        let (pool, volume) = new_pool(&path, Budgets::default(), ByteSize(64 << 30))?;
        // The first time makes pages ready for the second, and the second, with some memory of this
        // process, for the pool.
        let ready = vec![0x5a_u8; data.len() / 2];
        plain_files(scratch.path(), &samples.stored, threads)?;
        put(Work::Files, plain_files(scratch.path(), &samples.stored, threads)?);
        drop(std::hint::black_box(ready));
        put(Work::WriteUnique, write(&volume, data, 0, threads));
        put(Work::WriteDuplicates, write(&volume, data, 16 << 30, threads));
        let status = pool.status()?;
        let blocks = (data.len() / BLOCK) as u64;
        ensure!(status.chunks == blocks, "{} chunks stored of {blocks}", status.chunks);
        drop(volume);
        pool.close()?;
    }
    put(Work::Decompress, decompress(&samples.stored, threads));
    put(Work::Copy, copy(data, threads));
    put(Work::ReadUncached, read_uncached(&path, samples, threads)?);
    put(Work::ReadCached, read_cached(&path, samples, threads)?);
    Ok(round)
}

/// A thread's part of the bytes, a multiple of the request size, and where it starts.
fn part(bytes: usize, threads: usize, number: usize) -> std::ops::Range<usize> {
    let each = bytes / threads / REQUEST * REQUEST;
    let end = if number + 1 == threads { bytes } else { (number + 1) * each };
    number * each..end
}

fn hash_and_compress(data: &[u8], threads: usize) -> Usage {
    on_threads(threads, |number| {
        let fingerprinter = Fingerprinter::with_key(FingerprintKind::Blake3, [7; 32]);
        let mut compressor = Compressor::new(Compression::Lz4);
        let mut out = Vec::with_capacity(BATCH * BLOCK);
        let mut fingerprints = vec![Fingerprint::ZERO; BATCH];
        for batch in data[part(data.len(), threads, number)].chunks(BATCH * BLOCK) {
            let blocks: Vec<&[u8]> = batch.chunks_exact(BLOCK).collect();
            fingerprinter.hash_many(&blocks, &mut fingerprints[..blocks.len()]);
            out.clear();
            for block in blocks {
                compressor.compress_into(block, &mut out, BLOCK - 1);
            }
            std::hint::black_box((&fingerprints, &out));
        }
    })
}

fn hash(data: &[u8], threads: usize) -> Usage {
    on_threads(threads, |number| {
        let fingerprinter = Fingerprinter::with_key(FingerprintKind::Blake3, [7; 32]);
        let mut fingerprints = vec![Fingerprint::ZERO; BATCH];
        for batch in data[part(data.len(), threads, number)].chunks(BATCH * BLOCK) {
            let blocks: Vec<&[u8]> = batch.chunks_exact(BLOCK).collect();
            fingerprinter.hash_many(&blocks, &mut fingerprints[..blocks.len()]);
            std::hint::black_box(&fingerprints);
        }
    })
}

/// Write as many bytes as all blocks have to new files of a container's size, and remove them.
fn plain_files(folder: &Path, stored: &[Vec<u8>], threads: usize) -> Result<Usage> {
    let bytes: usize = stored.iter().map(Vec::len).sum();
    let files = bytes.div_ceil(CONTAINER);
    let content = vec![0x5a; CONTAINER];
    let path = |number: usize| folder.join(format!("plain-{number}"));
    let usage = on_threads(threads, |thread| {
        for number in (thread..files).step_by(threads) {
            let file = File::create(path(number)).expect("a new file in the scratch folder");
            let len = CONTAINER.min(bytes - number * CONTAINER);
            file.write_all_at(&content[..len], 0).expect("a write to a new file");
        }
    });
    for number in 0..files {
        std::fs::remove_file(path(number))?;
    }
    Ok(usage)
}

/// Write all data from `base` on; the flush afterwards counts as CPU, not as time, because it
/// waits for the disk.
fn write(volume: &Volume, data: &[u8], base: u64, threads: usize) -> Usage {
    let usage = on_threads(threads, |number| {
        let range = part(data.len(), threads, number);
        let mut at = base + range.start as u64;
        for request in data[range].chunks(REQUEST) {
            volume.write_at(at, request, false).expect("a write to a new pool");
            at += request.len() as u64;
        }
    });
    let flush = here(|| volume.flush().expect("a flush of a new pool"));
    Usage { cpu: usage.cpu + flush.cpu, ..usage }
}

fn decompress(stored: &[Vec<u8>], threads: usize) -> Usage {
    on_threads(threads, |number| {
        let mut decompressor = Decompressor::new();
        let mut out = vec![0; BLOCK];
        let each = stored.len() / threads;
        for block in &stored[number * each..(number + 1) * each] {
            decompressor.decompress_into(Codec::Lz4, block, &mut out).expect("own encoding");
            std::hint::black_box(&out);
        }
    })
}

fn copy(data: &[u8], threads: usize) -> Usage {
    on_threads(threads, |number| {
        let mut out = vec![0; REQUEST];
        for request in data[part(data.len(), threads, number)].chunks(REQUEST) {
            out[..request.len()].copy_from_slice(request);
            std::hint::black_box(&out);
        }
    })
}

fn read(volume: &Volume, bytes: usize, threads: usize) -> Usage {
    on_threads(threads, |number| {
        let mut out = vec![0; REQUEST];
        let range = part(bytes, threads, number);
        for at in range.step_by(REQUEST) {
            volume.read_at(at as u64, &mut out).expect("a read from a sound pool");
            std::hint::black_box(&out);
        }
    })
}

/// Compare what is stored with what was written, some of it.
fn verify(volume: &Volume, data: &[u8]) -> Result<()> {
    let mut out = vec![0; REQUEST];
    for (number, request) in data.chunks(REQUEST).enumerate().step_by(13) {
        volume.read_at((number * REQUEST) as u64, &mut out)?;
        ensure!(out == request, "request {number} reads back differently");
    }
    Ok(())
}

fn read_uncached(path: &Path, samples: &Samples, threads: usize) -> Result<Usage> {
    let pool = open_pool(path, Budgets { cache_bytes: 0, ..Budgets::default() })?;
    let volume = pool.volume("main")?;
    // The page cache may have lost something meanwhile.
    read(&volume, samples.data.len(), 1);
    let usage = read(&volume, samples.data.len(), threads);
    verify(&volume, &samples.data)?;
    drop(volume);
    pool.close()?;
    Ok(usage)
}

fn read_cached(path: &Path, samples: &Samples, threads: usize) -> Result<Usage> {
    let cache_bytes = 4 * samples.cached_bytes as u64;
    let pool = open_pool(path, Budgets { cache_bytes, ..Budgets::default() })?;
    let volume = pool.volume("main")?;
    // Twice, so that a cache that admits at the second sight is warm too.
    read(&volume, samples.cached_bytes, 1);
    read(&volume, samples.cached_bytes, 1);
    let passes = samples.data.len() / samples.cached_bytes;
    let usage = (0..passes)
        .map(|_| read(&volume, samples.cached_bytes, threads))
        .fold(Usage::default(), Usage::and);
    verify(&volume, &samples.data[..samples.cached_bytes])?;
    drop(volume);
    pool.close()?;
    Ok(usage)
}

/// What is compared with what.
const FIGURES: [Figure; 6] = [
    ("write unique / hash + LZ4", Work::WriteUnique, &[Work::HashAndCompress], Some(0.8)),
    (
        "write unique / hash + LZ4 + file writes",
        Work::WriteUnique,
        &[Work::HashAndCompress, Work::Files],
        None,
    ),
    ("write duplicates / hash", Work::WriteDuplicates, &[Work::Hash], Some(0.6)),
    ("read uncached / LZ4 decode", Work::ReadUncached, &[Work::Decompress], None),
    ("read uncached / copy", Work::ReadUncached, &[Work::Copy], None),
    ("read cached / copy", Work::ReadCached, &[Work::Copy], None),
];

/// Name, work, the works that are its reference together, goal.
type Figure = (&'static str, Work, &'static [Work], Option<f64>);

fn rows(samples: &Samples, by_threads: &[Vec<Round>; 2]) -> Vec<Row> {
    let bytes = samples.data.len() as f64;
    let mut rows = Vec::new();
    for (threads, rounds) in (1..).zip(by_threads) {
        for (name, work, reference, goal) in FIGURES {
            let all_of = |round: &Round, works: &[Work]| {
                works.iter().map(|work| of(round, *work)).fold(Usage::default(), Usage::and)
            };
            let share = |round: &Round| all_of(round, reference).cpu / of(round, work).cpu;
            let least_cpu = |works: &[Work]| least_of(rounds, |round| all_of(round, works).cpu);
            let speed =
                |works: &[Work]| bytes / least_of(rounds, |round| all_of(round, works).undisturbed);
            let cpu = least_cpu(&[work]);
            let wall = bytes / median_of(rounds, |round| of(round, work).wall);
            let name = format!("{name}, {threads} thread(s)");
            rows.push(Row {
                goal: goal.map(Goal::AtLeast),
                speed: Some(speed(&[work])),
                reference: Some(speed(reference)),
                cpu_per_gib: Some(cpu / bytes * GIB),
                note: format!(
                    "median {}; by the wall clock {:.0} MB/s",
                    Unit::Share.show(median_of(rounds, share)),
                    wall * 1e-6
                ),
                ..Row::new(GROUP, name, least_cpu(reference) / cpu, Unit::Share)
            });
        }
    }
    let gain = |work| {
        let time = |rounds| least_of(rounds, |round| of(round, work).undisturbed);
        time(&by_threads[0]) / time(&by_threads[1]) - 1.0
    };
    for (name, work, reference) in [
        ("second core adds, unique", Work::WriteUnique, Work::HashAndCompress),
        ("second core adds, duplicates", Work::WriteDuplicates, Work::Hash),
        ("second core adds, uncached reads", Work::ReadUncached, Work::Decompress),
        ("second core adds, cached reads", Work::ReadCached, Work::Copy),
    ] {
        let goal = matches!(work, Work::WriteUnique | Work::WriteDuplicates);
        rows.push(Row {
            goal: goal.then_some(Goal::AtLeast(0.7)),
            note: format!("to the reference it adds {:.0} %", gain(reference) * 100.0),
            ..Row::new(GROUP, name, gain(work), Unit::Share)
        });
    }
    rows
}
