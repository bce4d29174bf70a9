//! Any bytes as the client's side of an NBD handshake, and as requests.
//! Room: onefold-fuzz.

use std::sync::Arc;

use onefold_block::{BlockDevice, BlockError, Extent, ExtentKind, ZeroOptions};
use onefold_nbd::protocol::constants::{
    EXTENDED_REQUEST_BYTES, MAX_REQUEST_BYTES, MAX_STATUS_PAYLOAD_BYTES, MAX_STRING_BYTES,
    REQUEST_BYTES, command,
};
use onefold_nbd::protocol::reply::{self, To};
use onefold_nbd::protocol::{
    ExportInfo, Handshake, Op, Outcome, Request, Session, TlsPolicy, decode_extended,
    decode_request, validate,
};
use onefold_nbd::{Client, ExportTable};

/// A device of a MiB of zeroes.
pub struct Zeroes;

impl BlockDevice for Zeroes {
    fn size_bytes(&self) -> u64 {
        1 << 20
    }
    fn preferred_block_bytes(&self) -> u32 {
        4096
    }
    fn read_at(&self, _: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        buf.fill(0);
        Ok(())
    }
    fn write_at(&self, _: u64, _: &[u8], _: bool) -> Result<(), BlockError> {
        Err(BlockError::ReadOnly)
    }
    fn write_zeroes(&self, _: u64, _: u64, _: ZeroOptions) -> Result<(), BlockError> {
        Err(BlockError::ReadOnly)
    }
    fn trim(&self, _: u64, _: u64, _: bool) -> Result<(), BlockError> {
        Err(BlockError::ReadOnly)
    }
    fn flush(&self) -> Result<(), BlockError> {
        Ok(())
    }
    fn block_status(&self, _: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        Ok(vec![Extent { len_bytes: len, kind: ExtentKind::Hole }])
    }
}

/// Any bytes, in any pieces. The first byte picks TLS and the size of the pieces.
pub fn handshake(data: &[u8]) {
    let Some((&first, bytes)) = data.split_first() else { return };
    let policy = if first & 1 == 0 { TlsPolicy::Off } else { TlsPolicy::Required };
    let exports = ExportTable::new().with("main", "the first", Arc::new(Zeroes)).with(
        "other",
        "",
        Arc::new(Zeroes),
    );
    let mut handshake = Handshake::new(Arc::new(exports), Client::Local, policy, first & 2 != 0);
    let mut under_tls = false;
    let mut pieces = bytes.chunks(1 + usize::from(first >> 2));
    let mut piece: &[u8] = &[];
    loop {
        let step = handshake.feed(piece);
        // One option's answer: bounded, whatever was asked.
        assert!(step.send.len() <= 4 * MAX_STRING_BYTES, "{} bytes", step.send.len());
        piece = &[];
        match step.outcome {
            Outcome::Again => {}
            Outcome::NeedMore => match pieces.next() {
                Some(next) => piece = next,
                None => return,
            },
            Outcome::StartTls => {
                assert!(policy == TlsPolicy::Required && !under_tls);
                under_tls = true;
                handshake.tls_started(Client::Certified { name: String::new() });
            }
            Outcome::Done(negotiated) => {
                assert!(policy == TlsPolicy::Off || under_tls, "served in plain text");
                assert!(negotiated.session.structured || !negotiated.session.allocation);
                assert!(negotiated.session.structured || !negotiated.session.extended);
                assert!(handshake.into_rest().len() <= bytes.len());
                return;
            }
            Outcome::Aborted | Outcome::Refuse(_) => return,
        }
    }
}

/// Any 28 or 32 bytes as a request, against any export. The bytes after the request pick the
/// export's size and what was agreed on, and are what it is judged by.
pub fn request(data: &[u8]) {
    if let Some((header, rest)) = data.split_first_chunk::<REQUEST_BYTES>()
        && let Ok(request) = decode_request(header)
    {
        assert_eq!(request.encode(), *header, "decoding loses nothing");
        judge(&request, rest, false);
    }
    if let Some((header, rest)) = data.split_first_chunk::<EXTENDED_REQUEST_BYTES>()
        && let Ok(request) = decode_extended(header)
    {
        assert_eq!(request.encode_extended(), *header, "decoding loses nothing");
        judge(&request, rest, true);
    }
}

fn judge(request: &Request, rest: &[u8], extended: bool) {
    let Some((size, rest)) = rest.split_first_chunk::<8>() else { return };
    let (agreed, payload) = rest.split_first().unwrap_or((&0, &[]));
    let size_bytes = u64::from_be_bytes(*size);
    let structured = extended || agreed & 1 != 0;
    let session = Session {
        info: ExportInfo { size_bytes, preferred_block_bytes: 4096, read_only: agreed & 2 != 0 },
        structured,
        extended,
        allocation: structured && agreed & 4 != 0,
        changes: structured && agreed & 8 != 0,
    };
    let judged_by = request.judged_by(&session);
    assert!(judged_by <= u64::from(MAX_STATUS_PAYLOAD_BYTES));
    assert!(judged_by == 0 || judged_by == request.payload_bytes(&session));
    let Some(payload) = payload.get(..judged_by as usize) else { return };
    match validate(request, &session, payload) {
        Ok(op) => {
            if !matches!(op, Op::Flush | Op::Disconnect) {
                let (offset, len) = op.range();
                assert!(len > 0);
                assert!(u128::from(offset) + u128::from(len) <= u128::from(size_bytes));
            }
            match op {
                Op::Read { len, .. } => assert!(len <= MAX_REQUEST_BYTES),
                Op::Write { len, .. } => {
                    assert!(len <= MAX_REQUEST_BYTES);
                    assert_eq!(u64::from(len), request.payload_bytes(&session));
                }
                Op::BlockStatus { contexts, .. } => {
                    assert!(contexts.allocation || contexts.changes);
                    assert!(session.allocation || !contexts.allocation);
                    assert!(session.changes || !contexts.changes);
                }
                _ => {}
            }
            let changes = matches!(request.command, command::WRITE | command::TRIM)
                || request.command == command::WRITE_ZEROES;
            assert!(!(changes && session.info.read_only));
        }
        Err(refused) => {
            let to = To { cookie: request.cookie, offset: request.offset, extended };
            let bytes = reply::error(to, refused.errno, refused.reason, None);
            assert!(bytes.len() < 256);
        }
    }
}
