//! A disk that runs full under the pool.
//! Room: onefold.

use super::harness::{Cleanup, Sandbox, machine, nbdsh, run, tool};

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
