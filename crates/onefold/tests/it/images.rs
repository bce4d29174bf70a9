//! Disk images as sources: what is inside is imported and estimated, the rest refused by name.
//! Room: onefold.

use std::fs;

use super::harness::{ONEFOLD, Sandbox, assert_same, noise, tool};

/// A disk with noise, text and nothing, as `raw`, and the same in images.
fn disks(sandbox: &Sandbox) {
    let mut disk = noise(3, 1 << 20);
    disk.extend(b"onefold ".repeat(1 << 17));
    disk.extend(&disk.clone()[..1 << 20]);
    disk.resize(6 << 20, 0);
    fs::write(sandbox.path("raw"), &disk).unwrap();
    let raw = sandbox.text("raw");
    for (name, args) in [
        ("plain.qcow2", &["-O", "qcow2"][..]),
        ("small.qcow2", &["-O", "qcow2", "-c", "-o", "compression_type=zstd"]),
        ("x.vmdk", &["-O", "vmdk"]),
        ("x.vhdx", &["-O", "vhdx"]),
        ("x.vdi", &["-O", "vdi"]),
    ] {
        let name = sandbox.text(name);
        tool("qemu-img", &[&["convert", "-f", "raw"], args, &[&raw, &name]].concat());
    }
    for (name, line) in [
        ("raw.gz", "gzip -1 < raw > raw.gz"),
        ("raw.zst", "zstd -q -1 < raw > raw.zst"),
        ("raw.xz", "xz -0 < raw > raw.xz"),
        ("raw.bz2", "echo | bzip2 > raw.bz2"),
        ("deep.gz", "gzip -1 < plain.qcow2 > deep.gz"),
    ] {
        let line = format!("cd '{}' && {line}", sandbox.text("."));
        tool("sh", &["-c", &line]);
        assert!(sandbox.path(name).exists());
    }
}

#[test]
fn the_disk_inside_is_imported_and_not_the_image() {
    let sandbox = Sandbox::new();
    disks(&sandbox);
    sandbox.ok(&["pool", "create", "pool"]);
    for (number, file) in
        ["raw", "plain.qcow2", "small.qcow2", "raw.gz", "raw.zst"].into_iter().enumerate()
    {
        let name = format!("v{number}");
        let said = sandbox.ok(&["volume", "import", "pool", &name, file]);
        assert!(said.err.contains(&format!("made volume '{name}' of 6 MiB")), "{}", said.err);
        sandbox.ok(&["volume", "export", "pool", &name, "out", "--force"]);
        assert_same(&sandbox.path("raw"), &sandbox.path("out"));
    }
    let status = sandbox.status("pool");
    assert!(status["stored_bytes"].as_u64().unwrap() < 2 << 20, "they are equal: {status}");
    let line = "cat raw.gz | \"$0\" volume import pool piped -";
    let line = format!("cd '{}' && {line}", sandbox.text("."));
    tool("sh", &["-c", &line, ONEFOLD]);
    sandbox.ok(&["volume", "export", "pool", "piped", "out", "--force"]);
    assert_same(&sandbox.path("raw"), &sandbox.path("out"));

    sandbox.ok(&["volume", "import", "pool", "bytes", "small.qcow2", "--format", "raw"]);
    sandbox.ok(&["volume", "export", "pool", "bytes", "out", "--force"]);
    let (image, out) = ("small.qcow2", fs::read(sandbox.path("out")).unwrap());
    assert!(out.starts_with(&fs::read(sandbox.path(image)).unwrap()));
}

#[test]
fn other_images_and_damaged_ones_are_refused_by_name() {
    let sandbox = Sandbox::new();
    disks(&sandbox);
    let over = sandbox.text("over.qcow2");
    let base = sandbox.text("plain.qcow2");
    tool("qemu-img", &["create", "-q", "-f", "qcow2", "-b", &base, "-F", "qcow2", &over]);
    sandbox.ok(&["pool", "create", "pool"]);
    for (file, told, hint) in [
        ("x.vmdk", "a VMDK image", "qemu-img convert -O raw x.vmdk disk.raw"),
        ("x.vhdx", "a VHDX image", "qemu-img convert"),
        ("x.vdi", "a VDI image", "qemu-img convert"),
        ("over.qcow2", "differs from its backing file", "qemu-img convert"),
        ("raw.xz", "compressed with xz", "xz -d"),
        ("raw.bz2", "compressed with bzip2", "bzip2 -d"),
        ("deep.gz", "what is inside is a qcow2 image", "gzip -d"),
    ] {
        for args in [&["volume", "import", "pool", "v", file][..], &["estimate", file]] {
            let said = sandbox.onefold(args);
            assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
            assert!(said.err.contains(told) && said.err.contains(hint), "{}", said.err);
            assert!(said.err.contains("--format raw"), "{}", said.err);
        }
    }
    let said = sandbox.onefold(&["volume", "import", "pool", "v", "raw", "--format", "qcow2"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("it is not a qcow2 image but raw bytes"), "{}", said.err);

    for (file, part) in [("raw.gz", 300_000), ("raw.zst", 300_000), ("plain.qcow2", 500_000)] {
        let bytes = fs::read(sandbox.path(file)).unwrap();
        fs::write(sandbox.path("cut"), &bytes[..part]).unwrap();
        let said = sandbox.onefold(&["volume", "import", "pool", "v", "cut"]);
        assert_eq!(said.code, Some(1), "{file}: {}", said.err);
        assert!(said.err.contains("volume 'v' was not made"), "{file}: {}", said.err);
        assert_ne!(sandbox.onefold(&["estimate", "cut"]).code, Some(0), "{file}");
    }
    assert_eq!(sandbox.status("pool")["volumes"], serde_json::json!([]));
}

#[test]
fn estimates_are_about_the_disk_inside() {
    let sandbox = Sandbox::new();
    disks(&sandbox);
    fs::create_dir(sandbox.path("tree")).unwrap();
    fs::copy(sandbox.path("small.qcow2"), sandbox.path("tree/disk.img")).unwrap();
    let answer = |args: &[&str]| {
        let said = sandbox.ok(&[&["estimate", "--json"], args].concat()).json();
        let sizes = said["chunk_sizes"].as_array().unwrap().iter();
        let unique: Vec<u64> = sizes.map(|s| s["unique_bytes"].as_u64().unwrap()).collect();
        (said["input"]["bytes"].as_u64().unwrap(), unique)
    };
    let raw = answer(&["raw"]);
    assert_eq!(raw.0, 6 << 20);
    for file in ["plain.qcow2", "small.qcow2", "raw.gz", "raw.zst", "tree"] {
        assert_eq!(answer(&[file]), raw, "{file}");
    }
    let said = sandbox.ok(&["estimate", "tree"]);
    assert!(said.text().contains("counted by what is inside"), "{}", said.text());
    let bytes = fs::metadata(sandbox.path("small.qcow2")).unwrap().len();
    assert_eq!(answer(&["tree", "--format", "raw"]).0, bytes);
}
