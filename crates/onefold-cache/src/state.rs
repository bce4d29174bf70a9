//! The saved state of a policy: what is cached, in which order, and what was counted.
//! Room: onefold-cache.   In: [`Parts`].   Out: bytes, checked before they are believed.
//! Invariants: (1) a policy that took over a state decides from then on as the one that gave it
//! (2) a state with a bit changed is refused.
//! Format: "1FCACHE" and version, then little-endian fields, then the CRC-32 of all before it.

use thiserror::Error;

use crate::index::hash_of;
use crate::objects::{NONE, Objects};
use crate::parts::Parts;

const MAGIC: &[u8; 8] = b"1FCACHE\x01";

/// Why a saved state was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StateError {
    /// Not the bytes of a state.
    #[error("no saved cache state: {what} at byte {at}")]
    Format {
        /// What was wrong.
        what: &'static str,
        /// Where.
        at: usize,
    },
    /// Of another policy.
    #[error("saved by policy `{got}`: expected `{expected}`")]
    Policy {
        /// Who saved it.
        got: String,
        /// Who is asked to take it over.
        expected: String,
    },
    /// More than fits.
    #[error("{got} bytes are cached in the saved state: at most {capacity} fit")]
    TooLarge {
        /// Bytes saved.
        got: u64,
        /// Bytes that fit.
        capacity: u64,
    },
    /// One object twice.
    #[error("object {key} is cached twice in the saved state")]
    Twice {
        /// Which object.
        key: u64,
    },
    /// A list that the policy does not have.
    #[error("object {key} is in list {list} of the saved state, which the policy does not have")]
    List {
        /// Which list.
        list: u32,
        /// Which object.
        key: u64,
    },
    /// Made with other settings.
    #[error("the saved state has {got} {what}, this policy has {expected}: other settings?")]
    Shape {
        /// Of what.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many there should be.
        expected: usize,
    },
}

/// A cached object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which object.
    pub key: u64,
    /// Its size in bytes.
    pub size: u32,
    /// The policy's bits.
    pub word: u32,
    /// Number of its list.
    pub list: u32,
}

/// Everything a policy knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Name of the policy.
    pub policy: String,
    /// Bytes that may be cached.
    pub capacity: u64,
    /// Cached objects, list by list, the oldest first.
    pub entries: Vec<Entry>,
    /// Everything else, as rows of numbers whose meaning is the policy's.
    pub sections: Vec<Vec<u64>>,
}

impl State {
    pub(crate) fn new(policy: &str, capacity: u64) -> Self {
        Self { policy: policy.to_owned(), capacity, entries: Vec::new(), sections: Vec::new() }
    }

    /// The keys that are cached.
    pub fn keys(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|entry| entry.key)
    }

    pub(crate) fn check(&self, policy: &str, capacity: u64) -> Result<(), StateError> {
        if self.policy != policy {
            let (got, expected) = (self.policy.clone(), policy.to_owned());
            return Err(StateError::Policy { got, expected });
        }
        let got = self.entries.iter().map(|entry| u64::from(entry.size)).sum();
        if got > capacity {
            return Err(StateError::TooLarge { got, capacity });
        }
        let mut keys: Vec<u64> = self.keys().collect();
        keys.sort_unstable();
        match keys.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(StateError::Twice { key: pair[0] }),
            None => Ok(()),
        }
    }

    /// The state as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut put = |value: u64| bytes.extend(value.to_le_bytes());
        put(self.capacity);
        put(self.policy.len() as u64);
        put(self.entries.len() as u64);
        put(self.sections.len() as u64);
        bytes.extend(self.policy.as_bytes());
        for entry in &self.entries {
            bytes.extend(entry.key.to_le_bytes());
            for value in [entry.size, entry.word, entry.list] {
                bytes.extend(value.to_le_bytes());
            }
        }
        for section in &self.sections {
            bytes.extend((section.len() as u64).to_le_bytes());
            bytes.extend(section.iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// The state that these bytes hold.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let wrong = |what, at| StateError::Format { what, at };
        let (body, sum) = bytes.split_last_chunk::<4>().ok_or(wrong("too short", 0))?;
        if !body.starts_with(MAGIC) {
            return Err(wrong("unknown beginning", 0));
        }
        if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
            return Err(wrong("wrong checksum", body.len()));
        }
        let mut reader = Reader { bytes: body, at: MAGIC.len() };
        let capacity = reader.number()?;
        let [name, entries, sections] = [reader.count(1)?, reader.count(20)?, reader.count(8)?];
        let name = reader.take(name)?;
        let policy = std::str::from_utf8(name).map_err(|_| wrong("name not UTF-8", 40))?;
        let mut state = Self::new(policy, capacity);
        for _ in 0..entries {
            let key = reader.number()?;
            let [size, word, list] = [reader.word()?, reader.word()?, reader.word()?];
            state.entries.push(Entry { key, size, word, list });
        }
        for _ in 0..sections {
            let length = reader.count(8)?;
            let section = (0..length).map(|_| reader.number()).collect::<Result<_, _>>()?;
            state.sections.push(section);
        }
        if reader.at == body.len() { Ok(state) } else { Err(wrong("bytes too many", reader.at)) }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], StateError> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(StateError::Format { what: "too short", at: self.at })?;
        self.at += count;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, StateError> {
        let bytes = self.take(4)?.try_into().expect("four bytes were taken");
        Ok(u32::from_le_bytes(bytes))
    }

    fn number(&mut self) -> Result<u64, StateError> {
        let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
        Ok(u64::from_le_bytes(bytes))
    }

    /// A number of things that take at least `each` bytes, so that no false one takes memory.
    fn count(&mut self, each: usize) -> Result<usize, StateError> {
        let count = self.number()?;
        let most = (self.bytes.len() - self.at) / each;
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(StateError::Format { what: "count too large", at: self.at - 8 }),
        }
    }
}

/// Adds the parts of a policy; its lists are those of the cache.
pub fn save(state: &mut State, objects: &Objects, parts: &mut Parts<'_>, lists: bool) {
    for (number, list) in parts.lists.iter().enumerate().filter(|_| lists) {
        state.entries.extend(objects.iter(list).map(|id| Entry {
            key: objects.key(id),
            size: objects.size(id),
            word: objects.word(id),
            list: number as u32,
        }));
    }
    for hand in &parts.hands {
        state.sections.push(match **hand {
            NONE => Vec::new(),
            id => vec![objects.key(id)],
        });
    }
    state.sections.extend(parts.ghosts.iter().map(|ghost| ghost.hashes()));
    for table in &parts.counts {
        let flat = table.save().into_iter().flat_map(|(key, bits)| [key, bits]);
        state.sections.push(flat.collect());
    }
    if !parts.numbers.is_empty() {
        state.sections.push(parts.numbers.iter().map(|number| **number).collect());
    }
    state.sections.extend(parts.bytes.iter().map(|bytes| bytes_to_numbers(bytes)));
    for (objects, list) in &parts.histories {
        let rows = objects.iter(list).flat_map(|id| {
            let (size, word) = (u64::from(objects.size(id)), u64::from(objects.word(id)));
            [objects.key(id), size << 32 | word]
        });
        state.sections.push(rows.collect());
    }
}

fn bytes_to_numbers(bytes: &[u8]) -> Vec<u64> {
    let mut numbers = vec![bytes.len() as u64];
    numbers.extend(bytes.chunks(8).map(|piece| {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        u64::from_le_bytes(word)
    }));
    numbers
}

/// Sets the parts of a policy from the next sections.
pub fn load<'a>(
    sections: &mut impl Iterator<Item = &'a Vec<u64>>,
    objects: &Objects,
    parts: &mut Parts<'_>,
) -> Result<(), StateError> {
    let mut next = || {
        let missing = StateError::Shape { what: "sections", got: 0, expected: 1 };
        sections.next().ok_or(missing)
    };
    for hand in &mut parts.hands {
        let found = next()?.first().map(|&key| objects.find(key, hash_of(key)));
        **hand = found.flatten().unwrap_or(NONE);
    }
    for ghost in &mut parts.ghosts {
        while ghost.pop().is_some() {}
        let hashes = next()?;
        for &hash in hashes {
            ghost.push(hash, hashes.len());
        }
    }
    for table in &mut parts.counts {
        for (key, _) in table.save() {
            table.load(key, 0);
        }
        next()?.chunks_exact(2).for_each(|pair| table.load(pair[0], pair[1]));
    }
    if !parts.numbers.is_empty() {
        let (saved, expected) = (next()?, parts.numbers.len());
        if saved.len() != expected {
            return Err(StateError::Shape { what: "numbers", got: saved.len(), expected });
        }
        parts.numbers.iter_mut().zip(saved).for_each(|(number, saved)| **number = *saved);
    }
    for bytes in &mut parts.bytes {
        let (saved, expected) = (next()?, bytes.len());
        let got = saved.first().map_or(0, |&length| length as usize);
        if got != expected || saved.len() != 1 + expected.div_ceil(8) {
            return Err(StateError::Shape { what: "bytes of a sketch", got, expected });
        }
        let all = saved[1..].iter().flat_map(|number| number.to_le_bytes());
        bytes.iter_mut().zip(all).for_each(|(byte, saved)| *byte = saved);
    }
    for (objects, list) in &mut parts.histories {
        while let Some(id) = list.front() {
            objects.unlink(list, id);
            objects.delete(id);
        }
        for row in next()?.chunks_exact(2) {
            let (hash, size) = (hash_of(row[0]), (row[1] >> 32) as u32);
            if objects.find(row[0], hash).is_some() {
                return Err(StateError::Twice { key: row[0] });
            }
            let id = objects.add(row[0], hash, size);
            *objects.word_mut(id) = row[1] as u32;
            objects.push_back(list, id);
        }
    }
    Ok(())
}
