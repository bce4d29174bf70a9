//! A volume of a pool that a server has, read and written through its control socket.
//! Room: onefold.
//! So files are opened by whoever runs the command, with their rights, and the server sees data
//! alone. Each call takes a connection of its own, so that copies go on several threads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use onefold_block::device::check_range;
use onefold_block::{BlockDevice, BlockError, Extent, ZeroOptions};
use onefold_control::http::encoded;
use onefold_control::{Answer, Client, ClientError, Method};
use onefold_pool::Volume;
use serde_json::Value;

use super::data::{self, Told};
use crate::failure::{Failure, Result};

/// Longest piece in one request, in bytes: less than a server takes.
const PIECE_BYTES: usize = 2 << 20;

/// A volume, whoever has it.
pub trait Asked: BlockDevice + Send + Sync {
    /// Where to go on after `block_status` failed at `offset` for damage, in bytes.
    fn damaged_until(&self, offset: u64) -> u64;

    /// It was given this size.
    fn resized(&self, size_bytes: u64);

    /// Whether nothing has the name any more by which it was opened, or another one: what is done
    /// by name does not happen to it. Of a pool that this process has, nobody takes names away.
    fn has_lost_its_name(&self) -> bool {
        false
    }
}

impl Asked for Volume {
    fn damaged_until(&self, offset: u64) -> u64 {
        Self::damaged_until(self, offset)
    }

    fn resized(&self, _: u64) {
        // It knows by itself.
    }
}

/// A volume behind a server.
pub struct RemoteVolume {
    at: PathBuf,
    name: String,
    size_bytes: AtomicU64,
    block_bytes: u32,
    /// By which the server knows it again when it is renamed, and another one gets its name.
    number: Option<u64>,
    /// By which that knows itself: another one, later, may have lost what was not flushed.
    server: Option<String>,
    idle: Mutex<Vec<Client>>,
}

/// Statuses of answers: done, and that there is no volume of that name.
const OK: u16 = 200;
const NO_VOLUME: u16 = 404;

/// What the server is called that tells this of a volume.
fn server_of(about: &Value) -> Option<String> {
    Some(about.get("server")?.as_str()?.to_owned())
}

fn failed(source: std::io::Error) -> BlockError {
    BlockError::Io { context: "ask the server of the pool".to_owned(), source }
}

/// The error that an answer tells.
fn told<T>(answer: &Answer, name: &str) -> std::result::Result<T, BlockError> {
    if answer.status == NO_VOLUME {
        let about: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let why = about["error"]["message"].as_str().unwrap_or("there is no such volume");
        return Err(failed(std::io::Error::other(why.to_owned())));
    }
    Err(serde_json::from_slice::<Told>(&answer.body).map_or_else(
        |_| failed(std::io::Error::other("its answer makes no sense")),
        |told| data::error_of(told, name),
    ))
}

impl RemoteVolume {
    /// The volume of this name.
    pub fn open(at: &Path, name: &str) -> Result<Self> {
        let mut volume = Self {
            at: at.to_owned(),
            name: name.to_owned(),
            size_bytes: AtomicU64::default(),
            block_bytes: 4096,
            number: None,
            server: None,
            idle: Mutex::default(),
        };
        let failed = |error: BlockError| Failure::volume(name, &error);
        let answer = volume.answer(Method::Get, "", &[]).map_err(failed)?;
        let about: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status == NO_VOLUME {
            // In the words of a pool that nobody serves.
            let why = about["error"]["message"].as_str().unwrap_or("there is no such volume");
            return Err(Failure::nothing_done(format!("pool '{}': {why}", at.display())));
        }
        let about =
            if answer.status == OK { about } else { told(&answer, name).map_err(failed)? };
        let number = |name: &str| about.get(name).and_then(Value::as_u64);
        let nonsense = || Failure::bad(format!("volume '{name}': the server tells no size"));
        let told = number("size_bytes").zip(number("block_bytes"));
        let (size, block) = told.filter(|(_, block)| *block > 0).ok_or_else(nonsense)?;
        *volume.size_bytes.get_mut() = size;
        volume.block_bytes = block.try_into().map_err(|_| nonsense())?;
        volume.number = number("number");
        volume.server = server_of(&about);
        Ok(volume)
    }

    fn ask(
        &self,
        method: Method,
        what: &str,
        body: &[u8],
    ) -> std::result::Result<Vec<u8>, BlockError> {
        let answer = self.answer(method, what, body)?;
        if answer.status == OK { Ok(answer.body) } else { told(&answer, &self.name) }
    }

    /// What the server says, whatever that is.
    fn answer(
        &self,
        method: Method,
        what: &str,
        body: &[u8],
    ) -> std::result::Result<Answer, BlockError> {
        let mut path = self.path(what);
        let number = self.number.map(|number| format!("volume={number}"));
        let server = self.server.as_ref().map(|server| format!("server={server}"));
        for known in [number, server].into_iter().flatten() {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&known);
        }
        self.answer_at(method, &path, body)
    }

    /// Where a part of whatever has its name is.
    fn path(&self, what: &str) -> String {
        format!("/api/v1/data/{}{what}", encoded(self.name.as_bytes()))
    }

    fn answer_at(
        &self,
        method: Method,
        path: &str,
        body: &[u8],
    ) -> std::result::Result<Answer, BlockError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop();
        let mut client = match kept {
            Some(client) => client,
            None => Client::connect(&self.at).map_err(failed)?.ok_or_else(|| {
                failed(std::io::Error::other("it is gone, and what was not flushed may be too"))
            })?,
        };
        let answer = client.ask(method, path, body).map_err(|error| match error {
            ClientError::Io(error) => failed(error),
            error @ ClientError::Nonsense(_) => failed(std::io::Error::other(error)),
        })?;
        if answer.status == OK {
            idle().push(client);
        }
        Ok(answer)
    }

    /// A part of its stream, if it is a snapshot: what that begins with, or the frame from a byte
    /// of the volume on.
    pub fn stream_part(
        &self,
        base: Option<&str>,
        from: Option<u64>,
    ) -> std::result::Result<Vec<u8>, BlockError> {
        let base = base.map(|base| format!("base={}", encoded(base.as_bytes())));
        let asked = [base, from.map(|from| format!("from={from}"))];
        let asked: Vec<String> = asked.into_iter().flatten().collect();
        self.ask(Method::Get, &format!("/stream?{}", asked.join("&")), &[])
    }

    /// Begin to record it, with identities of so many bytes; the number of the recording.
    pub fn begin_recording(&self, unit: u64) -> std::result::Result<u64, BlockError> {
        let told = self.ask(Method::Post, &format!("/recording?unit={unit}"), &[])?;
        let told: Option<Value> = serde_json::from_slice(&told).ok();
        told.and_then(|told| told.get("number")?.as_u64()).ok_or_else(nonsense)
    }

    /// Requests recorded so far, and the frames since the last look; `ends`: it ends with them.
    pub fn fetch_recording(
        &self,
        number: u64,
        ends: bool,
    ) -> std::result::Result<(u64, Vec<u8>), BlockError> {
        let (method, what) = if ends { (Method::Delete, "") } else { (Method::Post, "/fetch") };
        let mut body = self.ask(method, &format!("/recording{what}?number={number}"), &[])?;
        let requests = *body.first_chunk::<8>().ok_or_else(nonsense)?;
        body.drain(..requests.len());
        Ok((u64::from_le_bytes(requests), body))
    }

    fn check(&self, offset: u64, len: u64) -> std::result::Result<(), BlockError> {
        check_range(offset, len, self.size_bytes())
    }

    fn flush_if(&self, fua: bool) -> std::result::Result<(), BlockError> {
        if fua { self.flush() } else { Ok(()) }
    }

    fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
        (0..len)
            .step_by(PIECE_BYTES)
            .map(move |at| (offset + at as u64, at..len.min(at + PIECE_BYTES)))
    }
}

fn nonsense() -> BlockError {
    BlockError::Io {
        context: "ask the server of the pool".to_owned(),
        source: std::io::Error::other("its answer makes no sense"),
    }
}

impl BlockDevice for RemoteVolume {
    fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), BlockError> {
        self.check(offset, buf.len() as u64)?;
        for (at, piece) in Self::pieces(offset, buf.len()) {
            let what = format!("/bytes?offset={at}&length={}", piece.len());
            let got = self.ask(Method::Get, &what, &[])?;
            if got.len() != piece.len() {
                let source = std::io::ErrorKind::UnexpectedEof.into();
                return Err(BlockError::Io { context: "read from the server".to_owned(), source });
            }
            buf[piece].copy_from_slice(&got);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> std::result::Result<(), BlockError> {
        // Now, and not after some pieces of it were written.
        self.check(offset, data.len() as u64)?;
        for (at, piece) in Self::pieces(offset, data.len()) {
            self.ask(Method::Put, &format!("/bytes?offset={at}"), &data[piece])?;
        }
        self.flush_if(fua)
    }

    fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        options: ZeroOptions,
    ) -> std::result::Result<(), BlockError> {
        self.check(offset, len)?;
        let ZeroOptions { no_hole, fast_only, fua } = options;
        let how = format!("no_hole={no_hole}&fast_only={fast_only}");
        self.ask(Method::Post, &format!("/zeroes?offset={offset}&length={len}&{how}"), &[])?;
        self.flush_if(fua)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> std::result::Result<(), BlockError> {
        self.check(offset, len)?;
        self.ask(Method::Post, &format!("/trim?offset={offset}&length={len}"), &[])?;
        self.flush_if(fua)
    }

    fn flush(&self) -> std::result::Result<(), BlockError> {
        self.ask(Method::Post, "/flush", &[]).map(|_| ())
    }

    fn block_status(&self, offset: u64, len: u64) -> std::result::Result<Vec<Extent>, BlockError> {
        self.check(offset, len)?;
        let extents =
            self.ask(Method::Get, &format!("/extents?offset={offset}&length={len}"), &[])?;
        data::extents_of(&extents, len)
    }
}

impl Asked for RemoteVolume {
    fn damaged_until(&self, offset: u64) -> u64 {
        let told = self.ask(Method::Get, &format!("/damaged?offset={offset}"), &[]).ok();
        let told: Option<Value> = told.and_then(|told| serde_json::from_slice(&told).ok());
        let until = told.and_then(|told| told.get("until")?.as_u64()).unwrap_or(offset);
        // Nothing is behind its end, whatever the server says.
        until.min(self.size_bytes())
    }

    fn resized(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Release);
    }

    fn has_lost_its_name(&self) -> bool {
        // Where the server tells nothing, nothing is known.
        let Ok(answer) = self.answer_at(Method::Get, &self.path(""), &[]) else { return false };
        let about: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let number = about.get("number").and_then(Value::as_u64);
        answer.status == NO_VOLUME || (answer.status == OK && number != self.number)
    }
}

#[cfg(test)]
mod tests;
