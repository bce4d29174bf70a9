//! `onefold archive` in a bucket, on a small server of ours: what people type, and what they are
//! told.
//! Room: onefold.

use std::fs;
use std::process::Command;

use onefold_objects::{Expect, Objects as _};

use super::harness::{Said, Sandbox, noise, run};
use super::s3_server::{Fault, Server};

const STORE: &str = "s3://bucket/store";

/// A tree, and a server without anything.
fn prepared() -> (Sandbox, Server) {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("data/sub/empty")).unwrap();
    fs::write(sandbox.path("data/one"), noise(1, 3_000_000)).unwrap();
    fs::write(sandbox.path("data/sub/text"), "first").unwrap();
    (sandbox, Server::start())
}

fn command(sandbox: &Sandbox, server: &Server, args: &[&str]) -> Command {
    let mut command = sandbox.command(args);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command.env("AWS_ENDPOINT_URL", &server.url).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_ACCESS_KEY_ID", "KEYNAME").env("AWS_SECRET_ACCESS_KEY", "SECRET");
    command
}

fn onefold(sandbox: &Sandbox, server: &Server, args: &[&str]) -> Said {
    run(&mut command(sandbox, server, args))
}

#[track_caller]
fn ok(sandbox: &Sandbox, server: &Server, args: &[&str]) -> Said {
    let said = onefold(sandbox, server, args);
    assert_eq!(said.code, Some(0), "onefold {args:?}: {}", said.err);
    said
}

#[test]
fn an_archive_in_a_bucket_is_one_like_any_other() {
    let (sandbox, server) = prepared();
    ok(&sandbox, &server, &["archive", "create", STORE]);
    ok(&sandbox, &server, &["archive", "add", STORE, "data", "--label", "first"]);
    fs::write(sandbox.path("data/sub/text"), "second").unwrap();
    ok(&sandbox, &server, &["archive", "add", STORE, "data"]);
    let list = ok(&sandbox, &server, &["archive", "list", STORE, "--json"]).json();
    assert_eq!(list["versions"][0]["label"], "first");
    assert_eq!(list["versions"][1]["totals"]["new_bytes"], 6);
    let cat = ok(&sandbox, &server, &["archive", "cat", STORE, "data/sub/text", "--version", "1"]);
    assert_eq!(cat.text(), "first");
    let diff = ok(&sandbox, &server, &["archive", "diff", STORE, "1"]);
    assert_eq!(diff.text(), "M data/sub/text\n");
    ok(&sandbox, &server, &["archive", "restore", STORE, "--target", "out"]);
    assert!(fs::read(sandbox.path("out/data/one")).unwrap() == noise(1, 3_000_000));
    assert!(sandbox.path("out/data/sub/empty").is_dir());
    ok(&sandbox, &server, &["archive", "remove", STORE, "1"]);
    ok(&sandbox, &server, &["archive", "prune", STORE, "--keep-last", "1", "--max-unused", "0"]);
    let verified = ok(&sandbox, &server, &["archive", "verify", STORE, "--json"]).json();
    assert_eq!((&verified["sound"], &verified["versions"]), (&true.into(), &1.into()));
    ok(&sandbox, &server, &["archive", "check", STORE]);
    // Nothing of it is left behind, neither here nor there.
    assert!(!sandbox.path("s3:").exists());
    let contents = server.store.contents();
    assert!(!contents.keys().any(|name| name.contains("locks")), "{:?}", contents.keys());
    // A copy by any tool is an ordinary archive.
    for (name, bytes) in &contents {
        let path = sandbox.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let copy = format!("file://{}", sandbox.text("store"));
    assert_eq!(sandbox.ok(&["archive", "cat", &copy, "data/sub/text"]).text(), "second");
    assert!(sandbox.ok(&["archive", "verify", "store"]).text().contains("is sound"));
}

#[test]
fn an_encrypted_archive_in_a_bucket_shows_nothing_of_what_it_holds() {
    let (sandbox, server) = prepared();
    let key = ["--key-file", "key"];
    ok(&sandbox, &server, &[&["archive", "create", STORE], &key[..]].concat());
    ok(&sandbox, &server, &[&["archive", "add", STORE, "data"], &key[..]].concat());
    let cat = [&["archive", "cat", STORE, "data/sub/text"], &key[..]].concat();
    assert_eq!(ok(&sandbox, &server, &cat).text(), "first");
    let refused = onefold(&sandbox, &server, &["archive", "list", STORE]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("give --key-file FILE"), "{}", refused.err);
    let shown = |bytes: &Vec<u8>| bytes.windows(5).any(|window| window == b"first");
    assert!(!server.store.contents().values().any(shown));
}

#[test]
fn what_cannot_be_is_one_clear_error() {
    let (sandbox, server) = prepared();
    let said = |args: &[&str], code: i32, text: &str| {
        let said = onefold(&sandbox, &server, args);
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        assert!(said.err.contains(text), "{args:?}: {}", said.err);
        assert!(!said.err.contains("KEYNAME") && !said.err.contains("SECRET"), "{}", said.err);
    };
    said(&["archive", "list", STORE], 2, "there is no archive at 's3://bucket/store'");
    said(&["archive", "list", "s3://other/store"], 1, "there is no bucket 'other'");
    said(&["archive", "list", "s3://"], 2, "expected s3://BUCKET or s3://BUCKET/FOLDER");
    let create = ["archive", "create", STORE];
    said(&[&create[..], &["--cache", "fast"]].concat(), 2, "each machine that reads");
    said(&[&create[..], &["--cache", "fast"]].concat(), 2, "by --cache, ONEFOLD_CACHE");
    said(&[&create[..], &["--group", "users"]].concat(), 2, "an object store knows no groups");
    ok(&sandbox, &server, &create);
    said(&create, 2, "it already holds 'archive.");
    server.fail_always(Some(Fault::Answer(403, "SignatureDoesNotMatch")));
    said(&["archive", "list", STORE], 1, "the credentials are not accepted");
    server.fail_always(None);
    let mut without = command(&sandbox, &server, &["archive", "list", STORE]);
    let without = run(without.env_remove("AWS_ACCESS_KEY_ID"));
    assert!(without.err.contains("there are no credentials"), "{}", without.err);
    // The lock of another one.
    let lock = "store/locks/add.0000000000000007";
    server.store.put(lock, b"process 7 on there", &Expect::Nothing).unwrap();
    server.store.pass_s(30);
    said(&["archive", "add", STORE, "data"], 2, "is in use by process 7 on there");
    said(&["archive", "add", STORE, "data"], 2, "ends after five minutes");
    ok(&sandbox, &server, &["archive", "list", STORE]);
    // A look is for all at once, a repair for one.
    ok(&sandbox, &server, &["archive", "check", STORE]);
    said(&["archive", "check", STORE, "--repair"], 2, "is in use by process 7 on there");
    server.store.pass_s(300);
    ok(&sandbox, &server, &["archive", "add", STORE, "data"]);
    // What is damaged is named.
    let container = "store/containers/00000001.container";
    server.store.damage(container, |mut bytes| {
        bytes[200_000] ^= 1;
        Some(bytes)
    });
    let verify = onefold(&sandbox, &server, &["archive", "verify", STORE]);
    assert_eq!(verify.code, Some(1));
    assert!(verify.text().contains("data/one"), "{}", verify.text());
}

#[test]
fn a_warm_cache_before_a_bucket_saves_its_requests_and_its_bytes() {
    let (sandbox, server) = prepared();
    ok(&sandbox, &server, &["archive", "create", STORE]);
    ok(&sandbox, &server, &["archive", "add", STORE, "data"]);
    let with = |args: &[&str]| {
        let mut command = command(&sandbox, &server, args);
        command.env("ONEFOLD_CACHE_SIZE", "64M").env("ONEFOLD_CACHE_POLICY", "lru");
        run(command.args(["--cache", "fast"]))
    };
    let cat = ["archive", "cat", STORE, "data/one"];
    let restore = ["archive", "restore", STORE, "--target", "out", "--overwrite"];
    // One that nobody made may be a device that is not mounted.
    let said = with(&cat);
    assert!(said.code == Some(0) && said.out == noise(1, 3_000_000), "{}", said.err);
    assert!(said.err.contains("read without its cache") && said.err.contains("mkdir fast"));
    assert!(!sandbox.path("fast").exists());
    fs::create_dir(sandbox.path("fast")).unwrap();
    let asked = |args: &[&str]| {
        let before = server.store.log().len();
        let said = with(args);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(!said.err.contains("warning"), "{}", said.err);
        let log = server.store.log();
        let of_containers = log[before..].iter().filter(|line| line.contains(".container"));
        (of_containers.count(), log.len() - before)
    };
    let cold = asked(&restore);
    // What is read in order is kept the second time, and the rest soon.
    let warm = (0..6).map(|_| asked(&restore)).find(|warm| warm.0 == 0).unwrap();
    assert!(cold.0 > 2 && warm.0 == 0 && cold.1 - warm.1 == cold.0, "{cold:?} {warm:?}");
    assert!(fs::read(sandbox.path("out/data/one")).unwrap() == noise(1, 3_000_000));
    assert_eq!(asked(&cat).0, 0);
    let list = ok(&sandbox, &server, &["archive", "list", STORE, "--json", "--cache", "fast"]);
    let cache = &list.json()["cache"];
    assert!(cache["hits"].as_u64() > Some(3) && cache["problem"].is_null(), "{cache}");
    // It is this archive's, and nothing of it is in the bucket.
    ok(&sandbox, &server, &["archive", "create", "s3://bucket/other"]);
    let other = ["archive", "cat", "s3://bucket/other", "data/one"];
    assert!(with(&other).err.contains("it is a cache of something else"));
    assert!(!server.store.contents().keys().any(|name| name.contains("onefold.toml")));
}

#[cfg(feature = "mount")]
#[test]
fn an_archive_in_a_bucket_is_mounted() {
    if !super::mount::can_mount() {
        return;
    }
    let (sandbox, server) = prepared();
    ok(&sandbox, &server, &["archive", "create", STORE]);
    ok(&sandbox, &server, &["archive", "add", STORE, "data"]);
    fs::create_dir(sandbox.path("at")).unwrap();
    let compare = "diff -r data $mount/newest/data";
    ok(&sandbox, &server, &["archive", "mount", STORE, "at", "--run", compare]);
}
