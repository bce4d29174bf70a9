//! A server and its load in virtual time.
//! Room: onefold-array.   In: a checked [`ServerSpec`].   Out: a [`Report`].
//!
//! Decisions are taken chunk by chunk by [`crate::decide`]; time is taken batch by batch. Links,
//! memory, cores and units serve first come, first served, so each is next-free-time arithmetic
//! (`onefold_sim::{Pipe, Stations}`) and only the end of a step is an event.

mod batch;
mod dispatch;
mod flight;
mod flow;
mod follow;
mod load;
mod machine;
mod report;
mod resources;
mod steps;
mod tally;

use onefold_sim::{ChromeTrace, EventLog, EventQueue, Limits, SimError};
use thiserror::Error;

pub use flow::{FlowLink, flow};
pub use report::{Bottleneck, LatencyRow, Report, ResourceRow, ShareRow};
pub use resources::{Cause, Task};
pub use tally::Bytes;

use crate::spec::ServerSpec;
use follow::Follow;
use machine::Machine;

/// Why there is no report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A policy of the table's cache that cannot be made.
    #[error("table.policy: {0}")]
    Policy(#[from] onefold_cache::OptionError),
    /// The model came to a stop with requests that were never answered: a defect of the model.
    #[error("the model stopped before all requests were answered: {0}")]
    Stalled(#[from] SimError),
}

/// Runs a server until all its requests are answered.
///
/// # Errors
/// [`RunError`].
pub fn simulate(spec: &ServerSpec) -> Result<Report, RunError> {
    Ok(followed(spec, None)?.0)
}

/// The same, with the first `steps` steps of batches as a picture.
///
/// # Errors
/// [`RunError`].
pub fn simulate_with_trace(
    spec: &ServerSpec,
    steps: usize,
) -> Result<(Report, ChromeTrace), RunError> {
    let (report, follow) = followed(spec, Some(Follow::new(steps)))?;
    Ok((report, follow.map_or_else(|| ChromeTrace::new(0), Follow::into_trace)))
}

fn followed(
    spec: &ServerSpec,
    follow: Option<Follow>,
) -> Result<(Report, Option<Follow>), RunError> {
    let mut queue = EventQueue::new();
    let mut log = EventLog::default();
    let mut machine = Machine::new(spec, &mut queue)?;
    machine.follow = follow;
    let end = onefold_sim::run(&mut machine, &mut queue, &mut log, Limits::default())?;
    let report = report::report(&machine, end, log.hash());
    Ok((report, machine.follow))
}
