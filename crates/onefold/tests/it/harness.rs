//! A folder of one's own, the binary, a server in it, and other people's programs.
//! Room: onefold.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest that anything here may take; what takes longer hangs.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The program that is tested, where a shell starts it; otherwise [`Sandbox::command`] does.
pub const ONEFOLD: &str = env!("CARGO_BIN_EXE_onefold");

/// What a program said, and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Said {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.text()).unwrap()
    }
}

/// Run a program to its end.
pub fn run(command: &mut Command) -> Said {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{} is needed: {error}", command.get_program().display()));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Said { code: output.status.code(), out: output.stdout, err }
}

/// Run another program, which must succeed.
pub fn tool(name: &str, args: &[&str]) -> Said {
    let said = run(Command::new(name).args(args));
    assert_eq!(said.code, Some(0), "{name} {args:?}: {}\n{}", said.err, said.text());
    said
}

/// `nbdsh`, by the distribution's Python: others on the search path lack its module.
pub fn nbdsh(args: &[&str]) -> Command {
    let mut command = Command::new("nbdsh");
    let path = std::env::var("PATH").unwrap_or_default();
    command.args(args).env("PATH", format!("/usr/bin:{path}"));
    command
}

/// A folder that goes away with the test, and `onefold` running in it.
pub struct Sandbox {
    folder: tempfile::TempDir,
    /// What killed servers leave in memory.
    memory: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), memory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The binary, free of the settings of whoever runs the tests, but for what is broken in it on
    /// purpose (`cargo xtask breakages`). Signals do what they do by
    /// themselves: below `nohup` or as a script's `... &` some are ignored, by every child too.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,QUIT,TERM,USR1", ONEFOLD]);
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("ONEFOLD_") && !text.starts_with("ONEFOLD_MUTANT") {
                command.env_remove(name);
            }
        }
        command.env("ONEFOLD_HANDOVER", self.memory.path());
        command.env("XDG_CONFIG_HOME", self.path("no-config")).env("COLUMNS", "100");
        command
    }

    pub fn onefold(&self, args: &[&str]) -> Said {
        run(&mut self.command(args))
    }

    /// Run it; it must succeed.
    pub fn ok(&self, args: &[&str]) -> Said {
        let said = self.onefold(args);
        assert_eq!(said.code, Some(0), "onefold {args:?}: {}", said.err);
        said
    }

    pub fn status(&self, pool: &str) -> serde_json::Value {
        self.ok(&["pool", "status", pool, "--json"]).json()
    }

    /// The files of a pool, with their bytes; the notes of who locked it last, and of how often it
    /// was open, are left out.
    pub fn files(&self, pool: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = contents(&self.path(pool));
        for note in ["lock", "generation"] {
            files.remove(&self.path(pool).join(note));
        }
        files
    }

    /// The pool must be sound.
    pub fn check(&self, pool: &str) {
        let said = self.onefold(&["pool", "check", pool]);
        assert_eq!(said.code, Some(0), "{}{}", said.text(), said.err);
    }

    /// What killed servers left in memory is gone, as after a power cut.
    pub fn forget_memory(&self) {
        for entry in fs::read_dir(self.memory.path()).unwrap() {
            fs::remove_dir_all(entry.unwrap().path()).unwrap();
        }
    }

    /// How many stores have something in memory.
    pub fn remembered(&self) -> usize {
        let users = fs::read_dir(self.memory.path()).unwrap().map(|user| user.unwrap().path());
        let stores = users.flat_map(|user| fs::read_dir(user).unwrap());
        stores.filter(|store| store.as_ref().is_ok_and(|store| store.path().is_dir())).count()
    }

    /// Serve a pool on a Unix socket in this folder.
    pub fn serve(&self, pool: &str, more: &[&str]) -> Server {
        let socket = self.path("socket");
        let listen = format!("unix:{}", socket.display());
        let args = [&["serve", pool, "--listen", &listen], more].concat();
        Server::start(self.command(&args), socket)
    }
}

/// A server that runs. Dropping it kills it.
pub struct Server {
    child: Child,
    socket: PathBuf,
    lines: Receiver<String>,
    listening: String,
    /// Where it is seen, if it is.
    seen: Option<SocketAddr>,
}

impl Server {
    /// Start it and wait until it listens.
    pub fn start(mut command: Command, socket: PathBuf) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
            }
        });
        let mut server = Self { child, socket, lines, listening: String::new(), seen: None };
        let mut said = server.wait_for_line("listening");
        server.listening = said.pop().unwrap();
        let seen = said.iter().find_map(|line| {
            line.strip_prefix("seen at http://").or_else(|| line.strip_prefix("seen at https://"))
        });
        server.seen = seen.and_then(|line| line.split('/').next()).map(|at| at.parse().unwrap());
        server
    }

    /// The lines up to and with one that begins so.
    pub fn wait_for_line(&self, start: &str) -> Vec<String> {
        self.wait_for(start, |line| line.starts_with(start))
    }

    /// The lines up to and with one of the log that says this, after its time.
    pub fn wait_for_log(&self, what: &str) -> Vec<String> {
        self.wait_for(what, |line| line.contains(what))
    }

    fn wait_for(&self, start: &str, is_it: impl Fn(&str) -> bool) -> Vec<String> {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            let found = is_it(&line);
            seen.push(line);
            if found {
                return seen;
            }
        }
        panic!("the server never said '{start}' but:\n{}", seen.join("\n"));
    }

    /// The first address that begins so, as the server printed it.
    pub fn listening_at(&self, start: &str) -> String {
        let mut words = self.listening.split([' ', ',']);
        words.find(|word| word.starts_with(start)).unwrap().to_owned()
    }

    /// Where its page and its metrics are.
    pub fn seen_at(&self) -> SocketAddr {
        self.seen.unwrap()
    }

    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket.display())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        tool("kill", &[&format!("-{name}"), &self.pid().to_string()]);
    }

    /// Wait for its end.
    pub fn ended(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "the server does not leave");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stop it in order.
    pub fn stop(mut self) {
        self.signal("TERM");
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "{:?}", self.lines.iter().collect::<Vec<_>>());
    }

    /// Kill it as it is.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command when dropped, whatever happened before.
pub struct Cleanup(pub Vec<String>);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let _ = Command::new(&self.0[0]).args(&self.0[1..]).output();
    }
}

/// Held by tests that use loop devices or mounts: these are the machine's, not the test's.
pub fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that do not compress and do not repeat.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    onefold_block::SplitMix64::new(seed).bytes(len)
}

/// Mebibytes of the real tree: 64, or what the environment asks for (2048 in the soak run).
pub fn tree_mib() -> u64 {
    std::env::var("ONEFOLD_TEST_TREE_MIB").map_or(64, |mib| mib.parse().unwrap())
}

/// An ext4 image with a real tree in it, made without mounting.
pub fn tree_image(sandbox: &Sandbox, name: &str) -> PathBuf {
    let (tree, image) = (sandbox.path("tree"), sandbox.path(name));
    copy_tree(Path::new("/usr"), &tree, &mut ((tree_mib() << 20) / 4 * 3));
    let (tree, image_text) = (tree.to_str().unwrap(), image.to_str().unwrap());
    let size = format!("{}M", tree_mib());
    tool("mkfs.ext4", &["-q", "-F", "-b", "4096", "-d", tree, image_text, &size]);
    fs::remove_dir_all(tree).unwrap();
    image
}

/// Copy regular files of a tree until `left` bytes are used up.
pub fn copy_tree(from: &Path, to: &Path, left: &mut u64) {
    fs::create_dir_all(to).unwrap();
    let Ok(entries) = fs::read_dir(from) else { return };
    let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort();
    for path in names {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let copy = to.join(path.file_name().unwrap());
        // Each file takes whole blocks and an inode.
        let cost = metadata.len().next_multiple_of(4096) + 512;
        if metadata.is_dir() && *left > 1 << 20 {
            *left -= 8192;
            copy_tree(&path, &copy, left);
        } else if metadata.is_file()
            && cost <= (*left).min(8 << 20)
            && fs::copy(&path, &copy).is_ok()
        {
            *left -= cost;
        }
    }
}

/// Every file below a folder, with its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// Whether two files hold the same bytes.
pub fn assert_same(a: &Path, b: &Path) {
    tool("cmp", &[a.to_str().unwrap(), b.to_str().unwrap()]);
}
