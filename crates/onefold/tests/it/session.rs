//! A day with one server: under load, only with the product's own commands, and without ever
//! stopping it. Volumes are made, grown and shared, a disk fills and is given space, settings
//! change, and all of it is seen.
//! Room: onefold.
//!
//! `ONEFOLD_SESSION_SECONDS=7200` lets it be two hours; rounds follow one another until then. The
//! kernel's loop device and `resize2fs` are the disk that grows; where root may not resize, which
//! takes `CAP_SYS_RESOURCE`, something else on the disk makes room.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::harness::{Sandbox, Server, machine, noise, run, tool};
use super::metrics::{look, member};
use super::rights::CERTIFICATES;
use super::small_disk::{can_mount, small_disk};

const MIB: u64 = 1 << 20;
/// The disk, the largest part of it that something else has, what is imported until it is full,
/// and what it is given.
const DISK_MIB: u64 = 320;
const OTHER_MIB: u64 = 176;
const IMAGE_MIB: u64 = 64;
const MORE_MIB: u64 = 160;

/// What goes on beside everything.
#[derive(Default)]
struct Load {
    uri: String,
    /// Writes may be refused for want of space.
    is_full: AtomicBool,
    ended: AtomicBool,
    runs: AtomicU64,
}

impl Load {
    /// Verified random writes, one run after the other, until the session ends. While the disk is
    /// full one may fail, and nothing else ever.
    fn run(&self) {
        while !self.ended.load(Ordering::Acquire) {
            let full = self.is_full.load(Ordering::Acquire);
            let said = run(Command::new("fio").args([
                "--name=load",
                "--ioengine=nbd",
                &self.uri,
                "--size=16M",
                "--rw=randwrite",
                "--bs=4k",
                "--iodepth=8",
                "--buffer_compress_percentage=50",
                "--rate_iops=4000",
                "--verify=crc32c",
                "--do_verify=1",
                "--verify_fatal=1",
                "--verify_state_save=0",
                "--randrepeat=0",
            ]));
            let may_fail = full || self.is_full.load(Ordering::Acquire);
            assert!(said.code == Some(0) || may_fail, "{}\n{}", said.err, said.text());
            let verified =
                !said.text().contains("verify: bad") && !said.err.contains("verify: bad");
            assert!(verified, "{}", said.err);
            self.runs.fetch_add(u64::from(said.code == Some(0)), Ordering::AcqRel);
        }
    }
}

/// Ends the load, however the steps end.
struct Ending<'a>(&'a Load);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

struct Session {
    sandbox: Sandbox,
    server: Server,
    load: Arc<Load>,
}

impl Session {
    fn serve(sandbox: Sandbox) -> Self {
        sandbox.ok(&["pool", "create", "disk/pool", "--container-size", "1M"]);
        sandbox.ok(&["volume", "create", "disk/pool", "load", "--size", "16M"]);
        let socket = sandbox.path("socket");
        let unix = format!("unix:{}", socket.display());
        fs::write(sandbox.path("settings.toml"), "[serve]\ncache-memory = \"8M\"\n").unwrap();
        let mut command = sandbox.command(&["serve", "disk/pool", "--listen", &unix]);
        command.args(["--listen", "tcp:127.0.0.1:0", "--tls-ca", "ca-cert.pem"]);
        command.args(["--tls-cert", "server-cert.pem", "--tls-key", "server-key.pem"]);
        command.args(["--metrics", "127.0.0.1:0", "--on-hangup", "reload"]);
        command.args(["--config", "settings.toml", "--background", "always"]);
        let server = Server::start(command, socket);
        let load = Load { uri: format!("--uri={}", server.uri("load")), ..Load::default() };
        Self { sandbox, server, load: Arc::new(load) }
    }

    /// A command of the product, which must succeed.
    fn ok(&self, line: &str) -> String {
        let args: Vec<&str> = line.split(' ').collect();
        self.sandbox.ok(&args).err
    }

    fn status(&self) -> Value {
        self.sandbox.status("disk/pool")
    }

    /// What the page and programs see of the same.
    fn seen(&self) -> Value {
        serde_json::from_str(&look(self.server.seen_at(), "/api/v1/pool/status")).unwrap()
    }

    /// The size of an export by its certificate; `None` if it is not shown.
    fn size_for(&self, client: &str, export: &str) -> Option<u64> {
        let at = self.server.listening_at("tcp:").replace("tcp:", "nbds://");
        let folder = self.sandbox.text(client);
        let uri = format!("{at}/{export}?tls-certificates={folder}");
        let said = run(Command::new("nbdinfo").args(["--size", &uri]));
        (said.code == Some(0)).then(|| said.text().trim().parse().unwrap())
    }

    /// Volumes are made, grown, shared with rights, renamed and deleted.
    fn volumes(&self, round: u64) {
        let name = format!("v{round}");
        self.ok(&format!("volume create disk/pool {name} --size 8M"));
        assert_eq!(self.size_for("web1", &name), Some(8 * MIB));
        self.ok(&format!("volume resize disk/pool {name} --size 24M"));
        assert_eq!(self.size_for("web1", &name), Some(24 * MIB));
        self.ok(&format!("volume allow disk/pool {name} --client CN=web1"));
        assert_eq!(self.size_for("web1", &name), Some(24 * MIB));
        assert_eq!(self.size_for("backup", &name), None, "it is somebody else's");
        self.ok(&format!("volume allow disk/pool {name} --client CN=backup --read-only"));
        assert_eq!(self.size_for("backup", &name), Some(24 * MIB));
        self.ok(&format!("volume limit disk/pool {name} --rate 400M"));
        self.ok(&format!("volume snapshot disk/pool {name}@then"));
        self.ok(&format!("volume clone disk/pool {name}@then c{round}"));
        self.ok(&format!("volume deny disk/pool {name} --client CN=backup"));
        assert_eq!(self.size_for("backup", &format!("{name}@then")), None);
        let names = |status: &Value| -> Vec<String> {
            let volumes = status["volumes"].as_array().unwrap().iter();
            volumes.map(|volume| volume["name"].as_str().unwrap().to_owned()).collect()
        };
        let listed = names(&self.status());
        assert!(listed.contains(&name) && listed.contains(&format!("c{round}")), "{listed:?}");
        assert_eq!(names(member(&self.seen(), "report.result")), listed, "as the page sees it");
        for gone in [format!("c{round}"), format!("{name}@then"), name] {
            self.ok(&format!("volume delete disk/pool {gone}"));
        }
    }

    /// More is imported than fits; the disk is given space, and all of it fits.
    fn fill_and_grow(&self, round: u64, disk_mib: &mut u64) {
        let image = self.sandbox.path("image");
        let other = self.sandbox.text("disk/other");
        tool("fallocate", &["--length", &format!("{OTHER_MIB}M"), &other]);
        self.load.is_full.store(true, Ordering::Release);
        let import =
            |name: &str| self.sandbox.onefold(&["volume", "import", "disk/pool", name, "image"]);
        let mut names = Vec::new();
        let refused = loop {
            let name = format!("i{round}-{}", names.len());
            let seed = 1000 * (round + 1) + names.len() as u64;
            fs::write(&image, noise(seed, (IMAGE_MIB * MIB) as usize)).unwrap();
            let said = import(&name);
            if said.code != Some(0) {
                break said;
            }
            names.push(name);
            assert!(names.len() < 20, "the disk never fills");
        };
        assert!(
            refused.err.contains("no space") || refused.err.contains("No space"),
            "{}",
            refused.err
        );
        // The server goes on, says so, and what it has is sound.
        assert!(self.status()["volumes"].as_array().unwrap().len() > names.len());
        let resized = self.grow(disk_mib);
        if !resized {
            fs::remove_file(&other).unwrap();
        }
        let said = import("fits");
        assert_eq!(said.code, Some(0), "{}", said.err);
        self.load.is_full.store(false, Ordering::Release);
        tool("nbdcopy", &[&self.server.uri("fits"), &self.sandbox.text("copy")]);
        super::harness::assert_same(&image, &self.sandbox.path("copy"));
        for name in names.iter().map(String::as_str).chain(["fits"]) {
            self.ok(&format!("volume delete disk/pool {name}"));
        }
        self.ok("pool reclaim disk/pool --to 1.2");
        if resized {
            fs::remove_file(&other).unwrap();
        }
    }

    /// Let the disk be larger; whether that is allowed here.
    fn grow(&self, disk_mib: &mut u64) -> bool {
        let disk = self.sandbox.path("disk.image");
        let file = fs::File::options().write(true).open(&disk).unwrap();
        file.set_len((*disk_mib + MORE_MIB) * MIB).unwrap();
        let found = tool("losetup", &["--associated", disk.to_str().unwrap(), "--output", "NAME"]);
        let device = found.text().lines().last().unwrap().trim().to_owned();
        tool("losetup", &["--set-capacity", &device]);
        let said = run(Command::new("resize2fs").arg(&device));
        let denied = said.err.contains("Permission denied");
        assert!(said.code == Some(0) || denied, "{}", said.err);
        *disk_mib += if denied { 0 } else { MORE_MIB };
        !denied
    }

    /// Settings change by a command and by a file, and are seen.
    fn settings(&self, round: u64) {
        let cache = || self.status()["memory"]["cache_max_bytes"].as_u64().unwrap() / MIB;
        let (asked, written) = (16 + round % 8, 32 + round % 8);
        self.ok(&format!("pool set disk/pool --cache-memory {asked}M --background idle"));
        assert_eq!(cache(), asked);
        let text = format!("[serve]\ncache-memory = \"{written}M\"\n");
        fs::write(self.sandbox.path("settings.toml"), text).unwrap();
        self.server.signal("HUP");
        self.server.wait_for_line("reloaded");
        assert_eq!(cache(), written);
        assert_eq!(self.size_for("web1", "load"), Some(16 * MIB), "by the renewed certificates");
    }

    /// It is checked and scrubbed beside the load, and what Prometheus scrapes tells of it.
    fn looked_at(&self) {
        self.ok("pool check disk/pool");
        self.ok("pool scrub disk/pool");
        let text = look(self.server.seen_at(), "/metrics");
        let value = |start: &str| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(start));
            lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
        };
        assert!(text.contains("export=\"load\""), "{text}");
        assert!(value("onefold_pool_volumes") >= 1.0, "{text}");
        assert!(look(self.server.seen_at(), "/").contains("<html"));
    }
}

#[test]
fn a_session_under_load_never_stops_the_server() {
    let _machine = machine();
    if !can_mount("a session") {
        return;
    }
    let seconds = std::env::var("ONEFOLD_SESSION_SECONDS");
    let length = Duration::from_secs(seconds.map_or(0, |text| text.parse().unwrap()));
    let begun = Instant::now();
    let sandbox = Sandbox::new();
    let made = run(Command::new("sh").args(["-ec", CERTIFICATES]).current_dir(sandbox.path("")));
    assert_eq!(made.code, Some(0), "{}", made.err);
    let _disk = small_disk(&sandbox, DISK_MIB);
    let session = Session::serve(sandbox);
    let (server, mut disk_mib) = (session.server.pid(), DISK_MIB);
    let load = Arc::clone(&session.load);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| load.run());
        let ending = Ending(&load);
        for round in 0.. {
            session.volumes(round);
            session.settings(round);
            session.looked_at();
            session.fill_and_grow(round, &mut disk_mib);
            session.looked_at();
            if begun.elapsed() >= length {
                break;
            }
        }
        drop(ending);
        running.join().unwrap();
    });
    assert!(load.runs.load(Ordering::Acquire) > 0, "there was no load");
    assert_eq!(session.server.pid(), server);
    let said = session.ok("pool drain disk/pool");
    assert!(said.contains("it has stopped"), "{said}");
    session.sandbox.check("disk/pool");
}
