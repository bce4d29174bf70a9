//! The handshake over a socket: what clients are told and what they are refused.
//! Room: onefold-nbd.

use std::sync::Arc;

use onefold_block::BlockDevice;
use onefold_nbd::protocol::constants::{
    MAX_OPTION_BYTES, MAX_OPTION_DRAIN_BYTES, MAX_OPTIONS, MAX_OPTIONS_PER_EXPORT, command, option,
    option_reply,
};
use onefold_nbd::{Client, ExportEntry, ExportTable, Exports, ServerConfig};

use crate::device::TestDevice;
use crate::raw::{Fixture, info_query, meta_query, option_bytes};

fn two_exports() -> Fixture {
    let exports = ExportTable::new()
        .with("main", "the first", Arc::new(TestDevice::new(1 << 20)))
        .with("other", "", Arc::new(TestDevice::read_only(5000)));
    Fixture::exporting(exports, ServerConfig::default())
}

#[test]
fn exports_are_listed_and_the_empty_name_is_the_first() {
    let fixture = two_exports();
    let mut raw = fixture.raw();
    raw.option(option::LIST, &[]);
    assert_eq!(raw.answer().2, *b"\0\0\0\x04mainthe first");
    assert_eq!(raw.answer().2, *b"\0\0\0\x05other");
    assert_eq!(raw.answer().1, option_reply::ACK);
    raw.option(option::INFO, &info_query("", &[1]));
    assert_eq!(raw.answer().2[..10], *b"\0\0\0\0\0\0\0\x10\0\0");
    assert_eq!(raw.answer().2, *b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0");
    assert_eq!(raw.answer().2, *b"\0\x01main");
    assert_eq!(raw.answer().1, option_reply::ACK);
}

#[test]
fn unknown_exports_and_options_are_refused_and_the_talk_goes_on() {
    let fixture = two_exports();
    let mut raw = fixture.raw();
    for (name, data, refusal) in [
        (option::GO, info_query("nosuch", &[]), option_reply::ERR_UNKNOWN),
        (option::INFO, vec![0, 0, 0, 9, 1], option_reply::ERR_INVALID),
        (option::LIST, vec![1], option_reply::ERR_INVALID),
        (option::STARTTLS, Vec::new(), option_reply::ERR_UNSUP),
        (4, Vec::new(), option_reply::ERR_UNSUP),
        (12, Vec::new(), option_reply::ERR_UNSUP),
        (option::EXTENDED_HEADERS, vec![1], option_reply::ERR_INVALID),
        (option::SET_META_CONTEXT, meta_query("main", &[]), option_reply::ERR_INVALID),
        (option::LIST_META_CONTEXT, meta_query("x", &[]), option_reply::ERR_UNKNOWN),
        (77, vec![0; MAX_OPTION_BYTES + 1], option_reply::ERR_TOO_BIG),
        (option::GO, vec![0; MAX_OPTION_DRAIN_BYTES], option_reply::ERR_TOO_BIG),
    ] {
        raw.option(name, &data);
        let answer = raw.answer();
        assert_eq!((answer.0, answer.1), (name, refusal), "{name}");
        assert!(!answer.2.is_empty(), "a refusal says why");
    }
    raw.option(option::ABORT, &[]);
    assert_eq!(raw.answer().1, option_reply::ACK);
    assert!(raw.is_closed());
}

/// Exports of which the first is kept back, for a reason.
struct KeptBack(ExportTable, String);

impl Exports for KeptBack {
    fn list(&self, client: &Client) -> Vec<ExportEntry> {
        self.0.list(client)
    }

    fn open(&self, name: &str, client: &Client) -> Option<Arc<dyn BlockDevice>> {
        if self.refusal(name, client).is_some() { None } else { self.0.open(name, client) }
    }

    fn refusal(&self, name: &str, client: &Client) -> Option<String> {
        assert_eq!(*client, Client::Local, "on a Unix socket");
        ["", "main"].contains(&name).then(|| self.1.clone())
    }
}

fn kept_back(why: &str) -> Fixture {
    let exports = ExportTable::new().with("main", "", Arc::new(TestDevice::new(1 << 20))).with(
        "other",
        "",
        Arc::new(TestDevice::new(5000)),
    );
    Fixture::exporting(KeptBack(exports, why.to_owned()), ServerConfig::default())
}

#[test]
fn an_export_that_is_kept_back_is_a_matter_of_policy_and_others_are_given() {
    let fixture = kept_back("not before somebody looked");
    let mut raw = fixture.raw();
    raw.option(option::STRUCTURED_REPLY, &[]);
    assert_eq!(raw.answer().1, option_reply::ACK);
    for name in ["main", ""] {
        for (option, data) in [
            (option::GO, info_query(name, &[1, 3])),
            (option::INFO, info_query(name, &[])),
            (option::LIST_META_CONTEXT, meta_query(name, &[])),
            (option::SET_META_CONTEXT, meta_query(name, &["base:allocation"])),
        ] {
            raw.option(option, &data);
            let policy = (option, option_reply::ERR_POLICY, b"not before somebody looked".to_vec());
            assert_eq!(raw.answer(), policy, "'{name}'");
        }
    }
    raw.option(option::GO, &info_query("nosuch", &[]));
    assert_eq!(raw.answer().1, option_reply::ERR_UNKNOWN, "nobody keeps back what is not there");
    // The talk goes on, and ends with what may be had.
    raw.option(option::GO, &info_query("other", &[]));
    while raw.answer().1 != option_reply::ACK {}
    raw.request(command::READ, 0, 9, 4999, 1);
    let chunk = raw.chunk();
    assert_eq!((chunk.cookie, chunk.payload.len()), (9, 9));
}

#[test]
fn whoever_asks_for_it_by_the_old_option_is_left_without_a_byte() {
    let fixture = kept_back("not before somebody looked");
    for name in [&b"main"[..], b""] {
        let mut raw = fixture.raw();
        raw.send(&option_bytes(option::EXPORT_NAME, name));
        assert_eq!(raw.rest(), b"", "the option has no answer but the export itself");
    }
    let mut raw = fixture.raw();
    raw.send(&option_bytes(option::EXPORT_NAME, b"other"));
    assert_eq!(raw.u64(), 5000);
}

#[test]
fn the_longest_reason_is_cut_to_what_the_protocol_allows() {
    let fixture = kept_back(&"\u{e4}".repeat(3000));
    let mut raw = fixture.raw();
    raw.option(option::GO, &info_query("main", &[]));
    let (_, kind, why) = raw.answer();
    assert_eq!((kind, why.len()), (option_reply::ERR_POLICY, 4096));
    assert!(String::from_utf8(why).is_ok(), "cut between characters");
}

#[test]
fn contexts_count_only_for_the_export_they_were_picked_for() {
    let fixture = two_exports();
    for (picked, gone, errno) in [("main", "main", 0), ("main", "other", 22), ("main", "", 22)] {
        let mut raw = fixture.raw();
        raw.option(option::STRUCTURED_REPLY, &[]);
        raw.answer();
        raw.option(option::LIST_META_CONTEXT, &meta_query(picked, &["base:"]));
        assert_eq!(raw.answer().2, *b"\0\0\0\0base:allocation");
        raw.answer();
        raw.option(option::SET_META_CONTEXT, &meta_query(picked, &["x:y", "base:allocation"]));
        assert_eq!(raw.answer().2, *b"\0\0\0\x01base:allocation");
        raw.answer();
        raw.option(option::GO, &info_query(gone, &[]));
        while raw.answer().1 != option_reply::ACK {}
        raw.request(command::BLOCK_STATUS, 0, 5, 0, 512);
        let chunk = raw.chunk();
        let found = if chunk.kind == 5 { 0 } else { chunk.payload[3] };
        assert_eq!(found, errno, "picked for {picked}, used for {gone}");
    }
}

#[test]
fn an_export_name_begins_at_once_and_its_zeroes_can_be_waived() {
    let fixture = two_exports();
    let mut raw = fixture.raw();
    raw.send(&option_bytes(option::EXPORT_NAME, b"other"));
    assert_eq!(raw.u64(), 5000);
    let flags = u16::from_be_bytes(raw.array());
    assert_eq!(flags & 3, 3, "read-only");
    assert_eq!(raw.read_simple(4999, 1), [0]);

    let mut old = crate::raw::Raw::connect(fixture.socket());
    old.bytes(18);
    old.send(&1u32.to_be_bytes());
    old.send(&option_bytes(option::EXPORT_NAME, b""));
    assert_eq!(old.u64(), 1 << 20);
    old.bytes(2);
    assert_eq!(old.bytes(124), [0; 124]);
    assert_eq!(old.read_simple(0, 3), [0; 3]);
}

#[test]
fn what_makes_no_sense_ends_the_connection() {
    let fixture = two_exports();
    let flags = 3u32.to_be_bytes();
    let oversized =
        [&b"IHAVEOPT\0\0\0\x07"[..], &(MAX_OPTION_DRAIN_BYTES as u32 + 1).to_be_bytes()];
    for bytes in [
        u32::MAX.to_be_bytes().to_vec(),
        [&flags[..], b"IHAVENOT\0\0\0\x07\0\0\0\0"].concat(),
        [&flags[..], &oversized.concat()].concat(),
        [&flags[..], &option_bytes(option::EXPORT_NAME, b"nosuch")].concat(),
        [&flags[..], &option_bytes(option::EXPORT_NAME, &[0xff])].concat(),
    ] {
        let mut raw = crate::raw::Raw::connect(fixture.socket());
        raw.bytes(18);
        raw.send(&bytes);
        assert!(raw.is_closed(), "{bytes:x?}");
    }
    let mut raw = fixture.raw();
    for _ in 0..MAX_OPTIONS + 2 * MAX_OPTIONS_PER_EXPORT {
        raw.option(99, &[]);
        assert_eq!(raw.answer().1, option_reply::ERR_UNSUP);
    }
    raw.option(99, &[]);
    assert!(raw.is_closed(), "too many options");
}
