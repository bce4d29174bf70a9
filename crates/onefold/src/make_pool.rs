//! Making the pool that a command names.
//! Room: onefold.

use std::path::Path;

use onefold_block::small_file;
use onefold_cache::tier::TierSize;
use onefold_pool::{Budgets, Pool, PoolError, PoolIdentity, PoolSettings};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::args::{MemoryArgs, PoolCacheArgs};
use crate::failure::{Failure, Result};
use crate::pool_cache;
use crate::settings_file::POOL_FILE;

/// What a pool's folder may hold before the pool is made: traces of an interrupted creation.
const OWN_NAMES: [&str; 6] = ["super.0", "super.1", "journal", "map", "containers", "lock"];

/// Make a pool, and keep its cache and what differs from the default memory in its settings file.
pub fn create(
    pool: &Path,
    settings: &PoolSettings,
    memory: &MemoryArgs,
    cache: &PoolCacheArgs,
) -> Result<()> {
    let at = pool.display();
    let budgets = memory.budgets()?;
    if Pool::exists_at(pool) {
        return Err(Failure::nothing_done(format!("'{at}' is a pool already"))
            .hint(format!("to see what it holds: onefold pool status {at}")));
    }
    must_be_free(pool)?;
    let identity = random_identity()?;
    let cache = cache_settings(pool, cache)?;
    Pool::create_at(pool, settings, identity).map_err(|error| Failure::pool(pool, error))?;
    keep_settings(pool, memory, budgets, &cache)
}

/// Refuse a place that holds something else.
fn must_be_free(pool: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(pool) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(_) if pool.is_file() => {
            let message = format!("'{}' is a file, but a pool is a folder", pool.display());
            return Err(Failure::nothing_done(message));
        }
        Err(error) => return Err(Failure::unusable("make a pool in", pool, error)),
    };
    for entry in entries {
        let name = entry.map_err(|e| Failure::unusable("list", pool, e))?.file_name();
        let name = name.to_string_lossy().into_owned();
        let known = name.strip_suffix(small_file::UNFINISHED).unwrap_or(&name);
        if !OWN_NAMES.contains(&known) && known != POOL_FILE {
            return Err(Failure::pool(pool, PoolError::NotEmpty(name)));
        }
    }
    Ok(())
}

/// A version 4 UUID and a key, from the system's random numbers.
pub fn random_identity() -> Result<PoolIdentity> {
    let mut bytes = [0; 48];
    // Up to 256 bytes come at once or not at all.
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|e| Failure::nothing_done(format!("cannot draw random numbers: {e}")))?;
    let (mut uuid, mut key) = ([0; 16], [0; 32]);
    uuid.copy_from_slice(&bytes[..16]);
    key.copy_from_slice(&bytes[16..]);
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(PoolIdentity { uuid, key })
}

/// What the settings file of a new pool says of its cache; the cache's folder is made.
fn cache_settings(pool: &Path, cache: &PoolCacheArgs) -> Result<String> {
    let Some(folder) = &cache.cache else { return Ok(String::new()) };
    let folder = pool_cache::prepare(pool, folder)?;
    let text = folder.to_str().ok_or_else(|| {
        let at = folder.display();
        Failure::nothing_done(format!("the cache '{at}' cannot be kept: its path is not UTF-8"))
    })?;
    Ok(format!(
        "cache = {}\ncache-size = \"{}\"\ncache-policy = {}\n",
        toml::Value::from(text),
        match cache.cache_size {
            TierSize::Bytes(bytes) => bytes.to_string(),
            TierSize::Percent(percent) => format!("{percent}%"),
        },
        toml::Value::from(cache.cache_policy.as_str())
    ))
}

fn keep_settings(pool: &Path, memory: &MemoryArgs, budgets: Budgets, cache: &str) -> Result<()> {
    let usual = Budgets::default();
    let rows = [
        ("index-memory", memory.index_memory, budgets.index_bytes != usual.index_bytes),
        ("map-memory", memory.map_memory, budgets.map_bytes != usual.map_bytes),
        ("cache-memory", memory.cache_memory, budgets.cache_bytes != usual.cache_bytes),
    ];
    let kept: Vec<String> = rows
        .iter()
        .filter(|(_, _, differs)| *differs)
        .map(|(name, size, _)| format!("{name} = {}  # {size}\n", size.bytes()))
        .collect();
    if kept.is_empty() && cache.is_empty() {
        return Ok(());
    }
    let text = format!(
        "# Memory of this pool, in bytes, and its cache, as it was made. Flags, the environment\n\
         # and --config overrule it; sizes may also be written like \"1G\".\n{}{cache}",
        kept.concat()
    );
    let path = pool.join(POOL_FILE);
    std::fs::write(&path, text).map_err(|e| Failure::broke("write", &path, e))
}
