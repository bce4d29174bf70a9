//! Beyond the papers: what the host's software scrambler costs, beside the drive's correction.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. III has both designs and counts the host's time as nothing.

use onefold_flash::run::Report;
use onefold_flash::spec::DriveSpec;
use onefold_sim::Ratio;
use onefold_workload::ContentProfile;

use crate::error::{LabError, Result};
use crate::experiments::drives::{PLENTY, filled_once, mixed, replay, with_policy, write_us};
use crate::series::{Data, Line};
use crate::settings::Settings;

/// A drive under so many requests at a time, with a host that scrambles so fast.
fn drive(settings: &Settings<'_>, depth: u64, mb_per_s: u64) -> Result<DriveSpec> {
    let mut spec = filled_once("ses-slc", settings.number("pages")?);
    spec.seed = settings.number("seed")?;
    spec.workload.queue_depth = depth as u32;
    spec.workload.finish_offline = false;
    spec.controller.dram_bytes = PLENTY;
    spec.host.scrambler_cores = settings.number("cores")? as u32;
    spec.host.scrambler_mb_per_s = mb_per_s;
    Ok(spec)
}

fn read_us(report: &Report) -> f64 {
    report.latency_ns.get("read").and_then(Option::as_ref).map_or(f64::NAN, |l| l.mean / 1000.0)
}

/// Busy seconds of the host's cores for each 10^9 bytes that are read or written.
fn host_s_per_gb(report: &Report) -> f64 {
    let Some(cores) = report.utilisation.servers.get("host_scrambler") else { return 0.0 };
    let busy_s = cores.mean * f64::from(cores.count) * report.elapsed_ns as f64 / 1e9;
    let bytes_per_s =
        report.read_bytes_per_s.unwrap_or(0.0) + report.write_bytes_per_s.unwrap_or(0.0);
    busy_s / (bytes_per_s * report.elapsed_ns as f64 / 1e18)
}

/// What a run took.
#[derive(Clone, Copy, Debug)]
struct Took {
    write_us: f64,
    read_us: f64,
    host_s_per_gb: f64,
}

/// The rate at which latencies fall to a level: between two rates they follow the time of a byte.
fn meets(points: &[(f64, f64)], level: f64) -> Option<f64> {
    let mut pairs = points.iter().zip(points.get(1..)?);
    let (before, after) = pairs.find(|(a, b)| a.1 > level && b.1 <= level)?;
    let share = (before.1 - level) / (before.1 - after.1);
    Some(1.0 / (1.0 / before.0 + share * (1.0 / after.0 - 1.0 / before.0)))
}

/// Latencies of both designs by the rate of the host's scrambler, and where they meet.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let measured = settings.number("measured_mb_per_s")?;
    let mut rates = settings.numbers("mb_per_s")?;
    rates.push(measured);
    rates.sort_unstable();
    rates.dedup();
    let depths = settings.numbers("queue_depth")?;
    let mut points = Vec::new();
    for &depth in &depths {
        points.push((depth, "ses-device", 0));
        points.extend(rates.iter().map(|&rate| (depth, "ses-host", rate)));
    }
    let profile = ContentProfile {
        duplicate_ratio: Ratio::percent(settings.number("duplicate_percent")?),
        hot_fingerprint_ratio: Ratio::percent(15),
        hot_share: Ratio::percent(80),
    };
    let reads = settings.number("reads_percent")?;
    let found = settings.sweep(&points, |&(depth, policy, rate)| {
        let mut spec = drive(settings, depth, rate)?;
        with_policy(&mut spec, policy, "");
        let requests = mixed(&spec, Some(profile), reads)?;
        let report = replay(settings, &spec, requests)?;
        let host_s_per_gb = host_s_per_gb(&report);
        Ok::<_, LabError>(Took {
            write_us: write_us(&report),
            read_us: read_us(&report),
            host_s_per_gb,
        })
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    let over = |name: &str, unit: &str| Line::new(name, unit).over("rate of a host's core", "MB/s");
    for (of_depth, points) in found.chunks(rates.len() + 1).zip(points.chunks(rates.len() + 1)) {
        let ([device, hosts @ ..], [(depth, ..), ..]) = (of_depth, points) else { continue };
        let under = format!("{depth} outstanding");
        for (&rate, host) in rates.iter().zip(hosts) {
            for (policy, took) in [("ses-host", host), ("ses-device", device)] {
                data.put(
                    &over("mean write latency", "us").of(policy).under(&under),
                    rate,
                    took.write_us,
                );
                data.put(
                    &over("mean read latency", "us").of(policy).under(&under),
                    rate,
                    took.read_us,
                );
            }
            let line = over("host's CPU time", "s for 10^9 bytes").of("ses-host").under(&under);
            data.put(&line, rate, host.host_s_per_gb);
        }
        let writes: Vec<(f64, f64)> =
            rates.iter().zip(hosts).map(|(&rate, host)| (rate as f64, host.write_us)).collect();
        let line = Line::new("rate from which on the host writes sooner", "MB/s").of("ses-host");
        let meets = meets(&writes, device.write_us);
        let point = data.put(&line.under(&under), (), meets);
        if meets.is_none() {
            point.note("at no rate that was tried, or at all of them");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_meet_a_level_between_two_rates_by_the_time_of_a_byte() {
        let points = [(100.0, 30.0), (200.0, 20.0), (400.0, 10.0)];
        let at = |level| meets(&points, level).map(f64::round);
        assert_eq!([at(20.0), at(10.0)], [Some(200.0), Some(400.0)]);
        // Half way from 1/100 to 1/200.
        assert_eq!(at(25.0), Some(133.0));
        // At all of the rates, and at none.
        assert_eq!([at(30.0), at(9.0), meets(&[], 1.0)], [None; 3]);
    }
}
