//! A drive seen from outside, without opening it.
//! Room: onefold-flash.   In: a folder.   Out: what its files say.

use std::sync::Arc;

use onefold_block::{Folder, Generation, GenerationFile};

use super::error::DriveError;
use super::files::NAND_FILE;
use super::health::SavedHealth;
use super::stored_spec::read_spec;
use crate::nand::bytes::{BlockEntry, Description, ENTRY_BYTES, FileStore, Store as _};
use crate::spec::DriveSpec;

/// A drive seen from outside: by its files, whether or not a process has it open.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The number that no other drive has.
    pub id: [u8; 16],
    /// Its specification.
    pub spec: DriveSpec,
    /// Whether its counters could be read; if not, they are all 0.
    pub counted: bool,
    /// Its counters as last saved.
    pub health: SavedHealth,
    /// Its generation, if it says so.
    pub generation: Option<Generation>,
    /// Its blocks.
    pub blocks: Vec<BlockEntry>,
    /// Bytes that the NAND file takes.
    pub allocated_bytes: u64,
}

/// Looks at the drive in a folder without opening it.
///
/// # Errors
/// [`DriveError::NoDrive`], and those of the files.
pub fn inspect(folder: &dyn Folder) -> Result<Inspection, DriveError> {
    let spec = read_spec(folder)?;
    let (saved, _) = SavedHealth::load(folder);
    let counted = saved.is_some();
    let mut health = saved.unwrap_or_default();
    health.state.logical_pages = u64::from(spec.logical_pages());
    let description = Description::new(spec.geometry, &spec.channel()?, "");
    let media = folder.open(NAND_FILE)?;
    let store = FileStore::look(Arc::clone(&media), &description)?;
    let id = FileStore::describe(&*media)?.id;
    let generation = GenerationFile::read(folder, &id);
    let entries = store.read_entries()?;
    let blocks = entries
        .chunks_exact(ENTRY_BYTES)
        .map(|entry| entry.first_chunk().and_then(BlockEntry::decode).unwrap_or_default())
        .collect();
    let allocated_bytes = store.allocated_bytes()?;
    Ok(Inspection { id, spec, counted, health, generation, blocks, allocated_bytes })
}
