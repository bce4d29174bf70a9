//! The requests of a trace, in chunks of the server, with what they write.
//! Room: onefold-array.   In: requests of `onefold-workload`.   Out: [`Asked`], [`Touched`].
//! Contents are those of the trace, where it has identities: whatever they stand for is composed to
//! chunks by the rule of `onefold_workload::composed`, which drives use as well. Where it has none,
//! they are drawn as the description says. What a trace never says, how chunks compress, is always
//! drawn.
//! Invariants: (1) requests and contents depend on the trace and the description only, never on
//! how fast the server is  (2) a request is read when it is due, so that memory follows what the
//! trace touches and not its length  (3) neighbours of 64 chunks keep their places to each other.
//! Cost: 20 bytes for each chunk of a neighbourhood that was touched, 40 for each content.

use std::collections::{BTreeMap, HashMap};

use onefold_sim::SimTime;
use onefold_workload::composed::{Composed, Piece, ZEROES, fresh};
use onefold_workload::{Joined, Op, Request, TraceRequests};
use serde::Serialize;

use super::load::{Asked, Load};
use crate::decide::contents::{Content, Contents, NOTHING};
use crate::decide::predictor::REGION_CHUNKS;
use crate::spec::{Before, LoadKind, ServerSpec};

/// What a request does to one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The chunk.
    pub address: u32,
    /// What is read, or written.
    pub content: Content,
    /// What it held before.
    pub old: Content,
    /// How many of its bytes.
    pub bytes: u32,
}

/// What a trace was made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// Reads that were replayed.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// TRIMs.
    pub trims: u64,
    /// Flushes.
    pub flushes: u64,
    /// Hints that the host is idle, which a server has no use for.
    pub idle_hints: u64,
    /// Written chunks whose contents the trace knows.
    pub chunks_known: u64,
    /// Written chunks whose contents were drawn.
    pub chunks_drawn: u64,
    /// Written chunks of which a part stayed as it was.
    pub chunks_partial: u64,
    /// Chunks that clients gave up whole.
    pub chunks_trimmed: u64,
    /// Chunks that were touched, and those beside them in their neighbourhoods.
    pub addresses: u64,
}

/// A trace that is replayed.
pub struct Replay {
    name: String,
    requests: Joined<TraceRequests, String>,
    pieces: Vec<Request>,
    chunk_bytes: u64,
    limit: u64,
    /// Whether requests come by the clock of the trace.
    by_clock: bool,
    speed: f64,
    before: Before,
    made: u64,
    /// The first address of each neighbourhood, by stream and place.
    regions: BTreeMap<(u32, u64), u32>,
    /// What tells the content of each address from others.
    keys: Vec<u128>,
    numbers: HashMap<u128, Content>,
    composed: Composed,
    /// Chunks of requests that were made and have not come, by their slot.
    touched: Vec<Vec<Touched>>,
    free: Vec<u32>,
    /// The request that comes next, and when.
    coming: Option<(SimTime, Asked)>,
    counts: TraceReport,
}

/// Most bytes of a read or write: 256 MiB.
const REQUEST_BYTES_MAX: u64 = 1 << 28;
/// Keys of what addresses held before the trace, and of what is drawn: far from identities, which
/// are 128 bits of anything, as far as chance goes.
const BEFORE: u64 = 1 << 61;
const DRAWN: u64 = 1 << 60;

impl Replay {
    /// The requests of a trace before a server that was described.
    pub fn new(spec: &ServerSpec, requests: TraceRequests) -> Self {
        Self {
            name: spec.workload.trace.clone(),
            requests: Joined::new(requests),
            pieces: Vec::new(),
            chunk_bytes: spec.chunk_bytes,
            limit: match spec.workload.trace_requests {
                0 => u64::MAX,
                requests => requests.saturating_add(spec.workload.trace_warm_requests),
            },
            by_clock: spec.workload.load == LoadKind::Timestamps,
            speed: spec.workload.speed,
            before: spec.workload.trace_before,
            made: 0,
            regions: BTreeMap::new(),
            keys: Vec::new(),
            numbers: HashMap::new(),
            composed: Composed::default(),
            touched: Vec::new(),
            free: Vec::new(),
            coming: None,
            counts: TraceReport::default(),
        }
    }

    /// Requests so far, without hints.
    pub const fn made(&self) -> u64 {
        self.made
    }

    /// What was replayed so far.
    pub fn report(&self) -> TraceReport {
        TraceReport { addresses: self.keys.len() as u64, ..self.counts }
    }

    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// What is wrong with the trace, as a sentence.
    pub fn next(
        &mut self,
        load: &mut Load,
        contents: &mut Contents,
    ) -> Result<Option<(SimTime, Asked)>, String> {
        match self.coming.take() {
            Some(coming) => Ok(Some(coming)),
            None => self.draw(load, contents),
        }
    }

    /// The same, which stays the next one.
    ///
    /// # Errors
    /// What is wrong with the trace, as a sentence.
    pub fn peek(
        &mut self,
        load: &mut Load,
        contents: &mut Contents,
    ) -> Result<Option<(SimTime, Asked)>, String> {
        if self.coming.is_none() {
            self.coming = self.draw(load, contents)?;
        }
        Ok(self.coming)
    }

    /// The chunks of a request that has come; the list goes back with [`Self::give_back`].
    pub fn take_touched(&mut self, asked: Asked) -> Vec<Touched> {
        std::mem::take(&mut self.touched[asked.slot as usize])
    }

    /// The list of a request is needed no more.
    pub fn give_back(&mut self, asked: Asked, mut list: Vec<Touched>) {
        list.clear();
        self.touched[asked.slot as usize] = list;
        self.free.push(asked.slot);
    }

    fn draw(
        &mut self,
        load: &mut Load,
        contents: &mut Contents,
    ) -> Result<Option<(SimTime, Asked)>, String> {
        let mut pieces = std::mem::take(&mut self.pieces);
        let drawn = loop {
            if self.made == self.limit || !self.requests.next_into(&mut pieces)? {
                break None;
            }
            if pieces[0].op == Op::Idle {
                self.counts.idle_hints += 1;
                continue;
            }
            self.made += 1;
            let asked = self.in_chunks(&pieces, load, contents);
            break Some(asked.map_err(|error| format!("trace '{}': {error}", self.name))?);
        };
        self.pieces = pieces;
        Ok(drawn)
    }

    fn in_chunks(
        &mut self,
        pieces: &[Request],
        load: &mut Load,
        contents: &mut Contents,
    ) -> Result<(SimTime, Asked), String> {
        let op = pieces[0].op;
        let bytes = if op == Op::Trim { 0 } else { pieces.iter().map(|piece| piece.length).sum() };
        if bytes > REQUEST_BYTES_MAX {
            let number = self.made;
            return Err(format!(
                "request {number} is of {bytes} bytes; a server takes at most {REQUEST_BYTES_MAX}"
            ));
        }
        *match op {
            Op::Read => &mut self.counts.reads,
            Op::Write => &mut self.counts.writes,
            Op::Trim => &mut self.counts.trims,
            Op::Flush | Op::Idle => &mut self.counts.flushes,
        } += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.touched.push(Vec::new());
            self.touched.len() as u32 - 1
        });
        let mut list = std::mem::take(&mut self.touched[slot as usize]);
        for request in pieces {
            match op {
                Op::Read | Op::Write => self.read_or_write(request, &mut list, load, contents)?,
                Op::Trim => self.trim(request, &mut list, contents),
                Op::Flush | Op::Idle => {}
            }
        }
        let whole = self.chunk_bytes as u32;
        if op == Op::Write {
            for touched in &mut list {
                if touched.content == NOTHING {
                    touched.content = self.number(self.keys[touched.address as usize], load)?;
                }
                contents.hold(u64::from(touched.address), touched.content);
                self.counts.chunks_partial += u64::from(touched.bytes < whole);
            }
        }
        let asked = Asked { op, address: 0, chunks: list.len() as u32, bytes, slot };
        self.touched[slot as usize] = list;
        Ok((self.comes_at(pieces[0].time_ns)?, asked))
    }

    /// When a request comes, where that goes by the clock of the trace.
    fn comes_at(&self, recorded_ns: u64) -> Result<SimTime, String> {
        if !self.by_clock {
            return Ok(SimTime::ZERO);
        }
        let at = SimTime::from_ns((recorded_ns as f64 / self.speed) as u64);
        if at > SimTime::LAST_ARRIVAL {
            let (number, speed) = (self.made, self.speed);
            let last = SimTime::LAST_ARRIVAL.ns();
            return Err(format!(
                "request {number} comes {recorded_ns} ns after the start, at workload.speed = \
                 {speed}; a server runs for at most {last} ns, which are 292 years"
            ));
        }
        Ok(at)
    }

    /// Adds the chunks of a piece that reads or writes.
    fn read_or_write(
        &mut self,
        request: &Request,
        list: &mut Vec<Touched>,
        load: &mut Load,
        contents: &mut Contents,
    ) -> Result<(), String> {
        for (chunk, from, to) in chunks(request, self.chunk_bytes) {
            let address = self.address(request.stream, chunk, load, contents)?;
            let old = contents.held(u64::from(address));
            let content = match request.op {
                Op::Write => self.written(request, (chunk, from, to), address, load)?,
                _ => old,
            };
            let again = touch(list, Touched { address, content, old, bytes: to - from });
            if request.op == Op::Write && !again {
                let known = request.identity.is_some();
                self.counts.chunks_known += u64::from(known);
                self.counts.chunks_drawn += u64::from(!known);
            }
        }
        Ok(())
    }

    /// What a chunk holds once these bytes of it are written; `NOTHING` where it gets its number
    /// only when all pieces of the request are there.
    fn written(
        &mut self,
        request: &Request,
        (chunk, from, to): (u64, u32, u32),
        address: u32,
        load: &mut Load,
    ) -> Result<Content, String> {
        if request.identity.is_none() {
            self.composed.replaced(address);
            load.has_numbers()?;
            let content = load.content(u64::from(address));
            self.keys[address as usize] = fresh(DRAWN + u64::from(content));
            return Ok(content);
        }
        let piece = Piece {
            from,
            to,
            unit_bytes: self.chunk_bytes as u32,
            at: (chunk * self.chunk_bytes + u64::from(from)) - request.offset,
            identity: request.identity,
            number: 0,
        };
        let key = if piece.is_partial() {
            self.composed.overlay(address, &piece, self.keys[address as usize])
        } else {
            self.composed.replaced(address);
            piece.whole()
        };
        self.keys[address as usize] = key;
        Ok(NOTHING)
    }

    /// Whole chunks that were touched before and hold something hold nothing from now on.
    fn trim(&mut self, request: &Request, list: &mut Vec<Touched>, contents: &mut Contents) {
        let first = request.offset.div_ceil(self.chunk_bytes);
        let end = request.end() / self.chunk_bytes;
        if first >= end {
            return;
        }
        let stream = request.stream.unwrap_or(0);
        let regions = first / REGION_CHUNKS..(end - 1) / REGION_CHUNKS + 1;
        for (&(_, region), &base) in
            self.regions.range((stream, regions.start)..(stream, regions.end))
        {
            let begin = region * REGION_CHUNKS;
            for chunk in begin.max(first)..(begin + REGION_CHUNKS).min(end) {
                let address = base + (chunk - begin) as u32;
                let old = contents.held(u64::from(address));
                if old == NOTHING {
                    continue;
                }
                contents.hold(u64::from(address), NOTHING);
                self.keys[address as usize] = ZEROES;
                self.composed.replaced(address);
                self.counts.chunks_trimmed += 1;
                list.push(Touched { address, content: NOTHING, old, bytes: 0 });
            }
        }
    }

    /// The address of a chunk; a neighbourhood that comes for the first time gets its own.
    fn address(
        &mut self,
        stream: Option<u32>,
        chunk: u64,
        load: &mut Load,
        contents: &mut Contents,
    ) -> Result<u32, String> {
        let (region, within) = (chunk / REGION_CHUNKS, chunk % REGION_CHUNKS);
        if let Some(&base) = self.regions.get(&(stream.unwrap_or(0), region)) {
            return Ok(base + within as u32);
        }
        let base = u32::try_from(self.keys.len()).ok().filter(|base| *base < u32::MAX - 64);
        let base = base.ok_or("it touches 2^32 chunks or more")?;
        self.regions.insert((stream.unwrap_or(0), region), base);
        for address in base..base + REGION_CHUNKS as u32 {
            let content = match self.before {
                Before::Nothing => NOTHING,
                Before::Data => load.before(address)?,
            };
            contents.begin(u64::from(address), content);
            self.keys.push(match self.before {
                Before::Nothing => ZEROES,
                Before::Data => fresh(BEFORE + u64::from(content)),
            });
        }
        Ok(base + within as u32)
    }

    /// The number of what a key stands for.
    fn number(&mut self, key: u128, load: &mut Load) -> Result<Content, String> {
        if let Some(&content) = self.numbers.get(&key) {
            return Ok(content);
        }
        let content = load.new_content()?;
        self.numbers.insert(key, content);
        Ok(content)
    }
}

/// Chunks of a request, and the bytes of each that it covers.
fn chunks(request: &Request, chunk_bytes: u64) -> impl Iterator<Item = (u64, u32, u32)> {
    let (offset, end) = (request.offset, request.end());
    (offset / chunk_bytes..end.div_ceil(chunk_bytes)).map(move |chunk| {
        let begin = chunk * chunk_bytes;
        let from = offset.saturating_sub(begin).min(chunk_bytes);
        let to = (end - begin).min(chunk_bytes);
        (chunk, from as u32, to as u32)
    })
}

/// Adds a chunk to the list, or to its last one if that is the same; whether it was.
fn touch(list: &mut Vec<Touched>, touched: Touched) -> bool {
    match list.last_mut() {
        Some(last) if last.address == touched.address => {
            last.content = touched.content;
            last.bytes += touched.bytes;
            true
        }
        _ => {
            list.push(touched);
            false
        }
    }
}
