//! A server and its load in virtual time.
//! Room: onefold-array.   In: a checked [`ServerSpec`].   Out: a [`Report`].
//!
//! Decisions are taken chunk by chunk by [`crate::decide`]; time is taken batch by batch. Links,
//! memory, cores and units serve first come, first served, so each is next-free-time arithmetic
//! (`onefold_sim::{Pipe, Stations}`) and only the end of a step is an event.

mod batch;
mod dispatch;
mod dma;
mod drives;
mod flight;
mod flow;
mod follow;
mod load;
mod machine;
mod order;
mod replay;
mod report;
mod resources;
mod steps;
mod tally;
mod whole;

use onefold_flash::DriveSpec;
use onefold_sim::{ChromeTrace, EventLog, EventQueue, Limits, SimError};
use onefold_workload::TraceRequests;
use thiserror::Error;

pub use drives::DrivesReport;
pub use flow::{FlowLink, flow};
pub use replay::TraceReport;
pub use report::{BATCHES, Bottleneck, CostReport, LatencyRow, Report, ResourceRow, ShareRow};
pub use resources::{Cause, Task};
pub use tally::Bytes;

use crate::spec::ServerSpec;
use follow::Follow;
use machine::Machine;
use whole::Whole;

/// Why there is no report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A policy of the table's cache that cannot be made.
    #[error("table.policy: {0}")]
    Policy(#[from] onefold_cache::OptionError),
    /// Drives that cannot be simulated, or fail, with the key that names them.
    #[error("{0}: {1}")]
    Drive(&'static str, String),
    /// A trace that cannot be replayed, as a sentence that names it.
    #[error("{0}")]
    Trace(String),
    /// A description with a trace was run without one, or one without a trace with one.
    #[error("workload.trace is `{0}`, and {1}")]
    NoTrace(String, &'static str),
    /// The model came to a stop with requests that were never answered: a defect of the model.
    #[error("the model stopped before all requests were answered: {0}")]
    Stalled(#[from] SimError),
}

/// Runs a server until all its requests are answered.
///
/// # Errors
/// [`RunError`].
pub fn simulate(spec: &ServerSpec) -> Result<Report, RunError> {
    Ok(run(spec, RunOptions::default())?.report)
}

/// What a run takes beside the description.
#[derive(Default)]
pub struct RunOptions {
    /// The requests of the description's trace, where it has one.
    pub requests: Option<TraceRequests>,
    /// The drive that `ssd.model` names, where that is a file.
    pub drive: Option<DriveSpec>,
    /// The same of `table_ssd.model`.
    pub table_drive: Option<DriveSpec>,
    /// Steps of batches to keep for a picture; 0 for none.
    pub steps: usize,
}

/// What a run gives.
#[derive(Debug)]
pub struct Outcome {
    /// Figures.
    pub report: Report,
    /// The first steps of batches, if they were asked for.
    pub steps: Option<ChromeTrace>,
}

/// Runs a server until all its requests are answered, or its trace has ended.
///
/// # Errors
/// [`RunError`].
pub fn run(spec: &ServerSpec, options: RunOptions) -> Result<Outcome, RunError> {
    let name = || spec.workload.trace.clone();
    match (name().is_empty(), &options.requests) {
        (false, None) => return Err(RunError::NoTrace(name(), "nobody has opened it")),
        (true, Some(_)) => return Err(RunError::NoTrace(name(), "there are requests of one")),
        _ => {}
    }
    let mut queue = EventQueue::new();
    let mut log = EventLog::default();
    let whole = Whole::new(spec, options.drive, options.table_drive)?;
    let mut machine = Machine::new(spec, (options.requests, whole), &mut queue)?;
    machine.follow = (options.steps > 0).then(|| Follow::new(options.steps));
    let end = onefold_sim::run(&mut machine, &mut queue, &mut log, Limits::default());
    if let Some(error) = machine.failed.take() {
        return Err(error);
    }
    let end = end?;
    let replayed = machine.replay.as_ref().is_none_or(|replay| replay.made() > 0);
    if !replayed || machine.tally.measured().is_none() {
        let warm = spec.workload.trace_warm_requests;
        return Err(RunError::Trace(format!(
            "trace '{}': it has no requests beyond the {warm} to warm up",
            spec.workload.trace
        )));
    }
    let report = report::report(&machine, end, log.hash());
    Ok(Outcome { report, steps: machine.follow.map(Follow::into_trace) })
}
