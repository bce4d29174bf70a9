//! Measures the untimed FTL beside a plain loop that only updates a mapping array: host writes
//! without collection, in steady collection, and preconditioning, from 32 GiB to 1 TiB.
//! Room: onefold-flash.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::hint::black_box;
use std::time::Instant;

use onefold_block::SplitMix64;
use onefold_flash::dedup::NoDedup;
use onefold_flash::nand::BlankNand;
use onefold_flash::{Cause, Ftl, FtlError, FtlSettings, Geometry, OpKind, Untimed};

/// Table II of SES-Dedup, times `scale` blocks in a plane.
const fn geometry(scale: u32) -> Geometry {
    Geometry {
        channels: 8,
        packages: 8,
        dies_per_package: 1,
        planes_per_die: 8,
        blocks_per_plane: 256 * scale,
        pages_per_block: 256,
        page_bytes: 8192,
        oob_bytes: 320,
    }
}

const WRITES: u32 = 4_000_000;

/// Million updates per second of an array of the size of the map.
fn array_loop(pages: u32) -> f64 {
    let mut map = vec![u32::MAX; pages as usize];
    let mut random = SplitMix64::new(1);
    map.fill(0);
    let start = Instant::now();
    for at in 0..WRITES {
        map[random.below(pages.into()) as usize] = at;
    }
    black_box(&map);
    f64::from(WRITES) / start.elapsed().as_secs_f64() / 1e6
}

/// Writes pages drawn at random, announced some at a time.
fn write_random(
    ftl: &mut Ftl<BlankNand, NoDedup>,
    random: &mut SplitMix64,
    count: u32,
) -> Result<(), FtlError> {
    let pages = u64::from(ftl.settings().logical_pages);
    let mut lpns = [0; 32];
    for _ in 0..count / 32 {
        for lpn in &mut lpns {
            *lpn = random.below(pages) as u32;
        }
        ftl.announce(&lpns);
        for &lpn in &lpns {
            ftl.write(lpn, &(), &mut Untimed)?;
        }
    }
    Ok(())
}

fn main() -> Result<(), FtlError> {
    println!("| drive | array loop | no collection | ratio | steady | WAF | programs | fill s |");
    println!("|---|---|---|---|---|---|---|---|");
    for (scale, over) in [(1, 0.28), (4, 0.28), (32, 0.28)] {
        let geometry = geometry(scale);
        let logical_pages = (f64::from(geometry.pages()) / (1.0 + over)) as u32;
        let settings =
            FtlSettings { logical_pages, gc_reserve_blocks: 3, ..FtlSettings::default() };
        let reference = array_loop(logical_pages);
        let mut random = SplitMix64::new(2);
        // Without collection: the first writes to random pages of an empty drive.
        let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings)?;
        let share = logical_pages.min(WRITES * 3 / 4);
        let count = share;
        let start = Instant::now();
        write_random(&mut ftl, &mut random, count)?;
        let empty = f64::from(count) / start.elapsed().as_secs_f64() / 1e6;
        assert_eq!(ftl.counters().ops.of(OpKind::Program, Cause::Gc), 0);
        // In the steady state.
        let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings)?;
        let start = Instant::now();
        ftl.precondition_steady(|_| ())?;
        let fill = start.elapsed().as_secs_f64();
        let start = Instant::now();
        write_random(&mut ftl, &mut random, WRITES)?;
        let seconds = start.elapsed().as_secs_f64();
        let steady = f64::from(WRITES) / seconds / 1e6;
        let waf = ftl.counters().waf(None);
        println!(
            "| {} GiB | {reference:.1} M/s | {empty:.2} M/s | {:.2} | {steady:.2} M/s | {waf:.2} | \
             {:.1} M/s | {fill:.2} |",
            geometry.capacity_bytes() >> 30,
            empty / reference,
            steady * waf
        );
        if scale == 1 {
            let dram: u64 = ftl.dram().iter().map(|(_, bytes)| bytes).sum();
            println!("metadata of {} pages: {} MiB", geometry.pages(), dram >> 20);
        }
    }
    Ok(())
}
