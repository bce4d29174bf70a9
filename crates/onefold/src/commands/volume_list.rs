//! `onefold volume list`: the volumes of a pool.
//! Room: onefold.

use std::path::Path;

use onefold_block::ByteSize;
use onefold_control::Report;
use onefold_control::report::heading;
use onefold_pool::{Budgets, VolumeStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::volume_delete::is_snapshot;
use super::volume_snapshots;
use crate::args::VolumeListArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::operate::door::{Door, Opening};
use crate::operate::{Context, table};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::status_view::{VolumeJson, volume_table};

/// Which volumes to list.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Only the volume of this name.
    pub name: Option<String>,
}

/// The list.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ListJson {
    schema_version: u32,
    pool: String,
    volumes: Vec<VolumeJson>,
}

fn must_be_volume(at: &Path, name: &str) -> Result<()> {
    if !is_snapshot(name) {
        return Ok(());
    }
    let at = at.display();
    Err(Failure::nothing_done(format!("'{name}' is a snapshot, and no volume"))
        .hint(format!("list snapshots with: onefold volume list {at} --snapshots")))
}

/// List volumes.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let failed = |error| context.failed(error);
    let (pool, at) = (context.pool, context.at.display());
    if let Some(name) = &request.name {
        must_be_volume(context.at, name)?;
        pool.volume(name).map_err(failed)?;
    }
    let wanted =
        |volume: &VolumeStatus| request.name.as_ref().is_none_or(|name| *name == volume.name);
    let mut volumes = pool.status().map_err(failed)?.volumes;
    volumes.retain(wanted);
    let report = Report::default().with_result(&ListJson {
        schema_version: JSON_SCHEMA_VERSION,
        pool: at.to_string(),
        volumes: volumes.iter().map(VolumeJson::from).collect(),
    });
    if volumes.is_empty() {
        let asides = vec![
            format!("pool '{at}' has no volumes"),
            format!("make one with: onefold volume create {at} NAME --size 64G"),
        ];
        return Ok(Report { asides, ..report });
    }
    let mut lines = volume_table(&volumes).lines(0);
    if let Some(head) = lines.first_mut() {
        *head = heading(head);
    }
    let mut report = report.with_text(&(lines.join("\n") + "\n"));
    if volumes.len() > 1 {
        let total: u64 =
            volumes.iter().fold(0, |sum, volume| volume.mapped_bytes.saturating_add(sum));
        report.asides.push(format!("{} of data before reduction", ByteSize(total)));
    }
    Ok(report)
}

/// The volumes of a pool, or the one of this name.
pub fn listed(door: &Door, name: Option<&str>, printer: &Printer) -> Result<Vec<VolumeJson>> {
    let request = Request { name: name.map(str::to_owned) };
    let report = door.call(&table::VOLUME_LIST, &request, printer)?;
    let list: std::result::Result<ListJson, _> = serde_json::from_value(report.result);
    let nonsense = |error| Failure::bad(format!("the list of volumes makes no sense: {error}"));
    list.map(|list| list.volumes).map_err(nonsense)
}

/// Print the list.
pub fn run(args: &VolumeListArgs, printer: &Printer) -> Result<()> {
    if let Some(name) = &args.name {
        must_be_volume(&args.pool, name)?;
    }
    let budgets = Budgets::default();
    let door = if args.rescue.rescue.is_some() {
        let rescued = open_pool::to_read_or_rescue(&args.pool, budgets, args.rescue, printer)?;
        Door::here(&args.pool, rescued.0)
    } else {
        Door::find(&args.pool, Opening::Read(budgets))?
    };
    let report = if args.snapshots {
        let request = volume_snapshots::Request { name: args.name.clone(), alone: true };
        door.call(&table::VOLUME_SNAPSHOTS, &request, printer)?
    } else {
        let request = Request { name: args.name.clone() };
        door.call(&table::VOLUME_LIST, &request, printer)?
    };
    printer.report(report, args.json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::{self, Folder};
    use crate::test_pool;

    #[test]
    fn volumes_are_listed_with_their_data_and_a_snapshot_is_none() {
        let here = Folder::new();
        here.ok("pool create ./p");
        let none = here.ok("volume list ./p");
        let advice = "pool './p' has no volumes\n\
                      make one with: onefold volume create ./p NAME --size 64G\n";
        assert_eq!((&*none.out, &*none.err), ("", advice));
        here.file("data", &[7; 4096]);
        here.ok("volume import ./p a ./data");
        let one = here.ok("volume list ./p");
        let table = "VOLUME   SIZE   DATA     FULL\na       4 KiB  4 KiB  100.0 %\n";
        assert_eq!((&*one.out, &*one.err), (table, ""));
        let made = here.ok("volume create ./p b --size 1M");
        assert_eq!((&*made.out, &*made.err), ("", "made volume 'b' of 1 MiB\n"));
        let both = here.ok("volume list ./p");
        let table = "VOLUME   SIZE   DATA     FULL\n\
                     a       4 KiB  4 KiB  100.0 %\n\
                     b       1 MiB    0 B    0.0 %\n";
        assert_eq!((&*both.out, &*both.err), (table, "4 KiB of data before reduction\n"));
        let named = here.ok("volume list ./p b --json").json();
        assert_eq!(named["volumes"].as_array().unwrap().len(), 1, "{named}");
        assert_eq!(named["volumes"][0]["name"], "b");

        let no_volume = "error: 'a@x' is a snapshot, and no volume\n\
                         hint: list snapshots with: onefold volume list ./p --snapshots\n";
        assert_eq!(here.refused("volume list ./p a@x", 2), no_volume);
        assert_eq!(here.refused("volume list ./p a@x --snapshots", 2), no_volume);
        assert!(here.refused("volume list ./p c", 2).contains("volume 'c'"));
        assert_eq!(here.ok("volume list ./p --snapshots").err, "there are no snapshots\n");
        let rescued = here.ok("volume list ./p b --rescue");
        assert_eq!(rescued.out, "VOLUME   SIZE  DATA   FULL\nb       1 MiB   0 B  0.0 %\n");
    }

    #[test]
    fn a_server_lists_no_volume_for_a_snapshot_or_for_what_is_not_there() {
        let pool = test_pool::pool();
        for (name, why) in [("a@x", "'a@x' is a snapshot, and no volume"), ("a", "volume 'a'")] {
            let request = Request { name: Some(name.to_owned()) };
            let failure = heard::operate(&pool, &table::VOLUME_LIST, &request).unwrap_err();
            assert!(failure.message.contains(why), "{}", failure.message);
        }
    }
}
