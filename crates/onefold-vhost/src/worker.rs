//! The thread of one queue: takes requests out of a guest's memory, has them done, and gives them
//! back, in their order.
//! Room: onefold-vhost.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use thiserror::Error;
use virtio_queue::{Queue, QueueOwnedT as _, QueueT as _};
use vm_memory::Bytes;

use crate::disk::{Disk, HELD_BYTES, write_of};
use crate::memory::Mapped;
use crate::request::{Piece, Request, Status, parse};

/// Most requests that are taken at once, and answered before the guest is called.
const BATCH: usize = 64;
/// Data after which the guest is called without waiting for the rest of a batch, in bytes.
const CALL_AFTER_BYTES: u64 = 128 << 10;

/// Why a queue is served no longer.
#[derive(Debug, Error)]
enum Broken {
    #[error("a queue that is not where its guest says: {0}")]
    Queue(#[from] virtio_queue::Error),
    #[error("a queue that lies outside of its guest's memory")]
    Elsewhere,
    #[error("a queue that has requests and gives none")]
    Stuck,
    #[error("what the guest calls with cannot be read: {0}")]
    Kick(#[from] rustix::io::Errno),
}

/// What the guest is called with; a monitor changes it while a queue is served.
pub(crate) type Call = Arc<Mutex<Option<OwnedFd>>>;

/// Tells a worker to stop.
pub(crate) struct Stop {
    asked: AtomicBool,
    bell: OwnedFd,
}

impl Stop {
    pub fn new() -> rustix::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { asked: AtomicBool::new(false), bell })
    }

    /// Stop after the requests that were taken.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        // Full only if it was rung before.
        let _ = rustix::io::write(&self.bell, &1u64.to_le_bytes());
    }

    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

/// What serves a queue.
pub(crate) struct Worker {
    pub queue: Queue,
    pub memory: Arc<Mapped>,
    pub disk: Arc<Disk>,
    pub kick: Arc<OwnedFd>,
    pub call: Call,
    pub stop: Arc<Stop>,
}

/// What is used again from batch to batch.
#[derive(Default)]
struct Scratch {
    pieces: Vec<Piece>,
    requests: Vec<Request>,
    data: Vec<u8>,
}

impl Worker {
    /// Serve until it is time to stop. Which request would have been the next.
    pub fn run(mut self) -> u16 {
        if let Err(broken) = self.serve() {
            self.disk.tell(&broken);
        }
        self.queue.next_avail()
    }

    fn serve(&mut self) -> Result<(), Broken> {
        if !self.queue.is_valid(&*self.memory) {
            return Err(Broken::Elsewhere);
        }
        let used = self.queue.used_idx(&*self.memory, Ordering::Acquire)?;
        self.queue.set_next_used(used.0);
        let mut scratch = Scratch::default();
        // What was there before the first call is not called for again.
        loop {
            self.drain(&mut scratch)?;
            if !self.wait()? {
                return Ok(());
            }
        }
    }

    /// Wait for a call of the guest; `false` if it is time to stop.
    fn wait(&self) -> Result<bool, Broken> {
        loop {
            if self.stop.is_asked() {
                return Ok(false);
            }
            let mut polled = [
                PollFd::new(&*self.kick, PollFlags::IN),
                PollFd::new(&self.stop.bell, PollFlags::IN),
            ];
            match poll(&mut polled, None) {
                Err(rustix::io::Errno::INTR) => continue,
                polled => polled?,
            };
            if polled[0].revents().is_empty() {
                continue;
            }
            match rustix::io::read(&*self.kick, &mut [0; 8]) {
                Ok(0) => return Err(Broken::Kick(rustix::io::Errno::PIPE)),
                Ok(_) => return Ok(true),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Do all requests that are there.
    fn drain(&mut self, scratch: &mut Scratch) -> Result<(), Broken> {
        let mut empty = 0;
        loop {
            self.queue.disable_notification(&*self.memory)?;
            while self.take(scratch)? {
                empty = 0;
                self.answer(scratch)?;
                if self.stop.is_asked() {
                    return Ok(());
                }
            }
            if !self.queue.enable_notification(&*self.memory)? {
                return Ok(());
            }
            empty += 1;
            // More came in between; but not again and again without any.
            if empty > 2 {
                return Err(Broken::Stuck);
            }
        }
    }

    /// Take some requests; `false` if there are none.
    fn take(&mut self, scratch: &mut Scratch) -> Result<bool, Broken> {
        scratch.pieces.clear();
        scratch.requests.clear();
        let limits = self.disk.limits();
        let memory = &*self.memory;
        for chain in self.queue.iter(memory)?.take(BATCH) {
            scratch.requests.push(parse(chain, memory, limits, &mut scratch.pieces));
        }
        Ok(!scratch.requests.is_empty())
    }

    /// Do what was taken and give it back.
    fn answer(&mut self, scratch: &mut Scratch) -> Result<(), Broken> {
        let Scratch { pieces, requests, data } = scratch;
        let mut rest = requests.as_slice();
        let mut put = 0;
        while let Some(first) = rest.first() {
            let together = together(rest);
            if together == 0 {
                let (status, bytes) = self.disk.run(first, pieces, &self.memory, data);
                self.give_back(first, status, bytes)?;
                rest = &rest[1..];
                put += bytes;
            } else {
                let (group, others) = rest.split_at(together);
                let ended = self.disk.write_together(group, pieces, &self.memory, data);
                for (request, status) in group.iter().zip(ended) {
                    self.give_back(request, status, 0)?;
                }
                rest = others;
            }
            if put >= CALL_AFTER_BYTES {
                put = 0;
                self.call()?;
            }
        }
        self.call()
    }

    /// Tell how a request ended, and give its chain back.
    fn give_back(&mut self, request: &Request, status: Status, bytes: u64) -> Result<(), Broken> {
        let mut used = 0;
        if let Some(at) = request.status {
            let told = self.memory.write_slice(&[status as u8], at);
            used = if told.is_ok() { bytes as u32 + 1 } else { 0 };
        }
        // Data and status are there before the guest is told of them: `add_used` sees to it.
        Ok(self.queue.add_used(&*self.memory, request.head, used)?)
    }

    /// Call the guest, if it wants to be.
    fn call(&mut self) -> Result<(), Broken> {
        if !self.queue.needs_notification(&*self.memory)? {
            return Ok(());
        }
        call_with(self.call.lock().unwrap_or_else(PoisonError::into_inner).as_ref());
        Ok(())
    }
}

/// Call the guest with what is there for it.
pub(crate) fn call_with(call: Option<&OwnedFd>) {
    if let Some(call) = call {
        // A monitor that does not take what it is called with has itself to blame.
        let _ = rustix::io::write(call, &1u64.to_le_bytes());
    }
}

/// How many requests from the first on are writes that are held at once.
fn together(requests: &[Request]) -> usize {
    let mut held = 0;
    let fits = |request: &&Request| {
        let Some((_, len)) = write_of(request) else { return false };
        held += len;
        held <= HELD_BYTES
    };
    requests.iter().take_while(fits).count()
}

#[cfg(test)]
mod tests;
