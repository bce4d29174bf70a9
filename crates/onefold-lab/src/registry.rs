//! The one table of experiments.
//! Room: onefold-lab.
//! To add one: write `experiments/<paper>/<table or figure>/{spec,published}.toml`, a function
//! `fn(&Settings) -> Result<Vec<Row>>` in `src/experiments/`, and a line below.
//! Invariants: (1) an id is its folder  (2) every published number of an experiment appears in
//! its rows, measured or with the reason why not (a test).

use crate::error::{LabError, Result};
use crate::experiments as e;
use crate::plot::Chart;
use crate::report;
use crate::row::Row;
use crate::settings::{Options, Settings};

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name, which is its folder: `<paper>/<table or figure>`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Its `spec.toml`.
    pub spec: &'static str,
    /// Its `published.toml`.
    pub published: &'static str,
    /// What runs it.
    pub run: fn(&Settings<'_>) -> Result<Vec<Row>>,
    /// What draws it; nothing for most tables.
    pub charts: &'static [Drawing],
}

/// What draws a chart from an experiment's rows, and the name of the file; of a single chart the
/// name is empty, and the file is called like the experiment.
pub type Drawing = (&'static str, fn(&[Row]) -> Chart);

macro_rules! experiment {
    ($id:literal, $title:literal, $run:path, None) => {
        experiment!($id, $title, $run, charts: &[])
    };
    ($id:literal, $title:literal, $run:path, Some($chart:path)) => {
        experiment!($id, $title, $run, charts: &[("", $chart)])
    };
    ($id:literal, $title:literal, $run:path, charts: $charts:expr) => {
        Experiment {
            id: $id,
            title: $title,
            spec: include_str!(concat!("../../../experiments/", $id, "/spec.toml")),
            published: include_str!(concat!("../../../experiments/", $id, "/published.toml")),
            run: $run,
            charts: $charts,
        }
    };
}

/// Every experiment, in the order of the page.
pub const EXPERIMENTS: &[Experiment] = &[
    experiment!(
        "ses-dedup/arithmetic",
        "What follows from the printed parameters alone",
        e::ses_arithmetic::run,
        None
    ),
    experiment!(
        "ses-dedup/fig-1",
        "Redundancy by chunk size",
        e::ses_fig1::run,
        Some(e::ses_fig1::chart)
    ),
    experiment!(
        "ses-dedup/fig-2",
        "Cost of SHA-256 on the write path",
        e::ses_fig2::run,
        Some(e::ses_fig2::chart)
    ),
    experiment!(
        "ses-dedup/fig-4",
        "Gain by size of the fingerprint table",
        e::ses_fig4::run,
        Some(e::ses_fig4::chart)
    ),
    experiment!("ses-dedup/fig-5", "Found inline by parity and by SHA-256", e::ses_fig5::run, None),
    experiment!("ses-dedup/table-3", "Skew of the generated data", e::ses_table3::run, None),
    experiment!(
        "ses-dedup/table-4",
        "Duplicates found inline and offline",
        e::ses_table4::run,
        Some(e::ses_table4::chart)
    ),
    experiment!("park-shin/fig-3", "Write response", e::park_shin::fig3, Some(e::park_shin::chart)),
    experiment!(
        "park-shin/fig-4",
        "Offline overhead",
        e::park_shin::fig4,
        Some(e::park_shin::chart)
    ),
    experiment!(
        "park-shin/fig-5",
        "Page copies in collection",
        e::park_shin::fig5,
        Some(e::park_shin::chart)
    ),
    experiment!(
        "plc-cache/arithmetic",
        "PLC-Cache: what is stated, and what follows from it alone",
        e::plc::arithmetic::run,
        None
    ),
    experiment!("plc-cache/table-1", "Lifetime of the SSD", e::plc::arithmetic::table_1, None),
    experiment!(
        "plc-cache/fig-3",
        "Quadrants of what classical policies write",
        e::plc::quadrants::fig_3,
        Some(e::plc::quadrants::chart_3)
    ),
    experiment!(
        "plc-cache/fig-6-8",
        "Latency, bytes written and hit rate at 20 %",
        e::plc::overall::run,
        charts: e::plc::overall::CHARTS
    ),
    experiment!(
        "plc-cache/fig-9",
        "Quadrants of what LRU and PLC write at 10 %",
        e::plc::quadrants::fig_9,
        Some(e::plc::quadrants::chart_9)
    ),
    experiment!(
        "plc-cache/fig-10-12",
        "Size of the cache",
        e::plc::sweeps::sizes,
        charts: e::plc::sweeps::SIZES
    ),
    experiment!(
        "plc-cache/fig-13-15",
        "Popularity of files",
        e::plc::sweeps::popularity,
        charts: e::plc::sweeps::POPULARITY
    ),
    experiment!(
        "plc-cache/fig-16-18",
        "Size of a container",
        e::plc::sweeps::containers,
        charts: e::plc::sweeps::CONTAINERS
    ),
    experiment!(
        "plc-cache/fig-19-21",
        "Threshold of the popularity filter",
        e::plc::sweeps::thresholds,
        charts: e::plc::sweeps::THRESHOLDS
    ),
    experiment!(
        "plc-cache/fig-22-24",
        "Delay of the eviction",
        e::plc::sweeps::delays,
        charts: e::plc::sweeps::DELAYS
    ),
    experiment!(
        "plc-cache/write-amplification",
        "Write amplification inside the SSD by unit of caching",
        e::plc::amplification::run,
        Some(e::plc::amplification::chart)
    ),
    experiment!(
        "beyond/policies",
        "Who gains where, and break-even duplicate ratios",
        e::beyond_policies::run,
        None
    ),
    experiment!(
        "beyond/gleaner",
        "Every policy in the same memory, with little idle time",
        e::beyond_gleaner::run,
        None
    ),
    experiment!("beyond/lifetime", "Life of the drive", e::beyond_gleaner::lifetime, None),
    experiment!(
        "beyond/collisions",
        "Near-duplicate pages that share a shortened fingerprint",
        e::collisions::run,
        Some(e::collisions::chart)
    ),
    experiment!(
        "beyond/cache-frontier",
        "Hit rate of a read cache within a budget of flash writes",
        e::cache_frontier::run,
        Some(e::cache_frontier::chart)
    ),
];

/// What came out of an experiment.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// Its rows.
    pub rows: Vec<Row>,
}

impl Outcome {
    /// The charts, each with the name of its file, without extension.
    pub fn charts(&self) -> Vec<(String, Chart)> {
        let own = report::slug(self.experiment.id);
        let draw = |(name, chart): &Drawing| {
            let name = if name.is_empty() { own.clone() } else { (*name).to_owned() };
            (name, chart(&self.rows))
        };
        self.experiment.charts.iter().map(draw).collect()
    }
}

impl Experiment {
    /// Runs it.
    pub fn run(&'static self, options: &Options<'_>) -> Result<Outcome> {
        let settings = Settings::new(self, options)?;
        Ok(Outcome { experiment: self, rows: (self.run)(&settings)? })
    }

    /// The paper's part of the id.
    pub fn paper(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(paper, _)| paper)
    }
}

/// The experiments that a name selects: one id, or all whose ids begin with it, such as a paper's.
pub fn find(name: &str) -> Result<Vec<&'static Experiment>> {
    let exact = EXPERIMENTS.iter().any(|experiment| experiment.id == name);
    let selected = |experiment: &&Experiment| {
        if exact { experiment.id == name } else { experiment.id.starts_with(name) }
    };
    let found: Vec<_> = EXPERIMENTS.iter().filter(selected).collect();
    if !found.is_empty() && !name.is_empty() {
        return Ok(found);
    }
    let mut papers: Vec<&str> = EXPERIMENTS.iter().map(Experiment::paper).collect();
    papers.dedup();
    let ids = EXPERIMENTS.iter().map(|experiment| experiment.id);
    Err(LabError::Unknown {
        got: name.to_owned(),
        papers: papers.join(", "),
        nearest: onefold_block::nearest(name, papers.iter().copied().chain(ids)),
    })
}
