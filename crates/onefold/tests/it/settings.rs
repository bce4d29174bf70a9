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
