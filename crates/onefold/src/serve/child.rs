//! The command of `--run`: a shell with the server's address in its environment.
//! Room: onefold.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use onefold_nbd::ListenAddr;
use rustix::process::{Pid, Signal, kill_process};

use super::events::{Event, Events};
use crate::failure::{Failure, Result};

/// Time for the command to end by itself once the server was asked to stop.
const GRACE: Duration = Duration::from_secs(5);
/// Longest time that its end takes: it is asked, and then made.
pub const END: Duration = GRACE.saturating_mul(2);

/// A command that runs.
pub struct Child {
    pid: Option<Pid>,
}

impl Child {
    /// Start it; `served` is the name under which it finds the folder; `events` hears of its end.
    pub fn start(
        command: &str,
        served: (&str, &Path),
        socket: &Path,
        export: &str,
        events: Sender<Event>,
    ) -> Result<Self> {
        let uri = ListenAddr::Unix(socket.to_owned()).uri(export, false);
        let nbd = format!("nbd:unix:{}:exportname={export}", socket.display());
        let env = [
            ("uri", OsStr::new(&uri)),
            ("unixsocket", socket.as_os_str()),
            ("exportname", OsStr::new(export)),
            ("nbd", OsStr::new(&nbd)),
            (served.0, served.1.as_os_str()),
        ];
        Self::start_with(command, &env, events)
    }

    /// Start it with these in its environment; `events` hears of its end.
    pub fn start_with(
        command: &str,
        env: &[(&str, &OsStr)],
        events: Sender<Event>,
    ) -> Result<Self> {
        let failed = |e| Failure::nothing_done(format!("cannot run '{command}': {e}"));
        let mut child = Command::new("sh")
            .args(["-c", command])
            .envs(env.iter().copied())
            .spawn()
            .map_err(failed)?;
        let pid = Pid::from_raw(child.id().cast_signed());
        std::thread::Builder::new()
            .name("command".to_owned())
            .spawn(move || {
                // Waiting for a child that was started cannot fail.
                if let Ok(status) = child.wait() {
                    // Nobody listens any more once the server has stopped.
                    let _ = events.send(Event::CommandEnded(status));
                }
            })
            .map_err(failed)?;
        Ok(Self { pid })
    }

    /// Ask it to end, then make it, and say how it ended.
    pub fn end(&self, events: &Events) -> Option<ExitStatus> {
        for signal in [Signal::TERM, Signal::KILL] {
            if let Some(pid) = self.pid {
                // It may have ended in this moment.
                let _ = kill_process(pid, signal);
            }
            let until = Instant::now() + GRACE;
            while let Some(event) = events.within(until.saturating_duration_since(Instant::now())) {
                if let Event::CommandEnded(status) = event {
                    return Some(status);
                }
            }
        }
        None
    }
}

/// The exit status that stands for another process's, as shells have it.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_passed_on_as_a_shell_would() {
        // As the kernel tells them: what it exited with, or the signal that ended it.
        let codes = [0, 3 << 8, 255 << 8, 15].map(|raw| exit_code(ExitStatus::from_raw(raw)));
        assert_eq!(codes, [0, 3, 255, 143]);
        // One that was stopped has neither.
        assert_eq!(exit_code(ExitStatus::from_raw(0x137f)), 1);
    }
}
