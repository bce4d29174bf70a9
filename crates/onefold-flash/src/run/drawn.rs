//! Requests that were drawn and wait to be made.
//! Room: onefold-flash.
//! They are looked at some at a time, so that what they will change can be asked for before.

use crate::run::error::RunError;
use crate::run::request::HostRequest;

/// Requests that are looked at together.
pub(crate) const AHEAD: usize = 32;

/// Requests in their order.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    requests: Vec<HostRequest>,
    /// Of these so many were made, and the ones before the second place looked at.
    made: usize,
    seen: usize,
    /// What drawing the one after them failed of.
    failure: Option<RunError>,
}

impl Drawn {
    /// One more, behind all others.
    #[inline]
    pub(crate) fn push(&mut self, request: HostRequest) {
        self.requests.push(request);
    }

    /// Nothing can be drawn behind them.
    pub(crate) fn fail(&mut self, failure: RunError) {
        self.failure = Some(failure);
    }

    /// Others take the place of those that were made, all of them.
    pub(crate) fn replace(
        &mut self,
        requests: Vec<HostRequest>,
        failure: Option<RunError>,
    ) -> Vec<HostRequest> {
        let next = Self { requests, failure, ..Self::default() };
        std::mem::replace(self, next).requests
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.requests.len() - self.made
    }

    /// Whether nothing waits, not even a failure.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting() == 0 && self.failure.is_none()
    }

    /// The place of those that were made is free again.
    pub(crate) fn forget_made(&mut self) {
        if self.waiting() == 0 {
            self.requests.clear();
            (self.made, self.seen) = (0, 0);
        }
    }

    /// Whether all that were looked at have been made.
    #[inline]
    pub(crate) fn all_seen_are_made(&self) -> bool {
        self.made == self.seen
    }

    /// Look at the next ones.
    pub(crate) fn look(&mut self) {
        self.seen = self.requests.len().min(self.made + AHEAD);
    }

    /// Those that were looked at and not made.
    pub(crate) fn seen(&self) -> &[HostRequest] {
        &self.requests[self.made..self.seen]
    }

    /// Make the next one, if there is one.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<HostRequest>, RunError> {
        match self.requests.get(self.made) {
            Some(&request) => {
                self.made += 1;
                self.seen = self.seen.max(self.made);
                Ok(Some(request))
            }
            None => self.failure.take().map_or(Ok(None), Err),
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_workload::Op;

    use super::*;

    fn request(number: u64) -> HostRequest {
        HostRequest {
            number,
            arrival_ns: 0,
            op: Op::Read,
            lpn: 0,
            pages: 1,
            first_byte: 0,
            end_byte: 1,
            identity: None,
            deduplicate: None,
        }
    }

    fn numbers(requests: &[HostRequest]) -> Vec<u64> {
        requests.iter().map(|request| request.number).collect()
    }

    #[test]
    fn requests_are_looked_at_some_at_a_time_and_made_in_their_order() {
        let mut drawn = Drawn::default();
        (0..40).for_each(|number| drawn.push(request(number)));
        assert!(drawn.all_seen_are_made() && drawn.seen().is_empty());
        drawn.look();
        assert_eq!(numbers(drawn.seen()), (0..32).collect::<Vec<_>>());
        for number in 0..32 {
            assert!(!drawn.all_seen_are_made());
            assert_eq!(drawn.next().unwrap(), Some(request(number)));
            assert_eq!(
                (drawn.seen().len() as u64, drawn.waiting() as u64),
                (31 - number, 39 - number)
            );
        }
        assert!(drawn.all_seen_are_made());
        // Made without being looked at first.
        assert_eq!(drawn.next().unwrap(), Some(request(32)));
        assert!(drawn.all_seen_are_made());
        drawn.look();
        assert_eq!(numbers(drawn.seen()), (33..40).collect::<Vec<_>>());
    }

    #[test]
    fn a_failure_comes_once_and_after_all_that_was_drawn_before_it() {
        let mut drawn = Drawn::default();
        drawn.push(request(0));
        drawn.fail(RunError::Trace("wrong".to_owned()));
        assert!(drawn.next().is_ok() && drawn.waiting() == 0 && !drawn.is_empty());
        assert!(drawn.next().is_err_and(|error| error.to_string() == "wrong"));
        assert!(drawn.is_empty() && drawn.next().unwrap().is_none());
    }

    #[test]
    fn only_what_was_made_is_forgotten_or_handed_back() {
        let mut drawn = Drawn::default();
        drawn.push(request(0));
        drawn.forget_made();
        assert_eq!(drawn.next().unwrap(), Some(request(0)));
        drawn.forget_made();
        drawn.push(request(1));
        assert_eq!((drawn.waiting(), drawn.next().unwrap()), (1, Some(request(1))));
        let made = drawn.replace(vec![request(2)], Some(RunError::Trace("wrong".to_owned())));
        assert_eq!(numbers(&made), [1]);
        assert_eq!((drawn.waiting(), drawn.seen().len()), (1, 0));
        assert!(drawn.next().is_ok() && drawn.next().is_err());
    }
}
