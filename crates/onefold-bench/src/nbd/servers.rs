//! The servers that are measured: ours, and nbdkit with its memory plugin.
//! Room: onefold-bench.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use onefold_block::ByteSize;
use rustix::process::{Pid, Signal, kill_process};

use crate::clock;
use crate::io::Moved;

/// Longest that a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_mins(1);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `onefold serve` with a pool in the folder.
    Onefold,
    /// `nbdkit memory`.
    Nbdkit,
    /// `nbdkit file`, on a sparse file in the folder.
    NbdkitFile,
    /// `nbdkit file` behind its cache filter, on the file `image` in the folder; what the filter
    /// asks of the file is logged in `requests`, and its cache lies in the folder, too.
    NbdkitCache {
        /// Bytes of the cache.
        cache: u64,
    },
}

/// A running server, stopped when dropped.
pub struct Server {
    child: Child,
    /// How clients reach it.
    pub uri: String,
}

impl Server {
    /// Start a server with one export of `size` on a socket in `folder`.
    pub fn start(kind: Kind, folder: &Path, size: ByteSize) -> Result<Self> {
        Self::start_with((kind, folder, size), &[])
    }

    /// The same, with more arguments for it.
    pub fn start_with(
        (kind, folder, size): (Kind, &Path, ByteSize),
        more: &[&OsStr],
    ) -> Result<Self> {
        let socket = folder.join(match kind {
            Kind::Onefold => "onefold.sock",
            Kind::Nbdkit | Kind::NbdkitFile | Kind::NbdkitCache { .. } => "nbdkit.sock",
        });
        let size = size.bytes();
        let mut command = match kind {
            Kind::Onefold => {
                let mut command = Command::new(ours()?);
                command.arg("serve").arg(folder.join("pool")).args(["--size", &size.to_string()]);
                command.arg("--listen").arg(format!("unix:{}", socket.display()));
                command
            }
            Kind::Nbdkit => {
                let mut command = Command::new("nbdkit");
                command.args(["--foreground", "--unix"]).arg(&socket);
                command.args(["memory", &size.to_string()]);
                command
            }
            Kind::NbdkitFile => {
                let file = folder.join("file");
                let made = std::fs::File::create(&file).and_then(|made| made.set_len(size));
                made.with_context(|| format!("cannot make {}", file.display()))?;
                let mut command = Command::new("nbdkit");
                command.args(["--foreground", "--unix"]).arg(&socket).arg("file").arg(&file);
                command
            }
            Kind::NbdkitCache { cache } => {
                let mut command = Command::new("nbdkit");
                command.env("TMPDIR", folder);
                command.args(["--foreground", "--filter=cache", "--filter=log", "--unix"]);
                command.arg(&socket).arg("file").arg(folder.join("image"));
                command.args(["cache-on-read=true", &format!("cache-max-size={cache}")]);
                command.arg(format!("logfile={}", folder.join("requests").display()));
                command
            }
        };
        command.args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        let said = child.stderr.take().map(hear);
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let mut server = Self { child, uri };
        match said {
            // It says so once it listens; before, the socket may be there only for a test.
            Some(said) if kind == Kind::Onefold => {
                let last = wait_for_line(&said, "listening");
                last.map_err(|last| anyhow!("`onefold serve` does not listen: {last}"))?;
            }
            _ => server.wait_for_socket(&socket)?,
        }
        Ok(server)
    }

    fn wait_for_socket(&mut self, socket: &Path) -> Result<()> {
        let start = Instant::now();
        while UnixStream::connect(socket).is_err() {
            if let Some(status) = self.child.try_wait().context("cannot wait for the server")? {
                bail!("the server ended at once: {status}");
            }
            if start.elapsed() > PATIENCE {
                bail!("the server does not listen on {}", socket.display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Its number.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Bytes that it moved to and from files.
    pub fn moved(&self) -> Result<Moved> {
        Moved::by(self.child.id())
    }

    /// CPU seconds that it has used.
    pub fn cpu(&self) -> Result<f64> {
        clock::process_cpu(self.child.id())
    }

    /// Stop it cleanly and wait for its end.
    pub fn stop(mut self) -> Result<()> {
        self.terminate();
        let status = self.child.wait().context("cannot wait for the server")?;
        // nbdkit has no code for having been asked to stop; ours says so with success.
        if status.success() { Ok(()) } else { bail!("the server stopped with {status}") }
    }

    fn terminate(&self) {
        if let Ok(number) = i32::try_from(self.child.id())
            && let Some(pid) = Pid::from_raw(number)
        {
            // It may have ended by itself; waiting for it will tell.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
            let _ = self.child.wait();
        }
    }
}

/// The lines of a server's log, read to their end so that it never waits for a reader.
fn hear(log: ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            // Nobody listens any more once the server runs.
            let _ = sender.send(line);
        }
    });
    lines
}

/// Wait for a line that begins so; in vain, the last line is told.
fn wait_for_line(lines: &Receiver<String>, start: &str) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    let mut last = "nothing was said".to_owned();
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if line.starts_with(start) {
            return Ok(());
        }
        last = line;
    }
    Err(last)
}

/// The `onefold` that was built along with this program.
pub fn ours() -> Result<PathBuf> {
    let bench = std::env::current_exe().context("cannot find this program")?;
    let ours = bench.with_file_name("onefold");
    if ours.exists() {
        return Ok(ours);
    }
    bail!("{} is missing: build it with `cargo build -p onefold`", ours.display())
}
