//! Laws of decoding, checking and encoding.
//! Room: onefold-nbd.

use std::sync::Arc;

use onefold_block::{Extent, ExtentKind};
use onefold_nbd::protocol::constants::{
    MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES, REQUEST_BYTES, command, command_flag,
};
use onefold_nbd::protocol::reply::{self, To};
use onefold_nbd::protocol::{
    Contexts, Errno, ExportInfo, Handshake, Op, Outcome, Request, Session, TlsPolicy,
    decode_extended, decode_request, validate,
};
use onefold_nbd::{Client, ExportTable};
use proptest::prelude::*;

use crate::device::TestDevice;
use crate::raw::{info_query, meta_query, option_bytes};

/// A reply with compact headers.
fn compact(cookie: u64) -> To {
    To { cookie, offset: 0, extended: false }
}

fn any_request() -> impl Strategy<Value = Request> {
    (
        prop_oneof![Just(0), 0u16..32, any::<u16>()],
        0u16..10,
        any::<u64>(),
        prop_oneof![0u64..20_000, any::<u64>()],
        prop_oneof![0u64..20_000, any::<u32>().prop_map(u64::from), any::<u64>()],
    )
        .prop_map(|(flags, command, cookie, offset, len)| Request {
            flags,
            command,
            cookie,
            offset,
            len,
        })
}

fn any_session() -> impl Strategy<Value = Session> {
    (prop_oneof![0u64..20_000, any::<u64>()], any::<[bool; 5]>()).prop_map(
        |(size_bytes, agreed)| {
            let [read_only, structured, allocation, changes, extended] = agreed;
            let structured = structured || extended;
            Session {
                info: ExportInfo { size_bytes, preferred_block_bytes: 4096, read_only },
                structured,
                extended,
                allocation: structured && allocation,
                changes: structured && changes,
            }
        },
    )
}

/// First byte and length of what reaches the device.
fn range_of(op: &Op) -> Option<(u64, u64)> {
    (!matches!(op, Op::Flush | Op::Disconnect)).then(|| op.range())
}

proptest! {
    #[test]
    fn a_request_decodes_to_what_was_encoded(request in any_request()) {
        let short = Request { len: request.len & u64::from(u32::MAX), ..request };
        prop_assert_eq!(decode_request(&short.encode()), Ok(short));
        prop_assert_eq!(decode_extended(&request.encode_extended()), Ok(request));
        prop_assert!(decode_request(request.encode_extended().first_chunk().unwrap()).is_err());
    }

    #[test]
    fn only_the_magic_makes_a_request(bytes in any::<[u8; REQUEST_BYTES]>()) {
        prop_assert_eq!(decode_request(&bytes).is_ok(), bytes[..4] == [0x25, 0x60, 0x95, 0x13]);
    }

    #[test]
    fn what_is_accepted_is_in_range_and_permitted(
        request in any_request(),
        session in any_session(),
        payload in prop::collection::vec(any::<u8>(), 16),
    ) {
        let payload = &payload[..request.judged_by(&session) as usize];
        let Ok(op) = validate(&request, &session, payload) else { return Ok(()) };
        if let Some((offset, len)) = range_of(&op) {
            prop_assert!(len > 0);
            prop_assert!(u128::from(offset) + u128::from(len) <= session.info.size_bytes.into());
        }
        match op {
            Op::Write { len, .. } => prop_assert!(len <= MAX_REQUEST_BYTES),
            Op::Read { len, whole, .. } => {
                prop_assert!(len <= MAX_REQUEST_BYTES);
                prop_assert!(session.structured || !whole);
            }
            Op::BlockStatus { contexts: Contexts { allocation, changes }, .. } => {
                prop_assert!(allocation || changes);
                prop_assert!(session.allocation || !allocation);
                prop_assert!(session.changes || !changes);
            }
            _ => {}
        }
        let changes = matches!(op, Op::Write { .. } | Op::Trim { .. } | Op::WriteZeroes { .. });
        prop_assert!(!(changes && session.info.read_only));
    }

    #[test]
    fn an_error_chunk_holds_what_its_lengths_say(
        cookie in any::<u64>(),
        message in ".{0,700}",
        offset in any::<Option<u64>>(),
    ) {
        let bytes = reply::error(compact(cookie), Errno::Io, &message, offset);
        let len = u32::from_be_bytes(bytes[16..20].try_into().unwrap()) as usize;
        let text_len = u16::from_be_bytes(bytes[24..26].try_into().unwrap()) as usize;
        prop_assert_eq!(bytes.len(), 20 + len);
        prop_assert_eq!(len, 6 + text_len + if offset.is_some() { 8 } else { 0 });
        prop_assert!(text_len <= MAX_MESSAGE_BYTES);
        let text = std::str::from_utf8(&bytes[26..26 + text_len]).unwrap();
        prop_assert!(message.starts_with(text));
    }

    #[test]
    fn a_handshake_is_the_same_in_any_pieces(cuts in prop::collection::vec(1usize..40, 0..60)) {
        let whole = handshake_bytes();
        let mut pieces = Vec::new();
        let mut rest = whole.as_slice();
        for cut in cuts {
            let (piece, others) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = others;
        }
        pieces.push(rest);
        let (sent, left) = negotiate(&pieces);
        prop_assert_eq!((sent, left), negotiate(&[&whole]));
    }

    #[test]
    fn no_bytes_upset_the_handshake(
        flags in prop_oneof![Just(3u32), any::<u32>()],
        options in prop::collection::vec(any_option(), 0..20),
        tls in any::<bool>(),
    ) {
        let policy = if tls { TlsPolicy::Required } else { TlsPolicy::Off };
        let mut handshake = new_handshake(policy);
        let mut bytes = flags.to_be_bytes().to_vec();
        bytes.extend(options.into_iter().flatten());
        let mut outcome = handshake.feed(&bytes).outcome;
        while matches!(outcome, Outcome::Again) {
            outcome = handshake.feed(&[]).outcome;
        }
        if tls {
            prop_assert!(!matches!(outcome, Outcome::Done(_)), "served before TLS");
        }
    }
}

fn any_option() -> impl Strategy<Value = Vec<u8>> {
    let data = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        Just(info_query("main", &[0, 1, 2, 3])),
        Just(meta_query("main", &["base:", "base:allocation", "x"])),
        Just(vec![0; 10_000]),
    ];
    let option = (prop_oneof![0u32..13, any::<u32>()], data);
    prop_oneof![
        9 => option.prop_map(|(option, data)| option_bytes(option, &data)),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn new_handshake(policy: TlsPolicy) -> Handshake {
    let device = Arc::new(TestDevice::new(8192));
    let table = Arc::new(ExportTable::new().with("main", "", device));
    Handshake::new(table, Client::Local, policy, false)
}

fn handshake_bytes() -> Vec<u8> {
    [
        3u32.to_be_bytes().to_vec(),
        option_bytes(3, &[]),
        option_bytes(8, &[]),
        option_bytes(99, &[7; 9000]),
        option_bytes(10, &meta_query("main", &["base:allocation"])),
        option_bytes(7, &info_query("main", &[3])),
        b"first bytes of requests".to_vec(),
    ]
    .concat()
}

/// All that is sent, and what is left over.
fn negotiate(pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    let mut handshake = new_handshake(TlsPolicy::Off);
    let mut sent = Vec::new();
    let mut pieces = pieces.iter();
    let mut piece: &[u8] = &[];
    loop {
        let step = handshake.feed(piece);
        sent.extend(step.send);
        piece = &[];
        match step.outcome {
            Outcome::NeedMore => piece = pieces.next().expect("the handshake is complete"),
            Outcome::Again => {}
            Outcome::Done(negotiated) => {
                assert!(negotiated.session.structured && negotiated.session.allocation);
                let mut left = handshake.into_rest();
                left.extend(pieces.copied().flatten());
                return (sent, left);
            }
            _ => panic!("the handshake failed"),
        }
    }
}

#[test]
fn replies_are_the_bytes_the_protocol_prescribes() {
    let simple = reply::simple(0x0102_0304_0506_0708, Some(Errno::NoSpace));
    assert_eq!(simple, *b"\x67\x44\x66\x98\x00\x00\x00\x1c\x01\x02\x03\x04\x05\x06\x07\x08");
    let hole = reply::hole(compact(9), 4096, 512, true);
    assert_eq!(
        &*hole,
        b"\x66\x8e\x33\xef\x00\x01\x00\x02\0\0\0\0\0\0\0\x09\0\0\0\x0c\
           \0\0\0\0\0\0\x10\0\0\0\x02\0"
    );
    let extents = [ExtentKind::Data, ExtentKind::Hole, ExtentKind::Zero]
        .map(|kind| Extent { len_bytes: 16, kind });
    let status = reply::block_status(compact(1), &extents, true);
    assert_eq!(
        status[20..],
        *b"\0\0\0\x01\0\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0\x03\0\0\0\x10\0\0\0\x02"
    );
}

#[test]
fn extended_replies_are_the_bytes_the_protocol_prescribes() {
    let to = To { cookie: 9, offset: 0x1000, extended: true };
    let done = reply::chunk_header(to, 0, 0, true);
    let head = b"\x6e\x8a\x27\x8c\0\x01\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\x10\0";
    assert_eq!(*done, *[&head[..], &[0; 8]].concat());
    let data = reply::data_header(to, 0x2000, 512, false);
    let expected = b"\x6e\x8a\x27\x8c\0\0\0\x01\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\x10\0\
        \0\0\0\0\0\0\x02\x08\0\0\0\0\0\0\x20\0";
    assert_eq!(*data, *expected);
    assert_eq!(data.len(), to.data_header_bytes());
    let hole = reply::hole(to, 0x2000, 512, true);
    assert_eq!(hole[24..], *b"\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0\x20\0\0\0\x02\0");
    let extents =
        [ExtentKind::Data, ExtentKind::Hole].map(|kind| Extent { len_bytes: 1 << 40, kind });
    let status = reply::block_status(to, &extents, true);
    assert_eq!(status[4..8], [0, 1, 0, 6]);
    assert_eq!(
        status[24..],
        *b"\0\0\0\0\0\0\0\x28\0\0\0\x01\0\0\0\x02\
           \0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\x03"
    );
    let error = reply::error(to, Errno::Io, "no", Some(0x3000));
    assert_eq!(error[24..], *b"\0\0\0\0\0\0\0\x10\0\0\0\x05\0\x02no\0\0\0\0\0\0\x30\0");
}

#[test]
fn payloads_of_block_status_pick_contexts_and_nonsense_is_refused() {
    let info = ExportInfo { size_bytes: 1 << 50, preferred_block_bytes: 4096, read_only: false };
    let both = Session { info, structured: true, extended: true, allocation: true, changes: true };
    let payload = |len: u64, ids: &[u32]| {
        let ids = ids.iter().flat_map(|id| id.to_be_bytes());
        len.to_be_bytes().into_iter().chain(ids).collect::<Vec<u8>>()
    };
    let ask = |session: &Session, payload: &[u8]| {
        let (flags, command) = (command_flag::PAYLOAD_LEN, command::BLOCK_STATUS);
        let request = Request { flags, command, cookie: 0, offset: 512, len: payload.len() as u64 };
        assert_eq!(request.payload_bytes(session), payload.len() as u64, "it is taken");
        validate(&request, session, &payload[..request.judged_by(session) as usize])
    };
    for (ids, allocation, changes) in
        [(&[1u32][..], true, false), (&[2], false, true), (&[2, 1], true, true)]
    {
        let contexts = Contexts { allocation, changes };
        let op = Op::BlockStatus { offset: 512, len: 1 << 40, one: false, contexts };
        assert_eq!(ask(&both, &payload(1 << 40, ids)), Ok(op));
    }
    for ids in [&[][..], &[0], &[3], &[1, 1], &[1, 2, 3], &[1; 999]] {
        assert!(ask(&both, &payload(4096, ids)).is_err(), "{ids:?}");
    }
    for wrong in [&[0; 7][..], &[0; 11], &[0; 13], &payload(0, &[1]), &payload(1 << 50, &[1])] {
        assert!(ask(&both, wrong).is_err(), "{wrong:?}");
    }
    assert!(ask(&Session { changes: false, ..both }, &payload(4096, &[2])).is_err());
    // Nothing else takes one, and a write has to have one.
    for command in [command::READ, command::TRIM, command::FLUSH, command::WRITE_ZEROES] {
        let flags = command_flag::PAYLOAD_LEN;
        let request = Request { flags, command, cookie: 0, offset: 0, len: 16 };
        assert_eq!((request.payload_bytes(&both), request.judged_by(&both)), (16, 0));
        assert!(validate(&request, &both, &[]).is_err(), "{command}");
    }
    let write = Request { flags: 0, command: command::WRITE, cookie: 0, offset: 0, len: 16 };
    assert!(validate(&write, &both, &[]).is_err());
    assert_eq!(write.payload_bytes(&both), 0);
    let compact = Session { extended: false, ..both };
    assert!(validate(&write, &compact, &[]).is_ok());
    let flagged = Request { flags: command_flag::PAYLOAD_LEN, ..write };
    assert!(validate(&flagged, &compact, &[]).is_err(), "a flag of extended headers");
    assert_eq!(flagged.payload_bytes(&compact), 16);
}

#[test]
fn refusals_have_the_numbers_the_protocol_prescribes() {
    let info = ExportInfo { size_bytes: 1 << 30, preferred_block_bytes: 4096, read_only: false };
    let open =
        Session { info, structured: true, extended: false, allocation: true, changes: false };
    let plain = Session { structured: false, allocation: false, ..open };
    let locked = Session { info: ExportInfo { read_only: true, ..info }, ..open };
    let too_long = u64::from(MAX_REQUEST_BYTES) + 1;
    let end = 1 << 30;
    for (session, command, flags, offset, len, errno) in [
        (open, command::READ, 0, end, 1, Errno::Invalid),
        (open, command::READ, 0, u64::MAX, 2, Errno::Invalid),
        (open, command::WRITE, 0, end - 1, 2, Errno::NoSpace),
        (open, command::WRITE_ZEROES, 0, end, 1, Errno::NoSpace),
        (open, command::TRIM, 0, end, 1, Errno::Invalid),
        (open, command::READ, 0, 0, too_long, Errno::Invalid),
        (open, command::READ, 4, 0, (4 << 20) + 1, Errno::Overflow),
        (open, command::WRITE, 0, 0, too_long, Errno::Invalid),
        (plain, command::READ, 4, 0, 1, Errno::Invalid),
        (plain, command::BLOCK_STATUS, 0, 0, 1, Errno::Invalid),
        (open, command::WRITE, 2, 0, 1, Errno::Invalid),
        (open, command::FLUSH, 0, 0, 1, Errno::Invalid),
        (open, command::READ, 0, 0, 0, Errno::Invalid),
        (open, 8, 0, 0, 1, Errno::Invalid),
        (locked, command::WRITE, 0, 0, 1, Errno::Perm),
        (locked, command::TRIM, 0, 0, 1, Errno::Perm),
        (locked, command::WRITE_ZEROES, 0, 0, 1, Errno::Perm),
    ] {
        let request = Request { flags, command, cookie: 0, offset, len };
        let refused = validate(&request, &session, &[]).expect_err("not to be accepted");
        assert_eq!(refused.errno, errno, "{request:?}");
    }
}

#[test]
fn the_longest_request_and_the_last_byte_are_accepted_and_no_more() {
    let size_bytes = 3 * u64::from(MAX_REQUEST_BYTES);
    let info = ExportInfo { size_bytes, preferred_block_bytes: 4096, read_only: false };
    let session =
        Session { info, structured: true, extended: false, allocation: false, changes: false };
    for command in [command::READ, command::WRITE] {
        let ask = |offset, len| {
            let request = Request { flags: 0, command, cookie: 1, offset, len };
            validate(&request, &session, &[]).is_ok()
        };
        let most = u64::from(MAX_REQUEST_BYTES);
        assert!(ask(0, most) && !ask(0, most + 1));
        assert!(ask(size_bytes - 1, 1) && !ask(size_bytes - 1, 2) && !ask(size_bytes, 1));
    }
}
