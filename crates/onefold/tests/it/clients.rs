//! Images through qemu-img, nbdcopy, nbdsh, qemu-io and fio, in and out.
//! Room: onefold.

use super::harness::{Sandbox, assert_same, tool, tool as client, tree_image};

fn stored(sandbox: &Sandbox) -> (u64, u64) {
    let status = sandbox.status("pool");
    (status["stored_bytes"].as_u64().unwrap(), status["logical_bytes"].as_u64().unwrap())
}

#[test]
fn a_real_tree_comes_in_twice_goes_out_twice_and_is_stored_once() {
    let sandbox = Sandbox::new();
    let image = tree_image(&sandbox, "image");
    let image_text = image.to_str().unwrap();
    sandbox.ok(&["pool", "create", "pool"]);
    let size = image.metadata().unwrap().len().to_string();
    for name in ["first", "second"] {
        sandbox.ok(&["volume", "create", "pool", name, "--size", &size]);
    }
    let server = sandbox.serve("pool", &[]);
    let (first, second) = (server.uri("first"), server.uri("second"));
    client("qemu-img", &["convert", "-n", "-f", "raw", image_text, "-O", "raw", &first]);
    server.stop();
    let (once, logical_once) = stored(&sandbox);

    let server = sandbox.serve("pool", &[]);
    client("nbdcopy", &["--flush", image_text, &second]);
    server.stop();
    let (twice, logical_twice) = stored(&sandbox);
    assert!(once < logical_once, "{once} stored for {logical_once}");
    assert!(logical_twice > logical_once * 9 / 5, "{logical_once}, then {logical_twice}");
    assert!(twice < once + once / 20, "the second copy took {} on {once}", twice - once);

    let server = sandbox.serve("pool", &["--read-only"]);
    let out = sandbox.path("out");
    let out_text = out.to_str().unwrap();
    client("nbdcopy", &[&first, out_text]);
    assert_same(&image, &out);
    client("qemu-img", &["convert", "-f", "raw", &second, "-O", "raw", out_text]);
    assert_same(&image, &out);
    client("qemu-img", &["compare", "-f", "raw", "-F", "raw", &first, &second]);
    server.stop();
    sandbox.check("pool");
}

#[test]
fn the_default_export_the_list_and_the_map_are_what_clients_expect() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--size", "1G"]);
    let list = tool("nbdinfo", &["--list", "--json", &server.uri("")]).json();
    assert_eq!(list["exports"][0]["export-name"], "main");
    assert_eq!(list["exports"][0]["export-size"], 1 << 30);
    let default = tool("nbdinfo", &["--json", &server.uri("")]).json();
    assert_eq!(default["exports"][0]["export-size"], 1 << 30);
    assert_eq!(default["exports"][0]["is_read_only"], false);
    assert_eq!(default["exports"][0]["can_multi_conn"], true);

    let uri = server.uri("main");
    let write = "write -P 0xaa 64k 64k";
    client("qemu-io", &["-f", "raw", "-c", write, "-c", "flush", &uri]);
    client("qemu-io", &["-f", "raw", "-c", "read -P 0xaa 64k 64k", "-c", "read -P 0 0 64k", &uri]);
    let map = tool("nbdinfo", &["--map", "--json", &uri]).json();
    let rows: Vec<(u64, u64, u64)> = map
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let field = |name: &str| row[name].as_u64().unwrap();
            (field("offset"), field("length"), field("type"))
        })
        .collect();
    let (k64, rest) = (64 << 10, (1 << 30) - (128 << 10));
    assert_eq!(rows, [(0, k64, 3), (k64, k64, 0), (2 * k64, rest, 3)]);
    client("qemu-io", &["-f", "raw", "-c", "discard 64k 64k", "-c", "read -P 0 64k 64k", &uri]);
    server.stop();
}

#[test]
fn fio_verifies_random_writes_at_depth() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--size", "64M"]);
    let uri = format!("--uri={}", server.uri("main"));
    let job = [
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bsrange=512-128k",
        "--bs_unaligned=0",
        "--blockalign=512",
        "--iodepth=16",
        "--size=64M",
        "--io_size=24M",
        "--verify=crc32c",
        "--do_verify=1",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--buffer_compress_percentage=50",
        "--randrepeat=1",
        "--end_fsync=1",
    ];
    client("fio", &job);
    server.stop();
    sandbox.check("pool");
}
