//! An archive with a cache on a fast device: the same files, and what `archive list` says of it.
//! Room: onefold.

use std::fs;

use super::harness::{Sandbox, noise};
use super::small_disk::{can_mount, small_disk};

const SIZE: usize = 8 << 20;

/// An archive with a cache and a version of a tree with one large file.
fn filled() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("data")).unwrap();
    fs::write(sandbox.path("data/large"), noise(5, SIZE)).unwrap();
    fs::write(sandbox.path("data/small"), "a few words").unwrap();
    let cache = ["--cache", "ssd", "--cache-size", "32M", "--cache-policy", "lru"];
    sandbox.ok(&[&["archive", "create", "store"], &cache[..]].concat());
    sandbox.ok(&["archive", "add", "store", "data"]);
    sandbox
}

/// Read the large file through the archive; what was said.
fn read(sandbox: &Sandbox) -> String {
    let said = sandbox.onefold(&["archive", "cat", "store", "data/large"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out == fs::read(sandbox.path("data/large")).unwrap());
    said.err
}

fn cache(sandbox: &Sandbox) -> serde_json::Value {
    sandbox.ok(&["archive", "list", "store", "--json"]).json()["cache"].clone()
}

#[test]
fn files_are_read_through_the_cache_and_the_list_tells_of_it() {
    let sandbox = filled();
    assert!(cache(&sandbox).get("reads").is_none_or(|reads| reads == 0), "nothing was read yet");
    // The first long pass leaves next to nothing, the second is kept.
    for _ in 0..3 {
        read(&sandbox);
    }
    let kept = cache(&sandbox);
    assert_eq!(kept["problem"], serde_json::Value::Null, "{kept}");
    assert!(kept["written_bytes"].as_u64() >= Some(SIZE as u64 * 9 / 10), "{kept}");
    // Every command that reads has it, and what it counted goes on.
    sandbox.ok(&["archive", "restore", "store", "--target", "out"]);
    assert!(fs::read(sandbox.path("out/data/large")).unwrap() == noise(5, SIZE));
    let after = cache(&sandbox);
    let slow = after["slow_bytes"].as_u64().unwrap() - kept["slow_bytes"].as_u64().unwrap();
    assert!(slow < SIZE as u64 / 10, "{slow} bytes from behind it: {after}");
    let text = sandbox.ok(&["archive", "list", "store"]);
    assert!(text.text().contains("CACHE") && text.text().contains("hits by bytes"));
    // What was removed and written anew is not taken for what it was.
    fs::write(sandbox.path("data/large"), noise(6, SIZE)).unwrap();
    sandbox.ok(&["archive", "add", "store", "data"]);
    sandbox.ok(&["archive", "remove", "store", "1"]);
    read(&sandbox);
    read(&sandbox);
    sandbox.ok(&["archive", "verify", "store"]);
}

#[test]
fn a_damaged_foreign_or_missing_cache_leaves_the_archive_as_it_is() {
    let sandbox = filled();
    for _ in 0..3 {
        read(&sandbox);
    }
    let path = sandbox.path("ssd/extents");
    let mut bytes = fs::read(&path).unwrap();
    for at in (3000..bytes.len()).step_by(100_000) {
        bytes[at] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
    assert!(read(&sandbox).contains("is not used: its checksum is wrong"));
    assert!(cache(&sandbox)["bad_extents"].as_u64() > Some(0));
    fs::write(sandbox.path("ssd/cache"), b"1FCACHE\nsomebody else's cache 123").unwrap();
    assert!(read(&sandbox).contains("the archive is read without its cache"));
    assert!(cache(&sandbox)["problem"].as_str().unwrap().contains("something else"));
    fs::remove_dir_all(sandbox.path("ssd")).unwrap();
    assert!(read(&sandbox).contains("the archive is read without its cache"));
    assert!(!sandbox.path("ssd").exists(), "a device that is not mounted is not made up for");
    let text = sandbox.ok(&["archive", "list", "store"]);
    assert!(text.text().contains("not used"), "{}", text.text());
    fs::create_dir(sandbox.path("ssd")).unwrap();
    fs::write(sandbox.path("ssd/letter"), "Dear Ann").unwrap();
    assert!(read(&sandbox).contains("it holds 'letter'; nothing is written into it"));
    assert_eq!(fs::read_dir(sandbox.path("ssd")).unwrap().count(), 1, "and no lock either");
}

#[test]
fn a_full_device_is_told_of_and_the_archive_is_read() {
    if !can_mount("a full device") {
        return;
    }
    let sandbox = filled();
    let _disk = small_disk(&sandbox, 16);
    fs::create_dir(sandbox.path("disk/ssd")).unwrap();
    let args = ["archive", "cat", "store", "data/large", "--cache", "disk/ssd"];
    let said = sandbox.onefold(&args);
    assert!(said.out == fs::read(sandbox.path("data/large")).unwrap(), "{}", said.err);
    let expected = "the cache may keep less than it is to: no space left on the device of ";
    assert!(said.code == Some(0) && said.err.contains(expected), "{}", said.err);
}

#[test]
fn caches_that_an_archive_cannot_have_are_refused_before_anything_is_made() {
    let sandbox = filled();
    fs::write(sandbox.path("secret"), "correct horse").unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["--cache", "new/inside"], "in one another"),
        (&["--cache-size", "10M"], "without a cache"),
        (&["--cache", "fast", "--cache-policy", "belady"], "simulations only"),
        (&["--cache", "fast", "--passphrase-file", "secret"], "an encrypted archive has no cache"),
    ];
    for (args, expected) in cases {
        let said = sandbox.onefold(&[&["archive", "create", "new"], args].concat());
        assert_eq!(said.code, Some(2), "{args:?}");
        assert!(said.err.contains(expected), "{args:?}: {}", said.err);
        assert!(!sandbox.path("new").exists() && !sandbox.path("fast").exists(), "{args:?}");
    }
    // One that is there keeps what was said of its cache.
    let before = sandbox.text("store/onefold.toml");
    let said = sandbox.onefold(&["archive", "create", "store", "--cache", "fast"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert_eq!(sandbox.text("store/onefold.toml"), before);
    assert!(!sandbox.path("fast").exists());
    fs::write(sandbox.path("store/onefold.toml"), "index-memory = \"1G\"\n").unwrap();
    let said = sandbox.onefold(&["archive", "list", "store"]);
    assert!(said.code == Some(2) && said.err.contains("index-memory"), "{}", said.err);
}
