//! Where an import reads from: a sparse file, a block device, a disk image, or a pipe.
//! Room: onefold.

use std::fs::File;
use std::io::{Cursor, IsTerminal as _, Read, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};

use onefold_block::ByteSize;
use onefold_image::{Choice, DETECT_BYTES, Extent, Format, ImageError, Qcow2, decoder};
use onefold_pool::stream;
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
    /// The disk in an image, and until where its data are.
    Image { image: Box<Qcow2>, at: u64, data_until: u64 },
    /// Bytes until they end.
    Stream(Box<dyn Read + Send>),
    /// The stream of a snapshot.
    Snapshot(Box<dyn Read + Send>),
}

impl Source {
    /// Open a file, a block device, a named pipe, or stdin for `-`; `choice` says how to read what
    /// may be an image.
    pub fn open(path: &Path, choice: Choice) -> Result<Self> {
        let unusable = |error| Failure::unusable("read", path, error);
        if path == Path::new("-") {
            if std::io::stdin().is_terminal() {
                return Err(Failure::nothing_done("stdin is a terminal, not data")
                    .hint("pipe the data in, or name a file"));
            }
            let stdin =
                rustix::io::dup(std::io::stdin()).map_err(|error| unusable(error.into()))?;
            return Self::pipe(PathBuf::from("stdin"), stdin.into(), choice);
        }
        let mut file = File::open(path).map_err(unusable)?;
        let kind = file.metadata().map_err(unusable)?.file_type();
        let path = path.to_owned();
        if kind.is_dir() {
            return Err(Failure::nothing_done(format!("'{}' is a folder", path.display()))
                .hint("volumes hold disk images: make one, or put a file system on the volume"));
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Self::pipe(path, file, choice);
        }
        let mut head = Vec::new();
        (&file).take(DETECT_BYTES as u64).read_to_end(&mut head).map_err(unusable)?;
        if is_snapshot(&head, choice) {
            file.rewind().map_err(unusable)?;
            return Ok(Self { path, kind: Kind::Snapshot(Box::new(file)) });
        }
        let refused = |error| image_refused(&path, &error);
        let kind = match choice.of(&head).map_err(refused)? {
            Format::Raw => {
                let len = file.seek(SeekFrom::End(0));
                let len = len.map_err(|e| Failure::unusable("find the length of", &path, e))?;
                Kind::File { file, len, at: 0, data_until: 0 }
            }
            Format::Qcow2 => {
                let image = Box::new(Qcow2::open(file).map_err(refused)?);
                Kind::Image { image, at: 0, data_until: 0 }
            }
            format => {
                file.rewind().map_err(unusable)?;
                Kind::Stream(inside(format, file).map_err(refused)?)
            }
        };
        Ok(Self { path, kind })
    }

    /// A pipe, or what else gives bytes when it has some.
    fn pipe(path: PathBuf, file: File, choice: Choice) -> Result<Self> {
        let mut pipe = Pipe { head: Cursor::default(), file };
        let mut head = Vec::new();
        let read = (&mut pipe).take(DETECT_BYTES as u64).read_to_end(&mut head);
        read.map_err(|error| Failure::unusable("read", &path, error))?;
        if is_snapshot(&head, choice) {
            pipe.head = Cursor::new(head);
            return Ok(Self { path, kind: Kind::Snapshot(Box::new(pipe)) });
        }
        let refused = |error| image_refused(&path, &error);
        let format = choice.of(&head).map_err(refused)?;
        pipe.head = Cursor::new(head);
        if format == Format::Qcow2 {
            let message = format!("'{}': a qcow2 image cannot be read from a pipe", path.display());
            return Err(Failure::nothing_done(message).hint("name the file of the image"));
        }
        let stream = inside(format, pipe).map_err(refused)?;
        Ok(Self { path, kind: Kind::Stream(stream) })
    }

    /// Bytes from any reader.
    #[cfg(test)]
    pub fn stream(reader: Box<dyn Read + Send>) -> Self {
        Self { path: PathBuf::from("stdin"), kind: Kind::Stream(reader) }
    }

    /// The stream of a snapshot, if that is what it is; else itself.
    pub fn snapshot(self) -> std::result::Result<Box<dyn Read + Send>, Self> {
        match self.kind {
            Kind::Snapshot(stream) => Ok(stream),
            kind => Err(Self { kind, ..self }),
        }
    }

    /// Its length in bytes, unless only the end will tell.
    pub fn len(&self) -> Option<u64> {
        match &self.kind {
            Kind::File { len, .. } => Some(*len),
            Kind::Image { image, .. } => Some(image.size_bytes()),
            Kind::Stream(_) | Kind::Snapshot(_) => None,
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
        // New memory comes as zeroes; to make it so takes longer than to read into it.
        if buf.len() < max {
            *buf = vec![0; max];
        }
        buf.truncate(max);
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
            Kind::Image { image, at, data_until } => {
                let broke = |error: ImageError| Failure::broke("read", &self.path, error);
                if at >= data_until {
                    match image.extent(*at, u64::MAX).map_err(broke)? {
                        Extent::Hole(0) => return Ok(None),
                        Extent::Hole(len) => {
                            *at += len;
                            *data_until = *at;
                            return Ok(Some(Content::Hole(len)));
                        }
                        Extent::Data(len) => *data_until = *at + len,
                    }
                }
                let n = (*data_until - *at).min(max as u64) as usize;
                image.read_at(*at, &mut buf[..n]).map_err(broke)?;
                *at += n as u64;
                Ok(Some(Content::Data(n)))
            }
            Kind::Stream(reader) | Kind::Snapshot(reader) => {
                let mut n = 0;
                while n < max {
                    match reader.read(&mut buf[n..]) {
                        Ok(0) => break,
                        Ok(more) => n += more,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        // The pipe was given up, and what decodes it missed its end.
                        Err(_) if interrupt::asked() => break,
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

/// Whether these are the first bytes of the stream of a snapshot, and to be taken as that.
fn is_snapshot(head: &[u8], choice: Choice) -> bool {
    choice == Choice::Auto && head.starts_with(stream::MAGIC)
}

/// A pipe whose first bytes were looked at. It ends when the command is interrupted.
struct Pipe {
    head: Cursor<Vec<u8>>,
    file: File,
}

impl Read for Pipe {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let looked_at = self.head.read(buf)?;
        if looked_at > 0 || !readable(&self.file)? {
            return Ok(looked_at);
        }
        self.file.read(buf)
    }
}

/// Wait until there is something to read, or the end; `false` if the command is interrupted.
fn readable(file: &File) -> std::io::Result<bool> {
    let look_again = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !interrupt::asked() {
        match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&look_again)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// The bytes inside a stream, which must be those of a disk.
fn inside(
    format: Format,
    input: impl Read + Send + 'static,
) -> std::result::Result<Box<dyn Read + Send>, ImageError> {
    let mut stream = decoder(format, input)?;
    if format == Format::Raw {
        return Ok(stream);
    }
    let mut head = Vec::new();
    stream.by_ref().take(DETECT_BYTES as u64).read_to_end(&mut head)?;
    match Format::detect(&head) {
        Format::Raw => Ok(Box::new(Cursor::new(head).chain(stream))),
        inner => Err(ImageError::Nested { outer: format, inner }),
    }
}

/// That what is in a file cannot be read, and what would help.
pub fn image_refused(path: &Path, error: &ImageError) -> Failure {
    let at = path.display();
    let failure = Failure::nothing_done(format!("'{at}': {error}"));
    let as_it_is = "--format raw takes the bytes of the file as they are";
    match error {
        ImageError::Io(error) => return Failure::unusable("read", path, error),
        ImageError::NotRead(format) if format.is_compressed_stream() => {
            failure.hint(format!("decompress it first, with: {format} -d"))
        }
        ImageError::Nested { outer, .. } => {
            failure.hint(format!("decompress it first, with: {outer} -d"))
        }
        error if error.converting_helps() => {
            failure.hint(format!("convert it with: qemu-img convert -O raw {at} disk.raw"))
        }
        _ => failure,
    }
    .hint(as_it_is)
}

/// The run at `at`: bytes of hole, then bytes of data. A file that cannot tell is all data.
fn next_run(file: &File, at: u64, len: u64) -> (u64, u64) {
    let data = match rustix::fs::seek(file, Sparse::Data(at)) {
        Ok(data) => data.clamp(at, len),
        Err(Errno::NXIO) => len,
        Err(_) => return (0, len - at),
    };
    let end = match rustix::fs::seek(file, Sparse::Hole(data)) {
        Ok(end) => end.clamp(data, len),
        _ => len,
    };
    (data - at, end - data)
}
