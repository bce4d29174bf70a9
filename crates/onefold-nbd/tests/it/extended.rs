//! Extended headers: 64 bits of length, payloads of other commands than writes, and clients that
//! ask for less.
//! Room: onefold-nbd.

use std::sync::{Arc, Mutex};

use onefold_block::{BlockDevice, BlockError, Extent, ExtentKind, ZeroOptions};
use onefold_nbd::protocol::Request;
use onefold_nbd::protocol::constants::{
    EXTENDED_REPLY_MAGIC, chunk, command, command_flag, option, option_reply,
};

use crate::device::TestDevice;
use crate::raw::{Chunk, Fixture, Raw, info_query, meta_query, pattern};
use crate::tools::run;

/// A client past the handshake, with extended headers and `base:allocation`.
fn ready(fixture: &Fixture) -> Raw {
    let mut raw = fixture.raw();
    raw.option(option::EXTENDED_HEADERS, &[]);
    assert_eq!(raw.answer().1, option_reply::ACK);
    raw.option(option::SET_META_CONTEXT, &meta_query("", &["base:allocation"]));
    assert_eq!(raw.answer().1, option_reply::META_CONTEXT);
    assert_eq!(raw.answer().1, option_reply::ACK);
    raw.option(option::GO, &info_query("", &[]));
    let (_, _, export) = raw.answer();
    assert_eq!(export[10] & 0x10, 0x10, "payloads of block status are offered");
    while raw.answer().1 != option_reply::ACK {}
    raw
}

fn ask(raw: &mut Raw, command: u16, flags: u16, (offset, len): (u64, u64), payload: &[u8]) {
    let header = Request { flags, command, cookie: 5, offset, len }.encode_extended();
    raw.send(&[&header[..], payload].concat());
}

/// A chunk, and the offset in its header.
fn chunk_of(raw: &mut Raw) -> (Chunk, u64) {
    assert_eq!(raw.u32(), EXTENDED_REPLY_MAGIC);
    let flags = u16::from_be_bytes(raw.array());
    let kind = u16::from_be_bytes(raw.array());
    let (cookie, offset, len) = (raw.u64(), raw.u64(), raw.u64());
    assert_eq!(cookie, 5);
    let payload = raw.bytes(len as usize);
    (Chunk { done: flags == 1, kind, cookie, payload }, offset)
}

/// The answer to a request that changes something: its error number.
fn done(raw: &mut Raw, offset: u64) -> u32 {
    let (answer, at) = chunk_of(raw);
    assert!(answer.done && at == offset, "{answer:?}");
    match answer.kind {
        chunk::NONE => 0,
        chunk::ERROR | chunk::ERROR_OFFSET => {
            u32::from_be_bytes(answer.payload[..4].try_into().unwrap())
        }
        kind => panic!("a chunk of kind {kind}"),
    }
}

#[test]
fn all_replies_are_extended_and_repeat_the_offset_asked_for() {
    let device = Arc::new(TestDevice::new(8 << 20));
    let fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let mut raw = ready(&fixture);
    let data = pattern(1, 1 << 20);
    let write = command_flag::PAYLOAD_LEN;
    ask(&mut raw, command::WRITE, write, (4096, data.len() as u64), &data);
    assert_eq!(done(&mut raw, 4096), 0);
    // Longer than what is received at once, and durable.
    let long = pattern(2, 6 << 20);
    let flags = write | command_flag::FUA;
    ask(&mut raw, command::WRITE, flags, (1 << 20, long.len() as u64), &long);
    assert_eq!(done(&mut raw, 1 << 20), 0);
    ask(&mut raw, command::FLUSH, 0, (0, 0), &[]);
    assert_eq!(done(&mut raw, 0), 0);
    ask(&mut raw, command::READ, 0, (0, 8 << 20), &[]);
    let mut found = vec![7; 8 << 20];
    loop {
        let (piece, at) = chunk_of(&mut raw);
        assert_eq!(at, 0, "of the request, and not of the piece");
        let begin = u64::from_be_bytes(piece.payload[..8].try_into().unwrap()) as usize;
        if piece.kind == chunk::OFFSET_HOLE {
            let count = u32::from_be_bytes(piece.payload[8..].try_into().unwrap()) as usize;
            found[begin..begin + count].fill(0);
        } else {
            let bytes = &piece.payload[8..];
            found[begin..begin + bytes.len()].copy_from_slice(bytes);
        }
        if piece.done {
            break;
        }
    }
    let mut expected = vec![0; 8 << 20];
    device.read_at(0, &mut expected).unwrap();
    assert!(found == expected);
    assert!(found[1 << 20..7 << 20] == long);
}

#[test]
fn a_payload_that_nobody_wanted_is_taken_and_the_next_request_is_understood() {
    let fixture = Fixture::new(Arc::new(TestDevice::new(1 << 20)));
    let mut raw = ready(&fixture);
    let flag = command_flag::PAYLOAD_LEN;
    for command in [command::READ, command::TRIM, command::CACHE, 99] {
        ask(&mut raw, command, flag, (0, 100_000), &pattern(3, 100_000));
        assert_eq!(done(&mut raw, 0), 22, "{command}");
    }
    // A write without one is refused, and nothing is taken for it.
    ask(&mut raw, command::WRITE, 0, (0, 4096), &[]);
    assert_eq!(done(&mut raw, 0), 22);
    ask(&mut raw, command::TRIM, 0, (0, 4096), &[]);
    assert_eq!(done(&mut raw, 0), 0);
    // More than anybody may send ends the connection.
    ask(&mut raw, command::TRIM, flag, (0, 1 << 40), &[]);
    assert!(raw.is_closed());
    // So does a request with the headers that were not agreed on.
    let mut raw = ready(&fixture);
    raw.request(command::READ, 0, 1, 0, 512);
    raw.send(&[0; 4]);
    assert!(raw.is_closed());
}

/// Far more than memory holds: it notes what it is asked for, and has one block of data.
#[derive(Default)]
struct Huge(Mutex<Vec<(&'static str, u64, u64)>>);

const HUGE: u64 = 1 << 60;
const BLOCK_AT: u64 = 3 << 40;

impl Huge {
    fn note(&self, what: &'static str, offset: u64, len: u64) {
        self.0.lock().unwrap().push((what, offset, len));
    }
}

impl BlockDevice for Huge {
    fn size_bytes(&self) -> u64 {
        HUGE
    }
    fn preferred_block_bytes(&self) -> u32 {
        4096
    }
    fn read_at(&self, _: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        buf.fill(0);
        Ok(())
    }
    fn write_at(&self, offset: u64, data: &[u8], _: bool) -> Result<(), BlockError> {
        self.note("write", offset, data.len() as u64);
        Ok(())
    }
    fn write_zeroes(&self, offset: u64, len: u64, _: ZeroOptions) -> Result<(), BlockError> {
        self.note("zero", offset, len);
        Ok(())
    }
    fn trim(&self, offset: u64, len: u64, _: bool) -> Result<(), BlockError> {
        self.note("trim", offset, len);
        Ok(())
    }
    fn flush(&self) -> Result<(), BlockError> {
        Ok(())
    }
    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.note("cache", offset, len);
        Ok(())
    }
    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        let data = BLOCK_AT..BLOCK_AT + 4096;
        let (kind, end) = match offset {
            at if at < data.start => (ExtentKind::Hole, data.start),
            at if at < data.end => (ExtentKind::Data, data.end),
            _ => (ExtentKind::Hole, HUGE),
        };
        Ok(vec![Extent { len_bytes: len.min(end - offset), kind }])
    }
}

#[test]
fn lengths_of_64_bits_reach_the_device() {
    let device = Arc::new(Huge::default());
    let fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let mut raw = ready(&fixture);
    let range = (4096, HUGE - 4096);
    for command in [command::TRIM, command::WRITE_ZEROES, command::CACHE] {
        ask(&mut raw, command, 0, range, &[]);
        assert_eq!(done(&mut raw, 4096), 0);
    }
    ask(&mut raw, command::TRIM, 0, (4097, HUGE - 4096), &[]);
    assert_eq!(done(&mut raw, 4097), 22, "past the end");
    ask(&mut raw, command::WRITE_ZEROES, 0, (u64::MAX, 2), &[]);
    assert_eq!(done(&mut raw, u64::MAX), 28);
    ask(&mut raw, command::READ, 0, (0, 1 << 33), &[]);
    assert_eq!(done(&mut raw, 0), 22, "no read is so long");
    let asked = device.0.lock().unwrap().clone();
    let (offset, len) = range;
    assert_eq!(asked, ["trim", "zero", "cache"].map(|what| (what, offset, len)));
}

/// Context, and length and flags of each extent told.
fn status(raw: &mut Raw, flags: u16, offset: u64, len: u64, payload: &[u8]) -> Vec<(u64, u64)> {
    ask(raw, command::BLOCK_STATUS, flags, (offset, len), payload);
    let (told, at) = chunk_of(raw);
    assert!(told.done && at == offset && told.kind == chunk::BLOCK_STATUS_EXT, "{told:?}");
    assert_eq!(told.payload[..4], [0, 0, 0, 1]);
    let count = u32::from_be_bytes(told.payload[4..8].try_into().unwrap());
    let words: Vec<u64> = told.payload[8..]
        .chunks_exact(8)
        .map(|word| u64::from_be_bytes(word.try_into().unwrap()))
        .collect();
    assert_eq!(words.len(), 2 * count as usize);
    words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn block_status_has_64_bits_and_ends_where_the_answer_would_take_too_long() {
    let fixture = Fixture::new(Arc::new(Huge::default()));
    let mut raw = ready(&fixture);
    let most = 16 << 30;
    assert_eq!(status(&mut raw, 0, 0, HUGE, &[]), [(most, 3)]);
    let before = 8 << 30;
    assert_eq!(
        status(&mut raw, 0, BLOCK_AT - before, 1 << 40, &[]),
        [(before, 3), (4096, 0), (most - before - 4096, 3)]
    );
    let one = command_flag::REQ_ONE;
    assert_eq!(status(&mut raw, one, BLOCK_AT, 1 << 40, &[]), [(4096, 0)]);
    // The length is in the payload, and so are the contexts.
    let picks = [&(1u64 << 33).to_be_bytes()[..], &1u32.to_be_bytes()].concat();
    let flags = command_flag::PAYLOAD_LEN;
    assert_eq!(status(&mut raw, flags, 0, 12, &picks), [(1 << 33, 3)]);
    for wrong in [2u32, 0] {
        let picks = [&(1u64 << 33).to_be_bytes()[..], &wrong.to_be_bytes()].concat();
        ask(&mut raw, command::BLOCK_STATUS, flags, (0, 12), &picks);
        assert_eq!(done(&mut raw, 0), 22);
    }
    let many = pattern(1, 5000);
    ask(&mut raw, command::BLOCK_STATUS, flags, (0, 5000), &many);
    assert_eq!(done(&mut raw, 0), 22);
    assert_eq!(status(&mut raw, one, BLOCK_AT, 1 << 40, &[]), [(4096, 0)]);
}

#[test]
fn structured_replies_before_them_are_fine_and_after_them_refused() {
    let fixture = Fixture::new(Arc::new(TestDevice::new(1 << 20)));
    let mut raw = fixture.raw();
    raw.option(option::STRUCTURED_REPLY, &[]);
    assert_eq!(raw.answer().1, option_reply::ACK);
    raw.option(option::EXTENDED_HEADERS, &[]);
    assert_eq!(raw.answer().1, option_reply::ACK);
    raw.option(option::STRUCTURED_REPLY, &[]);
    assert_eq!(raw.answer().1, option_reply::ERR_EXT_HEADER_REQD);
    raw.option(option::GO, &info_query("", &[]));
    let (_, _, export) = raw.answer();
    assert_eq!(export[10] & 0x10, 0, "no context was agreed on");
    while raw.answer().1 != option_reply::ACK {}
    ask(&mut raw, command::FLUSH, 0, (0, 0), &[]);
    assert_eq!(done(&mut raw, 0), 0);
    // Whoever has them goes on by GO and not by the name alone.
    let mut raw = fixture.raw();
    raw.option(option::EXTENDED_HEADERS, &[]);
    assert_eq!(raw.answer().1, option_reply::ACK);
    raw.option(option::EXPORT_NAME, b"main");
    assert!(raw.is_closed());
}

/// libnbd speaks them from 1.18 on, and goes on without them before. `ONEFOLD_NBDSH` names another
/// `nbdsh` than the distribution's.
#[test]
fn libnbd_uses_them_where_it_knows_them_and_data_are_the_same_without() {
    let other = std::env::var("ONEFOLD_NBDSH");
    let program = other.as_deref().unwrap_or("nbdsh");
    let script = |request: bool| {
        format!(
            "knows = hasattr(h, 'set_request_extended_headers')\n\
             if knows: h.set_request_extended_headers({flag})\n\
             h.add_meta_context('base:allocation')\n\
             h.connect_unix(socket)\n\
             extended = knows and h.get_extended_headers_negotiated()\n\
             assert extended == (knows and {flag}), extended\n\
             h.pwrite(b'x' * 300000, 4096, 0)\n\
             h.pwrite(b'y' * 4096, 1 << 20, nbd.CMD_FLAG_FUA)\n\
             h.flush()\n\
             assert h.pread(300000, 4096) == b'x' * 300000\n\
             h.zero(4096, 4096)\n\
             h.trim(4096, 8192)\n\
             told = []\n\
             def hear(context, offset, extents, error): told.append((context, extents))\n\
             if knows: h.block_status_64(h.get_size(), 0, hear)\n\
             else: h.block_status(h.get_size(), 0, hear)\n\
             assert told[0][0] == 'base:allocation', told\n\
             if extended:\n    \
                 told.clear()\n    \
                 h.block_status_filter(h.get_size(), 0, ['base:allocation'], hear)\n    \
                 assert len(told) == 1, told\n\
             try:\n    h.pread(1, h.get_size())\n    assert False\n\
             except nbd.Error as error: assert error.errnum == 22, error\n\
             h.shutdown()\n\
             print('extended' if extended else 'compact')",
            flag = if request { "True" } else { "False" }
        )
    };
    for request in [true, false] {
        let device = Arc::new(TestDevice::new(4 << 20));
        let fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
        let socket = format!("socket = '{}'\n", fixture.socket().display());
        let whole = socket
            + "h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_BOUNDS)\n"
            + &script(request);
        let said = run(program, &["-c", &whole]);
        let (out, err) =
            (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert!(said.status.success(), "{err}");
        if other.is_ok() {
            assert_eq!(out.trim(), if request { "extended" } else { "compact" });
        }
        let mut found = vec![0; 4 << 20];
        device.read_at(0, &mut found).unwrap();
        assert!(found[4096..12288].iter().all(|&byte| byte == 0));
        assert!(found[12288..304_096].iter().all(|&byte| byte == b'x'));
        assert!(found[1 << 20..(1 << 20) + 4096].iter().all(|&byte| byte == b'y'));
    }
}
