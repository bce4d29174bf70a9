//! `onefold volume list`: the volumes of a pool.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_pool::{Budgets, VolumeStatus};
use serde::Serialize;

use crate::args::VolumeListArgs;
use crate::failure::{Failure, Result};
use crate::open_pool;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::status_view::{VolumeJson, volume_table};

#[derive(Serialize)]
struct ListJson {
    schema_version: u32,
    pool: String,
    volumes: Vec<VolumeJson>,
}

/// Print the list.
pub fn run(args: &VolumeListArgs, printer: &Printer) -> Result<()> {
    let failed = |error| Failure::pool(&args.pool, error);
    let budgets = Budgets::default();
    let (pool, _) = open_pool::to_read_or_rescue(&args.pool, budgets, args.rescue, printer)?;
    if let Some(name) = &args.name {
        pool.volume(name).map_err(failed)?;
    }
    let wanted = |volume: &VolumeStatus| args.name.as_ref().is_none_or(|name| *name == volume.name);
    let mut volumes = pool.status().map_err(failed)?.volumes;
    volumes.retain(wanted);
    if args.json {
        return printer.json(&ListJson {
            schema_version: JSON_SCHEMA_VERSION,
            pool: args.pool.display().to_string(),
            volumes: volumes.iter().map(VolumeJson::from).collect(),
        });
    }
    if volumes.is_empty() {
        let at = args.pool.display();
        printer.note(&format!("pool '{at}' has no volumes"));
        printer.note(&format!("make one with: onefold volume create {at} NAME --size 64G"));
        return Ok(());
    }
    let mut lines = volume_table(&volumes).lines(0);
    if let Some(head) = lines.first_mut() {
        *head = printer.heading(head);
    }
    let total: u64 = volumes.iter().map(|volume| volume.mapped_bytes).sum();
    printer.data(&(lines.join("\n") + "\n"))?;
    if volumes.len() > 1 {
        printer.note(&format!("{} of data before reduction", ByteSize(total)));
    }
    Ok(())
}
