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
    pass(context, request, KEEP_EVERY)
}

/// The same, with its position kept each time so much time has passed.
fn pass(context: &Context<'_>, request: &Request, keep_every: Duration) -> Result<Report> {
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
        if kept.elapsed() >= keep_every {
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use onefold_block::BlockDevice as _;
    use onefold_control::Job;
    use onefold_pool::{Pool, PoolSettings};

    use super::*;
    use crate::commands::heard::Folder;
    use crate::test_pool;

    /// A pool of several containers.
    fn pool() -> Pool {
        let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
        let pool = test_pool::pool_of(&settings);
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &onefold_block::SplitMix64::new(1).bytes(1 << 20), true).unwrap();
        pool
    }

    fn scrub(
        pool: &Pool,
        folder: &std::path::Path,
        job: &Job,
        request: &Request,
    ) -> Result<Report> {
        let at = std::path::Path::new("p");
        operate(&Context { pool, at, folder, cache: None, job, live: None }, request)
    }

    #[test]
    fn a_scrub_goes_on_where_the_last_one_was_and_a_new_one_begins_from_the_start() {
        let (pool, folder) = (pool(), tempfile::tempdir().unwrap());
        let at = folder.path();
        let request = Request::default();
        let whole = scrub(&pool, at, &Job::quiet(), &request).unwrap();
        assert_eq!(whole.notes.len(), 1);
        assert!(whole.notes[0].starts_with("pool 'p': nothing is wrong; read "));
        let uuid = uuid_text(&pool.status().unwrap().uuid);
        let kept = ScrubState::read(at, &uuid).unwrap();
        assert!(kept.ended_s.is_some() && kept.containers > 2, "{kept:?}");
        // As a scrub leaves it that was killed after its first container.
        let mut cut = ScrubState::new(uuid.clone());
        cut.add(&Scrubber::after(0).step(&pool).unwrap().unwrap());
        cut.write(at).unwrap();
        let position = cut.position;
        let rest = scrub(&pool, at, &Job::quiet(), &request).unwrap();
        assert_eq!(rest.notes[0], format!("went on after container {position}"));
        let read = |report: &Report| report.result["containers"].as_u64().unwrap();
        assert_eq!(read(&rest), read(&whole), "the first one is counted");
        cut.write(at).unwrap();
        let again = Request { restart: true, ..Request::default() };
        let anew = scrub(&pool, at, &Job::quiet(), &again).unwrap();
        assert_eq!(anew.notes.len(), 1);
        assert_eq!(anew.result, whole.result);
    }

    #[test]
    fn a_scrub_keeps_its_position_now_and_then_and_where_it_is_to_end() {
        let pool = pool();
        let uuid = uuid_text(&pool.status().unwrap().uuid);
        // What is kept while each container is told of: of the one before it.
        for (every, expected) in [(Duration::ZERO, true), (KEEP_EVERY, false)] {
            let folder = tempfile::tempdir().unwrap();
            let (told, to) = (Arc::new(Mutex::new(Vec::new())), folder.path().to_owned());
            let (heard, of) = (Arc::clone(&told), uuid.clone());
            let job = Job::watched(move |progress| {
                let kept = ScrubState::read(&to, &of).map_or(0, |state| state.bytes);
                heard.lock().unwrap().push((kept, progress.clone()));
            });
            let at = std::path::Path::new("p");
            let (folder, cache, live) = (folder.path(), None, None);
            let context = Context { pool: &pool, at, folder, cache, job: &job, live };
            pass(&context, &Request::default(), every).unwrap();
            let told = told.lock().unwrap();
            for ((_, before), (kept, _)) in told.iter().zip(&told[1..]) {
                assert_eq!(*kept, if expected { before.done } else { 0 });
            }
            let (_, last) = told.last().unwrap();
            let all = pool.status().unwrap().container_bytes;
            assert_eq!((&*last.doing, last.total), ("scrubbing", Some(all)));
            assert!(last.done > all / 2 && last.done <= all, "{} of {all}", last.done);
            assert!(ScrubState::read(folder, &uuid).unwrap().ended_s.is_some());
        }
        let folder = tempfile::tempdir().unwrap();
        let mut state = ScrubState::new(uuid.clone());
        state.position = 1;
        state.write(folder.path()).unwrap();
        let job = Job::quiet();
        job.cancel();
        let ended = scrub(&pool, folder.path(), &job, &Request::default()).unwrap_err();
        let message = "interrupted; the next scrub goes on after container 1";
        assert_eq!(ended.message, message);
        assert_eq!(ScrubState::read(folder.path(), &uuid), Some(state));
    }

    #[test]
    fn a_rate_holds_for_what_this_scrub_reads() {
        let (pool, folder) = (pool(), tempfile::tempdir().unwrap());
        // What the interrupted one read does not count.
        let mut state = ScrubState::new(uuid_text(&pool.status().unwrap().uuid));
        state.bytes = 1 << 50;
        state.write(folder.path()).unwrap();
        let (begun, rate) = (Instant::now(), Some(64 << 20));
        let request = Request { bytes_per_second: rate, ..Request::default() };
        scrub(&pool, folder.path(), &Job::quiet(), &request).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(15), "a MiB takes a 64th of a second");
    }

    #[test]
    fn a_rate_of_nothing_is_refused_and_one_byte_is_slow() {
        let (pool, folder) = (pool(), tempfile::tempdir().unwrap());
        let never = Request { bytes_per_second: Some(0), ..Request::default() };
        let refused = scrub(&pool, folder.path(), &Job::quiet(), &never).unwrap_err();
        assert_eq!(refused.message, "at 0 bytes in a second nothing would ever be read");
        assert_eq!(time_for(1, 1), Duration::from_secs(1));
        assert_eq!(time_for(3 << 20, 1 << 20), Duration::from_secs(3));
        assert_eq!(time_for(5, 0), Duration::from_secs(5), "never without an end");
        assert_eq!(time_for(u64::MAX, 1).as_secs(), u64::MAX);
    }

    #[test]
    fn findings_are_a_failure_with_all_blocks_named() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.file("data", &onefold_block::SplitMix64::new(1).bytes(1 << 20));
        here.ok("volume import ./p v ./data");
        let said = here.ok("pool scrub ./p");
        let sound = "pool './p': nothing is wrong; read 256 records in 1 container (";
        assert!(said.out.is_empty() && said.err.starts_with(sound), "{}", said.err);
        let file = here.path("p/containers/00000001.container");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[1 << 19] ^= 4;
        std::fs::write(&file, bytes).unwrap();
        let said = here.onefold("pool scrub ./p --rate 1G");
        assert_eq!(said.code, 1);
        assert!(said.out.contains("volume 'v' block "), "{}", said.out);
        let message = "error: pool './p': 1 container is damaged, 1 block cannot be read; read ";
        assert!(said.err.starts_with(message), "{}", said.err);
        assert!(said.err.ends_with("onefold pool check ./p\n"), "{}", said.err);
        let json = here.onefold("pool scrub ./p --json").json();
        assert_eq!((&json["sound"], &json["findings_total"]), (&false.into(), &1.into()));
        assert!(here.refused("pool scrub ./none", 2).contains("there is no pool at './none'"));
    }
}
