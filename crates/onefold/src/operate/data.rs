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

/// Extents that were told.
pub fn extents_of(bytes: &[u8]) -> Result<Vec<Extent>, BlockError> {
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
    rows.into_iter().map(extent).collect()
}

/// The answer to a request for a piece of a volume. `path` is what comes behind `data/`.
pub fn answer(pool: &Pool, exports: &PoolExports, path: &str, request: &Request) -> Response {
    let (name, what) = path.split_once('/').unwrap_or((path, ""));
    if (request.method, what) == (Method::Get, "stream") {
        return stream(pool, name, request);
    }
    if let Some(what) = what.strip_prefix("recording") {
        return recording(exports, (name, what), request);
    }
    let volume = match pool.volume(name) {
        Ok(volume) => volume,
        Err(error @ (PoolError::NoVolume { .. } | PoolError::NoSnapshot { .. })) => {
            return Response::error(404, &error.to_string());
        }
        Err(error) => return Response::error(500, &error.to_string()),
    };
    let number = |name| request.asked(name).and_then(|text| text.parse::<u64>().ok());
    let (offset, length) = (number("offset"), number("length"));
    let done = match (request.method, what, offset, length) {
        (Method::Get, "", ..) => Ok(json!({
            "size_bytes": volume.size_bytes(),
            "block_bytes": volume.preferred_block_bytes(),
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
fn recording(exports: &PoolExports, (name, what): (&str, &str), request: &Request) -> Response {
    let number = |name| request.asked(name).and_then(|text| text.parse::<u64>().ok());
    let refused = |message: String| {
        let error = ToldError { kind: "other".to_owned(), message };
        Response::json(500, &json!(Told { error }))
    };
    if (request.method, what) == (Method::Post, "") {
        let unit = number("unit").and_then(|unit| u32::try_from(unit).ok()).unwrap_or(4096);
        return match exports.begin_recording(name, unit) {
            Ok(recording) => Response::json(200, &json!({ "number": recording.number() })),
            Err(failure) => refused(failure.message),
        };
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
