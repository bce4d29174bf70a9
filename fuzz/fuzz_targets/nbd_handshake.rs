//! Any bytes, in any pieces, as the client's side of an NBD handshake.
//! The first byte picks TLS and the size of the pieces.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use onefold_block::{BlockDevice, BlockError, Extent, ExtentKind, ZeroOptions};
use onefold_nbd::ExportTable;
use onefold_nbd::protocol::constants::MAX_STRING_BYTES;
use onefold_nbd::protocol::{Handshake, Outcome, TlsPolicy};

struct Zeroes;

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

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    let policy = if first & 1 == 0 { TlsPolicy::Off } else { TlsPolicy::Required };
    let exports = ExportTable::new().with("main", "the first", Arc::new(Zeroes)).with(
        "other",
        "",
        Arc::new(Zeroes),
    );
    let mut handshake = Handshake::new(Arc::new(exports), policy, first & 2 != 0);
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
                handshake.tls_started();
            }
            Outcome::Done(negotiated) => {
                assert!(policy == TlsPolicy::Off || under_tls, "served in plain text");
                assert!(negotiated.session.structured || !negotiated.session.allocation);
                assert!(handshake.into_rest().len() <= bytes.len());
                return;
            }
            Outcome::Aborted | Outcome::Refuse(_) => return,
        }
    }
});
