//! The host's side: the link, the queue of the drive, the write buffer, and who waits for what.
//! Room: onefold-flash.

use std::collections::VecDeque;

use onefold_workload::Op;

use crate::controller::{Servers, transfer_ns};
use crate::run::completion::Verdict;
use crate::run::host_scrambler::HostScrambler;
use crate::run::request::HostRequest;
use crate::spec::{DriveSpec, WriteBuffer};

/// Pages of all requests in the queue of the drive at which it takes no more: each is a chain of
/// steps, and the controller numbers 2^25 of them.
const TAKEN_PAGES_MAX: u64 = 1 << 23;

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Taken into the queue of the drive.
    Taken,
    /// The host scrambles what it writes.
    HostOut,
    /// Its command, and what it writes, is on the link.
    LinkIn,
    /// A core looks at it.
    Cpu,
    /// It waits for room in the write buffer.
    Buffer,
    /// The flash works.
    Flash,
    /// What it read is on the link.
    LinkOut,
    /// The host undoes what it had scrambled.
    HostIn,
}

/// A request under way, by the number of its flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Underway {
    pub request: HostRequest,
    pub stage: Stage,
    /// When the stage began.
    pub since: u64,
    /// Whether the host has its answer already.
    pub answered: bool,
    /// What became of what it wrote.
    pub verdict: Verdict,
}

/// A flush that waits for the writes before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flush {
    pub flight: u32,
    pub number: u64,
    pub writes_left: u32,
}

/// The link, the queue and the buffer.
#[derive(Debug)]
pub(crate) struct Host {
    /// The host's software scrambler, where it has one that takes time.
    pub scrambler: Option<HostScrambler>,
    pub link_in: Servers,
    pub link_out: Servers,
    link_mb_per_s: u64,
    pub link_latency_ns: u64,
    pub request_ns: u64,
    pub queue_entries: u32,
    /// Requests in the queue of the drive.
    pub taken: u32,
    /// Pages of them.
    pub taken_pages: u64,
    /// Requests that came when the queue was full.
    pub outside: VecDeque<HostRequest>,
    pub write_back: bool,
    pub protected: bool,
    buffer_pages: u32,
    pub buffer_used: u32,
    /// Writes that wait for the buffer, and TRIMs between and behind them, as they came.
    pub for_buffer: VecDeque<u32>,
    /// Writes that are not in the flash yet.
    pub writes: u32,
    pub flushes: Vec<Flush>,
}

impl Host {
    pub(crate) fn new(spec: &DriveSpec, scrambler: Option<HostScrambler>) -> Self {
        Self {
            scrambler,
            link_in: Servers::new(1),
            link_out: Servers::new(1),
            link_mb_per_s: spec.host.link_mb_per_s,
            link_latency_ns: spec.host.link_latency_ns,
            request_ns: spec.controller.request_ns,
            queue_entries: spec.host.queue_entries,
            taken: 0,
            taken_pages: 0,
            outside: VecDeque::new(),
            write_back: spec.controller.write_buffer == WriteBuffer::Back,
            protected: spec.controller.power_loss_protection,
            // Requests come in codewords where the map names these.
            buffer_pages: spec.controller.write_buffer_pages.saturating_mul(spec.codewords()),
            buffer_used: 0,
            for_buffer: VecDeque::new(),
            writes: 0,
            flushes: Vec::new(),
        }
    }

    /// Whether nothing on the way to the drive, neither the host's cores nor the link nor the
    /// controller's, takes time.
    #[inline]
    pub(crate) const fn hands_over_at_once(&self) -> bool {
        let on_the_link = self.link_mb_per_s > 0 || self.link_latency_ns > 0;
        self.scrambler.is_none() && !on_the_link && self.request_ns == 0
    }

    /// When what a request writes is scrambled by the host, and may cross the link.
    pub(crate) fn scramble(&mut self, now: u64, request: &HostRequest, drive_pages: u32) -> u64 {
        match &mut self.scrambler {
            Some(cores) if request.op == Op::Write => {
                cores.write(now, request.lpns(drive_pages), request.deduplicate)
            }
            _ => now,
        }
    }

    /// When what a request has read is as the host wrote it.
    pub(crate) fn undo(&mut self, now: u64, request: &HostRequest, drive_pages: u32) -> u64 {
        match &mut self.scrambler {
            Some(cores) if request.op == Op::Read => cores.read(now, request.lpns(drive_pages)),
            _ => now,
        }
    }

    /// Time of pages on the link.
    pub(crate) fn link_ns(&self, pages: u32, page_bytes: u32) -> u64 {
        transfer_ns(u64::from(pages) * u64::from(page_bytes), self.link_mb_per_s)
    }

    /// Whether so many pages may enter the buffer now; requests larger than it enter an empty one.
    pub(crate) const fn has_room(&self, pages: u32) -> bool {
        self.buffer_used == 0 || self.buffer_used + pages <= self.buffer_pages
    }

    /// Whether a request need not wait for the buffer. What changes pages overtakes nothing that
    /// waits to do so.
    pub(crate) fn may_enter(&self, request: &HostRequest) -> bool {
        match request.op {
            Op::Write => self.for_buffer.is_empty() && self.has_room(request.pages),
            Op::Trim => self.for_buffer.is_empty(),
            Op::Read | Op::Flush | Op::Idle => true,
        }
    }

    /// Whether there is room in the queue of the drive.
    pub(crate) const fn may_take(&self) -> bool {
        self.taken < self.queue_entries && self.taken_pages < TAKEN_PAGES_MAX
    }

    /// Whether nobody waits for the drive.
    pub(crate) fn is_quiet(&self) -> bool {
        self.taken == 0 && self.writes == 0 && self.outside.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::told::drive;

    fn host(lines: &[&str]) -> Host {
        Host::new(&drive(lines), None)
    }

    #[test]
    fn whatever_takes_a_nanosecond_on_the_way_is_gone_through() {
        assert!(host(&[]).hands_over_at_once());
        for line in ["host.link_mb_per_s=1", "host.link_latency_ns=1", "controller.request_ns=1"] {
            assert!(!host(&[line]).hands_over_at_once(), "{line}");
        }
        let spec = drive(&["dedup.policy=\"ses-host\"", "host.scrambler_mb_per_s=1"]);
        let cores = HostScrambler::new(&spec).expect("a policy");
        assert!(cores.is_some() && !Host::new(&spec, cores).hands_over_at_once());
    }

    #[test]
    fn buffer_and_queue_take_what_they_have_room_for() {
        let mut host = host(&["controller.write_buffer_pages=5", "host.queue_entries=2"]);
        assert!(host.has_room(6), "an empty one takes anything");
        host.buffer_used = 2;
        assert!(host.has_room(3) && !host.has_room(4));
        for (taken, pages, may) in [
            (0, 0, true),
            (1, 0, true),
            (2, 0, false),
            (1, TAKEN_PAGES_MAX - 1, true),
            (1, TAKEN_PAGES_MAX, false),
        ] {
            (host.taken, host.taken_pages) = (taken, pages);
            assert_eq!((host.may_take(), host.is_quiet()), (may, taken == 0), "{taken}, {pages}");
        }
    }

    #[test]
    fn writes_on_their_way_and_requests_outside_wait_for_the_drive() {
        let mut host = host(&[]);
        host.writes = 1;
        assert!(!host.is_quiet());
        host.writes = 0;
        assert!(host.is_quiet());
    }
}
