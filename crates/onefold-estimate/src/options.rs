//! What to estimate and within which limits, and the plan that follows from it.
//! Room: onefold-estimate.
//! Invariants: the plan's table capacities depend on the settings alone, never on the number of
//! threads, so that results do not either.

use std::fmt;
use std::str::FromStr;

use onefold_block::ByteSize;
use onefold_content::{ChunkSizes, ChunkSizesError, Compression};
use onefold_image::Choice;
use serde::{Deserialize, Serialize};

use crate::error::EstimateError;

/// Smallest fixed chunk, in bytes.
pub const CHUNK_MIN_BYTES: u32 = 512;
/// Largest fixed chunk, in bytes; files are cut into blocks of this size before anything else.
pub const CHUNK_MAX_BYTES: u32 = 128 << 10;
/// Files are shared out among threads and shards in segments of this size. Content-defined
/// chunking starts afresh at each: at 8 KiB chunks that costs less than 0.1 % of duplicates.
pub const SEGMENT_BYTES: u64 = 32 << 20;
/// Memory budget where none is given: 256 MiB.
pub const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;

/// Content-defined chunkers in one run.
const CDC_LIMIT: usize = 4;
/// Compressions in one run.
const COMPRESSION_LIMIT: usize = 4;
/// Slots that a table may fill before it halves its sample, as a fraction.
const LOAD: (u64, u64) = (3, 4);
/// Partitions of a table; also the groups of the jackknife.
pub(crate) const PARTS: usize = 64;
/// Entries per partition below which intervals would mean little.
const PART_ENTRIES_MIN: u64 = 16;
/// Share of the primary size in table memory, against that of others of the same chunk count.
const PRIMARY_WEIGHT: f64 = 4.0;

/// Which part of the work one of several runs does: every segment of every file belongs to one
/// shard, by a hash of its path, so that `count` runs over one tree divide the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Number of this shard, from 0.
    pub index: u32,
    /// Number of shards.
    pub count: u32,
}

impl Shard {
    /// The whole work.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// A checked shard.
    pub fn new(index: u32, count: u32) -> Result<Self, EstimateError> {
        if index < count && count <= 65536 {
            Ok(Self { index, count })
        } else {
            Err(EstimateError::Shard { index, count })
        }
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = EstimateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || EstimateError::ShardText(text.to_owned());
        let (index, count) = text.split_once('/').ok_or_else(bad)?;
        let index = index.trim().parse().map_err(|_| bad())?;
        Self::new(index, count.trim().parse().map_err(|_| bad())?)
    }
}

/// How content is cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Equal pieces from the start of each file.
    Fixed {
        /// Chunk size in bytes.
        chunk_bytes: u32,
    },
    /// `FastCDC`: cuts that move with the content.
    Cdc {
        /// Smallest chunk in bytes.
        min_bytes: u32,
        /// Aimed-at chunk in bytes.
        avg_bytes: u32,
        /// Largest chunk in bytes.
        max_bytes: u32,
    },
}

impl Method {
    /// Content-defined chunks with these bounds.
    pub fn cdc(sizes: ChunkSizes) -> Self {
        let [min_bytes, avg_bytes, max_bytes] =
            [sizes.min(), sizes.avg(), sizes.max()].map(|bytes| bytes as u32);
        Self::Cdc { min_bytes, avg_bytes, max_bytes }
    }

    /// Chunk size, or the aimed-at one, in bytes.
    pub fn mean_bytes(self) -> u32 {
        match self {
            Self::Fixed { chunk_bytes } => chunk_bytes,
            Self::Cdc { avg_bytes, .. } => avg_bytes,
        }
    }
}

impl FromStr for Method {
    type Err = EstimateError;

    /// Reads a fixed size such as `4K`, or `cdc:8K` for content-defined chunks of that mean.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let size = |text: &str| {
            let size = text.parse::<ByteSize>().map_err(EstimateError::ChunkText)?;
            let bytes = u32::try_from(size.bytes()).ok().filter(|&b| b <= 16 << 20);
            bytes.ok_or(EstimateError::ChunkSize(size))
        };
        if let Some(mean) = text.strip_prefix("cdc:") {
            return Ok(Self::cdc(content_defined(size(mean)?)?));
        }
        let chunk_bytes = size(text)?;
        check_fixed(chunk_bytes)?;
        Ok(Self::Fixed { chunk_bytes })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = ByteSize(u64::from(self.mean_bytes()));
        match self {
            Self::Fixed { .. } => f.pad(&size.to_string()),
            Self::Cdc { .. } => f.pad(&format!("cdc {size}")),
        }
    }
}

/// What to estimate, and within which limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fixed chunk sizes in bytes: powers of two from 512 to 131072, in any order.
    pub chunk_sizes: Vec<u32>,
    /// Content-defined chunkers.
    pub content_defined: Vec<ChunkSizes>,
    /// The fixed size that compression, histogram, skew and breakdown are for.
    pub primary_bytes: u32,
    /// Compressions to try on the primary chunks; the first one is the answer's.
    pub compressions: Vec<Compression>,
    /// Upper bound on tables and buffers together, in bytes.
    pub memory_bytes: u64,
    /// Worker threads; 0 means one per core.
    pub threads: usize,
    /// Which part of the work to do.
    pub shard: Shard,
    /// Stay on the file system of each input.
    pub one_file_system: bool,
    /// How files that may be disk images are read.
    pub images: Choice,
}

impl Default for Options {
    /// All nine fixed sizes, content-defined 8 KiB, 4 KiB as primary, LZ4, 256 MiB.
    fn default() -> Self {
        Self {
            chunk_sizes: (9..=17).map(|shift| 1 << shift).collect(),
            content_defined: content_defined(8192).into_iter().collect(),
            primary_bytes: 4096,
            compressions: vec![Compression::Lz4],
            memory_bytes: DEFAULT_MEMORY_BYTES,
            threads: 0,
            shard: Shard::WHOLE,
            one_file_system: false,
            images: Choice::Auto,
        }
    }
}

impl Options {
    /// Replace all chunk sizes by these.
    pub fn set_methods(&mut self, methods: &[Method]) -> Result<(), EstimateError> {
        self.chunk_sizes.clear();
        self.content_defined.clear();
        for method in methods {
            match *method {
                Method::Fixed { chunk_bytes } => self.chunk_sizes.push(chunk_bytes),
                Method::Cdc { min_bytes, avg_bytes, max_bytes } => {
                    let [min, avg, max] = [min_bytes, avg_bytes, max_bytes].map(|b| b as usize);
                    self.content_defined.push(ChunkSizes::new(min, avg, max)?);
                }
            }
        }
        Ok(())
    }
}

/// `FastCDC` bounds around a mean: a quarter of it at least, eight times it at most.
pub fn content_defined(avg_bytes: u32) -> Result<ChunkSizes, ChunkSizesError> {
    let avg = avg_bytes as usize;
    ChunkSizes::new((avg / 4).max(ChunkSizes::MIN), avg, avg * 8)
}

/// One table of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSpec {
    /// Whose chunks it counts.
    pub method: Method,
    /// Entries that it holds before it halves its sample.
    pub capacity: u64,
    /// Compressed sizes per entry; `Some` for the primary table, which also keeps owners.
    pub owner: Option<usize>,
}

/// Everything that follows from checked options.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub options: Options,
    /// Fixed sizes ascending, then content-defined ones.
    pub tables: Vec<TableSpec>,
    /// Index of the primary table.
    pub primary: usize,
    /// Finest fixed chunk in bytes: what is hashed.
    pub leaf_bytes: u32,
    /// Largest fixed chunk in bytes.
    pub top_bytes: u32,
    pub threads: usize,
    /// Bytes that a worker reads before it processes them.
    pub batch_bytes: usize,
    /// Bytes of names and records of files waiting for a worker.
    pub queue_bytes: usize,
    /// Files kept for the list of whole-file duplicates.
    pub file_records: usize,
    /// Inodes with several links that are kept in mind.
    pub link_records: usize,
}

impl Plan {
    pub(crate) fn new(options: &Options) -> Result<Self, EstimateError> {
        let mut options = options.clone();
        options.chunk_sizes.sort_unstable();
        options.chunk_sizes.dedup();
        if options.compressions.is_empty() {
            options.compressions.push(Compression::None);
        }
        check(&options)?;
        let methods = methods(&options);
        let memory = options.memory_bytes;
        let capacities = capacities(&options, &methods, memory / 16 * 9);
        let need = least_memory(&options, &methods);
        if memory < need {
            return Err(EstimateError::Memory { got: ByteSize(memory), need: ByteSize(need) });
        }
        let fixed = &options.chunk_sizes;
        let primary = fixed.iter().position(|&b| b == options.primary_bytes).expect("checked");
        let (threads, batch_bytes) = workers(&options, memory / 4);
        let buffers = threads as u64 * worker_bytes(&options, batch_bytes);
        // What few workers leave over lets the walk run ahead, so that the end is known sooner.
        let spare = (memory / 4).saturating_sub(buffers);
        let tables = methods.iter().zip(capacities).enumerate().map(|(i, (&method, capacity))| {
            let owner = (i == primary).then_some(options.compressions.len());
            TableSpec { method, capacity, owner }
        });
        Ok(Self {
            tables: tables.collect(),
            primary,
            leaf_bytes: fixed[0],
            top_bytes: fixed[fixed.len() - 1],
            threads,
            batch_bytes,
            queue_bytes: (memory / 32 + spare) as usize,
            file_records: (memory / 8) as usize / crate::files::RECORD_BYTES_MAX,
            link_records: (memory / 32) as usize / 48,
            options,
        })
    }
}

fn check_fixed(bytes: u32) -> Result<(), EstimateError> {
    if bytes.is_power_of_two() && (CHUNK_MIN_BYTES..=CHUNK_MAX_BYTES).contains(&bytes) {
        Ok(())
    } else {
        Err(EstimateError::ChunkSize(ByteSize(u64::from(bytes))))
    }
}

fn check(options: &Options) -> Result<(), EstimateError> {
    options.chunk_sizes.iter().try_for_each(|&bytes| check_fixed(bytes))?;
    if options.chunk_sizes.is_empty() {
        return Err(EstimateError::NoChunkSize);
    }
    if !options.chunk_sizes.contains(&options.primary_bytes) {
        return Err(EstimateError::Primary(ByteSize(u64::from(options.primary_bytes))));
    }
    let too_many = |what, got, limit| Err(EstimateError::TooMany { what, got, limit });
    if options.content_defined.len() > CDC_LIMIT {
        return too_many("content-defined chunkers", options.content_defined.len(), CDC_LIMIT);
    }
    if options.compressions.len() > COMPRESSION_LIMIT {
        return too_many("compressions", options.compressions.len(), COMPRESSION_LIMIT);
    }
    Shard::new(options.shard.index, options.shard.count).map(|_| ())
}

fn methods(options: &Options) -> Vec<Method> {
    let fixed = options.chunk_sizes.iter().map(|&chunk_bytes| Method::Fixed { chunk_bytes });
    fixed.chain(options.content_defined.iter().map(|&sizes| Method::cdc(sizes))).collect()
}

/// 32-bit words of an entry: fingerprint, count, length; owner, group and stored sizes.
pub(crate) fn entry_words(owner: Option<usize>) -> usize {
    4 + owner.map_or(0, |codecs| 2 + codecs)
}

/// Entries per table that fit the bytes set aside for all. Accuracy needs equal entries for all
/// sizes, exactness on small inputs needs twice as many at half the size: the fourth root of the
/// chunk size is between the two, nearer to accuracy.
fn capacities(options: &Options, methods: &[Method], bytes: u64) -> Vec<u64> {
    let is_primary =
        |method: Method| method == Method::Fixed { chunk_bytes: options.primary_bytes };
    let weight = |method: Method| {
        let favour = if is_primary(method) { PRIMARY_WEIGHT } else { 1.0 };
        favour / f64::from(method.mean_bytes()).sqrt().sqrt()
    };
    let sum: f64 = methods.iter().map(|&m| weight(m)).sum();
    let entries = |&method: &Method| {
        let owner = is_primary(method).then_some(options.compressions.len());
        let entry_bytes = 4 * entry_words(owner) as u64;
        let share = (bytes as f64 * weight(method) / sum) as u64;
        share / entry_bytes * LOAD.0 / LOAD.1
    };
    methods.iter().map(entries).collect()
}

/// Memory of one worker that reads `batch` bytes at a time: buffer, tree, lists and encoders.
fn worker_bytes(options: &Options, batch: usize) -> u64 {
    let per_leaf = 200;
    let leaves = batch / options.chunk_sizes[0] as usize;
    let cdc: usize = options.content_defined.iter().map(|sizes| 2 * sizes.max()).sum();
    let zstd = options.compressions.iter().filter(|c| matches!(c, Compression::Zstd(_))).count();
    (batch + leaves * per_leaf + cdc + zstd * (2 << 20) + (256 << 10)) as u64
}

/// Threads and batch size that stay within the bytes for buffers: first the batches shrink, then
/// the threads become fewer.
fn workers(options: &Options, bytes: u64) -> (usize, usize) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if options.threads == 0 { cores } else { options.threads };
    for shift in (17..=20).rev() {
        let batch = 1usize << shift;
        if threads as u64 * worker_bytes(options, batch) <= bytes {
            return (threads, batch);
        }
    }
    let batch = CHUNK_MAX_BYTES as usize;
    let fitting = (bytes / worker_bytes(options, batch)).max(1);
    (threads.min(fitting as usize), batch)
}

/// The least memory with which one worker runs and every table has a sample worth the name.
fn least_memory(options: &Options, methods: &[Method]) -> u64 {
    let enough = |memory: u64| {
        let parts = PARTS as u64;
        worker_bytes(options, CHUNK_MAX_BYTES as usize) <= memory / 4
            && capacities(options, methods, memory / 16 * 9)
                .iter()
                .all(|&entries| entries / parts >= PART_ENTRIES_MIN)
    };
    let some = (2..1 << 20).map(|mib| mib << 20).find(|&memory| enough(memory));
    some.expect("a TiB is enough for any accepted settings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_read_as_written_and_others_are_refused() {
        assert_eq!("2/5".parse::<Shard>().unwrap(), Shard { index: 2, count: 5 });
        assert_eq!(Shard { index: 2, count: 5 }.to_string(), "2/5");
        for text in ["", "1", "5/5", "0/0", "-1/2", "1/2/3", "a/b", "0/65537"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    #[test]
    fn chunk_sizes_read_as_written() {
        let read = |text: &str| text.parse::<Method>();
        assert_eq!(read("4K").unwrap(), Method::Fixed { chunk_bytes: 4096 });
        assert_eq!(read("cdc:8K").unwrap().to_string(), "cdc 8 KiB");
        for (text, part) in [
            ("3K", "powers of two"),
            ("256", "powers of two"),
            ("1M", "powers of two"),
            ("8T", "powers of two"),
            ("x", "is not a size"),
            ("cdc:5000", "average chunk size 5000"),
            ("cdc:8M", "maximum chunk size"),
            ("cdc:16M", "maximum chunk size"),
            ("cdc:16777217", "powers of two"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let mut options = Options::default();
        options.set_methods(&[read("64K").unwrap(), read("cdc:1K").unwrap()]).unwrap();
        assert_eq!((options.chunk_sizes.len(), options.content_defined.len()), (1, 1));
    }

    #[test]
    fn default_options_make_a_plan_and_bad_ones_are_named() {
        let plan = Plan::new(&Options::default()).unwrap();
        assert_eq!(plan.tables.len(), 10);
        assert_eq!(plan.tables[plan.primary].method, Method::Fixed { chunk_bytes: 4096 });
        let with = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            Plan::new(&options).unwrap_err().to_string()
        };
        assert!(with(|o| o.chunk_sizes.push(5000)).contains("4.88 KiB: accepted are the powers"));
        assert!(with(|o| o.chunk_sizes.clear()).contains("no chunk size"));
        assert!(with(|o| o.primary_bytes = 1 << 20).contains("1 MiB is not among"));
        assert!(with(|o| o.memory_bytes = 1 << 20).contains("memory of 1 MiB is too little"));
        assert!(with(|o| o.compressions = vec![Compression::None; 9]).contains("9 compressions"));
        assert!(with(|o| o.shard.index = 3).contains("shard 3/1"));
    }

    #[test]
    fn sizes_are_taken_once_and_in_order_and_no_compression_is_none() {
        let options = Options {
            chunk_sizes: vec![8192, 512, 4096, 512],
            compressions: Vec::new(),
            content_defined: vec![content_defined(8192).unwrap()],
            ..Options::default()
        };
        let plan = Plan::new(&options).unwrap();
        let means: Vec<u32> = plan.tables.iter().map(|table| table.method.mean_bytes()).collect();
        assert_eq!((means.as_slice(), plan.primary), (&[512, 4096, 8192, 8192][..], 1));
        assert_eq!((plan.leaf_bytes, plan.top_bytes), (512, 8192));
        assert_eq!(plan.options.compressions, [Compression::None]);
        let owners: Vec<_> = plan.tables.iter().map(|table| table.owner).collect();
        assert_eq!(owners, [None, Some(1), None, None]);
        let words = [None, Some(0), Some(1), Some(4)].map(entry_words);
        assert_eq!(words, [4, 6, 7, 10]);
        let sizes = content_defined(8192).unwrap();
        assert_eq!((sizes.min(), sizes.avg(), sizes.max()), (2048, 8192, 65_536));
    }

    #[test]
    fn capacities_do_not_depend_on_threads_and_fill_the_budget() {
        let mut options = Options { threads: 1, ..Options::default() };
        let one = Plan::new(&options).unwrap();
        options.threads = 64;
        let many = Plan::new(&options).unwrap();
        let capacities =
            |plan: &Plan| -> Vec<u64> { plan.tables.iter().map(|table| table.capacity).collect() };
        assert_eq!(capacities(&one), capacities(&many));
        let slots = |t: &TableSpec| t.capacity * 4 / 3 * 4 * entry_words(t.owner) as u64;
        let bytes: u64 = one.tables.iter().map(slots).sum();
        let budget = DEFAULT_MEMORY_BYTES / 16 * 9;
        assert!(bytes <= budget && bytes > budget / 100 * 99, "{bytes} of {budget}");
        assert!(many.threads as u64 * worker_bytes(&options, many.batch_bytes) <= 64 << 20);
    }

    /// Of 256 MiB nine sixteenths are for tables, of which three quarters are filled; a quarter is
    /// for workers, an eighth for files, and a thirty-second each for the queue and for links.
    #[test]
    fn memory_is_shared_out_as_worked_out_by_hand() {
        let one = Options {
            chunk_sizes: vec![4096],
            content_defined: Vec::new(),
            threads: 2,
            ..Options::default()
        };
        let plan = Plan::new(&one).unwrap();
        // An entry has 7 words: 150,994,944 bytes are 5,392,676 entries.
        let spec = plan.tables[0];
        assert_eq!((spec.capacity, spec.owner), (4_044_507, Some(1)));
        // 1 MiB to read, 256 leaves of 200 bytes, and 256 KiB.
        let worker = (1 << 20) + 256 * 200 + (256 << 10);
        assert_eq!((plan.threads, plan.batch_bytes), (2, 1 << 20));
        assert_eq!(plan.queue_bytes, (8 << 20) + (64 << 20) - 2 * worker);
        assert_eq!((plan.file_records, plan.link_records), ((32 << 20) / 576, (8 << 20) / 48));

        let more = Options {
            content_defined: vec![content_defined(8192).unwrap(), content_defined(1024).unwrap()],
            compressions: vec![Compression::Zstd(3), Compression::Lz4, Compression::Zstd(1)],
            ..one.clone()
        };
        // Twice the longest chunk of each chunker, and 2 MiB for each encoder of Zstandard.
        let bytes = worker as u64 + 2 * (65_536 + 8192) + (4 << 20);
        assert_eq!(worker_bytes(&more, 1 << 20), bytes);
        // What one worker leaves over goes to the queue; what eight hundred need, to nobody.
        let many = Plan::new(&Options { threads: 800, ..one }).unwrap();
        assert_eq!(many.batch_bytes, 128 << 10);
        let least = (128 << 10) + 32 * 200 + (256 << 10);
        let fitting = (64 << 20) / least;
        assert_eq!(many.threads, fitting);
        assert_eq!(many.queue_bytes, (8 << 20) + (64 << 20) - fitting * least);
    }

    /// The fourth root of 16 is 2, and the primary size has four times the weight.
    #[test]
    fn a_table_of_chunks_sixteen_times_as_long_has_half_the_bytes() {
        let options = Options {
            chunk_sizes: vec![512, 8192, 131_072],
            content_defined: Vec::new(),
            primary_bytes: 8192,
            ..Options::default()
        };
        // Weights of 4, 2 * 4 and 1: of 13 shares, 4 with 16 bytes an entry, 8 with 28, and 1.
        let bytes = 13 * 16 * 28 * 1000;
        let entries = capacities(&options, &methods(&options), bytes);
        let of = |share: u64, entry: u64| share * 16 * 28 * 1000 / entry * 3 / 4;
        for (found, wanted) in entries.iter().zip([of(4, 16), of(8, 28), of(1, 16)]) {
            assert!(found.abs_diff(wanted) <= 1, "{found} for {wanted}");
        }
    }

    #[test]
    fn the_least_memory_gives_every_table_sixteen_entries_a_partition() {
        let only = |content_defined: Vec<ChunkSizes>| Options {
            chunk_sizes: vec![4096],
            content_defined,
            ..Options::default()
        };
        // One worker needs 399,872 bytes, four times that are below 2 MiB.
        let options = only(Vec::new());
        assert_eq!(least_memory(&options, &methods(&options)), 2 << 20);
        // Two chunkers of up to 2 MiB: 8 MiB more for a worker, and four times that.
        let long = content_defined(256 << 10).unwrap();
        let options = only(vec![long, long]);
        let worker = 399_872 + (8u64 << 20);
        let least = (4 * worker).div_ceil(1 << 20) << 20;
        assert_eq!(least_memory(&options, &methods(&options)), least);
        let with = |memory_bytes| Plan::new(&Options { memory_bytes, ..options.clone() });
        assert!(with(least).is_ok() && with(least - 1).is_err());
    }

    #[test]
    fn batches_and_then_threads_shrink_to_the_bytes_there_are() {
        let options = Options { threads: 4, ..Options::default() };
        let all = |batch| 4 * worker_bytes(&options, batch);
        assert_eq!(workers(&options, u64::MAX), (4, 1 << 20), "more is of no use");
        assert_eq!(workers(&options, all(1 << 20)), (4, 1 << 20));
        assert_eq!(workers(&options, all(1 << 20) - 1), (4, 1 << 19));
        assert_eq!(workers(&options, all(1 << 17)), (4, 1 << 17));
        let least = CHUNK_MAX_BYTES as usize;
        for threads in 1..=3 {
            let bytes = threads * worker_bytes(&options, least);
            let found = workers(&options, bytes);
            assert!(found.0 as u64 * worker_bytes(&options, found.1) <= bytes, "{found:?}");
            assert!(found.0 >= threads as usize, "{found:?}");
        }
        assert_eq!(workers(&options, 0), (1, least), "one there must be");
    }
}
