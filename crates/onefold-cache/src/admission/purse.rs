//! A budget of writes: how much may be written now, and how much of it is gone.
//! Room: onefold-cache.
//! A purse fills with the requests, and holds what may be spent at once. What the rest of the
//! period will put in can be spent ahead of its time where popularity stands still, since what is
//! written early pays longest; where it moves, it is kept for what will be popular. How long
//! popularity will stand still nobody knows: as long as it has so far is a fair guess, so that more
//! may be spent ahead the later it is.
//! Invariant: no more than the budget within any period.

/// Slots of a period in which spending is remembered, and one more that is not over.
const SLOTS: usize = 32 + 1;
/// Share of the first period after which all of the budget may be spent ahead.
const KNOWN_AFTER: f64 = 0.6;
/// Of a budget, what may be spent at once at most: more would leave nothing to live on later.
const AT_ONCE_MOST: f64 = 0.95;

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Bytes within a period.
    pub bytes: f64,
    /// Requests of a period.
    pub period: f64,
    /// Bytes that may be spent at once, wherever popularity goes.
    pub at_once: f64,
}

/// What is left of a budget.
#[derive(Clone, Debug)]
pub struct Purse {
    /// What a request puts in, in 2^-20 bytes.
    income: u64,
    /// In 2^-20 bytes.
    most: u64,
    /// In 2^-20 bytes.
    now: u64,
    /// Bytes within a period.
    bytes: u64,
    /// Requests of a slot.
    slot: u64,
    /// Requests after which all may be spent ahead.
    known_after: f64,
    /// Bytes spent, by slots.
    spent: [u64; SLOTS],
    /// Requests so far.
    time: u64,
}

impl Purse {
    /// A full one.
    pub fn new(budget: Budget) -> Self {
        let at_once = budget.at_once.min(budget.bytes * AT_ONCE_MOST);
        let earned = budget.bytes - at_once;
        let most = (at_once as u64) << 20;
        Self {
            income: (earned / budget.period * f64::from(1 << 20)) as u64,
            most,
            now: most,
            bytes: budget.bytes as u64,
            slot: (budget.period / (SLOTS - 1) as f64).ceil() as u64,
            known_after: budget.period * KNOWN_AFTER,
            spent: [0; SLOTS],
            time: 0,
        }
    }

    const fn at(&self) -> usize {
        (self.time / self.slot) as usize % SLOTS
    }

    /// A request came.
    pub fn request(&mut self) {
        self.now = (self.now + self.income).min(self.most);
        self.time += 1;
        if self.time.is_multiple_of(self.slot) {
            self.spent[self.at()] = 0;
        }
    }

    /// What may be spent now, where popularity stands still as far as `steady` says (from 0 to 1),
    /// in bytes; and how full that is, from 0 to 1.
    pub fn room(&self, steady: f64) -> (f64, f64) {
        let ahead = steady * (self.time as f64 / self.known_after).min(1.0);
        let spent = self.spent.iter().fold(0, |sum: u64, spent| sum.saturating_add(*spent));
        let left = self.bytes.saturating_sub(spent) as f64;
        let now = ((self.now >> 20) as f64).min(left);
        let most = (self.most >> 20) as f64;
        let room = now + ahead * (left - now);
        // A full purse is no emptier for what may be spent ahead.
        let share = room / (most + ahead * (self.bytes as f64 - most)).max(1.0);
        (room, share.max(now / most.max(1.0)))
    }

    /// So many bytes were written.
    pub fn spend(&mut self, size: u32) {
        self.now = self.now.saturating_sub(u64::from(size) << 20);
        let at = self.at();
        self.spent[at] += u64::from(size);
    }

    /// A saved state was loaded, which may say anything.
    pub fn restored(&mut self) {
        self.now = self.now.min(self.most);
        self.time = self.time.min(1 << 62);
        // One slot may be dear by one object that is larger than what was left.
        self.spent.iter_mut().for_each(|spent| *spent = (*spent).min(1 << 62));
    }

    /// What has to survive a restart.
    pub fn numbers(&mut self) -> impl Iterator<Item = &mut u64> {
        [&mut self.now, &mut self.time].into_iter().chain(&mut self.spent)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;

    /// 1,000 bytes in 640 requests, 500 of them at once.
    const BUDGET: Budget = Budget { bytes: 1_000.0, period: 640.0, at_once: 500.0 };

    fn wait(purse: &mut Purse, requests: u64) {
        (0..requests).for_each(|_| purse.request());
    }

    fn room(purse: &Purse, steady: f64) -> u64 {
        purse.room(steady).0.round() as u64
    }

    #[test]
    fn a_purse_fills_with_the_requests_up_to_what_may_be_spent_at_once() {
        let mut purse = Purse::new(BUDGET);
        assert_eq!(room(&purse, 0.0), 500);
        assert_eq!(room(&purse, 1.0), 500, "nothing is known at the start");
        purse.spend(450);
        assert_eq!(room(&purse, 0.0), 50);
        wait(&mut purse, 128);
        // A fifth of the 500 that come in a period.
        assert!((148..=150).contains(&room(&purse, 0.0)), "{:?}", purse.room(0.0));
        wait(&mut purse, 10_000);
        assert_eq!(purse.room(0.0), (500.0, 1.0));
        assert_eq!(purse.room(1.0), (1_000.0, 1.0));
    }

    #[test]
    fn where_popularity_stands_still_the_rest_is_spent_ahead_the_more_the_later_it_is() {
        let mut purse = Purse::new(BUDGET);
        purse.spend(400);
        let rooms: Vec<u64> = (0..5)
            .map(|_| {
                let now = room(&purse, 1.0);
                wait(&mut purse, 96);
                now
            })
            .collect();
        // A quarter of what is left beside the purse for each quarter of 0.6 of a period.
        for (at, room) in rooms.iter().enumerate() {
            let now = (100 + 75 * at as u64).min(500);
            let expected = now + (600 - now) * at.min(4) as u64 / 4;
            assert!(room.abs_diff(expected) <= 2, "{rooms:?}");
        }
        let [now, half, all] = [0.0, 0.5, 1.0].map(|steady| purse.room(steady));
        assert!((half.0 - f64::midpoint(now.0, all.0)).abs() < 1e-6);
        // The purse itself is nearly full by now, and then what is ahead makes nothing dearer.
        assert!((now.1 - now.0 / 500.0).abs() < 1e-6 && (all.1 - now.1).abs() < 1e-6);
        purse.spend(now.0 as u32);
        let [now, all] = [0.0, 1.0].map(|steady| purse.room(steady));
        assert!(now.1 < 0.01 && (all.1 - all.0 / 1_000.0).abs() < 1e-6, "{now:?} {all:?}");
    }

    #[test]
    fn no_period_has_more_than_the_budget_whoever_spends_and_when() {
        for seed in 0..20 {
            let mut random = SplitMix64::new(seed);
            let mut purse = Purse::new(BUDGET);
            let mut spent = vec![0_u64];
            for request in 0..10_000_u64 {
                purse.request();
                // By turns all that is there, and now and then a little.
                let greedy = request / (300 + 50 * seed) % 2 == 0;
                let steady = if random.below(2) == 0 { 1.0 } else { 0.3 };
                let most = room(&purse, steady).min(purse.room(steady).0 as u64);
                let size = if greedy { most } else { random.below(3).min(most) };
                purse.spend(size as u32);
                spent.push(spent.last().unwrap() + size);
            }
            let periods = spent.windows(641).map(|window| window[640] - window[0]);
            let most = periods.max().unwrap();
            assert!((900..=1_000).contains(&most), "{most}");
        }
    }

    #[test]
    fn what_no_state_can_say_leaves_a_purse_that_can_be_asked() {
        let mut purse = Purse::new(BUDGET);
        purse.numbers().for_each(|number| *number = u64::MAX);
        purse.restored();
        assert_eq!(room(&purse, 1.0), 0);
        wait(&mut purse, 2_000);
        purse.spend(7);
        assert_eq!(room(&purse, 1.0), 993);
    }
}
