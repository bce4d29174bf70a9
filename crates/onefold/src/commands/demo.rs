//! `onefold demo`: the whole product in a minute, in a folder that goes away.
//! Room: onefold.
//! Everything is done by this program's own commands, as a person would type them, and shown.

use std::fs::File;
use std::io::{BufWriter, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use onefold_block::SplitMix64;

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::operate::door::Door;
use crate::output::Printer;

/// Bytes of a piece of the data.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces of the disk, and how many of them differ.
const PIECES: u64 = 256;
const DIFFERENT: u64 = 64;
/// How long the server may take until it can be asked.
const STARTING: Duration = Duration::from_secs(20);

/// A server that is gone when this is dropped, whatever happened.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Show it.
pub fn run(printer: &Printer) -> Result<()> {
    interrupt::heed();
    let folder = tempfile::Builder::new().prefix("onefold-demo-").tempdir();
    let folder = folder
        .map_err(|error| Failure::unusable("make a folder in", &std::env::temp_dir(), error))?;
    let at = folder.path();
    let step = |text: &str| printer.note(&format!("\n{text}"));
    step(&format!("1. A disk of 64 MiB in {}, with copies and text in it.", at.display()));
    make(&at.join("disk.img"))?;
    step("2. What would storing it save?");
    onefold(at, &["estimate", "disk.img"], printer)?;
    step("3. A pool is served, and the disk goes into it.");
    let server = serve(at)?;
    onefold(at, &["volume", "import", "pool", "disk", "disk.img"], printer)?;
    step("4. The server is killed (kill -9), with no chance to tidy up.");
    drop(server);
    step("5. Is the pool sound?");
    onefold(at, &["pool", "check", "pool"], printer)?;
    step("6. It goes on where it was, and what comes out is what went in.");
    onefold(at, &["volume", "create", "pool", "another", "--size", "1G"], printer)?;
    onefold(at, &["volume", "export", "pool", "disk", "again.img"], printer)?;
    if !same(&at.join("disk.img"), &at.join("again.img"))? {
        return Err(Failure::bad("what came out differs from what went in"));
    }
    printer.note("   the same, byte for byte");
    step("7. What it holds and saves:");
    onefold(at, &["pool", "status", "pool"], printer)?;
    folder.close().map_err(|error| Failure::bad(format!("cannot clean up: {error}")))?;
    step("The folder is gone again. Your own: onefold serve ./demo");
    Ok(())
}

/// A disk with copies and compressible data: the same one each time.
fn make(path: &Path) -> Result<()> {
    let failed = |error| Failure::unusable("write", path, error);
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    for piece in 0..PIECES {
        let mut random = SplitMix64::new(piece % DIFFERENT);
        // Half of it is noise; the other half is words that come again.
        let mut bytes = random.bytes(PIECE_BYTES / 2);
        let words = ["block ", "chunk ", "disk ", "pool ", "store ", "volume "];
        while bytes.len() < PIECE_BYTES {
            let word = words[(random.next_u64() % words.len() as u64) as usize];
            bytes.extend(word.as_bytes());
        }
        bytes.truncate(PIECE_BYTES);
        file.write_all(&bytes).map_err(failed)?;
    }
    file.flush().map_err(failed)
}

fn program() -> Result<Command> {
    let program = std::env::current_exe();
    let program = program.map_err(|e| Failure::bad(format!("cannot find this program: {e}")))?;
    Ok(Command::new(program))
}

/// Run one of this program's commands, as it would be typed, and show what it says.
fn onefold(at: &Path, args: &[&str], printer: &Printer) -> Result<()> {
    if interrupt::asked() {
        return Err(interrupted());
    }
    printer.note(&format!("   $ onefold {}", args.join(" ")));
    let mut command = program()?;
    let status = command.args(args).current_dir(at).stdin(Stdio::null()).status();
    let status = status.map_err(|e| Failure::bad(format!("cannot start a command: {e}")))?;
    if status.success() {
        return Ok(());
    }
    Err(unless_interrupted(format!("`onefold {}` ended with {status}", args.join(" "))))
}

/// That something failed of which others say why, or that one signal was meant for all of them.
fn unless_interrupted(failed: String) -> Failure {
    if interrupt::asked_by_now() { interrupted() } else { Failure::bad(failed) }
}

fn interrupted() -> Failure {
    interrupt::failure("the folder is gone again")
}

/// A server of a new pool that can be asked.
fn serve(at: &Path) -> Result<Served> {
    let args = ["serve", "pool", "--listen", "unix:socket", "--size", "64M", "--quiet"];
    let mut command = program()?;
    command.args(args).current_dir(at).stdin(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|e| Failure::bad(format!("cannot start a server: {e}")))?;
    let mut served = Served(child);
    let started = Instant::now();
    while Door::served(&at.join("pool")).ok().flatten().is_none() {
        let ended = served.0.try_wait().ok().flatten();
        if started.elapsed() > STARTING || ended.is_some() || interrupt::asked() {
            return Err(unless_interrupted("the server did not come up".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(served)
}

/// Whether two files hold the same bytes.
fn same(a: &Path, b: &Path) -> Result<bool> {
    let open =
        |path: &Path| File::open(path).map_err(|error| Failure::unusable("read", path, error));
    let (mut one, mut other) = (open(a)?, open(b)?);
    let (mut left, mut right) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    loop {
        let length = read(&mut one, &mut left, a)?;
        if length != read(&mut other, &mut right, b)? || left[..length] != right[..length] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
    }
}

/// As much as fits, or what is left.
fn read(from: &mut File, to: &mut [u8], path: &Path) -> Result<usize> {
    let mut filled = 0;
    while filled < to.len() {
        match from.read(&mut to[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) => return Err(Failure::unusable("read", path, error)),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::Folder;

    #[test]
    fn files_are_the_same_up_to_their_last_byte() {
        let here = Folder::new();
        let mut bytes = vec![7; PIECE_BYTES + 3];
        here.file("a", &bytes);
        here.file("b", &bytes);
        here.file("short", &bytes[1..]);
        here.file("piece", &bytes[..PIECE_BYTES]);
        *bytes.last_mut().unwrap() = 8;
        here.file("last", &bytes);
        let is = |one: &str, other: &str| same(&here.path(one), &here.path(other)).unwrap();
        assert!(is("a", "b") && is("piece", "piece"));
        for other in ["short", "piece", "last"] {
            assert!(!is("a", other) && !is(other, "a"), "{other}");
        }
        assert!(same(&here.path("a"), &here.path("none")).is_err());
    }

    #[test]
    fn what_comes_in_small_reads_is_read_as_far_as_it_fits() {
        let here = Folder::new();
        here.file("a", b"abc");
        let mut file = File::open(here.path("a")).unwrap();
        let mut bytes = [0; 2];
        let mut next = || read(&mut file, &mut bytes, Path::new("a")).unwrap();
        assert_eq!([next(), next(), next()], [2, 1, 0]);
    }
}
