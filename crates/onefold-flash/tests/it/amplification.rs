//! Write amplification against closed forms, at sizes for every day.
//! Room: onefold-flash.
//! Source: docs/ssd-validation.md, V1 to V5 and V8; full size in `examples/validate.rs`.

use crate::validation::content;
use crate::validation::kinds::{array, none, untimed};
use crate::validation::laws;
use crate::validation::steady::{self, Row, Scale};
use onefold_flash::dedup::NoDedup;
use onefold_flash::ftl::{Durability, Pacing, VictimRule};
use onefold_flash::nand::{BlankNand, Identity};
use onefold_flash::{Ftl, FtlError, FtlSettings, Geometry};

const SMALL: Scale = Scale { blocks: 1024, warm: 6, measured: 3 };

fn within(rows: Result<Vec<Row>, FtlError>, bound: f64) -> Vec<Row> {
    let rows = rows.expect("runs");
    for row in &rows {
        let Row { id, what, theory, measured } = row;
        let deviation = row.deviation();
        assert!(deviation.abs() <= bound, "{id} {what}: {measured} against {theory}");
    }
    rows
}

#[test]
fn greedy_and_fifo_have_their_closed_forms() {
    within(steady::v1(SMALL, &[64]), 0.01);
}

#[test]
fn large_blocks_have_theirs() {
    let geometry = steady::plane(768, 256);
    let settings = steady::with_alpha(geometry, 1.15, FtlSettings::default()).expect("fits");
    let waf = steady::uniform(geometry, settings, SMALL).expect("runs");
    let theory = laws::greedy(1.15, 256);
    assert!((waf / theory - 1.0).abs() < 0.01, "{waf} against {theory}");
}

#[test]
fn sequential_and_trimmed_drives_amplify_as_they_should() {
    within(steady::v2(SMALL), 0.01);
}

#[test]
fn more_draws_come_nearer_to_greedy() {
    let rows = within(steady::v3(SMALL, &[1, 3, 30]), 0.015);
    assert!(rows.is_sorted_by(|a, b| a.measured > b.measured));
    assert!(rows[2].measured > laws::greedy(1.15, 64));
}

#[test]
fn separate_pools_pay() {
    let rows = steady::v4(Scale { warm: 4, measured: 2, ..SMALL }, 64).expect("runs");
    for pair in rows.chunks(2) {
        let [separate, one] = pair else { panic!("rows come in pairs") };
        assert!(separate.deviation().abs() < 0.03, "{separate:?}");
        assert!(one.measured > 1.2 * separate.measured, "{one:?}");
    }
}

#[test]
fn an_instant_steady_state_is_the_one_that_is_written() {
    let scale = Scale { measured: 1, ..SMALL };
    within(steady::v8(Scale { warm: 8, measured: 4, ..SMALL }, 64), 0.01);
    // And right from the start, not only on average.
    let geometry = steady::plane(1024, 64);
    let settings = steady::with_alpha(geometry, 1.15, FtlSettings::default()).expect("fits");
    let waf = steady::preconditioned(geometry, settings, scale).expect("runs");
    assert!((waf / laws::greedy(1.15, 64) - 1.0).abs() < 0.01, "{waf}");
}

#[test]
fn a_preconditioned_drive_is_recovered_as_it_was() {
    let geometry = Geometry { page_bytes: 512, packages: 2, ..steady::plane(64, 16) };
    for (victim, map_cache_bytes) in [(VictimRule::Greedy, 0), (VictimRule::Fifo, 4 * 512)] {
        let settings = FtlSettings {
            logical_pages: 1500,
            victim,
            map_cache_bytes,
            durability: Durability::Journal,
            ..FtlSettings::default()
        };
        let mut ftl = Ftl::format(array(geometry), none(), settings).expect("fits");
        let content = |lpn: u32| Identity::of_number(u64::from(lpn));
        ftl.precondition_steady(content).expect("fills");
        ftl.check_invariants();
        for lpn in 0..50 {
            ftl.write(lpn, &content(lpn), &mut untimed()).expect("writes");
        }
        let (mut ftl, report) = Ftl::open(ftl.into_nand(), none(), settings).expect("opens");
        assert_eq!(report.lost_entries, 0);
        ftl.check_invariants();
        for lpn in 0..1500 {
            assert_eq!(ftl.read(lpn, &mut untimed()).expect("reads"), Some(content(lpn)));
        }
    }
}

#[test]
fn deduplication_has_its_closed_forms() {
    let scale = Scale { blocks: 512, ..SMALL };
    let perfect = content::perfect(scale, 1.0).expect("runs");
    let policies = content::INLINE.iter().map(|&case| content::inline(scale, 1.0, case));
    for rows in policies.map(|rows| rows.expect("runs")).chain([perfect]) {
        let off: Vec<f64> = rows.iter().map(Row::deviation).collect();
        assert!(off[0].abs() < 0.01 && off[1].abs() < 0.01, "{rows:?}");
        assert!((-0.01..=0.12).contains(&off[2]), "{rows:?}");
    }
    for &case in content::IDLE {
        let row = content::idle(Scale { warm: 1, measured: 2, ..scale }, 1.0, case).expect("runs");
        assert!(row.deviation().abs() < 0.01, "{row:?}");
    }
}

#[test]
fn a_reserve_eats_up_over_provisioning() {
    // 5 % of the blocks in reserve leave 1 or 2 % of 7 %.
    let ses = Geometry {
        channels: 8,
        packages: 8,
        dies_per_package: 1,
        planes_per_die: 8,
        blocks_per_plane: 256,
        pages_per_block: 256,
        page_bytes: 8192,
        oob_bytes: 320,
    };
    let alpha = |gc_reserve_blocks| {
        let logical_pages = (f64::from(ses.pages()) / 1.07) as u32;
        let settings = FtlSettings { logical_pages, gc_reserve_blocks, ..FtlSettings::default() };
        let ftl = Ftl::format(BlankNand::new(ses), NoDedup, settings).expect("fits");
        assert!((ftl.over_provisioning() - 0.07).abs() < 1e-6);
        ftl.effective_alpha()
    };
    let (small, large) = (alpha(2), alpha(13));
    assert!((1.05..1.06).contains(&small) && (1.005..1.016).contains(&large), "{small} {large}");
    assert!(laws::greedy(large, 256) > 4.0 * laws::greedy(1.07, 256));

    // One plane of the same, simulated: what is left of the spare space decides.
    let plane = steady::plane(256, 64);
    let waf = |gc_reserve_blocks| {
        let logical_pages = (f64::from(plane.pages()) / 1.08) as u32;
        let settings = FtlSettings { logical_pages, gc_reserve_blocks, ..FtlSettings::default() };
        steady::uniform(plane, settings, SMALL).expect("runs")
    };
    assert!(waf(13) > 2.0 * waf(2));
}

#[test]
fn small_planes_have_their_closed_forms_at_every_reserve() {
    // In 128 blocks, half a block more or less of spare space is 2 to 5 % of the amplification.
    let scale = Scale { blocks: 128, warm: 6, measured: 12 };
    let plane = steady::plane(128, 128);
    for pacing in [Pacing::Incremental, Pacing::WholeBlock] {
        for (victim, over, reserve) in [
            (VictimRule::Greedy, 0.22, 7),
            (VictimRule::Greedy, 0.12, 2),
            (VictimRule::Greedy, 0.12, 7),
            (VictimRule::Greedy, 0.5, 13),
            (VictimRule::Fifo, 0.22, 7),
        ] {
            let logical_pages = (f64::from(plane.pages()) / (1.0 + over)) as u32;
            let settings = FtlSettings {
                logical_pages,
                gc_reserve_blocks: reserve,
                victim,
                pacing,
                ..FtlSettings::default()
            };
            let waf = steady::uniform(plane, settings, scale).expect("runs");
            let ftl = Ftl::format(BlankNand::new(plane), NoDedup, settings).expect("fits");
            let form = |alpha: f64| match victim {
                VictimRule::Fifo => laws::fifo(alpha),
                _ => laws::greedy(alpha, 128),
            };
            let theory = form(ftl.effective_alpha());
            let off = waf / theory - 1.0;
            assert!(off.abs() < 0.005, "{settings:?}: {waf} against {theory}");
        }
    }
}
