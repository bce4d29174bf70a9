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
const MAGIC: &[u8; 8] = b"1FTIER\x02\n";
/// Largest state that is read, in bytes: some 50 million containers.
const BYTES_MAX: u64 = 1 << 30;

/// Highest count of a state: no cache gets there, and what follows has room. One that says more was
/// made to do harm.
const COUNTS_MAX: u64 = u64::MAX >> 1;

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

macro_rules! totals {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// What was counted, over all restarts.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TierTotals {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl TierTotals {
            fn numbers(&self) -> Vec<u64> {
                vec![$(self.$name),+]
            }

            fn from_numbers(numbers: &[u64]) -> Self {
                let mut numbers = numbers.iter().copied();
                Self { $($name: numbers.next().unwrap_or(0)),+ }
            }
        }
    };
}

totals! {
    /// Reads of containers that are not being filled.
    requests,
    /// Of these, served by the fast tier or from memory as a whole.
    hits,
    /// Bytes of all requests.
    bytes,
    /// Of these, served by the fast tier or from memory.
    hit_bytes,
    /// Bytes read from the slow store, for requests and to tell containers apart.
    slow_bytes,
    /// Bytes read from the fast device for requests, checksums included.
    fast_bytes,
    /// Extents that were put on the fast tier.
    writes,
    /// Bytes of these, as they lie there.
    admitted_bytes,
    /// Bytes of extents that were written once more, for their segment was written over.
    moved_bytes,
    /// Bytes written to the fast device: extents, headers and tables.
    written_bytes,
    /// Bytes of the policy's state that were written beside these.
    state_bytes,
    /// Extents that were let go because their segment was written over.
    dropped,
    /// Extents that were damaged, stale or unreadable; the slow store served instead.
    bad_copies,
    /// Segments that could not be written.
    failed_writes,
    /// Segments that were found torn when the cache was opened.
    torn_segments,
    /// Of the admitted bytes, those of new containers, which nobody had read.
    new_bytes,
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
    /// How the log lies on its device: bytes of a segment, and how many there are.
    pub shape: [u64; 2],
    /// Bytes that may be written in a day; 0: no limit.
    pub per_day: u64,
    /// What else was known: see [`super::decide::Decider::numbers`].
    pub known: Vec<u64>,
    /// What is wrong with the fast device, for people.
    pub problem: String,
}

/// Write a state, and make it durable if that is asked for. How many bytes it took.
pub fn write(
    folder: &dyn Folder,
    owner: &[u8; 16],
    saved: &Saved,
    durable: bool,
) -> Result<u64, MediaError> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(owner);
    let totals = saved.totals.numbers();
    let [policy, problem] = [&saved.policy, &saved.problem].map(String::as_bytes);
    let mut put = |number: u64| bytes.extend(number.to_le_bytes());
    put(saved.sequence);
    saved.shape.into_iter().for_each(&mut put);
    put(saved.per_day);
    for numbers in [&totals, &saved.known] {
        put(numbers.len() as u64);
        numbers.iter().copied().for_each(&mut put);
    }
    for text in [policy, problem] {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text);
    }
    bytes.extend(&saved.state);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    if durable {
        small_file::replace(folder, FILES[1], &bytes)?;
        return Ok(bytes.len() as u64);
    }
    // Torn by a power cut, it is told by its checksum, and the other one counts. A kill leaves
    // this one or the one before.
    let unfinished = format!("{}{}", FILES[0], small_file::UNFINISHED);
    folder.create(&unfinished)?.write(0, &bytes)?;
    folder.rename(&unfinished, FILES[0])?;
    Ok(bytes.len() as u64)
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
    let mut reader = Reader(rest);
    let sequence = reader.number()?;
    let shape = [reader.number()?, reader.number()?];
    let per_day = reader.number()?;
    let totals = TierTotals::from_numbers(&reader.numbers()?);
    let known = reader.numbers()?;
    let (policy, problem) = (reader.text()?, reader.text()?);
    let state = reader.0.to_vec();
    if sequence > COUNTS_MAX || totals.numbers().into_iter().any(|count| count > COUNTS_MAX) {
        return None;
    }
    Some(Saved { sequence, policy, totals, state, shape, per_day, known, problem })
}

/// What is left of the bytes of a state. Counts are held against it before they are believed.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn numbers(&mut self) -> Option<Vec<u64>> {
        let count = usize::try_from(self.number()?).ok()?;
        if count > self.0.len() / 8 {
            return None;
        }
        (0..count).map(|_| self.number()).collect()
    }

    fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SimFolder;

    use super::*;

    const OWNER: [u8; 16] = [3; 16];

    fn saved(sequence: u64) -> Saved {
        let totals = TierTotals { requests: 5, hits: 4, failed_writes: 1, ..TierTotals::default() };
        Saved {
            sequence,
            policy: "lru".to_owned(),
            totals,
            state: vec![1, 2, 3],
            shape: [1 << 20, 64],
            per_day: 9,
            known: vec![4, 5],
            problem: "none".to_owned(),
        }
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
            let expected = ([1 << 20, 64], 9, vec![4, 5], "none".to_owned());
            assert_eq!((found.shape, found.per_day, found.known, found.problem), expected);
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

    #[test]
    fn a_state_lies_in_its_file_as_it_always_did() {
        let folder = SimFolder::new();
        let len = write(&folder, &OWNER, &saved(6), true).unwrap();
        let media = folder.open(FILES[1]).unwrap();
        assert_eq!(media.len().unwrap(), len);
        let mut bytes = vec![0; len as usize];
        media.read(0, &mut bytes).unwrap();
        let mut expected = MAGIC.to_vec();
        expected.extend(OWNER);
        let totals = [5, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
        for number in [6, 1 << 20, 64, 9, 16].into_iter().chain(totals).chain([2, 4, 5]) {
            expected.extend(u64::to_le_bytes(number));
        }
        for text in ["lru", "none"] {
            expected.extend((text.len() as u64).to_le_bytes());
            expected.extend(text.as_bytes());
        }
        expected.extend([1, 2, 3]);
        expected.extend(crc32fast::hash(&expected).to_le_bytes());
        assert_eq!(bytes, expected);
        assert_eq!(write(&folder, &OWNER, &saved(7), false).unwrap(), len);
    }

    #[test]
    fn counts_that_no_state_can_have_are_refused() {
        for (count, fits) in [(COUNTS_MAX, true), (COUNTS_MAX + 1, false)] {
            let last = TierTotals { new_bytes: count, ..TierTotals::default() };
            for state in [Saved { totals: last, ..saved(6) }, saved(count)] {
                let folder = SimFolder::new();
                write(&folder, &OWNER, &state, true).unwrap();
                assert_eq!(read(&folder, &OWNER).is_some(), fits, "{count}");
            }
        }
        let mut reader = Reader(&[2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(reader.numbers(), None);
        let one = [1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Reader(&one).numbers(), Some(vec![7]));
        assert_eq!(Reader(&one[..15]).numbers(), None);
        assert_eq!(Reader(&[0; 8]).numbers(), Some(Vec::new()));
        assert_eq!(Reader(&[3, 0, 0, 0, 0, 0, 0, 0, b'a', b'b']).text(), None);
    }
}
