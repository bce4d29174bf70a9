//! Snapshots that a server makes by itself, and which of them it keeps.
//! Room: onefold.
//! Invariants: (1) a time that was missed, as while no server ran, is made up for once; (2) rules
//! are asked of snapshots that a server made, and no others; (3) what is not all there yet gets no
//! snapshot: an import that fails could not take it away, a stream could not end in it, and half of
//! a volume would pass for the volume of that time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onefold_block::Keep;
use onefold_pool::{Pool, PoolError, SNAPSHOT_MARK, SnapshotInfo, SnapshotOptions, Volume};

use crate::commands::volume_import::is_incomplete;
use crate::commands::volume_prune::decide;
use crate::random::random;
use crate::utc::utc_text;

/// What the names of these snapshots begin with, after the mark.
const AUTOMATIC: &str = "auto-";
/// After a failure, nothing is tried for so long.
const REST_SECONDS: u64 = 60;
/// A snapshot that is further ahead of the clock than this, and than one is made, was made while
/// the clock was wrong. To wait for its time could be to wait for years.
const AHEAD_SECONDS: u64 = 24 * 3600;

/// When to make snapshots, and which to keep.
pub struct Schedule {
    every_seconds: u64,
    keep: Keep,
    rest_until: u64,
}

/// Whether clients use a volume or snapshot.
type InUse<'a> = &'a dyn Fn(&Volume) -> bool;

/// Whether the server made a snapshot by itself.
fn is_automatic(snapshot: &SnapshotInfo) -> bool {
    let own = snapshot.name.split_once(SNAPSHOT_MARK);
    own.is_some_and(|(_, own)| own.starts_with(AUTOMATIC))
}

/// `auto-2026-11-24T12:00:00Z`
fn own_name(now: u64) -> String {
    let text = utc_text(i64::try_from(now).unwrap_or(i64::MAX)).replace(' ', "T");
    format!("{AUTOMATIC}{text}Z")
}

impl Schedule {
    /// A snapshot of every volume each time that so much time has passed; after each, those that a
    /// server made and that no rule keeps go, if there is any rule.
    pub fn new(every: Duration, keep: Keep) -> Self {
        Self { every_seconds: every.as_secs().max(1), keep, rest_until: 0 }
    }

    /// Make what is due.
    pub fn tick(&mut self, pool: &Pool, in_use: InUse<'_>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if self.rests(now) {
            return;
        }
        for volume in pool.volumes().iter().filter(|volume| !is_incomplete(&volume.name())) {
            let Ok(identity) = random().map(u64::from_le_bytes) else { return };
            if let Err(error) = self.of_volume(pool, &volume.name(), (now, identity), in_use) {
                tracing::warn!("snapshot of volume '{}': {error}", volume.name());
                self.rest_until = now + REST_SECONDS;
            }
        }
    }

    /// Whether nothing is tried yet after a failure; not for longer where the clock was put back.
    const fn rests(&self, now: u64) -> bool {
        now < self.rest_until && self.rest_until - now <= REST_SECONDS
    }

    /// Make the snapshot of one volume, if it is due; `now` in seconds since 1970.
    fn of_volume(
        &self,
        pool: &Pool,
        volume: &str,
        (now, identity): (u64, u64),
        in_use: InUse<'_>,
    ) -> Result<bool, PoolError> {
        let mut made = pool.snapshots(Some(volume))?;
        made.retain(is_automatic);
        let period = |seconds: u64| seconds / self.every_seconds;
        // A clock that was put back by up to a day makes none twice.
        let can_be = now.saturating_add(AHEAD_SECONDS.max(self.every_seconds));
        let times = made.iter().map(|snapshot| snapshot.created_seconds);
        let newest = times.filter(|&made| made <= can_be).max();
        if newest.is_some_and(|newest| period(newest) >= period(now)) {
            return Ok(false);
        }
        let name = format!("{volume}{SNAPSHOT_MARK}{}", own_name(now));
        let options = SnapshotOptions { created_seconds: now, held: false, identity };
        pool.snapshot_as(&name, options)?;
        let mut made = pool.snapshots(Some(volume))?;
        made.retain(is_automatic);
        for decision in decide(&made, &self.keep).iter().filter(|decision| !decision.kept) {
            if pool.volume(&decision.name).is_ok_and(|snapshot| in_use(&snapshot)) {
                continue;
            }
            match pool.delete_snapshot(&decision.name) {
                // Somebody was faster, or needs it.
                Err(
                    PoolError::NoSnapshot { .. }
                    | PoolError::SnapshotNeeded { .. }
                    | PoolError::SnapshotPassed { .. }
                    | PoolError::SnapshotHeld(_),
                ) => {}
                done => done?,
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{ByteSize, SimFolder};
    use onefold_pool::{Budgets, OpenOptions, PoolIdentity, PoolSettings};

    use super::*;

    #[test]
    fn after_a_failure_it_rests() {
        let folder = SimFolder::new();
        let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
        Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
        let open = |read_only| {
            Pool::open(&folder, &OpenOptions { read_only, ..OpenOptions::default() }).unwrap()
        };
        let pool = open(false);
        drop(pool.create_volume("main", ByteSize(1 << 20)).unwrap());
        pool.close().unwrap();
        let mut schedule = Schedule::new(Duration::ZERO, Keep::default());
        assert_eq!(schedule.every_seconds, 1);
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let begun = now();
        schedule.tick(&open(true), &|_| false);
        let rests = schedule.rest_until;
        assert!((begun + REST_SECONDS..=now() + REST_SECONDS).contains(&rests), "{rests}");
        let pool = open(false);
        let made = || pool.snapshots(Some("main")).unwrap().len();
        schedule.tick(&pool, &|_| false);
        assert_eq!((made(), schedule.rest_until), (0, rests));
        schedule.rest_until = now();
        schedule.tick(&pool, &|_| false);
        assert_eq!(made(), 1);
    }

    #[test]
    fn a_volume_that_is_being_filled_gets_none_until_it_is_whole() {
        let pool = crate::test_pool::pool();
        for name in ["main", "new.incomplete"] {
            drop(pool.create_volume(name, ByteSize(1 << 20)).unwrap());
        }
        let mut schedule = Schedule::new(Duration::from_hours(1), Keep::default());
        let mut made = || {
            schedule.tick(&pool, &|_| false);
            let of = |s: SnapshotInfo| s.name.split_once(SNAPSHOT_MARK).unwrap().0.to_owned();
            pool.snapshots(None).unwrap().into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(made(), ["main"]);
        pool.rename_volume("new.incomplete", "new").unwrap();
        assert!(made().contains(&"new".to_owned()));
    }

    #[test]
    fn a_snapshot_of_a_clock_that_was_ahead_keeps_no_other_from_being_made() {
        let folder = SimFolder::new();
        let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
        Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        drop(pool.create_volume("main", ByteSize(1 << 20)).unwrap());
        let keep = Keep { last: 2, ..Keep::default() };
        let schedule = Schedule::new(Duration::from_hours(1), keep);
        let at = |now: u64| schedule.of_volume(&pool, "main", (now, now), &|_| false).unwrap();
        let (now, ahead) = (1_700_000_000 / 3600 * 3600, 4_000_000_000);
        assert!(at(ahead) && !at(ahead - AHEAD_SECONDS));
        assert!(at(now) && !at(now + 1) && at(now + 3600) && !at(now + 3601));
        let made: Vec<u64> =
            pool.snapshots(None).unwrap().iter().map(|s| s.created_seconds).collect();
        assert_eq!(made, [now, now + 3600], "what is made last is kept");
        // Where they are further apart than a day, the clock may be that much ahead.
        let every = Duration::from_secs(2 * AHEAD_SECONDS);
        let rare = Schedule::new(every, Keep::default());
        let at = |now| rare.of_volume(&pool, "main", (now, now), &|_| false).unwrap();
        let start = (now / AHEAD_SECONDS).next_multiple_of(2) * AHEAD_SECONDS + AHEAD_SECONDS * 20;
        assert!(at(start) && !at(start - 2 * AHEAD_SECONDS) && at(start - 2 * AHEAD_SECONDS - 1));

        let resting = Schedule { rest_until: now + REST_SECONDS, ..schedule };
        assert!(resting.rests(now) && !resting.rests(now + REST_SECONDS));
        assert!(!resting.rests(now - 1), "the clock was put back");
    }

    #[test]
    fn a_missed_time_is_made_up_for_once_and_rules_are_for_what_was_made_here() {
        let folder = SimFolder::new();
        let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
        Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
        let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
        let pool = Pool::open(&folder, &OpenOptions { read_only: false, budgets }).unwrap();
        drop(pool.create_volume("main", ByteSize(1 << 20)).unwrap());
        pool.snapshot("main@mine", 1, false).unwrap();
        let keep = Keep { last: 2, ..Keep::default() };
        let schedule = Schedule::new(Duration::from_hours(1), keep);
        let at = |now: u64| schedule.of_volume(&pool, "main", (now, now), &|_| false).unwrap();
        let start = 1_700_000_000 / 3600 * 3600;
        assert!(at(start + 5) && !at(start + 6) && !at(start + 3599));
        // As after a restart, or a day without a server: one, not one for each hour.
        assert!(at(start + 26 * 3600) && !at(start + 26 * 3600 + 1));
        assert!(!at(start + 7200), "the clock was put back");
        assert!(at(start + 27 * 3600 + 9));
        let names: Vec<String> =
            pool.snapshots(None).unwrap().into_iter().map(|s| s.name).collect();
        let made =
            ["main@mine", "main@auto-2023-11-16T00:00:00Z", "main@auto-2023-11-16T01:00:09Z"];
        assert_eq!(names, made);
    }
}
