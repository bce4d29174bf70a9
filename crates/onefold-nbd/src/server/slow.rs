//! Tells the log of requests that took long, and where their time went.
//! Room: onefold-nbd.
//! Invariants: (1) however slow a device is, the log gets a few lines at once and then one in ten
//! seconds; what is left out is counted in the next; (2) neither a limit that was set nor a client
//! that takes its time makes a request slow.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use onefold_block::bucket::{Bucket, Rate};
use onefold_block::spent::{self, Part, Spent};
use onefold_block::wrappers::{Clock, SystemClock};

use crate::protocol::Op;

/// One line in ten seconds, and as many at once as come in a minute and a half.
const LINES: Rate = Rate { per_second: 1, burst_ns: 90_000_000_000 };
/// What a line costs, in units of that rate.
const LINE: u64 = 10;

/// Which requests are told.
#[derive(Clone)]
pub struct SlowRequests {
    /// Those that take longer; none if this is zero.
    pub after: Duration,
    /// By this clock. If devices are timed by the same, it is looked at once for both.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for SlowRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowRequests").field("after", &self.after).finish_non_exhaustive()
    }
}

/// What a server has told so far.
pub struct SlowLog {
    /// Requests that take longer are told, if any are.
    after: Option<Duration>,
    clock: Arc<dyn Clock>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    lines: Bucket,
    left_out: u64,
}

/// Whose requests they are.
#[derive(Clone, Copy)]
pub struct Whose<'a> {
    /// Who asks.
    pub peer: &'a str,
    /// Of which export.
    pub export: &'a str,
}

/// One request, or several that were one call.
#[derive(Clone, Copy)]
pub struct SlowCall {
    /// The first of them.
    pub op: Op,
    /// Bytes of all of them.
    pub bytes: u64,
    /// How many they are.
    pub requests: u64,
    /// Between the moment in which the first of them was received and the beginning of the call.
    pub queued_ns: u64,
    /// Where the time of the call went.
    pub spent: Spent,
}

impl fmt::Debug for SlowLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowLog").field("after", &self.after).finish_non_exhaustive()
    }
}

impl SlowLog {
    /// Nothing told yet.
    pub fn new(asked: Option<&SlowRequests>) -> Self {
        let clock = asked.map(|asked| Arc::clone(&asked.clock));
        Self {
            after: asked.map(|asked| asked.after).filter(|after| !after.is_zero()),
            clock: clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            told: Mutex::default(),
        }
    }

    /// The time.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Call, and say what was spent since `begun_ns`.
    pub fn watched<T>(&self, begun_ns: u64, call: impl FnOnce() -> T) -> (T, Spent) {
        spent::watched(&self.clock, begun_ns, call)
    }

    /// Whether what was spent and waited is to be told.
    pub fn is_slow(&self, spent: &Spent, queued_ns: u64) -> bool {
        let Some(after) = self.after else { return false };
        let limited = spent.of(Part::Limit);
        // Behind what keeps to a limit, others wait for that.
        let queued = if limited > 0 { 0 } else { queued_ns };
        let own = spent.total_ns.saturating_sub(limited + spent.of(Part::Reply));
        Duration::from_nanos(own + queued) > after
    }

    /// A call is over that was slow.
    pub fn tell(&self, whose: Whose<'_>, call: &SlowCall) {
        let left_out = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if !told.lines.try_take(LINES, LINE, self.now_ns()) {
                told.left_out += 1;
                return;
            }
            std::mem::take(&mut told.left_out)
        };
        write_line(whose, call, left_out);
    }
}

/// Milliseconds with one decimal.
fn ms(ns: u64) -> f64 {
    (ns / 100_000) as f64 / 10.0
}

fn write_line(Whose { peer, export }: Whose<'_>, call: &SlowCall, left_out: u64) {
    let part = |part| ms(call.spent.of(part));
    let (verb, (offset, _)) = (call.op.name(), call.op.range());
    tracing::warn!(
        peer,
        export,
        verb,
        offset,
        bytes = call.bytes,
        requests = call.requests,
        ms = ms(call.spent.total_ns.saturating_add(call.queued_ns)),
        queue_ms = ms(call.queued_ns),
        wait_ms = part(Part::Wait),
        read_ms = part(Part::Read),
        hash_ms = part(Part::Hash),
        compress_ms = part(Part::Compress),
        write_ms = part(Part::Write),
        sync_ms = part(Part::Sync),
        limit_ms = part(Part::Limit),
        reply_ms = part(Part::Reply),
        other_ms = ms(call.spent.other_ns()),
        left_out,
        "slow request"
    );
}

#[cfg(test)]
mod tests {
    use onefold_block::wrappers::ManualClock;

    use super::super::log_lines::LogLines;
    use super::*;

    const WHOSE: Whose<'_> = Whose { peer: "tcp:127.0.0.1:9", export: "main" };
    const MS: u64 = 1_000_000;

    /// A call of so many milliseconds, of which a part is for `part`.
    fn call(log: &SlowLog, all: u64, (part, of_it): (Part, u64), queued: u64) {
        let clock = Arc::clone(&log.clock);
        let ((), spent) = log.watched(clock.now_ns(), || {
            spent::on(part, || clock.sleep_ns(of_it * MS));
            clock.sleep_ns((all - of_it) * MS);
        });
        let op = Op::Read { offset: 8192, len: 4096, whole: false };
        let queued_ns = queued * MS;
        if log.is_slow(&spent, queued_ns) {
            log.tell(WHOSE, &SlowCall { op, bytes: 4096, requests: 1, queued_ns, spent });
        }
    }

    fn log() -> SlowLog {
        let clock = Arc::new(ManualClock::default());
        SlowLog::new(Some(&SlowRequests { after: Duration::from_millis(100), clock }))
    }

    #[test]
    fn what_takes_longer_is_told_with_its_parts_and_nothing_else() {
        let log = log();
        let lines = LogLines::of(|| {
            call(&log, 100, (Part::Read, 90), 0);
            call(&log, 101, (Part::Read, 90), 0);
            call(&log, 60, (Part::Sync, 60), 41);
            // Limits and clients that take their time are not the server's slowness.
            call(&log, 500, (Part::Limit, 450), 1000);
            call(&log, 500, (Part::Reply, 450), 0);
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        for field in ["read_ms=90.0", "other_ms=11.0", " ms=101.0", "offset=8192", "left_out=0"] {
            assert!(lines[0].contains(field), "{field}: {}", lines[0]);
        }
        for field in ["sync_ms=60.0", "queue_ms=41.0", "verb=\"read\"", "export=\"main\""] {
            assert!(lines[1].contains(field), "{field}: {}", lines[1]);
        }
    }

    #[test]
    fn a_device_that_is_always_slow_fills_no_log() {
        let log = log();
        let lines = LogLines::of(|| (0..10_000).for_each(|_| call(&log, 200, (Part::Read, 0), 0)));
        // 2,000 seconds.
        assert!((205..=212).contains(&lines.len()), "{} lines", lines.len());
        assert!(lines[150].contains("left_out=49"), "{}", lines[150]);
    }
}
