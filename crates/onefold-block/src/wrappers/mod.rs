//! Small devices that stand before another and add one thing: faults, delays, a record, counts.
//! Room: onefold-block.
//! Invariants: a wrapper forwards every method of [`BlockDevice`], batches as batches; the same
//! wrapper may stand anywhere in a stack and sees what its place sees.

mod delay;
mod fault;
mod record;
mod stats;

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

pub use delay::{DelayDevice, DelaySpec, VerbDelay};
pub use fault::{DeviceFault, FaultDevice};
pub use record::{ContentHash, RecordDevice, TraceRecord, TraceSink};
pub use stats::{DeviceCounters, DeviceStats, StatsDevice, TIME_BOUNDS_NS, Times, VerbStats};

#[cfg(doc)]
use crate::device::BlockDevice;

/// What is asked of a device. A request of a batch is a [`Verb::Write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Fill a buffer.
    Read,
    /// Store bytes, alone or in a batch.
    Write,
    /// Make a range zeroes.
    WriteZeroes,
    /// Give a range up.
    Trim,
    /// Make everything durable.
    Flush,
    /// Ask what backs a range.
    BlockStatus,
    /// Announce a read.
    Prefetch,
}

impl Verb {
    /// Every verb, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Write,
        Self::WriteZeroes,
        Self::Trim,
        Self::Flush,
        Self::BlockStatus,
        Self::Prefetch,
    ];

    /// The name in traces and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteZeroes => "zero",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::BlockStatus => "status",
            Self::Prefetch => "prefetch",
        }
    }

    /// The position in [`Verb::ALL`].
    const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Verb {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|verb| verb.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|verb| verb.name()).collect();
            format!("'{text}' is no verb: accepted are {}", names.join(", "))
        })
    }
}

/// Where wrappers take the time from: real, or moved by a test.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment; never goes back.
    fn now_ns(&self) -> u64;

    /// Return once that many nanoseconds have passed.
    fn sleep_ns(&self, duration_ns: u64);
}

/// The machine's own clock.
#[derive(Debug)]
pub struct SystemClock {
    start_ns: u64,
}

/// Nanoseconds since some moment before the machine was started. Asked for several times in a
/// request: the standard library's moments are differences of checked pairs, and cost three times
/// as much.
#[expect(clippy::disallowed_methods, reason = "this is the clock that doors hand in")]
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every system has this clock");
    // It starts at zero and keeps the parts of a second below a second.
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

impl SystemClock {
    /// A clock that starts at zero now.
    pub fn new() -> Self {
        Self { start_ns: monotonic_ns() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock that doors hand in")]
impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.start_ns)
    }

    fn sleep_ns(&self, duration_ns: u64) {
        std::thread::sleep(Duration::from_nanos(duration_ns));
    }
}

/// A clock that moves only when somebody sleeps by it, at once.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Acquire)
    }

    fn sleep_ns(&self, duration_ns: u64) {
        self.now_ns.fetch_add(duration_ns, Ordering::AcqRel);
    }
}

impl TraceSink for Mutex<Vec<TraceRecord>> {
    fn record(&self, record: TraceRecord) {
        self.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(record);
    }
}
