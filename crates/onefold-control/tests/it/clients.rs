//! What a client sends, and what it makes of what comes.
//! Room: onefold-control.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use onefold_control::{Client, Credentials, Method, Token};

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
    // The server is gone.
    let error = client.ask(Method::Get, "/z", b"").err().unwrap().to_string();
    assert!(error.starts_with("the server does not answer: "), "{error}");
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
