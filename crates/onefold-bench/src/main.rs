//! The project's benchmarks: every figure beside a reference measured in the same run.
//! Room: onefold-bench.
//!
//! `cargo xtask bench [engine|nbd|stored|memory|estimate|all] [--quick] [--json FILE]`.

mod clock;
mod data;
mod engine;
mod lab;
mod measure;
mod report;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use lab::Lab;
use report::Row;

/// Measures onefold. Every figure is a median of interleaved rounds, beside a reference.
#[derive(Debug, Parser)]
struct Args {
    /// What to measure.
    #[arg(value_enum, default_value_t = Group::All)]
    group: Group,
    /// Tiny sizes and one round: shows that everything runs, not how fast.
    #[arg(long)]
    quick: bool,
    /// Rounds of each measurement.
    #[arg(long, value_name = "COUNT")]
    rounds: Option<usize>,
    /// Write the figures to a file as JSON, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder for scratch pools and images; it should be on a disk, not in memory.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Measure only what has this text in its name, where the group can be divided.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    /// The engine in process.
    Engine,
    /// All of them.
    All,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let lab = Lab {
        quick: args.quick,
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 5 }).max(1),
        dir: args.dir.unwrap_or_else(std::env::temp_dir),
        only: args.only,
    };
    let wants = |group| args.group == group || args.group == Group::All;
    let mut rows: Vec<Row> = Vec::new();
    if wants(Group::Engine) {
        rows.extend(engine::run(&lab)?);
    }
    println!("{}", report::table(&rows));
    if let Some(path) = args.json {
        let text = serde_json::to_string_pretty(&rows).context("rows are plain values")?;
        std::fs::write(&path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
