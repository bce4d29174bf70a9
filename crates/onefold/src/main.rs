//! The `onefold` command: wiring, settings and output.
//! Room: onefold.
//!
//! In the order in which a run meets them: `args` is what was written, `settings_file` and the
//! environment fill in what was not, `commands` do it, one file each, and `output` says so.

#[cfg(feature = "archive")]
mod archive_cache;
#[cfg(feature = "archive")]
mod archive_place;
mod args;
mod at_once;
mod attach;
mod cache_view;
mod clock;
mod commands;
mod completion;
mod duplicates_view;
mod endurance;
mod failure;
mod handover;
mod interrupt;
mod make_pool;
mod open_pool;
mod operate;
mod out_file;
mod output;
mod pool_cache;
mod progress;
mod random;
mod reference;
mod scrub_state;
mod serve;
mod settings_file;
mod sharing;
mod shell;
mod status_view;
mod store_folder;
mod table;
#[cfg(test)]
mod test_pool;
mod text_file;
#[cfg(feature = "top")]
mod top;
mod transfer;
mod utc;
mod watch;

use std::process::ExitCode;
use std::thread::Builder;

use args::{Command, EstimateCommand, PoolCommand, TraceCommand, VolumeCommand};
use output::Printer;

#[global_allocator]
static ALLOCATOR: onefold_export::Allocator = onefold_export::Allocator;

/// What the first thread of a process has, in bytes.
const STACK: usize = 8 << 20;
/// The exit status after a panic.
const PANICKED: u8 = 101;

/// The kernel gives a signal to the first thread wherever that is, and to another one only if that
/// has it blocked. In a call that a disk never answers nobody would hear it, so the first thread
/// waits for the one that does the work.
fn main() -> ExitCode {
    match Builder::new().name("main".to_owned()).stack_size(STACK).spawn(work) {
        Ok(thread) => thread.join().unwrap_or(ExitCode::from(PANICKED)),
        Err(_) => work(),
    }
}

fn work() -> ExitCode {
    completion::answer_shell();
    let parsed = match settings_file::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(error) => {
            let failure = match error {
                settings_file::ParseError::Clap(error) => {
                    args::absent::explain(&error).unwrap_or_else(|| error.exit())
                }
                settings_file::ParseError::File(failure) => failure,
            };
            Printer::new(false).failure(&failure);
            return failure.exit_code();
        }
    };
    let printer = Printer::new(parsed.args.global.quiet);
    output::log_to_stderr(&parsed.args.global);
    for why in &parsed.passed_over {
        printer.warning(&format!("going on without the pool's own settings: {why}"));
    }
    interrupt::let_limits_of_files_be_errors();
    // Servers hear of signals in their own way.
    let watching = if parsed.args.command.serves() { Ok(()) } else { interrupt::watch() };
    match watching.and_then(|()| run(&parsed, &printer)) {
        Ok(code) => code,
        Err(failure) => {
            printer.failure(&failure);
            failure.exit_code()
        }
    }
}

fn run(parsed: &settings_file::Parsed, printer: &Printer) -> failure::Result<ExitCode> {
    use commands as c;
    match &parsed.args.command {
        Command::Serve(args) => return c::serve::run(parsed, args, printer),
        #[cfg(feature = "archive")]
        Command::Archive(command) => return c::archive::run(command, printer),
        Command::Estimate(args) => match &args.merge {
            Some(EstimateCommand::Merge(args)) => return c::estimate::merge(args, printer),
            None => return c::estimate::run(args, printer),
        },
        Command::Pool(PoolCommand::Create(args)) => c::pool_create::run(args, printer),
        Command::Pool(PoolCommand::Status(args)) => c::pool_status::run(args, printer),
        Command::Pool(PoolCommand::Check(args)) => c::pool_check::run(args, printer),
        Command::Pool(PoolCommand::Reclaim(args)) => c::pool_reclaim::run(args, printer),
        Command::Pool(PoolCommand::Deduplicate(args)) => c::pool_deduplicate::run(args, printer),
        Command::Pool(PoolCommand::Set(args)) => c::pool_set::run(args, printer),
        Command::Pool(PoolCommand::Drain(args)) => c::pool_drain::run(args, printer),
        Command::Pool(PoolCommand::Scrub(args)) => c::pool_scrub::run(args, printer),
        Command::Volume(VolumeCommand::Create(args)) => c::volume_create::run(args, printer),
        Command::Volume(VolumeCommand::Resize(args)) => c::volume_resize::run(args, printer),
        Command::Volume(VolumeCommand::Rename(args)) => c::volume_rename::run(args, printer),
        Command::Volume(VolumeCommand::List(args)) => c::volume_list::run(args, printer),
        Command::Volume(VolumeCommand::Allow(args)) => c::volume_allow::allow(args, printer),
        Command::Volume(VolumeCommand::Deny(args)) => c::volume_allow::deny(args, printer),
        Command::Volume(VolumeCommand::Limit(args)) => c::volume_limit::run(args, printer),
        Command::Volume(VolumeCommand::Delete(args)) => c::volume_delete::run(args, printer),
        Command::Volume(VolumeCommand::Snapshot(args)) => {
            c::volume_snapshot::snapshot(args, printer)
        }
        Command::Volume(VolumeCommand::Clone(args)) => c::volume_snapshot::clone(args, printer),
        Command::Volume(VolumeCommand::Rollback(args)) => {
            c::volume_snapshot::rollback(args, printer)
        }
        Command::Volume(VolumeCommand::Hold(args)) => {
            c::volume_snapshot::hold_or_release(args, &operate::table::VOLUME_HOLD, printer)
        }
        Command::Volume(VolumeCommand::Release(args)) => {
            c::volume_snapshot::hold_or_release(args, &operate::table::VOLUME_RELEASE, printer)
        }
        Command::Volume(VolumeCommand::Prune(args)) => c::volume_prune::run(args, printer),
        Command::Volume(VolumeCommand::Diff(args)) => c::volume_diff::run(args, printer),
        Command::Volume(VolumeCommand::Import(args)) => c::volume_import::run(args, printer),
        Command::Volume(VolumeCommand::Export(args)) => c::volume_export::run(args, printer),
        Command::Volume(VolumeCommand::Send(args)) => c::volume_send_to::run(args, printer),
        Command::Volume(VolumeCommand::Receive(args)) => {
            c::volume_receive::run_asked(args, printer)
        }
        #[cfg(feature = "models")]
        Command::Model(command) => return c::models::run(command, printer),
        Command::Trace(TraceCommand::Convert(args)) => c::trace_convert::run(args, printer),
        Command::Trace(TraceCommand::Info(args)) => c::trace_info::run(args, printer),
        Command::Trace(TraceCommand::Record(args)) => c::trace_record::run(args, printer),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(args),
        Command::Attach(args) => c::attach::run(args, printer),
        Command::Carry(args) => attach::carry(&args.socket, &args.volume, args.read_only),
        Command::Detach(args) => c::attach::detach(args, printer),
        Command::Demo => c::demo::run(printer),
        Command::Doctor(args) => return c::doctor::run(args, printer),
        Command::Api => printer.json(&operate::table::document()),
        Command::Completions { shell } => c::completions::run(shell, printer),
        Command::Man { folder } => c::man::run(folder, printer),
        Command::Reference => printer.data(&reference::markdown()),
    }
    .map(|()| ExitCode::SUCCESS)
}
