//! What is at which address.
//! Room: onefold.

use std::sync::Arc;

use onefold_control::http::Body;
use onefold_control::{Handler, PREFIX, Peer, Request, Response};
use onefold_metrics::{Format, json};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::json;

use super::sampler::Sampler;

/// The page. `NONCE` stands for what its scripts and styles are known by, `TITLE` for its name.
const PAGE: &str = include_str!("page.html");

/// All that is at an address of `--metrics`.
pub struct Site {
    sampler: Arc<Sampler>,
}

impl Site {
    /// Told by this.
    pub fn new(sampler: Arc<Sampler>) -> Self {
        Self { sampler }
    }

    fn metrics(&self, request: &Request) -> Response {
        let format = Format::accepted(request.header("accept"));
        let text = format.write(&self.sampler.sample());
        Response::bytes(200, format.content_type(), text.into_bytes())
    }

    fn described(&self) -> Response {
        let jobs = json!(self.sampler.source().jobs());
        Response::json(200, &json::described(&self.sampler.sample(), &jobs))
    }

    fn live(&self) -> Response {
        let Some(mut stream) = self.sampler.stream() else {
            let answer = Response::error(503, "so many pages are open already, try again");
            return answer.with("Retry-After", "5");
        };
        let body = Body::Events(Box::new(move || stream.next()));
        Response { status: 200, content_type: "text/event-stream", body, headers: Vec::new() }
    }

    fn page(&self) -> Response {
        let Some(nonce) = nonce() else {
            return Response::error(500, "random numbers cannot be had");
        };
        let title = escaped(&self.sampler.source().title());
        let bounds = json!(json::bounds()).to_string();
        let page = PAGE.replace("@NONCE@", &nonce).replace("@TITLE@", &title);
        let page = page.replace("@BOUNDS@", &bounds);
        // Nothing from elsewhere, nothing to elsewhere, and no frame around it.
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
             connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        Response::bytes(200, "text/html; charset=utf-8", page.into_bytes())
            .with("Content-Security-Policy", &policy)
            .with("Referrer-Policy", "no-referrer")
    }
}

impl Handler for Site {
    fn handle(&self, request: &Request, _: Peer) -> Response {
        match request.path.as_str() {
            "/" => self.page(),
            "/metrics" => self.metrics(request),
            "/api/v1/live" => self.live(),
            "/api/v1/metrics" => self.described(),
            path if path.starts_with(PREFIX) || path == "/api" => {
                self.sampler.source().answer(request)
            }
            _ => Response::error(404, "there is /, /metrics and /api/v1/"),
        }
    }
}

/// A word that nobody has heard before.
fn nonce() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty()).ok()?;
    Some(format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// Text inside HTML.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '@' => out.push_str("&#64;"),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use onefold_control::Method;

    use super::super::sampler::tests::Nothing;
    use super::*;

    #[test]
    fn each_address_has_what_it_is_for_and_others_say_what_there_is() {
        let site = Site::new(Arc::new(Sampler::new(Arc::new(Nothing))));
        let asked = |path: &str| {
            let request = Request {
                method: Method::Get,
                path: path.to_owned(),
                query: Vec::new(),
                headers: Vec::new(),
                body: Vec::new(),
                keeps: false,
            };
            let response = site.handle(&request, Peer::User { user: 0, group: 0 });
            let Body::Bytes(body) = response.body else { panic!("all at once") };
            (response.status, String::from_utf8(body).unwrap())
        };
        let (status, page) = asked("/");
        assert!(status == 200 && page.contains("<html") && !page.contains("@NONCE@"));
        assert_eq!([asked("/metrics").0, asked("/api/v1/metrics").0], [200, 200]);
        for path in ["/api", "/api/v1/nosuch"] {
            let (status, why) = asked(path);
            assert!(status == 404 && why.contains("/api/v1/live"), "{path}: {why}");
        }
        for path in ["/nosuch", "/apis"] {
            let (status, why) = asked(path);
            assert!(status == 404 && why.contains("there is /, /metrics"), "{path}: {why}");
        }
    }

    #[test]
    fn a_page_too_many_is_to_try_again_and_names_are_text_beside_scripts() {
        let sampler = Arc::new(Sampler::new(Arc::new(Nothing)));
        let site = Site::new(Arc::clone(&sampler));
        let first = site.live();
        assert!(first.status == 200 && matches!(first.body, Body::Events(_)));
        let others: Vec<_> = std::iter::from_fn(|| sampler.stream()).collect();
        let refused = site.live();
        assert_eq!((refused.status, &*refused.headers[0].1), (503, "5"));
        drop(others);
        assert_eq!(site.live().status, 200);
        // A page's scripts are known by a word that nobody could have put into a name before.
        assert_ne!(nonce().unwrap(), nonce().unwrap());
        assert_eq!(escaped("a<b>&\"@N@"), "a&lt;b&gt;&amp;&quot;&#64;N&#64;");
    }
}
