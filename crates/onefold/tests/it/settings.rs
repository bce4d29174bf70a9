//! Flags over environment over settings files over defaults.
//! Room: onefold.

use std::fs;

use super::harness::{Sandbox, run};

fn limit(sandbox: &Sandbox, env: Option<&str>, flags: &[&str]) -> u64 {
    let args = [&["pool", "status", "pool", "--json"], flags].concat();
    let mut command = sandbox.command(&args);
    command.env("XDG_CONFIG_HOME", sandbox.path("config"));
    if let Some(value) = env {
        command.env("ONEFOLD_INDEX_MEMORY", value);
    }
    run(&mut command).json()["memory"]["index_max_bytes"].as_u64().unwrap() >> 20
}

#[test]
fn each_source_overrules_the_ones_below_it() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    assert_eq!(limit(&sandbox, None, &[]), 256);
    fs::create_dir_all(sandbox.path("config/onefold")).unwrap();
    fs::write(sandbox.path("config/onefold/config.toml"), "index-memory = '10M'").unwrap();
    assert_eq!(limit(&sandbox, None, &[]), 10);
    fs::write(sandbox.path("pool/onefold.toml"), "index-memory = '11M'").unwrap();
    assert_eq!(limit(&sandbox, None, &[]), 11);
    fs::write(sandbox.path("mine.toml"), "[pool.status]\nindex-memory = '12M'").unwrap();
    let config = ["--config", "mine.toml"];
    assert_eq!(limit(&sandbox, None, &config), 12);
    assert_eq!(limit(&sandbox, Some("13M"), &config), 13);
    let both = ["--config", "mine.toml", "--index-memory", "14M"];
    assert_eq!(limit(&sandbox, Some("13M"), &both), 14);
    // A pool that has settings of its own is a pool, and a sound one.
    sandbox.check("pool");
}

#[test]
fn memory_given_at_creation_stays_with_the_pool() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool", "--index-memory", "20M"]);
    assert_eq!(limit(&sandbox, None, &[]), 20);
    sandbox.ok(&["serve", "second", "--index-memory", "21M", "--run", "true"]);
    let status = sandbox.status("second");
    assert_eq!(status["memory"]["index_max_bytes"], 21 << 20);
}

#[test]
fn files_that_are_too_long_are_refused_before_they_are_read() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("long.toml"), format!("{} = 1\n", "x".repeat(5 << 20))).unwrap();
    fs::write(sandbox.path("key.toml"), format!("{} = 1\n", "x".repeat(900_000))).unwrap();
    // It has no bytes on the disk, and no end in sight.
    fs::File::create(sandbox.path("holes.toml")).unwrap().set_len(1 << 42).unwrap();
    for file in ["long.toml", "holes.toml"] {
        for args in [
            &["--config", file, "reproduce", "--list"][..],
            &["cache", "run", file],
            &["ssd", "run", file],
            &["ssd", "serve", file, "--dir", "drive"],
            &["scrambler", "make", "--page-size", "8K", "--pages", "1", "-o", "x", "--file", file],
        ] {
            let said = sandbox.onefold(args);
            let own = args[0] == "scrambler" && file == "long.toml";
            assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
            assert!(own || said.err.contains("is longer than"), "{args:?}: {}", said.err);
            assert!(said.err.len() < 10_000, "{args:?}: {} bytes of message", said.err.len());
        }
    }
    // Within the limit, and no word to compare with others letter by letter.
    for args in [
        &["--config", "key.toml", "reproduce", "--list"][..],
        &["cache", "run", "key.toml"],
        &["ssd", "run", "key.toml"],
    ] {
        let said = sandbox.onefold(args);
        assert_eq!(said.code, Some(2), "{args:?}");
        assert!(said.err.contains("unknown key"), "{args:?}");
    }
}
