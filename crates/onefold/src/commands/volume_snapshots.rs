//! `onefold volume list --snapshots`: the snapshots of a pool.
//! Room: onefold.

use std::collections::HashMap;
use std::path::Path;

use onefold_block::ByteSize;
use onefold_control::Report;
use onefold_control::report::heading;
use onefold_pool::{PoolError, SNAPSHOT_MARK, SnapshotInfo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::volume_snapshot::identity_text;
use crate::failure::{Failure, Result};
use crate::operate::door::Door;
use crate::operate::{Context, table};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::table::{Align, Table};
use crate::utc::utc_text;

/// Which snapshots to list.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Only those of the volume of this name.
    pub name: Option<String>,
    /// Say what each alone holds, too. That reads map pages in which they differ.
    pub alone: bool,
}

/// A snapshot.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SnapshotJson {
    /// Volume and snapshot, such as main@monday.
    pub name: String,
    /// When it was made, in seconds since the beginning of 1970; 0 if that is not known.
    created_s: u64,
    /// Size of the volume then.
    size_bytes: u64,
    /// Blocks with stored data.
    mapped_bytes: u64,
    /// Of these, blocks that neither the snapshot before it nor what was made from it has; null if
    /// nobody asked, or if maps are damaged.
    alone_bytes: Option<u64>,
    /// Whether it is held, and cannot be deleted.
    held: bool,
    /// Volumes that were made from it, which need it.
    clones: Vec<String>,
    /// What it and every copy of it in other pools is known by: 16 hexadecimal digits.
    pub identity: String,
}

/// The list.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SnapshotsJson {
    schema_version: u32,
    pool: String,
    snapshots: Vec<SnapshotJson>,
}

fn json(snapshot: &SnapshotInfo, alone_bytes: Option<u64>) -> SnapshotJson {
    SnapshotJson {
        name: snapshot.name.clone(),
        created_s: snapshot.created_seconds,
        size_bytes: snapshot.size_bytes,
        mapped_bytes: snapshot.mapped_bytes,
        alone_bytes,
        held: snapshot.held,
        clones: snapshot.needed_by.clone(),
        identity: identity_text(snapshot.identity),
    }
}

/// All snapshots.
pub fn listed(door: &Door, printer: &Printer) -> Result<Vec<SnapshotJson>> {
    let report = door.call(&table::VOLUME_SNAPSHOTS, &Request::default(), printer)?;
    let list: std::result::Result<SnapshotsJson, _> = serde_json::from_value(report.result);
    let nonsense = |error| Failure::bad(format!("the list of snapshots makes no sense: {error}"));
    list.map(|list| list.snapshots).map_err(nonsense)
}

/// Refuse a name that no snapshot has.
pub fn must_be_there(door: &Door, at: &Path, name: &str, printer: &Printer) -> Result<()> {
    if listed(door, printer)?.iter().any(|snapshot| snapshot.name == name) {
        return Ok(());
    }
    let volume = name.split_once(SNAPSHOT_MARK).map_or(name, |(volume, _)| volume).to_owned();
    Err(Failure::pool(at, PoolError::NoSnapshot { name: name.to_owned(), volume }))
}

/// List snapshots.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let snapshots = context.pool.snapshots(request.name.as_deref());
    let snapshots = snapshots.map_err(|error| context.failed(error))?;
    let alone =
        if request.alone { context.pool.alone(request.name.as_deref()) } else { Ok(vec![]) };
    let alone: HashMap<String, Option<u64>> =
        alone.map_err(|error| context.failed(error))?.into_iter().collect();
    let alone = |snapshot: &SnapshotInfo| alone.get(&snapshot.name).copied().flatten();
    let report = Report::default().with_result(&SnapshotsJson {
        schema_version: JSON_SCHEMA_VERSION,
        pool: context.at.display().to_string(),
        snapshots: snapshots.iter().map(|snapshot| json(snapshot, alone(snapshot))).collect(),
    });
    if snapshots.is_empty() {
        return Ok(Report { asides: vec!["there are no snapshots".to_owned()], ..report });
    }
    let left = Align::Left;
    let right = Align::Right;
    let mut table = Table::new(&[left, left, right, right, right, left, left]);
    table.row(["SNAPSHOT", "MADE (UTC)", "SIZE", "DATA", "ALONE", "HELD", "CLONES"]);
    for snapshot in &snapshots {
        let made = match snapshot.created_seconds {
            0 => String::new(),
            seconds => utc_text(i64::try_from(seconds).unwrap_or(i64::MAX)),
        };
        table.row([
            snapshot.name.clone(),
            made,
            ByteSize(snapshot.size_bytes).to_string(),
            ByteSize(snapshot.mapped_bytes).to_string(),
            alone(snapshot).map_or_else(String::new, |bytes| ByteSize(bytes).to_string()),
            if snapshot.held { "held".to_owned() } else { String::new() },
            snapshot.needed_by.join(", "),
        ]);
    }
    let mut lines = table.lines(0);
    if let Some(head) = lines.first_mut() {
        *head = heading(head);
    }
    Ok(report.with_text(&(lines.join("\n") + "\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::Folder;

    #[test]
    fn snapshots_are_a_table_of_what_each_holds() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.file("data", &[7; 4096]);
        here.ok("volume import ./p v ./data");
        let said = here.ok("volume snapshot ./p v@a");
        assert_eq!((&*said.out, &*said.err), ("", "made snapshot 'v@a'\n"));
        assert_eq!(here.ok("volume snapshot ./p v@b --hold").err, "made snapshot 'v@b', held\n");
        let cloned = here.ok("volume clone ./p v@a w");
        assert_eq!(cloned.err, "made volume 'w' of 4 KiB from 'v@a'\n");
        let rows = |line: &str| {
            let said = here.ok(line);
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            said.out.lines().map(words).collect::<Vec<Vec<String>>>()
        };
        let table = rows("volume list ./p --snapshots");
        let head = ["SNAPSHOT", "MADE", "(UTC)", "SIZE", "DATA", "ALONE", "HELD", "CLONES"];
        assert_eq!(table[0], head);
        // Between these stands when they were made.
        let tails = [("v@a", "4 KiB 4 KiB 0 B w"), ("v@b", "4 KiB 4 KiB 0 B held")];
        for (row, (name, tail)) in table[1..].iter().zip(tails) {
            assert_eq!((&*row[0], &*row[3..].join(" ")), (name, tail));
        }
        assert!(here.ok("volume list ./p w --snapshots").err.contains("there are no snapshots"));
        assert_eq!(here.ok("volume release ./p v@b").err, "released snapshot 'v@b'\n");
        assert_eq!(here.ok("volume hold ./p v@a").err, "held snapshot 'v@a'\n");
        here.file("data", &[8; 4096]);
        here.ok("volume import ./p v ./data");
        let back = here.ok("volume rollback ./p v@b --yes");
        assert_eq!(back.err, "volume 'v' is what 'v@b' is\n");
        here.ok("volume export ./p v ./out");
        assert_eq!(std::fs::read(here.path("out")).unwrap(), [7; 4096]);
    }

    #[test]
    fn alone_is_told_to_those_who_ask_for_it() {
        use crate::commands::heard;
        use crate::test_pool;

        let pool = test_pool::pool();
        pool.create_volume("v", ByteSize(1 << 20)).unwrap();
        pool.snapshot_as(
            "v@a",
            onefold_pool::SnapshotOptions { identity: 7, ..Default::default() },
        )
        .unwrap();
        let ask = |alone| {
            let request = Request { name: None, alone };
            let report = heard::operate(&pool, &table::VOLUME_SNAPSHOTS, &request).unwrap();
            (report.result["snapshots"][0]["alone_bytes"].clone(), report.text)
        };
        let (none, text) = ask(false);
        assert!(none.is_null());
        // It was made at no known time.
        let table = "SNAPSHOT  MADE (UTC)   SIZE  DATA  ALONE  HELD  CLONES\n\
                     v@a                   1 MiB   0 B\n";
        assert_eq!(text, table);
        assert_eq!(ask(true).0, 0);
    }
}
