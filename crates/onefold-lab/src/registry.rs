//! The one table of experiments.
//! Room: onefold-lab.
//! To add one: write `experiments/<paper>/<table or figure>/{spec,published}.toml`, a function
//! `fn(&Settings) -> Result<Vec<Row>>` in `src/experiments/`, and a line below.
//! Invariants: (1) an id is its folder  (2) every published number of an experiment appears in
//! its rows, measured or with the reason why not (a test).

use crate::error::{LabError, Result};
use crate::experiments as e;
use crate::plot::Chart;
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
    /// What draws it; none for most tables.
    pub chart: Option<fn(&[Row]) -> Chart>,
}

macro_rules! experiment {
    ($id:literal, $title:literal, $run:path, $chart:expr) => {
        Experiment {
            id: $id,
            title: $title,
            spec: include_str!(concat!("../../../experiments/", $id, "/spec.toml")),
            published: include_str!(concat!("../../../experiments/", $id, "/published.toml")),
            run: $run,
            chart: $chart,
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
        None
    ),
    experiment!("park-shin/fig-3", "Write response", e::park_shin::fig3, None),
    experiment!("park-shin/fig-4", "Offline overhead", e::park_shin::fig4, None),
    experiment!("park-shin/fig-5", "Page copies in collection", e::park_shin::fig5, None),
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
    /// The chart, if there is one.
    pub fn chart(&self) -> Option<Chart> {
        self.experiment.chart.map(|chart| chart(&self.rows))
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

/// The experiments that a name selects: one id, or all of a paper.
pub fn find(name: &str) -> Result<Vec<&'static Experiment>> {
    let selected = |experiment: &&Experiment| experiment.id == name || experiment.paper() == name;
    let found: Vec<_> = EXPERIMENTS.iter().filter(selected).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let mut known: Vec<&str> = EXPERIMENTS.iter().map(Experiment::paper).collect();
    known.dedup();
    known.extend(EXPERIMENTS.iter().map(|experiment| experiment.id));
    Err(LabError::Unknown { got: name.to_owned(), known: known.join(", ") })
}
