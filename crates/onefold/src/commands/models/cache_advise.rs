//! `onefold cache advise`: what policies would have made of a pool's recorded reads.
//! Room: onefold.
//! The volumes are read as they were, from the pool as it is now, and what that asks of its
//! containers is replayed through each policy, as its cache would decide.

use std::sync::{Arc, Mutex, PoisonError};

use onefold_block::{
    BlockDevice as _, ByteSize, ContainerId, ContainerStore, StoreError, StoreLayer,
};
use onefold_cache::POLICIES;
use onefold_cache::tier::{Replay, TierTotals};
use onefold_pool::{Budgets, OpenOptions, Pool, Surroundings, Volume};
use onefold_workload::Op;
use serde::Serialize;

use super::cache_trace::unusable;
use crate::args::Thousandths;
use crate::args::models::CacheAdviseArgs;
use crate::commands::trace_open;
use crate::failure::{Failure, Result};
use crate::open_pool::{must_exist, refused};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::table::{Align, Table, percent};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;
const NS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: f64 = 86_400.0;
/// Where a replay's clock begins, for that of a trace begins at 0.
const BEGIN_SECONDS: u64 = 3600;

/// A read of a container.
#[derive(Clone, Copy)]
struct Access {
    seconds: u32,
    container: u32,
    container_len: u32,
    offset: u32,
    bytes: u32,
}

/// A container store that keeps what is asked of it.
struct Listening {
    store: Arc<dyn ContainerStore>,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    seconds: u32,
    accesses: Vec<Access>,
    references: Vec<(ContainerId, u32)>,
}

/// What a policy came to.
#[derive(Serialize)]
struct Row {
    policy: String,
    hits: f64,
    hit_bytes: f64,
    slow_bytes: u64,
    written_bytes: u64,
    fills: f64,
    writes_per_day: Option<f64>,
    years: Option<f64>,
    memory_bytes: usize,
}

#[derive(Serialize)]
struct Advice {
    schema_version: u32,
    reads: u64,
    read_bytes: u64,
    span_seconds: u64,
    skipped: u64,
    cache_bytes: u64,
    policies: Vec<Row>,
}

/// Replay, and print a table.
pub fn run(args: &CacheAdviseArgs, printer: &Printer) -> Result<()> {
    let (heard, stored_bytes, container_bytes, skipped) = listen(args, printer)?;
    let bytes = args.cache_size.bytes(stored_bytes, container_bytes);
    let all = POLICIES.iter().filter(|entry| !entry.offline).map(|entry| entry.name.to_owned());
    let policies = if args.policy.is_empty() { all.collect() } else { args.policy.clone() };
    let span = u64::from(heard.accesses.last().map(|access| access.seconds).unwrap_or_default());
    let mut rows = Vec::new();
    let (mut reads, mut read_bytes, mut cache_bytes) = (0, 0, bytes);
    for policy in policies {
        let replay = replay(&policy, bytes, &heard, args)?;
        let totals = replay.totals();
        (reads, read_bytes, cache_bytes) = (totals.requests, totals.bytes, replay.device_bytes());
        rows.push(row(policy, &totals, &replay, span, args));
    }
    rows.sort_by(|a, b| b.hit_bytes.total_cmp(&a.hit_bytes));
    let advice = Advice {
        schema_version: JSON_SCHEMA_VERSION,
        reads,
        read_bytes,
        span_seconds: span,
        skipped,
        cache_bytes,
        policies: rows,
    };
    if args.json { printer.json(&advice) } else { printer.data(&text(&advice)) }
}

/// Read what was read, and keep what that asked of the containers.
fn listen(args: &CacheAdviseArgs, printer: &Printer) -> Result<(Heard, u64, u64, u64)> {
    let mut trace = trace_open::open(&args.trace, args.format)?;
    must_exist(&args.pool)?;
    let budgets = Budgets { cache_bytes: 0, ..Budgets::default() };
    let options = OpenOptions { read_only: true, budgets };
    let (mut listening, mut container_bytes) = (None, 0);
    let around = Surroundings {
        handover: None,
        wrap: Some(Box::new(|store, settings, _| {
            container_bytes = u64::from(settings.container_bytes);
            let made = Arc::new(Listening { store, heard: Mutex::default() });
            Arc::clone(listening.insert(made)) as Arc<dyn ContainerStore>
        })),
    };
    let opened = Pool::open_at_in(&args.pool, &options, around);
    let pool = opened.map_err(|error| refused(&args.pool, error))?;
    let listening = listening.ok_or_else(|| Failure::nothing_done("the pool has no containers"))?;
    let status = pool.status().map_err(|error| Failure::pool(&args.pool, error))?;
    let volumes: Vec<String> = status.volumes.into_iter().map(|volume| volume.name).collect();
    let usual = match (&args.volume, &volumes[..]) {
        (Some(name), _) => Some(name.clone()),
        (None, [only]) => Some(only.clone()),
        _ => None,
    };
    let open = |name: &str| pool.volume(name).map_err(|error| Failure::pool(&args.pool, error));
    let usual = usual.map(|name| open(&name)).transpose()?;
    let named: Vec<(String, Volume)> = volumes
        .iter()
        .map(|name| open(name).map(|volume| (name.clone(), volume)))
        .collect::<Result<_>>()?;
    let mut buf = vec![0; PIECE_BYTES];
    let mut skipped = 0;
    let mut requests = Vec::new();
    trace_open::each(&mut trace, &args.trace, printer, |request| {
        if request.op == Op::Read && request.length > 0 {
            requests.push((request.time_ns, request.offset, request.length, request.stream));
        }
        Ok(())
    })?;
    let names = trace.stream_names();
    for (time_ns, offset, length, stream) in requests {
        let name = stream.and_then(|stream| names.get(stream as usize));
        let of_name = name.and_then(|name| named.iter().find(|(known, _)| known == name));
        let volume = of_name.map(|(_, volume)| volume).or(usual.as_ref());
        let Some(volume) = volume.filter(|v| offset.saturating_add(length) <= v.size_bytes())
        else {
            skipped += 1;
            continue;
        };
        listening.lock().seconds = u32::try_from(time_ns / NS_PER_SECOND).unwrap_or(u32::MAX);
        let mut at = offset;
        while at < offset + length {
            let piece = (offset + length - at).min(PIECE_BYTES as u64);
            let read = volume.read_at(at, &mut buf[..piece as usize]);
            read.map_err(|error| Failure::nothing_done(format!("cannot read the pool: {error}")))?;
            at += piece;
        }
    }
    let heard = std::mem::take(&mut *listening.lock());
    if heard.accesses.is_empty() {
        return Err(Failure::nothing_done("the trace reads nothing that the pool stores")
            .hint("record reads with `onefold serve POOL --record FILE`")
            .hint("--volume NAME says which volume the requests of other traces are of"));
    }
    Ok((heard, status.stored_bytes, container_bytes, skipped))
}

fn replay(policy: &str, bytes: u64, heard: &Heard, args: &CacheAdviseArgs) -> Result<Replay> {
    let budget = args.writes_per_day.map(|Thousandths(times)| times);
    let mut replay = Replay::new(policy, bytes, budget).map_err(unusable)?;
    for &(id, references) in &heard.references {
        replay.set_references(id.get(), references);
    }
    for access in &heard.accesses {
        replay.tick(BEGIN_SECONDS + u64::from(access.seconds));
        let len = access.container_len.into();
        replay.read(access.container, len, access.offset.into(), access.bytes.into());
    }
    Ok(replay)
}

fn row(
    policy: String,
    totals: &TierTotals,
    replay: &Replay,
    span: u64,
    args: &CacheAdviseArgs,
) -> Row {
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    let fills = share(totals.written_bytes, replay.device_bytes());
    // Of less than a minute nothing can be said about days.
    let days = (span >= 60).then_some(span as f64 / SECONDS_PER_DAY);
    let per_day = days.map(|days| totals.written_bytes as f64 / days);
    let years = args.endurance.zip(per_day).filter(|&(_, per_day)| per_day > 0.0);
    Row {
        policy,
        hits: share(totals.hits, totals.requests),
        hit_bytes: share(totals.hit_bytes, totals.bytes),
        slow_bytes: totals.slow_bytes,
        written_bytes: totals.written_bytes,
        fills,
        writes_per_day: days.map(|days| fills / days),
        years: years.map(|(endurance, per_day)| endurance.bytes() as f64 / per_day / 365.25),
        memory_bytes: replay.memory_bytes().iter().sum(),
    }
}

fn text(advice: &Advice) -> String {
    let size = |bytes: u64| ByteSize(bytes).to_string();
    let mut table = Table::new(&[
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    table.row(["POLICY", "HITS", "OF BYTES", "SLOW", "WRITTEN", "A DAY", "YEARS"]);
    for row in &advice.policies {
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        table.row([
            &row.policy,
            &percent(row.hits),
            &percent(row.hit_bytes),
            &size(row.slow_bytes),
            &size(row.written_bytes),
            &or_none(row.writes_per_day.map(|times| format!("{times:.2}x"))),
            &or_none(row.years.map(|years| format!("{years:.1}"))),
        ]);
    }
    let mut lines = vec![format!(
        "{} reads of containers, {}, in {} s; a cache of {}",
        advice.reads,
        size(advice.read_bytes),
        advice.span_seconds,
        size(advice.cache_bytes)
    )];
    if advice.skipped > 0 {
        lines.push(format!("{} reads of no volume of the pool are left out", advice.skipped));
    }
    lines.push(String::new());
    lines.extend(table.lines(0));
    lines.join("\n") + "\n"
}

impl Listening {
    fn lock(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreLayer for Listening {
    fn below(&self) -> &dyn ContainerStore {
        &*self.store
    }

    fn read(
        &self,
        id: ContainerId,
        offset: u64,
        buf: &mut [u8],
    ) -> std::result::Result<(), StoreError> {
        let len = self.store.len(id)?;
        let fit = |value: u64| u32::try_from(value).ok();
        if let (Some(container_len), Some(offset)) = (fit(len), fit(offset)) {
            let mut heard = self.lock();
            let (seconds, bytes) = (heard.seconds, buf.len() as u32);
            let container = id.get();
            heard.accesses.push(Access { seconds, container, container_len, offset, bytes });
        }
        self.store.read(id, offset, buf)
    }

    fn tell_references(&self, totals: &[(ContainerId, u32)]) {
        self.lock().references.extend_from_slice(totals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;
    use crate::args::models::{CacheCommand, ModelCommand};
    use crate::commands::heard::{self, Folder};

    #[test]
    fn policies_are_a_table_with_dashes_for_what_is_not_known() {
        let row = |policy: &str, writes_per_day, years| Row {
            policy: policy.to_owned(),
            hits: 0.5,
            hit_bytes: 0.25,
            slow_bytes: 1024,
            written_bytes: 2048,
            fills: 1.0,
            writes_per_day,
            years,
            memory_bytes: 7,
        };
        let mut advice = Advice {
            schema_version: 1,
            reads: 3,
            read_bytes: 4096,
            span_seconds: 60,
            skipped: 0,
            cache_bytes: 1 << 20,
            policies: vec![row("lru", Some(1.25), Some(2.0)), row("larc", None, None)],
        };
        let head = "3 reads of containers, 4 KiB, in 60 s; a cache of 1 MiB\n";
        let table = "\nPOLICY    HITS  OF BYTES   SLOW  WRITTEN  A DAY  YEARS\n\
                     lru     50.0 %    25.0 %  1 KiB    2 KiB  1.25x    2.0\n\
                     larc    50.0 %    25.0 %  1 KiB    2 KiB      -      -\n";
        assert_eq!(text(&advice), [head, table].concat());
        advice.skipped = 1;
        let left_out = "1 reads of no volume of the pool are left out\n";
        assert_eq!(text(&advice), [head, left_out, table].concat());
    }

    fn args(more: &str) -> CacheAdviseArgs {
        let line = format!("cache advise p --trace t {more}");
        let Command::Model(ModelCommand::Cache(CacheCommand::Advise(args))) = heard::parsed(&line)
        else {
            panic!("another command")
        };
        args
    }

    #[test]
    fn a_minute_says_something_of_days_and_less_does_not() {
        let replay = Replay::new("lru", 64 << 20, None).unwrap();
        let device = replay.device_bytes();
        let totals = TierTotals {
            requests: 4,
            hits: 1,
            bytes: 100,
            hit_bytes: 75,
            slow_bytes: 25,
            written_bytes: device / 2,
            ..TierTotals::default()
        };
        let of = |span, more: &str| row("lru".to_owned(), &totals, &replay, span, &args(more));
        let short = of(59, "--endurance 1T");
        assert_eq!((short.hits, short.hit_bytes, short.fills), (0.25, 0.75, 0.5));
        assert_eq!((short.writes_per_day, short.years), (None, None));
        let minute = of(60, "");
        assert_eq!((minute.writes_per_day, minute.years), (Some(720.0), None));
        let endurance = device * 720 / 1024 * 4;
        let years = of(60, &format!("--endurance {endurance}K")).years.unwrap();
        assert!((years - 4.0 / 365.25 / 1.0).abs() < 1e-4, "{years}");
        let idle = TierTotals::default();
        let none = row("lru".to_owned(), &idle, &replay, 60, &args("--endurance 1T"));
        assert_eq!((none.hits, none.years), (0.0, None));
    }

    #[test]
    fn reads_of_a_trace_are_those_of_the_volumes_that_they_name() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.file("data", &onefold_block::SplitMix64::new(1).bytes(3 << 20));
        here.ok("volume import ./p a ./data");
        let trace = "time_ns,op,offset,length,identity,stream,pid\n\
            0,read,0,4096,,,\n\
            0,write,0,4096,,,\n\
            1000000000,read,4096,0,,,\n\
            4000000000000,read,0,3145728,,,\n\
            4001000000000,read,3141632,8192,,,\n";
        here.file("t", trace.as_bytes());
        let line = "cache advise ./p --trace ./t --cache-size 64M --policy lru --policy larc";
        let json = here.ok(&format!("{line} --json")).json();
        assert_eq!((&json["span_seconds"], &json["skipped"]), (&4000.into(), &1.into()));
        let rows = json["policies"].as_array().unwrap();
        let hits = rows.iter().map(|row| row["hit_bytes"].as_f64().unwrap()).collect::<Vec<_>>();
        assert!(rows.len() == 2 && hits[0] >= hits[1], "{hits:?}");
        let read = json["read_bytes"].as_u64().unwrap();
        assert!((3 << 20..4 << 20).contains(&read), "{read}");
        let text = here.ok(line).out;
        assert!(text.contains("\n1 reads of no volume of the pool are left out\n"), "{text}");
        let none = here.refused("cache advise ./none --trace ./t", 2);
        assert!(none.contains("there is no pool at './none'"), "{none}");
        here.file("t", b"time_ns,op,offset,length,identity,stream,pid\n0,write,0,4096,,,\n");
        let nothing = here.refused("cache advise ./p --trace ./t", 2);
        assert!(nothing.starts_with("error: the trace reads nothing that the pool stores\n"));
    }
}
