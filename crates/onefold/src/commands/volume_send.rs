//! `onefold volume export --since` and `--stream`: a snapshot as a stream for other pools.
//! Room: onefold.

use std::path::Path;
use std::time::Instant;

use onefold_block::ByteSize;
use onefold_pool::Budgets;
use onefold_pool::stream::{Frame, Names, StreamReader};
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
    must_be_elsewhere(("pool", &args.pool), &args.file)?;
    let part = |from| door.stream_part(&args.name, since, from);
    let nonsense = |problem: String| Failure::bad(format!("a part of the stream: {problem}"));
    let head = part(None)?;
    let reader = StreamReader::open(head.as_slice()).map_err(|e| nonsense(e.to_string()))?;
    let (size, names) = (reader.header().size_bytes, reader.header().names);
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
            let made = Frame::decode(&frame).map_err(nonsense)?;
            must_be_of(names, &made).map_err(nonsense)?;
            write(&frame)?;
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

/// Refuse a frame of another stream: a server is asked for each by names, which another snapshot
/// may have got meanwhile.
fn must_be_of(names: Names, frame: &Frame) -> std::result::Result<(), String> {
    if frame.names == names {
        return Ok(());
    }
    Err("it is of another snapshot than the one before".to_owned())
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

#[cfg(test)]
mod tests {
    use onefold_pool::SnapshotOptions;

    use super::*;
    use crate::test_pool;

    #[test]
    fn a_frame_of_a_snapshot_that_got_the_name_is_not_taken_for_the_next_one() {
        let pool = test_pool::pool();
        drop(pool.create_volume("main", ByteSize(1 << 20)).unwrap());
        for (name, identity) in [("main@a", 5), ("main@b", 6)] {
            let options = SnapshotOptions { created_seconds: 1, held: false, identity };
            pool.snapshot_as(name, options).unwrap();
        }
        let mut head = Vec::new();
        pool.stream_header("main@a", None, &mut head).unwrap();
        let names = StreamReader::open(head.as_slice()).unwrap().header().names;
        let judged = |name, base| {
            let mut bytes = Vec::new();
            pool.stream_frame(name, base, 0, &mut bytes).unwrap();
            must_be_of(names, &Frame::decode(&bytes).unwrap()).is_ok()
        };
        assert!(judged("main@a", None));
        assert!(!judged("main@b", None) && !judged("main@a", Some("main@b")));
    }
}
