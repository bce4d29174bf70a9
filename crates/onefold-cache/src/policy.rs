//! The contracts: eviction and admission, which decide, and the policy that a caller talks to.
//! Room: onefold-cache.
//! Invariants: (1) a policy looks and answers, it never moves data  (2) the same requests in the
//! same order give the same decisions, online and simulated.

use crate::objects::{Id, Objects};
pub use crate::parts::Parts;
use crate::state::{State, StateError};

/// One request for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which object. Numbers that count from 0 take the least memory.
    pub key: u64,
    /// Its size in bytes, at least 1.
    pub size: u32,
}

/// A request as policies see it.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// Which object.
    pub key: u64,
    /// [`crate::hash_of`] its key.
    pub hash: u64,
    /// Its size in bytes.
    pub size: u32,
    /// Number of the request, from 0.
    pub time: u64,
    /// Whether it would have to push others out.
    pub full: bool,
    /// What the admission policy knows of its popularity, for the eviction policy to order by.
    pub count: u32,
}

/// Why an object leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It was chosen as the victim.
    Evicted,
    /// The owner took it out; nothing is to be learnt from that.
    Removed,
}

/// Where a new object is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the fast device.
    Flash,
    /// In memory, for now.
    Memory,
}

/// Which object goes when room is needed.
///
/// The caller keeps [`Objects`] and guarantees that ids are of cached objects. Every cached object
/// is in exactly one list of the policy from `insert` to `remove`.
pub trait Eviction {
    /// An object was asked for and is cached.
    fn hit(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming);

    /// An object that is not cached will be inserted unless [`Eviction::victim`] refuses: called
    /// before the first question for a victim.
    fn prepare(&mut self, objects: &mut Objects, incoming: &Incoming) {
        let _ = (objects, incoming);
    }

    /// The object to let go for the newcomer; `None` keeps all and refuses the newcomer. Called
    /// with at least one object cached.
    fn victim(&mut self, objects: &mut Objects, incoming: &Incoming) -> Option<Id>;

    /// [`Eviction::victim`] for a policy that leaves it to admission what objects are worth.
    fn victim_by(
        &mut self,
        objects: &mut Objects,
        incoming: &Incoming,
        judge: &mut dyn Judge,
    ) -> Option<Id> {
        let _ = judge;
        self.victim(objects, incoming)
    }

    /// Moves what may move without anybody going, before the first question for a victim.
    fn settle(&mut self, objects: &mut Objects, incoming: &Incoming, judge: &mut dyn Judge) {
        let _ = (objects, incoming, judge);
    }

    /// Whether somebody has to go for this newcomer although all of it would fit.
    fn is_over(&self, incoming: &Incoming) -> bool {
        let _ = incoming;
        false
    }

    /// Admission preferred the victim to the newcomer.
    fn kept(&mut self, objects: &mut Objects, id: Id) {
        let _ = (objects, id);
    }

    /// A new object, in no list and with word 0, takes its place.
    fn insert(&mut self, objects: &mut Objects, id: Id, incoming: &Incoming) -> Place;

    /// An object moved from memory to the fast device since the last question.
    fn promoted(&mut self) -> Option<Id> {
        None
    }

    /// Whether newcomers wait in memory. What comes to the fast device unasked passes that by then:
    /// it is restored, with word 0 and in the first list, and room is made by
    /// [`Eviction::flash_victim`].
    fn has_stage(&self) -> bool {
        false
    }

    /// Whether so many bytes fit on the fast device although others wait in memory.
    fn fits_on_flash(&self, bytes: u64) -> bool {
        let _ = bytes;
        true
    }

    /// The object to let go for one that comes to the fast device unasked; `None` if there is none.
    fn flash_victim(&mut self, objects: &mut Objects, judge: &mut dyn Judge) -> Option<Id> {
        let _ = (objects, judge);
        None
    }

    /// Takes an object out of its list; the caller deletes it then.
    fn remove(&mut self, objects: &mut Objects, id: Id, why: Leave);

    /// The object that would be the next victim, if that is known without searching.
    fn next(&self) -> Option<Id> {
        None
    }

    /// Asks for the memory that a hit of this object will need besides its node.
    fn prefetch(&self, objects: &Objects, id: Id) {
        let _ = (objects, id);
    }

    /// Asks for the memory that a miss of this hash will need.
    fn prefetch_miss(&self, hash: u64) {
        let _ = hash;
    }

    /// Everything that has to survive a restart, in an order that never changes.
    fn parts(&mut self) -> Parts<'_>;

    /// The word of an object that is restored to this list of [`Parts::lists`], and had `word`
    /// when it was saved. What was saved may have been made to do harm: no word may name a list
    /// other than this one, or more rounds than an object can have.
    fn word_in(&self, list: usize, word: u32) -> u32 {
        let _ = list;
        word
    }

    /// All of a state is restored, and its parts may not agree: it may be of a time when other
    /// objects were cached.
    fn restored(&mut self, objects: &mut Objects) {
        let _ = objects;
    }

    /// Puts a restored object, whose word is set, at the back of a list of [`Parts::lists`].
    fn restore(&mut self, objects: &mut Objects, id: Id, list: usize) -> bool {
        let mut parts = self.parts();
        match parts.lists.get_mut(list) {
            Some(list) => {
                objects.push_back(list, id);
                true
            }
            None => false,
        }
    }

    /// Bytes of memory beyond objects and counts.
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// Which object is worth a write.
pub trait Admission {
    /// An object was asked for and is cached.
    fn hit(&mut self, incoming: &mut Incoming) {
        let _ = incoming;
    }

    /// An object was asked for and is not cached: whether it may go on to the comparison with a
    /// victim, or into free room.
    fn miss(&mut self, incoming: &mut Incoming) -> bool;

    /// Whether the newcomer is worth more than this victim.
    fn replaces(&mut self, incoming: &Incoming, victim: u64) -> bool {
        let _ = (incoming, victim);
        true
    }

    /// See [`Judge::worth`].
    fn worth(&mut self, key: u64) -> i64 {
        let _ = key;
        0
    }

    /// See [`Judge::pays`].
    fn pays(&mut self, newcomer: u64, size: u32, victim: Option<u64>) -> bool {
        let _ = (newcomer, size, victim);
        true
    }

    /// An object left the cache for a newcomer. `word` is the eviction policy's.
    fn evicted(&mut self, key: u64, word: u32) {
        let _ = (key, word);
    }

    /// An object of so many bytes was written.
    fn written(&mut self, size: u32) {
        let _ = size;
    }

    /// How many files use a container.
    fn set_references(&mut self, key: u64, references: u32) {
        let _ = (key, references);
    }

    /// The object exists no longer: forget it.
    fn forget(&mut self, key: u64) {
        let _ = key;
    }

    /// Asks for the memory that a request for this key will need.
    fn prefetch(&self, key: u64, hash: u64) {
        let _ = (key, hash);
    }

    /// A state is restored, which may have been made to do harm: numbers that cannot be become
    /// some that can.
    fn restored(&mut self) {}

    /// Everything that has to survive a restart, in an order that never changes.
    fn parts(&mut self) -> Parts<'_> {
        Parts::default()
    }

    /// Bytes of memory, without what grows with all containers.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Bytes of memory that grow with all containers, cached or not.
    fn history_bytes(&self) -> usize {
        0
    }
}

/// What an eviction policy may ask of admission.
pub trait Judge {
    /// What a cached object is worth keeping: of two the one with less goes first.
    fn worth(&mut self, key: u64) -> i64;

    /// Whether a newcomer of `size` bytes is worth its write, in place of the victim or into free
    /// room.
    fn pays(&mut self, newcomer: u64, size: u32, victim: Option<u64>) -> bool;
}

impl<A: Admission> Judge for A {
    fn worth(&mut self, key: u64) -> i64 {
        Admission::worth(self, key)
    }

    fn pays(&mut self, newcomer: u64, size: u32, victim: Option<u64>) -> bool {
        Admission::pays(self, newcomer, size, victim)
    }
}

/// What to do about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Serve it from the cache.
    pub hit: bool,
    /// Write the object to the cache, after removing `evicted`.
    pub admit: bool,
    /// Other objects that have been held in memory and have to be written now.
    pub promoted: &'a [u64],
    /// Objects that left the cache to make room.
    pub evicted: &'a [u64],
}

/// One request's outcome in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome(u32);

impl Outcome {
    /// Served from the cache.
    pub const HIT: Self = Self(u32::MAX);
    /// Read from below, nothing written.
    pub const PASSED: Self = Self(u32::MAX - 1);

    /// Read from below, and a slot of the cache written; the last one, where objects of different
    /// sizes let several be written.
    pub const fn written(slot: u32) -> Self {
        Self(slot)
    }

    /// Whether it was served from the cache.
    pub const fn is_hit(self) -> bool {
        self.0 == Self::HIT.0
    }

    /// The slot written, if one was.
    pub const fn slot(self) -> Option<u32> {
        if self.0 < Self::PASSED.0 { Some(self.0) } else { None }
    }
}

/// What a policy did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests.
    pub requests: u64,
    /// Requests served from the cache.
    pub hits: u64,
    /// Objects written to the fast device.
    pub writes: u64,
    /// Bytes written to the fast device.
    pub written_bytes: u64,
    /// Objects let go to make room.
    pub evictions: u64,
}

/// A cache policy: what the tiered store and the simulator talk to.
pub trait Policy: Send {
    /// Decides about one request.
    fn access(&mut self, key: u64, size: u32) -> Decision<'_>;

    /// An object is asked for that is not cached and cannot be kept now, whatever the policy says:
    /// it learns of the request and decides nothing.
    fn pass(&mut self, key: u64, size: u32);

    /// An object that nobody has asked for yet is to be kept on the fast device, whatever admission
    /// says of it. A hit if it is cached already; not admitted if eviction keeps all others.
    fn allocate(&mut self, key: u64, size: u32) -> Decision<'_>;

    /// Whether [`Policy::allocate`] evicts nothing for another object of this size.
    fn has_room(&self, size: u32) -> bool;

    /// Decides about many requests; `outcomes` gets one entry for each. Gives exactly what
    /// [`Policy::access`] gives one by one, and is faster.
    fn access_batch(&mut self, batch: &[Access], outcomes: &mut Vec<Outcome>);

    /// Whether an object is cached.
    fn contains(&self, key: u64) -> bool;

    /// The object is gone or can no longer be trusted: takes it out if it is cached, and says
    /// whether it was.
    fn remove(&mut self, key: u64) -> bool;

    /// The object exists no longer: takes it out and forgets everything known of it, but for what
    /// lists of evicted objects hold, which go by themselves.
    fn forget(&mut self, key: u64) -> bool;

    /// How many files use a container, for the policies that ask.
    fn set_references(&mut self, key: u64, references: u32);

    /// Objects cached.
    fn len(&self) -> usize;

    /// Whether nothing is cached.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes cached.
    fn bytes(&self) -> u64;

    /// Bytes that may be cached.
    fn capacity(&self) -> u64;

    /// What was done so far; not part of the saved state.
    fn counters(&self) -> Counters;

    /// Bytes of memory taken, without what grows with all containers.
    fn memory_bytes(&self) -> usize;

    /// Bytes of memory that grow with all containers, cached or not.
    fn history_bytes(&self) -> usize;

    /// Keys of each list, the oldest first.
    fn dump(&mut self) -> Vec<Vec<u64>>;

    /// What is cached, in which order, and all counters.
    fn export(&mut self) -> State;

    /// Takes over a saved state, in place of everything known. Refuses what does not fit.
    fn import(&mut self, state: &State) -> Result<(), StateError>;
}
