//! Which certificates see which volumes, with real clients, on pools that are served and that stand
//! still.
//! Room: onefold.

use std::process::Command;

use super::harness::{Sandbox, Server, run, tool};

/// An authority, a server and two clients, each client in a folder as libnbd wants it.
pub const CERTIFICATES: &str = r#"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 \
    -keyout ca-key.pem -out ca-cert.pem -subj '/CN=authority' 2>/dev/null
sign() {
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/O=us/CN=$1" \
        -keyout "$2-key.pem" -out request.pem 2>/dev/null
    printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' > extensions
    openssl x509 -req -in request.pem -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 9 \
        -extfile extensions -out "$2-cert.pem" 2>/dev/null
}
sign server server
for name in web1 backup; do
    mkdir $name
    cp ca-cert.pem $name
    sign $name $name/client
done
"#;

struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let mut shell = Command::new("sh");
        let made = run(shell.args(["-ec", CERTIFICATES]).current_dir(sandbox.path("")));
        assert_eq!(made.code, Some(0), "{}", made.err);
        sandbox.ok(&["pool", "create", "pool"]);
        for name in ["main", "other"] {
            sandbox.ok(&["volume", "create", "pool", name, "--size", "4M"]);
        }
        std::fs::write(sandbox.path("image"), super::harness::noise(1, 4 << 20)).unwrap();
        Self { sandbox }
    }

    fn serve(&self) -> Server {
        let socket = self.sandbox.path("socket");
        let unix = format!("unix:{}", socket.display());
        let mut command = self.sandbox.command(&["serve", "pool", "--listen", &unix]);
        command.args(["--listen", "tcp:127.0.0.1:0", "--tls-ca", "ca-cert.pem"]);
        command.args(["--tls-cert", "server-cert.pem", "--tls-key", "server-key.pem"]);
        Server::start(command, socket)
    }

    fn uri(&self, server: &Server, client: &str, export: &str) -> String {
        let at = server.listening_at("tcp:").replace("tcp:", "nbds://");
        format!("{at}/{export}?tls-certificates={}", self.sandbox.text(client))
    }

    /// The names that a client is told.
    fn listed(&self, server: &Server, client: &str) -> Vec<String> {
        let said = run(Command::new("nbdinfo")
            .args(["--list", "--json", "--no-content"])
            .arg(self.uri(server, client, "")));
        // A list of nothing is a failure to some versions.
        let Ok(told) = serde_json::from_slice::<serde_json::Value>(&said.out) else {
            return Vec::new();
        };
        let exports = told["exports"].as_array().unwrap().iter();
        exports.map(|export| export["export-name"].as_str().unwrap().to_owned()).collect()
    }

    /// Whether a client gets an export, and whether it may be written.
    fn opens(&self, server: &Server, client: &str, export: &str) -> Option<bool> {
        let uri = self.uri(server, client, export);
        let said = run(Command::new("nbdinfo").args(["--json", "--no-content", &uri]));
        let told = serde_json::from_slice::<serde_json::Value>(&said.out).ok()?;
        let read_only = told["exports"][0]["is_read_only"].as_bool().unwrap();
        (said.code == Some(0)).then_some(!read_only)
    }

    fn volume(&self, args: &[&str]) -> String {
        self.sandbox.ok(&[&["volume", args[0], "pool"], &args[1..]].concat()).err
    }
}

#[test]
fn two_certificates_see_what_is_theirs_and_lose_it_at_once() {
    let scene = Scene::new();
    // On a pool that stands still.
    let said = scene.volume(&["allow", "main", "--client", "CN=web1"]);
    assert!(said.contains("volume 'main' is served over the network to: CN=web1\n"), "{said}");
    scene.volume(&["snapshot", "main@monday"]);
    let server = scene.serve();
    assert_eq!(scene.listed(&server, "web1"), ["main", "other", "main@monday"]);
    assert_eq!(scene.listed(&server, "backup"), ["other"]);
    assert_eq!(scene.opens(&server, "web1", "main"), Some(true));
    assert_eq!(scene.opens(&server, "backup", "main"), None);
    assert_eq!(scene.opens(&server, "backup", "main@monday"), None);
    assert_eq!(scene.opens(&server, "backup", ""), Some(true), "the first that it sees");
    // On the running server.
    let both = scene.volume(&["allow", "main", "--client", "CN=backup", "--read-only"]);
    assert!(both.contains("CN=web1, CN=backup (read-only)"), "{both}");
    assert_eq!(scene.opens(&server, "backup", "main"), Some(false));
    assert_eq!(scene.opens(&server, "backup", "main@monday"), Some(false));
    let [write, read] = ["web1", "backup"].map(|client| scene.uri(&server, client, "main"));
    let image = scene.sandbox.text("image");
    tool("nbdcopy", &["--flush", &image, &write]);
    tool("nbdcopy", &[&read, scene.sandbox.text("copy").as_str()]);
    super::harness::assert_same(&scene.sandbox.path("image"), &scene.sandbox.path("copy"));
    let refused = run(Command::new("nbdcopy").args([image.as_str(), &read]));
    assert_ne!(refused.code, Some(0));
    // What changed since a snapshot is told to who may see it.
    let map = |client: &str| {
        let context = "onefold:changed-since:main@monday";
        let uri = scene.uri(&server, client, "other");
        let uri = if client == "web1" { scene.uri(&server, client, "main") } else { uri };
        run(Command::new("nbdinfo").args([&format!("--map={context}"), &uri])).text().to_owned()
    };
    assert!(!map("web1").is_empty());
    scene.volume(&["deny", "main", "--client", "CN=backup"]);
    assert_eq!(map("backup"), "", "not even for another volume");
    assert_eq!(scene.opens(&server, "backup", "main"), None);
    // Nobody is let in by the last one's going, but for those on the socket.
    let said = scene.volume(&["deny", "main", "--client", "CN=web1"]);
    assert!(said.contains("to: nobody\n"), "{said}");
    assert_eq!(scene.opens(&server, "web1", "main"), None);
    assert_eq!(tool("nbdinfo", &["--size", &server.uri("main")]).text(), "4194304\n");
    let wrong = ["volume", "deny", "pool", "main", "--client", "CN=web1"];
    let said = scene.sandbox.onefold(&wrong);
    assert_eq!(said.code, Some(2), "{}", said.err);
    // What was said last is there after a kill, and after a stop.
    scene.volume(&["allow", "main", "--client", "CN=backup"]);
    server.kill();
    let server = scene.serve();
    assert_eq!(scene.listed(&server, "backup"), ["main", "other", "main@monday"]);
    assert_eq!(scene.listed(&server, "web1"), ["other"]);
    server.stop();
    let list = scene.sandbox.ok(&["volume", "list", "pool"]);
    assert!(
        list.text().contains("CLIENTS") && list.text().contains("CN=backup"),
        "{}",
        list.text()
    );
    let json = scene.sandbox.ok(&["volume", "list", "pool", "--json"]).json();
    let expected = serde_json::json!([{ "client": "CN=backup", "read_only": false }]);
    assert_eq!(json["volumes"][0]["clients"], expected);
    assert!(json["volumes"][1]["clients"].is_null());
    scene.volume(&["allow", "main", "--everybody"]);
    scene.sandbox.check("pool");
}

#[test]
fn a_client_that_is_connected_feels_it_at_its_next_request() {
    let scene = Scene::new();
    let server = scene.serve();
    for name in ["main", "other"] {
        scene.volume(&["snapshot", &format!("{name}@a")]);
    }
    scene.volume(&["allow", "main", "--client", "CN=web1"]);
    let [uri, other] = ["main", "other"].map(|name| scene.uri(&server, "web1", name));
    // Reads, tells the test, and reads again when it is told to. What changed is asked for alone,
    // in the volume that is taken away and in another one that is compared with it.
    let script = format!(
        "import sys
h.set_uri_allow_local_file(True)
h.connect_uri('{uri}')
h.pread(512, 0)
told = []
for uri, since in (('{uri}', 'main@a'), ('{uri}', 'other@a'), ('{other}', 'main@a')):
    changes = nbd.NBD()
    changes.set_uri_allow_local_file(True)
    changes.add_meta_context('onefold:changed-since:' + since)
    changes.connect_uri(uri)
    changes.block_status(512, 0, lambda *extents: None)
    told.append(changes)
print('read', flush=True)
sys.stdin.read()
asks = [lambda: h.pread(512, 0)]
asks += [lambda c=c: c.block_status(512, 0, lambda *extents: None) for c in told]
for ask in asks:
    try:
        ask()
        print('again')
    except nbd.Error as e:
        print('refused', e.errno)
"
    );
    let mut command = super::harness::nbdsh(&["-c", &script]);
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "read\n");
    scene.volume(&["deny", "main", "--everybody"]);
    drop(child.stdin.take());
    std::io::Read::read_to_string(&mut out, &mut line).unwrap();
    child.wait().unwrap();
    assert_eq!(line, format!("read\n{}", "refused ESHUTDOWN\n".repeat(4)));
}

#[test]
fn without_tls_what_is_for_somebody_is_for_nobody_on_tcp() {
    let scene = Scene::new();
    scene.volume(&["allow", "main", "--client", "CN=web1"]);
    let mut command = scene.sandbox.command(&["serve", "pool", "--listen", "tcp:127.0.0.1:0"]);
    command.arg("--listen").arg(format!("unix:{}", scene.sandbox.text("socket")));
    let server = Server::start(command, scene.sandbox.path("socket"));
    let uri = server.listening_at("tcp:").replace("tcp:", "nbd://");
    let size = |uri: &str| run(Command::new("nbdinfo").args(["--size", uri])).code;
    assert_ne!(size(&format!("{uri}/main")), Some(0));
    assert_eq!(size(&format!("{uri}/other")), Some(0));
    assert_eq!(size(&server.uri("main")), Some(0));
    server.stop();
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let scene = Scene::new();
    for wrong in [
        &["allow", "pool", "main"][..],
        &["allow", "pool", "main", "--client", "web1"],
        &["allow", "pool", "main", "--client", "CN="],
        &["allow", "pool", "main", "--client", "CN=a", "--everybody"],
        &["allow", "pool", "main", "--everybody", "--read-only"],
        &["allow", "pool", "nosuch", "--client", "CN=a"],
        &["allow", "pool", "main@x", "--client", "CN=a"],
        &["limit", "pool", "main"],
        &["limit", "pool", "main", "--iops", "0"],
        &["limit", "pool", "main", "--rate", "1"],
        &["limit", "pool", "main", "--rate", "-5M"],
    ] {
        let said = scene.sandbox.onefold(&[&["volume"], wrong].concat());
        assert_eq!(said.code, Some(2), "{wrong:?}: {}{}", said.err, said.text());
    }
    let json = scene.sandbox.ok(&["volume", "list", "pool", "--json"]).json();
    assert!(json["volumes"][0]["clients"].is_null());
    assert_eq!(json["volumes"][0]["limits"], serde_json::json!({}));
    // More clients than there is room for: the last that fits stays.
    let long = "x".repeat(250);
    let mut fits = 0;
    for number in 0..100 {
        let client = format!("CN={number}{long}");
        let said = scene.sandbox.onefold(&["volume", "allow", "pool", "main", "--client", &client]);
        if said.code != Some(0) {
            assert!(said.err.contains("has room for 16384 bytes of settings"), "{}", said.err);
            break;
        }
        fits += 1;
    }
    assert!((40..100).contains(&fits), "{fits}");
    let json = scene.sandbox.ok(&["volume", "list", "pool", "--json"]).json();
    assert_eq!(json["volumes"][0]["clients"].as_array().unwrap().len(), fits);
}

#[test]
fn limits_are_kept_to_changed_while_clients_copy_and_kept_for_good() {
    let scene = Scene::new();
    let server = scene.serve();
    let said = scene.volume(&["limit", "main", "--iops", "1000", "--rate", "32K"]);
    assert!(said.contains("limits of volume 'main': 1000 IOPS, 32 KiB/s"), "{said}");
    let uri = server.uri("main");
    let image = scene.sandbox.text("image");
    let mut copying = Command::new("nbdcopy").args(["--flush", &image, &uri]).spawn().unwrap();
    // 4 MiB take two minutes, whatever machine this is.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(copying.try_wait().unwrap().is_none(), "nothing holds it back");
    let said = scene.volume(&["limit", "main", "--rate", "none", "--connection-iops", "500"]);
    assert!(said.contains("1000 IOPS, 500 IOPS a connection"), "{said}");
    assert!(copying.wait().unwrap().success());
    // A server that stops holds nobody back.
    scene.volume(&["limit", "main", "--rate", "4K"]);
    let mut copying = Command::new("nbdcopy").args([&image, &uri]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    server.stop();
    copying.wait().unwrap();
    let json = scene.sandbox.ok(&["volume", "list", "pool", "--json"]).json();
    let expected = serde_json::json!({
        "iops": 1000, "bytes_per_second": 4096, "connection_iops": 500
    });
    assert_eq!(json["volumes"][0]["limits"], expected);
    let text = scene.sandbox.ok(&["pool", "status", "pool"]).text().to_owned();
    assert!(text.contains("1000 IOPS, 4 KiB/s, 500 IOPS a connection"), "{text}");
}
