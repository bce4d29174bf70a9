//! The server is killed again and again, and what was acknowledged is there.
//! Room: onefold.

use super::harness::{Sandbox, nbdsh, run};

#[test]
fn kill_after_kill_loses_nothing_that_was_acknowledged() {
    let sandbox = Sandbox::new();
    let mut more: &[&str] = &["--size", "16M"];
    for round in 0..6 {
        let server = sandbox.serve("pool", more);
        more = &[];
        let script = format!(
            "for n in range({round}):\n  for k in range(50):\n    \
             assert h.pread(4096, (n * 50 + k) * 4096) == bytes([n + 1, k]) * 2048, (n, k)\n\
             for k in range(50):\n  \
             h.pwrite(bytes([{round} + 1, k]) * 2048, ({round} * 50 + k) * 4096)\n\
             print('done')"
        );
        let said = run(&mut nbdsh(&["-u", &server.uri("main"), "-c", &script]));
        assert_eq!(said.text(), "done\n", "round {round}: {}", said.err);
        server.kill();
    }
}
