//! What a serving process waits for: signals, the end of its command, and the next tick.
//! Room: onefold.

use std::cell::Cell;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::args::Hangup;
use crate::at_once;
use crate::failure::{Failure, Result};
use crate::interrupt::is_ignored;

/// How often the pool is tidied and flushed; a power cut takes at most what came in since.
const TICK: Duration = Duration::from_secs(5);

/// Signals that ask to stop: a service manager's, and what a terminal sends for Ctrl-C, for Ctrl-\
/// and when it is closed.
const STOPS: [i32; 4] = [SIGTERM, SIGINT, SIGQUIT, SIGHUP];

/// Something happened.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A signal asks to stop.
    Stop,
    /// A signal asks for certificates and settings to be read again.
    Reload,
    /// A signal asks for the status.
    ShowStatus,
    /// The command of `--run` has ended.
    CommandEnded(ExitStatus),
    /// So much has piled up in the pool that somebody should see to it who answers no client.
    Relieve,
    /// It is time for what happens now and then.
    Tick,
}

/// A queue of events.
pub struct Events {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
    /// When the next tick is.
    tick: Cell<Instant>,
}

impl Events {
    /// From now on signals are events, and a second signal to stop ends the process at once. SIGHUP
    /// is one of those, or asks to read certificates and settings again. `on_stop` is called for
    /// each that asks to stop, whatever whoever waits for events is doing.
    pub fn listen(hangup: Hangup, on_stop: impl Fn() + Send + 'static) -> Result<Self> {
        let failed = |e| Failure::nothing_done(format!("cannot handle signals: {e}"));
        // nohup wants a server that outlives its terminal; any other signal is meant.
        let stops_by_hangup = hangup == Hangup::Stop && !is_ignored(SIGHUP);
        let others: &[i32] = if hangup == Hangup::Reload { &[SIGUSR1, SIGHUP] } else { &[SIGUSR1] };
        let stops: Vec<i32> =
            STOPS.into_iter().filter(|&signal| signal != SIGHUP || stops_by_hangup).collect();
        let (sender, receiver) = channel();
        let mut signals = Signals::new(stops.iter().chain(others)).map_err(failed)?;
        let to = sender.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut stopping = false;
                for signal in signals.forever() {
                    let event = match signal {
                        SIGUSR1 => Event::ShowStatus,
                        SIGHUP if hangup == Hangup::Reload => Event::Reload,
                        _ if stopping => at_once::end(128 + signal),
                        _ => {
                            stopping = true;
                            on_stop();
                            Event::Stop
                        }
                    };
                    // Whoever listens no longer is about to end, and may still be told to hurry.
                    let _ = to.send(event);
                }
            })
            .map_err(failed)?;
        Ok(Self { sender, receiver, tick: Cell::new(Instant::now() + TICK) })
    }

    /// Where others may report events.
    pub fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// The next event; a tick when one is due, however many events come.
    pub fn next(&self) -> Event {
        let left = self.tick.get().saturating_duration_since(Instant::now());
        if !left.is_zero()
            && let Some(event) = self.within(left)
        {
            return event;
        }
        self.tick.set(Instant::now() + TICK);
        Event::Tick
    }

    /// The next event within a time.
    pub fn within(&self, time: Duration) -> Option<Event> {
        self.receiver.recv_timeout(time).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_comes_when_it_is_due_however_many_events_wait_and_then_they_do() {
        let (sender, receiver) = channel();
        let events = Events { sender, receiver, tick: Cell::new(Instant::now()) };
        for _ in 0..2 {
            events.sender().send(Event::Reload).unwrap();
        }
        let begun = Instant::now();
        assert!(matches!(events.next(), Event::Tick));
        assert!(events.tick.get() >= begun + TICK, "and the next one in its time");
        assert!(matches!(events.next(), Event::Reload) && matches!(events.next(), Event::Reload));
        assert!(events.within(Duration::ZERO).is_none());
    }
}
