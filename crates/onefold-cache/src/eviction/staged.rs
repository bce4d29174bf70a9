//! Memory before a ring on flash: newcomers wait, and admission says who is written.
//! Room: onefold-cache.
//! Memory has two parts. The **window** is an LRU of newcomers: what is asked for again at once is
//! served from there and costs no write. Who leaves it goes on to flash if it is worth more than an
//! object there by the price of a write. Otherwise it may stay in memory with the **regulars**,
//! which come back, but not so often that a write pays, or more often than the budget can pay for:
//! the place of one that is worth less costs no write. Regulars are judged again whenever one has
//! to go, as price and worth change. How much of memory newcomers get is learnt
//! ([`super::window_share`]).
//! On flash a hand goes round and looks at a few objects at a time, as an order by worth cannot be
//! kept where worth changes without a request; among the regulars another does.
//! Source: the wait in memory as in [flashield-19] and [tiny-lfu-17]; regulars in memory are our
//! own. Goes with an admission policy that answers as a [`Judge`].
//! Cost: `look` questions per object that goes, and again per object that might be written for it.

use super::window_share::WindowShare;
use crate::cache::Capacity;
use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Judge, Leave, Parts, Place};

/// Words, and numbers of lists. An object of which no more is known than that it is on flash has 0,
/// and the first list.
const RING: u32 = 0;
const WINDOW: u32 = 1;
const REGULARS: u32 = 2;

/// The ring and both parts of memory; the word says where an object is.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The front is under the hand.
    ring: List,
    /// The front is the oldest.
    window: List,
    /// The front is under the hand.
    regulars: List,
    ring_bytes_max: u64,
    memory_bytes_max: u64,
    share: WindowShare,
    look: usize,
    promoted: Vec<Id>,
}

impl Staged {
    /// With `memory` bytes of the capacity in memory, of which newcomers and regulars each get at
    /// least the share `least`, and hands that look at so many objects.
    pub fn new(capacity: Capacity, memory: u64, least: f64, look: usize) -> Self {
        let memory = memory.min(capacity.bytes);
        Self {
            ring: List::default(),
            window: List::default(),
            regulars: List::default(),
            ring_bytes_max: capacity.bytes - memory,
            memory_bytes_max: memory,
            share: WindowShare::new(memory, least),
            look: look.max(1),
            promoted: Vec::new(),
        }
    }

    const fn memory_bytes(&self) -> u64 {
        self.window.bytes() + self.regulars.bytes()
    }

    const fn memory_is_over(&self, more: u64) -> bool {
        self.memory_bytes() + more > self.memory_bytes_max
    }

    const fn window_is_over(&self, more: u64) -> bool {
        self.window.bytes() + more > self.share.bytes()
    }

    fn fits(&self, objects: &Objects, id: Id) -> bool {
        self.fits_on_flash(objects.size(id).into())
    }

    fn unlink(&mut self, objects: &mut Objects, id: Id) {
        let list = match objects.word(id) {
            WINDOW => &mut self.window,
            REGULARS => &mut self.regulars,
            _ => &mut self.ring,
        };
        objects.unlink(list, id);
    }

    /// Moves an object from memory to flash.
    fn promote(&mut self, objects: &mut Objects, id: Id) {
        self.unlink(objects, id);
        *objects.word_mut(id) = RING;
        objects.push_back(&mut self.ring, id);
        self.promoted.push(id);
    }

    /// Moves an object from the window to the regulars.
    fn stay(&mut self, objects: &mut Objects, id: Id) {
        objects.unlink(&mut self.window, id);
        *objects.word_mut(id) = REGULARS;
        objects.push_back(&mut self.regulars, id);
    }

    /// The object of flash that is to go for one in memory, if that is worth a write in its place;
    /// then it takes it.
    fn replaced_by(&mut self, objects: &mut Objects, id: Id, judge: &mut dyn Judge) -> Option<Id> {
        let (key, size) = (objects.key(id), objects.size(id));
        // What is not worth a write in free room, as what stayed although there is some, is not
        // worth one in place of another.
        if self.fits(objects, id) || !judge.pays(key, size, None) {
            return None;
        }
        let [victim, _] = look_at(&mut self.ring, self.look, objects, judge)?;
        if !judge.pays(key, size, Some(objects.key(victim))) {
            return None;
        }
        // A large object needs more than one to go, and waits for that where it is.
        let free = self.ring_bytes_max.saturating_sub(self.ring.bytes());
        if u64::from(size) <= free + u64::from(objects.size(victim)) {
            self.promote(objects, id);
        }
        Some(victim)
    }
}

/// Of the next few objects of a list the one that is worth least, now at the front, and the one
/// that is worth most.
fn look_at(
    list: &mut List,
    look: usize,
    objects: &mut Objects,
    judge: &mut dyn Judge,
) -> Option<[Id; 2]> {
    let first = list.front()?;
    let mut found = [(i64::MAX, first), (i64::MIN, first)];
    for _ in 0..look.min(list.len()) {
        let id = list.front()?;
        objects.move_to_back(list, id);
        let worth = judge.worth(objects.key(id));
        if worth < found[0].0 {
            found[0] = (worth, id);
        }
        if worth > found[1].0 {
            found[1] = (worth, id);
        }
    }
    let [(_, least), (_, most)] = found;
    objects.move_to_front(list, least);
    Some([least, most])
}

impl Eviction for Staged {
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        self.share.hit();
        match objects.word(id) {
            WINDOW => {
                if self.window.back() != Some(id) {
                    self.share.hit_window();
                }
                objects.move_to_back(&mut self.window, id);
            }
            REGULARS => self.share.hit_regulars(),
            _ => {}
        }
    }

    fn victim(&mut self, _: &mut Objects, _: &Incoming) -> Option<Id> {
        self.window.front().or(self.regulars.front()).or(self.ring.front())
    }

    fn is_over(&self, incoming: &Incoming) -> bool {
        let size = u64::from(incoming.size);
        size <= self.memory_bytes_max && self.memory_is_over(size)
    }

    fn settle(&mut self, objects: &mut Objects, incoming: &Incoming, judge: &mut dyn Judge) {
        let size = u64::from(incoming.size);
        while size <= self.memory_bytes_max
            && self.window_is_over(size)
            && let Some(oldest) = self.window.front()
        {
            let fits = self.fits(objects, oldest);
            if fits && judge.pays(objects.key(oldest), objects.size(oldest), None) {
                self.promote(objects, oldest);
                continue;
            }
            if !self.memory_is_over(size) {
                self.stay(objects, oldest);
                continue;
            }
            // A regular may be worth by now what it was not when it came.
            let best =
                if fits { look_at(&mut self.regulars, self.look, objects, judge) } else { None };
            let Some([_, best]) = best else { return };
            if !self.fits(objects, best) || !judge.pays(objects.key(best), objects.size(best), None)
            {
                return;
            }
            self.promote(objects, best);
        }
    }

    fn victim_by(
        &mut self,
        objects: &mut Objects,
        incoming: &Incoming,
        judge: &mut dyn Judge,
    ) -> Option<Id> {
        let size = u64::from(incoming.size);
        if size > self.memory_bytes_max {
            // It cannot wait: it is written at once or not at all.
            let victim = look_at(&mut self.ring, self.look, objects, judge)
                .map_or_else(|| self.victim(objects, incoming), |[least, _]| Some(least))?;
            let pays = judge.pays(incoming.key, incoming.size, Some(objects.key(victim)));
            return pays.then_some(victim);
        }
        if !self.memory_is_over(size) {
            let victim = look_at(&mut self.ring, self.look, objects, judge);
            return victim.map_or_else(|| self.victim(objects, incoming), |[least, _]| Some(least));
        }
        let candidate = self.window.front().filter(|_| self.window_is_over(size));
        if let Some(candidate) = candidate
            && let Some(victim) = self.replaced_by(objects, candidate, judge)
        {
            return Some(victim);
        }
        let Some([least, best]) = look_at(&mut self.regulars, self.look, objects, judge) else {
            return self.window.front();
        };
        if best != least
            && let Some(victim) = self.replaced_by(objects, best, judge)
        {
            return Some(victim);
        }
        let Some(candidate) = candidate else { return Some(least) };
        if judge.worth(objects.key(candidate)) <= judge.worth(objects.key(least)) {
            return Some(candidate);
        }
        self.stay(objects, candidate);
        Some(least)
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) -> Place {
        if u64::from(incoming.size) > self.memory_bytes_max {
            *objects.word_mut(id) = RING;
            objects.push_back(&mut self.ring, id);
            return Place::Flash;
        }
        let objects_in_memory = self.window.len() + self.regulars.len();
        let (window, regulars) = (self.window.bytes(), self.regulars.bytes());
        self.share.newcomer(window, regulars, objects_in_memory);
        *objects.word_mut(id) = WINDOW;
        objects.push_back(&mut self.window, id);
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
        look_at(&mut self.ring, self.look, objects, judge).map(|[least, _]| least)
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, _: Leave) {
        self.unlink(objects, id);
        self.promoted.retain(|&promoted| promoted != id);
    }

    fn word_in(&self, list: usize, _: u32) -> u32 {
        match list {
            1 => WINDOW,
            2 => REGULARS,
            _ => RING,
        }
    }

    fn restored(&mut self, _: &mut Objects) {
        self.share.restored();
    }

    fn parts(&mut self) -> Parts<'_> {
        let lists = vec![&mut self.ring, &mut self.window, &mut self.regulars];
        Parts { lists, numbers: self.share.numbers(), ..Parts::default() }
    }
}
