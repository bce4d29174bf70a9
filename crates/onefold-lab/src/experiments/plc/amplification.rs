//! Write amplification inside the SSD under a cache's writes, by unit of caching.
//! Room: onefold-lab.   In: a trace, a policy, a size.   Out: [`Amplified`].
//! Source: [plc-cache] sec. V.C.3: containers instead of chunks save 54.4 %. The drive is the
//! untimed FTL of onefold-flash; its logical pages are the cache's slots, all of them.
//! Differs: a newcomer takes the place of the unit that left, so that trimming what left frees its
//! pages only just before they are overwritten.

use onefold_cache::simulate::{SlotWrite, slot_writes};
use onefold_cache::trace::Trace;
use onefold_cache::workload::WorkloadSpec;
use onefold_cache::{Capacity, Choice};
use onefold_flash::dedup::NoDedup;
use onefold_flash::geometry::PAGES_MAX;
use onefold_flash::nand::BlankNand;
use onefold_flash::{Ftl, FtlError, FtlSettings, Geometry, Untimed};

use super::{refused, shared};
use crate::error::Result;
use crate::experiments::drives::one_die;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// A drive, up to its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveShape {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Planes, which pages are written to in turn.
    pub planes: u32,
    /// Physical over logical pages, less one, in thousandths; at least what the FTL itself needs.
    pub spare_permille: u32,
    /// Whether a unit's pages are trimmed before the next unit is written over them.
    pub trim: bool,
}

impl Default for DriveShape {
    /// A row of blocks is 2 MiB, and 64 GiB of flash are sold as 60 GB.
    fn default() -> Self {
        let (page_bytes, pages_per_block, planes) = (4096, 64, 8);
        Self { page_bytes, pages_per_block, planes, spare_permille: 145, trim: false }
    }
}

/// What the drive did.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Amplified {
    /// Pages that the cache wrote.
    pub host_pages: u64,
    /// Pages that the flash programmed for them.
    pub programmed_pages: u64,
    /// Cache fills that the pages written amount to.
    pub fills: f64,
}

impl Amplified {
    /// Pages programmed over pages written; 1 if nothing was.
    pub fn factor(&self) -> f64 {
        if self.host_pages == 0 {
            return 1.0;
        }
        self.programmed_pages as f64 / self.host_pages as f64
    }
}

/// Why a cache's writes could not be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AmplificationError {
    /// The policy.
    #[error(transparent)]
    Policy(#[from] onefold_cache::OptionError),
    /// The drive.
    #[error("the SSD's model: {0}")]
    Drive(#[from] FtlError),
    /// The units are not alike, so that they have no slots.
    #[error("units of {least} and of {most} bytes: expected units of one size")]
    Sizes {
        /// Bytes of the smallest.
        least: u32,
        /// Bytes of the largest.
        most: u32,
    },
    /// More pages than the model has numbers for.
    #[error("a cache of {pages} pages: expected at most {PAGES_LIMIT}; take a smaller cache")]
    Pages {
        /// Pages of the cache.
        pages: u64,
    },
}

/// Half of what a drive can have, so that spare pages always fit.
const PAGES_LIMIT: u64 = PAGES_MAX / 2;

/// Replays what `choice` writes to a cache of `size` (a share of the data) on a drive that the
/// cache fills. Units are those of the trace and have to be of one size.
pub fn amplification(
    trace: &Trace,
    choice: &Choice,
    size: f64,
    seed: u64,
    shape: DriveShape,
) -> std::result::Result<Amplified, AmplificationError> {
    let sizes = || trace.requests.iter().map(|access| access.size);
    let (least, most) = (sizes().min().unwrap_or(1), sizes().max().unwrap_or(1));
    if least != most {
        return Err(AmplificationError::Sizes { least, most });
    }
    let slots = ((trace.data_bytes as f64 * size) as u64 / u64::from(most)).max(1);
    let capacity = Capacity { bytes: slots * u64::from(most), objects: slots as usize };
    let pages_per_unit = most.div_ceil(shape.page_bytes);
    let logical_pages = within_limit(slots * u64::from(pages_per_unit))?;
    let mut ftl = drive(logical_pages, shape)?;
    let mut failed = None;
    slot_writes(trace, choice, capacity, seed, |write| {
        if failed.is_none() {
            failed = replay(&mut ftl, write, pages_per_unit, shape.trim).err();
        }
    })?;
    failed.map_or(Ok(()), Err)?;
    let counters = ftl.counters();
    let host_pages = counters.host_pages_written;
    Ok(Amplified {
        host_pages,
        programmed_pages: counters.ops.all(onefold_flash::OpKind::Program),
        fills: host_pages as f64 / f64::from(logical_pages),
    })
}

/// So many pages, if a drive can have them.
fn within_limit(pages: u64) -> std::result::Result<u32, AmplificationError> {
    if pages > PAGES_LIMIT {
        return Err(AmplificationError::Pages { pages });
    }
    Ok(pages as u32)
}

/// A drive with these logical pages, and with spare ones as the shape says.
fn drive(
    logical_pages: u32,
    shape: DriveShape,
) -> std::result::Result<Ftl<BlankNand, NoDedup>, FtlError> {
    let settings = FtlSettings { logical_pages, gc_reserve_blocks: 2, ..FtlSettings::default() };
    let physical = u64::from(logical_pages) * u64::from(1000 + shape.spare_permille) / 1000;
    let row = u64::from(shape.pages_per_block) * u64::from(shape.planes);
    let wanted = physical.div_ceil(row) as u32;
    // Open blocks and the reserve of collection come first; a small drive has little else.
    let needed = (u64::from(logical_pages).div_ceil(row)) as u32 + settings.gc_reserve_blocks + 4;
    let geometry = Geometry {
        blocks_per_plane: wanted.max(needed),
        pages_per_block: shape.pages_per_block,
        page_bytes: shape.page_bytes,
        ..one_die(shape.planes)
    };
    Ftl::format(BlankNand::new(geometry), NoDedup, settings)
}

fn replay(
    ftl: &mut Ftl<BlankNand, NoDedup>,
    write: SlotWrite,
    pages_per_unit: u32,
    trim: bool,
) -> std::result::Result<(), FtlError> {
    let first = write.slot * pages_per_unit;
    if trim {
        ftl.trim_range(first, pages_per_unit, &mut Untimed)?;
    }
    for lpn in first..first + pages_per_unit {
        ftl.write(lpn, &(), &mut Untimed)?;
    }
    Ok(())
}

struct Point {
    policy: &'static str,
    unit_kib: u64,
    spare_permille: u32,
    trim: bool,
}

/// Units for LRU and PLC, spare space and trims for PLC's chunks and containers.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let units = settings.numbers("unit_kib")?;
    let plain = WorkloadSpec {
        data_mib: settings.number("data_mib")?,
        read_gib: settings.real("read_gib")?,
        zipf_exponent: settings.real("zipf_exponent")?,
        seed: settings.number("seed")?,
        ..WorkloadSpec::default()
    };
    let plain = shared(plain, settings.real("sharing_exponent")?);
    let traces =
        settings.sweep(&units, |&kib| WorkloadSpec { container_kib: kib as u32, ..plain }.trace());
    let traces: std::result::Result<Vec<Trace>, _> = traces.into_iter().collect();
    let traces = traces.map_err(|error| refused(settings, error))?;
    let points = points(settings, &units)?;
    let size = settings.real("cache_percent")? / 100.0;
    let page_kib = settings.number("page_kib")?;
    let shape = DriveShape {
        page_bytes: page_kib as u32 * 1024,
        pages_per_block: (settings.number("erase_kib")? / page_kib) as u32,
        planes: settings.number("planes")? as u32,
        ..DriveShape::default()
    };
    let results = settings.sweep(&points, |point| {
        let trace = units.iter().zip(&traces).find(|(kib, _)| **kib == point.unit_kib);
        let (_, trace) = trace.expect("a trace of every unit");
        let choice = Choice::parse(point.policy).map_err(AmplificationError::from)?;
        let (spare_permille, trim) = (point.spare_permille, point.trim);
        let shape = DriveShape { spare_permille, trim, ..shape };
        amplification(trace, &choice, size, plain.seed, shape)
    });
    let over = |name: &str, unit: &str| Line::new(name, unit).over("unit of caching", "KiB");
    let amplified = over("write amplification", "programmed / written");
    let fills = over("written", "fills of the cache");
    let mut factors = Vec::new();
    for (point, result) in points.iter().zip(results) {
        let done = result.map_err(|error| refused(settings, error))?;
        let (policy, setting) = (point.policy.to_uppercase(), point.setting());
        data.put(&amplified.of(&policy).under(&setting), point.unit_kib, done.factor());
        data.put(&fills.of(&policy).under(&setting), point.unit_kib, done.fills);
        factors.push(done.factor());
    }
    saved(settings, (&points, &factors), &units, data)
}

impl Point {
    /// Its drive in words.
    fn setting(&self) -> String {
        let trimmed = if self.trim { ", trimmed" } else { "" };
        format!("{:.1} % spare{trimmed}", f64::from(self.spare_permille) / 10.0)
    }
}

fn points(settings: &Settings<'_>, units: &[u64]) -> Result<Vec<Point>> {
    let default = settings.number("spare_default_permille")? as u32;
    let mut points = Vec::new();
    for policy in ["lru", "plc"] {
        for spare in settings.numbers("spare_permille")? {
            let spare_permille = spare as u32;
            for &unit_kib in units {
                let both = [units[0], CONTAINER_KIB].contains(&unit_kib);
                // Every unit at the default; spare space and trims for chunks and containers.
                for trim in [false, true] {
                    let at_default = spare_permille == default;
                    let beside = policy == "plc" && both && (at_default || !trim);
                    if at_default && !trim || beside {
                        points.push(Point { policy, unit_kib, spare_permille, trim });
                    }
                }
            }
        }
    }
    Ok(points)
}

/// The container that the seed uses.
const CONTAINER_KIB: u64 = 2048;

/// What containers save against chunks, of every kind that has both.
fn saved(
    settings: &Settings<'_>,
    (points, factors): (&[Point], &[f64]),
    units: &[u64],
    data: &mut Data,
) -> Result<()> {
    let line = Line::new("saved by containers against chunks", "% of pages programmed");
    let default = settings.number("spare_default_permille")?;
    for (chunk, of_chunks) in points.iter().zip(factors) {
        let alike = |point: &Point| {
            (point.policy, point.spare_permille, point.trim, point.unit_kib)
                == (chunk.policy, chunk.spare_permille, chunk.trim, CONTAINER_KIB)
        };
        let container = points.iter().position(alike).filter(|_| chunk.unit_kib == units[0]);
        let Some(container) = container else { continue };
        let saved = (1.0 - factors[container] / of_chunks) * 100.0;
        let line = line.of(&chunk.policy.to_uppercase()).under(&chunk.setting());
        if chunk.policy == "plc" && default == chunk.spare_permille.into() && !chunk.trim {
            data.beside(
                ("containers vs SAR-like chunks", "write_amp_reduction"),
                &line,
                (),
                saved,
            )?;
        } else {
            data.put(&line, (), saved);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use onefold_cache::policy::Access;

    use super::*;

    #[test]
    fn where_nothing_is_read_nothing_is_amplified() {
        let nothing = Trace {
            requests: Vec::new(),
            wanted: Vec::new(),
            files: Vec::new(),
            references: Vec::new(),
            data_bytes: 1 << 20,
        };
        let lru = Choice::parse("lru").unwrap();
        let done = amplification(&nothing, &lru, 1.0 / 4096.0, 1, DriveShape::default()).unwrap();
        assert_eq!((done, done.factor()), (Amplified::default(), 1.0));
        // A cache has room for one unit, however small it is.
        let read = |key| Access { key, size: 4096 };
        let two = Trace { requests: vec![read(0), read(1)], references: vec![1, 1], ..nothing };
        let done = amplification(&two, &lru, 0.0, 1, DriveShape::default()).unwrap();
        assert_eq!(
            (done.host_pages, done.programmed_pages, done.fills.to_string()),
            (2, 2, "2".into())
        );
    }

    #[test]
    fn a_cache_of_more_pages_than_a_drive_can_have_is_refused() {
        assert_eq!(within_limit(PAGES_LIMIT).unwrap(), PAGES_LIMIT as u32);
        let error = within_limit(PAGES_LIMIT + 1).unwrap_err();
        assert!(matches!(error, AmplificationError::Pages { pages } if pages == PAGES_LIMIT + 1));
    }

    #[test]
    fn the_drive_that_nobody_describes_has_rows_of_2_mib_and_is_sold_as_drives_are() {
        let shape = DriveShape::default();
        assert_eq!(shape.page_bytes * shape.pages_per_block * shape.planes, 2 << 20);
        assert_eq!(u64::from(shape.spare_permille), (64 << 30) / 60_000_000 - 1000);
    }

    /// Open blocks and the reserve of collection come first: a small drive has little else.
    #[test]
    fn a_small_drive_has_one_block_of_a_plane_more_than_its_ftl_must_have() {
        for pages in [1, 512, 513] {
            let ftl = drive(pages, DriveShape::default()).unwrap();
            let (geometry, settings) = (*ftl.geometry(), *ftl.settings());
            let with_fewer = |blocks: u32| {
                let blocks_per_plane = geometry.blocks_per_plane - blocks;
                let nand = BlankNand::new(Geometry { blocks_per_plane, ..geometry });
                Ftl::format(nand, NoDedup, settings).map(drop)
            };
            assert!(with_fewer(1).is_ok(), "{pages}");
            let error = with_fewer(2).unwrap_err();
            assert!(matches!(error, FtlError::NoRoom { .. }), "{pages}: {error}");
        }
    }
}
