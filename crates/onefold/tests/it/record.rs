//! `--record`: what clients did is there afterwards, however the server ended.
//! Room: onefold.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use super::harness::{PATIENCE, Sandbox, nbdsh, run};

/// The script that holds all policies of a drive against each other.
const POLICIES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/recorded/policies.sh");

/// Four writes of which two have the same content, a read, a trim and a flush.
const WORK: &str = "h.pwrite(b'a' * 8192, 0)
h.pwrite(b'b' * 4096, 8192)
h.pwrite(b'c' * 4096, 16384)
h.pwrite(b'b' * 4096, 20480)
h.pread(4096, 0)
h.trim(4096, 0)
h.flush()";

fn nbdsh_line() -> String {
    let script = WORK.replace('\n', "; ");
    format!("PATH=/usr/bin:$PATH nbdsh -u \"$uri\" -c \"{script}\"")
}

#[test]
fn requests_of_a_pool_are_recorded_and_replayed_with_their_contents() {
    let sandbox = Sandbox::new();
    let work = nbdsh_line();
    let serve = ["serve", "pool", "--size", "16M", "--record", "a.rec", "--run", &work];
    let said = sandbox.ok(&serve);
    assert!(said.err.contains("recorded 7 requests in 'a.rec'"), "{}", said.err);
    let mode = std::fs::metadata(sandbox.path("a.rec")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let info = sandbox.ok(&["trace", "info", "a.rec", "--json"]).json();
    assert_eq!((&info["format"], &info["lines"]), (&"recording".into(), &7.into()));
    let requests = |op: &str| info["operations"][op]["requests"].as_u64().unwrap();
    // The write of 8 KiB is two units of 4 KiB.
    assert_eq!(["read", "write", "trim", "flush"].map(requests), [1, 5, 1, 1]);
    // Twice `a` and twice `b`.
    assert_eq!((&info["writes_with_identity"], &info["duplicate_writes"]), (&5.into(), &2.into()));
    sandbox.ok(&["trace", "convert", "a.rec", "a.csv"]);
    let csv = std::fs::read_to_string(sandbox.path("a.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 8, "{csv}");

    let again = sandbox.onefold(&serve);
    assert_eq!(again.code, Some(2), "{}", again.err);
    assert!(again.err.contains("'a.rec' exists already"), "{}", again.err);
}

#[test]
fn requests_of_a_drive_are_recorded_and_other_units_refused() {
    let sandbox = Sandbox::new();
    let work = nbdsh_line();
    let drive = ["ssd", "serve", "--preset", "ses-mlc1", "--dir", "drive"];
    // 256 MiB raw: making a drive of its own size would be most of the test.
    let small = [
        "--set",
        "geometry.blocks_per_plane=32",
        "--set",
        "geometry.pages_per_block=16",
        "--set",
        "ftl.over_provisioning=0.6",
        "--set",
        "ftl.gc_reserve_blocks=4",
    ];
    let record = ["--record", "a.rec", "--record-unit", "512", "--run", &work];
    let said = sandbox.ok(&[&drive[..], &small, &record].concat());
    assert!(said.err.contains("recorded 7 requests"), "{}", said.err);
    let info = sandbox.ok(&["trace", "info", "a.rec", "--json"]).json();
    // 20 KiB in units of 512 B, all but three a repetition.
    assert_eq!(
        (&info["writes_with_identity"], &info["duplicate_writes"]),
        (&40.into(), &37.into())
    );
    for unit in ["0", "256", "1000", "8K"] {
        let args = ["serve", "pool", "--record", "b.rec", "--record-unit", unit, "--run", "true"];
        let said = sandbox.onefold(&args);
        assert_eq!(said.code, Some(2), "{unit}: {}", said.err);
        assert!(said.err.contains("expected 512, 1K, 2K or 4K"), "{unit}: {}", said.err);
        assert!(!sandbox.path("b.rec").exists() && !sandbox.path("pool").exists());
    }
    // Nothing of another kind is made in a store's own folder.
    sandbox.ok(&["pool", "create", "pool"]);
    let pool = ["serve", "pool", "--record", "pool/b.rec", "--run", "true"];
    let drive = [&drive[..], &["--record", "drive/b.rec", "--run", "true"]].concat();
    for (args, store) in [(&pool[..], "pool"), (&drive, "drive")] {
        let said = sandbox.onefold(args);
        assert_eq!(said.code, Some(2), "{store}: {}", said.err);
        let why = format!("'{store}/b.rec' lies in the {store}'s own folder");
        assert!(said.err.contains(&why), "{}", said.err);
        assert!(!sandbox.path(store).join("b.rec").exists());
    }
}

#[test]
fn a_recording_whose_server_was_killed_can_be_read() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--size", "16M", "--record", "a.rec"]);
    let uri = format!("nbd+unix:///main?socket={}", sandbox.text("socket"));
    let said = run(nbdsh(&["-u", &uri, "-c", WORK]).current_dir(sandbox.path("")));
    assert_eq!(said.code, Some(0), "{}", said.err);
    // What was begun is written within moments.
    let lines = || {
        let info = sandbox.ok(&["trace", "info", "a.rec", "--json"]).json();
        info["lines"].as_u64().unwrap()
    };
    let began = Instant::now();
    while lines() < 7 {
        assert!(began.elapsed() < PATIENCE, "nothing is written");
        std::thread::yield_now();
    }
    drop(server);
    assert_eq!(lines(), 7);
}

/// The small version of docs/recorded.md: two of five pages are duplicates, a pause after them.
#[test]
fn every_policy_finds_what_a_recording_repeats_in_the_same_memory() {
    let sandbox = Sandbox::new();
    let script = "h.pwrite(b'a' * 8192, 0); h.pwrite(b'b' * 4096, 8192); \
                  h.pwrite(b'c' * 4096, 16384); h.pwrite(b'b' * 4096, 20480); \
                  import time; time.sleep(0.2); h.pread(4096, 0)";
    let work = format!("PATH=/usr/bin:$PATH nbdsh -u \"$uri\" -c \"{script}\"");
    sandbox.ok(&["serve", "pool", "--size", "16M", "--record", "work.rec", "--run", &work]);

    let onefold = env!("CARGO_BIN_EXE_onefold");
    let mut bash = std::process::Command::new("bash");
    let said = run(bash.arg(POLICIES).arg(onefold).arg(sandbox.path("")).arg("fast"));
    assert_eq!(said.code, Some(0), "{}", said.err);
    // The rows of one table, each as the numbers of its cells.
    let table = |title: &str| -> Vec<Vec<f64>> {
        let lines = said.text().lines().skip_while(|line| !line.contains(title)).skip(2);
        let rows = lines.take_while(|line| line.starts_with('|'));
        let number = |cell: &str| cell.replace('*', "").trim().parse().unwrap();
        rows.map(|row| row.trim_matches('|').split('|').skip(1).map(number).collect()).collect()
    };
    let (all, inline) = (table("| found in all"), table("| found inline"));
    let of_idle_drives = [0.0, 40.0, 40.0, 40.0, 40.0, 40.0, 40.0, 40.0];
    assert_eq!(all[0], of_idle_drives, "{}", said.text());
    assert_eq!((all.len(), inline.len()), (4, 4), "{}", said.text());
    for (all, inline) in all.iter().flatten().zip(inline.iter().flatten()) {
        assert!(inline <= all && *all <= 40.0, "{}", said.text());
    }
    let latency = table("| mean write latency");
    assert!(latency.iter().flatten().all(|&us| us > 0.0), "{}", said.text());
    let memory: Vec<Vec<u64>> = said
        .err
        .lines()
        .map(|line| line.split(' ').filter_map(|word| word.parse().ok()).collect())
        .collect();
    // Once for each drive: what a policy keeps may depend on its engines.
    assert_eq!(memory.len(), 16, "{}", said.err);
    for (at, bytes) in memory.iter().enumerate() {
        assert!(bytes[0] <= bytes[1], "{}", said.err);
        assert!(at % 8 == 0 || bytes[0] > bytes[1] * 98 / 100, "{}", said.err);
    }
}
