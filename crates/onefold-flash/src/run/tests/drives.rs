//! One trace on drives that differ in how long things take, and what goes first.
//! Room: onefold-flash.

use super::told::{drive, holds, requests, told};

/// Each drive with these lines and its own ones.
#[track_caller]
fn all_hold(name: &str, common: &[&str], drives: &[&[&str]]) {
    let mut text = String::new();
    for lines in drives {
        let lines = [common, lines].concat();
        let trace = requests(&drive(&lines), 500, 3);
        text += &told(&lines.join(", "), &lines, Some(trace));
    }
    holds(name, &text);
}

const BUS: [&str; 2] = ["timing.bus_mb_per_s=400", "timing.command_overhead_ns=200"];

#[test]
fn units_do_one_thing_at_a_time() {
    let drives: [&[&str]; 4] = [
        &[],
        &["timing.parallel_unit=\"die\"", "timing.copyback=true"],
        &["timing.parallel_unit=\"package\"", "controller.ecc_decode_ns=3000"],
        &["timing.cache_program=true", "timing.copyback=true", "controller.read_priority=false"],
    ];
    all_hold("units.txt", &BUS, &drives);
}

#[test]
fn reads_interrupt_what_they_may() {
    let reads = ["controller.read_priority=true", "timing.suspend_latency_ns=5000"];
    let drives: [&[&str]; 4] = [
        &["timing.suspend=\"none\""],
        &["timing.suspend=\"erase\""],
        &["timing.suspend=\"erase-and-program\""],
        &["timing.suspend=\"erase-and-program\"", "timing.cache_program=true", BUS[0]],
    ];
    all_hold("suspends.txt", &reads, &drives);
}

#[test]
fn pages_go_where_the_allocation_says() {
    let drives: [&[&str]; 3] = [
        &["ftl.allocation=\"round-robin\"", "ftl.pacing=\"whole-block\""],
        &["ftl.allocation=\"idle-first\""],
        &["ftl.allocation=\"idle-first\"", "timing.parallel_unit=\"package\"", "seed=9"],
    ];
    all_hold("placed.txt", &BUS, &drives);
}

#[test]
fn writes_wait_for_the_buffer_the_link_and_the_queue() {
    let link = [
        "host.link_mb_per_s=600",
        "host.link_latency_ns=7000",
        "controller.request_ns=3000",
        "controller.lookup_ns=900",
    ];
    let drives: [&[&str]; 4] = [
        &["controller.write_buffer=\"through\"", "host.queue_entries=3"],
        &["controller.write_buffer=\"back\"", "controller.write_buffer_pages=5"],
        &[
            "controller.write_buffer=\"back\"",
            "controller.write_buffer_pages=16",
            "controller.power_loss_protection=true",
            "host.queue_entries=8",
        ],
        &[
            "controller.write_buffer=\"back\"",
            "controller.power_loss_protection=false",
            "ftl.model_metadata=true",
            "ftl.checkpoint_pages=40",
            "ftl.map_cache_bytes=9000",
        ],
    ];
    all_hold("buffered.txt", &link, &drives);
}

#[test]
fn idle_drives_do_what_comes_first() {
    let idle = [
        "ftl.gc_idle_blocks=9",
        "dedup.policy=\"caftl-offline\"",
        "controller.idle_after_ns=50000",
        "ftl.wear_spread=1",
    ];
    let drives: [&[&str]; 4] = [
        &["controller.idle_order=\"by-policy\"", "controller.idle_steps=1"],
        &["controller.idle_order=\"by-need\"", "controller.idle_steps=8"],
        &["controller.idle_order=\"gc-first\"", "controller.idle_hint=true"],
        &[
            "controller.idle_order=\"dedup-first\"",
            "controller.idle_after_ns=3000000",
            "controller.idle_hint=true",
            "workload.finish_offline=true",
        ],
    ];
    all_hold("idle.txt", &idle, &drives);
}

#[test]
fn pages_are_read_again_as_wear_says() {
    let worn = ["media.read_retries=true", "media.wear=\"tlc\"", "media.rated_pe_cycles=3000"];
    let drives: [&[&str]; 4] = [
        &["media.code=\"bch\"", "media.worn_cycles=2500", "media.data_age_s=9000000"],
        &["media.code=\"qc-ldpc\"", "media.worn_cycles=4500", "media.data_age_s=40000000"],
        &["media.code=\"none\"", "media.raw_bit_errors_ppb=20000"],
        &["media.code=\"bch\"", "media.worn_cycles=20000", "media.data_age_s=90000000"],
    ];
    all_hold("retries.txt", &worn, &drives);
}
