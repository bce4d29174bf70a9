//! What a client sends, and what it makes of what comes.
//! Room: onefold-control.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use onefold_control::{
    Client, Credentials, Handler, Limits, Method, Peer, Request, Response, Server, TlsSettings,
    Token, client_tls,
};
use rustls::pki_types::{PrivateKeyDer, ServerName};

/// A server that hears a request whole, of so many bytes behind its head, and says this.
fn once<S: std::io::Read + std::io::Write>(mut stream: S, body: usize, says: &str) -> String {
    let mut heard = Vec::new();
    let ends = |heard: &[u8]| heard.windows(4).position(|four| four == b"\r\n\r\n");
    while ends(&heard).is_none_or(|at| heard.len() < at + 4 + body) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        heard.push(byte[0]);
    }
    stream.write_all(says.as_bytes()).unwrap();
    String::from_utf8(heard).unwrap()
}

#[test]
fn a_store_is_asked_by_its_name() {
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("a b");
    assert!(Client::connect(&folder).unwrap().is_none());
    std::fs::create_dir(&folder).unwrap();
    let listener = UnixListener::bind(folder.join("control")).unwrap();
    let heard: JoinHandle<[String; 2]> = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let first = once(&stream, 3, "HTTP/1.1 202 X\r\nContent-Length: 9\r\n\r\n{\"a\": 12}");
        [first, once(&stream, 0, "HTTP/1.1 200 X\r\nContent-Length: 3\r\n\r\nno!")]
    });
    let mut client = Client::connect(&folder).unwrap().unwrap();
    let answer = client.ask(Method::Post, "/x?y", b"{ }").unwrap();
    assert_eq!((answer.status, answer.json().unwrap()), (202, serde_json::json!({ "a": 12 })));
    let answer = client.ask(Method::Get, "/z", b"").unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"no!"[..]));
    let error = answer.json().unwrap_err().to_string();
    assert!(error.starts_with("the server's answer makes no sense: "), "{error}");
    let named = format!("{}/a%20b", top.path().display()).replace('/', "%2F");
    let fields = format!("Host: onefold\r\nOnefold-Pool: {named}\r\n");
    let expected = [
        format!("POST /x?y HTTP/1.1\r\n{fields}Content-Length: 3\r\n\r\n{{ }}"),
        format!("GET /z HTTP/1.1\r\n{fields}Content-Length: 0\r\n\r\n"),
    ];
    assert_eq!(heard.join().unwrap(), expected);
    // The server is gone, and asked by the connection that was kept.
    let error = client.ask(Method::Get, "/z", b"").err().unwrap().to_string();
    let closed = "the server does not answer: it closed the connection without an answer";
    assert_eq!(error, closed);
    // Another one goes in the middle of its answer, before the request, or with it.
    for said in ["HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\n{", "", "HTTP/1.1"] {
        std::fs::remove_file(folder.join("control")).unwrap();
        let listener = UnixListener::bind(folder.join("control")).unwrap();
        let mut client = Client::connect(&folder).unwrap().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        drop(stream);
        assert_eq!(client.ask(Method::Get, "/z", b"").err().unwrap().to_string(), closed);
    }
}

#[test]
fn an_address_is_asked_with_the_word_that_is_known() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let heard = std::thread::spawn(move || {
        [(); 2].map(|()| {
            let (stream, _) = listener.accept().unwrap();
            once(stream, 0, "HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n")
        })
    });
    let token = Token::new("0123456789abcdef");
    for token in [None, token] {
        let by = Credentials { token, tls: None };
        let mut client = Client::connect_to(at, &by).unwrap();
        assert_eq!(client.ask(Method::Delete, "/j", b"").unwrap().status, 200);
    }
    let head = format!("DELETE /j HTTP/1.1\r\nHost: {at}\r\nOnefold-Pool: \r\n");
    let authorized = format!("{head}Authorization: Bearer 0123456789abcdef\r\n");
    let expected = [head, authorized].map(|head| format!("{head}Content-Length: 0\r\n\r\n"));
    assert_eq!(heard.join().unwrap(), expected);
}

#[test]
fn a_server_is_trusted_by_its_authority_and_its_name_alone() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key) = (folder.path().join(name), folder.path().join("key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        (made, certificate, key)
    };
    let (_, other, _) = make("other");
    let (made, own, key) = make("own");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let der = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let settings = TlsSettings::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], der)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (tls, limits) = (Some(Arc::new(settings)), Limits::default());
    let _server = Server::on_address(listener, tls, Arc::new(Hello), limits).unwrap();
    let asked = |authority: &Path, name: &'static str, shows: Option<(&Path, &Path)>| {
        let config = client_tls(authority, shows).unwrap();
        let tls = Some((config, ServerName::try_from(name).unwrap()));
        let mut client = Client::connect_to(at, &Credentials { token: None, tls })?;
        let answer = client.ask(Method::Get, "/", b"").map_err(std::io::Error::other)?;
        std::io::Result::Ok(answer.body)
    };
    assert_eq!(asked(&own, "localhost", None).unwrap(), b"hello");
    assert_eq!(asked(&own, "localhost", Some((&own, &key))).unwrap(), b"hello");
    asked(&other, "localhost", None).unwrap_err();
    asked(&own, "elsewhere", None).unwrap_err();
    // Files that cannot be used are named.
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let none = folder.path().join("none");
    for (authority, shows, named) in [
        (&none, None, "none"),
        (&empty, None, "empty"),
        (&own, Some((own.as_path(), none.as_path())), "none"),
        (&own, Some((empty.as_path(), key.as_path())), "empty"),
        (&own, Some((own.as_path(), own.as_path())), "own"),
    ] {
        let error = client_tls(authority, shows).unwrap_err();
        assert!(error.contains(&format!("{named}': ")), "{error}");
    }
}

struct Hello;

impl Handler for Hello {
    fn handle(&self, _: &Request, _: Peer) -> Response {
        Response::bytes(200, "text/plain", b"hello".to_vec())
    }
}
