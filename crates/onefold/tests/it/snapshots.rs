//! Snapshots by commands, of a stopped pool and of a running server.
//! Room: onefold.

use std::fs;

use super::harness::{Sandbox, nbdsh, noise, run};

const MIB: usize = 1 << 20;

/// A volume of 3 MiB.
fn pool_with_volume(sandbox: &Sandbox) {
    sandbox.ok(&["pool", "create", "pool"]);
    fs::write(sandbox.path("old"), noise(1, 3 * MIB)).unwrap();
    fs::write(sandbox.path("new"), noise(2, MIB)).unwrap();
    sandbox.ok(&["volume", "import", "pool", "main", "old"]);
}

/// Everything that commands do with snapshots; `overwrite` puts the new MiB over the first.
fn live_through(sandbox: &Sandbox, overwrite: &dyn Fn()) {
    sandbox.ok(&["volume", "snapshot", "pool", "main@monday", "--hold"]);
    overwrite();
    let diff = sandbox.ok(&["volume", "diff", "pool", "main@monday", "main", "--json"]).json();
    let extents = serde_json::json!([{ "offset_bytes": 0, "len_bytes": MIB }]);
    assert_eq!((&diff["extents"], &diff["changed_bytes"]), (&extents, &MIB.into()));

    let listed = sandbox.ok(&["volume", "list", "pool", "--snapshots", "--json"]).json();
    let alone = &listed["snapshots"][0]["alone_bytes"];
    assert_eq!(alone.as_u64(), Some(MIB as u64), "what was overwritten");
    let said = sandbox.ok(&["volume", "list", "pool", "--snapshots"]);
    let text = said.text();
    assert!(text.contains("ALONE") && text.contains(" 1 MiB "), "{text}");
    let said = sandbox.ok(&["pool", "status", "pool"]);
    let text = said.text();
    assert_eq!(text.matches(", with what 1 snapshot holds").count(), 2, "{text}");
    assert_eq!(sandbox.status("pool")["snapshots"], 1);

    sandbox.ok(&["volume", "clone", "pool", "main@monday", "copy"]);
    let listed = sandbox.ok(&["volume", "list", "pool", "--snapshots", "--json"]).json();
    let snapshot = &listed["snapshots"][0];
    assert_eq!((&snapshot["name"], &snapshot["held"]), (&"main@monday".into(), &true.into()));
    assert_eq!(snapshot["clones"], serde_json::json!(["copy"]));
    assert_eq!(snapshot["alone_bytes"], 0, "its clone has all of it");
    assert!(snapshot["created_s"].as_u64().unwrap() > 1_600_000_000, "{snapshot}");

    let refused = |args: &[&str], why: &str| {
        let said = sandbox.onefold(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(why), "{args:?}: {}", said.err);
    };
    refused(&["volume", "delete", "pool", "main@monday", "--yes"], "is held");
    sandbox.ok(&["volume", "release", "pool", "main@monday"]);
    refused(&["volume", "delete", "pool", "main@monday", "--yes"], "copy");
    refused(&["volume", "delete", "pool", "main", "--yes"], "main@monday");
    refused(&["volume", "snapshot", "pool", "main@monday"], "main@monday");
    refused(&["volume", "snapshot", "pool", "main@g7"], "main@g7");
    refused(&["volume", "rollback", "pool", "main@tuesday", "--yes"], "main@tuesday");

    sandbox.ok(&["volume", "rollback", "pool", "main@monday", "--yes"]);
    let diff = sandbox.ok(&["volume", "diff", "pool", "main@monday", "main", "--json"]).json();
    assert_eq!(diff["changed_bytes"], 0);
    sandbox.ok(&["volume", "delete", "pool", "copy", "--yes"]);
    sandbox.ok(&["volume", "delete", "pool", "main@monday", "--yes"]);
    let listed = sandbox.ok(&["volume", "list", "pool", "--snapshots", "--json"]).json();
    assert_eq!(listed["snapshots"], serde_json::json!([]));
}

fn export(sandbox: &Sandbox, name: &str) -> Vec<u8> {
    let to = sandbox.text("out");
    let _ = fs::remove_file(&to);
    sandbox.ok(&["volume", "export", "pool", name, &to]);
    fs::read(&to).unwrap()
}

#[test]
fn a_snapshot_of_a_stopped_pool_stays_what_the_volume_was() {
    let sandbox = Sandbox::new();
    pool_with_volume(&sandbox);
    let overwrite = || {
        let socket = sandbox.serve("pool", &[]);
        let script = "h.pwrite(open('new', 'rb').read(), 0)";
        let mut client = nbdsh(&["-u", &socket.uri("main"), "-c", script]);
        let said = run(client.current_dir(sandbox.path("")));
        assert_eq!(said.code, Some(0), "{}", said.err);
        socket.stop();
        assert!(export(&sandbox, "main@monday") == noise(1, 3 * MIB));
        assert!(export(&sandbox, "main")[..MIB] == noise(2, MIB));
    };
    live_through(&sandbox, &overwrite);
    assert!(export(&sandbox, "main") == noise(1, 3 * MIB));
    sandbox.check("pool");
}

#[test]
fn a_snapshot_of_a_served_volume_is_a_read_only_export() {
    let sandbox = Sandbox::new();
    pool_with_volume(&sandbox);
    let server = sandbox.serve("pool", &[]);
    let overwrite = || {
        let script = "h.pwrite(open('new', 'rb').read(), 0)";
        let mut client = nbdsh(&["-u", &server.uri("main"), "-c", script]);
        let said = run(client.current_dir(sandbox.path("")));
        assert_eq!(said.code, Some(0), "{}", said.err);
        let script = "
assert h.is_read_only()
assert h.pread(1 << 20, 0) == open('old', 'rb').read()[:1 << 20]
try:
    h.pwrite(bytes(4096), 0)
    assert False
except nbd.Error:
    pass
";
        let mut client = nbdsh(&["-u", &server.uri("main@monday"), "-c", script]);
        let said = run(client.current_dir(sandbox.path("")));
        assert_eq!(said.code, Some(0), "{}", said.err);
    };
    live_through(&sandbox, &overwrite);
    server.stop();
    assert!(export(&sandbox, "main") == noise(1, 3 * MIB));
    sandbox.check("pool");
}

#[test]
fn pruning_keeps_what_rules_ask_for_and_what_is_held_or_cloned() {
    let sandbox = Sandbox::new();
    pool_with_volume(&sandbox);
    for name in ["a", "b", "c", "d"] {
        let name = format!("main@{name}");
        sandbox.ok(&["volume", "snapshot", "pool", &name]);
    }
    sandbox.ok(&["volume", "hold", "pool", "main@a"]);
    sandbox.ok(&["volume", "clone", "pool", "main@b", "copy"]);
    let prune = ["volume", "prune", "pool", "main", "--keep-last", "1"];
    let planned = sandbox.ok(&[&prune[..], &["--dry-run"]].concat());
    assert!(planned.text().contains("keep (held) main@a of 2"), "{}", planned.text());
    assert!(planned.text().contains("keep (origin of copy) main@b of 2"), "{}", planned.text());
    assert!(planned.text().contains("delete main@c of 2"), "{}", planned.text());
    assert!(planned.err.contains("1 snapshot would go; nothing was changed"), "{}", planned.err);
    let said = sandbox.ok(&["volume", "prune", "pool", "main"]);
    assert!(said.err.contains("so all stay"), "{}", said.err);
    let server = sandbox.serve("pool", &[]);
    let said = sandbox.ok(&[&prune[..], &["--json"]].concat()).json();
    let kept: Vec<bool> =
        said["snapshots"].as_array().unwrap().iter().map(|s| s["kept"] == true).collect();
    assert_eq!(kept, [true, true, false, true], "{said}");
    let listed = sandbox.ok(&["volume", "list", "pool", "--snapshots", "--json"]).json();
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 3, "{listed}");
    server.stop();
    let said = sandbox.onefold(&["serve", "pool", "--keep-last", "2"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("need --snapshot-every"), "{}", said.err);
    sandbox.check("pool");
}

#[test]
fn a_server_makes_snapshots_by_itself_and_keeps_what_rules_ask_for() {
    let sandbox = Sandbox::new();
    pool_with_volume(&sandbox);
    sandbox.ok(&["volume", "snapshot", "pool", "main@mine"]);
    let server = sandbox.serve("pool", &["--snapshot-every", "1s", "--keep-last", "1"]);
    let listed = || -> Vec<String> {
        let listed = sandbox.ok(&["volume", "list", "pool", "--snapshots", "--json"]).json();
        let listed = listed["snapshots"].as_array().unwrap().clone();
        listed.iter().map(|s| s["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut first = None;
    for _ in 0..600 {
        let names = listed();
        assert_eq!(names[0], "main@mine");
        assert!(names.len() <= 3, "{names:?}");
        if let Some(name) = names.get(1) {
            assert!(name.starts_with("main@auto-2"), "{name}");
            if first.get_or_insert_with(|| name.clone()) != name {
                server.stop();
                sandbox.check("pool");
                return;
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("it made no second one: {:?}", listed());
}
