//! SES-Dedup Fig. 4: what tables of different size gain on SLC.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. V.B, Fig. 4; the closed loop is that of Table IV.

use onefold_workload::content::PRESETS;

use crate::error::Result;
use crate::experiments::drives::{of_written, share_of_drive, simulate, with_policy, write_us};
use crate::experiments::ses_table4::drive;
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::{Way, goes};

/// The size that the paper chooses, in percent.
const CHOSEN: u64 = 15;

/// One drive per data set and table size, beside one without deduplication.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let sizes = settings.numbers("table_percent")?;
    let found = settings.sweep(&PRESETS, |set| {
        let mut spec = drive(settings, "ses-slc", set.name)?;
        let plain = simulate(settings, &spec)?;
        let mut gains = Vec::new();
        for &percent in &sizes {
            let share = share_of_drive(&spec, percent as f64 / 100.0);
            with_policy(&mut spec, "ses-host", &format!("table_share = {share}\noffline = false"));
            let report = simulate(settings, &spec)?;
            let sooner = 100.0 * (1.0 - write_us(&report) / write_us(&plain));
            let rate = |iops: Option<f64>| iops.unwrap_or(f64::NAN);
            let more = 100.0 * (rate(report.iops) / rate(plain.iops) - 1.0);
            gains.push((percent, sooner, more, of_written(&report, report.dedup.inline_pages)));
        }
        Ok::<_, crate::LabError>(gains)
    });
    let line = |name: &str| Line::new(name, "%").over("table", "% of all fingerprints");
    let latency = line("gain in mean write latency");
    let throughput = line("gain in throughput");
    let (mut soonest, mut most) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for (set, gains) in PRESETS.iter().zip(found) {
        for (percent, sooner, more, inline) in gains? {
            if percent == CHOSEN {
                (soonest, most) = (soonest.max(sooner), most.max(more));
            }
            data.put(&latency.of(set.name), percent, sooner);
            data.put(&throughput.of(set.name), percent, more);
            data.put(&line("found inline, of written pages").of(set.name), percent, inline);
        }
    }
    let largest = |of: &str| Line::new("largest gain at 15 %", "%").of(of);
    let printed = ("ses-dedup host-side", "write_improvement_max");
    data.beside(printed, &largest("mean write latency"), (), soonest)?;
    data.put(&largest("throughput"), (), most).note("the other reading of the same 17.0 %");
    shape(&latency, data)
}

/// Up to 15 % every table gains more than a smaller one, and beyond less than half as much.
fn shape(latency: &Line, data: &mut Data) -> Result<()> {
    let (mut holds, mut words) = (true, Vec::new());
    for set in &PRESETS {
        let curve = data.curve(&latency.of(set.name));
        let Some((grows, [first, chosen, last])) = grows_and_levels(&curve) else { continue };
        holds &= grows;
        words.push(format!("{} {}, {}, {}", set.name, show(first), show(chosen), show(last)));
    }
    let figure = format!("at the least size, 15 % and the most: {}", words.join("; "));
    data.shows("grows-and-levels", holds, figure)
}

/// Whether a curve rises up to the size that the paper chose, and beyond by less than half as much;
/// with its heights at the least size, that one and the most.
fn grows_and_levels(curve: &[(f64, f64)]) -> Option<(bool, [f64; 3])> {
    let (before, beyond): (Vec<_>, Vec<_>) =
        curve.iter().copied().partition(|(size, _)| *size <= CHOSEN as f64);
    let [first, chosen, last] = [before.first()?, before.last()?, beyond.last()?].map(|at| at.1);
    let levels = last - chosen < (chosen - first) / 2.0;
    Some((goes(Way::Rises, &before, 0.0).0 && levels, [first, chosen, last]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_that_levels_grows_less_than_half_as_much_beyond() {
        let of = |at: [f64; 4]| {
            let curve = [(5.0, at[0]), (10.0, at[1]), (15.0, at[2]), (30.0, at[3])];
            grows_and_levels(&curve).unwrap()
        };
        assert_eq!(of([1.0, 2.0, 5.0, 6.5]), (true, [1.0, 5.0, 6.5]));
        assert!(!of([1.0, 2.0, 5.0, 7.0]).0, "half as much");
        assert!(!of([1.0, 5.5, 5.0, 5.0]).0, "it falls before");
        assert!(grows_and_levels(&[(5.0, 1.0), (15.0, 2.0)]).is_none());
    }
}
