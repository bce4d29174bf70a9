//! `onefold volume import`: a file, block device or pipe into a volume.
//! Room: onefold.

use std::time::Instant;

use onefold_block::ByteSize;
use onefold_control::Report;
use onefold_pool::check_volume_name;
use serde::Serialize;

use super::{
    pool_status, volume_create, volume_delete, volume_list, volume_receive, volume_rename,
    volume_resize,
};
use crate::args::VolumeImportArgs;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::operate::door::{Door, Opening};
use crate::operate::remote_volume::Asked;
use crate::operate::{Operation, table};
use crate::output::Printer;
use crate::progress;
use crate::transfer::{self, Moved, source::Source};

/// Volumes are made in whole sectors: clients expect that.
const SECTOR_BYTES: u64 = 512;

/// Size of a volume at first where only the end of FILE will tell; it grows as needed.
const FIRST_SIZE: ByteSize = ByteSize(1 << 30);
/// What the name of a volume ends in while it is being filled.
const INCOMPLETE: &str = ".incomplete";
/// Longest name of a volume in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Import, and say what it came to.
pub fn run(args: &VolumeImportArgs, printer: &Printer) -> Result<()> {
    check_volume_name(&args.name).map_err(|error| Failure::pool(&args.pool, error))?;
    let source = match Source::open(&args.file, args.format)?.snapshot() {
        Ok(stream) => return volume_receive::run(args, stream, printer),
        Err(source) => source,
    };
    if args.onto.is_some() || args.resume {
        return Err(no_stream(args));
    }
    let door = Door::find(&args.pool, Opening::Write(args.memory.budgets()?))?;
    // What was made is taken away again when the command is interrupted.
    interrupt::heed();
    let import = Import { door: &door, args, printer };
    let (volume, made, mapped) = import.find_or_make(&source)?;
    let sized = source.len().is_some() || args.size.is_some();
    if mapped > 0 {
        printer.note(&format!(
            "volume '{}' holds {} of data already; its beginning is overwritten",
            args.name,
            ByteSize(mapped)
        ));
    }
    let before = import.stored_bytes()?;
    let started = Instant::now();
    let grow =
        |needed: u64| import.resize(&*volume, needed.max(volume.size_bytes().saturating_mul(2)));
    let grow = (made && !sized).then_some(&grow as &(dyn Fn(u64) -> Result<()> + Sync));
    // Blocks that a repair gave up are no data, and no zeroes either.
    let blank = made || transfer::data_bytes(&*volume).is_ok_and(|bytes| bytes == 0);
    let moved = import.fill(source, &*volume, blank, grow);
    let moved = match (moved, grow) {
        (Ok(Moved { bytes: 0, .. }), Some(_)) => Err(empty(&args.file.display().to_string())),
        // It grew in steps, and has now exactly what it needs.
        (Ok(moved), Some(_)) => {
            let size = moved.bytes.next_multiple_of(SECTOR_BYTES);
            import.resize(&*volume, size).map(|()| moved)
        }
        (moved, _) => moved,
    };
    let size = ByteSize(volume.size_bytes());
    let whole = moved.and_then(|moved| import.complete(&*volume, made).map(|()| moved));
    // What another import has begun under the same name is not given up with this one.
    let is_ours = whole.is_ok() || !volume.has_lost_its_name();
    drop(volume);
    let moved = match whole {
        Ok(moved) => moved,
        Err(failure) => {
            let failure = import.give_up(failure, made, is_ours);
            let closed = door.close();
            return Err(match closed {
                Ok(()) => failure,
                Err(error) => failure.hint(error.message),
            });
        }
    };
    let after = import.stored_bytes()?;
    door.close()?;
    printer.note(&summary("imported", moved, started));
    let (did, grown) = (if made { "made volume" } else { "volume" }, after.saturating_sub(before));
    let (name, grown) = (&args.name, ByteSize(grown));
    printer.note(&format!("{did} '{name}' of {size}; the pool grew by {grown}"));
    Ok(())
}

fn no_stream(args: &VolumeImportArgs) -> Failure {
    Failure::nothing_done(format!("'{}' is no stream of a snapshot", args.file.display()))
        .hint("such a stream is what `onefold volume export --since` or `--stream` writes")
}

fn empty(file: &str) -> Failure {
    Failure::nothing_done(format!("'{file}' is empty"))
        .hint("--size makes a volume of that size all the same")
}

/// Refuse to go on by name with a volume that has that name no more: another one may have it.
pub fn must_have_its_name(volume: &dyn Asked, name: &str) -> Result<()> {
    if volume.has_lost_its_name() {
        let message = format!("volume '{name}' was deleted or renamed meanwhile");
        return Err(Failure::bad(message));
    }
    Ok(())
}

/// The name of a volume while it is being filled.
pub fn incomplete(name: &str) -> String {
    // Names of volumes are ASCII.
    let name = name.get(..NAME_BYTES_MAX - INCOMPLETE.len()).unwrap_or(name);
    format!("{name}{INCOMPLETE}")
}

/// Whether a volume of this name is being filled, or was to be.
pub fn is_incomplete(name: &str) -> bool {
    name.ends_with(INCOMPLETE)
}

/// One import.
struct Import<'a> {
    door: &'a Door,
    args: &'a VolumeImportArgs,
    printer: &'a Printer,
}

impl Import<'_> {
    fn call(&self, operation: &Operation, request: &impl Serialize) -> Result<Report> {
        self.door.call(operation, request, self.printer)
    }

    /// The volume to fill, whether it was made for this, and how much data it holds.
    fn find_or_make(&self, source: &Source) -> Result<(Box<dyn Asked>, bool, u64)> {
        let Self { door, args, .. } = self;
        let (name, file, len) = (&args.name, args.file.display(), source.len());
        let volumes = volume_list::listed(door, None, self.printer)?;
        if let Some(found) = volumes.iter().find(|volume| volume.name == *name) {
            let size = found.size_bytes;
            if let Some(len) = len.filter(|&len| len > size) {
                return Err(too_large(args, len, size));
            }
            return Ok((door.volume(name)?, false, found.mapped_bytes));
        }
        let size_bytes = match (args.size, len) {
            (Some(size), Some(len)) if len > size.bytes() => {
                return Err(too_large(args, len, size.bytes()));
            }
            (Some(size), _) => size.bytes(),
            (None, Some(0)) => return Err(empty(&file.to_string())),
            (None, Some(len)) => len.next_multiple_of(SECTOR_BYTES),
            (None, None) => FIRST_SIZE.bytes(),
        };
        let name = incomplete(name);
        if volumes.iter().any(|volume| volume.name == name) {
            let at = args.pool.display();
            let message =
                format!("volume '{name}' is there: an import that did not end, or has not yet");
            return Err(Failure::nothing_done(message)
                .hint(format!("remove it with: onefold volume delete {at} {name}")));
        }
        let request = volume_create::Request { name: name.clone(), size_bytes };
        self.call(&table::VOLUME_CREATE, &request)?;
        Ok((door.volume(&name)?, true, 0))
    }

    /// Copy all of it, with a line of progress.
    fn fill(
        &self,
        source: Source,
        volume: &dyn Asked,
        blank: bool,
        grow: Option<&(dyn Fn(u64) -> Result<()> + Sync)>,
    ) -> Result<Moved> {
        let bar = progress::bytes(self.printer, "importing", source.data_bytes());
        transfer::import(source, volume, &self.args.name, blank, grow, &bar)
    }

    /// Give the volume that is being filled this size.
    fn resize(&self, volume: &dyn Asked, size_bytes: u64) -> Result<()> {
        let name = incomplete(&self.args.name);
        must_have_its_name(volume, &name)?;
        let request = volume_resize::Request { name, size_bytes, discard: false };
        self.call(&table::VOLUME_RESIZE, &request)?;
        volume.resized(size_bytes);
        Ok(())
    }

    /// Make what was written durable, and give a volume that was made for it its name.
    fn complete(&self, volume: &dyn Asked, made: bool) -> Result<()> {
        volume.flush().map_err(|error| Failure::volume(&self.args.name, &error))?;
        if !made {
            return Ok(());
        }
        if interrupt::asked() {
            return Err(interrupt::failure(""));
        }
        must_have_its_name(volume, &incomplete(&self.args.name))?;
        self.rename()
    }

    /// Give the volume that was filled its name.
    fn rename(&self) -> Result<()> {
        let (name, to) = (incomplete(&self.args.name), self.args.name.clone());
        self.call(&table::VOLUME_RENAME, &volume_rename::Request { name, to }).map(|_| ())
    }

    /// Bytes of all files of the pool.
    fn stored_bytes(&self) -> Result<u64> {
        let status = self.call(&table::POOL_STATUS, &pool_status::Request::default())?;
        Ok(status.result.get("stored_bytes").and_then(serde_json::Value::as_u64).unwrap_or(0))
    }

    /// Leave no volume that looks whole.
    fn give_up(&self, failure: Failure, made: bool, is_ours: bool) -> Failure {
        let name = &self.args.name;
        if made && !is_ours {
            return failure.left(&format!("volume '{name}' was not made"));
        }
        if !made {
            // What came before the failure is as good as it was; the pool says so if not.
            return failure.left(&format!(
                "volume '{name}' holds the beginning of '{}' now, and what it held before behind \
                 that",
                self.args.file.display()
            ));
        }
        let left = incomplete(name);
        // The one that was made for this, or what a rename that failed has left of it.
        let request = volume_delete::Request { name: left.clone(), force: false };
        if self.call(&table::VOLUME_DELETE, &request).is_ok() {
            return failure.left(&format!("volume '{name}' was not made"));
        }
        let at = self.args.pool.display();
        failure
            .left(&format!("volume '{left}' holds the beginning of it"))
            .hint(format!("remove that with: onefold volume delete {at} {left}"))
    }
}

fn too_large(args: &VolumeImportArgs, len: u64, size: u64) -> Failure {
    let (pool, name) = (args.pool.display(), &args.name);
    Failure::nothing_done(format!(
        "'{}' has {}, but volume '{name}' has room for {}",
        args.file.display(),
        exact(len),
        exact(size)
    ))
    .hint(format!("make room with: onefold volume resize {pool} {name} --size {len}"))
}

/// A size with its exact number where the short form hides some of it.
fn exact(bytes: u64) -> String {
    let short = ByteSize(bytes).to_string();
    if short.contains('.') || short.parse() != Ok(ByteSize(bytes)) {
        format!("{short} ({bytes} bytes)")
    } else {
        short
    }
}

/// What was moved, how fast.
pub fn summary(did: &str, moved: Moved, started: Instant) -> String {
    let seconds = started.elapsed().as_secs_f64();
    let rate = ByteSize((moved.data_bytes as f64 / seconds.max(1e-3)) as u64);
    let all = ByteSize(moved.bytes);
    let holes = if moved.data_bytes < moved.bytes {
        format!(" ({} of data, the rest holes)", ByteSize(moved.data_bytes))
    } else {
        String::new()
    };
    // Holes take no time that would tell of a speed.
    let speed = if moved.data_bytes > 0 { format!(", {rate}/s") } else { String::new() };
    format!("{did} {all}{holes} in {seconds:.1} s{speed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::Folder;

    #[test]
    fn holes_have_no_speed() {
        let text =
            |bytes, data_bytes| summary("exported", Moved { bytes, data_bytes }, Instant::now());
        assert_eq!(text(1 << 30, 0), "exported 1 GiB (0 B of data, the rest holes) in 0.0 s");
        assert!(text(1 << 20, 1 << 20).starts_with("exported 1 MiB in 0.0 s, "));
        assert!(text(1 << 20, 1 << 20).ends_with("/s"));
    }

    #[test]
    fn what_comes_in_is_said_and_what_cannot_is_refused_before_anything_is_made() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.file("data", &[7; 1000]);
        let said = here.ok("volume import ./p v ./data");
        let [first, second] = said.err.lines().collect::<Vec<_>>()[..] else { panic!() };
        assert!(first.starts_with("imported 1000 B in 0."), "{first}");
        assert!(second.starts_with("made volume 'v' of 1 KiB; the pool grew by "), "{second}");
        assert!(!second.ends_with(" 0 B"), "{second}");
        let said = here.ok("volume import ./p v ./data");
        let [warned, _, last] = said.err.lines().collect::<Vec<_>>()[..] else { panic!() };
        let warning = "volume 'v' holds 4 KiB of data already; its beginning is overwritten";
        assert_eq!(warned, warning);
        assert!(last.starts_with("volume 'v' of 1 KiB; the pool grew by "), "{last}");
        // Just what fits does, also in a volume that holds nothing yet.
        here.file("data", &[7; 1024]);
        here.ok("volume import ./p v ./data");
        here.ok("volume create ./p none --size 1K");
        assert!(!here.ok("volume import ./p none ./data").err.contains("already"));
        assert!(here.ok("volume import ./p w ./data --size 1K").err.contains("'w' of 1 KiB"));
        here.file("data", &[7; 1025]);
        let said = here.refused("volume import ./p v ./data", 2);
        let large = "error: './data' has 1.00 KiB (1025 bytes), but volume 'v' has room for 1 KiB\n\
                     hint: make room with: onefold volume resize ./p v --size 1025\n";
        assert_eq!(said, large);
        assert!(here.refused("volume import ./p x ./data --size 1K", 2).contains("room for 1 KiB"));
        for (line, why) in [
            ("a/b ./data", "a/b"),
            ("x ./data --onto v", "'./data' is no stream of a snapshot"),
            ("x ./data --resume", "'./data' is no stream of a snapshot"),
            ("x ./none", "./none"),
            ("x ./p", "'./p' is a folder"),
        ] {
            let said = here.refused(&format!("volume import ./p {line}"), 2);
            assert!(said.contains(why), "{line}: {said}");
        }
        here.file("data", &[]);
        for line in ["volume import ./p x ./data", "volume import ./p x /dev/null"] {
            assert!(here.refused(line, 2).contains("is empty"), "{line}");
        }
        here.ok("volume import ./p x ./data --size 1M");
        let names: Vec<String> = here
            .ok("volume list ./p")
            .out
            .lines()
            .skip(1)
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["v", "none", "w", "x"]);
        here.ok("volume create ./p y.incomplete --size 1M");
        let said = here.refused("volume import ./p y ./data --size 1M", 2);
        assert!(said.contains("'y.incomplete' is there: an import that did not end"), "{said}");
    }

    #[test]
    fn what_turns_out_too_large_leaves_a_volume_as_it_is_said_to() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.ok("volume create ./p v --size 1M");
        let said = here.refused("volume import ./p v /dev/zero", 1);
        let left = "volume 'v' holds the beginning of '/dev/zero' now, and what it held before \
                    behind that\n";
        assert!(said.contains("holds more than the 1 MiB of volume 'v'"), "{said}");
        assert!(said.contains(left), "{said}");
        let said = here.refused("volume import ./p w /dev/zero --size 2M", 1);
        assert!(said.contains("; volume 'w' was not made\n"), "{said}");
        assert_eq!(here.ok("volume list ./p").out.lines().count(), 2);
    }

    #[test]
    fn sizes_are_exact_where_their_short_form_is_not_and_long_names_are_cut() {
        assert_eq!(exact(1 << 20), "1 MiB");
        assert_eq!(exact((1 << 20) + 1), "1.00 MiB (1048577 bytes)");
        assert_eq!(exact(1536), "1.50 KiB (1536 bytes)");
        assert_eq!(exact(1000), "1000 B");
        assert_eq!(incomplete("main"), "main.incomplete");
        let long = "a".repeat(255);
        assert_eq!(incomplete(&long), format!("{}.incomplete", &long[..244]));
    }
}
