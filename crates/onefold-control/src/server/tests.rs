//! Clients of a server at an address, admitted or not, and what ends with it.
//! Room: onefold-control.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::http::Body;

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

fn serve(admission: Admission, limits: Limits) -> (TcpStream, Server) {
    serve_by(Arc::new(Sight), admission, limits)
}

fn serve_by(
    handler: Arc<dyn Handler>,
    admission: Admission,
    limits: Limits,
) -> (TcpStream, Server) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let listener = Listener::Tcp(listener, None);
    let server = Server::start(listener, None, admission, handler, limits).unwrap();
    let client = TcpStream::connect(at).unwrap();
    // For a test that fails.
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (client, server)
}

/// What is answered to this; the connection stays.
fn asked(client: &mut TcpStream, request: &str) -> String {
    client.write_all(request.as_bytes()).unwrap();
    heard(client)
}

fn heard(client: &mut TcpStream) -> String {
    let mut answer = vec![0; 4096];
    let count = client.read(&mut answer).unwrap();
    String::from_utf8(answer[..count].to_vec()).unwrap()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn who_is_not_admitted_is_told_so_and_sees_nothing() {
    let owner = Admission::Users { owner: 0, group: None };
    let (mut client, _server) = serve(owner, Limits::default());
    for _ in 0..2 {
        let answer = asked(&mut client, GET);
        assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("see"), "{answer}");
    }
}

#[test]
fn a_server_that_was_dropped_has_left_its_clients_and_its_address() {
    let (mut client, server) = serve(Admission::All, Limits::default());
    let at = client.peer_addr().unwrap();
    for _ in 0..2 {
        let answer = asked(&mut client, GET);
        assert!(answer.ends_with("something to see"), "{answer}");
        assert!(answer.contains("Connection: keep-alive"), "{answer}");
    }
    drop(server);
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
    assert!(TcpStream::connect(at).is_err());
}

#[test]
fn who_takes_nothing_of_an_answer_loses_its_place() {
    let limits = Limits { clients: 1, send: Duration::from_millis(50), ..Limits::default() };
    let (mut client, server) = serve(Admission::All, limits);
    client.write_all(GET.replace(" / ", " /live ").as_bytes()).unwrap();
    client.peek(&mut [0]).unwrap();
    // It has begun to answer, and gives up.
    let (clients, minute) = (server.crowd.clients(), Duration::from_mins(1));
    let left = |clients: &mut BTreeMap<u64, Stream>| !clients.is_empty();
    let waited = server.crowd.gone.wait_timeout_while(clients, minute, left).unwrap();
    assert!(!waited.1.timed_out());
}

#[test]
fn what_comes_behind_a_request_has_its_own_time() {
    let (mut client, _server) = serve(Admission::All, Limits::default());
    let (begun, rest) = GET.split_at(9);
    let answer = asked(&mut client, &format!("{GET}{begun}"));
    assert!(answer.ends_with("something to see"), "{answer}");
    let answer = asked(&mut client, rest);
    assert!(answer.ends_with("something to see"), "{answer}");
}

#[test]
fn what_a_refused_client_still_sends_is_taken_for_a_while() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut ours = Stream::Unix(ours);
    let minute = Duration::from_mins(1);
    theirs.write_all(&[7; 10_000]).unwrap();
    ours.wait_to_read(minute).unwrap();
    let begun = Instant::now();
    // It says no more, and stays.
    let _ = linger(&mut ours, Duration::from_millis(1));
    assert!(begun.elapsed() < minute / 2, "nobody waits for it any more");
    theirs.write_all(&[7; 10_000]).unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    linger(&mut ours, minute).unwrap();
    assert_eq!(ours.read(&mut [0]).unwrap(), 0, "all of it was taken");
    assert_eq!(theirs.read(&mut [0]).unwrap(), 0, "and it was told that nothing follows");
}

#[test]
fn who_finds_no_place_is_told_when_to_try_again() {
    let (mut client, _server) = serve(Admission::All, Limits { clients: 0, ..Limits::default() });
    let answer = heard(&mut client);
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: 1\r\n"),
        "{answer}"
    );
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
}

#[test]
fn a_server_puts_up_with_what_was_said() {
    let Limits { clients, body_bytes, idle, receive, send } = Limits::default();
    assert_eq!((clients, body_bytes), (32, 4 << 20));
    assert_eq!([idle, receive, send].map(|time| time.as_secs()), [30, 10, 10]);
}

/// Says that it was asked, and answers when it may.
struct Slow(Mutex<Sender<()>>, Mutex<Receiver<()>>);

impl Handler for Slow {
    fn handle(&self, _: &Request, _: Peer) -> Response {
        self.0.lock().unwrap().send(()).unwrap();
        self.1.lock().unwrap().recv().unwrap();
        Response::bytes(200, "text/plain", b"all of it".to_vec())
    }
}

#[test]
fn an_answer_that_is_under_way_comes_whole_and_is_the_last_one() {
    let ((asked, is_asked), (go, may_go)) = (channel(), channel());
    let slow = Arc::new(Slow(Mutex::new(asked), Mutex::new(may_go)));
    let (mut client, server) = serve_by(slow, Admission::All, Limits::default());
    // The first one comes before anybody stops it, and is not the last.
    for is_last in [false, true] {
        client.write_all(GET.as_bytes()).unwrap();
        is_asked.recv().unwrap();
        if is_last {
            break;
        }
        go.send(()).unwrap();
        assert!(heard(&mut client).contains("Connection: keep-alive"));
    }
    let crowd = Arc::clone(&server.crowd);
    let stops = std::thread::spawn(move || drop(server));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !crowd.stopping.load(Ordering::SeqCst) {
        assert!(Instant::now() < deadline, "nobody stops");
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    let answer = heard(&mut client);
    assert!(answer.contains("Connection: close") && answer.ends_with("all of it"), "{answer}");
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
    stops.join().unwrap();
}
