//! `onefold array`: descriptions round trip, reports agree with themselves, what is wrong is named.
//! Room: onefold.

use std::fs;

use super::command_line::{assert_is_file, crate_path};
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
    // Numbers of so many digits are rounded by many who read them.
    for hash in ["event_hash", "stored_digest"] {
        let digits = once[hash].as_str().unwrap();
        assert!(digits.len() == 16 && u64::from_str_radix(digits, 16).is_ok(), "{hash}: {digits}");
    }
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
fn loads_by_name_are_swept_and_a_description_says_where_they_come_from() {
    let sandbox = Sandbox::new();
    let sweep = ["--sweep", "workload.preset=write-only,mixed,fiu-like", "--json"];
    let args = [&["array", "run", "--preset", "cidr"], &SMALL[..], &sweep].concat();
    let json = sandbox.ok(&args).json();
    let rows = |at: usize| {
        let rows = json["runs"][at]["latencies"].as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(rows(0), ["write", "unique", "duplicate"]);
    assert_eq!(rows(1), ["read", "write", "unique", "duplicate"]);
    // Writes of 4 KiB to chunks of 32 KiB: seven eighths of each come from drives.
    let bytes = |name: &str| json["runs"][2]["bytes_of_all"][name].as_u64().unwrap();
    assert_eq!(bytes("completed"), 7 * bytes("client_in"));
    assert!(json["runs"][2]["cost"]["server_usd"].as_f64() > Some(4500.0), "{json}");
    let printed = sandbox.ok(&["array", "spec", "--set", "workload.preset=fiu-like"]);
    for wanted in ["#   mixed: as many", "read_share = 0.25", "# outside: WebVM of FIU"] {
        assert!(printed.text().contains(wanted), "{wanted}: {}", printed.text());
    }
    let text = "preset = \"cidr\"\n[workload]\npreset = \"fiu-like\"\n";
    fs::write(sandbox.path("s.toml"), text).unwrap();
    let by_file = ["array", "run", "s.toml", "--json"];
    let by_file = sandbox.ok(&[&by_file, &SMALL[..]].concat()).json();
    assert_eq!(by_file["event_hash"], json["runs"][2]["event_hash"]);
}

#[test]
fn a_report_for_people_names_what_stops_the_server() {
    let sandbox = Sandbox::new();
    let said = sandbox.ok(&[&["array", "run"], &SMALL[..]].concat()).text().to_owned();
    let wanted = ["stopped by", "cores, 100.0 % busy", "Cores by task", "keys behind", "  write"];
    for wanted in wanted.iter().chain(&["cost", "boards $0", "a client TB"]) {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    assert_is_file(&crate_path("tests/it/array_run.txt"), &said);
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
        (&["--set", "workload.preset=fiu"], "expected write-only, mixed or fiu-like"),
        (&["no-such.toml"], "no-such.toml"),
        (&["cidr+"], "--preset cidr+"),
    ] {
        let said = sandbox.onefold(&[&["array", "run"], args].concat());
        assert_eq!((said.code, said.text()), (Some(2), ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(named), "{args:?}: {}", said.err);
    }
}

#[test]
fn pictures_of_a_run_are_files_that_their_readers_take() {
    let sandbox = Sandbox::new();
    let (flow, steps) = (sandbox.path("flow.svg"), sandbox.path("steps.json"));
    let (flow, steps) = (flow.to_str().unwrap(), steps.to_str().unwrap());
    let args = ["array", "run", "--preset", "cidr", "--json"];
    let plain = sandbox.ok(&[&args[..], &SMALL].concat()).json();
    let pictures = ["--flow", flow, "--chrome-trace", steps, "--chrome-steps", "50"];
    let drawn = sandbox.ok(&[&args[..], &SMALL, &pictures].concat());
    assert_eq!(drawn.json(), plain, "pictures change nothing");
    assert!(drawn.err.contains("the first 50 steps"), "{}", drawn.err);
    let svg = fs::read_to_string(flow).unwrap();
    assert_is_file(&crate_path("tests/it/array_flow.svg"), &svg);
    let trace: serde_json::Value = serde_json::from_slice(&fs::read(steps).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), 50);
    // A file that is there is kept, unless it is to be overwritten.
    let again = sandbox.onefold(&[&args[..], &SMALL, &["--flow", flow]].concat());
    assert_eq!((again.code, again.text()), (Some(2), ""), "{}", again.err);
    sandbox.ok(&[&args[..], &SMALL, &["--flow", flow, "--force"]].concat());
}

#[test]
fn sizes_are_the_cheapest_first_and_goals_out_of_reach_are_named() {
    let sandbox = Sandbox::new();
    let goal = ["array", "size", "--throughput", "9GB/s", "--capacity", "200TB"];
    let goal = [&goal[..], &["--reduction", "75%", "--preset", "software", "--preset"]].concat();
    let json = sandbox.ok(&[&goal[..], &["fidr", "--json"]].concat()).json();
    let servers = json["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 2);
    assert!(servers[0]["cost_usd"].as_f64() <= servers[1]["cost_usd"].as_f64());
    assert!(servers.iter().all(|server| server["gb_per_s"].as_f64() >= Some(9.0)), "{json}");
    let said = sandbox.ok(&[&goal[..], &["fidr"]].concat()).text().to_owned();
    assert_is_file(&crate_path("tests/it/array_size.txt"), &said);
    let slow = ["--set", "table.engine_lookups_per_s=100000"];
    let said = sandbox.ok(&[&goal[..], &["fidr"], &slow].concat());
    assert!(said.err.contains("fidr does not reach 9 GB/s"), "{}", said.err);
    let none =
        sandbox.onefold(&[&goal[..6], &["--reduction", "75%", "--preset", "fidr"], &slow].concat());
    assert_eq!((none.code, none.text()), (Some(1), ""), "{}", none.err);
    for (args, named) in [
        (["9", "200TB", "75%"], "such as 80GB/s"),
        (["9GB/s", "200", "75%"], "such as 400TB"),
        (["9GB/s", "200TB", "100%"], "below 100%"),
        (["0GB/s", "200TB", "75%"], "more than 0"),
        (["9GB/s", "-1TB", "75%"], "such as 400TB"),
    ] {
        let [rate, size, share] = args;
        let rate = format!("--throughput={rate}");
        let (size, share) = (format!("--capacity={size}"), format!("--reduction={share}"));
        let said = sandbox.onefold(&["array", "size", &rate, &size, &share]);
        assert_eq!((said.code, said.text()), (Some(2), ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(named), "{args:?}: {}", said.err);
    }
}

#[test]
fn what_is_measured_on_this_machine_is_a_description() {
    let sandbox = Sandbox::new();
    let calibrate = ["array", "calibrate", "--bytes", "8M", "--rounds", "1"];
    let text = sandbox.ok(&calibrate).text().to_owned();
    assert!(text.contains("75 % duplicates, 2 thread(s): "), "{text}");
    fs::write(sandbox.path("today.toml"), &text).unwrap();
    let run = sandbox.ok(&[&["array", "run", "today.toml"], &SMALL[..], &["--json"]].concat());
    let report = run.json();
    assert_eq!(report["name"], "software-today");
    assert!(report["gb_per_s"].as_f64() > Some(0.0));
    let sha = ["--fingerprint", "sha256", "--chunk", "64K", "--json"];
    let json = sandbox.ok(&[&calibrate[..], &sha].concat()).json();
    let measured = &json["measured"][0];
    assert_eq!(json["chunk_bytes"], 65_536);
    assert_eq!(measured["fingerprint"], "sha256");
    for cost in ["hash", "compress", "decompress"] {
        let ns = measured["costs"][format!("{cost}_ns_per_byte")].as_f64();
        assert!(ns > Some(0.0), "{cost}: {json}");
    }
    assert_eq!(measured["checks"].as_array().unwrap().len(), 6);
    for (args, named) in [(["--bytes", "1M"], "8M to 4G"), (["--chunk", "5000"], "5000")] {
        let said = sandbox.onefold(&[&["array", "calibrate"], &args[..]].concat());
        assert_eq!((said.code, said.text()), (Some(2), ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(named), "{args:?}: {}", said.err);
    }
}

#[test]
fn the_model_of_this_machine_is_held_against_loads_of_a_real_pool() {
    let sandbox = Sandbox::new();
    let check = ["array", "calibrate", "--check", "--bytes", "8M", "--rounds", "1"];
    let json = sandbox.ok(&[&check[..], &["--json"]].concat()).json();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let mut seen = Vec::new();
    for measured in json["measured"].as_array().unwrap() {
        for check in measured["checks"].as_array().unwrap() {
            let share = number(&check["duplicate_share"]);
            let threads = check["threads"].as_u64().unwrap();
            let kind = measured["fingerprint"].as_str().unwrap();
            seen.push((kind, (100.0 * share).round() as u32, threads));
            let (here, model) =
                (number(&check["measured_cpu_s_per_gib"]), number(&check["model_cpu_s_per_gib"]));
            assert!(here > 0.0 && model > 0.0, "{check}");
            assert!((number(&check["deviation"]) - (model / here - 1.0)).abs() < 1e-9, "{check}");
            // A model without load, drives or network: the sum of what a byte takes.
            let of = |cost: &str| number(&measured["costs"][cost]);
            let new = (1.0 - share) * of("store_ns_per_chunk");
            let by_chunk = of("metadata_ns_per_chunk") + new + share * of("duplicate_ns_per_chunk");
            let compress = (1.0 - share) * of("compress_ns_per_byte");
            let least = of("hash_ns_per_byte") + compress + by_chunk / 4096.0;
            let stored = (1.0 - share) * of("submit_ns_per_byte");
            let gib = 1.073_741_824;
            assert!((0.98 * gib * least..1.02 * gib * (least + stored)).contains(&model), "{json}");
        }
    }
    let shares = [0, 30, 75];
    let each = shares.into_iter().flat_map(|share| [1, 2].map(|threads| (share, threads)));
    let expected: Vec<_> = ["blake3", "sha256"]
        .into_iter()
        .flat_map(|kind| each.clone().map(move |(share, threads)| (kind, share, threads)))
        .collect();
    assert_eq!(seen, expected);
    let text = sandbox.ok(&check).text().to_owned();
    assert!(text.contains("of 12 are within 15 %"), "{text}");
    let off: Vec<f64> =
        text.lines().filter(|line| line.contains("thread(s)")).map(off_by).collect();
    assert_eq!(off.len(), 12);
    assert!(off.is_sorted_by(|a, b| a.abs() >= b.abs()), "losses come first: {text}");
}

/// The last number of a line of the table.
fn off_by(line: &str) -> f64 {
    let cells: Vec<&str> = line.split_whitespace().collect();
    cells[cells.len() - 2].parse().unwrap()
}

#[test]
fn a_trace_is_replayed_with_its_contents_by_options_keys_and_sweeps() {
    let sandbox = Sandbox::new();
    let identity = |number: u64| format!("{number:032x}");
    // Four contents, each written 50 times, at two places each.
    let writes = (0..200_u64).map(|number| {
        let (at, content) = (number % 8 * 32_768, identity(number % 4));
        format!("{},write,{at},32768,{content},,\n", number * 1000)
    });
    let csv = "time_ns,op,offset,length,identity,stream,pid\n".to_owned()
        + &writes.collect::<String>()
        + "300000,flush,0,0,,,\n300001,trim,0,1000000,,,\n300002,read,0,65536,,,\n";
    fs::write(sandbox.path("a.csv"), &csv).unwrap();
    let replay = ["array", "run", "--trace", "a.csv"];
    let json = sandbox.ok(&[&replay[..], &["--json"]].concat()).json();
    assert_eq!(json["trace"]["writes"], 200);
    assert_eq!(json["trace"]["chunks_known"], 200);
    assert_eq!(json["trace"]["chunks_trimmed"], 30);
    assert_eq!(json["bytes_of_all"]["duplicate"], 196 * 32_768);
    let said = sandbox.ok(&replay).text().to_owned();
    for wanted in ["The trace", "of the trace", "drawn: no trace knows them", "flush", "trim"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let numbers = [("reads", "1"), ("writes", "200"), ("TRIMs", "1"), ("flushes", "1")];
    let more = [("hints of idleness", "0"), ("chunks with contents", "200"), ("others", "0")];
    for (name, number) in numbers.into_iter().chain(more).chain([("given up", "30")]) {
        let row = |line: &str| {
            let rest = line.strip_prefix("  ")?.strip_prefix(name)?;
            Some(rest.starts_with("  ") && rest.split_whitespace().next() == Some(number))
        };
        assert!(said.lines().filter_map(row).any(|found| found), "{name} {number}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    // By a key of a description, and with a picture.
    fs::write(sandbox.path("s.toml"), "[workload]\ntrace = 'a.csv'\nload = 'timestamps'\n")
        .unwrap();
    let by_key = sandbox.ok(&["array", "run", "s.toml", "--format", "csv", "--json"]).json();
    assert_eq!(by_key["bytes_of_all"], json["bytes_of_all"]);
    assert!(by_key["seconds"].as_f64() > Some(0.0003), "{by_key}");
    let drawn = ["array", "run", "s.toml", "--chrome-trace", "steps.json", "--json"];
    assert_eq!(sandbox.ok(&drawn).json(), by_key);
    // A sweep reads it once for every run.
    let sweep = [&replay[..], &["--sweep", "chunk_bytes=4096,32768", "--json"]].concat();
    let runs = sandbox.ok(&[&sweep[..], &["--threads", "2"]].concat()).json();
    assert_eq!(runs["runs"][1]["bytes_of_all"], json["bytes_of_all"]);
    assert_eq!(runs["runs"][0]["trace"]["chunks_known"], 1600);
    // Damage is named with its line.
    fs::write(sandbox.path("b.csv"), csv.replace("2,read", "2,rode")).unwrap();
    for (args, named) in [
        (&["run", "--trace", "b.csv"][..], "trace 'b.csv': line 204 is no line of the format csv"),
        (&["run", "--trace", "no.csv"], "cannot read trace 'no.csv'"),
        (&["run", "--format", "csv"], "--format: there is no trace"),
        (&["run", "--trace", "a.csv", "--format", "msr"], "line 1 is no line of the format msr"),
        (&["run", "--set", "load=timestamps"], "there is no workload.trace"),
        (&["run", "--trace", "-", "--sweep", "seed=1,2"], "reads its trace once for every run"),
        (&["run", "--trace", "a.csv", "--set", "speed=0"], "workload.speed = 0"),
    ] {
        let said = sandbox.onefold(&[&["array"], args].concat());
        assert_eq!((said.code, said.text()), (Some(2), ""), "{args:?}: {}", said.err);
        assert!(said.err.contains(named), "{args:?}: {}", said.err);
    }
    let goal = ["array", "size", "--throughput", "9GB/s", "--capacity", "200TB"];
    let trace = ["--reduction", "75%", "--set", "workload.trace=a.csv"];
    let said = sandbox.onefold(&[&goal[..], &trace].concat());
    assert_eq!((said.code, said.text()), (Some(2), ""), "{}", said.err);
    assert!(said.err.contains("run the trace on what was found"), "{}", said.err);
}

#[test]
fn drives_may_be_simulated_whole_by_a_file_of_one() {
    let sandbox = Sandbox::new();
    let text = "geometry.blocks_per_plane = 24\ngeometry.pages_per_block = 32\n\
                ftl.over_provisioning = 0.3\n";
    fs::write(sandbox.path("small.toml"), text).unwrap();
    let run = ["array", "run", "--set", "ssd.model=small.toml", "--set", "ssd.count=2"];
    let json = sandbox.ok(&[&run[..], &SMALL, &["--json"]].concat()).json();
    let number = |name: &str| json["drives"][name].as_u64().unwrap();
    let arrived = number("pages_written") * number("page_bytes") + number("unfinished_bytes");
    assert_eq!(json["bytes_of_all"]["stored"], arrived);
    let resources = json["resources"].as_array().unwrap();
    assert!(resources.iter().any(|row| row["name"] == "data drives"), "{json}");
    let said = sandbox.ok(&[&run[..], &SMALL].concat()).text().to_owned();
    for wanted in ["Data drives", "2 of ses-slc", "write amplification", "a write takes"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    // The table's drives as well.
    let table = ["--set", "table_ssd.model=small.toml", "--set", "table.cache_bytes=100000"];
    let keys = ["--set", "table.entries=50000", "--set", "workload.addresses=5000"];
    let args = [&["array", "run", "--preset", "cidr+"], &table[..], &keys, &SMALL].concat();
    let said = sandbox.ok(&args).text().to_owned();
    assert!(said.contains("Table drives"), "{said}");
    let json = sandbox.ok(&[&args[..], &["--json"]].concat()).json();
    assert!(json["table_drives"]["pages_read"].as_u64() > Some(0), "{json}");
    assert!(json.get("drives").is_none(), "{json}");
    fs::write(sandbox.path("wrong.toml"), "geometry.blocks_per_plain = 24").unwrap();
    for (model, named) in [
        ("no-such.toml", "no-such.toml"),
        ("wrong.toml", "the nearest known one is `geometry.blocks_per_plane`"),
    ] {
        let model = format!("ssd.model={model}");
        let said = sandbox.onefold(&["array", "run", "--set", &model]);
        assert_eq!((said.code, said.text()), (Some(2), ""), "{model}: {}", said.err);
        assert!(said.err.contains(named), "{model}: {}", said.err);
    }
}
