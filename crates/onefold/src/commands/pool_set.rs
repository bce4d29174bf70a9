//! `onefold pool set`: limits of the server that has a pool, without a restart.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_control::Report;
use onefold_pool::SpaceTarget;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_drain::served;
use crate::args::{Background, MemoryArgs, PoolSetArgs};
use crate::failure::{Failure, Result};
use crate::operate::{Context, table};
use crate::output::Printer;

/// What to set; what is left out stays as it is.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// When to work in the background.
    pub background: Option<Background>,
    /// How many bytes may be stored for each byte that is alive.
    pub space_target: Option<f64>,
    /// Memory for decompressed blocks that were read lately, in bytes.
    pub cache_memory_bytes: Option<u64>,
    /// Memory for finding duplicates, in bytes.
    pub index_memory_bytes: Option<u64>,
}

/// Set limits.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let Some(live) = context.live else {
        return Err(Failure::nothing_done("only a running server has limits to set"));
    };
    let mut report = Report::default();
    if request.cache_memory_bytes.is_some() || request.index_memory_bytes.is_some() {
        check_memory(context, request)?;
    }
    if request.background.is_some() || request.space_target.is_some() {
        let Some(mut now) = live.background() else {
            return Err(Failure::nothing_done("a pool that is served read-only has no work to do"));
        };
        if let Some(when) = request.background {
            now.background = when;
            report.notes.push(format!("work in the background: {}", when.name()));
        }
        if let Some(ratio) = request.space_target {
            now.space_target = SpaceTarget::new(ratio).map_err(|e| context.failed(e))?;
            report.notes.push(format!("space target: {}", now.space_target));
        }
        live.set_background(context.pool, now);
    }
    if let Some(bytes) = request.cache_memory_bytes {
        context.pool.set_cache_memory(bytes).map_err(|error| context.failed(error))?;
        report.notes.push(format!("memory of the read cache: {}", ByteSize(bytes)));
    }
    if let Some(bytes) = request.index_memory_bytes {
        let again = context.pool.set_index_memory(bytes).map_err(|error| context.failed(error))?;
        if let Some(bell) = live.index.as_ref().filter(|_| again) {
            bell.fill();
        }
        report.notes.push(format!("memory for finding duplicates: {}", ByteSize(bytes)));
    }
    if report.notes.is_empty() {
        let all = "--background, --space-target, --cache-memory and --index-memory can be set";
        return Err(Failure::nothing_done("there is nothing to set").hint(all));
    }
    Ok(report)
}

/// Refuse memory that the machine can never give, or that a pool does not work with.
fn check_memory(context: &Context<'_>, request: &Request) -> Result<()> {
    let now = context.pool.status().map_err(|error| context.failed(error))?;
    let memory = MemoryArgs {
        index_memory: ByteSize(request.index_memory_bytes.unwrap_or(now.index_memory_max_bytes)),
        map_memory: ByteSize(now.map_memory_max_bytes),
        cache_memory: ByteSize(request.cache_memory_bytes.unwrap_or(now.cache_memory_max_bytes)),
    };
    memory.budgets().map(drop)
}

/// Set limits, and say what they are.
pub fn run(args: &PoolSetArgs, printer: &Printer) -> Result<()> {
    let door = served(&args.pool)?;
    let request = Request {
        background: args.background,
        space_target: args.space_target.map(|target| target.stored_over_live()),
        cache_memory_bytes: args.cache_memory.map(ByteSize::bytes),
        index_memory_bytes: args.index_memory.map(ByteSize::bytes),
    };
    let report = door.call(&table::POOL_SET, &request, printer)?;
    printer.report(report, false)
}
