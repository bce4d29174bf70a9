//! An address, with and without encryption, and clients that should see nothing.
//! Room: onefold-control.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use onefold_control::http::Body;
use onefold_control::{
    Access, Guarded, Handler, Limits, Peer, Request, Response, Server, TlsSettings, Token,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

const TOKEN: &str = "0123456789abcdef";

/// Something to see; at `/live` without an end.
struct Sight;

impl Handler for Sight {
    fn handle(&self, request: &Request, _: Peer) -> Response {
        if request.path != "/live" {
            return Response::bytes(200, "text/plain", b"something to see".to_vec());
        }
        let body = Body::Events(Box::new(|| Some("x".repeat(1 << 16))));
        Response { status: 200, content_type: "text/event-stream", body, headers: Vec::new() }
    }
}

fn serve(access: Access, tls: Option<Arc<TlsSettings>>, limits: Limits) -> (SocketAddr, Server) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let sight = Guarded::new(Arc::new(Sight), access);
    (at, Server::on_address(listener, tls, Arc::new(sight), limits).unwrap())
}

fn said(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(request.as_bytes());
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn status(at: SocketAddr, method: &str, fields: &str) -> String {
    let answer = said(at, &format!("{method} / HTTP/1.1\r\n{fields}\r\n"));
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn an_address_that_somebody_else_has_too_is_left_listening() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    for _ in 0..2 {
        let handler = Arc::new(Guarded::new(Arc::new(Sight), Access::Local));
        let again = listener.try_clone().unwrap();
        let server = Server::on_address(again, None, handler, Limits::default()).unwrap();
        assert_eq!(status(at, "GET", "Host: localhost\r\n"), "200");
        // A client that is gone before it is taken must not hold up the next one.
        let flags = rustix::fs::fcntl_getfl(&listener).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
        drop(server);
        let _waiting = TcpStream::connect(at).unwrap();
        listener.accept().unwrap();
    }
}

#[test]
fn other_names_other_sites_and_changes_are_refused() {
    let (at, _server) = serve(Access::Local, None, Limits::default());
    let local = "Host: localhost:9469\r\n";
    for (method, fields, expected) in [
        ("GET", local.to_owned(), "200"),
        ("GET", "Host: 127.0.0.1\r\n".to_owned(), "200"),
        ("GET", "Host: evil.example:9469\r\n".to_owned(), "421"),
        ("GET", String::new(), "400"),
        ("POST", local.to_owned(), "405"),
        ("DELETE", local.to_owned(), "405"),
        ("GET", format!("{local}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"), "403"),
        (
            "GET",
            format!("{local}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"),
            "200",
        ),
        ("GET", format!("{local}Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n"), "200"),
        ("GET", format!("{local}Content-Length: 104857600\r\n"), "413"),
    ] {
        assert_eq!(status(at, method, &fields), expected, "{method} {fields}");
    }
}

#[test]
fn only_who_knows_the_token_sees_anything() {
    let token = Token::new(TOKEN).unwrap();
    let (at, _server) = serve(Access::Token(token), None, Limits::default());
    for (fields, expected) in [
        (String::new(), "401"),
        ("Host: localhost\r\n".to_owned(), "401"),
        (format!("Authorization: Bearer {TOKEN}\r\n"), "200"),
        (format!("Host: disk.example\r\nAuthorization: Bearer {TOKEN}\r\n"), "200"),
        ("Authorization: Bearer 0123456789abcdeX\r\n".to_owned(), "401"),
        ("Authorization: Bearer 0123456789\r\n".to_owned(), "401"),
        // Any user with the token as the password.
        ("Authorization: Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==\r\n".to_owned(), "200"),
    ] {
        assert_eq!(status(at, "GET", &fields), expected, "{fields}");
    }
    let asked = said(at, "GET / HTTP/1.1\r\n\r\n");
    assert!(asked.contains("WWW-Authenticate: Basic") && !asked.contains("something"), "{asked}");
    let both = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(status(at, "POST", &both), "405");
}

#[test]
fn encrypted_it_is_the_same_and_who_speaks_plainly_is_not_heard() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = CertificateDer::from(certified.cert.der().to_vec());
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let settings = TlsSettings::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let (at, server) = serve(Access::Certified, Some(Arc::new(settings)), Limits::default());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
    let mut stream = rustls::StreamOwned::new(connection, TcpStream::connect(at).unwrap());
    for _ in 0..2 {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: any\r\n\r\n").unwrap();
        let mut answer = vec![0; 4096];
        let length = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("something"), "{answer}");
    }
    let plain = said(at, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!plain.contains("something"), "{plain}");
    drop(server);
}

#[test]
fn a_thousand_connections_have_a_few_places_for_a_while() {
    let limits = Limits {
        clients: 8,
        idle: Duration::from_millis(300),
        receive: Duration::from_millis(300),
        send: Duration::from_millis(300),
        ..Limits::default()
    };
    let (at, _server) = serve(Access::Local, None, limits);
    // Some say nothing, some half of something, and some take none of what they asked for.
    let open: Vec<TcpStream> = (0..1000)
        .map(|number| {
            let mut stream = TcpStream::connect(at).unwrap();
            let half =
                ["", "GET / HT", "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"][number % 3];
            let _ = stream.write_all(half.as_bytes());
            stream
        })
        .collect();
    let free = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        said(at, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").contains("something")
    });
    assert!(free, "a place is free again while all of them are still open");
    drop(open);
}
