//! `onefold estimate`: what reduction would save, before anyone commits to anything.
//! Room: onefold.

use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use onefold_block::ByteSize;
use onefold_estimate::{EstimateError, Partial, Progress, scan};

use crate::args::{EstimateArgs, EstimateMergeArgs, ReportArgs};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::out_file::OutFile;
use crate::output::Printer;
use crate::progress;
use crate::transfer::source::image_refused;

/// How often the bar moves.
const REDRAW: Duration = Duration::from_millis(100);

/// End the reading if that is asked for.
fn heed(counters: &Progress) {
    if interrupt::asked() {
        counters.cancel();
    }
}

/// Read everything once, and report.
pub fn run(args: &EstimateArgs, printer: &Printer) -> Result<ExitCode> {
    let options = args.options()?;
    let counters = Arc::new(Progress::new());
    // The first signal ends the reading: what is known by then is reported.
    interrupt::heed();
    let partial = std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let work = scope.spawn(|| {
            let _done = done;
            scan(&args.paths, &options, &counters)
        });
        let bar = progress::bytes(printer, "reading", None);
        // The scan's end of the channel closes when it returns.
        while is_done.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
            heed(&counters);
            let now = counters.snapshot();
            bar.show(now.bytes_done, now.bytes_found);
            bar.set_message(if now.found_all { "reading" } else { "reading, still searching" });
        }
        work.join().expect("the scan does not panic")
    });
    let partial = partial.map_err(|e| refused(&e))?;
    if let Some(path) = &args.partial {
        keep(&partial, path, printer)?;
    }
    let code = print(&partial, args.report, printer)?;
    if interrupt::asked() {
        return Err(interrupt::failure("the report is about what was read until then"));
    }
    Ok(code)
}

/// Combine partial results, and report.
pub fn merge(args: &EstimateMergeArgs, printer: &Printer) -> Result<ExitCode> {
    let memory = args.memory.map(ByteSize::bytes);
    let partial = Partial::merge(&args.files, memory).map_err(|e| refused(&e))?;
    if let Some(path) = &args.partial {
        keep(&partial, path, printer)?;
    }
    print(&partial, args.report, printer)
}

fn refused(error: &EstimateError) -> Failure {
    match error {
        EstimateError::Image { path, source } => image_refused(path, source),
        _ => Failure::nothing_done(error.to_string()),
    }
}

fn keep(partial: &Partial, path: &Path, printer: &Printer) -> Result<()> {
    let broke = |error: &dyn std::fmt::Display| Failure::broke("write", path, error);
    let mut to = BufWriter::new(OutFile::create(path, true)?);
    partial.write(&mut to).map_err(|error| broke(&error))?;
    to.into_inner().map_err(|error| broke(error.error()))?.finish()?;
    printer.note(&format!("kept in {}, for: onefold estimate merge FILE...", path.display()));
    Ok(())
}

fn print(partial: &Partial, how: ReportArgs, printer: &Printer) -> Result<ExitCode> {
    let report = partial.report(how.rows);
    let text = match (how.json, how.csv) {
        (true, _) => report.to_json() + "\n",
        (_, true) => report.to_csv(),
        _ => report.to_text(how.rows),
    };
    printer.data(&text)?;
    Ok(if report.is_clean() || report.shard.is_some() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_nobody_interrupts_goes_on_to_its_end() {
        let counters = Progress::new();
        heed(&counters);
        assert!(!counters.is_cancelled(), "the report would be about a part alone");
    }

    #[test]
    fn an_estimate_is_kept_and_merged_and_says_so() {
        use crate::commands::heard::Folder;

        let here = Folder::new();
        here.file("data", &vec![7; 64 << 10]);
        let said = here.ok("estimate ./data --partial ./part");
        assert!(said.out.contains("64 KiB"), "{}", said.out);
        let kept = "kept in ./part, for: onefold estimate merge FILE...\n";
        assert_eq!(said.err, kept);
        let merged = here.ok("estimate merge ./part --partial ./again");
        assert_eq!((&merged.out, merged.err), (&said.out, kept.replace("./part", "./again")));
        let json = here.ok("estimate merge ./again --json").out;
        assert!(json.starts_with('{') && json.ends_with("}\n"), "{json}");
        assert!(here.ok("estimate ./data --csv").out.contains(','));
        assert!(here.refused("estimate ./none", 2).contains("./none"));
        assert!(here.refused("estimate merge ./data", 2).contains("./data"));
    }
}
