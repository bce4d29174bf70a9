//! A stage in memory before a ring on flash: newcomers wait, and admission says who is written.
//! Room: onefold-cache.
//! The stage is an LRU in memory: what is asked for again at once is served from there and costs no
//! write. Who leaves it goes on to flash if it is worth more than an object there by the price of
//! a write, and is dropped otherwise. On flash a hand goes round and looks at a few objects at a
//! time, as an order by worth cannot be kept where worth changes without a request.
//! Source: the stage as in [flashield-19] and [tiny-lfu-17]. Goes with an admission policy that
//! answers as a [`Judge`].
//! Cost: `look` questions per object that leaves the stage, and per object that goes.

use crate::cache::Capacity;
use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Judge, Leave, Parts, Place};

/// Words. An object of which no more is known than that it is on flash has 0, and the first list.
const RING: u32 = 0;
const STAGE: u32 = 1;

/// The stage and the ring; the word says where an object is.
#[derive(Clone, Debug)]
pub struct Staged {
    stage: List,
    /// The front is under the hand.
    ring: List,
    stage_bytes_max: u64,
    ring_bytes_max: u64,
    look: usize,
    promoted: Vec<Id>,
}

impl Staged {
    /// With `stage` bytes of the capacity in memory, and a hand that looks at so many objects.
    pub fn new(capacity: Capacity, stage: u64, look: usize) -> Self {
        let stage = stage.min(capacity.bytes);
        Self {
            stage: List::default(),
            ring: List::default(),
            stage_bytes_max: stage,
            ring_bytes_max: capacity.bytes - stage,
            look: look.max(1),
            promoted: Vec::new(),
        }
    }

    /// The object of the next few that is worth least, now under the hand.
    fn least(&mut self, objects: &mut Objects, judge: &mut dyn Judge) -> Option<Id> {
        let mut least: Option<(i64, Id)> = None;
        for _ in 0..self.look.min(self.ring.len()) {
            let id = self.ring.front()?;
            objects.move_to_back(&mut self.ring, id);
            let worth = judge.worth(objects.key(id));
            if least.is_none_or(|(least, _)| worth < least) {
                least = Some((worth, id));
            }
        }
        let (_, id) = least?;
        objects.move_to_front(&mut self.ring, id);
        Some(id)
    }

    /// Moves an object from the stage to flash.
    fn promote(&mut self, objects: &mut Objects, id: Id) {
        objects.unlink(&mut self.stage, id);
        *objects.word_mut(id) = RING;
        objects.push_back(&mut self.ring, id);
        self.promoted.push(id);
    }
}

impl Eviction for Staged {
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        if objects.word(id) == STAGE {
            objects.move_to_back(&mut self.stage, id);
        }
    }

    fn victim(&mut self, _: &mut Objects, _: &Incoming) -> Option<Id> {
        self.stage.front().or(self.ring.front())
    }

    fn is_over(&self, incoming: &Incoming) -> bool {
        let size = u64::from(incoming.size);
        size <= self.stage_bytes_max && self.stage.bytes() + size > self.stage_bytes_max
    }

    fn settle(&mut self, objects: &mut Objects, incoming: &Incoming, judge: &mut dyn Judge) {
        while self.is_over(incoming)
            && let Some(oldest) = self.stage.front()
            && self.ring.bytes() + u64::from(objects.size(oldest)) <= self.ring_bytes_max
            && judge.pays(objects.key(oldest), objects.size(oldest), None)
        {
            self.promote(objects, oldest);
        }
    }

    fn victim_by(
        &mut self,
        objects: &mut Objects,
        incoming: &Incoming,
        judge: &mut dyn Judge,
    ) -> Option<Id> {
        let size = u64::from(incoming.size);
        if self.stage.bytes() + size <= self.stage_bytes_max {
            return self.least(objects, judge).or(self.stage.front());
        }
        if size > self.stage_bytes_max {
            // There is no stage for it: it is written at once or not at all.
            let victim = self.least(objects, judge).or(self.stage.front())?;
            let pays = judge.pays(incoming.key, incoming.size, Some(objects.key(victim)));
            return pays.then_some(victim);
        }
        let candidate = self.stage.front()?;
        let (key, size) = (objects.key(candidate), objects.size(candidate));
        let free = self.ring_bytes_max.saturating_sub(self.ring.bytes());
        // What is not worth a write in free room, as what stayed although there is some, is not
        // worth one in place of another.
        let fits = u64::from(size) <= free;
        if fits || !judge.pays(key, size, None) {
            return Some(candidate);
        }
        let Some(victim) = self.least(objects, judge) else { return Some(candidate) };
        if !judge.pays(key, size, Some(objects.key(victim))) {
            return Some(candidate);
        }
        // A large candidate needs more than one to go, and waits at the front for that.
        if u64::from(size) <= free + u64::from(objects.size(victim)) {
            self.promote(objects, candidate);
        }
        Some(victim)
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) -> Place {
        if u64::from(incoming.size) > self.stage_bytes_max {
            *objects.word_mut(id) = RING;
            objects.push_back(&mut self.ring, id);
            return Place::Flash;
        }
        *objects.word_mut(id) = STAGE;
        objects.push_back(&mut self.stage, id);
        Place::Memory
    }

    fn promoted(&mut self) -> Option<Id> {
        self.promoted.pop()
    }

    fn has_stage(&self) -> bool {
        true
    }

    fn fits_on_flash(&self, bytes: u64) -> bool {
        self.ring.bytes() + bytes <= self.ring_bytes_max
    }

    fn flash_victim(&mut self, objects: &mut Objects, judge: &mut dyn Judge) -> Option<Id> {
        self.least(objects, judge)
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, _: Leave) {
        let staged = objects.word(id) == STAGE;
        objects.unlink(if staged { &mut self.stage } else { &mut self.ring }, id);
        self.promoted.retain(|&promoted| promoted != id);
    }

    fn word_in(&self, list: usize, _: u32) -> u32 {
        if list == 1 { STAGE } else { RING }
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { lists: vec![&mut self.ring, &mut self.stage], ..Parts::default() }
    }
}
