//! New files in the place of old ones, whenever the power goes.
//! Room: onefold-pool.
//! Order: all new files, each twice, under names of their own, durable; a note that says so,
//! durable; the old ones get other names, durable; the note says that, durable; of each new file
//! one gets the name it is for, durable, and the other goes; the note goes. While the note is there
//! nobody opens the pool, and whoever repairs it goes on from there.
//! Why twice: of a file that is renamed a power cut may leave neither name.
//! Invariant: before the note is durable the pool is as it was; from then on all new files are
//! there, and nothing more needs space.

use onefold_block::{Folder, Media, MediaError, anew, small_file};

use crate::error::PoolError;
use crate::open::{CONTAINER_FOLDER, FINGERPRINT_FOLDER, REPAIR_FILE};

/// What the name of a new file ends with until it is in its place.
pub const NEW: &str = ".repaired";
/// And that of its second.
const SECOND: &str = ".repaired-second";
/// And that of a copy of the first, until it is whole.
const AGAIN: &str = ".repaired-again";
/// What is put between the name of an old file and the number of the repair.
pub const OLD: &str = ".before-repair-";
/// Bytes copied at once.
pub const COPY_BYTES: usize = 1 << 20;
/// What begins the note; the number of the repair follows.
const NOTE: &str = "onefold repair ";
/// What follows that once all old files have other names.
const PLACING: &str = " placing";
/// Longest note that is read.
const NOTE_BYTES_MAX: u64 = 64;

/// The folders of files that a repair may replace.
fn folders(folder: &dyn Folder) -> Result<Vec<std::sync::Arc<dyn Folder>>, PoolError> {
    match folder.existing_subfolder(CONTAINER_FOLDER) {
        Err(MediaError::NotFound { .. }) => Ok(Vec::new()),
        found => Ok(vec![found?]),
    }
}

/// Visit the folder of the pool and that of its containers.
fn each_folder(
    folder: &dyn Folder,
    visit: &mut dyn FnMut(&dyn Folder) -> Result<(), PoolError>,
) -> Result<(), PoolError> {
    visit(folder)?;
    folders(folder)?.iter().try_for_each(|inside| visit(&**inside))
}

/// Remove new files that never came to be used.
pub fn clear(folder: &dyn Folder) -> Result<(), PoolError> {
    each_folder(folder, &mut |folder| {
        for name in folder.list()?.iter().filter(|name| is_new(name)) {
            folder.remove(name)?;
        }
        Ok(())
    })
}

fn is_new(name: &str) -> bool {
    [NEW, SECOND, AGAIN].iter().any(|end| name.ends_with(end))
}

/// Write a new file under names of its own, durable but for the names.
pub fn write(
    folder: &dyn Folder,
    name: &str,
    fill: &mut dyn FnMut(&dyn Media) -> Result<(), PoolError>,
) -> Result<(), PoolError> {
    for end in [NEW, SECOND] {
        let media = folder.create(&format!("{name}{end}"))?;
        fill(&*media)?;
        media.sync()?;
    }
    Ok(())
}

/// All new files are written: make their names durable, and say so.
pub fn decide(folder: &dyn Folder) -> Result<(), PoolError> {
    each_folder(folder, &mut |folder| Ok(folder.sync_names()?))?;
    say(folder, free_number(folder)?, "")
}

/// Write the note, durably.
fn say(folder: &dyn Folder, number: u64, more: &str) -> Result<(), PoolError> {
    let note = format!("{NOTE}{number}{more}\n");
    Ok(small_file::replace(folder, REPAIR_FILE, note.as_bytes())?)
}

/// The first number that no old file bears.
fn free_number(folder: &dyn Folder) -> Result<u64, PoolError> {
    let mut number = 1;
    each_folder(folder, &mut |folder| {
        for name in folder.list()? {
            let found = name.rsplit_once(OLD).and_then(|(_, found)| found.parse::<u64>().ok());
            number = number.max(found.map_or(1, |found| found.saturating_add(1)));
        }
        Ok(())
    })?;
    Ok(number)
}

/// Whether a repair was decided on and is not in place.
pub fn is_decided(folder: &dyn Folder) -> Result<bool, PoolError> {
    match folder.open(REPAIR_FILE) {
        Err(MediaError::NotFound { .. }) => Ok(false),
        found => Ok(found.map(|_| true)?),
    }
}

/// Go on with putting new files in place. If the sync of the note's name failed, the power may take
/// it, with the pool half in place, and the next repair would clear the new files away: so it is
/// written again first.
pub fn resume(folder: &dyn Folder) -> Result<(), PoolError> {
    let (number, placing) = noted(folder)?;
    say(folder, number, if placing { PLACING } else { "" })?;
    finish(folder)
}

/// The number of the repair that the note is of, and whether all old files have other names.
fn noted(folder: &dyn Folder) -> Result<(u64, bool), PoolError> {
    // A note that was damaged since says as much: the new files are all there.
    let note = small_file::read(folder, REPAIR_FILE, NOTE_BYTES_MAX).unwrap_or_default();
    let said = std::str::from_utf8(&note).unwrap_or_default().trim_end();
    let number = said.trim_end_matches(PLACING).strip_prefix(NOTE);
    let number = number.and_then(|number| number.parse().ok());
    Ok((number.map_or_else(|| free_number(folder), Ok)?, said.ends_with(PLACING)))
}

/// Put the new files in place. What was done of it before is not done again.
pub fn finish(folder: &dyn Folder) -> Result<(), PoolError> {
    let (number, placing) = noted(folder)?;
    if !placing {
        each_folder(folder, &mut |folder| set_aside(folder, number))?;
        say(folder, number, PLACING)?;
    }
    each_folder(folder, &mut put)?;
    // Runs say where in its container each fingerprint is. They are made again.
    if let Ok(runs) = folder.existing_subfolder(FINGERPRINT_FOLDER) {
        for name in runs.list()? {
            runs.remove(&name)?;
        }
        runs.sync_names()?;
    }
    folder.remove(REPAIR_FILE)?;
    if let Err(error) = folder.sync_names() {
        // It may come back, and would keep a pool that was used since from being opened: so it is
        // there again until it can go for good. The first error is the one to tell.
        let _ = say(folder, number, PLACING);
        return Err(error.into());
    }
    Ok(())
}

/// Give old files that are replaced other names.
fn set_aside(folder: &dyn Folder, number: u64) -> Result<(), PoolError> {
    let names = folder.list()?;
    for new in names.iter().filter_map(|name| name.strip_suffix(NEW)) {
        if names.iter().any(|name| name == new) {
            folder.rename(new, &format!("{new}{OLD}{number}"))?;
        }
    }
    Ok(folder.sync_names()?)
}

/// Give new files the names that they are for. No old file has one of these any more.
fn put(folder: &dyn Folder) -> Result<(), PoolError> {
    let names = folder.list()?;
    let new: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(NEW)).collect();
    for name in &new {
        let second = format!("{name}{SECOND}");
        if names.contains(&second) {
            folder.rename(&second, name)?;
            continue;
        }
        // A power cut left neither name, or it has its own: whether that stays is in doubt, as it
        // may be that names could not be synced. Its space is enough for another one.
        let again = format!("{name}{AGAIN}");
        anew::remove_left_over(folder, [*name])?;
        copy(&*folder.open(&format!("{name}{NEW}"))?, &*folder.create(&again)?)?;
        folder.rename(&again, name)?;
    }
    folder.sync_names()?;
    for name in &new {
        folder.remove(&format!("{name}{NEW}"))?;
    }
    // A second one that is left, or what was copied of one, has its name by now.
    let is_left = |name: &&String| name.ends_with(SECOND) || name.ends_with(AGAIN);
    for name in names.iter().filter(is_left) {
        match folder.remove(name) {
            Err(MediaError::NotFound { .. }) => {}
            done => done?,
        }
    }
    Ok(folder.sync_names()?)
}

fn copy(from: &dyn Media, to: &dyn Media) -> Result<(), PoolError> {
    let (len, mut at) = (from.len()?, 0);
    let mut bytes = Vec::new();
    while let Some(data) = from.next_data(at)? {
        let from_here = data / COPY_BYTES as u64 * COPY_BYTES as u64;
        let upto = len.min(from_here + COPY_BYTES as u64);
        bytes.resize((upto - from_here) as usize, 0);
        from.read(from_here, &mut bytes)?;
        to.write(from_here, &bytes)?;
        at = upto;
    }
    to.set_len(len)?;
    Ok(to.sync()?)
}

#[cfg(test)]
mod tests {
    use onefold_block::SimFolder;

    use super::*;

    #[test]
    fn new_files_that_were_never_used_go_and_no_others() {
        let folder = SimFolder::new();
        let containers = folder.subfolder(CONTAINER_FOLDER).unwrap();
        let news = ["map.repaired", "map.repaired-second", "map.repaired-again"];
        let names = ["map", "map.before-repair-1"].into_iter().chain(news);
        for name in names {
            drop(folder.create(name).unwrap());
            drop(containers.create(name).unwrap());
        }
        clear(&folder).unwrap();
        for folder in [&folder as &dyn Folder, &*containers] {
            assert_eq!(folder.list().unwrap(), ["map", "map.before-repair-1"]);
        }
    }

    #[test]
    fn a_repair_is_numbered_after_all_whose_files_are_there() {
        let folder = SimFolder::new();
        assert_eq!(free_number(&folder).unwrap(), 1);
        let containers = folder.subfolder(CONTAINER_FOLDER).unwrap();
        let put = |folder: &dyn Folder, name: &str| drop(folder.create(name).unwrap());
        for name in ["map", "map.before-repair-", "map.before-repair-x", "7", "a-9"] {
            put(&folder, name);
        }
        assert_eq!(free_number(&folder).unwrap(), 1);
        put(&folder, "map.before-repair-1");
        assert_eq!(free_number(&folder).unwrap(), 2);
        put(&*containers, "00000001.container.before-repair-41");
        put(&folder, "journal.before-repair-3");
        assert_eq!(free_number(&folder).unwrap(), 42);
        put(&folder, "super.0.before-repair-18446744073709551615");
        assert_eq!(free_number(&folder).unwrap(), u64::MAX);
    }

    #[test]
    fn a_note_says_how_far_a_repair_came_and_a_damaged_one_that_it_was_decided_on() {
        let folder = SimFolder::new();
        drop(folder.create("map.before-repair-4").unwrap());
        assert!(!is_decided(&folder).unwrap());
        for placing in [false, true] {
            say(&folder, 7, if placing { PLACING } else { "" }).unwrap();
            assert!(is_decided(&folder).unwrap());
            assert_eq!(noted(&folder).unwrap(), (7, placing));
        }
        let long = [b"onefold repair 7".as_slice(), &[b' '; 60]].concat();
        for damaged in [&b""[..], b"onefold repair", b"onefold repair 7x", b"\xFF", &long] {
            folder.create(REPAIR_FILE).unwrap().write(0, damaged).unwrap();
            assert!(is_decided(&folder).unwrap());
            assert_eq!(noted(&folder).unwrap(), (5, false), "{damaged:?}");
        }
    }

    #[test]
    fn a_copy_has_all_that_is_there_and_its_length() {
        let folder = SimFolder::new();
        let from = folder.create("from").unwrap();
        // Across a border between two steps, and with nothing at the end.
        from.write(COPY_BYTES as u64 - 2, b"here").unwrap();
        from.set_len(2 * COPY_BYTES as u64 + 7).unwrap();
        let to = folder.create("to").unwrap();
        copy(&*from, &*to).unwrap();
        let bytes = |media: &dyn Media| {
            let mut bytes = vec![1; media.len().unwrap() as usize];
            media.read(0, &mut bytes).unwrap();
            bytes
        };
        assert!(bytes(&*from) == bytes(&*to));
        assert_eq!(to.len().unwrap(), 2 * COPY_BYTES as u64 + 7);
        // A file of one byte.
        let (from, to) = (folder.create("short").unwrap(), folder.create("copied").unwrap());
        from.write(0, b"x").unwrap();
        copy(&*from, &*to).unwrap();
        assert_eq!(bytes(&*to), b"x");
    }

    #[test]
    fn a_new_file_whose_second_name_was_lost_is_copied_to_its_own() {
        let folder = SimFolder::new();
        let write =
            |name: &str, bytes: &[u8]| folder.create(name).unwrap().write(0, bytes).unwrap();
        write(&format!("map{NEW}"), b"repaired");
        write("map", b"in doubt");
        write(&format!("journal{NEW}"), b"anew");
        write(&format!("journal{SECOND}"), b"anew");
        // What a power cut brought back.
        write(&format!("super.0{SECOND}"), b"anew");
        write(&format!("super.1{AGAIN}"), b"anew");
        put(&folder).unwrap();
        assert_eq!(folder.list().unwrap(), ["journal", "map"]);
        for (name, expected) in [("map", &b"repaired"[..]), ("journal", b"anew")] {
            let media = folder.open(name).unwrap();
            let mut bytes = vec![0; media.len().unwrap() as usize];
            media.read(0, &mut bytes).unwrap();
            assert_eq!(bytes, expected);
        }
    }
}
