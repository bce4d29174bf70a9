//! Leaving in order: answer, flush, close, within a bounded time.
//! Room: onefold.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onefold_pool::Pool;

use super::child;
use super::listeners::Servers;
use crate::at_once;
use crate::failure::{Failure, Result};
use crate::output::Printer;

/// Time for requests that were received to be answered.
const DRAIN: Duration = Duration::from_secs(8);
/// Time for all of it. Service managers and people lose patience at 20 s.
const ALL: Duration = Duration::from_secs(19);

/// Stop the servers, flush the pool and close it.
pub fn in_order(servers: Servers, pool: Pool, path: &Path, printer: &Printer) -> Result<()> {
    drain(servers, printer);
    pool.close().map_err(|error| {
        Failure::pool(path, error).hint("what clients flushed before the failure is safe")
    })
}

/// Stop the servers.
pub fn drain(servers: Servers, printer: &Printer) {
    let hanging = servers.stop(DRAIN);
    if hanging > 0 {
        printer.warning(&format!("{hanging} requests did not return from the disk"));
    }
}

/// A bound for leaving: a disk that never answers must not keep the process for ever, whichever of
/// its threads asks the disk for something.
pub struct Patience {
    /// What is said when it is over.
    failure: Failure,
    time: Duration,
    has_begun: AtomicBool,
}

impl Patience {
    /// For a server of this, and the command that it is for, if there is one.
    pub fn new(what: &str, has_command: bool) -> Arc<Self> {
        let failure = Failure::bad(format!("{what} could not be flushed in time"));
        Self::or(failure.hint("what clients flushed before is safe"), has_command)
    }

    /// That says something else when it is over.
    pub fn or(failure: Failure, has_command: bool) -> Arc<Self> {
        let time = if has_command { ALL + child::END } else { ALL };
        Arc::new(Self { failure, time, has_begun: AtomicBool::new(false) })
    }

    /// What begins it when a signal asks to stop.
    pub fn on_stop(self: &Arc<Self>) -> impl Fn() + Send + 'static {
        let patience = Arc::clone(self);
        move || patience.begin()
    }

    /// From now on it runs; the process ends when it is over. Beginning again changes nothing.
    pub fn begin(&self) {
        let failure = self.failure.clone();
        self.begin_with(move |time| {
            std::thread::sleep(time);
            Printer::new(true).failure(&failure);
            at_once::end(1);
        });
    }

    fn begin_with(&self, run_out: impl FnOnce(Duration) + Send + 'static) {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            return;
        }
        // It goes with the process, and without it stopping only lacks its bound.
        let time = self.time;
        let thread = std::thread::Builder::new().name("patience".to_owned());
        let _ = thread.spawn(move || run_out(time));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn patience_begins_once_and_a_command_has_its_own_time() {
        let patience = Patience::new("pool 'p'", false);
        let (to, times) = channel();
        for _ in 0..2 {
            let to = to.clone();
            patience.begin_with(move |time| to.send(time).unwrap());
        }
        drop(to);
        assert_eq!(times.iter().collect::<Vec<_>>(), [ALL]);
        assert_eq!(Patience::new("", true).time, ALL + child::END);
    }
}
