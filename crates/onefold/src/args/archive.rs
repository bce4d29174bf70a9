//! `onefold archive ...`, as written.
//! Room: onefold.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{OsStringValueParser, TypedValueParser};
use onefold_archive::{ArchiveSettings, Chunking, Rewriting};
use onefold_block::ByteSize;
use onefold_content::Compression;
use onefold_sim::Ratio;

use super::{AccessArgs, KeepArgs, TierArgs};
use crate::archive_place;
use crate::failure::{Failure, Result};

const EXAMPLES: &str = "\
First steps:
  onefold archive create /backup/store
  onefold archive add /backup/store /srv/ann /etc
  onefold archive ls /backup/store srv/ann
  onefold archive restore /backup/store --target /tmp/back srv/ann/thesis

Instead of a folder, every command takes s3://BUCKET/FOLDER (docs/archive.md).

Paths are kept as written, without what leads out of the tree: /srv/ann becomes srv/ann, ../x
becomes x, and what is in . goes to the top.";

const PRUNE_EXAMPLE: &str = "\
Example:
  onefold archive prune /backup/store --keep-daily 7 --keep-weekly 4 --keep-monthly 12 --dry-run";

const DIFF_NOTES: &str = "\
Each line is a letter and a path: + only the newer has it, - only the older has it, M its content
differs, T it became something else (a folder, a link), U only owner, rights, times or attributes
differ, which is listed with --metadata.
Exit status: 0 both were compared, whatever differs; 1 one of them is damaged; 2 nothing was done.

Examples:
  onefold archive diff /backup/store 3
  onefold archive diff /backup/store 3 7 srv/ann";

const MOUNT_NOTES: &str = "\
It is unmounted by fusermount3 -u DIR, by Ctrl-C, or when the command of --run has ended.
Exit status: 0 unmounted, or that of the command; 1 something that was read is damaged, and was
named; 2 nothing was mounted.

Examples:
  onefold archive mount /backup/store /mnt
  onefold archive mount /backup/store /mnt --run 'diff -r $mount/1 $mount/newest'";

const STORE_HELP: &str = "Folder of the archive, or s3://BUCKET/FOLDER";

const EXIT: &str = "Exit status: 0 done; 1 something could not be read, restored or is damaged, \
    and is named; 2 nothing was done.";

/// Keep versions of file trees, each chunk of content once.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum ArchiveCommand {
    /// Make an empty archive in a folder that is empty or does not exist
    Create(ArchiveCreateArgs),
    /// Add a version: files and folders as they are now
    #[command(after_help = EXIT)]
    Add(ArchiveAddArgs),
    /// List the versions
    List(ArchiveListArgs),
    /// List the paths of a version
    Ls(ArchiveLsArgs),
    /// Write the content of a file to stdout
    Cat(ArchiveCatArgs),
    /// List what differs between two versions
    #[command(after_help = DIFF_NOTES)]
    Diff(ArchiveDiffArgs),
    /// Write a version, or parts of it, back as files
    #[command(after_help = EXIT)]
    Restore(ArchiveRestoreArgs),
    /// Show all versions as folders, to be looked at and copied from, until it is unmounted
    ///
    /// Each version is a folder with its number as name; newest is a link to the newest one. What
    /// is added while it is mounted is not shown, and nothing can be removed meanwhile.
    #[command(after_help = MOUNT_NOTES)]
    Mount(ArchiveMountArgs),
    /// Read everything, and name what is damaged
    #[command(
        after_help = "Exit status: 0 the archive is sound; 1 something is wrong, and named; \
        2 it could not be checked."
    )]
    Verify(ArchiveVerifyArgs),
    /// Check settings, log and versions, and put together again what was lost of them
    #[command(
        after_help = "Without --repair nothing is written. Exit status: 0 all is well, or was put \
        right; 1 something is to be put right, or cannot be, and is named; 2 it could not be \
        checked."
    )]
    Check(ArchiveCheckArgs),
    /// Remove versions, and give back the space of what only they hold
    Remove(ArchiveRemoveArgs),
    /// Remove the versions that no rule keeps, and give back space
    ///
    /// Each --keep option counts by itself: a version that one of them keeps is kept. Of an hour,
    /// day, week, month or year (of UTC; weeks begin on Mondays) the newest version is kept.
    /// Without any of them no version is removed; what an interrupted addition left, and chunks
    /// that no version refers to, go all the same.
    #[command(after_help = PRUNE_EXAMPLE)]
    Prune(ArchivePruneArgs),
    /// Let another passphrase or key file open an encrypted archive, and the old one no more
    #[command(
        after_help = "What is encrypted stays as it is: who has the old secret and a copy of the \
        archive's settings from before can still read it."
    )]
    Key(ArchiveKeyArgs),
    /// Print which containers reads of its files touch, as a trace for `onefold cache`
    Trace(ArchiveTraceArgs),
}

/// `onefold archive create`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveCreateArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Where chunks end: fastcdc or rabin
    #[arg(long, value_name = "KIND", default_value = "fastcdc")]
    pub chunker: Chunking,
    /// What chunks are to measure: a power of two from 1K to 1M
    ///
    /// The smallest chunk is a quarter of it, the largest eight times it.
    #[arg(long, value_name = "SIZE", default_value = "8K", allow_negative_numbers = true)]
    pub chunk_size: ByteSize,
    /// Size of a container file: 128K to 16M
    ///
    /// A container ends with the group of chunks that brings it nearest to this; it can become
    /// twice as large where that shrinks less than those before it.
    #[arg(long, value_name = "SIZE", default_value = "2M", allow_negative_numbers = true)]
    pub container_size: ByteSize,
    /// How chunks are compressed: none, lz4, zstd or zstd:LEVEL with a level from -7 to 19
    #[arg(long, value_name = "KIND", default_value = "zstd")]
    pub compression: Compression,
    /// Encrypt it: with the key file or the passphrase that is given, else one that is asked for
    ///
    /// With --key-file or --passphrase-file it is encrypted anyway. A key file that does not exist
    /// is made. Without the passphrase or the key file, nothing in the archive can be read again:
    /// keep a copy elsewhere.
    #[arg(long)]
    pub encrypt: bool,
    /// What is going to open it.
    #[command(flatten)]
    pub key: KeyArgs,
    /// Who may use it.
    #[command(flatten)]
    pub access: AccessArgs,
    /// The cache before it.
    #[command(flatten)]
    pub cache: TierArgs,
}

/// What opens an encrypted archive.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct KeyArgs {
    /// File whose first line is the passphrase of the archive, if it is encrypted
    ///
    /// Without it, a passphrase is asked for.
    #[arg(long, value_name = "FILE", env = "ONEFOLD_PASSPHRASE_FILE", hide_env = true)]
    pub passphrase_file: Option<PathBuf>,
    /// File that is the key of the archive, if it is encrypted with one
    #[arg(long, value_name = "FILE", env = "ONEFOLD_KEY_FILE", hide_env = true)]
    pub key_file: Option<PathBuf>,
}

/// `onefold archive key`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveKeyArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// File whose first line is the new passphrase; without it, one is asked for
    #[arg(long, value_name = "FILE", conflicts_with = "new_key_file")]
    pub new_passphrase_file: Option<PathBuf>,
    /// File that is the new key; made if it does not exist
    #[arg(long, value_name = "FILE")]
    pub new_key_file: Option<PathBuf>,
    /// What opens it now.
    #[command(flatten)]
    pub key: KeyArgs,
}

impl ArchiveCreateArgs {
    /// The same for the archive, checked.
    pub fn settings(&self) -> Result<ArchiveSettings> {
        // What does not fit 32 bits is refused like any other size that is too large.
        let narrow = |size: ByteSize| u32::try_from(size.bytes()).unwrap_or(u32::MAX);
        let settings = ArchiveSettings {
            chunking: self.chunker,
            chunk_bytes: narrow(self.chunk_size),
            container_bytes: narrow(self.container_size),
            compression: self.compression,
        };
        settings.check().map_err(|e| Failure::nothing_done(e.to_string()))?;
        Ok(settings)
    }
}

/// `onefold archive add`
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct ArchiveAddArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Files and folders to add
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// A name for the version, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub label: String,
    /// Leave out what matches: a name, or a path in the version if it has a /
    ///
    /// *, ? and characters in brackets do not stand for a /, ** does, {a,b} is either.
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// The same with the patterns of a file, one a line; empty lines and those with # are none
    #[arg(long, value_name = "FILE")]
    pub exclude_from: Vec<PathBuf>,
    /// Of folders that a CACHEDIR.TAG marks as caches, keep the mark alone
    #[arg(long)]
    pub exclude_caches: bool,
    /// Make a version even if there is nothing to add but folders
    #[arg(long)]
    pub allow_empty: bool,
    /// Read every file, those too that did not change since the last version
    ///
    /// A file is taken over unread if its size, inode and both times are as in the last version.
    /// --cap and --har read every file as well.
    #[arg(long, alias = "force")]
    pub read_all: bool,
    /// Stay on the file systems of the inputs
    #[arg(long, short = 'x')]
    pub one_file_system: bool,
    /// Old containers that 1,024 chunks may refer to; duplicates past them are stored again
    ///
    /// Restores then read fewer containers, for some space. 14 is a usual value.
    #[arg(long, value_name = "COUNT")]
    pub cap: Option<u32>,
    /// Store again what lies in containers that the last version made little use of
    #[arg(long)]
    pub har: bool,
    /// Memory for finding duplicates: 1M is enough for 24,000 chunks
    #[arg(long, value_name = "SIZE", env = "ONEFOLD_INDEX_MEMORY", hide_env = true)]
    #[arg(default_value = "256M", allow_negative_numbers = true)]
    pub index_memory: ByteSize,
    /// Print one JSON object (docs/archive.md)
    #[arg(long)]
    pub json: bool,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
}

impl ArchiveAddArgs {
    /// What to store again.
    pub const fn rewriting(&self) -> Rewriting {
        Rewriting { cap: self.cap, har: self.har }
    }
}

/// `onefold archive list`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveListArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Print one JSON object (docs/archive.md)
    #[arg(long)]
    pub json: bool,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
    /// The cache before it.
    #[command(flatten)]
    pub cache: TierArgs,
}

/// Which version is meant.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct WhichVersion {
    /// Number of the version; without it, the newest
    #[arg(long, value_name = "NUMBER")]
    pub version: Option<u32>,
}

/// `onefold archive ls`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveLsArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Folder or file in the version; without it, everything
    #[arg(value_name = "PATH")]
    pub path: Option<OsString>,
    /// Which version.
    #[command(flatten)]
    pub which: WhichVersion,
    /// Rights, owners, sizes and times as well
    #[arg(long, short)]
    pub long: bool,
    /// Print one JSON object a line (docs/archive.md)
    #[arg(long)]
    pub json: bool,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// `onefold archive diff`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveDiffArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Number of the older version
    #[arg(value_name = "OLD")]
    pub old: u32,
    /// Number of the newer version; without it, the newest
    #[arg(value_name = "NEW")]
    pub new: Option<u32>,
    /// Folder or file in the versions; without it, everything
    #[arg(value_name = "PATH")]
    pub path: Option<OsString>,
    /// List also what differs in owner, rights, times or attributes only
    #[arg(long)]
    pub metadata: bool,
    /// Print one JSON object a line (docs/archive.md)
    #[arg(long)]
    pub json: bool,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// `onefold archive cat`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveCatArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// File in the version
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// Which version.
    #[command(flatten)]
    pub which: WhichVersion,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
    /// The cache before it.
    #[command(flatten)]
    pub cache: TierArgs,
}

/// `onefold archive restore`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveRestoreArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Folders and files in the version; without any, everything
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Folder to restore into: empty, or made if it is missing
    #[arg(long, value_name = "DIR")]
    pub target: PathBuf,
    /// Which version.
    #[command(flatten)]
    pub which: WhichVersion,
    /// Restore into a folder that holds something, and replace files in it
    #[arg(long)]
    pub overwrite: bool,
    /// Leave holes where files have long runs of zeroes
    #[arg(long)]
    pub sparse: bool,
    /// Memory in which the output is put together: the more, the fewer reads
    #[arg(long, value_name = "SIZE", default_value = "64M", allow_negative_numbers = true)]
    pub assembly_memory: ByteSize,
    /// Print one JSON object (docs/archive.md)
    #[arg(long)]
    pub json: bool,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
    /// The cache before it.
    #[command(flatten)]
    pub cache: TierArgs,
}

/// `onefold archive mount`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveMountArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Empty folder to show it in
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Run a command in a shell, with DIR as $mount, and unmount when it has ended
    #[arg(long, value_name = "COMMAND")]
    pub run: Option<String>,
    /// Let other users look as well, each at what owners and rights of the files allow
    ///
    /// Without it only you can look, whatever the rights. Who is not root needs
    /// `user_allow_other` in /etc/fuse.conf for it.
    #[arg(long)]
    pub allow_other: bool,
    /// Memory for chunks that were read lately; a quarter more for what is read ahead
    #[arg(long, value_name = "SIZE", default_value = "64M", allow_negative_numbers = true)]
    pub read_memory: ByteSize,
    /// Memory for tables of paths: 12 bytes a path of the versions that are looked at
    #[arg(long, value_name = "SIZE", default_value = "64M", allow_negative_numbers = true)]
    pub metadata_memory: ByteSize,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
    /// The cache before it.
    #[command(flatten)]
    pub cache: TierArgs,
}

/// `onefold archive verify`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveVerifyArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Print one JSON object (docs/archive.md)
    #[arg(long)]
    pub json: bool,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// `onefold archive check`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveCheckArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Put right what can be: settings and log from their other copy or from the versions' files
    #[arg(long)]
    pub repair: bool,
    /// Say what --repair would do, and write nothing; the same as without --repair
    #[arg(long, conflicts_with = "repair")]
    pub dry_run: bool,
    /// Print one JSON object (docs/archive.md)
    #[arg(long)]
    pub json: bool,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// `onefold archive remove`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveRemoveArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Numbers of the versions
    #[arg(value_name = "NUMBER", required = true)]
    pub numbers: Vec<u32>,
    /// How much may stay of what no version refers to.
    #[command(flatten)]
    pub unused: UnusedArgs,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// How much may stay of what no version refers to.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct UnusedArgs {
    /// Bytes that no version refers to and that may stay, in percent of those that one does
    ///
    /// What is still needed of a container moves to a new one to give the rest back: the lower,
    /// the more is moved.
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub max_unused: u32,
}

/// `onefold archive prune`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchivePruneArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Which versions stay.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Say which versions would go and stay, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object (docs/archive.md)
    #[arg(long)]
    pub json: bool,
    /// How much may stay of what no version refers to.
    #[command(flatten)]
    pub unused: UnusedArgs,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// `onefold archive trace`
#[derive(Clone, Debug, clap::Args)]
pub struct ArchiveTraceArgs {
    /// Where the archive is
    #[arg(value_name = "STORE", help = STORE_HELP, value_parser = store_parser())]
    pub store: PathBuf,
    /// Which version.
    #[command(flatten)]
    pub which: WhichVersion,
    /// Exponent of the Zipf distribution over files, 0 to 10; 0 is uniform
    #[arg(long, value_name = "EXPONENT", default_value = "0.9", value_parser = parse_exponent)]
    pub zipf: Ratio,
    /// How many files to read
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    pub reads: u64,
    /// Seed of the order; the same seed gives the same trace
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// What opens it.
    #[command(flatten)]
    pub key: KeyArgs,
}

/// Reads where an archive is.
fn store_parser() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|text| archive_place::parse(&text))
}

/// A decimal fraction such as 0.47 as a ratio of integers.
fn parse_exponent(text: &str) -> std::result::Result<Ratio, String> {
    let refused = || format!("bad exponent `{text}`: expected a decimal number from 0 to 10");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| {
        let plain = (1..=9).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| part.parse::<u64>().ok()).flatten()
    };
    let denominator = 10_u64.pow(fraction.len().min(9) as u32);
    let (whole, fraction) = (digits(whole), digits(fraction));
    let numerator = whole
        .zip(fraction)
        .and_then(|(whole, fraction)| (whole <= 10).then(|| whole * denominator + fraction));
    let ratio = numerator.filter(|&n| n <= 10 * denominator);
    ratio.and_then(|n| Ratio::new(n, denominator).ok()).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_decimal_numbers_from_0_to_10() {
        let value = |text| parse_exponent(text).ok().map(Ratio::as_f64);
        assert_eq!(value("0.47"), Some(0.47));
        assert_eq!(value("1"), Some(1.0));
        assert_eq!(value("10"), Some(10.0));
        for bad in ["", ".", "1.", ".5", "-1", "10.1", "11", "1e3", "nan", "0.1234567890"] {
            assert_eq!(value(bad), None, "{bad}");
        }
    }
}
