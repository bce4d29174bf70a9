//! Stories of drives with and without deduplication, compression and errors of the cells.
//! Room: onefold-flash.

use onefold_block::ZeroOptions;

use super::holds;
use super::story::{PAGE, Story};

fn told(name: &str, lines: &[&str]) -> String {
    let mut story = Story::new(name, lines);
    story.steps(30);
    story.quietly(300);
    story.kill();
    story.quietly(300);
    story.close();
    story.quietly(60);
    story.power_cut();
    story.steps(10);
    story.drive.save_health().unwrap();
    story.show();
    story.text + "\n"
}

#[test]
fn a_drive_without_deduplication_answers_and_counts_like_this() {
    // Cells that err, so that readings are corrected and repeated.
    let lines = [
        "media.wear=\"mlc\"",
        "media.rated_pe_cycles=400",
        "media.raw_bit_errors_ppb=300000",
        "media.factory_bad_blocks_ppm=30000",
        "timing.bus_mb_per_s=200",
        "timing.command_overhead_ns=300",
        "controller.lookup_ns=700",
        "controller.idle_order=\"gc-first\"",
    ];
    holds("plain.txt", &told("none", &lines));
}

#[test]
fn a_drive_that_hashes_answers_and_counts_like_this() {
    let lines = [
        "dedup.policy=\"caftl-online\"",
        "dedup.sample_one_in=2",
        "dedup.prehash=true",
        "dedup.background=true",
        "media.scrambler=\"none\"",
        "media.code=\"bch\"",
        "controller.hash_ns=9000",
        "controller.light_hash_ns=1100",
        "controller.compare_ns=900",
        "ftl.map_cache_bytes=4096",
    ];
    holds("hashed.txt", &told("caftl-online", &lines));
}

#[test]
fn a_drive_that_packs_what_its_host_scrambles_ahead_answers_and_counts_like_this() {
    let lines = [
        "dedup.policy=\"ses-host\"",
        "dedup.compression=\"after-scrambler\"",
        "dedup.lba_ranges=[[0, 99]]",
        "ftl.compression=\"after-scrambler\"",
        "ftl.subpages=4",
        "ftl.packing_pages=2",
        "controller.compress_mb_per_s=900",
        "controller.decompress_mb_per_s=1900",
    ];
    holds("packed.txt", &told("ses-host", &lines));
}

#[test]
fn what_is_asked_at_the_edges_is_answered_like_this() {
    let mut story = Story::new("edges", &[]);
    let size = story.device_bytes();
    let zero = ZeroOptions::default();
    story.write(0, &[], true, None);
    story.read(size, 0);
    story.read(size, 1);
    story.write(size - 1, &[1, 2], false, None);
    story.trim(size, 1, false);
    story.zero(size - 1, 2, zero);
    story.status(size, 1);
    story.zero(0, 0, ZeroOptions { fast_only: true, no_hole: true, fua: true });
    story.zero(0, 1, ZeroOptions { fast_only: true, no_hole: true, fua: false });
    story.zero(0, 1, ZeroOptions { fast_only: true, ..zero });
    story.status(0, size);
    story.zero(5, 3, ZeroOptions { no_hole: true, ..zero });
    story.status(0, 3 * PAGE);
    story.write(PAGE - 1, &[7; 2 * PAGE as usize], false, None);
    story.status(0, 4 * PAGE);
    story.status(PAGE - 1, 1);
    // Parts of pages are not given back, whole ones are.
    story.trim(1, 2 * PAGE - 2, false);
    story.read(0, 3 * PAGE);
    story.trim(1, 2 * PAGE - 1, true);
    story.read(0, 3 * PAGE);
    story.status(0, 4 * PAGE);
    story.zero(2 * PAGE, PAGE - 1, zero);
    story.status(0, 4 * PAGE);
    story.zero(2 * PAGE, PAGE, zero);
    story.status(0, 4 * PAGE);
    let whole = vec![9; PAGE as usize];
    story.write(size - PAGE, &whole, true, Some(true));
    story.read(size - PAGE - 1, PAGE + 1);
    story.status(size - 3 * PAGE, 3 * PAGE);
    let counts = format!("{:?}\n", story.drive.device().host_counts());
    story.text.push_str(&counts);
    story.drive.device().condemn("the moon is full");
    story.drive.device().condemn("another reason");
    story.read(0, 1);
    story.status(0, 1);
    let done = story.drive.device().idle();
    story.line("idle", done);
    let done = story.drive.device().shut_down();
    story.line("shut down", done);
    holds("edges.txt", &story.text);
}
