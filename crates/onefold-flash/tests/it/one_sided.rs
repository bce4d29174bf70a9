//! A driver that always prefers one plane fills it with what is live; collection there goes on to
//! free blocks, and the drive is never out of space. Nor is it when sharing comes and goes.
//! Room: onefold-flash.

use onefold_block::SplitMix64;
use onefold_flash::Geometry;
use onefold_flash::dedup::{AnyPolicy, Identities};
use onefold_flash::ftl::{Durability, Ftl, FtlError, FtlSettings, Temperature, VictimRule};
use onefold_flash::nand::Identity;

use crate::collection::Watch;
use crate::validation::kinds::{Array, array, none, timed, untimed};
use crate::validation::perfect::PerfectTable;
use crate::validation::plane::plane;

fn geometry(pages_per_block: u32) -> Geometry {
    Geometry { planes_per_die: 3, page_bytes: 512, oob_bytes: 64, ..plane(24, pages_per_block) }
}

type Drive = Ftl<Array, AnyPolicy<Identities>>;

/// A drive with as many logical pages as are accepted.
fn fullest(geometry: Geometry, settings: FtlSettings) -> Drive {
    let mut logical_pages = geometry.pages();
    loop {
        let hot = logical_pages / 10;
        let temperature = match settings.temperature {
            Temperature::OnePool => Temperature::OnePool,
            Temperature::HotRange { .. } => {
                Temperature::HotRange { hot_pages: hot, hot_writes_permille: 900 }
            }
        };
        let settings = FtlSettings { logical_pages, temperature, ..settings };
        match Ftl::format(array(geometry), none(), settings) {
            Ok(ftl) => return ftl,
            Err(FtlError::NoRoom { .. }) => logical_pages -= 1,
            Err(error) => panic!("{settings:?}: {error}"),
        }
    }
}

/// Fills the drive, overwrites it three times and trims in between; idle moments come now and then.
fn overwrite(ftl: &mut Drive, pages: u32, random: &mut SplitMix64) -> Result<(), FtlError> {
    for turn in 0..4 * pages {
        let wish = if random.chance(1, 8) { None } else { Some(0) };
        let lpn = if turn < pages { turn } else { random.below(pages.into()) as u32 };
        let page = Identity::of_number(turn.into());
        ftl.write(lpn, &page, &mut timed(&mut Watch { plane: wish, ..Watch::default() }))?;
        if random.chance(1, 50) {
            ftl.trim(random.below(pages.into()) as u32, &mut untimed())?;
        }
        if random.chance(1, 20) {
            ftl.collect_idle(random.below(3) as u32, &mut untimed())?;
        }
    }
    Ok(())
}

#[test]
fn a_plane_that_is_always_preferred_is_not_filled_beyond_what_collection_can_free() {
    let hot = Temperature::HotRange { hot_pages: 0, hot_writes_permille: 0 };
    let mut random = SplitMix64::new(7);
    let (mut tried, mut full) = (0, Vec::new());
    for pages_per_block in [1, 2, 5] {
        for durability in [Durability::Volatile, Durability::Journal] {
            for (temperature, wear_spread) in
                [(Temperature::OnePool, 0), (Temperature::OnePool, 1), (hot, 0), (hot, 2)]
            {
                for victim in [VictimRule::Greedy, VictimRule::Fifo, VictimRule::DChoices(3)] {
                    let settings = FtlSettings {
                        gc_reserve_blocks: 2 + random.below(3) as u32,
                        victim,
                        wear_spread,
                        durability,
                        temperature,
                        ..FtlSettings::default()
                    };
                    let mut ftl = fullest(geometry(pages_per_block), settings);
                    let pages = ftl.settings().logical_pages;
                    tried += 1;
                    match overwrite(&mut ftl, pages, &mut random) {
                        Ok(()) => {}
                        Err(error @ FtlError::NoSpace { .. }) => {
                            full.push(format!(
                                "{pages_per_block} pages a block, {settings:?}: {error}"
                            ));
                        }
                        Err(error) => panic!("{settings:?}: {error}"),
                    }
                }
            }
        }
    }
    assert!(full.is_empty(), "{} of {tried}:\n{}", full.len(), full.join("\n"));
    assert_eq!(tried, 72);
}

/// Pages that are shared have entries of their own, in mapping pages that the count of what fits
/// does not know: each is paid for by a page that is not stored twice, as long as it is shared.
#[test]
fn sharing_that_ends_leaves_no_more_pages_of_the_map_than_there_is_room_for() {
    let mut random = SplitMix64::new(9);
    for pages_per_block in [1, 2, 5] {
        for planes in [1, 3] {
            let settings = FtlSettings {
                gc_reserve_blocks: 2,
                durability: Durability::Journal,
                ..FtlSettings::default()
            };
            let geometry = Geometry {
                planes_per_die: planes,
                blocks_per_plane: 100,
                ..geometry(pages_per_block)
            };
            let mut logical_pages = geometry.pages();
            let mut ftl = loop {
                let settings = FtlSettings { logical_pages, ..settings };
                let nand = array(geometry);
                match Ftl::format(nand, PerfectTable::new(100, 3), settings) {
                    Ok(ftl) => break ftl,
                    Err(FtlError::NoRoom { .. }) => logical_pages -= 1,
                    Err(error) => panic!("{settings:?}: {error}"),
                }
            };
            assert!(logical_pages >= 40, "{logical_pages} pages are too few to share any");
            let (mut unique, mut watch) = (1000, Watch { plane: Some(0), ..Watch::default() });
            for round in 0..12 {
                for turn in 0..logical_pages {
                    let lpn =
                        if round == 0 { turn } else { random.below(logical_pages.into()) as u32 };
                    let shared = round % 2 == 0 && random.chance(1, 2);
                    unique += 1;
                    let content = if shared { random.below(40) } else { unique };
                    let page = Identity::of_number(content);
                    ftl.write(lpn, &page, &mut timed(&mut watch)).unwrap_or_else(|error| {
                        panic!("{pages_per_block} pages, {planes} planes, round {round}: {error}")
                    });
                }
            }
        }
    }
}
