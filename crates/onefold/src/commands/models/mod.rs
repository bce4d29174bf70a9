//! The commands that simulate and measure instead of storing: feature `models`.
//! Room: onefold.

mod array_flow;
mod array_report;
mod array_run;
mod array_size;
mod array_spec;
mod cache;
mod cache_advise;
mod cache_amplification;
mod cache_trace;
mod calibrate;
mod reproduce;
mod scrambler_infer;
mod scrambler_make;
mod scrambler_presets;
mod ssd_background;
mod ssd_calibrate;
mod ssd_idle;
mod ssd_report;
mod ssd_run;
mod ssd_serve;
mod ssd_smart;
mod ssd_spec;
mod ssd_watch;
#[cfg(test)]
mod test_drive;
mod trace_replay;

use std::process::ExitCode;

use crate::args::models::{ArrayCommand, CacheCommand, ModelCommand, ScramblerCommand, SsdCommand};
use crate::failure::Result;
use crate::output::Printer;

/// Do it. A drive that is served, and one that is ill, have a status of their own.
pub fn run(command: &ModelCommand, printer: &Printer) -> Result<ExitCode> {
    match command {
        ModelCommand::Cache(CacheCommand::Run(args)) => cache::run(args, printer),
        ModelCommand::Cache(CacheCommand::Advise(args)) => cache_advise::run(args, printer),
        ModelCommand::Cache(CacheCommand::Policies(args)) => cache::policies(*args, printer),
        ModelCommand::Cache(CacheCommand::Spec) => cache::spec(printer),
        ModelCommand::Ssd(SsdCommand::Run(args)) => ssd_run::run(args, printer),
        ModelCommand::Ssd(SsdCommand::Calibrate(args)) => ssd_calibrate::run(args, printer),
        ModelCommand::Ssd(SsdCommand::Idle(args)) => ssd_idle::run(args, printer),
        ModelCommand::Ssd(SsdCommand::Spec(args)) => ssd_spec::run(args, printer),
        ModelCommand::Ssd(SsdCommand::Serve(args)) => return ssd_serve::run(args, printer),
        ModelCommand::Ssd(SsdCommand::Smart(args)) => return ssd_smart::run(args, printer),
        ModelCommand::Array(ArrayCommand::Run(args)) => array_run::run(args, printer),
        ModelCommand::Array(ArrayCommand::Spec(args)) => array_spec::run(args, printer),
        ModelCommand::Array(ArrayCommand::Size(args)) => array_size::run(args, printer),
        ModelCommand::Array(ArrayCommand::Calibrate(args)) => calibrate::run(*args, printer),
        ModelCommand::Scrambler(ScramblerCommand::Infer(args)) => {
            scrambler_infer::run(args, printer)
        }
        ModelCommand::Scrambler(ScramblerCommand::Make(args)) => scrambler_make::run(args, printer),
        ModelCommand::Scrambler(ScramblerCommand::List(args)) => {
            scrambler_presets::list(*args, printer)
        }
        ModelCommand::Scrambler(ScramblerCommand::Show(args)) => {
            scrambler_presets::show(args, printer)
        }
        ModelCommand::Reproduce(args) => reproduce::run(args, printer),
    }
    .map(|()| ExitCode::SUCCESS)
}
