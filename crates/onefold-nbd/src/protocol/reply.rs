//! Replies of the transmission phase as bytes.
//! Room: onefold-nbd.

use onefold_block::{Extent, ExtentKind};

use super::constants::{
    BASE_ALLOCATION_ID, CHANGED_SINCE_ID, CHUNK_HEADER_BYTES, EXTENDED_CHUNK_BYTES,
    EXTENDED_REPLY_MAGIC, MAX_MESSAGE_BYTES, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, changed, chunk, state,
};
use super::errno::Errno;
use super::options::cut;

/// Most bytes before the data of a chunk, or of a chunk without data.
const HEAD_BYTES_MAX: usize = EXTENDED_CHUNK_BYTES + 12;

/// Whom a reply is for: which request of a client, and how it wants its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct To {
    /// The client's name for the request.
    pub cookie: u64,
    /// The offset of the request, which extended headers repeat.
    pub offset: u64,
    /// Whether headers are extended.
    pub extended: bool,
}

/// The beginning of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: usize,
}

impl Head {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
    }
}

impl std::ops::Deref for Head {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl To {
    /// Bytes before the data of a data chunk.
    pub const fn data_header_bytes(&self) -> usize {
        8 + if self.extended { EXTENDED_CHUNK_BYTES } else { CHUNK_HEADER_BYTES }
    }
}

/// A simple reply, before any data.
pub fn simple(cookie: u64, errno: Option<Errno>) -> [u8; SIMPLE_REPLY_BYTES] {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&errno.map_or(0, Errno::code).to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The header of a chunk with `len` bytes of payload; `done` if it is the request's last.
pub fn chunk_header(to: To, kind: u16, len: u32, done: bool) -> Head {
    let mut head = Head { bytes: [0; HEAD_BYTES_MAX], len: 0 };
    let flags = if done { chunk::FLAG_DONE } else { 0 };
    let magic = if to.extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
    head.put(magic.to_be_bytes());
    head.put(flags.to_be_bytes());
    head.put(kind.to_be_bytes());
    head.put(to.cookie.to_be_bytes());
    if to.extended {
        head.put(to.offset.to_be_bytes());
        head.put(u64::from(len).to_be_bytes());
    } else {
        head.put(len.to_be_bytes());
    }
    head
}

/// What comes before `len` bytes read at `offset`.
pub fn data_header(to: To, offset: u64, len: u32, done: bool) -> Head {
    let mut head = chunk_header(to, chunk::OFFSET_DATA, len + 8, done);
    head.put(offset.to_be_bytes());
    head
}

/// Says that `len` bytes at `offset` are zero.
pub fn hole(to: To, offset: u64, len: u32, done: bool) -> Head {
    let mut head = chunk_header(to, chunk::OFFSET_HOLE, 12, done);
    head.put(offset.to_be_bytes());
    head.put(len.to_be_bytes());
    head
}

/// A last chunk that says why the request failed, and where if that is known. The sentence is
/// cut at [`MAX_MESSAGE_BYTES`].
pub fn error(to: To, errno: Errno, message: &str, offset: Option<u64>) -> Vec<u8> {
    let message = cut(message, MAX_MESSAGE_BYTES).as_bytes();
    let kind = if offset.is_some() { chunk::ERROR_OFFSET } else { chunk::ERROR };
    let len = 6 + message.len() + if offset.is_some() { 8 } else { 0 };
    let mut bytes = chunk_header(to, kind, len as u32, true).to_vec();
    bytes.extend_from_slice(&errno.code().to_be_bytes());
    bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
    bytes.extend_from_slice(message);
    if let Some(offset) = offset {
        bytes.extend_from_slice(&offset.to_be_bytes());
    }
    bytes
}

/// The extents of a range in `base:allocation`; each shorter than 4 GiB unless headers are
/// extended. `done`: no other context follows.
pub fn block_status(to: To, extents: &[Extent], done: bool) -> Vec<u8> {
    let flags = |kind| match kind {
        ExtentKind::Data => 0,
        ExtentKind::Hole => state::HOLE | state::ZERO,
        ExtentKind::Zero => state::ZERO,
    };
    status((to, done), BASE_ALLOCATION_ID, extents, flags)
}

/// The same of what changed.
pub fn changes(to: To, extents: &[Extent], done: bool) -> Vec<u8> {
    let flags = |kind| if kind == ExtentKind::Data { changed::CHANGED } else { 0 };
    status((to, done), CHANGED_SINCE_ID, extents, flags)
}

fn status(
    (to, done): (To, bool),
    context: u32,
    extents: &[Extent],
    flags: impl Fn(ExtentKind) -> u32,
) -> Vec<u8> {
    let (kind, len) = if to.extended {
        (chunk::BLOCK_STATUS_EXT, 8 + 16 * extents.len())
    } else {
        (chunk::BLOCK_STATUS, 4 + 8 * extents.len())
    };
    let mut bytes = chunk_header(to, kind, len as u32, done).to_vec();
    bytes.extend_from_slice(&context.to_be_bytes());
    if to.extended {
        bytes.extend_from_slice(&(extents.len() as u32).to_be_bytes());
    }
    for extent in extents {
        let flags = flags(extent.kind);
        if to.extended {
            bytes.extend_from_slice(&extent.len_bytes.to_be_bytes());
            bytes.extend_from_slice(&u64::from(flags).to_be_bytes());
        } else {
            bytes.extend_from_slice(&(extent.len_bytes as u32).to_be_bytes());
            bytes.extend_from_slice(&flags.to_be_bytes());
        }
    }
    bytes
}
