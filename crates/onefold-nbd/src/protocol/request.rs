//! Requests of the transmission phase: decoding, and the one check before any device call.
//! Room: onefold-nbd.   In: 28 bytes.   Out: `Op` or the error number and sentence to answer.

use onefold_block::ZeroOptions;
use thiserror::Error;

use super::constants::{
    MAX_REQUEST_BYTES, MAX_WHOLE_READ_BYTES, REQUEST_BYTES, REQUEST_MAGIC, command,
    command_flag as flag,
};
use super::errno::Errno;
use super::export_info::ExportInfo;
use super::wire::Fields;

/// A request as it came, nothing checked but its magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Command flags.
    pub flags: u16,
    /// What is asked; maybe nothing known.
    pub command: u16,
    /// The client's name for this request, repeated in the reply.
    pub cookie: u64,
    /// First byte concerned.
    pub offset: u64,
    /// Number of bytes concerned.
    pub len: u32,
}

/// A request that does not begin as one: where the next one begins is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a request began with {found:#010x} where the request magic {REQUEST_MAGIC:#010x} belongs")]
pub struct BadMagic {
    /// The four bytes found.
    pub found: u32,
}

/// What was agreed in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The export.
    pub info: ExportInfo,
    /// Whether replies are structured.
    pub structured: bool,
    /// Whether block status in `base:allocation` was agreed on.
    pub allocation: bool,
    /// Whether block status of what changed was.
    pub changes: bool,
}

/// A request that may go to the device: in range, permitted, with known flags only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes, at most [`MAX_REQUEST_BYTES`].
        len: u32,
        /// All in one chunk; then at most [`MAX_WHOLE_READ_BYTES`].
        whole: bool,
    },
    /// Write the payload.
    Write {
        /// First byte.
        offset: u64,
        /// Number of bytes, at most [`MAX_REQUEST_BYTES`].
        len: u32,
        /// Durable before the reply.
        fua: bool,
    },
    /// Make what was answered durable.
    Flush,
    /// Give a range up.
    Trim {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// Durable before the reply.
        fua: bool,
    },
    /// A range will be read soon.
    Cache {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Make a range read as zeroes.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// How.
        options: ZeroOptions,
    },
    /// Describe a range.
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
        /// One extent only.
        one: bool,
    },
    /// Finish what is in flight and end.
    Disconnect,
}

impl Op {
    /// The name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Flush => "flush",
            Self::Trim { .. } => "trim",
            Self::Cache { .. } => "cache",
            Self::WriteZeroes { .. } => "zero",
            Self::BlockStatus { .. } => "status",
            Self::Disconnect => "disconnect",
        }
    }

    /// First byte concerned and number of bytes; nothing for what concerns all of the export.
    pub fn range(self) -> (u64, u64) {
        match self {
            Self::Read { offset, len, .. }
            | Self::Write { offset, len, .. }
            | Self::Trim { offset, len, .. }
            | Self::Cache { offset, len }
            | Self::WriteZeroes { offset, len, .. }
            | Self::BlockStatus { offset, len, .. } => (offset, len.into()),
            Self::Flush | Self::Disconnect => (0, 0),
        }
    }
}

/// Why a request does not go to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// For the client's program.
    pub errno: Errno,
    /// For people.
    pub reason: &'static str,
}

/// Read a request header.
pub fn decode_request(bytes: &[u8; REQUEST_BYTES]) -> Result<Request, BadMagic> {
    let mut fields = Fields::new(bytes);
    let mut read = || {
        Some((
            fields.u32()?,
            Request {
                flags: fields.u16()?,
                command: fields.u16()?,
                cookie: fields.u64()?,
                offset: fields.u64()?,
                len: fields.u32()?,
            },
        ))
    };
    let (magic, request) = read().expect("the fields of a request add up to its 28 bytes");
    if magic == REQUEST_MAGIC { Ok(request) } else { Err(BadMagic { found: magic }) }
}

impl Request {
    /// The header's 28 bytes.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// Bytes that follow the header whether or not the request is accepted.
    pub const fn payload_bytes(&self) -> u32 {
        if self.command == command::WRITE { self.len } else { 0 }
    }
}

/// Decide whether a request may go to the device.
pub fn validate(request: &Request, session: &Session) -> Result<Op, Refused> {
    let Request { command, offset, len, .. } = *request;
    check_flags(request, session)?;
    match command {
        command::DISC => return Ok(Op::Disconnect),
        command::FLUSH if offset == 0 && len == 0 => return Ok(Op::Flush),
        command::FLUSH => return refuse(Errno::Invalid, "flush takes no offset and no length"),
        command::BLOCK_STATUS if !session.allocation && !session.changes => {
            return refuse(Errno::Invalid, "no metadata context was agreed on");
        }
        _ => {}
    }
    let stores = matches!(command, command::WRITE | command::WRITE_ZEROES);
    if session.info.read_only && (stores || command == command::TRIM) {
        return refuse(Errno::Perm, "the export is read-only");
    }
    if len == 0 {
        return refuse(Errno::Invalid, "the length is zero");
    }
    let whole = request.flags & flag::DF != 0;
    if whole && len > MAX_WHOLE_READ_BYTES {
        return refuse(Errno::Overflow, "longer than the 4 MiB that are sent in one chunk");
    }
    if matches!(command, command::READ | command::WRITE) && len > MAX_REQUEST_BYTES {
        return refuse(Errno::Invalid, "longer than the advertised maximum of 32 MiB");
    }
    if offset.checked_add(u64::from(len)).is_none_or(|end| end > session.info.size_bytes) {
        let errno = if stores { Errno::NoSpace } else { Errno::Invalid };
        return refuse(errno, "the range reaches past the end of the export");
    }
    let fua = request.flags & flag::FUA != 0;
    Ok(match command {
        command::READ => Op::Read { offset, len, whole },
        command::WRITE => Op::Write { offset, len, fua },
        command::TRIM => Op::Trim { offset, len, fua },
        command::CACHE => Op::Cache { offset, len },
        command::WRITE_ZEROES => {
            let no_hole = request.flags & flag::NO_HOLE != 0;
            let fast_only = request.flags & flag::FAST_ZERO != 0;
            Op::WriteZeroes { offset, len, options: ZeroOptions { fua, no_hole, fast_only } }
        }
        _ => Op::BlockStatus { offset, len, one: request.flags & flag::REQ_ONE != 0 },
    })
}

/// FUA means nothing on requests that change nothing, and is allowed there.
fn check_flags(request: &Request, session: &Session) -> Result<(), Refused> {
    let allowed = match request.command {
        command::READ if session.structured => flag::DF,
        command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
        command::BLOCK_STATUS => flag::REQ_ONE,
        command::READ | command::WRITE | command::FLUSH | command::TRIM | command::CACHE => 0,
        command::DISC => return Ok(()),
        _ => return refuse(Errno::Invalid, "the command is not known"),
    };
    if request.flags & !(allowed | flag::FUA) == 0 {
        Ok(())
    } else {
        refuse(Errno::Invalid, "a flag that this command does not take")
    }
}

fn refuse<T>(errno: Errno, reason: &'static str) -> Result<T, Refused> {
    Err(Refused { errno, reason })
}
