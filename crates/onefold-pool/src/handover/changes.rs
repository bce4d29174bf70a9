//! Map changes in memory that outlives the process.
//! Room: onefold-pool.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 52 | mark: whose it is |
//! | 64 | 8 | epoch: the newest checkpoint known to be durable, as a checked number |
//! | 72 | 8 | checksum of the checkpoint that is being written, and its number; else 0 |
//! | 128, 192 | 32 each | of each area: bytes that count, order, 1 if something is missing, epoch |
//! | 4096 | 2 x 2 MiB | the areas |
//!
//! An area's epoch is the checkpoint that its changes follow: the newest, or the one that is being
//! written, once that is frozen. A checked number has 48 bits and 16 of a checksum above them.
//!
//! An area is a row of records: length (4), CRC-32 of order, place and payload (4), payload.
//! A payload is that of a journal frame. A flush takes what is in both areas, and changes that come
//! while it writes go to the other one; once its frame is durable the older area is empty again. A
//! change may thus be in a durable frame *and* here: to repeat it, with all that follow it, changes
//! nothing.

use onefold_block::handover::{Handover, MARK_BYTES, Region, Unmarked};

use super::{CHANGES_NAME, mark};
use crate::error::PoolError;

const MAGIC: [u8; 8] = *b"OFKEPTJ\n";
const EPOCH_AT: usize = 64;
const WRITING_AT: usize = 72;
/// Twice what makes a write flush, and what many writers at once can add before one does.
const AREA_BYTES: usize = 2 << 20;
const AREAS_AT: usize = 4096;
const REGION_BYTES: usize = AREAS_AT + 2 * AREA_BYTES;
const RECORD_HEAD_BYTES: usize = 8;

/// Where a number of an area is.
const fn place_of(area: usize, number: usize) -> usize {
    128 + 64 * area + number
}

const USED: usize = 0;
const ORDER: usize = 8;
const MISSING: usize = 16;
const FOLLOWS: usize = 24;
const CHECKED_BITS: u32 = 48;
const CHECKED: u64 = (1 << CHECKED_BITS) - 1;

/// A number that shows damage to it.
fn checked(number: u64) -> u64 {
    let number = number & CHECKED;
    number | u64::from(crc32fast::hash(&number.to_le_bytes())) << CHECKED_BITS
}

/// The number, unless it is damaged.
fn unchecked(word: u64) -> Option<u64> {
    let number = word & CHECKED;
    (checked(number) == word).then_some(number)
}

/// What tells a checkpoint from another with its number.
const fn writing(sequence: u64, check: u32) -> u64 {
    (check as u64) << 32 | sequence as u32 as u64
}

/// Changes that are not known to be durable.
pub struct Changes {
    region: Region,
    epoch: u64,
    current: usize,
    /// Of each area.
    used: [usize; 2],
    order: [u64; 2],
    missing: [bool; 2],
}

/// What a former process left.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The checkpoint that all of it follows.
    pub epoch: u64,
    /// Payloads, in order.
    pub payloads: Vec<Vec<u8>>,
    /// Why there may have been more, if so.
    pub missing: Option<&'static str>,
}

fn check_of(order: u64, at: usize, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    let mut head = [0; 16];
    head[..8].copy_from_slice(&order.to_le_bytes());
    head[8..].copy_from_slice(&(at as u64).to_le_bytes());
    hasher.update(&head);
    hasher.update(payload);
    hasher.finalize()
}

impl Changes {
    /// An empty region.
    pub fn create(handover: &dyn Handover, uuid: &[u8; 16], epoch: u64) -> Result<Self, PoolError> {
        let mut region = handover.create(CHANGES_NAME, REGION_BYTES)?;
        region.publish(EPOCH_AT, checked(epoch));
        let mark = mark(MAGIC, uuid, handover.boot());
        region.bytes_mut()[..MARK_BYTES].copy_from_slice(&mark.bytes());
        let mut changes =
            Self { region, epoch, current: 0, used: [0; 2], order: [0; 2], missing: [false; 2] };
        changes.open_area(1, 0);
        changes.open_area(0, 1);
        Ok(changes)
    }

    fn open_area(&mut self, area: usize, order: u64) {
        self.current = area;
        self.order[area] = order;
        self.region.publish(place_of(area, FOLLOWS), checked(self.epoch));
        self.region.publish(place_of(area, ORDER), order);
    }

    fn empty(&mut self, area: usize) {
        self.region.publish(place_of(area, USED), 0);
        self.used[area] = 0;
        if std::mem::take(&mut self.missing[area]) {
            self.region.publish(place_of(area, MISSING), 0);
        }
    }

    /// Keep changes that the map has taken.
    pub fn record(&mut self, payload: &[u8]) {
        let (area, at) = (self.current, self.used[self.current]);
        let end = at + RECORD_HEAD_BYTES + payload.len();
        if self.missing[area] || end > AREA_BYTES {
            // A flush is overdue. What comes after something that is missing counts for nothing.
            if !std::mem::replace(&mut self.missing[area], true) {
                self.region.publish(place_of(area, MISSING), 1);
            }
            return;
        }
        let check = check_of(self.order[area], at, payload);
        let start = AREAS_AT + area * AREA_BYTES;
        let record = &mut self.region.bytes_mut()[start + at..start + end];
        record[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        record[4..8].copy_from_slice(&check.to_le_bytes());
        record[8..].copy_from_slice(payload);
        self.used[area] = end;
        self.region.publish(place_of(area, USED), end as u64);
    }

    /// A flush took everything so far; what comes next goes to the other area, if that is empty.
    pub fn taken(&mut self) {
        let (now, other) = (self.current, 1 - self.current);
        let is_free = self.used[other] == 0 && !self.missing[other];
        if is_free && self.used[now] > 0 {
            self.open_area(other, self.order[now] + 1);
        }
    }

    /// What the last flush took is durable.
    pub fn durable(&mut self) {
        self.empty(1 - self.current);
    }

    /// Checkpoint `sequence` is frozen, with everything that was taken: changes from now on follow
    /// it, if it comes to be. The area that they go to is empty, because the flush before this left
    /// one that is.
    pub fn freeze(&mut self, sequence: u64) {
        debug_assert_eq!(self.used[self.current], 0);
        self.region.publish(place_of(self.current, FOLLOWS), checked(sequence));
    }

    /// That checkpoint is about to be written, with this checksum.
    pub fn writing(&mut self, sequence: u64, check: u32) {
        self.region.publish(WRITING_AT, writing(sequence, check));
    }

    /// The newest checkpoint is `epoch`: the one that was frozen, or still the one before.
    pub fn thaw(&mut self, epoch: u64) {
        if epoch == self.epoch {
            self.region.publish(place_of(self.current, FOLLOWS), checked(epoch));
        } else {
            self.epoch = epoch;
            self.region.publish(EPOCH_AT, checked(epoch));
        }
        self.region.publish(WRITING_AT, 0);
    }

    /// Whether the dead process was writing checkpoint `sequence`, which has this checksum.
    pub fn was_writing(region: &Region, sequence: u64, check: u32) -> bool {
        region.number(WRITING_AT) == writing(sequence, check)
            && unchecked(region.number(EPOCH_AT)).is_some_and(|epoch| epoch + 1 == sequence)
    }

    /// Do what that process did not come to: the checkpoint is durable, and its journal has begun.
    pub fn has_written(region: &mut Region, sequence: u64) {
        region.publish(EPOCH_AT, checked(sequence));
    }

    /// What a region holds; an error says why it counts for nothing.
    pub fn left(region: &Region, uuid: &[u8; 16], boot: [u8; 16]) -> Result<Left, Unmarked> {
        mark(MAGIC, uuid, boot).check(region, 0)?;
        if region.bytes().len() != REGION_BYTES {
            return Err(Unmarked::CutShort);
        }
        let Some(epoch) = unchecked(region.number(EPOCH_AT)) else {
            return Err(Unmarked::Damaged);
        };
        let mut left = Left { epoch, ..Left::default() };
        let mut areas = [0, 1];
        areas.sort_by_key(|&area| region.number(place_of(area, ORDER)));
        for area in areas {
            match unchecked(region.number(place_of(area, FOLLOWS))) {
                // What it holds, the checkpoint has too.
                Some(follows) if follows < epoch => continue,
                Some(follows) if follows <= epoch + 1 => {}
                _ => {
                    left.missing = Some("part of it is damaged");
                    break;
                }
            }
            if !area_records(region, area, &mut left.payloads) {
                left.missing = Some("part of it is damaged");
            } else if region.number(place_of(area, MISSING)) != 0 {
                left.missing = Some("there was no room for all of it");
            } else {
                continue;
            }
            break;
        }
        Ok(left)
    }
}

/// Add the payloads of an area; false if a record is damaged.
fn area_records(region: &Region, area: usize, payloads: &mut Vec<Vec<u8>>) -> bool {
    let start = AREAS_AT + area * AREA_BYTES;
    let bytes = &region.bytes()[start..start + AREA_BYTES];
    let order = region.number(place_of(area, ORDER));
    let Some(used) = usize::try_from(region.number(place_of(area, USED)))
        .ok()
        .and_then(|used| bytes.get(..used))
    else {
        return false;
    };
    let mut at = 0;
    while at < used.len() {
        let Some(head) = used.get(at..at + RECORD_HEAD_BYTES) else { return false };
        let word = |from: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| head[from + n]));
        let from = at + RECORD_HEAD_BYTES;
        let Some(payload) = used.get(from..from + word(0) as usize) else { return false };
        if check_of(order, at, payload) != word(4) {
            return false;
        }
        payloads.push(payload.to_vec());
        at = from + payload.len();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_block::handover::SimHandover;

    const UUID: [u8; 16] = [3; 16];

    fn left(memory: &SimHandover) -> Result<Left, Unmarked> {
        let region = memory.open(CHANGES_NAME).unwrap();
        Changes::left(&region, &UUID, memory.boot())
    }

    fn payloads(memory: &SimHandover) -> String {
        let left = left(memory).unwrap();
        left.payloads.iter().map(|payload| payload[0] as char).collect()
    }

    fn record(changes: &mut Changes, what: &str) {
        what.bytes().for_each(|byte| changes.record(&[byte; 8]));
    }

    #[test]
    fn what_is_not_durable_is_kept_in_order_through_flushes_that_fail_and_succeed() {
        let memory = SimHandover::new();
        let mut changes = Changes::create(&memory, &UUID, 5).unwrap();
        record(&mut changes, "ab");
        assert_eq!(payloads(&memory), "ab");
        changes.taken();
        record(&mut changes, "cd");
        assert_eq!(payloads(&memory), "abcd", "nothing is durable yet");
        // That flush fails, and the next takes all.
        changes.taken();
        record(&mut changes, "e");
        assert_eq!(payloads(&memory), "abcde");
        changes.durable();
        assert_eq!(payloads(&memory), "cde", "more than needed, in order");
        changes.taken();
        record(&mut changes, "f");
        assert_eq!(payloads(&memory), "cdef", "the area that is first in place is the newer one");
        changes.durable();
        assert_eq!(payloads(&memory), "f");
    }

    #[test]
    fn what_comes_after_a_freeze_follows_the_checkpoint_that_comes_to_be() {
        for durable in [false, true] {
            let memory = SimHandover::new();
            let mut changes = Changes::create(&memory, &UUID, 5).unwrap();
            record(&mut changes, "ab");
            changes.taken();
            changes.freeze(6);
            record(&mut changes, "cd");
            assert_eq!(payloads(&memory), "abcd", "it is not durable");
            changes.durable();
            changes.writing(6, 77);
            assert_eq!(payloads(&memory), "cd");
            let killed = memory.after_kill();
            let mut region = killed.open(CHANGES_NAME).unwrap();
            assert!(Changes::was_writing(&region, 6, 77));
            assert!(!Changes::was_writing(&region, 6, 78), "another of that number");
            assert!(!Changes::was_writing(&region, 7, 77));
            Changes::has_written(&mut region, 6);
            drop(region);
            assert_eq!((left(&killed).unwrap().epoch, payloads(&killed)), (6, "cd".to_owned()));
            changes.thaw(if durable { 6 } else { 5 });
            let region = memory.after_kill().open(CHANGES_NAME).unwrap();
            assert!(!Changes::was_writing(&region, 6, 77), "it is over");
            let epoch = if durable { 6 } else { 5 };
            assert_eq!(region.number(place_of(1, FOLLOWS)), checked(epoch));
            record(&mut changes, "e");
            let left = left(&memory).unwrap();
            assert_eq!((left.epoch, payloads(&memory)), (epoch, "cde".to_owned()));
            changes.taken();
            record(&mut changes, "f");
            changes.durable();
            assert_eq!(payloads(&memory), "f");
        }
    }

    #[test]
    fn an_area_is_filled_to_its_last_byte_and_what_comes_then_is_missing() {
        let memory = SimHandover::new();
        let mut changes = Changes::create(&memory, &UUID, 5).unwrap();
        changes.record(&vec![b'x'; AREA_BYTES - RECORD_HEAD_BYTES - 16]);
        changes.record(&[b'y'; 8]);
        let found = left(&memory).unwrap();
        assert_eq!((found.payloads.len(), found.missing), (2, None));
        changes.record(b"");
        assert!(left(&memory).unwrap().missing.is_some(), "at once");
    }

    #[test]
    fn damage_to_an_areas_numbers_is_noticed() {
        let memory = SimHandover::new();
        let mut changes = Changes::create(&memory, &UUID, 5).unwrap();
        record(&mut changes, "ab");
        for (at, believed) in [(USED, 2), (ORDER, 0)] {
            let hurt = memory.after_kill();
            hurt.damage(CHANGES_NAME, place_of(0, at) as u64, 4);
            let found = left(&hurt).unwrap();
            assert_eq!((found.payloads.len(), found.missing.is_some()), (believed, true), "{at}");
        }
    }

    #[test]
    fn a_record_counts_at_its_own_place_alone() {
        let memory = SimHandover::new();
        let mut changes = Changes::create(&memory, &UUID, 5).unwrap();
        record(&mut changes, "abc");
        let torn = memory.after_kill();
        let mut region = torn.open(CHANGES_NAME).unwrap();
        region.bytes_mut().copy_within(AREAS_AT + 32..AREAS_AT + 48, AREAS_AT + 16);
        drop(region);
        assert_eq!(payloads(&torn), "a", "what was the third is not the second");
        assert!(left(&torn).unwrap().missing.is_some());
    }

    #[test]
    fn an_area_follows_the_newest_checkpoint_or_the_one_after_it() {
        for (follows, believed) in
            [(4, (0, false)), (5, (1, false)), (6, (1, false)), (7, (0, true))]
        {
            let memory = SimHandover::new();
            let mut changes = Changes::create(&memory, &UUID, 5).unwrap();
            changes.freeze(follows);
            record(&mut changes, "a");
            let found = left(&memory).unwrap();
            assert_eq!((found.payloads.len(), found.missing.is_some()), believed, "{follows}");
        }
    }

    #[test]
    fn damage_to_an_epoch_is_noticed() {
        let memory = SimHandover::new();
        let mut changes = Changes::create(&memory, &UUID, 5).unwrap();
        record(&mut changes, "ab");
        for at in 0..8 {
            let hurt = memory.after_kill();
            hurt.damage(CHANGES_NAME, (EPOCH_AT + at) as u64, 2);
            assert!(left(&hurt).is_err(), "byte {at} of the region's");
            let hurt = memory.after_kill();
            hurt.damage(CHANGES_NAME, (place_of(0, FOLLOWS) + at) as u64, 2);
            let found = left(&hurt).unwrap();
            assert!(found.missing.is_some() && found.payloads.is_empty(), "byte {at} of an area's");
        }
    }

    #[test]
    fn what_does_not_fit_is_missing_until_a_flush_has_it() {
        let memory = SimHandover::new();
        let mut changes = Changes::create(&memory, &UUID, 5).unwrap();
        let large = vec![b'x'; 300 << 10];
        for _ in 0..8 {
            changes.record(&large);
        }
        record(&mut changes, "y");
        let found = left(&memory).unwrap();
        assert_eq!((found.payloads.len(), found.missing.is_some()), (6, true));
        changes.taken();
        record(&mut changes, "z");
        assert_eq!(left(&memory).unwrap().payloads.len(), 6, "nothing after what is missing");
        changes.durable();
        assert_eq!(payloads(&memory), "z");
        assert_eq!(left(&memory).unwrap().missing, None);
    }

    #[test]
    fn every_damaged_byte_of_a_record_cuts_what_is_believed() {
        let memory = SimHandover::new();
        let mut changes = Changes::create(&memory, &UUID, 5).unwrap();
        record(&mut changes, "abc");
        for at in 0..48 {
            let torn = memory.after_kill();
            torn.damage(CHANGES_NAME, (AREAS_AT + at) as u64, 0x10);
            let found = left(&torn).unwrap();
            assert!(found.missing.is_some() && found.payloads.len() == at / 16, "byte {at}");
        }
        for at in [0, 9, 20, 40, 50] {
            let torn = memory.after_kill();
            torn.damage(CHANGES_NAME, at, 1);
            assert!(left(&torn).is_err(), "byte {at} of the mark");
        }
        assert_eq!(left(&memory.after_boot()), Err(Unmarked::OtherBoot));
    }
}
