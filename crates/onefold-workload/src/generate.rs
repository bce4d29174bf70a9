//! Generators: requests from a seed, by address pattern, read share and kind of arrival.
//! Room: onefold-workload.   In: [`WorkloadSpec`].   Out: [`Request`]s.
//! Invariants: (1) same spec, same requests  (2) addresses, kinds and times come from streams of
//! their own: changing the read share moves no address.

use onefold_sim::{RandomStream, RandomStreams, Ratio, SimSpan, Zipf, ZipfError};

use crate::request::{Identity, Op, Request};

/// Which pages requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressPattern {
    /// Every page equally often.
    Uniform,
    /// Page of rank r with weight 1 / r^exponent; ranks are scattered over the space.
    Zipf {
        /// The exponent, 0 to 10.
        exponent: Ratio,
    },
    /// A share of the accesses goes to a share of the space, its first pages; uniform in both.
    HotCold {
        /// Share of the pages that is hot.
        hot_pages: Ratio,
        /// Share of the requests that goes to them.
        hot_requests: Ratio,
    },
    /// One page after the other, again from the start after the last.
    Sequential,
}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Open loop: independent arrivals with exponential gaps, whatever the device does.
    Poisson {
        /// Mean time between two requests.
        between: SimSpan,
    },
    /// Open loop with equal gaps.
    Constant {
        /// Time between two requests.
        between: SimSpan,
    },
    /// Closed loop: a request follows the end of an earlier one; times in the requests are 0.
    Closed {
        /// Requests outstanding at most, at least 1.
        queue_depth: u32,
        /// Pause between the end of one request and the next.
        think: ThinkTime,
    },
}

/// How long a closed loop waits before it asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkTime {
    /// Not at all.
    None,
    /// Always the same.
    Constant(SimSpan),
    /// Exponential with this mean.
    Exponential(SimSpan),
}

/// A synthetic workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// Pages of the space, 1 to 2^40.
    pub pages: u64,
    /// Bytes of a page, and of every request.
    pub page_bytes: u32,
    /// Number of requests.
    pub requests: u64,
    /// Share of reads; the rest are writes.
    pub read_share: Ratio,
    /// Which pages.
    pub pattern: AddressPattern,
    /// When.
    pub arrivals: Arrivals,
    /// Root of all random numbers.
    pub seed: u64,
}

/// A workload that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No pages, or too many.
    #[error("{got} pages: expected 1 to 2^40")]
    Pages {
        /// Pages asked for.
        got: u64,
    },
    /// Pages without bytes.
    #[error("pages of 0 bytes: expected at least 1 byte")]
    PageBytes,
    /// A share above 1.
    #[error("{field} {got}: expected a share from 0 to 1")]
    Share {
        /// Which share.
        field: &'static str,
        /// What was asked for.
        got: Ratio,
    },
    /// No exponent of a Zipf distribution.
    #[error(transparent)]
    Zipf(#[from] ZipfError),
    /// A closed loop that never asks.
    #[error("queue depth 0: expected at least 1")]
    QueueDepth,
    /// A hot part without pages, or that leaves none.
    #[error("{hot} hot pages of {pages}: expected at least one hot and one cold page")]
    HotPages {
        /// Hot pages after rounding.
        hot: u64,
        /// All pages.
        pages: u64,
    },
}

/// The requests of a [`WorkloadSpec`].
#[derive(Clone, Debug)]
pub struct Generator {
    spec: WorkloadSpec,
    picker: Picker,
    made: u64,
    time_ns: u64,
    addresses: RandomStream,
    kinds: RandomStream,
    times: RandomStream,
}

#[derive(Clone, Debug)]
enum Picker {
    Uniform,
    Zipf { ranks: Zipf, scatter: Scatter },
    HotCold { hot: u64, share: Ratio },
    Sequential,
}

impl Generator {
    /// The generator of a workload, checked.
    pub fn new(spec: WorkloadSpec) -> Result<Self, SpecError> {
        if spec.pages == 0 || spec.pages > Zipf::ITEMS_MAX {
            return Err(SpecError::Pages { got: spec.pages });
        }
        if spec.page_bytes == 0 {
            return Err(SpecError::PageBytes);
        }
        share("read share", spec.read_share)?;
        if matches!(spec.arrivals, Arrivals::Closed { queue_depth: 0, .. }) {
            return Err(SpecError::QueueDepth);
        }
        let streams = RandomStreams::new(spec.seed);
        let picker = match spec.pattern {
            AddressPattern::Uniform => Picker::Uniform,
            AddressPattern::Sequential => Picker::Sequential,
            AddressPattern::Zipf { exponent } => Picker::Zipf {
                ranks: Zipf::new(spec.pages, exponent)?,
                scatter: Scatter::new(spec.pages, &mut streams.stream("workload.scatter")),
            },
            AddressPattern::HotCold { hot_pages, hot_requests } => {
                share("hot share of the pages", hot_pages)?;
                share("hot share of the requests", hot_requests)?;
                let (hot, pages) = (hot_pages.of(spec.pages), spec.pages);
                if hot == 0 || hot == pages {
                    return Err(SpecError::HotPages { hot, pages });
                }
                Picker::HotCold { hot, share: hot_requests }
            }
        };
        Ok(Self {
            spec,
            picker,
            made: 0,
            time_ns: 0,
            addresses: streams.stream("workload.addresses"),
            kinds: streams.stream("workload.kinds"),
            times: streams.stream("workload.times"),
        })
    }

    /// The workload.
    pub const fn spec(&self) -> &WorkloadSpec {
        &self.spec
    }

    /// The pause before the next request of a closed loop; none in an open one.
    pub fn think(&mut self) -> SimSpan {
        let Arrivals::Closed { think, .. } = self.spec.arrivals else { return SimSpan::ZERO };
        match think {
            ThinkTime::None => SimSpan::ZERO,
            ThinkTime::Constant(span) => span,
            ThinkTime::Exponential(mean) => self.times.exponential(mean),
        }
    }

    fn page(&mut self) -> u64 {
        let pages = self.spec.pages;
        match &self.picker {
            Picker::Uniform => self.addresses.below(pages),
            Picker::Sequential => self.made % pages,
            Picker::Zipf { ranks, scatter } => scatter.place(ranks.sample(&mut self.addresses)),
            Picker::HotCold { hot, share } => {
                if self.addresses.chance(*share) {
                    self.addresses.below(*hot)
                } else {
                    hot + self.addresses.below(pages - hot)
                }
            }
        }
    }
}

impl Iterator for Generator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.made == self.spec.requests {
            return None;
        }
        let page = self.page();
        let read = self.kinds.chance(self.spec.read_share);
        let time_ns = self.time_ns;
        let gap = match self.spec.arrivals {
            Arrivals::Poisson { between } => self.times.exponential(between),
            Arrivals::Constant { between } => between,
            Arrivals::Closed { .. } => SimSpan::ZERO,
        };
        self.time_ns = self.time_ns.saturating_add(gap.ns());
        self.made += 1;
        Some(Request {
            time_ns,
            op: if read { Op::Read } else { Op::Write },
            offset: page * u64::from(self.spec.page_bytes),
            length: u64::from(self.spec.page_bytes),
            identity: None,
            stream: None,
            pid: None,
            deduplicate: None,
        })
    }
}

fn share(field: &'static str, got: Ratio) -> Result<(), SpecError> {
    got.share().map(|_| ()).map_err(|_| SpecError::Share { field, got })
}

/// A bijection of the pages that puts neighbouring ranks far apart: rank * a + b modulo pages.
#[derive(Clone, Debug)]
struct Scatter {
    pages: u64,
    factor: u64,
    shift: u64,
}

impl Scatter {
    fn new(pages: u64, stream: &mut RandomStream) -> Self {
        // Near the golden section of the space, where multiples spread most evenly.
        let mut factor = (u128::from(pages) * 6_180_339_887 / 10_000_000_000).max(1) as u64;
        while gcd(factor, pages) != 1 {
            factor += 1;
        }
        Self { pages, factor, shift: stream.below(pages) }
    }

    fn place(&self, rank: u64) -> u64 {
        let sum = u128::from(rank) * u128::from(self.factor) + u128::from(self.shift);
        (sum % u128::from(self.pages)) as u64
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Gives each write the next content, in order; ends when the content does.
pub fn with_content<R, C>(requests: R, mut content: C) -> impl Iterator<Item = Request>
where
    R: Iterator<Item = Request>,
    C: Iterator<Item = Identity>,
{
    requests.map_while(move |mut request| {
        if request.op == Op::Write {
            request.identity = Some(content.next()?);
        }
        Some(request)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The golden section of the space, or the next number that has no divisor in common with it.
    #[test]
    fn neighbouring_ranks_lie_a_golden_section_apart() {
        for (pages, factor) in [
            (1, 1),
            (2, 1),
            (1000, 619),
            (1 << 20, 648_055),
            (1 << 40, 679_535_556_937),
            ((1 << 40) - 1, 679_535_556_937),
        ] {
            let scatter = Scatter::new(pages, &mut RandomStreams::new(1).stream("s"));
            assert_eq!(scatter.factor, factor, "{pages} pages");
            let step = (scatter.place(1) + pages - scatter.place(0)) % pages;
            assert_eq!(step, factor % pages);
        }
        assert_eq!([gcd(12, 18), gcd(7, 0), gcd(1, 9)], [6, 7, 1]);
    }

    #[test]
    fn scattering_is_a_bijection() {
        for pages in 1..300 {
            let scatter = Scatter::new(pages, &mut RandomStreams::new(pages).stream("s"));
            let mut seen: Vec<u64> = (0..pages).map(|rank| scatter.place(rank)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..pages), "{pages} pages");
        }
    }
}
