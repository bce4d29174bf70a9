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
use crate::operate::door::{Door, Opening};
use crate::output::Printer;
use crate::progress;

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
    let started = Instant::now();
    let sent = send(args, &door, &mut child, printer);
    // Its stdin is closed by now, so that it ends.
    let ended =
        child.wait().map_err(|e| Failure::bad(format!("cannot wait for '{shown}': {e}")))?;
    let sent = match (sent, ended.success()) {
        (Ok(sent), true) => sent,
        (Err(failure), true) => return Err(failure),
        (Err(failure), false) => return Err(failure.hint(ended_badly(&shown, ended))),
        (Ok(_), false) => return Err(Failure::bad(ended_badly(&shown, ended))),
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

fn send(args: &VolumeSendArgs, door: &Door, child: &mut Child, printer: &Printer) -> Result<Sent> {
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::bad("the receiver has no stdin and stdout"));
    };
    let part = |from| door.stream_part(&args.name, args.since.as_deref(), from);
    let nonsense = |problem: String| Failure::bad(format!("a part of the stream: {problem}"));
    let lost = |error: StreamError| Failure::bad(format!("the receiver: {error}"));
    let head = part(None)?;
    let header = StreamReader::open(head.as_slice()).map_err(|e| nonsense(e.to_string()))?;
    let header = header.header().clone();
    let size = header.size_bytes;
    let to = Counted { to, bytes: 0 };
    let mut asker = Asker::begin(from, to, &head, header).map_err(lost)?;
    let bar = progress::bytes(printer, "sending", Some(size));
    let mut from = args.resume.unwrap_or(0);
    loop {
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
    bar.finish_and_clear();
    let left_out = asker.left_out_bytes();
    Ok(Sent { bytes: asker.finish().bytes, left_out })
}
