//! The handshake that the kernel leaves to a program: an export is picked, and the connection given
//! away with what is known of it.
//! Room: onefold.
//! Invariant: nothing of the transmission is read or sent here.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use onefold_nbd::protocol::constants::{
    IHAVEOPT, MAX_OPTION_DRAIN_BYTES, NBDMAGIC, OPTION_REPLY_MAGIC, handshake_flag, info, option,
    option_reply,
};

use super::netlink::Shown;

/// A server that says nothing for so long is none.
const PATIENCE: Duration = Duration::from_secs(30);
/// Answers to one option that are listened to.
const ANSWERS_MAX: usize = 64;
/// What the kernel takes as a block.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=4096;

/// Connect and pick an export.
pub fn connect(socket: &Path, export: &str) -> io::Result<(UnixStream, Shown)> {
    let unreachable = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("no server answers at '{}': {error}", socket.display()),
        )
    };
    let mut stream = UnixStream::connect(socket).map_err(unreachable)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let shown = handshake(&mut stream, export)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok((stream, shown))
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server's {what} makes no sense"))
}

fn array<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn u32_from(stream: &mut impl Read) -> io::Result<u32> {
    array(stream).map(u32::from_be_bytes)
}

fn u64_from(stream: &mut impl Read) -> io::Result<u64> {
    array(stream).map(u64::from_be_bytes)
}

fn handshake(stream: &mut (impl Read + Write), export: &str) -> io::Result<Shown> {
    let greeting = (u64_from(stream)?, u64_from(stream)?);
    let flags = u16::from_be_bytes(array(stream)?);
    let wanted = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    if greeting != (NBDMAGIC, IHAVEOPT) || flags & wanted != wanted {
        return Err(nonsense("greeting"));
    }
    let mut bytes = u32::from(wanted).to_be_bytes().to_vec();
    bytes.extend_from_slice(&IHAVEOPT.to_be_bytes());
    bytes.extend_from_slice(&option::GO.to_be_bytes());
    bytes.extend_from_slice(&(export.len() as u32 + 8).to_be_bytes());
    bytes.extend_from_slice(&(export.len() as u32).to_be_bytes());
    bytes.extend_from_slice(export.as_bytes());
    bytes.extend_from_slice(&1u16.to_be_bytes());
    bytes.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
    stream.write_all(&bytes)?;
    let (mut known, mut block_bytes) = (None, *BLOCK_BYTES.start());
    for _ in 0..ANSWERS_MAX {
        let (magic, of, kind) = (u64_from(stream)?, u32_from(stream)?, u32_from(stream)?);
        let len = u32_from(stream)? as usize;
        if magic != OPTION_REPLY_MAGIC || of != option::GO || len > MAX_OPTION_DRAIN_BYTES {
            return Err(nonsense("answer"));
        }
        let mut data = vec![0; len];
        stream.read_exact(&mut data)?;
        let number = |at: usize, len: usize| {
            let bytes = data.get(at..at + len)?;
            Some(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
        };
        match kind {
            option_reply::INFO => match number(0, 2).ok_or_else(|| nonsense("answer"))? as u16 {
                info::EXPORT => known = number(2, 8).zip(number(10, 2)),
                info::BLOCK_SIZE => {
                    let preferred = number(6, 4).unwrap_or(0) as u32;
                    if preferred.is_power_of_two() && BLOCK_BYTES.contains(&preferred) {
                        block_bytes = preferred;
                    }
                }
                _ => {}
            },
            option_reply::ACK => {
                let (size_bytes, flags) = known.ok_or_else(|| nonsense("answer"))?;
                let (block_bytes, flags) = (block_bytes.into(), flags as u16);
                return Ok(Shown { size_bytes, block_bytes, flags });
            }
            _ => return Err(io::Error::other(String::from_utf8_lossy(&data).into_owned())),
        }
    }
    Err(nonsense("many answers"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_block::{BlockDevice as _, MemDevice};
    use onefold_nbd::{ExportTable, ListenAddr, Server, ServerConfig};

    use super::*;

    #[test]
    fn an_export_is_picked_and_the_connection_is_ready_for_requests() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("socket");
        let device = Arc::new(MemDevice::new(1 << 20));
        device.write_at(0, b"data", false).unwrap();
        let exports = ExportTable::new().with("a disk", "", device);
        let config = ServerConfig {
            listeners: vec![ListenAddr::Unix(at.clone())],
            ..ServerConfig::default()
        };
        let _server = Server::start(Arc::new(exports), &config).unwrap();
        let (mut stream, shown) = connect(&at, "a disk").unwrap();
        assert_eq!((shown.size_bytes, shown.flags & 1), (1 << 20, 1));
        assert!(shown.block_bytes.is_power_of_two());
        // As the kernel asks: a read with a simple reply.
        stream.write_all(b"\x25\x60\x95\x13\0\0\0\0\0\0\0\0\0\0\0\x01").unwrap();
        stream.write_all(b"\0\0\0\0\0\0\0\0\0\0\0\x04").unwrap();
        assert_eq!(array(&mut stream).unwrap(), *b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x01");
        assert_eq!(array(&mut stream).unwrap(), *b"data");
        let refused = connect(&at, "nosuch").unwrap_err().to_string();
        assert!(refused.contains("no export named 'nosuch'"), "{refused}");
        let elsewhere = folder.path().join("elsewhere");
        let refused = connect(&elsewhere, "a disk").unwrap_err().to_string();
        assert!(refused.contains(elsewhere.to_str().unwrap()), "{refused}");
    }
}
