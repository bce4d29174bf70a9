//! The one table of experiments.
//! Room: onefold-lab.
//! To add one: write `experiments/<paper>/<table or figure>/{spec,published}.toml`, a function
//! `fn(&Settings, &mut Data) -> Result<()>` in `src/experiments/`, and a line below. Its charts and
//! the kinds of its numbers are in its spec.
//! Invariants: (1) an id is its folder  (2) every published number of an experiment appears in
//! what it finds, measured or with the reason why not.

use serde::Serialize;

use crate::error::{LabError, Result};
use crate::experiments as e;
use crate::judged::Kind;
use crate::plot::{Chart, Drawing};
use crate::report;
use crate::row::{Row, rows};
use crate::series::{Claim, Data, Printed, Series};
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
    pub run: fn(&Settings<'_>, &mut Data) -> Result<()>,
}

/// `experiment!(id, title, function)`
macro_rules! experiment {
    ($id:literal, $title:literal, $run:path) => {
        Experiment {
            id: $id,
            title: $title,
            spec: include_str!(concat!("../../../experiments/", $id, "/spec.toml")),
            published: include_str!(concat!("../../../experiments/", $id, "/published.toml")),
            run: $run,
        }
    };
}

/// Every experiment, in the order of the page.
pub const EXPERIMENTS: &[Experiment] = &[
    experiment!(
        "ses-dedup/arithmetic",
        "What follows from the printed parameters alone",
        e::ses_arithmetic::run
    ),
    experiment!("ses-dedup/fig-1", "Redundancy by chunk size", e::ses_fig1::run),
    experiment!("ses-dedup/fig-2", "Cost of SHA-256 on the write path", e::ses_fig2::run),
    experiment!("ses-dedup/fig-4", "Gain by size of the fingerprint table", e::ses_fig4::run),
    experiment!("ses-dedup/fig-5", "Found inline by parity and by SHA-256", e::ses_fig5::run),
    experiment!("ses-dedup/table-3", "Skew of the generated data", e::ses_table3::run),
    experiment!("ses-dedup/table-4", "Duplicates found inline and offline", e::ses_table4::run),
    experiment!("park-shin/fig-3", "Write response", e::park_shin::fig3),
    experiment!("park-shin/fig-4", "Offline overhead", e::park_shin::fig4),
    experiment!("park-shin/fig-5", "Page copies in collection", e::park_shin::fig5),
    experiment!(
        "plc-cache/arithmetic",
        "PLC-Cache: what is stated, and what follows from it alone",
        e::plc::arithmetic::run
    ),
    experiment!("plc-cache/table-1", "Lifetime of the SSD", e::plc::arithmetic::table_1),
    experiment!(
        "plc-cache/fig-3",
        "Quadrants of what classical policies write",
        e::plc::quadrants::fig_3
    ),
    experiment!(
        "plc-cache/fig-6-8",
        "Latency, bytes written and hit rate at 20 %",
        e::plc::overall::run
    ),
    experiment!(
        "plc-cache/fig-9",
        "Quadrants of what LRU and PLC write at 10 %",
        e::plc::quadrants::fig_9
    ),
    experiment!("plc-cache/fig-10-12", "Size of the cache", e::plc::sweeps::sizes),
    experiment!("plc-cache/fig-13-15", "Popularity of files", e::plc::sweeps::popularity),
    experiment!("plc-cache/fig-16-18", "Size of a container", e::plc::sweeps::containers),
    experiment!(
        "plc-cache/fig-19-21",
        "Threshold of the popularity filter",
        e::plc::sweeps::thresholds
    ),
    experiment!("plc-cache/fig-22-24", "Delay of the eviction", e::plc::sweeps::delays),
    experiment!(
        "plc-cache/write-amplification",
        "Write amplification inside the SSD by unit of caching",
        e::plc::amplification::run
    ),
    experiment!("cal17/server", "Processors and power at 4.5 GB/s", e::array::cal17::run),
    experiment!(
        "cal17/intra-ssd",
        "Duplicates that drives find which deduplicate alone",
        e::array::intra_ssd::run
    ),
    experiment!("cidr/profile", "What 24 cores of software work on", e::array::profile::run),
    experiment!("cidr/one-engine", "One engine beside 24 cores", e::array::one_engine::run),
    experiment!("cidr/scaling", "Engines beside processors", e::array::scaling::run),
    experiment!("cidr/goals", "Design goals and key ideas, on and off", e::array::goals::run),
    experiment!(
        "fidr/chunk-size",
        "What a small write costs under large chunks",
        e::array::chunk_size::run
    ),
    experiment!("fidr/bottlenecks", "What stops CIDR+", e::array::bottlenecks::run),
    experiment!("fidr/scaling", "FIDR beside CIDR+", e::array::fidr_scaling::run),
    experiment!("fidr/cost", "Cost by capacity", e::array::cost::run),
    experiment!(
        "beyond/policies",
        "Who gains where, and break-even duplicate ratios",
        e::beyond_policies::run
    ),
    experiment!("beyond/gleaner", "Every policy in the same memory", e::beyond_gleaner::run),
    experiment!(
        "beyond/gleaner-hostile",
        "gleaner where it is meant to lose",
        e::beyond_gleaner_hostile::run
    ),
    experiment!(
        "beyond/compression",
        "Compressing before the scrambler and behind it, beside deduplication",
        e::beyond_compression::run
    ),
    experiment!("beyond/codeword", "Deduplication by codeword", e::beyond_codeword::run),
    experiment!(
        "beyond/host-cost",
        "The host's scrambler beside the drive's correction",
        e::beyond_host_cost::run
    ),
    experiment!(
        "beyond/idle-hint",
        "Idle work by a timer and by the host's word",
        e::beyond_idle_hint::run
    ),
    experiment!(
        "beyond/plain-patterns",
        "Plain pages apart from their like",
        e::beyond_plain_patterns::run
    ),
    experiment!(
        "beyond/software-today",
        "The talk's throughputs without an engine",
        e::array::software_today::run
    ),
    experiment!(
        "beyond/table-index",
        "Hooks and directories beside a table of buckets",
        e::array::table_index::run
    ),
    experiment!(
        "beyond/where",
        "Where to deduplicate: drives, server or cache",
        e::array::whereabouts::run
    ),
    experiment!("beyond/lifetime", "Life of the drive", e::beyond_lifetime::run),
    experiment!(
        "beyond/collisions",
        "Near-duplicate pages that share a shortened fingerprint",
        e::collisions::run
    ),
    experiment!(
        "beyond/cache-frontier",
        "Hit rate of a read cache within a budget of flash writes",
        e::cache_frontier::run
    ),
    experiment!(
        "beyond/cache-wear",
        "Write amplification inside a drive below a flash cache",
        e::beyond_cache_wear::run
    ),
];

/// What came out of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The experiment's name.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What it found.
    pub series: Vec<Series>,
    /// Whether what its pictures show is so.
    pub claims: Vec<Claim>,
    /// Published numbers that nothing stands beside: inputs, and what cannot be reproduced.
    pub unmeasured: Vec<Unmeasured>,
    #[serde(skip)]
    drawings: Vec<Drawing>,
}

/// A published number that nothing stands beside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unmeasured {
    /// Whether it is an input or cannot be reproduced.
    pub kind: Kind,
    /// The number.
    pub published: Printed,
}

impl Outcome {
    /// Every number with its series.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        rows(&self.series)
    }

    /// The paper's part of the id.
    pub fn paper(&self) -> &'static str {
        paper(self.id)
    }

    /// The charts, each with the name of its file, without extension.
    pub fn charts(&self) -> Vec<(String, Chart)> {
        let own = report::slug(self.id);
        let draw = |drawing: &Drawing| {
            let name = if drawing.file.is_empty() { own.clone() } else { drawing.file.clone() };
            (name, drawing.draw(&self.series))
        };
        self.drawings.iter().map(draw).collect()
    }
}

fn paper(id: &'static str) -> &'static str {
    id.split_once('/').map_or(id, |(paper, _)| paper)
}

impl Experiment {
    /// Runs it.
    pub fn run(&'static self, options: &Options<'_>) -> Result<Outcome> {
        let settings = Settings::new(self, options)?;
        let mut data = Data::new(&settings);
        (self.run)(&settings, &mut data)?;
        let unmeasured = data.rest()?.into_iter();
        let unmeasured = unmeasured.map(|(kind, published)| Unmeasured { kind, published });
        Ok(Outcome {
            id: self.id,
            title: self.title,
            unmeasured: unmeasured.collect(),
            series: data.series,
            claims: data.claims,
            drawings: settings.spec.charts,
        })
    }

    /// The paper's part of the id.
    pub fn paper(&self) -> &'static str {
        paper(self.id)
    }
}

/// The experiments that a name selects: one id, or all whose ids begin with its words, such as a
/// paper's or its figures.
pub fn find(name: &str) -> Result<Vec<&'static Experiment>> {
    let exact = EXPERIMENTS.iter().any(|experiment| experiment.id == name);
    let begins = |id: &str| id.strip_prefix(name).is_some_and(|rest| rest.starts_with(['/', '-']));
    let selected = |experiment: &&Experiment| {
        if exact { experiment.id == name } else { begins(experiment.id) }
    };
    let found: Vec<_> = EXPERIMENTS.iter().filter(selected).collect();
    if !found.is_empty() {
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
