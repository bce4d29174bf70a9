//! `onefold volume export --since` and `--stream`: a snapshot as a stream for other pools.
//! Room: onefold.

use std::path::Path;
use std::time::Instant;

use onefold_block::ByteSize;
use onefold_pool::Budgets;
use onefold_pool::stream::{Frame, StreamReader};
use serde::Serialize;

use super::volume_delete::is_snapshot;
use super::volume_export::must_be_elsewhere;
use super::volume_snapshots;
use crate::args::VolumeExportArgs;
use crate::failure::{Failure, Result};
use crate::operate::door::{Door, Opening};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;
use crate::transfer::target::Target;

#[derive(Serialize)]
struct SentJson<'a> {
    schema_version: u32,
    pool: String,
    snapshot: &'a str,
    since: Option<&'a str>,
    file: String,
    bytes: u64,
    stream_bytes: u64,
}

/// Write the stream, and say what it came to.
pub fn run(args: &VolumeExportArgs, printer: &Printer) -> Result<()> {
    if args.json && args.file == Path::new("-") {
        return Err(Failure::nothing_done("--json and the data of FILE '-' both go to stdout")
            .hint("name a file, or leave --json out"));
    }
    let door = Door::find(&args.pool, Opening::Read(Budgets::default()))?;
    let since = args.since.as_deref();
    must_be_snapshots(&door, &args.pool, (&args.name, since), printer)?;
    must_be_elsewhere(&args.pool, &args.file)?;
    let part = |from| door.stream_part(&args.name, since, from);
    let nonsense = |problem: String| Failure::bad(format!("a part of the stream: {problem}"));
    let head = part(None)?;
    let reader = StreamReader::open(head.as_slice()).map_err(|e| nonsense(e.to_string()))?;
    let size = reader.header().size_bytes;
    let mut from = args.resume.unwrap_or(0);
    // A place that there is not is refused before anything is written.
    let mut frame = part(Some(from))?;
    let target = Target::open(&args.file, 0, args.force)?;
    let started = Instant::now();
    let mut at = 0;
    let mut write = |bytes: &[u8]| {
        let written = target.write(at, bytes);
        at += bytes.len() as u64;
        written
    };
    let written = (|| {
        let bar = progress::bytes(printer, "exporting", Some(size));
        write(&head)?;
        loop {
            write(&frame)?;
            let made = Frame::decode(&frame).map_err(nonsense)?;
            if made.is_end() {
                return Ok(());
            }
            bar.set_position(made.upto);
            if made.upto <= from && made.upto < size {
                return Err(nonsense("it does not go on".to_owned()));
            }
            from = made.upto;
            frame = part(Some(from))?;
        }
    })();
    let left = target.left_over();
    written
        .and_then(|()| target.finish())
        .map_err(|failure: Failure| left.into_iter().fold(failure, Failure::hint))?;
    say(args, (size, at), started, printer)
}

/// Refuse names that are none of a snapshot.
pub fn must_be_snapshots(
    door: &Door,
    pool: &Path,
    (name, since): (&str, Option<&str>),
    printer: &Printer,
) -> Result<()> {
    for name in since.into_iter().chain([name]) {
        if !is_snapshot(name) {
            let at = pool.display();
            return Err(Failure::nothing_done(format!("'{name}' is no snapshot"))
                .hint(format!("make one with: onefold volume snapshot {at} {name}@NAME")));
        }
        volume_snapshots::must_be_there(door, pool, name, printer)?;
    }
    Ok(())
}

/// Say what it came to.
fn say(
    args: &VolumeExportArgs,
    (size, at): (u64, u64),
    started: Instant,
    printer: &Printer,
) -> Result<()> {
    let since = args.since.as_deref();
    let seconds = started.elapsed().as_secs_f64();
    let what = since.map_or_else(String::new, |since| format!(" since '{since}'"));
    let (all, sent) = (ByteSize(size), ByteSize(at));
    let name = &args.name;
    printer.note(&format!("exported '{name}'{what}: {sent} for {all}, in {seconds:.1} s"));
    if args.json {
        printer.json(&SentJson {
            schema_version: JSON_SCHEMA_VERSION,
            pool: args.pool.display().to_string(),
            snapshot: name,
            since,
            file: args.file.display().to_string(),
            bytes: size,
            stream_bytes: at,
        })?;
    }
    Ok(())
}
