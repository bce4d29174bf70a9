//! The health of a drive in the field names of `smartctl -j` and the SMART log of NVM Express.
//! Room: onefold-flash.   In: an `Inspection`.   Out: a report to print or serialise.
//! Source: [nvme-20] SMART / Health Information log page; smartctl 7. What an emulated drive has
//! not (temperatures, busy time) is left out and not made up.

use std::collections::BTreeMap;

use serde::Serialize;

use super::inspect::Inspection;
use crate::op::Cause;

/// Spare below this raises a warning, in percent.
const SPARE_THRESHOLD: u64 = 10;
/// The log counts data in thousands of 512-byte units, rounded up.
const DATA_UNIT_BYTES: u64 = 512_000;
/// The largest value that `percentage_used` can have.
const PERCENTAGE_MAX: u64 = 255;
/// Bars of the histogram of erase counts, at most.
const BARS: u32 = 16;

/// `nvme_smart_health_information_log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SmartLog {
    /// Bits: 0 spare below the threshold, 2 reliability degraded, 3 read-only.
    pub critical_warning: u64,
    /// Spare blocks left, in percent of those there were.
    pub available_spare: u64,
    /// Percent below which `critical_warning` has bit 0.
    pub available_spare_threshold: u64,
    /// Mean erase count in percent of the rated cycles; up to 255.
    pub percentage_used: u64,
    /// Data read by hosts, in thousands of 512 bytes.
    pub data_units_read: u64,
    /// Data written by hosts, in thousands of 512 bytes.
    pub data_units_written: u64,
    /// Read requests.
    pub host_reads: u64,
    /// Write requests.
    pub host_writes: u64,
    /// Times opened.
    pub power_cycles: u64,
    /// Hours open.
    pub power_on_hours: u64,
    /// Times opened without having been closed.
    pub unsafe_shutdowns: u64,
    /// Pages that could not be corrected.
    pub media_errors: u64,
    /// Requests answered with an error.
    pub num_err_log_entries: u64,
}

/// Erase counts from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// Lowest count.
    pub from: u32,
    /// Highest count.
    pub to: u32,
    /// Good blocks that have it.
    pub blocks: u64,
}

/// Pages programmed over pages written by hosts, by cause; nothing where hosts wrote none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WriteAmplification {
    /// All together.
    pub total: Option<f64>,
    /// By cause: `host`, `gc`, `wear`, `map`, `dedup`.
    #[serde(flatten)]
    pub by_cause: BTreeMap<&'static str, Option<f64>>,
}

/// What deduplication has saved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Deduplication {
    /// Pages shared as they were written, since the drive was made.
    pub inline_pages: u64,
    /// Pages merged later.
    pub offline_pages: u64,
    /// Logical pages with data now.
    pub mapped_pages: u64,
    /// Physical pages that hold them.
    pub data_pages: u64,
    /// Physical pages that several logical ones share.
    pub shared_pages: u64,
    /// Logical by physical pages; 1 for an empty drive.
    pub ratio: f64,
}

/// The array below.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NandReport {
    /// Bytes programmed, metadata of the drive included.
    pub bytes_programmed: u64,
    /// Pages programmed.
    pub pages_programmed: u64,
    /// Pages read.
    pub pages_read: u64,
    /// Blocks erased.
    pub blocks_erased: u64,
    /// Pages that were corrected.
    pub corrected_pages: u64,
    /// Bits corrected in them.
    pub corrected_bits: u64,
    /// Readings with shifted thresholds.
    pub read_retries: u64,
    /// Wrong bits by bits read.
    pub raw_bit_error_rate: f64,
    /// Pages that no retry brought back.
    pub uncorrectable_pages: u64,
    /// Blocks out of use, and of these bad from the start.
    pub bad_blocks: u64,
    /// Blocks bad from the start.
    pub factory_bad_blocks: u64,
    /// Programs and erases that failed.
    pub failures: u64,
    /// Lowest erase count of the good blocks.
    pub erases_min: u32,
    /// Mean erase count of the good blocks.
    pub erases_mean: f64,
    /// Highest erase count of the good blocks.
    pub erases_max: u32,
    /// Bytes that the NAND file takes.
    pub file_bytes: u64,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SmartReport {
    /// Name of the drive's specification.
    pub model_name: String,
    /// Bytes that hosts see.
    pub capacity_bytes: u64,
    /// Bytes of a page.
    pub logical_block_size: u32,
    /// Whether nothing is critical.
    pub passed: bool,
    /// The SMART log.
    pub log: SmartLog,
    /// Pages programmed by pages written.
    pub write_amplification: WriteAmplification,
    /// What deduplication has saved.
    pub deduplication: Deduplication,
    /// The array.
    pub nand: NandReport,
    /// How often blocks were erased.
    pub erase_histogram: Vec<Bar>,
    /// Whether the drive was closed; if not, counts of its last moments may be missing.
    pub closed: bool,
    /// Since when things were counted.
    pub counters: Counted,
    /// Whether what was not flushed survives.
    pub power_loss_protection: Protection,
}

/// What is known of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Whether they could be read; if not, all are 0.
    pub readable: bool,
    /// When they began, in seconds since 1970, if that was after the drive was made.
    pub since_unix_s: Option<u64>,
}

/// Power-loss protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Protection {
    /// Whether the modelled drive has it.
    pub specified: bool,
    /// Whether the emulated one has: a process and its host have no capacitor.
    pub emulated: bool,
}

impl SmartReport {
    /// The report of a drive.
    pub fn of(drive: &Inspection) -> Self {
        let Inspection { spec, counted, health, blocks, allocated_bytes, .. } = drive;
        let state = health.state;
        let erases: Vec<u32> = blocks.iter().filter(|b| !b.bad).map(|b| b.erases).collect();
        let all: u64 = erases.iter().map(|&erases| u64::from(erases)).sum();
        let mean = all as f64 / erases.len().max(1) as f64;
        let programmed = health.all_operations("program");
        let written = health.pages_written;
        let waf = |pages: u64| (written > 0).then(|| pages as f64 / written as f64);
        let log = log(drive, mean);
        let raw = health.nand.raw_bit_errors as f64 / health.nand.bits_read.max(1) as f64;
        Self {
            model_name: format!("onefold {}", spec.name),
            capacity_bytes: state.logical_pages * u64::from(spec.geometry.page_bytes),
            logical_block_size: spec.geometry.page_bytes,
            passed: log.critical_warning == 0,
            write_amplification: WriteAmplification {
                total: waf(programmed),
                by_cause: Cause::ALL
                    .into_iter()
                    .map(|cause| (cause.name(), waf(health.operations("program", cause))))
                    .collect(),
            },
            deduplication: Deduplication {
                inline_pages: health.inline_pages,
                offline_pages: health.offline_pages,
                mapped_pages: state.mapped_pages,
                data_pages: state.data_pages,
                shared_pages: state.shared_pages,
                ratio: state.mapped_pages.max(1) as f64 / state.data_pages.max(1) as f64,
            },
            nand: NandReport {
                bytes_programmed: health
                    .nand
                    .programs
                    .saturating_mul(u64::from(spec.geometry.page_bytes)),
                pages_programmed: health.nand.programs,
                pages_read: health.nand.reads,
                blocks_erased: health.nand.erases,
                corrected_pages: health.nand.corrected_pages,
                corrected_bits: health.nand.corrected_bits,
                read_retries: health.nand.retries,
                raw_bit_error_rate: raw,
                uncorrectable_pages: health.nand.uncorrectable,
                bad_blocks: blocks.iter().filter(|block| block.bad).count() as u64,
                factory_bad_blocks: state.factory_bad_blocks,
                failures: health.nand.program_failures + health.nand.erase_failures,
                erases_min: erases.iter().copied().min().unwrap_or(0),
                erases_mean: mean,
                erases_max: erases.iter().copied().max().unwrap_or(0),
                file_bytes: *allocated_bytes,
            },
            erase_histogram: histogram(&erases),
            closed: health.clean,
            counters: Counted { readable: *counted, since_unix_s: health.since_unix_s },
            power_loss_protection: Protection {
                specified: spec.controller.power_loss_protection,
                emulated: false,
            },
            log,
        }
    }
}

fn log(drive: &Inspection, mean_erases: f64) -> SmartLog {
    let Inspection { spec, health, blocks, .. } = drive;
    let state = health.state;
    let bad = blocks.iter().filter(|block| block.bad).count() as u64;
    let all = blocks.len() as u64;
    let spare_when_made = all.saturating_sub(state.factory_bad_blocks + state.needed_blocks);
    let spare = all.saturating_sub(bad + state.needed_blocks);
    let available_spare =
        (100 * spare).checked_div(spare_when_made).map_or(100, |share| share.min(100));
    let used = spec.wear_model().percentage_used(mean_erases);
    let units = |bytes: u64| bytes.div_ceil(DATA_UNIT_BYTES);
    let mut critical_warning = 0;
    if available_spare < SPARE_THRESHOLD {
        critical_warning |= 1;
    }
    if health.nand.uncorrectable > 0 {
        critical_warning |= 1 << 2;
    }
    if spare == 0 && spare_when_made > 0 {
        critical_warning |= 1 << 3;
    }
    SmartLog {
        critical_warning,
        available_spare,
        available_spare_threshold: SPARE_THRESHOLD,
        percentage_used: (used as u64).min(PERCENTAGE_MAX),
        data_units_read: units(health.host_bytes_read),
        data_units_written: units(health.host_bytes_written),
        host_reads: health.host_reads,
        host_writes: health.host_writes,
        power_cycles: health.power_cycles,
        power_on_hours: health.power_on_s / 3600,
        unsafe_shutdowns: health.unsafe_shutdowns,
        media_errors: health.nand.uncorrectable,
        num_err_log_entries: health.host_errors,
    }
}

/// Bars of equal width from the lowest to the highest count.
fn histogram(erases: &[u32]) -> Vec<Bar> {
    let (Some(&low), Some(&high)) = (erases.iter().min(), erases.iter().max()) else {
        return Vec::new();
    };
    let width = (high - low) / BARS + 1;
    let mut all: Vec<Bar> = (low..=high)
        .step_by(width as usize)
        .map(|from| Bar { from, to: from.saturating_add(width - 1).min(high), blocks: 0 })
        .collect();
    for &count in erases {
        all[((count - low) / width) as usize].blocks += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_in_one_bar() {
        assert_eq!(histogram(&[]), []);
        assert_eq!(histogram(&[7, 7]), [Bar { from: 7, to: 7, blocks: 2 }]);
        let widest = histogram(&[0, 1 << 31, u32::MAX]);
        assert_eq!(widest.len(), BARS as usize);
        assert_eq!(widest[15], Bar { from: 0xf000_0000, to: u32::MAX, blocks: 1 });
        let erases: Vec<u32> = (0..1000).map(|n| n * n % 333).collect();
        let bars = histogram(&erases);
        assert!(bars.len() <= BARS as usize);
        assert_eq!(bars.iter().map(|bar| bar.blocks).sum::<u64>(), 1000);
        assert!(bars.windows(2).all(|pair| pair[0].to + 1 == pair[1].from));
        for bar in bars {
            let within = erases.iter().filter(|&&e| (bar.from..=bar.to).contains(&e)).count();
            assert_eq!(bar.blocks, within as u64, "{bar:?}");
        }
    }
}
