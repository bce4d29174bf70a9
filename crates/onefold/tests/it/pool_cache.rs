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
    assert_eq!(before["cache"]["problem"], serde_json::Value::Null);
    assert!(before["cache"].get("reads").is_none_or(|reads| reads == 0), "nothing was served yet");
    // The first long pass leaves next to nothing, the second is kept.
    read_all(&sandbox, 1);
    let once = sandbox.status("pool")["cache"].clone();
    assert!(once["admitted_bytes"].as_u64().unwrap() < 2 << 20, "{once}");
    read_all(&sandbox, 2);
    let cache = sandbox.status("pool")["cache"].clone();
    assert_eq!((&cache["policy"], &cache["capacity_bytes"]), (&"lru".into(), &(64 << 20).into()));
    let number = |name: &str| cache[name].as_u64().unwrap();
    assert!(number("written_bytes") >= SIZE as u64 * 9 / 10, "{cache}");
    assert!(number("hit_bytes") * 4 > number("read_bytes"), "{cache}");
    assert!(sandbox.path("ssd/lock").exists(), "who has it is told by the file");
    assert_eq!(number("bad_extents") + number("failed_writes") + number("torn_segments"), 0);
    let text = sandbox.ok(&["pool", "status", "pool"]);
    assert!(text.text().contains("CACHE") && text.text().contains("hits by bytes"));
    // Warm after a restart: nearly everything comes from the fast device.
    read_all(&sandbox, 1);
    let after = sandbox.status("pool")["cache"].clone();
    let slow = after["slow_bytes"].as_u64().unwrap() - number("slow_bytes");
    assert!(slow < SIZE as u64 / 20, "{slow} bytes of the pool: {after}");
    sandbox.check("pool");
}

#[test]
fn a_budget_of_wear_is_kept_and_told_of_with_the_years_that_it_gives() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("image"), noise(5, SIZE)).unwrap();
    let cache = ["--cache", "ssd", "--cache-size", "32M", "--cache-policy", "lru"];
    let wear = ["--cache-writes-per-day", "0.3", "--cache-endurance", "35G"];
    let small = ["--container-size", "1M", "--cache-memory", "0"];
    sandbox.ok(&[&["pool", "create", "pool"], &cache[..], &wear, &small].concat());
    sandbox.ok(&["volume", "import", "pool", "main", "image"]);
    read_all(&sandbox, 3);
    let cache = sandbox.status("pool")["cache"].clone();
    let number = |name: &str| cache[name].as_u64().unwrap();
    assert_eq!(number("writes_per_day_bytes"), (32 << 20) * 3 / 10);
    // A sixth of it in the first hour; the test may run over the border of two.
    assert!(number("written_bytes") > 1 << 20, "{cache}");
    assert!(number("written_bytes") <= (32 << 20) / 10, "{cache}");
    assert!((cache["years"].as_f64().unwrap() - 10.2).abs() < 0.1, "{cache}");
    let text = sandbox.ok(&["pool", "status", "pool"]);
    assert!(text.text().contains("a day; the device lasts 10.2 years"), "{}", text.text());
}

#[test]
fn new_data_is_kept_at_once_if_that_is_asked_for() {
    for (mode, kept) in [("write-around", false), ("write-through", true)] {
        let sandbox = Sandbox::new();
        let cache = ["--cache", "ssd", "--cache-size", "32M", "--cache-mode", mode];
        let small = ["--container-size", "1M", "--cache-memory", "0"];
        sandbox.ok(&[&["pool", "create", "pool"], &cache[..], &small].concat());
        fs::write(sandbox.path("image"), noise(5, SIZE)).unwrap();
        let copy = "nbdcopy image \"$uri\" && nbdcopy \"$uri\" copy && cmp image copy";
        sandbox.ok(&["volume", "create", "pool", "main", "--size", "24M"]);
        sandbox.ok(&["serve", "pool", "--run", copy]);
        let cache = sandbox.status("pool")["cache"].clone();
        let number = |name: &str| cache[name].as_u64().unwrap();
        assert_eq!(number("new_bytes") > SIZE as u64 / 2, kept, "{mode}: {cache}");
        assert_eq!(number("hit_bytes") > SIZE as u64 / 2, kept, "{mode}: {cache}");
        let text = sandbox.ok(&["pool", "status", "pool"]);
        assert_eq!(text.text().contains("of new data"), kept, "{}", text.text());
    }
}

#[test]
fn a_damaged_foreign_or_missing_cache_is_told_of_and_does_no_harm() {
    let sandbox = filled();
    read_all(&sandbox, 2);
    let path = sandbox.path("ssd/extents");
    let mut bytes = fs::read(&path).unwrap();
    for at in (3000..bytes.len()).step_by(100_000) {
        bytes[at] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
    let said = read_all(&sandbox, 1);
    assert!(said.contains("is not used: its checksum is wrong"), "{said}");
    let cache = sandbox.status("pool")["cache"].clone();
    assert!(cache["bad_extents"].as_u64() > Some(0), "{cache}");
    assert!(cache["problem"].as_str().unwrap().contains("container"), "{cache}");
    // Another pool's cache in its place, then none at all.
    fs::write(sandbox.path("ssd/cache"), b"1FCACHE\nsomebody else's cache 123").unwrap();
    let said = read_all(&sandbox, 1);
    assert!(said.contains("the pool works without its cache"), "{said}");
    let cache = sandbox.status("pool")["cache"].clone();
    assert!(cache["problem"].as_str().unwrap().contains("something else"), "{cache}");
    fs::remove_dir_all(sandbox.path("ssd")).unwrap();
    let said = read_all(&sandbox, 1);
    assert!(said.contains("the pool works without its cache"), "{said}");
    assert!(!sandbox.path("ssd").exists(), "a device that is not mounted is not made up for");
    let text = sandbox.ok(&["pool", "status", "pool"]);
    assert!(text.text().contains("not used"), "{}", text.text());
    assert!(sandbox.status("pool")["cache"]["problem"].as_str().is_some());
}

#[test]
fn caches_that_cannot_be_are_refused_before_anything_is_made() {
    let sandbox = Sandbox::new();
    // What is another program's, and what is another pool's.
    for taken in ["taken/letter", "used/extents"] {
        fs::create_dir(sandbox.path(taken).parent().unwrap()).unwrap();
        fs::write(sandbox.path(taken), "Dear Ann").unwrap();
    }
    let cases: [(&[&str], &str); 8] = [
        (&["--cache", "taken"], "'taken': cache folder: it holds 'letter'; nothing is written"),
        (&["--cache", "used"], "'used': cache folder: it is a cache of something else"),
        (&["--cache", "pool/inside"], "in one another"),
        (&["--cache", "ssd", "--cache-size", "0%"], "20%"),
        (&["--cache", "ssd", "--cache-writes-per-day", "0"], "such as 0.3"),
        (&["--cache-writes-per-day", "0.3"], "without a cache"),
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

/// What the replay says is what a cache that was there did.
#[cfg(feature = "models")]
#[test]
fn advice_counts_what_a_cache_would_have_done_with_the_recorded_reads() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("image"), noise(5, SIZE)).unwrap();
    let cache = ["--cache", "ssd", "--cache-size", "6M", "--cache-policy", "toll"];
    let small = ["--container-size", "1M", "--cache-memory", "0"];
    sandbox.ok(&[&["pool", "create", "pool"], &cache[..], &small].concat());
    sandbox.ok(&["volume", "import", "pool", "main", "image"]);
    let read = "fio --name=a --ioengine=nbd --uri=$uri --rw=randread --bs=64k --size=24M \
                --io_size=48M --random_distribution=zipf:1.1 --iodepth=1 --output=fio.txt";
    let said = sandbox.onefold(&["serve", "pool", "--record", "reads.rec", "--run", read]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let real = sandbox.status("pool")["cache"].clone();
    let advise = ["cache", "advise", "pool", "--trace", "reads.rec", "--cache-size", "6M"];
    let said = sandbox.ok(&[&advise[..], &["--json"]].concat());
    let advice: serde_json::Value = serde_json::from_str(said.text()).unwrap();
    assert_eq!((&advice["reads"], &advice["skipped"]), (&real["reads"], &0.into()));
    let rows = advice["policies"].as_array().unwrap();
    assert_eq!(rows.len(), 17, "every policy that needs no future");
    let toll = rows.iter().find(|row| row["policy"] == "toll").unwrap();
    let hits = toll["hits"].as_f64().unwrap() * real["reads"].as_f64().unwrap();
    assert_eq!(hits.round() as u64, real["hits"].as_u64().unwrap(), "{toll}\n{real}");
    let bytes = toll["hit_bytes"].as_f64().unwrap() * real["read_bytes"].as_f64().unwrap();
    assert!((bytes - real["hit_bytes"].as_f64().unwrap()).abs() < 2.0, "{toll}\n{real}");
    assert!(hits > 50.0);
    // For people, two policies of their choice.
    let chosen = ["--policy", "lru", "--policy", "larc", "--endurance", "10G"];
    let text = sandbox.ok(&[&advise[..], &chosen].concat());
    assert!(text.text().contains("lru ") && text.text().contains("larc"), "{}", text.text());
    assert!(!text.text().contains("left out"), "{}", text.text());
    let refused = sandbox.onefold(&[&advise[..], &["--policy", "lri"]].concat());
    assert!(
        refused.code == Some(2) && refused.err.contains("did you mean `lru`"),
        "{}",
        refused.err
    );
}
