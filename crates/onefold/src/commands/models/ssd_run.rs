//! `onefold ssd run`: a drive and a workload in virtual time.
//! Room: onefold.

use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use onefold_flash::DriveSpec;
use onefold_flash::controller::Share;
use onefold_flash::run::{
    Completion, OpenTrace, Outcome, Report, RunError, RunOptions, TraceRequests, run as simulate,
    sweep,
};
use onefold_sim::ChromeTrace;
use onefold_workload::{LoggedRequest, RequestLog};
use serde::Serialize;

use super::{ssd_report, ssd_spec, trace_replay};
use crate::args::models::SsdRunArgs;
use crate::failure::{Failure, Result};
use crate::out_file::OutFile;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;
use crate::table::plural;

/// How often the bar moves.
const REDRAW: Duration = Duration::from_millis(100);

#[derive(Serialize)]
struct RunJson<'a> {
    schema_version: u32,
    #[serde(flatten)]
    report: &'a Report,
}

#[derive(Serialize)]
struct SweepJson<'a> {
    schema_version: u32,
    runs: Vec<PointJson<'a>>,
}

#[derive(Serialize)]
struct PointJson<'a> {
    set: serde_json::Map<String, serde_json::Value>,
    #[serde(flatten)]
    report: &'a Report,
}

/// One run, or a sweep.
pub fn run(args: &SsdRunArgs, printer: &Printer) -> Result<()> {
    let mut builder = ssd_spec::builder(args.spec.as_deref(), &args.drive)?;
    if let Some(state) = &args.precondition {
        builder = ssd_spec::set(builder, &format!("precondition={state}"))?;
    }
    if let (Some(requests), None) = (args.requests, &args.trace) {
        builder = ssd_spec::set(builder, &format!("workload.requests={requests}"))?;
    }
    if args.sweep.is_empty() {
        return single(args, &ssd_spec::build(builder)?, printer);
    }
    let points = points(&args.sweep, "onefold ssd spec")?;
    let specs = points
        .iter()
        .map(|point| {
            let with = point.iter().try_fold(builder.clone(), |builder, (key, value)| {
                ssd_spec::set(builder, &format!("{key}={value}"))
            });
            ssd_spec::build(with?)
        })
        .collect::<Result<Vec<DriveSpec>>>()?;
    many(args, &points, &specs, printer)
}

/// What went wrong in a run, with the exit status that tells input from failure.
fn failed(error: &RunError, spec: &DriveSpec) -> Failure {
    let message = error.to_string();
    match error {
        RunError::Ftl { .. } | RunError::Idle { .. } | RunError::Stalled(_) | RunError::Log(_) => {
            Failure::bad(message)
        }
        _ => {
            let refused = Failure::nothing_done(message);
            match error.remedy(spec) {
                Some(remedy) => refused.hint(format!("--set {remedy}")),
                None => refused,
            }
        }
    }
}

/// The requests of the trace, if there is one.
fn open_trace(args: &SsdRunArgs) -> Result<Option<TraceRequests>> {
    args.trace.as_deref().map(|path| trace_replay::replay(path, args.format)).transpose()
}

fn from_stdin(args: &SsdRunArgs) -> bool {
    args.trace.as_deref() == Some(Path::new("-"))
}

/// Threads that may be used.
fn threads(args: &SsdRunArgs) -> usize {
    match args.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

// ---- one run ----------------------------------------------------------------------------------

fn single(args: &SsdRunArgs, spec: &DriveSpec, printer: &Printer) -> Result<()> {
    let trace = open_trace(args)?;
    let mut log =
        args.request_log.as_deref().map(|path| Log::create(path, args.force)).transpose()?;
    let chrome = args.chrome_trace.as_deref();
    let mut chrome_file = chrome.map(|path| OutFile::create(path, args.force)).transpose()?;
    let answered = AtomicU64::new(0);
    let total = if trace.is_some() { args.requests } else { Some(spec.workload.requests) };
    let outcome = {
        let mut observe = |done: &Completion| match &mut log {
            None => Ok(()),
            Some(log) => log.write(done),
        };
        let mut options = RunOptions {
            trace,
            requests: args.requests,
            progress: Some(&answered),
            chrome_operations: if chrome.is_some() { args.chrome_operations } else { 0 },
            // Whoever reads ahead of a run that fails would wait for more of stdin.
            threads: if from_stdin(args) { 1 } else { threads(args) },
            ..RunOptions::default()
        };
        if args.request_log.is_some() {
            options.observer = Some(&mut observe);
        }
        watched(spec, options, &answered, total, printer)?
    };
    if let Some(log) = log {
        log.finish()?;
    }
    if let (Some(path), Some(file), Some(trace)) = (chrome, chrome_file.take(), &outcome.chrome) {
        write_chrome(path, file, trace)?;
        if trace.left_out() > 0 {
            let kept = plural(args.chrome_operations as u64, "operation", "operations");
            printer.note(&format!("kept the first {kept} in the Chrome trace"));
        }
    }
    if args.json {
        let schema_version = JSON_SCHEMA_VERSION;
        return printer.json(&RunJson { schema_version, report: &outcome.report });
    }
    printer.data(&ssd_report::text(&outcome.report, printer))
}

/// Runs beside a bar.
fn watched(
    spec: &DriveSpec,
    options: RunOptions<'_>,
    answered: &AtomicU64,
    total: Option<u64>,
    printer: &Printer,
) -> Result<Outcome> {
    let bar = progress::counted(printer, "running", "requests", total);
    let result = std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let work = scope.spawn(|| {
            let _done = done;
            simulate(spec, options)
        });
        // The run's end of the channel closes when it returns.
        while is_done.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
            bar.set_position(answered.load(Ordering::Relaxed));
        }
        work.join().expect("the run does not panic")
    });
    result.map_err(|error| failed(&error, spec))
}

// ---- sweeps -----------------------------------------------------------------------------------

/// Keys and values of one run.
pub type Point = Vec<(String, String)>;

/// Every combination, the last key changing fastest; `keys` is the command that lists them.
pub fn points(sweeps: &[String], keys: &str) -> Result<Vec<Point>> {
    let mut points: Vec<Point> = vec![Vec::new()];
    for sweep in sweeps {
        let wrong = || {
            let message = format!("--sweep {sweep}: expected KEY=V1,V2,...");
            Failure::nothing_done(message).hint(format!("for a list of all keys: {keys}"))
        };
        let (key, values) = sweep.split_once('=').ok_or_else(wrong)?;
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        if key.trim().is_empty() || values.iter().any(|value| value.is_empty()) {
            return Err(wrong());
        }
        if points[0].iter().any(|(earlier, _)| earlier == key.trim()) {
            return Err(Failure::nothing_done(format!("--sweep {key}: given twice")));
        }
        let with = |point: &Point, value: &&str| {
            let mut point = point.clone();
            point.push((key.trim().to_owned(), (*value).to_owned()));
            point
        };
        points = points
            .iter()
            .flat_map(|point| values.iter().map(move |value| with(point, value)))
            .collect();
    }
    Ok(points)
}

fn many(args: &SsdRunArgs, points: &[Point], specs: &[DriveSpec], printer: &Printer) -> Result<()> {
    if from_stdin(args) {
        return Err(Failure::nothing_done("--trace -: a sweep reads its trace once for every run"));
    }
    let results = watched_sweep(args, specs, threads(args), printer);
    let mut reports = Vec::with_capacity(results.len());
    for ((point, spec), result) in points.iter().zip(specs).zip(results) {
        let report = result.map_err(|error| {
            let mut failure = failed(&error, spec);
            failure.message = format!("{}: {}", ssd_report::named(point), failure.message);
            failure
        });
        reports.push(report?);
    }
    if args.json {
        let runs = points.iter().zip(&reports).map(|(point, report)| {
            let set = point.iter().map(|(key, value)| (key.clone(), json_value(value)));
            PointJson { set: set.collect(), report }
        });
        let schema_version = JSON_SCHEMA_VERSION;
        return printer.json(&SweepJson { schema_version, runs: runs.collect() });
    }
    printer.data(&ssd_report::sweep(points, &reports, printer))
}

/// Runs them beside a bar over the requests of all of them, or over runs where a trace does not
/// say how many requests it has.
fn watched_sweep(
    args: &SsdRunArgs,
    specs: &[DriveSpec],
    threads: usize,
    printer: &Printer,
) -> Vec<std::result::Result<Report, RunError>> {
    let requests: Option<u64> = match (&args.trace, args.requests) {
        (Some(_), None) => None,
        (Some(_), Some(requests)) => Some(requests.saturating_mul(specs.len() as u64)),
        _ => Some(specs.iter().map(|spec| spec.workload.requests).sum()),
    };
    let bar = progress::counted(printer, "", "requests", requests);
    let finished = AtomicUsize::new(0);
    let answered: Vec<AtomicU64> = specs.iter().map(|_| AtomicU64::new(0)).collect();
    let open: &OpenTrace<'_> =
        &|| open_trace(args).map_err(|failure| RunError::Trace(failure.message));
    std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let work = scope.spawn(|| {
            let _done = done;
            sweep(specs, args.requests, threads, open, &answered, &|| {
                finished.fetch_add(1, Ordering::Relaxed);
            })
        });
        // The sweep's end of the channel closes when it returns.
        while is_done.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
            let runs = finished.load(Ordering::Relaxed);
            bar.set_message(&format!("{runs} of {} runs done,", specs.len()));
            bar.set_position(answered.iter().map(|count| count.load(Ordering::Relaxed)).sum());
        }
        work.join().expect("the sweep does not panic")
    })
}

/// A value as the number or switch that it is, else as text.
pub fn json_value(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

// ---- files ------------------------------------------------------------------------------------

/// Writes a picture of a run.
pub fn write_chrome(path: &Path, file: OutFile, trace: &ChromeTrace) -> Result<()> {
    let broke = |error: &dyn std::fmt::Display| Failure::broke("write", path, error);
    let mut to = BufWriter::new(file);
    trace.write(&mut to).map_err(|error| broke(&error))?;
    to.into_inner().map_err(|error| broke(error.error()))?.finish()
}

/// The log of a run, which appears when it is whole.
struct Log {
    path: std::path::PathBuf,
    log: RequestLog<BufWriter<OutFile>>,
}

impl Log {
    fn create(path: &Path, force: bool) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let to = BufWriter::with_capacity(1 << 18, OutFile::create(path, force)?);
        let log = match extension {
            Some("csv") => RequestLog::csv(to),
            Some("parquet" | "pq") => RequestLog::parquet(to),
            _ => {
                let name = path.display();
                let message = format!("--request-log '{name}': the name does not say the format");
                return Err(Failure::nothing_done(message)
                    .hint("accepted are names that end in .csv or .parquet"));
            }
        };
        let log = log.map_err(|error| Failure::unusable("write", path, error))?;
        Ok(Self { path: path.to_owned(), log })
    }

    fn write(&mut self, done: &Completion) -> std::result::Result<(), RunError> {
        let Completion { request, answered_ns, breakdown, verdict } = done;
        // Waiting, with the background or without; all else is service.
        let waits = [Share::Queue, Share::Background];
        let queue_wait_ns = waits.map(|share| breakdown[share as usize]).iter().sum();
        let row = LoggedRequest {
            seq: request.number,
            submit_ns: request.arrival_ns,
            complete_ns: *answered_ns,
            op: request.op,
            lpn: u64::from(request.lpn),
            pages: u64::from(request.pages),
            queue_wait_ns,
            service_ns: breakdown.iter().sum::<u64>() - queue_wait_ns,
            verdict: verdict.name(),
        };
        let path = &self.path;
        self.log
            .write(&row)
            .map_err(|error| RunError::Log(format!("cannot write '{}': {error}", path.display())))
    }

    fn finish(self) -> Result<()> {
        let Self { path, log } = self;
        let broke = |error: &dyn std::fmt::Display| Failure::broke("write", &path, error);
        let to = log.finish().map_err(|error| broke(&error))?;
        to.into_inner().map_err(|error| broke(error.error()))?.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_every_combination_in_order() {
        let sweeps = ["a=1,2", "b = x , y"].map(str::to_owned);
        let points = points(&sweeps, "onefold ssd spec").expect("well-formed");
        let names: Vec<String> = points.iter().map(|point| ssd_report::named(point)).collect();
        assert_eq!(names, ["a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"]);
        for wrong in ["a", "a=", "a=1,,2", "=1"] {
            assert!(super::points(&[wrong.to_owned()], "onefold ssd spec").is_err(), "{wrong}");
        }
        assert!(super::points(&["a=1".to_owned(), "a=2".to_owned()], "onefold ssd spec").is_err());
        assert_eq!(json_value("0.5"), serde_json::json!(0.5));
        assert_eq!(json_value("zipf"), serde_json::json!("zipf"));
    }

    #[test]
    fn a_run_writes_what_it_is_asked_for_and_says_what_it_left_out() {
        use crate::commands::heard::Folder;

        let here = Folder::new();
        let small = "precondition = \"none\"\n\
                     geometry.blocks_per_plane = 16\n\
                     geometry.pages_per_block = 16\n\
                     ftl.over_provisioning = 0.5\n\
                     ftl.gc_reserve_blocks = 2\n\
                     workload.requests = 200\n";
        here.file("s.toml", small.as_bytes());
        let files = "--chrome-trace ./c.json --request-log ./r.csv";
        let said = here.ok(&format!("ssd run ./s.toml {files} --chrome-operations 1"));
        assert_eq!(said.err, "kept the first 1 operation in the Chrome trace\n");
        assert!(said.out.contains("200 of 200 answered in "), "{}", said.out);
        let chrome = std::fs::read_to_string(here.path("c.json")).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&chrome).is_ok());
        let log = std::fs::read_to_string(here.path("r.csv")).unwrap();
        assert_eq!(log.lines().count(), 201);
        // Times add up: what a request waited and was served is what it took.
        let head: Vec<&str> = log.lines().next().unwrap().split(',').collect();
        for row in log.lines().skip(1) {
            let cell = |name: &str| {
                let at = head.iter().position(|column| *column == name).unwrap();
                row.split(',').nth(at).unwrap().parse::<u64>().unwrap()
            };
            let took = cell("complete_ns") - cell("submit_ns");
            assert_eq!(cell("queue_wait_ns") + cell("service_ns"), took, "{row}");
        }
        let said = here.ok(&format!("ssd run ./s.toml {files} -f --requests 5 --json"));
        assert_eq!((&*said.err, &said.json()["requests"]["completed"]), ("", &5.into()));
        let many = here.ok("ssd run ./s.toml --sweep queue_depth=1,2 --json").json();
        assert_eq!(many["runs"][1]["set"]["queue_depth"], 2);
        for (line, why) in [
            ("./s.toml --request-log ./r.txt", "the name does not say the format"),
            ("./s.toml --request-log ./r.csv", "exists already"),
            ("./s.toml --sweep queue_depth", "expected KEY=V1,V2,..."),
            ("./s.toml --sweep queue_depth=1,2 --trace -", "a sweep reads its trace once"),
            ("./none.toml", "./none.toml"),
        ] {
            let said = here.refused(&format!("ssd run {line}"), 2);
            assert!(said.contains(why), "{line}: {said}");
        }
        assert!(here.refused("ssd idle ./none", 2).contains("./none"));
        assert!(here.refused("ssd smart ./none", 2).contains("./none"));
    }
}
