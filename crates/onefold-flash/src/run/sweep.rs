//! Many runs on many threads, with the same results on any number of them.
//! Room: onefold-flash.   In: specifications.   Out: their results, in their order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::run::{Report, RunError, RunOptions, TraceRequests, run};
use crate::spec::DriveSpec;

/// Opens the trace of a run anew, if runs replay one.
pub type OpenTrace<'a> = dyn Fn() -> Result<Option<TraceRequests>, RunError> + Sync + 'a;

/// Runs every specification, on so many threads at a time. `done` is called after each, and
/// `answered` counts the requests that each has answered so far.
///
/// Every run has its own random streams, so results do not depend on `threads`.
pub fn sweep(
    specs: &[DriveSpec],
    requests: Option<u64>,
    threads: usize,
    open: &OpenTrace<'_>,
    answered: &[AtomicU64],
    done: &(dyn Fn() + Sync),
) -> Vec<Result<Report, RunError>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Report, RunError>>>> =
        specs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(specs.len()).max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(spec) = specs.get(at) else { return };
                    let result = open().and_then(|trace| {
                        let options = RunOptions {
                            trace,
                            requests,
                            progress: answered.get(at),
                            ..RunOptions::default()
                        };
                        run(spec, options).map(|outcome| outcome.report)
                    });
                    *results[at].lock().expect("no run panics while it holds this") = Some(result);
                    done();
                }
            });
        }
    });
    let taken = |slot: Mutex<Option<Result<Report, RunError>>>| {
        slot.into_inner().expect("no run panics while it holds this").expect("every run was made")
    };
    results.into_iter().map(taken).collect()
}
