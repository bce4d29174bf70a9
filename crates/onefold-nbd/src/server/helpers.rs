//! Threads that take slow requests off a connection's own thread.
//! Room: onefold-nbd.   In: groups of requests with their payload.   Out: replies, sent.
//! Invariants: (1) what helpers hold is bounded; what does not fit is done by the caller, which
//! then receives nothing more meanwhile; (2) all that was taken is done before the end.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use onefold_block::memory;

use super::execute::{Accepted, Executor};
use super::replies::ReplyBuffer;

/// Most helpers of a connection: how many slow calls of one client the device sees at once.
/// Started one by one when all others are busy.
pub(super) const MAX_HELPERS: usize = 8;
/// Most groups waiting for a helper. Beyond it the connection's own thread does them.
const MAX_WAITING: usize = 64;
/// Most bytes of payload, or of data to be read, that waiting and running groups hold.
pub(super) const MAX_HELD_BYTES: usize = 16 << 20;

/// A group of requests that join, with a copy of their payload.
struct Job {
    group: Vec<Accepted>,
    payload: Vec<u8>,
    held_bytes: usize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    held_bytes: usize,
    idle: usize,
    started: usize,
    closing: bool,
}

/// The helpers of one connection.
#[derive(Default)]
pub(super) struct Helpers {
    state: Mutex<State>,
    changed: Condvar,
}

impl Helpers {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take a group over; `false`, and nothing done, if there is no room for it.
    pub fn take<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        executor: &'env Executor<'env>,
        group: &[Accepted],
        payload: &[u8],
    ) -> bool {
        let held_bytes = group.iter().map(Accepted::held_bytes).sum();
        let mut state = self.locked();
        if state.waiting.len() >= MAX_WAITING || state.held_bytes + held_bytes > MAX_HELD_BYTES {
            return false;
        }
        if state.idle <= state.waiting.len() && state.started < MAX_HELPERS {
            let begun = std::thread::Builder::new()
                .name("nbd-helper".to_owned())
                .spawn_scoped(scope, || self.work(executor));
            match begun {
                Ok(_) => state.started += 1,
                Err(_) if state.started == 0 => return false,
                Err(_) => {}
            }
        }
        let Some(job) = Job::copy_of(group, payload, held_bytes) else { return false };
        state.held_bytes += held_bytes;
        state.waiting.push_back(job);
        drop(state);
        self.changed.notify_one();
        true
    }

    /// No more groups will come: helpers end when nothing waits.
    pub fn close(&self) {
        self.locked().closing = true;
        self.changed.notify_all();
    }

    fn work(&self, executor: &Executor<'_>) {
        let mut out = ReplyBuffer::new();
        let mut state = self.locked();
        loop {
            if let Some(job) = state.next_job() {
                drop(state);
                // The channel closes itself when sending fails; what was taken is done anyway.
                let _ = executor
                    .run(&job.group, &job.payload, executor.now_ns(), &mut out)
                    .and_then(|_| out.send(executor.channel));
                state = self.locked();
                state.held_bytes -= job.held_bytes;
            } else if state.closing {
                return;
            } else {
                state.idle += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl State {
    /// The next job; flushes that wait are done together, since one that starts now covers all
    /// writes any of them covers.
    fn next_job(&mut self) -> Option<Job> {
        let mut job = self.waiting.pop_front()?;
        if job.is_flush() {
            let waiting = std::mem::take(&mut self.waiting);
            let (flushes, others) = waiting.into_iter().partition(Job::is_flush);
            self.waiting = others;
            let flushes: VecDeque<Job> = flushes;
            job.group.extend(flushes.into_iter().flat_map(|flush| flush.group));
        }
        Some(job)
    }
}

impl Job {
    /// A group with its payload; `None` if there is no memory for it.
    fn copy_of(group: &[Accepted], bytes: &[u8], held_bytes: usize) -> Option<Self> {
        let len = group.iter().map(|accepted| accepted.payload.len()).sum();
        let mut payload = Vec::new();
        if !memory::reserve(&mut payload, len) {
            return None;
        }
        let group = group
            .iter()
            .map(|accepted| {
                let start = payload.len();
                payload.extend_from_slice(&bytes[accepted.payload.clone()]);
                Accepted { payload: start..payload.len(), ..accepted.clone() }
            })
            .collect();
        Some(Self { group, payload, held_bytes })
    }

    fn is_flush(&self) -> bool {
        self.group.first().is_some_and(Accepted::is_flush)
    }
}
