//! What an index that reads less changes of a whole server.

use crate::run;
use onefold_array::Report;

/// One drive for the table, which is then what stops FIDR.
const ONE_DRIVE: [&str; 7] = [
    "table_ssd.count=1",
    "table.entries=400000",
    "workload.addresses=300000",
    "table.cache_bytes=1600000",
    "workload.requests=60000",
    "workload.warm_requests=6000",
    "workload.outstanding=4000",
];

fn server(preset: &str, more: &[&str]) -> Report {
    run(preset, &[&ONE_DRIVE[..], more].concat())
}

#[test]
fn hooks_read_less_of_the_table_and_miss_what_they_say() {
    let runs = ["workload.run_chunks=200"];
    let (fidr, hooks) = (server("fidr", &runs), server("fidr-hooks", &runs));
    assert_eq!(fidr.bottleneck.as_ref().map(|stop| stop.name), Some("table drives"));
    assert!(hooks.gb_per_s > 5.0 * fidr.gb_per_s, "{} {}", hooks.gb_per_s, fidr.gb_per_s);
    assert!(hooks.table_reads_a_look_up < 0.1 * fidr.table_reads_a_look_up);
    assert!(hooks.table_writes_a_look_up < 0.1 * fidr.table_writes_a_look_up);
    assert_eq!(fidr.missed_share, Some(0.0));
    let missed = hooks.missed_share.unwrap();
    assert!((0.002..0.1).contains(&missed), "{missed}");
    // What was missed is stored again: duplicates that are found are so much fewer.
    let found = |report: &Report| {
        let bytes = report.bytes;
        bytes.duplicate as f64 / (bytes.duplicate + bytes.compressed_away + bytes.stored) as f64
    };
    let expected = hooks.duplicate_share.unwrap() * (1.0 - missed);
    assert!((found(&hooks) - expected).abs() < 0.01, "{} {expected}", found(&hooks));
    assert!((found(&fidr) - fidr.duplicate_share.unwrap()).abs() < 0.01);
    // Without runs most of a directory is of no use.
    let alone = server("fidr-hooks", &["workload.run_chunks=1"]);
    assert!(alone.missed_share.unwrap() > missed + 0.2, "{:?}", alone.missed_share);
}

#[test]
fn a_table_that_may_read_less_finds_less_unless_a_filter_says_for_what() {
    let exact = server("fidr", &[]);
    let sampled = server("fidr", &["table.sample_one_in=4"]);
    assert!(sampled.table_reads_a_look_up < 0.3 * exact.table_reads_a_look_up);
    assert!(sampled.gb_per_s > 1.2 * exact.gb_per_s, "what is new is written all the same");
    let missed = sampled.missed_share.unwrap();
    assert!((0.5..0.75).contains(&missed), "{missed}");
    let filtered = server("fidr", &["table.filter_bits=8"]);
    assert_eq!(filtered.missed_share, Some(0.0));
    assert!(filtered.table_reads_a_look_up < 0.6 * exact.table_reads_a_look_up);
}

#[test]
fn memory_that_hooks_or_a_filter_leave_no_room_in_is_refused() {
    let refused = |preset: &str, set: &[&str]| {
        let builder = onefold_array::SpecBuilder::preset(preset).unwrap();
        let builder = set.iter().fold(builder, |builder, set| builder.set(set).unwrap());
        builder.build().unwrap_err().to_string()
    };
    let small = "table.cache_bytes=4000000";
    for (preset, more) in [("fidr-hooks", "table.sample_one_in=8"), ("fidr", "table.filter_bits=8")]
    {
        let error = refused(preset, &[small, more]);
        assert!(error.contains("hooks or the filter leave no room for a page"), "{error}");
    }
    let error = refused("fidr-hooks", &["table.filter_bits=8"]);
    assert!(error.contains("table.filter_bits is of buckets"), "{error}");
}
