//! Whose a cache's folder is: a file that names kind and owner, written before anything else.
//! Room: onefold-cache.
//! Invariant: nothing is written into a folder that holds anything but a cache of this owner.

use onefold_block::{
    ContainerStore as _, Folder, FolderContainerStore, MediaError, is_of_a_lock, small_file,
};

use super::saved::{self, TierError};

/// The file that tells.
const IDENTITY_FILE: &str = "cache";
const MAGIC: &[u8; 8] = b"1FCACHE\n";
const BYTES: usize = 28;
/// The log of extents.
pub const LOG_FILE: &str = "extents";
/// Folder of the copies of whole containers that caches were before there was a log.
const COPIES: &str = "copies";
/// Files that a cache's folder may hold besides.
const OWN_FILES: [&str; 4] = [IDENTITY_FILE, LOG_FILE, saved::FILES[0], saved::FILES[1]];

fn encode(owner: &[u8; 16]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(owner);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// Make sure that the folder is this owner's cache, or make it so if it is empty.
pub fn claim(folder: &dyn Folder, owner: &[u8; 16]) -> Result<(), TierError> {
    // Until something has followed it, it may be there and not be durable.
    if !is_ours(folder, owner)? || !is_in_use(folder, &folder.list()?)? {
        small_file::replace(folder, IDENTITY_FILE, &encode(owner))?;
    }
    Ok(())
}

/// Whether there is more than what tells whose it is.
fn is_in_use(folder: &dyn Folder, names: &[String]) -> Result<bool, TierError> {
    let copies = match folder.existing_subfolder(COPIES) {
        Err(MediaError::NotFound { .. }) => false,
        copies => !copies?.list()?.is_empty(),
    };
    let own = |name: &String| name == LOG_FILE || saved::FILES.contains(&name.as_str());
    Ok(copies || names.iter().any(own))
}

/// Whether the folder is this owner's cache already; `false` if it can become that.
///
/// # Errors
/// It holds anything else.
pub fn is_ours(folder: &dyn Folder, owner: &[u8; 16]) -> Result<bool, TierError> {
    let names = folder.list()?;
    // What a power cut left of a small file is this room's too.
    let base = |name: &str| name.strip_suffix(small_file::UNFINISHED).unwrap_or(name).to_owned();
    let is_own = |name: &str| is_of_a_lock(name) || OWN_FILES.contains(&&*base(name));
    if let Some(name) = names.iter().find(|name| !is_own(name)) {
        return Err(TierError::NotACache(format!("it holds '{name}'")));
    }
    let is_in_use = is_in_use(folder, &names)?;
    match folder.open(IDENTITY_FILE) {
        // A cache that was made before there was this file is known by its state.
        Err(MediaError::NotFound { .. }) if is_in_use && saved::read(folder, owner).is_none() => {
            return Err(TierError::NotACache("it is a cache of something else".to_owned()));
        }
        Err(MediaError::NotFound { .. }) => {}
        media => {
            let media = media?;
            let mut found = vec![0; BYTES];
            let read = match media.read(0, &mut found) {
                Err(MediaError::Truncated { .. }) => false,
                read => read.map(|()| true)?,
            };
            if read && media.len()? == BYTES as u64 && found == encode(owner) {
                return Ok(true);
            }
            // Cut short while it was made, and nothing came after it.
            if is_in_use {
                let whole = read && found.starts_with(MAGIC);
                let why = if whole { "it is a cache of something else" } else { "it is damaged" };
                return Err(TierError::NotACache(why.to_owned()));
            }
            let sum = found.split_last_chunk::<4>();
            let is_whole = sum.is_some_and(|(body, sum)| {
                read && crc32fast::hash(body) == u32::from_le_bytes(*sum)
            });
            if is_whole {
                return Err(TierError::NotACache("it is a cache of something else".to_owned()));
            }
        }
    }
    Ok(false)
}

/// Remove copies of whole containers from a folder that was found to be this owner's cache: they
/// are of no use to a log. How many there were.
///
/// # Errors
/// Those of the folder; names that are no copy's are left alone.
pub fn discard_copies(folder: &dyn Folder) -> Result<usize, TierError> {
    let copies = match folder.existing_subfolder(COPIES) {
        Err(MediaError::NotFound { .. }) => return Ok(0),
        copies => FolderContainerStore::new(copies?),
    };
    let old = copies.list()?;
    for &id in &old {
        copies.remove(id)?;
    }
    Ok(old.len())
}
