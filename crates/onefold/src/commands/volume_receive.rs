//! `onefold volume import` of a stream of `volume export --since` or `--stream`.
//! Room: onefold.
//! Source: docs/stream-format.md, "How a stream is received".
//! Invariant: volume and snapshots are what they were until all of the stream is stored, and then
//! they are what it says, at once.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Instant;

use onefold_block::{BlockError, ByteSize};
use onefold_control::Report;
use onefold_image::Choice;
use onefold_pool::stream::{Answering, Header, ReceiveError, Receiver};
use onefold_pool::stream::{StreamError, StreamReader, receiving_bytes};
use onefold_pool::{SNAPSHOT_MARK, check_volume_name, split_snapshot_name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::volume_import::{incomplete, must_have_its_name};
use super::volume_snapshot::{CloneRequest, SnapshotRequest, give_up_deleted, identity_text};
use super::volume_snapshots::SnapshotJson;
use super::{
    volume_create, volume_delete, volume_diff, volume_list, volume_rename, volume_resize,
    volume_snapshots,
};
use crate::args::{VolumeImportArgs, VolumeReceiveArgs};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::operate::door::{Door, Opening};
use crate::operate::remote_volume::Asked;
use crate::operate::{Context, Operation, table};
use crate::output::Printer;
use crate::progress;

/// What was received, and the volume that is to be that.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdoptRequest {
    /// The one snapshot of a clone of `base`.
    pub received: String,
    /// The volume, not written to since `base`.
    pub volume: String,
    /// A snapshot of the volume.
    pub base: String,
}

/// Let a volume be what was received.
pub fn operate_adopt(context: &Context<'_>, request: &AdoptRequest) -> Result<Report> {
    let failed = |error| context.failed(error);
    let AdoptRequest { received, volume, base } = request;
    let device = context.pool.volume(volume).map_err(failed)?;
    if let Some(clients) = volume_delete::clients_of(context, &device) {
        return Err(Failure::nothing_done(format!("volume '{volume}' is in use by {clients}"))
            .hint("disconnect what uses it first"));
    }
    context.pool.adopt(received, volume, base).map_err(failed)?;
    give_up_deleted(context)?;
    Ok(Report::note(format!("volume '{volume}' is what was received")))
}

/// One import of a stream.
struct Receive<'a> {
    door: &'a Door,
    args: &'a VolumeImportArgs,
    /// Whoever sends asks what there is: it is `volume send`.
    asked: bool,
    printer: &'a Printer,
    header: Header,
    /// The snapshot that it is made onto.
    base: Option<String>,
    /// The volume is there, and becomes what is received.
    in_place: bool,
    /// What the snapshot is called: after the mark.
    own: String,
}

fn refused(args: &VolumeImportArgs, error: &StreamError) -> Failure {
    let message = format!("'{}': {error}", args.file.display());
    match error {
        StreamError::Io(_) => Failure::bad(message),
        StreamError::Version(_) => {
            Failure::nothing_done(message).hint("use the onefold that wrote it, or a later one")
        }
        _ => Failure::bad(message).hint("nothing of what is damaged was stored; get it again"),
    }
}

fn failed(args: &VolumeImportArgs, error: &ReceiveError) -> Failure {
    match error {
        ReceiveError::Device(error) => Failure::volume(&incomplete(&args.name), error),
        error => Failure::bad(format!("'{}': {error}", args.file.display())),
    }
}

/// Receive the stream, and say what it came to.
pub fn run(args: &VolumeImportArgs, input: Box<dyn Read + Send>, printer: &Printer) -> Result<()> {
    if args.size.is_some() {
        return Err(
            Failure::nothing_done("a stream says how large its volume is").hint("leave --size out")
        );
    }
    let door = Door::find(&args.pool, Opening::Write(args.memory.budgets()?))?;
    receive((args, false), door, input, printer)
}

/// `onefold volume receive`: the same of whoever asks what there is already.
pub fn run_asked(args: &VolumeReceiveArgs, printer: &Printer) -> Result<()> {
    let VolumeReceiveArgs { pool, name, onto, resume, memory } = args.clone();
    check_volume_name(&name).map_err(|error| Failure::pool(&pool, error))?;
    if std::io::stdout().is_terminal() {
        // What it answers is no text, and begins with the key of the pool's fingerprints.
        return Err(Failure::nothing_done("stdout is a terminal: it answers the one who sends")
            .hint(
                "have it run by the sender: onefold volume send POOL main@NAME -- ssh HOST \
                   onefold volume receive POOL main",
            ));
    }
    let (file, size, format) = (PathBuf::from("-"), None, Choice::default());
    let args = VolumeImportArgs { pool, name, file, size, onto, resume, format, memory };
    let door = Door::find(&args.pool, Opening::Write(args.memory.budgets()?))?;
    let (naming, find) = door.stored_blocks()?;
    let answering = Answering::new(std::io::stdin(), std::io::stdout(), naming, find);
    receive((&args, true), door, Box::new(answering), printer)
}

fn receive(
    (args, asked): (&VolumeImportArgs, bool),
    door: Door,
    input: Box<dyn Read + Send>,
    printer: &Printer,
) -> Result<()> {
    interrupt::heed();
    let mut reader = StreamReader::open(input).map_err(|error| refused(args, &error))?;
    let started = Instant::now();
    let receive = Receive::plan(&door, (args, asked), reader.header().clone(), printer)?;
    let done = receive.run(&mut reader);
    let closed = door.close();
    match (done, closed) {
        (Ok(stored), Ok(())) => {
            let (name, own, stored) = (&args.name, &receive_name(args, &reader), ByteSize(stored));
            let seconds = started.elapsed().as_secs_f64();
            printer.note(&format!(
                "received '{own}' in {seconds:.1} s, {stored} of it stored; volume '{name}' is \
                 what it is"
            ));
            Ok(())
        }
        (Err(failure), Err(error)) => Err(failure.hint(error.message)),
        (Err(failure), _) | (_, Err(failure)) => Err(failure),
    }
}

fn receive_name(args: &VolumeImportArgs, reader: &StreamReader<Box<dyn Read + Send>>) -> String {
    let own = reader.header().name.split_once(SNAPSHOT_MARK).map_or("", |(_, own)| own);
    format!("{}{SNAPSHOT_MARK}{own}", args.name)
}

/// The volume of a snapshot, or itself.
fn volume_of(name: &str) -> &str {
    name.split_once(SNAPSHOT_MARK).map_or(name, |(volume, _)| volume)
}

/// Refuse a stream whose snapshot the volume has, or that has no name left for it.
fn must_be_new(name: &str, own: &str, header: &Header, snapshots: &[SnapshotJson]) -> Result<()> {
    let identity = identity_text(header.names.snapshot);
    let mut own_ones = snapshots.iter().filter(|snapshot| volume_of(&snapshot.name) == name);
    if let Some(known) = own_ones.find(|snapshot| snapshot.identity == identity) {
        let message = format!("'{}' is the snapshot of this stream already", known.name);
        return Err(Failure::nothing_done(message));
    }
    let wanted = format!("{name}{SNAPSHOT_MARK}{own}");
    if snapshots.iter().any(|snapshot| snapshot.name == wanted) {
        let message = format!("there is another snapshot '{wanted}', which is not this stream's");
        return Err(Failure::nothing_done(message)
            .hint("import into a volume of another name, or delete that snapshot first"));
    }
    Ok(())
}

/// The snapshot that `onto` is or has and that the stream begins with.
fn base_of(onto: &str, header: &Header, snapshots: &[SnapshotJson]) -> Result<String> {
    let identity = identity_text(header.names.base);
    let fits = |snapshot: &&SnapshotJson| {
        let named = snapshot.name == onto || volume_of(&snapshot.name) == onto;
        named && snapshot.identity == identity
    };
    snapshots.iter().find(fits).map(|base| base.name.clone()).ok_or_else(|| {
        let (base, of) = (&header.base_name, &header.name);
        Failure::nothing_done(format!(
            "the stream is what changed from '{base}' to '{of}', and '{onto}' is not, and has not, \
             that very snapshot ({identity})"
        ))
        .hint(
            "a snapshot counts that was received as a stream, or that this pool itself made; \
             `onefold volume list --snapshots --json` shows identities",
        )
    })
}

impl<'a> Receive<'a> {
    /// Find out what is to be done, and refuse what cannot be, before anything is.
    fn plan(
        door: &'a Door,
        (args, asked): (&'a VolumeImportArgs, bool),
        header: Header,
        printer: &'a Printer,
    ) -> Result<Self> {
        let name = &args.name;
        let refused = |error| Failure::pool(&args.pool, error);
        let (_, own) = split_snapshot_name(&header.name).map_err(refused)?;
        let own = own.to_owned();
        let volumes = volume_list::listed(door, None, printer)?;
        let there = volumes.iter().any(|volume| volume.name == *name);
        let snapshots = volume_snapshots::listed(door, printer)?;
        must_be_new(name, &own, &header, &snapshots)?;
        if header.names.base == 0 {
            if args.onto.is_some() {
                return Err(Failure::nothing_done(format!(
                    "the stream is all of '{}', and is made onto nothing",
                    header.name
                ))
                .hint("leave --onto out"));
            }
            if there {
                return Err(Failure::nothing_done(format!("volume '{name}' is there already"))
                    .hint("name a volume that is not: the stream is a whole one"));
            }
            let (base, in_place) = (None, false);
            return Ok(Self { door, args, asked, printer, header, base, in_place, own });
        }
        let Some(onto) = &args.onto else {
            return Err(Failure::nothing_done(format!(
                "the stream is what changed since '{}'",
                header.base_name
            ))
            .hint("name the volume or snapshot that it is made onto, with: --onto VOLUME"));
        };
        let base = base_of(onto, &header, &snapshots)?;
        if there && volume_of(onto) != name {
            let message = format!("volume '{name}' is there, and is not that of '{onto}'");
            return Err(Failure::nothing_done(message)
                .hint("name the volume of --onto, or one that is not there yet"));
        }
        let (base_is, in_place) = (Some(base.clone()), there);
        let receive = Self { door, args, asked, printer, header, base: base_is, in_place, own };
        receive.must_not_differ(&base)?;
        Ok(receive)
    }

    /// Refuse a volume that was written to since the base, before anything is received.
    fn must_not_differ(&self, base: &str) -> Result<()> {
        if !self.in_place {
            return Ok(());
        }
        let (from, to) = (base.to_owned(), self.args.name.clone());
        let report = self.call(&table::VOLUME_DIFF, &volume_diff::Request { from, to })?;
        if report.result.get("changed_bytes").and_then(serde_json::Value::as_u64) == Some(0) {
            return Ok(());
        }
        let (at, name) = (self.args.pool.display(), &self.args.name);
        Err(Failure::nothing_done(format!("volume '{name}' was written to since '{base}'"))
            .hint(format!("give that up with: onefold volume rollback {at} {base}"))
            .hint("or import into a volume of another name, which is made of the snapshot"))
    }

    fn call(&self, operation: &Operation, request: &impl Serialize) -> Result<Report> {
        self.door.call(operation, request, self.printer)
    }

    fn resize(&self, size_bytes: u64) -> Result<()> {
        let request =
            volume_resize::Request { name: incomplete(&self.args.name), size_bytes, discard: true };
        self.call(&table::VOLUME_RESIZE, &request).map(|_| ())
    }

    /// Do it; returns how many bytes were stored.
    fn run(&self, reader: &mut StreamReader<Box<dyn Read + Send>>) -> Result<u64> {
        let to = incomplete(&self.args.name);
        let received = format!("{to}{SNAPSHOT_MARK}{}", self.own);
        let volumes = volume_list::listed(self.door, None, self.printer)?;
        let there = volumes.iter().any(|volume| volume.name == to);
        if there && !self.args.resume {
            let at = self.args.pool.display();
            return Err(Failure::nothing_done(format!(
                "volume '{to}' is there: an import that did not end, or has not yet"
            ))
            .hint("--resume goes on with it, if it was of this stream")
            .hint(format!("remove it with: onefold volume delete {at} {to}")));
        }
        if !there {
            if self.args.resume {
                let message = format!("there is no import to go on with: no volume '{to}'");
                return Err(Failure::nothing_done(message).hint("leave --resume out"));
            }
            self.make(&to)?;
        }
        let known = volume_snapshots::listed(self.door, self.printer)?;
        let identity = identity_text(self.header.names.snapshot);
        let mut stored = 0;
        if known.iter().any(|s| s.name == received && s.identity == identity) {
            // Whoever sends is to hear no error but of what it sends.
            reader.skip_to(self.header.size_bytes);
            while reader.next_frame().map_err(|error| refused(self.args, &error))?.is_some() {}
        } else {
            let volume = self.door.volume(&to)?;
            stored = self.store(reader, &*volume, &to, there)?;
            // Should the server be started anew from here on, nothing of it is gone.
            volume.flush().map_err(|error| Failure::volume(&to, &error))?;
            // What is done by name from here on would make another one a copy of the snapshot.
            must_have_its_name(&*volume, &to)?;
            self.resize(self.header.size_bytes)?;
            must_have_its_name(&*volume, &to)?;
            // Rules of what to keep go by when it was made, not by when it came here.
            let made = self.header.created_seconds;
            let request = SnapshotRequest {
                name: received.clone(),
                hold: false,
                identity: Some(identity),
                created_s: (made != 0).then_some(made),
            };
            self.call(&table::VOLUME_SNAPSHOT, &request)?;
            must_have_its_name(&*volume, &to)?;
        }
        self.finish(&to, received)?;
        Ok(stored)
    }

    /// A volume that is what the base is, or empty, with room for the mark.
    fn make(&self, to: &str) -> Result<()> {
        let name = to.to_owned();
        let size_bytes = receiving_bytes(self.header.size_bytes, self.header.chunk_size.get());
        let too_large = || Failure::nothing_done("no volume can be so large");
        let size_bytes = size_bytes.ok_or_else(too_large)?;
        if let Some(base) = &self.base {
            let request = CloneRequest { snapshot: base.clone(), name };
            self.call(&table::VOLUME_CLONE, &request)?;
        } else {
            let request = volume_create::Request { name, size_bytes };
            self.call(&table::VOLUME_CREATE, &request)?;
        }
        // Blocks of this pool may be larger than those of the one that it comes from.
        let block = self.door.volume(to)?.preferred_block_bytes();
        let size = receiving_bytes(self.header.size_bytes, block).ok_or_else(too_large)?;
        self.resize(size)
    }

    /// Store all frames that were not; returns how many bytes were.
    fn store(
        &self,
        reader: &mut StreamReader<Box<dyn Read + Send>>,
        volume: &dyn Asked,
        to: &str,
        there: bool,
    ) -> Result<u64> {
        let on_volume = |error: BlockError| Failure::volume(to, &error);
        let mut receiver = Receiver::new(self.header.clone(), volume);
        if there {
            let Some(stood) = receiver.marked().map_err(on_volume)? else {
                let at = self.args.pool.display();
                return Err(Failure::nothing_done(format!(
                    "volume '{to}' is not an import of this stream that can go on"
                ))
                .hint(format!("remove it with: onefold volume delete {at} {to}")));
            };
            reader.skip_to(stood);
        } else {
            receiver.mark(0).map_err(on_volume)?;
        }
        let mut stands = reader.position();
        let done = (|| {
            let bar = progress::bytes(self.printer, "importing", Some(self.header.size_bytes));
            while !interrupt::asked() {
                let frame = match reader.next_frame() {
                    Ok(Some(frame)) => frame,
                    Ok(None) => return Ok(()),
                    // The same signal may have ended whoever wrote the stream.
                    Err(_) if interrupt::asked_by_now() => break,
                    Err(error) => return Err(refused(self.args, &error)),
                };
                receiver.store(&frame).map_err(|error| failed(self.args, &error))?;
                stands = frame.upto;
                bar.set_position(stands);
            }
            Err(interrupt::failure(""))
        })();
        match done {
            Ok(()) => Ok(receiver.stored_bytes()),
            Err(failure) => {
                // Where that fails, it stands where it was marked last.
                let _ = receiver.mark(stands);
                let kept = receiver.marked_bytes();
                if volume.has_lost_its_name() {
                    return Err(failure.left(&format!("'{to}' was deleted or renamed meanwhile")));
                }
                Err(self.give_up(failure, to, kept))
            }
        }
    }

    /// Say what there is now, and how to go on.
    fn give_up(&self, failure: Failure, to: &str, stands: u64) -> Failure {
        let Self { args, header, .. } = self;
        let (at, name) = (args.pool.display(), &args.name);
        if stands == 0 {
            let request = volume_delete::Request { name: to.to_owned(), force: false };
            if self.call(&table::VOLUME_DELETE, &request).is_ok() {
                return failure.left("nothing was changed");
            }
        }
        let onto = args.onto.as_ref().map_or_else(String::new, |onto| format!(" --onto {onto}"));
        let (of, base) = (&header.name, header.base_name.as_str());
        let since = match base {
            "" => String::new(),
            base => format!(" --since {base}"),
        };
        let failure =
            failure.left(&format!("'{to}' holds the stream up to byte {stands} of the volume"));
        let failure = if self.asked {
            failure.hint(format!(
                "go on with: onefold volume send POOL {of}{since} --resume {stands} -- COMMAND \
                 onefold volume receive {at} {name}{onto} --resume"
            ))
        } else {
            let since = if base.is_empty() { " --stream" } else { &since };
            failure
                .hint(format!("go on with: onefold volume import {at} {name} FILE{onto} --resume"))
                .hint(format!(
                    "whoever sends it need not send what is there: onefold volume export POOL \
                     {of}{since} --resume {stands} FILE"
                ))
        };
        failure.hint(format!("or remove it with: onefold volume delete {at} {to}"))
    }

    /// All of it is stored, and a snapshot of its own: let the volume be that.
    fn finish(&self, to: &str, received: String) -> Result<()> {
        let volume = self.args.name.clone();
        match &self.base {
            Some(base) if self.in_place => {
                let request = AdoptRequest { received, volume, base: base.clone() };
                let done = self.call(&table::VOLUME_ADOPT, &request);
                done.map_err(|failure| self.give_up(failure, to, self.header.size_bytes))?;
            }
            _ => {
                let request = volume_rename::Request { name: to.to_owned(), to: volume };
                self.call(&table::VOLUME_RENAME, &request)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use onefold_pool::{OpenOptions, Pool};

    use crate::commands::heard::Folder;

    const MIB: usize = 1 << 20;

    /// Pool `from` has `main@a` and `main@b`, of which the first MiB of two differs, as the streams
    /// `a` and `b`; pool `to` is empty.
    fn streams() -> Folder {
        let here = Folder::new();
        for pool in ["from", "to"] {
            here.ok(&format!("pool create ./{pool}"));
        }
        here.file("old", &vec![7; 2 * MIB]);
        here.file("new", &vec![8; MIB]);
        here.ok("volume import ./from main ./old");
        here.ok("volume snapshot ./from main@a");
        here.ok("volume import ./from main ./new");
        here.ok("volume snapshot ./from main@b");
        here.ok("volume export ./from main@a ./a --stream");
        here.ok("volume export ./from main@b ./b --since main@a");
        here
    }

    fn volumes(here: &Folder, pool: &str) -> Vec<String> {
        let listed = here.ok(&format!("volume list ./{pool} --json")).json();
        let names = listed["volumes"].as_array().unwrap().iter();
        names.map(|volume| volume["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_volume_becomes_what_streams_say_and_nothing_else_does() {
        let here = streams();
        let said = here.ok("volume import ./to main ./a");
        assert!(said.err.starts_with("received 'main@a' in 0."), "{}", said.err);
        assert!(
            said.err.ends_with(" s, 2 MiB of it stored; volume 'main' is what it is\n"),
            "{}",
            said.err
        );
        // A volume of another name, made of the snapshot.
        let said = here.ok("volume import ./to second ./b --onto main@a");
        assert!(said.err.contains("1 MiB of it stored; volume 'second' is"), "{}", said.err);
        let said = here.ok("volume import ./to main ./b --onto main");
        assert!(said.err.contains("'main@b'"), "{}", said.err);
        assert_eq!(volumes(&here, "to"), ["main", "second"]);
        for (name, expected) in [("main@a", 7), ("main", 8), ("main@b", 8), ("second@b", 8)] {
            here.ok(&format!("volume export ./to {name} ./out --force"));
            let out = std::fs::read(here.path("out")).unwrap();
            assert_eq!((out.len(), out[0], out[MIB]), (2 * MIB, expected, 7), "{name}");
        }
        for (line, why) in [
            ("main ./b --onto main", "error: 'main@b' is the snapshot of this stream already\n"),
            ("main ./a", "error: 'main@a' is the snapshot of this stream already\n"),
            (
                "second ./a",
                "error: volume 'second' is there already\n\
                 hint: name a volume that is not: the stream is a whole one\n",
            ),
            (
                "x ./a --onto main",
                "error: the stream is all of 'main@a', and is made onto nothing\n\
                 hint: leave --onto out\n",
            ),
            (
                "x ./b",
                "error: the stream is what changed since 'main@a'\n\
                 hint: name the volume or snapshot that it is made onto, with: --onto VOLUME\n",
            ),
            (
                "x ./a --resume",
                "error: there is no import to go on with: no volume 'x.incomplete'\n\
                 hint: leave --resume out\n",
            ),
            (
                "x ./a --size 1M",
                "error: a stream says how large its volume is\nhint: leave --size out\n",
            ),
        ] {
            let said = here.refused(&format!("volume import ./to {line}"), 2);
            assert_eq!(said, why, "{line}");
        }
        let none = here.refused("volume import ./to x ./b --onto second", 2);
        let why =
            "error: the stream is what changed from 'main@a' to 'main@b', and 'second' is not";
        assert!(none.starts_with(why), "{none}");
        here.ok("volume create ./to other --size 1M");
        let other = here.refused("volume import ./to other ./b --onto main@a", 2);
        assert!(other.contains("volume 'other' is there, and is not that of 'main@a'"), "{other}");
        // The same name, but not that snapshot.
        here.ok("volume snapshot ./to other@a");
        let another = here.refused("volume import ./to other ./a", 2);
        assert!(another.contains("there is another snapshot 'other@a'"), "{another}");
        assert_eq!(volumes(&here, "to"), ["main", "second", "other"]);
    }

    #[test]
    fn a_copy_of_a_snapshot_was_made_when_that_was_made() {
        let here = streams();
        let pool = Pool::open_at(&here.path("from"), &OpenOptions::default()).unwrap();
        // The second one's time is not known: it counts from when it came here.
        pool.snapshot("main@old", 1_000_000_000, false).unwrap();
        pool.snapshot("main@timeless", 0, false).unwrap();
        pool.close().unwrap();
        here.ok("volume export ./from main@old ./aged --stream");
        here.ok("volume export ./from main@timeless ./timeless --since main@old");
        here.ok("volume import ./to main ./aged");
        here.ok("volume import ./to main ./timeless --onto main");
        let json = here.ok("volume list ./to --snapshots --json").json();
        let made = |n: usize| json["snapshots"][n]["created_s"].as_u64().unwrap();
        assert_eq!(made(0), 1_000_000_000);
        assert!(made(1) > 1_000_000_000, "{json}");
    }

    #[test]
    fn what_was_written_since_is_not_overwritten() {
        let here = streams();
        here.ok("volume import ./to main ./a");
        here.ok("volume import ./to main ./new");
        let said = here.refused("volume import ./to main ./b --onto main", 2);
        let why = "error: volume 'main' was written to since 'main@a'\n\
                   hint: give that up with: onefold volume rollback ./to main@a\n";
        assert!(said.starts_with(why), "{said}");
        assert_eq!(volumes(&here, "to"), ["main"]);
    }

    #[test]
    fn a_broken_stream_says_where_it_stands_and_how_to_go_on() {
        let here = streams();
        let (whole, since) =
            (std::fs::read(here.path("a")).unwrap(), std::fs::read(here.path("b")).unwrap());
        let mut flipped = whole.clone();
        flipped[whole.len() / 4] ^= 1;
        here.file("flipped", &flipped);
        let said = here.refused("volume import ./to main ./flipped", 1);
        assert!(said.contains("; nothing was changed\n"), "{said}");
        assert!(said.contains("hint: nothing of what is damaged was stored; get it again\n"));
        assert!(volumes(&here, "to").is_empty());
        here.file("cut", &whole[..whole.len() - 20]);
        let said = here.refused("volume import ./to main ./cut", 1);
        let hints = "; 'main.incomplete' holds the stream up to byte 2097152 of the volume\n";
        assert!(said.contains(hints), "{said}");
        let hints = "hint: go on with: onefold volume import ./to main FILE --resume\n\
            hint: whoever sends it need not send what is there: onefold volume export POOL main@a \
            --stream --resume 2097152 FILE\n\
            hint: or remove it with: onefold volume delete ./to main.incomplete\n";
        assert!(said.ends_with(hints), "{said}");
        let there = here.refused("volume import ./to main ./a", 2);
        let why = "error: volume 'main.incomplete' is there: an import that did not end, or has \
                   not yet\nhint: --resume goes on with it, if it was of this stream\n";
        assert!(there.starts_with(why), "{there}");
        here.ok("volume import ./to main ./a --resume");
        assert_eq!(volumes(&here, "to"), ["main"]);
        here.file("cut", &since[..since.len() - 20]);
        let said = here.refused("volume import ./to main ./cut --onto main", 1);
        let hints = "FILE --onto main --resume\n\
            hint: whoever sends it need not send what is there: onefold volume export POOL main@b \
            --since main@a --resume 2097152 FILE\n";
        assert!(said.contains(hints), "{said}");
        here.ok("volume import ./to main ./b --onto main --resume");
        // A volume of that name which nobody receives.
        here.ok("volume create ./to x.incomplete --size 2M");
        let said = here.refused("volume import ./to x ./b --onto main@a --resume", 2);
        let why = "error: volume 'x.incomplete' is not an import of this stream that can go on\n";
        assert!(said.starts_with(why), "{said}");
    }

    #[test]
    fn a_snapshot_goes_to_whoever_asks_for_what_it_lacks() {
        let here = streams();
        // In a process of its own a receiver would be asked; here its command cannot be run.
        let said = here.refused("volume send ./from main@a -- ./none", 2);
        assert!(said.starts_with("error: cannot run './none': "), "{said}");
        for (line, why) in [
            ("main@c -- true", "main@c"),
            ("main -- true", "'main' is no snapshot"),
            ("main@a --resume 5 -- true", "not at 5"),
        ] {
            let said = here.refused(&format!("volume send ./from {line}"), 2);
            assert!(said.contains(why), "{line}: {said}");
        }
        let said = here.onefold("volume send ./from main@a -- true");
        assert_eq!(said.code, 1);
        assert!(!said.err.contains("go on with"), "nothing was begun: {}", said.err);
        let failed = here.onefold("volume send ./from main@b --since main@a -- false");
        assert_eq!(failed.code, 1);
        assert!(failed.err.contains("the receiver, 'false', ended with exit status: 1"));
    }
}
