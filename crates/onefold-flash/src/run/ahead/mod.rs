//! A second thread that goes ahead of a run: it draws the requests and, where the FTL's decisions
//! do not depend on time, decides on them; the first thread finds out what all of it takes.
//! Room: onefold-flash.   In: a simulation before its first request.   Out: it, run.
//! Invariants: a run has the same report on any number of threads; what is ahead is bounded; when
//! either side ends, so does the other; a panic ahead is one of the run, in its turn.
//! Cost: 56 bytes a request pass from one core to the other, and 8 for each step decided on.

mod batch;
mod carry;
pub(crate) mod inbox;
pub(crate) mod lent;
mod recorder;
mod rule;
mod worker;

use std::sync::mpsc::{SyncSender, channel, sync_channel};

use crate::dedup::Policy;
use crate::nand::Nand;
use crate::run::ahead::batch::Message;
use crate::run::ahead::inbox::Inbox;
use crate::run::ahead::worker::Worker;
use crate::run::error::RunError;
use crate::run::request::SimPage;
use crate::run::simulation::Simulation;

pub(crate) use rule::{Workload, decides_ahead};

/// Batches that wait at most.
const WAITING: usize = 4;

/// Runs a simulation with a second thread ahead of it, which decides as well if it `decides`.
pub(crate) fn run<N, P>(
    mut simulation: Simulation<'_, N, P>,
    decides: bool,
) -> Result<Simulation<'_, N, P>, RunError>
where
    N: Nand<Page: SimPage + Send> + Send,
    P: Policy<N::Page> + Send,
{
    let (give_back, spent) = channel();
    let worker = Worker::of(&mut simulation, decides, spent);
    let (send, receive) = sync_channel(WAITING);
    std::thread::scope(|scope| {
        scope.spawn(move || in_turn(worker, &send));
        // Owned here, so that the other thread ends whichever way this is left.
        let mut simulation = simulation;
        simulation.inbox = Some(Inbox::new(receive, give_back));
        simulation.run()?;
        simulation.inbox = None;
        Ok(simulation)
    })
}

/// Works until nobody listens; a panic is handed over like anything else.
fn in_turn<N, P>(worker: Worker<N, P>, send: &SyncSender<Message<N, P>>)
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    let work = std::panic::AssertUnwindSafe(|| worker.work(send));
    if let Err(panic) = std::panic::catch_unwind(work) {
        // Without listeners the run has ended before it came to this.
        let _ = send.send(Err(panic));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedup::NoDedup;
    use crate::nand::{IdentityNand, Interruptible as _};
    use crate::run::ahead::batch::Spent;
    use crate::run::ready::prepared;
    use crate::run::source::Source;
    use crate::spec::{DriveSpec, SpecBuilder};

    fn spec(set: &[&str]) -> DriveSpec {
        let builder = SpecBuilder::preset("ses-slc").expect("a preset");
        let spec = set.iter().try_fold(builder, |builder, one| builder.set(one));
        spec.and_then(SpecBuilder::build).expect("a drive")
    }

    /// How a run ends of whose blocks only the first can be programmed, with so many pages; all
    /// of them, if that is nothing.
    fn ends(pages: Option<u32>, two_threads: bool) -> Result<u64, String> {
        let per_block = format!("pages_per_block={}", pages.unwrap_or(256).max(1));
        let set = [
            "channels=1",
            "packages=1",
            "dies_per_package=1",
            "planes_per_die=1",
            &per_block,
            "precondition=none",
            "over_provisioning=0.3",
            "requests=3000",
            "queue_depth=100",
        ];
        let spec = spec(&set);
        let nand = IdentityNand::new(spec.geometry);
        let source = Source::new(&spec, None).expect("a source");
        let (mut ftl, host, _) = prepared(&spec, nand, NoDedup, source).expect("a drive");
        if let Some(pages) = pages {
            let bad = pages.min(1)..spec.geometry.blocks();
            bad.for_each(|block| ftl.nand().mark_bad(block));
        }
        let mut simulation = Simulation::new(&spec, ftl, host, None, None);
        let done = if two_threads {
            run(simulation, true).map(|simulation| simulation.tally.hash())
        } else {
            simulation.run().map(|()| simulation.tally.hash())
        };
        done.map_err(|error| error.to_string())
    }

    #[test]
    fn what_the_ftl_fails_of_ahead_ends_the_run_at_that_request() {
        for pages in [0, 1, 1023, 1024, 1500] {
            let error = ends(Some(pages), false).expect_err("the second block is bad");
            assert!(error.contains(&format!("request {pages}")), "{error}");
            assert_eq!(ends(Some(pages), true), Err(error));
        }
        let hash = ends(None, false);
        assert!(hash.is_ok(), "{hash:?}");
        assert_eq!(ends(None, true), hash);
    }

    #[test]
    fn what_the_run_is_done_with_is_filled_again() {
        let spec = spec(&["precondition=none", "over_provisioning=0.3", "requests=4000"]);
        let nand = IdentityNand::new(spec.geometry);
        let source = Source::new(&spec, None).expect("a source");
        let (ftl, host, _) = prepared(&spec, nand, NoDedup, source).expect("a drive");
        let mut simulation = Simulation::new(&spec, ftl, host, None, None);
        let (give_back, spent) = channel();
        let mut worker = Worker::of(&mut simulation, true, spent);
        let first = worker.batch();
        let (requests, steps) = (first.requests.as_ptr(), first.decisions.steps.as_ptr());
        give_back.send(Spent::Requests(first.requests)).expect("it listens");
        give_back.send(Spent::Steps(first.decisions.steps)).expect("it listens");
        let second = worker.batch();
        assert_eq!((second.requests[0].number, second.requests.as_ptr()), (1024, requests));
        // It was writing to another list when it got this one back.
        let third = worker.batch();
        assert_eq!((third.decisions.requests, third.decisions.steps.as_ptr()), (1024, steps));
        assert_eq!(third.decisions.steps.len(), 2 * 1024, "a program each, and the end of it");
        assert_ne!(third.requests.as_ptr(), requests);
    }
}
