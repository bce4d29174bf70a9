//! The project's benchmarks: every figure beside a reference measured in the same run.
//! Room: onefold-bench.
//!
//! `cargo xtask bench GROUP [--quick] [--json FILE]`; the groups are those of [`Group`].

mod archive;
mod cache;
mod clock;
mod data;
mod engine;
mod estimate;
mod index;
mod io;
mod lab;
mod measure;
mod memory;
mod nbd;
mod page;
mod report;
mod snapshots;
mod space;
mod stored;
mod throttled;

use std::path::{Path, PathBuf};

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
    /// Of `nbd`, measure only `cached`, `copy`, `fio writes` or `machine`; of `space`, only
    /// `churn`, `memory`, `unique` or `tail`; of `index`, only `copy`, `working set`, `data sets`,
    /// `directories`, `table`, `many` or `opening`; of `snapshots`, only `full`, `many`,
    /// `since` or `volumes`; of `archive`, only trees with this in their name.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Folders whose files `index` writes twice.
    #[arg(long = "tree", value_name = "FOLDER", default_value = "/usr")]
    trees: Vec<PathBuf>,
    /// Put the figures into docs/performance.md.
    #[arg(long, conflicts_with_all = ["quick", "only"])]
    write_docs: bool,
    /// What a child process does for its parent.
    #[arg(long, hide = true, requires = "child_bytes")]
    child: Option<memory::Task>,
    #[arg(long, hide = true)]
    child_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    /// The engine in process, beside hashing, compressing and copying alone.
    Engine,
    /// Real clients over a Unix socket, beside nbdkit.
    Nbd,
    /// All files of a pool after a clean stop.
    Stored,
    /// Memory per unique block at 16 GiB written; takes 9 GiB of disk.
    Memory,
    /// What is stored for what is alive as volumes are overwritten, and what that costs.
    Space,
    /// Duplicates found with little memory for the index; takes as much disk as the files.
    Index,
    /// Snapshots of a full 1 TiB volume, 10,000 of them, what changed between two; takes 20 GiB of
    /// disk and minutes to fill the map.
    Snapshots,
    /// The cache on a fast device before a pool, beside nbdkit's cache filter: bytes.
    Cache,
    /// The cache between two throttled devices, for a pool and an archive, by policy; takes root.
    Throttled,
    /// The estimator, beside hashing and compressing alone.
    Estimate,
    /// Archives of real trees, beside borg and restic; takes the network for the trees.
    Archive,
    /// All of them.
    All,
}

/// How a group is measured.
type Measure = fn(&Lab) -> Result<Vec<Row>>;

fn main() -> Result<()> {
    let args = Args::parse();
    let dir = args.dir.unwrap_or_else(std::env::temp_dir);
    if let (Some(task), Some(bytes)) = (args.child, args.child_bytes) {
        return memory::work(task, &dir, bytes);
    }
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/performance.md"));
    let lab = Lab {
        quick: args.quick,
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 5 }).max(1),
        dir,
        only: args.only,
        trees: args.trees,
        page: args.write_docs.then(|| docs.to_owned()),
    };
    let machine = page::machine();
    let groups: [(Group, Measure); 11] = [
        (Group::Engine, engine::run),
        (Group::Nbd, nbd::run),
        (Group::Stored, stored::run),
        (Group::Memory, memory::run),
        (Group::Space, space::run),
        (Group::Index, index::run),
        (Group::Snapshots, snapshots::run),
        (Group::Cache, cache::run),
        (Group::Throttled, throttled::run),
        (Group::Estimate, estimate::run),
        (Group::Archive, archive::run),
    ];
    if matches!(args.group, Group::Archive | Group::All) {
        // Before anything is measured for hours.
        archive::at_hand(lab.quick)?;
    }
    let mut rows: Vec<Row> = Vec::new();
    for (group, run) in groups {
        if args.group == group || args.group == Group::All {
            let measured = run(&lab)?;
            println!("{}", report::table(&measured));
            rows.extend(measured);
        }
    }
    print!("{}", report::goals(&rows));
    println!("on {machine}");
    if let Some(path) = args.json {
        let text = serde_json::to_string_pretty(&rows).context("rows are plain values")?;
        std::fs::write(&path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.write_docs {
        page::write(docs, &rows, lab.rounds, &machine)?;
    }
    Ok(())
}
