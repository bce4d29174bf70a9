//! How much may be written to the fast device: a budget per day, and what was written in the last.
//! Room: onefold-cache.
//! Invariant: in no 24 hours more is written than a day's budget, and in no hour more than a sixth
//! of it, so that one busy hour does not leave the rest of the day without; but always as much as
//! has to be written at once, or a small budget would never be used.
//! Time is handed in, in seconds; without it all is one hour.

const HOURS: usize = 24;
const SECONDS_PER_HOUR: u64 = 3600;
/// Hours in which a day's budget may be spent.
const BUSY_HOURS: u64 = 6;

/// How much may be written in 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WearBudget {
    /// Thousandths of the cache's size, with which it grows.
    Share(u32),
    /// Bytes.
    Bytes(u64),
}

impl WearBudget {
    /// The bytes that it gives a cache of so many.
    pub const fn bytes(self, size: u64) -> u64 {
        match self {
            Self::Share(thousandths) => size * thousandths as u64 / 1000,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Bytes written in the last hours, and how many may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wear {
    /// Bytes that may be written in 24 hours; none: as many as the policy likes.
    pub per_day: Option<u64>,
    /// Bytes for which there must be room, or nothing is ever written.
    pub at_once: u64,
    /// Hours since 1970 of the latest of `written`.
    hour: u64,
    /// By hour, the latest first; one more than a day has, as the first is not over.
    written: [u64; HOURS + 1],
}

impl Wear {
    /// Nothing was written yet.
    pub const fn new(per_day: Option<u64>) -> Self {
        Self { per_day, at_once: 0, hour: 0, written: [0; HOURS + 1] }
    }

    /// It is so many seconds after 1970. A clock that goes back is not followed, but for one that
    /// goes back by more than a day: it was wrong before, and could be waited for for years. What
    /// was written counts as written in the hours before, then.
    pub fn tick(&mut self, seconds: u64) {
        let hour = seconds / SECONDS_PER_HOUR;
        if self.hour - self.hour.min(hour) > HOURS as u64 && hour > 0 {
            self.hour = hour;
        }
        let passed = hour.saturating_sub(self.hour);
        if passed == 0 {
            return;
        }
        // What was counted before there was a clock was written just now.
        let passed = if self.hour == 0 { 0 } else { passed.min(HOURS as u64 + 1) as usize };
        self.written.rotate_right(passed % (HOURS + 1));
        self.written[..passed].fill(0);
        self.hour = hour;
    }

    /// Bytes that may be written now.
    pub fn left(&self) -> u64 {
        self.per_day.map_or(u64::MAX, |per_day| {
            let day = per_day.saturating_sub(self.last_day());
            day.min(self.hour_of(per_day).saturating_sub(self.written[0]))
        })
    }

    /// What an hour may have of a day.
    fn hour_of(&self, per_day: u64) -> u64 {
        (per_day / BUSY_HOURS).max(self.at_once)
    }

    /// Whether the budget is smaller than what has to be written at once.
    pub fn is_in_vain(&self) -> bool {
        self.per_day.is_some_and(|per_day| per_day < self.at_once)
    }

    /// Kept for what is read, where new data is written without having been asked for: half of what
    /// may be written in an hour, but nothing of what has to be written at once, or new data would
    /// wait for readers.
    pub fn for_readers(&self) -> u64 {
        self.per_day.map_or(0, |per_day| {
            let hour = self.hour_of(per_day);
            (hour / 2).min(hour.saturating_sub(self.at_once))
        })
    }

    /// So many bytes are written.
    pub fn spend(&mut self, bytes: u64) {
        self.written[0] = self.written[0].saturating_add(bytes);
    }

    /// Bytes written in the last 24 hours, and at most 25. What was kept may say anything.
    pub fn last_day(&self) -> u64 {
        self.written.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// Everything that has to survive a restart.
    pub fn numbers(&self) -> Vec<u64> {
        let hour = std::iter::once(self.hour);
        hour.chain(self.written).collect()
    }

    /// Take over what was kept.
    pub fn restore(&mut self, numbers: &[u64]) {
        if let Some((&hour, written)) = numbers.split_first()
            && let Ok(written) = written.try_into()
        {
            (self.hour, self.written) = (hour, written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_kept_is_a_sum_and_leaves_nothing_to_write() {
        let mut wear = Wear::new(Some(24_000));
        let mut kept = wear.numbers();
        kept[1..].fill(u64::MAX - 1);
        wear.restore(&kept);
        (0..2).for_each(|_| wear.spend(1 << 20));
        assert_eq!((wear.last_day(), wear.left()), (u64::MAX, 0));
    }

    /// Whatever is asked for, a sum over any 24 hours that is kept elsewhere stays within.
    #[test]
    fn no_day_and_no_hour_takes_more_than_it_may() {
        let mut random = onefold_block::SplitMix64::new(3);
        let mut wear = Wear::new(Some(24_000));
        let (mut now, mut spent) = (1_800_000_000, Vec::<(u64, u64)>::new());
        wear.tick(now);
        for step in 0..20_000 {
            let busy = (step / 2_000) % 2 == 0;
            now += random.below(if busy { 60 } else { 40_000 });
            wear.tick(now);
            let wanted = 1 + random.below(500);
            if wear.left() >= wanted {
                wear.spend(wanted);
                spent.push((now, wanted));
            }
            let within = |seconds: u64| -> u64 {
                let last = spent.iter().rev().take_while(|(at, _)| now - at < seconds);
                last.map(|(_, bytes)| bytes).sum()
            };
            assert!(within(86_400) <= 24_000, "step {step}");
            assert!(within(now % 3600 + 1) <= 4_000, "step {step}");
        }
        let all: u64 = spent.iter().map(|(_, bytes)| bytes).sum();
        assert!(all > 24_000 * 10, "the budget is made use of: {all}");
    }

    #[test]
    fn a_small_budget_is_spent_in_few_hours_and_one_too_small_is_in_vain() {
        let mut wear = Wear { at_once: 3_000, ..Wear::new(Some(6_000)) };
        wear.tick(1_800_000_000);
        assert_eq!(wear.left(), 3_000, "a sixth would never do");
        for hour in 1..=2 {
            wear.spend(3_000);
            assert_eq!(wear.left(), 0);
            wear.tick(1_800_000_000 + hour * 3600);
        }
        assert_eq!(wear.left(), 0, "the day is over");
        assert!(!wear.is_in_vain() && !Wear { at_once: 3_000, ..Wear::new(None) }.is_in_vain());
        assert!(Wear { at_once: 6_001, ..wear }.is_in_vain());
    }

    #[test]
    fn a_budget_is_a_share_or_bytes() {
        for size in [0, 1_000_000, 64_000_000] {
            assert_eq!(WearBudget::Share(300).bytes(size), size * 3 / 10);
            assert_eq!(WearBudget::Bytes(12_345).bytes(size), 12_345);
        }
    }

    #[test]
    fn it_survives_a_restart_and_a_clock_that_goes_back() {
        let mut wear = Wear::new(Some(6_000));
        wear.spend(500);
        wear.tick(1_800_000_000);
        assert_eq!(wear.last_day(), 500, "what was written before there was a clock counts");
        let mut again = Wear::new(Some(6_000));
        again.restore(&wear.numbers());
        assert_eq!(again, wear);
        again.tick(1_800_000_000 - 24 * 3600);
        assert_eq!(again, wear);
        again.tick(1_800_000_000 + 26 * 3600);
        assert_eq!((again.last_day(), again.left()), (0, 1_000));
        assert_eq!(Wear::new(None).left(), u64::MAX);
        again.restore(&[1, 2]);
        assert_eq!(again.last_day(), 0);
    }

    #[test]
    fn a_clock_that_was_ahead_is_not_waited_for_and_gives_nothing_away() {
        const DAY: u64 = HOURS as u64 * SECONDS_PER_HOUR;
        let mut wear = Wear::new(Some(24_000));
        let (now, ahead) = (1000 * DAY, 9000 * DAY);
        wear.tick(ahead);
        wear.spend(4000);
        assert_eq!((wear.left(), wear.last_day()), (0, 4000));
        // By a day: as if it stood still.
        wear.tick(ahead - DAY);
        wear.tick(ahead);
        assert_eq!((wear.left(), wear.last_day()), (0, 4000));
        wear.tick(now);
        assert_eq!((wear.left(), wear.last_day()), (0, 4000), "it was written just now");
        wear.tick(now + SECONDS_PER_HOUR);
        assert_eq!((wear.left(), wear.last_day()), (4000, 4000));
        wear.tick(now + DAY + SECONDS_PER_HOUR);
        assert_eq!((wear.left(), wear.last_day()), (4000, 0));
        // No clock at all is no clock that was put back.
        wear.tick(0);
        assert_eq!(wear.numbers()[0], (now + DAY) / SECONDS_PER_HOUR + 1);
    }

    #[test]
    fn what_was_written_counts_for_a_day_and_the_hour_that_is_not_over() {
        let first = 1_800_000_000 / 3600 * 3600;
        let mut wear = Wear::new(Some(6_000));
        wear.tick(first);
        wear.spend(100);
        wear.tick(first + 3599);
        assert_eq!((wear.written[0], wear.left()), (100, 900));
        wear.tick(first + 3600);
        wear.spend(10);
        assert_eq!((wear.written[..3].to_vec(), wear.left()), (vec![10, 100, 0], 990));
        wear.tick(first + 24 * 3600);
        assert_eq!((wear.last_day(), wear.written[24], wear.written[23]), (110, 100, 10));
        wear.tick(first + 25 * 3600);
        assert_eq!((wear.last_day(), wear.written[24]), (10, 10));
        wear.tick(first + 50 * 3600);
        assert_eq!(wear.last_day(), 0);
        assert_eq!(wear.numbers().len(), 26);
        assert_eq!(wear.numbers()[0], first / 3600 + 50);
    }

    #[test]
    fn readers_keep_half_an_hour_and_nothing_of_what_has_to_be_written_at_once() {
        let kept = |per_day, at_once| Wear { at_once, ..Wear::new(per_day) }.for_readers();
        assert_eq!(kept(Some(6_000), 0), 500);
        assert_eq!(kept(Some(6_000), 499), 500);
        assert_eq!(kept(Some(6_000), 600), 400);
        assert_eq!(kept(Some(6_000), 1_000), 0);
        assert_eq!((kept(Some(6_000), 5_000), kept(None, 7)), (0, 0));
        let vain = |per_day| Wear { at_once: 10, ..Wear::new(Some(per_day)) }.is_in_vain();
        assert!(vain(9) && !vain(10));
    }
}
