//! The NBD protocol as pure functions and one state machine: bytes in, bytes and verdicts out.
//! Room: onefold-nbd.
//! Source: [nbd-proto]; differs: see `docs/nbd.md`.
//! Invariants: (1) nothing here reads, writes, waits or logs; (2) no input makes it panic or
//! hold more than [`constants::MAX_OPTION_BYTES`] of a client's bytes plus the piece just fed.

pub mod constants;
pub mod errno;
pub mod export_info;
pub mod handshake;
pub mod options;
pub mod reply;
pub mod request;
pub mod wire;

pub use errno::{Errno, errno_of};
pub use export_info::ExportInfo;
pub use handshake::{Handshake, Negotiated, Outcome, Step, TlsPolicy};
pub use request::{
    BadMagic, Contexts, Op, Refused, Request, Session, decode_extended, decode_request, validate,
};
