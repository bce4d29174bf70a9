//! `onefold estimate`: the wiring; its numbers are the estimator's own tests' matter.
//! Room: onefold.

use std::fs;

use super::harness::{Sandbox, noise};

fn files(sandbox: &Sandbox) {
    let block = noise(1, 1 << 20);
    for name in ["a", "b"] {
        fs::create_dir_all(sandbox.path("data")).unwrap();
        fs::write(sandbox.path("data").join(name), &block).unwrap();
    }
}

#[test]
fn the_answer_comes_last_in_text_and_whole_in_json_and_csv() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let said = sandbox.ok(&["estimate", "data"]);
    let lines: Vec<&str> = said.text().lines().collect();
    let answer = lines.iter().rev().nth(1).unwrap();
    assert!(answer.starts_with("dedup 2.00x  compress 1.00x  total 2.00x"), "{answer}");
    let json = sandbox.ok(&["estimate", "data", "--json"]).json();
    assert_eq!((&json["schema_version"], &json["input"]["files"]), (&1.into(), &2.into()));
    assert!(sandbox.ok(&["estimate", "data", "--csv"]).text().lines().count() >= 10);
    assert!(!sandbox.path("data").join("onefold").exists());
}

#[test]
fn shards_merge_into_the_same_answer() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    for i in ["0", "1"] {
        let shard = format!("{i}/2");
        sandbox.ok(&["estimate", "data", "--shard", &shard, "--partial", i]);
    }
    let merged = sandbox.ok(&["estimate", "merge", "0", "1", "--json"]).json();
    let whole = sandbox.ok(&["estimate", "data", "--json"]).json();
    assert_eq!(merged["answer"]["dedup_ratio"], whole["answer"]["dedup_ratio"]);
    assert_eq!(merged["chunk_sizes"], whole["chunk_sizes"]);
}

#[test]
fn an_input_that_is_not_there_is_named_before_anything_is_read() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let said = sandbox.onefold(&["estimate", "data", "nowhere"]);
    assert_eq!((said.code, said.text()), (Some(2), ""));
    assert!(said.err.contains("nowhere"), "{}", said.err);
}
