//! `onefold ssd run` and `onefold ssd spec`: specifications round trip, reports are documented,
//! files appear, and what is wrong is named.
//! Room: onefold.

use std::collections::BTreeSet;
use std::fs;

use super::command_line::{assert_is_file, crate_path};
use super::harness::Sandbox;

/// A drive that is made and run at once.
const SMALL: &str = "\
precondition = \"none\"
geometry.blocks_per_plane = 32
geometry.pages_per_block = 32
ftl.over_provisioning = 0.5
ftl.gc_reserve_blocks = 2
workload.requests = 2000
";

/// Every key of an object and of the objects in it.
fn keys(value: &serde_json::Value, found: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn a_specification_that_is_printed_gives_the_same_run() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("small.toml"), SMALL).unwrap();
    let json = |args: &[&str]| {
        let args = [&["ssd", "run"], args, &["--json"]].concat();
        sandbox.ok(&args).json()
    };
    let once = json(&["small.toml"]);
    assert_eq!(once, json(&["small.toml"]));
    assert_eq!(once["requests"]["generated"], 2000);
    assert_eq!(once["requests"]["completed"], 2000);
    assert_ne!(once["result_hash"], json(&["small.toml", "--seed", "2"])["result_hash"]);
    // A printed preset, cut down in the same way.
    let printed = sandbox.ok(&["ssd", "spec", "--preset", "ses-slc"]).text().to_owned();
    let said = sandbox.onefold(&["ssd", "spec", "--set", "dedup.policy=gleener"]);
    assert_eq!((said.code, said.text()), (Some(2), ""), "{}", said.err);
    assert!(said.err.contains("gleaner"), "{}", said.err);
    fs::write(sandbox.path("printed.toml"), printed).unwrap();
    let sets = SMALL.lines().filter(|line| !line.starts_with("precondition"));
    let sets: Vec<&str> = sets.flat_map(|line| ["--set", line]).collect();
    let args = [&["printed.toml", "--precondition", "none"], &sets[..]].concat();
    assert_eq!(once, json(&args));
}

#[test]
fn reports_for_people_say_what_they_said() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("small.toml"), SMALL).unwrap();
    let mut text = String::new();
    for line in [
        "--set read_share=0.5",
        "--set read_share=0.5 --set dedup.policy=ses-device --sweep queue_depth=1,4",
    ] {
        let args: Vec<&str> =
            ["ssd", "run", "small.toml"].into_iter().chain(line.split(' ')).collect();
        text.extend(["$ onefold ", &args.join(" "), "\n", sandbox.ok(&args).text(), "\n"]);
    }
    assert_is_file(&crate_path("tests/it/ssd_run.txt"), &text);
}

#[test]
fn the_page_about_drives_names_every_field() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("small.toml"), SMALL).unwrap();
    let page = include_str!("../../../../docs/ssd.md");
    let report = sandbox.ok(&["ssd", "run", "small.toml", "--set", "read_share=0.5", "--json"]);
    let mut found = BTreeSet::new();
    keys(&report.json(), &mut found);
    assert!(found.len() > 80, "{}", found.len());
    // What the FTL and its parts call their tables is theirs.
    for item in report.json()["dram"]["items"].as_array().unwrap() {
        assert!(item["bytes"].as_u64().unwrap() > 0);
    }
    let missing: Vec<&String> =
        found.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/ssd.md does not name {missing:?}");
}

#[test]
fn traces_are_replayed_and_logs_are_whole() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("small.toml"), SMALL).unwrap();
    let trace = "time_ns,op,offset,length,identity,stream,pid\n\
        0,write,0,16384,,,\n1000000,read,8192,4096,,,\n2000000,trim,0,16384,,,\n\
        3000000,flush,0,0,,,\n";
    fs::write(sandbox.path("trace.csv"), trace).unwrap();
    let run = ["ssd", "run", "small.toml", "--trace", "trace.csv"];
    let logs = ["--request-log", "log.csv", "--chrome-trace", "trace.json"];
    let report = sandbox.ok(&[&run[..], &logs, &["--json"]].concat()).json();
    assert_eq!(report["requests"]["completed"], 4);
    assert_eq!(report["latency_ns"]["read"]["max"], 23_400);
    let log = fs::read_to_string(sandbox.path("log.csv")).unwrap();
    assert_eq!(log.lines().count(), 5, "{log}");
    assert!(log.contains("\n1,1000000,1023400,read,1,1,0,23400,\n"), "{log}");
    let chrome: serde_json::Value =
        serde_json::from_slice(&fs::read(sandbox.path("trace.json")).unwrap()).unwrap();
    let spans = chrome["traceEvents"].as_array().unwrap();
    assert_eq!(spans.iter().filter(|event| event["ph"] == "X").count(), 3);
    // Nothing is overwritten unless that is wanted.
    let again = sandbox.onefold(&[&run[..], &logs].concat());
    assert_eq!(again.code, Some(2), "{}", again.err);
    sandbox.ok(&[&run[..], &logs, &["--force"]].concat());
    if cfg!(feature = "parquet") {
        sandbox.ok(&[&run[..], &["--request-log", "log.parquet"]].concat());
        assert_eq!(&fs::read(sandbox.path("log.parquet")).unwrap()[..4], b"PAR1");
    } else {
        let refused = sandbox.onefold(&[&run[..], &["--request-log", "log.parquet"]].concat());
        assert!(refused.err.contains("--features parquet"), "{}", refused.err);
        assert!(!sandbox.path("log.parquet").exists());
    }
}

#[test]
fn sweeps_are_the_same_on_any_number_of_threads() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("small.toml"), SMALL).unwrap();
    let sweep = |threads: &str| {
        sandbox
            .ok(&[
                "ssd",
                "run",
                "small.toml",
                "--sweep",
                "queue_depth=1,4",
                "--sweep",
                "victim=greedy,fifo",
                "--threads",
                threads,
                "--json",
            ])
            .json()
    };
    let one = sweep("1");
    assert_eq!(one, sweep("3"));
    let runs = one["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    assert_eq!(
        (&runs[2]["set"]["queue_depth"], &runs[2]["set"]["victim"]),
        (&4.into(), &"greedy".into())
    );
}

#[test]
fn what_is_wrong_is_named_and_nothing_is_run() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("bad.toml"), "[ftl]\nvictm = \"fifo\"\n").unwrap();
    for (args, part) in [
        (&["--set", "over_provisionin=0.1"][..], "`ftl.over_provisioning`"),
        (&["--set", "ftl.xyzzy=1"], "a deduplication policy: onefold ssd spec --set policy=NAME\n"),
        (&["--set", "trust=never"], "dedup.trust is an option of a policy"),
        (&["--set", "trust=never"], "onefold ssd spec --set policy=gleaner\n"),
        (&["--set", "victim=fif"], "did you mean fifo?"),
        (&["--set", "over_provisioning"], "expected KEY=VALUE"),
        (&["bad.toml"], "'bad.toml': unknown key `ftl.victm`"),
        (&["none.toml"], "cannot read specification 'none.toml'"),
        (&["--sweep", "queue_depth="], "expected KEY=V1,V2,..."),
        (&["--request-log", "log.txt"], ".csv or .parquet"),
        (&["--set", "dedup.policy=ses-devic", "--precondition", "none"], "ses-device"),
        (&["--set", "dram_bytes=1000"], "controller.dram_bytes = 1000"),
        (&["--trace", "none.csv"], "cannot read trace 'none.csv'"),
        (&["--seed", "-1"], "--seed"),
        (&["--requests", "0"], "--requests"),
    ] {
        let said = sandbox.onefold(&[&["ssd", "run"], args].concat());
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(part), "{args:?}: {}", said.err);
    }
}

#[test]
fn the_host_s_scrambler_is_measured_and_its_rate_is_a_specification() {
    let sandbox = Sandbox::new();
    let text = sandbox.ok(&["ssd", "calibrate"]).text().to_owned();
    let text = format!("{SMALL}{text}[dedup]\npolicy = 'ses-host'\n");
    fs::write(sandbox.path("host.toml"), text).unwrap();
    let json = sandbox.ok(&["ssd", "calibrate", "--preset", "ses-slc", "--json"]).json();
    assert!(json["scrambler_mb_per_s"].as_u64().unwrap() > 0, "{json}");
    assert_eq!((&json["scrambler"], &json["page_bytes"]), (&"lba-prbs31".into(), &8192.into()));
    let run = ["ssd", "run", "host.toml", "--json"];
    let json = sandbox.ok(&run).json();
    let cores = &json["utilisation"]["servers"]["host_scrambler"];
    assert!(cores["mean"].as_f64().unwrap() > 0.0, "{json}");
    let said = sandbox.onefold(&["ssd", "calibrate", "--set", "media.scrambler='none'"]);
    assert!(said.code != Some(0) && said.err.contains("scrambler"), "{}", said.err);
}

#[test]
fn a_run_that_programs_nothing_says_why_it_has_no_lifetime() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("small.toml"), SMALL).unwrap();
    let sets = ["precondition=steady", "content=uniform", "content_values=1"];
    let sets = sets.into_iter().chain(["dedup.policy=caftl-online"]);
    let args: Vec<&str> = sets.flat_map(|set| ["--set", set]).collect();
    let said = sandbox.ok(&[&["ssd", "run", "small.toml"], &args[..]].concat());
    let line = |name: &str| said.text().lines().find(|line| line.contains(name)).unwrap();
    assert!(line("settled ").contains("yes"), "{}", said.text());
    assert!(line("lifetime").ends_with("- (nothing programmed)"), "{}", said.text());
}
