//! What a tiered store keeps over a restart: the policy's state and what was counted.
//! Room: onefold-cache.
//! Two files: one is written often and left to the system, the other seldom and made durable, so
//! that there is always one. Nothing here is trusted with data: a lost or old state costs hits,
//! never more.

use onefold_block::{Folder, LockError, MediaError, small_file};
use thiserror::Error;

use crate::options::OptionError;

/// The file that is written often, and the one that is made durable.
pub const FILES: [&str; 2] = ["state.0", "state.1"];
const MAGIC: &[u8; 8] = b"1FTIER\x01\n";
/// Largest state that is read, in bytes: some 50 million containers.
const BYTES_MAX: u64 = 1 << 30;

/// Why a tiered store cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TierError {
    /// The policy's text.
    #[error(transparent)]
    Policy(#[from] OptionError),
    /// The policy needs what only a simulation has.
    #[error("policy `{0}` has to know the future: it is for simulations only")]
    Offline(String),
    /// Another cache uses the folder.
    #[error("cache folder: {0}")]
    Locked(#[from] LockError),
    /// The folder holds something that is not this store's cache.
    #[error("cache folder: {0}; nothing is written into it: name another folder, or empty it")]
    NotACache(String),
    /// The folder failed.
    #[error("cache folder: {0}")]
    Media(#[from] MediaError),
    /// The slow store failed.
    #[error(transparent)]
    Store(#[from] onefold_block::StoreError),
}

/// What was counted, over all restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierTotals {
    /// Reads of containers that are not being filled.
    pub requests: u64,
    /// Of these, served by the fast tier or from memory.
    pub hits: u64,
    /// Bytes of all requests.
    pub bytes: u64,
    /// Bytes of hits.
    pub hit_bytes: u64,
    /// Copies written to the fast tier.
    pub writes: u64,
    /// Bytes of these, checksums included.
    pub written_bytes: u64,
    /// Copies that were damaged, stale or unreadable; the slow store served instead.
    pub bad_copies: u64,
    /// Copies that could not be written.
    pub failed_writes: u64,
}

impl TierTotals {
    const COUNT: usize = 8;

    fn numbers(&self) -> [u64; Self::COUNT] {
        let Self { requests, hits, bytes, hit_bytes, .. } = *self;
        let Self { writes, written_bytes, bad_copies, failed_writes, .. } = *self;
        [requests, hits, bytes, hit_bytes, writes, written_bytes, bad_copies, failed_writes]
    }

    fn from_numbers(numbers: [u64; Self::COUNT]) -> Self {
        let [requests, hits, bytes, hit_bytes, writes, written_bytes, bad_copies, failed_writes] =
            numbers;
        Self { requests, hits, bytes, hit_bytes, writes, written_bytes, bad_copies, failed_writes }
    }
}

/// A saved state.
pub struct Saved {
    /// One more at every save.
    pub sequence: u64,
    /// The policy's text.
    pub policy: String,
    /// What was counted.
    pub totals: TierTotals,
    /// The policy's state.
    pub state: Vec<u8>,
}

/// Write a state, and make it durable if that is asked for.
pub fn write(
    folder: &dyn Folder,
    owner: &[u8; 16],
    saved: &Saved,
    durable: bool,
) -> Result<(), MediaError> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(owner);
    bytes.extend(saved.sequence.to_le_bytes());
    for number in saved.totals.numbers() {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend((saved.policy.len() as u64).to_le_bytes());
    bytes.extend(saved.policy.as_bytes());
    bytes.extend(&saved.state);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    if durable {
        return small_file::replace(folder, FILES[1], &bytes);
    }
    // Torn by a power cut, it is told by its checksum, and the other one counts. A kill leaves
    // this one or the one before.
    let unfinished = format!("{}{}", FILES[0], small_file::UNFINISHED);
    folder.create(&unfinished)?.write(0, &bytes)?;
    folder.rename(&unfinished, FILES[0])
}

/// The newest readable state of this owner, if there is one.
pub fn read(folder: &dyn Folder, owner: &[u8; 16]) -> Option<Saved> {
    let files = FILES.iter().filter_map(|name| {
        let media = folder.open(name).ok()?;
        let len = media.len().ok().filter(|&len| len <= BYTES_MAX)?;
        let mut bytes = vec![0; len as usize];
        media.read(0, &mut bytes).ok()?;
        decode(&bytes, owner)
    });
    files.max_by_key(|saved| saved.sequence)
}

fn decode(bytes: &[u8], owner: &[u8; 16]) -> Option<Saved> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    let rest = body.strip_prefix(MAGIC)?.strip_prefix(owner)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let mut rest = rest;
    let mut number = || {
        let (word, after) = rest.split_first_chunk::<8>()?;
        rest = after;
        Some(u64::from_le_bytes(*word))
    };
    let sequence = number()?;
    let mut numbers = [0; TierTotals::COUNT];
    for slot in &mut numbers {
        *slot = number()?;
    }
    let policy_bytes = usize::try_from(number()?).ok()?;
    let (policy, state) = rest.split_at_checked(policy_bytes)?;
    let policy = String::from_utf8(policy.to_vec()).ok()?;
    let totals = TierTotals::from_numbers(numbers);
    Some(Saved { sequence, policy, totals, state: state.to_vec() })
}

#[cfg(test)]
mod tests {
    use onefold_block::SimFolder;

    use super::*;

    const OWNER: [u8; 16] = [3; 16];

    fn saved(sequence: u64) -> Saved {
        let totals = TierTotals { requests: 5, hits: 4, failed_writes: 1, ..TierTotals::default() };
        Saved { sequence, policy: "lru".to_owned(), totals, state: vec![1, 2, 3] }
    }

    #[test]
    fn the_newer_of_the_two_counts_whichever_it_is() {
        for [quick, durable] in [[5, 4], [4, 5]] {
            let folder = SimFolder::new();
            write(&folder, &OWNER, &saved(quick), false).unwrap();
            write(&folder, &OWNER, &saved(durable), true).unwrap();
            let found = read(&folder, &OWNER).unwrap();
            assert_eq!((found.sequence, found.policy.as_str()), (5, "lru"));
            assert_eq!((found.totals, found.state), (saved(5).totals, vec![1, 2, 3]));
            assert!(read(&folder, &[4; 16]).is_none(), "another owner's");
        }
    }

    #[test]
    fn any_flipped_bit_or_cut_is_noticed_and_the_other_one_counts() {
        let folder = SimFolder::new();
        write(&folder, &OWNER, &saved(4), true).unwrap();
        write(&folder, &OWNER, &saved(5), false).unwrap();
        let media = folder.open(FILES[0]).unwrap();
        let mut whole = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut whole).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged, &OWNER).is_none(), "bit {bit}");
        }
        for len in 0..whole.len() {
            assert!(decode(&whole[..len], &OWNER).is_none(), "cut to {len}");
        }
        folder.flip_bit(FILES[0], 40, 2).unwrap();
        assert_eq!(read(&folder, &OWNER).unwrap().sequence, 4);
    }
}
