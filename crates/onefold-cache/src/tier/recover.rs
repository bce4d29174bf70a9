//! What the fast device still holds when a tier is opened: segments, oldest first, and the policy's
//! state with them.
//! Room: onefold-cache.
//! Invariants: (1) of what lies there twice the newer counts  (2) extents of a container are of one
//! stamp, which is held against the container before the first of them is used  (3) policy and
//! index keep the same extents.

use std::collections::{BTreeMap, HashMap, HashSet};

use onefold_block::Media;

use super::decide::Decider;
use super::extent::Extent;
use super::log::Shape;
use super::saved::Saved;
use super::segment::{self, Entry, HEADER_BYTES};
use crate::state::{Entry as StateEntry, State};

/// What was found.
#[derive(Default)]
pub struct Found {
    /// What each container was known by when its extents were written.
    pub stamps: HashMap<u32, u64>,
    /// Segments that were torn or damaged.
    pub torn: u64,
}

/// Bytes of a segment, as the first one says.
pub fn segment_bytes(media: &dyn Media, owner: &[u8; 16]) -> Option<u32> {
    let mut bytes = [0; HEADER_BYTES as usize];
    media.read(0, &mut bytes).ok()?;
    Some(segment::header(&bytes, owner)?.segment_bytes)
}

/// Read the tables of all segments into the log. Extents of containers that are not `present` are
/// left out.
pub fn read_log(
    media: &dyn Media,
    owner: &[u8; 16],
    decider: &mut Decider,
    present: &HashSet<u32>,
) -> Found {
    let shape = decider.log.shape();
    let mut found = Found::default();
    let mut segments = BTreeMap::new();
    for slot in 0..shape.segments {
        match read_table(media, owner, shape, slot) {
            Some(Ok((sequence, entries))) => {
                segments.insert(sequence, (slot, entries));
            }
            Some(Err(())) => found.torn += 1,
            None => {}
        }
    }
    for (sequence, (slot, entries)) in segments {
        decider.log.found_segment(slot, sequence);
        for Entry { extent, offset, stamp } in entries {
            if !present.contains(&extent.container) {
                continue;
            }
            // A container of this number that was there before.
            if found.stamps.insert(extent.container, stamp).is_some_and(|before| before != stamp) {
                for kept in decider.log.index.of_container(extent.container) {
                    decider.log.remove(kept.extent.key());
                }
            }
            decider.log.found(extent, shape.place(slot, offset));
        }
    }
    found
}

/// The table of a segment; `None` if nothing was ever written there, an error if it is torn.
fn read_table(
    media: &dyn Media,
    owner: &[u8; 16],
    shape: Shape,
    slot: u32,
) -> Option<Result<(u64, Vec<Entry>), ()>> {
    let base = u64::from(slot) * u64::from(shape.segment_bytes);
    let mut bytes = [0; HEADER_BYTES as usize];
    media.read(base, &mut bytes).ok()?;
    if bytes.iter().all(|&byte| byte == 0) {
        return None;
    }
    let header = segment::header(&bytes, owner);
    let header = header.filter(|header| header.segment_bytes == shape.segment_bytes);
    let table = header.and_then(|header| {
        let range = header.table();
        let mut table = vec![0; (range.end - range.start) as usize];
        media.read(base + range.start, &mut table).ok()?;
        Some((header.sequence, segment::entries(&table, &header)?))
    });
    Some(table.ok_or(()))
}

/// Give the policy what it knew, and have it keep what is in the log and nothing else.
pub fn warm(decider: &mut Decider, saved: Option<&Saved>) {
    let mut state = decider.policy().export();
    let mut known_sequence = 0;
    if let Some(saved) = saved {
        known_sequence = decider.restore(&saved.known);
        match State::from_bytes(&saved.state) {
            Ok(kept) if kept.policy == state.policy => {
                state = State { capacity: state.capacity, ..kept }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("what the cache's policy knew is lost: {error}"),
        }
    }
    let at_hand: BTreeMap<u64, (Extent, u64)> = decider
        .log
        .index
        .iter()
        .map(|kept| (kept.extent.key(), (kept.extent, decider.log.sequence_at(kept.place))))
        .collect();
    let entries = entries_of(&state, &at_hand, known_sequence);
    decider.take_over(State { entries, ..state });
    for &key in at_hand.keys() {
        if !decider.policy().contains(key) {
            decider.log.remove(key);
        }
    }
}

/// What the policy kept and the log has, and what was put into the log since that was saved.
fn entries_of(
    state: &State,
    at_hand: &BTreeMap<u64, (Extent, u64)>,
    known_sequence: u64,
) -> Vec<StateEntry> {
    let mut entries = Vec::new();
    let mut known = HashSet::new();
    for entry in &state.entries {
        if let Some((extent, _)) = at_hand.get(&entry.key)
            && known.insert(entry.key)
        {
            entries.push(StateEntry { size: extent.flash_bytes(), ..*entry });
        }
    }
    for (&key, (extent, sequence)) in at_hand {
        // What is older and unknown was let go.
        if !known.contains(&key) && *sequence >= known_sequence {
            entries.push(StateEntry { key, size: extent.flash_bytes(), word: 0, list: 0 });
        }
    }
    entries
}

#[cfg(test)]
mod tests;
