//! What each step of a batch does, and what it takes.
//! Room: onefold-array.
//! Invariants: a step asks for its resources at its own time, so that every resource sees jobs in
//! order of time. Where several pass the same bytes at once (a link and the memory behind it), the
//! step ends with the slowest.

use onefold_sim::{EventQueue, SimSpan, SimTime, Stations};
use onefold_workload::Op;

use super::batch::{Kind, Step, next};
use super::drives::Waiter;
use super::machine::{Batch, Chunk, Event, Machine};
use super::resources::{Cause, Task};
use super::whole::{data_failed, table_failed};
use crate::decide::index::{LookUp, Move};
use crate::spec::{DataPath, HashPlace, IndexPlace, PredictorKind, Switch};

/// Bytes of a fingerprint on its way from an engine.
const DIGEST_BYTES: u64 = 32;

impl Machine {
    /// A batch has finished a step: begin the next one, and all that follow at the same time.
    pub(super) fn step_done(&mut self, now: SimTime, id: u32, queue: &mut EventQueue<Event>) {
        let mut batch = std::mem::replace(&mut self.batches[id as usize], Batch::empty());
        loop {
            self.leave(now, &mut batch, queue);
            batch.step = next(batch.kind, batch.step, &self.spec.place);
            if batch.step == Step::Done {
                self.over(now, &mut batch, queue);
                self.batches[id as usize] = batch;
                self.free_batches.push(id);
                return;
            }
            let end = self.enter(now, id, &mut batch);
            // Drives also work on what no batch waits for.
            if batch.waits > 0 || (batch.step == Step::Table && self.whole.table.is_some()) {
                self.watch_drives(now, queue);
            }
            if batch.waits > 0 {
                (batch.since, batch.ready) = (now, end);
                self.batches[id as usize] = batch;
                return;
            }
            if end > now {
                if let Some(follow) = &mut self.follow {
                    follow.step(id, &batch, now, end);
                }
                self.batches[id as usize] = batch;
                queue.at(end, Event::Step(id));
                return;
            }
        }
    }

    /// What a step needs; when it ends.
    fn enter(&mut self, now: SimTime, id: u32, batch: &mut Batch) -> SimTime {
        let count = batch.chunks.len() as f64;
        let bytes = batch.chunks.len() as u64 * self.spec.chunk_bytes;
        match batch.step {
            Step::New | Step::Done => now,
            Step::HashOnCore => {
                let passed = self.resources.through_memory(now, bytes, Cause::Hash);
                let ns = bytes as f64 * self.spec.cpu.hash_ns_per_byte;
                passed.max(self.resources.on_a_core(now, &[(Task::Hash, ns)]))
            }
            Step::Schedule => {
                let cpu = &self.spec.cpu;
                let predicts =
                    batch.kind == Kind::Write && self.spec.predictor.kind != PredictorKind::None;
                let predict = if predicts { count * cpu.predict_ns_per_chunk } else { 0.0 };
                let schedule = count * cpu.schedule_ns_per_chunk;
                let tasks = [(Task::Predict, predict), (Task::Schedule, schedule)];
                self.resources.on_a_core(now, &tasks)
            }
            Step::ToEngine => self.send_to_engine(now, batch, bytes),
            Step::InEngine => self.in_engine(now, batch, bytes),
            Step::FromEngine => {
                let out = match batch.kind {
                    Kind::Write => {
                        self.ahead_bytes(batch) + batch.chunks.len() as u64 * DIGEST_BYTES
                    }
                    Kind::Compress => self.compressed(batch),
                    Kind::Read | Kind::Complete | Kind::Zeroes => bytes,
                };
                let passed = self.out_of_engine(now, batch, out);
                passed.max(self.resources.through_memory(now, out, Cause::Engine))
            }
            Step::LookUp => self.look_up(now, batch, bytes),
            Step::Table => self.table(now, id, batch),
            Step::CompressOnCore => {
                let unique = batch.chunks.iter().filter(|chunk| chunk.unique).count() as u64;
                let bytes = unique * self.spec.chunk_bytes;
                let moved = bytes + self.compressed(batch);
                let passed = self.resources.through_memory(now, moved, Cause::Compress);
                let ns = bytes as f64 * self.spec.cpu.compress_ns_per_byte;
                passed.max(self.resources.on_a_core(now, &[(Task::Compress, ns)]))
            }
            Step::DecompressOnCore => {
                let moved = bytes + self.read_bytes(batch);
                let passed = self.resources.through_memory(now, moved, Cause::Decompress);
                let ns = bytes as f64 * self.spec.cpu.decompress_ns_per_byte;
                passed.max(self.resources.on_a_core(now, &[(Task::Decompress, ns)]))
            }
            Step::ReadDrives => self.read_drives(now, id, batch),
            Step::Store => self.store(now, id, batch),
            Step::ToClient => self.send_to_client(now, batch),
        }
    }

    /// What a finished step changes.
    fn leave(&mut self, now: SimTime, batch: &mut Batch, queue: &mut EventQueue<Event>) {
        if batch.kind == Kind::Write && batch.step == Step::Table {
            self.settle(now, batch, queue);
        }
    }

    // ---- engines ---------------------------------------------------------------------------

    fn send_to_engine(&mut self, now: SimTime, batch: &Batch, bytes: u64) -> SimTime {
        let sent = match batch.kind {
            Kind::Write | Kind::Compress => bytes,
            Kind::Read | Kind::Complete | Kind::Zeroes => self.read_bytes(batch),
        };
        let at = batch.engine.expect("a batch on its way to an engine has one");
        let arrived = self.resources.engines[at].link_in.transfer(now, sent);
        if self.spec.place.data == DataPath::Direct && batch.kind != Kind::Complete {
            return arrived;
        }
        arrived.max(self.resources.through_memory(now, sent, Cause::Engine))
    }

    fn out_of_engine(&mut self, now: SimTime, batch: &Batch, bytes: u64) -> SimTime {
        let at = batch.engine.expect("a batch on its way from an engine has one");
        self.resources.engines[at].link_out.transfer(now, bytes)
    }

    fn in_engine(&mut self, now: SimTime, batch: &Batch, bytes: u64) -> SimTime {
        let chunk = self.spec.chunk_bytes;
        let engine = &self.spec.engine;
        let span = |rate: f64| SimSpan::of_transfer(chunk, rate as u64);
        let (hash, compress, decompress) = (
            span(engine.hash_bytes_per_s()),
            span(engine.compress_bytes_per_s()),
            span(engine.decompress_bytes_per_s()),
        );
        let all = batch.chunks.len();
        let ahead = batch.chunks.iter().filter(|chunk| chunk.ahead).count();
        let (hashed, compressed, decompressed) = match batch.kind {
            Kind::Write => (all, ahead, 0),
            Kind::Compress => (0, all, 0),
            Kind::Read | Kind::Complete | Kind::Zeroes => (0, 0, all),
        };
        let at = batch.engine.expect("a batch in an engine has one");
        let engine = &mut self.resources.engines[at];
        let mut end = now;
        let work = [
            (&mut engine.hash, hashed, hash),
            (&mut engine.compress, compressed, compress),
            (&mut engine.decompress, decompressed, decompress),
        ];
        for (units, count, span) in work {
            if count > 0 {
                end = end.max(serve_all(units.as_mut().expect("checked"), now, count, span));
            }
        }
        let of = |count: usize| count as u64 * chunk;
        self.count_demand(of(hashed), of(compressed), of(decompressed));
        debug_assert_eq!(bytes, of(all));
        end
    }

    // ---- tables ----------------------------------------------------------------------------

    fn look_up(&mut self, now: SimTime, batch: &mut Batch, bytes: u64) -> SimTime {
        let count = batch.chunks.len() as u64;
        let cpu = &self.spec.cpu;
        let metadata = count as f64 * cpu.metadata_ns_per_chunk;
        let confirm_ns = cpu.duplicate_ns_per_chunk;
        // Data that stays out of the host costs it nothing by the byte.
        let by_byte = |rate: f64| match self.spec.place.data {
            DataPath::Host => bytes as f64 * rate,
            DataPath::Direct => 0.0,
        };
        let nic = by_byte(cpu.nic_ns_per_byte) + count as f64 * cpu.nic_ns_per_chunk;
        let nic = (Task::Nic, if batch.kind == Kind::Complete { 0.0 } else { nic });
        if batch.kind != Kind::Write {
            return self.resources.on_a_core(now, &[(Task::Metadata, metadata), nic]);
        }
        self.contents.touch(batch.chunks.iter().map(|chunk| (chunk.address, chunk.content)));
        // What a trace writes is held from when it is asked for, so that its order counts.
        let holds = self.replay.is_none();
        // Without fingerprints nobody knows what is new.
        let hashes = self.spec.place.hash != HashPlace::None;
        let asked = if hashes { count } else { 0 };
        let mut duplicates: u32 = 0;
        for chunk in &mut batch.chunks {
            let stored = !self.contents.claim(chunk.content);
            let cost =
                if hashes { self.table.look_up(chunk.content, stored) } else { LookUp::default() };
            let new = !cost.found;
            let address = u64::from(chunk.address);
            if holds {
                self.contents.hold(address, chunk.content);
            }
            self.predictor.learn(address, chunk.said_unique, new);
            chunk.unique = new;
            duplicates += u32::from(!new);
            batch.table_reads += u64::from(cost.reads);
            batch.table_writes += u64::from(cost.writes);
        }
        self.table.take_moves(&mut batch.table_moves);
        let touched = asked * self.spec.table.touched_bytes;
        let mut end = self.resources.through_memory(now, touched, Cause::Index);
        let index = match self.spec.place.index {
            IndexPlace::Cpu => asked as f64 * cpu.index_ns_per_chunk,
            IndexPlace::Engine => {
                let ns = (asked as f64 * 1e9 / self.spec.table.engine_lookups_per_s).ceil();
                let served = self.resources.index.serve(now, SimSpan::from_ns(ns as u64));
                end = end.max(served.end + SimSpan::from_ns(self.spec.table.engine_latency_ns));
                0.0
            }
        };
        let metadata = (Task::Metadata, metadata + f64::from(duplicates) * confirm_ns);
        let tasks = [metadata, nic, (Task::Index, index)];
        end.max(self.resources.on_a_core(now, &tasks))
    }

    fn table(&mut self, now: SimTime, id: u32, batch: &mut Batch) -> SimTime {
        let moved = batch.table_reads + batch.table_writes;
        if moved == 0 {
            return now;
        }
        let spec = &self.spec;
        let span = SimSpan::from_ns((1e9 / spec.table_ssd.reads_per_s).ceil() as u64);
        let latency = SimSpan::from_ns(spec.table_ssd.latency_ns);
        let bytes = moved * spec.table.bucket_bytes;
        if self.whole.table.is_some() {
            self.move_pages(now, id, batch);
            return self.resources.through_memory(now, bytes, Cause::Table);
        }
        let drives = &mut self.resources.table_drives;
        let mut end = now;
        if batch.table_reads > 0 {
            end = serve_all(drives, now, batch.table_reads as usize, span) + latency;
        }
        // Nobody waits for what is written back, but it takes its turn.
        serve_all(drives, now, batch.table_writes as usize, span);
        end.max(self.resources.through_memory(now, bytes, Cause::Table))
    }

    /// Has drives of the table that are simulated whole read and write pages; nobody waits for what
    /// is written.
    fn move_pages(&mut self, now: SimTime, id: u32, batch: &mut Batch) {
        let Some(drives) = &mut self.whole.table else { return };
        let bytes = self.spec.table.bucket_bytes;
        for Move { page, write } in batch.table_moves.drain(..) {
            let (op, waiter) =
                if write { (Op::Write, Waiter::Nobody) } else { (Op::Read, Waiter::Batch(id)) };
            if let Err(error) = drives.page(now, waiter, op, page, bytes) {
                return self.fail(table_failed(error));
            }
            batch.waits += u32::from(!write);
        }
    }

    /// The look-up is over: duplicates are done, and what nobody has compressed waits.
    fn settle(&mut self, now: SimTime, batch: &mut Batch, queue: &mut EventQueue<Event>) {
        let chunk_bytes = self.spec.chunk_bytes;
        let delays = batch.kind == Kind::Write && self.delays();
        let deadline_ns = now.ns() + self.spec.schedule.deadline_ns;
        let mut chunks = std::mem::take(&mut batch.chunks);
        let mut unused = chunks.len();
        self.touch_requests(&chunks);
        chunks.retain(|chunk| {
            if chunk.ahead && !chunk.unique {
                self.tally.bytes.compressed_in_vain += chunk_bytes;
            }
            if !chunk.unique {
                self.tally.bytes.duplicate += chunk_bytes;
                self.finish(now, chunk, queue);
                return false;
            }
            if delays && !chunk.ahead {
                self.delayed.push(deadline_ns, *chunk);
                unused -= 1;
                return false;
            }
            true
        });
        batch.chunks = chunks;
        if delays {
            self.delayed.release(unused);
        }
    }

    // ---- drives and clients ----------------------------------------------------------------

    fn store(&mut self, now: SimTime, id: u32, batch: &mut Batch) -> SimTime {
        let stored = self.compressed(batch);
        if stored == 0 {
            return now;
        }
        let written = batch.chunks.len() as u64 * self.spec.chunk_bytes;
        self.tally.bytes.stored += stored;
        self.tally.bytes.compressed_away += written - stored;
        let new = batch.chunks.len() as f64 * self.spec.cpu.store_ns_per_chunk;
        // Data that stays out of the host costs it nothing by the byte.
        let submit = match self.spec.place.data {
            DataPath::Host => stored as f64 * self.spec.cpu.submit_ns_per_byte,
            DataPath::Direct => 0.0,
        };
        let tasks = [(Task::Metadata, new), (Task::Submit, submit)];
        let mut end = self.resources.on_a_core(now, &tasks);
        if self.spec.place.data == DataPath::Host {
            end = end.max(self.resources.through_memory(now, stored, Cause::Ssd));
        } else {
            end = end.max(self.out_of_engine(now, batch, stored));
        }
        self.resources.drive_bytes += stored;
        if let Some(drives) = &mut self.whole.data {
            let unique = batch.chunks.iter().filter(|chunk| chunk.unique);
            let asked = if self.spec.place.hash == HashPlace::None {
                let places = unique.map(|chunk| (chunk.address, chunk.content));
                drives.in_place(now, Waiter::Batch(id), Op::Write, self.spec.chunk_bytes, places)
            } else {
                let size = |content| self.sizes.compressed(content);
                let sizes = unique.map(|chunk| (chunk.content, size(chunk.content)));
                drives.store(now, Waiter::Batch(id), sizes)
            };
            match asked {
                Ok(requests) => batch.waits = requests,
                Err(error) => self.fail(data_failed(error)),
            }
            return end;
        }
        let rate = (self.spec.ssd.write_gb_per_s * 1e9) as u64;
        end.max(self.on_a_drive(self.free_drive(now), now, SimSpan::of_transfer(stored, rate)))
    }

    fn read_drives(&mut self, now: SimTime, id: u32, batch: &mut Batch) -> SimTime {
        let rate = (self.spec.ssd.read_gb_per_s * 1e9) as u64;
        let mut end = now;
        for at in 0..batch.chunks.len() {
            let bytes = self.sizes.compressed(batch.chunks[at].read_content(batch.kind));
            if let Some(drives) = &mut self.whole.data {
                let content = batch.chunks[at].read_content(batch.kind);
                let asked = if self.spec.place.hash == HashPlace::None {
                    let place = (batch.chunks[at].address, content);
                    let places = std::iter::once(place);
                    drives.in_place(now, Waiter::Batch(id), Op::Read, self.spec.chunk_bytes, places)
                } else {
                    drives.read(now, Waiter::Batch(id), content, bytes)
                };
                match asked {
                    Ok(requests) => batch.waits += requests,
                    Err(error) => self.fail(data_failed(error)),
                }
                continue;
            }
            let next = self.next_drive;
            self.next_drive = (next + 1) % self.resources.drives.len();
            end = end.max(self.on_a_drive(next, now, SimSpan::of_transfer(bytes, rate)));
        }
        let bytes = self.read_bytes(batch);
        self.resources.drive_bytes += bytes;
        if self.spec.place.data == DataPath::Host || batch.kind == Kind::Complete {
            let ns = bytes as f64 * self.spec.cpu.submit_ns_per_byte;
            end = end.max(self.resources.on_a_core(now, &[(Task::Submit, ns)]));
            end = end.max(self.resources.through_memory(now, bytes, Cause::Ssd));
        }
        end
    }

    /// The drive that is free first: what is written may go to any, what is read lies where it
    /// does, which is taken to be one drive after the other.
    fn free_drive(&self, now: SimTime) -> usize {
        let drives = self.resources.drives.iter().enumerate();
        drives.min_by_key(|(_, drive)| drive.next_free(now)).map_or(0, |(at, _)| at)
    }

    fn on_a_drive(&mut self, at: usize, now: SimTime, span: SimSpan) -> SimTime {
        let latency = SimSpan::from_ns(self.spec.ssd.latency_ns);
        self.resources.drives[at].serve(now, span).end + latency
    }

    fn send_to_client(&mut self, now: SimTime, batch: &Batch) -> SimTime {
        let asked = batch.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
        self.tally.bytes.client_out += asked;
        let link = &mut self.resources.nic_out;
        let mut end = link.send(now, asked, 0).end + link.latency();
        if self.spec.place.data == DataPath::Host {
            end = end.max(self.resources.through_memory(now, asked, Cause::Nic));
        } else if batch.engine.is_some() {
            end = end.max(self.out_of_engine(now, batch, asked));
        }
        end
    }

    /// A batch has gone its way.
    fn over(&mut self, now: SimTime, batch: &mut Batch, queue: &mut EventQueue<Event>) {
        self.flight.end(now);
        if let Some(at) = batch.engine {
            self.resources.engines[at].in_flight -= 1;
            if self.spec.schedule.long_term == Switch::On {
                self.reconfigure(now, queue);
            }
        }
        if batch.kind == Kind::Compress {
            self.delayed.release(batch.chunks.len());
        }
        self.touch_requests(&batch.chunks);
        for at in 0..batch.chunks.len() {
            let chunk = batch.chunks[at];
            match batch.kind {
                Kind::Complete => self.writes.push(chunk),
                _ => self.finish(now, &chunk, queue),
            }
        }
        batch.chunks.clear();
    }

    // ---- sizes -----------------------------------------------------------------------------

    /// Bytes that the unique chunks of a batch are compressed to.
    fn compressed(&self, batch: &Batch) -> u64 {
        let unique = batch.chunks.iter().filter(|chunk| chunk.unique);
        unique.map(|chunk| self.sizes.compressed(chunk.content)).sum()
    }

    /// The same of those that were compressed before their look-up, unique or not.
    fn ahead_bytes(&self, batch: &Batch) -> u64 {
        let ahead = batch.chunks.iter().filter(|chunk| chunk.ahead);
        ahead.map(|chunk| self.sizes.compressed(chunk.content)).sum()
    }

    /// Bytes that drives hold of what a batch reads.
    fn read_bytes(&self, batch: &Batch) -> u64 {
        let read = |chunk: &Chunk| self.sizes.compressed(chunk.read_content(batch.kind));
        batch.chunks.iter().map(read).sum()
    }
}

/// Serves so many equal jobs; when the last one is done.
fn serve_all(stations: &mut Stations, now: SimTime, count: usize, span: SimSpan) -> SimTime {
    (0..count).fold(now, |end, _| end.max(stations.serve(now, span).end))
}
