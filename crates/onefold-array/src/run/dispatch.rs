//! Which batch begins next, on which engine, and when an engine is reconfigured.
//! Room: onefold-array.
//! Source: [ajdari-talk], "CIDR SW Support", Key Ideas #3 and #4.
//! Invariants: as long as a slot is free and an engine is there, nothing waits that could begin.

use onefold_sim::{EventQueue, SimSpan, SimTime};

use super::batch::{Kind, Step};
use super::machine::{Batch, Chunk, Event, Machine};
use super::resources::{Engine, EngineState};
use crate::decide::delayed::Pressure;
use crate::decide::mix::{Demand, solve};
use crate::spec::{CompressionPlace, HashPlace, PredictorKind, Switch};

/// How much more a new mix has to carry before an engine is taken away for it.
const WORTH_RECONFIGURING: f64 = 1.05;

impl Machine {
    /// Begins batches until nothing can begin.
    pub(super) fn dispatch(&mut self, now: SimTime, queue: &mut EventQueue<Event>) {
        while self.flight.has_room() && self.engine_is_there() {
            let Some((kind, chunks)) = self.next_batch(now) else { break };
            self.flight.begin(now);
            self.tally.batches += 1;
            self.tally.batch_chunks += chunks.len() as u64;
            let engine = if kind == Kind::Zeroes { None } else { self.choose_engine() };
            let step = Step::New;
            let batch = Batch { kind, step, engine, chunks, ..Batch::empty() };
            let id = if let Some(id) = self.free_batches.pop() {
                let old = std::mem::replace(&mut self.batches[id as usize], batch);
                self.spare_chunks.push(old.chunks);
                id
            } else {
                self.batches.push(batch);
                self.batches.len() as u32 - 1
            };
            if kind == Kind::Write {
                self.predict(id);
            }
            self.step_done(now, id, queue);
        }
        if self.deadline_at.is_none()
            && let Some(at) = self.delayed.next_deadline_ns()
            && at > now.ns()
        {
            self.deadline_at = Some(at);
            queue.at(SimTime::from_ns(at), Event::Deadline);
        }
    }

    /// The chunks of the next batch, with room set aside for writes that may be delayed.
    fn next_batch(&mut self, now: SimTime) -> Option<(Kind, Vec<Chunk>)> {
        let mut chunks = self.spare_chunks.pop().unwrap_or_default();
        debug_assert!(chunks.is_empty(), "lists are put back empty");
        let wanted = self.writes.next_len();
        let reserved = self.delays() && self.delayed.reserve(wanted);
        let may_write = reserved || !self.delays();
        let kind = self.take_chunks(now, may_write, &mut chunks);
        if reserved && kind != Some(Kind::Write) {
            self.delayed.release(wanted);
        }
        if kind.is_none() {
            self.spare_chunks.push(chunks);
            return None;
        }
        kind.map(|kind| (kind, chunks))
    }

    /// Delayed chunks if they should leave, else reads, parts to be completed and writes in turn.
    fn take_chunks(
        &mut self,
        now: SimTime,
        may_write: bool,
        chunks: &mut Vec<Chunk>,
    ) -> Option<Kind> {
        if self.delays() {
            let pressure = Pressure {
                units_contended: self.compression_is_contended(now),
                idle: self.writes.is_empty()
                    && self.reads.is_empty()
                    && self.zeroes.is_empty()
                    && self.completions.is_empty(),
                wanted: (!self.writes.is_empty() && !may_write) || self.order.flush_waits(),
            };
            if self.delayed.take(now.ns(), pressure, chunks) {
                return Some(Kind::Compress);
            }
        }
        if self.zeroes.take(chunks).is_some() {
            return Some(Kind::Zeroes);
        }
        for turn in 0..3 {
            let kind = (self.turn + turn) % 3;
            let taken = match kind {
                0 => self.reads.take(chunks).map(|_| Kind::Read),
                1 => self.completions.take(chunks).map(|_| Kind::Complete),
                _ if !may_write => None,
                _ => self.writes.take(chunks).map(|_| Kind::Write),
            };
            if taken.is_some() {
                self.turn = (kind + 1) % 3;
                return taken;
            }
        }
        None
    }

    /// Whether unique chunks may have to wait for an engine that compresses them.
    pub(super) fn delays(&self) -> bool {
        self.spec.place.compression == CompressionPlace::Engine
    }

    fn uses_engines(&self) -> bool {
        self.delays() || self.spec.place.hash == HashPlace::Engine
    }

    fn engine_is_there(&self) -> bool {
        !self.uses_engines() || self.resources.engines.iter().any(Engine::is_there)
    }

    fn choose_engine(&mut self) -> Option<usize> {
        if !self.uses_engines() {
            return None;
        }
        let engines = &mut self.resources.engines;
        let count = engines.len();
        let there = (0..count).map(|ahead| (self.next_engine + ahead) % count);
        let mut there = there.filter(|&at| engines[at].is_there());
        let chosen = match self.spec.schedule.short_term {
            Switch::Off => there.next(),
            Switch::On => there.min_by_key(|&at| engines[at].in_flight),
        }?;
        engines[chosen].in_flight += 1;
        self.next_engine = (chosen + 1) % count;
        Some(chosen)
    }

    /// Guesses which chunks of a batch are unique, and whether to compress those at once.
    fn predict(&mut self, id: u32) {
        let ahead = self.spec.place.hash == HashPlace::Engine
            && self.delays()
            && self.spec.predictor.kind != PredictorKind::None;
        if !ahead {
            return;
        }
        let Self { batches, predictor, contents, .. } = self;
        for chunk in &mut batches[id as usize].chunks {
            let address = u64::from(chunk.address);
            chunk.said_unique = predictor.is_unique(address, chunk.content, contents);
            chunk.ahead = chunk.said_unique;
        }
    }

    fn compression_is_contended(&self, now: SimTime) -> bool {
        let units = self.resources.engines.iter().filter(|engine| engine.is_there());
        units.filter_map(|engine| engine.compress.as_ref()).all(|units| units.next_free(now) > now)
    }

    // ---- long-term reconfiguration ----------------------------------------------------------

    pub(super) fn window_ends(&mut self, now: SimTime, queue: &mut EventQueue<Event>) {
        let demand = std::mem::take(&mut self.window);
        let engine = &self.spec.engine;
        if let Some(best) = solve(demand, engine) {
            let now_carried = self.resources.engines[0].mix.carries(demand, engine);
            let worth = best.carries(demand, engine) > now_carried * WORTH_RECONFIGURING;
            if worth && self.target.is_none() {
                self.target = Some(best);
            }
        }
        self.reconfigure(now, queue);
        // Where nothing else is going to happen, windows would go on for ever over a stall.
        let Some(next) = queue.next_time().filter(|_| !self.is_stopped()) else { return };
        let window = self.spec.schedule.window_ns.max(1);
        // Windows in which nobody asks for anything change nothing, and traces may pause for years.
        let passed = if self.target.is_none() && self.is_empty() {
            next.since(now).ns().saturating_sub(1) / window
        } else {
            0
        };
        queue.after(SimSpan::from_ns((passed + 1) * window), Event::Window);
    }

    /// Takes the next engine away that is not what it should be; one at a time.
    pub(super) fn reconfigure(&mut self, now: SimTime, queue: &mut EventQueue<Event>) {
        let Some(target) = self.target else { return };
        let engines = &mut self.resources.engines;
        if engines.iter().any(|engine| engine.state == EngineState::Away) {
            return;
        }
        let draining = engines.iter().position(|engine| engine.state == EngineState::Draining);
        let Some(at) = draining.or_else(|| engines.iter().position(|e| e.mix != target)) else {
            self.target = None;
            return;
        };
        let engine = &mut engines[at];
        engine.state = EngineState::Draining;
        if engine.in_flight == 0 {
            engine.state = EngineState::Away;
            engine.configure(target, now);
            self.tally.reconfigurations += 1;
            let downtime = SimSpan::from_ns(self.spec.schedule.downtime_ns);
            queue.after(downtime, Event::Reconfigured(at as u32));
        }
    }

    pub(super) fn reconfigured(
        &mut self,
        now: SimTime,
        engine: usize,
        queue: &mut EventQueue<Event>,
    ) {
        self.resources.engines[engine].state = EngineState::There;
        self.reconfigure(now, queue);
    }

    /// Work that units would have done, for the next mix.
    pub(super) fn count_demand(&mut self, hash: u64, compress: u64, decompress: u64) {
        let Demand { hash: h, compress: c, decompress: d } = &mut self.window;
        *h += hash as f64;
        *c += compress as f64;
        *d += decompress as f64;
    }
}
