//! FIDR: what a write of 4 KiB costs drives whose chunks are larger.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "Why Small Chunking?". The talk runs FIU traces. They are not ours to
//! hand on, so writes are isolated here, and the traces that a user hands in stand beside them.

use std::path::{Path, PathBuf};

use onefold_array::{Report, RunOptions, run as run_server};
use onefold_workload::import::Format;
use onefold_workload::trace::OpenError;
use onefold_workload::{Identity, Op, Trace, TraceFormat, TraceRequests};

use super::{Server, run_all};
use crate::error::{LabError, Result};
use crate::series::{Data, Line};
use crate::settings::Settings;

/// The size of a chunk that the talk's number is of.
const PUBLISHED_KIB: u64 = 32;
/// What stands where no trace was handed in.
const NO_TRACE: &str = "no FIU trace was handed in; `--data FILE` takes one, or a folder of them";

/// Writes to chunks of several sizes: of 4 KiB, one at a time, and those of FIU traces.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let sizes = settings.numbers("chunk_kib")?;
    let isolated = |&kib: &u64| stored(kib).with("workload.request_bytes", 4096);
    let servers: Vec<Server> = sizes.iter().map(isolated).collect();
    let reports = run_all(settings, &servers)?;
    let drives = Line::new("bytes at drives for each that a client writes", "x");
    let drives = drives.over("chunk size", "KiB").of("software");
    let all = Line::new("the same with the client's own", "x").over("chunk size", "KiB");
    let all = all.of("software");
    for (&kib, report) in sizes.iter().zip(&reports) {
        let moved = report.drive_bytes_per_client_byte;
        data.put(&drives, kib, moved);
        if kib == PUBLISHED_KIB {
            data.beside(("32KB vs 4KB chunk on FIU", "rmw_io_overhead"), &all, kib, moved + 1.0)?;
        } else {
            data.put(&all, kib, moved + 1.0);
        }
    }
    of_traces(settings, data, &sizes, [&drives, &all])
}

/// A server with chunks of this size, asked for one thing at a time, in which nothing compresses
/// and nothing drawn is a duplicate.
fn stored(kib: u64) -> Server {
    let server = Server::of("software").with("chunk_bytes", kib << 10);
    let server = server.with("workload.duplicate_share", 0).with("workload.compressed_share", 1);
    server.with("workload.compressed_spread", 0).with("workload.outstanding", 1)
}

/// What a trace's writes hold.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// Something else each, so that what is left is the price of the size of a chunk.
    New,
    /// What the trace says: duplicates are stored once.
    AsWritten,
}

/// Lines for the FIU traces of the user, or one that says that there are none.
fn of_traces(
    settings: &Settings<'_>,
    data: &mut Data,
    sizes: &[u64],
    [drives, all]: [&Line; 2],
) -> Result<()> {
    let traces = fiu_traces(&settings.options.data)?;
    if traces.is_empty() {
        data.put(&all.of("FIU traces"), PUBLISHED_KIB, None).note(NO_TRACE);
    }
    let mut points = Vec::new();
    for trace in &traces {
        for held in [Held::New, Held::AsWritten] {
            points.extend(sizes.iter().map(|&kib| (trace.as_path(), held, kib)));
        }
    }
    let reports = settings.sweep(&points, |&(trace, held, kib)| replay(settings, trace, held, kib));
    for ((trace, held, kib), report) in points.iter().zip(reports) {
        let moved = report?.drive_bytes_per_client_byte;
        let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy();
        let of = match held {
            Held::New => format!("{name}, all chunks new"),
            Held::AsWritten => format!("{name}, duplicates once"),
        };
        let note = "writes of a trace of the user";
        data.put(&drives.of(&of), *kib, moved).note(note);
        data.put(&all.of(&of), *kib, moved + 1.0).note(note);
    }
    Ok(())
}

/// The FIU traces among what the user handed in: files, and those right inside folders, by name.
fn fiu_traces(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let files = if path.is_dir() {
            files_in(path).map_err(|error| unreadable(path, error))?
        } else {
            vec![path.clone()]
        };
        for file in files {
            found.extend(is_fiu(&file)?.then_some(file));
        }
    }
    Ok(found)
}

fn files_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

/// Whether a file is a FIU trace; what cannot be read at all is an error.
fn is_fiu(path: &Path) -> Result<bool> {
    match Trace::open(path, None) {
        Ok(trace) => Ok(trace.format() == TraceFormat::Text(Format::Fiu)),
        Err(OpenError::Io(error)) => Err(unreadable(path, error)),
        Err(_) => Ok(false),
    }
}

fn unreadable(path: &Path, problem: impl std::fmt::Display) -> LabError {
    LabError::Data { path: path.to_owned(), problem: problem.to_string() }
}

/// A server under the writes of a trace.
fn replay(settings: &Settings<'_>, trace: &Path, held: Held, kib: u64) -> Result<Report> {
    let server = stored(kib)
        .with("workload.trace", quoted(trace))
        .with("workload.trace_requests", settings.number("trace_requests")?);
    let opened = Trace::open(trace, None).map_err(|error| unreadable(trace, error))?;
    let requests =
        writes(opened.into_requests(&trace.display().to_string()), held, settings.number("seed")?);
    let options = RunOptions { requests: Some(requests), ..RunOptions::default() };
    let outcome = run_server(&server.spec(settings)?, options);
    Ok(outcome.map_err(|error| settings.refused(error))?.report)
}

/// A path as TOML has it.
fn quoted(path: &Path) -> toml::Value {
    toml::Value::String(path.display().to_string())
}

/// The writes of a trace. Reads would move bytes too, and are not what chunks cost a write.
fn writes(requests: TraceRequests, held: Held, seed: u64) -> TraceRequests {
    let written = requests.filter(|r| r.as_ref().map_or(true, |request| request.op == Op::Write));
    let mut number = 0;
    Box::new(written.map(move |request| {
        let mut request = request?;
        if matches!(held, Held::New) {
            // Not none: pieces that a reader has cut belong together only if all are known.
            request.identity = Some(Identity::of_number(seed, number));
            number += 1;
        }
        Ok(request)
    }))
}
