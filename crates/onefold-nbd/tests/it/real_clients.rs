//! The clients people use: libnbd's tools, QEMU's, fio.
//! Room: onefold-nbd.

use std::sync::Arc;

use onefold_block::BlockDevice;
use onefold_nbd::{ExportTable, ListenAddr, ServerConfig};

use crate::device::TestDevice;
use crate::raw::{Fixture, pattern};
use crate::tools::{fail, nbdsh, run, succeed, text};

fn fixture(size: u64) -> (Arc<TestDevice>, Fixture) {
    let device = Arc::new(TestDevice::new(size));
    let fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    (device, fixture)
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    let exports = ExportTable::new()
        .with("main", "the first", Arc::new(TestDevice::new(1 << 20)))
        .with("second disk", "", Arc::new(TestDevice::read_only(5000)));
    let fixture = Fixture::exporting(exports, ServerConfig::default());
    let listed = succeed("nbdinfo", &["--list", "--json", &fixture.uri("")]);
    assert!(listed.contains("\"main\"") && listed.contains("second disk"), "{listed}");
    let info = succeed("nbdinfo", &[&fixture.uri("main")]);
    for line in [
        "protocol: newstyle-fixed without TLS, using structured packets",
        "description: the first",
        "export-size: 1048576",
        "base:allocation",
        "can_cache: true",
        "can_df: true",
        "can_fast_zero: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "block_size_minimum: 1",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(info.contains(line), "{line} is missing in {info}");
    }
    assert_eq!(run("nbdinfo", &["--is", "read-only", &fixture.uri("main")]).status.code(), Some(2));
    succeed("nbdinfo", &["--is", "read-only", &fixture.uri("second disk")]);
    fail("nbdinfo", &[&fixture.uri("nosuch")]);
}

#[test]
fn nbdinfo_lists_hundreds_of_exports() {
    let device = Arc::new(TestDevice::new(1 << 20));
    let mut exports = ExportTable::new();
    for n in 0..300 {
        exports = exports.with(&format!("v{n}"), "", Arc::clone(&device) as Arc<dyn BlockDevice>);
    }
    let fixture = Fixture::exporting(exports, ServerConfig::default());
    let listed = succeed("nbdinfo", &["--list", "--json", &fixture.uri("")]);
    assert_eq!(listed.matches("\"export-name\"").count(), 300);
}

#[test]
fn nbdcopy_copies_there_and_back_over_many_connections() {
    let (device, fixture) = fixture(24 << 20);
    let mut image = pattern(1, 24 << 20);
    image[5 << 20..11 << 20].fill(0);
    let (source, copy) = (fixture.folder.path().join("in"), fixture.folder.path().join("out"));
    std::fs::write(&source, &image).unwrap();
    let many = ["--connections=4", "--threads=2", "--requests=16"];
    succeed("nbdcopy", &[&many[..], &["--flush", text(&source), &fixture.uri("")]].concat());
    assert!(device.contents() == image);
    succeed("nbdcopy", &[&many[..], &[&fixture.uri(""), text(&copy)]].concat());
    assert!(std::fs::read(&copy).unwrap() == image);
    let map = succeed("nbdinfo", &["--map", &fixture.uri("")]);
    assert!(map.contains("hole,zero"), "{map}");
    assert!(device.flushes.load(std::sync::atomic::Ordering::SeqCst) >= 1);
}

#[test]
fn qemu_img_converts_and_compares() {
    let (device, fixture) = fixture(24 << 20);
    let mut image = pattern(2, 24 << 20);
    image[1 << 20..20 << 20].fill(0);
    let folder = fixture.folder.path();
    let (raw, qcow2) = (folder.join("disk.raw"), folder.join("disk.qcow2"));
    std::fs::write(&raw, &image).unwrap();
    let uri = fixture.uri("main");
    let there = ["convert", "-n", "-f", "raw", "-O", "raw", text(&raw), &uri];
    succeed("qemu-img", &there);
    assert!(device.contents() == image);
    succeed("qemu-img", &["compare", "-f", "raw", "-F", "raw", text(&raw), &uri]);
    succeed("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, text(&qcow2)]);
    succeed("qemu-img", &["compare", text(&qcow2), text(&raw), "-F", "raw"]);
}

#[test]
fn qemu_io_reads_back_every_kind_of_change() {
    let (device, fixture) = fixture(4 << 20);
    let steps = [
        "write -P 0x5a 1 70000",
        "read -P 0x5a 1 70000",
        "write -f -P 0x11 4096 8192",
        "read -P 0x11 4096 8192",
        "write -z 8192 4096",
        "read -P 0 8192 4096",
        "write -z -u 1048576 65536",
        "discard 0 1048576",
        "read -P 0 0 1048576",
        "aio_write -P 7 2097152 65536",
        "aio_write -P 8 2162688 65536",
        "aio_flush",
        "flush",
        "read -P 7 2097152 65536",
        "read -P 8 2162688 65536",
    ];
    let uri = fixture.uri("");
    let mut arguments = vec!["-f", "raw"];
    for step in steps {
        arguments.extend(["-c", step]);
    }
    arguments.push(&uri);
    let said = succeed("qemu-io", &arguments);
    assert!(!said.contains("verification failed") && !said.contains("error"), "{said}");
    assert_eq!(device.contents()[2_162_688], 8);
}

#[test]
fn libnbd_gets_each_command_and_error() {
    let (_, fixture) = fixture(1 << 20);
    nbdsh(
        &fixture.uri(""),
        r#"
import errno
assert h.get_size() == 1 << 20
h.set_strict_mode(0)
h.pwrite(b"x" * 1000, 3000, nbd.CMD_FLAG_FUA)
assert h.pread(1002, 2999) == b"\0" + b"x" * 1000 + b"\0"
h.zero(8192, 0, nbd.CMD_FLAG_NO_HOLE)
seen = []
h.block_status(1 << 20, 0, lambda ctx, off, ext, err: seen.append((ctx, off, ext)))
assert seen == [("base:allocation", 0, [8192, 2, (1 << 20) - 8192, 3])], seen
h.trim(8192, 0)
h.cache(4096, 0)
h.flush()
def refused(code, call):
    try:
        call()
    except nbd.Error as ex:
        assert ex.errnum == code, ex
    else:
        assert False, "should have been refused"
refused(errno.ENOSPC, lambda: h.pwrite(b"ab", (1 << 20) - 1))
refused(errno.EINVAL, lambda: h.pread(2, (1 << 20) - 1))
refused(errno.EINVAL, lambda: h.trim(2, (1 << 20) - 1))
refused(errno.ENOSPC, lambda: h.zero(2, (1 << 20) - 1))
refused(errno.ENOTSUP, lambda: h.zero(4096, 1, nbd.CMD_FLAG_FAST_ZERO))
refused(errno.EINVAL, lambda: h.pread(0, 0))
assert h.pread(1, 0) == b"\0"
"#,
    );
}

#[test]
fn fio_verifies_what_it_wrote() {
    let (_, fixture) = fixture(8 << 20);
    let folder = text(fixture.folder.path());
    let uri = format!("--uri={}", fixture.uri(""));
    for rw in ["--rw=randrw", "--rw=write"] {
        succeed(
            "fio",
            &[
                "--name=check",
                "--ioengine=nbd",
                &uri,
                rw,
                "--size=8m",
                "--bsrange=512-256k",
                "--bs_unaligned=0",
                "--blockalign=512",
                "--iodepth=32",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--do_verify=1",
                "--thread",
                "--output-format=terse",
                &format!("--aux-path={folder}"),
            ],
        );
    }
}

#[test]
fn tcp_and_unix_clients_meet_on_one_device() {
    let device = Arc::new(TestDevice::new(1 << 20));
    let listeners = vec!["tcp:127.0.0.1:0".parse().unwrap(), "tcp:127.0.0.1:0".parse().unwrap()];
    let config = ServerConfig { listeners, ..ServerConfig::default() };
    let fixture = Fixture::with(device, config);
    let uris: Vec<String> =
        fixture.server().addresses().iter().map(|at| at.uri("main", false)).collect();
    assert_eq!(uris.len(), 3);
    assert!(matches!(fixture.server().addresses()[2], ListenAddr::Unix(_)));
    nbdsh(&uris[0], "h.pwrite(b'over tcp', 0)");
    for uri in &uris {
        nbdsh(uri, "assert h.pread(8, 0) == b'over tcp'");
    }
}

#[test]
fn a_server_told_to_is_read_only() {
    let config = ServerConfig { read_only: true, ..ServerConfig::default() };
    let fixture = Fixture::with(Arc::new(TestDevice::new(1 << 20)), config);
    succeed("nbdinfo", &["--is", "read-only", &fixture.uri("")]);
    let complaint = fail(
        "nbdsh",
        &["-u", &fixture.uri(""), "-c", "h.set_strict_mode(0)", "-c", "h.pwrite(b'x', 0)"],
    );
    assert!(complaint.contains("not permitted") || complaint.contains("EPERM"), "{complaint}");
}
