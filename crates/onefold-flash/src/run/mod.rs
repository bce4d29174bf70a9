//! Runs: a specification in, a report out.
//! Room: onefold-flash.   In: [`DriveSpec`], a trace.   Out: [`Report`].

mod error;
mod host;
mod report;
mod request;
mod simulation;
mod tally;

pub use error::RunError;
pub use report::{
    DedupReport, DramItem, DramReport, ErasesBucket, ErasesReport, LatencyReport, LifetimeReport,
    OpsReport, Report, RequestsReport, ServerReport, UtilisationReport, WafReport,
};
pub use request::{HostRequest, SimPage, TraceRequests};
pub use simulation::{Completion, Observer};
pub use tally::{OpTally, Tally};

use onefold_code::SeedSource;
use onefold_sim::ChromeTrace;

use crate::dedup::{AnyPolicy, Identities, NoDedup, Policy, Site};
use crate::ftl::Ftl;
use crate::nand::{BlankNand, Identity, IdentityNand, Nand};
use crate::spec::{DedupSpec, DriveSpec};
use request::Source;
use simulation::Simulation;

/// What a run takes beside the specification.
#[derive(Default)]
pub struct RunOptions<'a> {
    /// Requests to replay instead of generating them.
    pub trace: Option<TraceRequests>,
    /// At most so many requests of the trace.
    pub requests: Option<u64>,
    /// Told about every answered request.
    pub observer: Option<&'a mut Observer<'a>>,
    /// Operations to keep for a Chrome trace; 0 for none.
    pub chrome_operations: usize,
}

impl std::fmt::Debug for RunOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("trace", &self.trace.is_some())
            .field("requests", &self.requests)
            .field("observer", &self.observer.is_some())
            .field("chrome_operations", &self.chrome_operations)
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
    spec.check()?;
    let DedupSpec { policy, options: dedup } = &spec.dedup;
    if policy == "none" && dedup.is_empty() {
        return drive(spec, BlankNand::new(spec.geometry), NoDedup, options);
    }
    let site = Site { geometry: spec.geometry, seed_source: seed_source(spec) };
    let policy = AnyPolicy::new::<Identity>(policy, dedup, &site, Identities)
        .map_err(|error| RunError::Dedup(error.to_string()))?;
    drive(spec, IdentityNand::new(spec.geometry), policy, options)
}

/// What the drive seeds its scrambler from; `None` without a scrambler.
fn seed_source(spec: &DriveSpec) -> Option<SeedSource> {
    onefold_code::preset(&spec.media.scrambler).ok().map(|scrambler| scrambler.seed_source)
}

fn drive<N, P>(
    spec: &DriveSpec,
    nand: N,
    policy: P,
    options: RunOptions<'_>,
) -> Result<Outcome, RunError>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    let mut source = Source::new(spec, options.trace)?;
    if let Some(requests) = options.requests {
        source.limit(requests);
    }
    let ftl = Ftl::format(nand, policy, spec.ftl_settings()).map_err(RunError::Format)?;
    let dram = report::dram(spec, &ftl.policy().dram())?;
    let before = *ftl.counters();
    let mut simulation = Simulation::new(spec, ftl, source, options.observer);
    if options.chrome_operations > 0 {
        simulation.controller.keep_trace(options.chrome_operations);
    }
    simulation.run()?;
    let chrome = simulation.controller.take_trace();
    Ok(Outcome { report: Report::of(spec, &mut simulation, &before, dram), chrome })
}
