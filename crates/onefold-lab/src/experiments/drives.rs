//! Drives of the papers as the simulator takes them, and running one.
//! Room: onefold-lab.
//! Source: seed 000 Tables I and II, seed 002 sec. IV: the presets of `onefold ssd run`.

use onefold_flash::run::{Report, RunOptions, run};
use onefold_flash::spec::{
    Allocation, ContentKind, DriveSpec, ParallelUnit, PatternKind, Precondition,
};

use crate::error::{LabError, Result};
use crate::settings::Settings;

/// Presets and names of the flash of SES-Dedup Table I.
pub const SES_FLASH: [(&str, &str); 3] =
    [("ses-slc", "SLC"), ("ses-mlc1", "MLC-1"), ("ses-mlc2", "MLC-2")];

/// A preset that writes each of `pages` pages once onto an empty drive, package by package busy.
///
/// The papers count duplicates of data sets, so no page is overwritten: its duplicates would be
/// gone with it. The drive has room for the data set and a few blocks beyond.
pub fn filled_once(preset: &str, pages: u64) -> DriveSpec {
    let mut spec = DriveSpec::preset(preset).expect("experiments name presets that exist");
    let per_block = u64::from(spec.geometry.planes()) * u64::from(spec.geometry.pages_per_block);
    let blocks = pages.div_ceil(per_block) as u32 + 16;
    spec.geometry.blocks_per_plane = blocks;
    spec.ftl.gc_reserve_blocks = onefold_flash::spec::BlockCount::Blocks(4);
    let physical = f64::from(blocks) * per_block as f64;
    spec.ftl.over_provisioning = physical / pages as f64 - 1.0;
    spec.ftl.allocation = Allocation::IdleFirst;
    spec.ftl.journal = false;
    spec.precondition = Precondition::None;
    spec.timing.parallel_unit = ParallelUnit::Package;
    spec.workload.pattern = PatternKind::Sequential;
    spec.workload.requests = pages;
    spec
}

/// Chooses a policy and its options, written as TOML.
pub fn with_policy(spec: &mut DriveSpec, policy: &str, options: &str) {
    policy.clone_into(&mut spec.dedup.policy);
    spec.dedup.options = options.parse().expect("experiments write valid options");
}

/// The data set of this name.
pub fn content(data_set: &str) -> ContentKind {
    let word = toml::Value::String(data_set.to_owned());
    word.try_into().expect("every data set of the workloads is a word of the specification")
}

/// The share of the drive's pages that is so large a share of a data set.
pub fn share_of_drive(spec: &DriveSpec, share: f64) -> f64 {
    share * spec.workload.requests as f64 / f64::from(spec.geometry.pages())
}

/// Runs a drive.
pub fn simulate(settings: &Settings<'_>, spec: &DriveSpec) -> Result<Report> {
    let refused = |problem: String| LabError::Refused { id: settings.id.to_owned(), problem };
    let outcome = run(spec, RunOptions::default()).map_err(|error| refused(error.to_string()))?;
    Ok(outcome.report)
}

/// Mean latency of writes in microseconds.
pub fn write_us(report: &Report) -> f64 {
    report.latency_ns.get("write").and_then(Option::as_ref).map_or(f64::NAN, |l| l.mean / 1000.0)
}

/// A share of the pages that the host wrote, in percent.
pub fn of_written(report: &Report, pages: u64) -> f64 {
    100.0 * pages as f64 / report.requests.pages_written as f64
}
