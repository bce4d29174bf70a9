//! The pieces of volumes, of streams of snapshots and of recordings on the control socket: how
//! `volume import`, `volume export` and `trace record` work on a pool that is served.
//! Room: onefold.

use std::io;

use onefold_block::{BlockDevice as _, BlockError, Extent, ExtentKind, ZeroOptions};
use onefold_content::Fingerprint;
use onefold_control::{Method, Request, Response};
use onefold_pool::stream::Naming;
use onefold_pool::{Pool, PoolError, Volume};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::serve::pool_exports::PoolExports;

/// Fingerprints that are looked for at once, in bytes.
const FINGERPRINTS_BYTES_MAX: usize = 2 << 20;
/// Blocks that are found at once, in bytes, with some room for their numbers.
const BLOCKS_BYTES_MAX: usize = 40 << 20;

/// Longest piece that is read at once, in bytes.
const PIECE_BYTES_MAX: u64 = 4 << 20;

/// An error of a volume as it travels.
#[derive(Serialize, Deserialize)]
pub struct Told {
    error: ToldError,
}

#[derive(Serialize, Deserialize)]
struct ToldError {
    kind: String,
    message: String,
}

fn told(error: &BlockError) -> Response {
    let (kind, message) = match error {
        BlockError::NoSpace(why) => ("no-space", why.clone()),
        BlockError::Corrupt(why) => ("corrupt", why.clone()),
        BlockError::Poisoned(why) => ("poisoned", why.clone()),
        BlockError::ReadOnly => ("read-only", error.to_string()),
        BlockError::NotFast => ("not-fast", error.to_string()),
        BlockError::ShuttingDown => ("shutting-down", error.to_string()),
        error => ("other", error.to_string()),
    };
    let error = ToldError { kind: kind.to_owned(), message };
    Response::json(500, &json!(Told { error }))
}

/// The error that was told of a volume.
pub fn error_of(told: Told, name: &str) -> BlockError {
    let ToldError { kind, message } = told.error;
    match kind.as_str() {
        "no-space" => BlockError::NoSpace(message),
        "corrupt" => BlockError::Corrupt(message),
        "poisoned" => BlockError::Poisoned(message),
        "read-only" => BlockError::ReadOnly,
        "not-fast" => BlockError::NotFast,
        "shutting-down" => BlockError::ShuttingDown,
        _ => BlockError::Io { context: format!("'{name}'"), source: io::Error::other(message) },
    }
}

/// Extents that were told of `len` bytes. None, an empty one, or more bytes than were asked for
/// make no sense: whoever goes on behind them would come to a wrong end, or to none.
pub fn extents_of(bytes: &[u8], len: u64) -> Result<Vec<Extent>, BlockError> {
    let nonsense = || BlockError::Io {
        context: "read from the server".to_owned(),
        source: io::ErrorKind::InvalidData.into(),
    };
    let rows: Vec<(u64, u8)> = serde_json::from_slice(bytes).map_err(|_| nonsense())?;
    let extent = |(len_bytes, kind)| {
        let kind = match kind {
            0 => ExtentKind::Hole,
            1 => ExtentKind::Zero,
            2 => ExtentKind::Data,
            _ => return Err(nonsense()),
        };
        Ok(Extent { len_bytes, kind })
    };
    let extents: Vec<Extent> = rows.into_iter().map(extent).collect::<Result<_, _>>()?;
    let told = extents.iter().try_fold(0_u64, |sum, extent| sum.checked_add(extent.len_bytes));
    let some =
        extents.iter().all(|extent| extent.len_bytes > 0) && extents.is_empty() == (len == 0);
    if some && told.is_some_and(|told| told <= len) { Ok(extents) } else { Err(nonsense()) }
}

/// Refuse who began with another server.
fn must_be_meant(exports: &PoolExports, request: &Request) -> Result<(), Response> {
    if request.asked("server").is_some_and(|server| server != exports.server()) {
        let why = "the server was started anew meanwhile, and what was not flushed may be gone";
        return Err(Response::error(404, why));
    }
    Ok(())
}

/// The volume of that name, or the one with the number that is asked for: who has begun to read or
/// write a volume goes on with that one, though another has its name by now. And with the server
/// that it began with: another one may have lost what that one was told and had not flushed.
fn volume_of(
    (pool, exports): (&Pool, &PoolExports),
    name: &str,
    request: &Request,
) -> Result<Volume, Response> {
    must_be_meant(exports, request)?;
    if let Some(number) = request.asked("volume") {
        let found = number.parse().ok().and_then(|number| pool.volume_of_number(number));
        let gone = || Response::error(404, &format!("volume '{name}' was deleted meanwhile"));
        return found.ok_or_else(gone);
    }
    pool.volume(name).map_err(|error| match error {
        PoolError::NoVolume { .. } | PoolError::NoSnapshot { .. } => {
            Response::error(404, &error.to_string())
        }
        error => told(&error.into()),
    })
}

/// The answer to a request for a piece of a volume. `path` is what comes behind `data/`.
pub fn answer(pool: &Pool, exports: &PoolExports, path: &str, request: &Request) -> Response {
    let (name, what) = path.split_once('/').unwrap_or((path, ""));
    if (request.method, what) == (Method::Get, "stream") {
        return stream(pool, name, request);
    }
    if let Some(what) = what.strip_prefix("recording") {
        return recording((pool, exports), (name, what), request);
    }
    let volume = match volume_of((pool, exports), name, request) {
        Ok(volume) => volume,
        Err(refused) => return refused,
    };
    let number = |name| request.asked(name).and_then(|text| text.parse::<u64>().ok());
    let (offset, length) = (number("offset"), number("length"));
    let done = match (request.method, what, offset, length) {
        (Method::Get, "", ..) => Ok(json!({
            "size_bytes": volume.size_bytes(),
            "block_bytes": volume.preferred_block_bytes(),
            "number": volume.number(),
            "server": exports.server(),
        })),
        (Method::Get, "bytes", Some(offset), Some(length)) => {
            return match read(&volume, offset, length) {
                Ok(bytes) => Response::bytes(200, "application/octet-stream", bytes),
                Err(error) => told(&error),
            };
        }
        (Method::Put, "bytes", Some(offset), _) => {
            volume.write_at(offset, &request.body, false).map(|()| Value::Null)
        }
        (Method::Post, "zeroes", Some(offset), Some(length)) => {
            let is = |name| request.asked(name) == Some("true");
            let (no_hole, fast_only) = (is("no_hole"), is("fast_only"));
            let options = ZeroOptions { no_hole, fast_only, fua: false };
            volume.write_zeroes(offset, length, options).map(|()| Value::Null)
        }
        (Method::Post, "trim", Some(offset), Some(length)) => {
            volume.trim(offset, length, false).map(|()| Value::Null)
        }
        (Method::Post, "flush", ..) => volume.flush().map(|()| Value::Null),
        (Method::Get, "extents", Some(offset), Some(length)) => {
            let row = |extent: &Extent| match extent.kind {
                ExtentKind::Hole => (extent.len_bytes, 0),
                ExtentKind::Zero => (extent.len_bytes, 1),
                ExtentKind::Data => (extent.len_bytes, 2),
            };
            let extents = volume.block_status(offset, length);
            extents.map(|extents| json!(extents.iter().map(row).collect::<Vec<_>>()))
        }
        (Method::Get, "damaged", Some(offset), _) => {
            Ok(json!({ "until": volume.damaged_until(offset) }))
        }
        _ => return Response::error(404, "a volume has bytes, extents, zeroes, trim and flush"),
    };
    match done {
        Ok(value) => Response::json(200, &value),
        Err(error) => told(&error),
    }
}

/// How the pool names blocks, as a receiver of streams begins; or those of the blocks whose
/// fingerprints come that there are: for each its number, in 4 bytes, and its bytes.
pub fn blocks(pool: &Pool, request: &Request) -> Response {
    let answer = match request.method {
        Method::Get => Naming::hello(pool.naming().as_ref()),
        Method::Post if request.body.len() <= FINGERPRINTS_BYTES_MAX => {
            let wanted = request.body.as_chunks().0.iter();
            let wanted: Vec<Fingerprint> = wanted.map(|b| Fingerprint::from_bytes(*b)).collect();
            let mut found = Vec::new();
            pool.stored_blocks(&wanted, &mut |number, block| {
                if found.len() + block.len() <= BLOCKS_BYTES_MAX {
                    found.extend_from_slice(&(number as u32).to_le_bytes());
                    found.extend_from_slice(block);
                }
            });
            found
        }
        _ => return Response::error(405, "blocks are looked for by their fingerprints"),
    };
    Response::bytes(200, "application/octet-stream", answer)
}

/// What a stream begins with, or its frame from a byte of the volume on.
fn stream(pool: &Pool, name: &str, request: &Request) -> Response {
    let base = request.asked("base");
    let mut bytes = Vec::new();
    let made = match request.asked("from").map(str::parse::<u64>) {
        None => pool.stream_header(name, base, &mut bytes).map(drop),
        Some(Ok(from)) => pool.stream_frame(name, base, from, &mut bytes).map(drop),
        Some(Err(_)) => return Response::error(404, "a stream goes on at a byte"),
    };
    match made {
        Ok(()) => Response::bytes(200, "application/octet-stream", bytes),
        Err(error) => told(&error.into()),
    }
}

/// Begin, fetch or end a recording of a volume. What is fetched is the number of requests so far,
/// in 8 bytes, and whole frames.
fn recording(
    (pool, exports): (&Pool, &PoolExports),
    (name, what): (&str, &str),
    request: &Request,
) -> Response {
    let number = |name| request.asked(name).and_then(|text| text.parse::<u64>().ok());
    let refused = |message: String| {
        let error = ToldError { kind: "other".to_owned(), message };
        Response::json(500, &json!(Told { error }))
    };
    if (request.method, what) == (Method::Post, "") {
        let unit = number("unit").and_then(|unit| u32::try_from(unit).ok()).unwrap_or(4096);
        let volume = match volume_of((pool, exports), name, request) {
            Ok(volume) => volume,
            Err(refused) => return refused,
        };
        return match exports.begin_recording(&volume, unit) {
            Ok(recording) => Response::json(200, &json!({ "number": recording.number() })),
            Err(failure) => refused(failure.message),
        };
    }
    // It may be of a volume that is gone; one of the same number in another server is another one.
    if let Err(refused) = must_be_meant(exports, request) {
        return refused;
    }
    let Some(recording) = number("number").and_then(|number| exports.recording(number)) else {
        return refused("the recording has ended".to_owned());
    };
    match (request.method, what) {
        (Method::Post, "/fetch") => {}
        (Method::Delete, "") => exports.end_recording(&recording),
        _ => return Response::error(404, "a recording is begun, fetched and ended"),
    }
    let fetched = recording.fetch();
    match fetched.ended {
        Some(why) if fetched.frames.is_empty() => refused(why),
        _ => {
            let body = [&fetched.requests.to_le_bytes()[..], &fetched.frames].concat();
            Response::bytes(200, "application/octet-stream", body)
        }
    }
}

fn read(volume: &Volume, offset: u64, length: u64) -> Result<Vec<u8>, BlockError> {
    if length > PIECE_BYTES_MAX {
        let size = volume.size_bytes();
        return Err(BlockError::OutOfRange { offset, len: length, size });
    }
    let mut bytes = vec![0; length as usize];
    volume.read_at(offset, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use onefold_block::ByteSize;
    use onefold_content::Fingerprinter;
    use onefold_control::http::Body;
    use onefold_nbd::{Client, Exports as _};

    use super::*;
    use crate::test_pool;

    fn pool() -> Pool {
        let pool = test_pool::pool();
        pool.create_volume("main", ByteSize(8 << 20)).unwrap();
        pool
    }

    /// `METHOD WHAT?NAME=NUMBER&...` with a body, as it is asked of the volume `main`.
    fn ask(pool: &Pool, line: &str, body: &[u8]) -> (u16, Vec<u8>) {
        ask_of((pool, &PoolExports::new(pool.clone(), None)), line, body)
    }

    /// The same of a server that knows these exports.
    fn ask_of((pool, exports): (&Pool, &PoolExports), line: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let (method, rest) = line.split_once(' ').unwrap();
        let (what, query) = rest.split_once('?').unwrap_or((rest, ""));
        let method = match method {
            "GET" => Method::Get,
            "PUT" => Method::Put,
            "POST" => Method::Post,
            _ => Method::Delete,
        };
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let request = Request {
            method,
            path: String::new(),
            query: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            headers: Vec::new(),
            body: body.to_vec(),
            keeps: true,
        };
        told_as(match what {
            "blocks" => blocks(pool, &request),
            _ => answer(pool, exports, what, &request),
        })
    }

    fn told_as(response: Response) -> (u16, Vec<u8>) {
        let Body::Bytes(body) = response.body else { panic!("all at once") };
        (response.status, body)
    }

    fn error((status, body): (u16, Vec<u8>)) -> BlockError {
        assert_eq!(status, 500);
        error_of(serde_json::from_slice(&body).unwrap(), "main")
    }

    #[test]
    fn a_volume_is_read_and_written_by_pieces() {
        let pool = pool();
        let ask = |line: &str, body: &[u8]| ask(&pool, line, body);
        let done = |line: &str, body: &[u8]| {
            let (status, answer) = ask(line, body);
            assert_eq!(status, 200, "{line}: {}", String::from_utf8_lossy(&answer));
            answer
        };
        let mut size: Value = serde_json::from_slice(&done("GET main", &[])).unwrap();
        assert_eq!(size["server"].take().as_str().unwrap().len(), 16);
        let expected = json!({ "size_bytes": 8 << 20, "block_bytes": 4096, "number": 1 });
        size.as_object_mut().unwrap().remove("server");
        assert_eq!(size, expected);
        done("PUT main/bytes?offset=4096", &[7; 8192]);
        assert!(done("GET main/bytes?offset=4095&length=3", &[]) == [0, 7, 7]);
        let extents = |line: &str| {
            let len = line.split_once("length=").unwrap().1.parse().unwrap();
            extents_of(&done(line, &[]), len).unwrap()
        };
        let extent = |len_bytes, kind| Extent { len_bytes, kind };
        let (hole, data) = (ExtentKind::Hole, ExtentKind::Data);
        assert_eq!(
            extents("GET main/extents?offset=0&length=16384"),
            [extent(4096, hole), extent(8192, data), extent(4096, hole)]
        );
        done("POST main/zeroes?offset=4096&length=4096&no_hole=true", &[]);
        done("POST main/trim?offset=8192&length=4096", &[]);
        assert_eq!(
            extents("GET main/extents?offset=0&length=12288"),
            [extent(4096, hole), extent(4096, ExtentKind::Zero), extent(4096, hole)]
        );
        assert!(done("GET main/bytes?offset=0&length=4194304", &[]) == vec![0; 4 << 20]);
        let far = error(ask("GET main/bytes?offset=0&length=4194305", &[]));
        assert!(far.to_string().contains("4194305"), "{far}");
        error(ask("PUT main/bytes?offset=8388608", &[1; 512]));
        for line in ["GET nosuch", "GET main/bytes?offset=0", "GET main/else", "PUT main"] {
            assert_eq!(ask(line, &[]).0, 404, "{line}");
        }
    }

    #[test]
    fn who_has_begun_with_a_volume_goes_on_with_that_one_whatever_is_called_so_by_now() {
        let pool = pool();
        let ask = |line: &str, body: &[u8]| ask(&pool, line, body);
        let number = pool.volume("main").unwrap().number();
        pool.rename_volume("main", "old").unwrap();
        pool.create_volume("main", ByteSize(8 << 20)).unwrap();
        let first = |name: &str| {
            let mut bytes = [0; 1];
            pool.volume(name).unwrap().read_at(0, &mut bytes).unwrap();
            bytes[0]
        };
        let write = format!("PUT main/bytes?offset=0&volume={number}");
        assert_eq!(ask(&write, &[7; 4096]).0, 200);
        assert_eq!((first("old"), first("main")), (7, 0));
        assert_eq!(ask("PUT main/bytes?offset=0", &[8; 4096]).0, 200);
        let read = format!("GET main/bytes?offset=0&length=1&volume={number}");
        assert_eq!(ask(&read, &[]), (200, vec![7]));
        let exports = PoolExports::new(pool.clone(), None);
        let recorded = |line: &str| ask_of((&pool, &exports), line, &[]);
        assert_eq!(recorded(&format!("POST main/recording?volume={number}")).0, 200);
        let device = exports.open("old", &Client::Local).unwrap();
        device.write_at(0, &[7; 4096], false).unwrap();
        let (status, fetched) = recorded("DELETE main/recording?number=1");
        assert_eq!((status, fetched[..8].to_vec()), (200, 1_u64.to_le_bytes().to_vec()));
        drop(device);
        // Once it is gone it is not taken for the other one.
        pool.delete_volume("old").unwrap();
        for line in [write, read, "GET main/extents?offset=0&length=1&volume=x".to_owned()] {
            let (status, why) = ask(&line, &[9; 4096]);
            assert_eq!(status, 404, "{line}");
            assert!(String::from_utf8(why).unwrap().contains("'main' was deleted meanwhile"));
        }
        assert_eq!(first("main"), 8);
    }

    #[test]
    fn a_snapshot_is_streamed_from_its_head_or_from_a_byte_and_a_volume_is_recorded() {
        let pool = pool();
        pool.volume("main").unwrap().write_at(0, &[7; 4096], true).unwrap();
        pool.snapshot("main@s", 1, false).unwrap();
        let ask = |line: &str| ask(&pool, line, &[]);
        let (mut head, mut frame) = (Vec::new(), Vec::new());
        pool.stream_header("main@s", None, &mut head).unwrap();
        pool.stream_frame("main@s", None, 0, &mut frame).unwrap();
        assert!(ask("GET main@s/stream") == (200, head));
        assert!(ask("GET main@s/stream?from=0") == (200, frame));
        assert_eq!(ask("GET main@s/stream?from=x").0, 404);
        error(ask("GET main@s/stream?base=main@nosuch"));
        error(ask("GET main@nosuch/stream"));
        let begun: Value = serde_json::from_slice(&ask("POST main/recording").1).unwrap();
        assert_eq!(begun, json!({ "number": 1 }), "by blocks of 4 KiB");
        error(ask("POST main/recording?unit=8192"));
        let exports = PoolExports::new(pool.clone(), None);
        let ask = |line: &str| ask_of((&pool, &exports), line, &[]);
        let device = exports.open("main", &Client::Local).unwrap();
        assert_eq!(ask("POST main/recording?unit=512").0, 200);
        device.write_at(0, &[1; 4096], false).unwrap();
        let (status, fetched) = ask("POST main/recording/fetch?number=1");
        assert_eq!((status, fetched[..8].to_vec()), (200, 1_u64.to_le_bytes().to_vec()));
        assert!(fetched.len() > 8, "with what was asked");
        assert_eq!(ask("GET main/recording?number=1").0, 404);
        assert_eq!(
            ask("POST main/recording/fetch?number=1&server=0").0,
            404,
            "it is another one's"
        );
        let (status, rest) = ask("DELETE main/recording?number=1");
        assert_eq!((status, rest), (200, 1_u64.to_le_bytes().to_vec()), "nothing came since");
        error(ask("POST main/recording/fetch?number=1"));
    }

    #[test]
    fn errors_of_a_volume_travel_as_what_they_are() {
        let why = || "why".to_owned();
        for sent in [
            BlockError::NoSpace(why()),
            BlockError::Corrupt(why()),
            BlockError::Poisoned(why()),
            BlockError::ReadOnly,
            BlockError::NotFast,
            BlockError::ShuttingDown,
        ] {
            let there = error(told_as(told(&sent)));
            assert_eq!(there.to_string(), sent.to_string());
            assert_eq!(std::mem::discriminant(&there), std::mem::discriminant(&sent));
        }
        let nonsense: [&[u8]; 3] = [b"[[4096, 3]]", b"{}", b""];
        assert!(nonsense.iter().all(|bytes| extents_of(bytes, 4096).is_err()));
        for (told, len, makes_sense) in [
            ("[[4096, 2]]", 4096, true),
            ("[[512, 2], [1024, 0]]", 4096, true),
            ("[]", 0, true),
            ("[]", 4096, false),
            ("[[0, 2]]", 0, false),
            ("[[0, 2], [4096, 0]]", 4096, false),
            ("[[4096, 2], [1, 0]]", 4096, false),
            ("[[18446744073709551615, 2], [1, 0]]", 4096, false),
        ] {
            assert_eq!(extents_of(told.as_bytes(), len).is_ok(), makes_sense, "{told} of {len}");
        }
    }

    #[test]
    fn stored_blocks_are_found_by_their_fingerprints_and_no_more_than_an_answer_holds() {
        let pool = pool();
        let volume = pool.volume("main").unwrap();
        let block = onefold_block::SplitMix64::new(1).bytes(4096);
        volume.write_at(0, &block, true).unwrap();
        let (status, hello) = ask(&pool, "GET blocks", &[]);
        let naming = Naming::read_hello(&*hello).unwrap().unwrap();
        let name = *Fingerprinter::with_key(naming.kind, naming.key).hash(&block).as_bytes();
        let unknown = name.map(|byte| !byte);
        let (found, rows) = ask(&pool, "POST blocks", &[unknown, name].concat());
        assert_eq!((status, found), (200, 200));
        assert!(rows == [&1_u32.to_le_bytes()[..], &block].concat());
        // As many blocks as fit are found; the rest is sent as if it were not there.
        let (_, rows) = ask(&pool, "POST blocks", &name.repeat(10_300));
        let most = BLOCKS_BYTES_MAX - rows.len();
        assert!(rows.len() % 4100 == 0 && most < 4100, "{}", rows.len());
        let most = FINGERPRINTS_BYTES_MAX;
        assert_eq!(ask(&pool, "POST blocks", &vec![0; most]), (200, Vec::new()));
        assert_eq!(ask(&pool, "POST blocks", &vec![0; most + 1]).0, 405);
        assert_eq!(ask(&pool, "PUT blocks", &[]).0, 405);
    }
}
