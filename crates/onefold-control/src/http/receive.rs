//! Receiving requests and answers: sizes and times are bounded before anything is kept.
//! Room: onefold-control.
//! Invariant: no more is kept of a message than its head and the body that it may have.

use std::io;

use super::{Method, Request, decoded};

/// Longest head, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most fields of a head.
const FIELDS_MAX: usize = 64;
/// Bytes received at once.
const PIECE_BYTES: usize = 16 << 10;

/// Receives some bytes: none at the end of the stream.
pub type Piece<'a> = dyn FnMut(&mut [u8]) -> io::Result<usize> + 'a;

/// What came.
pub enum Incoming {
    /// A request.
    Request(Request),
    /// Something that is answered with why not, whereupon the connection ends.
    Refused(Refusal),
    /// The client has left between requests.
    Gone,
}

/// Why a request is not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status to answer.
    pub status: u16,
    /// In words.
    pub why: String,
}

/// Receive a request; `left` has what came behind the one before, and keeps what comes behind it.
pub fn receive(
    left: &mut Vec<u8>,
    body_bytes_max: usize,
    more: &mut Piece<'_>,
) -> io::Result<Incoming> {
    let refused = |status, why: &str| Incoming::Refused(Refusal { status, why: why.to_owned() });
    let (mut request, length, head_bytes) = loop {
        match parse(left) {
            Ok(Some(parsed)) => break parsed,
            Ok(None) if left.len() >= HEAD_BYTES_MAX => {
                return Ok(refused(431, "the head of the request is longer than 16 KiB"));
            }
            Ok(None) => {}
            Err(refusal) => return Ok(Incoming::Refused(refusal)),
        }
        if !append(left, more)? {
            let cut_off = io::ErrorKind::UnexpectedEof;
            return if left.is_empty() { Ok(Incoming::Gone) } else { Err(cut_off.into()) };
        }
    };
    if length > body_bytes_max as u64 {
        let most = body_bytes_max >> 10;
        return Ok(refused(413, &format!("a request may bring at most {most} KiB")));
    }
    let end = head_bytes + length as usize;
    while left.len() < end {
        if !append(left, more)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let rest = left.split_off(end);
    request.body = std::mem::replace(left, rest).split_off(head_bytes);
    Ok(Incoming::Request(request))
}

/// Receive more; `false` at the end of the stream.
fn append(to: &mut Vec<u8>, more: &mut Piece<'_>) -> io::Result<bool> {
    let mut piece = [0; PIECE_BYTES];
    let count = more(&mut piece)?;
    to.extend(&piece[..count]);
    Ok(count > 0)
}

/// The head of a request, the length of its body, and its own; `None` if more has to come.
fn parse(bytes: &[u8]) -> Result<Option<(Request, u64, usize)>, Refusal> {
    let bad = |why: &str| Refusal { status: 400, why: why.to_owned() };
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let head_bytes = match head.parse(bytes) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(bad(&format!("this is no HTTP request: {error}"))),
    };
    let method = match head.method {
        Some("GET") => Method::Get,
        Some("POST") => Method::Post,
        Some("PUT") => Method::Put,
        Some("DELETE") => Method::Delete,
        _ => {
            let why = "only GET, POST, PUT and DELETE are known".to_owned();
            return Err(Refusal { status: 405, why });
        }
    };
    let target = head.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let text = |part: &str| decoded(part).and_then(|bytes| String::from_utf8(bytes).ok());
    let path = text(path).ok_or_else(|| bad("the address is not UTF-8"))?;
    let mut asked = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let pair = text(name).zip(text(value));
        asked.push(pair.ok_or_else(|| bad("the query is not UTF-8"))?);
    }
    let headers = named(head.headers).ok_or_else(|| bad("a field of the head is not UTF-8"))?;
    let length = match length(&headers) {
        Ok(length) => length.unwrap_or(0),
        Err(why) => return Err(Refusal { status: 411, why: why.to_owned() }),
    };
    let close = headers
        .iter()
        .any(|(name, value)| name == "connection" && value.eq_ignore_ascii_case("close"));
    let keeps = head.version == Some(1) && !close;
    let (query, body) = (asked, Vec::new());
    Ok(Some((Request { method, path, query, headers, body, keeps }, length, head_bytes)))
}

fn named(fields: &[httparse::Header<'_>]) -> Option<Vec<(String, String)>> {
    let field = |field: &httparse::Header<'_>| {
        let value = std::str::from_utf8(field.value).ok()?;
        Some((field.name.to_ascii_lowercase(), value.to_owned()))
    };
    fields.iter().map(field).collect()
}

/// The length of a body, if one is announced: two that differ, or pieces of unknown number, would
/// let two readers see two messages where one was sent.
fn length(headers: &[(String, String)]) -> Result<Option<u64>, &'static str> {
    if headers.iter().any(|(name, _)| name == "transfer-encoding") {
        return Err("a body must come in one piece, with Content-Length");
    }
    let mut lengths = headers.iter().filter(|(name, _)| name == "content-length");
    let Some((_, first)) = lengths.next() else { return Ok(None) };
    if lengths.next().is_some() {
        return Err("there is more than one Content-Length");
    }
    let plain = !first.is_empty() && first.bytes().all(|digit| digit.is_ascii_digit());
    match first.parse() {
        Ok(length) if plain => Ok(Some(length)),
        _ => Err("Content-Length is no number"),
    }
}

/// An answer as it is received.
pub struct Received {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
    /// Whether more may be asked by the same connection.
    pub keeps: bool,
}

/// An answer, with a body of at most so many bytes.
pub fn receive_answer(body_bytes_max: usize, more: &mut Piece<'_>) -> io::Result<Received> {
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut left = Vec::new();
    loop {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut fields);
        match head.parse(&left) {
            Ok(httparse::Status::Complete(head_bytes)) => {
                let status = head.code.unwrap_or(0);
                let headers = named(head.headers).ok_or_else(|| bad("no UTF-8"))?;
                let length = length(&headers).ok().flatten();
                let length = length.filter(|&length| length <= body_bytes_max as u64);
                let end = head_bytes
                    + length.ok_or_else(|| bad("an answer of no or of too much length"))? as usize;
                while left.len() < end {
                    if !append(&mut left, more)? {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                left.truncate(end);
                let closes = |(name, value): &(String, String)| {
                    name == "connection" && value.eq_ignore_ascii_case("close")
                };
                let keeps = !headers.iter().any(closes);
                return Ok(Received { status, body: left.split_off(head_bytes), keeps });
            }
            Ok(httparse::Status::Partial) if left.len() < HEAD_BYTES_MAX => {}
            _ => return Err(bad("this is no HTTP answer")),
        }
        if !append(&mut left, more)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is received of these bytes, `step` at a time; how much of it was kept at most.
    fn received(bytes: &[u8], step: usize) -> (io::Result<Incoming>, usize) {
        let (mut left, mut at) = (Vec::new(), 0);
        let incoming = receive(&mut left, 1000, &mut |piece| {
            let count = step.min(bytes.len() - at).min(piece.len());
            piece[..count].copy_from_slice(&bytes[at..at + count]);
            at += count;
            Ok(count)
        });
        (incoming, at)
    }

    fn request(bytes: &[u8]) -> Request {
        let mut first = None;
        for step in [1, 7, 10_000] {
            let (Ok(Incoming::Request(request)), _) = received(bytes, step) else {
                panic!("{}", String::from_utf8_lossy(bytes))
            };
            let same = format!("{request:?}");
            assert_eq!(first.get_or_insert_with(|| same.clone()), &same);
            first = Some(same);
            if step == 10_000 {
                return request;
            }
        }
        unreachable!("the last step returns")
    }

    #[test]
    fn a_request_is_the_same_however_it_comes() {
        let bytes = b"PUT /a%20b/c?x=1&y=%2F HTTP/1.1\r\nHost: h\r\ncontent-LENGTH: 3\r\n\r\nabc";
        let request = request(bytes);
        assert_eq!((request.method, request.path.as_str()), (Method::Put, "/a b/c"));
        assert_eq!((request.asked("x"), request.asked("y")), (Some("1"), Some("/")));
        assert_eq!((request.header("host"), request.body.as_slice()), (Some("h"), &b"abc"[..]));
        assert!(request.keeps);
    }

    #[test]
    fn a_client_that_will_not_ask_again_is_not_kept() {
        for (keeps, head) in [
            (true, "HTTP/1.1\r\n"),
            (true, "HTTP/1.1\r\nConnection: keep-alive\r\n"),
            (false, "HTTP/1.1\r\nConnection: Close\r\n"),
            (false, "HTTP/1.0\r\n"),
            (false, "HTTP/1.0\r\nConnection: close\r\n"),
        ] {
            assert_eq!(request(format!("GET / {head}\r\n").as_bytes()).keeps, keeps, "{head}");
        }
    }

    #[test]
    fn what_is_too_long_or_ambiguous_is_refused_before_it_is_kept() {
        let status = |bytes: &[u8]| match received(bytes, 10_000) {
            (Ok(Incoming::Refused(refusal)), kept) => (refusal.status, kept),
            (Ok(_), _) => (200, 0),
            (Err(_), _) => (0, 0),
        };
        let with = |fields: &str| format!("POST / HTTP/1.1\r\n{fields}\r\n").into_bytes();
        let long = [with("Content-Length: 104857600\r\n"), vec![7; 1 << 20]].concat();
        let (refused, kept) = status(&long);
        assert!(refused == 413 && kept <= PIECE_BYTES, "{kept} bytes of a body were received");
        assert_eq!(status(&with("Transfer-Encoding: chunked\r\n")).0, 411);
        assert_eq!(status(&with("Content-Length: 1\r\nContent-Length: 2\r\n")).0, 411);
        assert_eq!(status(&with("Content-Length: +1\r\n")).0, 411);
        assert_eq!(status(b"GET /%zz HTTP/1.1\r\n\r\n").0, 400);
        assert_eq!(status(b"BREW / HTTP/1.1\r\n\r\n").0, 405);
        assert_eq!(status(b"\x16\x03\x01 hello, this is TLS\r\n\r\n").0, 400);
        assert_eq!(status(&[&b"GET / HTTP/1.1\r\nX: "[..], &vec![b'a'; 100_000]].concat()).0, 431);
        assert_eq!(status(b"GET / HTTP/1.1\r\nHost: cut o").0, 0, "cut off");
        assert_eq!(status(&with("Content-Length: 9\r\n")).0, 0, "cut off in its body");
    }

    #[test]
    fn heads_fields_and_bodies_may_be_as_long_as_was_said_and_no_longer() {
        let status = |bytes: &[u8]| match received(bytes, 10_000).0.unwrap() {
            Incoming::Refused(refusal) => refusal.status,
            Incoming::Request(_) => 200,
            Incoming::Gone => 0,
        };
        // Of a head that never ends, no more than 16 KiB are waited for.
        let head = |len: usize| {
            let mut bytes = b"GET / HTTP/1.1\r\nX: ".to_vec();
            bytes.resize(len, b'a');
            bytes
        };
        assert_eq!(status(&head(HEAD_BYTES_MAX)), 431);
        assert_eq!(received(&head(HEAD_BYTES_MAX - 1), 10_000).0.err().unwrap().kind(), CUT_OFF);
        assert_eq!(status(&[&head(HEAD_BYTES_MAX - 4)[..], b"\r\n\r\n"].concat()), 200);
        let fields = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(count));
        let both = [FIELDS_MAX, FIELDS_MAX + 1].map(|count| status(fields(count).as_bytes()));
        assert_eq!(both, [200, 400]);
        let body = |len: usize| {
            let head = format!("PUT / HTTP/1.1\r\nContent-Length: {len}\r\n\r\n");
            [head.as_bytes(), &vec![7; len]].concat()
        };
        assert_eq!([status(&body(1000)), status(&body(1001))], [200, 413]);
        let mut bytes = body(4097);
        let Ok(Incoming::Refused(refusal)) = receive(&mut bytes, 4096, &mut |_| Ok(0)) else {
            panic!("it is too long");
        };
        assert_eq!(refusal.why, "a request may bring at most 4 KiB");
        assert_eq!(request(&body(1000)).body, [7; 1000]);
    }

    const CUT_OFF: io::ErrorKind = io::ErrorKind::UnexpectedEof;

    #[test]
    fn requests_behind_each_other_are_taken_one_by_one() {
        let bytes = b"PUT /1 HTTP/1.1\r\nContent-Length: 2\r\n\r\nabDELETE /2?x HTTP/1.1\r\n\r\n";
        for step in [1, 50, 1000] {
            let (mut left, mut at) = (Vec::new(), 0);
            let mut more = |piece: &mut [u8]| {
                let count = step.min(bytes.len() - at).min(piece.len());
                piece[..count].copy_from_slice(&bytes[at..at + count]);
                at += count;
                Ok(count)
            };
            let mut next = || match receive(&mut left, 1000, &mut more).unwrap() {
                Incoming::Request(request) => {
                    format!("{} {} {:?}", request.method.name(), request.path, request.body)
                }
                Incoming::Refused(refusal) => refusal.why,
                Incoming::Gone => "gone".to_owned(),
            };
            assert_eq!([next(), next(), next()], ["PUT /1 [97, 98]", "DELETE /2 []", "gone"]);
        }
    }

    #[test]
    fn an_answer_is_taken_to_its_length_and_no_other_is_one() {
        let answered = |bytes: &[u8], step: usize| {
            let mut at = 0;
            let received = receive_answer(5, &mut |piece| {
                let count = step.min(bytes.len() - at).min(piece.len());
                piece[..count].copy_from_slice(&bytes[at..at + count]);
                at += count;
                Ok(count)
            })?;
            let Received { status, body, keeps } = received;
            io::Result::Ok((status, body, keeps))
        };
        let with = |fields: &str| format!("HTTP/1.1 202 Accepted\r\n{fields}\r\n").into_bytes();
        let five = [&with("Content-Length: 5\r\n")[..], b"abcdefg"].concat();
        for step in [1, 7, 1000] {
            assert_eq!(answered(&five, step).unwrap(), (202, b"abcde".to_vec(), true));
            let short = answered(&five[..five.len() - 3], step).unwrap_err();
            assert_eq!(short.kind(), CUT_OFF);
        }
        for (fields, keeps) in [("", true), ("Connection: keep-alive\r\n", true)]
            .into_iter()
            .chain([("Connection: close\r\n", false), ("connection: Close\r\n", false)])
        {
            let none = with(&format!("{fields}Content-Length: 0\r\n"));
            assert_eq!(answered(&none, 9).unwrap(), (202, Vec::new(), keeps), "{fields}");
        }
        let long = [&with("Content-Length: 6\r\n")[..], b"abcdef"].concat();
        for bad in [long, with(""), with("Content-Length: x\r\n"), b"SSH-2.0-x\r\n".to_vec()] {
            let kind = answered(&bad, 1000).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::InvalidData, "{}", String::from_utf8_lossy(&bad));
        }
        // What never ends is not kept.
        let endless = [&b"HTTP/1.1 200 OK\r\nX: "[..], &vec![b'a'; 1 << 20]].concat();
        assert_eq!(answered(&endless, 1000).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(answered(b"HTTP/1.1 200", 1000).unwrap_err().kind(), CUT_OFF);
    }
}
