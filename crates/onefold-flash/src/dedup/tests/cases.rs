//! What each policy decides, with options that make things happen in small tables.
//! Room: onefold-flash.

use std::fmt::Write as _;
use std::path::Path;

use onefold_block::kept_text::assert_text;

use super::bench::{Bench, Prints};

/// Compares with the file of that name; `ONEFOLD_UPDATE=1` writes it instead.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "tests take from the environment what to write")]
pub fn holds(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dedup/tests");
    let update = std::env::var_os("ONEFOLD_UPDATE").is_some();
    assert_text(&folder.join(name), text, update);
}

#[track_caller]
fn decides(policy: &str, cases: &[&str]) {
    let mut text = String::new();
    for options in cases {
        for weak in [false, true] {
            let prints = Prints { weak };
            let mut bench = Bench::new(policy, options, prints);
            bench.quietly(600);
            bench.loudly(6);
            bench.rest();
            bench.show();
            bench.restart(policy, options, prints);
            bench.quietly(200);
            bench.rest();
            bench.show();
            let options = options.replace('\n', ", ");
            writeln!(text, "# {options}, weak {weak}\n\n{}", bench.text()).unwrap();
        }
    }
    holds(&format!("{policy}.txt"), &text);
}

#[test]
fn nothing_is_decided_without_a_policy() {
    decides("none", &[""]);
}

#[test]
fn hashing_inline_decides_this() {
    let cases = [
        "",
        "store_share = 0.1\nbackground = true",
        "sample_one_in = 3\nbackground = true\nbudget_us = 30",
        "prehash = true\nhash = 'sha1'",
        "prehash = true\ntable_share = 0.15\nsample_one_in = 2\nbudget_us = 50",
    ];
    decides("caftl-online", &cases);
}

#[test]
fn hashing_in_idle_moments_decides_this() {
    decides("caftl-offline", &["", "store_share = 0.1\nhash = 'sha1'"]);
}

#[test]
fn separating_blocks_decides_this() {
    let cases =
        ["", "table_share = 0.12\nstore_share = 0.1", "hash_unique = false\ncrc_hidden = false"];
    decides("block-separation", &cases);
}

#[test]
fn comparing_equal_checksums_decides_this() {
    let cases = [
        "",
        "order = 'first-come'\ncrc_hidden = false",
        "table_share = 0.12",
        "without_unique = 'leave'",
        "predict = 'overwrites'\nregion_pages = 4\nepoch_share = 0.05\noverwrites_percent = 50",
    ];
    decides("crc-compare", &cases);
}

#[test]
fn plain_parity_decides_this() {
    let cases = [
        "",
        "lba_ranges = [[10, 90]]\ncompression = 'before-scrambler'\ncount_codewords = true",
        "table_share = 0.1\ndeferred_entries = 2\nretention = 'fifo'",
    ];
    decides("ses-host", &cases);
}

#[test]
fn corrected_parity_decides_this() {
    let cases = [
        "count_codewords = true",
        "table_share = 0.1\nscratch_share = 0.09\ndeferred_entries = 2\nbudget_us = 40",
        "inline = false\ncorrection = 'hidden'",
        "offline = false\nbudget_us = 10",
    ];
    decides("ses-device", &cases);
}

#[test]
fn gleaning_decides_this() {
    let cases = [
        "",
        "table_share = 0.1\nscratch_share = 0.09\nrounds = 'whole'",
        "scratch_share = 0.09\ncompare = 'when-idle'\ndeferred_entries = 2",
        "table_share = 1.0\ndigest_share = 0.1",
        "trust = 'never'\ndeferred_entries = 0",
    ];
    decides("gleaner", &cases);
}

#[test]
fn codewords_are_decided_like_this() {
    decides("codeword", &["", "store_share = 0.1\nbackground = true"]);
}
