//! Requests as they came, from the pieces into which readers cut those whose contents are known.
//! Room: onefold-workload.   In: requests, one for each identity.   Out: lists of pieces.
//! Pieces belong together if they came at the same time by the same stream and process, do the
//! same, know their contents, and lie one behind the other.
//! Invariants: pieces come out in their order, each once; a request has at most [`PIECES_MAX`].

use crate::request::Request;

/// Most pieces of a request: 64 MiB of pages of 4 KiB.
pub const PIECES_MAX: usize = 1 << 14;

/// Joins pieces.
#[derive(Debug)]
pub struct Joined<I, E> {
    requests: I,
    /// What was read and does not belong to the request before it.
    ahead: Option<Result<Request, E>>,
}

impl<I, E> Joined<I, E>
where
    I: Iterator<Item = Result<Request, E>>,
{
    /// Joins the pieces of these requests.
    pub const fn new(requests: I) -> Self {
        Self { requests, ahead: None }
    }

    /// Puts the pieces of the next request into `pieces`, which is emptied first; whether there
    /// is one.
    ///
    /// # Errors
    /// That of the requests, in its turn; nothing comes after it.
    pub fn next_into(&mut self, pieces: &mut Vec<Request>) -> Result<bool, E> {
        pieces.clear();
        let Some(first) = self.ahead.take().or_else(|| self.requests.next()).transpose()? else {
            return Ok(false);
        };
        pieces.push(first);
        let mut last = first;
        while last.identity.is_some() && pieces.len() < PIECES_MAX {
            match self.requests.next() {
                Some(Ok(next)) if follows(&next, &last) => {
                    pieces.push(next);
                    last = next;
                }
                other => {
                    self.ahead = other;
                    break;
                }
            }
        }
        Ok(true)
    }
}

fn follows(next: &Request, last: &Request) -> bool {
    let who = |request: &Request| {
        (request.time_ns, request.op, request.stream, request.pid, request.deduplicate)
    };
    next.identity.is_some() && next.offset == last.end() && who(next) == who(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Identity, Op};

    fn piece(time_ns: u64, offset: u64, content: Option<u8>) -> Request {
        Request {
            time_ns,
            op: Op::Write,
            offset,
            length: 4096,
            identity: content.map(|content| Identity::from_bytes([content; 16])),
            stream: Some(0),
            pid: None,
            deduplicate: None,
        }
    }

    fn joined(requests: Vec<Result<Request, &'static str>>) -> Vec<Result<usize, &'static str>> {
        let mut joined = Joined::new(requests.into_iter());
        let mut pieces = Vec::new();
        let next = || match joined.next_into(&mut pieces) {
            Ok(true) => Some(Ok(pieces.len())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn pieces_of_one_request_come_together_and_others_do_not() {
        let three = [piece(5, 0, Some(1)), piece(5, 4096, Some(1)), piece(5, 8192, Some(2))];
        assert_eq!(joined(three.map(Ok).to_vec()), [Ok(3)]);
        let with = |change: fn(&mut Request)| {
            let mut two = [piece(5, 0, Some(1)), piece(5, 4096, Some(1))];
            change(&mut two[1]);
            joined(two.map(Ok).to_vec()).len()
        };
        assert_eq!(with(|_| {}), 1);
        let changes: [fn(&mut Request); 6] = [
            |next| next.time_ns = 6,
            |next| next.op = Op::Read,
            |next| next.stream = Some(1),
            |next| next.offset = 8192,
            |next| next.identity = None,
            |next| next.pid = Some(7),
        ];
        assert!(changes.into_iter().all(|change| with(change) == 2));
        let unknown = [piece(5, 0, None), piece(5, 4096, None), piece(5, 8192, Some(1))];
        assert_eq!(joined(unknown.map(Ok).to_vec()).len(), 3);
    }

    #[test]
    fn an_error_comes_in_its_turn_and_no_request_has_pieces_without_end() {
        let wrong = vec![Ok(piece(5, 0, Some(1))), Err("damaged"), Ok(piece(5, 4096, Some(1)))];
        assert_eq!(joined(wrong)[..2], [Ok(1), Err("damaged")]);
        let many = (0..=PIECES_MAX as u64).map(|at| Ok(piece(5, at * 4096, Some(1))));
        assert_eq!(joined(many.collect()), [Ok(PIECES_MAX), Ok(1)]);
    }
}
