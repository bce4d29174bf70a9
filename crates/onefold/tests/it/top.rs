//! `onefold top`, on a terminal of its own.
//! Room: onefold.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, Sandbox, run, tool};
use crate::metrics::seen;
use crate::rights::CERTIFICATES;
use crate::watch::OnTerminal;

/// What a terminal is told to show another screen, to go back to the one before, and to show the
/// cursor.
const OTHER_SCREEN: &str = "\u{1b}[?1049h";
const FORMER_SCREEN: &str = "\u{1b}[?1049l";
const CURSOR: &str = "\u{1b}[?25h";

#[test]
fn top_draws_a_server_and_leaves_the_terminal_as_it_was() {
    let sandbox = Sandbox::new();
    let server = seen(&sandbox);
    for (place, key) in [("pool".to_owned(), "q"), (server.seen_at().to_string(), "\u{3}")] {
        let mut top = OnTerminal::start(&sandbox, &format!("top {place}"));
        top.wait_for(&["logical", "4.0", "MiB", "export", "main", "leave"]);
        top.press(key);
        let (code, screen) = top.ended();
        assert_eq!(code, Some(0), "{screen:?}");
        assert_restored(&screen);
    }
    for (args, words) in
        [(["top", "nosuch"], "no pool's folder and no address"), (["top", "pool"], "this is none")]
    {
        let said = sandbox.onefold(&args);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains(words), "{}", said.err);
    }
    server.stop();
    assert!(sandbox.onefold(&["top", "pool"]).err.contains("nobody serves"));
}

fn assert_restored(screen: &str) {
    let at = |what: &str| screen.rfind(what).unwrap_or_else(|| panic!("{what:?} in {screen:?}"));
    assert!(at(OTHER_SCREEN) < at(FORMER_SCREEN) && at(CURSOR) > at(OTHER_SCREEN), "{screen:?}");
}

#[test]
fn a_signal_restores_the_terminal_and_a_server_that_goes_and_comes_is_told() {
    let sandbox = Sandbox::new();
    let server = seen(&sandbox);
    let mut top = OnTerminal::start(&sandbox, "top pool");
    top.wait_for(&["live", "logical"]);
    server.stop();
    top.wait_for(&["NO ANSWER"]);
    let server = sandbox.serve("pool", &[]);
    top.wait_for(&["live"]);
    top.press("s");
    top.wait_for(&["by name"]);
    let inner = inner_of(&top);
    assert_eq!(run(Command::new("kill").args(["-TERM", &inner])).code, Some(0), "{inner}");
    let (_, screen) = top.ended();
    assert!(screen.contains(FORMER_SCREEN) && screen.contains(CURSOR), "{screen:?}");
    server.stop();
}

/// The process that `script` started: its child is the shell, which became the command.
fn inner_of(top: &OnTerminal) -> String {
    let found = run(Command::new("pgrep").args(["-P", &top.child.id().to_string()]));
    let inner = found.text().trim().to_owned();
    assert!(!inner.is_empty());
    inner
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let sandbox = Sandbox::new();
    let server = seen(&sandbox);
    let mut top = OnTerminal::start(&sandbox, "top pool");
    top.wait_for(&["live", "logical"]);
    // A process that has ended has no words, also while nobody has asked how.
    let words = format!("/proc/{}/cmdline", inner_of(&top));
    let runs = || std::fs::read(&words).is_ok_and(|words| !words.is_empty());
    assert!(runs());
    // The terminal goes with `script`, which has no time to tell anybody.
    drop(top);
    let until = Instant::now() + PATIENCE;
    while runs() {
        assert!(Instant::now() < until, "it goes on without a terminal");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.stop();
}

#[test]
fn a_panic_restores_the_terminal_before_it_is_told() {
    let sandbox = Sandbox::new();
    let server = seen(&sandbox);
    let top = OnTerminal::start_with(&sandbox, "top pool", &[("ONEFOLD_TEST_TOP_PANICS", "1")]);
    let (code, screen) = top.ended();
    assert_ne!(code, Some(0), "{screen:?}");
    assert_restored(&screen);
    let told = screen.find("a test wants this panic").unwrap();
    assert!(screen.rfind(FORMER_SCREEN).unwrap() < told, "{screen:?}");
    server.stop();
}

#[test]
fn an_address_behind_a_token_or_tls_is_drawn_for_who_has_them() {
    let sandbox = Sandbox::new();
    let made = run(Command::new("sh").args(["-ec", CERTIFICATES]).current_dir(sandbox.path("")));
    assert_eq!(made.code, Some(0), "{}", made.err);
    std::fs::write(sandbox.path("token"), "0123456789abcdef\n").unwrap();
    std::fs::write(sandbox.path("other"), "0123456789abcdeF\n").unwrap();
    for name in ["token", "other"] {
        tool("chmod", &["600", &sandbox.text(name)]);
    }
    let tls = ["--tls-ca", "ca-cert.pem", "--tls-cert", "server-cert.pem", "--tls-key"];
    let tls = [&tls[..], &["server-key.pem"]].concat();
    let refused = |line: &str, words: &str| {
        let said = sandbox.onefold(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(said.code, Some(2), "{line}: {}", said.err);
        assert!(said.err.contains(words), "{line}: {}", said.err);
    };
    let drawn = |line: &str| {
        let mut top = OnTerminal::start(&sandbox, line);
        top.wait_for(&["live", "logical"]);
        top.press("q");
        assert_eq!(top.ended().0, Some(0), "{line}");
    };
    let token = ["--metrics", "127.0.0.1:0", "--metrics-token-file", "token"];
    let server = sandbox.serve("pool", &[&["--size", "64M"], &token[..]].concat());
    let at = server.seen_at();
    drawn(&format!("top {at} --token-file token"));
    let mut wrong = OnTerminal::start(&sandbox, &format!("top {at} --token-file other"));
    wrong.wait_for(&["NO ANSWER"]);
    wrong.press("q");
    wrong.ended();
    server.stop();
    // An address of this machine that is no loopback: there it is encrypted.
    let server = sandbox.serve("pool", &[&["--metrics", "0.0.0.0:0"], &tls[..]].concat());
    let port = server.seen_at().port();
    let place = format!("https://127.0.0.1:{port}/");
    drawn(&format!(
        "top {place} --tls-ca ca-cert.pem --tls-cert web1/client-cert.pem --tls-key \
         web1/client-key.pem"
    ));
    refused(&format!("top {place}"), "--tls-ca");
    refused(&format!("top 127.0.0.1:{port} --tls-ca ca-cert.pem"), "nothing is encrypted there");
    refused(&format!("top {place} --tls-ca server-cert.pem"), "does not answer");
    refused("top 192.0.2.1:9469 --token-file token", "for everybody to read");
    server.stop();
}
