//! How a cache before slow disks looks to people, and to programs.
//! Room: onefold.

use onefold_block::ByteSize;
use serde::Serialize;

use crate::endurance::{Drive, Life};
use crate::pool_cache::CacheReport;
use crate::table::{Align, Table, percent, plural};

/// The table, with a head.
pub fn cache_table(report: &CacheReport) -> Table {
    let size = |bytes| ByteSize(bytes).to_string();
    let share = |part: u64, of: u64| percent(part as f64 / of.max(1) as f64);
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let Some(tier) = &report.status else {
        table.row(["CACHE", "", ""]);
        let nothing = "it tells nothing of itself yet";
        let problem = report.problem.as_deref().unwrap_or(nothing);
        let row = if report.problem.is_some() { "not used" } else { "" };
        table.row([row, "", problem]);
        life_row(&mut table, report);
        return table;
    };
    let totals = &tier.totals;
    table.row(["CACHE", "", &format!("policy {}", tier.policy)]);
    let (kept, limit) = (size(tier.cached_bytes), size(tier.capacity_bytes));
    let extents = plural(tier.cached_extents, "extent", "extents");
    table.row(["kept", &kept, &format!("{extents}; at most {limit} of the fast device")]);
    let reads = plural(totals.requests, "read", "reads");
    table.row(["hits", &share(totals.hits, totals.requests), &format!("of {reads}")]);
    let bytes =
        format!("of {}; {} read from behind it", size(totals.bytes), size(totals.slow_bytes));
    table.row(["hits by bytes", &share(totals.hit_bytes, totals.bytes), &bytes]);
    let fills = totals.written_bytes as f64 / tier.capacity_bytes.max(1) as f64;
    let extents = plural(totals.writes, "extent", "extents");
    let writes = format!("{extents}; {fills:.2} times its size");
    table.row(["written", &size(totals.written_bytes), &writes]);
    if totals.new_bytes > 0 {
        let new = "kept as soon as they were stored, before anybody read them";
        table.row(["of new data", &size(totals.new_bytes), new]);
    }
    let lasts = |per_day| {
        let years = life(report).map(|life| life.years(per_day));
        years.map_or_else(String::new, |years| format!("; the device lasts {years:.1} years so"))
    };
    if let Some(per_day) = tier.writes_per_day {
        let budget = format!("of {} a day{}", size(per_day), lasts(per_day));
        table.row(["last day", &size(tier.written_last_day), &budget]);
    } else {
        let budget = format!("no limit{}", lasts(tier.written_last_day));
        table.row(["last day", &size(tier.written_last_day), &budget]);
    }
    life_row(&mut table, report);
    if tier.index_bytes > 0 {
        let [policy, waiting] = [tier.policy_bytes, tier.waiting_bytes].map(size);
        let memory = format!("index; policy {policy}; extents not judged yet {waiting}");
        table.row(["memory", &size(tier.index_bytes), &memory]);
    }
    if totals.bad_copies + totals.failed_writes + totals.torn_segments > 0 {
        let bad = plural(totals.bad_copies, "bad extent", "bad extents");
        let torn = plural(totals.torn_segments, "torn segment", "torn segments");
        let failed = plural(totals.failed_writes, "failed write", "failed writes");
        table.row(["trouble", "", &format!("{bad}, {torn}, {failed}")]);
    }
    for problem in [&report.problem, &tier.problem].into_iter().flatten() {
        table.row(["PROBLEM", "", problem]);
    }
    table
}

fn life(report: &CacheReport) -> Option<&Life> {
    report.life.as_ref()?.as_ref().ok()
}

/// What a drive told of itself, or why it did not.
fn life_row(table: &mut Table, report: &CacheReport) {
    match &report.life {
        Some(Ok(Life { total, left, drive: Some(drive) })) => {
            let Drive { device, model, used_percent, written } = drive;
            let told = format!(
                "of {device} ({model}) used, with {written} written; so it takes {total} in its \
                 life, and {left} from now on"
            );
            table.row(["life", &format!("{used_percent} %"), &told]);
        }
        Some(Err(why)) => table.row(["life", "", why]),
        None | Some(Ok(_)) => {}
    }
}

/// For programs; docs/json.md.
#[derive(Serialize, schemars::JsonSchema)]
pub struct CacheJson {
    problem: Option<String>,
    life: Option<LifeJson>,
    #[serde(flatten)]
    known: Option<Known>,
}

/// What the cache's device can take.
#[derive(Serialize, schemars::JsonSchema)]
struct LifeJson {
    problem: Option<String>,
    total_bytes: Option<u64>,
    left_bytes: Option<u64>,
    device: Option<String>,
    model: Option<String>,
    used_percent: Option<u64>,
    written_bytes: Option<u64>,
}

impl From<&Result<Life, String>> for LifeJson {
    fn from(known: &Result<Life, String>) -> Self {
        let life = known.as_ref().ok();
        let drive = life.and_then(|life| life.drive.as_ref());
        Self {
            problem: known.as_ref().err().cloned(),
            total_bytes: life.map(|life| life.total.bytes()),
            left_bytes: life.map(|life| life.left.bytes()),
            device: drive.map(|drive| drive.device.clone()),
            model: drive.map(|drive| drive.model.clone()),
            used_percent: drive.map(|drive| drive.used_percent),
            written_bytes: drive.map(|drive| drive.written.bytes()),
        }
    }
}

#[derive(Serialize, schemars::JsonSchema)]
struct Known {
    policy: String,
    capacity_bytes: u64,
    cached_bytes: u64,
    cached_extents: u64,
    reads: u64,
    hits: u64,
    read_bytes: u64,
    hit_bytes: u64,
    slow_bytes: u64,
    fast_bytes: u64,
    written_extents: u64,
    admitted_bytes: u64,
    new_bytes: u64,
    moved_bytes: u64,
    written_bytes: u64,
    state_bytes: u64,
    dropped_extents: u64,
    writes_per_day_bytes: Option<u64>,
    written_last_day_bytes: u64,
    years: Option<f64>,
    bad_extents: u64,
    torn_segments: u64,
    failed_writes: u64,
}

impl From<&CacheReport> for CacheJson {
    fn from(report: &CacheReport) -> Self {
        let known = report.status.as_ref().map(|tier| {
            let totals = &tier.totals;
            let per_day = tier.writes_per_day.unwrap_or(tier.written_last_day);
            Known {
                policy: tier.policy.clone(),
                capacity_bytes: tier.capacity_bytes,
                cached_bytes: tier.cached_bytes,
                cached_extents: tier.cached_extents,
                reads: totals.requests,
                hits: totals.hits,
                read_bytes: totals.bytes,
                hit_bytes: totals.hit_bytes,
                slow_bytes: totals.slow_bytes,
                fast_bytes: totals.fast_bytes,
                written_extents: totals.writes,
                admitted_bytes: totals.admitted_bytes,
                new_bytes: totals.new_bytes,
                moved_bytes: totals.moved_bytes,
                written_bytes: totals.written_bytes,
                state_bytes: totals.state_bytes,
                dropped_extents: totals.dropped,
                writes_per_day_bytes: tier.writes_per_day,
                written_last_day_bytes: tier.written_last_day,
                years: life(report).map(|life| life.years(per_day)),
                bad_extents: totals.bad_copies,
                torn_segments: totals.torn_segments,
                failed_writes: totals.failed_writes,
            }
        });
        let of_tier = report.status.as_ref().and_then(|tier| tier.problem.clone());
        let life = report.life.as_ref().map(LifeJson::from);
        Self { problem: report.problem.clone().or(of_tier), life, known }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use onefold_block::kept_text::assert_text;
    use onefold_cache::tier::{TierStatus, TierTotals};

    use super::*;

    fn text(report: &CacheReport) -> String {
        let lines = cache_table(report).lines(0);
        lines.iter().flat_map(|line| [line.trim_end(), "\n"]).chain(["\n"]).collect()
    }

    #[test]
    fn people_see_what_a_cache_does_and_what_its_device_can_take() {
        let untold = |problem: Option<&str>, life| CacheReport {
            status: None,
            problem: problem.map(str::to_owned),
            life,
        };
        let drive = Drive {
            device: "/dev/x".to_owned(),
            model: "Fast 1".to_owned(),
            used_percent: 25,
            written: ByteSize(1 << 40),
        };
        let (total, left) = (ByteSize(4 << 40), ByteSize(3 << 40));
        let told = || Some(Ok(Life { total, left, drive: Some(drive.clone()) }));
        let mut all = text(&untold(None, None));
        all += &text(&untold(Some("no such folder"), Some(Err("it does not say".to_owned()))));
        let mut tier = TierStatus {
            policy: "p".to_owned(),
            capacity_bytes: 1 << 30,
            cached_bytes: 1 << 20,
            cached_extents: 1,
            index_bytes: 0,
            policy_bytes: 2048,
            waiting_bytes: 4096,
            writes_per_day: None,
            written_last_day: 1 << 30,
            problem: None,
            totals: TierTotals {
                requests: 1,
                hits: 1,
                bytes: 4096,
                slow_bytes: 8192,
                ..TierTotals::default()
            },
        };
        let report = |tier: &TierStatus, problem: Option<&str>, life| CacheReport {
            status: Some(tier.clone()),
            ..untold(problem, life)
        };
        all += &text(&report(&tier, None, Some(Ok(Life { total, left, drive: None }))));
        tier.totals = TierTotals {
            requests: 8,
            hits: 2,
            hit_bytes: 3072,
            writes: 2,
            written_bytes: 1 << 29,
            new_bytes: 1,
            torn_segments: 1,
            failed_writes: 2,
            ..tier.totals
        };
        (tier.index_bytes, tier.writes_per_day) = (1, Some(2 << 30));
        tier.problem = Some("it is full of dust".to_owned());
        all += &text(&report(&tier, Some("it was taken away"), told()));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cache_view.txt");
        assert_text(&path, &all, std::env::var_os("ONEFOLD_UPDATE").is_some());
        let json = serde_json::to_value(CacheJson::from(&report(&tier, None, told()))).unwrap();
        assert_eq!((&json["problem"], &json["hits"]), (&"it is full of dust".into(), &2.into()));
        assert_eq!(json["life"]["left_bytes"], 3_u64 << 40);
        let years = json["years"].as_f64().unwrap();
        assert!((years - 1536.0 / 365.25).abs() < 1e-9, "{years}");
    }
}
