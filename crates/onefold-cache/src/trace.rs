//! A trace in memory: which containers are read, file by file, under numbers that count from 0.
//! Room: onefold-cache.   In: requests of `onefold-workload`, or of [`crate::workload`].
//! Invariants: (1) keys count from 0 in order of appearance or of the container's number  (2) the
//! files cover all requests  (3) nothing that was read is left out without being counted.
//! Cost: 24 bytes per request.

use std::collections::HashMap;

use onefold_workload::{Op, Request};

use crate::policy::Access;

/// No request.
pub const NEVER: u32 = u32::MAX;

/// What is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Containers in the order in which they are read.
    pub requests: Vec<Access>,
    /// For each of them, the bytes that the reader wants of it.
    pub wanted: Vec<u32>,
    /// For each file read, the number of its last request plus one.
    pub files: Vec<u32>,
    /// For each container, how many files use it.
    pub references: Vec<u32>,
    /// Bytes of all containers there are, read or not.
    pub data_bytes: u64,
}

/// How a trace of blocks becomes reads of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Bytes of a container; 0 makes an object of every address, of size 1.
    pub container_bytes: u32,
    /// Whether writes count as well.
    pub writes: bool,
}

/// Makes a [`Trace`] of requests, one after another. Every request is a file; its containers are
/// all that it touches.
#[derive(Debug)]
pub struct Gather {
    units: Units,
    trace: Trace,
    numbers: HashMap<(u32, u64), u64>,
}

impl Gather {
    /// Of requests to these units, without any yet.
    pub fn new(units: Units) -> Self {
        Self { units, trace: Trace::default(), numbers: HashMap::new() }
    }

    /// The next request; one that does not count is left out.
    pub fn add(&mut self, request: &Request) {
        let Self { units, trace, numbers } = self;
        let counts = request.op == Op::Read || units.writes && request.op == Op::Write;
        if !counts || request.length == 0 {
            return;
        }
        let stream = request.stream.unwrap_or(0);
        let mut number = |unit: u64| {
            let next = numbers.len() as u64;
            *numbers.entry((stream, unit)).or_insert(next)
        };
        if units.container_bytes == 0 {
            let key = number(request.offset);
            trace.push(Access { key, size: 1 }, 1);
        } else {
            let each = u64::from(units.container_bytes);
            for unit in request.offset / each..request.end().div_ceil(each) {
                let from = request.offset.max(unit * each);
                let wanted = request.end().min((unit + 1).saturating_mul(each)) - from;
                let access = Access { key: number(unit), size: units.container_bytes };
                trace.push(access, wanted as u32);
            }
        }
        trace.end_file();
    }

    /// The trace of all of them.
    pub fn finish(self) -> Trace {
        let Self { units, mut trace, numbers } = self;
        trace.references = vec![0; numbers.len()];
        trace.data_bytes = numbers.len() as u64 * u64::from(units.container_bytes.max(1));
        trace
    }
}

impl Trace {
    /// Reads a trace as [`Gather`] does.
    pub fn read<E>(
        requests: impl Iterator<Item = Result<Request, E>>,
        units: Units,
    ) -> Result<Self, E> {
        let mut gather = Gather::new(units);
        for request in requests {
            gather.add(&request?);
        }
        Ok(gather.finish())
    }

    pub(crate) fn push(&mut self, access: Access, wanted: u32) {
        self.requests.push(access);
        self.wanted.push(wanted);
    }

    pub(crate) fn end_file(&mut self) {
        self.files.push(self.requests.len() as u32);
    }

    /// Containers that are known.
    pub fn containers(&self) -> usize {
        self.references.len()
    }

    /// Bytes of the containers read, a container counting as often as it is read.
    pub fn bytes(&self) -> u64 {
        self.requests.iter().map(|access| u64::from(access.size)).sum()
    }

    /// Reads per container: the regime, without which no hit rate means anything.
    pub fn reads_per_container(&self) -> f64 {
        self.requests.len() as f64 / self.containers().max(1) as f64
    }

    /// The requests for a random share of the containers, 1 of `one_in`, the same for every
    /// trace; for miss-ratio curves of caches that are smaller by the same factor.
    #[must_use]
    pub fn sampled(&self, one_in: u64) -> Self {
        let chosen = |access: &Access| crate::hash_of(access.key ^ 0x5a5a).is_multiple_of(one_in);
        let mut trace = Self { references: self.references.clone(), ..Self::default() };
        let mut at = 0;
        for &end in &self.files {
            let before = trace.requests.len();
            for place in at..end as usize {
                if chosen(&self.requests[place]) {
                    trace.push(self.requests[place], self.wanted[place]);
                }
            }
            if trace.requests.len() > before {
                trace.end_file();
            }
            at = end as usize;
        }
        trace.data_bytes = self.data_bytes / one_in;
        trace
    }
}

/// Everything that will be asked for.
#[derive(Clone, Debug, Default)]
pub struct Future {
    /// For each request, the number of the next request for the same object; [`NEVER`] if none.
    pub next: Vec<u32>,
    /// For each object, how often it is asked for.
    pub counts: Vec<u32>,
    /// For each object, its size in bytes.
    pub sizes: Vec<u32>,
}

impl Future {
    /// Reads requests whose keys count from 0, up to 2^32 - 2 of them.
    pub fn of(requests: &[Access]) -> Self {
        assert!(requests.len() < NEVER as usize, "requests are counted in 32 bits");
        let objects = requests.iter().map(|access| access.key + 1).max().unwrap_or(0) as usize;
        let mut future = Self {
            next: vec![NEVER; requests.len()],
            counts: vec![0; objects],
            sizes: vec![0; objects],
        };
        let mut last = vec![NEVER; objects];
        for (at, access) in requests.iter().enumerate().rev() {
            let key = access.key as usize;
            future.next[at] = std::mem::replace(&mut last[key], at as u32);
            future.counts[key] += 1;
            future.sizes[key] = access.size;
        }
        future
    }
}

#[cfg(test)]
mod tests {
    use onefold_workload::{Format, TraceReader};

    use super::*;

    const CSV: &str = "time_ns,op,offset,length,identity,stream,pid
0,read,4096,8192,,,
1,write,0,4096,,,
2,read,1000,10,,,
3,read,4096,4096,,1,
";

    #[test]
    fn requests_become_the_containers_that_they_touch() {
        let read = |container_bytes, writes| {
            let reader = TraceReader::new(Format::Csv, CSV.as_bytes());
            Trace::read(reader, Units { container_bytes, writes }).unwrap()
        };
        let keys = |trace: &Trace| trace.requests.iter().map(|a| a.key).collect::<Vec<_>>();
        let trace = read(8192, false);
        assert_eq!((keys(&trace), trace.files), (vec![0, 1, 0, 2], vec![2, 3, 4]));
        assert_eq!((trace.wanted, trace.data_bytes), (vec![4096, 4096, 10, 4096], 3 * 8192));
        let trace = read(0, true);
        assert_eq!((keys(&trace), trace.containers()), (vec![0, 1, 2, 3], 4));
    }

    #[test]
    fn the_future_names_the_next_request() {
        let requests = [3, 1, 3, 3].map(|key| Access { key, size: 2 });
        let future = Future::of(&requests);
        assert_eq!(future.next, [2, NEVER, 3, NEVER]);
        assert_eq!((future.counts, future.sizes), (vec![0, 1, 0, 3], vec![0, 2, 0, 2]));
    }

    #[test]
    fn a_sample_has_every_request_for_some_of_the_containers_and_files_as_before() {
        let mut trace =
            Trace { references: vec![0; 50], data_bytes: 50 * 4096, ..Trace::default() };
        for at in 0..600_u64 {
            trace.push(Access { key: at * at % 50, size: 4096 }, 1 + at as u32);
            if at % 7 == 6 {
                trace.end_file();
            }
        }
        trace.end_file();
        let sample = trace.sampled(3);
        let keys: std::collections::BTreeSet<u64> =
            sample.requests.iter().map(|access| access.key).collect();
        let kept: Vec<usize> =
            (0..600).filter(|&at| keys.contains(&trace.requests[at].key)).collect();
        assert!(!kept.is_empty() && kept.len() < 600);
        let of = |at: &usize| (trace.requests[*at].key, trace.wanted[*at]);
        let found = sample.requests.iter().map(|access| access.key).zip(sample.wanted.clone());
        assert!(found.eq(kept.iter().map(of)), "all of their requests, in order");
        // Who is in a file together stays so; files of which nothing is left go.
        let mut ends = Vec::new();
        for &end in &trace.files {
            let before = kept.iter().filter(|&&at| at < end as usize).count() as u32;
            if before > ends.last().copied().unwrap_or(0) {
                ends.push(before);
            }
        }
        assert_eq!(sample.files, ends);
        assert_eq!((sample.containers(), sample.data_bytes), (50, 50 * 4096 / 3));
        let whole = trace.sampled(1);
        assert_eq!((whole.requests.len(), whole.files.len()), (600, trace.files.len()));
    }
}
