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
        Self::on(target, doing, unit, total)
    }

    fn on(target: ProgressDrawTarget, doing: &str, unit: Unit, total: Option<u64>) -> Self {
        let doing = Arc::new(Mutex::new(doing.to_owned()));
        let said = Arc::clone(&doing);
        let draw = move |state: &ProgressState, to: &mut dyn Write| {
            let doing = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let settled = state.elapsed() > SETTLED;
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
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar, doing }
    }

    /// One that nobody sees.
    #[cfg(test)]
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), doing: Arc::default() }
    }

    /// How much is done, and of how much.
    #[cfg(test)]
    pub fn counts(&self) -> (u64, Option<u64>) {
        (self.bar.position(), self.bar.length())
    }

    /// So much is done.
    pub fn set_position(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// So much is done, of so much.
    pub fn show(&self, done: u64, total: u64) {
        self.bar.set_length(total);
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
        // It is drawn with the next tick.
        doing.clone_into(&mut self.doing.lock().unwrap_or_else(PoisonError::into_inner));
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
    columns_told(tcgetwinsize(std::io::stderr()).ok().map(|size| size.ws_col))
}

/// The columns that a terminal tells, if it does.
fn columns_told(columns: Option<u16>) -> usize {
    columns.filter(|&columns| columns > 0).map_or(COLUMNS_DEFAULT, usize::from)
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
    use std::io;
    use std::sync::mpsc::{Sender, channel};

    use indicatif::TermLike;

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

    /// A terminal on which nothing is drawn but lines, which are told.
    #[derive(Debug)]
    struct Drawn(Sender<String>);

    impl TermLike for Drawn {
        fn width(&self) -> u16 {
            1000
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            // Nobody looks any more.
            let _ = self.0.send(text.trim_end().to_owned());
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_drawn_again_and_again_narrower_than_the_terminal_and_goes_in_the_end() {
        let (to, drawn) = channel();
        let target = ProgressDrawTarget::term_like(Box::new(Drawn(to)));
        let bar = Bar::on(target, "reading", Unit::Things("blocks"), None);
        // Also where nothing moves it.
        let told = |starts: &str| {
            let line = || drawn.recv_timeout(Duration::from_secs(30)).unwrap();
            std::iter::repeat_with(line).find(|line| line.starts_with(starts)).unwrap()
        };
        told("reading 0 blocks");
        bar.set_position(3);
        bar.inc(4);
        bar.set_length(10);
        bar.set_message("writing");
        let early = told("writing [");
        assert!(early.ends_with("7 of 10 blocks") && !early.contains("/s"), "{early}");
        drop(bar.bar.clone().with_elapsed(Duration::from_secs(9)));
        bar.bar.tick();
        assert!(told("writing [").contains("7 of 10 blocks  "), "a rate is known by then");
        bar.set_message(&"long ".repeat(columns()));
        assert_eq!(told("long ").chars().count(), columns() - 1);
        let line = bar.bar.clone();
        drop(bar);
        assert!(line.is_finished());
        let quiet = bytes(&Printer::new(true), "reading", Some(3));
        assert!(quiet.bar.is_hidden() && !quiet.bar.is_finished());
        quiet.finish_and_clear();
        assert!(quiet.bar.is_finished());
    }

    #[test]
    fn a_line_loses_its_bar_its_time_and_its_rate_where_there_is_no_room() {
        let at = |columns| moment(1 << 30, Unit::Bytes).line(columns);
        let tail = "1 GiB of 3 GiB  5.75 KiB/s  1h 1m left";
        let with_bar = |full, rest| {
            format!("ses-dedup/fig-4 [{}{}] {tail}", "=".repeat(full), " ".repeat(rest))
        };
        let widths = [88, 87, 86, 85, 67].map(at);
        let bars = [(10, 20), (10, 20), (9, 20), (9, 19), (3, 7)];
        assert_eq!(widths, bars.map(|(full, rest)| with_bar(full, rest)));
        assert_eq!([66, 54].map(at), [(); 2].map(|()| format!("ses-dedup/fig-4 {tail}")));
        let rate = "ses-dedup/fig-4 1 GiB of 3 GiB  5.75 KiB/s";
        assert_eq!([53, 42].map(at), [rate, rate]);
        assert_eq!(at(41), "ses-dedup/fig-4 1 GiB of 3 GiB");
        let rates = [0.0, 0.4, 9.96, 10.0].map(|rate| {
            let some = Moment {
                per_second: Some(rate),
                left: Some(Duration::ZERO),
                total: None,
                ..moment(1, Unit::Things("runs"))
            };
            some.line(60)
        });
        let expected = ["", "  0.4/s", "  10.0/s", "  10/s"];
        assert_eq!(rates, expected.map(|rate| format!("ses-dedup/fig-4 1 runs{rate}")));
        assert_eq!([Some(1), Some(0), None].map(columns_told), [1, 80, 80]);
        let times = [0, 59, 60, 3599, 3600, 86_461].map(|s| short(Duration::from_secs(s)));
        assert_eq!(times, ["0s", "59s", "1m 0s", "59m 59s", "1h 0m", "24h 1m"]);
    }

    #[test]
    fn a_bar_is_where_it_was_told_to_be() {
        let bar = Bar::hidden();
        bar.show(3, 7);
        assert_eq!(bar.counts(), (3, Some(7)));
        bar.inc(2);
        assert_eq!(bar.counts().0, 5);
        bar.set_position(6);
        bar.set_length(9);
        assert_eq!(bar.counts(), (6, Some(9)));
        bar.set_message("reading");
        assert_eq!(*bar.doing.lock().unwrap(), "reading");
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
