//! An archive's containers with copies on a fast device.
//! Room: onefold.
//! Whatever is wrong with the fast device is a warning, and the archive is read without it.
//! An encrypted archive has none: its containers are read in the open, and would lie there so.

use std::path::Path;
use std::sync::Arc;

use onefold_archive::Archive;
use onefold_block::ContainerStore;
use onefold_cache::tier::TierOptions;

use crate::archive_place;
use crate::args::{ArchiveCreateArgs, CacheMode, TierArgs};
use crate::endurance::{self, Watched};
use crate::failure::{Failure, Result};
use crate::make_pool;
use crate::output::Printer;
use crate::pool_cache::{CacheReport, ServedCache, open_tier};

/// Refuse a cache before an encrypted archive.
pub fn must_be_open(cache: Option<&Path>, is_encrypted: bool) -> Result<()> {
    match cache.filter(|_| is_encrypted) {
        None => Ok(()),
        Some(_) => Err(Failure::nothing_done("an encrypted archive has no cache")
            .hint("what is kept there would not be encrypted; leave out --cache")),
    }
}

/// Additions go past an archive's cache, so that it cannot keep what is new.
fn must_write_around(args: &TierArgs) -> Result<()> {
    match args.cache_mode {
        CacheMode::WriteAround => Ok(()),
        CacheMode::WriteThrough => {
            Err(Failure::nothing_done("additions to an archive go past its cache")
                .hint("--cache-mode write-through is for pools"))
        }
    }
}

/// What an archive's own settings file is to say, if anything; the cache's folder is made.
pub fn settings_text(args: &ArchiveCreateArgs) -> Result<Option<String>> {
    must_write_around(&args.cache)?;
    if args.cache.cache.is_some() && archive_place::is_remote(&args.store) {
        let why =
            "each machine that reads an archive in an object store has its own cache, or none";
        return Err(Failure::nothing_done(why).hint(
            "create it without --cache; then, on each machine, make a folder and give it to the \
             commands that read: by --cache, ONEFOLD_CACHE or a file for --config",
        ));
    }
    // What is there already must be refused before its cache is touched.
    if args.cache.cache.is_none() || Archive::exists_at(&args.store) {
        return Ok(None);
    }
    let cache = make_pool::cache_settings(&args.store, &args.cache, args.access)?;
    Ok(Some(format!(
        "# The cache of this archive, as it was made. Flags, the environment and --config overrule \
         it.\n{cache}"
    )))
}

/// Whether the drive is asked. Nobody is told of the years here: only for what may be written.
fn must_ask(args: &TierArgs) -> bool {
    args.cache_years.is_some() && args.cache_writes_per_day.is_none()
}

/// What to do about a folder that is missing: `create` makes it, but for an archive in an object
/// store.
fn advice(is_remote: bool, folder: &Path) -> Option<String> {
    let advice = || {
        let at = folder.display();
        format!("to have one there, if its device is mounted: mkdir {at}")
    };
    (is_remote && !folder.exists()).then(advice)
}

/// Read an archive through its cache, if it has one.
pub fn before(
    store: &Path,
    archive: &mut Archive,
    args: &TierArgs,
    printer: &Printer,
) -> Result<ServedCache> {
    must_be_open(args.cache.as_deref(), archive.is_encrypted())?;
    must_write_around(args)?;
    let life = if must_ask(args) { Watched::begin(args) } else { Watched::of_nothing(args) };
    let mut cache = ServedCache { tier: None, problem: None, life: Arc::new(life) };
    let Some(folder) = &args.cache else { return Ok(cache) };
    let budget = endurance::budget(args, &cache.life.life());
    let is_remote = archive_place::is_remote(store);
    let (owner, container_bytes) = (archive.identity().uuid, archive.settings().container_bytes);
    let options = |writes_per_day| TierOptions {
        owner,
        policy: args.cache_policy.clone(),
        size: args.cache_size,
        container_bytes,
        writes_per_day,
        write_through: false,
        fill_at_once: is_remote,
    };
    archive.read_through(|slow| {
        let opened = budget.and_then(|budget| {
            let opened = open_tier(folder, Arc::clone(&slow), options(budget));
            opened.map_err(|error| error.to_string())
        });
        match opened {
            Ok(tier) => {
                let tier = Arc::new(tier);
                cache.tier = Some(Arc::clone(&tier));
                tier as Arc<dyn ContainerStore>
            }
            Err(error) => {
                printer.warning(&format!("the archive is read without its cache: {error}"));
                if let Some(advice) = advice(is_remote, folder) {
                    printer.note(&advice);
                }
                cache.problem = Some(error);
                slow
            }
        }
    });
    Ok(cache)
}

/// What the cache of an archive told last; `None` if it has none.
pub fn report(archive: &Archive, args: &TierArgs) -> Option<CacheReport> {
    let folder = args.cache.as_deref()?;
    let life = endurance::ask(args.cache_endurance.as_ref(), folder);
    Some(CacheReport::saved(folder, life, &archive.identity().uuid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_asked_only_where_what_may_be_written_follows_from_its_years() {
        let asks = |flags: &[&str]| {
            let line = [&["x", "--cache", "f", "--cache-endurance", "smart"], flags].concat();
            must_ask(&TierArgs::of(line))
        };
        let (years, per_day) = (["--cache-years", "5"], ["--cache-writes-per-day", "0.3"]);
        assert!(asks(&years) && !asks(&[]) && !asks(&per_day));
        let around = |mode| {
            let line = ["x", "--cache", "f", "--cache-mode", mode];
            must_write_around(&TierArgs::of(line)).is_ok()
        };
        assert!(around("write-around") && !around("write-through"));
        assert!(must_be_open(Some(Path::new("f")), false).is_ok());
        assert!(must_be_open(None, true).is_ok());
        assert!(must_be_open(Some(Path::new("f")), true).is_err());
    }

    #[test]
    fn a_folder_that_is_missing_is_to_be_made_only_where_nothing_else_makes_it() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("cache");
        assert!(advice(true, &missing).unwrap().contains("mkdir /"));
        assert_eq!([advice(false, &missing), advice(true, folder.path())], [None, None]);
    }
}
