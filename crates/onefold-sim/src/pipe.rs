//! Servers without a queue in memory: a constant-rate link and a set of equal stations.
//! Room: onefold-sim.   In: jobs, in order of time.   Out: when each begins and ends.
//! Invariants: (1) first come, first served: a job begins at once or when a server comes free
//! (2) the same times, to the nanosecond, as [`crate::Resource`] under the same load, a test says
//! so  (3) bytes are booked under one cause each, and the causes add up to the whole.
//! Cost: O(1) for a pipe, O(log servers) for stations; no event but the one that the caller
//! schedules for the end. That is sound only where nobody overtakes: for priorities and for jobs
//! that give up, there is [`crate::Resource`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::{SimSpan, SimTime};

/// When a job was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// When its service began.
    pub start: SimTime,
    /// When its service ended.
    pub end: SimTime,
}

/// What every server counts.
#[derive(Clone, Debug, Default)]
struct Account {
    since: SimTime,
    last: SimTime,
    /// Service asked for, whether or not it lies ahead.
    busy_ns: u128,
    /// Service that lay ahead when the account began.
    carried_ns: u128,
    waited_ns: u128,
    jobs: u64,
}

impl Account {
    fn serve(&mut self, now: SimTime, start: SimTime, span: SimSpan) -> Served {
        assert!(now >= self.last, "a job at {now} comes after one at {}", self.last);
        self.last = now;
        let end = start + span;
        self.busy_ns += u128::from(span.ns());
        self.waited_ns += u128::from(start.since(now).ns());
        self.jobs += 1;
        Served { start, end }
    }

    fn restart(&mut self, now: SimTime, carried_ns: u128) {
        *self = Self { since: now, last: self.last, carried_ns, ..Self::default() };
    }

    fn load(&self, ahead_ns: u128, servers: usize, now: SimTime) -> Load {
        let elapsed = now.since(self.since).ns() as f64;
        let per = |value: u128, of: f64| if of > 0.0 { value as f64 / of } else { 0.0 };
        let busy_ns = self.busy_ns + self.carried_ns - ahead_ns;
        Load {
            utilisation: per(busy_ns, elapsed * servers as f64),
            busy_ns,
            waiting_mean: per(self.waited_ns, elapsed),
            wait_ns_mean: per(self.waited_ns, self.jobs as f64),
            jobs: self.jobs,
        }
    }
}

/// How servers spent a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Busy share of the capacity, 0 to 1.
    pub utilisation: f64,
    /// Time that servers were busy, summed over them, in ns.
    pub busy_ns: u128,
    /// Jobs waiting, on average over time, of those that came in the stretch.
    pub waiting_mean: f64,
    /// Waiting time of a job before its service, on average, in ns.
    pub wait_ns_mean: f64,
    /// Jobs that came in the stretch.
    pub jobs: u64,
}

/// Equal servers behind one queue.
#[derive(Clone, Debug)]
pub struct Stations {
    /// When each server comes free, the earliest on top.
    free: BinaryHeap<Reverse<SimTime>>,
    account: Account,
}

impl Stations {
    /// `servers` idle servers, at least one.
    pub fn new(servers: u32) -> Self {
        assert!(servers > 0, "stations without servers serve nobody");
        let free = std::iter::repeat_n(Reverse(SimTime::ZERO), servers as usize).collect();
        Self { free, account: Account::default() }
    }

    /// Number of servers.
    pub fn servers(&self) -> usize {
        self.free.len()
    }

    /// Serves a job of this length that arrives now. Jobs must arrive in order of time.
    pub fn serve(&mut self, now: SimTime, span: SimSpan) -> Served {
        let mut earliest = self.free.peek_mut().expect("there is a server");
        let served = self.account.serve(now, earliest.0.max(now), span);
        earliest.0 = served.end;
        served
    }

    /// When a job that arrives at `now` would begin.
    pub fn next_free(&self, now: SimTime) -> SimTime {
        self.free.peek().map_or(now, |earliest| earliest.0.max(now))
    }

    /// How the time from the start, or the last [`Self::restart_account`], to `now` was spent.
    pub fn load(&self, now: SimTime) -> Load {
        self.account.load(self.ahead_ns(now), self.free.len(), now)
    }

    /// Forgets the time so far.
    pub fn restart_account(&mut self, now: SimTime) {
        self.account.restart(now, self.ahead_ns(now));
    }

    /// Service that was asked for and lies after `now`.
    fn ahead_ns(&self, now: SimTime) -> u128 {
        self.free.iter().map(|free| ahead_ns(free.0, now)).sum()
    }
}

/// A link of constant rate. Bytes leave in order of arrival, and arrive a latency later.
#[derive(Clone, Debug)]
pub struct Pipe {
    bytes_per_s: u64,
    latency: SimSpan,
    free: SimTime,
    account: Account,
    bytes: Vec<u64>,
}

impl Pipe {
    /// An idle link; `causes` is how many causes bytes are booked under.
    pub fn new(bytes_per_s: u64, latency: SimSpan, causes: usize) -> Self {
        assert!(bytes_per_s > 0, "nothing is ever transferred at 0 B/s");
        let bytes = vec![0; causes];
        Self { bytes_per_s, latency, free: SimTime::ZERO, account: Account::default(), bytes }
    }

    /// Sends bytes that are there now; they have arrived a latency after the end of the service
    /// ([`Self::latency`]). Transfers must be asked for in order of time.
    pub fn send(&mut self, now: SimTime, bytes: u64, cause: usize) -> Served {
        let span = SimSpan::of_transfer(bytes, self.bytes_per_s);
        let served = self.account.serve(now, self.free.max(now), span);
        self.free = served.end;
        self.bytes[cause] += bytes;
        served
    }

    /// When bytes that are there at `now` would begin to leave.
    pub fn next_free(&self, now: SimTime) -> SimTime {
        self.free.max(now)
    }

    /// Time between leaving and arriving.
    pub const fn latency(&self) -> SimSpan {
        self.latency
    }

    /// Bytes sent, by cause.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// How the time from the start, or the last [`Self::restart_account`], to `now` was spent.
    pub fn load(&self, now: SimTime) -> Load {
        self.account.load(ahead_ns(self.free, now), 1, now)
    }

    /// Forgets time and bytes so far. Bytes still on their way were booked when they were sent.
    pub fn restart_account(&mut self, now: SimTime) {
        self.account.restart(now, ahead_ns(self.free, now));
        self.bytes.fill(0);
    }
}

/// How long a server that is busy until `free` is busy after `now`.
fn ahead_ns(free: SimTime, now: SimTime) -> u128 {
    u128::from(free.max(now).since(now).ns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::EventQueue;
    use crate::random::{RandomStream, RandomStreams};
    use crate::resource::{Discipline, Grant, Resource};

    #[derive(Clone, Copy)]
    enum Event {
        Arrive(usize),
        Done(usize),
    }

    /// What a queue in memory gives for the same jobs: their ends, and the busy and waiting time.
    fn with_events(servers: u32, jobs: &[(SimTime, SimSpan)]) -> (Vec<SimTime>, u128, u128) {
        let mut resource = Resource::new("r", servers, Discipline::Fifo);
        let mut queue = EventQueue::new();
        let mut ends = vec![SimTime::ZERO; jobs.len()];
        // One arrival at a time is in the queue, so that ends and arrivals of one instant keep the
        // order in which they were caused.
        for (number, job) in jobs.iter().enumerate() {
            queue.at(job.0, Event::Arrive(number));
        }
        while let Some((now, event)) = queue.pop() {
            let begun = match event {
                Event::Arrive(number) => match resource.request(now, number) {
                    Grant::Now(number) => Some(number),
                    Grant::Later => None,
                },
                Event::Done(number) => {
                    ends[number] = now;
                    resource.release(now)
                }
            };
            if let Some(number) = begun {
                queue.after(jobs[number].1, Event::Done(number));
            }
        }
        let usage = resource.usage(queue.now());
        (ends, usage.busy_ns, usage.waited_ns)
    }

    fn jobs(
        stream: &mut RandomStream,
        span: impl Fn(&mut RandomStream) -> SimSpan,
    ) -> Vec<(SimTime, SimSpan)> {
        let mut now = SimTime::ZERO;
        let gap = stream.below(60);
        (0..=stream.below(40))
            .map(|_| {
                now += SimSpan::from_ns(stream.below(gap + 1));
                (now, span(stream))
            })
            .collect()
    }

    #[test]
    fn random_loads_end_when_a_queue_in_memory_ends_them() {
        let mut stream = RandomStreams::new(5).stream("stations");
        for _ in 0..10_000 {
            let servers = 1 + stream.below(5) as u32;
            let load = jobs(&mut stream, |s| SimSpan::from_ns(s.below(90)));
            let mut stations = Stations::new(servers);
            let ends: Vec<SimTime> =
                load.iter().map(|&(at, span)| stations.serve(at, span).end).collect();
            let (expected, busy_ns, waited_ns) = with_events(servers, &load);
            assert_eq!(ends, expected, "{servers} servers, {load:?}");
            assert_eq!(stations.account.busy_ns, busy_ns);
            assert_eq!(stations.account.waited_ns, waited_ns);
        }
    }

    #[test]
    fn a_pipe_is_one_station_whose_jobs_are_bytes() {
        let mut stream = RandomStreams::new(6).stream("pipe");
        for _ in 0..10_000 {
            let rate = 1 + stream.below(3_000_000_000);
            let mut pipe = Pipe::new(rate, SimSpan::from_ns(9), 2);
            let mut total = 0;
            let load = jobs(&mut stream, |s| SimSpan::from_ns(s.below(5_000)));
            let spans: Vec<(SimTime, SimSpan)> = load
                .iter()
                .map(|&(at, bytes)| (at, SimSpan::of_transfer(bytes.ns(), rate)))
                .collect();
            let ends: Vec<SimTime> = load
                .iter()
                .enumerate()
                .map(|(number, &(at, bytes))| {
                    total += bytes.ns();
                    pipe.send(at, bytes.ns(), number % 2).end
                })
                .collect();
            assert_eq!(ends, with_events(1, &spans).0);
            assert_eq!(pipe.bytes().iter().sum::<u64>(), total);
        }
    }

    #[test]
    fn accounts_of_a_stretch_add_up() {
        let at = SimTime::from_ns;
        let mut stations = Stations::new(2);
        for (now, span) in [(0, 10), (0, 20), (5, 10), (6, 4)] {
            stations.serve(at(now), SimSpan::from_ns(span));
        }
        // Served 0-10, 0-20, 10-20 and 20-24: 44 busy of 48, waiting 5 and 14.
        let load = stations.load(at(24));
        assert!((load.utilisation - 44.0 / 48.0).abs() < 1e-12);
        assert!((load.wait_ns_mean - 19.0 / 4.0).abs() < 1e-12);
        assert!((load.waiting_mean - 19.0 / 24.0).abs() < 1e-12);
        assert_eq!((stations.next_free(at(24)), stations.servers()), (at(24), 2));
        // Half-way through the last job, what lies ahead is not counted, and is later.
        assert!((stations.load(at(22)).utilisation - 42.0 / 44.0).abs() < 1e-12);
        stations.restart_account(at(22));
        assert!((stations.load(at(30)).utilisation - 2.0 / 16.0).abs() < 1e-12);
    }

    #[test]
    #[should_panic(expected = "comes after one at")]
    fn jobs_come_in_order_of_time() {
        let mut pipe = Pipe::new(1_000, SimSpan::ZERO, 1);
        pipe.send(SimTime::from_ns(7), 1, 0);
        pipe.send(SimTime::from_ns(6), 1, 0);
    }
}
