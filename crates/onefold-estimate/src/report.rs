//! The report: what programs read as JSON and CSV and people as text.
//! Room: onefold-estimate.
//! Names end in their unit; `_fraction` is 0 to 1, `_ratio` is before divided by after and absent
//! where nothing is left after. The schema is described in `docs/estimate.md`.

use serde::{Deserialize, Serialize};

use crate::options::{Method, Shard};
use crate::problems::Problem;

/// Version of the JSON and CSV schema. It rises when a field changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything that an estimate found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Everything was looked at, apart from what `problems` counts: not cancelled, no shard.
    pub complete: bool,
    /// No table had to be sampled, so that no number is an estimate.
    pub exact: bool,
    /// Which part of the work this is; absent for all of it.
    pub shard: Option<Shard>,
    /// The inputs as they were named.
    pub inputs: Vec<String>,
    /// What was looked at.
    pub input: InputReport,
    /// What could not be looked at.
    pub problems: ProblemReport,
    /// One row per chunk size, fixed ones first.
    pub chunk_sizes: Vec<SizeReport>,
    /// The fixed chunk size that everything below is for.
    pub primary_chunk_bytes: u32,
    /// What compression makes of the distinct chunks; the first row is the answer's.
    pub compression: Vec<Compressed>,
    /// How many copies there are of chunks, in powers of two, as `zdb -S` prints it. Zero chunks
    /// are left out.
    pub copies: Vec<Copies>,
    /// How unevenly duplicates are spread.
    pub skew: Skew,
    /// By file name extension, largest first.
    pub by_extension: Vec<Group>,
    /// By top folder, largest first.
    pub by_folder: Vec<Group>,
    /// Whole files that exist several times, by the bytes this wastes.
    pub duplicate_files: Vec<DuplicateFile>,
    /// Files with many chunks that occur earlier, in walk order, or earlier in the file itself.
    pub repeated_files: Vec<RepeatedFile>,
    /// Files below this size are in neither list.
    pub file_lists_least_bytes: u64,
    /// The result in short.
    pub answer: Answer,
    /// Remarks on how it came about.
    pub notes: Vec<String>,
    /// The bound on memory, in bytes.
    pub memory_bytes: u64,
    /// Time it took, in nanoseconds; for merged results the sum of their times.
    pub elapsed_ns: u64,
}

impl Report {
    /// Whether everything that was asked for was looked at: complete and no problems other than
    /// special files, which are never looked at.
    pub fn is_clean(&self) -> bool {
        let p = &self.problems;
        let count = p.unreadable_files + p.unreadable_folders + p.read_errors + p.changed_files;
        self.complete && count == 0
    }

    /// As JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has text keys and finite numbers")
    }
}

/// What was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputReport {
    /// Files found, each inode once.
    pub files: u64,
    /// Folders found.
    pub folders: u64,
    /// Bytes counted, holes included.
    pub bytes: u64,
    /// Bytes of them in holes, which take no space today either.
    pub hole_bytes: u64,
    /// Symbolic links, which are not followed.
    pub symlinks: u64,
    /// Further names of files with several hard links.
    pub hard_links: u64,
    /// Bytes that these would have counted for.
    pub hard_link_bytes: u64,
}

/// What could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemReport {
    /// Files that could not be opened.
    pub unreadable_files: u64,
    /// Folders that could not be listed.
    pub unreadable_folders: u64,
    /// Files of which parts could not be read.
    pub read_errors: u64,
    /// Files that became shorter while they were read.
    pub changed_files: u64,
    /// Sockets, pipes and devices inside folders, skipped.
    pub special_files: u64,
    /// Bytes that could not be read.
    pub unread_bytes: u64,
    /// The first of them in walk order, at most 1000.
    pub named: Vec<Problem>,
}

/// A 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What deduplication does at one chunk size. A chunk at the end of a file counts with the bytes
/// it has and equals only chunks of the same bytes and length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeReport {
    /// How the content was cut.
    pub method: Method,
    /// Chunks, zero ones included.
    pub chunks: u64,
    /// Chunks of zeroes.
    pub zero_chunks: u64,
    /// Bytes of them.
    pub zero_bytes: u64,
    /// Share of all bytes.
    pub zero_fraction: f64,
    /// Distinct chunks that are not zero.
    pub unique_chunks: u64,
    /// Bytes of them: what is left after deduplication.
    pub unique_bytes: u64,
    /// Bytes in further copies of chunks that are not zero.
    pub duplicate_bytes: u64,
    /// Share of all bytes.
    pub duplicate_fraction: f64,
    /// All bytes divided by `unique_bytes`.
    pub dedup_ratio: Option<f64>,
    /// 95 % interval of it where sampled.
    pub dedup_ratio_interval: Option<Interval>,
    /// Memory that a pool's index of these chunks takes.
    pub index_memory_bytes: u64,
    /// One distinct chunk in this many was kept; 1 means exact.
    pub sampled_one_in: u64,
    /// Distinct chunks kept.
    pub sampled_chunks: u64,
    /// Expected number of different chunks taken for equal because 64 bits of their fingerprints
    /// agree.
    pub expected_false_merges: f64,
}

/// What one compression makes of the distinct primary chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compressed {
    /// `none`, `lz4` or `zstd:LEVEL`.
    pub compression: String,
    /// Bytes a pool stores for the chunks: padded to the chunk size, then raw unless compression
    /// saves at least 8 bytes.
    pub stored_bytes: u64,
    /// 95 % interval of it where sampled.
    pub stored_bytes_interval: Option<Interval>,
    /// Distinct bytes divided by `stored_bytes`.
    pub compress_ratio: Option<f64>,
    /// 95 % interval of it where sampled.
    pub compress_ratio_interval: Option<Interval>,
    /// All bytes divided by `stored_bytes`.
    pub total_ratio: Option<f64>,
    /// 95 % interval of it where sampled.
    pub total_ratio_interval: Option<Interval>,
    /// A pool's metadata: 48 bytes per distinct chunk and 8 per mapped chunk.
    pub metadata_bytes: u64,
    /// All bytes divided by stored bytes and metadata together.
    pub total_ratio_with_metadata: Option<f64>,
}

/// Chunks that occur `copies_min` times or more, and less than twice that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// A power of two.
    pub copies_min: u64,
    /// Distinct chunks.
    pub allocated_chunks: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Their stored bytes under the answer's compression.
    pub allocated_stored_bytes: u64,
    /// All occurrences of these chunks.
    pub referenced_chunks: u64,
    /// Bytes of all occurrences.
    pub referenced_bytes: u64,
    /// What all occurrences would take if each were stored compressed.
    pub referenced_stored_bytes: u64,
}

/// SES-Dedup, table III: of the distinct chunks that occur at least twice, those that occur more
/// than twice are hot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skew {
    /// Distinct chunks that occur at least twice.
    pub duplicated_chunks: u64,
    /// Distinct chunks that occur at least three times.
    pub hot_chunks: u64,
    /// Hot chunks divided by duplicated ones; absent without duplicates.
    pub hot_fraction: Option<f64>,
    /// 95 % interval of it where sampled.
    pub hot_fraction_interval: Option<Interval>,
    /// Share of the redundant bytes (all copies but one of each chunk) that hot chunks cause.
    pub hot_redundancy_fraction: Option<f64>,
    /// 95 % interval of it where sampled.
    pub hot_redundancy_fraction_interval: Option<Interval>,
}

/// A part of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Extension or top folder.
    pub name: String,
    /// Files.
    pub files: u64,
    /// Bytes counted.
    pub bytes: u64,
    /// Bytes in zero chunks.
    pub zero_bytes: u64,
    /// Bytes of distinct chunks whose first occurrence in walk order is here.
    pub unique_bytes: u64,
    /// What these take in a pool.
    pub stored_bytes: u64,
    /// Bytes less stored bytes; negative where padding outweighs.
    pub saved_bytes: i64,
}

/// A file that exists several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DuplicateFile {
    /// Size of one copy.
    pub file_bytes: u64,
    /// Copies, at least 2.
    pub copies: u64,
    /// Bytes that are not zero in all copies but one.
    pub duplicate_bytes: u64,
    /// The first copy in walk order; long paths keep their end.
    pub first: String,
    /// The second copy.
    pub second: String,
}

/// A file of which parts occur before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepeatedFile {
    /// The file; a long path keeps its end.
    pub path: String,
    /// Its size.
    pub file_bytes: u64,
    /// Bytes in chunks that occur in an earlier file or earlier in this one.
    pub repeated_bytes: u64,
    /// Share of the file.
    pub repeated_fraction: f64,
}

/// The result in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Primary chunk size.
    pub chunk_bytes: u32,
    /// Compression.
    pub compression: String,
    /// All bytes divided by distinct ones.
    pub dedup_ratio: Option<f64>,
    /// Distinct bytes divided by stored ones.
    pub compress_ratio: Option<f64>,
    /// The product.
    pub total_ratio: Option<f64>,
    /// 95 % interval of it where sampled.
    pub total_ratio_interval: Option<Interval>,
    /// Share of all bytes that is not stored.
    pub saved_fraction: f64,
    /// Bytes stored, without metadata.
    pub stored_bytes: u64,
    /// All of that in one line.
    pub line: String,
    /// The command to run next.
    pub next: String,
}
