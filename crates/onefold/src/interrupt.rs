//! Ctrl-C and its kin: a command that is interrupted leaves nothing half-made behind, and says so.
//! Room: onefold.
//! Invariant: an interrupted command ends with status 128 and the signal's number: 129 for SIGHUP,
//! 130 for SIGINT, 143 for SIGTERM. Servers are not concerned; they stop in order (`serve/`).
//!
//! A signal ends the process at once, and unfinished files with it. Where ending at once is not
//! good enough, a command says [`heed`]: the first signal then only asks, and a second one ends it.

use std::io::{IsTerminal as _, Read, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::failure::{Failure, Result};
use crate::output::Printer;
use crate::{at_once, out_file};

/// The signals that interrupt, with the bits that `/proc` shows them as.
const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// The last signal, or 0. Its handler stores it here, so that no thread has to run for it to be
/// seen.
static ASKED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
/// Whether the command looks at [`asked`] by itself.
static HEEDED: AtomicBool = AtomicBool::new(false);

/// How often it is looked for a signal that is on its way, and how soon again.
const LOOKS: u32 = 600;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// From now on signals interrupt this process as described above.
pub fn watch() -> Result<()> {
    let failed = |error| Failure::nothing_done(format!("cannot handle signals: {error}"));
    let wanted: Vec<i32> = SIGNALS.into_iter().filter(|&signal| !is_ignored(signal)).collect();
    for &signal in &wanted {
        signal_hook::flag::register_usize(signal, Arc::clone(&ASKED), signal as usize)
            .map_err(failed)?;
    }
    let mut signals = Signals::new(&wanted).map_err(failed)?;
    let wait = move || {
        let mut asked = false;
        for signal in signals.forever() {
            if !HEEDED.load(Ordering::Acquire) || asked {
                leave(signal);
            }
            asked = true;
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
    Ok(())
}

/// From now on a file that reaches the size that this process may write (`ulimit -f`) is an error
/// of that write, as on a full disk, and not the end of the process.
pub fn let_limits_of_files_be_errors() {
    // Where it cannot be had, the limit still holds.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Whether whoever started this process wants it to live through a signal, as `nohup` does.
pub fn is_ignored(signal: i32) -> bool {
    has(&own_status(), "SigIgn:", signal)
}

/// Whether a signal was sent to this process that no thread has taken yet.
fn is_on_its_way(signal: i32) -> bool {
    has(&own_status(), "ShdPnd:", signal)
}

/// What the system tells of this process.
fn own_status() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Whether a signal is in the set of this name.
fn has(status: &str, name: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix(name));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// From now on the command looks at [`asked`] often, and ends in order.
pub fn heed() {
    HEEDED.store(true, Ordering::Release);
}

/// Whether the command is to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Acquire) != 0
}

/// The same when the other end of a pipe has gone: a signal for both ends may have ended that one,
/// and be on its way to this one. The first thread takes it, and is not waited for otherwise.
pub fn asked_by_now() -> bool {
    comes(asked, || SIGNALS.into_iter().any(is_on_its_way), std::thread::sleep)
}

/// Whether somebody has asked, or does once what is on its way has come.
fn comes(
    asked: impl Fn() -> bool,
    is_on_its_way: impl Fn() -> bool,
    mut pause: impl FnMut(Duration),
) -> bool {
    for _ in 0..LOOKS {
        if asked() {
            return true;
        }
        // Looked at before the pause, in which it is sent, or goes from the system to its handler.
        let waits = is_on_its_way();
        pause(BETWEEN_LOOKS);
        if !waits {
            break;
        }
    }
    asked()
}

/// What comes through a pipe. Where the command is interrupted, its end is an error: the writer may
/// have been ended in the middle.
pub struct Piped<R>(pub R);

impl<R: Read> Read for Piped<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.read(buf)?;
        if n == 0 && !buf.is_empty() && asked_by_now() {
            return Err(std::io::Error::other("interrupted"));
        }
        Ok(n)
    }
}

/// That the command was interrupted; `left` says what there is now.
pub fn failure(left: &str) -> Failure {
    let signal = ASKED.load(Ordering::Acquire) as i32;
    Failure::interrupted(if signal == 0 { SIGINT } else { signal }, left)
}

/// Take unfinished files away, say so, and end the process.
fn leave(signal: i32) -> ! {
    let left = at_once::in_time(take_away);
    let left = left
        .as_deref()
        .unwrap_or("a disk does not answer, and may keep a part of what was written");
    if std::io::stderr().is_terminal() {
        // A progress line may stand there.
        let _ = std::io::stderr().write_all(b"\r\x1b[2K");
    }
    Printer::new(false).failure(&Failure::interrupted(signal, left));
    at_once::end(128 + signal)
}

/// Take unfinished files away; what is left of them.
fn take_away() -> String {
    let mut unfinished = out_file::UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut left = String::new();
    for file in unfinished.drain(..) {
        let name = file.path.display();
        let what = match file.temporary.as_deref().map(|file| (file, std::fs::remove_file(file))) {
            Some((_, Ok(()))) => format!("; '{name}' was not written"),
            Some((part, Err(_))) => format!("; '{}' is a part of '{name}'", part.display()),
            None => format!("; '{name}' got only a part of what it was to get"),
        };
        left.push_str(&what);
    }
    // Held to the end: a file that is finished in this moment keeps its name, or never gets one.
    std::mem::forget(unfinished);
    left.trim_start_matches("; ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_not_asked_goes_on_and_one_that_is_ends_as_by_ctrl_c() {
        assert!(!asked());
        assert_eq!(failure("a part"), Failure::interrupted(SIGINT, "a part"));
    }

    #[test]
    fn signals_that_are_ignored_are_the_bits_that_the_system_shows() {
        let told = "SigBlk:\tffffffffffffffff\nSigIgn:\t0000000000004001\n";
        let ignored: Vec<i32> = (1..=64).filter(|&signal| has(told, "SigIgn:", signal)).collect();
        assert_eq!(ignored, [SIGHUP, SIGTERM]);
        assert!(!has("Name:\tx\n", "SigIgn:", SIGHUP));
    }

    /// What comes of looking, where a signal is sent and where it is heard at so many pauses.
    fn looked(sent: Option<u32>, heard: Option<u32>) -> (bool, u32) {
        let pauses = std::cell::Cell::new(0);
        let by_now = |at: Option<u32>| at.is_some_and(|at| pauses.get() >= at);
        let asked = comes(
            || by_now(heard),
            || by_now(sent) && !by_now(heard),
            |_| pauses.set(pauses.get() + 1),
        );
        (asked, pauses.get())
    }

    #[test]
    fn what_comes_through_a_pipe_ends_well_where_nobody_interrupts() {
        let mut all = Vec::new();
        assert_eq!(Piped(&b"abc"[..]).read_to_end(&mut all).unwrap(), 3);
        assert_eq!(all, b"abc");
    }

    #[test]
    fn a_signal_that_was_sent_is_waited_for_and_nothing_else() {
        assert_eq!(looked(Some(0), Some(0)), (true, 0), "heard before");
        assert_eq!(looked(Some(0), Some(7)), (true, 7), "on its way");
        assert_eq!(looked(Some(1), Some(1)), (true, 1), "sent an instant later");
        assert_eq!(looked(None, None), (false, 1), "nobody did");
        assert_eq!(looked(Some(0), None), (false, LOOKS), "never taken");
    }

    #[test]
    fn a_signal_that_no_thread_takes_is_on_its_way() {
        let status = "SigPnd:\t0000000000000002\nShdPnd:\t0000000000004000\n";
        let sent: Vec<i32> = (1..=64).filter(|&signal| has(status, "ShdPnd:", signal)).collect();
        assert_eq!(sent, [SIGTERM], "to the process");
        assert!(own_status().contains("\nShdPnd:\t"), "the system tells");
        assert!(!is_on_its_way(SIGTERM));
    }
}
