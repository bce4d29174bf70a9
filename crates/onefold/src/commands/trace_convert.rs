//! `onefold trace convert`: any trace that can be read, in our own format.
//! Room: onefold.
//! Invariant: OUT appears when it is whole, or not at all.

use std::io::{BufWriter, Write};
use std::path::Path;

use onefold_workload::{Trace, TraceWriter};

use super::trace_open;
use crate::args::{TraceConvertArgs, Written};
use crate::failure::{Failure, Result};
use crate::out_file::OutFile;
use crate::output::Printer;

/// Convert, and say what was read and skipped.
pub fn run(args: &TraceConvertArgs, printer: &Printer) -> Result<()> {
    let to = written(args)?;
    let mut trace = trace_open::open(&args.input, args.format)?;
    let format = trace.format();
    if args.output == Path::new("-") {
        if to == Written::Parquet {
            return Err(Failure::nothing_done("Parquet cannot be written to stdout")
                .hint("name a file, or say --to csv"));
        }
        let out = BufWriter::new(std::io::stdout());
        copy(&mut trace, args, to, out, printer)?;
    } else {
        let out = BufWriter::with_capacity(1 << 18, OutFile::create(&args.output, args.force)?);
        let out = copy(&mut trace, args, to, out, printer)?;
        let broke = |error: &dyn std::fmt::Display| Failure::broke("write", &args.output, error);
        out.into_inner().map_err(|error| broke(error.error()))?.finish()?;
    }
    printer.note(&format!("{format}: {}", trace.report()));
    Ok(())
}

/// The format to write: as told, or as the name of the file tells.
fn written(args: &TraceConvertArgs) -> Result<Written> {
    let extension = args.output.extension().and_then(|extension| extension.to_str());
    match (args.to, extension) {
        (Some(to), _) => Ok(to),
        (None, Some("csv")) => Ok(Written::Csv),
        (None, Some("parquet" | "pq")) => Ok(Written::Parquet),
        (None, _) if args.output == Path::new("-") => Ok(Written::Csv),
        _ => {
            let name = args.output.display();
            let message = format!("the name '{name}' does not say in which format to write");
            Err(Failure::nothing_done(message).hint("say --to csv or --to parquet"))
        }
    }
}

fn copy<W: Write + Send>(
    trace: &mut Trace,
    args: &TraceConvertArgs,
    to: Written,
    out: W,
    printer: &Printer,
) -> Result<W> {
    let broke = |error| Failure::broke("write", &args.output, error);
    let mut writer = match to {
        Written::Csv => TraceWriter::csv(out),
        Written::Parquet => TraceWriter::parquet(out),
    }
    // Nothing was written yet: this build may not know the format.
    .map_err(|error| Failure::unusable("write", &args.output, error))?;
    trace_open::each(trace, &args.input, printer, |request| writer.write(request).map_err(broke))?;
    writer.finish().map_err(broke)
}
