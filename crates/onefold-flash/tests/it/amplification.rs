//! Write amplification against closed forms.
//! Room: onefold-flash.   Source: Desnoyers (SYSTOR 2012).

use onefold_block::SplitMix64;
use onefold_flash::dedup::NoDedup;
use onefold_flash::ftl::{Pacing, VictimRule};
use onefold_flash::nand::BlankNand;
use onefold_flash::{Ftl, FtlSettings, Geometry, Untimed};

#[test]
fn greedy_is_near_its_closed_form() {
    let geometry = Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 1,
        blocks_per_plane: 1024,
        pages_per_block: 64,
        page_bytes: 4096,
        oob_bytes: 128,
    };
    let reserve = 2;
    let usable = (geometry.blocks() - reserve - 1) * geometry.pages_per_block;
    let logical_pages = (f64::from(usable) / 1.15) as u32;
    let settings = FtlSettings {
        logical_pages,
        gc_reserve_blocks: reserve,
        victim: VictimRule::Greedy,
        pacing: Pacing::Incremental,
        ..FtlSettings::default()
    };
    let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings).expect("fits");
    let mut random = SplitMix64::new(7);
    for lpn in 0..logical_pages {
        ftl.write(lpn, &(), &mut Untimed).expect("written");
    }
    let mut before = *ftl.counters();
    for round in 0..12 {
        for _ in 0..logical_pages {
            let lpn = random.below(u64::from(logical_pages)) as u32;
            ftl.write(lpn, &(), &mut Untimed).expect("written");
        }
        if round == 6 {
            before = *ftl.counters();
        }
    }
    ftl.check_invariants();
    let after = ftl.counters();
    let programmed = |c: &onefold_flash::ftl::Counters| c.ops.all(onefold_flash::OpKind::Program);
    let waf = (programmed(after) - programmed(&before)) as f64
        / (after.host_pages_written - before.host_pages_written) as f64;
    println!("waf {waf}");
    assert!((waf / 3.80 - 1.0).abs() < 0.02, "{waf}");
}
