//! A server that gets no more memory refuses requests with ENOMEM, lives, and has right data after.
//! Room: onefold.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::harness::{Sandbox, Server, nbdsh};
use super::ssd;

/// Writes and reads blocks of 256 KiB while memory is short, and then while it is not; `AT` is as
/// many of them as the export has.
const CLIENT: &str = "
import random, sys
def block(n):
    return random.Random(n).randbytes(1 << 18)
def tried(what):
    try:
        return what()
    except nbd.Error as error:
        return error.errno
def write(n):
    return tried(lambda: h.pwrite(block(n), (n % AT) << 18))
def read(n):
    found = tried(lambda: h.pread(1 << 18, (n % AT) << 18))
    assert isinstance(found, str) or found == block(n), n
    return found
def flush():
    return tried(lambda: h.flush())
wrote = {n % AT: n for n in range(8) if write(n) is None}
assert len(wrote) == 8 and flush() is None
print('ready', flush=True)
sys.stdin.readline()
refused = []
unsure = set()
for n in range(8, 8 + 2 * AT):
    said = write(n)
    if said is None:
        wrote[n % AT] = n
        unsure.discard(n % AT)
    else:
        refused.append(said)
        unsure.add(n % AT)
    for at in random.Random(n).sample(sorted(set(wrote) - unsure), 1):
        said = read(wrote[at])
        if isinstance(said, str):
            refused.append(said)
    if n % 16 == 0 and (said := flush()) is not None:
        refused.append(said)
print(len(refused), *sorted(set(refused)), flush=True)
sys.stdin.readline()
for at in set(wrote) - unsure:
    assert read(wrote[at]) == block(wrote[at])
for n in range(1000, 1000 + AT):
    assert write(n) is None, n
assert flush() is None
for n in range(1000, 1000 + AT):
    assert read(n) == block(n)
print('right', flush=True)
";

/// Let a process have this much more address space than it has, or as much as it likes.
fn limit(server: &Server, more: Option<u64>) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmSize:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let current = more.map(|more| (kib << 10) + more);
    let pid = Pid::from_raw(server.pid().cast_signed());
    prlimit(pid, Resource::As, Rlimit { current, maximum: None }).unwrap();
}

/// Have the client work under the limit; how many of its requests were refused.
fn under_pressure(server: &Server, export: &str, blocks: u32, more: u64) -> u32 {
    let script = CLIENT.replace("AT", &blocks.to_string());
    let mut client = nbdsh(&["-u", &server.uri(export), "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("nbdsh is needed");
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap_or_else(|| panic!("under {more}: no answer")).unwrap();
    let mut input = client.stdin.take().unwrap();
    assert_eq!(next(), "ready");
    limit(server, Some(more));
    input.write_all(b"\n").unwrap();
    let said = next();
    let mut words = said.split(' ');
    let refused: u32 = words.next().unwrap().parse().unwrap();
    let kinds: Vec<&str> = words.collect();
    assert!(kinds == ["ENOMEM"] || kinds.is_empty(), "under {more}: {said}");
    limit(server, None);
    input.write_all(b"\n").unwrap();
    assert_eq!(next(), "right", "under {more}");
    assert!(client.wait().unwrap().success());
    refused
}

#[test]
fn a_pool_s_server_without_memory_refuses_requests_and_lives() {
    let mut refused = 0;
    for more in [0, 1 << 20, 9 << 20, 40 << 20] {
        let sandbox = Sandbox::new();
        let memory = ["--cache-memory", "256M", "--index-memory", "64M", "--map-memory", "64M"];
        let server = sandbox.serve("pool", &[&["--size", "16M"][..], &memory].concat());
        refused += under_pressure(&server, "main", 64, more);
        server.stop();
        sandbox.check("pool");
    }
    assert!(refused > 0, "memory was never short");
}

#[test]
fn a_drive_s_server_without_memory_refuses_requests_and_lives() {
    for more in [0, 2 << 20] {
        let sandbox = Sandbox::new();
        let server = ssd::serve(&sandbox, &[&ssd::SMALL[..], &ssd::SHARING].concat());
        under_pressure(&server, "", 32, more);
        server.stop();
    }
}
