//! The process that answers for a ublk device: it carries requests to the server, until the device
//! is stopped.
//! Room: onefold.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use onefold_nbd::protocol::constants::transmission_flag;
use onefold_ublk::{Control, Durable, Shape};

use super::netlink::Shown;
use super::queues::{self, Now};
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
        let program = std::env::current_exe().map_err(|error| cannot_start(&error))?;
        let mut command = Command::new(program);
        command.arg(COMMAND).arg(wanted.socket).arg(wanted.export);
        command.args(wanted.read_only.then_some("--read-only"));
        Self::by(&mut command)
    }

    /// Start this command, which behaves as a carrier does.
    fn by(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| cannot_start(&error))?;
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

fn cannot_start(error: &io::Error) -> Failure {
    Failure::bad(format!("cannot start a carrier: {error}"))
}

/// Be one: make a device, say its number, show it, and carry until it is stopped.
pub fn run(socket: &Path, export: &str, read_only: bool) -> Result<()> {
    let failed = |error| Failure::bad(format!("'{export}' cannot be attached: {error}"));
    // A terminal that is closed does not end it.
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    let connect = || client::connect(socket, export);
    let (_, shown) = connect().map_err(failed)?;
    let mut control = Control::open().map_err(failed)?;
    queues::carry(&mut control, &shape(&shown, read_only), &connect, &mut tell).map_err(failed)
}

/// Say what whoever started it waits for.
fn tell(now: Now) -> io::Result<()> {
    match now {
        Now::Made(device) => say(&mut io::stdout(), &device.to_string()),
        Now::Shown => say(&mut io::stdout(), READY).and_then(|()| leave_the_terminal()),
    }
}

/// What the server's export is as a device.
fn shape(shown: &Shown, read_only: bool) -> Shape {
    let processors = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN).get();
    shape_with(shown, read_only, processors)
}

/// The same on a machine with so many processors.
fn shape_with(shown: &Shown, read_only: bool, processors: usize) -> Shape {
    let has = |flag| shown.flags & flag != 0;
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
        queues: if many { processors.min(QUEUES_MAX) as u16 } else { 1 },
        depth: DEPTH,
        buffer_bytes: BUFFER_BYTES,
    }
}

fn say(out: &mut impl io::Write, words: &str) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carrier_says_its_device_then_that_it_is_ready_or_why_not() {
        let started = |script: &str| Started::by(Command::new("sh").args(["-c", script]));
        let carrier = started("echo 7; echo ready").unwrap();
        assert_eq!((carrier.device, carrier.process() > 0), (7, true));
        carrier.wait().unwrap();
        let refused = |script: &str| {
            let waited = started(script).and_then(Started::wait);
            waited.unwrap_err().message
        };
        assert_eq!(refused("echo 'error: no server' >&2; exit 1"), "no server");
        assert_eq!(refused("echo 7; echo 'error: no queue' >&2"), "no queue");
        for script in ["echo seven; echo ready", "echo 7; echo steady"] {
            assert_eq!(refused(script), "a carrier talks nonsense");
        }
        let mut said = Vec::new();
        say(&mut said, READY).unwrap();
        assert_eq!(said, b"ready\n");
        let missing = Started::by(&mut Command::new("/nowhere/onefold")).err().unwrap();
        assert!(missing.message.starts_with("cannot start a carrier: "), "{}", missing.message);
    }

    #[test]
    fn a_device_is_what_the_server_says_of_its_export() {
        use transmission_flag::*;
        let of = |flags, size_bytes, block_bytes| {
            shape_with(&Shown { size_bytes, block_bytes, flags }, false, 8)
        };
        let plain = of(0, 1 << 20, 4096);
        assert_eq!((plain.size_bytes, plain.block_bytes, plain.queues), (1 << 20, 4096, 1));
        assert!(!plain.read_only && !plain.discards && plain.durable == Durable::Always);
        // A device ends at a block.
        assert_eq!(of(0, (1 << 20) + 512, 4096).block_bytes, 512);
        for (flags, durable) in [
            (SEND_FUA, Durable::Always),
            (SEND_FLUSH, Durable::ByFlush),
            (SEND_FLUSH | SEND_FUA, Durable::ByFlushOrWrite),
        ] {
            assert_eq!(of(flags, 512, 512).durable, durable);
        }
        for (flags, discards) in
            [(SEND_TRIM, false), (SEND_WRITE_ZEROES, false), (SEND_TRIM | SEND_WRITE_ZEROES, true)]
        {
            assert_eq!(of(flags, 512, 512).discards, discards);
        }
        assert!(of(READ_ONLY, 512, 512).read_only);
        let many = Shown { size_bytes: 512, block_bytes: 512, flags: CAN_MULTI_CONN };
        assert_eq!([1, 8].map(|count| shape_with(&many, true, count).queues), [1, 4]);
        assert!(shape_with(&many, true, 1).read_only);
    }
}
