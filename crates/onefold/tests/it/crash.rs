//! The server is killed, and what clients flushed is there.
//! Room: onefold.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::harness::{Sandbox, nbdsh, run};

/// Blocks of the test volume; writes go round.
const PATTERN: &str = "
def block(i):
    # Half of it repeats, half does not, and every eighth block is an old one again.
    i = i - 5 if i % 8 == 7 else i
    import hashlib
    return b'same half of it' * 128 + b''.join(
        hashlib.sha256(b'%d %d' % (i, k)).digest() for k in range(68))
";

/// Writes round after round, and says which round is durable.
const WRITER: &str = "
i = START
while True:
    for k in range(16):
        h.pwrite(block(i + k), ((i + k) % 4096) * 4096)
    i += 16
    if i % 64 == 0:
        h.pwrite(block(i), (i % 4096) * 4096, nbd.CMD_FLAG_FUA)
        i += 16
    h.flush()
    print(i, flush=True)
";

const READER: &str = "
for i in range(max(0, END - 4000), END):
    if i % 80 < 64 or i % 80 == 64:
        pass
    got = h.pread(4096, (i % 4096) * 4096)
    if got != block(i) and i in written:
        print('block', i, 'is lost')
print('read')
";

#[test]
fn what_was_flushed_outlives_kill_at_any_moment() {
    let sandbox = Sandbox::new();
    let mut end = 0u64;
    for round in 1..=4 {
        let server = sandbox.serve("pool", &["--size", "16M"]);
        let writer = format!("{PATTERN}{}", WRITER.replace("START", &end.to_string()));
        let mut client = nbdsh(&["-u", &server.uri("main"), "-c", &writer])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("nbdsh is needed");
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        for _ in 0..round * 25 {
            end = lines.next().unwrap().unwrap().parse().unwrap();
        }
        server.kill();
        for line in lines.map_while(Result::ok) {
            end = line.parse().unwrap();
        }
        client.wait().unwrap();
        sandbox.check("pool");

        let server = sandbox.serve("pool", &[]);
        // Blocks past the last flush may hold either state: they are left out.
        let reader = format!(
            "{PATTERN}\nwritten = set()\ni = 0\nwhile i < {end}:\n  \
             written |= set(range(i, i + 16)); i += 16\n  \
             if i % 64 == 0: written.add(i); i += 16\n{}",
            READER.replace("END", &end.to_string())
        );
        assert_eq!(run(&mut nbdsh(&["-u", &server.uri("main"), "-c", &reader])).text(), "read\n");
        server.stop();
    }
}
