//! Any 28 bytes as an NBD request, against any export. The bytes after the request pick the
//! export's size and what was agreed on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_nbd::protocol::constants::{MAX_REQUEST_BYTES, REQUEST_BYTES, command};
use onefold_nbd::protocol::{ExportInfo, Op, Session, decode_request, reply, validate};

fuzz_target!(|data: &[u8]| {
    let Some((header, rest)) = data.split_first_chunk::<REQUEST_BYTES>() else { return };
    let Some((size, rest)) = rest.split_first_chunk::<8>() else { return };
    let agreed = rest.first().copied().unwrap_or_default();
    let Ok(request) = decode_request(header) else { return };
    assert_eq!(request.encode(), *header, "decoding loses nothing");
    let size_bytes = u64::from_be_bytes(*size);
    let structured = agreed & 1 != 0;
    let session = Session {
        info: ExportInfo { size_bytes, preferred_block_bytes: 4096, read_only: agreed & 2 != 0 },
        structured,
        allocation: structured && agreed & 4 != 0,
    };
    match validate(&request, &session) {
        Ok(op) => {
            let in_range = |offset: u64, len: u32| {
                assert!(len > 0);
                assert!(u128::from(offset) + u128::from(len) <= u128::from(size_bytes));
            };
            match op {
                Op::Read { offset, len, .. } | Op::Write { offset, len, .. } => {
                    in_range(offset, len);
                    assert!(len <= MAX_REQUEST_BYTES);
                }
                Op::Trim { offset, len, .. }
                | Op::Cache { offset, len }
                | Op::WriteZeroes { offset, len, .. }
                | Op::BlockStatus { offset, len, .. } => in_range(offset, len),
                Op::Flush | Op::Disconnect => {}
            }
            let changes = matches!(request.command, command::WRITE | command::TRIM)
                || request.command == command::WRITE_ZEROES;
            assert!(!(changes && session.info.read_only));
        }
        Err(refused) => {
            let bytes = reply::error(request.cookie, refused.errno, refused.reason, None);
            assert!(bytes.len() < 256);
        }
    }
});
