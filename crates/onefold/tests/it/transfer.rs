//! Import and export: sparse, piped, refused before anything is written.
//! Room: onefold.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::process::Stdio;

use super::harness::{Cleanup, Sandbox, assert_same, machine, noise, run, tool};

fn sparse_file(sandbox: &Sandbox, name: &str, size: u64) {
    let file = fs::File::create(sandbox.path(name)).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(&noise(3, 300_000), 5 << 20).unwrap();
    file.write_all_at(b"end", size - 3).unwrap();
}

#[test]
fn a_sparse_file_goes_in_and_comes_out_sparse() {
    let sandbox = Sandbox::new();
    let size = (40 << 20) + 700;
    sparse_file(&sandbox, "in", size);
    sandbox.ok(&["pool", "create", "pool"]);
    let said = sandbox.ok(&["volume", "import", "pool", "v", "in"]);
    assert!(said.err.contains("made volume 'v' of 40.0 MiB"), "{}", said.err);
    sandbox.ok(&["volume", "export", "pool", "v", "out"]);
    let out = fs::metadata(sandbox.path("out")).unwrap();
    assert_eq!(out.len(), size.next_multiple_of(512));
    assert!(out.blocks() * 512 < 2 << 20, "{} bytes allocated", out.blocks() * 512);
    fs::File::options().write(true).open(sandbox.path("out")).unwrap().set_len(size).unwrap();
    assert_same(&sandbox.path("in"), &sandbox.path("out"));
    let status = sandbox.status("pool");
    assert!(status["logical_bytes"].as_u64().unwrap() < 400_000);
}

#[test]
fn pipes_work_both_ways_and_must_fit_where_a_size_is_given() {
    let sandbox = Sandbox::new();
    sparse_file(&sandbox, "in", 8 << 20);
    sandbox.ok(&["pool", "create", "pool"]);
    let import = |more: &[&str]| {
        let args = [&["volume", "import", "pool", "v", "-"], more].concat();
        let file = fs::File::open(sandbox.path("in")).unwrap();
        run(sandbox.command(&args).stdin(Stdio::from(file)))
    };
    assert_eq!(import(&["--size", "4M"]).code, Some(1));
    assert_eq!(sandbox.status("pool")["volumes"], serde_json::json!([]));
    let said = import(&[]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("made volume 'v' of 8 MiB"), "{}", said.err);
    let out = sandbox.ok(&["volume", "export", "pool", "v", "-"]);
    assert!(out.out == fs::read(sandbox.path("in")).unwrap());
    sandbox.ok(&["volume", "resize", "pool", "v", "--size", "4M", "--discard"]);
    let said = import(&[]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("holds more than the 4 MiB of volume 'v'"), "{}", said.err);
    sandbox.check("pool");
}

#[test]
fn what_does_not_fit_or_would_be_overwritten_is_refused_untouched() {
    let sandbox = Sandbox::new();
    sparse_file(&sandbox, "in", 8 << 20);
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "create", "pool", "v", "--size", "4M"]);
    let said = sandbox.onefold(&["volume", "import", "pool", "v", "in"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("'in' has 8 MiB, but volume 'v' has room for 4 MiB"), "{}", said.err);
    assert_eq!(sandbox.status("pool")["logical_bytes"], 0);

    fs::write(sandbox.path("out"), "precious").unwrap();
    let said = sandbox.onefold(&["volume", "export", "pool", "v", "out"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("'out' exists already\nhint: --force"), "{}", said.err);
    assert_eq!(fs::read(sandbox.path("out")).unwrap(), b"precious");
    sandbox.ok(&["volume", "export", "pool", "v", "out", "--force"]);
    assert!(fs::read(sandbox.path("out")).unwrap() == vec![0; 4 << 20]);

    for inside in ["pool/journal", "pool/new", "pool/containers/../super.1", "./pool/x"] {
        let said = sandbox.onefold(&["volume", "export", "pool", "v", inside, "--force"]);
        assert_eq!(said.code, Some(2), "{inside}");
        assert!(said.err.contains("lies in the pool's own folder"), "{}", said.err);
    }
    assert!(!sandbox.path("pool/new").exists());
    sandbox.check("pool");
}

#[test]
fn importing_over_old_data_leaves_none_of_it_in_the_holes() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("old"), noise(9, 8 << 20)).unwrap();
    sparse_file(&sandbox, "in", 8 << 20);
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "import", "pool", "v", "old"]);
    let said = sandbox.ok(&["volume", "import", "pool", "v", "in"]);
    let warned = "volume 'v' holds 8 MiB of data already; its beginning is overwritten";
    assert!(said.err.contains(warned), "{}", said.err);
    sandbox.ok(&["volume", "export", "pool", "v", "out"]);
    assert_same(&sandbox.path("in"), &sandbox.path("out"));
}

#[test]
fn block_devices_are_sources_and_targets() {
    let _machine = machine();
    let sandbox = Sandbox::new();
    sparse_file(&sandbox, "in", 8 << 20);
    fs::write(sandbox.path("disk"), noise(4, 8 << 20)).unwrap();
    sandbox.ok(&["pool", "create", "pool"]);
    let attach = |file: &str| {
        let device = tool("losetup", &["--find", "--show", &sandbox.text(file)]);
        let device = device.text().trim().to_owned();
        let cleanup = Cleanup(["losetup", "-d", &device].map(str::to_owned).to_vec());
        (device, cleanup)
    };
    let (from, _from) = attach("in");
    let (to, _to) = attach("disk");
    sandbox.ok(&["volume", "import", "pool", "v", &from]);
    assert_eq!(sandbox.onefold(&["volume", "export", "pool", "v", &to]).code, Some(2));
    sandbox.ok(&["volume", "export", "pool", "v", &to, "--force"]);
    tool("cmp", &[&from, &to]);
    sandbox.ok(&["volume", "resize", "pool", "v", "--size", "9M"]);
    let said = sandbox.onefold(&["volume", "export", "pool", "v", &to, "--force"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("is 1 MiB smaller than the volume, which has 9 MiB"), "{}", said.err);

    tool("mkfs.ext4", &["-q", "-F", &to]);
    fs::create_dir(sandbox.path("mounted")).unwrap();
    tool("mount", &[&to, &sandbox.text("mounted")]);
    let _mounted = Cleanup(["umount", &sandbox.text("mounted")].map(str::to_owned).to_vec());
    sandbox.ok(&["volume", "resize", "pool", "v", "--size", "4M", "--discard"]);
    let said = sandbox.onefold(&["volume", "export", "pool", "v", &to, "--force"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("busy"), "a mounted device: {}", said.err);
}

#[test]
fn a_pool_on_a_read_only_mount_can_be_read_and_not_changed() {
    let _machine = machine();
    let sandbox = Sandbox::new();
    sparse_file(&sandbox, "in", 8 << 20);
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "import", "pool", "v", "in"]);
    fs::create_dir(sandbox.path("snapshot")).unwrap();
    let snapshot = sandbox.text("snapshot");
    tool("mount", &["--bind", &sandbox.text("pool"), &snapshot]);
    let _mounted = Cleanup(["umount", &snapshot].map(str::to_owned).to_vec());
    tool("mount", &["-o", "remount,ro,bind", &snapshot]);
    sandbox.check("snapshot");
    sandbox.status("snapshot");
    sandbox.ok(&["volume", "export", "snapshot", "v", "out"]);
    assert_same(&sandbox.path("in"), &sandbox.path("out"));
    sandbox.ok(&["serve", "snapshot", "--read-only", "--run", "nbdinfo --size $uri"]);
    for change in [
        &["serve", "snapshot", "--run", "true"][..],
        &["volume", "create", "snapshot", "w", "--size", "1M"],
        &["volume", "import", "snapshot", "v", "in"],
    ] {
        let said = sandbox.onefold(change);
        assert_ne!(said.code, Some(0), "{change:?}");
        assert!(said.err.contains("Read-only file system"), "{}", said.err);
    }
}
