//! Runs: a specification in, a report out.
//! Room: onefold-flash.   In: [`DriveSpec`], a trace.   Out: [`Report`].

mod ahead;
mod attached;
mod background;
mod common;
mod completion;
mod contents;
mod decide;
mod drawn;
mod error;
mod host;
mod host_scrambler;
mod idle;
mod parts;
mod ready;
mod report;
mod request;
mod rush;
mod settled;
mod simulation;
mod source;
mod stages;
mod steady;
mod sweep;
mod tally;
#[cfg(test)]
mod tests;

pub use attached::{Attached, AttachedCounts, attach};
pub use completion::{Answer, Completion, Observer, Verdict};
pub use error::RunError;
pub use onefold_workload::TraceRequests;
pub use onefold_workload::composed::Piece;
pub use report::{
    CompressionReport, DedupReport, DramItem, DramReport, ErasesBucket, ErasesReport,
    LatencyReport, LifetimeReport, OpsReport, Report, RequestsReport, RetriesReport, ServerReport,
    UtilisationReport, WafReport,
};
pub use request::{HostRequest, SimPage};
pub use settled::{IntervalReport, SettledReport};
pub use sweep::{OpenTrace, sweep};
pub use tally::{OpTally, Tally};

use std::sync::atomic::AtomicU64;

use onefold_sim::ChromeTrace;

use crate::dedup::{AnyPolicy, Identities, NoDedup, Policy};
use crate::ftl::Ftl;
use crate::nand::{BlankNand, Identity, Nand};
use crate::spec::{ContentKind, DriveSpec};
use ahead::{Workload, decides_ahead};
use ready::{check, nand, prepared, site};
use simulation::Simulation;
use source::Source;

/// What a run takes beside the specification.
#[derive(Default)]
pub struct RunOptions<'a> {
    /// Requests to replay instead of generating them.
    pub trace: Option<TraceRequests>,
    /// At most so many requests of the trace.
    pub requests: Option<u64>,
    /// Told about every answered request.
    pub observer: Option<&'a mut Observer<'a>>,
    /// Where the number of answered requests is stored now and then.
    pub progress: Option<&'a AtomicU64>,
    /// Operations to keep for a Chrome trace; 0 for none.
    pub chrome_operations: usize,
    /// Threads that it may take, 0 as one. A second one draws requests and decides on them ahead of
    /// time, where decisions do not depend on time, or reads ahead in a trace; more are of no use,
    /// and nothing in the outcome tells how many there were.
    pub threads: usize,
}

impl std::fmt::Debug for RunOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("trace", &self.trace.is_some())
            .field("requests", &self.requests)
            .field("observer", &self.observer.is_some())
            .field("progress", &self.progress)
            .field("chrome_operations", &self.chrome_operations)
            .field("threads", &self.threads)
            .finish()
    }
}

/// What a run gives.
#[derive(Debug)]
pub struct Outcome {
    /// Figures.
    pub report: Report,
    /// The first operations, if they were asked for.
    pub chrome: Option<ChromeTrace>,
}

/// Runs a drive.
///
/// # Errors
/// [`RunError`]; a run whose requests are not all answered is one.
pub fn run(spec: &DriveSpec, options: RunOptions<'_>) -> Result<Outcome, RunError> {
    check(spec)?;
    let blank =
        options.trace.is_none() && spec.workload.content == ContentKind::Unique && !spec.packs();
    match spec.dedup.policy.as_str() {
        "none" if blank => drive(spec, BlankNand::new(spec.geometry), NoDedup, options),
        "none" => drive(spec, nand(spec)?, NoDedup, options),
        name => {
            let site = site(spec);
            let options_of = &spec.dedup.options;
            let policy = AnyPolicy::new::<Identity>(name, options_of, &site, Identities)?;
            drive(spec, nand(spec)?, policy, options)
        }
    }
}

fn drive<N, P>(
    spec: &DriveSpec,
    nand: N,
    policy: P,
    options: RunOptions<'_>,
) -> Result<Outcome, RunError>
where
    N: Nand<Page: SimPage + Send> + Send,
    P: Policy<N::Page> + Send,
{
    let from = if options.trace.is_some() { Workload::Trace } else { Workload::Generated };
    let mut source = Source::new(spec, options.trace)?;
    if let Some(requests) = options.requests {
        source.limit(requests);
    }
    let (ftl, host, dram) = prepared(spec, nand, policy, source)?;
    let before = *ftl.counters();
    let mut simulation = Simulation::new(spec, ftl, host, options.observer, options.progress);
    if options.chrome_operations > 0 {
        simulation.controller.keep_trace(options.chrome_operations);
    }
    // A trace has to be read and parsed; what a generator draws costs no more than to hand over.
    let decides = decides_ahead(spec, from);
    if options.threads > 1 && (decides || from == Workload::Trace) {
        simulation = ahead::run(simulation, decides)?;
    } else {
        simulation.run()?;
    }
    let chrome = simulation.controller.take_trace();
    let missed = missed_pages(&mut simulation.ftl)?;
    Ok(Outcome { report: Report::of(spec, &mut simulation, &before, dram, missed), chrome })
}

/// Pages that are stored although another page with the same content is; `None` without content.
fn missed_pages<N, P>(ftl: &mut Ftl<N, P>) -> Result<Option<u64>, RunError>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    if !N::Page::HAS_CONTENT {
        return Ok(None);
    }
    let mut keys = Vec::new();
    for place in 0..ftl.places() {
        if ftl.holds_data(place) {
            let page = ftl.content(place);
            keys.push(page.map_err(|error| RunError::Idle { error: error.into() })?.key());
        }
    }
    let stored = keys.len();
    keys.sort_unstable();
    keys.dedup();
    Ok(Some((stored - keys.len()) as u64))
}
