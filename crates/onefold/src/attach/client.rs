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
                    let preferred = number(6, 4).unwrap_or_default() as u32;
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

    /// What a server says, and what it was told.
    struct Script(io::Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Script {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }
    }

    impl Write for Script {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.1.write(buf)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn greeting(flags: u16) -> Vec<u8> {
        [b"NBDMAGICIHAVEOPT", &flags.to_be_bytes()[..]].concat()
    }

    fn answer_to(of: u32, kind: u32, data: &[u8]) -> Vec<u8> {
        let words = [of, kind, data.len() as u32].map(u32::to_be_bytes).concat();
        [&OPTION_REPLY_MAGIC.to_be_bytes()[..], &words, data].concat()
    }

    fn answer(kind: u32, data: &[u8]) -> Vec<u8> {
        answer_to(option::GO, kind, data)
    }

    /// An export of 1 MiB with this transmission flag.
    fn export(flags: u16) -> Vec<u8> {
        let data = [&info::EXPORT.to_be_bytes()[..], &(1_u64 << 20).to_be_bytes()].concat();
        answer(option_reply::INFO, &[&data[..], &flags.to_be_bytes()].concat())
    }

    fn shaken(pieces: &[Vec<u8>]) -> io::Result<Shown> {
        handshake(&mut Script(io::Cursor::new(pieces.concat()), Vec::new()), "disk")
    }

    #[test]
    fn what_a_server_says_of_an_export_is_understood_or_refused() {
        let done = || answer(option_reply::ACK, &[]);
        let preferred = |bytes: u32| {
            let data = [&info::BLOCK_SIZE.to_be_bytes()[..], &1_u32.to_be_bytes()].concat();
            let data = [data, bytes.to_be_bytes().to_vec(), vec![0; 4]].concat();
            let said = [greeting(3), answer(option_reply::INFO, &data), export(0x16d), done()];
            let shown = shaken(&said).unwrap();
            assert_eq!((shown.size_bytes, shown.flags), (1 << 20, 0x16d));
            shown.block_bytes
        };
        let sizes = [256, 512, 513, 3072, 4096, 8192].map(preferred);
        assert_eq!(sizes, [512, 512, 512, 512, 4096, 512], "only what the kernel takes");
        let unknown = answer(option_reply::INFO, &99_u16.to_be_bytes());
        assert!(shaken(&[greeting(3), unknown.clone(), export(1), done()]).is_ok());
        let long = answer(option_reply::INFO, &vec![9; MAX_OPTION_DRAIN_BYTES]);
        assert!(shaken(&[greeting(3), long, export(1), done()]).is_ok());
        // The last answer that is listened to is the 64th.
        let chatty = |count| [greeting(3), export(1), unknown.repeat(count), done()];
        assert!(shaken(&chatty(ANSWERS_MAX - 2)).is_ok());
        assert!(shaken(&chatty(ANSWERS_MAX - 1)).unwrap_err().to_string().contains("many"));
        let mut other_magic = done();
        other_magic[0] ^= 1;
        let mut other_greeting = greeting(3);
        other_greeting[0] ^= 1;
        for (what, said) in [
            ("greeting", vec![other_greeting, export(1), done()]),
            ("greeting", vec![greeting(1), export(1), done()]),
            ("greeting", vec![greeting(2), export(1), done()]),
            ("answer", vec![greeting(3), export(1), other_magic]),
            ("answer", vec![greeting(3), export(1), answer_to(1, option_reply::ACK, &[])]),
            ("answer", vec![greeting(3), answer(option_reply::INFO, &[0]), export(1), done()]),
            ("answer", vec![greeting(3), done()]),
            (
                "answer",
                vec![greeting(3), answer(option_reply::INFO, &vec![9; MAX_OPTION_DRAIN_BYTES + 1])],
            ),
        ] {
            let error = shaken(&said).unwrap_err().to_string();
            assert_eq!(error, format!("the server's {what} makes no sense"));
        }
        let mut server = Script(io::Cursor::new(greeting(3)), Vec::new());
        handshake(&mut server, "disk").unwrap_err();
        let told = b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x0c\0\0\0\x04disk\0\x01\0\x03";
        assert_eq!(server.1, told, "GO, and a request for the size of blocks");
    }

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
        // Whoever carries requests waits as long as it takes.
        let limits = (stream.read_timeout().unwrap(), stream.write_timeout().unwrap());
        assert_eq!(limits, (None, None));
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
