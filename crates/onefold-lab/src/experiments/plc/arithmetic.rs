//! PLC-Cache: what follows from printed numbers alone, and Table 1.
//! Room: onefold-lab.
//! Source: [plc-cache] Table 1, sec. I, IV.B, V.A.

use onefold_cache::simulate::lifetime_days;

use super::{Family, Job, Volume, run_all};
use crate::error::Result;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Days of the five years that an SSD is asked to last, as the seed counts them.
const FIVE_YEARS_DAYS: f64 = 5.0 * 365.0;

/// What follows from printed inputs.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let petabytes = settings.published.value("Intel 910 400GB", "TBW")?;
    let speed = petabytes * f64::from(1 << 30) / (FIVE_YEARS_DAYS * 86_400.0);
    let line = Line::new("most that may be written on average", "MB/s").of("Intel 910");
    data.beside(("Intel 910", "max_avg_write"), &line, (), speed)?
        .note("binary units; 31.7 with decimal ones");
    let containers = (4_u64 << 40) / (2 << 20);
    let metadata = (containers * 3 * 4) as f64 / f64::from(1 << 20);
    let line = Line::new("metadata of 4 TB in containers of 2 MB", "MB").of("PLC");
    data.beside(("metadata", "4TB/2MB"), &line, (), metadata)?.note("MiB");
    Ok(())
}

/// Lifetimes at the printed speeds, and speeds of the simulator.
pub fn table_1(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let size = settings.real("cache_percent")? / 100.0;
    let names = ["FIFO", "LRU", "LFU", "PLC"];
    let policies = ["fifo", "lru", "lfu", "plc"];
    let job = Job::new(settings, Family::Calibrated, Volume::Stated, &policies, &[size])?;
    let done = run_all(settings, std::slice::from_ref(&job))?.remove(0);
    let (family, volume) = job.label;
    let setting = format!("{family}, {volume}");
    let line = |name: &str, unit: &str| Line::new(name, unit).over("policy", "");
    let simulated = line("lifetime at the simulated speed", "days").under(&setting);
    let speeds = line("write speed", "MB/s").under(&setting);
    for (name, run) in names.iter().zip(&done.runs) {
        let speed = run.latency.write_mib_s;
        if *name == "PLC" {
            data.put(&speeds, *name, speed);
        } else {
            let printed = data.printed(name, "write_speed")?;
            let days = lifetime_days(settings.real("tbw_gb")?, printed);
            data.beside(
                (name, "lifetime"),
                &line("lifetime at the printed speed", "days"),
                *name,
                days,
            )?;
            data.beside((name, "write_speed"), &speeds, *name, speed)?;
        }
        data.put(&simulated, *name, run.latency.lifetime_days);
    }
    Ok(())
}
