//! Batches on their way: how many there may be, and for how long there were as many.
//! Room: onefold-array.

use onefold_sim::SimTime;

/// Slots that batches take.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    slots: u32,
    taken: u32,
    /// Time up to `at`, summed over the slots that were taken, in ns.
    taken_ns: u128,
    since: SimTime,
    at: SimTime,
}

impl Flight {
    /// None taken.
    pub const fn new(slots: u32) -> Self {
        Self { slots, taken: 0, taken_ns: 0, since: SimTime::ZERO, at: SimTime::ZERO }
    }

    /// Whether another batch may begin.
    pub const fn has_room(&self) -> bool {
        self.taken < self.slots
    }

    /// A batch begins.
    pub fn begin(&mut self, now: SimTime) {
        self.count_up_to(now);
        self.taken += 1;
    }

    /// A batch has gone its way.
    pub fn end(&mut self, now: SimTime) {
        self.count_up_to(now);
        self.taken -= 1;
    }

    /// Forgets what was so far.
    pub fn restart_account(&mut self, now: SimTime) {
        (self.taken_ns, self.since, self.at) = (0, now, now);
    }

    /// Share of the slots that was taken on average, 0 to 1.
    pub fn share(&mut self, now: SimTime) -> f64 {
        self.count_up_to(now);
        let all = f64::from(self.slots) * now.since(self.since).ns() as f64;
        if all > 0.0 { self.taken_ns as f64 / all } else { 0.0 }
    }

    /// Slots in all, and those taken now.
    pub const fn slots(&self) -> (u32, u32) {
        (self.slots, self.taken)
    }

    fn count_up_to(&mut self, now: SimTime) {
        self.taken_ns += u128::from(now.since(self.at).ns()) * u128::from(self.taken);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_slots_and_time_since_the_account_began() {
        let at = SimTime::from_ns;
        let mut flight = Flight::new(2);
        flight.begin(at(10));
        flight.restart_account(at(100));
        flight.begin(at(150));
        assert!(!flight.has_room());
        flight.end(at(175));
        // One all the time, another for a quarter of it.
        assert!((flight.share(at(200)) - 0.625).abs() < 1e-12);
        assert_eq!((flight.slots(), flight.has_room()), ((2, 1), true));
        assert!(Flight::new(3).share(at(0)).abs() < 1e-12);
    }
}
