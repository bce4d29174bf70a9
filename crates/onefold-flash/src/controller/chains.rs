//! Requests under way, and the steps of their pages that follow each other.
//! Room: onefold-flash.
//! A request (flight) has parts, usually one per page; a part is a chain of foreground steps. Most
//! chains have one step, and the list of further ones stays empty.

use crate::op::{Cause, OpKind};

/// Where the time of a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Waiting for the drive to take it, for a buffer, or for other requests' operations.
    Queue,
    /// On and waiting for the host's own cores.
    Host,
    /// On the link to the host.
    Link,
    /// On and waiting for cores and engines.
    Engine,
    /// On and waiting for the channel.
    Bus,
    /// In the flash array.
    Array,
    /// Waiting behind operations that no request waits for.
    Background,
}

impl Share {
    /// Every share.
    pub const ALL: [Self; 7] = [
        Self::Queue,
        Self::Host,
        Self::Link,
        Self::Engine,
        Self::Bus,
        Self::Array,
        Self::Background,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Host => "host",
            Self::Link => "link",
            Self::Engine => "engine",
            Self::Bus => "bus",
            Self::Array => "array",
            Self::Background => "gc_interference",
        }
    }
}

/// Nanoseconds by [`Share`].
pub type Breakdown = [u64; Share::ALL.len()];

/// A request under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flight {
    /// Parts not finished, and one while parts may still be added.
    pub parts_left: u32,
    /// Where its time went: before and after its parts, and in the one that was done last.
    pub breakdown: Breakdown,
}

/// A step that waits for the ones before it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// An engine works.
    Work { engine: u8, ns: u64 },
    /// A page is read; `again` where the code did not correct it the first time.
    Read { ppn: u32, cause: Cause, again: bool },
    /// A page is programmed; it holds its place in the queue of its unit.
    Held { unit: u32 },
    /// Another request's program of this page ends.
    Await { ppn: u32 },
}

/// The steps of one part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    pub flight: u32,
    /// Where its time went.
    pub breakdown: Breakdown,
    /// Whether a step is under way.
    pub active: bool,
    /// Whether more is to be decided when its steps are done.
    pub continues: bool,
    /// Steps to come, the next one last.
    pub steps: Vec<Step>,
    /// When the present engine step, or the waiting for a program or other requests, began.
    pub since: u64,
    /// Since when its operation waits for its unit.
    pub waits: Waiting,
}

/// The beginning of a wait for a unit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// When it began.
    pub since: u64,
    /// Time that the unit had spent in the background by then.
    pub background: u64,
}

/// Numbered things that come and go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T: Default> Slab<T> {
    /// A free number; its thing is as it was left.
    pub(crate) fn take(&mut self) -> u32 {
        if let Some(number) = self.free.pop() {
            return number;
        }
        self.items.push(T::default());
        (self.items.len() - 1) as u32
    }

    /// Gives a number back.
    pub(crate) fn give_back(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Numbers in use.
    pub(crate) fn in_use(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.items[number as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.items[number as usize]
    }
}

/// An operation's name for traces.
pub(crate) fn op_name(kind: OpKind, cause: Cause, ppn: u32) -> String {
    let kind = match kind {
        OpKind::Read => "read",
        OpKind::Program => "program",
        OpKind::Erase => "erase",
    };
    format!("{} {kind} {ppn}", cause.name())
}
