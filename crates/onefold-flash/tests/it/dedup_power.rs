//! Every policy under power cuts: flushed pages are there, others are old or new, and tables that
//! were rebuilt from tags alone still lead to right decisions.
//! Room: onefold-flash.

use crate::validation::kinds::untimed;
use crate::validation::perfect::PerfectTable;
use onefold_block::SplitMix64;
use onefold_flash::dedup::{AnyPolicy, Identities, POLICIES, Site};
use onefold_flash::ftl::blocks::BlockState;
use onefold_flash::ftl::{Durability, FtlError};
use onefold_flash::nand::{Cut, Faults, Identity, IdentityNand, NandError, PowerCut, Sizes};
use onefold_flash::{Ftl, FtlSettings, Geometry};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    packages: 1,
    dies_per_package: 1,
    planes_per_die: 2,
    blocks_per_plane: 24,
    pages_per_block: 8,
    page_bytes: 256,
    oob_bytes: 64,
};
const LOGICAL: u32 = 120;

type Drive = Ftl<PowerCut<IdentityNand>, AnyPolicy<Identities>>;

fn policy(name: &str, codewords: u32) -> AnyPolicy<Identities> {
    // Where policies may trust strong hashes, they do.
    let site = Site { hash_outruns_read: true, ..Site::new(GEOMETRY, None) };
    let site = if codewords > 1 { site.of_codewords(codewords, 1) } else { site };
    AnyPolicy::new::<Identity>(name, &toml::Table::new(), &site, Identities).expect("accepted")
}

fn array(codewords: u32) -> IdentityNand {
    IdentityNand::new(GEOMETRY).with_sizes((codewords > 1).then(|| Sizes::codewords(codewords)))
}

/// Whether the operation was done; the power may be off instead.
fn done<T>(result: Result<T, FtlError>) -> bool {
    match result {
        Ok(_) => true,
        Err(FtlError::Nand(NandError::PowerOff)) => false,
        Err(error) => panic!("unexpected: {error}"),
    }
}

/// What each page may hold: its contents since the last flush, the newest last.
type Allowed = Vec<Vec<Option<u128>>>;

fn act(drive: &mut Drive, allowed: &mut Allowed, random: &mut SplitMix64) {
    for _ in 0..600 {
        let lpn = random.below(u64::from(LOGICAL)) as u32;
        let on = match random.below(20) {
            0 => {
                allowed[lpn as usize].push(None);
                done(drive.trim(lpn, &mut untimed()))
            }
            1 => {
                let flushed = done(drive.flush(&mut untimed()));
                if flushed {
                    let newest = |all: &mut Vec<_>| *all = vec![*all.last().expect("never empty")];
                    allowed.iter_mut().for_each(newest);
                }
                flushed
            }
            2..6 => done(drive.deduplicate_step(&mut untimed())),
            6 => done(drive.collect_idle(random.below(2) as u32, &mut untimed())),
            _ => {
                let content = u128::from(1 + random.below(40));
                allowed[lpn as usize].push(Some(content));
                done(drive.write(lpn, &Identity(content), &mut untimed()))
            }
        };
        if !on {
            return;
        }
    }
}

#[test]
fn every_policy_survives_power_cuts() {
    for (name, codewords) in POLICIES.iter().map(|info| (info.name, 1)).chain([("codeword", 4)]) {
        for seed in 0..25 {
            let mut random = SplitMix64::new(seed);
            let settings = FtlSettings {
                logical_pages: LOGICAL,
                durability: Durability::Journal,
                subpages: codewords,
                codewords: codewords > 1,
                ..FtlSettings::default()
            };
            let faults = Faults { program_ppm: 0, erase_ppm: 0, blocks_max: 0, seed };
            let nand = PowerCut::new(array(codewords), faults);
            let mut drive = Ftl::format(nand, policy(name, codewords), settings).expect("fits");
            let mut allowed: Allowed = vec![vec![None]; LOGICAL as usize];
            for _ in 0..4 {
                let cut = [Cut::Before, Cut::Torn, Cut::After][random.below(3) as usize];
                drive.nand().cut_after(random.below(700), cut);
                act(&mut drive, &mut allowed, &mut random);
                drive.check_invariants();
                let mut nand = drive.into_nand();
                nand.restore();
                let opened = Ftl::open(nand, policy(name, codewords), settings);
                drive = opened.expect("recovered").0;
                drive.check_invariants();
                for lpn in 0..LOGICAL {
                    let got = drive.read(lpn, &mut untimed()).expect("readable").map(|page| page.0);
                    let may = &mut allowed[lpn as usize];
                    assert!(may.contains(&got), "{name} seed {seed} page {lpn}: {got:?}");
                    *may = vec![got];
                }
            }
            while drive.deduplicate_step(&mut untimed()).expect("a step") {}
            drive.check_invariants();
            for lpn in 0..LOGICAL {
                let got = drive.read(lpn, &mut untimed()).expect("readable").map(|page| page.0);
                assert_eq!(allowed[lpn as usize], [got], "{name} seed {seed} page {lpn}");
            }
        }
    }
}

/// A virtual page that was freed by records which are not durable must not be given out again: a
/// copy of its new page says its number in the out-of-band area, and after a power cut the old
/// entries of the map, which the records would have changed, name that number still.
#[test]
fn a_virtual_page_freed_since_the_last_flush_is_not_given_to_other_content() {
    let settings = FtlSettings {
        logical_pages: LOGICAL,
        gc_idle_blocks: GEOMETRY.blocks_per_plane,
        checkpoint_pages: 1 << 20,
        durability: Durability::Journal,
        ..FtlSettings::default()
    };
    let nand = || PowerCut::new(IdentityNand::new(GEOMETRY), Faults::default());
    let table = || PerfectTable::new(100, 1);
    let mut drive = Ftl::format(nand(), table(), settings).expect("fits");
    let d = &mut untimed();
    let (old, new) = (Identity(7), Identity(8));
    for lpn in [0, 1] {
        drive.write(lpn, &old, d).expect("written");
    }
    drive.flush(d).expect("flushed");
    assert_eq!((drive.locate(0), drive.shared().live()), (drive.locate(1), 1));
    drive.trim_range(0, 2, d).expect("trimmed");
    for lpn in [2, 3] {
        drive.write(lpn, &new, d).expect("written");
    }
    // Its block is filled and collected until the page was copied, and not further: an erase would
    // make the records durable first.
    let at = drive.locate(2).expect("written");
    let block = at / GEOMETRY.pages_per_block;
    for lpn in 20..24 {
        drive.write(lpn, &Identity(u128::from(lpn)), d).expect("written");
    }
    for number in 100.. {
        if drive.blocks().state(block) == BlockState::Full {
            break;
        }
        drive.write(10, &Identity(number), d).expect("written");
    }
    drive.collect_idle(GEOMETRY.plane_of(at), d).expect("collected");
    assert_ne!(drive.locate(2), Some(at), "the new page was copied");
    let mut nand = drive.into_nand();
    nand.cut_after(0, Cut::Before);
    nand.restore();
    let mut drive = Ftl::open(nand, table(), settings).expect("recovered").0;
    drive.check_invariants();
    let mut read = |lpn| drive.read(lpn, &mut untimed()).expect("readable");
    assert_eq!(read(3), None, "this test is about records that a power cut took");
    for lpn in [0, 1] {
        assert_eq!(read(lpn), Some(old), "page {lpn} was trimmed without a flush");
    }
}
