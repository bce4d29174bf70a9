//! Where requests come from: a generator, a trace, or another thread that draws them.
//! Room: onefold-flash.   In: byte ranges.   Out: [`HostRequest`]s.

use onefold_sim::SimSpan;
use onefold_workload::{Arrivals, Generator, IdleHints, Op, Request, TraceRequests};

use crate::run::RunError;
use crate::run::contents::Contents;
use crate::run::drawn::{AHEAD, Drawn};
use crate::run::request::HostRequest;
use crate::spec::{DriveSpec, TraceTiming};

/// Most pages that one request reads or writes; a TRIM may have all pages of the drive.
const PAGES_MAX: u64 = 1 << 20;

/// Where requests come from.
pub(crate) struct Source {
    kind: Kind,
    closed: bool,
    /// Made so far.
    made: u64,
    /// Drawn and not made yet.
    drawn: Drawn,
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
            drawn: Drawn::default(),
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
        let here = Self { kind, drawn: Drawn::default(), contents: Contents::Given, ..*self };
        std::mem::replace(self, here)
    }

    /// Takes requests that another thread has drawn, and what drawing the next one failed of, when
    /// all others have been made. Returns what those were in.
    pub(crate) fn take_drawn(
        &mut self,
        requests: Vec<HostRequest>,
        failure: Option<RunError>,
    ) -> Vec<HostRequest> {
        let made = self.drawn.replace(requests, failure);
        self.drawn.look();
        made
    }

    /// Whether nothing that was drawn is to be made.
    pub(crate) fn has_none_drawn(&self) -> bool {
        self.drawn.is_empty()
    }

    /// Takes the count of whoever draws.
    pub(crate) const fn set_clipped_trims(&mut self, clipped_trims: u64) {
        self.clipped_trims = clipped_trims;
    }

    /// The next request, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<HostRequest>, RunError> {
        if self.drawn.is_empty() {
            self.draw_ahead();
        }
        let request = self.drawn.next()?;
        self.made += u64::from(request.is_some());
        Ok(request)
    }

    /// Draws the next requests if all drawn ones were made; whether there are any.
    pub(crate) fn draw_ahead(&mut self) -> bool {
        if !self.drawn.is_empty() {
            return false;
        }
        self.drawn.forget_made();
        while self.drawn.waiting() < AHEAD {
            match self.draw(self.made + self.drawn.waiting() as u64) {
                Ok(Some(request)) => self.drawn.push(request),
                Ok(None) => break,
                Err(failure) => {
                    self.drawn.fail(failure);
                    break;
                }
            }
        }
        self.drawn.look();
        !self.drawn.is_empty()
    }

    /// Looks at the next requests of those that were drawn if all that it did were made; whether
    /// it has.
    #[inline]
    pub(crate) fn look_ahead(&mut self) -> bool {
        let all = self.drawn.all_seen_are_made();
        if all {
            self.drawn.look();
        }
        all
    }

    /// The requests that it looks at, and that were not made yet.
    pub(crate) fn seen(&self) -> &[HostRequest] {
        self.drawn.seen()
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
                assert_eq!(source.has_none_drawn(), number % AHEAD as u64 == 0);
                assert_eq!(source.draw_ahead(), number % AHEAD as u64 == 0);
                assert!(source.seen().iter().any(|request| request.number == number));
                let request = source.next().expect("no error yet").expect("there are more");
                assert_eq!((request.number, u64::from(request.lpn)), (number, number));
            }
            assert!(matches!(source.next(), Err(RunError::Trace(_))), "number {wrong}");
            assert_eq!(source.made(), wrong);
        }
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
        let reads = |pages: u64| {
            let (op, length, identity) = (Op::Read, pages * 8192, None);
            let (offset, time_ns) = (8192, 0);
            let (stream, pid, deduplicate) = (None, None, None);
            Request { time_ns, op, offset, length, identity, stream, pid, deduplicate }
        };
        let whole = source.in_pages(3, &reads(PAGES_MAX)).expect("it is taken");
        assert_eq!(u64::from(whole.pages), PAGES_MAX);
        let more = source.in_pages(3, &reads(PAGES_MAX + 1));
        assert!(matches!(more, Err(RunError::TooLong { number: 3, .. })), "{more:?}");
        // No more of them than the drive has, wherever they begin.
        (source.logical_pages, source.wrap) = (5, true);
        let whole = source.in_pages(3, &reads(5)).expect("it is taken");
        assert_eq!((whole.lpn, whole.pages), (1, 5));
        let more = source.in_pages(3, &reads(6));
        assert!(matches!(more, Err(RunError::TooLong { pages: 6, limit: 5, .. })), "{more:?}");
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
