//! What a run came to, in numbers.
//! Room: onefold-array.
//! Rates are in GB/s of client bytes, 10^9 bytes a second, reads and writes together, unless the
//! name says otherwise.

use onefold_sim::{Histogram, RunEnd};
use serde::Serialize;

use super::drives::{Drives, DrivesReport};
use super::machine::Machine;
use super::replay::{Replay, TraceReport};
use super::resources::{Cause, Task};
use super::tally::{Bytes, Measured};
use crate::decide::predictor::Score;
use crate::price::{Hardware, buffer_bytes};
use crate::spec::ServerSpec;

/// Busy share from which on something is what stops the rest.
const FULL: f64 = 0.95;
/// The name of what stops a server that may not have more batches on their way.
pub const BATCHES: &str = "batches in flight";

/// A resource and how it spent the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResourceRow {
    /// Its name.
    pub name: &'static str,
    /// Busy share, 0 to 1.
    pub utilisation: f64,
    /// Jobs waiting on average.
    pub waiting_mean: f64,
    /// Mean wait of a job, in ns.
    pub wait_ns_mean: f64,
}

/// The resource that stops the rest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The busiest resource, or `batches in flight`.
    pub name: &'static str,
    /// Its busy share, 0 to 1.
    pub utilisation: f64,
    /// The next one.
    pub next: Option<&'static str>,
    /// How many times as much throughput the next one would allow.
    pub factor_to_next: Option<f64>,
}

/// A part of a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareRow {
    /// What of.
    pub name: &'static str,
    /// How much; the unit is that of the list.
    pub amount: f64,
    /// Its share of the list, 0 to 1.
    pub share: f64,
}

/// What a server costs, in dollars of assumed prices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CostReport {
    /// Cores.
    pub cpu_usd: f64,
    /// Buffers and the cache of the table.
    pub dram_usd: f64,
    /// Engines, cards that hash, and the board of the engine that indexes.
    pub boards_usd: f64,
    /// The three together.
    pub server_usd: f64,
    /// Flash for what is stored of 10^12 client bytes, as reduced as in this run; none if nothing
    /// was written.
    pub flash_usd_per_client_tb: Option<f64>,
}

/// Latencies of one kind of request, in ns; none if there was none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyRow {
    /// Read; write for all of them together, and of those unique and duplicate where writes are
    /// answered once they are stored; trim, flush.
    pub name: &'static str,
    /// Requests.
    pub count: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// 99 of 100 are not longer.
    pub p99_ns: u64,
    /// 999 of 1000 are not longer.
    pub p999_ns: u64,
}

/// A run's numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The server's name.
    pub name: String,
    /// Throughput.
    pub gb_per_s: f64,
    /// How long was measured, in virtual seconds.
    pub seconds: f64,
    /// What stops it.
    pub bottleneck: Option<Bottleneck>,
    /// Resources that were used, the busiest first.
    pub resources: Vec<ResourceRow>,
    /// Cores in use.
    pub cores: f64,
    /// Cores by task, unit: cores.
    pub cores_by_task: Vec<ShareRow>,
    /// Bytes through the host's memory for each client byte.
    pub memory_bytes_per_client_byte: f64,
    /// The same by cause, unit: bytes for each client byte.
    pub memory_by_cause: Vec<ShareRow>,
    /// Where bytes went in the measured stretch, unit: bytes.
    pub bytes: Bytes,
    /// The same from the first request to the last, with nothing on its way.
    pub bytes_of_all: Bytes,
    /// Share of look-ups answered from memory, 0 to 1.
    pub table_hit_share: Option<f64>,
    /// Pages of the table read for each look-up.
    pub table_reads_a_look_up: f64,
    /// Pages of the table written for each look-up.
    pub table_writes_a_look_up: f64,
    /// Share of duplicates that the index did not find, so that they were stored again, 0 to 1.
    pub missed_share: Option<f64>,
    /// Share of written chunks that were duplicates, found or not, 0 to 1.
    pub duplicate_share: Option<f64>,
    /// What the predictor said.
    pub predictor: Score,
    /// Latencies.
    pub latencies: Vec<LatencyRow>,
    /// Bytes read from and written to data drives, for each client byte.
    pub drive_bytes_per_client_byte: f64,
    /// Share of offered requests that found the buffer full, 0 to 1.
    pub held_back_share: f64,
    /// Most bytes in the client request buffer.
    pub client_buffer_peak: u64,
    /// Most bytes in the delayed chunk buffer.
    pub delayed_buffer_peak: u64,
    /// Share of the batches that may be on their way at a time that were, on average, 0 to 1.
    pub batches_in_flight_share: f64,
    /// Chunks of a batch, on average.
    pub batch_chunks_mean: f64,
    /// Times that an engine was reconfigured.
    pub reconfigurations: u64,
    /// Energy for each client GB, in J; from assumed watts.
    pub joules_per_gb: f64,
    /// What the server costs; from assumed prices.
    pub cost: CostReport,
    /// What the trace was made of that was replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceReport>,
    /// What drives did that are simulated whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drives: Option<DrivesReport>,
    /// The same of the table's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_drives: Option<DrivesReport>,
    /// Digest of what is stored: equal for equal requests, however the server worked.
    #[serde(serialize_with = "hex")]
    pub stored_digest: u64,
    /// Events handled.
    pub events: u64,
    /// Hash of all events: equal for equal runs.
    #[serde(serialize_with = "hex")]
    pub event_hash: u64,
}

/// As text: many readers of JSON keep no more than 53 bits of a number.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn hex<S: serde::Serializer>(hash: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{hash:016x}"))
}

/// The report of a machine that has stopped.
pub(super) fn report(machine: &Machine, end: RunEnd, event_hash: u64) -> Report {
    let spec = machine.spec();
    let tally = &machine.tally;
    let measured = tally.measured().expect("a run that ended was measured");
    let seconds = measured.span.ns() as f64 / 1e9;
    let client = measured.answered_bytes as f64;
    let per_client = |bytes: f64| if client > 0.0 { bytes / client } else { 0.0 };
    let resources = resources(measured);
    let busy = measured.loads.iter().find(|(name, _)| *name == "cores");
    let cores = busy.map_or(0.0, |(_, load)| load.utilisation) * f64::from(spec.cores());
    let memory_by_cause = shares(
        Cause::ALL
            .iter()
            .zip(&measured.memory_bytes)
            .map(|(cause, &bytes)| (cause.name(), per_client(bytes as f64))),
    );
    let of = |part: u64, rest: u64| (part + rest > 0).then(|| part as f64 / (part + rest) as f64);
    let index = machine.table.counts();
    let a_look_up = |pages: u64| pages as f64 / index.look_ups.max(1) as f64;
    let (unique, duplicate) = measured.found;
    let (offered, held_back) = measured.offered;
    Report {
        name: spec.name.clone(),
        gb_per_s: if seconds > 0.0 { client / 1e9 / seconds } else { 0.0 },
        seconds,
        bottleneck: bottleneck(&resources, measured.slots_taken),
        resources,
        cores,
        cores_by_task: cores_by_task(measured, cores),
        memory_bytes_per_client_byte: memory_by_cause.iter().map(|row| row.amount).sum(),
        memory_by_cause,
        bytes: measured.bytes,
        bytes_of_all: tally.bytes,
        table_hit_share: of(index.unread, index.look_ups - index.unread),
        table_reads_a_look_up: a_look_up(index.reads),
        table_writes_a_look_up: a_look_up(index.writes),
        missed_share: of(index.missed, index.found),
        duplicate_share: of(duplicate, unique),
        predictor: measured.score,
        latencies: latencies(machine),
        drive_bytes_per_client_byte: per_client(measured.drive_bytes as f64),
        held_back_share: if offered > 0 { held_back as f64 / offered as f64 } else { 0.0 },
        client_buffer_peak: machine.client_buffer.peak(),
        delayed_buffer_peak: machine.delayed.peak_bytes(),
        batches_in_flight_share: measured.slots_taken,
        batch_chunks_mean: tally.batch_chunks as f64 / tally.batches.max(1) as f64,
        reconfigurations: tally.reconfigurations,
        joules_per_gb: if client > 0.0 {
            watts(spec, cores, measured) * seconds / (client / 1e9)
        } else {
            0.0
        },
        cost: cost(spec, tally.bytes),
        trace: machine.replay.as_ref().map(Replay::report),
        drives: machine.whole.data.as_ref().map(Drives::report),
        table_drives: machine.whole.table.as_ref().map(Drives::report),
        stored_digest: machine.contents.digest(),
        events: end.events,
        event_hash,
    }
}

/// How resources spent the time, the busiest first.
fn resources(measured: &Measured) -> Vec<ResourceRow> {
    let row = |&(name, load): &(&'static str, onefold_sim::Load)| ResourceRow {
        name,
        utilisation: load.utilisation,
        waiting_mean: load.waiting_mean,
        wait_ns_mean: load.wait_ns_mean,
    };
    let mut rows: Vec<ResourceRow> = measured.loads.iter().map(row).collect();
    rows.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    rows
}

/// What the server costs, and flash for what it stores of each client byte: how much it is to hold
/// is not part of a run.
fn cost(spec: &ServerSpec, all: Bytes) -> CostReport {
    let Hardware { cpu_usd, boards_usd } = Hardware::of(spec);
    let table = spec.table.pages() * spec.table.bucket_bytes;
    let cached = spec.table.cache_bytes.min(table);
    let dram_gb = (buffer_bytes(spec) + cached) as f64 / 1e9;
    let dram_usd = dram_gb * spec.price.dram_usd_per_gb;
    let written = all.client_in + all.completed;
    let stored_share = (written > 0).then(|| all.stored as f64 / written as f64);
    CostReport {
        cpu_usd,
        dram_usd,
        boards_usd,
        server_usd: cpu_usd + dram_usd + boards_usd,
        flash_usd_per_client_tb: stored_share.map(|share| share * spec.price.ssd_usd_per_tb),
    }
}

/// What cores were busy with. Work is booked when it is asked for, and some of it lies beyond the
/// end of the stretch: the busy time is split as the booked work is.
fn cores_by_task(measured: &Measured, cores: f64) -> Vec<ShareRow> {
    let booked_ns = measured.task_ns.iter().sum::<u128>().max(1) as f64;
    let tasks = Task::ALL.iter().zip(&measured.task_ns);
    shares(tasks.map(|(task, &ns)| (task.name(), cores * ns as f64 / booked_ns)))
}

/// What cores and engines draw, on average: idle power, and what being busy adds. An engine is as
/// busy as its busiest units.
fn watts(spec: &ServerSpec, cores: f64, measured: &Measured) -> f64 {
    let units = measured.loads.iter().filter(|(name, _)| name.ends_with("units"));
    let engine_busy = units
        .filter(|(name, _)| !name.starts_with("nic"))
        .map(|(_, load)| load.utilisation)
        .fold(0.0, f64::max);
    let power = &spec.power;
    let between = |idle: f64, busy: f64, share: f64| idle + share * (busy - idle);
    let count = f64::from(spec.cores());
    count * between(power.core_idle_w, power.core_busy_w, cores / count)
        + f64::from(spec.engine.count)
            * between(power.engine_idle_w, power.engine_busy_w, engine_busy)
}

/// What stops the rest: the busiest resource, or, while no resource is, that no more batches may be
/// on their way.
fn bottleneck(resources: &[ResourceRow], slots_taken: f64) -> Option<Bottleneck> {
    let first = resources.first()?;
    if slots_taken >= FULL && first.utilisation < FULL {
        let (next, factor) = (first.name, slots_taken / first.utilisation);
        return Some(Bottleneck {
            name: BATCHES,
            utilisation: slots_taken,
            next: Some(next),
            factor_to_next: Some(factor),
        });
    }
    let next = resources.get(1).filter(|next| next.utilisation > 0.0);
    Some(Bottleneck {
        name: first.name,
        utilisation: first.utilisation,
        next: next.map(|next| next.name),
        factor_to_next: next.map(|next| first.utilisation / next.utilisation),
    })
}

/// Rows that are not empty, the largest first, each with its share.
fn shares(rows: impl Iterator<Item = (&'static str, f64)>) -> Vec<ShareRow> {
    let rows: Vec<(&'static str, f64)> = rows.filter(|(_, amount)| *amount > 0.0).collect();
    let total: f64 = rows.iter().map(|(_, amount)| amount).sum();
    let mut rows: Vec<ShareRow> = rows
        .into_iter()
        .map(|(name, amount)| ShareRow { name, amount, share: amount / total })
        .collect();
    rows.sort_by(|a, b| b.amount.total_cmp(&a.amount));
    rows
}

fn latencies(machine: &Machine) -> Vec<LatencyRow> {
    let ([read, unique, duplicate, trim, flush], early) = machine.tally.latencies();
    let row = |name: &'static str, histogram: &Histogram| {
        let quantile = |per_million| histogram.quantile(per_million);
        Some(LatencyRow {
            name,
            count: histogram.count(),
            mean_ns: histogram.mean()?,
            p50_ns: quantile(500_000)?,
            p99_ns: quantile(990_000)?,
            p999_ns: quantile(999_000)?,
        })
    };
    let mut writes = early.clone();
    writes.merge(unique);
    writes.merge(duplicate);
    let rows = [
        ("read", read),
        ("write", &writes),
        ("unique", unique),
        ("duplicate", duplicate),
        ("trim", trim),
        ("flush", flush),
    ];
    rows.into_iter().filter_map(|(name, histogram)| row(name, histogram)).collect()
}
