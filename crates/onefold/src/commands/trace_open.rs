//! What the commands about traces share: opening one, counting along, saying what was skipped.
//! Room: onefold.

use std::io::BufReader;
use std::path::Path;

use onefold_workload::{Request, Trace, TraceFormat};

use crate::failure::{Failure, Result};
use crate::interrupt::Piped;
use crate::output::Printer;
use crate::progress;

/// Requests between two looks of the bar.
const LOOK_REQUESTS: u64 = 1 << 14;

/// Open a file, or stdin for `-`.
pub fn open(path: &Path, format: Option<TraceFormat>) -> Result<Trace> {
    let opened = if path == Path::new("-") {
        Trace::read(Box::new(BufReader::new(Piped(std::io::stdin()))), format)
    } else {
        Trace::open(path, format)
    };
    opened.map_err(|error| {
        Failure::nothing_done(format!("cannot read trace '{}': {error}", path.display()))
    })
}

/// Hand every request to `take`, with a count on the terminal.
pub fn each(
    trace: &mut Trace,
    path: &Path,
    printer: &Printer,
    mut take: impl FnMut(&Request) -> Result<()>,
) -> Result<()> {
    let bar = progress::counted(printer, "reading", "requests", None);
    let mut count = 0_u64;
    for request in trace.by_ref() {
        let request = request.map_err(|error| {
            let source = std::error::Error::source(&error);
            let why = source.map(|why| format!(": {why}")).unwrap_or_default();
            Failure::nothing_done(format!("trace '{}': {error}{why}", path.display()))
        })?;
        take(&request)?;
        count += 1;
        if count.is_multiple_of(LOOK_REQUESTS) {
            bar.set_position(count);
        }
    }
    Ok(())
}
