//! `onefold array`: descriptions round trip, reports agree with themselves, what is wrong is named.
//! Room: onefold.

use std::fs;

use super::harness::Sandbox;

const SMALL: [&str; 4] = ["--set", "workload.requests=3000", "--set", "workload.warm_requests=300"];

#[test]
fn a_description_that_is_printed_gives_the_same_run() {
    let sandbox = Sandbox::new();
    let json = |args: &[&str]| {
        sandbox.ok(&[&["array", "run"], args, &SMALL[..], &["--json"]].concat()).json()
    };
    let once = json(&["--preset", "cidr+"]);
    let printed = sandbox.ok(&["array", "spec", "--preset", "cidr+"]).text().to_owned();
    assert!(printed.contains("# published: slide"), "{printed}");
    fs::write(sandbox.path("server.toml"), printed).unwrap();
    assert_eq!(once["event_hash"], json(&["server.toml"])["event_hash"]);
    assert!(once["assumed_keys"].as_array().unwrap().len() > 20);
    assert_ne!(once["event_hash"], json(&["--preset", "cidr+", "--seed", "2"])["event_hash"]);
    let busiest = &once["resources"][0];
    assert_eq!(once["bottleneck"]["name"], busiest["name"]);
}

#[test]
fn a_sweep_runs_every_combination_on_any_number_of_threads() {
    let sandbox = Sandbox::new();
    let sweep = |threads: &str| {
        let args = ["array", "run", "--preset", "cidr-1", "--threads", threads];
        let sweep = ["--sweep", "engine.count=1,2", "--sweep", "read_share=0,0.5", "--json"];
        sandbox.ok(&[&args[..], &SMALL, &sweep].concat()).json()
    };
    let runs = sweep("1");
    assert_eq!(runs, sweep("3"));
    let runs = runs["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    assert_eq!(runs[1]["set"], serde_json::json!({"engine.count": 1, "read_share": 0.5}));
    assert!(runs[2]["gb_per_s"].as_f64() > runs[0]["gb_per_s"].as_f64());
}

#[test]
fn a_report_for_people_names_what_stops_the_server() {
    let sandbox = Sandbox::new();
    let said = sandbox.ok(&[&["array", "run"], &SMALL[..]].concat()).text().to_owned();
    for wanted in ["stopped by", "cores, 100.0 % busy", "Cores by task", "keys behind"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

#[test]
fn what_cannot_be_a_server_is_refused_by_name() {
    let sandbox = Sandbox::new();
    for (args, named) in [
        (&["--preset", "cider"][..], "unknown preset `cider`"),
        (&["--set", "engine.cuont=2"], "the nearest known one is `engine.count`"),
        (&["--set", "place.hash=engine"], "engine.count is 0"),
        (&["--set", "chunk_bytes=5000"], "a power of two"),
        (&["--set", "table.policy=lruu"], "lruu"),
        (&["--set", "place.data=direct"], "hashed in the nic"),
        (&["--set", "workload.request_bytes=5000"], "or a part that divides it"),
        (&["--set", "engine.count"], "expected KEY=VALUE"),
        (&["no-such.toml"], "no-such.toml"),
    ] {
        let said = sandbox.onefold(&[&["array", "run"], args].concat());
        assert_eq!((said.code, said.text()), (Some(2), ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(named), "{args:?}: {}", said.err);
    }
}
