//! `onefold volume send`: a snapshot for a receiver that says which blocks it has.
//! Room: onefold.
//! Source: docs/stream-format.md, "Without what the receiver has".

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use onefold_block::ByteSize;
use onefold_pool::Budgets;
use onefold_pool::stream::{Asker, Frame, StreamError, StreamReader};

use super::volume_send::must_be_snapshots;
use crate::args::VolumeSendArgs;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::operate::door::{Door, Opening};
use crate::output::Printer;
use crate::progress;
use crate::shell::quoted;

/// The exit status of a receiver that refuses what it is to do.
const NOTHING_DONE: i32 = 2;

/// Counts what goes through.
struct Counted<W> {
    to: W,
    bytes: u64,
}

impl<W: io::Write> io::Write for Counted<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.to.write(buf)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// What was sent.
struct Sent {
    bytes: u64,
    left_out: u64,
}

/// How far a receiver came that answered, in bytes of the volume.
#[derive(Clone, Copy)]
struct Reached {
    /// It has stored so many.
    stored: u64,
    /// Whatever became of it, it goes on there or later.
    marked: u64,
}

/// Send it, and say what it came to.
pub fn run(args: &VolumeSendArgs, printer: &Printer) -> Result<()> {
    let door = Door::find(&args.pool, Opening::Read(Budgets::default()))?;
    must_be_snapshots(&door, &args.pool, (&args.name, args.since.as_deref()), printer)?;
    // A place that there is not is refused before anything is begun.
    door.stream_part(&args.name, args.since.as_deref(), Some(args.resume.unwrap_or(0)))?;
    let (program, rest) = args.command.split_first().ok_or_else(|| {
        Failure::nothing_done("there is no command to send it to").hint("name it behind --")
    })?;
    let shown = program.display();
    let mut child = Command::new(program)
        .args(rest)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::nothing_done(format!("cannot run '{shown}': {error}")))?;
    // From here on there may be something to go on with.
    interrupt::heed();
    let (started, mut reached) = (Instant::now(), None);
    let sent = send(args, &door, &mut child, &mut reached, printer);
    // Its stdin is closed by now, so that it ends.
    let ended =
        child.wait().map_err(|e| Failure::bad(format!("cannot wait for '{shown}': {e}")))?;
    let sent = match (sent, ended.success()) {
        (Ok(sent), true) => sent,
        (sent, success) => {
            let ended_badly = ended_badly(&shown, ended);
            let failure = match sent {
                Err(failure) if success => failure,
                Err(failure) => failure.hint(ended_badly),
                Ok(_) => Failure::bad(ended_badly),
            };
            return Err(go_on(args, failure, ended, reached));
        }
    };
    let since = args.since.as_ref().map_or_else(String::new, |since| format!(" since '{since}'"));
    let (name, seconds) = (&args.name, started.elapsed().as_secs_f64());
    let (bytes, left_out) = (ByteSize(sent.bytes), ByteSize(sent.left_out));
    printer.note(&format!(
        "sent '{name}'{since}: {bytes}, without {left_out} that the receiver had, in {seconds:.1} s"
    ));
    Ok(())
}

fn ended_badly(shown: &impl std::fmt::Display, ended: ExitStatus) -> String {
    format!("the receiver, '{shown}', ended with {ended}; what it says is above")
}

/// Say how to go on with what the receiver has.
fn go_on(
    args: &VolumeSendArgs,
    failure: Failure,
    ended: ExitStatus,
    reached: Option<Reached>,
) -> Failure {
    // One that never answered has nothing, and one that refuses says why.
    let Some(Reached { stored, marked }) = reached else { return failure };
    if stored == 0 && ended.code() == Some(NOTHING_DONE) {
        return failure;
    }
    let mut words = vec!["onefold".to_owned(), "volume".to_owned(), "send".to_owned()];
    words.extend([quoted(&args.pool.to_string_lossy()), quoted(&args.name)]);
    words.extend(args.since.iter().flat_map(|since| ["--since".to_owned(), quoted(since)]));
    if marked > 0 {
        words.extend(["--resume".to_owned(), marked.to_string()]);
    }
    words.push("--".to_owned());
    let command: Vec<String> =
        args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (command, found) = resuming(command);
    words.extend(command.iter().map(|word| quoted(word)));
    let failure = failure.hint(format!("go on with: {}", words.join(" ")));
    let failure = if found {
        failure
    } else {
        failure.hint("have the command behind -- run `onefold volume receive` with --resume")
    };
    if stored > 0 {
        return failure;
    }
    failure.hint("where that finds nothing to go on with, nothing was stored: leave --resume out")
}

/// The command that goes on where this one stood, and whether it is known to.
fn resuming(mut command: Vec<String>) -> (Vec<String>, bool) {
    const RECEIVE: &str = "volume receive";
    if command.iter().any(|word| word.split(' ').any(|word| word == "--resume")) {
        return (command, true);
    }
    if let Some(at) = command.windows(2).position(|words| words.join(" ") == RECEIVE) {
        command.insert(at + 2, "--resume".to_owned());
        return (command, true);
    }
    // As one word for a shell, here or there.
    let mut found = false;
    for word in &mut command {
        if !found && word.contains(RECEIVE) {
            *word = word.replacen(RECEIVE, &format!("{RECEIVE} --resume"), 1);
            found = true;
        }
    }
    (command, found)
}

fn send(
    args: &VolumeSendArgs,
    door: &Door,
    child: &mut Child,
    reached: &mut Option<Reached>,
    printer: &Printer,
) -> Result<Sent> {
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::bad("the receiver has no stdin and stdout"));
    };
    let part = |from| door.stream_part(&args.name, args.since.as_deref(), from);
    let nonsense = |problem: String| Failure::bad(format!("a part of the stream: {problem}"));
    let lost = |error: StreamError| match error {
        // The same signal may have ended the receiver.
        _ if interrupt::asked_by_now() => interrupt::failure(""),
        error => Failure::bad(format!("the receiver: {error}")),
    };
    let head = part(None)?;
    let header = StreamReader::open(head.as_slice()).map_err(|e| nonsense(e.to_string()))?;
    let header = header.header().clone();
    let size = header.size_bytes;
    let to = Counted { to, bytes: 0 };
    let mut asker = Asker::begin(from, to, &head, header).map_err(lost)?;
    let bar = progress::bytes(printer, "sending", Some(size));
    let begun = args.resume.unwrap_or(0);
    let mut from = begun;
    loop {
        let (stored, marked) = (asker.stored_bytes().max(begun), asker.marked_bytes().max(begun));
        *reached = Some(Reached { stored, marked });
        if interrupt::asked() {
            return Err(interrupt::failure(""));
        }
        let bytes = part(Some(from))?;
        let frame = Frame::decode(&bytes).map_err(nonsense)?;
        asker.send(&frame, &bytes).map_err(lost)?;
        if frame.is_end() {
            break;
        }
        bar.set_position(frame.upto);
        if frame.upto <= from && frame.upto < size {
            return Err(nonsense("it does not go on".to_owned()));
        }
        from = frame.upto;
    }
    let left_out = asker.left_out_bytes();
    Ok(Sent { bytes: asker.finish().bytes, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_told_to_go_on_wherever_it_is_named() {
        let told = |words: &[&str]| {
            let (command, found) = resuming(words.iter().map(|&word| word.to_owned()).collect());
            (command.join(" "), found)
        };
        let direct = told(&["ssh", "backup", "onefold", "volume", "receive", "./there", "main"]);
        assert_eq!(direct.0, "ssh backup onefold volume receive --resume ./there main");
        let line = told(&["ssh", "backup", "nice onefold volume receive ./there main"]);
        assert_eq!(line.0, "ssh backup nice onefold volume receive --resume ./there main");
        assert!(direct.1 && line.1);
        // Once is enough.
        assert_eq!(told(&[&line.0]), (line.0.clone(), true));
        assert_eq!(told(&["./receive.sh"]), ("./receive.sh".to_owned(), false));
    }

    #[test]
    fn how_to_go_on_is_said_to_whoever_got_something() {
        use std::os::unix::process::ExitStatusExt as _;

        let told = |since: Option<&str>, code: i32, reached: Option<(u64, u64)>, command: &str| {
            let args = VolumeSendArgs {
                pool: "./my pool".into(),
                name: "main@b".to_owned(),
                since: since.map(str::to_owned),
                resume: None,
                command: command.split(' ').map(Into::into).collect(),
            };
            let reached = reached.map(|(stored, marked)| Reached { stored, marked });
            let ended = ExitStatus::from_raw(code << 8);
            go_on(&args, Failure::bad("lost"), ended, reached).hints
        };
        let receive = "onefold volume receive ./to main";
        assert!(told(None, 1, None, receive).is_empty(), "it never answered");
        assert!(told(None, 2, Some((0, 0)), receive).is_empty(), "it refuses, and says why");
        let again = "go on with: onefold volume send './my pool' main@b";
        let resumed = "-- onefold volume receive --resume ./to main";
        let nothing =
            "where that finds nothing to go on with, nothing was stored: leave --resume out";
        assert_eq!(
            told(None, 1, Some((0, 0)), receive),
            [format!("{again} {resumed}"), nothing.to_owned()]
        );
        for code in [1, 2] {
            let hints = told(Some("main@a"), code, Some((1, 1)), receive);
            assert_eq!(hints, [format!("{again} --since main@a --resume 1 {resumed}")], "{code}");
        }
        let other = told(None, 1, Some((4096, 0)), "./receive.sh");
        let how = "have the command behind -- run `onefold volume receive` with --resume";
        assert_eq!(other, [format!("{again} -- ./receive.sh"), how.to_owned()]);
    }

    #[test]
    fn a_command_of_one_word_after_another_is_found_where_it_begins() {
        let told = |words: &[&str]| {
            let (command, found) = resuming(words.iter().map(|&word| word.to_owned()).collect());
            (command.join(" "), found)
        };
        let twice = told(&["volume receive a", "volume receive b"]);
        assert_eq!(twice, ("volume receive --resume a volume receive b".to_owned(), true));
        let none = told(&["volume", "send", "receive"]);
        assert_eq!(none, ("volume send receive".to_owned(), false));
    }
}
