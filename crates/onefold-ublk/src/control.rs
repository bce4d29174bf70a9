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

/// Who does what is asked about devices. The kernel's is [`Ring`].
trait Asked: Send {
    fn ask(
        &mut self,
        number: u32,
        device: u32,
        memory: Option<&mut [u8]>,
        data: u64,
    ) -> io::Result<()>;
}

/// The way to the kernel.
struct Ring {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Asked for Ring {
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
}

/// The way to the kernel's `ublk`.
pub struct Control {
    kernel: Box<dyn Asked>,
}

impl Control {
    /// Whether the kernel has it.
    pub fn is_there() -> bool {
        Path::new(CONTROL).exists()
    }

    /// Open it; for root.
    pub fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        Ok(Self { kernel: Box::new(Ring { file, ring: IoUring::builder().build(4)? }) })
    }

    /// Make a device. It can be used once all its queues are open and it was started.
    pub fn add(&mut self, shape: &Shape) -> io::Result<Device> {
        let mut info = DeviceInfo::new(shape.queues, shape.depth, shape.buffer_bytes);
        let new = info.device();
        self.kernel.ask(command::ADD_DEV, new, Some(&mut info.0), 0)?;
        let number = info.device();
        // What the kernel made smaller than was asked for.
        let shape = Shape { buffer_bytes: info.buffer_bytes(), ..*shape };
        let set = self.kernel.ask(command::SET_PARAMS, number, Some(&mut params(&shape)), 0);
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
        self.kernel.ask(command::START_DEV, device, None, process)
    }

    /// The process that answers for a device; `None` if none does.
    pub fn process_of(&mut self, device: u32) -> io::Result<Option<u32>> {
        let mut info = DeviceInfo::new(0, 0, 0);
        self.kernel.ask(command::GET_DEV_INFO, device, Some(&mut info.0), 0)?;
        Ok(u32::try_from(info.process()).ok())
    }

    /// End a device: requests that come are failed, and its queues are told.
    pub fn stop(&mut self, device: u32) -> io::Result<()> {
        self.kernel.ask(command::STOP_DEV, device, None, 0)
    }

    /// Remove a device, after whoever answers for it has closed it.
    pub fn delete(&mut self, device: u32) -> io::Result<()> {
        self.kernel.ask(command::DEL_DEV, device, None, 0)
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
        Queue::open(&self.file, queue, self.depth, self.buffer_bytes as usize)
    }

    /// What it is for everybody else.
    pub fn path_of(number: u32) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{number}"))
    }
}

#[cfg(test)]
#[expect(clippy::host_endian_bytes, reason = "ublk is spoken within one machine, in its order")]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A command as it came: its number, the device, the memory and the number with it.
    type Command = (u32, u32, Option<Vec<u8>>, u64);

    /// What stands in for the kernel: it makes device 4294967294, which nobody has, with requests
    /// of 4 KiB at most; a process answers for it, or none.
    #[derive(Clone, Default)]
    struct Fake {
        asked: Arc<Mutex<Vec<Command>>>,
        process: i32,
        refuses: Option<u32>,
    }

    const NUMBER: u32 = u32::MAX - 1;

    impl Asked for Fake {
        fn ask(
            &mut self,
            number: u32,
            device: u32,
            memory: Option<&mut [u8]>,
            data: u64,
        ) -> io::Result<()> {
            let brought = memory.as_deref().map(<[u8]>::to_vec);
            self.asked.lock().unwrap().push((number, device, brought, data));
            if self.refuses == Some(number) {
                return Err(io::Error::from_raw_os_error(95));
            }
            if let Some(memory) = memory.filter(|memory| memory.len() == 64) {
                memory[8..12].copy_from_slice(&4096u32.to_ne_bytes());
                memory[12..16].copy_from_slice(&NUMBER.to_ne_bytes());
                memory[16..20].copy_from_slice(&self.process.to_ne_bytes());
            }
            Ok(())
        }
    }

    impl Fake {
        fn control(&self) -> Control {
            Control { kernel: Box::new(self.clone()) }
        }

        fn asked(&self) -> Vec<Command> {
            std::mem::take(&mut *self.asked.lock().unwrap())
        }
    }

    const SHAPE: Shape = Shape {
        size_bytes: 1 << 20,
        block_bytes: 512,
        read_only: false,
        durable: Durable::ByFlush,
        discards: true,
        queues: 2,
        depth: 64,
        buffer_bytes: 1 << 18,
    };

    #[test]
    fn a_device_that_cannot_be_opened_is_removed_again() {
        let fake = Fake::default();
        let error = fake.control().add(&SHAPE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "nobody has such a device");
        let info = DeviceInfo::new(2, 64, 1 << 18).0.to_vec();
        // With the size of requests that the kernel said.
        let shape = params(&Shape { buffer_bytes: 4096, ..SHAPE }).to_vec();
        let expected = [
            (command::ADD_DEV, u32::MAX, Some(info), 0),
            (command::SET_PARAMS, NUMBER, Some(shape), 0),
            (command::DEL_DEV, NUMBER, None, 0),
        ];
        assert_eq!(fake.asked(), expected);
        // So is one whose shape is refused, and the error is that of the shape.
        let fake = Fake { refuses: Some(command::SET_PARAMS), ..Fake::default() };
        assert_eq!(fake.control().add(&SHAPE).unwrap_err().raw_os_error(), Some(95));
        assert_eq!(fake.asked()[2], (command::DEL_DEV, NUMBER, None, 0));
        let fake = Fake { refuses: Some(command::ADD_DEV), ..Fake::default() };
        assert_eq!(fake.control().add(&SHAPE).unwrap_err().raw_os_error(), Some(95));
        assert_eq!(fake.asked().len(), 1);
    }

    #[test]
    fn each_command_names_its_device() {
        let fake = Fake { process: 77, ..Fake::default() };
        let mut control = fake.control();
        control.start(5).unwrap();
        control.stop(6).unwrap();
        control.delete(7).unwrap();
        assert_eq!(control.process_of(8).unwrap(), Some(77));
        let own = rustix::process::getpid().as_raw_nonzero().get() as u64;
        let expected = [
            (command::START_DEV, 5, None, own),
            (command::STOP_DEV, 6, None, 0),
            (command::DEL_DEV, 7, None, 0),
            (command::GET_DEV_INFO, 8, Some(DeviceInfo::new(0, 0, 0).0.to_vec()), 0),
        ];
        assert_eq!(fake.asked(), expected);
        let nobody = Fake { process: -1, ..Fake::default() };
        assert_eq!(nobody.control().process_of(8).unwrap(), None);
        assert_eq!(Device::path_of(12), Path::new("/dev/ublkb12"));
    }

    #[test]
    fn what_the_kernel_refuses_is_an_error_by_its_number() {
        let file = rustix::fs::memfd_create("control", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let Ok(ring) = IoUring::builder().build(4) else {
            eprintln!("skipped: no ring can be had");
            return;
        };
        // A file that knows no commands, again and again.
        let mut control = Control { kernel: Box::new(Ring { file: file.into(), ring }) };
        for _ in 0..9 {
            assert_eq!(control.stop(1).unwrap_err().raw_os_error(), Some(95));
        }
        assert_eq!(Control::is_there(), Path::new("/dev/ublk-control").exists());
    }
}
