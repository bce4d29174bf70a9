//! The numbers of the protocol and the limits this server sets.
//! Room: onefold-nbd.
//! Source: [nbd-proto], whose names these are.

/// First eight bytes of a server.
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// Announces the newstyle handshake and opens every option.
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// Opens every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Opens every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Opens every simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Opens every chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Opens every request with extended headers.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Opens every chunk of a reply with extended headers.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Handshake flags, the same bits from server and client.
pub mod handshake_flag {
    /// Errors to options are answered rather than ended.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// The 124 zeroes after an export name are left out.
    pub const NO_ZEROES: u16 = 2;
}

/// Options a client may send.
pub mod option {
    /// Pick an export and begin; errors end the connection.
    pub const EXPORT_NAME: u32 = 1;
    /// End the negotiation.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Go on under TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and begin.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Which metadata contexts are there?
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Use these metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Use extended headers in requests and replies.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Replies to options.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export of a list.
    pub const SERVER: u32 = 2;
    /// One piece of information on an export.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The server does not want to.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// The option's data make no sense.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// TLS first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The option's data are too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
    /// Extended headers rule it out, or are needed for it.
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
}

/// Kinds of information in replies to INFO and GO.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The export's own name.
    pub const NAME: u16 = 1;
    /// A sentence for people.
    pub const DESCRIPTION: u16 = 2;
    /// Minimum, preferred and maximum block size.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags of an export.
pub mod transmission_flag {
    /// The flags are meant.
    pub const HAS_FLAGS: u16 = 1;
    /// Changes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The FUA flag is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The DF flag is understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers all of them.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The `FAST_ZERO` flag is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    /// Block status of some contexts only can be asked for.
    pub const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// Commands of the transmission phase.
pub mod command {
    /// Read bytes.
    pub const READ: u16 = 0;
    /// Write the bytes that follow.
    pub const WRITE: u16 = 1;
    /// The client is done.
    pub const DISC: u16 = 2;
    /// Make what was answered durable.
    pub const FLUSH: u16 = 3;
    /// A range is no longer needed.
    pub const TRIM: u16 = 4;
    /// A range will be read soon.
    pub const CACHE: u16 = 5;
    /// Make a range read as zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// What backs a range?
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub mod command_flag {
    /// Force unit access: answer once durable.
    pub const FUA: u16 = 1;
    /// Zeroes shall stay allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// One data chunk only.
    pub const DF: u16 = 1 << 2;
    /// One extent only.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail rather than zero slowly.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload; with extended headers only.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Types of chunks in structured replies, and their flag.
pub mod chunk {
    /// No more chunks for this request follow.
    pub const FLAG_DONE: u16 = 1;
    /// Nothing to say.
    pub const NONE: u16 = 0;
    /// Bytes read.
    pub const OFFSET_DATA: u16 = 1;
    /// Bytes that are zero.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// Extents of 64 bits.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// The request failed.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// The request failed at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// Flags of an extent in `base:allocation`.
pub mod state {
    /// Takes no space.
    pub const HOLE: u32 = 1;
    /// Reads as zeroes.
    pub const ZERO: u32 = 2;
}

/// Flags of an extent in a context of [`CHANGED_SINCE`].
pub mod changed {
    /// It differs, or may.
    pub const CHANGED: u32 = 1;
}

/// The metadata context that every export has.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The number replies use for `base:allocation`.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// What the names of the other contexts begin with; the name of a snapshot follows.
pub const CHANGED_SINCE: &str = "onefold:changed-since:";
/// The number replies use for the one of these that was agreed on.
pub const CHANGED_SINCE_ID: u32 = 2;

/// Bytes of a request header.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an extended request header.
pub const EXTENDED_REQUEST_BYTES: usize = 32;
/// Bytes of the header of an extended reply's chunk.
pub const EXTENDED_CHUNK_BYTES: usize = 32;
/// Longest payload by which block status picks contexts, in bytes: the length asked about, and each
/// of the two contexts there are. Longer ones name one twice, or an unknown one.
pub const MAX_STATUS_PAYLOAD_BYTES: u32 = 8 + 2 * 4;
/// Bytes of a simple reply.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a structured chunk's header.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// Bytes of an option's header.
pub const OPTION_HEADER_BYTES: usize = 16;

/// Longest read or write, in bytes: what the protocol lets clients assume without asking.
/// Longer ones get EINVAL (reads with DF: EOVERFLOW).
pub const MAX_REQUEST_BYTES: u32 = 32 << 20;
/// Longest read answered from one buffer, in bytes, so that memory does not follow what clients
/// ask for. Longer ones with DF get EOVERFLOW, as the protocol allows from 64 KiB on.
pub const MAX_WHOLE_READ_BYTES: u32 = 4 << 20;
/// Longest payload of a refused write that is read and thrown away, in bytes. Beyond it the
/// connection ends: such a client does not follow the advertised maximum.
pub const MAX_DRAIN_BYTES: u32 = 2 * MAX_REQUEST_BYTES;
/// Longest name and other text in the protocol, in bytes.
pub const MAX_STRING_BYTES: usize = 4096;
/// Longest option data held, in bytes: an export name and one query of full length. Longer
/// data are read, thrown away and answered with `ERR_TOO_BIG`.
pub const MAX_OPTION_BYTES: usize = 2 * MAX_STRING_BYTES + 64;
/// Longest option data read at all, in bytes; beyond it the connection ends.
pub const MAX_OPTION_DRAIN_BYTES: usize = 1 << 20;
/// Most options of one client, beside those for each export; beyond it the connection ends.
/// Clients in use send under ten.
pub const MAX_OPTIONS: u32 = 256;
/// Options more that a client may send for each export there is: whoever looks at them all, as
/// `nbdinfo --list` does, asks a few questions about each.
pub const MAX_OPTIONS_PER_EXPORT: u32 = 8;
/// Longest sentence in an error chunk, in bytes; longer ones are cut.
pub const MAX_MESSAGE_BYTES: usize = 512;
/// Most extents in one block status reply; clients ask again from where it ended.
pub const MAX_EXTENTS: usize = 8192;

const _: () = assert!(MAX_MESSAGE_BYTES <= MAX_STRING_BYTES);
const _: () = assert!(MAX_OPTION_BYTES < MAX_OPTION_DRAIN_BYTES);
