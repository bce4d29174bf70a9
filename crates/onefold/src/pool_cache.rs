//! A pool's containers with copies on a fast device.
//! Room: onefold.
//! Whatever is wrong with the fast device is a warning, and the pool works without it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use onefold_block::{ContainerStore, FileFolder, FolderLock, Group, Hold};
use onefold_cache::tier::{TierError, TierOptions, TierStatus, TieredStore};
use onefold_pool::{Budgets, OpenOptions, Pool, Surroundings};

use crate::args::{CacheMode, TierArgs};
use crate::endurance::{self, KnownLife, Watched};
use crate::failure::{Failure, Result};
use crate::handover;
use crate::open_pool::{must_exist, refused};
use crate::output::Printer;
use crate::store_folder;

/// An open pool, and the cache before it.
pub struct Cached {
    /// The pool.
    pub pool: Pool,
    /// Its cache, if it has one and the folder can be used.
    pub tier: Option<Arc<TieredStore>>,
    /// Why it cannot be used, if it has one.
    pub problem: Option<String>,
    /// What its device can take.
    pub life: Arc<Watched>,
}

/// What there is to be said of a pool's cache.
pub struct CacheReport {
    /// What it holds and did, if that is known.
    pub status: Option<TierStatus>,
    /// Why it is not used.
    pub problem: Option<String>,
    /// What its device can take.
    pub life: KnownLife,
}

/// A cache that is in use.
pub struct ServedCache {
    /// The cache, if it can be used.
    pub tier: Option<Arc<TieredStore>>,
    /// Why it cannot.
    pub problem: Option<String>,
    /// What was asked for, and what its device can take.
    pub life: Arc<Watched>,
}

impl ServedCache {
    /// Time goes on: what the cache knows is saved now and then.
    pub fn tick(&self) {
        if let Some(tier) = &self.tier {
            tell_time(tier);
            tier.save_changes();
        }
        if self.life.is_old() {
            let life = Arc::clone(&self.life);
            // A drive may take its time, and nobody waits for what it says.
            std::thread::spawn(move || life.renew());
        }
    }

    /// Be what options say now.
    ///
    /// # Errors
    /// Why it stays what it was.
    pub fn apply(&self, args: &TierArgs) -> std::result::Result<(), String> {
        let Some(tier) = &self.tier else { return Ok(()) };
        let budget = endurance::budget(args, &self.life.life())?;
        tier.set_writes_per_day(budget);
        if args.cache_size != tier.limits().0 {
            tier.resize(args.cache_size).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// What there is to be said of it now; `None` if the pool has none.
    pub fn report(&self) -> Option<CacheReport> {
        self.life.args().cache.as_ref()?;
        Some(CacheReport {
            status: self.tier.as_deref().map(TieredStore::status),
            problem: self.problem.clone(),
            life: self.life.life(),
        })
    }
}

impl CacheReport {
    /// What the folder of a cache tells, of a pool that nobody serves.
    pub fn saved(folder: &Path, life: KnownLife, uuid: &[u8; 16]) -> Self {
        let opened = FileFolder::open(folder).map_err(TierError::from);
        let examined =
            opened.and_then(|opened| TieredStore::examine(&opened, uuid).map(|()| opened));
        let (status, problem) = match examined {
            Ok(opened) => (TieredStore::saved_status(&opened, uuid), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { status, problem, life }
    }
}

/// Open a pool with its cache before it.
pub fn open(
    pool: &Path,
    read_only: bool,
    budgets: Budgets,
    cache: &TierArgs,
    printer: &Printer,
) -> Result<Cached> {
    must_exist(pool)?;
    let options = OpenOptions { read_only, budgets };
    let failed = |error| refused(pool, error);
    let handover = if read_only { None } else { handover::of(pool) };
    let life = Arc::new(Watched::begin(cache));
    if let Some(Err(why)) = life.life() {
        printer.warning(&why);
    }
    let Some(folder) = &cache.cache else {
        let around = Surroundings { handover, wrap: None };
        let opened = Pool::open_at_in(pool, &options, around).map_err(failed)?;
        if read_only {
            handover::tell_left(pool, &opened);
        }
        handover::tell(&opened, printer);
        return Ok(Cached { pool: opened, tier: None, problem: None, life });
    };
    let (mut tier, mut problem) = (None, None);
    let around = Surroundings {
        handover,
        wrap: Some(Box::new(|slow, settings, identity| {
            let options = |writes_per_day| TierOptions {
                owner: identity.uuid,
                policy: cache.cache_policy.clone(),
                size: cache.cache_size,
                container_bytes: settings.container_bytes,
                writes_per_day,
                write_through: cache.cache_mode == CacheMode::WriteThrough,
                fill_at_once: false,
            };
            let budget = endurance::budget(cache, &life.life());
            let opened = budget.and_then(|budget| {
                let opened = open_tier(folder, Arc::clone(&slow), options(budget));
                opened.map_err(|error| error.to_string())
            });
            match opened {
                Ok(store) => {
                    let store = Arc::new(store);
                    tier = Some(Arc::clone(&store));
                    store as Arc<dyn ContainerStore>
                }
                Err(error) => {
                    printer.warning(&format!("the pool works without its cache: {error}"));
                    problem = Some(error);
                    slow
                }
            }
        })),
    };
    let opened = Pool::open_at_in(pool, &options, around).map_err(failed)?;
    if read_only {
        handover::tell_left(pool, &opened);
    }
    handover::tell(&opened, printer);
    Ok(Cached { pool: opened, tier, problem, life })
}

/// Open the cache in a folder, for nobody else meanwhile.
pub fn open_tier(
    folder: &Path,
    slow: Arc<dyn ContainerStore>,
    options: TierOptions,
) -> std::result::Result<TieredStore, TierError> {
    // Not made anew: a folder that is missing is a device that is not mounted.
    let opened = Arc::new(FileFolder::open(folder)?);
    // A lock is a file, too: there is none in what is somebody else's.
    TieredStore::examine(&*opened, &options.owner)?;
    let lock = FolderLock::take(folder, Hold::Alone, Hold::Alone)?;
    lock.keep();
    let tier = TieredStore::open(slow, opened, options, Some(lock))?;
    tell_time(&tier);
    Ok(tier)
}

/// Tell a cache what time it is, by which it keeps to its budget.
fn tell_time(tier: &TieredStore) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    tier.tick(now.unwrap_or_default().as_secs());
}

/// Make the folder of the cache before `slow`, and say where it is, whatever the working folder.
pub fn prepare(slow: &Path, folder: &Path, group: Option<Group>) -> Result<PathBuf> {
    let refused = |error| Failure::unusable("use as a cache", folder, error);
    let absolute = |path: &Path| {
        let path = std::path::absolute(path).map_err(refused)?;
        Ok(path.canonicalize().unwrap_or(path))
    };
    let apart = |folder: &Path| {
        let slow = absolute(slow)?;
        if !folder.starts_with(&slow) && !slow.starts_with(folder) {
            return Ok(());
        }
        Err(Failure::nothing_done(format!(
            "the cache '{}' and '{}' lie in one another",
            folder.display(),
            slow.display()
        ))
        .hint("name a folder of its own, on the fast device"))
    };
    apart(&absolute(folder)?)?;
    if folder.is_dir() {
        // Whose cache it will be has no name yet: it is nobody's that has one.
        let opened = FileFolder::open(folder).map_err(TierError::from);
        opened
            .and_then(|opened| TieredStore::examine(&opened, &[0; 16]))
            .map_err(|error| Failure::nothing_done(format!("'{}': {error}", folder.display())))?;
    }
    store_folder::make(folder, group)?.overwrite_in_place();
    // Once more, now that links in its path can be followed.
    let folder = folder.canonicalize().map_err(refused)?;
    apart(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_something_to_be_said_of_a_cache_if_there_is_to_be_one() {
        let report = |line: &[&str]| {
            let life = Arc::new(Watched::of_nothing(&TierArgs::of(line.iter().copied())));
            ServedCache { tier: None, problem: Some("why".to_owned()), life }.report()
        };
        assert!(report(&["x"]).is_none());
        assert_eq!(report(&["x", "--cache", "f"]).unwrap().problem.as_deref(), Some("why"));
    }

    #[test]
    fn a_cache_is_made_apart_from_what_is_behind_it_whatever_links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("pool")).unwrap();
        std::os::unix::fs::symlink(at("pool"), at("link")).unwrap();
        let made = |cache: &str| prepare(&at("pool"), &at(cache), None);
        for inside in ["pool", "pool/cache", "link", "link/cache", ""] {
            let refused = made(inside).unwrap_err().message;
            assert!(refused.ends_with("lie in one another"), "{inside}: {refused}");
        }
        assert!(made("fast").unwrap().ends_with("fast") && at("fast").is_dir());
        // One with a name that only begins like the other's is apart.
        assert!(made("pool2").is_ok());
    }
}
