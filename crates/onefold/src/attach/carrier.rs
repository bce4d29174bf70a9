//! The process that answers for a ublk device: it carries requests to the server, until the device
//! is stopped.
//! Room: onefold.
//! Invariant: whatever fails before the device is shown, none is left.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use onefold_nbd::protocol::constants::transmission_flag;
use onefold_ublk::{Control, Device, Durable, Shape};

use super::bridge::Bridge;
use super::netlink::Shown;
use super::{Wanted, client};
use crate::failure::{Failure, Result};

/// What it is called on the command line.
pub const COMMAND: &str = "carry";
/// Said once the device is shown.
const READY: &str = "ready";
const QUEUES_MAX: usize = 4;
const DEPTH: u16 = 64;
/// Most bytes of a request.
const BUFFER_BYTES: u32 = 256 << 10;

/// A carrier that runs, and what it has said.
pub struct Started {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
    /// Number of the device, which is not shown yet.
    pub device: u32,
}

impl Started {
    /// Start one. It has made the device when this returns.
    pub fn start(wanted: &Wanted<'_>) -> Result<Self> {
        let failed = |error: io::Error| Failure::bad(format!("cannot start a carrier: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg(COMMAND).arg(wanted.socket).arg(wanted.export);
        if wanted.read_only {
            command.arg("--read-only");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let out = child.stdout.take().ok_or_else(|| Failure::bad("a carrier says nothing"))?;
        let mut started = Self { child, said: BufReader::new(out), device: 0 };
        let line = started.line()?;
        started.device = line.parse().map_err(|_| Failure::bad("a carrier talks nonsense"))?;
        Ok(started)
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Wait until the device is shown. The carrier goes on when this process ends.
    pub fn wait(mut self) -> Result<()> {
        let line = self.line()?;
        if line == READY { Ok(()) } else { Err(Failure::bad("a carrier talks nonsense")) }
    }

    /// What it says next, or why it has ended.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.said.read_line(&mut line);
        if read.is_ok_and(|bytes| bytes > 0) {
            return Ok(line.trim().to_owned());
        }
        let mut told = String::new();
        if let Some(error) = &mut self.child.stderr {
            let _ = error.read_to_string(&mut told);
        }
        let _ = self.child.wait();
        Err(Failure::bad(told.trim().trim_start_matches("error: ").to_owned()))
    }
}

/// Be one: make a device, say its number, show it, and carry until it is stopped.
pub fn run(socket: &Path, export: &str, read_only: bool) -> Result<()> {
    let failed = |error| Failure::bad(format!("'{export}' cannot be attached: {error}"));
    // A terminal that is closed does not end it.
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    let connect = || client::connect(socket, export);
    let (_, shown) = connect().map_err(failed)?;
    let mut control = Control::open().map_err(failed)?;
    let device = control.add(&shape(&shown, read_only)).map_err(failed)?;
    let number = device.number;
    let carried = carry(&mut control, &device, &connect);
    // The kernel waits for whoever has it open.
    drop(device);
    if carried.is_err() {
        // What was shown is gone, or nothing was: nobody else knows of it.
        let _ = control.delete(number);
    }
    carried.map_err(failed)
}

/// A connection to the server.
type Connected = io::Result<(UnixStream, Shown)>;

fn carry(
    control: &mut Control,
    device: &Device,
    connect: &(impl Fn() -> Connected + Sync),
) -> io::Result<()> {
    say(&device.number.to_string())?;
    let (to, opened) = channel();
    thread::scope(|scope| {
        let queue = |number| {
            let to = to.clone();
            scope.spawn(move || carry_queue(device, number, connect, &to))
        };
        let queues: Vec<_> = (0..device.queues).map(queue).collect();
        let shown = show(control, device, &opened);
        if shown.is_err() {
            // Their threads hear of it, and end.
            control.stop(device.number)?;
        }
        let ended = queues.into_iter().map(|queue| {
            queue.join().unwrap_or_else(|_| Err(io::Error::other("a queue's thread panicked")))
        });
        shown.and(ended.collect())
    })
}

/// The kernel shows a device once every queue has asked for requests.
fn show(
    control: &mut Control,
    device: &Device,
    opened: &Receiver<io::Result<()>>,
) -> io::Result<()> {
    // All of them, also where one has failed: one that asks after a stop would never hear of it.
    let opened: Vec<_> = opened.iter().take(device.queues.into()).collect();
    opened.into_iter().collect::<io::Result<()>>()?;
    control.start(device.number)?;
    say(READY)?;
    leave_the_terminal()
}

fn carry_queue(
    device: &Device,
    number: u16,
    connect: impl Fn() -> Connected,
    opened: &Sender<io::Result<()>>,
) -> io::Result<()> {
    let bridge = connect()
        .and_then(|(stream, _)| Ok((device.queue(number)?, stream)))
        .and_then(|(queue, stream)| Bridge::new(queue, stream));
    match bridge {
        Ok(bridge) => {
            let _ = opened.send(Ok(()));
            bridge.run()
        }
        Err(error) => {
            let _ = opened.send(Err(error));
            Ok(())
        }
    }
}

/// What the server's export is as a device.
fn shape(shown: &Shown, read_only: bool) -> Shape {
    let has = |flag| shown.flags & flag != 0;
    let queues = thread::available_parallelism().map_or(1, |count| count.get().min(QUEUES_MAX));
    let discards = transmission_flag::SEND_TRIM | transmission_flag::SEND_WRITE_ZEROES;
    // One connection alone may only be used where a flush on one covers the others.
    let many = has(transmission_flag::CAN_MULTI_CONN);
    let fits = shown.size_bytes.is_multiple_of(shown.block_bytes);
    Shape {
        size_bytes: shown.size_bytes,
        block_bytes: if fits { shown.block_bytes as u32 } else { 512 },
        read_only: read_only || has(transmission_flag::READ_ONLY),
        durable: match (has(transmission_flag::SEND_FLUSH), has(transmission_flag::SEND_FUA)) {
            (false, _) => Durable::Always,
            (true, false) => Durable::ByFlush,
            (true, true) => Durable::ByFlushOrWrite,
        },
        discards: shown.flags & discards == discards,
        queues: if many { queues as u16 } else { 1 },
        depth: DEPTH,
        buffer_bytes: BUFFER_BYTES,
    }
}

fn say(words: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{words}")?;
    out.flush()
}

/// Who started it is gone soon: nothing is written to it, and no folder is kept in use.
fn leave_the_terminal() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    std::env::set_current_dir("/")
}
