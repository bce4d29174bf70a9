//! The wall clock of an emulated drive, behind a contract so that tests bring their own.
//! Room: onefold-flash.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What an emulated drive asks of time.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some moment before the drive was opened.
    fn now_ns(&self) -> u64;

    /// Seconds since 1970: retention counts in them from one run to the next.
    fn unix_s(&self) -> u64;

    /// Returns no earlier than when [`Clock::now_ns`] is `until_ns`.
    fn wait_until(&self, until_ns: u64);
}

/// Real time.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    start: Instant,
}

#[expect(clippy::disallowed_methods, reason = "this is the clock that doors hand in")]
impl WallClock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock that doors hand in")]
impl Clock for WallClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn unix_s(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn wait_until(&self, until_ns: u64) {
        // Sleeping may end early.
        while let Some(left @ 1..) = until_ns.checked_sub(self.now_ns()) {
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_comes_back_when_it_is_time_and_at_once_where_it_was() {
        let clock = WallClock::start();
        let until = clock.now_ns() + 20_000_000;
        clock.wait_until(until);
        assert!(clock.now_ns() >= until);
        clock.wait_until(until);
        clock.wait_until(0);
    }
}
