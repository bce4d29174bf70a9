//! What a person meets who types: help, mistakes, generated pages.
//! Room: onefold.

use std::fs;
use std::path::{Path, PathBuf};

use super::harness::{Sandbox, run};

/// Compare with a file of the repository; `ONEFOLD_UPDATE=1` writes it instead.
pub fn assert_is_file(path: &Path, text: &str) {
    if std::env::var_os("ONEFOLD_UPDATE").is_some() {
        fs::write(path, text).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    let stale = "is stale; ONEFOLD_UPDATE=1 cargo test -p onefold writes it anew";
    for (line, (a, b)) in expected.lines().zip(text.lines()).enumerate() {
        assert_eq!(a, b, "{} line {} {stale}", path.display(), line + 1);
    }
    assert_eq!(expected, text, "{} {stale}", path.display());
}

pub fn crate_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn the_reference_is_fresh() {
    let said = Sandbox::new().ok(&["reference"]);
    assert_is_file(&crate_path("../../docs/cli.md"), said.text());
}

/// What people get wrong; in a folder with a pool `pool` (volume `v` of 16 MiB with 8 MiB of
/// data), a file `file`, and a folder `full` with something in it.
const WRONG: [&str; 50] = [
    "",
    "srve ./demo",
    "serve",
    "serve full",
    "serve file",
    "serve pool --chunk-size 8K",
    "serve new --chunk-size 5K",
    "serve new --chunk-size 128K",
    "serve new --fingerprint md5",
    "serve new --compression gzip",
    "serve new --compression zstd:99",
    "serve new --container-size 3M",
    "serve new --size 0",
    "serve new --size 12Q",
    "serve new --size",
    "serve new --index-memory 1K",
    "serve new --listen 127.0.0.1:10809",
    "serve new --listen tcp:localhost",
    "serve new --listen tcp:0.0.0.0:10809",
    "serve new --listen unix:/no/such/folder/socket",
    "serve new --tls-cert cert.pem",
    "serve new --tls-cert no.pem --tls-key no.pem --tls-ca no.pem",
    "serve new --read-only",
    "serve new --lisen unix:/tmp/x",
    "pool",
    "pool create pool",
    "pool create full",
    "pool create file/x",
    "pool status",
    "pool status nowhere",
    "pool check nowhere --repair",
    "pool status file",
    "pool status full --json",
    "pool check full",
    "volume create pool v --size 1G",
    "volume create pool ../x --size 1G",
    "volume create pool w",
    "volume create pool w --size -1",
    "volume resize pool v --size 1M",
    "volume delete pool x",
    "volume import pool w nowhere",
    "volume import pool w/x file",
    "volume import pool w full",
    "volume export pool v full",
    "estimate",
    "completions tcsh",
    "estimate file --threads lots",
    "estimate file --threads=-1",
    "estimate file --threads=",
    "estimate file --threads 99999999999999999999",
];

#[test]
fn mistakes_are_answered_as_written_down() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("file"), "hello").unwrap();
    fs::write(sandbox.path("data"), super::harness::noise(5, 8 << 20)).unwrap();
    fs::create_dir(sandbox.path("full")).unwrap();
    fs::write(sandbox.path("full/letter.txt"), "hello").unwrap();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "import", "pool", "v", "data", "--size", "16M"]);
    let before = sandbox.files("pool");
    let mut text = String::new();
    for line in WRONG {
        let args: Vec<&str> = line.split_whitespace().collect();
        let said = run(&mut sandbox.command(&args));
        assert_eq!(said.code, Some(2), "{line}: {}", said.err);
        assert!(said.out.is_empty(), "{line}: {}", said.text());
        text.extend(["$ onefold ", line, "\n", &said.err, "\n"]);
        assert!(!sandbox.path("new").exists(), "{line} made a pool");
    }
    assert!(before == sandbox.files("pool"), "a refusal changed the pool");
    assert_is_file(&crate_path("tests/it/wrong_arguments.txt"), &text);
}

#[test]
fn help_fits_the_screen_and_names_every_command() {
    let sandbox = Sandbox::new();
    let help = sandbox.ok(&["--help"]);
    for command in ["serve", "estimate", "pool", "volume", "completions", "man"] {
        assert!(help.text().contains(&format!("\n  {command} ")), "{}", help.text());
        let said = sandbox.ok(&[command, "--help"]);
        let long = said.text().lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None);
    }
    assert!(sandbox.ok(&["--version"]).text().starts_with("onefold "));
}

#[test]
fn manual_pages_are_generated() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["man", "pages"]);
    let page = fs::read_to_string(sandbox.path("pages/onefold-volume-import.1")).unwrap();
    assert!(page.contains("stdin"), "{page}");
}

#[test]
fn volumes_come_and_go_and_json_tells_the_same_as_tables() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool", "--chunk-size", "8K", "--compression", "zstd"]);
    for (name, size) in [("one", "1G"), ("two", "1TiB")] {
        sandbox.ok(&["volume", "create", "pool", name, "--size", size]);
    }
    let list = sandbox.ok(&["volume", "list", "pool", "--json"]).json();
    assert_eq!(list["volumes"][1]["size_bytes"], 1u64 << 40);
    let table = sandbox.ok(&["volume", "list", "pool"]);
    assert_eq!(
        table.text(),
        "VOLUME   SIZE  DATA   FULL\none     1 GiB   0 B  0.0 %\ntwo     1 TiB   0 B  0.0 %\n"
    );
    assert!(table.err.contains("0 B of data before reduction"), "{}", table.err);
    sandbox.ok(&["volume", "delete", "pool", "one"]);
    sandbox.ok(&["volume", "resize", "pool", "two", "--size", "2TiB"]);
    let status = sandbox.status("pool");
    assert_eq!(status["schema_version"], 2);
    assert_eq!(status["settings"]["chunk_bytes"], 8192);
    assert_eq!(status["settings"]["compression"], "zstd:3");
    assert_eq!(status["volumes"].as_array().unwrap().len(), 1);
    let page = fs::read_to_string(crate_path("../../docs/json.md")).unwrap();
    let check = sandbox.ok(&["pool", "check", "pool", "--json"]).json();
    for object in [&status, &status["settings"], &status["memory"], &check, &list] {
        for field in object.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{field}`")), "docs/json.md lacks {field}");
        }
    }
}
