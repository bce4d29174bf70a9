//! `onefold volume prune`: snapshots that no rule keeps go.
//! Room: onefold.

use onefold_block::Keep;
use onefold_control::Report;
use onefold_pool::{Budgets, PoolError, SnapshotInfo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::volume_delete::clients_of;
use super::volume_snapshot::give_up_deleted;
use crate::args::VolumePruneArgs;
use crate::failure::Result;
use crate::interrupt;
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::table::plural;
use crate::utc::utc_text;

/// Which snapshots to keep of a volume's.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The volume.
    pub name: String,
    /// The newest, so many of them.
    #[serde(default)]
    pub keep_last: u32,
    /// One an hour, of so many hours that have one.
    #[serde(default)]
    pub keep_hourly: u32,
    /// One a day.
    #[serde(default)]
    pub keep_daily: u32,
    /// One a week.
    #[serde(default)]
    pub keep_weekly: u32,
    /// One a month.
    #[serde(default)]
    pub keep_monthly: u32,
    /// One a year.
    #[serde(default)]
    pub keep_yearly: u32,
    /// All that are at most so many seconds older than the newest one.
    #[serde(default)]
    pub keep_within_s: i64,
    /// Say what would go, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// A snapshot, and what is done with it.
#[derive(Serialize, JsonSchema)]
pub struct Decision {
    /// Volume and snapshot, such as main@monday.
    pub name: String,
    /// When it was made, in seconds since the beginning of 1970; 0 if that is not known.
    created_s: u64,
    /// Whether it stays.
    pub kept: bool,
    /// The rules that keep it, and what else does.
    reasons: Vec<String>,
}

/// What was decided.
#[derive(Serialize, JsonSchema)]
pub struct PruneJson {
    schema_version: u32,
    volume: String,
    dry_run: bool,
    snapshots: Vec<Decision>,
}

impl Request {
    fn keep(&self) -> Keep {
        Keep {
            last: self.keep_last,
            hourly: self.keep_hourly,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
            yearly: self.keep_yearly,
            within_s: self.keep_within_s,
        }
    }
}

impl Decision {
    fn line(&self) -> String {
        let what = match (self.kept, self.reasons.is_empty()) {
            (true, true) => "keep".to_owned(),
            (true, false) => format!("keep ({})", self.reasons.join(", ")),
            (false, _) => "delete".to_owned(),
        };
        let made = match self.created_s {
            0 => String::new(),
            seconds => format!(" of {}", utc_text(i64::try_from(seconds).unwrap_or(i64::MAX))),
        };
        format!("{what} {}{made}\n", self.name)
    }
}

/// What the rules say of each snapshot. Without a rule all are kept. Those whose time is not known
/// are no rule's business, and stay.
pub fn decide(snapshots: &[SnapshotInfo], keep: &Keep) -> Vec<Decision> {
    let times = (0u32..).zip(snapshots).filter(|(_, snapshot)| snapshot.created_seconds > 0);
    let time = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    let kept = keep.choose(times.map(|(number, s)| (time(s.created_seconds), number)));
    let decide = |(number, snapshot): (u32, &SnapshotInfo)| {
        let rules = kept.get(&number).into_iter().flatten();
        let mut reasons: Vec<String> = rules.map(|&rule| rule.to_owned()).collect();
        if snapshot.held {
            reasons.push("held".to_owned());
        }
        if !snapshot.needed_by.is_empty() {
            reasons.push(format!("origin of {}", snapshot.needed_by.join(", ")));
        }
        if snapshot.created_seconds == 0 {
            reasons.push("of an unknown time".to_owned());
        }
        Decision {
            name: snapshot.name.clone(),
            created_s: snapshot.created_seconds,
            kept: keep.is_empty() || !reasons.is_empty(),
            reasons,
        }
    };
    (0u32..).zip(snapshots).map(decide).collect()
}

/// Delete what no rule keeps.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let failed = |error| context.failed(error);
    let Request { name, dry_run, .. } = request;
    let snapshots = context.pool.snapshots(Some(name)).map_err(failed)?;
    let keep = request.keep();
    let mut decisions = decide(&snapshots, &keep);
    for decision in decisions.iter_mut().filter(|decision| !decision.kept) {
        let device = context.pool.volume(&decision.name).map_err(failed)?;
        if let Some(clients) = clients_of(context, &device) {
            decision.reasons.push(format!("in use by {clients}"));
            decision.kept = true;
        } else if !dry_run {
            match context.pool.delete_snapshot(&decision.name) {
                // A rollback went back past it, or somebody was faster than this.
                Err(
                    error @ (PoolError::SnapshotNeeded { .. }
                    | PoolError::SnapshotPassed { .. }
                    | PoolError::SnapshotHeld(_)),
                ) => {
                    decision.reasons.push(error.to_string());
                    decision.kept = true;
                }
                Err(PoolError::NoSnapshot { .. }) => {}
                done => done.map_err(failed)?,
            }
        }
        if context.job.is_cancelled() || interrupt::asked() {
            break;
        }
    }
    if !dry_run {
        give_up_deleted(context)?;
    }
    let text: String = decisions.iter().map(Decision::line).collect();
    let gone = decisions.iter().filter(|decision| !decision.kept).count() as u64;
    let mut report = Report::default();
    if !decisions.is_empty() {
        report = report.with_text(&text);
    }
    let count = plural(gone, "snapshot", "snapshots");
    report.asides.push(match (keep.is_empty(), *dry_run) {
        (true, _) => "no rule says what to keep, so all stay".to_owned(),
        (false, true) => format!("{count} would go; nothing was changed"),
        (false, false) => format!("deleted {count}"),
    });
    let (volume, dry_run) = (name.clone(), *dry_run);
    let schema_version = JSON_SCHEMA_VERSION;
    Ok(report.with_result(&PruneJson { schema_version, volume, dry_run, snapshots: decisions }))
}

/// Prune, and say what went.
pub fn run(args: &VolumePruneArgs, printer: &Printer) -> Result<()> {
    let keep = args.keep.keep();
    let request = Request {
        name: args.name.clone(),
        keep_last: keep.last,
        keep_hourly: keep.hourly,
        keep_daily: keep.daily,
        keep_weekly: keep.weekly,
        keep_monthly: keep.monthly,
        keep_yearly: keep.yearly,
        keep_within_s: keep.within_s,
        dry_run: args.dry_run,
    };
    let budgets = Budgets::default();
    let opening = if args.dry_run { Opening::Read(budgets) } else { Opening::Write(budgets) };
    let report = door::call(&args.pool, opening, &table::VOLUME_PRUNE, &request, printer)?;
    printer.report(report, args.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_keep_and_so_do_holds_clones_and_unknown_times() {
        let day = 24 * 3600;
        let snapshot = |number: u64| SnapshotInfo {
            name: format!("main@s{number}"),
            created_seconds: number * day / 2,
            size_bytes: 1,
            mapped_bytes: 0,
            held: number == 2,
            needed_by: if number == 3 { vec!["copy".to_owned()] } else { Vec::new() },
            identity: number,
        };
        let snapshots: Vec<SnapshotInfo> = (0..10).map(snapshot).collect();
        let kept = |keep: Keep| -> Vec<String> {
            let kept = decide(&snapshots, &keep).into_iter().filter(|decision| decision.kept);
            kept.map(|decision| decision.name.replace("main@s", "")).collect()
        };
        assert_eq!(kept(Keep::default()).len(), 10);
        let last = Keep { last: 2, ..Keep::default() };
        assert_eq!(kept(last), ["0", "2", "3", "8", "9"]);
        assert_eq!(kept(Keep { daily: 3, ..Keep::default() }), ["0", "2", "3", "5", "7", "9"]);
        let decisions = decide(&snapshots, &last);
        assert_eq!(decisions[3].line(), "keep (origin of copy) main@s3 of 1970-01-02 12:00:00\n");
        assert_eq!(decisions[4].line(), "delete main@s4 of 1970-01-03 00:00:00\n");
        assert_eq!(decisions[9].line(), "keep (last) main@s9 of 1970-01-05 12:00:00\n");
        assert_eq!(decisions[0].line(), "keep (of an unknown time) main@s0\n");
        assert_eq!(decisions[2].reasons, ["held"]);
    }

    #[test]
    fn what_no_rule_keeps_goes_and_is_counted() {
        use crate::commands::heard::{self, Folder};
        use crate::test_pool;

        let pool = test_pool::pool();
        pool.create_volume("v", onefold_block::ByteSize(1 << 20)).unwrap();
        for (number, name) in (1..).zip(["v@a", "v@b", "v@c"]) {
            let created_seconds = number * 86_400;
            let options = onefold_pool::SnapshotOptions { created_seconds, ..Default::default() };
            pool.snapshot_as(name, options).unwrap();
        }
        let prune = |keep_last, dry_run| {
            let request = Request { name: "v".into(), keep_last, dry_run, ..Request::default() };
            let report = heard::operate(&pool, &table::VOLUME_PRUNE, &request).unwrap();
            (report.text, report.asides.concat())
        };
        let (a, c) = ("v@a of 1970-01-02 00:00:00\n", "v@c of 1970-01-04 00:00:00\n");
        let b = "v@b of 1970-01-03 00:00:00\n";
        let all = format!("keep {a}keep {b}keep {c}");
        assert_eq!(prune(0, false), (all, "no rule says what to keep, so all stay".to_owned()));
        let two = format!("delete {a}keep (last) {b}keep (last) {c}");
        let planned = "1 snapshot would go; nothing was changed".to_owned();
        assert_eq!(prune(2, true), (two.clone(), planned));
        assert_eq!(pool.snapshots(None).unwrap().len(), 3);
        assert_eq!(prune(2, false), (two, "deleted 1 snapshot".to_owned()));
        // Those that are being deleted would be among them.
        assert_eq!(pool.status().unwrap().snapshots, 2);
        assert_eq!(prune(1, false).1, "deleted 1 snapshot");
        assert_eq!(pool.snapshots(None).unwrap().len(), 1);
        pool.delete_snapshot("v@c").unwrap();
        assert_eq!(prune(1, false), (String::new(), "deleted 0 snapshots".to_owned()));

        let here = Folder::new();
        here.ok("pool create ./p");
        here.ok("volume create ./p v --size 1M");
        here.ok("volume snapshot ./p v@a");
        let said = here.ok("volume prune ./p v --keep-within 1h --dry-run");
        assert!(said.out.starts_with("keep (within) v@a of 2"), "{}", said.out);
        let said = here.ok("volume prune ./p v --keep-yearly 1 --keep-weekly 1 --json").json();
        assert_eq!(said["snapshots"][0]["reasons"], serde_json::json!(["weekly", "yearly"]));
        assert!(here.refused("volume prune ./p w --keep-last 1", 2).contains("'w'"));
    }
}
