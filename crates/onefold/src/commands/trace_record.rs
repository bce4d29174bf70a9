//! `onefold trace record`: what is asked of a volume, from a server that has it already.
//! Room: onefold.   In: frames, from the server.   Out: a recording (docs/workloads.md).
//! The file is this process's own: the server hands out frames and waits for nobody.
//! Invariant: however it ends, the file has whole frames up to then, or there is none. Ctrl-C is
//! how it is ended, and so no failure.

use std::io::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use onefold_block::ByteSize;
use onefold_workload::RecordingEncoder;

use super::volume_delete::is_snapshot;
use super::volume_export::must_be_elsewhere;
use super::{volume_list, volume_snapshots};
use crate::args::TraceRecordArgs;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::open_pool;
use crate::operate::door::Door;
use crate::operate::remote_volume::RemoteVolume;
use crate::out_file::OutFile;
use crate::output::Printer;
use crate::table::plural;

/// Between two looks, unless a lot came: a server holds 4 MiB.
const LOOK: Duration = Duration::from_millis(200);
/// Frames of so many bytes at once are a lot.
const LOT_BYTES: usize = 256 << 10;

/// Why a recording ended.
enum End {
    /// It was to end.
    Asked(&'static str),
    /// It could not go on.
    Broke(String),
}

/// Record until it is to end.
pub fn run(args: &TraceRecordArgs, printer: &Printer) -> Result<()> {
    let unit = args.unit.bytes();
    let encoder = u32::try_from(unit).ok().and_then(RecordingEncoder::new).ok_or_else(|| {
        Failure::nothing_done(format!("--unit {}: expected 512, 1K, 2K or 4K", args.unit))
    })?;
    must_be_elsewhere(("pool", &args.pool), &args.output)?;
    open_pool::must_exist(&args.pool)?;
    let at = args.pool.display();
    let Some(door) = Door::served(&args.pool)? else {
        let message = format!("pool '{at}' is not served, so that nothing is asked of it");
        return Err(Failure::nothing_done(message)
            .hint(format!("to record from the start: onefold serve {at} --record FILE")));
    };
    // They say which there are where there is none of that name.
    if is_snapshot(&args.volume) {
        volume_snapshots::must_be_there(&door, &args.pool, &args.volume, printer)?;
    } else {
        volume_list::listed(&door, Some(&args.volume), printer)?;
    }
    let mut file = OutFile::create_private(&args.output, args.force)?;
    let header = encoder.header();
    file.write_all(&header).map_err(|e| Failure::broke("write", &args.output, e))?;
    interrupt::heed();
    let name = &args.volume;
    let volume = RemoteVolume::open(&args.pool, name)?;
    let number = volume.begin_recording(unit).map_err(|e| Failure::volume(name, &e))?;
    printer.note(&format!("recording volume '{name}' of pool '{at}'; Ctrl-C ends it"));

    let mut recording =
        Recording { args, volume, number, file, length: header.len() as u64, requests: 0 };
    let end = recording.follow();
    let Recording { file, length, requests, .. } = recording;
    file.finish()?;
    let (out, size) = (args.output.display(), ByteSize(length));
    let what = plural(requests, "request", "requests");
    match end {
        End::Asked(why) => {
            printer.note(&format!("recorded {what} in '{out}' ({size}){why}"));
            Ok(())
        }
        End::Broke(why) => {
            let failure = Failure::bad(format!("the recording ended by itself: {why}"));
            Err(failure.left(&format!("'{out}' has {what} ({size})")))
        }
    }
}

/// A recording under way.
struct Recording<'a> {
    args: &'a TraceRecordArgs,
    volume: RemoteVolume,
    number: u64,
    file: OutFile,
    /// Bytes in the file.
    length: u64,
    /// Requests in the file, and in what was left out for the limit.
    requests: u64,
}

impl Recording<'_> {
    /// Write frames until it ends.
    fn follow(&mut self) -> End {
        let began = Instant::now();
        loop {
            let time_is_up = self.args.lasting.is_some_and(|lasting| began.elapsed() >= lasting);
            let ends = interrupt::asked() || time_is_up;
            let (requests, frames) = match self.volume.fetch_recording(self.number, ends) {
                Ok(fetched) => fetched,
                Err(error) => return End::Broke(error.to_string()),
            };
            let most = self.args.max_size.map_or(u64::MAX, ByteSize::bytes);
            if self.length + frames.len() as u64 > most {
                self.leave();
                return End::Asked(", which is as long as it may get");
            }
            if let Err(error) = self.file.write_all(&frames) {
                // What fits no more is cut off again, so that frames are whole.
                let _ = self.file.file().set_len(self.length);
                self.leave();
                return End::Broke(error.to_string());
            }
            (self.requests, self.length) = (requests, self.length + frames.len() as u64);
            if ends {
                return End::Asked("");
            }
            if frames.len() < LOT_BYTES {
                let left = self.args.lasting.map(|lasting| lasting.saturating_sub(began.elapsed()));
                sleep(left.unwrap_or(LOOK).min(LOOK));
            }
        }
    }

    /// Tell the server that nobody wants more. It finds out by itself if it does not hear it.
    fn leave(&self) {
        let _ = self.volume.fetch_recording(self.number, true);
    }
}
