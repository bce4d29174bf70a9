//! `onefold volume export`: a volume into a file, block device or pipe.
//! Room: onefold.

use std::path::Path;
use std::time::Instant;

use onefold_block::ByteSize;
use onefold_pool::{Budgets, RescueReport};
use serde::Serialize;

use super::volume_delete::is_snapshot;
use super::volume_import::summary;
use super::{volume_list, volume_send, volume_snapshots};
use crate::args::VolumeExportArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::operate::door::{Door, Opening};
use crate::operate::remote_volume::Asked;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::progress::{self, Bar};
use crate::table::{Align, Table, plural};
use crate::transfer::{self, Moved, salvage, salvage::Damaged, target::Target};

#[derive(Serialize)]
struct ExportJson<'a> {
    schema_version: u32,
    pool: String,
    volume: &'a str,
    file: String,
    bytes: u64,
    data_bytes: u64,
    damaged_bytes: u64,
    damaged: &'a [Damaged],
    rescue: Option<RescueJson<'a>>,
}

#[derive(Serialize)]
struct RescueJson<'a> {
    checkpoint: u64,
    frames: u64,
    damage: &'a [String],
    missing: &'a [String],
}

/// Refuse a file of the store itself, such as a pool: exporting over it would destroy that.
pub fn must_be_elsewhere((kind, store): (&str, &Path), file: &Path) -> Result<()> {
    // What does not exist yet is where its folder is.
    let place = file.canonicalize().or_else(|_| match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.canonicalize(),
        _ => Path::new(".").canonicalize(),
    });
    match (store.canonicalize(), place) {
        (Ok(store), Ok(place)) if place.starts_with(&store) => {
            let (file, store) = (file.display(), store.display());
            let message = format!("'{file}' lies in the {kind}'s own folder '{store}'");
            Err(Failure::nothing_done(message).hint("name a file outside of it"))
        }
        // Where one of them cannot be found, opening it says so.
        _ => Ok(()),
    }
}

/// Export, and say what it came to.
pub fn run(args: &VolumeExportArgs, printer: &Printer) -> Result<()> {
    if args.stream || args.since.is_some() {
        return volume_send::run(args, printer);
    }
    if args.json && args.file == Path::new("-") {
        return Err(Failure::nothing_done("--json and the data of FILE '-' both go to stdout")
            .hint("name a file, or leave --json out"));
    }
    let (door, rescue) = if args.rescue.rescue.is_some() {
        let budgets = Budgets::default();
        let (pool, report) =
            open_pool::to_read_or_rescue(&args.pool, budgets, args.rescue, printer)?;
        (Door::here(&args.pool, pool), report)
    } else {
        (Door::find(&args.pool, Opening::Read(Budgets::default()))?, None)
    };
    // It says which there are where there is none of that name.
    if is_snapshot(&args.name) {
        volume_snapshots::must_be_there(&door, &args.pool, &args.name, printer)?;
    } else {
        volume_list::listed(&door, Some(&args.name), printer)?;
    }
    let volume = door.volume(&args.name)?;
    let volume = &*volume;
    let total = match transfer::data_bytes(volume) {
        Err(_) if args.skip_damaged => None,
        total => Some(total.map_err(|e| transfer::unreadable(&args.name, &e))?),
    };
    must_be_elsewhere(("pool", &args.pool), &args.file)?;
    let target = Target::open(&args.file, volume.size_bytes(), args.force)?;
    let started = Instant::now();
    let moved = copy(args, volume, &target, &progress::bytes(printer, "exporting", total));
    let left = target.left_over();
    let (moved, damage) = moved
        .and_then(|moved| target.finish().map(|()| moved))
        .map_err(|failure| left.into_iter().fold(failure, Failure::hint))?;
    printer.note(&summary("exported", moved, started));
    if args.json {
        printer.json(&json(args, moved, &damage, rescue.as_ref()))?;
    }
    verdict(args, &damage, printer)
}

fn copy(
    args: &VolumeExportArgs,
    volume: &dyn Asked,
    target: &Target,
    bar: &Bar,
) -> Result<(Moved, Vec<Damaged>)> {
    if args.skip_damaged {
        return salvage::export_readable(volume, &args.name, target, bar);
    }
    Ok((transfer::export(volume, &args.name, target, bar)?, Vec::new()))
}

/// List what is damaged, and fail if anything is.
fn verdict(args: &VolumeExportArgs, damage: &[Damaged], printer: &Printer) -> Result<()> {
    if damage.is_empty() {
        return Ok(());
    }
    if !args.json {
        let mut table = Table::new(&[Align::Right, Align::Right, Align::Left]);
        table.row(["OFFSET", "BYTES", "PROBLEM"]);
        for range in damage {
            let (offset, bytes) = (range.offset.to_string(), range.bytes.to_string());
            table.row([offset, bytes, range.problem.clone()]);
        }
        let lines = table.lines(0);
        if args.file == Path::new("-") {
            for line in &lines {
                printer.always(line);
            }
        } else {
            printer.data(&(lines.join("\n") + "\n"))?;
        }
    }
    let bytes = ByteSize(damage.iter().map(|range| range.bytes).sum());
    let ranges = plural(damage.len() as u64, "place", "places");
    let message = format!(
        "{bytes} in {ranges} of volume '{}' cannot be read; '{}' has zeroes there",
        args.name,
        args.file.display()
    );
    Err(Failure::bad(message))
}

fn json<'a>(
    args: &'a VolumeExportArgs,
    moved: Moved,
    damage: &'a [Damaged],
    rescue: Option<&'a RescueReport>,
) -> ExportJson<'a> {
    ExportJson {
        schema_version: JSON_SCHEMA_VERSION,
        pool: args.pool.display().to_string(),
        volume: &args.name,
        file: args.file.display().to_string(),
        bytes: moved.bytes,
        data_bytes: moved.data_bytes,
        damaged_bytes: damage.iter().map(|range| range.bytes).sum(),
        damaged: damage,
        rescue: rescue.map(|report| RescueJson {
            checkpoint: report.checkpoint,
            frames: report.frames,
            damage: &report.damage,
            missing: &report.missing,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::Folder;
    use crate::output::Heard;

    fn damaged(offset: u64, bytes: u64) -> Damaged {
        Damaged { offset, bytes, problem: format!("bad at {offset}") }
    }

    #[test]
    fn damage_is_a_table_beside_the_data_and_a_failure() {
        let told = |file: &str, json: bool, damage: &[Damaged]| {
            let args = VolumeExportArgs {
                pool: "p".into(),
                name: "v".to_owned(),
                file: file.into(),
                since: None,
                stream: false,
                resume: None,
                force: false,
                skip_damaged: true,
                json,
                rescue: crate::args::RescueArgs { rescue: None },
            };
            let heard = Heard::default();
            let ended = verdict(&args, damage, &Printer::heard(&heard));
            let said = std::mem::take(&mut *heard.lock().unwrap());
            (ended.map_err(|failure| failure.message), said)
        };
        let nothing = (String::new(), String::new());
        assert_eq!(told("out", false, &[]), (Ok(()), nothing.clone()));
        let both = [damaged(0, 4096), damaged(12_288, 8192)];
        let table =
            "OFFSET  BYTES  PROBLEM\n     0   4096  bad at 0\n 12288   8192  bad at 12288\n";
        let message = "12 KiB in 2 places of volume 'v' cannot be read; 'out' has zeroes there";
        let expected = (Err(message.to_owned()), (table.to_owned(), String::new()));
        assert_eq!(told("out", false, &both), expected);
        assert_eq!(told("-", false, &both).1, (String::new(), table.to_owned()));
        assert_eq!(told("out", true, &both).1, nothing);
    }

    #[test]
    fn an_export_says_what_it_wrote_and_refuses_what_would_be_lost() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.file("data", &[7; 8192]);
        here.ok("volume import ./p v ./data");
        here.ok("volume snapshot ./p v@a");
        let said = here.ok("volume export ./p v ./out --json");
        assert!(said.err.starts_with("exported 8 KiB in 0."), "{}", said.err);
        let json = said.json();
        assert_eq!((&json["bytes"], &json["data_bytes"]), (&8192.into(), &8192.into()));
        assert_eq!((&json["damaged_bytes"], &json["file"]), (&0.into(), &"./out".into()));
        assert_eq!(std::fs::read(here.path("out")).unwrap(), [7; 8192]);
        assert_eq!(here.ok("volume export ./p v@a ./out --force").out, "");
        for (line, why) in [
            ("v - --json", "--json and the data of FILE '-' both go to stdout"),
            ("v@a - --json --stream", "--json and the data of FILE '-' both go to stdout"),
            ("w ./new", "volume 'w'"),
            ("v@b ./new", "v@b"),
            ("v ./p/new", "'./p/new' lies in the pool's own folder './p'"),
            ("v@a ./p/new --stream", "'./p/new' lies in the pool's own folder './p'"),
            ("v ./out", "'./out' exists already"),
            ("v ./new --stream", "'v' is no snapshot"),
            ("v@a ./new --since v", "'v' is no snapshot"),
            ("v@b ./new --stream", "v@b"),
            ("v@a ./new --since v@b", "v@b"),
        ] {
            let said = here.refused(&format!("volume export ./p {line}"), 2);
            assert!(said.contains(why), "{line}: {said}");
        }
        assert!(!here.path("new").exists() && !here.path("p/new").exists());
        let rescued = here.ok("volume export ./p v ./out --force --rescue --json");
        assert_eq!(rescued.json()["rescue"]["damage"], serde_json::json!([]));
    }

    #[test]
    fn a_stream_says_what_it_came_to() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.file("data", &[7; 8192]);
        here.ok("volume import ./p v ./data");
        here.ok("volume snapshot ./p v@a");
        here.ok("volume snapshot ./p v@b");
        let said = here.ok("volume export ./p v@a ./a --stream --json");
        let bytes = std::fs::metadata(here.path("a")).unwrap().len();
        assert!(said.err.starts_with("exported 'v@a': ") && said.err.contains(" for 8 KiB, in "));
        assert!(!said.err.contains("since"), "{}", said.err);
        let json = said.json();
        assert_eq!((&json["bytes"], &json["stream_bytes"]), (&8192.into(), &bytes.into()));
        assert_eq!((&json["snapshot"], &json["since"]), (&"v@a".into(), &().into()));
        let said = here.ok("volume export ./p v@b ./b --since v@a");
        assert!(said.err.starts_with("exported 'v@b' since 'v@a': "), "{}", said.err);
        assert_eq!(said.out, "");
    }
}
