//! Beyond the papers: every policy on every flash at every duplicate ratio.
//! Room: onefold-lab.
//! One client writes a data set page by page, so that a latency is what the write path costs.

use onefold_flash::spec::{ArrivalKind, ContentKind, DriveSpec, ThinkKind};

use crate::error::Result;
use crate::experiments::drives::{PLENTY, filled_once, simulate, with_policy, write_us};
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Presets and names of the kinds of flash.
const FLASH: [(&str, &str); 4] =
    [("ses-slc", "SLC"), ("ses-mlc1", "MLC-1"), ("ses-mlc2", "MLC-2"), ("tlc", "TLC")];

/// Policies with options, and a name for the row.
const POLICIES: [(&str, &str, &str); 8] = [
    ("caftl-online", "hash = 'sha256'", "caftl-online"),
    ("caftl-online", "hash = 'sha256'\nprehash = true", "caftl-online, prehash"),
    ("caftl-offline", "", "caftl-offline"),
    ("block-separation", "", "block-separation"),
    ("crc-compare", "", "crc-compare"),
    ("ses-host", "", "ses-host"),
    ("ses-device", "", "ses-device"),
    ("gleaner", "", "gleaner"),
];

fn drive(settings: &Settings<'_>, preset: &str, percent: u64) -> Result<DriveSpec> {
    let mut spec = filled_once(preset, settings.number("pages")?);
    spec.seed = settings.number("seed")?;
    spec.workload.arrivals = ArrivalKind::Closed;
    spec.workload.queue_depth = 1;
    spec.workload.think_time = ThinkKind::None;
    spec.workload.finish_offline = false;
    spec.controller.dram_bytes = PLENTY;
    if percent == 0 {
        spec.workload.content = ContentKind::Unique;
    } else {
        spec.workload.content = ContentKind::Profile;
        spec.workload.duplicate_ratio = percent as f64 / 100.0;
        spec.workload.hot_fingerprint_ratio = 0.15;
        spec.workload.hot_share = hot_share(percent);
    }
    Ok(spec)
}

/// The share of redundant pages whose content has more than two copies. Many duplicates leave
/// little room for contents with two.
fn hot_share(duplicate_percent: u64) -> f64 {
    if duplicate_percent > 60 { 0.95 } else { 0.8 }
}

/// A policy that loses less than this costs nothing: gleaner compares one page of 2,000 in vain.
const NOTHING: f64 = 0.05;

fn is_nothing(gain: f64) -> bool {
    gain.abs() < NOTHING
}

/// Where a line of gains leaves the losses for good, between the points around it.
fn break_even(points: &[(f64, f64)]) -> Option<f64> {
    let Some(last) = points.iter().rposition(|&(_, gain)| gain < -NOTHING) else {
        return Some(0.0);
    };
    let (&(x0, y0), &(x1, y1)) = (&points[last], points.get(last + 1)?);
    Some(x0 + (x1 - x0) * -y0 / (y1 - y0))
}

/// Gains in mean write latency over no deduplication, and break-even duplicate ratios.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let ratios = settings.numbers("duplicate_percent")?;
    let mut points = Vec::new();
    for (preset, flash) in FLASH {
        points.extend(ratios.iter().map(|&percent| (preset, flash, percent)));
    }
    // All policies of a drive are beside the same one without any.
    let found = settings.sweep(&points, |&(preset, _, percent)| {
        let mut spec = drive(settings, preset, percent)?;
        let plain = write_us(&simulate(settings, &spec)?);
        let gain = |(policy, options, _): (&str, &str, &str)| {
            with_policy(&mut spec, policy, options);
            let time = write_us(&simulate(settings, &spec)?);
            Ok((percent as f64, 100.0 * (1.0 - time / plain)))
        };
        POLICIES.into_iter().map(gain).collect::<Result<Vec<_>>>()
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    let gain_of = Line::new("gain in mean write latency", "%").over("duplicates", "% of writes");
    let ends = Line::new("duplicates from which on it gains", "% of writes").over("flash", "");
    let of_flash = FLASH.iter().zip(found.chunks(ratios.len()));
    let lines = of_flash.flat_map(|(flash, found)| {
        let of_policy = move |(at, (.., name)): (usize, &(_, _, &'static str))| {
            let gains: Vec<(f64, f64)> = found.iter().map(|gains| gains[at]).collect();
            (flash.1, *name, gains)
        };
        POLICIES.iter().enumerate().map(of_policy)
    });
    for (flash, name, gains) in lines {
        for &(percent, gain) in &gains {
            data.put(&gain_of.of(name).under(flash), percent, gain);
        }
        let from = break_even(&gains);
        let point = data.put(&ends.of(name), flash, from);
        if from.is_none() {
            point.note("no gain up to the highest ratio");
        } else if gains.iter().all(|&(_, gain)| is_nothing(gain)) {
            point.note("writes take what they took: duplicates are found when idle");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_gains_from_where_it_no_longer_loses_anything_to_speak_of() {
        let even =
            |gains: [f64; 3]| break_even(&[(0.0, gains[0]), (10.0, gains[1]), (30.0, gains[2])]);
        assert_eq!(even([-0.05, 1.0, 3.0]), Some(0.0));
        assert_eq!(even([-1.0, 1.0, 3.0]), Some(5.0));
        assert_eq!(even([1.0, -1.0, 3.0]), Some(15.0), "for good");
        assert_eq!(even([-3.0, -1.0, -0.06]), None);
        assert!(is_nothing(-0.04) && !is_nothing(0.05) && !is_nothing(-0.05));
    }

    #[test]
    fn contents_with_two_copies_have_less_room_beyond_60_percent_of_duplicates() {
        assert_eq!([60, 61].map(|percent| hot_share(percent).to_string()), ["0.8", "0.95"]);
    }
}
