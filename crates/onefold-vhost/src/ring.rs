//! What a monitor says of one queue, and the worker that serves it while it is complete.
//! Room: onefold-vhost.
//! Invariant: nothing of a queue changes under its worker but what it calls the guest with: the
//! worker is stopped, and begins anew where it was.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use virtio_queue::{Queue, QueueT as _};

use crate::config::QUEUE_ENTRIES_MAX;
use crate::disk::Disk;
use crate::error::SessionError;
use crate::memory::Memory;
use crate::worker::{Call, Stop, Worker, call_with};

/// Where the parts of a queue are, in the monitor's addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub descriptors: u64,
    pub used: u64,
    pub available: u64,
}

/// One queue.
#[derive(Default)]
pub(crate) struct Ring {
    entries: u16,
    places: Option<Places>,
    /// The request that is the next.
    next: u16,
    enabled: bool,
    kick: Option<Arc<OwnedFd>>,
    call: Call,
    worker: Option<(Arc<Stop>, JoinHandle<u16>)>,
}

impl Ring {
    /// How many entries it has.
    pub fn set_entries(&mut self, entries: u32) -> Result<(), SessionError> {
        let fits = entries.is_power_of_two() && entries <= QUEUE_ENTRIES_MAX.into();
        if !fits {
            return Err(SessionError::Entries(entries));
        }
        self.stop();
        self.entries = entries as u16;
        Ok(())
    }

    /// Where it is.
    pub fn set_places(&mut self, places: Places) {
        self.stop();
        self.places = Some(places);
    }

    /// Which request is the next.
    pub fn set_next(&mut self, next: u16) {
        self.stop();
        self.next = next;
    }

    /// Whether it may be served.
    pub fn set_enabled(&mut self, enabled: bool) {
        if !enabled {
            self.stop();
        }
        self.enabled = enabled;
    }

    /// What the guest calls with.
    pub fn set_kick(&mut self, kick: Option<OwnedFd>) -> Result<(), SessionError> {
        self.stop();
        self.kick = kick.map(never_waits).transpose()?.map(Arc::new);
        Ok(())
    }

    /// What the guest is called with. A queue that is served calls once with what is new: the call
    /// for the last answer may have gone to what it replaces, and nobody has to listen to that any
    /// more.
    pub fn set_call(&mut self, call: Option<OwnedFd>) -> Result<(), SessionError> {
        let call = call.map(never_waits).transpose()?;
        let mut held = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        *held = call;
        if self.worker.is_some() {
            call_with(held.as_ref());
        }
        Ok(())
    }

    /// Stop serving, after what was taken; which request is the next.
    pub fn stop(&mut self) -> u16 {
        if let Some((stop, worker)) = self.worker.take() {
            stop.ask();
            // Its panic has been told; where it was is not known.
            self.next = worker.join().unwrap_or(self.next);
        }
        self.next
    }

    /// Forget what the guest calls with, and is called with: it is stopped until there is another.
    pub fn halt(&mut self) -> u16 {
        let next = self.stop();
        self.kick = None;
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = None;
        next
    }

    /// Serve, if all is there that it takes and nobody does yet.
    pub fn start(
        &mut self,
        memory: &Memory,
        disk: &Arc<Disk>,
        event_index: bool,
    ) -> Result<(), SessionError> {
        let (Some(places), Some(kick), true, None) =
            (self.places, &self.kick, self.enabled && self.entries > 0, &self.worker)
        else {
            return Ok(());
        };
        let queue = self.queue(places, memory, event_index)?;
        let stop = Arc::new(Stop::new().map_err(std::io::Error::from)?);
        let worker = Worker {
            queue,
            memory: memory.mapped(),
            disk: Arc::clone(disk),
            kick: Arc::clone(kick),
            call: Arc::clone(&self.call),
            stop: Arc::clone(&stop),
        };
        let thread = Builder::new().name("vhost-queue".to_owned()).spawn(move || worker.run())?;
        self.worker = Some((stop, thread));
        Ok(())
    }

    fn queue(
        &self,
        places: Places,
        memory: &Memory,
        event_index: bool,
    ) -> Result<Queue, SessionError> {
        let at = |monitor| memory.guest_address(monitor).ok_or(SessionError::Elsewhere);
        let mut queue = Queue::new(QUEUE_ENTRIES_MAX)?;
        queue.try_set_size(self.entries)?;
        queue.try_set_desc_table_address(at(places.descriptors)?)?;
        queue.try_set_avail_ring_address(at(places.available)?)?;
        queue.try_set_used_ring_address(at(places.used)?)?;
        queue.set_next_avail(self.next);
        queue.set_event_idx(event_index);
        queue.set_ready(true);
        Ok(queue)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What another process hands over never makes a thread of ours wait.
fn never_waits(file: OwnedFd) -> Result<OwnedFd, SessionError> {
    let flags = fcntl_getfl(&file).map_err(std::io::Error::from)?;
    fcntl_setfl(&file, flags | OFlags::NONBLOCK).map_err(std::io::Error::from)?;
    Ok(file)
}
