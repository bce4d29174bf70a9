//! What a cache's drive tells of its life, and the budget of wear that follows from it.
//! Room: onefold.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use super::harness::{ONEFOLD, Said, Sandbox, noise, run};

const SIZE: usize = 24 << 20;
const DRIVE: &str = "/dev/nvme9n9";
const NVME: &str = include_str!("smart/nvme.json");
const UNIT_BYTES: u64 = 512_000;

/// A sandbox whose first `smartctl` says what is in the file `smart.json`, and ends as in `status`.
fn asked(answer: &str, status: i32) -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("bin")).unwrap();
    let script = sandbox.path("bin/smartctl");
    let folder = sandbox.text("");
    let text = format!(
        "#!/bin/sh\ntest \"$*\" = '--json --xall {DRIVE}' || exit 1\n\
         cat '{folder}smart.json'\nexit {status}\n"
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(sandbox.path("smart.json"), answer).unwrap();
    fs::write(sandbox.path("image"), noise(5, SIZE)).unwrap();
    sandbox
}

/// The binary, with that `smartctl`.
fn command(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = sandbox.command(args);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", sandbox.text("bin")));
    command
}

fn onefold(sandbox: &Sandbox, args: &[&str]) -> Said {
    let said = run(&mut command(sandbox, args));
    assert_eq!(said.code, Some(0), "{args:?}: {}", said.err);
    said
}

/// A pool whose cache knows its device so, read three times; what the server said.
fn read_thrice(sandbox: &Sandbox, life: &[&str]) -> String {
    let cache = ["--cache", "ssd", "--cache-size", "32M", "--cache-policy", "lru"];
    let small = ["--container-size", "1M", "--cache-memory", "0"];
    onefold(sandbox, &[&["pool", "create", "pool"], &cache[..], life, &small].concat());
    onefold(sandbox, &["volume", "import", "pool", "main", "image"]);
    let read = "nbdcopy --requests=1 --connections=1 $uri out && cmp out image";
    let status = format!("'{ONEFOLD}' pool status pool --json > served.json");
    let work = [read, read, read, &status].join(" && ");
    onefold(sandbox, &["serve", "pool", "--run", &work]).err
}

#[test]
fn a_budget_follows_from_what_the_drive_tells_and_the_years_that_it_is_to_last() {
    // Half of it is used, and the other half gives 12 MiB for each day of five years.
    let written = (12 << 20) * 365 * 5 / UNIT_BYTES;
    let mut told: Value = serde_json::from_str(NVME).unwrap();
    let log = &mut told["nvme_smart_health_information_log"];
    (log["percentage_used"], log["data_units_written"]) = (50.into(), written.into());
    let sandbox = asked(&told.to_string(), 0);
    let drive = format!("smart:{DRIVE}");
    read_thrice(&sandbox, &["--cache-endurance", &drive, "--cache-years", "5"]);
    let left = written * UNIT_BYTES;
    let per_day = (left as f64 / (5.0 * 365.25)) as u64;
    let served = fs::read(sandbox.path("served.json")).unwrap();
    let after = onefold(&sandbox, &["pool", "status", "pool", "--json"]).json();
    for status in [serde_json::from_slice(&served).unwrap(), after] {
        let (cache, life) = (&status["cache"], &status["cache"]["life"]);
        assert_eq!((&life["device"], &life["problem"]), (&DRIVE.into(), &Value::Null));
        assert_eq!((&life["used_percent"], &life["written_bytes"]), (&50.into(), &left.into()));
        assert_eq!((&life["total_bytes"], &life["left_bytes"]), (&(2 * left).into(), &left.into()));
        assert_eq!(cache["writes_per_day_bytes"], per_day, "{cache}");
        assert!((cache["years"].as_f64().unwrap() - 5.0).abs() < 0.001, "{cache}");
        // A sixth of it an hour; the test may run over the border of two.
        let wrote = cache["written_bytes"].as_u64().unwrap();
        assert!(wrote > 1 << 20 && wrote <= per_day / 3, "{cache}");
    }
    let text = onefold(&sandbox, &["pool", "status", "pool"]);
    assert!(text.text().contains("a day; the device lasts 5.0 years so"), "{}", text.text());
    assert!(text.text().contains(&format!("of {DRIVE} (SAMPLE PRO 1TB) used")), "{}", text.text());
}

#[test]
fn a_drive_that_does_not_tell_costs_the_years_but_a_budget_of_years_costs_the_cache() {
    let denied = r#"{"smartctl": {"messages": [{"string": "open failed: Permission denied"}]}}"#;
    let young = NVME.replace("\"percentage_used\": 12", "\"percentage_used\": 0");
    let drive = format!("smart:{DRIVE}");
    let endurance = ["--cache-endurance", &drive];
    for (answer, status, expected) in [
        (denied, 2, "cannot ask '/dev/nvme9n9': open failed: Permission denied"),
        ("smartctl 6.6", 0, "what cannot be read"),
        (&*young, 0, "has used 0 % of its life"),
    ] {
        let sandbox = asked(answer, status);
        let said = read_thrice(&sandbox, &endurance);
        assert!(said.contains(expected) && !said.contains("without its cache"), "{said}");
        let cache =
            onefold(&sandbox, &["pool", "status", "pool", "--json"]).json()["cache"].clone();
        assert!(cache["life"]["problem"].as_str().unwrap().contains(expected), "{cache}");
        assert!(cache["written_bytes"].as_u64() > Some(20 << 20), "{cache}");
        assert_eq!(cache["years"], Value::Null);
        let text = onefold(&sandbox, &["pool", "status", "pool"]);
        assert!(text.text().contains(expected), "{}", text.text());
        // Nothing may be written where nobody knows how much.
        let sandbox = asked(answer, status);
        let said = read_thrice(&sandbox, &[&endurance[..], &["--cache-years", "5"]].concat());
        assert!(said.contains("the pool works without its cache: the life of"), "{said}");
        assert!(!sandbox.path("ssd/extents").exists());
    }
}

#[test]
fn years_need_something_to_take_them_from() {
    let sandbox = Sandbox::new();
    let cases: [(&[&str], &str); 4] = [
        (&["--cache-years", "5"], "without --cache-endurance"),
        (&["--cache-years", "0"], "from 0.1 to 100"),
        (&["--cache-endurance", "smart:sda"], "smart:/dev/sda"),
        (&["--cache-endurance", "clever"], "or smart, to ask the drive"),
    ];
    for (args, expected) in cases {
        let said = sandbox.onefold(&[&["pool", "create", "pool", "--cache", "ssd"], args].concat());
        assert_eq!(said.code, Some(2), "{args:?}");
        assert!(said.err.contains(expected), "{args:?}: {}", said.err);
        assert!(!sandbox.path("pool").exists(), "{args:?}");
    }
}
