//! `onefold ssd idle`: tell a drive that is served that nothing will be asked of it for a while.
//! Room: onefold.

use onefold_block::FileFolder;
use onefold_flash::drive;

use super::ssd_serve::failure;
use crate::args::models::SsdIdleArgs;
use crate::failure::{Failure, Result};
use crate::output::Printer;
use crate::serve::control;

/// What is said on the control socket.
pub const IDLE: &str = "idle";

/// Say it.
pub fn run(args: &SsdIdleArgs, printer: &Printer) -> Result<()> {
    let path = &args.folder;
    let at = path.display();
    if !path.is_dir() || !FileFolder::open(path).is_ok_and(|folder| drive::exists(&folder)) {
        return Err(failure(path, drive::DriveError::NoDrive));
    }
    let answer = control::tell(path, IDLE)
        .map_err(|error| Failure::unusable("talk to the server of the drive in", path, error))?;
    match answer {
        None => Err(Failure::nothing_done(format!("drive '{at}' is not being served"))
            .hint(format!("serve it with: onefold ssd serve --dir {at}"))),
        Some(Err(why)) => Err(Failure::nothing_done(format!("drive '{at}': {why}"))),
        Some(Ok(())) => {
            printer.note(&format!("drive '{at}' works now, until the next request comes"));
            Ok(())
        }
    }
}
