//! Ctrl-C and its kin: a command that is interrupted leaves nothing half-made behind, and says so.
//! Room: onefold.
//! Invariant: an interrupted command ends with status 128 and the signal's number: 129 for SIGHUP,
//! 130 for SIGINT, 143 for SIGTERM. Servers are not concerned; they stop in order (`serve/`).
//!
//! A signal ends the process at once, and unfinished files with it. Where ending at once is not
//! good enough, a command says [`heed`]: the first signal then only asks, and a second one ends it.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
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

/// Whether whoever started this process wants it to live through a signal, as `nohup` does.
pub fn is_ignored(signal: i32) -> bool {
    ignores(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), signal)
}

/// The same by what the system tells of a process.
fn ignores(told: &str, signal: i32) -> bool {
    let mask = told.lines().find_map(|line| line.strip_prefix("SigIgn:"));
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
        let ignored: Vec<i32> = (1..=64).filter(|&signal| ignores(told, signal)).collect();
        assert_eq!(ignored, [SIGHUP, SIGTERM]);
        assert!(!ignores("Name:\tx\n", SIGHUP));
    }
}
