//! `onefold archive`: what people type, and what they are told.
//! Room: onefold.

use std::fs;
use std::os::unix::fs::symlink;

use super::harness::{Sandbox, noise};

/// An archive with two versions of a small tree.
fn two_versions() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("data/sub/empty")).unwrap();
    fs::write(sandbox.path("data/one"), noise(1, 300_000)).unwrap();
    fs::write(sandbox.path("data/sub/text"), "first").unwrap();
    symlink("one", sandbox.path("data/link")).unwrap();
    sandbox.ok(&["archive", "create", "store"]);
    sandbox.ok(&["archive", "add", "store", "data", "--label", "first"]);
    fs::write(sandbox.path("data/sub/text"), "second").unwrap();
    sandbox.ok(&["archive", "add", "store", "data"]);
    sandbox
}

#[test]
fn versions_are_added_listed_read_restored_and_removed() {
    let sandbox = two_versions();
    let list = sandbox.ok(&["archive", "list", "store", "--json"]).json();
    assert_eq!(list["versions"][0]["label"], "first");
    assert_eq!(list["versions"][1]["totals"]["new_bytes"], 6);
    let list = sandbox.ok(&["archive", "list", "store"]);
    assert!(list.text().contains("deduplication 2.000"), "{}", list.text());
    let ls = sandbox.ok(&["archive", "ls", "store"]);
    let expected = "data\ndata/link\ndata/one\ndata/sub\ndata/sub/empty\ndata/sub/text\n";
    assert_eq!(ls.text(), expected);
    let ls = sandbox.ok(&["archive", "ls", "store", "data/sub", "-l"]);
    assert!(ls.text().starts_with("drwx") && ls.text().lines().count() == 3, "{}", ls.text());
    let cat = sandbox.ok(&["archive", "cat", "store", "/data/sub/text", "--version", "1"]);
    assert_eq!(cat.text(), "first");
    assert_eq!(sandbox.ok(&["archive", "cat", "store", "data/sub/text"]).text(), "second");
    sandbox.ok(&["archive", "restore", "store", "--target", "out"]);
    let same = std::process::Command::new("diff")
        .args(["-r", "--no-dereference"])
        .args([sandbox.path("data"), sandbox.path("out/data")])
        .status();
    assert!(same.unwrap().success());
    assert!(sandbox.path("out/data/sub/empty").is_dir());
    let verified = sandbox.ok(&["archive", "verify", "store", "--json"]).json();
    assert_eq!((&verified["sound"], &verified["versions"]), (&true.into(), &2.into()));
    sandbox.ok(&["archive", "remove", "store", "1"]);
    let gone = sandbox.onefold(&["archive", "cat", "store", "data/one", "--version", "1"]);
    assert_eq!(gone.code, Some(2));
    assert!(gone.err.contains("there are: 2"), "{}", gone.err);
}

#[test]
fn two_versions_are_compared() {
    let sandbox = two_versions();
    fs::remove_file(sandbox.path("data/one")).unwrap();
    fs::write(sandbox.path("data/more"), "bytes").unwrap();
    sandbox.ok(&["archive", "add", "store", "data"]);
    let said = sandbox.ok(&["archive", "diff", "store", "1"]);
    assert_eq!(said.text(), "+ data/more\n- data/one\nM data/sub/text\n");
    let sums = "from version 1 to 3: 1 (5 B) added, 1 (293 KiB) removed, 1 (6 B) changed";
    assert!(said.err.contains(sums), "{}", said.err);
    let said = sandbox.ok(&["archive", "diff", "store", "1", "2", "data/sub", "--json"]);
    assert_eq!(said.json()["change"], "content");
    assert_eq!((&said.json()["old_bytes"], &said.json()["new_bytes"]), (&5.into(), &6.into()));
    // The folder's time changed with what is in it.
    let said = sandbox.ok(&["archive", "diff", "store", "2", "3", "--metadata"]);
    assert!(said.text().starts_with("U data\n"), "{}", said.text());
    let said = sandbox.onefold(&["archive", "diff", "store", "1", "9"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("there are: 1, 2, 3"), "{}", said.err);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let sandbox = two_versions();
    let through = ["create", "new", "--cache", "fast", "--cache-mode", "write-through"];
    let cases: [(&[&str], &str); 10] = [
        (&through, "additions to an archive go past its cache"),
        (&["create", "store"], "already holds"),
        (&["create", "new", "--chunk-size", "3K"], "power of two"),
        (&["create", "new", "--container-size", "64M"], "128K to 16M"),
        (&["add", "nowhere", "data"], "there is no archive at 'nowhere'"),
        (&["add", "store", "missing"], "missing"),
        (&["add", "store", "data", "data/sub"], "inside the other"),
        (&["cat", "store", "data/sub"], "is a directory"),
        (&["ls", "store", "nothing"], "holds no 'nothing'"),
        (&["restore", "store", "--target", "data"], "not empty"),
    ];
    for (args, expected) in cases {
        let said = sandbox.onefold(&[&["archive"], args].concat());
        assert_eq!((said.code, said.text()), (Some(2), ""), "{args:?}");
        assert!(said.err.contains(expected), "{args:?}: {}", said.err);
    }
    assert!(!sandbox.path("new").exists());
    let list = sandbox.ok(&["archive", "list", "store", "--json"]).json();
    assert_eq!(list["versions"].as_array().unwrap().len(), 2, "nothing was added");
}

#[test]
fn damage_is_named_and_the_rest_is_restored() {
    let sandbox = two_versions();
    let container = sandbox.path("store/containers/00000001.container");
    let mut bytes = fs::read(&container).unwrap();
    bytes[150_000] ^= 1;
    fs::write(&container, bytes).unwrap();
    let verified = sandbox.onefold(&["archive", "verify", "store"]);
    assert_eq!(verified.code, Some(1));
    for expected in ["container 1", "'data/one' of version 1", "'data/one' of version 2"] {
        assert!(verified.text().contains(expected), "{}", verified.text());
    }
    let restored = sandbox.onefold(&["archive", "restore", "store", "--target", "out"]);
    assert_eq!(restored.code, Some(1));
    assert!(restored.err.contains("'data/one'"), "{}", restored.err);
    assert!(!sandbox.path("out/data/one").exists());
    assert_eq!(fs::read(sandbox.path("out/data/sub/text")).unwrap(), b"second");
    let cat = sandbox.onefold(&["archive", "cat", "store", "data/one"]);
    assert_eq!(cat.code, Some(1));
}

#[test]
fn an_archive_that_lost_its_log_or_settings_is_refused_and_repaired() {
    for lost in [["log.0", "log.1"], ["archive.0", "archive.1"]] {
        let sandbox = two_versions();
        let list = sandbox.ok(&["archive", "list", "store"]).text().to_owned();
        for name in lost {
            fs::remove_file(sandbox.path("store").join(name)).unwrap();
        }
        for args in [&["verify", "store"][..], &["add", "store", "data"], &["check", "store"]] {
            let said = sandbox.onefold(&[&["archive"], args].concat());
            assert_eq!(said.code, Some(1), "{lost:?}, {args:?}: {}", said.err);
            let named = format!("{}{}", said.text(), said.err);
            assert!(
                named.contains("missing") && named.contains("onefold archive check"),
                "{named}"
            );
        }
        let made = sandbox.onefold(&["archive", "create", "store"]);
        assert_eq!(made.code, Some(2), "{lost:?}: {}", made.err);
        assert!(made.err.contains("already holds"), "{}", made.err);
        let told = sandbox.onefold(&["archive", "check", "store", "--dry-run", "--json"]).json();
        assert_eq!((&told["sound"], &told["repaired"]), (&false.into(), &false.into()));
        let done = sandbox.ok(&["archive", "check", "store", "--repair", "--json"]).json();
        assert_eq!((&done["steps"], &done["repaired"]), (&told["steps"], &true.into()));
        assert!(sandbox.ok(&["archive", "check", "store"]).text().contains("is well"));
        assert_eq!(sandbox.ok(&["archive", "list", "store"]).text(), list);
        sandbox.ok(&["archive", "verify", "store"]);
        let cat = sandbox.ok(&["archive", "cat", "store", "data/sub/text", "--version", "1"]);
        assert_eq!(cat.text(), "first");
    }
}

#[test]
fn nothing_is_no_version_unless_it_is_asked_for() {
    let sandbox = two_versions();
    fs::create_dir_all(sandbox.path("empty/folder")).unwrap();
    let refused = sandbox.onefold(&["archive", "add", "store", "empty"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("--allow-empty"), "{}", refused.err);
    let list = sandbox.ok(&["archive", "list", "store", "--json"]).json();
    assert_eq!(list["versions"].as_array().unwrap().len(), 2, "nothing was added");
    assert!(!sandbox.path("store/pending").exists() && sandbox.path("store/versions").exists());
    assert_eq!(fs::read_dir(sandbox.path("store/versions")).unwrap().count(), 2);
    sandbox.ok(&["archive", "add", "store", "empty", "--allow-empty"]);
    assert_eq!(sandbox.ok(&["archive", "ls", "store"]).text(), "empty\nempty/folder\n");
}

#[test]
fn space_comes_back_by_rule_and_by_number() {
    let sandbox = two_versions();
    let stored = |sandbox: &Sandbox| -> u64 {
        let containers = fs::read_dir(sandbox.path("store/containers")).unwrap();
        containers.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    // 300,000 bytes that only this version has, in one file with what stays.
    fs::write(sandbox.path("data/two"), noise(2, 300_000)).unwrap();
    sandbox.ok(&["archive", "add", "store", "data"]);
    let full = stored(&sandbox);
    fs::remove_file(sandbox.path("data/two")).unwrap();
    fs::write(sandbox.path("data/sub/text"), "third").unwrap();
    sandbox.ok(&["archive", "add", "store", "data"]);
    let told = sandbox.ok(&["archive", "prune", "store", "--keep-last", "1", "--dry-run"]);
    assert_eq!(told.text().matches("remove version").count(), 3, "{}", told.text());
    assert!(told.text().contains("keep (last) version 4"), "{}", told.text());
    assert!(stored(&sandbox) >= full, "a dry run changes nothing");
    sandbox.ok(&["archive", "remove", "store", "3"]);
    assert!(stored(&sandbox) < full - 250_000, "{} of {full}", stored(&sandbox));
    sandbox.ok(&["archive", "prune", "store", "--keep-last", "1"]);
    let list = sandbox.ok(&["archive", "list", "store", "--json"]).json();
    assert_eq!(list["versions"][0]["version"], 4);
    assert_eq!(list["versions"].as_array().unwrap().len(), 1);
    sandbox.ok(&["archive", "verify", "store"]);
    assert_eq!(sandbox.ok(&["archive", "cat", "store", "data/sub/text"]).text(), "third");
    let told = sandbox.ok(&["archive", "prune", "store", "--keep-within", "1h", "--json"]).json();
    assert_eq!(told["versions"][0]["rules"], serde_json::json!(["within"]));
    assert_eq!((&told["dry_run"], &told["containers"]), (&false.into(), &0.into()));
    for bad in ["1", "h", "-1h", "1.5d", "1\u{e9}"] {
        let refused = sandbox.onefold(&["archive", "prune", "store", "--keep-within", bad]);
        assert_eq!(refused.code, Some(2), "{bad}");
    }
    let all = sandbox.ok(&["archive", "prune", "store"]);
    assert!(all.err.contains("removed 0 versions"), "{}", all.err);
    let gone = sandbox.onefold(&["archive", "remove", "store", "9"]);
    assert_eq!(gone.code, Some(2), "{}", gone.err);
}

#[test]
fn patterns_of_a_file_and_caches_are_left_out() {
    let sandbox = two_versions();
    fs::write(sandbox.path("data/a.o"), "x").unwrap();
    fs::create_dir(sandbox.path("data/cache")).unwrap();
    let tag = "Signature: 8a477f597d28d172789f06886806bc55";
    fs::write(sandbox.path("data/cache/CACHEDIR.TAG"), tag).unwrap();
    fs::write(sandbox.path("data/cache/big"), "x").unwrap();
    fs::write(sandbox.path("patterns"), "# objects\n*.o\n\ndata/{one,sub}\n").unwrap();
    let add = ["archive", "add", "store", "data", "--exclude-from", "patterns"];
    sandbox.ok(&[&add[..], &["--exclude-caches", "--exclude", "li*"]].concat());
    let ls = sandbox.ok(&["archive", "ls", "store"]);
    assert_eq!(ls.text(), "data\ndata/cache\ndata/cache/CACHEDIR.TAG\n");
    let versions = sandbox.ok(&["archive", "list", "store", "--json"]).json()["versions"].clone();
    for wrong in [["--exclude", "a["], ["--exclude-from", "nowhere"]] {
        let refused = sandbox.onefold(&[&["archive", "add", "store", "data"], &wrong[..]].concat());
        assert_eq!(refused.code, Some(2), "{wrong:?}: {}", refused.err);
        assert!(refused.err.contains(wrong[1]), "{}", refused.err);
    }
    let now = sandbox.ok(&["archive", "list", "store", "--json"]).json()["versions"].clone();
    assert_eq!(now, versions, "nothing was added");
}

#[test]
fn an_encrypted_archive_is_opened_by_its_secret_alone() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("data")).unwrap();
    fs::write(sandbox.path("data/a name that tells"), noise(3, 100_000)).unwrap();
    fs::write(sandbox.path("first"), "correct horse\nand no more\n").unwrap();
    fs::write(sandbox.path("second"), "battery staple").unwrap();
    let first = ["--passphrase-file", "first"];
    let archive =
        |args: &[&str], key: &[&str]| sandbox.onefold(&[&["archive"], args, key].concat());
    let done = |args: &[&str], key: &[&str]| {
        let said = archive(args, key);
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.err);
        said
    };
    fs::write(sandbox.path("short"), [7; 31]).unwrap();
    fs::write(sandbox.path("empty"), "\n").unwrap();
    for (key, told) in [
        (["--key-file", "short"], "a key file has 32 bytes to 1 MiB, not 31"),
        (["--passphrase-file", "empty"], "the passphrase is empty"),
        (
            ["--key-file", "none/key"],
            "cannot write 'none/key': No such file or directory (os error 2)\n",
        ),
    ] {
        let said = archive(&["create", "store"], &key);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains(told), "{}", said.err);
        assert!(!sandbox.path("store").exists(), "nothing is left behind");
    }
    assert!(done(&["create", "store"], &first).err.contains("a passphrase opens it"));
    done(&["add", "store", "data"], &first);
    assert!(done(&["ls", "store"], &first).text().contains("a name that tells"));
    for (key, told) in [
        (&["--passphrase-file", "second"][..], "not the one"),
        (&["--key-file", "first"], "a passphrase opens it"),
        (&[], "--passphrase-file"),
    ] {
        let said = archive(&["list", "store"], key);
        assert_eq!(said.code, Some(2), "{key:?}: {}", said.err);
        assert!(said.err.contains(told), "{key:?}: {}", said.err);
    }
    done(&["key", "store", "--new-key-file", "key"], &first);
    assert_eq!(archive(&["list", "store"], &first).code, Some(2), "the old one opens it no more");
    let key = ["--key-file", "key"];
    done(&["restore", "store", "--target", "out"], &key);
    let name = "data/a name that tells";
    let restored = fs::read(sandbox.path("out").join(name)).unwrap();
    assert!(restored == fs::read(sandbox.path(name)).unwrap());
    assert!(done(&["cat", "store", name], &key).out == restored);
    assert!(done(&["trace", "store", "--reads", "5"], &key).text().lines().count() > 5);
    for lost in ["archive.0", "archive.1"] {
        fs::remove_file(sandbox.path("store").join(lost)).unwrap();
    }
    // What the versions' files know is what opened the archive when they were written.
    assert_eq!(archive(&["check", "store", "--repair"], &key).code, Some(2));
    done(&["check", "store", "--repair"], &first);
    done(&["verify", "store"], &first);
    assert_eq!(archive(&["create", "other", "--encrypt"], &[]).code, Some(2), "nobody to ask");
    let plain = sandbox.ok(&["archive", "create", "plain"]);
    assert!(!plain.err.contains("encrypted"), "{}", plain.err);
    assert_eq!(archive(&["key", "plain", "--new-key-file", "key"], &[]).code, Some(2));
}

#[test]
fn a_trace_is_one_that_other_commands_read() {
    let sandbox = two_versions();
    let args = ["archive", "trace", "store", "--zipf", "0.47", "--reads", "50"];
    let trace = sandbox.ok(&args);
    let lines: Vec<&str> = trace.text().lines().collect();
    assert_eq!(lines[0], "time_ns,op,offset,length,identity,stream,pid,deduplicate");
    assert!(lines.len() > 50 && lines[1].contains(",read,"), "{}", lines[1]);
    assert_eq!(sandbox.ok(&args).text(), trace.text(), "the same seed, the same trace");
    let other = sandbox.ok(&[&args[..], &["--seed", "2"]].concat());
    assert_ne!(other.text(), trace.text());
}
