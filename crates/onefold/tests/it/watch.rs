//! `pool status --watch`, on a terminal of its own.
//! Room: onefold.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::harness::{ONEFOLD, PATIENCE, Sandbox};
use crate::metrics::seen;

/// Columns and rows of a terminal.
const COLUMNS: u16 = 100;
const ROWS: u16 = 30;

/// A command on a terminal, which an emulator stands in for: what is looked at is what a user would
/// see, however little of it had to be drawn anew.
pub struct OnTerminal {
    pub child: Child,
    pieces: Receiver<Vec<u8>>,
    terminal: vt100::Parser,
    /// Every byte that was drawn so far.
    pub drawn: String,
}

impl OnTerminal {
    pub fn start(sandbox: &Sandbox, words: &str) -> Self {
        Self::start_with(sandbox, words, &[])
    }

    /// The same with something in the environment.
    pub fn start_with(sandbox: &Sandbox, words: &str, environment: &[(&str, &str)]) -> Self {
        let line = format!("stty cols {COLUMNS} rows {ROWS}; exec {ONEFOLD} {words}");
        // Tests that a shell runs in the background inherit an ignored Ctrl-C.
        let mut child = Command::new("env")
            .args(["--default-signal=INT", "script", "-qec", &line, "/dev/null"])
            .current_dir(sandbox.path(""))
            .env("TERM", "xterm")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let (to, pieces) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = out.read(&mut piece) {
                if to.send(piece[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let terminal = vt100::Parser::new(ROWS, COLUMNS, 0);
        Self { child, pieces, terminal, drawn: String::new() }
    }

    /// Wait until all of these words are on the screen.
    pub fn wait_for(&mut self, words: &[&str]) {
        self.wait_until(|top| {
            let screen = top.terminal.screen().contents();
            words.iter().all(|word| screen.contains(word))
        });
    }

    /// Wait until it looks so.
    pub fn wait_until(&mut self, looks_so: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !looks_so(self) {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(piece) = self.pieces.recv_timeout(left) else {
                panic!("the screen stays so:\n{}", self.terminal.screen().contents());
            };
            self.draw(&piece);
        }
    }

    fn draw(&mut self, piece: &[u8]) {
        self.terminal.process(piece);
        self.drawn.push_str(&String::from_utf8_lossy(piece));
    }

    pub fn press(&mut self, key: &str) {
        self.child.stdin.as_mut().unwrap().write_all(key.as_bytes()).unwrap();
    }

    /// How the command ended, and everything that was drawn.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it does not end: {:?}", self.drawn);
            std::thread::sleep(Duration::from_millis(20));
        };
        while let Ok(piece) = self.pieces.recv_timeout(Duration::from_secs(1)) {
            self.draw(&piece);
        }
        (status.code(), std::mem::take(&mut self.drawn))
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // What runs on the terminal ends with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_status_that_is_watched_comes_again_until_ctrl_c() {
    let sandbox = Sandbox::new();
    let server = seen(&sandbox);
    let mut watched = OnTerminal::start(&sandbox, "pool status pool --watch");
    watched.wait_for(&["MEMORY"]);
    watched.wait_until(|watched| watched.drawn.matches("\u{1b}[2J").count() > 1);
    watched.wait_for(&["MEMORY"]);
    watched.press("\u{3}");
    let (code, screen) = watched.ended();
    assert_eq!(code, Some(0), "{screen:?}");
    server.stop();
}
