//! Reads of a deduplicated store: files drawn by Zipf, each a run of containers and shared ones.
//! Room: onefold-cache.   In: [`WorkloadSpec`].   Out: [`Trace`].
//! Source: [plc-cache] sec. V.A and formula (1); how files share containers is not given there. A
//! file has a run of bytes of its own, in order of ingest, and with some probability a run that it
//! shares with others. Where shared runs lie is drawn uniformly (`sharing_exponent` 0: sharing
//! tells nothing of popularity) or by Zipf (a few runs are in very many files). Popularity ranks
//! are scattered over the files. Positions are bytes, so that the container size can change alone.
//! Invariant: same spec, same trace, whatever the container size does to it.

use onefold_sim::{RandomStream, RandomStreams, Ratio, Zipf};
use thiserror::Error;

use crate::options::settings;
use crate::policy::Access;
use crate::trace::Trace;

settings! {
    /// What is stored and how it is read.
    pub struct WorkloadSpec {
        /// MiB of data after deduplication
        data_mib: u64 = 16_384, 1 => 1_073_741_824;
        /// KiB of a container
        container_kib: u32 = 2_048, 1 => 1_048_576;
        /// KiB of a file's own data, on average (exponential)
        file_kib: u32 = 2_048, 1 => 1_073_741_824;
        /// share of the files that also have shared data
        sharing: f64 = 0.5, 0.0 => 1.0;
        /// KiB of a file's shared data, on average (exponential)
        shared_kib: u32 = 1_024, 1 => 1_073_741_824;
        /// Zipf exponent of the places that are shared: 0 all alike, 1 a few by very many files
        sharing_exponent: f64 = 0.0, 0.0 => 3.0;
        /// Zipf exponent of the files' popularity (the seed's 1 - alpha, if its formula holds)
        zipf_exponent: f64 = 0.53, 0.0 => 3.0;
        /// GiB read, whole containers
        read_gib: f64 = 520.0, 0.001 => 1_000_000.0;
        /// times at which popularity changes, spread evenly over the run
        drift_steps: u32 = 0, 0 => 1_000_000;
        /// share of the files whose popularity changes each time
        drift_share: f64 = 1.0, 0.0 => 1.0;
        /// file reads between two scans; 0 is never
        scan_every: u32 = 0, 0 => 1_000_000_000;
        /// share of all containers that a scan reads, one after the other, on from the last scan
        scan_share: f64 = 0.1, 0.0 => 1.0;
        /// root of all random numbers
        seed: u64 = 1, 0 => u64::MAX;
    }
}

/// A workload that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// Less than one container.
    #[error("data_mib = {data_mib} is less than one container of {container_kib} KiB")]
    Data {
        /// MiB of data.
        data_mib: u64,
        /// KiB of a container.
        container_kib: u32,
    },
    /// More requests than are counted.
    #[error("{requests} reads of containers: expected fewer than 2^31, read less")]
    Requests {
        /// Reads asked for.
        requests: u64,
    },
}

/// A file: extents of the store, first byte and length.
type File = Vec<(u64, u64)>;

const KIB: u64 = 1024;
/// Places that can be shared lie this far apart, whatever the container size.
const PLACE_BYTES: u64 = 2 << 20;

/// A share as a ratio of integers, as the generators want it.
pub(crate) fn ratio(share: f64) -> Ratio {
    Ratio::new((share * 1e6) as u64, 1_000_000).expect("a million is not zero")
}

impl WorkloadSpec {
    /// Bytes of a container.
    pub const fn container_bytes(&self) -> u32 {
        self.container_kib * 1024
    }

    /// Reads of containers that the volume to read amounts to.
    fn requests(&self) -> u64 {
        let bytes = self.read_gib * (1_u64 << 30) as f64;
        (bytes / f64::from(self.container_bytes())).ceil() as u64
    }

    /// Makes the trace.
    pub fn trace(&self) -> Result<Trace, WorkloadError> {
        let (each, data) = (u64::from(self.container_bytes()), self.data_mib << 20);
        if data < each {
            let (data_mib, container_kib) = (self.data_mib, self.container_kib);
            return Err(WorkloadError::Data { data_mib, container_kib });
        }
        if self.requests() >= 1 << 31 {
            return Err(WorkloadError::Requests { requests: self.requests() });
        }
        let containers = data / each;
        let streams = RandomStreams::new(self.seed);
        let files = self.files(containers * each, &mut streams.stream("cache.files"));
        let mut trace = Trace {
            references: vec![0; containers as usize],
            data_bytes: containers * each,
            ..Trace::default()
        };
        for file in &files {
            for (container, _) in containers_of(file, each) {
                trace.references[container as usize] += 1;
            }
        }
        Reads { spec: self, files: &files, each, containers }.run(&mut trace, streams);
        Ok(trace)
    }

    fn files(&self, data: u64, random: &mut RandomStream) -> Vec<File> {
        let mean = u64::from(self.file_kib) * KIB;
        let (count, places) = ((data / mean).max(1), (data / PLACE_BYTES).max(1));
        let shared = Zipf::new(places, ratio(self.sharing_exponent))
            .expect("the exponent's range is narrower than Zipf's");
        let mut scatter: Vec<u64> = (0..places).collect();
        random.shuffle(&mut scatter);
        let length = |random: &mut RandomStream, mean: u64| {
            random.exponential(onefold_sim::SimSpan::from_ns(mean)).ns().max(1)
        };
        let mut files = Vec::with_capacity(count as usize);
        for number in 0..count {
            let start = (u128::from(number) * u128::from(data) / u128::from(count)) as u64;
            let mut file = vec![(start, length(random, mean).min(data - start))];
            if random.chance(ratio(self.sharing)) {
                let place = scatter[shared.sample(random) as usize] * PLACE_BYTES;
                let length = length(random, u64::from(self.shared_kib) * KIB);
                file.push((place, length.min(data - place)));
            }
            files.push(file);
        }
        files
    }
}

/// The containers that a file needs and the bytes of each, ascending.
fn containers_of(file: &File, each: u64) -> Vec<(u64, u32)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for &(start, length) in file {
        for container in start / each..(start + length).div_ceil(each) {
            let from = start.max(container * each);
            found.push((container, (start + length).min((container + 1) * each) - from));
        }
    }
    found.sort_unstable();
    found.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0 };
        same
    });
    found.into_iter().map(|(container, bytes)| (container, bytes.min(each) as u32)).collect()
}

struct Reads<'a> {
    spec: &'a WorkloadSpec,
    files: &'a [File],
    each: u64,
    containers: u64,
}

impl Reads<'_> {
    fn run(&self, trace: &mut Trace, streams: RandomStreams) {
        let count = self.files.len() as u64;
        let zipf = Zipf::new(count, ratio(self.spec.zipf_exponent))
            .expect("the exponent's range is narrower than Zipf's");
        let (mut ranks, mut drift) = (streams.stream("cache.ranks"), streams.stream("cache.drift"));
        let mut file_of_rank: Vec<u64> = (0..count).collect();
        drift.shuffle(&mut file_of_rank);
        let total = self.spec.requests();
        let (mut steps, mut reads, mut cursor) = (0, 0_u64, 0);
        while (trace.requests.len() as u64) < total {
            let due = u64::from(self.spec.drift_steps) + 1;
            while (steps + 1) * total / due <= trace.requests.len() as u64 {
                steps += 1;
                self.drift(&mut file_of_rank, &mut drift);
            }
            let file = file_of_rank[zipf.sample(&mut ranks) as usize];
            for (container, wanted) in containers_of(&self.files[file as usize], self.each) {
                trace.push(Access { key: container, size: self.each as u32 }, wanted);
            }
            trace.end_file();
            reads += 1;
            let every = u64::from(self.spec.scan_every);
            if every > 0 && reads.is_multiple_of(every) {
                self.scan(trace, &mut cursor);
            }
        }
    }

    /// A share of the ranks gets other files.
    fn drift(&self, file_of_rank: &mut [u64], random: &mut RandomStream) {
        let chosen: Vec<usize> = (0..file_of_rank.len())
            .filter(|_| random.chance(ratio(self.spec.drift_share)))
            .collect();
        let mut files: Vec<u64> = chosen.iter().map(|&rank| file_of_rank[rank]).collect();
        random.shuffle(&mut files);
        chosen.into_iter().zip(files).for_each(|(rank, file)| file_of_rank[rank] = file);
    }

    fn scan(&self, trace: &mut Trace, cursor: &mut u64) {
        let count = ratio(self.spec.scan_share).of(self.containers);
        for _ in 0..count {
            trace.push(Access { key: *cursor, size: self.each as u32 }, self.each as u32);
            trace.end_file();
            *cursor = (*cursor + 1) % self.containers;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> WorkloadSpec {
        WorkloadSpec { data_mib: 512, read_gib: 8.0, ..WorkloadSpec::default() }
    }

    #[test]
    fn what_is_asked_for_is_generated() {
        let trace = small().trace().unwrap();
        assert_eq!((trace.containers(), trace.data_bytes), (256, 512 << 20));
        let excess = trace.bytes() - (8 << 30);
        assert!(excess < 64 << 20, "{excess} bytes beyond, which is more than one file");
        assert_eq!(trace.files.last().copied(), Some(trace.requests.len() as u32));
        assert!(trace.requests.iter().all(|access| access.key < 256));
        assert!(trace.wanted.iter().all(|&bytes| (1..=2 << 20).contains(&bytes)));
        assert_eq!(trace, small().trace().unwrap());
        assert_ne!(trace, WorkloadSpec { seed: 2, ..small() }.trace().unwrap());
    }

    #[test]
    fn shared_runs_that_are_drawn_by_zipf_are_in_many_files() {
        let most = |sharing_exponent| {
            let spec = WorkloadSpec { sharing_exponent, ..small() };
            spec.trace().unwrap().references.into_iter().max().unwrap()
        };
        assert!(most(1.0) > 2 * most(0.0), "{} and {}", most(1.0), most(0.0));
    }

    #[test]
    fn drift_changes_who_is_popular_and_scans_read_everything_in_turn() {
        let top = |requests: &[Access]| {
            let mut counts = vec![0; 256];
            for access in requests {
                counts[access.key as usize] += 1;
            }
            (0..256).max_by_key(|&key| counts[key]).unwrap()
        };
        let spec = WorkloadSpec { drift_steps: 1, zipf_exponent: 1.5, ..small() };
        let trace = spec.trace().unwrap();
        let (first, second) = trace.requests.split_at(trace.requests.len() / 2);
        assert_ne!(top(first), top(second));
        let spec = WorkloadSpec { scan_every: 1, scan_share: 0.25, ..small() };
        let trace = spec.trace().unwrap();
        let first = trace.files[0] as usize;
        let scanned: Vec<u64> = trace.requests[first..first + 64].iter().map(|a| a.key).collect();
        assert!(scanned.into_iter().eq(0..64));
    }

    #[test]
    fn a_larger_container_holds_what_the_smaller_ones_held() {
        let files = |container_kib| {
            let spec = WorkloadSpec { container_kib, read_gib: 1.0, ..small() };
            let trace = spec.trace().unwrap();
            trace.wanted[..trace.files[0] as usize].iter().map(|&b| u64::from(b)).sum::<u64>()
        };
        assert_eq!(files(128), files(4096));
    }
}
