//! Does what guests ask of a device.
//! Room: onefold-vhost.
//! Invariants: (1) what a guest writes is copied out of its memory once, before anything looks at
//! it: it may change there at any time, and what is hashed must be what is stored; (2) a panic in
//! a device call fails that request alone.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use onefold_block::{BlockDevice, BlockError, WriteRequest, ZeroOptions, memory};

use crate::memory::Mapped;
use crate::request::{Cursor, Limits, NAME_BYTES, Piece, Request, Span, Status, Want, Wrong};

/// Most bytes of data that are held at once for a queue: longer requests are done in pieces.
pub(crate) const HELD_BYTES: usize = 1 << 20;

/// The device of one client.
pub(crate) struct Disk {
    pub device: Arc<dyn BlockDevice>,
    pub read_only: bool,
    /// The beginning of the export's name, as guests ask for it.
    pub name: [u8; NAME_BYTES],
    /// Whom the log means.
    pub peer: String,
    /// Whether the guest sends no flushes, so that each write must be durable.
    pub writes_through: AtomicBool,
    failures: AtomicU64,
}

impl Disk {
    pub fn new(device: Arc<dyn BlockDevice>, read_only: bool, name: &str, peer: String) -> Self {
        let mut short = [0; NAME_BYTES];
        let bytes = name.as_bytes();
        let len = bytes.len().min(NAME_BYTES);
        short[..len].copy_from_slice(&bytes[..len]);
        let read_only = read_only || device.is_read_only();
        let writes_through = AtomicBool::new(true);
        Self { device, read_only, name: short, peer, writes_through, failures: AtomicU64::new(0) }
    }

    /// What requests must keep to, now.
    pub fn limits(&self) -> Limits {
        Limits { size_bytes: self.device.size_bytes(), read_only: self.read_only }
    }

    fn fua(&self) -> bool {
        self.writes_through.load(Ordering::Relaxed)
    }

    /// Do one request that is no write: how it ended, and how many bytes of data were put into
    /// memory.
    pub fn run(
        &self,
        request: &Request,
        pieces: &[Piece],
        mapped: &Mapped,
        buffer: &mut Vec<u8>,
    ) -> (Status, u64) {
        let data = Cursor::new(&pieces[request.data.clone()], request.skip);
        let done = match &request.want {
            Err(wrong) => {
                self.tell(wrong);
                return (wrong.status(), 0);
            }
            Ok(Want::Read { offset, len }) => {
                self.read((*offset, *len), data, mapped, buffer).map(|()| *len)
            }
            Ok(Want::Write { offset, len }) => {
                self.write_long((*offset, *len), data, mapped, buffer).map(|()| 0)
            }
            Ok(Want::Flush) => contained(|| self.device.flush()).map(|()| 0).map_err(Trouble::from),
            Ok(Want::Name) => {
                let mut data = data;
                data.write(mapped, &self.name).map(|()| NAME_BYTES as u64).map_err(Trouble::from)
            }
            Ok(Want::Discard(spans)) => {
                each(spans, |span| self.device.trim(span.offset, span.len, self.fua()))
            }
            Ok(Want::Zeroes(spans)) => each(spans, |span| {
                let no_hole = !span.may_unmap;
                let options = ZeroOptions { fua: self.fua(), no_hole, fast_only: false };
                self.device.write_zeroes(span.offset, span.len, options)
            }),
        };
        match done {
            Ok(put) => (Status::Done, put),
            Err(trouble) => {
                self.tell(&trouble);
                (Status::Failed, 0)
            }
        }
    }

    fn read(
        &self,
        (offset, len): (u64, u64),
        mut data: Cursor<'_>,
        mapped: &Mapped,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Trouble> {
        let mut done = 0;
        while done < len {
            let piece = room(buffer, (len - done).min(HELD_BYTES as u64) as usize)?;
            contained(|| self.device.read_at(offset + done, piece))?;
            data.write(mapped, piece)?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// A write that is longer than what is held at once.
    fn write_long(
        &self,
        (offset, len): (u64, u64),
        mut data: Cursor<'_>,
        mapped: &Mapped,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Trouble> {
        let mut done = 0;
        while done < len {
            let piece = room(buffer, (len - done).min(HELD_BYTES as u64) as usize)?;
            data.read(mapped, piece)?;
            contained(|| self.device.write_at(offset + done, piece, false))?;
            done += piece.len() as u64;
        }
        if self.fua() {
            contained(|| self.device.flush())?;
        }
        Ok(())
    }

    /// Do writes as one call; `held` bytes in all. Says how each ended.
    pub fn write_together(
        &self,
        requests: &[Request],
        pieces: &[Piece],
        mapped: &Mapped,
        buffer: &mut Vec<u8>,
    ) -> Vec<Status> {
        let places: Vec<(u64, usize)> = requests.iter().filter_map(write_of).collect();
        let all = places.iter().map(|(_, len)| len).sum();
        let Ok(held) = room(buffer, all) else {
            self.tell(&memory::none_for("writes"));
            return vec![Status::Failed; requests.len()];
        };
        let mut rest = held;
        let mut taken = Vec::with_capacity(requests.len());
        for (request, &(offset, len)) in requests.iter().zip(&places) {
            let (part, others) = rest.split_at_mut(len);
            rest = others;
            let mut data = Cursor::new(&pieces[request.data.clone()], request.skip);
            taken.push(data.read(mapped, part).map(|()| (offset, &*part)));
        }
        let writes = taken.iter().flatten();
        let writes: Vec<WriteRequest<'_>> =
            writes.map(|&(offset, data)| WriteRequest { offset, data, fua: self.fua() }).collect();
        let mut results = Vec::with_capacity(writes.len());
        let called = contained(|| {
            self.device.write_batch(&writes, &mut results);
            Ok(())
        });
        if let Err(error) = called {
            self.tell(&error);
            return vec![Status::Failed; requests.len()];
        }
        let mut results = results.into_iter();
        let ended = |taken: &Result<_, Wrong>| {
            let done = match taken {
                Ok(_) => results.next().unwrap_or_else(|| Err(failed("no result for this write"))),
                Err(wrong) => {
                    self.tell(wrong);
                    return Status::Failed;
                }
            };
            done.map_or_else(
                |error| {
                    self.tell(&error);
                    Status::Failed
                },
                |()| Status::Done,
            )
        };
        taken.iter().map(ended).collect()
    }

    /// What goes wrong again and again must not fill the log: the 1st, 2nd, 4th, 8th and so on of
    /// a client is told, with its number.
    pub fn tell(&self, trouble: &dyn std::fmt::Display) {
        let number = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if number.is_power_of_two() {
            tracing::warn!(peer = self.peer, number, "a guest's request failed: {trouble}");
        }
    }

    #[cfg(test)]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// Do one range after another.
fn each(spans: &[Span], call: impl Fn(&Span) -> Result<(), BlockError>) -> Result<u64, Trouble> {
    for span in spans {
        contained(|| call(span))?;
    }
    Ok(0)
}

/// Where a write goes and how long it is, if it is one.
pub(crate) fn write_of(request: &Request) -> Option<(u64, usize)> {
    match request.want {
        Ok(Want::Write { offset, len }) => Some((offset, len as usize)),
        _ => None,
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0}")]
    Wrong(#[from] Wrong),
    #[error("{0}")]
    Device(#[from] BlockError),
}

/// So many bytes to work with.
fn room(buffer: &mut Vec<u8>, bytes: usize) -> Result<&mut [u8], BlockError> {
    if buffer.len() < bytes && !memory::resize(buffer, bytes) {
        return Err(memory::none_for("a request"));
    }
    Ok(&mut buffer[..bytes])
}

/// Call the device; a panic becomes an I/O error.
fn contained<T>(call: impl FnOnce() -> Result<T, BlockError>) -> Result<T, BlockError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(failed("it panicked")))
}

fn failed(why: &str) -> BlockError {
    BlockError::Io { context: "device call".to_owned(), source: io::Error::other(why.to_owned()) }
}
