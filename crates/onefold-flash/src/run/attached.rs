//! A drive in somebody else's virtual time: a part of a larger model, which hands requests in and
//! asks when to look again.
//! Room: onefold-flash.   In: [`DriveSpec`], requests.   Out: answers, and what the drive counted.
//! Invariants: the drive never runs ahead of the time that it was told; the same requests at the
//! same times are answered at the same times, however often it is looked at; requests that are
//! handed in as a workload would bring them take as long as in a run.

use std::iter;

use crate::dedup::{AnyPolicy, Identities, NoDedup, Policy};
use crate::ftl::Counters;
use crate::nand::{Identity, Nand};
use crate::op::OpKind;
use crate::run::completion::Answer;
use crate::run::error::RunError;
use crate::run::ready::{check, nand, prepared, site};
use crate::run::request::{HostRequest, SimPage};
use crate::run::simulation::Simulation;
use crate::run::source::Source;
use crate::spec::{DriveSpec, TraceTiming};

/// What a drive counted since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttachedCounts {
    /// Pages that its host wrote.
    pub pages_written: u64,
    /// Pages that its host read.
    pub pages_read: u64,
    /// Pages that its host declared unused.
    pub pages_trimmed: u64,
    /// Written pages that were shared with equal ones, at once or later.
    pub pages_shared: u64,
    /// Pages programmed, for whatever reason.
    pub pages_programmed: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Busy time of its flash units, as a share of all of them times time, in ns.
    pub busy_ns: f64,
}

/// A drive that waits for requests.
pub trait Attached: Send {
    /// Hands a request in, which comes now: its `arrival_ns`, not before any time told so far.
    /// Requests are numbered by whoever hands them in, each with a number above the last one's.
    ///
    /// # Errors
    /// What a run may fail of.
    fn submit(&mut self, request: HostRequest) -> Result<(), RunError>;

    /// When something happens next, if nothing else is handed in before.
    fn next_event_ns(&self) -> Option<u64>;

    /// Works off everything up to this time and including it.
    ///
    /// # Errors
    /// What a run may fail of.
    fn advance(&mut self, until_ns: u64) -> Result<(), RunError>;

    /// Whether there are answers that were not taken.
    fn has_answers(&self) -> bool;

    /// Takes the answers since the last call, in their order.
    fn take_answers(&mut self, to: &mut Vec<Answer>);

    /// What was counted.
    fn counts(&self) -> AttachedCounts;

    /// Pages that its host can address.
    fn logical_pages(&self) -> u32;
}

/// A drive in the state that its specification says, to be driven by others. What the
/// specification says of a workload counts for that state only.
///
/// # Errors
/// [`RunError`].
pub fn attach(spec: &DriveSpec) -> Result<Box<dyn Attached>, RunError> {
    check(spec)?;
    if spec.codewords() > 1 {
        return Err(RunError::CodewordsAttached);
    }
    let mut spec = spec.clone();
    spec.workload.trace_timing = TraceTiming::Timestamps;
    let nand = nand(&spec)?;
    match spec.dedup.policy.as_str() {
        "none" => drive(&spec, nand, NoDedup),
        name => {
            let (options, site) = (&spec.dedup.options, site(&spec));
            let policy = AnyPolicy::new::<Identity>(name, options, &site, Identities)?;
            drive(&spec, nand, policy)
        }
    }
}

fn drive<N, P>(spec: &DriveSpec, nand: N, policy: P) -> Result<Box<dyn Attached>, RunError>
where
    N: Nand<Page: SimPage> + Send + 'static,
    P: Policy<N::Page> + Send + 'static,
    N::Page: Send,
{
    let source = Source::new(spec, Some(Box::new(iter::empty())))?;
    let (ftl, host, _) = prepared(spec, nand, policy, source)?;
    let before = *ftl.counters();
    let mut simulation = Simulation::new(spec, ftl, host, None, None);
    simulation.answers = Some(Vec::new());
    Ok(Box::new(Drive { simulation, before }))
}

struct Drive<N: Nand, P> {
    simulation: Simulation<'static, N, P>,
    before: Counters,
}

impl<N, P> Attached for Drive<N, P>
where
    N: Nand<Page: SimPage> + Send,
    P: Policy<N::Page> + Send,
    N::Page: Send,
{
    fn submit(&mut self, request: HostRequest) -> Result<(), RunError> {
        self.advance(request.arrival_ns)?;
        self.simulation.hand_in(request)
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.simulation.controller.next_event_ns()
    }

    fn advance(&mut self, until_ns: u64) -> Result<(), RunError> {
        self.simulation.advance(until_ns)
    }

    fn has_answers(&self) -> bool {
        self.simulation.answers.as_ref().is_some_and(|answers| !answers.is_empty())
    }

    fn take_answers(&mut self, to: &mut Vec<Answer>) {
        if let Some(answers) = &mut self.simulation.answers {
            to.append(answers);
        }
    }

    fn counts(&self) -> AttachedCounts {
        let since = self.simulation.ftl.counters().since(&self.before);
        let accounts = self.simulation.accounts();
        AttachedCounts {
            pages_written: since.host_pages_written,
            pages_read: since.host_pages_read,
            pages_trimmed: since.host_pages_trimmed,
            pages_shared: since.inline_pages + since.offline_pages,
            pages_programmed: since.ops.all(OpKind::Program),
            erases: since.ops.all(OpKind::Erase),
            busy_ns: accounts.usage.units.mean * self.simulation.controller.time_ns() as f64,
        }
    }

    fn logical_pages(&self) -> u32 {
        self.simulation.ftl.settings().logical_pages
    }
}
