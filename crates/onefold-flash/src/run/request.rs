//! Requests of the host in pages, from a generator or a trace.
//! Room: onefold-flash.   In: byte ranges.   Out: [`HostRequest`]s.

use std::collections::VecDeque;

use onefold_sim::SimSpan;
use onefold_workload::content::UniformContent;
use onefold_workload::{Arrivals, Generator, Identity as ContentIdentity, Op, Request};

use crate::nand::Identity;
use crate::run::RunError;
use crate::spec::{ContentKind, DriveSpec, TraceTiming};

/// Most pages that one request reads or writes.
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
    /// Whether it covers only a part of its first page.
    pub partial_head: bool,
    /// Whether it covers only a part of its last page, if that is another one.
    pub partial_tail: bool,
    /// The content that it writes, where that is known.
    pub identity: Option<ContentIdentity>,
}

/// What a page holds in a simulation.
pub trait SimPage: Clone + PartialEq {
    /// Whether pages can be told apart.
    const HAS_CONTENT: bool;

    /// The content of page `index` of a request; `number` is fresh for every page.
    fn of(identity: Option<ContentIdentity>, index: u32, number: u64) -> Self;

    /// What tells it from other content; 0 where there is none.
    fn key(&self) -> u128;
}

impl SimPage for () {
    const HAS_CONTENT: bool = false;

    fn of(_identity: Option<ContentIdentity>, _index: u32, _number: u64) -> Self {}

    fn key(&self) -> u128 {
        0
    }
}

/// Numbers of pages that nobody gave an identity, far from those of preconditioning.
const FRESH: u128 = 1 << 120;

impl SimPage for Identity {
    const HAS_CONTENT: bool = true;

    fn of(identity: Option<ContentIdentity>, index: u32, number: u64) -> Self {
        match identity {
            None => Self(FRESH + u128::from(number)),
            // Pages of one request differ unless two requests agree as a whole.
            Some(whole) => {
                let whole = u128::from_le_bytes(*whole.as_bytes());
                Self(whole.wrapping_add(u128::from(index) << 64))
            }
        }
    }

    fn key(&self) -> u128 {
        self.0
    }
}

/// The requests of a trace.
pub type TraceRequests = Box<dyn Iterator<Item = Result<Request, String>> + Send>;

/// Requests that are drawn together, so that what they will change can be asked for before.
const AHEAD: usize = 32;

/// Where requests come from.
pub(crate) struct Source {
    kind: Kind,
    /// Made so far.
    made: u64,
    /// Drawn and not made yet; an error is the last of them.
    ahead: VecDeque<Result<HostRequest, RunError>>,
    limit: u64,
    page_bytes: u64,
    logical_pages: u64,
    wrap: bool,
    content: Content,
}

enum Kind {
    Generated(Generator),
    Trace { requests: TraceRequests, think: Generator, closed: bool },
}

/// Identities of written requests.
enum Content {
    /// Those of the trace, or fresh ones.
    Given,
    Uniform(UniformContent),
    Set(Box<dyn Iterator<Item = ContentIdentity> + Send>),
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
        let content = match (&trace, spec.workload.content) {
            (Some(_), _) | (None, ContentKind::Unique) => Content::Given,
            (None, ContentKind::Uniform) => {
                Content::Uniform(UniformContent::new(spec.workload.content_values, spec.seed))
            }
            (None, _) => {
                let profile = spec.content_profile().expect("every other kind has a profile");
                let writes = generator.clone().filter(|request| request.op == Op::Write).count();
                let set = profile
                    .data_set(writes as u64, spec.seed)
                    .map_err(|error| RunError::Workload(error.to_string()))?;
                Content::Set(Box::new(set))
            }
        };
        let limit = if trace.is_some() { u64::MAX } else { spec.workload.requests };
        let closed = spec.workload.trace_timing == TraceTiming::Closed;
        Ok(Self {
            kind: match trace {
                None => Kind::Generated(generator),
                Some(requests) => Kind::Trace { requests, think: generator, closed },
            },
            made: 0,
            ahead: VecDeque::with_capacity(AHEAD),
            limit,
            page_bytes: u64::from(spec.geometry.page_bytes),
            logical_pages: u64::from(spec.logical_pages()),
            wrap: spec.workload.wrap_addresses,
            content,
        })
    }

    /// At most so many requests of a trace.
    pub(crate) fn limit(&mut self, requests: u64) {
        self.limit = self.limit.min(requests);
    }

    /// Requests made so far.
    pub(crate) const fn made(&self) -> u64 {
        self.made
    }

    /// Whether no request will come any more, as far as is known without asking for one.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.made == self.limit
    }

    /// Clients that wait for each other's answers; `None` when requests come by the clock.
    pub(crate) const fn clients(&self) -> Option<u32> {
        let spec = match &self.kind {
            Kind::Generated(generator) => generator.spec(),
            Kind::Trace { think, closed: true, .. } => think.spec(),
            Kind::Trace { closed: false, .. } => return None,
        };
        match spec.arrivals {
            Arrivals::Closed { queue_depth, .. } => Some(queue_depth),
            Arrivals::Poisson { .. } | Arrivals::Constant { .. } => match self.kind {
                Kind::Generated(_) => None,
                Kind::Trace { .. } => Some(1),
            },
        }
    }

    /// The pause before a client's next request.
    pub(crate) fn think(&mut self) -> SimSpan {
        match &mut self.kind {
            Kind::Generated(generator) => generator.think(),
            Kind::Trace { think, .. } => think.think(),
        }
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
        };
        let Some(mut request) = request else { return Ok(None) };
        if request.op == Op::Write {
            request.identity = match &mut self.content {
                Content::Given => request.identity,
                Content::Uniform(values) => values.next(),
                Content::Set(set) => set.next(),
            };
        }
        self.in_pages(number, &request).map(Some)
    }

    fn in_pages(&self, number: u64, request: &Request) -> Result<HostRequest, RunError> {
        let (arrival_ns, op) = (request.time_ns, request.op);
        let whole = HostRequest {
            number,
            arrival_ns,
            op,
            lpn: 0,
            pages: 0,
            partial_head: false,
            partial_tail: false,
            identity: request.identity,
        };
        if op == Op::Flush || request.length == 0 {
            return Ok(whole);
        }
        let bytes = self.page_bytes;
        let (mut first, mut end) = (request.offset / bytes, request.end().div_ceil(bytes));
        let (mut head, mut tail) =
            (!request.offset.is_multiple_of(bytes), !request.end().is_multiple_of(bytes));
        if op == Op::Trim {
            // Only whole pages can be forgotten.
            (first, end) = (first + u64::from(head), end - u64::from(tail));
            (head, tail) = (false, false);
            if end <= first {
                return Ok(whole);
            }
        }
        let pages = end - first;
        if pages > PAGES_MAX {
            return Err(RunError::TooLong { number, pages, limit: PAGES_MAX });
        }
        if end > self.logical_pages {
            if !self.wrap {
                let (drive, last) = (self.logical_pages * bytes, request.end());
                return Err(RunError::BeyondDrive { number, last, drive });
            }
            first %= self.logical_pages;
        }
        if pages > self.logical_pages {
            let drive = self.logical_pages * bytes;
            return Err(RunError::BeyondDrive { number, last: request.end(), drive });
        }
        Ok(HostRequest {
            lpn: first as u32,
            pages: pages as u32,
            partial_head: head || (pages == 1 && tail),
            partial_tail: tail && pages > 1,
            ..whole
        })
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
    fn nothing_is_drawn_beyond_the_limit() {
        for limit in [0, 1, 32, 33, 100] {
            let mut source = source(u64::MAX, limit);
            let made = std::iter::from_fn(|| source.next().expect("no error")).count();
            assert_eq!(made as u64, limit);
            assert!(source.is_exhausted() && source.next().expect("no error").is_none());
        }
    }
}
