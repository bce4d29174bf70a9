//! The driver: hands a model its events until the work is done, or says what blocks it.
//! Room: onefold-sim.   In: a [`Model`] and its first events.   Out: [`RunEnd`] or [`SimError`].
//! Invariants: (1) work left without an event is an error, never a quiet end  (2) the hash of the
//! event log depends on every event, its time and its place.

use crate::queue::EventQueue;
use crate::resource::ResourceState;
use crate::time::SimTime;

/// What can happen in a model: one closed enum, small enough to copy.
pub trait Event: Copy {
    /// The event as numbers, different for different events: what the log's hash is made of.
    fn words(&self) -> [u64; 2];
}

/// Something that reacts to events.
pub trait Model {
    /// What can happen.
    type Event: Event;

    /// Reacts to an event that is due now, and schedules what follows from it.
    fn handle(&mut self, event: Self::Event, queue: &mut EventQueue<Self::Event>);

    /// Pieces of work begun or promised and not finished; the run ends well at zero.
    fn work_left(&self) -> u64;

    /// Every resource that jobs may wait for.
    fn resources(&self) -> Vec<ResourceState>;
}

/// Bounds of a run, so that a model that keeps itself busy for ever is caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most events to handle.
    pub events_max: u64,
}

impl Default for Limits {
    /// 2^50 events: years of computing.
    fn default() -> Self {
        Self { events_max: 1 << 50 }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// When the last event happened.
    pub time: SimTime,
    /// Events handled by this call.
    pub events: u64,
}

/// Why a run did not end well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// Work is left and nothing will ever happen again.
    #[error("stalled at {at} with {work_left} pieces of work left: blocked at {}", named(blocked))]
    Stalled {
        /// When the last event happened.
        at: SimTime,
        /// Work that will never be finished.
        work_left: u64,
        /// The resources with jobs waiting, the longest queue first; if no job waits, those
        /// with busy servers.
        blocked: Vec<ResourceState>,
    },
    /// More events than the limit allows.
    #[error("no end after {events} events at {at}: {work_left} pieces of work left")]
    Endless {
        /// When the last event happened.
        at: SimTime,
        /// Events handled.
        events: u64,
        /// Work not finished.
        work_left: u64,
    },
}

fn named(blocked: &[ResourceState]) -> String {
    if blocked.is_empty() {
        return "no resource: nothing waits and nothing is busy".to_owned();
    }
    blocked.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A running hash of everything that happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventLog {
    state: u64,
    events: u64,
}

impl EventLog {
    /// Adds an event to the log.
    pub fn record(&mut self, at: SimTime, event: &impl Event) {
        let [first, second] = event.words();
        for word in [at.ns(), first, second] {
            self.state = (self.state.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        self.events += 1;
    }

    /// The hash so far.
    pub fn hash(&self) -> u64 {
        onefold_block::SplitMix64::new(self.state ^ self.events).next_u64()
    }

    /// Events in the log.
    pub const fn events(&self) -> u64 {
        self.events
    }
}

/// Runs a model until no event is left. What happened is added to `log`.
pub fn run<M: Model>(
    model: &mut M,
    queue: &mut EventQueue<M::Event>,
    log: &mut EventLog,
    limits: Limits,
) -> Result<RunEnd, SimError> {
    let mut events = 0;
    while let Some((at, event)) = queue.pop() {
        if events == limits.events_max {
            return Err(SimError::Endless { at, events, work_left: model.work_left() });
        }
        events += 1;
        log.record(at, &event);
        model.handle(event, queue);
    }
    match model.work_left() {
        0 => Ok(RunEnd { time: queue.now(), events }),
        work_left => {
            let blocked = blocked(model.resources());
            Err(SimError::Stalled { at: queue.now(), work_left, blocked })
        }
    }
}

/// The resources that jobs wait for; if there are none, those that are held.
fn blocked(mut resources: Vec<ResourceState>) -> Vec<ResourceState> {
    let waits = resources.iter().any(|state| state.waiting > 0);
    resources.retain(|state| if waits { state.waiting > 0 } else { state.busy > 0 });
    resources.sort_by_key(|state| std::cmp::Reverse(state.waiting));
    resources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Tick(u64);

    impl Event for Tick {
        fn words(&self) -> [u64; 2] {
            [self.0, 0]
        }
    }

    #[test]
    fn who_is_waited_for_is_named_or_who_is_held_if_nobody_waits() {
        let state = |name: &str, busy, waiting| ResourceState {
            name: name.to_owned(),
            servers: 2,
            busy,
            waiting,
        };
        let names = |resources| {
            blocked(resources).into_iter().map(|state| state.name).collect::<Vec<_>>().join(" ")
        };
        let idle = || [state("idle", 0, 0), state("held", 1, 0)];
        assert_eq!(names(idle().to_vec()), "held");
        let [one, two] = idle();
        assert_eq!(names(vec![one, two, state("some", 1, 1), state("many", 2, 3)]), "many some");
    }

    #[test]
    fn the_hash_sees_time_content_order_and_number() {
        let hash = |events: &[(u64, u64)]| {
            let mut log = EventLog::default();
            for &(at, tick) in events {
                log.record(SimTime::from_ns(at), &Tick(tick));
            }
            log.hash()
        };
        let all = [
            hash(&[]),
            hash(&[(0, 0)]),
            hash(&[(0, 0), (0, 0)]),
            hash(&[(1, 2), (3, 4)]),
            hash(&[(3, 4), (1, 2)]),
            hash(&[(1, 2), (3, 5)]),
            hash(&[(1, 2), (4, 4)]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b), "{i}: {all:x?}");
        }
    }

    #[test]
    fn the_longest_queue_is_named_first() {
        let state = |name: &str, busy, waiting| ResourceState {
            name: name.into(),
            servers: 1,
            busy,
            waiting,
        };
        let names = |states: Vec<ResourceState>| {
            blocked(states).into_iter().map(|state| state.name).collect::<Vec<_>>()
        };
        let mixed = vec![state("cpu", 1, 0), state("die 3", 1, 2), state("bus", 1, 7)];
        assert_eq!(names(mixed), ["bus", "die 3"]);
        assert_eq!(names(vec![state("cpu", 1, 0), state("bus", 0, 0)]), ["cpu"]);
        assert!(named(&[]).contains("no resource"));
    }
}
