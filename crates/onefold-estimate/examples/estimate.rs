//! Estimates from the command line, and measures the estimator against its own kernels.
//! Room: onefold-estimate.
//!
//! `cargo run --release -p onefold-estimate --example estimate -- /usr/share`

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use onefold_block::ByteSize;
use onefold_content::{Compression, Compressor, Fingerprint, FingerprintKind, Fingerprinter};
use onefold_estimate::{Method, Options, Partial, Progress, Report, Shard, scan};

/// What deduplication and compression would save. Reads only.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Args {
    /// Files, folders, disk images and block devices; with --merge, partial results.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Chunk sizes and content-defined means, such as 4K,64K,cdc:8K.
    #[arg(long, value_delimiter = ',')]
    chunk: Vec<Method>,
    /// The chunk size that compression and lists are for.
    #[arg(long)]
    primary: Option<ByteSize>,
    /// Compressions; the first one is the answer's.
    #[arg(long, value_delimiter = ',')]
    compression: Vec<Compression>,
    /// Bound on memory.
    #[arg(long)]
    memory: Option<ByteSize>,
    /// Worker threads; 0 means one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Do one of n parts of the work: i/n.
    #[arg(long)]
    shard: Option<Shard>,
    /// Write the partial result here, for --merge.
    #[arg(long)]
    partial: Option<PathBuf>,
    /// Combine partial results.
    #[arg(long)]
    merge: bool,
    /// Stay on the file systems of the inputs.
    #[arg(long)]
    one_file_system: bool,
    /// Rows per list.
    #[arg(long, default_value_t = 10)]
    rows: usize,
    /// Print JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV.
    #[arg(long)]
    csv: bool,
    /// Compare with hashing and compressing the first GiB of the same files, on one core.
    #[arg(long)]
    bench: bool,
}

impl Args {
    fn options(&self) -> Result<Options> {
        let mut options = Options { threads: self.threads, ..Options::default() };
        if !self.chunk.is_empty() {
            options.set_methods(&self.chunk)?;
        }
        if let Some(primary) = self.primary {
            options.primary_bytes = primary.bytes().try_into()?;
        }
        if !self.compression.is_empty() {
            options.compressions.clone_from(&self.compression);
        }
        if let Some(memory) = self.memory {
            options.memory_bytes = memory.bytes();
        }
        options.shard = self.shard.unwrap_or_default();
        options.one_file_system = self.one_file_system;
        Ok(options)
    }
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let cpu = cpu_seconds();
    let partial = if args.merge {
        Partial::merge(&args.paths, args.memory.map(ByteSize::bytes))?
    } else {
        run(&args)?
    };
    let cpu = cpu_seconds() - cpu;
    if let Some(path) = &args.partial {
        partial.write(std::fs::File::create(path)?)?;
    }
    let report = partial.report(args.rows);
    let text = match (args.json, args.csv) {
        (true, _) => report.to_json() + "\n",
        (_, true) => report.to_csv(),
        _ => report.to_text(args.rows),
    };
    print!("{text}");
    if args.bench {
        bench(&args.paths, &report, cpu)?;
    }
    Ok(if report.is_clean() || report.shard.is_some() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// Scan with a line of progress; Ctrl-C ends it early.
fn run(args: &Args) -> Result<Partial> {
    let options = args.options()?;
    let progress = Arc::new(Progress::new());
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let result = scan(&args.paths, &options, &progress);
            done.store(true, Ordering::Release);
            result
        });
        let started = Instant::now();
        while !done.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(100));
            if interrupted.load(Ordering::Relaxed) {
                progress.cancel();
            }
            if std::io::stderr().is_terminal() && started.elapsed() > Duration::from_secs(1) {
                show(&progress, started.elapsed());
            }
        }
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
        Ok(work.join().expect("the scan does not panic")?)
    })
}

fn show(progress: &Progress, elapsed: Duration) {
    let now = progress.snapshot();
    let rate = now.bytes_done as f64 / elapsed.as_secs_f64();
    let left = (now.bytes_found - now.bytes_done.min(now.bytes_found)) as f64 / rate.max(1.0);
    let more = if now.found_all { "" } else { " so far" };
    eprint!(
        "\r\x1b[K{} of {}{more}, {}/s, {left:.0} s left",
        ByteSize(now.bytes_done),
        ByteSize(now.bytes_found),
        ByteSize(rate as u64)
    );
    // A line that cannot be shown is no reason to stop.
    let _ = std::io::stderr().flush();
}

fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The estimator's speed per core as a share of its kernels': every non-zero 4 KiB block hashed,
/// the first of each content compressed, out of memory and with nothing else to do.
fn bench(paths: &[PathBuf], report: &Report, cpu: f64) -> Result<()> {
    const BLOCK: usize = 4096;
    let mut data = Vec::new();
    for path in paths {
        gather(path, &mut data, 1 << 30)?;
    }
    let blocks: Vec<&[u8]> =
        data.chunks_exact(BLOCK).filter(|block| !onefold_content::is_zero(block)).collect();
    let hasher = Fingerprinter::new(FingerprintKind::Blake3);
    let mut fps = vec![Fingerprint::ZERO; blocks.len()];
    let start = cpu_seconds();
    for (blocks, fps) in blocks.chunks(256).zip(fps.chunks_mut(256)) {
        hasher.hash_many(blocks, fps);
    }
    let hash = cpu_seconds() - start;
    let mut known = HashSet::new();
    let fresh: Vec<&[u8]> =
        blocks.iter().zip(&fps).filter(|(_, fp)| known.insert(**fp)).map(|(b, _)| *b).collect();
    let mut encoder = Compressor::new(report.answer.compression.parse()?);
    let mut out = Vec::new();
    let start = cpu_seconds();
    let mut stored = 0;
    for block in &fresh {
        out.clear();
        encoder.compress_into(block, &mut out, BLOCK - 8);
        stored += out.len();
    }
    let compress = cpu_seconds() - start;
    std::hint::black_box(stored);
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let kernels = mib(data.len() as f64) / (hash + compress);
    let ours = mib(report.input.bytes as f64) / cpu;
    println!("\nspeed per core: {ours:.0} MiB/s, {cpu:.2} CPU-s for {}", report.input.bytes);
    println!(
        "kernels alone on {} of it, {} of them unique: {kernels:.0} MiB/s \
         (hash {hash:.2} CPU-s, {} {compress:.2} CPU-s)",
        ByteSize(data.len() as u64),
        ByteSize((fresh.len() * BLOCK) as u64),
        report.answer.compression,
    );
    println!("share of the kernels' speed: {:.2}", ours / kernels);
    Ok(())
}

/// Files' bytes, each padded to whole blocks, in the order of their names.
fn gather(path: &Path, data: &mut Vec<u8>, limit: usize) -> Result<()> {
    if data.len() >= limit {
        return Ok(());
    }
    let metadata = std::fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    if metadata.is_dir() {
        let Ok(entries) = std::fs::read_dir(path) else { return Ok(()) };
        let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        names.sort();
        for name in names {
            gather(&name, data, limit)?;
        }
    } else if metadata.is_file()
        && let Ok(bytes) = std::fs::read(path)
    {
        let room = limit - data.len();
        data.extend_from_slice(&bytes[..bytes.len().min(room)]);
        data.resize(data.len().next_multiple_of(4096), 0);
    }
    Ok(())
}
