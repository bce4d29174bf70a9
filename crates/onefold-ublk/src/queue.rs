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

/// A queue.
pub struct Queue {
    // Goes first: with it the kernel lets go of the buffers.
    ring: IoUring,
    file: File,
    descriptors: Mapping,
    buffers: Mapping,
    buffer_bytes: usize,
    number: u16,
    /// Which buffers are ours.
    taken: Vec<bool>,
    is_gone: bool,
    _of_one_thread: PhantomData<*mut ()>,
}

impl Queue {
    pub(crate) fn open(
        file: File,
        number: u16,
        depth: u16,
        buffer_bytes: usize,
    ) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let whole = |bytes: usize| bytes.next_multiple_of(page);
        let stride = whole(QUEUE_DEPTH_MAX as usize * Request::BYTES) as u64;
        let offset = CMD_BUF_OFFSET + u64::from(number) * stride;
        let descriptors = Mapping::of(&file, offset, whole(usize::from(depth) * Request::BYTES))?;
        let buffer_bytes = whole(buffer_bytes);
        let buffers = Mapping::private(usize::from(depth) * buffer_bytes)?;
        let ring = IoUring::new(depth.into())?;
        let taken = vec![false; depth.into()];
        let mut queue = Self {
            ring,
            file,
            descriptors,
            buffers,
            buffer_bytes,
            number,
            taken,
            is_gone: false,
            _of_one_thread: PhantomData,
        };
        for tag in 0..depth {
            queue.push(IO_FETCH_REQ, tag, 0)?;
        }
        queue.submit()?;
        Ok(queue)
    }

    fn push(&mut self, number: u32, tag: u16, result: i32) -> io::Result<()> {
        let from = usize::from(tag) * self.buffer_bytes;
        let buffer = self.buffers.part(from, self.buffer_bytes);
        let command = io_command(self.number, tag, result, buffer.as_ptr());
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd16::new(file, number).cmd(command).build();
        let entry = entry.user_data(tag.into());
        // SAFETY: the buffer is mapped as long as the ring lives, and nobody borrows from it while
        // `taken` says that it is the kernel's.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // There is room for as many as there are buffers.
        pushed.map_err(|_| io::Error::other("the ring is full"))
    }

    /// The next thing that came; `None` if nothing has.
    pub fn next_event(&mut self) -> Option<Event> {
        if self.is_gone {
            return Some(Event::Gone);
        }
        let came = self.ring.completion().next()?;
        if came.result() != IO_RES_OK {
            self.is_gone = true;
            return Some(Event::Gone);
        }
        let tag = came.user_data() as u16;
        let at = self.descriptors.part(usize::from(tag) * Request::BYTES, Request::BYTES);
        // SAFETY: it is inside of the mapping, and the kernel has written it before it told us.
        let descriptor = unsafe { at.cast::<[u8; Request::BYTES]>().read_volatile() };
        self.taken[usize::from(tag)] = true;
        Some(Event::Request(tag, Request::of(&descriptor)))
    }

    /// So many bytes of the data of a request that was taken.
    pub fn data(&mut self, tag: u16, len: usize) -> &mut [u8] {
        assert!(self.taken[usize::from(tag)], "the buffer is the kernel's");
        assert!(len <= self.buffer_bytes, "longer than a buffer");
        let at = self.buffers.part(usize::from(tag) * self.buffer_bytes, len);
        // SAFETY: it is inside of the mapping and ours until the request is finished, which takes
        // the queue as this borrow does.
        unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len) }
    }

    /// Tell how a request ended: bytes of a read or write, or an error's number. [`submit`]
    /// sends it.
    ///
    /// [`submit`]: Self::submit
    pub fn finish(&mut self, tag: u16, result: Result<u32, i32>) -> io::Result<()> {
        assert!(std::mem::take(&mut self.taken[usize::from(tag)]), "it was not taken");
        let result = result.map_or_else(|error| -error, u32::cast_signed);
        self.push(IO_COMMIT_AND_FETCH_REQ, tag, result)
    }

    /// Send what was finished.
    pub fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

impl AsFd for Queue {
    /// Readable when there is something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's file is open as long as the ring lives, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}
