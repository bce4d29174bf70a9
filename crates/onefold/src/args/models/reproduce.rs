//! `onefold reproduce`, as written.
//! Room: onefold.

use std::path::PathBuf;

const EXAMPLES: &str = "\
Without --full, sizes are chosen so that all of it takes seconds. Results are the same on any
number of threads. docs/reproduction.md holds the quick results of all experiments.

Examples:
  onefold reproduce --list
  onefold reproduce ses-dedup --full --plots plots
  onefold reproduce ses-dedup/fig-1 --data /srv/vm --data disk.img
  onefold reproduce fidr/chunk-size --data /srv/fiu-traces";

/// `onefold reproduce`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct ReproduceArgs {
    /// Experiments, or the words that ids begin with, such as a paper; without any, everything
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Only list what there is
    #[arg(long)]
    pub list: bool,
    /// Print all series as JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// Use the papers' sizes
    #[arg(long)]
    pub full: bool,
    /// Run quick sizes as well, and write a page that sets both beside each other to FILE
    #[arg(long, value_name = "FILE", requires = "full", conflicts_with_all = ["list", "json"])]
    pub compare: Option<PathBuf>,
    /// Overwrite the file of --compare
    #[arg(long, short, requires = "compare")]
    pub force: bool,
    /// Write charts as SVG into DIR, made if it is missing; those of the same names are replaced
    #[arg(long, value_name = "DIR", conflicts_with = "list")]
    pub plots: Option<PathBuf>,
    /// Give a parameter of the experiments another value, such as clients=4; may be repeated
    ///
    /// What comes out is then no reproduction: this is for searching.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with_all = ["list", "compare"])]
    pub set: Vec<String>,
    /// A file, folder, image or device to measure as well, where an experiment is about real data
    #[arg(long, value_name = "PATH")]
    pub data: Vec<PathBuf>,
    /// Worker threads; 0 means one per core
    #[arg(long, value_name = "COUNT", env = "ONEFOLD_THREADS", hide_env = true)]
    #[arg(default_value_t = 0)]
    pub threads: usize,
}
