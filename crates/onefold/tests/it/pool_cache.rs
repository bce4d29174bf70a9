//! A pool with a cache on a fast device: the same bytes, and what `status` says of it.
//! Room: onefold.

use std::fs;

use super::harness::{Sandbox, noise};

const SIZE: usize = 24 << 20;

/// A pool with a cache and a volume that holds noise.
fn filled() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("image"), noise(5, SIZE)).unwrap();
    let cache = ["--cache", "ssd", "--cache-size", "64M", "--cache-policy", "lru"];
    let small = ["--container-size", "1M", "--cache-memory", "0"];
    sandbox.ok(&[&["pool", "create", "pool"], &cache[..], &small].concat());
    sandbox.ok(&["volume", "import", "pool", "main", "image"]);
    sandbox
}

/// Serve the pool and read all of it; what the server said.
fn read_all(sandbox: &Sandbox, rounds: usize) -> String {
    let read = "nbdcopy --requests=1 --connections=1 $uri out && cmp out image";
    let command = vec![read; rounds].join(" && ");
    let said = sandbox.onefold(&["serve", "pool", "--run", &command]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    said.err
}

#[test]
fn volumes_are_read_through_the_cache_and_status_tells_of_it() {
    let sandbox = filled();
    let before = sandbox.status("pool");
    assert!(before.get("cache").is_none_or(|cache| cache["reads"] == 0), "nothing was served yet");
    read_all(&sandbox, 2);
    let cache = sandbox.status("pool")["cache"].clone();
    assert_eq!((&cache["policy"], &cache["capacity_bytes"]), (&"lru".into(), &(64 << 20).into()));
    let number = |name: &str| cache[name].as_u64().unwrap();
    assert!(number("written_bytes") >= SIZE as u64, "{cache}");
    assert!(number("hits") * 2 > number("reads"), "{cache}");
    assert_eq!(number("bad_copies") + number("failed_writes"), 0);
    let text = sandbox.ok(&["pool", "status", "pool"]);
    assert!(text.text().contains("CACHE") && text.text().contains("hits by bytes"));
    // Warm after a restart: everything comes from the copies.
    read_all(&sandbox, 1);
    let after = sandbox.status("pool")["cache"].clone();
    assert_eq!(after["written_bytes"], cache["written_bytes"], "nothing is copied again");
    assert!(after["hits"].as_u64() > cache["hits"].as_u64());
    sandbox.check("pool");
}

#[test]
fn a_damaged_or_missing_cache_is_told_of_and_does_no_harm() {
    let sandbox = filled();
    read_all(&sandbox, 1);
    for copy in fs::read_dir(sandbox.path("ssd/copies")).unwrap() {
        let path = copy.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let said = read_all(&sandbox, 1);
    assert!(said.contains("is not used") && said.contains("damaged"), "{said}");
    assert!(sandbox.status("pool")["cache"]["bad_copies"].as_u64() > Some(0));
    fs::remove_dir_all(sandbox.path("ssd")).unwrap();
    let said = read_all(&sandbox, 1);
    assert!(said.contains("the pool works without its cache"), "{said}");
    assert!(!sandbox.path("ssd").exists(), "a device that is not mounted is not made up for");
}

#[test]
fn caches_that_cannot_be_are_refused_before_anything_is_made() {
    let sandbox = Sandbox::new();
    let cases: [(&[&str], &str); 4] = [
        (&["--cache", "pool/inside"], "in one another"),
        (&["--cache", "ssd", "--cache-size", "0%"], "20%"),
        (&["--cache", "ssd", "--cache-policy", "best"], "policy"),
        (&["--cache", "ssd", "--cache-policy", "belady"], "simulations only"),
    ];
    for (args, expected) in cases {
        let said = sandbox.onefold(&[&["pool", "create", "pool"], args].concat());
        assert_eq!(said.code, Some(2), "{args:?}");
        assert!(said.err.contains(expected), "{args:?}: {}", said.err);
        assert!(!sandbox.path("pool").exists(), "{args:?}");
    }
}
