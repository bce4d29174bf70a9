//! What a specification says in full, and what follows from it, word for word.
//! Room: onefold-flash.

use std::path::Path;

use onefold_block::kept_text::assert_text;

use crate::ftl::Temperature;
use crate::spec::{DriveSpec, PRESET_NAMES, SpecBuilder};

fn preset(name: &str) -> DriveSpec {
    DriveSpec::preset(name).expect("a preset of the list")
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
    let with = |lines: &[&str]| {
        let begun = SpecBuilder::preset("ses-slc").expect("a preset");
        lines.iter().try_fold(begun, |builder, line| builder.set(line)).and_then(SpecBuilder::build)
    };
    let lines = ["ftl.streams=2", "workload.pattern=hot-cold", "workload.hot_request_share=0.8"];
    let settings = with(&lines).expect("accepted").ftl_settings();
    let Temperature::HotRange { hot_writes_permille, .. } = settings.temperature else {
        panic!("two pools");
    };
    assert_eq!(hot_writes_permille, 800);
    // 64 planes of 256 blocks of 256 pages, of which each keeps 13 and three that are filled.
    for (spread, blocks) in [("ftl.wear_spread=0", 240), ("ftl.wear_spread=9", 239)] {
        let refused = with(&["ftl.over_provisioning=0", spread]).expect_err("no room");
        let usable = 64 * 256 * blocks;
        assert!(refused.to_string().contains(&format!("than the {usable} that")), "{refused}");
    }
}
