//! Keeps what is answered at an address for those who may see it.
//! Room: onefold-control.
//! Invariants: (1) nothing is changed from here: browsers send what they know of a server along
//! with requests that other people's pages make  (2) a page of another site can neither read an
//! answer nor have anything done: not under a name of its own for this machine either.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crate::http::{Method, Request, Response};
use crate::peer::Peer;
use crate::server::Handler;

/// A token must have so many bytes: nobody guesses it.
const TOKEN_BYTES_MIN: usize = 16;
/// And at most so many.
const TOKEN_BYTES_MAX: usize = 1024;

/// Who may see what is answered.
pub enum Access {
    /// Who can connect, and names this machine by a number or as `localhost`.
    Local,
    /// Who knows this, as `Authorization: Bearer TOKEN` or as the password of any user.
    Token(Token),
    /// Who has shown a certificate already.
    Certified,
}

/// A secret.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The word, for whoever has to say it.
    pub(crate) fn word(&self) -> &str {
        &self.0
    }

    /// A token as it stands in a file; `None` if it is none: one word of 16 to 1,024 letters,
    /// digits and signs.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let long_enough = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len());
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        (long_enough && plain).then(|| Self(text.to_owned()))
    }

    /// Whether these are the same, in a time that does not tell where they differ.
    fn is(&self, other: &[u8]) -> bool {
        let pairs = self.0.bytes().zip(other);
        let differences = pairs.fold(0, |all, (a, &b)| all | (a ^ b));
        self.0.len() == other.len() && std::hint::black_box(differences) == 0
    }

    fn is_in(&self, authorization: &str) -> bool {
        let (scheme, value) = authorization.split_once(' ').unwrap_or((authorization, ""));
        let value = value.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.is(value.as_bytes());
        }
        // What a browser sends after it has asked for a name and a password.
        let pair = scheme.eq_ignore_ascii_case("basic").then(|| from_base64(value)).flatten();
        let Some(pair) = pair else { return false };
        let password = pair.iter().position(|&byte| byte == b':').map(|colon| &pair[colon + 1..]);
        password.is_some_and(|password| self.is(password))
    }
}

/// Answers for those who may see it, and only what changes nothing.
pub struct Guarded {
    behind: Arc<dyn Handler>,
    access: Access,
}

impl Guarded {
    /// Stand before a handler.
    pub fn new(behind: Arc<dyn Handler>, access: Access) -> Self {
        Self { behind, access }
    }

    /// Why not, if so.
    fn refusal(&self, request: &Request) -> Option<Response> {
        let fetched = |name| request.header(name).unwrap_or_default();
        if fetched("sec-fetch-site") == "cross-site" && fetched("sec-fetch-mode") != "navigate" {
            return Some(Response::error(403, "this is for no page of another site"));
        }
        match &self.access {
            Access::Local => match request.header("host") {
                Some(host) if is_local(host) => {}
                Some(_) => {
                    let why = "name this machine by its number or as localhost: under other names \
                               a page of another site could read this";
                    return Some(Response::error(421, why));
                }
                None => return Some(Response::error(400, "the request has no Host")),
            },
            Access::Token(token) => {
                let known = request.header("authorization").is_some_and(|said| token.is_in(said));
                if !known {
                    let answer = Response::error(401, "this needs the token of the server");
                    let ask = "Basic realm=\"onefold: any user, the token as password\"";
                    return Some(answer.with("WWW-Authenticate", ask));
                }
            }
            Access::Certified => {}
        }
        (request.method != Method::Get)
            .then(|| Response::error(405, "nothing is changed from here: use the commands"))
    }
}

impl Handler for Guarded {
    fn handle(&self, request: &Request, peer: Peer) -> Response {
        self.refusal(request).unwrap_or_else(|| self.behind.handle(request, peer))
    }
}

/// Whether the name in a request is a number, or `localhost`: no name that somebody else can make
/// stand for this machine.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let six = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    six.map_or_else(
        || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok(),
        |six| six.parse::<Ipv6Addr>().is_ok(),
    )
}

/// The bytes of a text in base 64 (RFC 4648); `None` if it is none.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_else_can_give_are_local() {
        for host in ["127.0.0.1", "127.0.0.1:9469", "localhost:1", "LocalHost", "[::1]:9", "[::1]"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9469",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "[::1].evil:1",
            "[evil]",
            "127.0.0.1:9469@evil",
            "localhost:80:evil",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn a_token_is_known_as_bearer_and_as_password_and_in_no_other_way() {
        assert!(Token::new("short").is_none());
        assert!(Token::new("two words are no token").is_none());
        for (len, is_one) in [(15, false), (16, true), (1024, true), (1025, false)] {
            assert_eq!(Token::new(&"x".repeat(len)).is_some(), is_one, "{len}");
        }
        let token = Token::new("0123456789abcdef\n").unwrap();
        // `me:0123456789abcdef` and `:0123456789abcdef`.
        let (named, nameless) = ("bWU6MDEyMzQ1Njc4OWFiY2RlZg==", "OjAxMjM0NTY3ODlhYmNkZWY=");
        for said in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef"] {
            assert!(token.is_in(said), "{said}");
        }
        assert!(
            token.is_in(&format!("Basic {named}")) && token.is_in(&format!("basic {nameless}"))
        );
        for said in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789abcde",
            "0123456789abcdef",
            "Basic MDEyMzQ1Njc4OWFiY2RlZg==",
            "Basic ====",
            "Basic \u{e9}",
            "Digest 0123456789abcdef",
        ] {
            assert!(!token.is_in(said), "{said}");
        }
    }

    #[test]
    fn base64_is_read_as_it_is_written() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(from_base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(from_base64("//79").unwrap(), [0xFF, 0xFE, 0xFD]);
        // The digits in their order, from 0 to 63, six bits each.
        let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let read = from_base64(digits).unwrap();
        for (three, at) in read.chunks_exact(3).zip((0..64).step_by(4)) {
            let four = at << 18 | (at + 1) << 12 | (at + 2) << 6 | (at + 3);
            assert_eq!(three, &u32::to_be_bytes(four)[1..]);
        }
        assert_eq!((read.len(), from_base64("Zm9*")), (48, None));
    }
}
