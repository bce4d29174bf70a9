//! The own work of a drive that is served: when nobody asks for anything, or the host says so.
//! Room: onefold.
//! Invariants: nothing is begun while requests come; a hint counts only if nothing was asked since.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use onefold_flash::drive::{FileDrive, HostCounts};
use onefold_flash::spec::DriveSpec;

/// How often at most the drive is asked whether it has been idle.
const IDLE_POLL: Duration = Duration::from_millis(100);

/// What the host has said and the thread has not heard yet: what had been asked for by then.
type Said = Mutex<Option<HostCounts>>;

/// The thread that works in idle moments.
pub struct Background {
    device: Arc<FileDrive>,
    stopping: Arc<AtomicBool>,
    said: Arc<Said>,
    /// Without it, the drive has no idle moments.
    thread: Option<JoinHandle<()>>,
}

/// Where the host's hints go.
pub struct Hints {
    device: Arc<FileDrive>,
    said: Arc<Said>,
    thread: Thread,
}

impl Background {
    /// Begins to look for idle moments.
    pub fn start(device: Arc<FileDrive>, spec: &DriveSpec) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let said = Arc::new(Said::default());
        let after = Duration::from_nanos(spec.controller.idle_after_ns);
        let after = (!after.is_zero()).then(|| after.max(IDLE_POLL));
        let (of, seen, heard) = (Arc::clone(&device), Arc::clone(&stopping), Arc::clone(&said));
        let work = move || work(&of, after, &seen, &heard);
        let thread = std::thread::Builder::new().name("idle".to_owned()).spawn(work).ok();
        Self { device, stopping, said, thread }
    }

    /// Where hints go; nowhere without a thread.
    pub fn hints(&self) -> Option<Hints> {
        let thread = self.thread.as_ref()?.thread().clone();
        Some(Hints { device: Arc::clone(&self.device), said: Arc::clone(&self.said), thread })
    }

    /// Ends it, after the step that is under way.
    pub fn stop(self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread {
            thread.thread().unpark();
            // A panic there has poisoned the drive, and closing it says so.
            let _ = thread.join();
        }
    }
}

impl Hints {
    /// The host asks for nothing for a while.
    pub fn give(&self) {
        let asked = self.device.host_counts();
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
        self.thread.unpark();
    }
}

fn work(device: &FileDrive, after: Option<Duration>, stopping: &AtomicBool, said: &Said) {
    let mut last = device.host_counts();
    while !stopping.load(Ordering::Acquire) {
        let began = Instant::now();
        match after {
            Some(after) => std::thread::park_timeout(after),
            None => std::thread::park(),
        }
        let now = device.host_counts();
        let said = said.lock().unwrap_or_else(PoisonError::into_inner).take();
        let timed_out = after.is_some_and(|after| began.elapsed() >= after);
        let quiet = timed_out && now == last;
        if quiet || said == Some(now) {
            // While nobody asks for anything, until there is nothing left to do.
            while !stopping.load(Ordering::Acquire) && now == device.host_counts() {
                match device.idle() {
                    Ok(true) => {}
                    Ok(false) => break,
                    // The next request is told.
                    Err(_) => return,
                }
            }
        }
        last = device.host_counts();
    }
}
