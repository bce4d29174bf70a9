//! A cache: objects, an eviction and an admission policy, put together to a [`Policy`].
//! Room: onefold-cache.   In: [`Access`].   Out: [`Decision`], [`Outcome`].
//! Invariants: (1) what is cached never exceeds the capacity  (2) a batch gives the decisions that
//! the same requests give one by one.

use crate::index::hash_of;
use crate::objects::{Id, Objects};
use crate::policy::{
    Access, Admission, Counters, Decision, Eviction, Incoming, Leave, Outcome, Place, Policy,
};
use crate::state::{self, State, StateError};

/// How many requests ahead the index, the node and its neighbours are asked for.
const AHEAD: [usize; 3] = [24, 16, 8];

/// How large a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes that may be cached.
    pub bytes: u64,
    /// Objects expected to fit, for which memory is set aside.
    pub objects: usize,
}

impl Capacity {
    /// For `objects` objects of `size` bytes.
    pub const fn of_equal(objects: usize, size: u32) -> Self {
        Self { bytes: objects as u64 * size as u64, objects }
    }
}

/// A cache with these two policies.
#[derive(Debug)]
pub struct Cache<E, A> {
    name: &'static str,
    objects: Objects,
    eviction: E,
    admission: A,
    capacity: u64,
    counters: Counters,
    evicted: Vec<u64>,
    /// Objects that moved from memory to the fast device, for one request.
    promoted: Vec<u64>,
}

impl<E: Eviction, A: Admission> Cache<E, A> {
    /// An empty cache; `name` marks its saved states.
    pub fn new(name: &'static str, capacity: Capacity, eviction: E, admission: A) -> Self {
        let objects = Objects::new(capacity.objects);
        let counters = Counters::default();
        let (capacity, evicted, promoted) = (capacity.bytes, Vec::new(), Vec::new());
        Self { name, objects, eviction, admission, capacity, counters, evicted, promoted }
    }

    #[inline]
    fn step(&mut self, key: u64, hash: u64, size: u32) -> Outcome {
        let (time, full) = (self.counters.requests, false);
        self.counters.requests += 1;
        let mut incoming = Incoming { key, hash, size, time, full, count: 0 };
        if let Some(id) = self.objects.find(key, hash) {
            self.counters.hits += 1;
            self.admission.hit(&mut incoming);
            self.eviction.hit(&mut self.objects, id, &incoming);
            return Outcome::HIT;
        }
        self.miss(incoming)
    }

    fn miss(&mut self, mut incoming: Incoming) -> Outcome {
        self.evicted.clear();
        self.promoted.clear();
        let size = u64::from(incoming.size);
        let room = self.capacity.checked_sub(size);
        incoming.full = room.is_none_or(|room| self.objects.bytes() > room);
        let wanted = self.admission.miss(&mut incoming);
        let (Some(room), true) = (room, wanted) else { return Outcome::PASSED };
        self.eviction.prepare(&mut self.objects, &incoming);
        loop {
            let judge = &mut self.admission;
            self.eviction.settle(&mut self.objects, &incoming, judge);
            if self.objects.bytes() <= room && !self.eviction.is_over(&incoming) {
                break;
            }
            let victim = self.eviction.victim_by(&mut self.objects, &incoming, judge);
            let Some(victim) = victim else {
                return self.promotion();
            };
            if !self.admission.replaces(&incoming, self.objects.key(victim)) {
                self.eviction.kept(&mut self.objects, victim);
                return self.promotion();
            }
            self.evict(victim);
        }
        let id = self.objects.add(incoming.key, incoming.hash, incoming.size);
        let place = self.eviction.insert(&mut self.objects, id, &incoming);
        let promoted = self.promotion();
        if place == Place::Flash { self.write(id) } else { promoted }
    }

    fn put_unasked(&mut self, incoming: Incoming) -> Outcome {
        let size = u64::from(incoming.size);
        let Some(room) = self.capacity.checked_sub(size) else { return Outcome::PASSED };
        let staged = self.eviction.has_stage();
        if !staged {
            self.eviction.prepare(&mut self.objects, &incoming);
        }
        while self.objects.bytes() > room || !self.eviction.fits_on_flash(size) {
            let (objects, judge) = (&mut self.objects, &mut self.admission);
            let victim = if staged {
                self.eviction.flash_victim(objects, judge)
            } else {
                self.eviction.victim_by(objects, &incoming, judge)
            };
            let Some(victim) = victim else { return Outcome::PASSED };
            self.evict(victim);
        }
        let id = self.objects.add(incoming.key, incoming.hash, incoming.size);
        if staged {
            self.eviction.restore(&mut self.objects, id, 0);
        } else {
            self.eviction.insert(&mut self.objects, id, &incoming);
        }
        self.write(id)
    }

    fn evict(&mut self, victim: Id) {
        let key = self.objects.key(victim);
        self.admission.evicted(key, self.objects.word(victim));
        self.eviction.remove(&mut self.objects, victim, Leave::Evicted);
        self.objects.delete(victim);
        self.counters.evictions += 1;
        self.evicted.push(key);
        if let Some(next) = self.eviction.next() {
            self.objects.prefetch_index(hash_of(self.objects.key(next)));
            self.objects.prefetch_neighbours(next);
        }
    }

    fn write(&mut self, id: Id) -> Outcome {
        self.admission.written(self.objects.size(id));
        self.counters.writes += 1;
        self.counters.written_bytes += u64::from(self.objects.size(id));
        Outcome::written(id)
    }

    fn promotion(&mut self) -> Outcome {
        let mut outcome = Outcome::PASSED;
        while let Some(id) = self.eviction.promoted() {
            self.promoted.push(self.objects.key(id));
            outcome = self.write(id);
        }
        outcome
    }

    fn take_out(&mut self, key: u64) -> bool {
        let found = self.objects.find(key, hash_of(key));
        if let Some(id) = found {
            self.eviction.remove(&mut self.objects, id, Leave::Removed);
            self.objects.delete(id);
        }
        found.is_some()
    }

    fn prefetch_node(&self, access: &Access) -> Id {
        let hash = hash_of(access.key);
        if let Some(id) = self.objects.prefetch_likely(hash) {
            return id;
        }
        self.eviction.prefetch_miss(hash);
        crate::objects::NONE
    }
}

impl<E: Eviction + Send, A: Admission + Send> Policy for Cache<E, A> {
    fn access(&mut self, key: u64, size: u32) -> Decision<'_> {
        self.evicted.clear();
        self.promoted.clear();
        let outcome = self.step(key, hash_of(key), size);
        let written = outcome.slot().map(|slot| self.objects.key(slot));
        Decision {
            hit: outcome.is_hit(),
            admit: written == Some(key),
            promoted: &self.promoted,
            evicted: &self.evicted,
        }
    }

    fn pass(&mut self, key: u64, size: u32) {
        let (hash, time) = (hash_of(key), self.counters.requests);
        self.counters.requests += 1;
        let full = self.objects.bytes() + u64::from(size) > self.capacity;
        self.admission.miss(&mut Incoming { key, hash, size, time, full, count: 0 });
    }

    fn allocate(&mut self, key: u64, size: u32) -> Decision<'_> {
        self.evicted.clear();
        self.promoted.clear();
        let (hash, time) = (hash_of(key), self.counters.requests);
        let hit = self.objects.find(key, hash).is_some();
        let mut admit = false;
        if !hit {
            let full = self.objects.bytes() + u64::from(size) > self.capacity;
            let incoming = Incoming { key, hash, size, time, full, count: 0 };
            admit = self.put_unasked(incoming).slot().is_some();
        }
        Decision { hit, admit, promoted: &self.promoted, evicted: &self.evicted }
    }

    fn has_room(&self, size: u32) -> bool {
        let room = self.capacity.checked_sub(size.into());
        room.is_some_and(|room| self.objects.bytes() <= room)
            && self.eviction.fits_on_flash(size.into())
    }

    fn access_batch(&mut self, batch: &[Access], outcomes: &mut Vec<Outcome>) {
        outcomes.clear();
        outcomes.reserve(batch.len());
        let mut likely = [crate::objects::NONE; 16];
        for access in batch.iter().take(AHEAD[0]) {
            self.objects.prefetch_index(hash_of(access.key));
            self.admission.prefetch(access.key, hash_of(access.key));
        }
        for (at, access) in batch.iter().enumerate() {
            if let Some(access) = batch.get(at + AHEAD[0]) {
                let hash = hash_of(access.key);
                self.objects.prefetch_index(hash);
                self.admission.prefetch(access.key, hash);
            }
            if let Some(access) = batch.get(at + AHEAD[1]) {
                likely[at % 16] = self.prefetch_node(access);
            }
            let near = likely[(at + AHEAD[2]) % 16];
            if near != crate::objects::NONE {
                self.eviction.prefetch(&self.objects, near);
            }
            outcomes.push(self.step(access.key, hash_of(access.key), access.size));
        }
    }

    fn contains(&self, key: u64) -> bool {
        self.objects.find(key, hash_of(key)).is_some()
    }

    fn remove(&mut self, key: u64) -> bool {
        self.take_out(key)
    }

    fn forget(&mut self, key: u64) -> bool {
        let was = self.take_out(key);
        self.admission.forget(key);
        was
    }

    fn set_references(&mut self, key: u64, references: u32) {
        self.admission.set_references(key, references);
    }

    fn len(&self) -> usize {
        self.objects.len()
    }

    fn bytes(&self) -> u64 {
        self.objects.bytes()
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn memory_bytes(&self) -> usize {
        let policies = self.eviction.memory_bytes() + self.admission.memory_bytes();
        self.objects.memory_bytes() + policies
    }

    fn history_bytes(&self) -> usize {
        self.admission.history_bytes()
    }

    fn dump(&mut self) -> Vec<Vec<u64>> {
        let parts = self.eviction.parts();
        parts.lists.iter().map(|list| self.objects.keys(list)).collect()
    }

    fn export(&mut self) -> State {
        let mut state = State::new(self.name, self.capacity);
        state::save(&mut state, &self.objects, &mut self.eviction.parts(), true);
        state::save(&mut state, &self.objects, &mut self.admission.parts(), false);
        state
    }

    fn import(&mut self, state: &State) -> Result<(), StateError> {
        state.check(self.name, self.capacity)?;
        for key in state.keys() {
            self.take_out(key);
        }
        for key in self.dump().into_iter().flatten() {
            self.take_out(key);
        }
        for entry in &state.entries {
            let id = self.objects.add(entry.key, hash_of(entry.key), entry.size);
            let list = entry.list as usize;
            *self.objects.word_mut(id) = self.eviction.word_in(list, entry.word);
            if !self.eviction.restore(&mut self.objects, id, list) {
                self.objects.delete(id);
                return Err(StateError::List { list: entry.list, key: entry.key });
            }
        }
        let mut sections = state.sections.iter();
        let loaded = state::load(&mut sections, &self.objects, &mut self.eviction.parts());
        // Also after an error: what is there then has to be taken out again.
        self.eviction.restored(&mut self.objects);
        loaded?;
        let loaded = state::load(&mut sections, &self.objects, &mut self.admission.parts());
        self.admission.restored();
        loaded
    }
}
