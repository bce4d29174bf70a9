//! Ending the process at once: what others would wait for goes first, if the disk that has it
//! answers.
//! Room: onefold.

use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

/// Time for what is taken away before the end.
const TIME: Duration = Duration::from_secs(3);

/// Do something that a disk may never answer, and wait for it for a while. Returns what it came to,
/// if it did.
pub fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (to, result) = channel();
    let work = move || {
        // Nobody listens any more when it took too long.
        let _ = to.send(work());
    };
    // The thread goes with the process.
    Builder::new().name("leaving".to_owned()).spawn(work).ok()?;
    result.recv_timeout(TIME).ok()
}

/// End with this status. Nobody on another machine goes on waiting for what this process had open.
pub fn end(status: i32) -> ! {
    let _ = in_time(onefold_block::leave_all_folders);
    signal_hook::low_level::exit(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_no_answer_does_not_wait_for_ever() {
        assert_eq!(in_time(|| 7), Some(7));
        let (never, waits) = channel::<()>();
        assert_eq!(in_time(move || waits.recv().is_ok()), None);
        drop(never);
    }
}
