//! One trace on a drive with each policy, and with its options.
//! Room: onefold-flash.

use super::told::{drive, holds, requests, told};

/// Engines that take time, so that policies meet busy ones.
const TIMES: [&str; 8] = [
    "controller.hash_ns=30000",
    "controller.light_hash_ns=4000",
    "controller.compare_ns=3000",
    "controller.lookup_ns=500",
    "controller.parity_correction_ns=14500",
    "controller.idle_after_ns=40000",
    "ftl.gc_idle_blocks=6",
    "workload.finish_offline=true",
];

#[track_caller]
fn all_hold(policy: &str, options: &[&[&str]]) {
    let named = format!("dedup.policy=\"{policy}\"");
    let mut text = String::new();
    for options in options {
        let lines = [&TIMES[..], &[&named], options].concat();
        let trace = requests(&drive(&lines), 600, 8);
        text += &told(&format!("{policy} {}", options.join(", ")), &lines, Some(trace));
    }
    holds(&format!("{policy}.txt"), &text);
}

#[test]
fn hashing_inline_finds_and_takes_this() {
    let options: [&[&str]; 4] = [
        &[],
        &["dedup.store_share=0.05", "dedup.hash=\"sha1\""],
        &["dedup.sample_one_in=3", "dedup.background=true", "dedup.budget_us=40"],
        &["dedup.prehash=true", "dedup.table_share=0.1"],
    ];
    all_hold("caftl-online", &options);
}

#[test]
fn hashing_in_idle_moments_finds_and_takes_this() {
    let options: [&[&str]; 2] = [&[], &["dedup.store_share=0.1"]];
    all_hold("caftl-offline", &options);
}

#[test]
fn separating_blocks_finds_and_takes_this() {
    let options: [&[&str]; 3] = [
        &[],
        &["dedup.hash_unique=false", "dedup.crc_hidden=false"],
        &["dedup.table_share=0.1", "dedup.store_share=0.1"],
    ];
    all_hold("block-separation", &options);
}

#[test]
fn comparing_equal_checksums_finds_and_takes_this() {
    let options: [&[&str]; 4] = [
        &[],
        &["dedup.order=\"first-come\"", "dedup.without_unique=\"leave\"", "dedup.crc_hidden=false"],
        &["dedup.table_share=0.1"],
        &["dedup.predict=\"overwrites\"", "dedup.epoch_share=0.05", "dedup.region_pages=2"],
    ];
    all_hold("crc-compare", &options);
}

#[test]
fn plain_parity_finds_and_takes_this() {
    let options: [&[&str]; 3] = [
        &["host.scrambler_mb_per_s=900"],
        &["dedup.lba_ranges=[[0, 99], [300, 500]]", "dedup.offline=false"],
        &["dedup.table_share=0.05", "dedup.retention=\"fifo\"", "dedup.deferred_entries=3"],
    ];
    all_hold("ses-host", &options);
}

#[test]
fn corrected_parity_finds_and_takes_this() {
    let options: [&[&str]; 4] = [
        &[],
        &["dedup.inline=false"],
        &["dedup.budget_us=20", "dedup.scratch_share=0.02"],
        &["dedup.correction=\"hidden\"", "dedup.table_share=0.04"],
    ];
    all_hold("ses-device", &options);
}

#[test]
fn gleaning_finds_and_takes_this() {
    let options: [&[&str]; 4] = [
        &[],
        &["dedup.trust=\"where-sooner\"", "controller.hash_ns=2000", "dedup.digest_share=0.2"],
        &["dedup.compare=\"when-idle\"", "dedup.rounds=\"whole\"", "dedup.table_share=0.05"],
        &["dedup.deferred_entries=2", "dedup.scratch_share=0.03", "dedup.rounds=\"incremental\""],
    ];
    all_hold("gleaner", &options);
}

#[test]
fn codewords_find_and_take_this() {
    // Codewords of several writes wait for each other.
    let back = "controller.write_buffer=\"back\"";
    let options: [&[&str]; 3] = [
        &["dedup.codeword_bytes=1024", back],
        &["dedup.codeword_bytes=2048", "dedup.prehash=true", "dedup.background=true", back],
        &["dedup.codeword_bytes=4096", "dedup.sample_one_in=2"],
    ];
    all_hold("codeword", &options);
}
