//! `onefold demo` and `onefold doctor`.
//! Room: onefold.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::harness::{Sandbox, tool};

#[test]
fn the_demo_shows_all_of_it_and_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("tmp");
    std::fs::create_dir(&folder).unwrap();
    let output = sandbox.command(&["demo"]).env("TMPDIR", &folder).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let (out, err) = (out.unwrap(), err.unwrap());
    assert!(output.status.success(), "{err}");
    for words in ["kill -9", "the same, byte for byte", "$ onefold pool check pool"] {
        assert!(err.contains(words), "{words}: {err}");
    }
    // A quarter of the disk differs, and half of that compresses.
    assert!(out.contains("logical") && out.contains("64 MiB") && out.contains("4.00x"), "{out}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "the folder is gone");
    assert_eq!(sandbox.remembered(), 0, "and so is what the killed server left in memory");
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("tmp");
    std::fs::create_dir(&folder).unwrap();
    let mut command = sandbox.command(&["demo"]);
    let command = command.env("TMPDIR", &folder).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut demo = command.spawn().unwrap();
    let mut said = BufReader::new(demo.stderr.take().unwrap()).lines().map(Result::unwrap);
    said.find(|line| line.starts_with("1. A disk")).unwrap();
    tool("kill", &["-INT", &demo.id().to_string()]);
    let rest: Vec<String> = said.collect();
    assert_eq!(demo.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.concat().contains("interrupted; the folder is gone again"), "{rest:?}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "and so it is");
}

#[test]
fn the_doctor_names_what_is_missing_and_what_has_it() {
    let sandbox = Sandbox::new();
    let look = |path: &str, args: &[&str]| {
        let output = sandbox.command(args).env("PATH", path).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    // `env` of the harness is found by the shell's own path, the programs by this one.
    let (code, text) = look("/usr/bin:/bin:/nowhere", &["doctor"]);
    assert!(matches!(code, Some(0 | 1)), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("nbdinfo") && line.contains("there")),
        "{text}"
    );
    let (_, json) = look("/usr/bin:/bin", &["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let of = |name: &str| findings.iter().find(|finding| finding["what"] == name).unwrap();
    assert_eq!((&of("nbdinfo")["found"], &of("/dev/shm")["found"]), (&true.into(), &true.into()));
    for finding in findings {
        let text = finding["remedy"].as_str().unwrap();
        assert!(!text.is_empty() && finding["purpose"].as_str().is_some());
    }
    assert_eq!(code == Some(0), findings.iter().all(|finding| finding["found"] == true));
}
