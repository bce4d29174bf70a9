//! What a specification says in full, and what follows from it, word for word.
//! Room: onefold-flash.

use std::path::Path;

use onefold_block::kept_text::assert_text;

use crate::ftl::{Durability, Temperature};
use crate::spec::{DriveSpec, IdleOrder, PRESET_NAMES, ParseError, SpecBuilder, SpecError};

fn preset(name: &str) -> DriveSpec {
    DriveSpec::preset(name).expect("a preset of the list")
}

/// 64 planes of 256 blocks of 256 pages of 8 KiB, with such lines.
fn with(lines: &[&str]) -> Result<DriveSpec, ParseError> {
    let begun = SpecBuilder::preset("ses-slc").expect("a preset");
    lines.iter().try_fold(begun, |builder, line| builder.set(line)).and_then(SpecBuilder::build)
}

#[track_caller]
fn refused(lines: &[&str], part: &str) {
    let refused = with(lines).expect_err("it cannot be").to_string();
    assert!(refused.contains(part), "{lines:?}: {refused}");
}

#[track_caller]
fn accepted(lines: &[&str]) -> DriveSpec {
    with(lines).unwrap_or_else(|error| panic!("{lines:?}: {error}"))
}

/// Results of years are of these drives: no number of them changes by accident.
#[test]
#[expect(clippy::disallowed_methods, reason = "tests take from the environment what to write")]
fn presets_say_this() {
    let mut text = preset(PRESET_NAMES[0]).to_commented_toml();
    for name in &PRESET_NAMES[1..] {
        let said = preset(name).to_commented_toml();
        let lines = said.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        text.push_str("\n\n");
        lines.for_each(|line| text.extend([line, "\n"]));
    }
    let update = std::env::var_os("ONEFOLD_UPDATE").is_some();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/spec/presets.txt");
    assert_text(&file, &text, update);
}

#[test]
fn pools_and_room_follow_from_shares_and_blocks() {
    let lines = ["ftl.streams=2", "workload.pattern=hot-cold", "workload.hot_request_share=0.8"];
    let settings = with(&lines).expect("accepted").ftl_settings();
    let Temperature::HotRange { hot_writes_permille, .. } = settings.temperature else {
        panic!("two pools");
    };
    assert_eq!(hot_writes_permille, 800);
    // Each plane keeps 13 blocks and three that are filled.
    for (spread, blocks) in [("ftl.wear_spread=0", 240), ("ftl.wear_spread=9", 239)] {
        let refused = with(&["ftl.over_provisioning=0", spread]).expect_err("no room");
        let usable = 64 * 256 * blocks;
        assert!(refused.to_string().contains(&format!("than the {usable} that")), "{refused}");
    }
}

#[test]
fn logical_pages_are_at_most_what_the_blocks_in_use_hold() {
    let mut spec = preset("ses-slc");
    let (pages, usable) = (f64::from(spec.geometry.pages()), 64 * 256 * 240);
    for (logical, fit) in [(usable, true), (usable + 1, false)] {
        spec.ftl.over_provisioning = pages / (f64::from(logical) + 0.5) - 1.0;
        assert_eq!(spec.logical_pages(), logical);
        assert_eq!(spec.check().is_ok(), fit, "{logical}");
    }
    // 80 pages, of which a hundredth and a bit is not one.
    let small = ["channels=1", "packages=1", "planes_per_die=1", "blocks_per_plane=80"];
    let small = [&small[..], &["pages_per_block=1", "over_provisioning=100"]].concat();
    refused(&small, "0 logical pages");
}

#[test]
fn parts_of_a_flash_page_are_large_enough_and_have_numbers() {
    let packed = |lines: &[&'static str]| [&["ftl.compression=before-scrambler"], lines].concat();
    accepted(&packed(&["geometry.page_bytes=512", "ftl.subpages=8"]));
    refused(&packed(&["geometry.page_bytes=512", "ftl.subpages=16"]), "at least 64 bytes");
    refused(&packed(&["ftl.subpages=7"]), "divides geometry.page_bytes");
    refused(&packed(&["ftl.map_cache_bytes=1"]), "map_cache_bytes must be 0");
    // 2^24 pages.
    let large = ["blocks_per_plane=1024", "ftl.subpages=32"];
    accepted(&packed(&large));
    refused(&packed(&[large[0], "ftl.subpages=64"]), "1073741824 parts");
    let behind = |scrambler| ["ftl.compression=after-scrambler", scrambler];
    accepted(&behind("media.scrambler=none"));
    accepted(&behind("media.scrambler=lba-prbs31"));
    refused(&behind("media.scrambler=allwinner-1024"), "takes its seed from there");
}

#[test]
fn codewords_divide_a_page_and_go_with_little_else() {
    let mapped = |lines: &[&'static str]| [&["dedup.policy=codeword"], lines].concat();
    for (bytes, codewords) in [(128, 64), (1024, 8), (4096, 2), (8192, 1)] {
        let line = format!("dedup.codeword_bytes={bytes}");
        let spec = accepted(&["dedup.policy=codeword", &line]);
        let logical = spec.logical_pages();
        assert_eq!((spec.codewords(), spec.packs()), (codewords, codewords > 1));
        assert_eq!(spec.mapped_units(), (logical * codewords, bytes));
        let settings = spec.ftl_settings();
        let packing = if codewords > 1 { 1 } else { spec.ftl.packing_pages };
        assert_eq!((settings.subpages, settings.packing_pages), (codewords, packing));
        assert_eq!(settings.codewords, codewords > 1);
    }
    for bytes in [0, 64, 1000, 3000, 16_384] {
        let line = format!("dedup.codeword_bytes={bytes}");
        refused(&["dedup.policy=codeword", &line], "into 64 parts at most");
    }
    let others = ["ftl.map_cache_bytes=1", "ftl.compression=before-scrambler"];
    refused(&mapped(&others[..1]), "map_cache_bytes must be 0");
    refused(&mapped(&others[1..]), "has no codewords");
    for other in others {
        accepted(&mapped(&[other, "dedup.codeword_bytes=8192"]));
    }
    refused(&mapped(&["pages_per_block=1"]), "pages_per_block must be 2");
    accepted(&mapped(&["pages_per_block=2"]));
    let large = ["blocks_per_plane=1024", "dedup.codeword_bytes=256"];
    accepted(&mapped(&large));
    refused(&mapped(&[large[0], "dedup.codeword_bytes=128"]), "1073741824 parts");
}

#[test]
fn requests_fit_into_what_the_workload_addresses() {
    let mut spec = preset("ses-slc");
    spec.workload.footprint_share = 1e-5;
    let pages = spec.footprint_pages() as u32;
    assert_eq!(pages, spec.logical_pages() / 100_000);
    for (request_pages, fit) in [(pages, true), (pages + 1, false)] {
        spec.workload.request_pages = request_pages;
        let too_long = SpecError::Footprint { request_pages, pages: pages.into() };
        assert_eq!(spec.check(), if fit { Ok(()) } else { Err(too_long) });
        assert_eq!(spec.workload_spec().pages, 1);
    }
    spec.workload.request_pages = pages / 2;
    assert_eq!(spec.workload_spec().pages, 2);
    spec.workload.footprint_share = 1e-9;
    assert_eq!(spec.footprint_pages(), 1);
}

#[test]
fn idle_moments_come_by_the_clock_or_by_a_word_that_is_heeded() {
    for (after, heeded, hint, has) in
        [(0, true, 0, false), (0, false, 1, false), (0, true, 1, true), (1, false, 0, true)]
    {
        let mut spec = preset("ses-slc");
        (spec.controller.idle_after_ns, spec.controller.idle_hint) = (after, heeded);
        spec.workload.idle_hint_ns = hint;
        assert_eq!(spec.has_idle_moments(), has, "{after}, {heeded}, {hint}");
    }
    let order = |lines: &[&str]| accepted(lines).idle_order();
    assert_eq!(order(&["dedup.policy=gleaner"]), IdleOrder::ByNeed);
    assert_eq!(order(&["dedup.policy=crc-compare"]), IdleOrder::DedupFirst);
    assert_eq!(order(&["dedup.policy=gleaner", "idle_order=gc-first"]), IdleOrder::GcFirst);
}

#[test]
fn settings_follow_from_more_than_one_key() {
    use Durability::{Journal, NoJournal, Protected, Volatile};

    let durability = |lines: &[&str]| {
        let spec = accepted(lines);
        [spec.ftl_settings(), spec.run_settings()].map(|settings| settings.durability)
    };
    assert_eq!(durability(&[]), [Journal, Volatile]);
    assert_eq!(durability(&["model_metadata=true"]), [Journal, Journal]);
    assert_eq!(durability(&["map_cache_bytes=1"]), [Journal, Journal]);
    let protected = ["power_loss_protection=true", "model_metadata=true"];
    assert_eq!(durability(&protected), [Protected, Protected]);
    assert_eq!(durability(&[protected[0], protected[1], "journal=false"]), [NoJournal; 2]);
    let pools = |lines: &[&str]| accepted(lines).ftl_settings().temperature;
    let apart = ["ftl.streams=2", "workload.pattern=hot-cold", "workload.footprint_share=0.5"];
    assert_eq!(pools(&apart[..1]), Temperature::OnePool);
    assert_eq!(pools(&apart[1..]), Temperature::OnePool);
    // A fifth of half of 3,919,910 logical pages.
    let (hot_pages, hot_writes_permille) = (391_991, 800);
    assert_eq!(pools(&apart), Temperature::HotRange { hot_pages, hot_writes_permille });
    // A page is read and compared in 23,400 ns, and a nanosecond of each of two others.
    let outruns = |hash: &str| {
        let times = [hash, "command_overhead_ns=1", "compare_ns=1"];
        accepted(&times).site(None).hash_outruns_read
    };
    assert_eq!((outruns("hash_ns=23401"), outruns("hash_ns=23402")), (true, false));
}
