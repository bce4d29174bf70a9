//! The least hardware that reaches a goal, of one kind of server, and what it costs.
//! Room: onefold-array.   In: a description, a [`Goal`].   Out: [`Sized`].
//! Invariants: the server reaches the goal in a run of the model; with one part less of any kind
//! it does not, in a run too.
//!
//! Shares of resources in one run give the first estimate, since use grows with throughput; then
//! parts are added where it stops, and taken away where it does not, one at first and twice as many
//! each time that goes well. No numbers of parts are run twice under the same load.

use std::collections::BTreeMap;

use serde::Serialize;
use thiserror::Error;

use crate::price::{Hardware, buffer_bytes};
use crate::run::{BATCHES, Report, RunError, simulate};
use crate::spec::{CompressionPlace, HashPlace, ParseError, ServerSpec, SpecBuilder};

/// Requests of a run; short runs answer a few too many or too few at their ends.
const REQUESTS: u64 = 60_000;
/// Time for which a client's requests are on their way at most, in s.
const IN_FLIGHT_S: f64 = 0.002;
/// Runs after which it is given up to add parts.
const RUNS_MAX: u32 = 80;
/// Share of the time from which on something counts as what stops the rest.
const BUSY: f64 = 0.95;
/// How often as many requests are twice as many, before it is parts that lack.
const DOUBLINGS_MAX: u32 = 2;
/// How many times as much twice the requests carry at least, to be worth their longer runs.
const WORTH_DOUBLING: f64 = 1.01;
/// Most requests on their way at a time.
const OUTSTANDING_MAX: u64 = 1 << 20;
/// Parts of a kind that a description takes.
const COUNT_MAX: u32 = 4096;

/// What a server has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Client bytes, 10^9 a second.
    pub gb_per_s: f64,
    /// Client bytes that are stored, 10^12.
    pub capacity_tb: f64,
    /// Share of them that reduction saves, from 0 to below 1.
    pub reduction: f64,
}

/// Why no server reaches the goal.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SizeError {
    /// A goal that means nothing.
    #[error("{0}")]
    Goal(String),
    /// A description that cannot be.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// A run that failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// What cannot be bought more of stops it.
    #[error("{name} does not reach {wanted} GB/s: stopped at {reached:.1} GB/s by {by}")]
    Stopped {
        /// The description.
        name: String,
        /// GB/s of the goal.
        wanted: f64,
        /// GB/s that were reached.
        reached: f64,
        /// The resource.
        by: &'static str,
    },
}

/// So many of a part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its key in a description.
    pub key: &'static str,
    /// How many.
    pub count: u32,
    /// GB/s with one less; none if there is only one.
    pub one_less_gb_per_s: Option<f64>,
}

/// What it costs, in dollars of assumed prices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Cores.
    pub cpu_usd: f64,
    /// Buffers, and the cached part of the table of the whole capacity.
    pub dram_usd: f64,
    /// Engines, cards that hash, and the board of the engine that indexes.
    pub boards_usd: f64,
    /// Flash for what is stored.
    pub flash_usd: f64,
}

impl Cost {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.cpu_usd + self.dram_usd + self.boards_usd + self.flash_usd
    }
}

/// The server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sized {
    /// The description that it comes from.
    pub name: String,
    /// What it reaches.
    pub gb_per_s: f64,
    /// What would stop it next.
    pub stopped_by: Option<&'static str>,
    /// Its parts.
    pub parts: Vec<Part>,
    /// Host memory in 10^9 bytes.
    pub dram_gb: f64,
    /// Flash in 10^12 bytes.
    pub flash_tb: f64,
    /// What crosses the host's memory at that throughput, 10^9 bytes a second.
    pub memory_gb_per_s: f64,
    /// Power at that throughput, of assumed watts.
    pub watts: f64,
    /// Its cost.
    pub cost: Cost,
    /// All of it.
    pub cost_usd: f64,
    /// What of it does not grow with the capacity.
    pub once_usd: f64,
    /// Flash for the capacity without reduction, in dollars.
    pub without_usd: f64,
    /// Share of that which is saved; below 0 if it costs more.
    pub saved_share: f64,
    /// Reduction at which it costs as much as without, 0 to 1; none if no reduction does.
    pub break_even_reduction: Option<f64>,
    /// Capacity at which it does, in TB; none if no capacity does.
    pub break_even_capacity_tb: Option<f64>,
}

impl Sized {
    /// Share that the same parts save at so many times the capacity.
    pub fn saved_share_at(&self, times: f64) -> f64 {
        let cost = self.once_usd + times * (self.cost_usd - self.once_usd);
        1.0 - cost / (times * self.without_usd)
    }
}

/// Names and keys of what is counted, the dearest first.
const PARTS: [(&str, &str); 5] = [
    ("engines", "engine.count"),
    ("processors", "cpu.sockets"),
    ("network cards", "nic.count"),
    ("data drives", "ssd.count"),
    ("table drives", "table_ssd.count"),
];

/// Which part a resource belongs to; none cannot be bought more of. Batches may be on their way in
/// engines, or on cores where those compress.
fn part_of(resource: &str, engines: bool) -> Option<usize> {
    match resource {
        BATCHES => Some(usize::from(!engines)),
        "engine link in"
        | "engine link out"
        | "hash units"
        | "compression units"
        | "decompression units" => Some(0),
        "cores" | "memory" => Some(1),
        "nic in" | "nic out" | "nic hash units" => Some(2),
        "data drives" => Some(3),
        "table drives" => Some(4),
        _ => None,
    }
}

/// Finds the least server.
///
/// # Errors
/// [`SizeError`].
pub fn size(builder: &SpecBuilder, goal: Goal) -> Result<Sized, SizeError> {
    size_by(builder, goal, REQUESTS)
}

/// The same by runs of so many requests.
fn size_by(builder: &SpecBuilder, goal: Goal, requests: u64) -> Result<Sized, SizeError> {
    let mut search = Search::new(builder, goal, requests)?;
    search.estimate()?;
    search.add_until_reached()?;
    search.take_away()?;
    search.sized()
}

struct Search {
    builder: SpecBuilder,
    goal: Goal,
    /// Requests of a run.
    requests: u64,
    counts: [u32; PARTS.len()],
    used: [bool; PARTS.len()],
    runs: u32,
    doublings: u32,
    /// What came of numbers of parts that were run under the load as it is.
    reports: BTreeMap<[u32; PARTS.len()], Report>,
}

impl Search {
    fn new(builder: &SpecBuilder, goal: Goal, requests: u64) -> Result<Self, SizeError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !positive(goal.gb_per_s) || !positive(goal.capacity_tb) {
            return Err(SizeError::Goal("throughput and capacity must be more than 0".into()));
        }
        if !(0.0..1.0).contains(&goal.reduction) {
            return Err(SizeError::Goal("a reduction is from 0 % to below 100 %".into()));
        }
        let spec = builder.build()?;
        if !spec.workload.trace.is_empty() {
            return Err(SizeError::Goal(
                "workload.trace: a server is sized for a load that can be made heavier, which a \
                 trace is not; run the trace on what was found with `onefold array run`"
                    .into(),
            ));
        }
        let counts = [
            spec.engine.count,
            spec.cpu.sockets,
            spec.nic.count,
            spec.ssd.count,
            spec.table_ssd.count,
        ];
        let engines = spec.place.hash == HashPlace::Engine
            || spec.place.compression == CompressionPlace::Engine;
        let used = [engines, true, true, true, true];
        let builder = with_load_of(builder, goal, requests)?;
        let (runs, doublings, reports) = (0, 0, BTreeMap::new());
        Ok(Self { builder, goal, requests, counts, used, runs, doublings, reports })
    }

    fn spec(&self, counts: &[u32]) -> Result<ServerSpec, SizeError> {
        let mut builder = self.builder.clone();
        for ((_, key), count) in PARTS.iter().zip(counts) {
            builder = builder.set(&format!("{key}={count}"))?;
        }
        Ok(builder.build()?)
    }

    /// What comes of so many parts, run once.
    fn run(&mut self, counts: [u32; PARTS.len()]) -> Result<&Report, SizeError> {
        if !self.reports.contains_key(&counts) {
            self.runs += 1;
            let report = simulate(&self.spec(&counts)?)?;
            self.reports.insert(counts, report);
        }
        Ok(&self.reports[&counts])
    }

    /// Whether so many fewer of a part are still enough; never none.
    fn spares(&mut self, part: usize, fewer: u32) -> Result<bool, SizeError> {
        if fewer >= self.counts[part] {
            return Ok(false);
        }
        let mut counts = self.counts;
        counts[part] -= fewer;
        let goal = self.goal.gb_per_s;
        Ok(self.run(counts)?.gb_per_s >= goal)
    }

    /// As many of each part as its share in a run says.
    fn estimate(&mut self) -> Result<(), SizeError> {
        let (counts, goal, engines) = (self.counts, self.goal.gb_per_s, self.used[0]);
        let report = self.run(counts)?;
        let times = goal / report.gb_per_s.max(1e-9);
        let mut wanted = [1.0_f64; PARTS.len()];
        for row in &report.resources {
            let Some(part) = part_of(row.name, engines) else { continue };
            let count = row.utilisation * f64::from(counts[part]) * times;
            wanted[part] = wanted[part].max(count);
        }
        for (part, count) in self.counts.iter_mut().enumerate() {
            if self.used[part] {
                *count = (wanted[part].ceil() as u32).clamp(1, COUNT_MAX);
            }
        }
        Ok(())
    }

    fn add_until_reached(&mut self) -> Result<(), SizeError> {
        loop {
            let report = self.run(self.counts)?.clone();
            if report.gb_per_s >= self.goal.gb_per_s {
                return Ok(());
            }
            // Nothing is busy: requests spend their time waiting for each other, so that more of
            // them are needed; where that does not help, the queues of parts are what is full.
            let stop = report.bottleneck.as_ref();
            let idle = stop.is_none_or(|stop| stop.utilisation < BUSY);
            if idle && (self.more_requests(report.gb_per_s)? || self.more_of_everything()) {
                continue;
            }
            let by = stop.map_or("nothing", |stop| stop.name);
            let part = stop.and_then(|stop| part_of(stop.name, self.used[0]));
            let part = part.filter(|&part| self.counts[part] < COUNT_MAX);
            let Some(part) = part.filter(|_| self.runs < RUNS_MAX) else {
                return Err(SizeError::Stopped {
                    name: report.name,
                    wanted: self.goal.gb_per_s,
                    reached: report.gb_per_s,
                    by,
                });
            };
            let short = self.goal.gb_per_s / report.gb_per_s.max(1e-9);
            let more = (f64::from(self.counts[part]) * short) as u32;
            self.counts[part] = more.max(self.counts[part] + 1).min(COUNT_MAX);
        }
    }

    /// Twice as many requests on their way, a few times, if that carries more than before.
    fn more_requests(&mut self, gb_per_s: f64) -> Result<bool, SizeError> {
        let spec = self.builder.build()?;
        let outstanding = 2 * spec.workload.outstanding;
        if self.doublings == DOUBLINGS_MAX || outstanding > OUTSTANDING_MAX {
            return Ok(false);
        }
        self.doublings += 1;
        let more = with_outstanding(self.builder.clone(), &spec, outstanding, self.requests)?;
        let (builder, reports) =
            (std::mem::replace(&mut self.builder, more), std::mem::take(&mut self.reports));
        if self.run(self.counts)?.gb_per_s > gb_per_s * WORTH_DOUBLING {
            return Ok(true);
        }
        (self.builder, self.reports) = (builder, reports);
        Ok(false)
    }

    /// An eighth more of each part, if that is possible.
    fn more_of_everything(&mut self) -> bool {
        let possible = self.runs < RUNS_MAX;
        let more = |count: u32| (count + count.div_ceil(8)).min(COUNT_MAX);
        let grows = self.counts.iter().zip(self.used).any(|(&c, used)| used && more(c) > c);
        for (count, used) in self.counts.iter_mut().zip(self.used) {
            if possible && used {
                *count = more(*count);
            }
        }
        possible && grows
    }

    /// Takes parts away until none can be missed.
    fn take_away(&mut self) -> Result<(), SizeError> {
        let mut taken = true;
        while taken {
            taken = false;
            for part in (0..PARTS.len()).filter(|&part| self.used[part]).collect::<Vec<_>>() {
                let spared = self.spared(part)?;
                self.counts[part] -= spared;
                taken |= spared > 0;
            }
        }
        Ok(())
    }

    /// How many of a part can be missed, so that one more cannot: twice as many each time while
    /// they can, and then halfway between what can and what cannot.
    fn spared(&mut self, part: usize) -> Result<u32, SizeError> {
        let (mut spared, mut needed) = (0, 1);
        while self.spares(part, needed)? {
            (spared, needed) = (needed, 2 * needed);
        }
        while needed - spared > 1 {
            let half = spared.midpoint(needed);
            if self.spares(part, half)? { spared = half } else { needed = half }
        }
        Ok(spared)
    }

    fn sized(mut self) -> Result<Sized, SizeError> {
        let counts = self.counts;
        let report = self.run(counts)?.clone();
        let mut parts = Vec::new();
        for (part, (name, key)) in PARTS.into_iter().enumerate() {
            if !self.used[part] {
                continue;
            }
            let mut fewer = counts;
            fewer[part] -= 1;
            let less = if fewer[part] == 0 { None } else { Some(self.run(fewer)?.gb_per_s) };
            parts.push(Part { name, key, count: counts[part], one_less_gb_per_s: less });
        }
        let spec = self.spec(&counts)?;
        Ok(priced(&spec, self.goal, &report, parts))
    }
}

/// The load of a goal: chunks compress as the description says, and duplicates make up the rest of
/// the reduction; less than compression alone gives is given by compression.
///
/// # Errors
/// [`SizeError::Parse`].
pub fn with_load(builder: &SpecBuilder, goal: Goal) -> Result<SpecBuilder, SizeError> {
    with_load_of(builder, goal, REQUESTS)
}

fn with_load_of(
    builder: &SpecBuilder,
    goal: Goal,
    requests: u64,
) -> Result<SpecBuilder, SizeError> {
    let spec = builder.build()?;
    let left = 1.0 - goal.reduction;
    let compressed = match spec.place.compression {
        CompressionPlace::None => 1.0,
        _ => spec.workload.compressed_share.max(left).min(1.0),
    };
    let duplicates = 1.0 - left / compressed;
    let spread = spec.workload.compressed_spread.min(1.0 - compressed);
    let request = spec.workload.request_bytes;
    let wanted = (goal.gb_per_s * 1e9 * IN_FLIGHT_S / request as f64).ceil() as u64;
    let outstanding = wanted.clamp(spec.workload.outstanding, OUTSTANDING_MAX);
    let builder = all_of(
        builder.clone(),
        &[
            format!("workload.duplicate_share={duplicates:?}"),
            format!("workload.compressed_share={compressed:?}"),
            format!("workload.compressed_spread={spread:?}"),
            "workload.load=closed".to_owned(),
        ],
    )?;
    with_outstanding(builder, &spec, outstanding, requests)
}

/// So many requests on their way, with buffers and a run that are long enough for them.
fn with_outstanding(
    builder: SpecBuilder,
    spec: &ServerSpec,
    outstanding: u64,
    requests: u64,
) -> Result<SpecBuilder, SizeError> {
    let warm = outstanding + requests / 6;
    let requests = requests.max(2 * outstanding);
    let request = spec.workload.request_bytes;
    let client = (outstanding * request * 5 / 4).max(spec.buffer.client_bytes);
    let delayed = (client / 4).max(spec.buffer.delayed_bytes);
    all_of(
        builder,
        &[
            format!("workload.outstanding={outstanding}"),
            format!("workload.requests={requests}"),
            format!("workload.warm_requests={warm}"),
            format!("buffer.client_bytes={client}"),
            format!("buffer.delayed_bytes={delayed}"),
        ],
    )
}

fn all_of(builder: SpecBuilder, settings: &[String]) -> Result<SpecBuilder, SizeError> {
    settings.iter().try_fold(builder, |builder, setting| Ok(builder.set(setting)?))
}

fn priced(spec: &ServerSpec, goal: Goal, report: &Report, parts: Vec<Part>) -> Sized {
    let (price, table) = (&spec.price, &spec.table);
    // The cached share of the table is that of the description, of a table for all that is unique.
    let table_bytes = table.pages() * table.bucket_bytes;
    let cached = (table.cache_bytes as f64 / table_bytes as f64).min(1.0);
    let unique = 1.0 - spec.workload.duplicate_share;
    let entries_per_tb = unique * 1e12 / spec.chunk_bytes as f64;
    let dram_gb_per_tb = cached * entries_per_tb * table.entry_bytes as f64 / 1e9;
    let buffers_gb = buffer_bytes(spec) as f64 / 1e9;
    let dram_gb = buffers_gb + dram_gb_per_tb * goal.capacity_tb;
    let Hardware { cpu_usd, boards_usd } = Hardware::of(spec);
    let flash_tb = goal.capacity_tb * (1.0 - goal.reduction);
    let cost = Cost {
        cpu_usd,
        dram_usd: dram_gb * price.dram_usd_per_gb,
        boards_usd,
        flash_usd: flash_tb * price.ssd_usd_per_tb,
    };
    let without_usd = goal.capacity_tb * price.ssd_usd_per_tb;
    let cost_usd = cost.total();
    let hardware = cost_usd - cost.flash_usd;
    let once = hardware - dram_gb_per_tb * goal.capacity_tb * price.dram_usd_per_gb;
    let saved_per_tb =
        goal.reduction * price.ssd_usd_per_tb - dram_gb_per_tb * price.dram_usd_per_gb;
    Sized {
        name: report.name.clone(),
        gb_per_s: report.gb_per_s,
        stopped_by: report.bottleneck.as_ref().map(|stop| stop.name),
        parts,
        dram_gb,
        flash_tb,
        memory_gb_per_s: report.memory_bytes_per_client_byte * report.gb_per_s,
        watts: report.joules_per_gb * report.gb_per_s,
        cost,
        cost_usd,
        once_usd: once,
        without_usd,
        saved_share: 1.0 - cost_usd / without_usd,
        break_even_reduction: Some(hardware / without_usd).filter(|share| *share < 1.0),
        break_even_capacity_tb: (saved_per_tb > 0.0).then(|| once / saved_per_tb),
    }
}

#[cfg(test)]
mod tests;
