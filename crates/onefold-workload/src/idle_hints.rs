//! The hints of a host that knows when it will be idle, put between requests that have none.
//! Room: onefold-workload.   In: requests with times.   Out: these, with [`Op::Idle`] in between.
//! Invariants: without the hints the requests are as they were; a hint stands at the time of the
//! request before it, where the next one is a whole pause later; nothing follows the last request.

use std::iter::Peekable;

use crate::request::{Op, Request};

/// Requests, or errors in their places, with hints.
pub struct IdleHints<I: Iterator> {
    requests: Peekable<I>,
    pause_ns: u64,
    /// The hint that comes next.
    hint: Option<Request>,
}

impl<I: Iterator> std::fmt::Debug for IdleHints<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdleHints").field("pause_ns", &self.pause_ns).finish_non_exhaustive()
    }
}

impl<E, I: Iterator<Item = Result<Request, E>>> IdleHints<I> {
    /// Requests of a host that says so whenever it asks for nothing for `pause_ns` nanoseconds.
    pub fn new(requests: I, pause_ns: u64) -> Self {
        Self { requests: requests.peekable(), pause_ns, hint: None }
    }
}

impl<E, I: Iterator<Item = Result<Request, E>>> Iterator for IdleHints<I> {
    type Item = Result<Request, E>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(hint) = self.hint.take() {
            return Some(Ok(hint));
        }
        let request = self.requests.next()?;
        if let (Ok(before), Some(Ok(after))) = (&request, self.requests.peek()) {
            let pause_ns = after.time_ns.saturating_sub(before.time_ns);
            if pause_ns >= self.pause_ns && before.op != Op::Idle && after.op != Op::Idle {
                self.hint = Some(Request {
                    op: Op::Idle,
                    offset: 0,
                    length: 0,
                    identity: None,
                    deduplicate: None,
                    ..*before
                });
            }
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_ns: u64, op: Op) -> Request {
        let length = if op.has_range() { 512 } else { 0 };
        let (offset, identity, stream, pid) = (length, None, Some(3), None);
        Request { time_ns, op, offset, length, identity, stream, pid, deduplicate: Some(true) }
    }

    fn ops(requests: Vec<Result<Request, &'static str>>) -> Vec<Option<(u64, Op)>> {
        let hints = IdleHints::new(requests.into_iter(), 100);
        hints.map(|one| one.ok().map(|request| (request.time_ns, request.op))).collect()
    }

    #[test]
    fn a_hint_follows_the_last_request_before_a_pause() {
        let found = ops(vec![Ok(at(0, Op::Write)), Ok(at(99, Op::Read)), Ok(at(199, Op::Write))]);
        let wanted = [(0, Op::Write), (99, Op::Read), (99, Op::Idle), (199, Op::Write)];
        assert_eq!(found, wanted.map(Some));
    }

    #[test]
    fn a_host_that_says_so_already_is_not_repeated_and_errors_keep_their_places() {
        let said = vec![Ok(at(0, Op::Write)), Ok(at(500, Op::Idle)), Ok(at(900, Op::Write))];
        assert_eq!(ops(said).len(), 3);
        // Neither before nor behind an error is it known what comes.
        let found = ops(vec![Ok(at(0, Op::Write)), Err("damaged"), Ok(at(500, Op::Write))]);
        assert_eq!(found, [Some((0, Op::Write)), None, Some((500, Op::Write))]);
        // A trace may be out of order.
        assert_eq!(ops(vec![Ok(at(500, Op::Write)), Ok(at(0, Op::Write))]).len(), 2);
        assert_eq!(ops(Vec::new()), []);
    }

    #[test]
    fn a_hint_has_no_range_and_no_content() {
        let requests = [0, 100].map(|time_ns| Ok::<_, ()>(at(time_ns, Op::Write)));
        let mut hints = IdleHints::new(requests.into_iter(), 100);
        let hint = hints.nth(1).expect("three").expect("no error");
        assert_eq!((hint.offset, hint.length, hint.deduplicate), (0, 0, None));
        assert_eq!(hint.stream, Some(3));
    }
}
