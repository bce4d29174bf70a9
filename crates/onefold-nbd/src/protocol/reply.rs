//! Replies of the transmission phase as bytes.
//! Room: onefold-nbd.

use onefold_block::{Extent, ExtentKind};

use super::constants::{
    BASE_ALLOCATION_ID, CHANGED_SINCE_ID, CHUNK_HEADER_BYTES, MAX_MESSAGE_BYTES,
    SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, changed, chunk, state,
};
use super::errno::Errno;
use super::options::cut;

/// Bytes before the data of a data chunk.
pub const DATA_HEADER_BYTES: usize = CHUNK_HEADER_BYTES + 8;
/// Bytes of a hole chunk.
pub const HOLE_CHUNK_BYTES: usize = CHUNK_HEADER_BYTES + 12;

/// A simple reply, before any data.
pub fn simple(cookie: u64, errno: Option<Errno>) -> [u8; SIMPLE_REPLY_BYTES] {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&errno.map_or(0, Errno::code).to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The header of a chunk with `len` bytes of payload; `done` if it is the request's last.
pub fn chunk_header(cookie: u64, kind: u16, len: u32, done: bool) -> [u8; CHUNK_HEADER_BYTES] {
    let mut bytes = [0; CHUNK_HEADER_BYTES];
    let flags = if done { chunk::FLAG_DONE } else { 0 };
    bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// What comes before `len` bytes read at `offset`.
pub fn data_header(cookie: u64, offset: u64, len: u32, done: bool) -> [u8; DATA_HEADER_BYTES] {
    let mut bytes = [0; DATA_HEADER_BYTES];
    let header = chunk_header(cookie, chunk::OFFSET_DATA, len + 8, done);
    bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&header);
    bytes[CHUNK_HEADER_BYTES..].copy_from_slice(&offset.to_be_bytes());
    bytes
}

/// Says that `len` bytes at `offset` are zero.
pub fn hole(cookie: u64, offset: u64, len: u32, done: bool) -> [u8; HOLE_CHUNK_BYTES] {
    let mut bytes = [0; HOLE_CHUNK_BYTES];
    let header = chunk_header(cookie, chunk::OFFSET_HOLE, 12, done);
    bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&header);
    bytes[CHUNK_HEADER_BYTES..DATA_HEADER_BYTES].copy_from_slice(&offset.to_be_bytes());
    bytes[DATA_HEADER_BYTES..].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// A last chunk that says why the request failed, and where if that is known. The sentence is
/// cut at [`MAX_MESSAGE_BYTES`].
pub fn error(cookie: u64, errno: Errno, message: &str, offset: Option<u64>) -> Vec<u8> {
    let message = cut(message, MAX_MESSAGE_BYTES).as_bytes();
    let kind = if offset.is_some() { chunk::ERROR_OFFSET } else { chunk::ERROR };
    let len = 6 + message.len() + if offset.is_some() { 8 } else { 0 };
    let mut bytes = chunk_header(cookie, kind, len as u32, true).to_vec();
    bytes.extend_from_slice(&errno.code().to_be_bytes());
    bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
    bytes.extend_from_slice(message);
    if let Some(offset) = offset {
        bytes.extend_from_slice(&offset.to_be_bytes());
    }
    bytes
}

/// The extents of a range in `base:allocation`; each shorter than 4 GiB. `done`: no other context
/// follows.
pub fn block_status(cookie: u64, extents: &[Extent], done: bool) -> Vec<u8> {
    let flags = |kind| match kind {
        ExtentKind::Data => 0,
        ExtentKind::Hole => state::HOLE | state::ZERO,
        ExtentKind::Zero => state::ZERO,
    };
    status((cookie, done), BASE_ALLOCATION_ID, extents, flags)
}

/// The same of what changed.
pub fn changes(cookie: u64, extents: &[Extent], done: bool) -> Vec<u8> {
    let flags = |kind| if kind == ExtentKind::Data { changed::CHANGED } else { 0 };
    status((cookie, done), CHANGED_SINCE_ID, extents, flags)
}

fn status(
    (cookie, done): (u64, bool),
    context: u32,
    extents: &[Extent],
    flags: impl Fn(ExtentKind) -> u32,
) -> Vec<u8> {
    let len = 4 + 8 * extents.len();
    let mut bytes = chunk_header(cookie, chunk::BLOCK_STATUS, len as u32, done).to_vec();
    bytes.extend_from_slice(&context.to_be_bytes());
    for extent in extents {
        let flags = flags(extent.kind);
        bytes.extend_from_slice(&(extent.len_bytes as u32).to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
    }
    bytes
}
