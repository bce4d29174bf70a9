//! What a run leaves for pictures: steps of batches, and flows of bytes.

use std::collections::HashMap;

use crate::{run, spec};
use onefold_array::run::flow;
use onefold_array::simulate_with_trace;

const SMALL: [&str; 3] =
    ["workload.requests=2000", "workload.warm_requests=100", "workload.read_share=0.3"];

#[test]
fn what_comes_into_a_place_leaves_it_to_the_byte() {
    for preset in ["software", "cal17", "cidr", "cidr+", "fidr"] {
        let report = run(preset, &SMALL);
        let links = flow(report.bytes_of_all);
        let mut places: HashMap<&str, (u64, u64)> = HashMap::new();
        for link in links {
            places.entry(link.from).or_default().1 += link.bytes;
            places.entry(link.to).or_default().0 += link.bytes;
        }
        assert_eq!(places["written"].1, report.bytes_of_all.client_in, "{preset}");
        assert_eq!(places["unique"].0, places["unique"].1, "{preset}");
        let ends: u64 = places.values().filter(|place| place.1 == 0).map(|place| place.0).sum();
        assert_eq!(ends, report.bytes_of_all.client_in, "{preset}");
    }
}

#[test]
fn a_picture_changes_nothing_and_its_rows_do_not_overlap() {
    let spec = spec("cidr", &SMALL);
    let (report, trace) = simulate_with_trace(&spec, 5000).unwrap();
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
    let (_, short) = simulate_with_trace(&spec, 10).unwrap();
    assert_eq!(short.left_out() + 10, spans);
}
