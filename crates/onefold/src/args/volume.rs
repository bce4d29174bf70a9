//! `onefold volume ...`, as written.
//! Room: onefold.

use std::path::PathBuf;

use clap::Subcommand;
use onefold_block::ByteSize;
use onefold_image::Choice;

use super::{KeepArgs, MemoryArgs, RescueArgs, VolumeAllowArgs, VolumeDenyArgs, VolumeLimitArgs};

const IMPORT_NOTES: &str = "\
A new volume is called NAME.incomplete until all of FILE is stored. An import that fails or is
interrupted removes it; one that was killed leaves it under that name, and `onefold volume delete`
removes it. An import over a volume that exists changes it as it goes.

What `onefold volume export --since` or `--stream` wrote becomes a snapshot: NAME and the name of
the snapshot where it comes from. NAME changes once all of it is there, and not before. An import of
such a stream that was interrupted leaves NAME.incomplete, and --resume goes on with it.";

const PRUNE_EXAMPLE: &str = "\
Example:
  onefold volume prune ./demo main --keep-hourly 24 --keep-daily 7 --dry-run";

/// Make, list, resize, delete, fill and read out volumes and their snapshots.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Make a thin volume: it takes space only for what is written
    Create(VolumeCreateArgs),
    /// Grow or shrink a volume; a shrink that would lose data is refused
    Resize(VolumeResizeArgs),
    /// Give a volume another name; clients that are connected keep it
    Rename(VolumeRenameArgs),
    /// List the volumes of a pool
    List(VolumeListArgs),
    /// Let a client see a volume over TLS, by the name in its certificate
    ///
    /// Once a volume was given to somebody, nobody else sees it or its snapshots over TCP, and
    /// without TLS nobody does. Clones begin with the same clients and limits. Unix sockets are
    /// open to the pool's owner and group all the same.
    #[command(after_help = ALLOW_EXAMPLES)]
    Allow(VolumeAllowArgs),
    /// Let a client see a volume over TLS no more; it counts at once, for who is connected too
    ///
    /// A volume that is taken from its last client is for nobody over TCP, until `volume allow`
    /// gives it to somebody, or to --everybody.
    Deny(VolumeDenyArgs),
    /// Limit what is asked of a volume in a second
    ///
    /// Clients that ask for more wait; nothing fails. It counts at once and for good, for a volume
    /// and its snapshots together. After a pause a quarter of a second's requests come at once.
    /// Flushes are never held back, and trims and zeroings have no bytes. A read of more than 256
    /// KiB counts as several.
    #[command(after_help = LIMIT_EXAMPLES)]
    Limit(VolumeLimitArgs),
    /// Delete a volume or a snapshot, and give back what only it held
    Delete(VolumeDeleteArgs),
    /// Keep what a volume is now under a name such as main@monday
    Snapshot(VolumeSnapshotArgs),
    /// Make a volume that begins as what a snapshot is; it takes space only for what changes
    Clone(VolumeCloneArgs),
    /// Let a volume be what its snapshot is; newer snapshots stay
    Rollback(VolumeRollbackArgs),
    /// Hold a snapshot, so that it cannot be deleted
    Hold(VolumeHoldArgs),
    /// Release a snapshot that is held
    Release(VolumeHoldArgs),
    /// Delete the snapshots of a volume that no rule keeps; held ones and origins of clones stay
    ///
    /// Each rule counts by itself, and what one of them keeps stays. Hours, days, weeks from Monday
    /// on, months and years are those of UTC; of each the newest snapshot is kept. Without a rule
    /// all stay.
    #[command(after_help = PRUNE_EXAMPLE)]
    Prune(VolumePruneArgs),
    /// List where two snapshots or volumes differ
    ///
    /// A block that was written counts as changed, whatever was written.
    Diff(VolumeDiffArgs),
    /// Copy a file, block device or pipe into a volume
    #[command(after_help = IMPORT_NOTES)]
    Import(VolumeImportArgs),
    /// Copy a volume into a file, block device or pipe
    Export(VolumeExportArgs),
    /// Send a snapshot to another pool, without the blocks that it has
    ///
    /// COMMAND is run with its stdin and stdout connected to this: `onefold volume receive`, on
    /// another machine through ssh. It is asked which blocks it has, by their fingerprints, and
    /// those are not sent. That saves bandwidth and costs a question for each MiB; where nothing is
    /// shared, `volume export` is as good.
    #[command(after_help = SEND_EXAMPLES)]
    Send(VolumeSendArgs),
    /// Receive what `volume send` sends, on stdin, and answer it on stdout
    ///
    /// The sender is told how this pool's fingerprints are made, and learns which blocks it has.
    /// What it leaves out is read from this pool and compared with the fingerprint.
    Receive(VolumeReceiveArgs),
}

const ALLOW_EXAMPLES: &str = "\
Examples:
  onefold volume allow ./demo main --client CN=web1
  onefold volume allow ./demo main --client CN=backup --read-only
  onefold volume allow ./demo main --everybody";

const LIMIT_EXAMPLES: &str = "\
Examples:
  onefold volume limit ./demo main --iops 1000 --rate 50MiB
  onefold volume limit ./demo main --iops none --connection-rate 10MiB";

const SEND_EXAMPLES: &str = "\
Examples:
  onefold volume send ./here main@mon -- ssh backup onefold volume receive ./there main
  onefold volume send ./here main@tue --since main@mon -- \\
      ssh backup onefold volume receive ./there main --onto main";

/// `onefold volume create`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeCreateArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Size that clients see, such as 64G
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub size: ByteSize,
}

/// `onefold volume resize`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeResizeArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The new size, such as 128G
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub size: ByteSize,
    /// Shrink even if stored data lies past the new end, and throw that data away
    #[arg(long)]
    pub discard: bool,
}

/// `onefold volume rename`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeRenameArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its new name
    #[arg(value_name = "NEW")]
    pub to: String,
}

/// `onefold volume list`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeListArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Only the volume of this name
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// List snapshots
    #[arg(long)]
    pub snapshots: bool,
    /// List what can be rescued of a pool that is refused because it is damaged
    #[command(flatten)]
    pub rescue: RescueArgs,
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// `onefold volume delete`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeDeleteArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume, or of a snapshot such as main@monday
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Don't ask (nothing is asked either when stdin is no terminal)
    #[arg(long, short)]
    pub yes: bool,
    /// Delete it even though clients of the server that has the pool use it
    #[arg(long)]
    pub force: bool,
}

/// `onefold volume import`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeImportArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume; made if there is none of that name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// File, block device, or `-` for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Size of the volume if it is made; without it, that of FILE, in whole sectors of 512 bytes
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub size: Option<ByteSize>,
    /// The volume or snapshot that a stream of `volume export --since` is made onto
    ///
    /// It must be, or have, the very snapshot that the stream begins with. NAME is the same volume,
    /// not written to since, or one that is not there yet.
    #[arg(long, value_name = "VOLUME[@NAME]", conflicts_with = "size")]
    pub onto: Option<String>,
    /// Go on with the stream where an import of it stood; FILE may begin there, or before
    #[arg(long, conflicts_with = "size")]
    pub resume: bool,
    /// How to read FILE: raw, qcow2, or auto, which sees what it is
    ///
    /// auto reads streams of `volume export`, raw, qcow2, and raw inside gzip and zstd; raw takes
    /// the bytes as they are.
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: Choice,
    /// What the pool may use.
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// `onefold volume export`
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option by itself")]
pub struct VolumeExportArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// File, block device, or `-` for stdout
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write a stream of what changed since this snapshot; NAME must be a snapshot, too
    ///
    /// `onefold volume import --onto` makes NAME of it on a pool that has the older one.
    #[arg(long, value_name = "VOLUME@NAME", conflicts_with_all = ["skip_damaged", "rescue"])]
    pub since: Option<String>,
    /// Write a whole snapshot as a stream, with which such a chain begins
    #[arg(long, conflicts_with_all = ["skip_damaged", "rescue", "since"])]
    pub stream: bool,
    /// Write the stream from this byte of the volume on, for a receiver that stood there
    #[arg(long, value_name = "BYTE")]
    pub resume: Option<u64>,
    /// Overwrite FILE if it exists
    #[arg(long, short)]
    pub force: bool,
    /// Go on past damaged blocks: FILE gets zeroes there, and the places are listed
    ///
    /// The list is on stdout, or on stderr if FILE is `-`. The exit status is 1 if there are any.
    #[arg(long)]
    pub skip_damaged: bool,
    /// Print what was exported, and the damaged places, as one JSON object (docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// For a pool that is refused.
    #[command(flatten)]
    pub rescue: RescueArgs,
}

/// `onefold volume send`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeSendArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// The snapshot
    #[arg(value_name = "VOLUME@NAME")]
    pub name: String,
    /// Send what changed since this snapshot, which the receiver has
    #[arg(long, value_name = "VOLUME@NAME")]
    pub since: Option<String>,
    /// Send from this byte of the volume on, for a receiver that stood there
    #[arg(long, value_name = "BYTE")]
    pub resume: Option<u64>,
    /// What receives it, behind --
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// `onefold volume receive`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeReceiveArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume; made if there is none of that name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The volume or snapshot that what changed is made onto
    #[arg(long, value_name = "VOLUME[@NAME]")]
    pub onto: Option<String>,
    /// Go on where a reception stood
    #[arg(long)]
    pub resume: bool,
    /// What the pool may use.
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// `onefold volume snapshot`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeSnapshotArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Volume and name of the snapshot, such as main@monday
    ///
    /// After the @: 1 to 64 letters, digits, '.', '_', '-' or ':', but not g and a number, which is
    /// a generation of what a server exports.
    #[arg(value_name = "VOLUME@NAME")]
    pub name: String,
    /// It cannot be deleted before `onefold volume release`
    #[arg(long)]
    pub hold: bool,
}

/// `onefold volume clone`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeCloneArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// The snapshot, which stays as long as the clone does
    #[arg(value_name = "VOLUME@NAME")]
    pub snapshot: String,
    /// Name of the new volume
    #[arg(value_name = "NEW")]
    pub name: String,
}

/// `onefold volume rollback`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeRollbackArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// The snapshot
    #[arg(value_name = "VOLUME@NAME")]
    pub snapshot: String,
    /// Don't ask (nothing is asked either when stdin is no terminal)
    #[arg(long, short)]
    pub yes: bool,
    /// Do it even though clients of the server that has the pool use the volume
    #[arg(long)]
    pub force: bool,
}

/// `onefold volume hold` and `release`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeHoldArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// The snapshot
    #[arg(value_name = "VOLUME@NAME")]
    pub snapshot: String,
}

/// `onefold volume prune`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumePruneArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Which snapshots stay.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Say which snapshots would go and stay, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// `onefold volume diff`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeDiffArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// A snapshot, such as main@monday, or a volume
    #[arg(value_name = "FROM")]
    pub from: String,
    /// Another
    #[arg(value_name = "TO")]
    pub to: String,
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    pub json: bool,
}
