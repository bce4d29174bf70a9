//! Which versions to keep: so many of the last ones, those of the last time, and one for each of so
//! many periods. Versions are what has a time and a number: those of an archive, or a volume's
//! snapshots.
//! Room: onefold-block.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::calendar::date_of;

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;

/// The number of the period that a time is in.
type Period = fn(i64) -> i64;

/// How many versions to keep, by rule. Each rule counts by itself; a version that one of them
/// keeps is kept. Periods are those of UTC, weeks begin on Mondays, and of a period the newest
/// version is kept. The newer one of two is the one with the higher number, which was made later,
/// whatever a clock that was wrong at the time said: by their times, a version of a day in the
/// future would count as the newest for ever, and what is made after it would go at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// The newest ones.
    pub last: u32,
    /// One an hour, for so many hours that have one.
    pub hourly: u32,
    /// One a day.
    pub daily: u32,
    /// One a week.
    pub weekly: u32,
    /// One a month.
    pub monthly: u32,
    /// One a year.
    pub yearly: u32,
    /// All that are at most so many seconds older than the newest one; none by this rule if 0.
    pub within_s: i64,
}

impl Keep {
    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The versions that are kept, by number, and the rules that keep each; of each its time in
    /// seconds since 1970, and its number.
    pub fn choose(
        &self,
        versions: impl Iterator<Item = (i64, u32)>,
    ) -> BTreeMap<u32, Vec<&'static str>> {
        let mut newest_first: Vec<(i64, u32)> = versions.collect();
        newest_first.sort_unstable_by_key(|&(_, number)| Reverse(number));
        let rules: [(&str, u32, Period); 5] = [
            ("hourly", self.hourly, |time| time.div_euclid(HOUR_S)),
            ("daily", self.daily, |time| time.div_euclid(DAY_S)),
            // 1970-01-01 was a Thursday.
            ("weekly", self.weekly, |time| (time.div_euclid(DAY_S) + 3).div_euclid(7)),
            ("monthly", self.monthly, |time| month_of(time.div_euclid(DAY_S))),
            ("yearly", self.yearly, |time| month_of(time.div_euclid(DAY_S)).div_euclid(12)),
        ];
        let mut kept: BTreeMap<u32, Vec<&'static str>> = BTreeMap::new();
        for &(_, number) in newest_first.iter().take(self.last as usize) {
            kept.entry(number).or_default().push("last");
        }
        if let (Some(&(newest, _)), 1..) = (newest_first.first(), self.within_s) {
            let oldest = newest.saturating_sub(self.within_s);
            for &(_, number) in newest_first.iter().filter(|&&(time, _)| time >= oldest) {
                kept.entry(number).or_default().push("within");
            }
        }
        for (name, count, period) in rules {
            let mut seen = Vec::new();
            for &(time, number) in &newest_first {
                let period = period(time);
                if seen.len() < count as usize && !seen.contains(&period) {
                    seen.push(period);
                    kept.entry(number).or_default().push(name);
                }
            }
        }
        kept
    }
}

/// The month that a day since 1970 is in, counted from January of the year 0.
fn month_of(day: i64) -> i64 {
    let date = date_of(day);
    date.year * 12 + i64::from(date.month) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    fn versions(times: &[i64]) -> impl Iterator<Item = (i64, u32)> {
        times.iter().copied().zip(1..)
    }

    fn kept(keep: Keep, times: &[i64]) -> Vec<u32> {
        keep.choose(versions(times)).into_keys().collect()
    }

    #[test]
    fn the_newest_of_each_period_is_kept() {
        // Three a day for ten days, from a Thursday on.
        let times: Vec<i64> = (0..30).map(|n| n / 3 * DAY_S + n % 3 * HOUR_S).collect();
        let none = Keep::default();
        assert!(none.is_empty() && kept(none, &times).is_empty());
        assert_eq!(kept(Keep { last: 2, ..none }, &times), [29, 30]);
        assert_eq!(kept(Keep { hourly: 4, ..none }, &times), [27, 28, 29, 30]);
        assert_eq!(kept(Keep { daily: 3, ..none }, &times), [24, 27, 30]);
        // From Thursday to Sunday, and from Monday to Saturday.
        assert_eq!(kept(Keep { weekly: 9, ..none }, &times), [12, 30]);
        assert_eq!(kept(Keep { last: 1, daily: 2, weekly: 2, ..none }, &times), [12, 27, 30]);
        // The newest is of day 9, hour 2; the age counts from there.
        assert_eq!(kept(Keep { within_s: DAY_S, ..none }, &times), [27, 28, 29, 30]);
        assert_eq!(kept(Keep { within_s: DAY_S - 1, ..none }, &times), [28, 29, 30]);
        assert_eq!(kept(Keep { within_s: i64::MAX, ..none }, &times).len(), 30);
        assert!(!Keep { within_s: 1, ..none }.is_empty());
        assert!(kept(Keep { within_s: 9, ..none }, &[]).is_empty());
        let reasons = Keep { last: 1, yearly: 1, ..none }.choose(versions(&times));
        assert_eq!(reasons[&30], ["last", "yearly"]);
    }

    #[test]
    fn a_clock_that_was_wrong_makes_no_newer_version_go() {
        let none = Keep::default();
        let (now, future) = (20_000 * DAY_S, 47_000 * DAY_S);
        // The third was made while the clock was ahead, the fifth before it was set at all.
        let times = [now - 2 * DAY_S, now - DAY_S, future, now, 0, now + HOUR_S];
        assert_eq!(kept(Keep { last: 1, ..none }, &times), [6]);
        assert_eq!(kept(Keep { last: 2, ..none }, &times), [5, 6]);
        assert_eq!(kept(Keep { last: 1, ..none }, &times[..5]), [5]);
        // Each day counts once, wherever its versions stand.
        assert_eq!(kept(Keep { daily: 4, ..none }, &times), [2, 3, 5, 6]);
        assert_eq!(kept(Keep { within_s: DAY_S, ..none }, &times), [3, 4, 6]);
        // Of no age can be told where the newest one knows no time.
        assert_eq!(kept(Keep { within_s: 1, ..none }, &times[..5]), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn months_and_years_are_those_of_the_calendar() {
        let day = |day: i64| day * DAY_S;
        // 1999-12-31, 2000-01-01, 2000-02-29, 2000-03-01, 2000-12-31, 2001-01-01.
        let days = [10_956, 10_957, 11_016, 11_017, 11_322, 11_323];
        let months: Vec<i64> = days.iter().map(|&day| month_of(day)).collect();
        assert_eq!(months, [23_999, 24_000, 24_001, 24_002, 24_011, 24_012]);
        let times: Vec<i64> = days.iter().map(|&d| day(d)).collect();
        assert_eq!(kept(Keep { monthly: 3, ..Keep::default() }, &times), [4, 5, 6]);
        assert_eq!(kept(Keep { yearly: 9, ..Keep::default() }, &times), [1, 5, 6]);
        assert_eq!(month_of(0), 1970 * 12);
        assert_eq!(month_of(-1), 1970 * 12 - 1);
    }

    #[test]
    fn each_rule_counts_periods_that_have_a_version_from_the_newest_on() {
        let none = Keep::default();
        // On both sides of the beginnings of an hour, a day and a week (1970-01-05 was a Monday).
        let monday = 4 * DAY_S;
        for (keep, period) in [
            (Keep { hourly: 2, ..none }, HOUR_S),
            (Keep { daily: 2, ..none }, DAY_S),
            (Keep { weekly: 2, ..none }, 7 * DAY_S),
        ] {
            let at = [monday - period, monday - 1, monday, monday + 1, monday + period - 1];
            assert_eq!(kept(keep, &at), [2, 5], "{keep:?}");
            assert_eq!(kept(keep, &[monday - period - 1, monday - period]), [1, 2], "{keep:?}");
        }
        // Of one time the higher number is the newer one.
        assert_eq!(kept(Keep { last: 1, ..none }, &[5, 5, 5]), [3]);
        assert_eq!(kept(Keep { within_s: 1, ..none }, &[3, 4, 5]), [2, 3]);
        assert_eq!(kept(Keep { within_s: 0, ..none }, &[5]), Vec::<u32>::new());
        let all =
            Keep { last: 1, hourly: 1, daily: 1, weekly: 1, monthly: 1, yearly: 1, within_s: 1 };
        let reasons = all.choose(versions(&[0]));
        let names = ["last", "within", "hourly", "daily", "weekly", "monthly", "yearly"];
        assert_eq!(reasons[&1], names);
    }
}
