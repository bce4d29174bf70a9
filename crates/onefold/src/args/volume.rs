//! `onefold volume ...`, as written.
//! Room: onefold.

use std::path::PathBuf;

use clap::Subcommand;
use onefold_block::ByteSize;
use onefold_image::Choice;

use super::{MemoryArgs, RescueArgs};

const IMPORT_NOTES: &str = "\
A new volume is called NAME.incomplete until all of FILE is stored. An import that fails or is
interrupted removes it; one that was killed leaves it under that name, and `onefold volume delete`
removes it. An import over a volume that exists changes it as it goes.";

/// Make, list, resize, delete, fill and read out volumes.
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
    /// Delete a volume and give back what only it held
    Delete(VolumeDeleteArgs),
    /// Copy a file, block device or pipe into a volume
    #[command(after_help = IMPORT_NOTES)]
    Import(VolumeImportArgs),
    /// Copy a volume into a file, block device or pipe
    Export(VolumeExportArgs),
}

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
    /// Name of the volume
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
    /// Size of the volume if it is made; without it, that of FILE
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub size: Option<ByteSize>,
    /// How to read FILE: raw, qcow2, or auto, which sees what it is
    ///
    /// auto reads raw, qcow2, and raw inside gzip and zstd; raw takes the bytes as they are.
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: Choice,
    /// What the pool may use.
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// `onefold volume export`
#[derive(Clone, Debug, clap::Args)]
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
