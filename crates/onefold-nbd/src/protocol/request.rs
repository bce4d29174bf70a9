//! Requests of the transmission phase: decoding, and the one check before any device call.
//! Room: onefold-nbd.   In: 28 bytes, or 32.   Out: `Op`, or error number and sentence to answer.

use onefold_block::ZeroOptions;
use thiserror::Error;

use super::constants::{
    BASE_ALLOCATION_ID, CHANGED_SINCE_ID, EXTENDED_REQUEST_BYTES, EXTENDED_REQUEST_MAGIC,
    MAX_REQUEST_BYTES, MAX_STATUS_PAYLOAD_BYTES, MAX_WHOLE_READ_BYTES, REQUEST_BYTES,
    REQUEST_MAGIC, command, command_flag as flag, transmission_flag,
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
    /// Number of bytes concerned, or of the payload: 32 bits of it unless headers are extended.
    pub len: u64,
}

/// A request that does not begin as one: where the next one begins is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a request began with {found:#010x} where the request magic {wanted:#010x} belongs")]
pub struct BadMagic {
    /// The four bytes found.
    pub found: u32,
    /// Those that belong there.
    pub wanted: u32,
}

/// What was agreed in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing agreed on by itself")]
pub struct Session {
    /// The export.
    pub info: ExportInfo,
    /// Whether replies are structured, or extended.
    pub structured: bool,
    /// Whether the headers of requests and replies are extended.
    pub extended: bool,
    /// Whether block status in `base:allocation` was agreed on.
    pub allocation: bool,
    /// Whether block status of what changed was.
    pub changes: bool,
}

impl Session {
    /// The transmission flags of the export, for this client.
    pub const fn transmission_flags(&self) -> u16 {
        let flags = self.info.transmission_flags(self.structured);
        let picks = self.extended && (self.allocation || self.changes);
        flags | if picks { transmission_flag::BLOCK_STATUS_PAYLOAD } else { 0 }
    }
}

/// The contexts that a block status is asked in, of those that were agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contexts {
    /// `base:allocation`.
    pub allocation: bool,
    /// What changed.
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
        len: u64,
        /// Durable before the reply.
        fua: bool,
    },
    /// A range will be read soon.
    Cache {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Make a range read as zeroes.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// How.
        options: ZeroOptions,
    },
    /// Describe a range.
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// One extent only.
        one: bool,
        /// In which contexts.
        contexts: Contexts,
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
            Self::Read { offset, len, .. } | Self::Write { offset, len, .. } => {
                (offset, len.into())
            }
            Self::Trim { offset, len, .. }
            | Self::Cache { offset, len }
            | Self::WriteZeroes { offset, len, .. }
            | Self::BlockStatus { offset, len, .. } => (offset, len),
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
    let read = common(&mut fields);
    let read = read.and_then(|(magic, request)| {
        Some((magic, Request { len: fields.u32()?.into(), ..request }))
    });
    with_magic(read.expect("the fields of a request add up to its 28 bytes"), REQUEST_MAGIC)
}

/// Read an extended request header.
pub fn decode_extended(bytes: &[u8; EXTENDED_REQUEST_BYTES]) -> Result<Request, BadMagic> {
    let mut fields = Fields::new(bytes);
    let read = common(&mut fields);
    let read =
        read.and_then(|(magic, request)| Some((magic, Request { len: fields.u64()?, ..request })));
    let read = read.expect("the fields of an extended request add up to its 32 bytes");
    with_magic(read, EXTENDED_REQUEST_MAGIC)
}

/// The magic, and all but the length.
fn common(fields: &mut Fields<'_>) -> Option<(u32, Request)> {
    let magic = fields.u32()?;
    let (flags, command, cookie) = (fields.u16()?, fields.u16()?, fields.u64()?);
    Some((magic, Request { flags, command, cookie, offset: fields.u64()?, len: 0 }))
}

fn with_magic((found, request): (u32, Request), wanted: u32) -> Result<Request, BadMagic> {
    if found == wanted { Ok(request) } else { Err(BadMagic { found, wanted }) }
}

impl Request {
    /// The header's 28 bytes; of the length there are 32 bits.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..24].copy_from_slice(&self.before_length(REQUEST_MAGIC));
        bytes[24..].copy_from_slice(&(self.len as u32).to_be_bytes());
        bytes
    }

    /// The 32 bytes of an extended header.
    pub fn encode_extended(&self) -> [u8; EXTENDED_REQUEST_BYTES] {
        let mut bytes = [0; EXTENDED_REQUEST_BYTES];
        bytes[..24].copy_from_slice(&self.before_length(EXTENDED_REQUEST_MAGIC));
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    fn before_length(&self, magic: u32) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&magic.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    /// Bytes that follow the header whether or not the request is accepted.
    pub fn payload_bytes(&self, session: &Session) -> u64 {
        let with_payload = if session.extended {
            self.flags & flag::PAYLOAD_LEN != 0
        } else {
            self.command == command::WRITE
        };
        if with_payload { self.len } else { 0 }
    }

    /// Bytes of payload that have to be there before the request can be judged: those by which
    /// block status picks contexts, if they can make sense.
    pub fn judged_by(&self, session: &Session) -> u64 {
        let payload = self.payload_bytes(session);
        let picks = self.command == command::BLOCK_STATUS
            && payload > 8
            && payload <= u64::from(MAX_STATUS_PAYLOAD_BYTES);
        if picks { payload } else { 0 }
    }
}

/// What a payload of block status asks for: how many bytes, in which contexts.
fn status_payload(payload: &[u8], session: &Session) -> Option<(u64, Contexts)> {
    let mut fields = Fields::new(payload);
    let len = fields.u64()?;
    let mut contexts = Contexts { allocation: false, changes: false };
    while !fields.is_empty() {
        let picked = match fields.u32()? {
            BASE_ALLOCATION_ID if session.allocation => &mut contexts.allocation,
            CHANGED_SINCE_ID if session.changes => &mut contexts.changes,
            _ => return None,
        };
        if std::mem::replace(picked, true) {
            return None;
        }
    }
    (contexts.allocation || contexts.changes).then_some((len, contexts))
}

/// Decide whether a request may go to the device. `payload` is what it is judged by, of
/// [`Request::judged_by`] bytes.
pub fn validate(request: &Request, session: &Session, payload: &[u8]) -> Result<Op, Refused> {
    let Request { command, offset, mut len, .. } = *request;
    check_flags(request, session)?;
    let mut contexts = Contexts { allocation: session.allocation, changes: session.changes };
    match command {
        command::DISC => return Ok(Op::Disconnect),
        command::FLUSH if offset == 0 && len == 0 => return Ok(Op::Flush),
        command::FLUSH => return refuse(Errno::Invalid, "flush takes no offset and no length"),
        command::BLOCK_STATUS if !session.allocation && !session.changes => {
            return refuse(Errno::Invalid, "no metadata context was agreed on");
        }
        command::BLOCK_STATUS if request.flags & flag::PAYLOAD_LEN != 0 => {
            let Some(picked) = status_payload(payload, session) else {
                let why = "the payload names no context, an unknown one, or one of them twice";
                return refuse(Errno::Invalid, why);
            };
            (len, contexts) = picked;
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
    if whole && len > u64::from(MAX_WHOLE_READ_BYTES) {
        return refuse(Errno::Overflow, "longer than the 4 MiB that are sent in one chunk");
    }
    let carries = matches!(command, command::READ | command::WRITE);
    if carries && len > u64::from(MAX_REQUEST_BYTES) {
        return refuse(Errno::Invalid, "longer than the advertised maximum of 32 MiB");
    }
    if offset.checked_add(len).is_none_or(|end| end > session.info.size_bytes) {
        let errno = if stores { Errno::NoSpace } else { Errno::Invalid };
        return refuse(errno, "the range reaches past the end of the export");
    }
    let fua = request.flags & flag::FUA != 0;
    // What carries data is short enough.
    let short = len as u32;
    Ok(match command {
        command::READ => Op::Read { offset, len: short, whole },
        command::WRITE => Op::Write { offset, len: short, fua },
        command::TRIM => Op::Trim { offset, len, fua },
        command::CACHE => Op::Cache { offset, len },
        command::WRITE_ZEROES => {
            let no_hole = request.flags & flag::NO_HOLE != 0;
            let fast_only = request.flags & flag::FAST_ZERO != 0;
            Op::WriteZeroes { offset, len, options: ZeroOptions { fua, no_hole, fast_only } }
        }
        _ => {
            let one = request.flags & flag::REQ_ONE != 0;
            Op::BlockStatus { offset, len, one, contexts }
        }
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
    let payload = match (request.command, session.extended) {
        (command::WRITE, true) if request.flags & flag::PAYLOAD_LEN == 0 => {
            return refuse(Errno::Invalid, "a write without a payload");
        }
        (command::WRITE | command::BLOCK_STATUS, true) => flag::PAYLOAD_LEN,
        _ => 0,
    };
    if request.flags & !(allowed | payload | flag::FUA) == 0 {
        Ok(())
    } else {
        refuse(Errno::Invalid, "a flag that this command does not take")
    }
}

fn refuse<T>(errno: Errno, reason: &'static str) -> Result<T, Refused> {
    Err(Refused { errno, reason })
}
