//! Where words go: data to stdout, everything else to stderr.
//! Room: onefold.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{ErrorKind, IsTerminal as _, Stderr, Stdout, Write as _};

use onefold_control::Report;
use serde::Serialize;
use tracing_subscriber::filter::LevelFilter;

use crate::args::GlobalArgs;
use crate::failure::{Failure, Result};

/// Version of what `--json` prints; it changes when a field changes its meaning or goes away.
pub const JSON_SCHEMA_VERSION: u32 = 1;

/// Letters of an error's message that are shown.
const MESSAGE_LETTERS_MAX: usize = 2000;

/// Says things to people and programs.
pub struct Printer {
    out: Stdout,
    err: Stderr,
    quiet: bool,
    colour_out: bool,
    colour_err: bool,
    /// Instead of both streams, for tests.
    #[cfg(test)]
    heard: Option<Heard>,
}

/// What was said: data, and everything else.
#[cfg(test)]
pub type Heard = std::sync::Arc<std::sync::Mutex<(String, String)>>;

/// A style that means the same in every message.
#[derive(Clone, Copy)]
enum Style {
    Heading,
    Error,
    Warning,
    Hint,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Heading => "1",
            Self::Error => "1;31",
            Self::Warning => "1;33",
            Self::Hint => "1;36",
        }
    }
}

fn paint(text: &str, style: Style, colour: bool) -> String {
    if colour { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
}

/// Whether colour is wanted on a stream (<https://no-color.org>).
pub fn colour(is_terminal: bool) -> bool {
    let [no_colour, term] = ["NO_COLOR", "TERM"].map(std::env::var_os);
    is_terminal && wants_colour(no_colour.as_deref(), term.as_deref())
}

/// Whether somebody with these variables wants colour on a terminal.
fn wants_colour(no_colour: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    no_colour.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

/// What came of writing to stdout. A reader that has gone away has read enough.
fn read_enough(written: std::io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::bad(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

impl Printer {
    /// For this process's streams; `quiet` drops notes and progress.
    pub fn new(quiet: bool) -> Self {
        Self {
            out: std::io::stdout(),
            err: std::io::stderr(),
            quiet,
            colour_out: colour(std::io::stdout().is_terminal()),
            colour_err: colour(std::io::stderr().is_terminal()),
            #[cfg(test)]
            heard: None,
        }
    }

    /// One that tests hear.
    #[cfg(test)]
    pub fn heard(by: &Heard) -> Self {
        let heard = Some(std::sync::Arc::clone(by));
        Self { colour_out: false, colour_err: false, heard, ..Self::new(false) }
    }

    /// One that keeps what it says, for a test to look at.
    #[cfg(test)]
    pub fn kept(quiet: bool) -> Self {
        Self { quiet, ..Self::heard(&Heard::default()) }
    }

    /// What was said on stderr since the last look.
    #[cfg(test)]
    pub fn told(&self) -> String {
        std::mem::take(&mut self.heard.as_ref().unwrap().lock().unwrap().1)
    }

    /// Another one like it.
    pub fn another(&self) -> Self {
        Self {
            #[cfg(test)]
            heard: self.heard.clone(),
            ..Self::new(self.quiet)
        }
    }

    /// What was asked for, to stdout.
    pub fn data(&self, text: &str) -> Result<()> {
        #[cfg(test)]
        if let Some(heard) = &self.heard {
            heard.lock().unwrap().0.push_str(text);
            return Ok(());
        }
        let mut out = self.out.lock();
        read_enough(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
    }

    /// What was asked for as one JSON object, to stdout.
    pub fn json(&self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|e| Failure::bad(format!("cannot write JSON: {e}")))?;
        self.data(&(text + "\n"))
    }

    /// A heading for data.
    pub fn heading(&self, text: &str) -> String {
        paint(text, Style::Heading, self.colour_out)
    }

    /// What came of an operation: its result if programs read it, else its text. What is wrong with
    /// what was asked about is the failure.
    pub fn report(&self, report: Report, json: bool) -> Result<()> {
        for warning in &report.warnings {
            self.warning(warning);
        }
        if json {
            self.json(&report.result)?;
        } else {
            let text = report.dressed(|head| self.heading(head));
            if !text.is_empty() {
                self.data(&text)?;
            }
            report.asides.iter().for_each(|aside| self.note(aside));
        }
        report.notes.iter().for_each(|note| self.note(note));
        report.fault.map_or(Ok(()), |fault| Err(Failure::of_fault(fault)))
    }

    /// Something worth knowing.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.err("", text);
        }
    }

    /// What is said even when notes are not.
    pub fn always(&self, text: &str) {
        self.err("", text);
    }

    /// Something to look at.
    pub fn warning(&self, text: &str) {
        self.err(&paint("warning: ", Style::Warning, self.colour_err), text);
    }

    /// Why it failed, and what to do.
    pub fn failure(&self, failure: &Failure) {
        let message = shortened(&failure.message);
        self.err(&paint("error: ", Style::Error, self.colour_err), &message);
        for hint in &failure.hints {
            self.err(&paint("hint: ", Style::Hint, self.colour_err), hint);
        }
    }

    /// Whether progress may be drawn.
    pub fn draws_progress(&self) -> bool {
        self.draws_on(std::io::stderr().is_terminal())
    }

    const fn draws_on(&self, is_terminal: bool) -> bool {
        is_terminal && !self.quiet
    }

    fn err(&self, head: &str, text: &str) {
        #[cfg(test)]
        if let Some(heard) = &self.heard {
            heard.lock().unwrap().1.extend([head, &harmless(text), "\n"]);
            return;
        }
        // There is nobody left to tell when stderr is gone.
        let _ = writeln!(self.err.lock(), "{head}{}", harmless(text));
    }
}

/// A message that quotes a word without end, without most of it.
fn shortened(message: &str) -> Cow<'_, str> {
    let letters = message.char_indices();
    let Some((end, _)) = letters.clone().nth(MESSAGE_LETTERS_MAX) else {
        return Cow::Borrowed(message);
    };
    // What was wrong with the word is said before it or after it.
    let (head, _) = letters.clone().nth(MESSAGE_LETTERS_MAX / 2).unwrap_or((end, ' '));
    let (tail, _) = letters.rev().nth(MESSAGE_LETTERS_MAX / 2).unwrap_or((end, ' '));
    Cow::Owned(format!("{} [...] {}", &message[..head], &message[tail..]))
}

/// The text without what a terminal would obey: it may quote names that somebody else chose.
fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let escape = |letter: char| {
        if obeyed(letter) { letter.escape_debug().to_string() } else { letter.to_string() }
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Send the log of all rooms to stderr.
pub fn log_to_stderr(args: &GlobalArgs) {
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        // The flag takes exactly the names that this reads.
        .with_max_level(args.log.parse().unwrap_or(LevelFilter::WARN));
    if args.log_format == "json" {
        log.json().with_ansi(false).flatten_event(true).init();
    } else {
        log.with_ansi(colour(std::io::stderr().is_terminal())).init();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_quotes_too_much_keeps_its_ends() {
        let long = format!("unknown key `{}`: did you mean x?", "\u{e4}".repeat(50_000));
        let shown = shortened(&long);
        assert!(shown.starts_with("unknown key `") && shown.ends_with("did you mean x?"));
        assert!(shown.chars().count() < 2100);
        assert!(matches!(shortened("short"), Cow::Borrowed("short")));
        let fits = "x".repeat(MESSAGE_LETTERS_MAX);
        assert_eq!(shortened(&fits), fits);
    }

    #[test]
    fn what_is_said_tells_what_it_is_and_quiet_drops_notes_alone() {
        for quiet in [false, true] {
            let printer = Printer::kept(quiet);
            printer.note("a note");
            assert_eq!(printer.told(), if quiet { "" } else { "a note\n" });
            printer.always("an address");
            printer.warning("look");
            printer.failure(&Failure::bad("no").hint("one").hint("two"));
            let told = "an address\nwarning: look\nerror: no\nhint: one\nhint: two\n";
            assert_eq!(printer.told(), told);
        }
        assert_eq!(paint("x", Style::Error, true), "\x1b[1;31mx\x1b[0m");
        assert_eq!(paint("x", Style::Error, false), "x");
    }

    #[test]
    fn a_report_is_told_with_its_notes_and_its_fault_is_the_failure() {
        let fault = Failure::bad("it is broken").into_fault();
        let report = || Report {
            warnings: vec!["careful".to_owned()],
            asides: vec!["beside".to_owned()],
            notes: vec!["noted".to_owned()],
            fault: Some(fault.clone()),
            ..Report::default()
        };
        let printer = Printer::kept(false);
        let failure = printer.report(report(), false).unwrap_err();
        assert_eq!(failure, Failure::bad("it is broken"));
        assert_eq!(printer.told(), "warning: careful\nbeside\nnoted\n");
        printer.report(Report { fault: None, ..report() }, false).unwrap();
    }

    #[test]
    fn colour_is_for_who_wants_it_and_a_reader_may_go() {
        let wanted = |no_colour: Option<&str>, term: Option<&str>| {
            wants_colour(no_colour.map(OsStr::new), term.map(OsStr::new))
        };
        assert!(wanted(None, None) && wanted(Some(""), Some("xterm")));
        assert!(!wanted(Some("1"), Some("xterm")) && !wanted(None, Some("dumb")));
        assert!(read_enough(Ok(())).is_ok());
        assert!(read_enough(Err(ErrorKind::BrokenPipe.into())).is_ok());
        assert!(read_enough(Err(ErrorKind::StorageFull.into())).is_err());
    }

    #[test]
    fn progress_is_drawn_where_somebody_watches_and_wants_notes() {
        let drawn = |quiet, is_terminal| Printer::new(quiet).draws_on(is_terminal);
        assert!(drawn(false, true));
        assert!(!drawn(true, true) && !drawn(false, false) && !drawn(true, false));
    }

    #[test]
    fn names_do_not_reach_the_terminal_as_commands() {
        assert_eq!(harmless("cannot read 'a\x1b[2Jb\r'"), "cannot read 'a\\u{1b}[2Jb\\r'");
        assert!(matches!(harmless("two\nlines\tof \u{e4}"), Cow::Borrowed(_)));
    }
}
