//! What a run leaves for pictures: steps of batches, and flows of bytes.

use std::collections::HashMap;

use crate::{run, spec};
use onefold_array::run::flow;
use onefold_array::{Outcome, RunOptions};

const SMALL: [&str; 3] =
    ["workload.requests=2000", "workload.warm_requests=100", "workload.read_share=0.3"];

#[test]
fn what_comes_into_a_place_leaves_it_to_the_byte() {
    let partial = [&SMALL[..], &["workload.request_bytes=4096"]].concat();
    let presets = ["software", "cal17", "cidr", "cidr+", "fidr"].map(|preset| (preset, &SMALL[..]));
    for (preset, load) in presets.into_iter().chain([("cidr", &partial[..])]) {
        let report = run(preset, load);
        let bytes = report.bytes_of_all;
        let links = flow(report.bytes_of_all);
        let mut places: HashMap<&str, (u64, u64)> = HashMap::new();
        for link in links {
            places.entry(link.from).or_default().1 += link.bytes;
            places.entry(link.to).or_default().0 += link.bytes;
        }
        assert_eq!(bytes.completed > 0, load.len() > SMALL.len(), "{preset}");
        let source = if bytes.completed > 0 { "written and completed" } else { "written" };
        assert_eq!(places[source].1, bytes.client_in + bytes.completed, "{preset}");
        assert_eq!(places["unique"].0, places["unique"].1, "{preset}");
        let ends: u64 = places.values().filter(|place| place.1 == 0).map(|place| place.0).sum();
        assert_eq!(ends, bytes.client_in + bytes.completed, "{preset}");
    }
}

#[test]
fn a_picture_changes_nothing_and_its_rows_do_not_overlap() {
    let spec = spec("cidr", &SMALL);
    let options = RunOptions { steps: 5000, ..RunOptions::default() };
    let Outcome { report, steps } = onefold_array::run(&spec, options).unwrap();
    let trace = steps.unwrap();
    assert_eq!(report, run("cidr", &SMALL));
    let mut json = Vec::new();
    trace.write(&mut json).unwrap();
    let json = String::from_utf8(json).unwrap();
    let number = |line: &str, key: &str| -> f64 {
        let (_, rest) = line.split_once(&format!("\"{key}\":")).unwrap();
        let end = rest.find([',', '}']).unwrap();
        rest[..end].parse().unwrap()
    };
    let mut until: HashMap<u64, f64> = HashMap::new();
    let mut spans = 0;
    for line in json.lines().filter(|line| line.contains("\"dur\"")) {
        spans += 1;
        let (row, start) = (number(line, "tid") as u64, number(line, "ts"));
        let before = until.insert(row, start + number(line, "dur")).unwrap_or(0.0);
        assert!(start >= before - 1e-3, "{line}: the one before ends at {before}");
    }
    assert!(spans > 300, "{spans}");
    for name in ["write: to engine 0, ", "read: in engine 0, ", "delayed: store, "] {
        assert!(json.contains(name), "{name}");
    }
    let options = RunOptions { steps: 10, ..RunOptions::default() };
    let short = onefold_array::run(&spec, options).unwrap().steps.unwrap();
    assert_eq!(short.left_out() + 10, spans);
}
