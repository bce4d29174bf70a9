//! What is run for each table and figure.
//! Room: onefold-cache.
//! Regimes: 16 GiB after deduplication, because the seed's 3.18 GB written can fill a cache of 20 %
//! only of less than that; 128 GB read where its writes and hit rates imply that volume (Fig. 7),
//! 520 GB where they imply that (Fig. 9), and both in turn where it contradicts itself.

use super::Row;
use super::published::{Published, PublishedError};
use crate::options::OptionError;
use crate::registry::Choice;
use crate::simulate::{Devices, Plan, QuadrantRules, Run, lifetime_days, simulate};
use crate::workload::WorkloadSpec;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A sixteenth of the data and of the reads: the same reads per container, in seconds.
    Quick,
    /// The seed's volumes, three families and both regimes.
    Full,
}

/// Why an experiment could not be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The published figures.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// A policy.
    #[error(transparent)]
    Policy(#[from] OptionError),
    /// A workload.
    #[error(transparent)]
    Workload(#[from] crate::workload::WorkloadError),
}

type Rows = Result<(), ExperimentError>;

/// Data after deduplication, MiB, at full scale.
const DATA_MIB: u64 = 16 << 10;
/// Volume that Fig. 7 and 8 imply together, GB.
const READ_IMPLIED: f64 = 128.0;

/// Families that stand in for the data of the seed's authors: name and workload.
fn families(scale: Scale) -> Vec<(&'static str, WorkloadSpec)> {
    let plain = WorkloadSpec::default();
    let shared = |sharing_exponent| WorkloadSpec {
        sharing: 1.0,
        shared_kib: 4_096,
        sharing_exponent,
        ..plain
    };
    let mut families = vec![("uncorrelated", plain), ("corr1", shared(1.0))];
    if scale == Scale::Full {
        families.insert(1, ("corr.5", shared(0.5)));
    }
    families
}

struct Lab<'a> {
    published: &'a Published,
    scale: Scale,
    seed: u64,
    rows: Vec<Row>,
}

/// All rows, in the order of the figures.
pub fn all(published: &Published, scale: Scale, seed: u64) -> Result<Vec<Row>, ExperimentError> {
    let mut lab = Lab { published, scale, seed, rows: Vec::new() };
    lab.arithmetic()?;
    for (name, spec) in families(scale) {
        lab.figure_3(name, spec)?;
        for read in [READ_IMPLIED, published.setting("Sec V", "read_volume", "")?] {
            lab.figures_6_to_8(name, spec, read)?;
            lab.figure_9(name, spec, read)?;
            lab.figures_10_to_12(name, spec, read)?;
        }
        lab.figures_13_to_15(name, spec)?;
        lab.figures_16_to_18(name, spec)?;
        lab.sweep(name, spec, "threshold", ["Fig 19", "Fig 20", "Fig 21"])?;
        lab.sweep(name, spec, "delay", ["Fig 22", "Fig 23", "Fig 24"])?;
    }
    Ok(lab.rows)
}

/// A figure that is measured: place, row, column, value, unit.
type Measured<'a> = (&'a str, &'a str, &'a str, f64, &'a str);

impl Lab<'_> {
    fn row(&mut self, (place, row, column, value, unit): Measured<'_>, note: &str, kind: &str) {
        let published = self.published.find(place, row, column);
        self.rows.push(Row {
            id: published.map_or_else(String::new, |figure| figure.id.clone()),
            place: place.to_owned(),
            row: row.to_owned(),
            column: column.to_owned(),
            published: published.map(|figure| figure.value),
            measured: Some(value),
            unit: unit.to_owned(),
            kind: kind.to_owned(),
            note: note.to_owned(),
        });
    }

    fn result(&mut self, measured: Measured<'_>, note: &str) {
        self.row(measured, note, "result");
    }

    /// Data and reads of a full run, shrunk together in a quick one.
    fn spec(&self, spec: WorkloadSpec, read_gib: f64) -> WorkloadSpec {
        let by = self.factor();
        let data_mib = (DATA_MIB as f64 / by) as u64;
        WorkloadSpec { data_mib, read_gib: read_gib / by, seed: self.seed, ..spec }
    }

    /// By how much a quick run is smaller; volumes are multiplied by it again.
    const fn factor(&self) -> f64 {
        match self.scale {
            Scale::Quick => 16.0,
            Scale::Full => 1.0,
        }
    }

    fn run(
        &self,
        spec: WorkloadSpec,
        policies: &[&str],
        sizes: &[f64],
    ) -> Result<(Vec<Run>, String), ExperimentError> {
        let threshold = |column| self.published.setting("Sec III", "quadrants", column);
        let plan = Plan {
            policies: policies.iter().map(|text| Choice::parse(text)).collect::<Result<_, _>>()?,
            sizes: sizes.to_vec(),
            devices: Devices::default(),
            quadrants: QuadrantRules {
                access_threshold: threshold("access_threshold")? as u32,
                repeat_threshold: threshold("repeat_threshold")? as u32,
            },
            seed: self.seed,
            threads: 0,
        };
        let outcomes = simulate(&spec.trace()?, &plan)?;
        let regime = format!("{:.1} reads per container", outcomes.reads_per_container);
        Ok((outcomes.runs, regime))
    }

    fn written_gb(&self, run: &Run) -> f64 {
        run.written_bytes as f64 * self.factor() / f64::from(1 << 30)
    }

    fn default_size(&self) -> Result<f64, ExperimentError> {
        Ok(self.published.setting("Sec V", "cache_ratio_default", "")? / 100.0)
    }

    /// What follows from stated settings alone.
    fn arithmetic(&mut self) -> Rows {
        let tbw = self.published.setting("Sec I", "Intel 520 60GB", "TBW")?;
        for policy in ["FIFO", "LRU", "LFU"] {
            let speed = self.published.setting("Table 1", policy, "write_speed")?;
            let days = lifetime_days(tbw, speed);
            let note = "TBW over the published speed, binary units";
            self.row(("Table 1", policy, "lifetime", days, "days"), note, "arithmetic");
        }
        let petabytes = self.published.setting("Sec I", "Intel 910 400GB", "TBW")?;
        let speed = petabytes * f64::from(1 << 30) / (5.0 * 365.0 * 86_400.0);
        let note = "TBW over five years, binary units";
        self.row(("Sec I", "Intel 910", "max_avg_write", speed, "MB/s"), note, "arithmetic");
        let containers = (4_u64 << 40) / (2 << 20);
        let metadata = (containers * 12) as f64 / f64::from(1 << 20);
        let note = "4 TB in containers of 2 MB, 12 bytes each";
        self.row(("Sec IV-B", "metadata", "4TB/2MB", metadata, "MB"), note, "arithmetic");
        Ok(())
    }

    fn figure_3(&mut self, family: &str, spec: WorkloadSpec) -> Rows {
        let read = self.published.setting("Sec V", "read_volume", "")?;
        let (runs, regime) = self.run(self.spec(spec, read), &["fifo", "lru", "lfu"], &[0.05])?;
        let most = runs.iter().map(|run| run.quadrants.shares()[0]).fold(0.0, f64::max) * 100.0;
        let note = format!("{family}, 5 % cache, {regime}");
        self.result(("Fig 3 text", "FIFO/LRU/LFU", "qa_share_max", most, "%"), &note);
        for run in &runs {
            let [qa, qb, qc, qd] = run.quadrants.shares().map(|share| share * 100.0);
            for (column, value) in [("QA", qa), ("QB", qb), ("QC+QD", qc + qd)] {
                self.result(("Fig 3", &run.policy, column, value, "%"), &note);
            }
            let speed = run.latency.write_mib_s;
            let note = format!("{note}; speed of a modelled disk and SSD");
            let name = run.policy.to_uppercase();
            self.result(("Table 1", &name, "write_speed", speed, "MB/s"), &note);
        }
        Ok(())
    }

    fn figures_6_to_8(&mut self, family: &str, spec: WorkloadSpec, read: f64) -> Rows {
        let policies = ["fifo", "lru", "lfu", "plc", "plc:rules=literal", "toll"];
        let (runs, regime) = self.run(self.spec(spec, read), &policies, &[self.default_size()?])?;
        let note = format!("{family}, 20 % cache, {read} GB read, {regime}");
        let plc = &runs[3];
        let improved = |than: f64| (1.0 - plc.latency.file_ms / than) * 100.0;
        let hdd = improved(plc.latency.hdd_only_ms);
        self.result(("Fig 6", "HDD-only", "plc_latency_improvement", hdd, "%"), &note);
        let names = ["FIFO", "LRU", "LFU", "PLC", "PLC literal", "Toll"];
        for (run, name) in runs.iter().zip(names) {
            self.result(("Fig 6", name, "latency", run.latency.file_ms, "ms"), &note);
            if run.policy.len() <= 4 && !run.policy.starts_with("plc") && run.policy != "toll" {
                let value = improved(run.latency.file_ms);
                self.result(("Fig 6", name, "plc_latency_improvement", value, "%"), &note);
            }
            self.result(("Fig 7", name, "ssd_written", self.written_gb(run), "GB"), &note);
            self.result(("Fig 8", name, "hit_rate", run.hit_rate * 100.0, "%"), &note);
        }
        let classical = &runs[..3];
        let mean = |of: &dyn Fn(&Run) -> f64| classical.iter().map(of).sum::<f64>() / 3.0;
        let latency = mean(&|run| improved(run.latency.file_ms));
        let written = mean(&|run| run.written_bytes as f64 / plc.written_bytes.max(1) as f64);
        let hits = mean(&|run| (plc.hit_rate / run.hit_rate - 1.0) * 100.0);
        let row = ("Fig 6", "mean classical", "plc_latency_improvement", latency, "%");
        self.result(row, &note);
        self.result(("abstract", "mean", "write_reduction", written, "x"), &note);
        self.result(("Fig 8", "mean", "hit_improvement_relative", hits, "%"), &note);
        Ok(())
    }

    fn figure_9(&mut self, family: &str, spec: WorkloadSpec, read: f64) -> Rows {
        let policies = ["lru", "plc", "plc:rules=literal"];
        let (runs, regime) = self.run(self.spec(spec, read), &policies, &[0.1])?;
        let note = format!("{family}, 10 % cache, {read} GB read, {regime}");
        for (run, name) in runs.iter().zip(["LRU", "PLC", "PLC literal"]) {
            let [qa, qb, qc, qd] = run.quadrants.shares().map(|share| share * 100.0);
            self.result(("Fig 9", name, "written", self.written_gb(run), "GB"), &note);
            for (column, value) in [("QA", qa), ("QB", qb), ("QC+QD", qc + qd)] {
                self.result(("Fig 9", name, column, value, "%"), &note);
            }
        }
        for (run, name) in runs[1..].iter().zip(["PLC vs LRU", "PLC literal vs LRU"]) {
            let factor = runs[0].written_bytes as f64 / run.written_bytes.max(1) as f64;
            let saved = (1.0 - 1.0 / factor) * 100.0;
            self.result(("Fig 9", name, "reduction", saved, "%"), &note);
            self.result(("Fig 9", name, "factor", factor, "x"), &note);
        }
        Ok(())
    }

    fn figures_10_to_12(&mut self, family: &str, spec: WorkloadSpec, read: f64) -> Rows {
        let sizes = [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4];
        let (runs, regime) = self.run(self.spec(spec, read), &["lru", "plc"], &sizes)?;
        let note = format!("{family}, {read} GB read, {regime}");
        let places = ["Fig 10", "Fig 11", "Fig 12"];
        for run in &runs {
            self.triple(places, run, &format!("{:.0} % cache", run.size * 100.0), &note);
        }
        let (lru, plc) = runs.split_at(sizes.len());
        let better = lru.iter().zip(plc).take_while(|(lru, plc)| plc.hit_rate >= lru.hit_rate);
        let crossover = better.last().map_or(0.0, |(_, plc)| plc.size * 100.0);
        let note = format!("{note}; largest size up to which PLC hits as often, 0 if at none");
        self.result(("Fig 12 text", "crossover", "cache_ratio", crossover, "%"), &note);
        Ok(())
    }

    /// Latency, bytes written and hit rate.
    fn triple(&mut self, places: [&str; 3], run: &Run, row: &str, note: &str) {
        let row = format!("{} {row}", run.policy);
        self.result((places[0], &row, "latency", run.latency.file_ms, "ms"), note);
        self.result((places[1], &row, "ssd_written", self.written_gb(run), "GB"), note);
        self.result((places[2], &row, "hit_rate", run.hit_rate * 100.0, "%"), note);
    }

    fn figures_13_to_15(&mut self, family: &str, spec: WorkloadSpec) -> Rows {
        for alpha in [0.2, 0.47, 0.7, 0.9] {
            for (reading, exponent) in [("formula 1 - a", 1.0 - alpha), ("text a", alpha)] {
                let spec = WorkloadSpec { zipf_exponent: exponent, ..spec };
                let size = [self.default_size()?];
                let (runs, regime) =
                    self.run(self.spec(spec, READ_IMPLIED), &["lru", "plc"], &size)?;
                let note = format!("{family}, exponent {exponent:.2} by the {reading}, {regime}");
                let row = format!("alpha {alpha}");
                for run in &runs {
                    self.triple(["Fig 13", "Fig 14", "Fig 15"], run, &row, &note);
                }
            }
        }
        Ok(())
    }

    fn figures_16_to_18(&mut self, family: &str, spec: WorkloadSpec) -> Rows {
        let (mut least, mut most) = (100.0_f64, 0.0_f64);
        for container_kib in [128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384] {
            let spec = WorkloadSpec { container_kib, ..self.spec(spec, READ_IMPLIED) };
            let (runs, regime) = self.run(spec, &["lru", "plc"], &[self.default_size()?])?;
            let note = format!("{family}, {READ_IMPLIED} GB of containers read, {regime}");
            for run in &runs {
                let row = format!("{container_kib} KiB");
                self.triple(["Fig 16", "Fig 17", "Fig 18"], run, &row, &note);
                if container_kib < 4_096 {
                    least = least.min(run.hit_rate * 100.0);
                    most = most.max(run.hit_rate * 100.0);
                }
            }
        }
        let note = format!("{family}, containers below 4 MiB, {READ_IMPLIED} GB read");
        self.result(("Fig 18 text", "hit_rate", "min", least, "%"), &note);
        self.result(("Fig 18 text", "hit_rate", "max", most, "%"), &note);
        Ok(())
    }

    /// PLC over a threshold from 0 to 14.
    fn sweep(&mut self, family: &str, spec: WorkloadSpec, what: &str, places: [&str; 3]) -> Rows {
        let values = [0, 2, 4, 6, 8, 10, 12, 14];
        let texts: Vec<String> = values.iter().map(|value| format!("plc:{what}={value}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let spec = self.spec(spec, READ_IMPLIED);
        let (runs, regime) = self.run(spec, &texts, &[self.default_size()?])?;
        let note = format!("{family}, 20 % cache, {READ_IMPLIED} GB read, {regime}");
        for run in &runs {
            self.triple(places, run, "", &note);
        }
        if what == "threshold" {
            let (at_4, at_14) = (&runs[2], &runs[7]);
            let hits = |run: &Run| run.hit_rate * 100.0;
            self.result(("Fig 21 text", "threshold 4", "hit_rate", hits(at_4), "%"), &note);
            self.result(("Fig 21 text", "threshold 14", "hit_rate", hits(at_14), "%"), &note);
            let lost = (1.0 - at_14.hit_rate / at_4.hit_rate) * 100.0;
            let row = ("Fig 21 text", "threshold 4->14", "hit_reduction", lost, "%");
            self.result(row, &note);
            let saved = at_14.written_bytes as f64 / at_4.written_bytes.max(1) as f64;
            let saved = (1.0 - saved) * 100.0;
            let row = ("Fig 20 text", "threshold 4->14", "write_reduction", saved, "%");
            self.result(row, &note);
        }
        Ok(())
    }
}
