//! Beyond the papers: plain pages that are spread so that similar patterns do not meet in a block.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. III proposes it and has no figure. Real bytes go through a drive's FTL,
//! and errors are the model's ([`onefold_flash::nand::WearModel::similar_factor`]).

use onefold_block::SplitMix64;
use onefold_flash::dedup::NoDedup;
use onefold_flash::nand::bytes::{BCH_NAME, ChannelSpec, MemStore, PageBytes};
use onefold_flash::nand::{ByteNand, WearModel};
use onefold_flash::op::OpKind;
use onefold_flash::{Ftl, FtlError, FtlSettings, Geometry, NandError, Untimed};

use crate::error::Result;
use crate::experiments::drives::one_die;
use crate::series::{Data, Line};
use crate::settings::Settings;

const PAGE: usize = 1024;
/// Room for the parity of a page and the FTL's fields.
const OOB_BYTES: u32 = 96;
/// Bytes of a family's pattern, which is repeated.
const PATTERN: usize = 64;

/// What is run.
#[derive(Clone, Copy, Debug)]
struct Point {
    planes: u32,
    families: u64,
    aged: bool,
    spread: bool,
}

/// What came out.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Mean likeness of a page's neighbours.
    likeness: f64,
    /// Raw bit errors beside those between noise.
    errors: f64,
    amplification: f64,
    /// Pages that cannot be corrected.
    lost: u64,
}

type Drive = Ftl<ByteNand<MemStore>, NoDedup>;

fn drive(settings: &Settings<'_>, point: Point) -> Result<Drive> {
    let geometry = Geometry {
        blocks_per_plane: settings.number("blocks_per_plane")? as u32,
        pages_per_block: settings.number("pages_per_block")? as u32,
        page_bytes: PAGE as u32,
        oob_bytes: OOB_BYTES,
        ..one_die(point.planes)
    };
    let wear = WearModel {
        fresh_rate: settings.real("raw_bit_errors_ppm")? / 1e6,
        similar_factor: settings.real("similar_percent")? / 100.0,
        seed: settings.number("seed")?,
        ..WearModel::none()
    };
    let channel = ChannelSpec { code: BCH_NAME.to_owned(), scrambler: None };
    let nand = ByteNand::in_memory(geometry, &channel, wear).map_err(|e| settings.refused(e))?;
    let reserve = 3;
    let logical_pages =
        geometry.planes() * (geometry.blocks_per_plane - reserve - 4) * geometry.pages_per_block;
    let settings_of_ftl = FtlSettings {
        logical_pages,
        gc_reserve_blocks: reserve,
        spread_patterns: point.spread,
        ..FtlSettings::default()
    };
    Ftl::format(nand, NoDedup, settings_of_ftl).map_err(|e| settings.refused(e))
}

/// A page of one of so many families.
fn page(random: &mut SplitMix64, point: Point, own_percent: u64) -> PageBytes {
    let family = SplitMix64::new(1 + random.below(point.families)).bytes(PATTERN);
    let mut page = family.repeat(PAGE / PATTERN);
    let own = PAGE * own_percent as usize / 100;
    page[..own].copy_from_slice(&random.bytes(own));
    PageBytes::plain_on_flash(page)
}

fn one(settings: &Settings<'_>, point: Point) -> Result<Found> {
    let own_percent = settings.number("own_percent")?;
    let mut random = SplitMix64::new(settings.number("seed")?);
    let mut drive = drive(settings, point)?;
    let pages = drive.settings().logical_pages;
    let again = if point.aged { settings.number("rewritten")? as u32 * pages } else { 0 };
    for number in 0..pages + again {
        let lpn = if number < pages { number } else { random.below(u64::from(pages)) as u32 };
        let page = page(&mut random, point, own_percent);
        drive.write(lpn, &page, &mut Untimed).map_err(|error| settings.refused(error))?;
    }
    let mut likeness = 0.0;
    for lpn in 0..pages {
        let Some(ppn) = drive.locate(lpn) else { continue };
        likeness += drive.nand().likeness_of(ppn).map_err(|error| settings.refused(error))?;
    }
    likeness /= f64::from(pages);
    let before = *drive.nand().health();
    let mut lost = 0;
    for lpn in 0..pages {
        match drive.read(lpn, &mut Untimed) {
            // Its raw bit errors count like those of all others. Of many pages one may have more
            // than its code corrects, here or when it was moved.
            Err(FtlError::Nand(NandError::Uncorrectable { .. })) => lost += 1,
            read => drop(read.map_err(|error| settings.refused(error))?),
        }
    }
    let after = *drive.nand().health();
    let errors = (after.raw_bit_errors - before.raw_bit_errors) as f64;
    let rate = errors / (after.bits_read - before.bits_read) as f64;
    let programs = drive.counters().ops.all(OpKind::Program);
    Ok(Found {
        likeness,
        errors: rate / drive.nand().wear().fresh_rate,
        amplification: programs as f64 / f64::from(pages + again),
        lost,
    })
}

/// Likeness of neighbours and raw bit errors, in turn and spread, of a new drive and an aged one.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let planes = settings.numbers("planes")?;
    let mut points = Vec::new();
    for families in settings.numbers("families")? {
        for aged in [false, true] {
            for spread in [false, true] {
                points.extend(planes.iter().map(|&p| Point {
                    planes: p as u32,
                    families,
                    aged,
                    spread,
                }));
            }
        }
    }
    let found = settings.sweep(&points, |&point| one(settings, point));
    let over = |name: &str, unit: &str| Line::new(name, unit).over("planes", "");
    for (point, found) in points.iter().zip(found) {
        let found = found?;
        let of = if point.spread { "spread" } else { "in turn" };
        let age = if point.aged { "aged" } else { "new" };
        let (s, families) = (if point.families == 1 { "y" } else { "ies" }, point.families);
        let under = format!("{families} famil{s}, {age}");
        let at = u64::from(point.planes);
        let put = |data: &mut Data, line: Line, value: f64| {
            let row = data.put(&line.of(of).under(&under), at, value);
            if found.lost != 0 {
                row.note(format!("pages that could not be corrected: {}", found.lost));
            }
        };
        put(data, over("likeness of neighbours", "%"), 100.0 * found.likeness);
        put(data, over("raw bit errors beside noise", "times"), found.errors);
        if point.aged {
            put(data, over("pages programmed for each written", ""), found.amplification);
        }
    }
    Ok(())
}
