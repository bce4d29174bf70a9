//! docs/tls.md, typed as it stands.
//! Room: onefold.

use std::process::Command;

use super::harness::{Sandbox, Server, run};

#[test]
fn the_page_about_tls_works_as_written() {
    let sandbox = Sandbox::new();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tls.md"));
    let page = page.unwrap();
    let script = page.split("```\n").find(|block| block.starts_with("openssl req -x509")).unwrap();
    let made = run(Command::new("sh").args(["-ec", script]).current_dir(sandbox.path("")));
    assert_eq!(made.code, Some(0), "{}", made.err);
    let mut command = sandbox.command(&["serve", "pool", "--listen", "tcp:127.0.0.1:0"]);
    for (flag, file) in
        [("cert", "server-cert.pem"), ("key", "server-key.pem"), ("ca", "ca-cert.pem")]
    {
        command.args([format!("--tls-{flag}"), file.to_owned()]);
    }
    let server = Server::start(command, sandbox.path("none"));
    let uri = server.listening_at("tcp:").replace("tcp:", "nbds://");
    let info = |uri: &str| run(Command::new("nbdinfo").args(["--size", uri]));
    let with = info(&format!("{uri}/main?tls-certificates={}", sandbox.text("")));
    assert_eq!((with.code, with.text()), (Some(0), "68719476736\n"), "{}", with.err);
    // Neither without encryption nor without a certificate.
    assert_ne!(info(&format!("{}/main", uri.replace("nbds", "nbd"))).code, Some(0));
    assert_ne!(info(&format!("{uri}/main")).code, Some(0));
    server.stop();
}
