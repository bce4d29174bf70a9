//! The server in virtual time: requests come in, batches go their ways.
//! Room: onefold-array.   In: a checked [`ServerSpec`].   Out: the state that a report is made of.
//! Invariants: (1) one event per batch and step, one per request  (2) a request is answered once,
//! after all its chunks  (3) a full buffer holds requests back and loses none  (4) what is stored
//! depends on the requests only, where the index finds all that is stored.

use std::collections::VecDeque;
use std::hint::black_box;

use onefold_sim::{Event as SimEvent, EventQueue, Model, ResourceState, SimTime};
use onefold_workload::{Op, TraceRequests};

use super::RunError;
use super::batch::{Kind, Step};
use super::drives::Waiter;
use super::flight::Flight;
use super::follow::Follow;
use super::load::{Asked, Load};
use super::order::Order;
use super::replay::{Replay, Touched};
use super::resources::{Cause, Resources, Task};
use super::tally::Tally;
use super::whole::{Whole, data_failed};
use crate::decide::batch::BatchMaker;
use crate::decide::budget::Budget;
use crate::decide::contents::{Compressibility, Content, Contents, NOTHING};
use crate::decide::delayed::DelayedBuffer;
use crate::decide::index::{Index, Move};
use crate::decide::mix::{Demand, Mix};
use crate::decide::predictor::Predictor;
use crate::spec::{
    Acknowledge, CompressionPlace, DataPath, HashPlace, LoadKind, ServerSpec, Switch,
};

/// Requests that wait outside before an open loop stops making more.
const HELD_BACK_MAX: usize = 1 << 16;
/// Batches that a core's worth of software keeps in flight.
const BATCHES_PER_CORE: u32 = 2;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The next request of an open loop comes.
    Arrival,
    /// A request has reached the buffer.
    Received(u32),
    /// A request without data to move has been answered by a core.
    Told(u32),
    /// Something happens in a drive.
    Drive(u32),
    /// A batch has finished its step.
    Step(u32),
    /// A delayed chunk may be due.
    Deadline,
    /// A window of reconfiguration ends.
    Window,
    /// An engine is back.
    Reconfigured(u32),
}

impl SimEvent for Event {
    fn words(&self) -> [u64; 2] {
        match *self {
            Self::Arrival => [0, 0],
            Self::Received(request) => [1, u64::from(request)],
            Self::Step(batch) => [2, u64::from(batch)],
            Self::Deadline => [3, 0],
            Self::Window => [4, 0],
            Self::Reconfigured(engine) => [5, u64::from(engine)],
            Self::Told(request) => [6, u64::from(request)],
            Self::Drive(drive) => [7, u64::from(drive)],
        }
    }
}

/// A chunk on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub request: u32,
    pub address: u32,
    pub content: Content,
    /// What its address held before, if it is written in part.
    pub old: Content,
    /// Bytes that the client asked for.
    pub bytes: u32,
    /// Taken for unique.
    pub said_unique: bool,
    /// Compressed already, before the look-up.
    pub ahead: bool,
    /// Found to be new.
    pub unique: bool,
}

impl Chunk {
    /// What is read of it in a batch of this kind.
    pub(super) const fn read_content(&self, kind: Kind) -> Content {
        match kind {
            Kind::Complete => self.old,
            _ => self.content,
        }
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub arrived: SimTime,
    pub asked: Asked,
    pub left: u32,
    pub unique: bool,
    /// Flushes before it, if it writes or is one.
    pub epoch: u32,
}

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Batch {
    pub kind: Kind,
    pub step: Step,
    pub engine: Option<usize>,
    pub chunks: Vec<Chunk>,
    pub table_reads: u64,
    pub table_writes: u64,
    /// The same one by one, where the table's drives are simulated whole.
    pub table_moves: Vec<Move>,
    /// Answers of drives that its step waits for, when it began, and when all else of it ends.
    pub waits: u32,
    pub since: SimTime,
    pub ready: SimTime,
}

impl Batch {
    /// A place holder.
    pub const fn empty() -> Self {
        Self {
            kind: Kind::Read,
            step: Step::Done,
            engine: None,
            chunks: Vec::new(),
            table_reads: 0,
            table_writes: 0,
            table_moves: Vec::new(),
            waits: 0,
            since: SimTime::ZERO,
            ready: SimTime::ZERO,
        }
    }
}

/// The server.
pub struct Machine {
    pub(super) spec: ServerSpec,
    pub(super) load: Load,
    pub(super) sizes: Compressibility,
    /// What takes time.
    pub resources: Resources,
    /// What is stored.
    pub contents: Contents,
    /// The predictor and its score.
    pub predictor: Predictor,
    /// The index of fingerprints.
    pub table: Index,
    /// The client request buffer.
    pub client_buffer: Budget,
    pub(super) delayed: DelayedBuffer<Chunk>,
    pub(super) writes: BatchMaker<Chunk>,
    pub(super) reads: BatchMaker<Chunk>,
    pub(super) completions: BatchMaker<Chunk>,
    pub(super) zeroes: BatchMaker<Chunk>,
    pub(super) order: Order,
    /// The trace that is replayed, if there is one.
    pub replay: Option<Replay>,
    /// What is wrong with it.
    pub failed: Option<RunError>,
    /// Drives that are simulated whole.
    pub whole: Whole,
    answered_by_drives: Vec<Waiter>,
    pub(super) requests: Vec<Request>,
    free_requests: Vec<u32>,
    pub(super) batches: Vec<Batch>,
    pub(super) free_batches: Vec<u32>,
    /// Lists of batches that are over, to be used again.
    pub(super) spare_chunks: Vec<Vec<Chunk>>,
    held_back: VecDeque<Waiting>,
    /// Batches on their way.
    pub(super) flight: Flight,
    pub(super) turn: u32,
    pub(super) next_engine: usize,
    pub(super) next_drive: usize,
    pub(super) deadline_at: Option<u64>,
    pub(super) window: Demand,
    pub(super) target: Option<Mix>,
    /// Requests made and not answered.
    open: u64,
    stopped: bool,
    arrivals_paused: bool,
    /// What is counted.
    pub tally: Tally,
    /// What is drawn, in runs that are followed.
    pub follow: Option<Follow>,
}

/// A request that waits outside, with its time of arrival.
type Waiting = (SimTime, Asked);

/// The delayed chunk buffer, and most writes of a batch: all of them may have to wait in it, and
/// what has no room there never begins.
fn delayed(spec: &ServerSpec) -> (DelayedBuffer<Chunk>, usize) {
    let (chunks, defers) = (spec.batch.chunks as usize, spec.schedule.short_term == Switch::On);
    let bytes = spec.buffer.delayed_bytes;
    let delayed = DelayedBuffer::new(bytes, spec.chunk_bytes, chunks, defers);
    let waits = spec.place.compression == CompressionPlace::Engine;
    let written = if waits { chunks.min(delayed.holds()) } else { chunks };
    (delayed, written)
}

impl Machine {
    /// An idle server, and the events that begin its load.
    ///
    /// # Errors
    /// A policy of the table's cache that cannot be made.
    pub fn new(
        spec: &ServerSpec,
        (requests, whole): (Option<TraceRequests>, Whole),
        queue: &mut EventQueue<Event>,
    ) -> Result<Self, onefold_cache::OptionError> {
        let chunks = spec.batch.chunks as usize;
        let addresses = spec.workload.addresses as Content;
        let mut table = Index::new(&spec.table, addresses, spec.seed)?;
        table.name_moves(whole.table.is_some());
        let (delayed, written) = delayed(spec);
        let mut machine = Self {
            load: Load::new(spec),
            sizes: Compressibility {
                chunk_bytes: spec.chunk_bytes,
                mean: spec.workload.compressed_share,
                spread: spec.workload.compressed_spread,
                seed: spec.seed,
            },
            resources: Resources::new(spec),
            contents: Contents::new(addresses),
            predictor: Predictor::new(spec.predictor.kind, spec.predictor.entries),
            table,
            client_buffer: Budget::new(spec.buffer.client_bytes),
            delayed,
            writes: BatchMaker::new(written),
            reads: BatchMaker::new(chunks),
            completions: BatchMaker::new(chunks),
            zeroes: BatchMaker::new(chunks),
            order: Order::default(),
            replay: requests.map(|requests| Replay::new(spec, requests)),
            failed: None,
            whole,
            answered_by_drives: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            batches: Vec::new(),
            free_batches: Vec::new(),
            spare_chunks: Vec::new(),
            held_back: VecDeque::new(),
            flight: Flight::new(slots(spec)),
            turn: 0,
            next_engine: 0,
            next_drive: 0,
            deadline_at: None,
            window: Demand::default(),
            target: None,
            open: 0,
            stopped: false,
            arrivals_paused: false,
            tally: Tally::new(spec),
            follow: None,
            spec: spec.clone(),
        };
        if spec.workload.load == LoadKind::Closed {
            for _ in 0..spec.workload.outstanding {
                machine.ask(SimTime::ZERO, queue);
            }
        } else {
            machine.schedule_arrival(SimTime::ZERO, queue);
        }
        if spec.schedule.long_term == Switch::On && spec.engine.count > 0 {
            queue.at(SimTime::from_ns(spec.schedule.window_ns), Event::Window);
        }
        Ok(machine)
    }

    /// Whether the requests of the run have been answered.
    pub const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether nothing is on its way through the server, and nothing waits in it.
    pub(super) fn is_empty(&self) -> bool {
        let made = [&self.writes, &self.reads, &self.completions, &self.zeroes];
        let waits = self.open > 0 || !self.held_back.is_empty() || !self.delayed.is_empty();
        !waits && self.flight.slots().1 == 0 && made.iter().all(|maker| maker.is_empty())
    }

    /// The description.
    pub const fn spec(&self) -> &ServerSpec {
        &self.spec
    }

    // ---- requests in ----------------------------------------------------------------------

    fn schedule_arrival(&mut self, now: SimTime, queue: &mut EventQueue<Event>) {
        let Self { replay, load, contents, .. } = self;
        let (recorded, bytes) = match replay {
            None => (now, load.request_bytes()),
            Some(replay) => match replay.peek(load, contents) {
                Ok(Some((at, asked))) => (at, asked.bytes),
                Ok(None) => return self.look_for_end(now),
                Err(error) => return self.fail(RunError::Trace(error)),
            },
        };
        let at = self.load.next_arrival(now, bytes).unwrap_or(recorded);
        queue.at(at.max(now), Event::Arrival);
    }

    /// The next request, with when it came; `None` at the end of a trace.
    fn next_request(&mut self, now: SimTime) -> Option<(SimTime, Asked)> {
        let Self { replay, load, contents, .. } = self;
        let Some(replay) = replay else { return Some((now, load.request())) };
        match replay.next(load, contents) {
            Ok(next) => {
                let (at, asked) = next?;
                // By the clock of the trace it came when it should, however late that is here.
                let recorded = self.spec.workload.load == LoadKind::Timestamps;
                Some((if recorded { at.min(now) } else { now }, asked))
            }
            Err(error) => {
                self.fail(RunError::Trace(error));
                None
            }
        }
    }

    /// The trace cannot be read on: what is on its way ends, and nothing else comes.
    pub(super) fn fail(&mut self, error: RunError) {
        self.failed.get_or_insert(error);
        self.stopped = true;
        self.held_back.clear();
    }

    fn arrival(&mut self, now: SimTime, queue: &mut EventQueue<Event>) {
        if self.stopped {
            return;
        }
        self.ask(now, queue);
        if self.held_back.len() < HELD_BACK_MAX {
            self.schedule_arrival(now, queue);
        } else {
            self.arrivals_paused = true;
        }
    }

    /// A client makes a request: it is let in, or held back until there is room.
    fn ask(&mut self, now: SimTime, queue: &mut EventQueue<Event>) {
        let Some((arrived, asked)) = self.next_request(now) else {
            return self.look_for_end(now);
        };
        self.tally.offered += 1;
        if self.held_back.is_empty() && self.client_buffer.try_take(self.bytes_of(asked)) {
            self.admit(now, asked, arrived, queue);
        } else {
            self.tally.held_back += 1;
            self.held_back.push_back((arrived, asked));
        }
    }

    /// Bytes of buffer that a request needs: whole chunks, since a part is completed. One that is
    /// larger than the buffer takes all of it.
    fn bytes_of(&self, asked: Asked) -> u64 {
        match asked.op {
            Op::Read | Op::Write => {
                (u64::from(asked.chunks) * self.spec.chunk_bytes).min(self.spec.buffer.client_bytes)
            }
            Op::Trim | Op::Flush | Op::Idle => 0,
        }
    }

    fn admit(
        &mut self,
        now: SimTime,
        asked: Asked,
        arrived: SimTime,
        queue: &mut EventQueue<Event>,
    ) {
        let request = Request { arrived, asked, left: asked.chunks, unique: false, epoch: 0 };
        let id = self.free_requests.pop().unwrap_or_else(|| {
            self.requests.push(request);
            self.requests.len() as u32 - 1
        });
        // What is before what is so by when it comes, and not by when the card is done with it.
        let epoch = match asked.op {
            Op::Write => self.order.write(),
            Op::Flush => self.order.flush(id),
            Op::Read | Op::Trim | Op::Idle => 0,
        };
        self.requests[id as usize] = Request { epoch, ..request };
        self.open += 1;
        let writes = asked.op == Op::Write;
        let bytes = if writes { asked.bytes } else { 0 };
        let resources = &mut self.resources;
        let mut end = resources.nic_in.send(now, bytes, 0).end + resources.nic_in.latency();
        if writes {
            self.tally.bytes.client_in += bytes;
            if self.spec.place.data == DataPath::Host {
                end = end.max(resources.through_memory(now, bytes, Cause::Nic));
            }
        }
        queue.at(end, Event::Received(id));
    }

    /// A request is in the buffer: its chunks join their queues.
    fn received(&mut self, now: SimTime, id: u32, queue: &mut EventQueue<Event>) {
        let Request { asked, arrived, epoch, .. } = self.requests[id as usize];
        if asked.op == Op::Flush {
            self.order.flush_received(epoch);
            return self.flushed(now, queue);
        }
        let list = self.replay.as_mut().map(|replay| replay.take_touched(asked));
        if asked.op == Op::Trim || asked.chunks == 0 {
            self.trim_in_place(now, list.as_deref().unwrap_or_default(), queue);
            let ns = f64::from(asked.chunks) * self.spec.cpu.metadata_ns_per_chunk;
            let end = self.resources.on_a_core(now, &[(Task::Metadata, ns)]);
            queue.at(end, Event::Told(id));
        } else if let Some(list) = &list {
            for &touched in list {
                self.chunk_received(id, asked.op, touched);
            }
        } else {
            self.drawn_chunks(id, asked);
        }
        if let (Some(replay), Some(list)) = (&mut self.replay, list) {
            replay.give_back(asked, list);
        }
        if asked.op == Op::Write && self.spec.acknowledge == Acknowledge::Buffered {
            self.tally.answered_early(now.since(arrived));
        }
    }

    /// Chunks of a request that is not of a trace.
    fn drawn_chunks(&mut self, id: u32, asked: Asked) {
        let bytes = asked.bytes.min(self.spec.chunk_bytes) as u32;
        for address in asked.address..asked.address + asked.chunks {
            let at = u64::from(address);
            // What is written over whole is not looked at: it lies anywhere in memory.
            let whole = asked.op == Op::Write && u64::from(bytes) == self.spec.chunk_bytes;
            let old = if whole { NOTHING } else { self.contents.held(at) };
            let content = if asked.op == Op::Read { old } else { self.load.content(at) };
            self.chunk_received(id, asked.op, Touched { address, content, old, bytes });
        }
    }

    fn chunk_received(&mut self, request: u32, op: Op, touched: Touched) {
        let Touched { address, content, old, bytes } = touched;
        let (said_unique, ahead, unique) = (false, false, false);
        let chunk = Chunk { request, address, content, old, bytes, said_unique, ahead, unique };
        if op == Op::Read {
            let reads = if content == NOTHING { &mut self.zeroes } else { &mut self.reads };
            return reads.push(chunk);
        }
        let rest = self.spec.chunk_bytes - u64::from(bytes);
        self.tally.bytes.completed += rest;
        // Around a part of what holds nothing there is nothing to be read.
        let complete = rest > 0 && old != NOTHING;
        let queue = if complete { &mut self.completions } else { &mut self.writes };
        queue.push(chunk);
    }

    /// Answers flushes before which everything is stored, once drives that are simulated whole have
    /// kept it. The table's drives hold nothing that containers do not say.
    fn flushed(&mut self, now: SimTime, queue: &mut EventQueue<Event>) {
        while let Some(id) = self.order.next_done() {
            let drives = self.whole.data.as_mut();
            let asked = drives.map_or(Ok(0), |drives| drives.flush(now, Waiter::Request(id)));
            let waits = asked.unwrap_or_else(|error| {
                self.fail(data_failed(error));
                0
            });
            self.requests[id as usize].left = waits;
            if waits == 0 {
                queue.at(now, Event::Told(id));
            } else {
                self.watch_drives(now, queue);
            }
        }
    }

    /// A drive has kept what came before a flush.
    fn kept_by_a_drive(&mut self, now: SimTime, id: u32, queue: &mut EventQueue<Event>) {
        let request = &mut self.requests[id as usize];
        request.left -= 1;
        if request.left == 0 {
            queue.at(now, Event::Told(id));
        }
    }

    /// Tells drives that hold chunks by their addresses which are given up; nobody waits for that.
    fn trim_in_place(&mut self, now: SimTime, list: &[Touched], queue: &mut EventQueue<Event>) {
        let in_place = self.spec.place.hash == HashPlace::None;
        let Some(drives) = self.whole.data.as_mut().filter(|_| in_place) else { return };
        let chunks = list.iter().map(|touched| (touched.address, NOTHING));
        let chunk_bytes = self.spec.chunk_bytes;
        if let Err(error) = drives.in_place(now, Waiter::Nobody, Op::Trim, chunk_bytes, chunks) {
            self.fail(data_failed(error));
        }
        self.watch_drives(now, queue);
    }

    // ---- requests out ---------------------------------------------------------------------

    /// Reads the requests of chunks that are about to be finished. They lie anywhere: a processor
    /// fetches many such lines at once in a loop that only reads, and one at a time between work
    /// that depends on them.
    pub(super) fn touch_requests(&self, chunks: &[Chunk]) {
        let left = |chunk: &Chunk| self.requests[chunk.request as usize].left;
        black_box(chunks.iter().fold(0, |all, chunk| all ^ left(chunk)));
    }

    /// A chunk needs nothing more.
    pub(super) fn finish(&mut self, now: SimTime, chunk: &Chunk, queue: &mut EventQueue<Event>) {
        let request = &mut self.requests[chunk.request as usize];
        request.left -= 1;
        request.unique |= chunk.unique;
        if request.left > 0 {
            return;
        }
        self.answered(now, chunk.request, queue);
    }

    /// A request is done.
    fn answered(&mut self, now: SimTime, id: u32, queue: &mut EventQueue<Event>) {
        let Request { asked, arrived, unique, epoch, .. } = self.requests[id as usize];
        self.free_requests.push(id);
        self.open -= 1;
        self.client_buffer.give(self.bytes_of(asked));
        if asked.op == Op::Write {
            self.order.stored(epoch);
            self.flushed(now, queue);
        }
        self.tally.answered(now.since(arrived), asked, unique, &self.spec);
        if self.tally.begins() {
            self.resources.restart_accounts(now);
            self.whole.restart_account(now);
            self.flight.restart_account(now);
            self.table.restart_count();
            self.tally.begin(now, &self.contents, self.predictor.score());
        } else if self.replay.is_none() && self.tally.is_full(&self.spec) && !self.stopped {
            self.stop(now);
        }
        while let Some(&(arrived, asked)) = self.held_back.front() {
            if !self.client_buffer.try_take(self.bytes_of(asked)) {
                break;
            }
            self.held_back.pop_front();
            self.admit(now, asked, arrived, queue);
        }
        if self.stopped {
            return;
        }
        if self.spec.workload.load == LoadKind::Closed {
            self.ask(now, queue);
        } else if self.arrivals_paused && self.held_back.len() < HELD_BACK_MAX {
            self.arrivals_paused = false;
            self.schedule_arrival(now, queue);
        }
        self.look_for_end(now);
    }

    /// A trace has ended once it has no more requests, and those that it had are answered.
    fn look_for_end(&mut self, now: SimTime) {
        let waits = self.stopped || self.open > 0 || !self.held_back.is_empty();
        let Self { replay, load, contents, .. } = self;
        let Some(replay) = replay.as_mut().filter(|_| !waits) else { return };
        match replay.peek(load, contents) {
            Ok(Some(_)) => {}
            Ok(None) => self.stop(now),
            Err(error) => self.fail(RunError::Trace(error)),
        }
    }

    fn stop(&mut self, now: SimTime) {
        self.stopped = true;
        self.tally.end(now, &self.resources, &self.contents, self.predictor.score());
        self.tally.slots_taken(self.flight.share(now));
        for (name, drives) in
            [("data drives", &self.whole.data), ("table drives", &self.whole.table)]
        {
            let load = drives.as_ref().map(|drives| drives.load(now));
            if let Some(load) = load.filter(|load| load.jobs > 0) {
                self.tally.add_load(name, load);
            }
        }
        self.held_back.clear();
    }

    /// Has drives looked at when something happens in them.
    pub(super) fn watch_drives(&mut self, now: SimTime, queue: &mut EventQueue<Event>) {
        // Once all is answered, what they do by themselves is of no interest; what they were told
        // and nobody waited for still arrives.
        if self.stopped && self.open == 0 && !self.whole.is_asked() {
            return;
        }
        while let Some((at, drive)) = self.whole.next_look(now) {
            queue.at(at, Event::Drive(drive));
        }
    }

    /// Something happens in a drive: steps and flushes whose requests are all answered end.
    fn drive_event(&mut self, now: SimTime, drive: u32, queue: &mut EventQueue<Event>) {
        let mut answered = std::mem::take(&mut self.answered_by_drives);
        if let Err(error) = self.whole.look(now, drive, &mut answered) {
            self.fail(error);
        }
        for waiter in answered.drain(..) {
            let id = match waiter {
                Waiter::Batch(id) => id,
                Waiter::Request(id) => {
                    self.kept_by_a_drive(now, id, queue);
                    continue;
                }
                Waiter::Nobody => continue,
            };
            let batch = &mut self.batches[id as usize];
            batch.waits -= 1;
            if batch.waits == 0 {
                let end = batch.ready.max(now);
                if let Some(follow) = &mut self.follow {
                    follow.step(id, batch, batch.since, end);
                }
                queue.at(end, Event::Step(id));
            }
        }
        self.answered_by_drives = answered;
        self.watch_drives(now, queue);
    }
}

/// Batches that may be on their way at a time.
fn slots(spec: &ServerSpec) -> u32 {
    let of_engines = spec.engine.queue_batches * spec.engine.count;
    match spec.place.compression {
        CompressionPlace::Engine => of_engines,
        CompressionPlace::Cpu | CompressionPlace::None => {
            of_engines + BATCHES_PER_CORE * spec.cores()
        }
    }
}

impl Model for Machine {
    type Event = Event;

    fn handle(&mut self, event: Event, queue: &mut EventQueue<Event>) {
        let now = queue.now();
        match event {
            Event::Arrival => self.arrival(now, queue),
            Event::Received(id) => self.received(now, id, queue),
            Event::Told(id) => self.answered(now, id, queue),
            Event::Drive(drive) => self.drive_event(now, drive, queue),
            Event::Step(id) => self.step_done(now, id, queue),
            Event::Deadline => self.deadline_at = None,
            Event::Window => self.window_ends(now, queue),
            Event::Reconfigured(engine) => self.reconfigured(now, engine as usize, queue),
        }
        self.dispatch(now, queue);
    }

    fn work_left(&self) -> u64 {
        self.open
    }

    fn resources(&self) -> Vec<ResourceState> {
        let state = |name: &str, servers: u32, busy: u32, waiting: usize| ResourceState {
            name: name.into(),
            servers,
            busy,
            waiting,
        };
        let (slots, taken) = self.flight.slots();
        vec![
            state("batches", slots, taken, self.writes.len() + self.reads.len()),
            state("delayed chunk buffer", 1, 1, self.delayed.len()),
            state("partial writes", 1, 1, self.completions.len()),
            state("reads of nothing", 1, 1, self.zeroes.len()),
        ]
    }
}
