//! `onefold ssd serve`: an emulated drive over NBD and vhost-user, until a signal or the end of a
//! command.
//! Room: onefold.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use onefold_block::{BlockDevice, ByteSize, FileFolder};
use onefold_export::counted;
use onefold_flash::FtlError;
use onefold_flash::drive::{self, Door as DriveDoor, DriveError, OpenDrive, WallClock};
use onefold_flash::drive::{NAND_FILE, SPEC_FILE};
use onefold_flash::spec::{DriveSpec, PRESET_NAMES, ParseError, SpecBuilder};
use onefold_nbd::{ExportTable, Exports, ListenAddr, TlsFiles};

use super::ssd_background::Background;
use super::ssd_idle::IDLE;
use super::ssd_watch::{DriveSource, LentDrive, Meters};
use crate::args::models::SsdServeArgs;
use crate::args::{Hangup, MachineSocket};
use crate::clock;
use crate::commands::volume_export::must_be_elsewhere;
use crate::failure::{Failure, Result};
use crate::handover;
use crate::output::Printer;
use crate::serve::child::{self, Child};
use crate::serve::connect;
use crate::serve::control::{Answer, Control};
use crate::serve::events::{Event, Events};
use crate::serve::guard::{self, Guard};
use crate::serve::handed::Sockets;
use crate::serve::late_exports::LateExports;
use crate::serve::listeners::{Listening, Places, Servers};
use crate::serve::record::{Prepared, Recorder};
use crate::serve::stop::{self, Patience};
use crate::store_folder::{self, Making};
use crate::text_file;
use crate::watch;

/// The socket of `--run`, in a folder of its own.
const SOCKET: &str = "socket";

/// An export of the drive: all show the same pages.
struct Export {
    name: &'static str,
    /// Whether what is written through it is to be deduplicated; without a word, as is configured.
    deduplicate: Option<bool>,
    about: &'static str,
}

/// The exports of a drive. One that deduplicates nothing has the first one only.
const EXPORTS: [Export; 3] = [
    Export { name: "", deduplicate: None, about: "" },
    Export { name: "deduplicate", deduplicate: Some(true), about: ", writes deduplicated" },
    Export { name: "keep", deduplicate: Some(false), about: ", writes never deduplicated" },
];

fn exports(spec: &DriveSpec) -> &'static [Export] {
    let several = spec.dedup.policy != "none";
    if several { &EXPORTS } else { &EXPORTS[..1] }
}

/// Sockets for machines that would wait for an export in vain: a drive gets none later.
fn refuse_unknown(sockets: &[MachineSocket], exports: &[Export]) -> Result<()> {
    for socket in sockets {
        // Behind the sign is the number of a generation.
        let asked = socket.export.split('@').next().unwrap_or_default();
        if exports.iter().all(|export| export.name != asked) {
            let at = socket.path.display();
            let named: Vec<&str> =
                exports.iter().map(|e| e.name).filter(|n| !n.is_empty()).collect();
            let failure =
                Failure::nothing_done(format!("the drive has no export '{asked}' for '{at}'"));
            return Err(if named.is_empty() {
                failure.hint("it deduplicates nothing, and has one export without a name")
            } else {
                failure.hint(format!("it has '{}', and one without a name", named.join("' and '")))
            });
        }
    }
    Ok(())
}

/// The exports over the drive, recorded each under its own name where anything is.
fn table(
    open: &OpenDrive,
    (exports, meters): (&[Export], &Meters),
    recorder: Option<&Recorder>,
) -> ExportTable {
    let clock = clock::system();
    let size = ByteSize(open.device().size_bytes());
    let mut table = ExportTable::new();
    for ((stream, export), (_, counters)) in (0..).zip(exports).zip(meters) {
        let about = format!("{size} emulated drive{}", export.about);
        let word = export.deduplicate;
        let drive = Arc::clone(open.device());
        let device = DriveDoor::new(drive, word);
        let (counters, clock) = (Arc::clone(counters), Arc::clone(&clock));
        let device: Arc<dyn BlockDevice> = counted(device, counters, clock);
        let device = match recorder {
            Some(recorder) => recorder.device_asked(stream, device, word),
            None => device,
        };
        table = table.with(export.name, &about, device);
    }
    table
}

/// Serve.
pub fn run(args: &SsdServeArgs, printer: &Printer) -> Result<ExitCode> {
    let mut handed = Sockets::take()?;
    let what = format!("drive '{}'", args.dir.display());
    let patience = Patience::new(&what, args.run.is_some());
    let events = Events::listen(Hangup::Stop, patience.on_stop())?;
    let private = match &args.run {
        Some(_) => Some(private_folder()?),
        None => None,
    };
    if let Some(file) = &args.record.record {
        must_be_elsewhere(("drive", &args.dir), file)?;
    }
    let recording = Prepared::new(&args.record)?;
    let tls = tls_files(args);
    let watch = watch::Prepared::new(&args.metrics, &mut handed, tls.as_ref())?;
    let how = listening(args, (handed, private.as_ref().map(tempfile::TempDir::path)), tls)?;
    if !is_drive(&args.dir) {
        lost_spec(&args.dir).map_or(Ok(()), Err)?;
        store_folder::may_be_made(&args.dir, "drive", args.new.must_exist)?;
    }
    let said = args.spec.is_some() || args.preset.is_some();
    // A drive that is there needs no words about it; `--set` changes it.
    let wanted = if said || !is_drive(&args.dir) { Some(wanted_spec(args)?) } else { None };
    if let Some(wanted) = &wanted {
        refuse_unknown(&args.vhost_user, exports(wanted))?;
    }
    // Nothing is made for a server that could not listen; who comes early waits.
    let late = Arc::new(LateExports::default());
    let exports: Arc<dyn Exports> = Arc::clone(&late) as _;
    let listening = Door { servers: Servers::start(&exports, &how)?, late, private, watch };
    match make_or_check(args, wanted.as_ref(), printer) {
        Ok(()) => serve(args, printer, (&events, &patience), (listening, recording)),
        Err(failure) => Err(listening.abandon(failure)),
    }
}

/// The servers, and what they are going to serve.
struct Door {
    servers: Servers,
    late: Arc<LateExports>,
    private: Option<tempfile::TempDir>,
    watch: Option<watch::Prepared>,
}

impl Door {
    /// There is nothing to serve.
    fn abandon(self, failure: Failure) -> Failure {
        self.late.fill(ExportTable::new());
        self.servers.stop(Duration::ZERO);
        failure
    }
}

/// Whether there is a drive in this folder.
fn is_drive(folder: &Path) -> bool {
    folder.is_dir() && FileFolder::open(folder).is_ok_and(|folder| drive::exists(&folder))
}

/// Makes the drive if there is none, or changes the one that is there, which must be `wanted` then.
fn make_or_check(args: &SsdServeArgs, wanted: Option<&DriveSpec>, printer: &Printer) -> Result<()> {
    let failed = |error| failure(&args.dir, error);
    if is_drive(&args.dir) {
        if wanted.is_none() && args.set.is_empty() {
            return Ok(());
        }
        for line in drive::revise_at(&args.dir, &args.set, wanted).map_err(failed)? {
            printer.note(&format!("changed drive '{}': {line}", args.dir.display()));
        }
        return Ok(());
    }
    let Some(wanted) = wanted else { return Ok(()) };
    let making = Making::begin([args.dir.as_path()]);
    let folder = store_folder::make(&args.dir, args.access.group)?;
    folder.overwrite_in_place();
    drive::create(&folder, wanted).map_err(failed)?;
    making.done();
    store_folder::tell_if_open(&args.dir, None, printer);
    let size = u64::from(wanted.logical_pages()) * u64::from(wanted.geometry.page_bytes);
    printer.note(&format!(
        "made drive '{}', {} of {}",
        args.dir.display(),
        wanted.name,
        ByteSize(size)
    ));
    Ok(())
}

/// What the arguments say of the drive.
fn wanted_spec(args: &SsdServeArgs) -> Result<DriveSpec> {
    let refused = |error: ParseError| Failure::nothing_done(error.to_string());
    let preset = args.preset.as_deref().unwrap_or(PRESET_NAMES[0]);
    let mut builder = SpecBuilder::preset(preset).map_err(refused)?;
    if let Some(path) = &args.spec {
        let text = text_file::read_or_hint(path, "specification", &PRESET_NAMES)?;
        builder = builder.file(&path.display().to_string(), &text).map_err(refused)?;
    }
    for assignment in &args.set {
        builder = builder.set(assignment).map_err(refused)?;
    }
    builder.build().map_err(refused)
}

fn serve(
    args: &SsdServeArgs,
    printer: &Printer,
    (events, patience): (&Events, &Patience),
    (door, recording): (Door, Option<Prepared>),
) -> Result<ExitCode> {
    let clock = Arc::new(WallClock::start());
    let failed = |error| failure(&args.dir, error);
    let open = match OpenDrive::open_at(&args.dir, args.pace, clock, handover::of(&args.dir)) {
        Ok(open) => open,
        Err(error) => return Err(door.abandon(failed(error))),
    };
    tell_remarks(&open, &args.dir, printer);
    about_durability(open.spec(), printer);
    let generation = open.current_generation();
    let accept = || open.accept_loss().map_err(failed);
    let what = format!("drive '{}'", args.dir.display());
    let closed = match guard::settle(&args.guard, &what, generation, accept, printer) {
        Ok(closed) => closed,
        Err(failure) => {
            // The drive is as it was.
            open.close().map_err(failed)?;
            return Err(door.abandon(failure));
        }
    };
    let exports = exports(open.spec());
    if let Err(failure) = refuse_unknown(&args.vhost_user, exports) {
        open.close().map_err(failed)?;
        return Err(door.abandon(failure));
    }
    let names = exports.iter().map(|export| export.name);
    let recorder = match recording.map(|file| file.begin(names)).transpose() {
        Ok(recorder) => recorder,
        Err(failure) => return Err(door.abandon(failure)),
    };
    let background = Background::start(Arc::clone(open.device()), open.spec());
    let control = control(args, open.spec(), (&background, recorder.as_ref()), printer);
    let Door { servers, late, private, watch } = door;
    let size = open.device().size_bytes();
    let meters: Meters = exports.iter().map(|export| (export.name, Arc::default())).collect();
    let table = table(&open, (exports, &meters), recorder.as_ref());
    late.fill(Guard::new(table, generation, closed));
    let lent = LentDrive::new(open);
    let watch = watch.and_then(|place| {
        let connections = Box::new(servers.counter());
        watch::begin(place, DriveSource::new(&args.dir, &lent, meters, connections), printer)
    });
    let command = if let (Some(command), Some(folder)) = (&args.run, &private) {
        let socket = folder.path().join(SOCKET);
        Some(Child::start(command, ("drive", &args.dir), &socket, "", events.sender())?)
    } else {
        introduce(args, &servers, (size, generation.number), exports, printer);
        None
    };
    let ended = wait(events, &lent);
    let ended = ended.or_else(|| command.as_ref().and_then(|command| command.end(events)));
    patience.begin();
    drop(control);
    if let Some(watch) = watch {
        watch.stop();
    }
    background.stop();
    stop::drain(servers, printer);
    if let Some(recorder) = recorder {
        recorder.finish(printer);
    }
    close(args, &lent, ended.map_or(0, child::exit_code), printer)
}

/// Say what opening the drive came by.
fn tell_remarks(open: &OpenDrive, at: &Path, printer: &Printer) {
    for remark in open.remarks() {
        let text = format!("drive '{}': {remark}", at.display());
        if remark.is_good() { printer.note(&text) } else { printer.warning(&text) }
    }
}

/// Close the drive. Serving ends with the status of the command that it was for, if it had one.
fn close(args: &SsdServeArgs, lent: &LentDrive, code: u8, printer: &Printer) -> Result<ExitCode> {
    let stopped = lent.take().expect("it is taken once").close().map_err(|error| {
        failure(&args.dir, error).hint("what clients flushed before the failure is safe")
    });
    if code > 0 {
        if let Err(failure) = stopped {
            printer.failure(&failure);
        }
        return Ok(ExitCode::from(code));
    }
    stopped?;
    printer.note("stopped; everything is flushed");
    Ok(ExitCode::SUCCESS)
}

/// Say where what is served is not what the specification says, and where it loses data.
fn about_durability(spec: &DriveSpec, printer: &Printer) {
    if !spec.ftl.journal {
        printer.warning(
            "ftl.journal is false: if this process or its host dies, trimmed pages come back and \
             shared pages are lost, flushed or not",
        );
    } else if spec.controller.power_loss_protection {
        printer.note(
            "power_loss_protection is modelled by `ssd run` only: a machine has no capacitor, so \
             what is not flushed may be lost with its power",
        );
    }
}

/// Serve until it is time to stop; how the command of `--run` ended, if that is why.
fn wait(events: &Events, lent: &LentDrive) -> Option<std::process::ExitStatus> {
    loop {
        match events.next() {
            Event::Stop => return None,
            Event::CommandEnded(status) => return Some(status),
            // Nobody asks a drive for relief.
            Event::ShowStatus | Event::Reload | Event::Relieve | Event::Tick => {
                if let Some(Err(error)) = lent.look(OpenDrive::save_health) {
                    tracing::error!("saving the drive's counters: {error}");
                }
            }
        }
    }
}

/// Listens to what the drive's owner says beside NBD. A drive is served without it, too.
fn control(
    args: &SsdServeArgs,
    spec: &DriveSpec,
    (background, recorder): (&Background, Option<&Recorder>),
    printer: &Printer,
) -> Option<Control> {
    let (hints, record) = (background.hints()?, recorder.map(Recorder::hints));
    let heeded = spec.controller.idle_hint;
    let hear = move |line: &str| -> Answer {
        match line {
            IDLE if !heeded => Err("it takes no hints: controller.idle_hint is false".to_owned()),
            IDLE => {
                if let Some(record) = &record {
                    record.hint();
                }
                hints.give();
                Ok(())
            }
            _ => Err(format!("unknown command '{}'", line.escape_debug())),
        }
    };
    let started = Control::start(&args.dir, hear);
    let warn = |error| printer.warning(&format!("'ssd idle' will not reach this drive: {error}"));
    started.map_err(warn).ok()
}

/// All three TLS files, or none; the command line asks for them together.
fn tls_files(args: &SsdServeArgs) -> Option<TlsFiles> {
    Some(TlsFiles {
        certificate: args.tls.tls_cert.clone()?,
        key: args.tls.tls_key.clone()?,
        client_ca: args.tls.tls_ca.clone()?,
    })
}

fn listening(
    args: &SsdServeArgs,
    (handed, private): (Sockets, Option<&Path>),
    tls: Option<TlsFiles>,
) -> Result<Listening> {
    let private = private.map(|folder| ListenAddr::Unix(folder.join(SOCKET)));
    Ok(Listening {
        places: Places::new((&args.listen, &args.vhost_user), handed.doors, private)?,
        machines: args.vhost_user.clone(),
        tls,
        allow_insecure: args.tls.allow_unencrypted_network_access,
        read_only: false,
        max_connections: args.crowd.max_connections,
        slow_request: args.slow.slow_request,
        group: args.access.group,
    })
}

fn private_folder() -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("onefold-")
        .tempdir()
        .map_err(|e| Failure::unusable("make a folder in", &std::env::temp_dir(), e))
}

/// Say what is served and how to reach it.
fn introduce(
    args: &SsdServeArgs,
    servers: &Servers,
    (size, generation): (u64, u64),
    exports: &[Export],
    printer: &Printer,
) {
    let paced = if args.pace { ", at the modelled pace" } else { "" };
    let (dir, size) = (args.dir.display(), ByteSize(size));
    printer.note(&format!("serving drive '{dir}' of {size}{paced}, generation {generation}"));
    for (address, tls) in servers.addresses() {
        printer.note(&format!("\nconnect over {address} with, for example:"));
        for line in connect::client_lines(address, "", tls) {
            printer.note(&line);
        }
    }
    for socket in servers.machine_sockets() {
        printer.note("\na virtual machine has it as its disk with:");
        for line in connect::machine_lines(socket) {
            printer.note(&line);
        }
    }
    if let [_, named @ ..] = exports
        && !named.is_empty()
    {
        let names: Vec<String> = named.iter().map(|one| format!("'{}'", one.name)).collect();
        let names = names.join(" and ");
        printer.note(&format!("\nexports {names} say of each write whether it is deduplicated"));
    }
    let all = servers.addresses().map(|(address, _)| address.to_string());
    let all: Vec<String> = all.chain(servers.machine_sockets().map(ToString::to_string)).collect();
    printer.note(&format!(
        "\nlook at its health with: onefold ssd smart {}\nCtrl-C stops the drive with everything \
         flushed",
        args.dir.display()
    ));
    printer.always(&format!("listening on {}", all.join(", ")));
}

/// The failure of a drive whose specification is gone, and how to have it back.
fn lost_spec(folder: &Path) -> Option<Failure> {
    let (first, bytes) = drive::spec_in_nand(&FileFolder::open(folder).ok()?)?;
    let (at, from) = (folder.display(), first + 1);
    let failure = Failure::nothing_done(format!(
        "'{at}': the drive has lost its {SPEC_FILE}: put back the one that belongs here"
    ));
    Some(failure.hint(format!(
        "as it was when the drive was made, it is in {NAND_FILE}: \
         tail -c +{from} {at}/{NAND_FILE} | head -c {bytes} > {at}/{SPEC_FILE}"
    )))
}

/// A drive's error, with its folder and what to do about it.
pub fn failure(folder: &Path, error: DriveError) -> Failure {
    let at = folder.display();
    match error {
        DriveError::NoDrive => lost_spec(folder).unwrap_or_else(|| {
            Failure::nothing_done(format!("'{at}': {error}"))
                .hint(format!("make one with: onefold ssd serve --preset ses-slc --dir {at}"))
        }),
        DriveError::NotEmpty(_) => Failure::nothing_done(format!("'{at}': {error}"))
            .hint("name a folder that is empty or does not exist"),
        DriveError::Different { .. } => Failure::nothing_done(format!("'{at}': {error}"))
            .hint("leave SPEC and --preset out; --set changes the drive that is there"),
        DriveError::Fixed { .. } => Failure::nothing_done(format!("'{at}': {error}"))
            .hint("leave it out, or make another drive"),
        DriveError::Ftl(FtlError::Settings(_)) | DriveError::Words(_) | DriveError::Nand(_) => {
            Failure::nothing_done(format!("'{at}': {error}"))
        }
        DriveError::Locked { .. }
        | DriveError::Mixed
        | DriveError::Spec(_)
        | DriveError::Code(_)
        | DriveError::Policy(_) => Failure::nothing_done(format!("'{at}': {error}")),
        error => Failure::bad(format!("drive '{at}': {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;
    use crate::args::models::{ModelCommand, SsdCommand};
    use crate::commands::heard;
    use crate::commands::models::test_drive;
    use crate::output::Heard;
    use crate::watch::Source as _;

    fn args() -> SsdServeArgs {
        let command = heard::parsed("ssd serve --dir d");
        let Command::Model(ModelCommand::Ssd(SsdCommand::Serve(args))) = command else {
            panic!("another command")
        };
        *args
    }

    fn spec(setting: &str) -> DriveSpec {
        SpecBuilder::preset(PRESET_NAMES[0]).unwrap().set(setting).unwrap().build().unwrap()
    }

    #[test]
    fn serving_ends_as_the_command_did_that_it_was_for() {
        for (code, said) in [(0, "stopped; everything is flushed\n"), (1, ""), (3, "")] {
            let (_folder, open) = test_drive::open();
            let (heard, lent) = (Heard::default(), LentDrive::new(open));
            let ended = close(&args(), &lent, code, &Printer::heard(&heard)).unwrap();
            assert_eq!(format!("{ended:?}"), format!("{:?}", ExitCode::from(code)));
            assert_eq!(heard.lock().unwrap().1, said);
            assert!(lent.take().is_none());
        }
    }

    #[test]
    fn what_is_served_is_seen_while_it_is_there() {
        let (folder, open) = test_drive::open();
        let lent = LentDrive::new(open);
        let meters: Meters = vec![("", Arc::default()), ("keep", Arc::default())];
        let source = DriveSource::new(folder.path(), &lent, meters, Box::new(|| 3));
        let sample = source.sample();
        let names: Vec<&str> = sample.exports.iter().map(|export| &*export.name).collect();
        assert_eq!((names, sample.connections), (vec!["(drive)", "keep"], 3));
        assert!(sample.drive.is_some() && source.drive().is_some());
        assert!(source.title().starts_with("drive /"));
        lent.take().unwrap().close().unwrap();
        assert!(source.sample().drive.is_none() && source.drive().is_none());
    }

    #[test]
    fn what_works_in_idle_moments_has_ended_once_it_is_stopped() {
        let (_folder, open) = test_drive::open();
        let device = Arc::clone(open.device());
        let before = Arc::strong_count(&device);
        let background = Background::start(Arc::clone(&device), open.spec());
        background.hints().unwrap().give();
        background.stop();
        assert_eq!(Arc::strong_count(&device), before);
        open.close().unwrap();
    }

    #[test]
    fn where_data_can_be_lost_is_said() {
        let said = |setting: &str| {
            let heard = Heard::default();
            about_durability(&spec(setting), &Printer::heard(&heard));
            std::mem::take(&mut *heard.lock().unwrap()).1
        };
        assert!(said("ftl.journal=false").starts_with("warning: ftl.journal is false: "));
        let protected = said("controller.power_loss_protection=true");
        assert!(protected.starts_with("power_loss_protection is modelled by `ssd run` only: "));
        assert_eq!(said("controller.power_loss_protection=false"), "");
    }

    #[test]
    fn a_machine_gets_an_export_that_there_is() {
        let (one, several) =
            (exports(&spec("dedup.policy=none")), exports(&spec("dedup.policy=ses-device")));
        assert_eq!((one.len(), several.len()), (1, 3));
        let refused = |socket: &str, exports: &[Export]| {
            let socket = socket.parse().unwrap();
            refuse_unknown(&[socket], exports).err().map(|failure| failure.hints.concat())
        };
        for socket in ["s", "s=keep", "s=deduplicate@3"] {
            assert_eq!(refused(socket, several), None, "{socket}");
        }
        let named = "it has 'deduplicate' and 'keep', and one without a name";
        assert_eq!(refused("s=none", several), Some(named.to_owned()));
        let nameless = "it deduplicates nothing, and has one export without a name";
        assert_eq!(refused("s=keep", one), Some(nameless.to_owned()));
        assert_eq!(refused("s", one), None);
    }

    #[test]
    fn how_to_reach_a_drive_is_said_for_every_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        let line = format!("ssd serve --dir d --listen unix:{at}/s --vhost-user {at}/m --pace");
        let Command::Model(ModelCommand::Ssd(SsdCommand::Serve(args))) = heard::parsed(&line)
        else {
            panic!("another command")
        };
        let how = listening(&args, (Sockets::take().unwrap(), None), None).unwrap();
        let all: Arc<dyn Exports> = Arc::new(ExportTable::new());
        let servers = Servers::start(&all, &how).unwrap();
        let told = |exports: &[Export]| {
            let heard = Heard::default();
            introduce(&args, &servers, (1 << 20, 7), exports, &Printer::heard(&heard));
            std::mem::take(&mut *heard.lock().unwrap()).1.replace(&at, ".")
        };
        let (one, several) = (told(&EXPORTS[..1]), told(&EXPORTS));
        servers.stop(Duration::ZERO);
        let first = "serving drive 'd' of 1 MiB, at the modelled pace, generation 7\n\n\
                     connect over unix:./s with, for example:\n";
        assert!(one.starts_with(first), "{one}");
        let last = "\n\nlook at its health with: onefold ssd smart d\n\
                    Ctrl-C stops the drive with everything flushed\n\
                    listening on unix:./s, vhost-user:./m\n";
        assert!(one.ends_with(last), "{one}");
        for part in [
            "nbd+unix:///?socket=./s",
            "\n\na virtual machine has it as its disk with:\n",
            "path=./m",
        ] {
            assert!(one.contains(part), "{part}: {one}");
        }
        let named = "\n\nexports 'deduplicate' and 'keep' say of each write whether it is \
                     deduplicated\n";
        assert!(several.contains(named) && !one.contains("exports "), "{several}");
    }
}
