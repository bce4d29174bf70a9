//! The little of HTTP/1.1 that is spoken here: bodies of a known length, kept connections.
//! Room: onefold-control.

mod receive;

use std::io::{self, Write};

pub(crate) use receive::receive_answer;
pub use receive::{Incoming, Refusal, receive};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Look.
    Get,
    /// Do.
    Post,
    /// Store.
    Put,
    /// Take away.
    Delete,
}

impl Method {
    /// Its name in a request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// A request that came whole.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is asked for.
    pub method: Method,
    /// Where, decoded, without the query.
    pub path: String,
    /// Names and values of the query, decoded.
    pub query: Vec<(String, String)>,
    /// Names, in lower case, and values of the head.
    pub headers: Vec<(String, String)>,
    /// What came with it.
    pub body: Vec<u8>,
    /// Whether the client will ask again on this connection.
    pub keeps: bool,
}

impl Request {
    /// A field of the head.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// A value of the query.
    pub fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// What the query has more than once: another reader might take another one of these.
    pub fn asked_twice(&self) -> Option<&str> {
        let mut query = self.query.iter().enumerate();
        let twice = query.find(|(at, (name, _))| self.query[..*at].iter().any(|(n, _)| n == name));
        twice.map(|(_, (name, _))| name.as_str())
    }
}

/// What is answered.
pub struct Response {
    /// The status.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// The body.
    pub body: Body,
    /// Further fields of the head.
    pub headers: Vec<(&'static str, String)>,
}

/// The body of an answer.
pub enum Body {
    /// At once.
    Bytes(Vec<u8>),
    /// Piece by piece, until there are no more or the client is gone; each waits for what it tells.
    Events(Box<dyn FnMut() -> Option<String> + Send>),
}

impl Response {
    /// Bytes.
    pub const fn bytes(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { status, content_type, body: Body::Bytes(body), headers: Vec::new() }
    }

    /// A document.
    pub fn json(status: u16, value: &serde_json::Value) -> Self {
        Self::bytes(status, "application/json", format!("{value}\n").into_bytes())
    }

    /// Why not, in the form in which every failure is told.
    pub fn error(status: u16, message: &str) -> Self {
        let error = serde_json::json!({ "message": message, "hints": [], "exit_status": 2 });
        Self::json(status, &serde_json::json!({ "error": error }))
    }

    /// With one more field in the head.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Sends it. `keeps` says that the connection stays open afterwards; whether it does.
    pub fn send(self, to: &mut impl Write, keeps: bool) -> io::Result<bool> {
        let keeps = keeps && matches!(self.body, Body::Bytes(_));
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        let mut field = |name: &str, value: &str| {
            head.extend([name, ": ", value, "\r\n"]);
        };
        field("Content-Type", self.content_type);
        field("Cache-Control", "no-store");
        field("X-Content-Type-Options", "nosniff");
        for (name, value) in &self.headers {
            field(name, value);
        }
        if let Body::Bytes(bytes) = &self.body {
            field("Content-Length", &bytes.len().to_string());
        }
        field("Connection", if keeps { "keep-alive" } else { "close" });
        head.push_str("\r\n");
        match self.body {
            Body::Bytes(bytes) => {
                let mut all = head.into_bytes();
                all.extend(bytes);
                to.write_all(&all)?;
            }
            Body::Events(mut next) => {
                to.write_all(head.as_bytes())?;
                while let Some(event) = next() {
                    to.write_all(event.as_bytes())?;
                }
            }
        }
        to.flush()?;
        Ok(keeps)
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// Text as part of an address.
pub fn encoded(text: &[u8]) -> String {
    let mut out = String::new();
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            let digit = |digit: u8| char::from(b"0123456789ABCDEF"[usize::from(digit)]);
            out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

/// A part of an address as bytes; `None` if it is none.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        out.push((digit()? * 16 + digit()?) as u8);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written, and how much of it was sent on.
    #[derive(Default)]
    struct Out(Vec<u8>, usize);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.1 = self.0.len();
            Ok(())
        }
    }

    fn sent(response: Response, keeps: bool) -> (bool, String) {
        let mut out = Out::default();
        let kept = response.send(&mut out, keeps).unwrap();
        assert_eq!(out.1, out.0.len(), "nothing waits for more");
        (kept, String::from_utf8(out.0).unwrap())
    }

    #[test]
    fn an_answer_is_one_head_and_its_body() {
        let head = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
        for (keeps, connection) in [(true, "keep-alive"), (false, "close")] {
            let (kept, text) = sent(Response::error(503, "full").with("Retry-After", "1"), keeps);
            let error = serde_json::json!({ "message": "full", "hints": [], "exit_status": 2 });
            let body = format!("{}\n", serde_json::json!({ "error": error }));
            let expected = format!(
                "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n{head}\
                 Retry-After: 1\r\nContent-Length: 56\r\nConnection: {connection}\r\n\r\n{body}"
            );
            assert_eq!((kept, text), (keeps, expected));
        }
        // What comes piece by piece has no length and ends with its connection.
        let mut left = vec!["two", "one "];
        let body = Body::Events(Box::new(move || left.pop().map(str::to_owned)));
        let events = Response { status: 200, content_type: "text/x", body, headers: Vec::new() };
        let expected = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\n{head}Connection: close\r\n\r\none two"
        );
        assert_eq!(sent(events, true), (false, expected));
    }

    #[test]
    fn what_is_asked_for_is_the_first_of_its_name() {
        let pairs = |pairs: [(&str, &str); 3]| {
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
        };
        let both = pairs([("b", "0"), ("a", "1"), ("a", "2")]);
        let request = Request {
            method: Method::Get,
            path: String::new(),
            query: both.clone(),
            headers: both,
            body: Vec::new(),
            keeps: true,
        };
        assert_eq!((request.asked("a"), request.header("a")), (Some("1"), Some("1")));
        assert_eq!((request.asked("c"), request.header("c")), (None, None));
    }
}
