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

#[test]
fn sighup_reads_certificates_and_settings_again() {
    let sandbox = Sandbox::new();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tls.md"));
    let page = page.unwrap();
    let script = page.split("```\n").find(|block| block.starts_with("openssl req -x509")).unwrap();
    let make = |folder: &str| {
        std::fs::create_dir_all(sandbox.path(folder)).unwrap();
        let made = run(Command::new("sh").args(["-ec", script]).current_dir(sandbox.path(folder)));
        assert_eq!(made.code, Some(0), "{}", made.err);
    };
    make("old");
    make("new");
    std::fs::create_dir(sandbox.path("now")).unwrap();
    let use_those_of = |folder: &str| {
        for file in ["server-cert.pem", "server-key.pem", "ca-cert.pem"] {
            let from = sandbox.path(folder).join(file);
            std::fs::copy(from, sandbox.path("now").join(file)).unwrap();
        }
    };
    use_those_of("old");
    std::fs::write(sandbox.path("settings"), "cache-memory = \"64M\"\n").unwrap();
    let mut command = sandbox.command(&["serve", "pool", "--listen", "tcp:127.0.0.1:0"]);
    command.args(["--config", "settings", "--on-hangup", "reload"]);
    for (flag, file) in
        [("cert", "server-cert.pem"), ("key", "server-key.pem"), ("ca", "ca-cert.pem")]
    {
        command.args([format!("--tls-{flag}"), format!("now/{file}")]);
    }
    let server = Server::start(command, sandbox.path("none"));
    let uri = server.listening_at("tcp:").replace("tcp:", "nbds://");
    let info = |certificates: &str| {
        let folder = sandbox.text(certificates);
        run(Command::new("nbdinfo")
            .args(["--size", &format!("{uri}/main?tls-certificates={folder}")]))
    };
    let cache = || sandbox.status("pool")["memory"]["cache_max_bytes"].as_u64().unwrap();
    assert_eq!((info("old").code, cache()), (Some(0), 64 << 20));
    // What makes no sense changes nothing, and is told.
    std::fs::write(sandbox.path("now").join("server-key.pem"), "no key").unwrap();
    std::fs::write(sandbox.path("settings"), "cache-memory = \"lots\"\n").unwrap();
    server.signal("HUP");
    let said = server.wait_for_line("reloaded").join("\n");
    assert!(said.contains("certificates stay") && said.contains("settings stay"), "{said}");
    assert_eq!((info("old").code, cache()), (Some(0), 64 << 20));
    use_those_of("new");
    std::fs::write(sandbox.path("settings"), "cache-memory = \"32M\"\n").unwrap();
    server.signal("HUP");
    server.wait_for_line("reloaded");
    assert_eq!((info("new").code, cache()), (Some(0), 32 << 20));
    assert_ne!(info("old").code, Some(0), "the old authority counts no more");
    server.stop();
}
