//! Pools on a file system that is hardly larger than what lives in them.
//! Room: onefold.
//! Loop devices and mounts are root's; elsewhere these tests say that they were skipped.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use super::file_system::{Fuse, loop_device, mounted};
use super::harness::{Cleanup, PATIENCE, Sandbox, Server, machine, nbdsh, run, tool};

/// Whether file systems can be mounted here.
pub fn can_mount(test: &str) -> bool {
    let root = run(Command::new("id").arg("-u")).text().trim() == "0";
    let can = root && fs::exists("/dev/loop-control").unwrap();
    if !can {
        eprintln!("{test}: skipped, because it needs root and loop devices");
    }
    can
}

/// An ext4 file system of `mib` mebibytes at `disk` in the sandbox.
pub fn small_disk(sandbox: &Sandbox, mib: u64) -> [Cleanup; 2] {
    disk_of(sandbox, mib, &["mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096"])
}

/// A file system made by these words at `disk` in the sandbox.
fn disk_of(sandbox: &Sandbox, mib: u64, make: &[&str]) -> [Cleanup; 2] {
    let image = sandbox.text("disk.image");
    fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
    tool(make[0], &[&make[1..], &[&image]].concat());
    let (device, detach) = loop_device(&image);
    let mount = mounted(&device, &sandbox.text("disk"));
    // The mount goes first.
    [mount, detach]
}

/// A pool for a small disk, with one volume.
fn small_containers(sandbox: &Sandbox, pool: &str, size: &str) {
    sandbox.ok(&["pool", "create", pool, "--container-size", "1M"]);
    sandbox.ok(&["volume", "create", pool, "main", "--size", size]);
}

#[test]
fn a_disk_too_small_for_one_container_is_refused_and_stays_empty() {
    if !can_mount("too small") {
        return;
    }
    let sandbox = Sandbox::new();
    let _disk = small_disk(&sandbox, 2);
    let there = || fs::read_dir(sandbox.path("disk")).unwrap().count();
    let before = there();
    let create = ["pool", "create", "disk/deep/pool", "--cache", "disk/cache"];
    for args in [&create[..], &create[..3], &["serve", "disk/pool", "--run", "true"]] {
        let said = sandbox.onefold(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains("left, and a pool needs "), "{args:?}: {}", said.err);
        assert_eq!(there(), before, "{args:?}");
    }
}

/// Mebibytes of the volume that is overwritten: 64, or what the environment asks for.
fn volume_mib() -> u64 {
    std::env::var("ONEFOLD_TEST_VOLUME_MIB").map_or(64, |mib| mib.parse().unwrap())
}

#[test]
fn a_volume_on_a_disk_of_one_and_a_half_times_its_size_takes_twenty_overwrites() {
    let _machine = machine();
    if !can_mount("twenty overwrites") {
        return;
    }
    let (sandbox, mib) = (Sandbox::new(), volume_mib());
    let _disk = small_disk(&sandbox, mib * 3 / 2);
    let server = sandbox.serve("disk/pool", &["--size", &format!("{mib}M")]);
    let uri = format!("--uri={}", server.uri("main"));
    let fio = |what: &[&str]| {
        let size = format!("--size={mib}M");
        let common = ["--name=job", "--ioengine=nbd", &uri, &size, "--iodepth=8"];
        let data = ["--buffer_compress_percentage=50", "--refill_buffers", "--end_fsync=1"];
        tool("fio", &[&common[..], &data, what].concat())
    };
    fio(&["--rw=write", "--bs=128k"]);
    let written = format!("--io_size={}M", mib * 20);
    // Each block has its checksum and its number in it, and is read again at the end.
    fio(&["--rw=randwrite", "--bs=4k", "--norandommap", "--randrepeat=0", &written]);
    let verified =
        ["--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_state_save=0"];
    fio(&[&["--rw=randwrite", "--bs=4k"][..], &verified].concat());
    server.stop();
    sandbox.check("disk/pool");
}

/// Whether btrfs can be made and mounted here.
fn knows_btrfs() -> bool {
    let kernel = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let made = Command::new("mkfs.btrfs").arg("--version").output();
    kernel.contains("\tbtrfs\n") && made.is_ok()
}

/// It copies what is overwritten, and has no disks of 96 MiB.
const BTRFS: [&str; 4] = ["mkfs.btrfs", "-q", "-m", "single"];

#[test]
fn stores_on_btrfs_are_overwritten_where_they_lie_and_archives_copied() {
    let _machine = machine();
    if !can_mount("btrfs") || !knows_btrfs() {
        return;
    }
    let sandbox = Sandbox::new();
    let _disk = disk_of(&sandbox, 128, &BTRFS);
    let pool = ["pool", "create", "disk/pool", "--container-size", "1M", "--cache", "disk/cache"];
    sandbox.ok(&pool);
    let small = ["channels=1", "packages=1", "blocks_per_plane=256"];
    let small = small.map(|set| ["--set", set]).concat();
    let drive = ["ssd", "serve", "--dir", "disk/drive", "--run", "true"];
    sandbox.ok(&[&drive[..], &small].concat());
    sandbox.ok(&["archive", "create", "disk/archive"]);
    for (store, in_place) in [("pool", true), ("cache", true), ("drive", true), ("archive", false)]
    {
        let told = tool("lsattr", &["-d", &sandbox.text(&format!("disk/{store}"))]);
        let attributes = told.text().split(' ').next().unwrap().to_owned();
        assert_eq!(attributes.contains('C'), in_place, "{store}: {}", told.text());
    }
}

const FILL: &str = "
import os
MIB = 1 << 20
def fill(at):
    wrote = 0
    try:
        while True:
            h.pwrite(os.urandom(MIB // 4), at + wrote)
            wrote += MIB // 4
    except nbd.Error as e:
        assert e.errno == 'ENOSPC', e
    return wrote
";

const AGAIN: &str = "
kept = {}
trimmed = 0
for at in range(0, FULL, STEP):
    if at // STEP % 4 in PATTERN:
        h.trim(STEP, at)
        trimmed += STEP
    elif at // STEP % 16 == 15:
        kept[at] = h.pread(STEP, at)
h.flush()
again = fill(512 * MIB)
h.flush()
print('enough:', again >= 0.8 * trimmed or (again, trimmed))
print('lost:', [at for at, data in kept.items() if h.pread(STEP, at) != data])
";

#[test]
fn on_a_full_disk_most_of_what_was_trimmed_can_be_written_again_at_once() {
    let _machine = machine();
    if !can_mount("written again") {
        return;
    }
    let ext4 = &["mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096"][..];
    let btrfs = &BTRFS[..];
    for (make, pattern, step, restart) in [
        (ext4, "(0, 2)", 64 << 10, false),
        (ext4, "(1,)", 64 << 10, true),
        (ext4, "(0, 1, 2)", 4096, true),
        (btrfs, "(1,)", 64 << 10, true),
    ] {
        if make == btrfs && !knows_btrfs() {
            eprintln!("written again: without btrfs, as this machine has none");
            continue;
        }
        let sandbox = Sandbox::new();
        let _disk = disk_of(&sandbox, if make == btrfs { 128 } else { 96 }, make);
        small_containers(&sandbox, "disk/pool", "1G");
        let shell = |server: &Server, script: &str| {
            run(&mut nbdsh(&["-u", &server.uri("main"), "-c", &format!("{FILL}{script}")]))
        };
        let mut server = sandbox.serve("disk/pool", &[]);
        let full = shell(&server, "print(fill(0))\nh.flush()");
        if restart {
            server.stop();
            server = sandbox.serve("disk/pool", &[]);
        }
        let full = full.text();
        let script = format!("PATTERN = {pattern}\nSTEP = {step}\nFULL = {full}\n{AGAIN}");
        let said = shell(&server, &script);
        assert_eq!(said.text(), "enough: True\nlost: []\n", "{pattern}: {}", said.err);
        server.stop();
        sandbox.check("disk/pool");
    }
}

/// Bytes of a pool's containers.
fn container_bytes(sandbox: &Sandbox) -> u64 {
    let listed = fs::read_dir(sandbox.path("disk/pool/containers")).unwrap();
    // What goes away meanwhile takes nothing.
    listed.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
}

/// How long files come and go at least: not long, or what the environment asks for.
fn churn() -> Duration {
    let minutes = std::env::var("ONEFOLD_TEST_CHURN_MINUTES").map_or(0, |m| m.parse().unwrap());
    Duration::from_mins(minutes)
}

#[test]
fn under_a_file_system_that_churns_a_pool_ends_as_small_as_its_data_allows() {
    let _machine = machine();
    if !can_mount("churn") {
        return;
    }
    let sandbox = Sandbox::new();
    // At most 42 MB of files live in it.
    let _disk = small_disk(&sandbox, 112);
    small_containers(&sandbox, "disk/pool", "128M");
    let server = sandbox.serve("disk/pool", &["--space-target", "1.3"]);
    let (start, mut generations, mut most_bytes) = (Instant::now(), 0u64, 0);
    {
        let fuse = Fuse::mount(&sandbox, &server, "main");
        tool("mkfs.ext4", &["-q", "-F", "-b", "4096", &fuse.file()]);
        let (device, _loop) = loop_device(&fuse.file());
        let point = sandbox.text("mnt");
        let _mount = mounted(&device, &point);
        // Files of a generation are rewritten, every third one goes, and the space is given up.
        while generations < 6 || start.elapsed() < churn() {
            let generation = generations;
            for number in 0..60 {
                let name = format!("{point}/{number}");
                let noise = super::harness::noise(generation << 20 | number, 700_000);
                if number % 3 == generation % 3 {
                    let _ = fs::remove_file(name);
                } else {
                    fs::write(name, noise).unwrap();
                }
            }
            tool("sync", &["-f", &point]);
            tool("fstrim", &[&point]);
            most_bytes = container_bytes(&sandbox).max(most_bytes);
            generations += 1;
        }
        tool("umount", &[&point]);
    }
    // Nobody writes any more: what is dead goes within seconds.
    let most = 40 * 700_000 * 3 / 2 + (8 << 20);
    let until = Instant::now() + PATIENCE;
    while container_bytes(&sandbox) > most {
        let now = container_bytes(&sandbox);
        assert!(Instant::now() < until, "{now} bytes of containers, to be {most} at most");
        std::thread::sleep(Duration::from_millis(100));
    }
    server.stop();
    sandbox.check("disk/pool");
    let space = &sandbox.status("disk/pool")["space"];
    let over = space["stored_over_live"].as_f64().unwrap();
    println!("{generations} generations, {most_bytes} bytes of containers at most; then {space}");
    assert!(over < 1.5, "{space}");
}
