//! `onefold serve`: a pool's volumes over NBD, until a signal or the end of a command.
//! Room: onefold.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use onefold_block::{BlockDevice, ByteSize, Generation};
use onefold_nbd::{ExportTable, Exports, ListenAddr, TlsFiles};
use onefold_pool::{Pool, PoolError};

use super::volume_export::must_be_elsewhere;
use crate::args::{ServeArgs, check_volume_size};
use crate::endurance::Watched;
use crate::failure::{Failure, Result};
use crate::make_pool;
use crate::open_pool;
use crate::operate::live::Live;
use crate::operate::served::{ControlSocket, Served};
use crate::output::Printer;
use crate::pool_cache::{self, Cached, ServedCache};
use crate::serve::background::Worker;
use crate::serve::child::{self, Child};
use crate::serve::connect;
use crate::serve::events::{Event, Events};
use crate::serve::guard::{self, Guard};
use crate::serve::handed::Sockets;
use crate::serve::index_filler::IndexFiller;
use crate::serve::late_exports::LateExports;
use crate::serve::listeners::{Listening, Places, Servers};
use crate::serve::notify;
use crate::serve::pool_exports::PoolExports;
use crate::serve::record::{Prepared, Recorder};
use crate::serve::reload::Reload;
use crate::serve::schedule::Schedule;
use crate::serve::scrubbing::Scrubbing;
use crate::serve::stop::{self, Patience};
use crate::settings_file::Parsed;
use crate::status_view::status_text;
use crate::store_folder;
use crate::watch::{self, PoolSource};

/// The volume of a pool that is made here.
const FIRST_VOLUME: &str = "main";
/// The socket of `--run`, in a folder of its own.
const SOCKET: &str = "socket";

/// Serve.
pub fn run(parsed: &Parsed, args: &ServeArgs, printer: &Printer) -> Result<ExitCode> {
    refuse_nonsense(args)?;
    let mut handed = Sockets::take()?;
    let tls = tls_files(args);
    let what = format!("pool '{}'", args.pool.display());
    let patience = Patience::new(&what, args.run.is_some());
    let events = Events::listen(args.on_hangup, patience.on_stop())?;
    let private = match &args.run {
        Some(_) => Some(private_folder()?),
        None => None,
    };
    let watch = watch::Prepared::new(&args.metrics, &mut handed, tls.as_ref())?;
    let how = listening(args, (handed, private.as_ref()), tls)?;
    let recording = Prepared::new(&args.record)?;
    let (ready, servers) = start(parsed, args, &how, recording, printer)?;
    let Ready { cached, names: volumes, exports, recorder, filler } = ready;
    let Cached { pool, tier, problem, life } = cached;
    let cache = Arc::new(ServedCache { tier: tier.clone(), problem, life });
    let to = events.sender();
    pool.set_relief(Box::new(move || {
        let _ = to.send(Event::Relieve);
    }));
    let worker = (!args.read_only).then(|| Worker::start(&pool, args.background)).transpose()?;
    let scrubbing = scrubbing(&pool, args, worker.as_ref())?;
    let schedule = schedule(args);
    let knobs = worker.as_ref().map(Worker::knobs);
    let index = filler.as_ref().map(IndexFiller::bell);
    let works = (knobs.clone(), index.clone());
    let live = Live::new(Arc::clone(&exports), works, &servers, events.sender());
    let served = Arc::new(served(&pool, &cache, live, args));
    let control = control(&served, args);
    let source = PoolSource::new(served);
    let watch = watch.and_then(|place| watch::begin(place, source, printer));
    warn_of_missing(&servers, &volumes, printer);
    let command = if let (Some(command), Some(folder)) = (&args.run, &private) {
        let socket = folder.path().join(SOCKET);
        Some(Child::start(command, ("pool", &args.pool), &socket, &volumes[0].0, events.sender())?)
    } else {
        introduce(args, &servers, &volumes, generation_of(&pool).number, printer);
        notify::tell(notify::READY);
        None
    };
    let (knobs, index) = (knobs.as_deref(), index.as_deref());
    let reload = Reload { servers: &servers, watch: watch.as_ref(), cache: &cache, knobs, index };
    let with = (&*exports, schedule);
    let ended = wait(&events, &pool, &reload, (args, printer), with);
    let ended = ended.or_else(|| command.as_ref().and_then(|command| command.end(&events)));
    patience.begin();
    if command.is_none() {
        notify::tell(notify::STOPPING);
    }
    if let Some(watch) = watch {
        watch.stop();
    }
    if let Some(control) = control {
        control.stop();
    }
    end_works(scrubbing, worker, filler);
    exports.lift_limits();
    let stopped = stop::in_order(servers, pool, &args.pool, printer);
    if let Some(recorder) = recorder {
        recorder.finish(printer);
    }
    if let Some(tier) = tier {
        tier.save();
    }
    verdict(command.map(|_| ended.map_or(0, child::exit_code)), stopped, printer)
}

/// End what works beside clients, after the steps that are under way.
fn end_works(scrubbing: Option<Scrubbing>, worker: Option<Worker>, filler: Option<IndexFiller>) {
    if let Some(scrubbing) = scrubbing {
        scrubbing.stop();
    }
    if let Some(worker) = worker {
        worker.stop();
    }
    if let Some(filler) = filler {
        filler.stop();
    }
}

/// What verifies the pool while it is served, if that is asked for.
fn scrubbing(pool: &Pool, args: &ServeArgs, worker: Option<&Worker>) -> Result<Option<Scrubbing>> {
    let start = |rate: ByteSize| {
        Scrubbing::start(pool, &args.pool, rate.bytes(), worker.map(Worker::knobs))
    };
    args.scrub.scrub_rate.map(start).transpose()
}

/// Options that mean nothing without others.
fn refuse_nonsense(args: &ServeArgs) -> Result<()> {
    if args.rescue.rescue.is_some() && !args.read_only {
        return Err(Failure::nothing_done(
            "--rescue changes nothing, and needs --read-only with it",
        ));
    }
    let snapshots = &args.snapshots;
    if snapshots.snapshot_every.is_none() && !snapshots.keep.keep().is_empty() {
        return Err(Failure::nothing_done("rules of what to keep need --snapshot-every")
            .hint("to prune snapshots that you made: onefold volume prune"));
    }
    match &args.record.record {
        Some(file) => must_be_elsewhere(("pool", &args.pool), file),
        None => Ok(()),
    }
}

/// The snapshots that it makes by itself, if any.
fn schedule(args: &ServeArgs) -> Option<Schedule> {
    let every = args.snapshots.snapshot_every?;
    Some(Schedule::new(every, args.snapshots.keep.keep()))
}

/// How serving ends: with the status of the command that it was for, if there was one.
fn verdict(command: Option<u8>, stopped: Result<()>, printer: &Printer) -> Result<ExitCode> {
    match command {
        Some(code @ 1..) => {
            if let Err(failure) = stopped {
                printer.failure(&failure);
            }
            Ok(ExitCode::from(code))
        }
        Some(0) => stopped.map(|()| ExitCode::SUCCESS),
        None => {
            stopped?;
            printer.note("stopped; everything is flushed");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The pool, its volumes, and servers for them.
fn start(
    parsed: &Parsed,
    args: &ServeArgs,
    how: &Listening,
    recording: Option<Prepared>,
    printer: &Printer,
) -> Result<(Ready, Servers)> {
    let late = Arc::new(LateExports::default());
    let exports: Arc<dyn Exports> = Arc::clone(&late) as _;
    let mut early = None;
    if !args.read_only && !Pool::exists_at(&args.pool) {
        store_folder::may_be_made(&args.pool, "pool", args.new.must_exist)?;
        refuse_socket_inside(&args.pool, how)?;
        // Nothing is made for a server that could not listen; who comes early waits.
        early = Some(Servers::start(&exports, how)?);
    }
    let ready = open_or_create(parsed, args, printer).and_then(|cached| {
        let closed = is_closed(args, &cached.pool, printer)?;
        let (exports, names, recorder) = pool_exports(&cached.pool, &args.pool, recording)?;
        // Before the first client: its writes shall not wait.
        let filler = (!args.read_only).then(|| IndexFiller::start(&cached.pool)).transpose()?;
        late.fill(Guard::new(Arc::clone(&exports), generation_of(&cached.pool), closed));
        Ok(Ready { cached, names, exports, recorder, filler })
    });
    let ready = match (ready, early) {
        (Ok(ready), Some(servers)) => return Ok((ready, servers)),
        (Ok(ready), None) => ready,
        (Err(failure), early) => {
            late.fill(ExportTable::new());
            if let Some(servers) = early {
                servers.stop(Duration::ZERO);
            }
            return Err(failure);
        }
    };
    match Servers::start(&exports, how) {
        Ok(servers) => Ok((ready, servers)),
        Err(failure) => {
            if let Some(recorder) = ready.recorder {
                recorder.abandon();
            }
            if let Some(filler) = ready.filler {
                filler.stop();
            }
            // The pool is as it was.
            ready.cached.pool.close().map_err(|error| Failure::pool(&args.pool, error))?;
            Err(failure)
        }
    }
}

/// The pool, as whoever asks for something sees it.
fn served(pool: &Pool, cache: &Arc<ServedCache>, live: Live, args: &ServeArgs) -> Served {
    let at = std::path::absolute(&args.pool).unwrap_or_else(|_| args.pool.clone());
    let (pool, cache) = (pool.clone(), Arc::clone(cache));
    Served { pool, at, cache, live, jobs: OnceLock::new() }
}

/// The socket on which commands find this server. Without it everything else is as it should be.
fn control(served: &Arc<Served>, args: &ServeArgs) -> Option<ControlSocket> {
    match ControlSocket::start(&args.pool, Arc::clone(served)) {
        Ok(control) => Some(control),
        // Another reader has it, or the folder cannot be changed.
        Err(error) if args.read_only => {
            tracing::info!("commands do not find this server: {error}");
            None
        }
        Err(error) => {
            tracing::warn!("commands do not find this server: {error}");
            None
        }
    }
}

/// A socket in the folder where a pool is to be made would be there before the pool is.
fn refuse_socket_inside(pool: &Path, how: &Listening) -> Result<()> {
    let Ok(pool) = pool.canonicalize() else { return Ok(()) };
    let sockets = how.places.to_open().iter().filter_map(|address| match address {
        ListenAddr::Unix(path) => Some((path, address.to_string())),
        _ => None,
    });
    let machines = how.machines.iter().map(|socket| (&socket.path, socket.to_string()));
    for (socket, address) in sockets.chain(machines) {
        if socket.parent().and_then(|folder| folder.canonicalize().ok()) == Some(pool.clone()) {
            let at = pool.display();
            let message = format!("{address} lies in the folder of the pool that is to be made");
            return Err(Failure::nothing_done(message)
                .hint(format!("make the pool first: onefold pool create {at}"))
                .hint("or put the socket elsewhere"));
        }
    }
    Ok(())
}

/// Where and how to listen.
fn listening(
    args: &ServeArgs,
    (handed, private): (Sockets, Option<&tempfile::TempDir>),
    tls: Option<TlsFiles>,
) -> Result<Listening> {
    let private = private.map(|folder| ListenAddr::Unix(folder.path().join(SOCKET)));
    Ok(Listening {
        places: Places::new((&args.listen, &args.vhost_user), handed.doors, private)?,
        machines: args.vhost_user.clone(),
        tls,
        allow_insecure: args.tls.allow_unencrypted_network_access,
        read_only: args.read_only,
        max_connections: args.crowd.max_connections,
        slow_request: args.slow.slow_request,
        group: args.access.group,
    })
}

/// All three TLS files, or none; the command line asks for them together.
fn tls_files(args: &ServeArgs) -> Option<TlsFiles> {
    Some(TlsFiles {
        certificate: args.tls.tls_cert.clone()?,
        key: args.tls.tls_key.clone()?,
        client_ca: args.tls.tls_ca.clone()?,
    })
}

fn private_folder() -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("onefold-")
        .tempdir()
        .map_err(|e| Failure::unusable("make a folder in", &std::env::temp_dir(), e))
}

fn open_or_create(parsed: &Parsed, args: &ServeArgs, printer: &Printer) -> Result<Cached> {
    let path = &args.pool;
    let budgets = args.memory.budgets()?;
    if args.rescue.rescue.is_some() {
        let (pool, _) = open_pool::to_read_or_rescue(path, budgets, args.rescue, printer)?;
        must_match(parsed, args, &pool)?;
        let life = Arc::new(Watched::of_nothing(&args.cache));
        return Ok(Cached { pool, tier: None, problem: None, life });
    }
    let open = || pool_cache::open(path, args.read_only, budgets, &args.cache, printer);
    if args.read_only || Pool::exists_at(path) {
        let cached = open()?;
        must_match(parsed, args, &cached.pool)?;
        return Ok(cached);
    }
    let failed = |error| Failure::pool(path, error);
    check_volume_size(args.size, args.store.chunk_size)?;
    make_pool::create(path, &args.store.settings()?, &args.memory, &args.cache, args.access)?;
    store_folder::tell_if_open(path, args.cache.cache.as_deref(), printer);
    let cached = open()?;
    cached.pool.create_volume(FIRST_VOLUME, args.size).map_err(failed)?;
    printer.note(&format!(
        "made pool '{}' with volume '{FIRST_VOLUME}' of {}",
        path.display(),
        args.size
    ));
    Ok(cached)
}

/// Refuse flags that ask for another pool than the one that is there.
fn must_match(parsed: &Parsed, args: &ServeArgs, pool: &Pool) -> Result<()> {
    let (has, wants) = (pool.settings(), args.store.settings()?);
    let container = |bytes| ByteSize(u64::from(bytes)).to_string();
    let mut rows = vec![
        ("chunk-size", has.chunk_size.to_string(), wants.chunk_size.to_string()),
        ("fingerprint", has.fingerprint.to_string(), wants.fingerprint.to_string()),
        ("compression", has.compression.to_string(), wants.compression.to_string()),
        ("container-size", container(has.container_bytes), container(wants.container_bytes)),
    ];
    let mut hint = "leave that flag out, or make another pool";
    if let Ok(main) = pool.volume(FIRST_VOLUME) {
        let size = ByteSize(main.size_bytes()).to_string();
        rows.push(("size", size, args.size.to_string()));
    } else if parsed.written.contains("size") {
        let at = args.pool.display();
        let message =
            format!("pool '{at}' exists and has no volume '{FIRST_VOLUME}' for --size to apply to");
        return Err(Failure::nothing_done(message)
            .hint("leave --size out, or use: onefold volume create or volume resize"));
    }
    for (flag, has, wants) in rows {
        if has != wants && parsed.written.contains(flag) {
            if flag == "size" {
                hint = "leave --size out, or use: onefold volume resize";
            }
            let message = format!(
                "pool '{}' exists, and its {} is {has}, not {wants}",
                args.pool.display(),
                flag.replace('-', " ")
            );
            return Err(Failure::nothing_done(message).hint(hint));
        }
    }
    Ok(())
}

/// Which generation is served; a rescued pool has none of its own.
fn generation_of(pool: &Pool) -> Generation {
    pool.generation().unwrap_or(Generation::FIRST)
}

/// Whether clients are refused that do not name the generation.
fn is_closed(args: &ServeArgs, pool: &Pool, printer: &Printer) -> Result<bool> {
    if args.read_only {
        // Nobody who was answered here can have written anything.
        return Ok(false);
    }
    let accept = || pool.accept_loss().map_err(|error| Failure::pool(&args.pool, error));
    let what = format!("pool '{}'", args.pool.display());
    guard::settle(&args.guard, &what, generation_of(pool), accept, printer)
}

/// Names of volumes and their sizes in bytes, for the greeting.
type Names = Vec<(String, u64)>;

/// What is served.
struct Ready {
    cached: Cached,
    names: Names,
    exports: Arc<PoolExports>,
    recorder: Option<Arc<Recorder>>,
    filler: Option<IndexFiller>,
}

/// Every volume under its name, recorded if that is asked for.
fn pool_exports(
    pool: &Pool,
    path: &Path,
    recording: Option<Prepared>,
) -> Result<(Arc<PoolExports>, Names, Option<Arc<Recorder>>)> {
    let volumes = pool.volumes();
    if volumes.is_empty() {
        let at = path.display();
        return Err(Failure::nothing_done(format!("pool '{at}' has no volume to serve"))
            .hint(format!("make one with: onefold volume create {at} {FIRST_VOLUME} --size 64G")));
    }
    let name = |volume: &onefold_pool::Volume| (volume.name(), volume.size_bytes());
    let names: Names = volumes.iter().map(name).collect();
    let all = names.iter().map(|(name, _)| name.as_str());
    let recorder = recording.map(|file| file.begin(all)).transpose()?.map(Arc::new);
    let exports = PoolExports::new(pool.clone(), recorder.as_ref().map(Arc::clone));
    Ok((Arc::new(exports), names, recorder))
}

/// Name the volumes of sockets for machines that are not there yet.
fn warn_of_missing(servers: &Servers, volumes: &[(String, u64)], printer: &Printer) {
    for socket in servers.machine_sockets() {
        let volume = socket.export.split('@').next().unwrap_or_default();
        if !volume.is_empty() && volumes.iter().all(|(name, _)| name != volume) {
            let at = socket.path.display();
            printer.warning(&format!(
                "there is no volume '{volume}': machines find no disk at {at} until it is made"
            ));
        }
    }
}

/// Say what is served and how to reach it.
fn introduce(
    args: &ServeArgs,
    servers: &Servers,
    volumes: &[(String, u64)],
    generation: u64,
    printer: &Printer,
) {
    let mode = if args.read_only { ", read-only" } else { "" };
    let pool = args.pool.display();
    printer.note(&format!("serving pool '{pool}'{mode}, generation {generation}"));
    for (address, tls) in servers.addresses() {
        for line in connect::volume_lines(volumes, address, tls) {
            printer.note(&line);
        }
    }
    for (address, tls) in servers.addresses() {
        printer.note(&format!("\nconnect over {address} with, for example:"));
        for line in connect::client_lines(address, &volumes[0].0, tls) {
            printer.note(&line);
        }
    }
    for socket in servers.machine_sockets() {
        let export = if socket.export.is_empty() { &volumes[0].0 } else { &socket.export };
        printer.note(&format!("\na virtual machine has '{export}' as its disk with:"));
        for line in connect::machine_lines(socket) {
            printer.note(&line);
        }
    }
    let all = servers.addresses().map(|(address, _)| address.to_string());
    let all: Vec<String> = all.chain(servers.machine_sockets().map(ToString::to_string)).collect();
    printer.note("\nCtrl-C stops the server with everything flushed");
    printer.always(&format!("listening on {}", all.join(", ")));
}

/// Serve until it is time to stop; how the command of `--run` ended, if that is why.
fn wait(
    events: &Events,
    pool: &Pool,
    reload: &Reload<'_>,
    (args, printer): (&ServeArgs, &Printer),
    (exports, mut schedule): (&PoolExports, Option<Schedule>),
) -> Option<std::process::ExitStatus> {
    let mut told = String::new();
    loop {
        match events.next() {
            Event::Stop => return None,
            Event::CommandEnded(status) => return Some(status),
            Event::Reload => reload.run(pool, printer),
            Event::ShowStatus => match pool.status() {
                Ok(status) => {
                    let cache = reload.cache.report();
                    let text = status_text(&args.pool, &status, cache.as_ref(), str::to_owned);
                    printer.always(&text);
                }
                Err(error) => tracing::error!("no status: {error}"),
            },
            Event::Relieve => tell_once(pool.relieve(), &mut told),
            Event::Tick => {
                reload.cache.tick();
                tell_once(pool.maintain(), &mut told);
                exports.end_abandoned_recordings(Instant::now());
                if let Some(schedule) = &mut schedule {
                    schedule.tick(pool, &|volume| exports.clients_of(volume) > 0);
                }
            }
        }
    }
}

/// Clients are answered with errors of their own; the log needs each once.
fn tell_once(flushed: std::result::Result<(), PoolError>, told: &mut String) {
    let problem = flushed.err().map(|e| e.to_string()).unwrap_or_default();
    if !problem.is_empty() && problem != *told {
        tracing::error!("flushing the pool: {problem}");
    }
    *told = problem;
}

#[cfg(test)]
mod tests {
    use std::io::{Result as IoResult, Write};
    use std::sync::Mutex;

    use super::*;
    use crate::args::Command;
    use crate::commands::heard;
    use crate::output::Heard;
    use crate::test_pool;

    /// What the log says.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> IoResult<()> {
            Ok(())
        }
    }

    #[test]
    fn a_pool_that_cannot_be_flushed_is_told_once_until_it_can_again() {
        let log = Log::default();
        let to = log.clone();
        let writer = tracing_subscriber::fmt().with_writer(move || to.clone()).finish();
        let flush = |problem: &str| match problem {
            "" => Ok(()),
            problem => Err(PoolError::Setting(problem.to_owned())),
        };
        tracing::subscriber::with_default(writer, || {
            let mut told = String::new();
            for problem in ["", "one", "one", "two", "", "two", ""] {
                tell_once(flush(problem), &mut told);
            }
        });
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let lines = log.lines().map(|line| line.rsplit_once("flushing the pool: ").unwrap().1);
        let problems: Vec<String> =
            lines.map(|line| line.trim_end_matches("\u{1b}[0m").to_owned()).collect();
        let whole = |problem: &str| PoolError::Setting(problem.to_owned()).to_string();
        assert_eq!(problems, ["one", "two", "two"].map(whole));
    }

    fn args(line: &str) -> ServeArgs {
        let Command::Serve(args) = heard::parsed(line) else { panic!("{line}") };
        *args
    }

    fn parsed(line: &str, written: &[&str]) -> Parsed {
        let command = heard::parsed(line);
        let Command::Serve(serve) = command else { panic!("{line}") };
        let global = crate::args::GlobalArgs {
            config: None,
            log: "warn".to_owned(),
            log_format: "text".to_owned(),
            quiet: false,
        };
        let args = crate::args::Args { global, command: Command::Serve(serve) };
        let written = written.iter().map(|&flag| flag.to_owned()).collect();
        Parsed { args, written, passed_over: Vec::new() }
    }

    #[test]
    fn serving_ends_as_its_command_did_or_as_the_pool_was_closed() {
        let ended = |command, stopped: Result<()>| {
            let heard = Heard::default();
            let code = verdict(command, stopped, &Printer::heard(&heard));
            let said = std::mem::take(&mut *heard.lock().unwrap()).1;
            (code.map(|code| format!("{code:?}")).map_err(|failure| failure.message), said)
        };
        let exit = |code| Ok(format!("{:?}", ExitCode::from(code)));
        let bad = || Err(Failure::bad("full"));
        let none = String::new();
        assert_eq!(ended(None, Ok(())), (exit(0), "stopped; everything is flushed\n".to_owned()));
        assert_eq!(ended(None, bad()), (Err("full".to_owned()), none.clone()));
        assert_eq!(ended(Some(0), Ok(())), (exit(0), none.clone()));
        assert_eq!(ended(Some(0), bad()), (Err("full".to_owned()), none.clone()));
        assert_eq!(ended(Some(7), Ok(())), (exit(7), none));
        assert_eq!(ended(Some(7), bad()), (exit(7), "error: full\n".to_owned()));
    }

    #[test]
    fn options_that_mean_nothing_alone_are_refused() {
        let refused =
            |line: &str| refuse_nonsense(&args(line)).err().map(|failure| failure.message);
        assert_eq!(refused("serve p"), None);
        assert!(refused("serve p --rescue").unwrap().starts_with("--rescue changes nothing"));
        assert_eq!(refused("serve p --rescue --read-only"), None);
        assert_eq!(refused("serve p --read-only"), None);
        let rules = "rules of what to keep need --snapshot-every";
        assert_eq!(refused("serve p --keep-last 2"), Some(rules.to_owned()));
        assert_eq!(refused("serve p --keep-last 2 --snapshot-every 1h"), None);
        assert_eq!(refused("serve p --snapshot-every 1h"), None);
        assert!(schedule(&args("serve p --snapshot-every 1h")).is_some());
        assert!(schedule(&args("serve p")).is_none());
    }

    #[test]
    fn flags_that_ask_for_another_pool_are_refused_by_name() {
        let pool = test_pool::pool();
        let refused = |line: &str, written: &[&str]| {
            let (parsed, args) = (parsed(line, written), args(line));
            must_match(&parsed, &args, &pool).err().map(|failure| (failure.message, failure.hints))
        };
        assert_eq!(refused("serve p --chunk-size 8K", &[]), None, "of a settings file, say");
        let (message, hints) = refused("serve p --chunk-size 8K", &["chunk-size"]).unwrap();
        assert_eq!(message, "pool 'p' exists, and its chunk size is 4 KiB, not 8 KiB");
        assert_eq!(hints, ["leave that flag out, or make another pool"]);
        assert_eq!(refused("serve p --chunk-size 4K", &["chunk-size"]), None);
        let (message, _) = refused("serve p --size 1G", &["size"]).unwrap();
        assert!(message.ends_with("has no volume 'main' for --size to apply to"), "{message}");
        assert_eq!(refused("serve p --size 1G", &[]), None);
        pool.create_volume(FIRST_VOLUME, ByteSize(1 << 30)).unwrap();
        assert_eq!(refused("serve p --size 1G", &["size"]), None);
        let (message, hints) = refused("serve p --size 2G", &["size"]).unwrap();
        assert_eq!(message, "pool 'p' exists, and its size is 1 GiB, not 2 GiB");
        assert_eq!(hints, ["leave --size out, or use: onefold volume resize"]);
    }

    #[test]
    fn how_to_reach_what_is_served_is_said_for_every_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        let line = format!(
            "serve {at} --listen unix:{at}/s --vhost-user {at}/m --vhost-user {at}/n=other@3"
        );
        let args = args(&line);
        let how = listening(&args, (Sockets::take().unwrap(), None), None).unwrap();
        let refused = refuse_socket_inside(folder.path(), &how).unwrap_err().message;
        assert!(refused.ends_with("/s lies in the folder of the pool that is to be made"));
        let elsewhere = tempfile::tempdir().unwrap();
        assert!(refuse_socket_inside(elsewhere.path(), &how).is_ok());
        assert!(refuse_socket_inside(&folder.path().join("new"), &how).is_ok());
        let exports: Arc<dyn Exports> = Arc::new(ExportTable::new());
        let servers = Servers::start(&exports, &how).unwrap();
        let heard = Heard::default();
        let printer = Printer::heard(&heard);
        let volumes = [("main".to_owned(), 1 << 30), ("two".to_owned(), 1 << 20)];
        warn_of_missing(&servers, &volumes, &printer);
        let said = std::mem::take(&mut *heard.lock().unwrap()).1.replace(&at, ".");
        let missing = "warning: there is no volume 'other': machines find no disk at ./n until it \
                       is made\n";
        assert_eq!(said, missing);
        introduce(&args, &servers, &volumes, 7, &printer);
        let said = std::mem::take(&mut *heard.lock().unwrap()).1.replace(&at, ".");
        servers.stop(Duration::ZERO);
        assert!(said.starts_with("serving pool '.', generation 7\n"), "{said}");
        for part in [
            "\n  main  1 GiB  nbd+unix:///main?socket=./s\n",
            "\n  two   1 MiB  nbd+unix:///two?socket=./s\n",
            "\n\nconnect over unix:./s with, for example:\n",
            "nbd+unix:///main?socket=./s",
            "\n\na virtual machine has 'main' as its disk with:\n",
            "\n\na virtual machine has 'other@3' as its disk with:\n",
            "path=./m",
            "path=./n",
            "\n\nCtrl-C stops the server with everything flushed\n\
             listening on unix:./s, vhost-user:./m, vhost-user:./n\n",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
