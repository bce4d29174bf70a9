//! Where an import reads from: a sparse file, a block device, or a pipe.
//! Room: onefold.

use std::fs::File;
use std::io::{IsTerminal as _, Read, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};

use onefold_block::ByteSize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::SeekFrom as Sparse;
use rustix::io::Errno;

use crate::failure::{Failure, Result};
use crate::interrupt;

/// What comes next in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// This many bytes are in the buffer.
    Data(usize),
    /// This many zeroes that were never written.
    Hole(u64),
}

impl Content {
    /// Length in bytes.
    pub const fn len(self) -> u64 {
        match self {
            Self::Data(len) => len as u64,
            Self::Hole(len) => len,
        }
    }
}

/// A source of bytes, read from its start to its end.
pub struct Source {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// Length known, holes perhaps told.
    File { file: File, len: u64, at: u64, data_until: u64 },
    /// Bytes until they end; where to wait for more, if a system call would wait.
    Stream(Box<dyn Read + Send>, Option<OwnedFd>),
}

impl Source {
    /// Open a file, a block device, a named pipe, or stdin for `-`.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            if std::io::stdin().is_terminal() {
                return Err(Failure::nothing_done("stdin is a terminal, not data")
                    .hint("pipe the data in, or name a file"));
            }
            let path = PathBuf::from("stdin");
            let fd = rustix::io::dup(std::io::stdin());
            let fd = fd.map_err(|error| Failure::unusable("read", &path, error))?;
            return Self::pipe(path, fd.into());
        }
        let unusable = |error| Failure::unusable("read", path, error);
        let mut file = File::open(path).map_err(unusable)?;
        let kind = file.metadata().map_err(unusable)?.file_type();
        let path = path.to_owned();
        if kind.is_dir() {
            return Err(Failure::nothing_done(format!("'{}' is a folder", path.display()))
                .hint("volumes hold disk images: make one, or put a file system on the volume"));
        }
        if kind.is_file() || kind.is_block_device() {
            let len = file.seek(SeekFrom::End(0));
            let len = len.map_err(|e| Failure::unusable("find the length of", &path, e))?;
            return Ok(Self { path, kind: Kind::File { file, len, at: 0, data_until: 0 } });
        }
        Self::pipe(path, file)
    }

    /// A pipe, or what else gives bytes when it has some.
    fn pipe(path: PathBuf, file: File) -> Result<Self> {
        let wait = rustix::io::dup(&file).map_err(|e| Failure::unusable("read", &path, e))?;
        Ok(Self { path, kind: Kind::Stream(Box::new(file), Some(wait)) })
    }

    /// Bytes from any reader.
    #[cfg(test)]
    pub fn stream(reader: Box<dyn Read + Send>) -> Self {
        Self { path: PathBuf::from("stdin"), kind: Kind::Stream(reader, None) }
    }

    /// Its length in bytes, unless only the end will tell.
    pub const fn len(&self) -> Option<u64> {
        match self.kind {
            Kind::File { len, .. } => Some(len),
            Kind::Stream(..) => None,
        }
    }

    /// Bytes of data that are still to come, if known.
    pub fn data_bytes(&self) -> Option<u64> {
        let Kind::File { file, len, .. } = &self.kind else { return None };
        let (mut at, mut total) = (0, 0);
        while at < *len {
            let (hole, data) = next_run(file, at, *len);
            total += data;
            at += hole + data;
        }
        Some(total)
    }

    /// What comes next, at most `max` bytes of it if it is data; `None` at the end.
    pub fn next_piece(&mut self, max: usize, buf: &mut Vec<u8>) -> Result<Option<Content>> {
        let broke = |error| Failure::broke("read", &self.path, error);
        buf.resize(max, 0);
        match &mut self.kind {
            Kind::File { file, len, at, data_until } => {
                if at >= len {
                    return Ok(None);
                }
                if at >= data_until {
                    let (hole, data) = next_run(file, *at, *len);
                    *data_until = *at + hole + data;
                    if hole > 0 {
                        *at += hole;
                        return Ok(Some(Content::Hole(hole)));
                    }
                }
                let n = (*data_until - *at).min(max as u64) as usize;
                file.read_exact_at(&mut buf[..n], *at).map_err(broke)?;
                *at += n as u64;
                Ok(Some(Content::Data(n)))
            }
            Kind::Stream(reader, wait) => {
                let mut n = 0;
                while n < max {
                    if let Some(fd) = wait
                        && !readable(fd).map_err(broke)?
                    {
                        return Ok(None);
                    }
                    match reader.read(&mut buf[n..]) {
                        Ok(0) => break,
                        Ok(more) => n += more,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(broke(error)),
                    }
                }
                Ok((n > 0).then_some(Content::Data(n)))
            }
        }
    }

    /// That the source holds more than the volume can.
    pub fn too_large(&self, volume: &str, size_bytes: u64) -> Failure {
        let message = format!(
            "'{}' holds more than the {} of volume '{volume}'",
            self.path.display(),
            ByteSize(size_bytes)
        );
        Failure::bad(message).hint("the volume holds its beginning now; make it larger, and retry")
    }
}

/// Wait until there is something to read, or the end; `false` if the command is interrupted.
fn readable(fd: &OwnedFd) -> std::io::Result<bool> {
    let look_again = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !interrupt::asked() {
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&look_again)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// The run at `at`: bytes of hole, then bytes of data. A file that cannot tell is all data.
fn next_run(file: &File, at: u64, len: u64) -> (u64, u64) {
    let data = match rustix::fs::seek(file, Sparse::Data(at)) {
        Ok(data) => data.clamp(at, len),
        Err(Errno::NXIO) => len,
        Err(_) => return (0, len - at),
    };
    let end = match rustix::fs::seek(file, Sparse::Hole(data)) {
        Ok(end) if data < len => end.clamp(data, len),
        _ => len,
    };
    (data - at, end - data)
}
