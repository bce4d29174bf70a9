//! CAL'17, CIDR, CIDR+ and FIDR: a whole server beside what the talk says of it.
//! Room: onefold-lab.   In: presets of `onefold-array`.   Out: its reports.
//! Source: [ajdari-talk]. A server is a preset with settings on top; every value that is not the
//! preset's is a parameter of the experiment or stands where it is used, with its reason.

pub mod bottlenecks;
pub mod cal17;
pub mod chunk_size;
pub mod cost;
pub mod fidr_scaling;
pub mod goals;
pub mod intra_ssd;
pub mod one_engine;
pub mod profile;
pub mod scaling;
pub mod software_today;
mod streams;
pub mod table_index;
pub mod whereabouts;
mod whole_drives;

use onefold_array::{Report, ServerSpec, SpecBuilder, simulate};

use crate::error::Result;
use crate::published::Number;
use crate::settings::Settings;

/// A server: a preset, and `KEY=VALUE`s on top.
#[derive(Clone, Debug)]
pub struct Server {
    preset: String,
    set: Vec<String>,
}

impl Server {
    /// A preset as it is.
    pub fn of(preset: &str) -> Self {
        Self { preset: preset.to_owned(), set: Vec::new() }
    }

    /// With a key set.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        self.set.push(format!("{key}={value}"));
        self
    }

    /// With several keys set.
    #[must_use]
    pub fn with_all(self, values: &[(&str, u64)]) -> Self {
        values.iter().fold(self, |server, (key, value)| server.with(key, value))
    }

    fn builder(&self, settings: &Settings<'_>) -> Result<SpecBuilder> {
        let preset = SpecBuilder::preset(&self.preset).map_err(|error| settings.refused(error))?;
        let sized = [
            format!("workload.requests={}", settings.number("requests")?),
            format!("workload.warm_requests={}", settings.number("warm_requests")?),
            format!("seed={}", settings.number("seed")?),
        ];
        let set = sized.iter().chain(&self.set).map(String::as_str);
        set.chain(settings.also()?).try_fold(preset, |builder, assignment| {
            builder.set(assignment).map_err(|error| settings.refused(error))
        })
    }

    /// The description that is run.
    pub fn spec(&self, settings: &Settings<'_>) -> Result<ServerSpec> {
        self.builder(settings)?.build().map_err(|error| settings.refused(error))
    }

    /// The number that a key has.
    pub fn number(&self, key: &str, settings: &Settings<'_>) -> Result<f64> {
        let builder = self.builder(settings)?;
        let value = builder.value(key);
        let number = value.and_then(|value| value.as_float().or(whole(value)));
        number.ok_or_else(|| settings.refused(format!("`{key}` is not a number")))
    }

    /// Runs it.
    pub fn run(&self, settings: &Settings<'_>) -> Result<Report> {
        simulate(&self.spec(settings)?).map_err(|error| settings.refused(error))
    }
}

fn whole(value: &toml::Value) -> Option<f64> {
    value.as_integer().map(|value| value as f64)
}

/// Runs servers on all threads; their reports in the same order.
pub fn run_all(settings: &Settings<'_>, servers: &[Server]) -> Result<Vec<Report>> {
    settings.sweep(servers, |server| server.run(settings)).into_iter().collect()
}

/// Cores that a report books under some tasks.
pub fn cores_of(report: &Report, tasks: &[&str]) -> f64 {
    let rows = report.cores_by_task.iter().filter(|row| tasks.contains(&row.name));
    rows.map(|row| row.amount).sum()
}

/// Share of memory traffic that a report books under some causes, in percent.
pub fn memory_share(report: &Report, causes: &[&str]) -> f64 {
    let rows = report.memory_by_cause.iter().filter(|row| causes.contains(&row.name));
    100.0 * rows.map(|row| row.share).sum::<f64>()
}

/// What stops a server, as a note.
pub fn stopped_by(report: &Report) -> String {
    report.bottleneck.as_ref().map_or_else(String::new, |stop| {
        format!("stopped by {}, {:.0} % busy", stop.name, 100.0 * stop.utilisation)
    })
}

/// The printed numbers of a row and column that repeat, in their order.
pub fn in_order<'a>(settings: &'a Settings<'_>, row: &str, column: &str) -> Vec<&'a Number> {
    let of = |number: &Number| (number.row.as_str(), number.column.as_str()) == (row, column);
    settings.published.numbers.iter().filter(|number| of(number)).collect()
}

/// Tasks that the talk calls "others": all but hashing and both ways of compression.
pub const OTHERS: [&str; 6] = ["nic", "metadata", "submit", "index", "predict", "schedule"];

/// The keys of what a core takes, which a faster core divides.
const CORE_COSTS: [&str; 12] = [
    "cpu.nic_ns_per_byte",
    "cpu.nic_ns_per_chunk",
    "cpu.hash_ns_per_byte",
    "cpu.compress_ns_per_byte",
    "cpu.decompress_ns_per_byte",
    "cpu.predict_ns_per_chunk",
    "cpu.index_ns_per_chunk",
    "cpu.schedule_ns_per_chunk",
    "cpu.metadata_ns_per_chunk",
    "cpu.store_ns_per_chunk",
    "cpu.duplicate_ns_per_chunk",
    "cpu.submit_ns_per_byte",
];

/// The same server on so many processors of the high-end host that the experiment describes.
pub fn on_high_end(server: &Server, sockets: u64, settings: &Settings<'_>) -> Result<Server> {
    let mut other = server
        .clone()
        .with("cpu.sockets", sockets)
        .with("cpu.cores_per_socket", settings.number("high_end_cores")?)
        .with("memory.gb_per_s_per_socket", settings.real("high_end_memory_gb_per_s")?);
    let faster = settings.real("high_end_ghz")? / settings.real("preset_ghz")?;
    for key in CORE_COSTS {
        other = other.with(key, server.number(key, settings)? / faster);
    }
    Ok(other)
}
