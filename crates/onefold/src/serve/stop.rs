//! Leaving in order: answer, flush, close, within a bounded time.
//! Room: onefold.

use std::path::Path;
use std::time::Duration;

use onefold_pool::Pool;

use super::listeners::Servers;
use crate::failure::{Failure, Result};
use crate::output::Printer;

/// Time for requests that were received to be answered.
const DRAIN: Duration = Duration::from_secs(8);
/// Time for all of it. Service managers and people lose patience at 20 s.
const ALL: Duration = Duration::from_secs(19);

/// Stop the servers, flush the pool and close it.
pub fn in_order(servers: Servers, pool: Pool, path: &Path, printer: &Printer) -> Result<()> {
    drain(servers, format!("pool '{}'", path.display()), printer);
    pool.close().map_err(|error| {
        Failure::pool(path, error).hint("what clients flushed before the failure is safe")
    })
}

/// Stop the servers; the process ends in any case if the rest takes too long.
pub fn drain(servers: Servers, what: String, printer: &Printer) {
    give_up_after(ALL, what);
    let hanging = servers.stop(DRAIN);
    if hanging > 0 {
        printer.warning(&format!("{hanging} requests did not return from the disk"));
    }
}

/// A disk that never answers must not keep the process for ever.
fn give_up_after(time: Duration, what: String) {
    // It goes with the process, and without it stopping only lacks its bound.
    let _ = std::thread::Builder::new().name("patience".to_owned()).spawn(move || {
        std::thread::sleep(time);
        let failure = Failure::bad(format!("{what} could not be flushed in time"))
            .hint("what clients flushed before is safe");
        Printer::new(true).failure(&failure);
        std::process::exit(1);
    });
}
