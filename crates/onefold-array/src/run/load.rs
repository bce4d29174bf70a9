//! What clients ask for: requests, the contents that they write, and when they come.
//! Room: onefold-array.
//! Invariants: the sequence of requests and contents depends on the seed and the load only, never
//! on how fast the server is.

use onefold_block::SplitMix64;
use onefold_sim::{RandomStream, RandomStreams, Ratio, SimSpan, SimTime, Zipf};
use onefold_workload::Op;

use crate::decide::contents::{Content, NOTHING};
use crate::decide::predictor::REGION_CHUNKS;
use crate::spec::{LoadKind, ServerSpec};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What it does.
    pub op: Op,
    /// Its first chunk, if it is not of a trace.
    pub address: u32,
    /// How many chunks it touches.
    pub chunks: u32,
    /// Bytes between client and server.
    pub bytes: u64,
    /// Of a trace: where the list of its chunks is.
    pub slot: u32,
}

/// The stream of requests.
#[derive(Clone, Debug)]
pub struct Load {
    requests: RandomStream,
    contents: RandomStream,
    gaps: RandomStream,
    recency: Zipf,
    next_content: Content,
    run_chunks: u64,
    run_left: u64,
    run_next: Content,
    addresses: u64,
    chunks: u32,
    request_bytes: u64,
    read_share: f64,
    duplicate_share: f64,
    clustering: f64,
    root: u64,
    arrivals: Arrivals,
}

#[derive(Clone, Copy, Debug)]
struct Arrivals {
    kind: LoadKind,
    gb_per_s: f64,
    burst_ns: u64,
    burst_share: f64,
}

impl Load {
    /// The load of a description that was checked.
    pub fn new(spec: &ServerSpec) -> Self {
        let streams = RandomStreams::new(spec.seed);
        let workload = &spec.workload;
        let exponent = Ratio::permille((workload.locality * 1000.0).round() as u64);
        Self {
            requests: streams.stream("requests"),
            contents: streams.stream("contents"),
            gaps: streams.stream("gaps"),
            recency: Zipf::new(workload.addresses, exponent).expect("checked with the keys"),
            next_content: workload.addresses as Content,
            run_chunks: workload.run_chunks,
            run_left: 0,
            run_next: 0,
            addresses: workload.addresses,
            chunks: workload.request_bytes.div_ceil(spec.chunk_bytes) as u32,
            request_bytes: workload.request_bytes,
            read_share: workload.read_share,
            duplicate_share: workload.duplicate_share,
            clustering: workload.clustering,
            root: spec.seed,
            arrivals: Arrivals {
                kind: workload.load,
                gb_per_s: workload.gb_per_s,
                burst_ns: workload.burst_ns,
                burst_share: workload.burst_share,
            },
        }
    }

    /// The next request.
    pub fn request(&mut self) -> Asked {
        let places = self.addresses / u64::from(self.chunks);
        let address = self.requests.below(places) * u64::from(self.chunks);
        let read = self.requests.unit() <= self.read_share;
        let op = if read { Op::Read } else { Op::Write };
        let (address, bytes) = (address as u32, self.request_bytes);
        Asked { op, address, chunks: self.chunks, bytes, slot: 0 }
    }

    /// A content that nothing else has.
    ///
    /// # Errors
    /// There are no more numbers.
    pub fn new_content(&mut self) -> Result<Content, String> {
        let content = self.next_content;
        self.has_numbers()?;
        self.next_content += 1;
        Ok(content)
    }

    /// Whether another content can be told from all others.
    ///
    /// # Errors
    /// It cannot.
    pub fn has_numbers(&self) -> Result<(), String> {
        let left = self.next_content < NOTHING - 1;
        left.then_some(()).ok_or_else(|| "it writes 2^32 different chunks or more".to_owned())
    }

    /// What an address of a trace held before it: one of the contents that a server has when it
    /// begins, and a new one beyond them.
    ///
    /// # Errors
    /// There are no more numbers.
    pub fn before(&mut self, address: u32) -> Result<Content, String> {
        if u64::from(address) < self.addresses { Ok(address) } else { self.new_content() }
    }

    /// Bytes of a request that is not of a trace.
    pub const fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    /// The content that is written to this address.
    pub fn content(&mut self, address: u64) -> Content {
        let draw = if self.contents.unit() <= self.clustering {
            let region = SplitMix64::new(self.root ^ (address / REGION_CHUNKS)).next_u64();
            ((region >> 11) + 1) as f64 / (1_u64 << 53) as f64
        } else {
            self.contents.unit()
        };
        if draw <= self.duplicate_share {
            return self.original();
        }
        let content = self.next_content;
        self.next_content += 1;
        content
    }

    /// What the next duplicate is a copy of: what came behind the last one's original, or in a new
    /// run anything. A run ends with what was written last.
    fn original(&mut self) -> Content {
        if self.run_left == 0 {
            let back = self.recency.sample(&mut self.contents) as Content;
            self.run_next = self.next_content - 1 - back;
            let longer =
                if self.run_chunks > 1 { self.contents.below(2 * self.run_chunks - 1) } else { 0 };
            self.run_left = 1 + longer;
        }
        self.run_left -= 1;
        let content = self.run_next;
        self.run_next = content + 1;
        if self.run_next == self.next_content {
            self.run_left = 0;
        }
        content
    }

    /// When the next request comes, of so many bytes, after one at `now`. `None` in a closed loop,
    /// and where a trace says it.
    pub fn next_arrival(&mut self, now: SimTime, bytes: u64) -> Option<SimTime> {
        let arrivals = self.arrivals;
        let mean_gap_ns = bytes as f64 / arrivals.gb_per_s;
        let mean_ns = match arrivals.kind {
            LoadKind::Closed | LoadKind::Timestamps => return None,
            LoadKind::Poisson => mean_gap_ns,
            LoadKind::Bursts => {
                let share = match now.ns() / arrivals.burst_ns.max(1) % 2 {
                    0 => arrivals.burst_share,
                    _ => 1.0 - arrivals.burst_share,
                };
                // A pause without arrivals ends with the pause.
                let pause = arrivals.burst_ns.max(1) as f64;
                (mean_gap_ns / (2.0 * share).max(1e-9)).min(pause)
            }
        };
        Some(now + self.gaps.exponential(SimSpan::from_ns(mean_ns.round() as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecBuilder;

    /// Of the duplicates, those behind what they were written behind before; and all duplicates.
    fn behind(run_chunks: u64) -> (f64, usize) {
        let builder = SpecBuilder::preset("cidr+").unwrap();
        let set = [format!("workload.run_chunks={run_chunks}"), "workload.addresses=5000".into()];
        let builder = set.iter().fold(builder, |builder, set| builder.set(set).unwrap());
        let mut load = Load::new(&builder.build().unwrap());
        let (mut copies, mut new) = (Vec::new(), 5000);
        for address in 0..40_000 {
            let content = load.content(address * 64);
            assert!(content <= new, "{content} of {new}");
            if content == new { new += 1 } else { copies.push(content) }
        }
        let next = copies.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        (next as f64 / copies.len() as f64, copies.len())
    }

    #[test]
    fn duplicates_come_in_runs_of_the_mean_length() {
        let (next, copies) = behind(1);
        assert!(next < 0.01 && (19_000..21_000).contains(&copies), "{next} {copies}");
        let (next, copies) = behind(50);
        assert!((0.96..0.985).contains(&next), "{next}");
        assert!((19_000..21_000).contains(&copies), "{copies}");
    }
}
