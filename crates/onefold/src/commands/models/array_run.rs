//! `onefold array run`: a server and its load in virtual time.
//! Room: onefold.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_array::spec::SpecBuilder;
use onefold_array::{Outcome, Report, RunError, RunOptions, ServerSpec, run as simulate};
use onefold_flash::DriveSpec;
use onefold_flash::spec::PRESET_NAMES;
use onefold_sim::ChromeTrace;
use onefold_workload::TraceFormat;
use serde::Serialize;

use super::ssd_run::{self, json_value, points};
use super::{array_flow, array_report, array_spec, ssd_report, ssd_spec, trace_replay};
use crate::args::models::{ArrayRunArgs, DriveChoice};
use crate::failure::{Failure, Result};
use crate::out_file::OutFile;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress;

#[derive(Serialize)]
struct RunJson<'a> {
    schema_version: u32,
    assumed_keys: Vec<&'static str>,
    #[serde(flatten)]
    report: &'a Report,
}

#[derive(Serialize)]
struct SweepJson<'a> {
    schema_version: u32,
    assumed_keys: Vec<&'static str>,
    runs: Vec<PointJson<'a>>,
}

#[derive(Serialize)]
struct PointJson<'a> {
    set: serde_json::Map<String, serde_json::Value>,
    #[serde(flatten)]
    report: &'a Report,
}

/// One run, or a sweep.
pub fn run(args: &ArrayRunArgs, printer: &Printer) -> Result<()> {
    let mut builder = array_spec::builder(args.spec.as_deref(), &args.server)?;
    if let Some(trace) = &args.trace {
        builder = array_spec::set_text(builder, "workload.trace", trace)?;
    }
    let schema_version = JSON_SCHEMA_VERSION;
    let assumed_keys = builder.assumed();
    if args.sweep.is_empty() {
        let spec = with_a_trace(args, array_spec::build(&builder)?)?;
        let report = single(args, &spec, printer)?;
        if args.json {
            return printer.json(&RunJson { schema_version, assumed_keys, report: &report });
        }
        return printer.data(&array_report::text(&report, assumed_keys.len(), printer));
    }
    let points = points(&args.sweep, "onefold array spec")?;
    let specs = points.iter().map(|point| with_a_trace(args, at(&builder, point)?));
    let specs = specs.collect::<Result<Vec<_>>>()?;
    if specs.iter().any(|spec| spec.workload.trace == "-") {
        let message = "--trace -: a sweep reads its trace once for every run";
        return Err(Failure::nothing_done(message));
    }
    let reports = all(&specs, args, printer)?;
    if args.json {
        let runs = points.iter().zip(&reports).map(|(point, report)| {
            let set = point.iter().map(|(key, value)| (key.clone(), json_value(value)));
            PointJson { set: set.collect(), report }
        });
        return printer.json(&SweepJson { schema_version, assumed_keys, runs: runs.collect() });
    }
    let names: Vec<String> = points.iter().map(|point| ssd_report::named(point)).collect();
    printer.data(&array_report::sweep(&names, &reports, printer))
}

/// One run, with its pictures.
fn single(args: &ArrayRunArgs, spec: &ServerSpec, printer: &Printer) -> Result<Report> {
    // Files that cannot be written are found before the run.
    let create =
        |path: &PathBuf| OutFile::create(path, args.force).map(|file| (path.clone(), file));
    let flow = args.flow.as_ref().map(create).transpose()?;
    let chrome = args.chrome_trace.as_ref().map(create).transpose()?;
    let report = match chrome {
        None => all(std::slice::from_ref(spec), args, printer)?.remove(0),
        Some((path, file)) => {
            let Outcome { report, steps } = replay(spec, args.format, args.chrome_steps)?;
            let trace = steps.unwrap_or_else(|| ChromeTrace::new(0));
            ssd_run::write_chrome(&path, file, &trace)?;
            if trace.left_out() > 0 {
                printer.note(&format!(
                    "the Chrome trace has the first {} steps; {} more are left out",
                    args.chrome_steps,
                    trace.left_out()
                ));
            }
            report
        }
    };
    if let Some((path, mut file)) = flow {
        let written = file.write_all(array_flow::svg(&report).as_bytes());
        written.map_err(|error| Failure::broke("write", &path, error))?;
        file.finish()?;
    }
    Ok(report)
}

/// A description that fits the arguments: a format is that of a trace.
fn with_a_trace(args: &ArrayRunArgs, spec: ServerSpec) -> Result<ServerSpec> {
    if args.format.is_some() && spec.workload.trace.is_empty() {
        return Err(Failure::nothing_done("--format: there is no trace that it could be of")
            .hint("a trace is given with --trace, or with the key workload.trace"));
    }
    Ok(spec)
}

/// Runs a server, with its trace and its kind of drive, if it has them.
fn replay(spec: &ServerSpec, format: Option<TraceFormat>, steps: usize) -> Result<Outcome> {
    let requests = match spec.workload.trace.as_str() {
        "" => None,
        trace => Some(trace_replay::replay(Path::new(trace), format)?),
    };
    let (drive, table_drive) = (drive_file(&spec.ssd.model)?, drive_file(&spec.table_ssd.model)?);
    let options = RunOptions { requests, drive, table_drive, steps };
    simulate(spec, options).map_err(|error| failed(&error))
}

/// What is no preset of a drive is a file that describes one.
fn drive_file(model: &str) -> Result<Option<DriveSpec>> {
    if model.is_empty() || PRESET_NAMES.contains(&model) {
        return Ok(None);
    }
    let choice = DriveChoice { preset: None, set: Vec::new(), seed: None };
    ssd_spec::build(ssd_spec::builder(Some(Path::new(model)), &choice)?).map(Some)
}

fn failed(error: &RunError) -> Failure {
    match error {
        RunError::Policy(_) | RunError::Trace(_) | RunError::Drive(..) => {
            Failure::nothing_done(error.to_string())
        }
        _ => Failure::bad(error.to_string()),
    }
}

fn at(builder: &SpecBuilder, point: &[(String, String)]) -> Result<ServerSpec> {
    let with = point.iter().try_fold(builder.clone(), |builder, (key, value)| {
        array_spec::set(builder, &format!("{key}={value}"))
    });
    array_spec::build(&with?)
}

/// Runs servers side by side; the reports are in the order of the descriptions.
fn all(specs: &[ServerSpec], args: &ArrayRunArgs, printer: &Printer) -> Result<Vec<Report>> {
    let threads = match args.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let bar = progress::counted(printer, "running", "runs", Some(specs.len() as u64));
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Outcome>>>> =
        specs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(specs.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(spec) = specs.get(at) else { return };
                    let result = replay(spec, args.format, 0);
                    *results[at].lock().expect("nobody panics with it") = Some(result);
                    bar.inc(1);
                }
            });
        }
    });
    let results = results.into_iter().map(|slot| slot.into_inner().expect("nobody panics with it"));
    results
        .map(|result| result.expect("every description was taken"))
        .map(|result| result.map(|outcome| outcome.report))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::commands::heard::Folder;

    #[test]
    fn a_run_has_the_pictures_that_are_asked_for_and_a_sweep_a_line_for_each() {
        let here = Folder::new();
        let small = "array run --set workload.requests=200";
        let said =
            here.ok(&format!("{small} --chrome-trace ./c.json --chrome-steps 3 --flow ./f.svg"));
        let [cut] = said.err.lines().collect::<Vec<_>>()[..] else { panic!("{}", said.err) };
        assert!(cut.starts_with("the Chrome trace has the first 3 steps; "), "{cut}");
        assert!(cut.ends_with(" more are left out") && !cut.contains("; 0 more"), "{cut}");
        assert!(said.out.ends_with(
            " keys behind these figures are assumptions; onefold array spec names them.\n"
        ));
        let svg = std::fs::read_to_string(here.path("f.svg")).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        let chrome = std::fs::read_to_string(here.path("c.json")).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&chrome).is_ok());
        let whole = here.ok(&format!("{small} --chrome-trace ./d.json --chrome-steps 100000"));
        assert_eq!((&whole.out, &*whole.err), (&said.out, ""));
        let swept = here.ok(&format!("{small} --sweep seed=1,2"));
        let names: Vec<&str> =
            swept.out.lines().skip(2).map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(names, ["seed=1", "seed=2"]);
        let json = here.ok(&format!("{small} --json")).json();
        assert!(json["assumed_keys"].as_array().unwrap().len() > 20);
        let runs = here.ok(&format!("{small} --sweep seed=1,2 --json --threads 1")).json();
        assert_eq!(runs["runs"][1]["set"]["seed"], 2);
        for (line, why) in [
            ("--format msr", "--format: there is no trace that it could be of"),
            ("--trace - --sweep seed=1,2", "--trace -: a sweep reads its trace once for every run"),
            ("--set ssd.model=./none.toml", "none.toml"),
            ("--flow ./f.svg", "'./f.svg' exists already"),
        ] {
            let said = here.refused(&format!("{small} {line}"), 2);
            assert!(said.contains(why), "{line}: {said}");
        }
        let presets = here.ok("scrambler list").out;
        assert!(presets.starts_with("PRESET  ") && presets.contains("\nlba-prbs31 "), "{presets}");
        let listed = here.ok("scrambler list --json");
        assert!(serde_json::from_str::<serde_json::Value>(&listed.out).is_ok());
        let shown = here.ok("scrambler show lba-prbs31").out;
        assert!(shown.starts_with("name = \"lba-prbs31\"\n"), "{shown}");
    }
}
