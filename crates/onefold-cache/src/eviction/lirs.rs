//! LIRS: keeps the objects that were asked for twice within the shortest distance.
//! Room: onefold-cache.
//! Source: [lirs-02]. The stack S holds objects by their last request, among them some that are no
//! longer cached; the queue Q holds the few cached ones with a long distance (1 %).
//! Differs: the stack holds at most twice the objects that fit; the longest absent go first.
//! Cost: 90 bytes per cached object.

use crate::cache::Capacity;
use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// Word of an object in the stack.
const ABSENT: u32 = 0;
const LONG: u32 = 1;
const SHORT: u32 = 2;

/// Objects with short and long distances.
#[derive(Clone, Debug)]
pub struct Lirs {
    /// Cached objects with a short distance, in no particular order; their word is [`SHORT`].
    short: List,
    /// Cached objects with a long distance, the next victim in front; their word is [`LONG`].
    long: List,
    stack: Objects,
    /// The stack, its bottom in front.
    order: List,
    absent: Objects,
    /// Objects of the stack that are not cached, the longest absent in front.
    absence: List,
    short_bytes_max: u64,
    stack_max: usize,
    was_in_stack: bool,
}

impl Lirs {
    /// `long` is the share of the capacity for objects with a long distance.
    pub fn new(capacity: Capacity, long: f64) -> Self {
        let each = capacity.bytes / capacity.objects.max(1) as u64;
        let long_bytes = ((capacity.bytes as f64 * long) as u64).max(each);
        Self {
            short: List::default(),
            long: List::default(),
            stack: Objects::new(capacity.objects * 2),
            order: List::default(),
            absent: Objects::new(capacity.objects),
            absence: List::default(),
            short_bytes_max: capacity.bytes.saturating_sub(long_bytes),
            stack_max: capacity.objects * 2,
            was_in_stack: false,
        }
    }

    fn in_stack(&self, key: u64) -> Option<Id> {
        self.stack.find(key, crate::hash_of(key))
    }

    /// Puts an object on top of the stack.
    fn put_on_top(&mut self, key: u64, state: u32) {
        let at = if let Some(at) = self.in_stack(key) {
            if self.stack.word(at) == ABSENT {
                self.returned(key);
            }
            self.stack.move_to_back(&mut self.order, at);
            at
        } else {
            let at = self.stack.add(key, crate::hash_of(key), 1);
            self.stack.push_back(&mut self.order, at);
            at
        };
        *self.stack.word_mut(at) = state;
    }

    fn add_absent(&mut self, key: u64) {
        let at = self.absent.add(key, crate::hash_of(key), 1);
        self.absent.push_back(&mut self.absence, at);
    }

    fn returned(&mut self, key: u64) {
        let at = self.absent.find(key, crate::hash_of(key)).expect("absent objects are listed");
        self.absent.unlink(&mut self.absence, at);
        self.absent.delete(at);
    }

    fn off_stack(&mut self, at: Id) {
        if self.stack.word(at) == ABSENT {
            self.returned(self.stack.key(at));
        }
        self.stack.unlink(&mut self.order, at);
        self.stack.delete(at);
    }

    /// Takes off the bottom of the stack until it is an object with a short distance.
    fn prune(&mut self) {
        while let Some(bottom) = self.order.front() {
            if self.stack.word(bottom) == SHORT {
                break;
            }
            self.off_stack(bottom);
        }
    }

    /// The object at the bottom of the stack has the longest of the short distances from now on.
    fn demote_bottom(&mut self, objects: &mut Objects) {
        self.prune();
        let Some(bottom) = self.order.front() else { return };
        let key = self.stack.key(bottom);
        let id = objects.find(key, crate::hash_of(key)).expect("short distances are cached");
        objects.unlink(&mut self.short, id);
        *objects.word_mut(id) = LONG;
        objects.push_back(&mut self.long, id);
        *self.stack.word_mut(bottom) = LONG;
        self.prune();
    }

    fn make_short(&mut self, objects: &mut Objects, id: Id) {
        *objects.word_mut(id) = SHORT;
        objects.push_back(&mut self.short, id);
        self.put_on_top(objects.key(id), SHORT);
        while self.short.bytes() > self.short_bytes_max && self.short.len() > 1 {
            self.demote_bottom(objects);
        }
    }

    fn limit(&mut self) {
        while self.order.len() > self.stack_max {
            let Some(longest) = self.absence.front() else { return };
            let at = self.in_stack(self.absent.key(longest)).expect("the absent are in the stack");
            self.off_stack(at);
        }
    }
}

impl Eviction for Lirs {
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        let key = objects.key(id);
        if objects.word(id) == SHORT {
            self.put_on_top(key, SHORT);
            self.prune();
        } else if self.in_stack(key).is_some() {
            objects.unlink(&mut self.long, id);
            self.make_short(objects, id);
        } else {
            objects.move_to_back(&mut self.long, id);
            self.put_on_top(key, LONG);
        }
        self.limit();
    }

    fn prepare(&mut self, _: &mut Objects, incoming: &Incoming) {
        self.was_in_stack = self.in_stack(incoming.key).is_some();
    }

    fn victim(&mut self, objects: &mut Objects, _: &Incoming) -> Option<Id> {
        if self.long.is_empty() {
            self.demote_bottom(objects);
        }
        self.long.front()
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) -> Place {
        let room = self.short.bytes() + u64::from(incoming.size) <= self.short_bytes_max;
        // The victim may have pushed the newcomer off the stack; its distance was short all the
        // same.
        if self.was_in_stack || room {
            self.make_short(objects, id);
        } else {
            *objects.word_mut(id) = LONG;
            objects.push_back(&mut self.long, id);
            self.put_on_top(incoming.key, LONG);
        }
        self.limit();
        Place::Flash
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, why: Leave) {
        let list = if objects.word(id) == SHORT { &mut self.short } else { &mut self.long };
        objects.unlink(list, id);
        let key = objects.key(id);
        let Some(at) = self.in_stack(key) else { return };
        if why == Leave::Removed {
            self.off_stack(at);
            self.prune();
        } else {
            *self.stack.word_mut(at) = ABSENT;
            self.add_absent(key);
        }
    }

    fn restored(&mut self, objects: &mut Objects) {
        let rows: Vec<Id> = self.stack.iter(&self.order).collect();
        for at in rows {
            let key = self.stack.key(at);
            let cached = objects.find(key, crate::hash_of(key)).map(|id| objects.word(id));
            let listed = self.absent.find(key, crate::hash_of(key));
            match (cached, listed) {
                (Some(_), Some(_)) => self.returned(key),
                (None, None) => self.add_absent(key),
                _ => {}
            }
            *self.stack.word_mut(at) = cached.unwrap_or(ABSENT);
        }
        for key in self.absent.keys(&self.absence) {
            if self.in_stack(key).is_none() {
                self.returned(key);
            }
        }
        for key in objects.keys(&self.short) {
            if self.in_stack(key).is_none() {
                self.put_on_top(key, SHORT);
            }
        }
        self.prune();
        self.limit();
    }

    fn word_in(&self, list: usize, _: u32) -> u32 {
        if list == 0 { SHORT } else { LONG }
    }

    fn parts(&mut self) -> Parts<'_> {
        let stack = (&mut self.stack, &mut self.order);
        let absent = (&mut self.absent, &mut self.absence);
        let lists = vec![&mut self.short, &mut self.long];
        Parts { lists, histories: vec![stack, absent], ..Parts::default() }
    }

    fn memory_bytes(&self) -> usize {
        self.stack.memory_bytes() + self.absent.memory_bytes()
    }
}
