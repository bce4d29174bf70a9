//! Requests of a guest, out of chains of descriptors that it may have made as it liked.
//! Room: onefold-vhost.   In: a chain.   Out: what is asked, and where in memory it goes.

use std::ops::Range;

use thiserror::Error;
use virtio_queue::DescriptorChain;
use vm_memory::{Bytes, GuestAddress};

use crate::config::{QUEUE_ENTRIES_MAX, RANGES_MAX, SECTOR_BYTES};
use crate::memory::Mapped;

/// Bytes at the beginning of a request: what, nothing, where.
const HEADER_BYTES: u64 = 16;
/// Bytes of one range in a discard or a zeroing.
const RANGE_BYTES: usize = 16;
/// Most pieces of memory of a request, also where they are in an indirect table.
const PIECES_MAX: usize = QUEUE_ENTRIES_MAX as usize;
/// Bytes of the name of a disk.
pub(crate) const NAME_BYTES: usize = 20;
/// In a zeroing: the range may become a hole.
const MAY_UNMAP: u32 = 1;

/// What a request may be, by number.
mod kind {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const NAME: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const ZEROES: u32 = 13;
}

/// How a request ended, for the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    Done = 0,
    Failed = 1,
    Unsupported = 2,
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum Wrong {
    #[error("a chain of descriptors that loops, leaves its table or lies about its length")]
    Chain,
    #[error("a request that has no room for its header or its status")]
    Short,
    #[error("a request in memory that the guest does not have")]
    Elsewhere,
    #[error("a request that is no multiple of 512 bytes, or past the end of the disk")]
    Range,
    #[error("a change of a disk that is read-only")]
    ReadOnly,
    #[error("a request of a kind that was not offered, or with flags that were not")]
    Kind,
}

impl Wrong {
    pub fn status(self) -> Status {
        if self == Self::Kind { Status::Unsupported } else { Status::Failed }
    }
}

/// One range of a discard or a zeroing, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub offset: u64,
    pub len: u64,
    pub may_unmap: bool,
}

/// What a guest wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Read { offset: u64, len: u64 },
    Write { offset: u64, len: u64 },
    Flush,
    Name,
    Discard(Vec<Span>),
    Zeroes(Vec<Span>),
}

/// A piece of the guest's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub at: GuestAddress,
    pub len: u32,
}

/// A request with its place in memory.
#[derive(Debug)]
pub(crate) struct Request {
    /// The chain's number, by which it is given back.
    pub head: u16,
    pub want: Result<Want, Wrong>,
    /// Which pieces data are in, of those of the batch; and how many bytes of the first of them
    /// are not data.
    pub data: Range<usize>,
    pub skip: u32,
    /// Where the status goes, if there is a place for it.
    pub status: Option<GuestAddress>,
}

/// What the disk allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub size_bytes: u64,
    pub read_only: bool,
}

/// Read the request that a chain is. Its pieces are added to `pieces`.
pub(crate) fn parse(
    chain: DescriptorChain<&Mapped>,
    memory: &Mapped,
    limits: Limits,
    pieces: &mut Vec<Piece>,
) -> Request {
    let (head, first) = (chain.head_index(), pieces.len());
    let mut more = true;
    // Where pieces begin that the guest reads from.
    let mut answer = None;
    let mut wrong = None;
    for descriptor in chain {
        if pieces.len() - first == PIECES_MAX {
            wrong = Some(Wrong::Chain);
            break;
        }
        more = descriptor.has_next();
        if descriptor.is_write_only() {
            answer.get_or_insert(pieces.len());
        } else if answer.is_some() {
            wrong = Some(Wrong::Chain);
        }
        pieces.push(Piece { at: descriptor.addr(), len: descriptor.len() });
    }
    let answer = answer.unwrap_or(pieces.len());
    let end = pieces.len();
    let mut request = Request { head, want: Err(Wrong::Chain), data: 0..0, skip: 0, status: None };
    // The iterator ends where the chain breaks: then more was promised.
    if more || wrong.is_some() {
        pieces.truncate(first);
        return request;
    }
    request.want = place(&mut request, pieces, (first, answer, end), memory)
        .and_then(|header| understand(&header, limits));
    if let Ok(Want::Discard(spans) | Want::Zeroes(spans)) = &mut request.want {
        let data = &pieces[request.data.clone()];
        match read_spans(memory, data, request.skip, limits) {
            Ok(found) => *spans = found,
            Err(wrong) => request.want = Err(wrong),
        }
    }
    if let Ok(want @ (Want::Discard(spans) | Want::Zeroes(spans))) = &request.want {
        // A range that is discarded is unmapped in any case, and the flag has no meaning.
        let discards = matches!(want, Want::Discard(_));
        if discards && spans.iter().any(|span| span.may_unmap) {
            request.want = Err(Wrong::Kind);
        }
    }
    request
}

/// A request's header, and how many bytes of data it brings and has room for.
struct Header {
    kind: u32,
    sector: u64,
    brings: u64,
    takes: u64,
}

fn sum(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.len)).sum()
}

/// Find the header, the data and the status in a request's pieces.
fn place(
    request: &mut Request,
    pieces: &mut [Piece],
    (first, answer, end): (usize, usize, usize),
    memory: &Mapped,
) -> Result<Header, Wrong> {
    let (given, room) = (sum(&pieces[first..answer]), sum(&pieces[answer..end]));
    // The status is the last byte of all.
    let last = pieces[answer..end].iter_mut().rfind(|piece| piece.len > 0).ok_or(Wrong::Short)?;
    let status = last.at.0.checked_add(u64::from(last.len) - 1).ok_or(Wrong::Elsewhere)?;
    request.status = Some(GuestAddress(status));
    last.len -= 1;
    if given < HEADER_BYTES {
        return Err(Wrong::Short);
    }
    let mut header = [0; HEADER_BYTES as usize];
    Cursor::new(&pieces[first..answer], 0).read(memory, &mut header)?;
    let (kind, rest) = header.split_at(4);
    let (_, sector) = rest.split_at(4);
    let header = Header {
        kind: u32::from_le_bytes(kind.try_into().map_err(|_| Wrong::Short)?),
        sector: u64::from_le_bytes(sector.try_into().map_err(|_| Wrong::Short)?),
        brings: given - HEADER_BYTES,
        takes: room - 1,
    };
    let brings = matches!(header.kind, kind::WRITE | kind::DISCARD | kind::ZEROES);
    request.data = if brings { first..answer } else { answer..end };
    request.skip = if brings { HEADER_BYTES as u32 } else { 0 };
    Ok(header)
}

fn understand(header: &Header, limits: Limits) -> Result<Want, Wrong> {
    let changes = matches!(header.kind, kind::WRITE | kind::DISCARD | kind::ZEROES);
    if changes && limits.read_only {
        return Err(Wrong::ReadOnly);
    }
    match header.kind {
        kind::READ => {
            let (offset, len) = in_disk(header.sector, header.takes, limits)?;
            Ok(Want::Read { offset, len })
        }
        kind::WRITE => {
            let (offset, len) = in_disk(header.sector, header.brings, limits)?;
            Ok(Want::Write { offset, len })
        }
        kind::FLUSH => Ok(Want::Flush),
        kind::NAME if header.takes >= NAME_BYTES as u64 => Ok(Want::Name),
        kind::NAME => Err(Wrong::Short),
        kind::DISCARD | kind::ZEROES => {
            let count = header.brings / RANGE_BYTES as u64;
            if !header.brings.is_multiple_of(RANGE_BYTES as u64)
                || !(1..=u64::from(RANGES_MAX)).contains(&count)
            {
                return Err(Wrong::Range);
            }
            let spans = Vec::new();
            Ok(if header.kind == kind::ZEROES { Want::Zeroes(spans) } else { Want::Discard(spans) })
        }
        _ => Err(Wrong::Kind),
    }
}

/// A range of a disk in bytes, if it is one.
fn in_disk(sector: u64, len: u64, limits: Limits) -> Result<(u64, u64), Wrong> {
    let offset = sector.checked_mul(SECTOR_BYTES).ok_or(Wrong::Range)?;
    let end = offset.checked_add(len).ok_or(Wrong::Range)?;
    let visible = limits.size_bytes / SECTOR_BYTES * SECTOR_BYTES;
    let fits = len > 0 && len.is_multiple_of(SECTOR_BYTES) && end <= visible;
    if fits { Ok((offset, len)) } else { Err(Wrong::Range) }
}

/// The ranges that a request brings, all of which are in the disk.
fn read_spans(
    memory: &Mapped,
    data: &[Piece],
    skip: u32,
    limits: Limits,
) -> Result<Vec<Span>, Wrong> {
    let mut cursor = Cursor::new(data, skip);
    let count = cursor.left() / RANGE_BYTES as u64;
    let mut spans = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let mut range = [0; RANGE_BYTES];
        cursor.read(memory, &mut range)?;
        let [sector, rest] = [&range[..8], &range[8..]];
        let word = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or_default();
        let sector = sector.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let (sectors, flags) = (word(&rest[..4]), word(&rest[4..]));
        if flags & !MAY_UNMAP != 0 {
            return Err(Wrong::Kind);
        }
        let (offset, len) = in_disk(sector, u64::from(sectors) * SECTOR_BYTES, limits)?;
        spans.push(Span { offset, len, may_unmap: flags & MAY_UNMAP != 0 });
    }
    Ok(spans)
}

/// Goes through pieces of memory as if they were one.
pub(crate) struct Cursor<'a> {
    pieces: &'a [Piece],
    skip: u32,
}

impl<'a> Cursor<'a> {
    /// From so many bytes on.
    pub fn new(pieces: &'a [Piece], skip: u32) -> Self {
        let mut cursor = Self { pieces, skip: 0 };
        let mut left = u64::from(skip);
        while let Some(first) = cursor.pieces.first() {
            if left < u64::from(first.len) {
                break;
            }
            left -= u64::from(first.len);
            cursor.pieces = &cursor.pieces[1..];
        }
        cursor.skip = left as u32;
        cursor
    }

    /// How many bytes there are.
    pub fn left(&self) -> u64 {
        sum(self.pieces) - u64::from(self.skip)
    }

    /// Fill `bytes` from memory.
    pub fn read(&mut self, memory: &Mapped, bytes: &mut [u8]) -> Result<(), Wrong> {
        let mut got = 0;
        while got < bytes.len() {
            let (at, len) = self.next_piece(bytes.len() - got)?;
            let part = &mut bytes[got..got + len];
            memory.read_slice(part, at).map_err(|_| Wrong::Elsewhere)?;
            got += len;
        }
        Ok(())
    }

    /// Put `bytes` into memory.
    pub fn write(&mut self, memory: &Mapped, bytes: &[u8]) -> Result<(), Wrong> {
        let mut put = 0;
        while put < bytes.len() {
            let (at, len) = self.next_piece(bytes.len() - put)?;
            let part = &bytes[put..put + len];
            memory.write_slice(part, at).map_err(|_| Wrong::Elsewhere)?;
            put += len;
        }
        Ok(())
    }

    /// At most so many bytes that lie together, at least one.
    fn next_piece(&mut self, most: usize) -> Result<(GuestAddress, usize), Wrong> {
        loop {
            let first = self.pieces.first().ok_or(Wrong::Short)?;
            let len = (first.len - self.skip) as usize;
            let at = first.at.0.checked_add(u64::from(self.skip)).ok_or(Wrong::Elsewhere)?;
            if len > most {
                self.skip += most as u32;
                return Ok((GuestAddress(at), most));
            }
            self.pieces = &self.pieces[1..];
            self.skip = 0;
            if len > 0 {
                return Ok((GuestAddress(at), len));
            }
        }
    }
}
