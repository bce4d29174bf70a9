//! `onefold trace`: the wiring; formats are the workload crate's own tests' matter.
//! Room: onefold.

use std::fs;

use super::harness::{Sandbox, tool};

const MSR: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
    128166372003061629,hm,0,Read,383496192,32768,413\n\
    128166372016382155,hm,1,Write,2822144,4096,1500\n";

#[cfg(feature = "parquet")]
#[test]
fn a_trace_goes_through_both_formats_and_is_counted_the_same() {
    use super::command_line::{assert_is_file, crate_path};

    let sandbox = Sandbox::new();
    fs::write(sandbox.path("in.txt"), MSR).unwrap();
    let said = sandbox.ok(&["trace", "convert", "in.txt", "a.parquet"]);
    let note = "msr: 2 requests from 3 lines; skipped 1 (comments and headers)";
    assert!(said.err.contains(note), "{}", said.err);
    sandbox.ok(&["trace", "convert", "a.parquet", "b.csv"]);
    sandbox.ok(&["trace", "convert", "in.txt", "c.csv", "--format", "msr"]);
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
    assert_is_file(&crate_path("tests/it/trace_info.txt"), text.text());
}

#[test]
fn a_bad_trace_is_refused_by_line_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("in.csv"), format!("{MSR}128166372016382155,hm,1,Write,x,4096,1\n"))
        .unwrap();
    for (args, told) in [
        (&["trace", "convert", "in.csv", "out.csv", "--format", "msr"][..], "line 4"),
        (&["trace", "convert", "in.csv", "out.csv"], "the nearest is msr, but line 4"),
        (&["trace", "convert", "in.csv", "in.csv", "--format", "msr"], "exists already"),
        (&["trace", "convert", "in.csv", "out", "--format", "msr"], "--to csv"),
        (
            &["trace", "convert", "in.csv", "-", "--to", "parquet", "--format", "msr"],
            "cannot be written to stdout",
        ),
        (&["trace", "info", "in.csv", "--format", "mrs"], "unknown trace format `mrs`"),
        #[cfg(feature = "parquet")]
        (&["trace", "info", "in.csv", "--format", "parquet"], "no readable Parquet"),
        #[cfg(not(feature = "parquet"))]
        (&["trace", "info", "in.csv", "--format", "parquet"], "--features parquet"),
        #[cfg(not(feature = "parquet"))]
        (&["trace", "convert", "in.csv", "out.parquet", "--format", "msr"], "--features parquet"),
        (&["trace", "info", "."], "cannot read trace"),
    ] {
        let said = sandbox.onefold(args);
        assert_eq!((said.code, said.text()), (Some(2), ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(told), "{args:?}: {}", said.err);
    }
    assert_eq!(fs::read_dir(sandbox.path(".")).unwrap().count(), 1);
}

#[test]
fn one_word_names_the_format_everywhere_and_what_convert_writes_is_read_everywhere() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("in.txt"), MSR).unwrap();
    sandbox.ok(&["trace", "convert", "in.txt", "a.csv"]);
    if cfg!(feature = "parquet") {
        sandbox.ok(&["trace", "convert", "in.txt", "a.parquet"]);
    } else {
        fs::write(sandbox.path("a.parquet"), "PAR1").unwrap();
    }
    let stored = |line: &str| {
        let line = format!("cd '{}' && {line}", sandbox.text("."));
        tool("sh", &["-c", &line]);
    };
    stored("gzip -k a.csv && zstd -q a.csv && xz -k a.csv && gzip -k a.parquet");
    let cache = ["cache", "run", "--set", "trace.container_kib=0", "--json", "--trace"];
    let ssd = ["ssd", "run", "--set", "wrap_addresses=true", "--set", "precondition=none"];
    let ssd = [&ssd[..], &["--json", "--trace"]].concat();
    for command in [&["trace", "info", "--json"][..], &cache, &ssd] {
        let mut seen = Vec::new();
        let files = ["in.txt", "a.csv", "a.csv.gz", "a.csv.zst", "a.parquet"];
        // The last one is read only where Parquet is part of the build.
        let readable = files.len() - usize::from(!cfg!(feature = "parquet"));
        for file in &files[..readable] {
            let mut said = sandbox.ok(&[command, &[*file]].concat()).json();
            for field in ["format", "lines", "skipped", "spec"] {
                said.as_object_mut().unwrap().remove(field);
            }
            seen.push(said);
        }
        assert!(seen.iter().all(|said| *said == seen[0]), "{command:?}: {seen:#?}");
        let msr = [command, &["in.txt", "--format", "msr"]].concat();
        assert_eq!(sandbox.onefold(&msr).code, Some(0));
        for (file, told) in [("a.csv.xz", "xz -d"), ("a.parquet.gz", "from a file")] {
            let said = sandbox.onefold(&[command, &[file]].concat());
            assert_eq!(said.code, Some(2), "{}", said.err);
            assert!(said.err.contains(told), "{command:?} {file}: {}", said.err);
        }
    }
    let old = ["trace", "info", "in.txt", "--from", "msr"];
    assert_eq!(sandbox.onefold(&old).code, Some(0), "the old word goes on");
}

#[cfg(feature = "parquet")]
#[test]
fn a_damaged_parquet_trace_is_an_error_and_no_panic() {
    let sandbox = Sandbox::new();
    let lines = "1 0 8 8 1\n".repeat(20_000);
    fs::write(sandbox.path("in"), lines).unwrap();
    sandbox.ok(&["trace", "convert", "in", "a.parquet", "--format", "disksim"]);
    let whole = fs::read(sandbox.path("a.parquet")).unwrap();
    let mut random = onefold_block::SplitMix64::new(5);
    let mut refused = 0;
    for _ in 0..12 {
        let mut bytes = whole.clone();
        for _ in 0..=bytes.len() / 100 {
            let at = 4 + random.next_u64() as usize % (bytes.len() - 12);
            bytes[at] = random.next_u64() as u8;
        }
        fs::write(sandbox.path("bad.parquet"), &bytes).unwrap();
        let said = sandbox.onefold(&["trace", "info", "bad.parquet"]);
        assert!(!said.err.contains("panicked"), "{}", said.err);
        refused += u32::from(said.code == Some(2));
    }
    assert!(refused > 6, "{refused} of 12 were refused");
}
