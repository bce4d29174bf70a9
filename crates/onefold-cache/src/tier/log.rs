//! The fast device as a log of segments: where extents go, which segment is written over next, and
//! which of its extents are worth being written once more. Decides; moves no byte.
//! Room: onefold-cache.
//! Source: [cachelib-20]: segments are written from end to end and let go as a whole, and what was
//! used since it was written goes to the new end.
//! Invariant: what is moved is at most [`MOVED_PER_MILLE`] of what is put there.

use super::extent::{ALIGN, EXTENT_MAX, Extent};
use super::index::{Index, Kept, Place, USES_MAX};
use super::segment::{HEADER_BYTES, TABLE_ENTRY_BYTES};

/// Segments that a log has at least: one is being filled, and one goes at a time.
pub const SEGMENTS_MIN: u32 = 8;
/// Segments that a log is cut into, where these are neither too small nor too large.
const SEGMENTS: u64 = 64;
const SEGMENT_BYTES_MIN: u64 = 192 << 10;
const SEGMENT_BYTES_MAX: u64 = 16 << 20;
/// Bytes that may be written once more, per thousand bytes that are put into the log.
pub const MOVED_PER_MILLE: u64 = 90;

/// How a log lies on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// How many there are.
    pub segments: u32,
}

impl Shape {
    /// For so many bytes.
    pub fn of(bytes: u64) -> Self {
        let each = (bytes / SEGMENTS).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX) / 4096 * 4096;
        Self { segment_bytes: each as u32, segments: SEGMENTS_MIN }.resized(bytes)
    }

    /// Whether segments are ever of so many bytes: what was kept may say anything.
    pub fn is_of_segments(bytes: u32) -> bool {
        let sizes = SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX;
        sizes.contains(&u64::from(bytes)) && bytes.is_multiple_of(4096)
    }

    /// Segments of the same size in so many bytes. What places can tell of ends at 2 TiB.
    pub fn resized(self, bytes: u64) -> Self {
        let most = u64::from(u32::MAX - 1) * u64::from(ALIGN);
        let segments = bytes.min(most) / u64::from(self.segment_bytes);
        Self { segments: (segments as u32).max(SEGMENTS_MIN), ..self }
    }

    /// The place of an offset in a segment.
    pub const fn place(self, slot: u32, offset: u32) -> Place {
        Place(self.places(slot).start + offset / ALIGN)
    }

    /// Segments, from the first, that lie where they lay if the log lies otherwise: none, if they
    /// are of another size.
    pub const fn left_by(self, other: Self) -> u32 {
        if self.segment_bytes == other.segment_bytes { other.segments } else { 0 }
    }

    /// Bytes of the device.
    pub const fn bytes(self) -> u64 {
        self.segment_bytes as u64 * self.segments as u64
    }

    /// Bytes of extents that a policy may count on: a segment is being filled, one was let go, and
    /// the ends of the others are no longer than an extent.
    pub fn usable_bytes(self) -> u64 {
        let each = u64::from(self.segment_bytes - HEADER_BYTES);
        each * u64::from(self.segments - 2) / 32 * 31
    }

    /// The places inside of a segment.
    pub const fn places(self, slot: u32) -> std::ops::Range<u32> {
        let each = self.segment_bytes / ALIGN;
        slot * each..(slot + 1) * each
    }

    /// The segment of a place, and the offset in it.
    pub const fn at(self, place: Place) -> (u32, u32) {
        let each = self.segment_bytes / ALIGN;
        (place.0 / each, place.0 % each * ALIGN)
    }
}

/// What has to be done on the device, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The segment that was being filled is full: write it.
    Seal {
        /// Where.
        slot: u32,
    },
    /// Fill this segment from now on.
    Open {
        /// Where.
        slot: u32,
        /// Its number in the order of all that were ever opened.
        sequence: u64,
    },
    /// An extent leaves with the segment that is written over.
    Drop(Kept),
    /// An extent of the segment that is written over goes to the one being filled.
    Move {
        /// The extent and where it was.
        from: Kept,
        /// The sequence number of the segment that it was in.
        sequence: u64,
        /// Where it goes.
        to: Place,
    },
    /// A new extent goes there.
    Put {
        /// The extent.
        extent: Extent,
        /// Where it goes.
        to: Place,
    },
}

/// A segment: empty, filled or being filled.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    /// 0: empty.
    sequence: u64,
    /// Bytes of extents that are still kept, and of these, of those used since they were written.
    live: u32,
    used: u32,
}

impl Segment {
    const fn is_empty(&self) -> bool {
        self.sequence == 0
    }
}

/// The segment that is being filled.
#[derive(Clone, Copy, Debug)]
struct Filling {
    slot: u32,
    end: u32,
    extents: u32,
}

/// The log.
pub struct Log {
    /// Where each extent lies.
    pub index: Index,
    shape: Shape,
    segments: Vec<Segment>,
    filling: Option<Filling>,
    /// Segments that hold nothing and never did since the log was begun, or were lost.
    empty: u32,
    sequence: u64,
    /// Bytes that may be moved, times 1,000.
    purse: u64,
}

impl Log {
    /// An empty log.
    pub fn new(shape: Shape) -> Self {
        let segments = vec![Segment::default(); shape.segments as usize];
        let (empty, sequence, purse) = (shape.segments, 0, 0);
        Self { index: Index::default(), shape, segments, filling: None, empty, sequence, purse }
    }

    /// Whether a segment can be filled for which nothing has to leave.
    pub const fn has_empty_segment(&self) -> bool {
        self.empty > 0
    }

    /// How it lies on its device.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether there is a segment that is being filled.
    pub const fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// Lie otherwise from now on. What lay past the new end is kept no longer, the segment that is
    /// being filled among it.
    pub fn resize(&mut self, shape: Shape) -> Vec<Kept> {
        let left = self.shape.left_by(shape).min(self.shape.segments);
        self.filling.take_if(|filling| filling.slot >= left);
        let past = self.shape.places(left).start..self.shape.places(self.shape.segments).start;
        let gone = self.index.placed(past);
        for kept in &gone {
            self.remove(kept.extent.key());
        }
        self.segments.truncate(left as usize);
        self.segments.resize(shape.segments as usize, Segment::default());
        self.empty = self.segments.iter().map(|segment| u32::from(segment.is_empty())).sum();
        self.shape = shape;
        gone
    }

    /// The number of the newest segment.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number of the segment that holds a place.
    pub fn sequence_at(&self, place: Place) -> u64 {
        let (slot, _) = self.shape.at(place);
        self.segments.get(slot as usize).map_or(0, |segment| segment.sequence)
    }

    /// Bytes of the device that kept extents take.
    #[cfg(test)]
    pub fn live_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.live)).sum()
    }

    /// A segment was found on the device; its extents follow.
    pub fn found_segment(&mut self, slot: u32, sequence: u64) {
        if let Some(segment) = self.segments.get_mut(slot as usize) {
            self.empty -= u32::from(segment.is_empty());
            *segment = Segment { sequence, ..Segment::default() };
            self.sequence = self.sequence.max(sequence);
        }
    }

    /// An extent was found in a segment that is newer than all before: what it overlaps is older
    /// and goes.
    pub fn found(&mut self, extent: Extent, place: Place) {
        while let Some(kept) = self.overlapping(extent) {
            self.remove(kept.extent.key());
        }
        let kept = Kept { extent, place, uses: 0 };
        if self.index.insert(&kept) {
            self.add_live(&kept, 1);
        }
    }

    fn overlapping(&self, extent: Extent) -> Option<Kept> {
        let Extent { container, start, .. } = extent;
        let next = self.index.next(container, start);
        let next = next.filter(|next| next.extent.start < extent.end());
        self.index.covering(container, start).or(next).or_else(|| self.index.by_key(extent.key()))
    }

    fn add_live(&mut self, kept: &Kept, sign: i64) {
        if kept.place == Place::HELD {
            return;
        }
        let (slot, _) = self.shape.at(kept.place);
        let bytes = i64::from(kept.extent.flash_bytes()) * sign;
        if let Some(segment) = self.segments.get_mut(slot as usize) {
            segment.live = (i64::from(segment.live) + bytes) as u32;
            if kept.uses > 0 {
                segment.used = (i64::from(segment.used) + bytes) as u32;
            }
        }
    }

    /// An extent was used.
    pub fn touch(&mut self, kept: Kept) {
        if kept.uses < USES_MAX {
            self.add_live(&kept, -1);
            let kept = Kept { uses: kept.uses + 1, ..kept };
            self.add_live(&kept, 1);
            self.index.update(&kept);
        }
    }

    /// An extent is kept no longer.
    pub fn remove(&mut self, key: u64) -> Option<Kept> {
        let gone = self.index.remove(key)?;
        self.add_live(&gone, -1);
        Some(gone)
    }

    /// Keep an extent in memory for now; `false` if it overlaps others.
    pub fn hold(&mut self, extent: Extent) -> bool {
        self.index.insert(&Kept { extent, place: Place::HELD, uses: 0 })
    }

    /// Put an extent into the log; nothing if it overlaps others. One that is held in memory moves
    /// from there. Of `left` bytes that may be written, if there is such a limit, no more than what
    /// this one leaves goes to extents that move.
    pub fn put(&mut self, extent: Extent, left: Option<u64>, steps: &mut Vec<Step>) -> bool {
        let held = self
            .index
            .by_key(extent.key())
            .filter(|kept| kept.place == Place::HELD && kept.extent == extent);
        if held.is_some() {
            self.index.remove(extent.key());
        }
        if self.overlapping(extent).is_some() {
            return false;
        }
        let each = u64::from(2 * TABLE_ENTRY_BYTES + HEADER_BYTES + extent.flash_bytes());
        let movable = left.map_or(u64::MAX, |left| left.saturating_sub(each));
        let to = self.place(extent, movable, steps);
        self.index.insert(&Kept { extent, place: to, uses: 0 });
        self.add_live(&Kept { extent, place: to, uses: 0 }, 1);
        self.purse += u64::from(extent.flash_bytes()) * MOVED_PER_MILLE;
        steps.push(Step::Put { extent, to });
        true
    }

    /// Stop filling a segment, so that it can be written as it is.
    pub fn seal(&mut self) -> Option<Step> {
        let filling = self.filling.take().filter(|filling| filling.extents > 0)?;
        Some(Step::Seal { slot: filling.slot })
    }

    /// The segment could not be written: everything in it goes.
    pub fn lost(&mut self, slot: u32, sequence: u64) -> Vec<Kept> {
        if self.segments.get(slot as usize).is_none_or(|found| found.sequence != sequence) {
            return Vec::new();
        }
        let gone = self.index.placed(self.shape.places(slot));
        for kept in &gone {
            self.remove(kept.extent.key());
        }
        self.segments[slot as usize] = Segment::default();
        self.empty += 1;
        gone
    }

    /// Room for an extent, in the segment that is being filled or in the next.
    fn place(&mut self, extent: Extent, movable: u64, steps: &mut Vec<Step>) -> Place {
        let bytes = extent.flash_bytes();
        loop {
            if let Some(place) = self.room(bytes) {
                return place;
            }
            steps.extend(self.seal());
            self.open(movable, steps);
        }
    }

    fn room(&mut self, bytes: u32) -> Option<Place> {
        let filling = self.filling.as_mut()?;
        let table = (filling.extents + 1) * TABLE_ENTRY_BYTES + 4;
        if filling.end + bytes + table > self.shape.segment_bytes {
            return None;
        }
        let place = (filling.slot * (self.shape.segment_bytes / ALIGN)) + filling.end / ALIGN;
        filling.end += bytes;
        filling.extents += 1;
        Some(Place(place))
    }

    /// The segment to be filled next: an empty one, or one of the oldest quarter. Of these, what
    /// was used is worth most, then what is left at all; newer ones had no time to be used.
    fn next_slot(&self) -> usize {
        let mut slots: Vec<usize> = (0..self.segments.len()).collect();
        slots.sort_unstable_by_key(|&slot| self.segments[slot].sequence);
        let oldest = slots[..slots.len().div_ceil(4)].iter().copied();
        let cost = |slot: usize| {
            let segment = &self.segments[slot];
            (segment.used, segment.live, segment.sequence, slot)
        };
        oldest.min_by_key(|&slot| cost(slot)).unwrap_or_default()
    }

    /// Begin with another segment: an empty one, or one whose extents move or go.
    fn open(&mut self, mut movable: u64, steps: &mut Vec<Step>) {
        let slot = self.next_slot();
        let old = self.segments[slot].sequence;
        let mut leaving = self.index.placed(self.shape.places(slot as u32));
        for kept in &leaving {
            self.remove(kept.extent.key());
        }
        self.sequence += 1;
        self.empty -= u32::from(self.segments[slot].is_empty());
        self.segments[slot] = Segment { sequence: self.sequence, ..Segment::default() };
        self.filling = Some(Filling { slot: slot as u32, end: HEADER_BYTES, extents: 0 });
        steps.push(Step::Open { slot: slot as u32, sequence: self.sequence });
        leaving.sort_by_key(|kept| std::cmp::Reverse(kept.uses));
        for from in leaving {
            let bytes = u64::from(from.extent.flash_bytes());
            let cost = bytes * 1000;
            // A segment is never filled with what was in one alone.
            let full = self.segments[slot].live > self.shape.segment_bytes / 2;
            let dear = cost > self.purse || bytes + u64::from(TABLE_ENTRY_BYTES) > movable;
            if from.uses == 0 || dear || full {
                steps.push(Step::Drop(from));
                continue;
            }
            let Some(to) = self.room(from.extent.flash_bytes()) else {
                steps.push(Step::Drop(from));
                continue;
            };
            self.purse -= cost;
            movable = movable.saturating_sub(bytes + u64::from(TABLE_ENTRY_BYTES));
            let kept = Kept { place: to, uses: 0, ..from };
            self.index.insert(&kept);
            self.add_live(&kept, 1);
            steps.push(Step::Move { from, sequence: old, to });
        }
    }
}

const _: () = assert!(SEGMENT_BYTES_MIN > EXTENT_MAX as u64 + 4096 + 2048);

#[cfg(test)]
mod tests;
