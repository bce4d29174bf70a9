//! `pool scrub` names the damage, keeps its position, and `pool status` shows what it found.
//! Room: onefold.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::harness::{Sandbox, noise, tool};

/// A pool of three containers.
fn pool_with_data(sandbox: &Sandbox) {
    fs::write(sandbox.path("data"), noise(1, 10 << 20)).unwrap();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "import", "pool", "v", "data"]);
}

#[test]
fn a_scrub_names_damaged_blocks_and_status_shows_it() {
    let sandbox = Sandbox::new();
    pool_with_data(&sandbox);
    assert!(sandbox.status("pool")["scrub"].is_null());
    let said = sandbox.ok(&["pool", "scrub", "pool", "--rate", "1G/s"]);
    assert!(
        said.err.contains("nothing is wrong; read 2,560 records in 3 containers"),
        "{}",
        said.err
    );
    let file = sandbox.path("pool/containers/00000002.container");
    let mut bytes = fs::read(&file).unwrap();
    bytes[1 << 20] ^= 4;
    fs::write(&file, bytes).unwrap();
    let said = sandbox.onefold(&["pool", "scrub", "pool"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.text().contains("corrupt container 2 at byte 10"), "{}", said.text());
    assert!(said.text().contains("volume 'v' block "), "{}", said.text());
    let json = sandbox.onefold(&["pool", "scrub", "pool", "--json"]).json();
    assert_eq!((&json["sound"], &json["blocks_total"]), (&false.into(), &1.into()), "{json}");
    assert_eq!(sandbox.status("pool")["scrub"]["findings"], json["findings"]);
    let status = sandbox.ok(&["pool", "status", "pool"]);
    assert!(status.text().contains("1 container is damaged, 1 block cannot"), "{}", status.text());
    // A server that has the pool says the same.
    let server = sandbox.serve("pool", &["--background", "off"]);
    let served = sandbox.onefold(&["pool", "scrub", "pool", "--json"]);
    assert_eq!((served.code, served.json()), (Some(1), json));
    assert!(served.err.contains("1 container is damaged"), "{}", served.err);
    assert_eq!(sandbox.status("pool")["scrub"]["findings_total"], 1);
    // And so it says which volumes there are.
    assert!(sandbox.ok(&["volume", "list", "pool"]).text().contains("\nv "));
    drop(server);
    let none = sandbox.onefold(&["pool", "scrub", "pool", "--rate", "0"]);
    assert_eq!(none.code, Some(2), "{}", none.err);
}

#[test]
fn an_interrupted_scrub_goes_on_where_it_stopped() {
    let sandbox = Sandbox::new();
    pool_with_data(&sandbox);
    // In a process of its own, and in a server.
    interrupt(&sandbox);
    let server = sandbox.serve("pool", &["--background", "off"]);
    interrupt(&sandbox);
    drop(server);
    sandbox.check("pool");
}

/// Interrupt a scrub, and have the next one go on.
fn interrupt(sandbox: &Sandbox) {
    let mut command = sandbox.command(&["pool", "scrub", "pool", "--rate", "64K"]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    // By then it has read a container, and waits for a minute, or has not begun.
    let until = Instant::now() + Duration::from_millis(700);
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    tool("kill", &["-INT", &child.id().to_string()]);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let position = sandbox.status("pool")["scrub"]["position"].as_u64().unwrap_or(0);
    let said = sandbox.ok(&["pool", "scrub", "pool"]);
    let told = said.err.contains(&format!("went on after container {position}"));
    assert!(told || position == 0, "{}", said.err);
    assert!(said.err.contains("read 2,560 records in 3 containers"), "{}", said.err);
}

#[test]
fn a_server_scrubs_by_itself_and_forgets_what_is_mended() {
    let sandbox = Sandbox::new();
    pool_with_data(&sandbox);
    let file = sandbox.path("pool/containers/00000002.container");
    let mut bytes = fs::read(&file).unwrap();
    bytes[1 << 20] ^= 4;
    fs::write(&file, &bytes).unwrap();
    let found = |sandbox: &Sandbox| {
        let server = sandbox.serve("pool", &["--scrub-rate", "1G"]);
        // A pass takes milliseconds, and its end is kept at once.
        for _ in 0..600 {
            if sandbox.status("pool")["scrub"]["ended_s"].is_u64() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(server);
        sandbox.status("pool")["scrub"].clone()
    };
    let scrub = found(&sandbox);
    assert_eq!((&scrub["containers"], &scrub["findings_total"]), (&3.into(), &1.into()), "{scrub}");
    assert_eq!(scrub["findings"][0]["container"], 2, "{scrub}");
    bytes[1 << 20] ^= 4;
    fs::write(&file, &bytes).unwrap();
    // Another server begins the next pass; what was found stays until it has looked.
    let server = sandbox.serve("pool", &["--scrub-rate", "1G", "--background", "off"]);
    assert_eq!(sandbox.status("pool")["scrub"]["findings_total"], 1);
    drop(server);
    fs::remove_file(sandbox.path("pool/scrub.json")).unwrap();
    let scrub = found(&sandbox);
    assert_eq!((&scrub["containers"], &scrub["findings_total"]), (&3.into(), &0.into()), "{scrub}");
}
