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

use onefold_cache::simulate::{Devices, Run, run_one};
use onefold_cache::trace::Trace;
use onefold_cache::workload::WorkloadSpec;
use onefold_cache::{Choice, simulate::Plan};

use crate::error::{LabError, Result};
use crate::series::{Data, Line};
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
        let mut workload = match self {
            Self::Uncorrelated => plain,
            Self::Corr1 => shared(plain, settings.real("corr1_exponent")?),
            Self::Calibrated => shared(plain, settings.real("sharing_exponent")?),
        };
        for (name, value) in also(settings, "workload")? {
            set(settings, &mut workload, name, value)?;
        }
        Ok(workload)
    }
}

/// Parts of the simulator that a search can reach into.
const PARTS: [&str; 4] = ["workload", "hdd", "ssd", "plc"];

/// Settings of a part of the simulator that an experiment has on top of what it gives it: those of
/// its parameter `also` that begin with the part's name, where it has one.
fn also<'a>(settings: &'a Settings<'_>, part: &str) -> Result<Vec<(&'a str, &'a str)>> {
    let mut found = Vec::new();
    for assignment in settings.also()? {
        let split = assignment.split_once('=').and_then(|(key, value)| {
            let (of, name) = key.split_once('.')?;
            PARTS.contains(&of).then_some((of, name, value))
        });
        let expected = || refused(settings, format!("`{assignment}`: expected PART.NAME=VALUE"));
        let (of, name, value) = split.ok_or_else(expected)?;
        if of == part {
            found.push((name, value));
        }
    }
    Ok(found)
}

/// Sets one of them, or says what it takes.
fn set(
    settings: &Settings<'_>,
    part: &mut impl onefold_cache::options::Settings,
    name: &str,
    value: &str,
) -> Result<()> {
    match part.set(name, value) {
        Some(Ok(())) => Ok(()),
        Some(Err(accepted)) => {
            Err(refused(settings, format!("`{name}` = `{value}`: accepted is {accepted}")))
        }
        None => Err(refused(settings, format!("there is no setting `{name}`"))),
    }
}

/// PLC with what the experiment says of it on top.
fn plc(settings: &Settings<'_>, policy: &str) -> Result<String> {
    let mut policy = policy.to_owned();
    if policy == "plc" || policy.starts_with("plc:") {
        for (name, value) in also(settings, "plc")? {
            policy.push(if policy.contains(':') { ',' } else { ':' });
            policy = policy + name + "=" + value;
        }
    }
    Ok(policy)
}

/// The default devices with what the experiment says of them on top.
fn devices(settings: &Settings<'_>) -> Result<Devices> {
    let mut devices = Devices::default();
    for (name, value) in also(settings, "hdd")? {
        set(settings, &mut devices.hdd, name, value)?;
    }
    for (name, value) in also(settings, "ssd")? {
        set(settings, &mut devices.ssd, name, value)?;
    }
    Ok(devices)
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
    /// Where the numbers come from: family and volume.
    pub label: (String, String),
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
        let policies: Result<Vec<String>> =
            policies.iter().map(|policy| plc(settings, policy)).collect();
        Ok(Self {
            label: (family.name().to_owned(), volume.name().to_owned()),
            workload,
            policies: policies?,
            sizes: sizes.to_vec(),
        })
    }
}

impl Job {
    /// Family and volume in words.
    pub fn setting(&self) -> String {
        format!("{}, {}", self.label.0, self.label.1)
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
    let plan = Plan { devices: devices(settings)?, ..Plan::of_one(settings.number("seed")?) };
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

/// GB written, of 16 GB of data.
fn written_gb(settings: &Settings<'_>, run: &Run) -> Result<f64> {
    let by = DATA_MIB / settings.number("data_mib")? as f64;
    Ok(run.written_bytes as f64 * by / f64::from(1 << 30))
}

/// How many times less a policy writes than another, which wrote `than`.
fn times_less(bytes: u64, than: u64) -> f64 {
    than as f64 / bytes.max(1) as f64
}

/// Latency, bytes written and hit rate over something that varies.
fn triple(name: &str, unit: &str) -> [Line; 3] {
    let line = |of: &str, in_unit: &str| Line::new(of, in_unit).over(name, unit);
    [line("time to read a file", "ms"), line("bytes written", "GB"), line("hit rate", "%")]
}

/// Adds the three of a run.
fn put_triple(
    settings: &Settings<'_>,
    lines: &[Line; 3],
    (of, setting): (&str, &str),
    at: impl Into<crate::series::At>,
    run: &Run,
    data: &mut Data,
) -> Result<()> {
    let values = [run.latency.file_ms, written_gb(settings, run)?, run.hit_rate * 100.0];
    let at = at.into();
    for (line, value) in lines.iter().zip(values) {
        data.put(&line.of(of).under(setting), at.clone(), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::settings::Options;

    #[test]
    fn what_a_search_sets_reaches_the_part_that_it_names() {
        let experiment = find("plc-cache/fig-6-8").unwrap()[0];
        let with = |also: &str| {
            let set = vec![("also".to_owned(), also.into())];
            let options = Options { set, ..Options::default() };
            let settings = Settings::new(experiment, &options).unwrap();
            let workload = Family::Calibrated.workload(&settings)?;
            Ok::<_, LabError>((
                workload.file_kib,
                devices(&settings)?,
                plc(&settings, "plc:delay=33")?,
                plc(&settings, "lru")?,
            ))
        };
        let plain = WorkloadSpec::default().file_kib;
        let expected = (plain, Devices::default(), "plc:delay=33".to_owned(), "lru".to_owned());
        assert_eq!(with("").unwrap(), expected);
        let found = with("ssd.buffer_kib=0 hdd.rpm=7200 plc.f=log workload.file_kib=512").unwrap();
        let (file_kib, devices, plc, lru) = found;
        assert_eq!((file_kib, devices.ssd.buffer_kib, devices.hdd.rpm), (512, 0, 7200));
        assert_eq!((plc.as_str(), lru.as_str()), ("plc:delay=33,f=log", "lru"));
        for (also, problem) in [
            ("buffer_kib=0", "`buffer_kib=0`: expected PART.NAME=VALUE"),
            ("tape.rpm=1", "`tape.rpm=1`: expected PART.NAME=VALUE"),
            ("hdd.heads=1", "there is no setting `heads`"),
            ("hdd.rpm=0", "`rpm` = `0`: accepted is 1 to 1000000"),
        ] {
            let error = with(also).unwrap_err().to_string();
            assert_eq!(error, format!("plc-cache/fig-6-8: {problem}"));
        }
    }

    #[test]
    fn what_writes_nothing_writes_less_by_a_number_of_times() {
        assert_eq!([0, 1, 2].map(|bytes| times_less(bytes, 10) as u64), [10, 10, 5]);
    }
}
