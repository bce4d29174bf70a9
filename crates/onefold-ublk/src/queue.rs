//! One queue of a device: requests out of a ring, their buffers, and how they ended.
//! Room: onefold-ublk.
//! Invariant: a queue stays with the thread that opened it: the kernel wants all commands of a
//! queue from one.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;

use io_uring::{IoUring, opcode, types};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::uapi::{
    CMD_BUF_OFFSET, IO_COMMIT_AND_FETCH_REQ, IO_FETCH_REQ, IO_RES_OK, QUEUE_DEPTH_MAX, Request,
    io_command,
};

/// What comes out of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request, by the number of its buffer.
    Request(u16, Request),
    /// The device was stopped: nothing more comes.
    Gone,
}

/// Memory that the kernel has, too.
struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// What the kernel shows of a file, for reading.
    fn of(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at a place that the kernel picks.
        let at = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, flags, file, offset) };
        Self::new(at?, len)
    }

    /// New memory.
    fn private(len: usize) -> io::Result<Self> {
        let (may, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at a place that the kernel picks.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), len, may, flags) };
        Self::new(at?, len)
    }

    fn new(at: *mut core::ffi::c_void, len: usize) -> io::Result<Self> {
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("a mapping at zero"))?;
        Ok(Self { at, len })
    }

    /// A part of it; panics where it is none.
    fn part(&self, from: usize, len: usize) -> NonNull<u8> {
        assert!(from.checked_add(len).is_some_and(|end| end <= self.len), "outside of a mapping");
        // SAFETY: it is inside.
        unsafe { self.at.add(from) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing that borrows from it is left.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Where commands go, and what became of them comes from. The kernel's is [`Ring`].
trait Commands {
    /// Hand in a command about the request of this number.
    ///
    /// # Safety
    /// The buffer that it names is there as long as this is, and nobody borrows from it before the
    /// command has ended.
    unsafe fn push(&mut self, number: u32, command: [u8; 16], tag: u16) -> io::Result<()>;
    /// Send what was handed in.
    fn submit(&mut self) -> io::Result<()>;
    /// A command that has ended: its request, and how.
    fn ended(&mut self) -> Option<(u16, i32)>;
}

/// Commands to a device.
struct Ring {
    ring: IoUring,
    file: File,
}

impl Commands for Ring {
    unsafe fn push(&mut self, number: u32, command: [u8; 16], tag: u16) -> io::Result<()> {
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd16::new(file, number).cmd(command).build();
        let entry = entry.user_data(tag.into());
        // SAFETY: whoever calls this sees to the buffer.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // There is room for as many as there are buffers.
        pushed.map_err(|_| io::Error::other("the ring is full"))
    }

    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    fn ended(&mut self) -> Option<(u16, i32)> {
        let came = self.ring.completion().next()?;
        Some((came.user_data() as u16, came.result()))
    }
}

/// The requests of a queue, and their buffers.
struct Slots<C> {
    // Goes first: with it the kernel lets go of the buffers.
    commands: C,
    descriptors: Mapping,
    buffers: Mapping,
    buffer_bytes: usize,
    number: u16,
    /// Which buffers are ours.
    taken: Vec<bool>,
    is_gone: bool,
}

impl<C: Commands> Slots<C> {
    /// Of queue `number` of the device that a file is, with commands that go there.
    fn open(
        file: &File,
        commands: C,
        number: u16,
        depth: u16,
        buffer_bytes: usize,
    ) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let whole = |bytes: usize| bytes.next_multiple_of(page);
        let stride = whole(QUEUE_DEPTH_MAX as usize * Request::BYTES) as u64;
        let offset = CMD_BUF_OFFSET + u64::from(number) * stride;
        let descriptors = Mapping::of(file, offset, whole(usize::from(depth) * Request::BYTES))?;
        let buffer_bytes = whole(buffer_bytes);
        let buffers = Mapping::private(usize::from(depth) * buffer_bytes)?;
        let (taken, is_gone) = (vec![false; depth.into()], false);
        let mut slots =
            Self { commands, descriptors, buffers, buffer_bytes, number, taken, is_gone };
        for tag in 0..depth {
            slots.push(IO_FETCH_REQ, tag, 0)?;
        }
        slots.commands.submit()?;
        Ok(slots)
    }

    fn push(&mut self, number: u32, tag: u16, result: i32) -> io::Result<()> {
        let from = usize::from(tag) * self.buffer_bytes;
        let buffer = self.buffers.part(from, self.buffer_bytes);
        let command = io_command(self.number, tag, result, buffer.as_ptr());
        // SAFETY: the buffer is mapped as long as the ring lives, and nobody borrows from it while
        // `taken` says that it is the kernel's.
        unsafe { self.commands.push(number, command, tag) }
    }

    fn next_event(&mut self) -> Option<Event> {
        if self.is_gone {
            return Some(Event::Gone);
        }
        let (tag, result) = self.commands.ended()?;
        if result != IO_RES_OK {
            self.is_gone = true;
            return Some(Event::Gone);
        }
        let at = self.descriptors.part(usize::from(tag) * Request::BYTES, Request::BYTES);
        // SAFETY: it is inside of the mapping, and the kernel has written it before it told us.
        let descriptor = unsafe { at.cast::<[u8; Request::BYTES]>().read_volatile() };
        self.taken[usize::from(tag)] = true;
        Some(Event::Request(tag, Request::of(&descriptor)))
    }

    fn data(&mut self, tag: u16, len: usize) -> &mut [u8] {
        assert!(self.taken[usize::from(tag)], "the buffer is the kernel's");
        assert!(len <= self.buffer_bytes, "longer than a buffer");
        let at = self.buffers.part(usize::from(tag) * self.buffer_bytes, len);
        // SAFETY: it is inside of the mapping and ours until the request is finished, which takes
        // the queue as this borrow does.
        unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len) }
    }

    fn finish(&mut self, tag: u16, result: Result<u32, i32>) -> io::Result<()> {
        assert!(std::mem::take(&mut self.taken[usize::from(tag)]), "it was not taken");
        let result = result.map_or_else(|error| -error, u32::cast_signed);
        self.push(IO_COMMIT_AND_FETCH_REQ, tag, result)
    }
}

/// A queue.
pub struct Queue {
    slots: Slots<Ring>,
    _of_one_thread: PhantomData<*mut ()>,
}

impl Queue {
    pub(crate) fn open(
        file: &File,
        number: u16,
        depth: u16,
        buffer_bytes: usize,
    ) -> io::Result<Self> {
        let commands = Ring { ring: IoUring::new(depth.into())?, file: file.try_clone()? };
        let slots = Slots::open(file, commands, number, depth, buffer_bytes)?;
        Ok(Self { slots, _of_one_thread: PhantomData })
    }

    /// The next thing that came; `None` if nothing has.
    pub fn next_event(&mut self) -> Option<Event> {
        self.slots.next_event()
    }

    /// So many bytes of the data of a request that was taken.
    pub fn data(&mut self, tag: u16, len: usize) -> &mut [u8] {
        self.slots.data(tag, len)
    }

    /// Tell how a request ended: bytes of a read or write, or an error's number. [`submit`]
    /// sends it.
    ///
    /// [`submit`]: Self::submit
    pub fn finish(&mut self, tag: u16, result: Result<u32, i32>) -> io::Result<()> {
        self.slots.finish(tag, result)
    }

    /// Send what was finished.
    pub fn submit(&mut self) -> io::Result<()> {
        self.slots.commands.submit()
    }
}

impl AsFd for Queue {
    /// Readable when there is something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's file is open as long as the ring lives, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.slots.commands.ring.as_raw_fd()) }
    }
}

#[cfg(test)]
#[expect(clippy::host_endian_bytes, reason = "ublk is spoken within one machine, in its order")]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;
    use crate::Kind;

    /// What stands in for the kernel: commands as they came, and what is to come.
    #[derive(Default)]
    struct Fake {
        pushed: Vec<(u32, [u8; 16], u16)>,
        sent: usize,
        coming: Vec<(u16, i32)>,
    }

    impl Commands for Fake {
        unsafe fn push(&mut self, number: u32, command: [u8; 16], tag: u16) -> io::Result<()> {
            self.pushed.push((number, command, tag));
            Ok(())
        }
        fn submit(&mut self) -> io::Result<()> {
            self.sent = self.pushed.len();
            Ok(())
        }
        fn ended(&mut self) -> Option<(u16, i32)> {
            (!self.coming.is_empty()).then(|| self.coming.remove(0))
        }
    }

    const DEPTH: u16 = 200;
    const NUMBER: u16 = 3;
    /// Where the descriptors of the queue are: behind those of three others, of 4096 each.
    const DESCRIPTORS: u64 = 3 * 4096 * 24;

    fn opened() -> (File, Slots<Fake>) {
        let file = File::from(memfd_create("device", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&file, DESCRIPTORS + 8192).unwrap();
        let slots = Slots::open(&file, Fake::default(), NUMBER, DEPTH, 5000).unwrap();
        (file, slots)
    }

    /// A read of a sector, in the place of this request.
    fn describe(file: &File, tag: u16, sector: u64) {
        let mut bytes = [0; Request::BYTES];
        bytes[4..8].copy_from_slice(&1u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&sector.to_ne_bytes());
        file.write_all_at(&bytes, DESCRIPTORS + u64::from(tag) * 24).unwrap();
    }

    /// The buffer that a command names.
    fn buffer(command: &[u8; 16]) -> u64 {
        u64::from_ne_bytes(command[8..].try_into().unwrap())
    }

    #[test]
    fn a_queue_asks_for_as_many_requests_as_it_has_buffers_each_with_its_own() {
        let (_file, slots) = opened();
        assert_eq!((slots.commands.pushed.len(), slots.commands.sent), (200, 200));
        let first = buffer(&slots.commands.pushed[0].1);
        for (tag, (number, command, of)) in (0..DEPTH).zip(&slots.commands.pushed) {
            // Of whole pages, as the kernel wants it.
            let at = first + u64::from(tag) * 8192;
            assert_eq!((*number, *of), (IO_FETCH_REQ, tag));
            assert_eq!(*command, io_command(NUMBER, tag, 0, at as *mut u8));
            assert!(at.is_multiple_of(4096));
        }
    }

    #[test]
    fn a_request_has_its_own_descriptor_and_buffer_until_it_is_finished() {
        let (file, mut slots) = opened();
        assert_eq!(slots.next_event(), None);
        for (tag, sector) in [(0, 8), (7, 16), (199, 24)] {
            describe(&file, tag, sector);
            slots.commands.coming.push((tag, IO_RES_OK));
        }
        for (tag, offset) in [(0, 4096), (7, 8192), (199, 12_288)] {
            let request = Request { kind: Kind::Read, offset, len: 512 };
            assert_eq!(slots.next_event(), Some(Event::Request(tag, request)));
        }
        let first = buffer(&slots.commands.pushed[0].1);
        for tag in [0, 7, 199] {
            let data = slots.data(tag, 8192);
            assert_eq!(data.as_ptr().addr() as u64, first + u64::from(tag) * 8192);
            data.fill(tag as u8);
        }
        assert_eq!(slots.data(7, 5), [7; 5]);
        slots.finish(7, Ok(512)).unwrap();
        slots.finish(0, Err(5)).unwrap();
        let told: Vec<_> = slots.commands.pushed[200..].to_vec();
        let command = |tag: u16, result| {
            let at = first + u64::from(tag) * 8192;
            (IO_COMMIT_AND_FETCH_REQ, io_command(NUMBER, tag, result, at as *mut u8), tag)
        };
        assert_eq!(told, [command(7, 512), command(0, -5)]);
        assert_eq!(slots.commands.sent, 200, "sent when it is asked for");
        // It may come again.
        slots.commands.coming.push((7, IO_RES_OK));
        assert!(matches!(slots.next_event(), Some(Event::Request(7, _))));
        slots.data(7, 1);
    }

    #[test]
    fn what_is_the_kernels_is_neither_borrowed_nor_finished() {
        let panics = |act: &dyn Fn(&mut Slots<Fake>)| {
            let (_file, mut slots) = opened();
            slots.commands.coming.push((7, IO_RES_OK));
            slots.next_event().unwrap();
            let act = std::panic::AssertUnwindSafe(|| act(&mut slots));
            std::panic::catch_unwind(act).is_err()
        };
        assert!(!panics(&|slots| _ = slots.data(7, 8192)));
        assert!(panics(&|slots| _ = slots.data(7, 8193)));
        assert!(panics(&|slots| _ = slots.data(6, 1)));
        assert!(panics(&|slots| _ = slots.finish(6, Ok(0))));
        let twice = |slots: &mut Slots<Fake>| (0..2).for_each(|_| slots.finish(7, Ok(0)).unwrap());
        assert!(panics(&twice));
        let late = |slots: &mut Slots<Fake>| {
            slots.finish(7, Ok(0)).unwrap();
            slots.data(7, 1);
        };
        assert!(panics(&late));
    }

    #[test]
    fn a_device_that_is_stopped_stays_so() {
        let (_file, mut slots) = opened();
        slots.commands.coming = vec![(3, -19), (4, IO_RES_OK)];
        for _ in 0..3 {
            assert_eq!(slots.next_event(), Some(Event::Gone));
        }
    }

    /// A ring of the kernel, with a file that knows no commands. None where the machine lets
    /// nobody have one.
    fn ring(file: &File) -> Option<Ring> {
        match IoUring::new(4) {
            Ok(ring) => Some(Ring { ring, file: file.try_clone().unwrap() }),
            Err(error) => {
                eprintln!("skipped: no ring can be had: {error}");
                None
            }
        }
    }

    /// What a file says to commands that it does not know (`EOPNOTSUPP`).
    const NOT_KNOWN: i32 = -95;

    #[test]
    fn commands_come_to_the_kernel_when_they_are_sent_and_end_by_their_numbers() {
        let file = File::from(memfd_create("device", MemfdFlags::CLOEXEC).unwrap());
        let Some(mut ring) = ring(&file) else { return };
        // SAFETY: a file that knows no commands does nothing with a buffer.
        let push = |ring: &mut Ring, tag| unsafe { ring.push(IO_FETCH_REQ, [0; 16], tag) };
        for tag in [7, 300, 1, 2] {
            push(&mut ring, tag).unwrap();
        }
        assert_eq!(push(&mut ring, 3).unwrap_err().to_string(), "the ring is full");
        assert_eq!(ring.ended(), None, "nothing was sent");
        ring.submit().unwrap();
        let mut ended: Vec<_> = std::iter::from_fn(|| ring.ended()).collect();
        ended.sort_unstable();
        assert_eq!(ended, [1, 2, 7, 300].map(|tag| (tag, NOT_KNOWN)));
    }

    #[test]
    fn a_queue_of_what_is_no_device_is_gone() {
        let file = File::from(memfd_create("device", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&file, 8192).unwrap();
        if ring(&file).is_none() {
            return;
        }
        let mut queue = Queue::open(&file, 0, 4, 4096).unwrap();
        assert_eq!(queue.next_event(), Some(Event::Gone));
        assert!(queue.as_fd().as_raw_fd() >= 0);
        queue.submit().unwrap();
    }

    #[test]
    fn memory_goes_with_its_mapping() {
        let name = "a mapping of this test";
        let is_mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains(name);
        let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&file, 8192).unwrap();
        let mapping = Mapping::of(&file, 0, 8192).unwrap();
        assert!(is_mapped());
        drop(mapping);
        assert!(!is_mapped());
    }
}
