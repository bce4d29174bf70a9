//! One shard of the index: a table of buckets in which each entry has two that it may be in.
//! Room: onefold-pool.
//! Source: two buckets for each entry and moving one to its other as in Pagh, Rodler, "Cuckoo
//! hashing", J. Algorithms 51, 2004; the emptier of two as in Azar et al., "Balanced allocations",
//! SIAM J. Comput. 29, 1999.
//! Invariant: an entry is in one of its two buckets.
//! Tried and dropped: probing the next buckets (runs of full ones are dozens long at 85 %), and
//! growing bucket by bucket as linear hashing does (those not yet split overflow at 80 %).

use std::sync::atomic::{AtomicU32, Ordering};

use onefold_block::memory;

use super::arena::{Arena, BLOCK_BUCKETS, BlockNumber, Bucket, SLOTS};
use super::entry::{
    self, AGE_MAX, AGE_NEW, FREE, Place, TAG_BITS, age_of, is_hook_tag, place_of, tag_of, with_age,
};

/// Buckets of a new shard, at least; its first block is used bit by bit.
const BUCKETS_MIN: usize = 4;
/// New shards differ by fewer buckets than this, so that not all grow at the same time.
const BUCKETS_SPREAD: usize = 4;
/// A table that is fuller than this grows, in hundredths. Above it, two full buckets become so
/// frequent that moving entries, which are in no cache, takes longer than growing.
const LOAD_PERCENT_MAX: usize = 92;
/// Hooks that a bucket keeps whatever else comes: half of it.
const HOOKS_KEPT: usize = SLOTS / 2;
/// Entries that nothing else knows of that a bucket keeps before others: the rest is for what is
/// asked for again and again, which would be read from the disk each time.
const LONE_KEPT: usize = 5;

/// Places that a lookup found, at most four: more equal tags than that are bad luck, and the
/// chunk is then stored again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Candidates {
    places: [Place; 4],
    len: usize,
}

impl Candidates {
    /// Add one, if there is room.
    pub fn push(&mut self, place: Place) {
        if let Some(slot) = self.places.get_mut(self.len) {
            *slot = place;
            self.len += 1;
        }
    }

    /// The places.
    pub fn iter(&self) -> impl Iterator<Item = Place> {
        self.places.into_iter().take(self.len)
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there are.
    #[cfg(test)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether this place is among them.
    #[cfg(test)]
    pub fn contains(&self, place: Place) -> bool {
        self.iter().any(|p| p == place)
    }
}

/// What came of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is there, or was there before.
    Yes,
    /// It is there in place of another.
    InsteadOfAnother,
    /// It is there in place of a hook.
    InsteadOfHook,
    /// The shard must grow first.
    MustGrow,
}

/// A growing table of entries, whose buckets are in an [`Arena`].
#[derive(Default)]
pub struct Shard {
    blocks: Vec<BlockNumber>,
    /// Buckets in use; of the last block perhaps not all.
    buckets: usize,
    len: AtomicU32,
    /// It has grown as far as it may.
    grown: bool,
}

impl Shard {
    /// Entries held.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Blocks that it has, and those that its buckets need.
    #[cfg(test)]
    pub const fn blocks(&self) -> (usize, usize) {
        (self.blocks.len(), self.buckets.div_ceil(BLOCK_BUCKETS))
    }

    /// Memory in use beside the buckets.
    pub const fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<BlockNumber>()
    }

    fn bucket<'a>(&self, arena: &'a Arena, at: usize) -> &'a Bucket {
        arena.bucket(self.blocks[at / BLOCK_BUCKETS], at % BLOCK_BUCKETS)
    }

    fn homes_of(&self, tag: u32) -> [usize; 2] {
        homes(tag, self.buckets)
    }

    /// Where a search for this tag reads. To ask for it in time, for many tags at once, is what
    /// makes searches fast: it is in no cache.
    pub fn ask_for(&self, arena: &Arena, tag: u32) -> u64 {
        if self.buckets == 0 {
            return 0;
        }
        let [first, second] = self.homes_of(tag);
        self.bucket(arena, first).get(0) ^ self.bucket(arena, second).get(0)
    }

    /// Places under this tag, and a note that they were asked for.
    pub fn lookup(&self, arena: &Arena, tag: u32) -> Candidates {
        let mut found = Candidates::default();
        if self.buckets == 0 {
            return found;
        }
        let [first, second] = self.homes_of(tag);
        for at in [first, second].into_iter().take(if first == second { 1 } else { 2 }) {
            let bucket = self.bucket(arena, at);
            for (slot, entry) in bucket.slots().into_iter().enumerate() {
                if tag_of(entry) == tag
                    && let Some(place) = place_of(entry)
                {
                    if age_of(entry) < AGE_MAX {
                        // If another thread was faster, it saw the same need.
                        bucket.replace(slot, entry, with_age(entry, AGE_MAX));
                    }
                    found.push(place);
                }
            }
        }
        found
    }

    /// Put an entry where there is room, or in place of one of [`replace_oldest`]. Only one thread
    /// inserts at a time.
    pub fn insert(
        &self,
        arena: &Arena,
        (tag, place, age): (u32, Place, u64),
        in_runs_to: u64,
    ) -> Inserted {
        let full = self.len() * 100 >= self.buckets * SLOTS * LOAD_PERCENT_MAX;
        if full && !self.grown {
            return Inserted::MustGrow;
        }
        let entry = entry::entry(tag, place, age);
        let homes = self.homes_of(tag);
        let [first, second] = homes.map(|at| self.bucket(arena, at));
        let (in_first, in_second) = (first.look_for(entry), second.look_for(entry));
        if in_first.held || in_second.held {
            return Inserted::Yes;
        }
        let emptier = if in_first.used <= in_second.used { first } else { second };
        // Once it cannot grow, what is free in its own buckets is of use to the last slot.
        let put = emptier.put(entry) || (!full && self.put_by_moving(arena, homes, entry));
        if put {
            self.len.fetch_add(1, Ordering::Relaxed);
            return Inserted::Yes;
        }
        if !self.grown {
            return Inserted::MustGrow;
        }
        let elsewhere = if is_hook_tag(tag) {
            hooks_in(second) < hooks_in(first)
        } else {
            !has_spare(first, in_runs_to) && has_spare(second, in_runs_to)
        };
        let went = replace_oldest(if elsewhere { second } else { first }, entry, in_runs_to);
        if is_hook_tag(tag_of(went)) { Inserted::InsteadOfHook } else { Inserted::InsteadOfAnother }
    }

    /// Put an entry into one of its buckets, which are full, by moving another to that one's other
    /// bucket; false if that does not help.
    #[cold]
    fn put_by_moving(&self, arena: &Arena, homes_of_entry: [usize; 2], entry: u64) -> bool {
        for at in homes_of_entry {
            let bucket = self.bucket(arena, at);
            for (slot, other) in bucket.slots().into_iter().enumerate() {
                let [first, second] = self.homes_of(tag_of(other));
                let elsewhere = self.bucket(arena, if first == at { second } else { first });
                // A search may miss it for a moment: the chunk is then stored again.
                if elsewhere.put(other) {
                    if bucket.replace(slot, other, entry) {
                        return true;
                    }
                    // It was of use or removed just now.
                    elsewhere.remove(other);
                }
            }
        }
        false
    }

    /// Forget a place.
    pub fn remove(&self, arena: &Arena, tag: u32, place: Place) {
        let entry = entry::entry(tag, place, AGE_NEW);
        if self.buckets > 0
            && self.homes_of(tag).iter().any(|&at| self.bucket(arena, at).remove(entry))
        {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A quarter more buckets, at most `buckets_max`; `spread` is the shard's number. Returns how
    /// many entries were let go, which is none unless it cannot grow any more; or `None`, with
    /// nothing changed, if there is no memory.
    pub fn grow(
        &mut self,
        arena: &mut Arena,
        buckets_max: usize,
        spread: usize,
        layout: &mut Layout,
    ) -> Option<u64> {
        let mut buckets = self.buckets;
        loop {
            let wanted = next_buckets(buckets, spread);
            buckets = wanted.min(buckets_max);
            let grown = buckets < wanted;
            if !layout.clear(buckets) || !self.take_blocks(arena, buckets) {
                return None;
            }
            let all = (0..self.buckets).flat_map(|at| self.bucket(arena, at).slots());
            let let_go = all.filter(|&entry| entry != FREE && !layout.put(entry)).count() as u64;
            if let_go == 0 || grown {
                self.grown = grown;
                self.take_over(arena, layout);
                return Some(let_go);
            }
        }
    }

    /// There is more memory than it was told of.
    pub const fn may_grow(&mut self) {
        self.grown = false;
    }

    /// Whether the next growth may be to `buckets_max`.
    pub const fn is_grown_next(&self, buckets_max: usize) -> bool {
        next_buckets(self.buckets, 0) >= buckets_max
    }

    /// At most so many buckets, and no more until it may grow. Hooks stay, as far as they fill half
    /// of the slots, and of the others those that were of use last. Returns how many entries and
    /// how many hooks were let go; or `None`, with nothing changed, if there is no memory.
    pub fn shrink(
        &mut self,
        arena: &mut Arena,
        buckets_max: usize,
        layout: &mut Layout,
    ) -> Option<(u64, u64)> {
        if self.buckets <= buckets_max {
            return Some((0, 0));
        }
        let mut entries = Vec::new();
        if !memory::reserve(&mut entries, self.len()) {
            return None;
        }
        self.add_entries(arena, &mut entries);
        let gone = self.take_in(arena, buckets_max, &mut entries, layout)?;
        for block in self.blocks.drain(buckets_max.div_ceil(BLOCK_BUCKETS)..) {
            arena.give(block);
        }
        self.blocks.shrink_to_fit();
        Some(gone)
    }

    /// Add what is held to `entries`.
    pub fn add_entries(&self, arena: &Arena, entries: &mut Vec<u64>) {
        let all = (0..self.buckets).flat_map(|at| self.bucket(arena, at).slots());
        entries.extend(all.filter(|&entry| entry != FREE));
    }

    /// Hold of these entries, in place of what there was, those with room in so many buckets, as
    /// [`Shard::shrink`] says.
    pub fn take_in(
        &mut self,
        arena: &mut Arena,
        buckets: usize,
        entries: &mut [u64],
        layout: &mut Layout,
    ) -> Option<(u64, u64)> {
        if !layout.clear(buckets) || !self.take_blocks(arena, buckets) {
            return None;
        }
        let rank = |&entry: &u64| (age_of(entry), place_of(entry).map(Place::seniority));
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(rank(entry)));
        let is_hook = |entry: &u64| is_hook_tag(tag_of(*entry));
        let hooks = entries.iter().copied().filter(is_hook);
        let others = entries.iter().copied().filter(|entry| !is_hook(entry));
        let (mut let_go, mut hooks_let_go) = (0, 0);
        let kept = buckets * HOOKS_KEPT;
        for entry in hooks.clone().take(kept).chain(others).chain(hooks.skip(kept)) {
            if !layout.put(entry) {
                let_go += 1;
                hooks_let_go += u64::from(is_hook(&entry));
            }
        }
        self.grown = true;
        self.take_over(arena, layout);
        Some((let_go, hooks_let_go))
    }

    /// Have blocks from this number on moved below it.
    pub fn move_below(&mut self, arena: &mut Arena, end: usize) {
        for block in &mut self.blocks {
            *block = arena.move_below(*block, end);
        }
    }

    /// See that it has the blocks for so many buckets; those that it got stay with it.
    fn take_blocks(&mut self, arena: &mut Arena, buckets: usize) -> bool {
        while self.blocks.len() * BLOCK_BUCKETS < buckets {
            let Some(block) = arena.take() else { return false };
            self.blocks.push(block);
        }
        true
    }

    fn take_over(&mut self, arena: &Arena, layout: &Layout) {
        self.buckets = layout.used.len();
        for (at, slots) in layout.slots.as_chunks().0.iter().enumerate() {
            self.bucket(arena, at).fill(slots);
        }
        *self.len.get_mut() = layout.used.iter().map(|&used| u32::from(used)).sum();
    }
}

/// The buckets of a table that has outgrown so many.
const fn next_buckets(buckets: usize, spread: usize) -> usize {
    match buckets {
        0 => BUCKETS_MIN + spread % BUCKETS_SPREAD,
        few @ 1..BLOCK_BUCKETS => 2 * few,
        many => (many + many / 4).next_multiple_of(BLOCK_BUCKETS),
    }
}

/// Buckets for so many entries, three quarters full: all of them have room.
pub const fn buckets_for(entries: usize) -> usize {
    (entries * 4).div_ceil(3 * SLOTS).next_multiple_of(BLOCK_BUCKETS)
}

/// The two buckets of so many that an entry with this tag may be in; rarely, they are one.
fn homes(tag: u32, buckets: usize) -> [usize; 2] {
    let mixed = tag.wrapping_mul(0x9E37_79B1) >> (32 - TAG_BITS);
    [tag, mixed].map(|hash| ((u64::from(hash) * buckets as u64) >> TAG_BITS) as usize)
}

/// A table that is being made, in memory that is kept from one time to the next. It does what
/// [`Shard::insert`] does, several times as fast, because it knows how full each bucket is.
#[derive(Default)]
pub struct Layout {
    slots: Vec<u64>,
    /// Slots in use, of each bucket.
    used: Vec<u8>,
}

impl Layout {
    /// Memory in use.
    pub const fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u64>() + self.used.capacity()
    }

    /// Memory in use at most, for shards of this many bytes.
    pub const fn bytes_max(shard_bytes: u64) -> u64 {
        shard_bytes + shard_bytes / size_of::<Bucket>() as u64
    }

    /// Make it an empty table of so many buckets; `false` if there is no memory.
    fn clear(&mut self, buckets: usize) -> bool {
        self.slots.clear();
        self.used.clear();
        if !memory::reserve(&mut self.slots, buckets * SLOTS)
            || !memory::reserve(&mut self.used, buckets)
        {
            return false;
        }
        self.slots.resize(buckets * SLOTS, FREE);
        self.used.resize(buckets, 0);
        true
    }

    fn put(&mut self, entry: u64) -> bool {
        let [first, second] = homes(tag_of(entry), self.used.len());
        let at = if self.used[first] <= self.used[second] { first } else { second };
        self.push(at, entry) || self.put_by_moving([first, second], entry)
    }

    fn push(&mut self, at: usize, entry: u64) -> bool {
        let used = usize::from(self.used[at]);
        let room = used < SLOTS;
        if room {
            self.slots[at * SLOTS + used] = entry;
            self.used[at] += 1;
        }
        room
    }

    #[cold]
    fn put_by_moving(&mut self, homes_of_entry: [usize; 2], entry: u64) -> bool {
        for at in homes_of_entry {
            for slot in at * SLOTS..(at + 1) * SLOTS {
                let other = self.slots[slot];
                let [first, second] = homes(tag_of(other), self.used.len());
                if self.push(if first == at { second } else { first }, other) {
                    self.slots[slot] = entry;
                    return true;
                }
            }
        }
        false
    }
}

/// Hooks in a bucket.
fn hooks_in(bucket: &Bucket) -> usize {
    bucket.slots().iter().filter(|&&slot| slot != FREE && is_hook_tag(tag_of(slot))).count()
}

/// Entries of a bucket that nothing but the index knows of.
fn lone_in(slots: &[u64; SLOTS], in_runs_to: u64) -> usize {
    slots.iter().filter(|&&slot| !is_hook_tag(tag_of(slot)) && is_lone(slot, in_runs_to)).count()
}

/// Whether runs on disk do not tell of this entry.
fn is_lone(entry: u64, in_runs_to: u64) -> bool {
    place_of(entry).is_some_and(|place| place.seniority() > in_runs_to)
}

/// Whether a bucket has an entry that runs on disk tell as well, and that goes before others.
fn has_spare(bucket: &Bucket, in_runs_to: u64) -> bool {
    let slots = bucket.slots();
    let spare = |&slot: &u64| !is_hook_tag(tag_of(slot)) && !is_lone(slot, in_runs_to);
    lone_in(&slots, in_runs_to) <= LONE_KEPT && slots.iter().any(spare)
}

/// Put an entry in place of the one that was of use least recently; of several, of the one in the
/// oldest container. What runs on disk tell as well, as of places up to `in_runs_to`, goes before
/// what nothing else knows, unless that fills most of the bucket. Hooks only go for hooks, unless
/// they fill more than half of it. All others of the bucket grow older. Returns the one that went.
fn replace_oldest(bucket: &Bucket, entry: u64, in_runs_to: u64) -> u64 {
    let is_hook = |entry: u64| is_hook_tag(tag_of(entry));
    loop {
        let slots = bucket.slots();
        let hooks = slots.iter().filter(|&&slot| is_hook(slot)).count();
        let hook_goes = hooks + usize::from(is_hook(entry)) > HOOKS_KEPT;
        let lone_stay = lone_in(&slots, in_runs_to) <= LONE_KEPT;
        let rank = |&slot: &usize| {
            let seniority = place_of(slots[slot]).map(Place::seniority);
            let stays = is_lone(slots[slot], in_runs_to) == lone_stay;
            (stays, age_of(slots[slot]), seniority)
        };
        let may_go = (0..SLOTS).filter(|&slot| is_hook(slots[slot]) == hook_goes);
        let oldest = may_go.min_by_key(rank).expect("half of the slots at most have hooks");
        if !bucket.replace(oldest, slots[oldest], entry) {
            continue; // It was of use just now.
        }
        let by = age_of(slots[oldest]);
        for slot in (0..SLOTS).filter(|&slot| by > 0 && slot != oldest) {
            bucket.replace(
                slot,
                slots[slot],
                with_age(slots[slot], age_of(slots[slot]).saturating_sub(by)),
            );
        }
        return slots[oldest];
    }
}
