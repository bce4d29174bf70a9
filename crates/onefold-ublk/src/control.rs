//! Devices as a whole: made, started, stopped, removed.
//! Room: onefold-ublk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::queue::Queue;
use crate::uapi::{ControlCommand, DeviceInfo, command, params};

const CONTROL: &str = "/dev/ublk-control";

/// When what was written to a device is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// Once it was answered.
    Always,
    /// After a flush.
    ByFlush,
    /// After a flush, and single writes that ask for it at once (FUA).
    ByFlushOrWrite,
}

/// What a device is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its size; what is over whole blocks is not shown.
    pub size_bytes: u64,
    /// Its block size: a power of two between 512 and 4096.
    pub block_bytes: u32,
    /// Nothing can be changed.
    pub read_only: bool,
    /// When what was written is durable.
    pub durable: Durable,
    /// Discards and zeroes are answered.
    pub discards: bool,
    /// Queues, each for a thread of its own.
    pub queues: u16,
    /// Requests at once in a queue, at most 4096.
    pub depth: u16,
    /// Most bytes of a request.
    pub buffer_bytes: u32,
}

/// The way to the kernel's `ublk`.
pub struct Control {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Control {
    /// Whether the kernel has it.
    pub fn is_there() -> bool {
        Path::new(CONTROL).exists()
    }

    /// Open it; for root.
    pub fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        Ok(Self { file, ring: IoUring::builder().build(4)? })
    }

    fn ask(
        &mut self,
        number: u32,
        device: u32,
        memory: Option<&mut [u8]>,
        data: u64,
    ) -> io::Result<()> {
        let memory = memory.map_or((std::ptr::null_mut(), 0), |memory| {
            let len = memory.len();
            (memory.as_mut_ptr(), len)
        });
        let command = ControlCommand { device, memory, data }.bytes();
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(file, number).cmd(command).build();
        // SAFETY: the memory that the command names is borrowed until the command has ended.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::other("the ring is full"))?;
        // A signal must not leave the command behind: its memory is ours again when this returns.
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            if let Some(ended) = self.ring.completion().next() {
                return match ended.result() {
                    0.. => Ok(()),
                    error => Err(io::Error::from_raw_os_error(-error)),
                };
            }
        }
    }

    /// Make a device. It can be used once all its queues are open and it was started.
    pub fn add(&mut self, shape: &Shape) -> io::Result<Device> {
        let mut info = DeviceInfo::new(shape.queues, shape.depth, shape.buffer_bytes);
        let new = info.device();
        self.ask(command::ADD_DEV, new, Some(&mut info.0), 0)?;
        let number = info.device();
        // What the kernel made smaller than was asked for.
        let shape = Shape { buffer_bytes: info.buffer_bytes(), ..*shape };
        let set = self.ask(command::SET_PARAMS, number, Some(&mut params(&shape)), 0);
        let opened = set.and_then(|()| {
            let path = format!("/dev/ublkc{number}");
            OpenOptions::new().read(true).write(true).open(path)
        });
        match opened {
            Ok(file) => {
                let (queues, depth) = (info.queues(), info.depth());
                Ok(Device { file, number, queues, depth, buffer_bytes: info.buffer_bytes() })
            }
            Err(error) => {
                self.delete(number)?;
                Err(error)
            }
        }
    }

    /// Show a device; this process answers for it.
    pub fn start(&mut self, device: u32) -> io::Result<()> {
        let process = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned().into();
        self.ask(command::START_DEV, device, None, process)
    }

    /// The process that answers for a device; `None` if none does.
    pub fn process_of(&mut self, device: u32) -> io::Result<Option<u32>> {
        let mut info = DeviceInfo::new(0, 0, 0);
        self.ask(command::GET_DEV_INFO, device, Some(&mut info.0), 0)?;
        Ok(u32::try_from(info.process()).ok())
    }

    /// End a device: requests that come are failed, and its queues are told.
    pub fn stop(&mut self, device: u32) -> io::Result<()> {
        self.ask(command::STOP_DEV, device, None, 0)
    }

    /// Remove a device, after whoever answers for it has closed it.
    pub fn delete(&mut self, device: u32) -> io::Result<()> {
        self.ask(command::DEL_DEV, device, None, 0)
    }
}

/// A device that was made. The kernel lets only one open it.
#[derive(Debug)]
pub struct Device {
    file: File,
    /// Its number.
    pub number: u32,
    /// How many queues it has.
    pub queues: u16,
    depth: u16,
    buffer_bytes: u32,
}

impl Device {
    /// Open one of its queues, for the thread that calls.
    pub fn queue(&self, queue: u16) -> io::Result<Queue> {
        Queue::open(self.file.try_clone()?, queue, self.depth, self.buffer_bytes as usize)
    }

    /// What it is for everybody else.
    pub fn path_of(number: u32) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{number}"))
    }
}
