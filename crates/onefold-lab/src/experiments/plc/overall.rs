//! PLC-Cache Fig. 6 to 8: latency, bytes written and hit rate at a cache of 20 %.
//! Room: onefold-lab.
//! Source: [plc-cache] sec. V.B.

use onefold_cache::simulate::Run;

use super::{FAMILIES, Family, Job, VOLUMES, Volume, run_all, times_less, triple, written_gb};
use crate::error::Result;
use crate::series::{Data, Line};
use crate::settings::Settings;

const POLICIES: [&str; 5] = ["fifo", "lru", "lfu", "plc", "plc:rules=literal"];
const NAMES: [&str; 5] = ["FIFO", "LRU", "LFU", "PLC", "PLC literal"];
/// Where PLC is among the policies.
const PLC: usize = 3;

/// All families, both volumes; printed numbers beside the calibrated family and 128 GB.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let size = settings.real("cache_percent")? / 100.0;
    let mut jobs = Vec::new();
    for family in FAMILIES.into_iter().rev() {
        for volume in VOLUMES {
            jobs.push((family, volume, Job::new(settings, family, volume, &POLICIES, &[size])?));
        }
    }
    let runs = run_all(settings, &jobs.iter().map(|job| job.2.clone()).collect::<Vec<_>>())?;
    for ((family, volume, _), done) in jobs.iter().zip(runs) {
        let place = Place { family: *family, volume: *volume };
        if *family == Family::Calibrated {
            place.each(settings, &done.runs, data)?;
        }
        place.means(&done.runs, data)?;
        place.against_lru(&done.runs, data);
    }
    Ok(())
}

/// How much faster PLC reads a file, in percent.
fn faster(plc: &Run, than_ms: f64) -> f64 {
    (1.0 - plc.latency.file_ms / than_ms) * 100.0
}

/// Where the numbers of one run of all policies stand.
#[derive(Clone, Copy)]
struct Place {
    family: Family,
    volume: Volume,
}

impl Place {
    /// Whether printed numbers stand beside them.
    fn is_printed(self) -> bool {
        (self.family, self.volume) == (Family::Calibrated, Volume::Implied)
    }

    /// Adds a number, beside the printed one of a row and column where numbers are printed.
    fn add(
        self,
        line: &Line,
        printed: Option<(&str, &str)>,
        value: f64,
        data: &mut Data,
    ) -> Result<()> {
        let line = line.under(self.family.name());
        match printed.filter(|_| self.is_printed()) {
            Some(printed) => data.beside(printed, &line, self.volume.name(), value)?,
            None => data.put(&line, self.volume.name(), value),
        };
        Ok(())
    }

    /// Every policy.
    fn each(self, settings: &Settings<'_>, runs: &[Run], data: &mut Data) -> Result<()> {
        let [time, bytes, hits] = triple("read", "");
        let sooner = Line::new("PLC reads a file sooner", "%").over("read", "");
        let plc = &runs[PLC];
        let hdd_ms = plc.latency.hdd_only_ms;
        self.add(&time.of("HDD-only"), None, hdd_ms, data)?;
        let printed = Some(("HDD-only", "plc_latency_improvement"));
        self.add(&sooner.of("HDD-only"), printed, faster(plc, hdd_ms), data)?;
        for (run, name) in runs.iter().zip(NAMES) {
            let printed = |column| (name != "PLC literal").then_some((name, column));
            self.add(&time.of(name), None, run.latency.file_ms, data)?;
            self.add(&bytes.of(name), printed("ssd_written"), written_gb(settings, run)?, data)?;
            self.add(&hits.of(name), printed("hit_rate"), run.hit_rate * 100.0, data)?;
        }
        for (run, name) in runs[..PLC].iter().zip(NAMES) {
            let printed = Some((name, "plc_latency_improvement"));
            self.add(&sooner.of(name), printed, faster(plc, run.latency.file_ms), data)?;
        }
        Ok(())
    }

    /// Means over the three classical policies.
    fn means(self, runs: &[Run], data: &mut Data) -> Result<()> {
        let (classical, plc) = (&runs[..PLC], &runs[PLC]);
        let mean = |of: &dyn Fn(&Run) -> f64| classical.iter().map(of).sum::<f64>() / PLC as f64;
        let sooner = mean(&|run| faster(plc, run.latency.file_ms));
        let writes = mean(&|run| times_less(plc.written_bytes, run.written_bytes));
        let hits = mean(&|run| (plc.hit_rate / run.hit_rate - 1.0) * 100.0);
        for (name, unit, printed, value) in [
            ("PLC reads a file sooner", "%", ("mean classical", "plc_latency_improvement"), sooner),
            ("PLC writes less", "x", ("mean", "write_reduction"), writes),
            ("PLC hits more, relative", "%", ("mean", "hit_improvement_relative"), hits),
        ] {
            let line = Line::new(name, unit).over("read", "").of("mean of FIFO, LRU, LFU");
            self.add(&line, Some(printed), value, data)?;
        }
        Ok(())
    }

    /// PLC and the literal pseudo code against LRU: writes saved, hits gained.
    fn against_lru(self, runs: &[Run], data: &mut Data) {
        let lru = &runs[1];
        for (run, name) in runs[PLC..].iter().zip(&NAMES[PLC..]) {
            let of = |line: &Line| line.of(name).under(self.family.name());
            let fewer = of(&Line::new("writes less than LRU", "x").over("read", ""));
            let factor = times_less(run.written_bytes, lru.written_bytes);
            data.put(&fewer, self.volume.name(), factor);
            let more = of(&Line::new("hits more than LRU", "% of reads").over("read", ""));
            data.put(&more, self.volume.name(), (run.hit_rate - lru.hit_rate) * 100.0);
        }
    }
}
