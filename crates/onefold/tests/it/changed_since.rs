//! What changed since a snapshot, as backup programs ask for it over NBD.
//! Room: onefold.

use std::fs;

use super::harness::{Sandbox, Server, nbdsh, noise, run, tool};

const MIB: u64 = 1 << 20;
const CONTEXT: &str = "onefold:changed-since:main@a";

/// Run a script of `nbdsh` that connects by itself to `uri`.
fn script(sandbox: &Sandbox, uri: &str, script: &str) {
    let script = format!("uri = '{uri}'\n{script}");
    let said = run(nbdsh(&["-c", &script]).current_dir(sandbox.path("")));
    assert_eq!(said.code, Some(0), "{}", said.err);
}

/// Offset, length and flags of each extent that `nbdinfo` shows of the export.
fn map(server: &Server, export: &str, context: &str) -> Vec<(u64, u64, u64)> {
    let map = format!("--map={context}");
    let said = tool("nbdinfo", &["--json", &map, &server.uri(export)]).json();
    let row = |row: &serde_json::Value| {
        let [offset, len, flags] =
            ["offset", "length", "type"].map(|field| row[field].as_u64().unwrap());
        (offset, len, flags)
    };
    said.as_array().unwrap().iter().map(row).collect()
}

/// Volume `main` of 3 MiB with a snapshot `main@a`, served, and changed since in two places.
fn served(sandbox: &Sandbox) -> Server {
    sandbox.ok(&["pool", "create", "pool"]);
    fs::write(sandbox.path("old"), noise(1, 3 << 20)).unwrap();
    fs::write(sandbox.path("new"), noise(2, 8192)).unwrap();
    sandbox.ok(&["volume", "import", "pool", "main", "old"]);
    sandbox.ok(&["volume", "snapshot", "pool", "main@a"]);
    sandbox.ok(&["volume", "create", "pool", "other", "--size", "3M"]);
    sandbox.ok(&["volume", "snapshot", "pool", "other@x"]);
    let server = sandbox.serve("pool", &[]);
    script(
        sandbox,
        &server.uri("main"),
        "
h.connect_uri(uri)
h.pwrite(open('new', 'rb').read(8192), 4096)
h.trim(100 << 10, 2 << 20)
",
    );
    server
}

/// What these changes look like.
fn expected(end: u64) -> [(u64, u64, u64); 5] {
    let after = 2 * MIB + (100 << 10);
    [
        (0, 4096, 0),
        (4096, 8192, 1),
        (12288, 2 * MIB - 12288, 0),
        (2 * MIB, 100 << 10, 1),
        (after, end - after, 0),
    ]
}

#[test]
fn nbdinfo_maps_what_changed_in_volumes_snapshots_and_clones() {
    let sandbox = Sandbox::new();
    let server = served(&sandbox);
    sandbox.ok(&["volume", "snapshot", "pool", "main@b"]);
    sandbox.ok(&["volume", "clone", "pool", "main@b", "copy"]);
    for export in ["main", "main@b", "copy", ""] {
        assert_eq!(map(&server, export, CONTEXT), expected(3 * MIB), "{export}");
    }
    assert_eq!(map(&server, "main@a", CONTEXT), [(0, 3 * MIB, 0)], "against itself");
    assert_eq!(map(&server, "main", "onefold:changed-since:main@b"), [(0, 3 * MIB, 0)]);
    // The same as `volume diff`.
    let diff = sandbox.ok(&["volume", "diff", "pool", "main@a", "main@b", "--json"]).json();
    let changed = serde_json::json!([
        { "offset_bytes": 4096, "len_bytes": 8192 },
        { "offset_bytes": 2 * MIB, "len_bytes": 100 << 10 },
    ]);
    assert_eq!(diff["extents"], changed);
    // What a volume grew by was not in the snapshot.
    sandbox.ok(&["volume", "resize", "pool", "main", "--size", "5M"]);
    let mut grown = expected(3 * MIB).to_vec();
    grown.push((3 * MIB, 2 * MIB, 1));
    assert_eq!(map(&server, "main", CONTEXT), grown);
    server.stop();
    let server = sandbox.serve("pool", &["--read-only"]);
    assert_eq!(map(&server, "main@b", CONTEXT), expected(3 * MIB), "where nothing may be written");
    server.stop();
    sandbox.check("pool");
}

#[test]
fn contexts_are_listed_picked_beside_base_allocation_and_refused_by_wrong_names() {
    let sandbox = Sandbox::new();
    let server = served(&sandbox);
    let text = r"
def listed(export, *queries):
    h = nbd.NBD()
    h.set_opt_mode(True)
    h.connect_uri(uri)
    h.set_export_name(export)
    for query in queries:
        h.add_meta_context(query)
    found = []
    h.opt_list_meta_context(lambda name: found.append(name))
    h.opt_abort()
    return found

a, x = ('onefold:changed-since:' + name for name in ('main@a', 'other@x'))
base = 'base:allocation'
assert listed('main') == [base, a], listed('main')
assert listed('main', 'onefold:') == [a]
assert listed('main@a', 'onefold:changed-since:') == [a]
assert listed('main', 'base:') == [base]
assert listed('main', a) == [a]
assert listed('main', x) == [x], 'a snapshot of another volume, by its whole name'
for wrong in ['onefold:changed-since:main@none', 'onefold:changed-since:main',
              'onefold:changed-since:other', 'onefold:changed', 'changed-since:main@a']:
    assert listed('main', wrong) == [], wrong

h.add_meta_context('onefold:changed-since:main@none')
h.add_meta_context(base)
h.add_meta_context(a)
h.connect_uri(uri)
assert h.can_meta_context(a) and h.can_meta_context(base)
assert not h.can_meta_context('onefold:changed-since:main@none')

def status(length, offset, flags=0):
    seen = {}
    told = lambda name, at, extents, error: seen.update({name: extents})
    h.block_status(length, offset, told, flags)
    return seen

assert status(8192, 0) == {base: [8192, 0], a: [4096, 0, 4096, 1]}, status(8192, 0)
assert status(1000, 3500) == {base: [1000, 0], a: [596, 0, 404, 1]}, 'between blocks'
one = status(8192, 0, nbd.CMD_FLAG_REQ_ONE)
assert one[a] == [4096, 0] and len(one[base]) == 2, one

only = nbd.NBD()
only.add_meta_context(a)
only.connect_uri(uri)
seen = []
only.block_status(4096, 4096, lambda name, at, extents, error: seen.append((name, extents)))
assert seen == [(a, [4096, 1])], seen
";
    script(&sandbox, &server.uri("main"), text);
    server.stop();
}

#[test]
fn a_snapshot_that_goes_while_a_client_asks_is_an_error_and_the_rest_goes_on() {
    let sandbox = Sandbox::new();
    let server = served(&sandbox);
    let text = format!(
        "
import subprocess
h.add_meta_context('{CONTEXT}')
h.connect_uri(uri)
h.block_status(4096, 0, lambda *told: None)
subprocess.run(['{onefold}', 'volume', 'delete', 'pool', 'main@a', '--yes'], check=True)
try:
    h.block_status(4096, 0, lambda *told: None)
    assert False, 'it was answered'
except nbd.Error as error:
    assert error.errno == 'ESHUTDOWN', error.errno
assert len(h.pread(4096, 0)) == 4096
assert h.get_block_size(nbd.SIZE_PREFERRED) > 0
",
        onefold = super::harness::ONEFOLD,
    );
    script(&sandbox, &server.uri("main"), &text);
    server.stop();
    sandbox.check("pool");
}

/// Agrees on what changed, has volumes change their names, and only then picks the export.
const AGREE_AND_PICK: &str = r"
import socket, struct, subprocess

def exactly(s, count):
    got = b''
    while len(got) < count:
        piece = s.recv(count - len(got))
        assert piece, 'the server ended the connection'
        got += piece
    return got

def ask(s, option, data=b''):
    s.sendall(struct.pack('>QII', 0x49484156454F5054, option, len(data)) + data)
    answers = []
    while True:
        _, _, kind, length = struct.unpack('>QIII', exactly(s, 20))
        answers.append((kind, exactly(s, length)))
        if kind == 1 or kind & 1 << 31:
            return answers

def agreed(export, context):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    exactly(s, 18)
    s.sendall(struct.pack('>I', 3))
    assert ask(s, 8)[-1][0] == 1
    named = struct.pack('>I', len(export)) + export
    answers = ask(s, 10, named + struct.pack('>II', 1, len(context)) + context)
    assert [kind for kind, _ in answers] == [4, 1], answers
    return s, named

def changed(s):
    s.sendall(struct.pack('>IHHQQI', 0x25609513, 0, 7, 1, 0, 3 << 20))
    _, flags, kind, _, length = struct.unpack('>IHHQI', exactly(s, 20))
    body = exactly(s, length)
    assert kind == 5, (kind, body)
    words = struct.unpack('>%dI' % (length // 4), body)[1:]
    return list(zip(words[::2], words[1::2]))

def volume(*args):
    subprocess.run([onefold, 'volume', args[0], 'pool', *args[1:]], check=True)
";

#[test]
fn what_changed_is_told_of_the_volume_that_is_picked_whatever_had_its_name_before() {
    let sandbox = Sandbox::new();
    let server = served(&sandbox);
    let text = format!(
        "path, onefold = '{path}', '{onefold}'{AGREE_AND_PICK}
since = b'onefold:changed-since:main@a'
volume('snapshot', 'other@a')
talk, named = agreed(b'main', since)
lost, _ = agreed(b'main', since)
# The other one, in which nothing changed since its own snapshot, comes to be called main.
volume('rename', 'main', 'old')
volume('rename', 'other', 'main')
assert ask(talk, 7, named + bytes(2))[-1][0] == 1
assert changed(talk) == [(3 << 20, 0)], 'it is told of the volume that was called so before'
# Where there is nothing to compare with any more there is no export.
volume('delete', 'main@a', '--yes')
kind, why = ask(lost, 7, named + bytes(2))[-1]
assert kind == (1 << 31) + 2 and b'agree on contexts anew' in why, (kind, why)
assert ask(lost, 10, named + bytes(4))[-1][0] == 1 and ask(lost, 7, named + bytes(2))[-1][0] == 1
",
        path = sandbox.text("socket"),
        onefold = super::harness::ONEFOLD,
    );
    script(&sandbox, &server.uri("main"), &text);
    server.stop();
    sandbox.check("pool");
}
