//! A disk that runs full under the pool.
//! Room: onefold.

use super::harness::{Cleanup, Sandbox, Server, machine, nbdsh, run, tool};

const FILL: &str = "
import os, time
kept = {}
def write(i):
    data = os.urandom(1 << 20)
    h.pwrite(data, i << 20)
    kept[i] = data
def lost():
    return [i for i, data in kept.items() if h.pread(1 << 20, i << 20) != data]
try:
    for i in range(256):
        write(i)
        h.flush()
    print('never full')
except nbd.Error as e:
    print('full:', e.errno)
print('flushed and lost:', lost())
h.flush()
full = len(kept)
for i in range(4, full):
    kept.pop(i)
h.trim((full - 4) << 20, 4 << 20)
h.flush()
end = time.monotonic() + 40
while True:
    try:
        write(full)
        break
    except nbd.Error as e:
        # Space comes back with the next tidying, a few seconds on.
        if e.errno != 'ENOSPC' or time.monotonic() > end:
            raise
        time.sleep(0.1)
for i in range(4, full - 6):
    write(i)
h.flush()
print('then lost:', lost())
";

#[test]
fn a_full_disk_says_so_keeps_what_was_flushed_and_goes_on_after_a_trim() {
    let _machine = machine();
    let sandbox = Sandbox::new();
    let disk = sandbox.text("disk");
    std::fs::create_dir(&disk).unwrap();
    tool("mount", &["-t", "tmpfs", "-o", "size=40M", "tmpfs", &disk]);
    let _mount = Cleanup(["umount", "-l", &disk].map(str::to_owned).to_vec());
    let server = sandbox.serve("disk/pool", &["--size", "1G"]);
    let said = run(&mut nbdsh(&["-u", &server.uri("main"), "-c", FILL]));
    assert_eq!(said.code, Some(0), "{}{}", said.text(), said.err);
    assert_eq!(said.text(), "full: ENOSPC\nflushed and lost: []\nthen lost: []\n");
    server.stop();
    sandbox.check("disk/pool");
}

const CROWD: &str = "
import socket
h.pwrite(noise(0), 0)
h.flush()
crowd = []
while True:
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(3)
    s.connect(PATH)
    crowd.append(s)
    try:
        s.recv(18)
    except TimeoutError:
        break
failed = 0
for i in range(1, 8):
    try:
        h.pwrite(noise(i), i << 20)
    except nbd.Error as e:
        failed += 1
print('failed without handles:', failed > 0)
for s in crowd:
    s.close()
for attempt in range(600):
    try:
        h.pwrite(noise(9), 9 << 20)
        break
    except nbd.Error:
        import time
        time.sleep(0.05)
h.flush()
print('right:', all(h.pread(1 << 20, i << 20) == noise(i) for i in (0, 9)))
";

#[test]
fn a_server_out_of_file_handles_goes_on_once_there_are_some() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool", "--container-size", "256K"]);
    sandbox.ok(&["volume", "create", "pool", "v", "--size", "1G"]);
    let socket = sandbox.path("socket");
    let listen = format!("unix:{}", socket.display());
    let command = sandbox.command(&["serve", "pool", "--listen", &listen]);
    let server = Server::start(command, socket.clone());
    // It would not have begun with so few.
    tool("prlimit", &["--nofile=48:48", "--pid", &server.pid().to_string()]);
    let script = format!(
        "import random\nnoise = lambda i: random.Random(i).randbytes(1 << 20)\n\
         PATH = {:?}\n{CROWD}",
        socket.to_str().unwrap()
    );
    let said = run(&mut nbdsh(&["-u", &server.uri("v"), "-c", &script]));
    assert_eq!(said.text(), "failed without handles: True\nright: True\n", "{}", said.err);
    server.stop();
    sandbox.check("pool");
}
