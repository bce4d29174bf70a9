//! `onefold volume diff`: where two snapshots or volumes differ.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_control::Report;
use onefold_control::report::heading;
use onefold_pool::Budgets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::VolumeDiffArgs;
use crate::failure::Result;
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::table::{Align, Table, plural};

/// What to compare.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// A snapshot, such as main@monday, or a volume.
    pub from: String,
    /// Another.
    pub to: String,
}

/// A place where they differ.
#[derive(Serialize, JsonSchema)]
pub struct ExtentJson {
    offset_bytes: u64,
    len_bytes: u64,
}

/// Where they differ.
#[derive(Serialize, JsonSchema)]
pub struct DiffJson {
    schema_version: u32,
    from: String,
    to: String,
    changed_bytes: u64,
    extents: Vec<ExtentJson>,
}

/// Compare them.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let Request { from, to } = request;
    let mut extents = Vec::new();
    let found = &mut |offset_bytes, len_bytes| {
        extents.push(ExtentJson { offset_bytes, len_bytes });
        true
    };
    context.pool.differences([from, to], found).map_err(|error| context.failed(error))?;
    let changed_bytes = extents.iter().map(|extent| extent.len_bytes).sum();
    let mut report = Report::default();
    if !extents.is_empty() {
        let mut table = Table::new(&[Align::Right, Align::Right]);
        table.row(["OFFSET", "BYTES"]);
        for extent in &extents {
            table.row([extent.offset_bytes.to_string(), extent.len_bytes.to_string()]);
        }
        let mut lines = table.lines(0);
        if let Some(head) = lines.first_mut() {
            *head = heading(head);
        }
        report = report.with_text(&(lines.join("\n") + "\n"));
    }
    let count = plural(extents.len() as u64, "place", "places");
    report.asides.push(format!("{} in {count} differ", ByteSize(changed_bytes)));
    let (from, to) = (from.clone(), to.clone());
    let schema_version = JSON_SCHEMA_VERSION;
    Ok(report.with_result(&DiffJson { schema_version, from, to, changed_bytes, extents }))
}

/// Print the list.
pub fn run(args: &VolumeDiffArgs, printer: &Printer) -> Result<()> {
    let request = Request { from: args.from.clone(), to: args.to.clone() };
    let opening = Opening::Read(Budgets::default());
    let report = door::call(&args.pool, opening, &table::VOLUME_DIFF, &request, printer)?;
    printer.report(report, args.json)
}

#[cfg(test)]
mod tests {
    use crate::commands::heard::Folder;

    #[test]
    fn differences_are_a_table_and_their_sum() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.file("data", &vec![7; 5 * 4096]);
        here.ok("volume import ./p v ./data");
        here.ok("volume snapshot ./p v@a");
        let same = here.ok("volume diff ./p v@a v");
        assert_eq!((&*same.out, &*same.err), ("", "0 B in 0 places differ\n"));
        let mut data = vec![7; 5 * 4096];
        (data[4096], data[4 * 4096]) = (8, 9);
        here.file("data", &data);
        here.ok("volume import ./p v ./data");
        let said = here.ok("volume diff ./p v@a v");
        let table = "OFFSET  BYTES\n  4096   4096\n 16384   4096\n";
        assert_eq!((&*said.out, &*said.err), (table, "8 KiB in 2 places differ\n"));
        assert_eq!(here.ok("volume diff ./p v@a v --json").json()["changed_bytes"], 8192);
        assert!(here.refused("volume diff ./p v@b v", 2).contains("v@b"));
    }
}
