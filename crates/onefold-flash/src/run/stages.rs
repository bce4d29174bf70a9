//! The stages of a request under way: queue, link, core, buffer, flash, and back.
//! Room: onefold-flash.
//! Invariants: a request is answered once; a flush is done when the writes before it are in the
//! flash, at once where buffers survive or nothing is answered from them.

use std::sync::atomic::Ordering;

use onefold_workload::Op;

use crate::controller::{EngineKind, Event, Share};
use crate::dedup::Policy;
use crate::nand::Nand;
use crate::run::completion::{Answer, Completion, Verdict};
use crate::run::error::RunError;
use crate::run::host::{Flush, Stage, Underway};
use crate::run::parts::Part;
use crate::run::request::{HostRequest, SimPage};
use crate::run::simulation::Simulation;

/// Requests between two looks of whoever watches.
const PROGRESS_EVERY: u64 = 1 << 12;

impl<N, P> Simulation<'_, N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    /// The drive takes a request into its queue.
    pub(super) fn take(&mut self, request: HostRequest) -> Result<(), RunError> {
        let now = self.controller.time_ns();
        let flight = self.controller.open_flight();
        self.controller.flight(flight).breakdown[Share::Queue as usize] = now - request.arrival_ns;
        self.host.taken += 1;
        self.host.taken_pages += u64::from(request.pages);
        let at_once = self.host.hands_over_at_once();
        let underway = Underway {
            request,
            stage: if at_once { Stage::Buffer } else { Stage::Taken },
            since: now,
            answered: false,
            verdict: Verdict::default(),
        };
        let at = flight as usize;
        if self.underway.len() <= at {
            self.underway.resize(at + 1, None);
        }
        self.underway[at] = Some(underway);
        if at_once { self.hand_over(flight, &request) } else { self.go_on(flight) }
    }

    pub(super) fn underway(&mut self, flight: u32) -> &mut Underway {
        self.underway[flight as usize].as_mut().expect("a flight under way")
    }

    /// Takes a request from stage to stage, until one takes time.
    pub(super) fn go_on(&mut self, flight: u32) -> Result<(), RunError> {
        let now = self.controller.time_ns();
        loop {
            let Underway { request, stage, since, .. } = *self.underway(flight);
            let ends = match stage {
                Stage::Taken => {
                    self.underway(flight).stage = Stage::HostOut;
                    self.host.scramble(now, &request, self.logical_pages)
                }
                Stage::HostOut => {
                    self.account(flight, Share::Host, now - since);
                    self.underway(flight).stage = Stage::LinkIn;
                    let pages = if request.op == Op::Write { request.pages } else { 0 };
                    let service = self.host.link_ns(pages, self.page_bytes);
                    let ends =
                        if service > 0 { self.host.link_in.serve(now, service) } else { now };
                    ends + self.host.link_latency_ns
                }
                Stage::LinkIn => {
                    self.account(flight, Share::Link, now - since);
                    self.underway(flight).stage = Stage::Cpu;
                    match self.host.request_ns {
                        0 => now,
                        ns => self.controller.serve(EngineKind::Cpu, ns),
                    }
                }
                Stage::Cpu => {
                    self.account(flight, Share::Engine, now - since);
                    self.underway(flight).stage = Stage::Buffer;
                    self.underway(flight).since = now;
                    return self.hand_over(flight, &request);
                }
                Stage::LinkOut => {
                    self.account(flight, Share::Link, now - since);
                    self.underway(flight).stage = Stage::HostIn;
                    self.host.undo(now, &request, self.logical_pages)
                }
                Stage::HostIn => {
                    self.account(flight, Share::Host, now - since);
                    self.answer(flight)?;
                    self.close(flight);
                    return Ok(());
                }
                Stage::Buffer | Stage::Flash => {
                    unreachable!("these end by what others do, not by the clock")
                }
            };
            self.underway(flight).since = now;
            if ends > now {
                self.controller.schedule(ends, Event::Stage(flight));
                return Ok(());
            }
        }
    }

    fn account(&mut self, flight: u32, share: Share, ns: u64) {
        self.controller.flight(flight).breakdown[share as usize] += ns;
    }

    /// What waited goes on: the FTL decides.
    fn enter_flash(&mut self, flight: u32) -> Result<(), RunError> {
        let Underway { request, since, .. } = *self.underway(flight);
        let waited = self.controller.time_ns() - since;
        self.account(flight, Share::Queue, waited);
        self.underway(flight).since += waited;
        self.enter(flight, &request)
    }

    /// Writes wait for the buffer, TRIMs for the writes before them that wait. All else goes on.
    fn hand_over(&mut self, flight: u32, request: &HostRequest) -> Result<(), RunError> {
        if !self.host.write_back || self.host.may_enter(request) {
            return self.enter(flight, request);
        }
        self.host.for_buffer.push_back(flight);
        Ok(())
    }

    /// The FTL decides on a request that waits for nothing more.
    fn enter(&mut self, flight: u32, request: &HostRequest) -> Result<(), RunError> {
        let buffered = self.host.write_back && request.op == Op::Write;
        if buffered {
            self.host.buffer_used += request.pages;
        }
        self.underway(flight).stage = Stage::Flash;
        self.host.writes += u32::from(request.op == Op::Write);
        self.decide(flight, request)?;
        if buffered {
            self.answer(flight)?;
        }
        self.controller.seal_flight(flight);
        Ok(())
    }

    fn decide(&mut self, flight: u32, request: &HostRequest) -> Result<(), RunError> {
        if self.was_decided(flight, request)? {
            return Ok(());
        }
        let logical_pages = self.logical_pages;
        if request.op == Op::Idle {
            self.idle.hinted(request.number);
            return Ok(());
        }
        if request.op == Op::Flush {
            self.wait_for_writes(flight, request);
            self.controller.begin_part(flight);
            let done = self.ftl.flush(&mut self.controller);
            self.controller.end_part();
            return done.map_err(|error| RunError::Ftl { request: request.number, error });
        }
        self.sensed.clear();
        for index in 0..request.pages {
            let mut lpn = request.lpn + index;
            if lpn >= logical_pages {
                lpn -= logical_pages;
            }
            if request.op == Op::Read {
                self.read(flight, request, lpn)?;
            } else {
                let piece = request.piece(index, self.page_bytes, self.fresh);
                self.fresh += u64::from(request.op == Op::Write);
                self.begin_part(Part::new(flight, request, lpn, piece))?;
            }
        }
        Ok(())
    }

    fn read(&mut self, flight: u32, request: &HostRequest, lpn: u32) -> Result<(), RunError> {
        if self.parts.is_under_way(lpn) {
            // The controller has it in its memory.
            self.tally.waiting_pages_read += 1;
            return Ok(());
        }
        self.controller.begin_part(flight);
        let read = if self.codewords == 1 {
            self.ftl.read(lpn, &mut self.controller)
        } else {
            let sensed = &mut self.sensed;
            let senses = |page| {
                let first = !sensed.contains(&page);
                sensed.extend(first.then_some(page));
                first
            };
            self.ftl.read_where(lpn, senses, &mut self.controller)
        };
        self.controller.end_part();
        read.map(drop).map_err(|error| RunError::Ftl { request: request.number, error })
    }

    /// A flush is done when the writes before it are in the flash, at once where buffers survive
    /// or nothing is answered from them.
    fn wait_for_writes(&mut self, flight: u32, request: &HostRequest) {
        if !self.host.write_back || self.host.protected {
            return;
        }
        let before = |other: &&Underway| {
            other.request.op == Op::Write && other.request.number < request.number
        };
        let writes_left = self.underway.iter().flatten().filter(before).count() as u32;
        if writes_left > 0 {
            // One part that ends when the last of them does.
            self.controller.flight(flight).parts_left += 1;
            self.host.flushes.push(Flush { flight, number: request.number, writes_left });
        }
    }

    /// The flash has done all of a request.
    pub(super) fn flash_done(&mut self, flight: u32) -> Result<(), RunError> {
        let Underway { request, answered, .. } = *self.underway(flight);
        if request.op == Op::Write {
            self.written(&request)?;
        }
        if answered {
            self.close(flight);
            return Ok(());
        }
        if request.op == Op::Read {
            let service = self.host.link_ns(request.pages, self.page_bytes);
            let now = self.controller.time_ns();
            let underway = self.underway(flight);
            (underway.stage, underway.since) = (Stage::LinkOut, now);
            if service == 0 {
                return self.go_on(flight);
            }
            let ends = self.host.link_out.serve(now, service);
            self.controller.schedule(ends, Event::Stage(flight));
            return Ok(());
        }
        self.answer(flight)?;
        self.close(flight);
        Ok(())
    }

    /// Flushes that wait for no write any more go on.
    fn flush(&mut self, request: u64) -> Result<(), RunError> {
        let done: Vec<u32> =
            self.host.flushes.iter().filter(|f| f.writes_left == 0).map(|f| f.flight).collect();
        self.host.flushes.retain(|flush| flush.writes_left > 0);
        for flight in done {
            // What the writes before it left to be packed, after the wait for them.
            let since = self.underway(flight).since;
            self.controller.begin_late_part(flight, since);
            self.controller.seal_flight(flight);
            let packed = self.ftl.program_packing(&mut self.controller);
            self.controller.end_part();
            packed.map_err(|error| RunError::Ftl { request, error })?;
        }
        Ok(())
    }

    /// A write has reached the flash: flushes and writes that waited for it go on.
    fn written(&mut self, request: &HostRequest) -> Result<(), RunError> {
        self.host.writes -= 1;
        for flush in &mut self.host.flushes {
            flush.writes_left -= u32::from(request.number < flush.number);
        }
        if !self.host.flushes.is_empty() {
            self.flush(request.number)?;
        }
        if self.host.write_back {
            self.host.buffer_used -= request.pages;
            while let Some(&first) = self.host.for_buffer.front() {
                let request = self.underway(first).request;
                if request.op == Op::Write && !self.host.has_room(request.pages) {
                    break;
                }
                self.host.for_buffer.pop_front();
                self.enter_flash(first)?;
            }
        }
        Ok(())
    }

    /// The host has its answer.
    fn answer(&mut self, flight: u32) -> Result<(), RunError> {
        let now = self.controller.time_ns();
        let breakdown = self.controller.flight(flight).breakdown;
        let underway = self.underway(flight);
        underway.answered = true;
        let Underway { request, verdict, .. } = *underway;
        let (taken_pages, request) =
            (request.pages, request.in_pages(self.codewords, self.page_bytes));
        let completion = Completion { request, answered_ns: now, breakdown, verdict };
        self.tally.answered(&completion);
        if let Some(answers) = &mut self.answers {
            answers.push(Answer { number: request.number, at_ns: now });
        }
        if let Some(observer) = &mut self.observer {
            observer(&completion)?;
        }
        if let Some(progress) = self.progress
            && completion.request.number.is_multiple_of(PROGRESS_EVERY)
        {
            progress.store(self.tally.completed(), Ordering::Relaxed);
        }
        self.idle.answered();
        self.host.taken -= 1;
        self.host.taken_pages -= u64::from(taken_pages);
        if self.source.is_closed() {
            self.ask_again();
        }
        Ok(())
    }

    /// The drive is done with a request.
    fn close(&mut self, flight: u32) {
        self.underway[flight as usize] = None;
        self.controller.close_flight(flight);
        self.idle.begins(self.controller.time_ns());
    }
}
