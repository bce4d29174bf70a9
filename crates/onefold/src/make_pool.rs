//! Making the pool that a command names.
//! Room: onefold.

use std::path::Path;

use onefold_block::{ByteSize, FileFolder, Folder, GENERATION_FILE, is_of_a_lock, small_file};
use onefold_cache::tier::TierSize;
use onefold_pool::{Budgets, Pool, PoolError, PoolIdentity, PoolSettings};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::args::{AccessArgs, CacheMode, MemoryArgs, TierArgs};
use crate::endurance::Endurance;
use crate::failure::{Failure, Result};
use crate::pool_cache;
use crate::settings_file::POOL_FILE;
use crate::store_folder::Making;

/// What a pool takes beside its first container: a journal, a map, two checkpoints and room for
/// one more of each.
const BOOKKEEPING_BYTES: u64 = 1 << 20;

/// What a pool's folder may hold before the pool is made: traces of an interrupted creation.
const OWN_NAMES: [&str; 8] = [
    "super.0",
    "super.1",
    "journal",
    "map",
    "containers",
    "fingerprints",
    GENERATION_FILE,
    POOL_FILE,
];

/// Make a pool, and keep its cache and what differs from the default memory in its settings file.
pub fn create(
    pool: &Path,
    settings: &PoolSettings,
    memory: &MemoryArgs,
    cache: &TierArgs,
    access: AccessArgs,
) -> Result<()> {
    let at = pool.display();
    let budgets = memory.budgets()?;
    if Pool::exists_at(pool) {
        return Err(Failure::nothing_done(format!("'{at}' is a pool already"))
            .hint(format!("to see what it holds: onefold pool status {at}")));
    }
    must_be_free(pool)?;
    let identity = random_identity()?;
    let making = Making::begin(std::iter::once(pool).chain(cache.cache.as_deref()));
    let cache = cache_settings(pool, cache, access)?;
    let text = settings_text(memory, budgets, &cache);
    let failed = |error| Failure::pool(pool, error);
    let mut folder = FileFolder::create(pool).map_err(|error| failed(error.into()))?;
    let free = folder.free_bytes().map_err(|error| failed(error.into()))?;
    must_have_room(pool, free, settings)?;
    folder.restrict(access.group).map_err(|error| failed(error.into()))?;
    folder.overwrite_in_place();
    let lock = Pool::lock_at(pool).map_err(failed)?;
    create_in(&folder, settings, identity, &text).map_err(failed)?;
    lock.keep();
    making.done();
    Ok(())
}

/// Refuse a disk on which the pool could never store anything.
fn must_have_room(pool: &Path, free: Option<u64>, settings: &PoolSettings) -> Result<()> {
    let wanted = u64::from(settings.container_bytes) + BOOKKEEPING_BYTES;
    let Some(free) = free.filter(|&free| free < wanted) else { return Ok(()) };
    Err(Failure::nothing_done(format!(
        "'{}': the disk has {} left, and a pool needs {} to store anything",
        pool.display(),
        ByteSize(free),
        ByteSize(wanted)
    ))
    .hint("make room there, name a folder on another disk, or take a smaller --container-size"))
}

/// Make a pool with its settings file, if there is anything to say in it. The settings come first:
/// once there is a pool, it has them, whenever the power goes.
fn create_in(
    folder: &dyn Folder,
    settings: &PoolSettings,
    identity: PoolIdentity,
    text: &str,
) -> std::result::Result<(), PoolError> {
    if !text.is_empty() {
        small_file::replace(folder, POOL_FILE, text.as_bytes())?;
    }
    Pool::create(folder, settings, identity)
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
        let base = name.strip_suffix(small_file::UNFINISHED).unwrap_or(&name);
        if !is_of_a_lock(base) && !OWN_NAMES.contains(&base) {
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
    for (at, drawn, version) in [(6, 0x0f, 0x40), (8, 0x3f, 0x80)] {
        uuid[at] = uuid[at] & drawn | version;
    }
    Ok(PoolIdentity { uuid, key })
}

/// What the settings file of a new pool or archive says of its cache, whose folder is made.
pub fn cache_settings(slow: &Path, cache: &TierArgs, access: AccessArgs) -> Result<String> {
    let Some(folder) = &cache.cache else { return Ok(String::new()) };
    if cache.cache_years.is_some() && cache.cache_endurance.is_none() {
        let message = "--cache-years without --cache-endurance: how much can the device take?";
        return Err(Failure::nothing_done(message)
            .hint("name the bytes (TBW) of its data sheet, or smart, to ask the drive"));
    }
    let folder = pool_cache::prepare(slow, folder, access.group)?;
    let text = folder.to_str().ok_or_else(|| {
        let at = folder.display();
        Failure::nothing_done(format!("the cache '{at}' cannot be kept: its path is not UTF-8"))
    })?;
    let writes =
        cache.cache_writes_per_day.map(|times| format!("cache-writes-per-day = {times}\n"));
    let years = cache.cache_years.map(|years| format!("cache-years = {years}\n"));
    let endurance = match &cache.cache_endurance {
        None => String::new(),
        Some(Endurance::Bytes(size)) => format!("cache-endurance = {}\n", size.bytes()),
        Some(drive) => format!("cache-endurance = {}\n", toml::Value::from(drive.to_string())),
    };
    let mode = match cache.cache_mode {
        CacheMode::WriteAround => "",
        CacheMode::WriteThrough => "cache-mode = \"write-through\"\n",
    };
    Ok(format!(
        "cache = {}\ncache-size = \"{}\"\ncache-policy = {}\n{}{}{endurance}{mode}",
        toml::Value::from(text),
        match cache.cache_size {
            TierSize::Bytes(bytes) => bytes.to_string(),
            TierSize::Percent(percent) => format!("{percent}%"),
        },
        toml::Value::from(cache.cache_policy.as_str()),
        writes.unwrap_or_default(),
        years.unwrap_or_default(),
    ))
}

/// The settings file of a new pool; empty if there is nothing to say.
fn settings_text(memory: &MemoryArgs, budgets: Budgets, cache: &str) -> String {
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
        return String::new();
    }
    format!(
        "# Memory of this pool, in bytes, and its cache, as it was made. Flags, the environment\n\
         # and --config overrule it; sizes may also be written like \"1G\".\n{}{cache}",
        kept.concat()
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use onefold_block::{CrashMode, SimFolder};
    use onefold_pool::OpenOptions;

    use super::*;

    const TEXT: &str = "index-memory = 33554432\ncache = \"/ssd/copies\"\ncache-size = \"20%\"\n";

    fn create_on(folder: &SimFolder) -> std::result::Result<(), PoolError> {
        let identity = PoolIdentity { uuid: [7; 16], key: [9; 32] };
        create_in(folder, &PoolSettings::default(), identity, TEXT)
    }

    fn settings_of(folder: &SimFolder) -> Option<Vec<u8>> {
        small_file::read(folder, POOL_FILE, 10_000).ok()
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        memory: MemoryArgs,
        #[command(flatten)]
        tier: TierArgs,
    }

    #[test]
    fn what_differs_from_the_usual_is_kept_with_the_pool() {
        let kept = |flags: &[&str]| {
            let line = Line::parse_from([&["x"], flags].concat());
            settings_text(&line.memory, line.memory.budgets().unwrap(), "")
        };
        assert_eq!(kept(&[]), "");
        for name in ["index-memory", "map-memory", "cache-memory"] {
            let text = kept(&[&format!("--{name}"), "64M"]);
            let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(rows, [format!("{name} = 67108864  # 64 MiB")]);
        }
        let line = Line::parse_from(["x"]);
        let usual = line.memory.budgets().unwrap();
        assert!(settings_text(&line.memory, usual, "cache = 'x'\n").ends_with(".\ncache = 'x'\n"));
    }

    #[test]
    fn a_cache_is_kept_with_all_that_was_said_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let fast = folder.path().join("fast");
        let kept = |flags: &[&str]| {
            let line = [&["x", "--cache", fast.to_str().unwrap()], flags].concat();
            let access = AccessArgs { group: None };
            let slow = folder.path().join("pool");
            cache_settings(&slow, &Line::parse_from(line).tier, access).map_err(|f| f.message)
        };
        let told = kept(&["--cache-size", "20%", "--cache-policy", "lru"]).unwrap();
        let at = fast.canonicalize().unwrap();
        let least =
            format!("cache = \"{}\"\ncache-size = \"20%\"\ncache-policy = \"lru\"\n", at.display());
        assert_eq!(told, least);
        let all = ["--cache-size", "1M", "--cache-policy", "lru", "--cache-mode", "write-through"];
        let wear = ["--cache-years", "5", "--cache-endurance", "600T"];
        let told = kept(&[&all[..], &wear].concat()).unwrap();
        for row in [
            "cache-size = \"1048576\"",
            "cache-years = 5",
            "cache-mode = \"write-through\"",
            "cache-endurance = 659706976665600",
        ] {
            assert!(told.lines().any(|line| line == row), "{row}: {told}");
        }
        assert!(kept(&wear[..2]).unwrap_err().contains("without --cache-endurance"));
        assert!(kept(&wear[2..]).is_ok());
    }

    #[test]
    fn a_disk_without_room_for_a_container_is_refused() {
        let settings = PoolSettings::default();
        let room = |free| must_have_room(Path::new("p"), free, &settings);
        for free in [None, Some(5 << 20), Some(u64::MAX)] {
            assert!(room(free).is_ok());
        }
        let refused = room(Some((5 << 20) - 1)).unwrap_err().message;
        assert!(refused.ends_with("left, and a pool needs 5 MiB to store anything"), "{refused}");
    }

    #[test]
    fn a_power_cut_leaves_a_pool_with_its_settings_or_none() {
        let whole = SimFolder::new();
        create_on(&whole).unwrap();
        let (mut made, mut never) = (0, 0);
        for op in 1..=whole.op_count() + 1 {
            let random = (0..24).map(|seed| (seed, CrashMode::Random));
            let modes = [(0, CrashMode::KeepNothing), (0, CrashMode::KeepEverything)];
            for (seed, mode) in modes.into_iter().chain(random) {
                let disk = SimFolder::new();
                disk.crash_at(op);
                let created = create_on(&disk);
                let left = disk.after_crash(seed, mode);
                let settings = settings_of(&left);
                let at = format!("cut at {op}, seed {seed}, {mode:?}:\n{}", disk.op_log());
                match Pool::open(&left, &OpenOptions::default()) {
                    Ok(pool) => {
                        assert_eq!(settings.as_deref(), Some(TEXT.as_bytes()), "{at}");
                        pool.close().unwrap();
                        made += 1;
                    }
                    Err(PoolError::NoPool) => {
                        assert!(created.is_err(), "{at}");
                        assert!(settings.is_none_or(|text| text == TEXT.as_bytes()), "{at}");
                        create_on(&left).unwrap_or_else(|error| panic!("{error}: {at}"));
                        Pool::open(&left, &OpenOptions::default()).unwrap();
                        never += 1;
                    }
                    Err(error) => panic!("{error}: {at}"),
                }
            }
        }
        assert!(made > 20 && never > 100, "{made} pools, {never} never made");
    }

    #[test]
    fn what_a_making_leaves_that_was_cut_short_is_no_obstacle() {
        let whole = SimFolder::new();
        create_on(&whole).unwrap();
        // The last one but the sync of its name makes it a pool.
        for cut in 1..whole.op_count() - 1 {
            let folder = SimFolder::new();
            folder.crash_at(cut);
            create_on(&folder).unwrap_err();
            let left = folder.after_crash(cut, CrashMode::KeepEverything);
            let place = tempfile::tempdir().unwrap();
            for name in left.list().unwrap() {
                std::fs::write(place.path().join(name), "").unwrap();
            }
            for inside in ["containers", "fingerprints"] {
                if left.existing_subfolder(inside).is_ok() {
                    std::fs::create_dir(place.path().join(inside)).unwrap();
                }
            }
            must_be_free(place.path()).unwrap_or_else(|e| panic!("cut at {cut}: {}", e.message));
        }
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("other"), "").unwrap();
        assert!(must_be_free(place.path()).is_err());
    }

    #[test]
    fn a_drawn_uuid_says_that_it_was_drawn() {
        let (mut ones, mut zeroes) = (0, 0);
        for _ in 0..128 {
            let uuid = random_identity().unwrap().uuid;
            assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (4, 2), "{uuid:02x?}");
            (ones, zeroes) =
                (ones | u128::from_be_bytes(uuid), zeroes | !u128::from_be_bytes(uuid));
        }
        // What does not say that is random.
        assert_eq!((ones ^ zeroes).count_ones(), 6, "{ones:032x} {zeroes:032x}");
    }
}
