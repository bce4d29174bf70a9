//! What is in a trace: operations, bytes, footprint, duplicates, time.
//! Room: onefold-workload.   In: [`Request`]s.   Out: counts.
//! Cost: 16 bytes per distinct content, and 24 bytes per stretch of addresses that is touched.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use crate::request::{Identity, Op, Request};

/// Stretches kept before neighbours are put together for the first time.
const STRETCHES_FIRST: usize = 1 << 16;

/// Counts of a trace.
#[derive(Debug)]
pub struct TraceSummary {
    /// Requests of each operation, in the order of [`Op::ALL`].
    pub requests: [u64; 5],
    /// Bytes of each operation, in the order of [`Op::ALL`].
    pub bytes: [u128; 5],
    /// Requests whose content is known, reads and writes.
    pub with_identity: [u64; 2],
    /// Writes whose content an earlier write had, of those with known content.
    pub duplicate_writes: u64,
    /// Earliest time in ns; 0 for an empty trace.
    pub first_ns: u64,
    /// Latest time in ns.
    pub last_ns: u64,
    /// Most bytes of one request.
    pub length_max: u64,
    written: HashSet<Identity, BuildHasherDefault<IdentityHasher>>,
    touched: Stretches,
    streams: HashSet<Option<u32>>,
}

impl Default for TraceSummary {
    fn default() -> Self {
        Self {
            requests: [0; 5],
            bytes: [0; 5],
            with_identity: [0; 2],
            duplicate_writes: 0,
            first_ns: u64::MAX,
            last_ns: 0,
            length_max: 0,
            written: HashSet::default(),
            touched: Stretches { all: Vec::new(), limit: STRETCHES_FIRST },
            streams: HashSet::new(),
        }
    }
}

impl TraceSummary {
    /// Counts a request.
    pub fn add(&mut self, request: &Request) {
        let op = request.op as usize;
        self.requests[op] += 1;
        self.bytes[op] += u128::from(request.length);
        self.first_ns = self.first_ns.min(request.time_ns);
        self.last_ns = self.last_ns.max(request.time_ns);
        self.length_max = self.length_max.max(request.length);
        self.streams.insert(request.stream);
        if let (Some(identity), Op::Read | Op::Write) = (request.identity, request.op) {
            self.with_identity[op] += 1;
            if request.op == Op::Write {
                self.duplicate_writes += u64::from(!self.written.insert(identity));
            }
        }
        if matches!(request.op, Op::Read | Op::Write) {
            let stream = request.stream.map_or(0, |stream| u64::from(stream) + 1);
            self.touched.add((stream, request.offset, request.end()));
        }
    }

    /// All requests.
    pub fn requests_total(&self) -> u64 {
        self.requests.iter().sum()
    }

    /// Reads, of reads and writes; 0 without any.
    pub fn read_share(&self) -> f64 {
        let [reads, writes, ..] = self.requests;
        ratio(reads, reads + writes)
    }

    /// Writes whose content was written before, of those with known content.
    pub fn duplicate_share(&self) -> f64 {
        ratio(self.duplicate_writes, self.with_identity[Op::Write as usize])
    }

    /// Distinct contents written.
    pub fn distinct_written(&self) -> u64 {
        self.written.len() as u64
    }

    /// Distinct bytes of all streams that are read or written.
    pub fn footprint_bytes(&mut self) -> u128 {
        self.touched.join();
        self.touched.all.iter().map(|(_, start, end)| u128::from(end - start)).sum()
    }

    /// Devices, volumes or files.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// From the first to the last request, in ns.
    pub const fn span_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Stretches of addresses: stream, first byte, end.
#[derive(Debug)]
struct Stretches {
    all: Vec<(u64, u64, u64)>,
    /// How many there may be before they are put together.
    limit: usize,
}

impl Stretches {
    fn add(&mut self, stretch: (u64, u64, u64)) {
        if let Some(last) = self.all.last_mut()
            && last.0 == stretch.0
            && last.2 == stretch.1
        {
            last.2 = stretch.2;
            return;
        }
        if self.all.len() == self.limit {
            self.join();
            self.limit = (2 * self.all.len()).max(STRETCHES_FIRST);
        }
        self.all.push(stretch);
    }

    /// Sorts, and makes one of those that meet or overlap.
    fn join(&mut self) {
        self.all.sort_unstable();
        self.all.dedup_by(|next, kept| {
            let meets = next.0 == kept.0 && next.1 <= kept.2;
            if meets {
                kept.2 = kept.2.max(next.2);
            }
            meets
        });
    }
}

/// Identities are digests already: folding them is hash enough.
#[derive(Clone, Copy, Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            let mixed = self.0.rotate_left(29) ^ u64::from_le_bytes(word);
            self.0 = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 ^= self.0 >> 32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(time_ns: u64, op: Op, offset: u64, length: u64, content: u64) -> Request {
        let identity = (content > 0).then(|| Identity::of_number(1, content));
        Request {
            time_ns,
            op,
            offset,
            length,
            identity,
            stream: None,
            pid: None,
            deduplicate: None,
        }
    }

    #[test]
    fn a_small_trace_is_counted_by_hand() {
        let mut summary = TraceSummary::default();
        for item in [
            request(7, Op::Write, 0, 4096, 1),
            request(9, Op::Write, 8192, 4096, 2),
            request(8, Op::Write, 0, 8192, 1),
            request(20, Op::Read, 4096, 4096, 3),
            request(21, Op::Write, 65536, 512, 0),
            request(22, Op::Trim, 1 << 40, 4096, 0),
            request(23, Op::Flush, 0, 0, 0),
            request(23, Op::Idle, 0, 0, 0),
        ] {
            summary.add(&item);
        }
        assert_eq!(summary.requests, [1, 4, 1, 1, 1]);
        assert_eq!(summary.bytes, [4096, 4096 * 4 + 512, 4096, 0, 0]);
        assert_eq!((summary.with_identity, summary.duplicate_writes), ([1, 3], 1));
        assert!((summary.read_share() - 0.2).abs() < 1e-12);
        assert!((summary.duplicate_share() - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(summary.footprint_bytes(), 3 * 4096 + 512);
        assert_eq!((summary.span_ns(), summary.length_max, summary.streams()), (16, 8192, 1));
        assert_eq!(summary.distinct_written(), 2);
    }

    #[test]
    fn the_footprint_agrees_with_a_map_of_all_bytes() {
        let mut random = onefold_block::SplitMix64::new(5);
        let mut summary = TraceSummary::default();
        let mut map = vec![false; 300_000];
        // More stretches than are kept apart.
        for _ in 0..2 * STRETCHES_FIRST {
            let (at, len) = (random.next_u64() % 299_000, 1 + random.next_u64() % 3);
            summary.add(&request(0, Op::Read, at, len, 0));
            map[at as usize..(at + len) as usize].fill(true);
        }
        let touched = map.iter().filter(|touched| **touched).count();
        assert_eq!(summary.footprint_bytes(), touched as u128);
    }

    #[test]
    fn stretches_are_put_together_when_there_are_too_many() {
        let mut stretches = Stretches { all: Vec::new(), limit: 4 };
        for stretch in [(0, 30, 40), (0, 0, 10), (1, 10, 20), (0, 5, 8)] {
            stretches.add(stretch);
        }
        // What begins where the last one ends makes that longer; elsewhere it is one more.
        stretches.add((0, 8, 12));
        assert_eq!(stretches.all, [(0, 30, 40), (0, 0, 10), (1, 10, 20), (0, 5, 12)]);
        stretches.add((1, 12, 13));
        let joined = [(0, 0, 12), (0, 30, 40), (1, 10, 20), (1, 12, 13)];
        assert_eq!((stretches.all.as_slice(), stretches.limit), (&joined[..], STRETCHES_FIRST));
        stretches.add((2, 13, 14));
        stretches.add((1, 20, 21));
        stretches.join();
        let joined = [(0, 0, 12), (0, 30, 40), (1, 10, 21), (2, 13, 14)];
        assert_eq!(stretches.all, joined, "those that meet or overlap, of one stream");
        let mut many = Stretches { all: Vec::new(), limit: STRETCHES_FIRST };
        many.all = (0..STRETCHES_FIRST as u64).map(|n| (0, 2 * n, 2 * n + 1)).collect();
        many.add((1, 0, 1));
        assert_eq!(many.limit, 2 * STRETCHES_FIRST, "twice as many as could not be put together");
    }

    #[test]
    fn of_nothing_there_is_nothing() {
        let mut summary = TraceSummary::default();
        let facts = |summary: &mut TraceSummary| {
            (summary.length_max, summary.span_ns(), summary.footprint_bytes(), summary.streams())
        };
        assert_eq!(facts(&mut summary), (0, 0, 0, 0));
        summary.add(&request(0, Op::Flush, 0, 0, 0));
        assert_eq!(facts(&mut summary), (0, 0, 0, 1));
    }

    #[test]
    fn the_same_places_again_and_again_take_no_more_memory() {
        let mut summary = TraceSummary::default();
        for turn in 0..20 * STRETCHES_FIRST as u64 {
            summary.add(&request(0, Op::Read, turn % 100 * 8192, 4096, 0));
        }
        assert!(summary.touched.all.len() <= STRETCHES_FIRST);
        assert_eq!(summary.footprint_bytes(), 100 * 4096);
    }
}
