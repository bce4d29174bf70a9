//! Drives that are simulated whole: containers or pages of the table lie on them, and batches and
//! flushes wait for their answers.
//! Room: onefold-array.   In: bytes of containers, reads of contents, pages.   Out: answers.
//! Each data drive holds a log of containers. Compressed chunks are packed one behind the other; a
//! page goes to the drive when it is full, and its unfinished last one stays in memory that
//! outlives the server. Where a log has filled its drive it begins again at the front: what lies
//! there counts as collected, and each container is trimmed before the first page of the next one
//! is written over it. What was stored before the run lies anywhere on the drives.
//! Invariants: (1) bytes stored are bytes of pages written and of unfinished ones  (2) the drives'
//! time is the server's  (3) a batch waits for all its requests, and nobody for a TRIM  (4) a flush
//! goes to the drives that were written to since their last one.
//! Cost: 8 bytes for each content, and what each drive takes.

use std::collections::HashMap;

use onefold_block::SplitMix64;
use onefold_flash::DriveSpec;
use onefold_flash::run::{Answer, Attached, HostRequest, RunError, attach};
use onefold_flash::spec::Precondition;
use onefold_sim::{Histogram, Load, SimTime};
use onefold_workload::{Identity, Op};
use serde::Serialize;

use crate::decide::contents::Content;

/// A content that was not stored in this run.
const NOWHERE: u64 = u64::MAX;
/// Drives that a place can name.
const DRIVES: u64 = 1 << 12;

/// What the drives did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrivesReport {
    /// What they are.
    pub model: String,
    /// How many.
    pub count: usize,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages that the server wrote.
    pub pages_written: u64,
    /// Pages that it read.
    pub pages_read: u64,
    /// Pages that it declared unused.
    pub pages_trimmed: u64,
    /// Flushes that it sent.
    pub flushes: u64,
    /// Bytes of containers whose page is not full and therefore not written.
    pub unfinished_bytes: u64,
    /// Written pages that drives shared with equal ones, at once or later.
    pub pages_shared: u64,
    /// Pages programmed, for whatever reason.
    pub pages_programmed: u64,
    /// Pages programmed for each that was written; none if none was.
    pub write_amplification: Option<f64>,
    /// Blocks erased.
    pub erases: u64,
    /// Writes to drives in the measured stretch: mean and 99 of 100, in ns.
    pub write_ns: Option<(f64, u64)>,
    /// Reads from drives.
    pub read_ns: Option<(f64, u64)>,
}

/// Who waits for an answer of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A batch, by its number.
    Batch(u32),
    /// A client's request that moves no data: a flush.
    Request(u32),
    /// Nobody.
    Nobody,
}

/// A request on its way to a drive.
#[derive(Clone, Copy, Debug)]
struct Pending {
    waiter: Waiter,
    since: SimTime,
    op: Op,
}

struct Drive {
    model: Box<dyn Attached>,
    /// Bytes appended to its log.
    appended: u64,
    /// Requests so far, and those that were not answered.
    asked: u64,
    pending: HashMap<u64, Pending>,
    /// Whether it was written to since its last flush.
    unflushed: bool,
    /// When it is looked at next.
    looked_at: Option<u64>,
}

impl Drive {
    fn ask(&mut self, request: HostRequest, waiter: Waiter) -> Result<(), RunError> {
        self.model.submit(request)?;
        self.asked += 1;
        let (op, since) = (request.op, SimTime::from_ns(request.arrival_ns));
        match op {
            Op::Write => self.unflushed = true,
            Op::Flush => self.unflushed = false,
            Op::Read | Op::Trim | Op::Idle => {}
        }
        self.pending.insert(request.number, Pending { waiter, since, op });
        Ok(())
    }

    /// A request for whole pages.
    fn pages(&self, now: SimTime, op: Op, lpn: u64, pages: u64, page_bytes: u64) -> HostRequest {
        HostRequest {
            number: self.asked,
            arrival_ns: now.ns(),
            op,
            lpn: lpn as u32,
            pages: pages as u32,
            first_byte: 0,
            end_byte: page_bytes as u32,
            identity: None,
            deduplicate: None,
        }
    }
}

/// What is done with a numbered place of so many bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    op: Op,
    number: u64,
    bytes: u64,
}

/// All of them.
pub struct Drives {
    name: String,
    page_bytes: u64,
    /// Pages of a container; none where containers are not trimmed.
    container_pages: Option<u64>,
    /// Whether drives held something before the run.
    used: bool,
    /// Flushes sent.
    flushes: u64,
    each: Vec<Drive>,
    /// Where each content is: its byte in the log, and the drive.
    places: Vec<u64>,
    answers: Vec<Answer>,
    writes: Histogram,
    reads: Histogram,
    /// Busy time of all when measuring began, and when that was.
    began: (f64, SimTime),
}

impl Drives {
    /// So many drives of a kind, each with a seed of its own. Containers of no bytes are not
    /// trimmed.
    ///
    /// # Errors
    /// A specification that cannot be run.
    pub fn new(
        spec: &DriveSpec,
        count: u32,
        container_bytes: u64,
        seed: u64,
    ) -> Result<Self, RunError> {
        let drive = |number: u32| {
            let mut spec = spec.clone();
            spec.seed = SplitMix64::new(seed ^ u64::from(number) << 32).next_u64() >> 1;
            let (pending, looked_at) = (HashMap::new(), None);
            let model = attach(&spec)?;
            Ok(Drive { model, appended: 0, asked: 0, pending, unflushed: false, looked_at })
        };
        let page_bytes = u64::from(spec.geometry.page_bytes);
        Ok(Self {
            name: spec.name.clone(),
            page_bytes,
            container_pages: (container_bytes > 0).then(|| container_bytes.div_ceil(page_bytes)),
            used: spec.precondition != Precondition::None,
            flushes: 0,
            each: (0..count).map(drive).collect::<Result<_, RunError>>()?,
            places: Vec::new(),
            answers: Vec::new(),
            writes: Histogram::default(),
            reads: Histogram::default(),
            began: (0.0, SimTime::ZERO),
        })
    }

    /// Appends chunks of these sizes to the log of the drive that has least to do; how many
    /// requests the batch has to wait for.
    ///
    /// # Errors
    /// What a drive fails of.
    pub fn store(
        &mut self,
        now: SimTime,
        waiter: Waiter,
        chunks: impl Iterator<Item = (Content, u64)>,
    ) -> Result<u32, RunError> {
        let least = |at: &usize| (self.each[*at].pending.len(), self.each[*at].appended);
        let at = (0..self.each.len()).min_by_key(least).unwrap_or(0);
        let before = self.each[at].appended;
        let mut end = before;
        for (content, bytes) in chunks {
            if self.places.len() <= content as usize {
                self.places.resize((content as usize + 1).next_power_of_two(), NOWHERE);
            }
            self.places[content as usize] = end * DRIVES + at as u64;
            end += bytes;
        }
        self.each[at].appended = end;
        let pages = before / self.page_bytes..end / self.page_bytes;
        self.collect(now, at, pages.clone())?;
        self.ask(now, at, Op::Write, pages, waiter)
    }

    /// Trims the containers that these pages of a log begin to write over.
    fn collect(
        &mut self,
        now: SimTime,
        at: usize,
        pages: std::ops::Range<u64>,
    ) -> Result<(), RunError> {
        let Some(container) = self.container_pages else { return Ok(()) };
        let drive = &mut self.each[at];
        let logical = u64::from(drive.model.logical_pages());
        for page in pages.filter(|page| (page % logical).is_multiple_of(container)) {
            if self.used || page >= logical {
                let first = page % logical;
                let count = container.min(logical - first);
                let request = drive.pages(now, Op::Trim, first, count, self.page_bytes);
                drive.ask(request, Waiter::Nobody)?;
            }
        }
        Ok(())
    }

    /// Reads a content; how many requests the batch has to wait for. What is not on a drive yet is
    /// in memory.
    ///
    /// # Errors
    /// What a drive fails of.
    pub fn read(
        &mut self,
        now: SimTime,
        waiter: Waiter,
        content: Content,
        bytes: u64,
    ) -> Result<u32, RunError> {
        let place = self.places.get(content as usize).copied().unwrap_or(NOWHERE);
        let (at, first) = if place == NOWHERE {
            // Stored before the run: anywhere.
            let mut random = SplitMix64::new(u64::from(content) ^ 0x00d1_5c0d);
            let at = random.below(self.each.len() as u64) as usize;
            let pages = u64::from(self.each[at].model.logical_pages());
            let room = (pages * self.page_bytes).saturating_sub(bytes).max(1);
            (at, random.below(room))
        } else {
            ((place % DRIVES) as usize, place / DRIVES)
        };
        let mut pages = first / self.page_bytes..(first + bytes).div_ceil(self.page_bytes);
        if place != NOWHERE {
            pages.end = pages.end.min(self.each[at].appended / self.page_bytes);
        }
        self.ask(now, at, Op::Read, pages, waiter)
    }

    /// Reads, writes or trims chunks where their addresses are, which go to the drives in turn; how
    /// many requests the batch has to wait for.
    ///
    /// # Errors
    /// What a drive fails of; an address beyond all of them.
    pub fn in_place(
        &mut self,
        now: SimTime,
        waiter: Waiter,
        op: Op,
        chunk_bytes: u64,
        chunks: impl Iterator<Item = (u32, Content)>,
    ) -> Result<u32, RunError> {
        let mut requests = 0;
        for (address, content) in chunks {
            let identity = Identity::of_number(0, u64::from(content));
            let what = Place { op, number: u64::from(address), bytes: chunk_bytes };
            let identity = (op == Op::Write).then_some(identity);
            if !self.ask_place(now, waiter, what, identity)? {
                let problem = format!(
                    "chunk {address} is beyond the {} that the drives hold in place; expected \
                     fewer workload.addresses, more drives or larger ones",
                    self.places_of(chunk_bytes)
                );
                return Err(RunError::Workload(problem));
            }
            requests += 1;
        }
        Ok(requests)
    }

    /// Reads or writes a page of the table where its number is; pages go to the drives in turn.
    ///
    /// # Errors
    /// What a drive fails of; a page beyond all of them.
    pub fn page(
        &mut self,
        now: SimTime,
        waiter: Waiter,
        op: Op,
        number: u64,
        bytes: u64,
    ) -> Result<(), RunError> {
        if self.ask_place(now, waiter, Place { op, number, bytes }, None)? {
            return Ok(());
        }
        Err(RunError::Workload(format!(
            "page {number} of the table is beyond the {} that its drives hold; expected fewer \
             table.entries or chunks stored, more drives or larger ones",
            self.places_of(bytes)
        )))
    }

    /// How many pieces of so many bytes all drives hold.
    fn places_of(&self, bytes: u64) -> u64 {
        let logical = self.each.first().map_or(0, |drive| u64::from(drive.model.logical_pages()));
        logical * self.page_bytes / bytes * self.each.len() as u64
    }

    /// Asks the drive that a numbered place is on; false if none has it. A TRIM is of the pages
    /// that the place covers whole.
    fn ask_place(
        &mut self,
        now: SimTime,
        waiter: Waiter,
        what: Place,
        identity: Option<Identity>,
    ) -> Result<bool, RunError> {
        let (count, page_bytes) = (self.each.len() as u64, self.page_bytes);
        let drive = &mut self.each[(what.number % count) as usize];
        let first = what.number / count * what.bytes;
        let end = first + what.bytes;
        if end.div_ceil(page_bytes) > u64::from(drive.model.logical_pages()) {
            return Ok(false);
        }
        if what.op == Op::Trim {
            let (first, end) = (first.div_ceil(page_bytes), end / page_bytes);
            if first < end {
                let request = drive.pages(now, Op::Trim, first, end - first, page_bytes);
                drive.ask(request, waiter)?;
            }
            return Ok(true);
        }
        let pages = end.div_ceil(page_bytes) - first / page_bytes;
        let request = HostRequest {
            first_byte: (first % page_bytes) as u32,
            end_byte: ((end - 1) % page_bytes) as u32 + 1,
            identity,
            ..drive.pages(now, what.op, first / page_bytes, pages, page_bytes)
        };
        drive.ask(request, waiter)?;
        Ok(true)
    }

    /// Has the drives that were written to keep all of it; how many answers there will be.
    ///
    /// # Errors
    /// What a drive fails of.
    pub fn flush(&mut self, now: SimTime, waiter: Waiter) -> Result<u32, RunError> {
        let mut requests = 0;
        for drive in self.each.iter_mut().filter(|drive| drive.unflushed) {
            let request = drive.pages(now, Op::Flush, 0, 0, self.page_bytes);
            drive.ask(request, waiter)?;
            requests += 1;
        }
        self.flushes += u64::from(requests);
        Ok(requests)
    }

    /// Asks a drive for pages of its log, in as many requests as it takes to go round its end.
    fn ask(
        &mut self,
        now: SimTime,
        at: usize,
        op: Op,
        pages: std::ops::Range<u64>,
        waiter: Waiter,
    ) -> Result<u32, RunError> {
        let drive = &mut self.each[at];
        let logical = u64::from(drive.model.logical_pages());
        let (mut page, mut requests) = (pages.start, 0);
        while page < pages.end {
            let lpn = page % logical;
            let count = (pages.end - page).min(logical - lpn);
            let request = drive.pages(now, op, lpn, count, self.page_bytes);
            drive.ask(request, waiter)?;
            page += count;
            requests += 1;
        }
        Ok(requests)
    }

    /// Whether a drive has not answered all that it was asked.
    pub fn is_asked(&self) -> bool {
        self.each.iter().any(|drive| !drive.pending.is_empty())
    }

    /// When a drive has to be looked at that nobody looks at before: call it again until there is
    /// none.
    pub fn next_look(&mut self, now: SimTime) -> Option<(SimTime, u32)> {
        for (at, drive) in self.each.iter_mut().enumerate() {
            // What was handed in may be answered at once.
            let next = drive.model.next_event_ns().map(|next| next.max(now.ns()));
            let next = if drive.model.has_answers() { Some(now.ns()) } else { next };
            if let Some(next) = next
                && drive.looked_at.is_none_or(|looked_at| looked_at > next)
            {
                drive.looked_at = Some(next);
                return Some((SimTime::from_ns(next), at as u32));
            }
        }
        None
    }

    /// It is time to look at a drive; who waits for a request that was answered.
    ///
    /// # Errors
    /// What the drive fails of.
    pub fn look(&mut self, now: SimTime, at: u32, to: &mut Vec<Waiter>) -> Result<(), RunError> {
        let drive = &mut self.each[at as usize];
        if drive.looked_at == Some(now.ns()) {
            drive.looked_at = None;
        }
        drive.model.advance(now.ns())?;
        drive.model.take_answers(&mut self.answers);
        for answer in self.answers.drain(..) {
            debug_assert_eq!(answer.at_ns, now.ns(), "answers are taken when they are given");
            let Some(pending) = drive.pending.remove(&answer.number) else { continue };
            let took_ns = answer.at_ns - pending.since.ns();
            match pending.op {
                Op::Read => self.reads.add(took_ns),
                Op::Write => self.writes.add(took_ns),
                Op::Trim | Op::Flush | Op::Idle => {}
            }
            to.push(pending.waiter);
        }
        Ok(())
    }

    /// Measuring begins.
    pub fn restart_account(&mut self, now: SimTime) {
        (self.reads, self.writes) = (Histogram::default(), Histogram::default());
        self.began = (self.busy_ns(), now);
    }

    fn busy_ns(&self) -> f64 {
        self.each.iter().map(|drive| drive.model.counts().busy_ns).sum()
    }

    /// How busy their flash was since measuring began.
    pub fn load(&self, now: SimTime) -> Load {
        let busy = (self.busy_ns() - self.began.0).max(0.0);
        let all = now.since(self.began.1).ns() as f64 * self.each.len() as f64;
        let times = [&self.reads, &self.writes];
        let jobs: u64 = times.iter().map(|times| times.count()).sum();
        Load {
            utilisation: if all > 0.0 { (busy / all).min(1.0) } else { 0.0 },
            busy_ns: busy as u128,
            waiting_mean: 0.0,
            wait_ns_mean: 0.0,
            jobs,
        }
    }

    /// What they did.
    pub fn report(&self) -> DrivesReport {
        let counts: Vec<_> = self.each.iter().map(|drive| drive.model.counts()).collect();
        let written: u64 = counts.iter().map(|counts| counts.pages_written).sum();
        let programmed: u64 = counts.iter().map(|counts| counts.pages_programmed).sum();
        let ns = |times: &Histogram| Some((times.mean()?, times.quantile(990_000)?));
        DrivesReport {
            model: self.name.clone(),
            count: self.each.len(),
            page_bytes: self.page_bytes,
            pages_written: written,
            pages_read: counts.iter().map(|counts| counts.pages_read).sum(),
            pages_trimmed: counts.iter().map(|counts| counts.pages_trimmed).sum(),
            flushes: self.flushes,
            unfinished_bytes: self.each.iter().map(|d| d.appended % self.page_bytes).sum(),
            pages_shared: counts.iter().map(|counts| counts.pages_shared).sum(),
            pages_programmed: programmed,
            write_amplification: (written > 0).then(|| programmed as f64 / written as f64),
            erases: counts.iter().map(|counts| counts.erases).sum(),
            write_ns: ns(&self.writes),
            read_ns: ns(&self.reads),
        }
    }
}
