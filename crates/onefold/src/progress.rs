//! A line about what is done and left, drawn only where somebody watches.
//! Room: onefold.
//! Invariant: the line is narrower than the terminal, whatever its width is now. What does not fit
//! is left out: the bar first, then the time left, the rate, and last what is being done.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use onefold_block::ByteSize;
use rustix::termios::tcgetwinsize;

use crate::output::Printer;
use crate::table::count;

/// Columns where the terminal does not tell its own.
const COLUMNS_DEFAULT: usize = 80;
/// Columns of the bar itself.
const BAR_MAX: usize = 30;
const BAR_MIN: usize = 10;
/// How often the line is drawn where nothing else moves it.
const TICK: Duration = Duration::from_millis(200);
/// Rates and times left say nothing before.
const SETTLED: Duration = Duration::from_secs(1);

/// What is counted.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Things(&'static str),
}

/// A line of progress. It goes away when it is finished or dropped.
pub struct Bar {
    bar: ProgressBar,
    doing: Arc<Mutex<String>>,
}

impl Bar {
    fn new(printer: &Printer, doing: &str, unit: Unit, total: Option<u64>) -> Self {
        let target = if printer.draws_progress() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let doing = Arc::new(Mutex::new(doing.to_owned()));
        let said = Arc::clone(&doing);
        let draw = move |state: &ProgressState, to: &mut dyn Write| {
            let doing = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let settled = state.pos() > 0 && state.elapsed() > SETTLED;
            let moment = Moment {
                doing: &doing,
                done: state.pos(),
                total: state.len(),
                per_second: settled.then(|| state.per_sec()),
                left: settled.then(|| state.eta()),
                unit,
            };
            // Writing to a text cannot fail.
            let _ = to.write_str(&moment.line(columns().saturating_sub(1)));
        };
        let style =
            ProgressStyle::with_template("{line}").expect("a fixed template is well-formed");
        let bar =
            ProgressBar::with_draw_target(total, target).with_style(style.with_key("line", draw));
        if printer.draws_progress() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar, doing }
    }

    /// One that nobody sees.
    #[cfg(test)]
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), doing: Arc::default() }
    }

    /// So much is done.
    pub fn set_position(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// So much more is done.
    pub fn inc(&self, more: u64) {
        self.bar.inc(more);
    }

    /// So much is there to do.
    pub fn set_length(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// What is being done.
    pub fn set_message(&self, doing: &str) {
        doing.clone_into(&mut self.doing.lock().unwrap_or_else(PoisonError::into_inner));
        self.bar.tick();
    }

    /// Do something that writes to the terminal.
    #[cfg(feature = "models")]
    pub fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }

    /// Take the line away.
    pub fn finish_and_clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A line over a number of bytes, or without an end where that is not known.
pub fn bytes(printer: &Printer, doing: &str, total: Option<u64>) -> Bar {
    Bar::new(printer, doing, Unit::Bytes, total)
}

/// A line over a number of things, or without an end where that is not known.
pub fn counted(printer: &Printer, doing: &str, what: &'static str, total: Option<u64>) -> Bar {
    Bar::new(printer, doing, Unit::Things(what), total)
}

/// Columns of the terminal behind stderr, now.
fn columns() -> usize {
    let size = tcgetwinsize(std::io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col))
        .filter(|&columns| columns > 0)
        .unwrap_or(COLUMNS_DEFAULT)
}

/// What a line is about.
struct Moment<'a> {
    doing: &'a str,
    done: u64,
    total: Option<u64>,
    per_second: Option<f64>,
    left: Option<Duration>,
    unit: Unit,
}

impl Moment<'_> {
    /// At most so many columns of it.
    fn line(&self, columns: usize) -> String {
        let amount = |number: u64| match self.unit {
            Unit::Bytes => ByteSize(number).to_string(),
            Unit::Things(_) => count(number),
        };
        let total = self.total.filter(|&total| total > 0);
        let mut counts = match total {
            Some(total) => format!("{} of {}", amount(self.done), amount(total)),
            None => amount(self.done),
        };
        if let Unit::Things(what) = self.unit {
            counts = format!("{counts} {what}");
        }
        let rate = self.per_second.filter(|&rate| rate > 0.0).map(|rate| match self.unit {
            Unit::Bytes => format!("{}/s", ByteSize(rate as u64)),
            Unit::Things(_) if rate < 10.0 => format!("{rate:.1}/s"),
            Unit::Things(_) => format!("{}/s", count(rate.round() as u64)),
        });
        let going = total.is_some_and(|total| self.done < total);
        let left = self.left.filter(|left| going && left.as_secs() > 0);
        let mut tail = fit(&counts, columns);
        for part in [rate, left.map(|left| format!("{} left", short(left)))].into_iter().flatten() {
            let longer = format!("{tail}  {part}");
            if longer.chars().count() + self.doing.chars().count() < columns {
                tail = longer;
            }
        }
        let room = columns.saturating_sub(tail.chars().count() + 1);
        let doing = fit(self.doing, room);
        let room = room.saturating_sub(doing.chars().count() + 3).min(BAR_MAX);
        match total {
            Some(total) if room >= BAR_MIN && !doing.is_empty() => {
                let full = (self.done.min(total) as f64 / total as f64 * room as f64) as usize;
                let bar = "=".repeat(full) + &" ".repeat(room - full);
                format!("{doing} [{bar}] {tail}")
            }
            _ if doing.is_empty() => tail,
            _ => format!("{doing} {tail}"),
        }
    }
}

/// The start of a text, at most so many columns of it.
fn fit(text: &str, columns: usize) -> String {
    text.chars().take(columns).collect()
}

/// A time with its two largest units.
fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s}s"),
        (h, m, _) => format!("{h}h {m}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(done: u64, unit: Unit) -> Moment<'static> {
        Moment {
            doing: "ses-dedup/fig-4",
            done,
            total: Some(3 << 30),
            per_second: Some(5_885.779_1),
            left: Some(Duration::from_secs(3671)),
            unit,
        }
    }

    #[test]
    fn a_line_fits_any_width_and_says_the_most_important() {
        let full = moment(1 << 30, Unit::Bytes).line(100);
        assert_eq!(
            full,
            "ses-dedup/fig-4 [==========                    ] \
             1 GiB of 3 GiB  5.75 KiB/s  1h 1m left"
        );
        for columns in 0..120 {
            for unit in [Unit::Bytes, Unit::Things("requests")] {
                let line = moment(1 << 30, unit).line(columns);
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
        assert_eq!(moment(1 << 30, Unit::Bytes).line(39), "ses-dedup/fig-4 1 GiB of 3 GiB");
        let things = moment(1 << 30, Unit::Things("runs")).line(200);
        assert!(things.contains("of 3,221,225,472 runs  5,886/s  1h 1m left"), "{things}");
    }

    #[test]
    fn nothing_is_said_of_a_rate_or_an_end_that_is_not_known() {
        let none = Moment { per_second: None, left: None, ..moment(0, Unit::Things("runs")) };
        let line = Moment { total: Some(3), doing: "running", ..none }.line(60);
        assert_eq!(line, "running [                              ] 0 of 3 runs");
        let done = Moment { total: Some(3), ..moment(3, Unit::Things("runs")) }.line(60);
        assert!(!done.contains("left"), "{done}");
        let open = Moment { total: None, ..moment(7, Unit::Things("requests")) }.line(60);
        assert!(open.starts_with("ses-dedup/fig-4 7 requests"), "{open}");
    }
}
