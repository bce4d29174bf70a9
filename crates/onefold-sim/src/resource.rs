//! Resources: servers that jobs wait for, first come first served or by priority.
//! Room: onefold-sim.   In: jobs.   Out: [`Grant`]s, and accounts of busy and waiting time.
//! Invariants: (1) a job waits only while every server is busy  (2) within a priority, jobs are
//! served in order of arrival  (3) busy, waiting and idle time add up.
//! Cost: O(priorities) per release, O(1) per request.

use std::collections::VecDeque;
use std::fmt;

use crate::time::SimTime;

/// In which order waiting jobs are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// In order of arrival.
    Fifo,
    /// By priority, 0 first; in order of arrival within one. Running jobs are not interrupted.
    Priority {
        /// Number of priorities, at least 1.
        levels: u8,
    },
}

/// Most jobs that wait for a resource unless it says otherwise, 16 Mi: a model that lets more wait
/// is offered more than it can serve, and would only fill the memory.
pub const WAITING_LIMIT: usize = 1 << 24;

/// A job that found the queue full.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue of `{name}` is full: {limit} jobs wait for its {servers} servers")]
pub struct QueueFull {
    /// The resource's name.
    pub name: String,
    /// Its servers, all of them busy.
    pub servers: u32,
    /// Most jobs that may wait.
    pub limit: usize,
}

/// What became of a request for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Grant<J> {
    /// The job has a server from now on; release it when done.
    Now(J),
    /// The job waits; a later release gives it out.
    Later,
}

/// A number of equal servers and the jobs that wait for them.
#[derive(Clone, Debug)]
pub struct Resource<J> {
    name: String,
    servers: u32,
    busy: u32,
    /// One queue per priority, each job with its time of arrival.
    lanes: Vec<VecDeque<(SimTime, J)>>,
    waiting: usize,
    limit: usize,
    account: Account,
}

#[derive(Clone, Debug, Default)]
struct Account {
    since: SimTime,
    last: SimTime,
    busy_ns: u128,
    waiting_ns: u128,
    granted: u64,
    waited_ns: u128,
    waiting_max: usize,
}

/// Where a resource stands, for the report of a stall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceState {
    /// The resource's name.
    pub name: String,
    /// Its servers.
    pub servers: u32,
    /// How many of them are busy.
    pub busy: u32,
    /// Jobs waiting.
    pub waiting: usize,
}

impl fmt::Display for ResourceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, servers, busy, waiting } = self;
        write!(f, "`{name}` ({busy} of {servers} busy, {waiting} waiting)")
    }
}

/// How a resource spent a stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The resource's name.
    pub name: String,
    /// Length of the stretch times the number of servers, in ns.
    pub capacity_ns: u128,
    /// Time that servers were busy, summed over them, in ns.
    pub busy_ns: u128,
    /// Length of the stretch, in ns.
    pub elapsed_ns: u64,
    /// Number of waiting jobs integrated over time, in job ns.
    pub waiting_ns: u128,
    /// Jobs that got a server.
    pub granted: u64,
    /// Time those jobs had waited, summed, in ns.
    pub waited_ns: u128,
    /// Most jobs ever waiting at once.
    pub waiting_max: usize,
}

impl Usage {
    /// Busy share of the capacity, 0 to 1; 0 for an empty stretch.
    pub fn utilisation(&self) -> f64 {
        ratio(self.busy_ns, self.capacity_ns)
    }

    /// Jobs waiting, on average over time.
    pub fn waiting_mean(&self) -> f64 {
        ratio(self.waiting_ns, u128::from(self.elapsed_ns))
    }

    /// Waiting time of a job before it got a server, on average, in ns.
    pub fn wait_ns_mean(&self) -> f64 {
        ratio(self.waited_ns, u128::from(self.granted))
    }
}

fn ratio(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl<J> Resource<J> {
    /// `servers` idle servers, at least one.
    pub fn new(name: impl Into<String>, servers: u32, discipline: Discipline) -> Self {
        assert!(servers > 0, "a resource without servers serves nobody");
        let levels = match discipline {
            Discipline::Fifo => 1,
            Discipline::Priority { levels } => usize::from(levels),
        };
        assert!(levels > 0, "there must be a priority to wait in");
        Self {
            name: name.into(),
            servers,
            busy: 0,
            lanes: (0..levels).map(|_| VecDeque::new()).collect(),
            waiting: 0,
            limit: WAITING_LIMIT,
            account: Account::default(),
        }
    }

    /// The same, with at most `limit` jobs waiting.
    #[must_use]
    pub fn with_waiting_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Asks for a server with the most urgent priority.
    pub fn request(&mut self, now: SimTime, job: J) -> Grant<J> {
        self.request_with(now, job, 0)
    }

    /// Asks for a server; `priority` counts from 0, the most urgent, and must exist. For models
    /// whose own limits keep the queue short: it panics where [`Self::try_request`] refuses.
    pub fn request_with(&mut self, now: SimTime, job: J, priority: u8) -> Grant<J> {
        self.try_request(now, job, priority).unwrap_or_else(|full| panic!("{full}"))
    }

    /// Asks for a server; `priority` counts from 0, the most urgent, and must exist. A job that
    /// finds the queue full is dropped.
    pub fn try_request(
        &mut self,
        now: SimTime,
        job: J,
        priority: u8,
    ) -> Result<Grant<J>, QueueFull> {
        self.settle(now);
        if self.busy < self.servers {
            debug_assert_eq!(self.waiting, 0, "a job waits only while every server is busy");
            self.busy += 1;
            self.account.granted += 1;
            return Ok(Grant::Now(job));
        }
        if self.waiting == self.limit {
            let Self { servers, limit, .. } = *self;
            return Err(QueueFull { name: self.name.clone(), servers, limit });
        }
        let levels = self.lanes.len();
        let lane = self.lanes.get_mut(usize::from(priority));
        let lane = lane.unwrap_or_else(|| panic!("priority {priority} of {levels}"));
        lane.push_back((now, job));
        self.waiting += 1;
        self.account.waiting_max = self.account.waiting_max.max(self.waiting);
        Ok(Grant::Later)
    }

    /// Gives a server back. The next waiting job, if any, has it from now on.
    pub fn release(&mut self, now: SimTime) -> Option<J> {
        assert!(self.busy > 0, "{}: released by nobody", self.name);
        self.settle(now);
        let Some((since, job)) = self.lanes.iter_mut().find_map(VecDeque::pop_front) else {
            self.busy -= 1;
            return None;
        };
        self.waiting -= 1;
        self.account.granted += 1;
        self.account.waited_ns += u128::from(now.since(since).ns());
        Some(job)
    }

    /// The resource's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Servers at work.
    pub const fn busy(&self) -> u32 {
        self.busy
    }

    /// Jobs waiting.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether a job would have to wait.
    pub const fn is_full(&self) -> bool {
        self.busy == self.servers
    }

    /// Where the resource stands.
    pub fn state(&self) -> ResourceState {
        ResourceState {
            name: self.name.clone(),
            servers: self.servers,
            busy: self.busy,
            waiting: self.waiting,
        }
    }

    /// How the time since the start, or since the last [`Self::restart_usage`], was spent.
    pub fn usage(&mut self, now: SimTime) -> Usage {
        self.settle(now);
        let account = &self.account;
        let elapsed_ns = now.since(account.since).ns();
        Usage {
            name: self.name.clone(),
            capacity_ns: u128::from(elapsed_ns) * u128::from(self.servers),
            busy_ns: account.busy_ns,
            elapsed_ns,
            waiting_ns: account.waiting_ns,
            granted: account.granted,
            waited_ns: account.waited_ns,
            waiting_max: account.waiting_max,
        }
    }

    /// Forgets the time so far: what warms a model up is not measured.
    pub fn restart_usage(&mut self, now: SimTime) {
        self.account =
            Account { since: now, last: now, waiting_max: self.waiting, ..Account::default() };
    }

    /// Books the time since the last change.
    fn settle(&mut self, now: SimTime) {
        let span = u128::from(now.since(self.account.last).ns());
        self.account.busy_ns += span * u128::from(self.busy);
        self.account.waiting_ns += span * self.waiting as u128;
        self.account.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> SimTime {
        SimTime::from_ns(ns)
    }

    #[test]
    fn jobs_wait_in_order_and_the_time_adds_up() {
        let mut bus = Resource::new("bus", 1, Discipline::Fifo);
        assert_eq!(bus.request(at(0), 'a'), Grant::Now('a'));
        assert_eq!(bus.request(at(2), 'b'), Grant::Later);
        assert_eq!(bus.request(at(3), 'c'), Grant::Later);
        assert_eq!(bus.state().to_string(), "`bus` (1 of 1 busy, 2 waiting)");
        assert_eq!(bus.release(at(5)), Some('b'));
        assert_eq!(bus.release(at(9)), Some('c'));
        assert_eq!(bus.release(at(10)), None);
        let usage = bus.usage(at(20));
        assert_eq!((usage.busy_ns, usage.capacity_ns, usage.granted), (10, 20, 3));
        assert_eq!((usage.waited_ns, usage.waiting_ns, usage.waiting_max), (3 + 6, 9, 2));
        assert!((usage.utilisation() - 0.5).abs() < 1e-12);
        assert!((usage.wait_ns_mean() - 3.0).abs() < 1e-12);
        assert!((usage.waiting_mean() - 0.45).abs() < 1e-12);
        bus.restart_usage(at(20));
        assert!(bus.usage(at(20)).utilisation().abs() < 1e-12);
    }

    #[test]
    fn the_urgent_overtake_the_patient_but_not_the_running() {
        let mut die = Resource::new("die", 2, Discipline::Priority { levels: 2 });
        assert_eq!(die.request_with(at(0), "write 1", 1), Grant::Now("write 1"));
        assert_eq!(die.request_with(at(0), "write 2", 1), Grant::Now("write 2"));
        assert_eq!(die.request_with(at(0), "write 3", 1), Grant::Later);
        assert_eq!(die.request_with(at(1), "read 1", 0), Grant::Later);
        assert_eq!(die.request_with(at(2), "read 2", 0), Grant::Later);
        assert!(die.is_full());
        let order: Vec<_> = std::iter::from_fn(|| die.release(at(3))).collect();
        assert_eq!(order, ["read 1", "read 2", "write 3"]);
        assert_eq!((die.busy(), die.waiting()), (1, 0));
    }

    #[test]
    fn a_full_queue_is_named_and_goes_on() {
        let mut die = Resource::new("die 3", 1, Discipline::Fifo).with_waiting_limit(1);
        assert_eq!(die.try_request(at(0), 'a', 0), Ok(Grant::Now('a')));
        assert_eq!(die.try_request(at(0), 'b', 0), Ok(Grant::Later));
        let full = die.try_request(at(1), 'c', 0).unwrap_err();
        assert_eq!(full.to_string(), "the queue of `die 3` is full: 1 jobs wait for its 1 servers");
        assert_eq!((die.release(at(2)), die.release(at(3))), (Some('b'), None));
    }

    #[test]
    #[should_panic(expected = "released by nobody")]
    fn what_nobody_holds_cannot_be_released() {
        Resource::<()>::new("bus", 1, Discipline::Fifo).release(at(0));
    }
}
