//! W-TinyLFU: a small LRU window, a segmented LRU, and a sketch that judges who passes between.
//! Room: onefold-cache.
//! Source: [tiny-lfu-17]: window 1 %, protected segment 80 % of the rest, counters of 4 bits,
//! sample of 10 times the objects.
//! Differs: the window may lie in memory, so that only what passes the judgement is written to
//! flash; without a window, newcomers are judged at once (`TinyLFU`).
//! Cost: four counters per request and three nodes per hit.

use crate::cache::Capacity;
use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Judge, Leave, Parts, Place};
use crate::sketch::Sketch;

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WTinyLfuRules {
    /// Share of the capacity of the window.
    pub window: f64,
    /// Share of the rest of the protected segment.
    pub protected: f64,
    /// Whether the window lies in memory.
    pub in_memory: bool,
    /// Requests per object that fits after which counters are halved.
    pub sample: u64,
    /// Largest count.
    pub counter_max: u8,
    /// By how much a candidate has to exceed the victim's count, at least 1.
    pub margin: u8,
}

/// Words, and numbers of lists. An object of which no more is known than that it is on flash has 0.
const PROBATION: u32 = 0;
const WINDOW: u32 = 1;
const PROTECTED: u32 = 2;

/// Three lists and a sketch; the word names the list.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    lists: [List; 3],
    sketch: Sketch,
    rules: WTinyLfuRules,
    window_bytes_max: u64,
    main_bytes_max: u64,
    protected_bytes_max: u64,
    promoted: Vec<Id>,
}

impl WTinyLfu {
    /// Empty lists.
    pub fn new(capacity: Capacity, rules: WTinyLfuRules) -> Self {
        let each = capacity.bytes / capacity.objects.max(1) as u64;
        let window = (capacity.bytes as f64 * rules.window) as u64;
        let window = if rules.window > 0.0 { window.max(each) } else { 0 };
        let main = capacity.bytes.saturating_sub(window);
        Self {
            lists: Default::default(),
            sketch: Sketch::new(
                capacity.objects,
                rules.counter_max,
                rules.sample * capacity.objects as u64,
            ),
            rules,
            window_bytes_max: window,
            main_bytes_max: main,
            protected_bytes_max: (main as f64 * rules.protected) as u64,
            promoted: Vec::new(),
        }
    }

    fn shift(&mut self, objects: &mut Objects, id: Id, to: u32) {
        let from = std::mem::replace(objects.word_mut(id), to);
        objects.unlink(&mut self.lists[from as usize], id);
        objects.push_back(&mut self.lists[to as usize], id);
        if from == WINDOW && self.rules.in_memory {
            self.promoted.push(id);
        }
    }

    fn main_bytes(&self) -> u64 {
        self.lists[PROBATION as usize].bytes() + self.lists[PROTECTED as usize].bytes()
    }

    fn main_victim(&self) -> Option<Id> {
        self.lists[PROBATION as usize].front().or(self.lists[PROTECTED as usize].front())
    }

    fn beats(&self, candidate: u64, objects: &Objects, victim: Id) -> bool {
        let count = |key| u16::from(self.sketch.count(crate::hash_of(key)));
        count(candidate) >= count(objects.key(victim)) + u16::from(self.rules.margin)
    }

    /// Moves the oldest of the window on while that needs no victim.
    fn spill(&mut self, objects: &mut Objects, incoming_bytes: u64) {
        while let Some(oldest) = self.lists[WINDOW as usize].front() {
            let over = self.lists[WINDOW as usize].bytes() + incoming_bytes > self.window_bytes_max;
            let fits = self.main_bytes() + u64::from(objects.size(oldest)) <= self.main_bytes_max;
            if !over || !fits {
                return;
            }
            self.shift(objects, oldest, PROBATION);
        }
    }
}

impl Eviction for WTinyLfu {
    fn hit(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) {
        self.sketch.add(incoming.hash);
        match objects.word(id) {
            WINDOW => objects.move_to_back(&mut self.lists[WINDOW as usize], id),
            PROTECTED => objects.move_to_back(&mut self.lists[PROTECTED as usize], id),
            _ => {
                self.shift(objects, id, PROTECTED);
                while self.lists[PROTECTED as usize].bytes() > self.protected_bytes_max {
                    let Some(oldest) = self.lists[PROTECTED as usize].front() else { break };
                    self.shift(objects, oldest, PROBATION);
                }
            }
        }
    }

    fn prepare(&mut self, _: &mut Objects, incoming: &Incoming) {
        self.sketch.add(incoming.hash);
    }

    fn victim(&mut self, objects: &mut Objects, incoming: &Incoming) -> Option<Id> {
        let size = u64::from(incoming.size);
        self.spill(objects, size);
        if self.lists[WINDOW as usize].bytes() + size <= self.window_bytes_max {
            // The window has room: what is too much lies beyond it.
            return self.main_victim().or(self.lists[WINDOW as usize].front());
        }
        let candidate = self.lists[WINDOW as usize].front();
        let Some(victim) = self.main_victim() else { return candidate };
        let key = candidate.map_or(incoming.key, |id| objects.key(id));
        if !self.beats(key, objects, victim) {
            return candidate;
        }
        if let Some(candidate) = candidate {
            self.shift(objects, candidate, PROBATION);
        }
        Some(victim)
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) -> Place {
        self.spill(objects, u64::from(incoming.size));
        let fits = u64::from(incoming.size) <= self.window_bytes_max;
        let list = if fits { WINDOW } else { PROBATION };
        *objects.word_mut(id) = list;
        objects.push_back(&mut self.lists[list as usize], id);
        if list == WINDOW && self.rules.in_memory { Place::Memory } else { Place::Flash }
    }

    fn promoted(&mut self) -> Option<Id> {
        self.promoted.pop()
    }

    fn has_stage(&self) -> bool {
        self.rules.in_memory
    }

    fn fits_on_flash(&self, bytes: u64) -> bool {
        !self.rules.in_memory || self.main_bytes() + bytes <= self.main_bytes_max
    }

    fn flash_victim(&mut self, _: &mut Objects, _: &mut dyn Judge) -> Option<Id> {
        self.main_victim()
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, _: Leave) {
        objects.unlink(&mut self.lists[objects.word(id) as usize], id);
        self.promoted.retain(|&promoted| promoted != id);
    }

    fn restored(&mut self, _: &mut Objects) {
        self.sketch.restored();
    }

    fn word_in(&self, list: usize, _: u32) -> u32 {
        list as u32
    }

    fn parts(&mut self) -> Parts<'_> {
        let (counters, additions) = self.sketch.parts();
        let lists = self.lists.iter_mut().collect();
        Parts { lists, bytes: vec![counters], numbers: vec![additions], ..Parts::default() }
    }

    fn memory_bytes(&self) -> usize {
        self.sketch.memory_bytes()
    }
}
