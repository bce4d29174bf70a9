//! PLC-Cache: its tables and figures, run on workloads that stand in for its authors' data.
//! Room: onefold-lab.
//! Source: [plc-cache] sec. III to V. What is stored and read is the simulator's own workload:
//! files by Zipf over containers that they share. Volumes are those of 16 GiB after deduplication;
//! smaller runs shrink data and reads alike, and bytes are multiplied back.

pub mod amplification;
pub mod arithmetic;
pub mod overall;
pub mod quadrants;
pub mod sweeps;

use onefold_cache::simulate::{Devices, QuadrantRules, Run, run_one};
use onefold_cache::trace::Trace;
use onefold_cache::workload::WorkloadSpec;
use onefold_cache::{Choice, simulate::Plan};

use crate::error::{LabError, Result};
use crate::plot::{Chart, Series};
use crate::row::Row;
use crate::settings::Settings;

/// Data that the printed volumes belong to, in MiB.
const DATA_MIB: f64 = 16_384.0;

/// Workloads that stand in for the authors' data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Which containers files share says nothing about popularity.
    Uncorrelated,
    /// Some containers are shared by very many files.
    Corr1,
    /// The same, so much that LRU hits as often as printed.
    Calibrated,
}

/// All of them, the one that printed numbers stand beside last.
pub const FAMILIES: [Family; 3] = [Family::Uncorrelated, Family::Corr1, Family::Calibrated];

impl Family {
    const fn name(self) -> &'static str {
        match self {
            Self::Uncorrelated => "uncorrelated",
            Self::Corr1 => "corr1",
            Self::Calibrated => "calibrated",
        }
    }

    fn workload(self, settings: &Settings<'_>) -> Result<WorkloadSpec> {
        let plain = WorkloadSpec {
            data_mib: settings.number("data_mib")?,
            seed: settings.number("seed")?,
            ..WorkloadSpec::default()
        };
        let exponent = match self {
            Self::Uncorrelated => return Ok(plain),
            Self::Corr1 => settings.real("corr1_exponent")?,
            Self::Calibrated => settings.real("sharing_exponent")?,
        };
        Ok(shared(plain, exponent))
    }
}

/// Files that all share places, drawn by Zipf.
fn shared(plain: WorkloadSpec, sharing_exponent: f64) -> WorkloadSpec {
    WorkloadSpec { sharing: 1.0, shared_kib: 4_096, sharing_exponent, ..plain }
}

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volume {
    /// What Fig. 7 and 8 imply together.
    Implied,
    /// What Sec. V and Fig. 9 state.
    Stated,
}

/// Both.
pub const VOLUMES: [Volume; 2] = [Volume::Implied, Volume::Stated];

impl Volume {
    const fn name(self) -> &'static str {
        match self {
            Self::Implied => "128 GB",
            Self::Stated => "520 GB",
        }
    }
}

/// Policies at sizes over one workload.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where the rows come from: family and volume.
    pub label: String,
    /// What is read.
    pub workload: WorkloadSpec,
    /// Policies, as the simulator names them.
    pub policies: Vec<String>,
    /// Sizes of the cache, as shares of the data.
    pub sizes: Vec<f64>,
}

impl Job {
    /// A family with so much read.
    pub fn new(
        settings: &Settings<'_>,
        family: Family,
        volume: Volume,
        policies: &[&str],
        sizes: &[f64],
    ) -> Result<Self> {
        let read_gib = settings.real(match volume {
            Volume::Implied => "read_implied_gib",
            Volume::Stated => "read_stated_gib",
        })?;
        let plain = family.workload(settings)?;
        let mut workload = WorkloadSpec { read_gib, ..plain };
        // Where popularity is what is varied, there is no single exponent.
        if settings.spec.parameters.iter().any(|parameter| parameter.name == "zipf_exponent") {
            workload.zipf_exponent = settings.real("zipf_exponent")?;
        }
        Ok(Self {
            label: format!("{}, {}", family.name(), volume.name()),
            workload,
            policies: policies.iter().map(|&policy| policy.to_owned()).collect(),
            sizes: sizes.to_vec(),
        })
    }
}

/// What a job came to.
#[derive(Clone, Debug)]
pub struct Done {
    /// Policy by policy, size by size.
    pub runs: Vec<Run>,
    /// The regime.
    pub reads_per_container: f64,
}

impl Done {
    /// The regime, for a note.
    pub fn regime(&self) -> String {
        format!("{:.1} reads per container", self.reads_per_container)
    }
}

/// Whatever a part of the simulator says against its parameters.
fn refused(settings: &Settings<'_>, error: impl std::fmt::Display) -> LabError {
    LabError::Refused { id: settings.id.to_owned(), problem: error.to_string() }
}

/// Runs all jobs on all threads: traces first, then every policy of every size on its own.
pub fn run_all(settings: &Settings<'_>, jobs: &[Job]) -> Result<Vec<Done>> {
    let traces = settings.sweep(jobs, |job| job.workload.trace());
    let traces: std::result::Result<Vec<Trace>, _> = traces.into_iter().collect();
    let traces = traces.map_err(|error| refused(settings, error))?;
    let mut points = Vec::new();
    for (job, trace) in jobs.iter().zip(&traces) {
        for text in &job.policies {
            let choice = Choice::parse(text).map_err(|error| refused(settings, error))?;
            points.extend(job.sizes.iter().map(|&size| (trace, choice.clone(), size)));
        }
    }
    let plan = plan(settings.number("seed")?);
    let runs =
        settings.sweep(&points, |(trace, choice, size)| run_one(trace, None, choice, *size, &plan));
    let mut runs = runs.into_iter();
    let mut done = Vec::with_capacity(jobs.len());
    for (job, trace) in jobs.iter().zip(&traces) {
        let of_job = runs.by_ref().take(job.policies.len() * job.sizes.len());
        let of_job: std::result::Result<Vec<Run>, _> = of_job.collect();
        let of_job = of_job.map_err(|error| refused(settings, error))?;
        done.push(Done { runs: of_job, reads_per_container: trace.reads_per_container() });
    }
    Ok(done)
}

/// The printed thresholds of the quadrants and the default devices.
pub(super) fn plan(seed: u64) -> Plan {
    Plan {
        policies: Vec::new(),
        sizes: Vec::new(),
        devices: Devices::default(),
        quadrants: QuadrantRules::default(),
        seed,
        threads: 1,
    }
}

/// GB written, of 16 GB of data.
fn written_gb(settings: &Settings<'_>, run: &Run) -> Result<f64> {
    let by = DATA_MIB / settings.number("data_mib")? as f64;
    Ok(run.written_bytes as f64 * by / f64::from(1 << 30))
}

/// A row of the tables.
struct Sheet<'a> {
    settings: &'a Settings<'a>,
    rows: Vec<Row>,
}

impl<'a> Sheet<'a> {
    const fn new(settings: &'a Settings<'a>) -> Self {
        Self { settings, rows: Vec::new() }
    }

    /// A number that is not printed, of a figure that may be.
    fn add(&mut self, place: &str, row: &str, column: &str, value: f64, unit: &str) -> &mut Row {
        let row = Row::new(self.settings.id, row, column, value, unit);
        self.rows.push(Row { place: place.to_owned(), ..row });
        self.rows.last_mut().expect("one was pushed")
    }

    /// A number beside the printed one of `printed`, under a row name of its own.
    fn beside(&mut self, printed: &str, column: &str, row: &str, value: f64) -> Result<&mut Row> {
        let found = self.settings.published.row(printed, column, value)?;
        self.rows.push(Row { row: row.to_owned(), ..found });
        Ok(self.rows.last_mut().expect("one was pushed"))
    }

    /// Latency, bytes written and hit rate of a run at a point of a sweep.
    fn triple(&mut self, places: [&str; 3], series: &str, at: &str, run: &Run) -> Result<()> {
        let written = written_gb(self.settings, run)?;
        let column = |what: &str| format!("{what} at {at}");
        self.add(places[0], series, &column("latency"), run.latency.file_ms, "ms");
        self.add(places[1], series, &column("ssd_written"), written, "GB");
        self.add(places[2], series, &column("hit_rate"), run.hit_rate * 100.0, "%");
        Ok(())
    }

    /// Gives the same note to all rows from `from` on that have none.
    fn note_from(&mut self, from: usize, note: &str) {
        for row in self.rows[from..].iter_mut().filter(|row| row.note.is_empty()) {
            note.clone_into(&mut row.note);
        }
    }
}

/// Lines of a figure: one per row name, over what stands after ` at ` in the column.
fn lines(rows: &[Row], place: &str, title: &str, x_label: &str, y_label: &str) -> Chart {
    let mut chart = Chart::lines(&format!("{place}: {title}"), x_label, y_label);
    for row in rows.iter().filter(|row| row.place == place) {
        let x = row.column.split_once(" at ").and_then(|(_, at)| at.split(' ').next());
        if let (Some(x), Some(y)) = (x.and_then(|x| x.parse().ok()), row.measured) {
            Series::of(&mut chart, &row.row).points.push((x, y));
        }
    }
    chart
}

/// Moves what is printed behind what was measured.
fn printed_last(chart: &mut Chart) {
    chart.series.sort_by_key(|series| series.name.ends_with("printed"));
}
