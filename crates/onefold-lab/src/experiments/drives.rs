//! Drives of the papers as the simulator takes them, and running one.
//! Room: onefold-lab.
//! Source: [ses-dedup] Tables I and II, [park-shin] sec. IV: the presets of `onefold ssd run`.

use onefold_flash::Geometry;
use onefold_flash::run::{Report, RunOptions, run};
use onefold_flash::spec::{
    Allocation, BlockCount, ContentKind, DriveSpec, ParallelUnit, PatternKind, Precondition,
    TraceTiming,
};
use onefold_sim::RandomStreams;
use onefold_workload::{ContentProfile, Identity, Op, Request};

use crate::error::{LabError, Result};
use crate::settings::Settings;

/// Presets and names of the flash of SES-Dedup Table I.
pub const SES_FLASH: [(&str, &str); 3] =
    [("ses-slc", "SLC"), ("ses-mlc1", "MLC-1"), ("ses-mlc2", "MLC-2")];

/// Memory of a controller that is not what a drive has too little of.
pub const PLENTY: u64 = u64::MAX;

/// Blocks of every plane that such a drive has beyond its pages, and those that are kept free.
const BEYOND_BLOCKS: u32 = 16;
const RESERVE: BlockCount = BlockCount::Blocks(4);

/// Channel, package and die of a drive whose time nobody counts, for what has more to say.
pub const fn one_die(planes: u32) -> Geometry {
    Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: planes,
        blocks_per_plane: 1,
        pages_per_block: 1,
        page_bytes: 4096,
        oob_bytes: 128,
    }
}

/// A preset that writes each of `pages` pages once onto an empty drive, package by package busy.
///
/// The papers count duplicates of data sets, so no page is overwritten: its duplicates would be
/// gone with it. The drive has room for the data set and a few blocks beyond.
pub fn filled_once(preset: &str, pages: u64) -> DriveSpec {
    let mut spec = DriveSpec::preset(preset).expect("experiments name presets that exist");
    let per_block = u64::from(spec.geometry.planes()) * u64::from(spec.geometry.pages_per_block);
    let blocks = pages.div_ceil(per_block) as u32 + BEYOND_BLOCKS;
    spec.geometry.blocks_per_plane = blocks;
    // Of the papers' sizes a preset's share of all blocks would be more than what is beyond.
    spec.ftl.gc_reserve_blocks = RESERVE;
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

/// Each page of a data set written once, in order, and reads of pages written before, so many of
/// 100 requests. `contents` is `None` for pages that are all different.
pub fn mixed(
    spec: &DriveSpec,
    profile: Option<ContentProfile>,
    reads_percent: u64,
) -> Result<Vec<Request>> {
    let (pages, seed) = (spec.workload.requests, spec.seed);
    let bytes = u64::from(spec.geometry.page_bytes);
    let refused = |problem: String| LabError::Refused { id: "data set".to_owned(), problem };
    let mut contents: Box<dyn Iterator<Item = Identity>> = match profile {
        Some(profile) => {
            Box::new(profile.data_set(pages, seed).map_err(|error| refused(error.to_string()))?)
        }
        None => Box::new((0..pages).map(move |number| Identity::of_number(seed, number))),
    };
    let mut random = RandomStreams::new(seed).stream("mixed");
    let (mut written, mut all) = (0, Vec::new());
    while written < pages {
        let read = written != 0 && random.below(100) < reads_percent;
        let page = if read { random.below(written) } else { written };
        all.push(of_page(page, bytes, (!read).then(|| contents.next())));
        written += u64::from(!read);
    }
    Ok(all)
}

/// A request for a page of so many bytes, at time 0: a read, or a `write` of this content.
pub fn of_page(page: u64, bytes: u64, write: Option<Option<Identity>>) -> Request {
    Request {
        time_ns: 0,
        op: if write.is_some() { Op::Write } else { Op::Read },
        offset: page * bytes,
        length: bytes,
        identity: write.flatten(),
        stream: None,
        pid: None,
        deduplicate: None,
    }
}

/// How large a drive is beside the pages that it holds.
pub struct Beside {
    /// Pages in a block.
    pub pages_per_block: u32,
    /// Blocks of a plane for the reserve and what is open.
    pub blocks: u64,
    /// Space for overwrites to live on, in % of the pages.
    pub spare_percent: u64,
}

/// Makes a preset a drive of one plane a package that `pages` pages fill, and fill once: packages
/// do one thing at a time, whatever their planes.
pub fn fit(spec: &mut DriveSpec, settings: &Settings<'_>, beside: &Beside) -> Result<()> {
    let pages = settings.number("pages")?;
    spec.geometry.planes_per_die = 1;
    spec.geometry.pages_per_block = beside.pages_per_block;
    let row = u64::from(spec.geometry.planes()) * u64::from(beside.pages_per_block);
    let blocks = pages.div_ceil(row) + beside.blocks + pages * beside.spare_percent / 100 / row;
    spec.geometry.blocks_per_plane = blocks as u32;
    spec.ftl.over_provisioning = f64::from(spec.geometry.pages()) / pages as f64 - 1.0;
    spec.ftl.gc_reserve_blocks = RESERVE;
    spec.ftl.allocation = Allocation::IdleFirst;
    spec.timing.parallel_unit = ParallelUnit::Package;
    spec.workload.requests = pages;
    spec.workload.finish_offline = false;
    spec.controller.idle_after_ns = settings.span_of_us("idle_after_us")?.ns();
    spec.controller.dram_bytes = PLENTY;
    Ok(())
}

/// Has so many requests outstanding at any time.
pub fn close(spec: &mut DriveSpec, depth: u32) {
    spec.workload.queue_depth = depth;
    spec.workload.trace_timing = TraceTiming::Closed;
}

/// Runs a drive with requests of ours, each following the end of an earlier one.
pub fn replay(settings: &Settings<'_>, spec: &DriveSpec, requests: Vec<Request>) -> Result<Report> {
    let mut spec = spec.clone();
    spec.workload.trace_timing = TraceTiming::Closed;
    replay_as_is(settings, &spec, requests)
}

/// Runs a drive with requests of ours, timed as its specification says.
pub fn replay_as_is(
    settings: &Settings<'_>,
    spec: &DriveSpec,
    requests: Vec<Request>,
) -> Result<Report> {
    let refused = |problem: String| LabError::Refused { id: settings.id.to_owned(), problem };
    let trace = Some(Box::new(requests.into_iter().map(Ok)) as _);
    let outcome = run(spec, RunOptions { trace, ..RunOptions::default() });
    Ok(outcome.map_err(|error| refused(error.to_string()))?.report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_a_page_is_for_its_bytes_at_time_0() {
        let content = Identity::of_number(1, 2);
        let (read, write) = (of_page(3, 4096, None), of_page(2, 4096, Some(Some(content))));
        assert_eq!((read.time_ns, read.op, read.offset, read.length), (0, Op::Read, 12_288, 4096));
        assert_eq!((read.identity, write.identity), (None, Some(content)));
        assert_eq!((write.time_ns, write.op, write.offset), (0, Op::Write, 8192));
    }

    /// What quick settings have, and the papers' sizes, which only `--full` runs.
    #[test]
    fn a_drive_that_is_filled_once_holds_its_pages_at_any_size() {
        for (preset, _) in SES_FLASH {
            for pages in [1 << 13, 3_670_016, 1 << 22] {
                let spec = filled_once(preset, pages);
                spec.check().unwrap();
                assert_eq!(u64::from(spec.logical_pages()), pages, "{preset}");
            }
        }
    }
}
