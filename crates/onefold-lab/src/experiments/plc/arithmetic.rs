//! PLC-Cache: what follows from printed numbers alone, and Table 1.
//! Room: onefold-lab.
//! Source: [plc-cache] Table 1, sec. I, IV.B, V.A.

use onefold_cache::simulate::lifetime_days;

use super::{Family, Job, Sheet, Volume, run_all};
use crate::error::Result;
use crate::published::Role;
use crate::row::{Kind, Row};
use crate::settings::Settings;

/// Days of the five years that an SSD is asked to last, as the seed counts them.
const FIVE_YEARS_DAYS: f64 = 5.0 * 365.0;

/// Inputs, and what follows from them.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let published = &settings.published;
    let mut rows: Vec<Row> = published
        .numbers
        .iter()
        .filter(|number| number.kind == Role::Param)
        .map(|number| published.beside(number, None).kind(Kind::Given).note("input"))
        .collect();
    let petabytes = published.value("Intel 910 400GB", "TBW")?;
    let speed = petabytes * f64::from(1 << 30) / (FIVE_YEARS_DAYS * 86_400.0);
    let row = published.row("Intel 910", "max_avg_write", speed)?;
    rows.push(row.note("binary units; 31.7 with decimal ones"));
    let containers = (4_u64 << 40) / (2 << 20);
    let metadata = (containers * 3 * 4) as f64 / f64::from(1 << 20);
    rows.push(published.row("metadata", "4TB/2MB", metadata)?.note("MiB"));
    Ok(rows)
}

/// Lifetimes at the printed speeds, and speeds of the simulator.
pub fn table_1(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let size = settings.real("cache_percent")? / 100.0;
    let names = ["FIFO", "LRU", "LFU", "PLC"];
    let policies = ["fifo", "lru", "lfu", "plc"];
    let job = Job::new(settings, Family::Calibrated, Volume::Stated, &policies, &[size])?;
    let done = run_all(settings, std::slice::from_ref(&job))?.remove(0);
    let regime = format!("{}; {}", job.label, done.regime());
    let mut sheet = Sheet::new(settings);
    for (name, run) in names.iter().zip(&done.runs) {
        let speed = run.latency.write_mib_s;
        if *name == "PLC" {
            let row = sheet.add("", name, "write_speed", speed, "MB/s");
            row.note.clone_from(&regime);
        } else {
            let printed = settings.published.value(name, "write_speed")?;
            let days = lifetime_days(settings.real("tbw_gb")?, printed);
            let row = sheet.beside(name, "lifetime", name, days)?;
            "at the printed speed".clone_into(&mut row.note);
            sheet.beside(name, "write_speed", name, speed)?.note.clone_from(&regime);
        }
        let days = run.latency.lifetime_days;
        let row = sheet.add("", name, "lifetime at the simulated speed", days, "days");
        row.note.clone_from(&regime);
    }
    Ok(sheet.rows)
}
