//! The estimator on one core, beside hashing and LZ4 alone on the same bytes.
//! Room: onefold-bench.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use onefold_content::{Compression, Compressor, Fingerprint, FingerprintKind, Fingerprinter};
use onefold_estimate::{Options, Progress, scan};

use crate::clock;
use crate::data::{self, BLOCK};
use crate::lab::Lab;
use crate::measure::{here, median};
use crate::report::{Goal, Row, Unit};

const GROUP: &str = "estimate";
/// Blocks hashed together by the reference.
const BATCH: usize = 64;
const GIB: f64 = (1u64 << 30) as f64;

/// A figure's name, the options that it is measured with, and its goal.
type Figure<'a> = (&'a str, &'a dyn Fn() -> Options, Option<f64>);

/// Measure the estimator.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let bytes = lab.pick(256 << 20, 8 << 20);
    let data = data::unique(3, bytes);
    let scratch = lab.scratch()?;
    let image = scratch.path().join("image");
    let mut file = std::fs::File::create(&image).context("cannot make an image")?;
    file.write_all(&data).context("cannot write an image")?;
    let one_thread = || Options { threads: 1, ..Options::default() };
    let nested = || Options { content_defined: Vec::new(), ..one_thread() };
    let one_size = || Options { chunk_sizes: vec![BLOCK as u32], ..nested() };
    let figures: [Figure<'_>; 3] = [
        ("fixed sizes 512 B to 128 KiB / hash + LZ4", &nested, Some(0.7)),
        ("the same and content-defined 8 KiB / hash + LZ4", &one_thread, None),
        ("4 KiB only / hash + LZ4", &one_size, None),
    ];
    let mut references = Vec::new();
    let mut times = vec![Vec::new(); figures.len()];
    for round in 0..lab.rounds {
        eprintln!("estimate: round {} of {}", round + 1, lab.rounds);
        references.push(here(|| hash_and_compress(&data)).cpu);
        for ((_, options, _), times) in figures.iter().zip(&mut times) {
            let before = clock::process_cpu(std::process::id())?;
            let report =
                scan(std::slice::from_ref(&image), &options(), &Progress::new())?.report(0);
            times.push(clock::process_cpu(std::process::id())? - before);
            ensure!(!report.answer.line.is_empty(), "the estimate has no answer");
        }
    }
    let mut rows = Vec::new();
    for ((name, _, goal), times) in figures.iter().zip(times) {
        let shares = references.iter().zip(&times).map(|(reference, time)| reference / time);
        let (share, time) = (median(shares.collect()), median(times.clone()));
        rows.push(Row {
            goal: goal.map(Goal::AtLeast),
            speed: Some(bytes as f64 / time),
            reference: Some(bytes as f64 / median(references.clone())),
            cpu_per_gib: Some(time / bytes as f64 * GIB),
            note: "one thread, speeds per CPU second".to_owned(),
            ..Row::new(GROUP, *name, share, Unit::Share)
        });
    }
    Ok(rows)
}

fn hash_and_compress(data: &[u8]) {
    let fingerprinter = Fingerprinter::new(FingerprintKind::Blake3);
    let mut compressor = Compressor::new(Compression::Lz4);
    let mut out = Vec::with_capacity(BATCH * BLOCK);
    let mut fingerprints = vec![Fingerprint::ZERO; BATCH];
    for batch in data.chunks(BATCH * BLOCK) {
        let blocks: Vec<&[u8]> = batch.chunks_exact(BLOCK).collect();
        fingerprinter.hash_many(&blocks, &mut fingerprints[..blocks.len()]);
        out.clear();
        for block in blocks {
            compressor.compress_into(block, &mut out, BLOCK - 1);
        }
        std::hint::black_box((&fingerprints, &out));
    }
}
