//! `onefold top`, on a terminal of its own.
//! Room: onefold.

use std::process::Command;

use crate::harness::{Sandbox, run};
use crate::metrics::seen;
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
    top.screen.clear();
    top.wait_for(&["live"]);
    top.press("s");
    // Only the letters that differ from "busiest first" are drawn.
    top.wait_for(&["y name"]);
    // The one that `script` started: its child is the shell, which became the command.
    let pid = top.child.id().to_string();
    let found = run(Command::new("pgrep").args(["-P", &pid]));
    let inner = found.text().trim().to_owned();
    assert_eq!(run(Command::new("kill").args(["-TERM", &inner])).code, Some(0), "{inner}");
    let (_, screen) = top.ended();
    assert!(screen.contains(FORMER_SCREEN) && screen.contains(CURSOR), "{screen:?}");
    server.stop();
}
