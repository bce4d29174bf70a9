//! Requests of the host in pages, from a generator or a trace.
//! Room: onefold-flash.   In: byte ranges.   Out: [`HostRequest`]s.

use std::collections::VecDeque;

use onefold_sim::SimSpan;
use onefold_workload::composed::{Piece, fresh};
use onefold_workload::{
    Arrivals, Generator, Identity as ContentIdentity, IdleHints, Op, Request, TraceRequests,
};

use crate::nand::Identity;
use crate::run::RunError;
use crate::run::contents::Contents;
use crate::spec::{DriveSpec, TraceTiming};

/// Most pages that one request reads or writes; a TRIM may have all pages of the drive.
const PAGES_MAX: u64 = 1 << 20;

/// A request in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRequest {
    /// Its number, from 0.
    pub number: u64,
    /// When it came, in ns.
    pub arrival_ns: u64,
    /// What it does.
    pub op: Op,
    /// Its first page.
    pub lpn: u32,
    /// Its pages; 0 for a flush.
    pub pages: u32,
    /// Where in its first page it begins, in bytes.
    pub first_byte: u32,
    /// Where in its last page it ends: the byte after its last one.
    pub end_byte: u32,
    /// The content that it writes, where that is known.
    pub identity: Option<ContentIdentity>,
    /// Whether what it writes is to be deduplicated or to keep its redundancy, where the host says.
    pub deduplicate: Option<bool>,
}

impl HostRequest {
    /// Its pages, on a drive of so many; those beyond it begin again at the first.
    pub fn lpns(self, drive_pages: u32) -> impl Iterator<Item = u32> {
        let wrap = move |lpn: u32| if lpn < drive_pages { lpn } else { lpn - drive_pages };
        (0..self.pages).map(move |index| wrap(self.lpn + index))
    }

    /// A request in codewords of so many bytes, as one in pages that have so many of them each.
    #[inline]
    pub(crate) fn in_pages(self, codewords: u32, bytes: u32) -> Self {
        if codewords == 1 || self.pages == 0 {
            return self;
        }
        let (first, last) = (self.lpn % codewords, (self.lpn + self.pages - 1) % codewords);
        Self {
            lpn: self.lpn / codewords,
            pages: (first + self.pages).div_ceil(codewords),
            first_byte: first * bytes + self.first_byte,
            end_byte: last * bytes + self.end_byte,
            ..self
        }
    }

    /// What it writes of its page number `index`; `number` is fresh for every page.
    pub fn piece(&self, index: u32, page_bytes: u32, number: u64) -> Piece {
        let from = if index == 0 { self.first_byte } else { 0 };
        let to = if index + 1 == self.pages { self.end_byte } else { page_bytes };
        let at =
            u64::from(index) * u64::from(page_bytes) + u64::from(from) - u64::from(self.first_byte);
        Piece { from, to, unit_bytes: page_bytes, at, identity: self.identity, number }
    }
}

/// What a page holds in a simulation.
pub trait SimPage: Clone + PartialEq {
    /// Whether pages can be told apart.
    const HAS_CONTENT: bool;

    /// The content with this key.
    fn of_key(key: u128) -> Self;

    /// Content that only this number has.
    fn fresh(number: u64) -> Self {
        Self::of_key(fresh(number))
    }

    /// What tells it from other content; 0 where there is none.
    fn key(&self) -> u128;
}

impl SimPage for () {
    const HAS_CONTENT: bool = false;

    fn of_key(_key: u128) -> Self {}

    fn key(&self) -> u128 {
        0
    }
}

impl SimPage for Identity {
    const HAS_CONTENT: bool = true;

    fn of_key(key: u128) -> Self {
        Self(key)
    }

    fn key(&self) -> u128 {
        self.0
    }
}

/// Requests that are drawn together, so that what they will change can be asked for before.
pub(crate) const AHEAD: usize = 32;

/// Where requests come from.
pub(crate) struct Source {
    kind: Kind,
    closed: bool,
    /// Made so far.
    made: u64,
    /// Drawn and not made yet; an error is the last of them.
    ahead: VecDeque<Result<HostRequest, RunError>>,
    limit: u64,
    /// Of what the map names: a page, or a codeword.
    page_bytes: u64,
    /// What the map names.
    logical_pages: u64,
    blocks_per_plane: u32,
    wrap: bool,
    /// TRIMs of more than the drive has.
    clipped_trims: u64,
    /// What written requests hold; preconditioning takes from it first.
    pub(crate) contents: Contents,
}

enum Kind {
    Generated(Generator),
    Trace {
        requests: TraceRequests,
        think: Generator,
        closed: bool,
    },
    /// Another thread draws.
    Elsewhere {
        think: Generator,
        clients: Option<u32>,
    },
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Source");
        text.field("made", &self.made).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Source {
    pub(crate) fn new(spec: &DriveSpec, trace: Option<TraceRequests>) -> Result<Self, RunError> {
        let generator = Generator::new(spec.workload_spec())
            .map_err(|error| RunError::Workload(error.to_string()))?;
        let writes = || generator.clone().filter(|request| request.op == Op::Write).count() as u64;
        let contents = match &trace {
            Some(_) => Contents::Given,
            None => Contents::of(spec, writes)?,
        };
        let trace = trace.map(|requests| match spec.workload.idle_hint_ns {
            0 => requests,
            pause_ns => Box::new(IdleHints::new(requests, pause_ns)),
        });
        let limit = if trace.is_some() { u64::MAX } else { spec.workload.requests };
        let closed = spec.workload.trace_timing == TraceTiming::Closed;
        let (mapped, mapped_bytes) = spec.mapped_units();
        let source = Self {
            kind: match trace {
                None => Kind::Generated(generator),
                Some(requests) => Kind::Trace { requests, think: generator, closed },
            },
            closed: false,
            made: 0,
            ahead: VecDeque::with_capacity(AHEAD),
            limit,
            page_bytes: mapped_bytes.into(),
            logical_pages: mapped.into(),
            blocks_per_plane: spec.geometry.blocks_per_plane,
            wrap: spec.workload.wrap_addresses,
            clipped_trims: 0,
            contents,
        };
        Ok(Self { closed: source.clients().is_some(), ..source })
    }

    /// At most so many requests of a trace.
    pub(crate) fn limit(&mut self, requests: u64) {
        self.limit = self.limit.min(requests);
    }

    /// Requests made so far.
    pub(crate) const fn made(&self) -> u64 {
        self.made
    }

    /// TRIMs so far of which a part was beyond the drive.
    pub(crate) const fn clipped_trims(&self) -> u64 {
        self.clipped_trims
    }

    /// Whether no request will come any more, as far as is known without asking for one.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.made == self.limit
    }

    /// Whether each answer is followed by a request.
    #[inline]
    pub(crate) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Clients that wait for each other's answers; `None` when requests come by the clock.
    pub(crate) const fn clients(&self) -> Option<u32> {
        let spec = match &self.kind {
            Kind::Generated(generator) => generator.spec(),
            Kind::Trace { think, closed: true, .. } => think.spec(),
            Kind::Trace { closed: false, .. } => return None,
            Kind::Elsewhere { clients, .. } => return *clients,
        };
        match spec.arrivals {
            Arrivals::Closed { queue_depth, .. } => Some(queue_depth),
            Arrivals::Poisson { .. } | Arrivals::Constant { .. } => match self.kind {
                Kind::Trace { .. } => Some(1),
                Kind::Generated(_) | Kind::Elsewhere { .. } => None,
            },
        }
    }

    /// The pause before a client's next request.
    pub(crate) fn think(&mut self) -> SimSpan {
        match &mut self.kind {
            Kind::Generated(generator) => generator.think(),
            Kind::Trace { think, .. } | Kind::Elsewhere { think, .. } => think.think(),
        }
    }

    /// Leaves drawing to another thread, which is handed the source that does. Pauses are drawn
    /// here all the same: where clients take any, the times of requests draw nothing.
    pub(crate) fn hand_over(&mut self) -> Self {
        let clients = self.clients();
        let (Kind::Generated(think) | Kind::Trace { think, .. } | Kind::Elsewhere { think, .. }) =
            &self.kind;
        let kind = Kind::Elsewhere { think: think.clone(), clients };
        let here = Self { kind, ahead: VecDeque::new(), contents: Contents::Given, ..*self };
        std::mem::replace(self, here)
    }

    /// Takes requests that another thread has drawn.
    pub(crate) fn take_drawn(&mut self, of: impl Iterator<Item = Result<HostRequest, RunError>>) {
        self.ahead.extend(of);
    }

    /// Whether there are requests that were drawn and not made.
    pub(crate) fn has_drawn(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Takes the count of whoever draws.
    pub(crate) const fn set_clipped_trims(&mut self, clipped_trims: u64) {
        self.clipped_trims = clipped_trims;
    }

    /// The next request, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<HostRequest>, RunError> {
        if self.ahead.is_empty() {
            self.draw_ahead();
        }
        let request = self.ahead.pop_front().transpose()?;
        self.made += u64::from(request.is_some());
        Ok(request)
    }

    /// Draws the next requests if all drawn ones were made; whether there are any.
    pub(crate) fn draw_ahead(&mut self) -> bool {
        if !self.ahead.is_empty() {
            return false;
        }
        while self.ahead.len() < AHEAD {
            let Some(request) = self.draw(self.made + self.ahead.len() as u64).transpose() else {
                break;
            };
            let failed = request.is_err();
            self.ahead.push_back(request);
            if failed {
                break;
            }
        }
        !self.ahead.is_empty()
    }

    /// Requests drawn and not made yet.
    pub(crate) fn drawn(&self) -> impl Iterator<Item = &HostRequest> {
        self.ahead.iter().flatten()
    }

    /// Draws request `number`, if there is one.
    fn draw(&mut self, number: u64) -> Result<Option<HostRequest>, RunError> {
        if number == self.limit {
            return Ok(None);
        }
        let request = match &mut self.kind {
            Kind::Generated(generator) => generator.next(),
            Kind::Trace { requests, .. } => requests.next().transpose().map_err(RunError::Trace)?,
            Kind::Elsewhere { .. } => None,
        };
        let Some(mut request) = request else { return Ok(None) };
        if request.op == Op::Write {
            request.identity = self.contents.next(request.identity);
        }
        self.in_pages(number, &request).map(Some)
    }

    fn in_pages(&mut self, number: u64, request: &Request) -> Result<HostRequest, RunError> {
        let (arrival_ns, op) = (request.time_ns, request.op);
        let whole = HostRequest {
            number,
            arrival_ns,
            op,
            lpn: 0,
            pages: 0,
            first_byte: 0,
            end_byte: 0,
            identity: request.identity,
            deduplicate: request.deduplicate,
        };
        if !op.has_range() || request.length == 0 {
            return Ok(whole);
        }
        let (bytes, logical) = (self.page_bytes, self.logical_pages);
        if op == Op::Trim {
            return Ok(self.trimmed(whole, request));
        }
        let ((mut first, first_byte), (last, in_last)) =
            (self.page_of(request.offset), self.page_of(request.end()));
        let end = last + u64::from(in_last > 0);
        let pages = end - first;
        if pages > PAGES_MAX {
            return Err(RunError::TooLong { number, pages, limit: PAGES_MAX });
        }
        if end > logical && !self.wrap {
            let (drive, last) = (logical * bytes, request.end());
            let blocks =
                (u128::from(self.blocks_per_plane) * u128::from(end)).div_ceil(u128::from(logical));
            return Err(RunError::BeyondDrive { number, last, drive, blocks });
        }
        if pages > logical {
            return Err(RunError::TooLong { number, pages, limit: logical });
        }
        if first >= logical {
            first %= logical;
        }
        Ok(HostRequest {
            lpn: first as u32,
            pages: pages as u32,
            first_byte: first_byte as u32,
            end_byte: if in_last == 0 { bytes } else { in_last } as u32,
            ..whole
        })
    }

    /// The page of a byte, and where in it that is.
    #[inline]
    const fn page_of(&self, byte: u64) -> (u64, u64) {
        let bytes = self.page_bytes;
        // A division takes longer than all else here.
        if bytes.is_power_of_two() {
            (byte >> bytes.trailing_zeros(), byte & (bytes - 1))
        } else {
            (byte / bytes, byte % bytes)
        }
    }

    /// A TRIM: only whole pages can be forgotten, and only those that there are.
    fn trimmed(&mut self, whole: HostRequest, request: &Request) -> HostRequest {
        let (bytes, logical) = (self.page_bytes, self.logical_pages);
        let (first, wanted) = (request.offset.div_ceil(bytes), request.end() / bytes);
        let last = if self.wrap { first.saturating_add(logical) } else { logical };
        let end = wanted.min(last);
        self.clipped_trims += u64::from(end < wanted);
        if end <= first {
            return whole;
        }
        let (lpn, pages) = ((first % logical) as u32, (end - first) as u32);
        HostRequest { lpn, pages, end_byte: bytes as u32, ..whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecBuilder;

    /// A source of reads of one page each, of which number `wrong` is an error.
    fn source(wrong: u64, limit: u64) -> Source {
        let spec = SpecBuilder::preset("ses-slc").and_then(SpecBuilder::build).expect("a drive");
        let requests = (0..).map(move |number: u64| {
            if number == wrong {
                return Err(format!("number {number}"));
            }
            assert!(number < limit, "request {number} is beyond the limit");
            Ok(Request {
                time_ns: number,
                op: Op::Read,
                offset: number * 8192,
                length: 8192,
                identity: None,
                stream: None,
                pid: None,
                deduplicate: None,
            })
        });
        let mut source = Source::new(&spec, Some(Box::new(requests))).expect("a source");
        source.limit(limit);
        source
    }

    #[test]
    fn requests_drawn_ahead_come_in_their_turn_and_so_do_errors() {
        for wrong in [0, 1, 31, 32, 50, 64] {
            let mut source = source(wrong, u64::MAX);
            for number in 0..wrong {
                assert_eq!(source.draw_ahead(), number % AHEAD as u64 == 0);
                assert!(source.drawn().any(|request| request.number == number));
                let request = source.next().expect("no error yet").expect("there are more");
                assert_eq!((request.number, u64::from(request.lpn)), (number, number));
            }
            assert!(matches!(source.next(), Err(RunError::Trace(_))), "number {wrong}");
            assert_eq!(source.made(), wrong);
        }
    }

    #[test]
    fn codewords_are_counted_by_the_pages_that_they_lie_in() {
        let request = |lpn, pages, first_byte, end_byte| HostRequest {
            number: 7,
            arrival_ns: 0,
            op: Op::Write,
            lpn,
            pages,
            first_byte,
            end_byte,
            identity: None,
            deduplicate: None,
        };
        // Codewords of 1 KiB, four to a page: bytes 5100 to 9300 are in pages 1 and 2.
        let found = request(4, 6, 1004, 84).in_pages(4, 1024);
        assert_eq!(found, request(1, 2, 1004, 1108));
        // The last codeword of one page and the first of the next.
        assert_eq!(request(3, 2, 0, 1024).in_pages(4, 1024), request(0, 2, 3072, 1024));
        assert_eq!(request(8, 4, 0, 1024).in_pages(4, 1024), request(2, 1, 0, 4096));
        assert_eq!(request(3, 2, 9, 17).in_pages(1, 4096), request(3, 2, 9, 17));
        assert_eq!(request(0, 0, 0, 0).in_pages(4, 1024), request(0, 0, 0, 0));
    }

    #[test]
    fn requests_are_divided_into_pages_up_to_the_last_byte_that_has_a_number() {
        for bytes in [4096, 8192, 6144_u64] {
            let mut source = source(u64::MAX, 1);
            (source.page_bytes, source.logical_pages, source.wrap) = (bytes, 1000, true);
            let mut of = |offset: u64, length: u64| {
                let (op, time_ns, identity) = (Op::Write, 0, None);
                let (stream, pid, deduplicate) = (None, None, None);
                let asked =
                    Request { time_ns, op, offset, length, identity, stream, pid, deduplicate };
                let HostRequest { lpn, pages, first_byte, end_byte, .. } =
                    source.in_pages(0, &asked).expect("it fits");
                [lpn, pages, first_byte, end_byte].map(u64::from)
            };
            assert_eq!(of(0, bytes), [0, 1, 0, bytes]);
            assert_eq!(of(bytes - 1, 2), [0, 2, bytes - 1, 1]);
            assert_eq!(of(999 * bytes, bytes + 1), [999, 2, 0, 1]);
            assert_eq!(of(1001 * bytes + 5, 7), [1, 1, 5, 12]);
            assert_eq!(of(1000 * bytes, bytes), [0, 1, 0, bytes]);
            assert_eq!((of(5, 1), of(5, 0)), ([0, 1, 5, 6], [0; 4]));
            // Its end would be one byte further than 64 bits can say.
            let last = u64::MAX - 9;
            let (page, at) = (last / bytes, last % bytes);
            assert_eq!(of(last, 10), [page % 1000, 1, at, at + 9]);
        }
    }

    #[test]
    fn a_request_has_at_most_so_many_pages_and_those_beyond_the_drive_begin_again() {
        let mut source = source(u64::MAX, 1);
        source.logical_pages = 2 * PAGES_MAX;
        let mut asked = |pages: u64| {
            let (op, length, identity) = (Op::Read, pages * 8192, None);
            let (offset, time_ns) = (8192, 0);
            let (stream, pid, deduplicate) = (None, None, None);
            let asked = Request { time_ns, op, offset, length, identity, stream, pid, deduplicate };
            source.in_pages(3, &asked)
        };
        let whole = asked(PAGES_MAX).expect("it is taken");
        assert_eq!(u64::from(whole.pages), PAGES_MAX);
        let more = asked(PAGES_MAX + 1);
        assert!(matches!(more, Err(RunError::TooLong { number: 3, .. })), "{more:?}");
        let few = HostRequest { lpn: 8, pages: 4, ..whole };
        assert_eq!(few.lpns(10).collect::<Vec<_>>(), [8, 9, 0, 1]);
        assert_eq!(few.lpns(12).collect::<Vec<_>>(), [8, 9, 10, 11]);
    }

    #[test]
    fn nothing_is_drawn_beyond_the_limit() {
        for limit in [0, 1, 32, 33, 100] {
            let mut source = source(u64::MAX, limit);
            let made = std::iter::from_fn(|| source.next().expect("no error")).count();
            assert_eq!(made as u64, limit);
            assert!(source.is_exhausted() && source.next().expect("no error").is_none());
        }
    }
}
