//! The generation of a store: a number that changes whenever writes that were acknowledged and not
//! flushed may have been lost, so that clients which connect again can be told.
//! Room: onefold-block.
//!
//! A small file beside the store's own says which generation it is, up to which one its losses were
//! accepted, and whether the store is open. It holds the same twice, at 0 and at 4096:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | version |
//! | 12 | 4 | 1 while the store is open, 0 once it was closed |
//! | 16 | 8 | how often it was written |
//! | 24 | 8 | the generation |
//! | 32 | 8 | the newest generation whose loss was accepted |
//! | 40 | 16 | UUID of the store |
//! | 56 | 16 | while it is open: the run of the machine, or zeroes if a kill loses writes |
//! | 72 | 4 | CRC-32 of what is before |
//!
//! Invariants: (1) while writes are acknowledged the file durably says that the store is open;
//! (2) a new generation is durable before anybody is served in it; (3) it never goes back: damage
//! to one copy changes nothing, and damage to both begins a generation that nobody has seen.

use std::sync::Arc;

use crate::bytes::{Reader, Writer};
use crate::media::{Folder, Media, MediaError};

/// The file.
pub const GENERATION_FILE: &str = "generation";
const MAGIC: [u8; 8] = *b"OFGENER\n";
const VERSION: u32 = 1;
const COPY_BYTES: usize = 76;
const COPIES_AT: [u64; 2] = [0, 4096];
/// The run of a machine that a store is open in, if a kill loses writes.
const UNKNOWN_BOOT: [u8; 16] = [0; 16];
const FILE_BYTES: u64 = COPIES_AT[1] + COPY_BYTES as u64;

/// Which generation a store is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its number, from 1 on.
    pub number: u64,
    /// The newest one whose loss somebody accepted.
    pub accepted: u64,
}

impl Generation {
    /// That of a new store.
    pub const FIRST: Self = Self { number: 1, accepted: 1 };

    /// Whether nobody has accepted yet that writes may have been lost.
    pub const fn is_unaccepted(&self) -> bool {
        self.accepted < self.number
    }
}

/// What became of writes that were acknowledged and not flushed when a store was open last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// There was memory of that process, and all of it was taken up.
    TakenUp,
    /// There was none.
    NothingFound,
    /// There was some, and not all of it could be used.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    open: bool,
    writes: u64,
    generation: Generation,
    boot: [u8; 16],
}

/// How a store was left before it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Closed in order, or just made.
    Closed,
    /// Open, during this run of the machine; zeroes if a kill loses writes.
    Open([u8; 16]),
    /// Nothing says how: the file is gone or damaged.
    Unknown,
}

/// The file of an open store.
pub struct GenerationFile {
    media: Arc<dyn Media>,
    owner: [u8; 16],
    said: Said,
    before: Before,
}

impl std::fmt::Debug for GenerationFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GenerationFile").field("said", &self.said).finish_non_exhaustive()
    }
}

fn encode(said: &Said, owner: &[u8; 16]) -> Vec<u8> {
    let mut writer = Writer(Vec::with_capacity(COPY_BYTES));
    writer.bytes(&MAGIC);
    writer.u32(VERSION);
    writer.u32(said.open.into());
    for number in [said.writes, said.generation.number, said.generation.accepted] {
        writer.bytes(&number.to_le_bytes());
    }
    writer.bytes(owner);
    writer.bytes(&said.boot);
    let check = crc32fast::hash(&writer.0);
    writer.u32(check);
    writer.0
}

/// The highest number of a write or a generation. A copy that says more was made to do harm: one
/// more would be none, and the older copy count as the newer.
const COUNTS_MAX: u64 = u64::MAX >> 1;

fn decode(bytes: &[u8], owner: &[u8; 16]) -> Option<Said> {
    let (body, check) = bytes.split_last_chunk::<4>()?;
    let mut reader = Reader::new(body);
    let known = reader.array::<8>() == Some(MAGIC) && reader.u32() == Some(VERSION);
    if !known || crc32fast::hash(body) != u32::from_le_bytes(*check) {
        return None;
    }
    let open = reader.u32()? != 0;
    let mut number = || reader.array().map(u64::from_le_bytes);
    let (writes, number, accepted) = (number()?, number()?, number()?);
    if reader.array::<16>()? != *owner || writes.max(number) > COUNTS_MAX {
        return None;
    }
    Some(Said { open, writes, generation: Generation { number, accepted }, boot: reader.array()? })
}

/// The newer of both copies; `None` if neither can be read.
fn newest(media: &dyn Media, owner: &[u8; 16]) -> Option<Said> {
    let read = |at: u64| {
        let mut bytes = vec![0; COPY_BYTES];
        media.read(at, &mut bytes).ok()?;
        decode(&bytes, owner)
    };
    COPIES_AT.into_iter().filter_map(read).max_by_key(|said| said.writes)
}

impl GenerationFile {
    /// What a store says of its generation, changing nothing; `None` if it says nothing readable.
    pub fn read(folder: &dyn Folder, owner: &[u8; 16]) -> Option<Generation> {
        let media = folder.open(GENERATION_FILE).ok()?;
        newest(&*media, owner).map(|said| said.generation)
    }

    /// What is wrong with the file of a store that nobody has open, if anything is.
    ///
    /// # Errors
    /// [`MediaError`] where it cannot be read.
    pub fn problem(
        folder: &dyn Folder,
        owner: &[u8; 16],
    ) -> Result<Option<&'static str>, MediaError> {
        let media = match folder.open(GENERATION_FILE) {
            Err(MediaError::NotFound { .. }) => return Ok(Some("it is missing")),
            media => media?,
        };
        if media.len()? != FILE_BYTES {
            return Ok(Some("it has another length than it was written with"));
        }
        let mut bytes = vec![0; FILE_BYTES as usize];
        media.read(0, &mut bytes)?;
        let (first, second) = bytes.split_at(COPIES_AT[1] as usize);
        let (first, between) = first.split_at(COPY_BYTES);
        let whole = |copy: &[u8]| decode(copy, owner).is_some();
        let sound = whole(first) && whole(second) && between.iter().all(|&byte| byte == 0);
        Ok((!sound).then_some("part of it is damaged, or another store's"))
    }

    /// Make the file of a new store, whatever an interrupted making has left there.
    ///
    /// # Errors
    /// [`MediaError`] of the folder.
    pub fn create(folder: &dyn Folder, owner: [u8; 16]) -> Result<Self, MediaError> {
        let generation = Generation::FIRST;
        let said = Said { open: false, writes: 0, generation, boot: UNKNOWN_BOOT };
        let media = folder.create(GENERATION_FILE)?;
        let mut file = Self { media, owner, said, before: Before::Closed };
        file.write(said)?;
        folder.sync_names()?;
        Ok(file)
    }

    /// What a file is to hold whose store was repaired and has lost something: closed, and one
    /// generation on. Changes nothing. `unseen` as for [`GenerationFile::open`].
    ///
    /// # Errors
    /// [`MediaError`] of the folder.
    pub fn after_loss(
        folder: &dyn Folder,
        owner: [u8; 16],
        unseen: u64,
    ) -> Result<Vec<u8>, MediaError> {
        let said = match folder.open(GENERATION_FILE) {
            Err(MediaError::NotFound { .. }) => None,
            media => newest(&*media?, &owner),
        };
        let (writes, generation) = said.map_or_else(
            || (1, Generation { number: unseen.max(2), accepted: 0 }),
            |said| {
                let Generation { number, accepted } = said.generation;
                (said.writes + 1, Generation { number: number.saturating_add(1), accepted })
            },
        );
        let copy = encode(&Said { open: false, writes, generation, boot: UNKNOWN_BOOT }, &owner);
        let mut bytes = vec![0; FILE_BYTES as usize];
        for at in COPIES_AT {
            bytes[at as usize..][..COPY_BYTES].copy_from_slice(&copy);
        }
        Ok(bytes)
    }

    /// The file in a store's folder. Where it is gone or damaged, the generation becomes `unseen`:
    /// a number that the store cannot have had.
    ///
    /// # Errors
    /// [`MediaError`] of the folder.
    pub fn open(folder: &dyn Folder, owner: [u8; 16], unseen: u64) -> Result<Self, MediaError> {
        let media = match folder.open(GENERATION_FILE) {
            Err(MediaError::NotFound { .. }) => {
                let media = folder.create(GENERATION_FILE)?;
                folder.sync_names()?;
                media
            }
            media => media?,
        };
        let (said, before) = match newest(&*media, &owner) {
            Some(said) if said.open => (said, Before::Open(said.boot)),
            Some(said) => (said, Before::Closed),
            None => {
                let generation = Generation { number: unseen.max(2), accepted: 0 };
                let said = Said { open: false, writes: 0, generation, boot: UNKNOWN_BOOT };
                (said, Before::Unknown)
            }
        };
        Ok(Self { media, owner, said, before })
    }

    /// The store is as its former process left it, as far as that is possible: begin a new
    /// generation if writes may have been lost; whether that was so. `boot` is this run of the
    /// machine, where that is known.
    ///
    /// # Errors
    /// [`MediaError`]; the store must not be served then.
    pub fn settle(
        &mut self,
        survival: Survival,
        boot: Option<[u8; 16]>,
    ) -> Result<bool, MediaError> {
        let lost = match self.before {
            Before::Closed => false,
            Before::Open(then) => {
                survival != Survival::TakenUp || then == UNKNOWN_BOOT || Some(then) != boot
            }
            Before::Unknown => true,
        };
        let mut generation = self.said.generation;
        // Where nothing is known, one has begun already.
        generation.number += u64::from(lost && self.before != Before::Unknown);
        if lost || self.said.open {
            self.write(Said { open: false, generation, ..self.said })?;
        }
        Ok(lost)
    }

    /// Writes are acknowledged from now on; `boot` is this run of the machine if they survive the
    /// death of the process.
    ///
    /// # Errors
    /// [`MediaError`]; the store must not be served then.
    pub fn begin(&mut self, boot: Option<[u8; 16]>) -> Result<(), MediaError> {
        self.write(Said { open: true, boot: boot.unwrap_or(UNKNOWN_BOOT), ..self.said })
    }

    /// Everything acknowledged is durable.
    ///
    /// # Errors
    /// [`MediaError`]; the next opening takes it for a loss then.
    pub fn end(&mut self) -> Result<(), MediaError> {
        self.write(Said { open: false, boot: UNKNOWN_BOOT, ..self.said })
    }

    /// Somebody knows that writes may have been lost.
    ///
    /// # Errors
    /// [`MediaError`].
    pub fn accept(&mut self) -> Result<(), MediaError> {
        let number = self.said.generation.number;
        if self.said.generation.accepted == number {
            return Ok(());
        }
        let generation = Generation { number, accepted: number };
        self.write(Said { generation, ..self.said })
    }

    /// Which it is.
    pub const fn current(&self) -> Generation {
        self.said.generation
    }

    /// One copy after the other, so that a power cut leaves the state before or after.
    fn write(&mut self, said: Said) -> Result<(), MediaError> {
        let said = Said { writes: self.said.writes + 1, ..said };
        let bytes = encode(&said, &self.owner);
        for at in COPIES_AT {
            self.media.write(at, &bytes)?;
            self.media.sync()?;
        }
        self.said = said;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim_media::{CrashMode, SimFolder};

    const OWNER: [u8; 16] = [5; 16];
    const BOOT: Option<[u8; 16]> = Some([1; 16]);

    fn new_store() -> SimFolder {
        let folder = SimFolder::new();
        GenerationFile::create(&folder, OWNER).unwrap();
        folder
    }

    fn open(folder: &SimFolder) -> GenerationFile {
        GenerationFile::open(folder, OWNER, 1000).unwrap()
    }

    /// Open the store after `survival` and serve it; its generation.
    fn serve(folder: &SimFolder, survival: Survival, boot: Option<[u8; 16]>) -> u64 {
        let mut file = open(folder);
        file.settle(survival, boot).unwrap();
        file.begin(boot).unwrap();
        assert_eq!(GenerationFile::read(folder, &OWNER), Some(file.current()));
        file.current().number
    }

    #[test]
    fn a_copy_with_numbers_that_nothing_could_follow_is_none() {
        for (writes, number, fits) in [
            (COUNTS_MAX, 1, true),
            (COUNTS_MAX + 1, 1, false),
            (1, COUNTS_MAX, true),
            (1, COUNTS_MAX + 1, false),
        ] {
            let generation = Generation { number, accepted: 1 };
            let copy = encode(&Said { open: false, writes, generation, boot: [0; 16] }, &OWNER);
            assert_eq!(decode(&copy, &OWNER).is_some(), fits, "{writes}, {number}");
        }
    }

    #[test]
    fn after_a_loss_it_is_closed_and_one_generation_on() {
        let folder = new_store();
        let open = |bytes: &[u8], unseen| {
            let folder = SimFolder::new();
            folder.create(GENERATION_FILE).unwrap().write(0, bytes).unwrap();
            assert_eq!(GenerationFile::problem(&folder, &OWNER).unwrap(), None);
            let mut file = GenerationFile::open(&folder, OWNER, unseen).unwrap();
            assert!(!file.settle(Survival::NothingFound, BOOT).unwrap(), "it was closed");
            (file.said.writes, file.current())
        };
        let before = GenerationFile::open(&folder, OWNER, 7).unwrap().said.writes;
        let bytes = GenerationFile::after_loss(&folder, OWNER, 7).unwrap();
        let next = Generation { number: 2, accepted: 1 };
        assert_eq!(open(&bytes, 7), (before + 1, next));
        // Where there is none, a number that nobody has seen.
        for (unseen, number) in [(0, 2), (2, 2), (7, 7)] {
            let bytes = GenerationFile::after_loss(&SimFolder::new(), OWNER, unseen).unwrap();
            assert_eq!(open(&bytes, 99), (1, Generation { number, accepted: 0 }));
        }
    }

    #[test]
    fn a_file_that_was_missing_is_there_for_good_once_it_is_opened() {
        let folder = SimFolder::new();
        let mut file = GenerationFile::open(&folder, OWNER, 9).unwrap();
        assert!(file.settle(Survival::NothingFound, BOOT).unwrap());
        let settled = GenerationFile::read(&folder.after_crash(1, CrashMode::KeepNothing), &OWNER);
        assert_eq!(settled, Some(Generation { number: 9, accepted: 0 }));
        file.accept().unwrap();
        let left = folder.after_crash(1, CrashMode::KeepNothing);
        let said = GenerationFile::read(&left, &OWNER);
        assert_eq!(said, Some(Generation { number: 9, accepted: 9 }));
    }

    #[test]
    fn it_changes_when_writes_may_be_lost_and_not_otherwise() {
        use Survival::{Lost, NothingFound, TakenUp};
        let folder = new_store();
        assert_eq!(serve(&folder, NothingFound, BOOT), 1, "a new store");
        assert_eq!(serve(&folder, TakenUp, BOOT), 1, "killed, and everything is there");
        open(&folder).end().unwrap();
        assert_eq!(serve(&folder, NothingFound, Some([2; 16])), 1, "closed, then another boot");
        assert_eq!(serve(&folder, TakenUp, Some([3; 16])), 2, "open, and another boot");
        assert_eq!(serve(&folder, NothingFound, Some([3; 16])), 3, "the memory is gone");
        assert_eq!(serve(&folder, Lost, Some([3; 16])), 4, "the memory is damaged");
        assert_eq!(serve(&folder, TakenUp, None), 5, "nobody knows which boot it is");
        assert_eq!(serve(&folder, NothingFound, None), 6, "killed without memory");
        assert_eq!(serve(&folder, TakenUp, Some([0; 16])), 7, "zeroes are no run of a machine");
    }

    #[test]
    fn the_file_holds_what_the_table_says_twice() {
        let folder = new_store();
        serve(&folder, Survival::NothingFound, BOOT);
        serve(&folder, Survival::Lost, Some([9; 16]));
        let media = folder.open(GENERATION_FILE).unwrap();
        assert_eq!(media.len().unwrap(), 4096 + 76);
        let mut expected = b"OFGENER\n\x01\0\0\0\x01\0\0\0".to_vec();
        // Made, begun, settled and begun again: four times.
        for number in [4u64, 2, 1] {
            expected.extend(number.to_le_bytes());
        }
        expected.extend([5; 16]);
        expected.extend([9; 16]);
        expected.extend(crc32fast::hash(&expected).to_le_bytes());
        for at in [0, 4096] {
            let mut found = vec![0; 76];
            media.read(at, &mut found).unwrap();
            assert_eq!(found, expected, "at {at}");
        }
        let operations = folder.op_count();
        let mut file = open(&folder);
        file.accept().unwrap();
        assert_eq!(folder.op_count(), operations + 4, "two writes, each synced");
        file.accept().unwrap();
        assert_eq!(folder.op_count(), operations + 4, "once is enough");
    }

    #[test]
    fn an_unseen_generation_is_never_the_first() {
        let folder = SimFolder::new();
        for (unseen, number) in [(0, 2), (1, 2), (2, 2), (3, 3)] {
            let file = GenerationFile::open(&folder, OWNER, unseen).unwrap();
            assert_eq!(file.current(), Generation { number, accepted: 0 });
        }
    }

    #[test]
    fn a_loss_is_accepted_once_and_until_the_next_one() {
        let folder = new_store();
        serve(&folder, Survival::NothingFound, BOOT);
        assert!(!open(&folder).current().is_unaccepted());
        assert_eq!(serve(&folder, Survival::Lost, BOOT), 2);
        let mut file = open(&folder);
        assert!(file.current().is_unaccepted());
        file.accept().unwrap();
        let accepted = Generation { number: 2, accepted: 2 };
        assert_eq!(GenerationFile::read(&folder, &OWNER), Some(accepted));
        serve(&folder, Survival::Lost, BOOT);
        assert_eq!(open(&folder).current(), Generation { number: 3, accepted: 2 });
    }

    #[test]
    fn one_damaged_copy_changes_nothing_and_two_begin_an_unseen_generation() {
        let folder = new_store();
        let problem = |folder: &SimFolder| GenerationFile::problem(folder, &OWNER).unwrap();
        assert_eq!(problem(&folder), None);
        serve(&folder, Survival::NothingFound, BOOT);
        assert_eq!(problem(&folder), None);
        for at in 0..COPY_BYTES as u64 {
            for copy in COPIES_AT {
                folder.flip_bit(GENERATION_FILE, copy + at, 2).unwrap();
                assert!(problem(&folder).is_some(), "byte {at}");
                assert_eq!(open(&folder).current(), Generation::FIRST, "byte {at}");
                folder.flip_bit(GENERATION_FILE, copy + at, 2).unwrap();
            }
        }
        for copy in COPIES_AT {
            folder.flip_bit(GENERATION_FILE, copy + 24, 0).unwrap();
        }
        assert_eq!(GenerationFile::read(&folder, &OWNER), None);
        let mut file = open(&folder);
        assert!(file.settle(Survival::TakenUp, BOOT).unwrap(), "nobody knows what was lost");
        assert_eq!(open(&folder).current(), Generation { number: 1000, accepted: 0 });
        folder.truncate(GENERATION_FILE, 0).unwrap();
        assert!(problem(&folder).is_some());
        assert!(open(&folder).current().is_unaccepted(), "an empty file is no new store's");
        folder.remove(GENERATION_FILE).unwrap();
        assert_eq!(problem(&folder), Some("it is missing"));
        assert!(open(&folder).current().is_unaccepted(), "nor is none at all");
        let other = GenerationFile::read(&folder, &[6; 16]);
        assert_eq!(other, None, "another store's");
    }

    #[test]
    fn a_power_cut_at_any_moment_leaves_the_state_before_or_after() {
        for cut in 1.. {
            let folder = new_store();
            serve(&folder, Survival::NothingFound, BOOT);
            folder.crash_at(folder.op_count() + cut);
            let mut file = open(&folder);
            let done = file.settle(Survival::Lost, BOOT).and_then(|_| file.begin(BOOT));
            let finished = done.is_ok();
            for mode in [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything] {
                let found = open(&folder.after_crash(cut, mode)).current().number;
                assert!(found == 2 || found == 1 && !finished, "cut {cut}: {found}");
            }
            if finished {
                assert!(cut > 4, "every write and sync was cut");
                break;
            }
        }
    }
}
