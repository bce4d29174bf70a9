//! The counters of a drive that survive it: two small files, written in turn.
//! Room: onefold-flash.   In: what this run counted.   Out: what all runs counted.
//! Invariants: the copy with the higher sequence number counts; a copy with a wrong checksum does
//! not. A power cut takes at most the counts since the last save.

use std::collections::BTreeMap;

use onefold_block::{Folder, MediaError, small_file};
use serde::{Deserialize, Serialize};

use super::host_counts::HostCounts;
use crate::ftl::Counters;
use crate::nand::bytes::NandHealth;
use crate::op::{Cause, OpKind};

/// The two copies.
pub(super) const FILES: [&str; 2] = ["health.0", "health.1"];
/// A copy that is longer was not written here; it takes no memory.
const BYTES_MAX: u64 = 1 << 20;

/// Most that all counts of a copy are together. No drive gets there, and what a run adds to them
/// has room: in a number of TOML, and in sums of some.
const COUNTS_MAX: u64 = 1 << 61;

/// Names of the kinds of operation, in reports.
const KINDS: [(OpKind, &str); 3] =
    [(OpKind::Read, "read"), (OpKind::Program, "program"), (OpKind::Erase, "erase")];

/// Everything counted since the drive was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedHealth {
    /// One more at every save.
    pub sequence: u64,
    /// When these counters began, in seconds since 1970, if that was not when the drive was made:
    /// earlier ones could not be read.
    pub since_unix_s: Option<u64>,
    /// Whether the drive was closed after this.
    pub clean: bool,
    /// Times that it was opened.
    pub power_cycles: u64,
    /// Times that it was opened after it had not been closed.
    pub unsafe_shutdowns: u64,
    /// Seconds that it was open.
    pub power_on_s: u64,
    /// Read requests of hosts.
    pub host_reads: u64,
    /// Bytes read by hosts.
    pub host_bytes_read: u64,
    /// Write requests of hosts.
    pub host_writes: u64,
    /// Bytes written by hosts.
    pub host_bytes_written: u64,
    /// Flushes by hosts.
    pub host_flushes: u64,
    /// Requests answered with an error.
    pub host_errors: u64,
    /// Pages that hosts wrote, whole or in part.
    pub pages_written: u64,
    /// Pages that hosts trimmed.
    pub pages_trimmed: u64,
    /// Pages shared instead of programmed.
    pub inline_pages: u64,
    /// Pages merged into others later.
    pub offline_pages: u64,
    /// What the flash did, by kind and cause.
    pub operations: BTreeMap<String, BTreeMap<String, u64>>,
    /// What the array counted.
    pub nand: NandHealth,
    /// How full the drive was.
    pub state: DriveState,
}

/// How full a drive is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveState {
    /// Logical pages that hosts can address.
    pub logical_pages: u64,
    /// Logical pages with data.
    pub mapped_pages: u64,
    /// Physical pages that hold them.
    pub data_pages: u64,
    /// Physical pages of these that several logical ones share.
    pub shared_pages: u64,
    /// Blocks out of use.
    pub bad_blocks: u64,
    /// Blocks of these that were bad from the start.
    pub factory_bad_blocks: u64,
    /// Good blocks that the drive cannot do without.
    pub needed_blocks: u64,
}

impl SavedHealth {
    /// What was counted before this run plus what this run counted.
    #[must_use]
    pub fn plus(&self, host: &HostCounts, ftl: &Counters, nand: &NandHealth) -> Self {
        let mut sum = self.clone();
        sum.host_reads += host.reads;
        sum.host_bytes_read += host.bytes_read;
        sum.host_writes += host.writes;
        sum.host_bytes_written += host.bytes_written;
        sum.host_flushes += host.flushes;
        sum.host_errors += host.errors;
        sum.pages_written += ftl.host_pages_written;
        sum.pages_trimmed += ftl.host_pages_trimmed;
        sum.inline_pages += ftl.inline_pages;
        sum.offline_pages += ftl.offline_pages;
        for (kind, name) in KINDS {
            let causes = sum.operations.entry(name.to_owned()).or_default();
            for cause in Cause::ALL {
                *causes.entry(cause.name().to_owned()).or_default() += ftl.ops.of(kind, cause);
            }
        }
        sum.nand = self.nand.plus(nand);
        sum
    }

    /// Operations of a kind for a cause.
    pub fn operations(&self, kind: &str, cause: Cause) -> u64 {
        self.operations.get(kind).and_then(|causes| causes.get(cause.name())).copied().unwrap_or(0)
    }

    /// Operations of a kind.
    pub fn all_operations(&self, kind: &str) -> u64 {
        self.operations.get(kind).map_or(0, |causes| causes.values().sum())
    }

    fn encode(&self) -> String {
        let body = toml::to_string(self).expect("counters are below 2^63 and names are text");
        format!("# CRC-32 of what follows: {:08x}\n{body}", crc32fast::hash(body.as_bytes()))
    }

    fn decode(text: &str) -> Option<Self> {
        let (first, body) = text.split_once('\n')?;
        let crc = u32::from_str_radix(first.rsplit_once(' ')?.1, 16).ok()?;
        if crc32fast::hash(body.as_bytes()) != crc {
            return None;
        }
        let sum = numbers(&toml::Value::Table(toml::from_str(body).ok()?))?;
        (sum <= COUNTS_MAX).then(|| toml::from_str(body).ok())?
    }

    /// Writes the copy that is older, durably.
    pub(super) fn save(&mut self, folder: &dyn Folder) -> Result<(), MediaError> {
        self.sequence += 1;
        let name = FILES[(self.sequence % 2) as usize];
        small_file::replace(folder, name, self.encode().as_bytes())
    }

    /// The newest copy that is whole, and why there may be a newer one: a copy that is there could
    /// not be read.
    pub(super) fn load(folder: &dyn Folder) -> (Option<Self>, Option<MediaError>) {
        let (mut newest, mut unread) = (None::<Self>, None);
        for name in FILES {
            match small_file::read(folder, name, BYTES_MAX) {
                Ok(text) => {
                    let saved = std::str::from_utf8(&text).ok().and_then(Self::decode);
                    newest = newest.into_iter().chain(saved).max_by_key(|saved| saved.sequence);
                }
                Err(MediaError::NotFound { .. }) => {}
                Err(error) => unread = Some(error),
            }
        }
        (newest, unread)
    }
}

/// The sum of all whole numbers; `None` if it is too large to be told.
fn numbers(value: &toml::Value) -> Option<u64> {
    match value {
        toml::Value::Integer(number) => u64::try_from(*number).ok(),
        toml::Value::Table(inner) => {
            inner.values().try_fold(0_u64, |sum, value| sum.checked_add(numbers(value)?))
        }
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SimFolder;

    use super::*;

    #[test]
    fn a_copy_that_claims_to_be_huge_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let folder = onefold_block::FileFolder::open(place.path()).unwrap();
        let mut health = SavedHealth::default();
        health.save(&folder).unwrap();
        health.save(&folder).unwrap();
        let newest = place.path().join(FILES[(health.sequence % 2) as usize]);
        let file = std::fs::File::options().write(true).open(newest).unwrap();
        if file.set_len(4 << 40).is_ok() {
            assert_eq!(SavedHealth::load(&folder).0.map(|saved| saved.sequence), Some(1));
        }
    }

    #[test]
    fn the_newest_whole_copy_counts() {
        let folder = SimFolder::new();
        assert_eq!(SavedHealth::load(&folder).0, None);
        let mut saved = SavedHealth { power_cycles: 1, ..SavedHealth::default() };
        saved.save(&folder).expect("saved");
        saved.power_cycles = 2;
        saved.save(&folder).expect("saved");
        assert_eq!(SavedHealth::load(&folder).0, Some(saved.clone()));
        folder.flip_bit(FILES[0], 100, 2).expect("flipped");
        let older = SavedHealth::load(&folder).0.expect("the other copy");
        assert_eq!((older.power_cycles, older.sequence), (1, 1));
        folder.flip_bit(FILES[1], 0, 2).expect("flipped");
        assert!(SavedHealth::load(&folder).0.is_some(), "comments do not matter");
        folder.flip_bit(FILES[1], 60, 2).expect("flipped");
        assert_eq!(SavedHealth::load(&folder).0, None);
    }

    /// A file may say anything, with the right checksum.
    #[test]
    fn counts_that_nobody_reaches_are_damage() {
        let read = |saved: SavedHealth| SavedHealth::decode(&saved.encode());
        let most = SavedHealth { host_bytes_read: COUNTS_MAX, ..SavedHealth::default() };
        assert_eq!(read(most.clone()), Some(most.clone()));
        assert_eq!(read(SavedHealth { sequence: 1, ..most.clone() }), None);
        let state = DriveState { needed_blocks: i64::MAX as u64, ..DriveState::default() };
        assert_eq!(read(SavedHealth { state, ..most.clone() }), None);
        let causes = |name: &str| BTreeMap::from([(name.to_owned(), i64::MAX as u64)]);
        let kinds = ["read", "program", "erase"].map(|kind| (kind.to_owned(), causes("gc")));
        let operations = BTreeMap::from(kinds);
        assert_eq!(read(SavedHealth { operations, ..SavedHealth::default() }), None);
        // What a run adds to the most that is read is saved.
        let host = HostCounts { bytes_read: COUNTS_MAX, ..HostCounts::default() };
        let mut sum = most.plus(&host, &Counters::default(), &NandHealth::default());
        sum.save(&SimFolder::new()).expect("saved");
    }

    #[test]
    fn counts_add_up_by_kind_and_cause() {
        let mut ftl = Counters { host_pages_written: 5, ..Counters::default() };
        ftl.ops.add(OpKind::Program, Cause::Gc);
        let host = HostCounts { bytes_written: 10, ..HostCounts::default() };
        let nand = NandHealth { erases: 3, ..NandHealth::default() };
        let once = SavedHealth::default().plus(&host, &ftl, &nand);
        let twice = once.plus(&host, &ftl, &nand);
        assert_eq!(twice.operations("program", Cause::Gc), 2);
        assert_eq!(twice.all_operations("program"), 2);
        assert_eq!((twice.pages_written, twice.host_bytes_written, twice.nand.erases), (10, 20, 6));
    }
}
