//! PLC-Cache Fig. 3 and 9: how popular is what a policy writes, and how often it writes it.
//! Room: onefold-lab.
//! Source: [plc-cache] sec. III and V.B; Table 2, whose traces are not public.

use onefold_cache::simulate::Run;

use super::{FAMILIES, Family, Job, VOLUMES, Volume, run_all, times_less, written_gb};
use crate::error::Result;
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;

const COLUMNS: [&str; 3] = ["QA", "QB", "QC+QD"];

/// Shares of A, of B, and of C and D, in percent.
fn shares(run: &Run) -> [f64; 3] {
    let [a, b, c, d] = run.quadrants.shares().map(|share| share * 100.0);
    [a, b, c + d]
}

/// The share of bytes written that is in each quadrant.
fn quadrants() -> Line {
    Line::new("share of bytes written", "%").over("quadrant", "")
}

/// FIFO, LRU and LFU with a small cache.
pub fn fig_3(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let size = settings.real("cache_percent")? / 100.0;
    let policies = ["fifo", "lru", "lfu"];
    let jobs: Result<Vec<Job>> = FAMILIES
        .iter()
        .map(|&family| Job::new(settings, family, Volume::Stated, &policies, &[size]))
        .collect();
    let jobs = jobs?;
    let most_of = Line::new("most of any in QA", "%").of("FIFO, LRU, LFU").over("family", "");
    let (mut worst, mut containers) = (0.0_f64, [0.0; 3]);
    for ((job, done), family) in jobs.iter().zip(run_all(settings, &jobs)?).zip(FAMILIES) {
        for (run, policy) in done.runs.iter().zip(["FIFO", "LRU", "LFU"]) {
            for (column, share) in COLUMNS.iter().zip(shares(run)) {
                data.put(&quadrants().of(policy).under(&job.setting()), *column, share);
            }
        }
        let most = done.runs.iter().map(|run| shares(run)[0]).fold(0.0, f64::max);
        worst = worst.max(most);
        if family == Family::Calibrated {
            containers = shares(&done.runs[1]);
            let printed = ("FIFO/LRU/LFU", "qa_share_max");
            data.beside(printed, &most_of, family.name(), most)?;
        } else {
            data.put(&most_of, family.name(), most);
        }
    }
    let printed = data.printed("FIFO/LRU/LFU", "qa_share_max")?;
    let figure = format!("at most {} %, where {printed} % is printed", show(worst));
    data.shows("hardly-any-in-a", is_at_most(worst, printed), figure)?;
    chunks(settings, containers, data)
}

fn is_at_most(share: f64, printed: f64) -> bool {
    share <= printed
}

/// Whether with containers for chunks less of what is written is in C and D, and more in B.
fn moves_to_b([_, chunks_b, chunks_cd]: [f64; 3], [_, b, cd]: [f64; 3]) -> bool {
    chunks_cd > cd && chunks_b < b
}

/// LRU with units of a chunk beside LRU with units of a container.
fn chunks(settings: &Settings<'_>, containers: [f64; 3], data: &mut Data) -> Result<()> {
    let size = settings.real("cache_percent")? / 100.0;
    let mut job = Job::new(settings, Family::Calibrated, Volume::Stated, &["lru"], &[size])?;
    let by = settings.number("data_mib")? as f64 / settings.number("chunks_data_mib")? as f64;
    job.workload.data_mib = settings.number("chunks_data_mib")?;
    job.workload.read_gib /= by;
    job.workload.container_kib = settings.number("chunk_kib")? as u32;
    let done = run_all(settings, std::slice::from_ref(&job))?.remove(0);
    let of_chunks = shares(&done.runs[0]);
    let setting = format!("{}, chunks", job.setting());
    for (column, share) in COLUMNS.iter().zip(of_chunks) {
        data.put(&quadrants().of("LRU").under(&setting), *column, share);
    }
    let figure = format!(
        "of LRU's writes, B {} % in chunks and {} % in containers, C and D {} % and {} %",
        show(of_chunks[1]),
        show(containers[1]),
        show(of_chunks[2]),
        show(containers[2])
    );
    data.shows("containers-move-to-b", moves_to_b(of_chunks, containers), figure)
}

/// LRU and PLC, in all families and both volumes.
pub fn fig_9(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let size = settings.real("cache_percent")? / 100.0;
    let delayed = format!("plc:delay={}", settings.number("long_delay")?);
    let policies = ["lru", "plc", "plc:rules=literal", &delayed];
    let names = ["LRU", "PLC", "PLC literal", "PLC, long delay"];
    let mut jobs = Vec::new();
    for family in FAMILIES {
        for volume in VOLUMES {
            jobs.push((
                family == Family::Calibrated && volume == Volume::Stated,
                Job::new(settings, family, volume, &policies, &[size])?,
            ));
        }
    }
    let (printed, jobs): (Vec<bool>, Vec<Job>) = jobs.into_iter().unzip();
    let over = |name: &str, unit: &str| Line::new(name, unit).over("read", "");
    for ((job, done), printed) in jobs.iter().zip(run_all(settings, &jobs)?).zip(printed) {
        let (family, volume) = (job.label.0.as_str(), job.label.1.as_str());
        for (run, name) in done.runs.iter().zip(names) {
            let beside = printed && ["LRU", "PLC"].contains(&name);
            let written = over("bytes written", "GB").of(name).under(family);
            let gb = written_gb(settings, run)?;
            if beside {
                data.beside((name, "written"), &written, volume, gb)?;
            } else {
                data.put(&written, volume, gb);
            }
            let line = quadrants().of(name).under(&job.setting());
            for (column, share) in COLUMNS.iter().zip(shares(run)) {
                if beside {
                    data.beside((name, column), &line, *column, share)?;
                } else {
                    data.put(&line, *column, share);
                }
            }
        }
        for (run, name) in done.runs[1..].iter().zip(&names[1..]) {
            let factor = times_less(run.written_bytes, done.runs[0].written_bytes);
            let fewer = over("writes less than LRU", "x").of(name).under(family);
            if printed && *name == "PLC" {
                let saved = over("fewer bytes than LRU", "%").of(name).under(family);
                data.beside(("PLC vs LRU", "reduction"), &saved, volume, 100.0 - 100.0 / factor)?;
                data.beside(("PLC vs LRU", "factor"), &fewer, volume, factor)?;
            } else {
                data.put(&fewer, volume, factor);
            }
            let more = 100.0 * (run.hit_rate - done.runs[0].hit_rate);
            data.put(
                &over("hits more than LRU", "% of reads").of(name).under(family),
                volume,
                more,
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_move_writes_to_b_if_b_has_more_and_c_and_d_less() {
        let containers = [4.0, 50.0, 46.0];
        let moves = |b, cd| moves_to_b([0.0, b, cd], containers);
        assert!(moves(49.0, 47.0));
        assert!(!moves(50.0, 47.0) && !moves(49.0, 46.0) && !moves(51.0, 45.0));
        assert!(is_at_most(2.3, 2.3) && !is_at_most(2.4, 2.3));
    }
}
