//! What a pool stores twice is found: by the command, and by an idle server.
//! Room: onefold.

use std::path::Path;
use std::time::{Duration, Instant};

use onefold_block::{BlockDevice as _, ByteSize};
use onefold_pool::{OpenOptions, Pool};

use super::harness::{Sandbox, nbdsh, noise, run};

const BLOCKS: u64 = 2000;

/// Write the same blocks once more, to a pool whose index knows nothing of the first time.
fn write_unseen(pool: &Path, at: u64) {
    let pool = Pool::open_at(pool, &OpenOptions::default()).unwrap();
    pool.fill_index_beside();
    let volume = match pool.volume("main") {
        Ok(volume) => volume,
        Err(_) => pool.create_volume("main", ByteSize(1 << 30)).unwrap(),
    };
    for block in 0..BLOCKS {
        volume.write_at((at + block) * 4096, &noise(block, 4096), false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
}

fn stored_twice(sandbox: &Sandbox) {
    sandbox.ok(&["pool", "create", &sandbox.text("pool")]);
    write_unseen(&sandbox.path("pool"), 0);
    write_unseen(&sandbox.path("pool"), 10_000);
}

#[test]
fn a_command_finds_what_is_stored_twice_and_reclaim_gives_it_back() {
    let sandbox = Sandbox::new();
    stored_twice(&sandbox);
    let before = sandbox.status("pool");
    assert_eq!(before["deduplication"]["uncompared_new"], 2 * BLOCKS);
    assert_eq!(before["dedup_ratio"], 1.0);
    let status = sandbox.ok(&["pool", "status", &sandbox.text("pool")]);
    let expected = "to compare: new   4,000  not sorted into any run yet";
    assert!(status.text().contains(expected), "{}", status.text());
    let said = sandbox.ok(&["pool", "deduplicate", &sandbox.text("pool")]);
    let expected = "2,000 blocks were stored more than once: 7.81 MiB; won ";
    assert!(said.err.contains(expected), "{}{}", said.text(), said.err);
    let after = sandbox.status("pool");
    assert_eq!(after["dedup_ratio"], 2.0);
    let dedup = &after["deduplication"];
    assert_eq!((&dedup["uncompared_new"], &dedup["runs"]), (&0.into(), &1.into()), "{dedup}");
    sandbox.ok(&["pool", "reclaim", &sandbox.text("pool")]);
    let reclaimed = sandbox.status("pool");
    let (was, is) = (&before["stored_bytes"], &reclaimed["stored_bytes"]);
    assert!(is.as_u64().unwrap() < was.as_u64().unwrap() * 6 / 10, "{was} before, {is} after");
    let again = sandbox.ok(&["pool", "deduplicate", &sandbox.text("pool")]);
    assert!(again.err.contains("nothing is stored more than once"), "{}", again.err);
    sandbox.check("pool");
}

#[test]
fn an_idle_server_finds_what_is_stored_twice() {
    let sandbox = Sandbox::new();
    stored_twice(&sandbox);
    let server = sandbox.serve("pool", &[]);
    let until = Instant::now() + Duration::from_mins(1);
    let runs = sandbox.path("pool").join("fingerprints");
    // One run, and nothing of one that is being written.
    while std::fs::read_dir(&runs).unwrap().count() == 0 {
        assert!(Instant::now() < until, "nothing was done in the background");
        std::thread::sleep(Duration::from_millis(50));
    }
    let script = "
for block in (0, 1, 1999):
    assert h.pread(4096, block * 4096) == h.pread(4096, (10000 + block) * 4096)
";
    let said = run(&mut nbdsh(&["-u", &server.uri("main"), "-c", script]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    server.stop();
    // It is stopped between two steps: what is left is little.
    sandbox.ok(&["pool", "deduplicate", &sandbox.text("pool")]);
    assert_eq!(sandbox.status("pool")["dedup_ratio"], 2.0);
    sandbox.check("pool");
}
