//! `onefold trace`: the wiring; formats are the workload crate's own tests' matter.
//! Room: onefold.

use std::fs;

use super::harness::Sandbox;

const MSR: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
    128166372003061629,hm,0,Read,383496192,32768,413\n\
    128166372016382155,hm,1,Write,2822144,4096,1500\n";

#[cfg(feature = "parquet")]
#[test]
fn a_trace_goes_through_both_formats_and_is_counted_the_same() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("in.txt"), MSR).unwrap();
    let said = sandbox.ok(&["trace", "convert", "in.txt", "a.parquet"]);
    let note = "msr: 2 requests from 3 lines; skipped 1 (comments and headers)";
    assert!(said.err.contains(note), "{}", said.err);
    sandbox.ok(&["trace", "convert", "a.parquet", "b.csv"]);
    sandbox.ok(&["trace", "convert", "in.txt", "c.csv", "--from", "msr"]);
    assert_eq!(fs::read(sandbox.path("b.csv")).unwrap(), fs::read(sandbox.path("c.csv")).unwrap());
    let out = sandbox.ok(&["trace", "convert", "a.parquet", "-"]);
    assert_eq!(out.out, fs::read(sandbox.path("b.csv")).unwrap());
    let mut seen = Vec::new();
    for file in ["in.txt", "a.parquet", "b.csv"] {
        let mut info = sandbox.ok(&["trace", "info", file, "--json"]).json();
        assert_eq!(info["operations"]["read"]["bytes"], 32768);
        assert_eq!((&info["footprint_bytes"], &info["streams"]), (&36864.into(), &2.into()));
        for field in ["format", "lines", "skipped"] {
            info.as_object_mut().unwrap().remove(field);
        }
        seen.push(info);
    }
    assert!(seen.iter().all(|info| *info == seen[0]), "{seen:#?}");
    let text = sandbox.ok(&["trace", "info", "in.txt"]);
    assert!(text.text().contains("read share"), "{}", text.text());
}

#[test]
fn a_bad_trace_is_refused_by_line_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("in.csv"), format!("{MSR}128166372016382155,hm,1,Write,x,4096,1\n"))
        .unwrap();
    for (args, told) in [
        (&["trace", "convert", "in.csv", "out.csv", "--from", "msr"][..], "line 4"),
        (&["trace", "convert", "in.csv", "out.csv"], "the nearest is msr, but line 4"),
        (&["trace", "convert", "in.csv", "in.csv", "--from", "msr"], "exists already"),
        (&["trace", "convert", "in.csv", "out", "--from", "msr"], "--to csv"),
        (
            &["trace", "convert", "in.csv", "-", "--to", "parquet", "--from", "msr"],
            "cannot be written to stdout",
        ),
        (&["trace", "info", "in.csv", "--from", "mrs"], "unknown trace format `mrs`"),
        #[cfg(feature = "parquet")]
        (&["trace", "info", "in.csv", "--from", "parquet"], "no readable Parquet"),
        #[cfg(not(feature = "parquet"))]
        (&["trace", "info", "in.csv", "--from", "parquet"], "--features parquet"),
        #[cfg(not(feature = "parquet"))]
        (&["trace", "convert", "in.csv", "out.parquet", "--from", "msr"], "--features parquet"),
        (&["trace", "info", "."], "cannot read trace"),
    ] {
        let said = sandbox.onefold(args);
        assert_eq!((said.code, said.text()), (Some(2), ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(told), "{args:?}: {}", said.err);
    }
    assert_eq!(fs::read_dir(sandbox.path(".")).unwrap().count(), 1);
}
