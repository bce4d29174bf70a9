//! Runs of what specifications ask for, with drives in every state before the first request.
//! Room: onefold-flash.

use super::told::{holds, told};

#[track_caller]
fn all_hold(name: &str, common: &[&str], drives: &[&[&str]]) {
    let each = drives.iter().map(|lines| {
        let lines = [common, lines].concat();
        told(&lines.join(", "), &lines, None)
    });
    holds(name, &each.collect::<String>());
}

#[test]
fn clients_ask_and_think_like_this() {
    let mixed = ["workload.read_share=0.4", "precondition=\"prefill\""];
    let drives: [&[&str]; 5] = [
        &["workload.arrivals=\"closed\"", "workload.queue_depth=3"],
        &[
            "workload.arrivals=\"closed\"",
            "workload.queue_depth=2",
            "workload.think_time=\"constant\"",
            "workload.think_time_ns=90000",
            "workload.pattern=\"sequential\"",
        ],
        &[
            "workload.arrivals=\"closed\"",
            "workload.queue_depth=9",
            "workload.think_time=\"exponential\"",
            "workload.think_time_ns=400000",
            "workload.pattern=\"zipf\"",
            "workload.request_pages=3",
        ],
        &[
            "workload.arrivals=\"poisson\"",
            "workload.interarrival_ns=70000",
            "workload.pattern=\"hot-cold\"",
            "ftl.streams=2",
            "ftl.over_provisioning=1.2",
        ],
        &[
            "workload.arrivals=\"constant\"",
            "workload.interarrival_ns=50000",
            "workload.footprint_share=0.4",
            "workload.request_pages=2",
        ],
    ];
    all_hold("clients.txt", &mixed, &drives);
}

#[test]
fn contents_repeat_like_this() {
    let device = ["dedup.policy=\"ses-device\"", "workload.read_share=0.1"];
    let drives: [&[&str]; 3] = [
        &["workload.content=\"uniform\"", "workload.content_values=40"],
        &["workload.content=\"profile\"", "workload.duplicate_ratio=0.4"],
        &["workload.content=\"laptop1\"", "controller.idle_after_ns=10000"],
    ];
    all_hold("contents.txt", &device, &drives);
}

#[test]
fn pages_are_packed_like_this() {
    let packed = [
        "ftl.compression=\"before-scrambler\"",
        "ftl.packing_pages=2",
        "controller.write_buffer=\"back\"",
        "controller.compress_mb_per_s=700",
        "controller.decompress_mb_per_s=1500",
        "workload.read_share=0.3",
    ];
    let drives: [&[&str]; 3] = [
        &["ftl.subpages=4", "workload.compressed_percent=40"],
        &[
            "ftl.subpages=8",
            "workload.compressed_percent=30",
            "workload.compressed_spread_percent=25",
        ],
        &[
            "ftl.subpages=4",
            "dedup.policy=\"crc-compare\"",
            "workload.content=\"uniform\"",
            "workload.content_values=60",
            "controller.power_loss_protection=true",
        ],
    ];
    all_hold("packed.txt", &packed, &drives);
}

#[test]
fn codewords_in_common_are_found_like_this() {
    let codewords = [
        "dedup.policy=\"codeword\"",
        "dedup.codeword_bytes=1024",
        "controller.write_buffer=\"back\"",
        "workload.content=\"uniform\"",
        "workload.content_values=200",
        "workload.read_share=0.2",
    ];
    let drives: [&[&str]; 2] = [
        &["workload.common_codewords_percent=60", "workload.common_codewords=5"],
        &["workload.request_pages=2"],
    ];
    all_hold("common.txt", &codewords, &drives);
}

/// More than one window of settling would take too long for these drives, and is not needed.
#[test]
fn endless_writes_have_left_this() {
    let steady = ["precondition=\"steady\"", "workload.requests=700"];
    let drives: [&[&str]; 3] = [
        &["workload.queue_depth=4"],
        &["ftl.victim=\"cost-benefit\"", "workload.queue_depth=1"],
        &["ftl.victim=\"d-choices\"", "ftl.victim_choices=3", "workload.queue_depth=8"],
    ];
    all_hold("steady.txt", &steady, &drives);
}
