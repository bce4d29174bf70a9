//! `pool status --watch`, on a terminal of its own.
//! Room: onefold.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::harness::{ONEFOLD, PATIENCE, Sandbox};
use crate::metrics::seen;

/// A command on a terminal of 100 columns and 30 lines.
pub struct OnTerminal {
    pub child: Child,
    pieces: Receiver<Vec<u8>>,
    /// What was drawn so far.
    pub screen: String,
}

impl OnTerminal {
    pub fn start(sandbox: &Sandbox, words: &str) -> Self {
        Self::start_with(sandbox, words, &[])
    }

    /// The same with something in the environment.
    pub fn start_with(sandbox: &Sandbox, words: &str, environment: &[(&str, &str)]) -> Self {
        let line = format!("stty cols 100 rows 30; exec {ONEFOLD} {words}");
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
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
        Self { child, pieces, screen: String::new() }
    }

    /// Wait until all of these words were drawn.
    pub fn wait_for(&mut self, words: &[&str]) {
        let until = Instant::now() + PATIENCE;
        while !words.iter().all(|word| self.screen.contains(word)) {
            let left = until.saturating_duration_since(Instant::now());
            let piece = self.pieces.recv_timeout(left);
            let piece = piece.unwrap_or_else(|_| panic!("{words:?} in {:?}", self.screen));
            self.screen.push_str(&String::from_utf8_lossy(&piece));
        }
    }

    pub fn press(&mut self, key: &str) {
        self.child.stdin.as_mut().unwrap().write_all(key.as_bytes()).unwrap();
    }

    pub fn ended(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it does not end: {:?}", self.screen);
            std::thread::sleep(Duration::from_millis(20));
        };
        while let Ok(piece) = self.pieces.recv_timeout(Duration::from_secs(1)) {
            self.screen.push_str(&String::from_utf8_lossy(&piece));
        }
        (status.code(), std::mem::take(&mut self.screen))
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
    watched.screen.clear();
    watched.wait_for(&["\u{1b}[2J", "MEMORY"]);
    watched.press("\u{3}");
    let (code, screen) = watched.ended();
    assert_eq!(code, Some(0), "{screen:?}");
    server.stop();
}
