//! `onefold pool scrub`: every stored record is read and verified, at a rate.
//! Room: onefold.

use std::time::{Duration, Instant};

use onefold_block::ByteSize;
use onefold_control::{Report, Unit};
use onefold_pool::Scrubber;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_reclaim::interrupted;
use crate::args::PoolScrubArgs;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::open_pool::uuid_text;
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::scrub_state::{FILE, Finding, ScrubState};

/// How often the position is kept.
const KEEP_EVERY: Duration = Duration::from_secs(10);
/// The longest wait between two looks at whether it is to stop.
const NAP: Duration = Duration::from_millis(100);

/// How to go about it.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Bytes to read in a second at most; without it as fast as the disk is.
    pub bytes_per_second: Option<u64>,
    /// Begin from the start, though the last scrub was interrupted.
    pub restart: bool,
}

/// What was read and found.
#[derive(Serialize, JsonSchema)]
pub struct ScrubJson {
    schema_version: u32,
    pool: String,
    sound: bool,
    containers: u64,
    records: u64,
    bytes: u64,
    findings_total: u64,
    blocks_total: u64,
    findings: Vec<Finding>,
}

/// Read and verify all records, from where the last scrub was interrupted.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    if request.bytes_per_second == Some(0) {
        return Err(Failure::nothing_done("at 0 bytes in a second nothing would ever be read"));
    }
    if context.live.is_none() {
        interrupt::heed();
    }
    let failed = |error| context.failed(error);
    let status = context.pool.status().map_err(failed)?;
    let uuid = uuid_text(&status.uuid);
    let mut report = Report::default();
    let former = ScrubState::read(context.folder, &uuid);
    let unfinished = former.filter(|state| state.ended_s.is_none() && !request.restart);
    if let Some(state) = &unfinished {
        report.notes.push(format!("went on after container {}", state.position));
    }
    let mut state = unfinished.unwrap_or_else(|| ScrubState::new(uuid));
    let mut scrubber = Scrubber::after(state.position);
    let (begun, already) = (Instant::now(), state.bytes);
    let mut kept = Instant::now();
    let ended = loop {
        if is_to_end(context) {
            break false;
        }
        let Some(found) = scrubber.step(context.pool).map_err(failed)? else { break true };
        state.add(&found);
        let total = status.container_bytes.max(state.bytes);
        context.job.tell("scrubbing", Unit::Bytes, state.bytes, Some(total));
        if kept.elapsed() >= KEEP_EVERY {
            keep(context, &state, &mut report);
            kept = Instant::now();
        }
        if let Some(rate) = request.bytes_per_second {
            wait_until(context, begun.checked_add(time_for(state.bytes - already, rate)));
        }
    };
    if ended {
        state.end();
    }
    keep(context, &state, &mut report);
    if ended {
        return Ok(told(context, state, report));
    }
    let left = format!("the next scrub goes on after container {}", state.position);
    if context.live.is_none() {
        return Err(interrupt::failure(&left));
    }
    Ok(Report { warnings: report.warnings, ..interrupted(&left) })
}

/// Whether nobody wants it to go on: a job says so, and in a command of its own a signal.
fn is_to_end(context: &Context<'_>) -> bool {
    context.job.is_cancelled() || context.live.is_none() && interrupt::asked()
}

/// How long so many bytes take at a rate.
fn time_for(bytes: u64, per_second: u64) -> Duration {
    Duration::try_from_secs_f64(bytes as f64 / per_second.max(1) as f64).unwrap_or(Duration::MAX)
}

/// Wait until then, or, where then never comes, until it is to end.
fn wait_until(context: &Context<'_>, when: Option<Instant>) {
    while !is_to_end(context) {
        let left = when.map_or(NAP, |when| when.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(NAP));
    }
}

/// Keep position and findings, where that is possible.
fn keep(context: &Context<'_>, state: &ScrubState, report: &mut Report) {
    if let Err(error) = state.write(context.folder) {
        report.warnings = vec![format!("the position cannot be kept in {FILE}: {error}")];
    }
}

fn told(context: &Context<'_>, state: ScrubState, mut report: Report) -> Report {
    let at = context.at.display();
    let sound = state.findings_total == 0;
    let said = format!("pool '{at}': {}; read {}", state.verdict(), state.read_text());
    if sound {
        report.notes.push(said);
    } else {
        let check =
            format!("what is wrong besides with maps and checkpoints: onefold pool check {at}");
        let failure = Failure::bad(said)
            .hint("nothing was changed; all other blocks can be read")
            .hint(check);
        report.fault = Some(failure.into_fault());
    }
    let text: String = state.findings.iter().map(Finding::text).collect();
    let json = ScrubJson {
        schema_version: JSON_SCHEMA_VERSION,
        pool: at.to_string(),
        sound,
        containers: state.containers,
        records: state.records,
        bytes: state.bytes,
        findings_total: state.findings_total,
        blocks_total: state.blocks_total,
        findings: state.findings,
    };
    report.with_result(&json).with_text(&text)
}

/// Scrub, and print what was found.
pub fn run(args: &PoolScrubArgs, printer: &Printer) -> Result<()> {
    let request =
        Request { bytes_per_second: args.rate.map(ByteSize::bytes), restart: args.restart };
    let opening = Opening::Read(args.memory.budgets()?);
    let report = door::call(&args.pool, opening, &table::POOL_SCRUB, &request, printer)?;
    printer.report(report, args.json)
}
