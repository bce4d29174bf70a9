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
        if is_snapshot(&head, choice, &path)? {
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
        if is_snapshot(&head, choice, &path)? {
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

/// What helps where a file is taken for something that it is not.
const AS_IT_IS: &str = "--format raw takes the bytes of the file as they are";

/// Whether these are the first bytes of the stream of a snapshot, and to be taken as that. Refused
/// where they are all there is, and less than what such a stream begins with: who sent it did not
/// come far, and it would make a volume of a few bytes.
fn is_snapshot(head: &[u8], choice: Choice, path: &Path) -> Result<bool> {
    if choice != Choice::Auto {
        return Ok(false);
    }
    if !head.is_empty() && head.len() < stream::MAGIC.len() && stream::MAGIC.starts_with(head) {
        let at = path.display();
        let message = format!("'{at}' ends where the stream of a snapshot has hardly begun");
        return Err(Failure::nothing_done(message).hint(AS_IT_IS));
    }
    Ok(head.starts_with(stream::MAGIC))
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
        let n = self.file.read(buf)?;
        if n == 0 {
            // What ends the writer may be meant for both: what came is not all then.
            interrupt::asked_by_now();
        }
        Ok(n)
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
    .hint(AS_IT_IS)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All of a source in pieces of at most so many bytes: holes by their lengths, data by theirs.
    fn pieces(source: &mut Source, max: usize) -> (Vec<Content>, Vec<u8>) {
        let (mut pieces, mut bytes, mut buf) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(content) = source.next_piece(max, &mut buf).unwrap() {
            match content {
                Content::Data(len) => bytes.extend_from_slice(&buf[..len]),
                Content::Hole(len) => bytes.resize(bytes.len() + len as usize, 0),
            }
            pieces.push(content);
        }
        (pieces, bytes)
    }

    #[test]
    fn a_sparse_file_comes_in_runs_of_holes_and_pieces_of_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let file = File::create(&path).unwrap();
        file.set_len(256 << 10).unwrap();
        file.write_all_at(&vec![7; 100_000], 64 << 10).unwrap();
        let runs = || {
            let (hole, data) = next_run(&file, 0, 256 << 10);
            (hole, data, next_run(&file, hole + data, 256 << 10))
        };
        let (hole, data, (rest, none)) = runs();
        assert_eq!((hole + data + rest, none), (256 << 10, 0));
        let mut source = Source::open(&path, Choice::Auto).unwrap();
        assert_eq!((source.len(), source.data_bytes()), (Some(256 << 10), Some(data)));
        let (found, bytes) = pieces(&mut source, 40_000);
        let mut expected = vec![0; 256 << 10];
        expected[64 << 10..][..100_000].fill(7);
        assert!(bytes == expected);
        // What a file system tells of holes is its own affair; here it tells of both.
        assert_eq!((hole, found[0]), (64 << 10, Content::Hole(64 << 10)));
        let data: Vec<usize> = found
            .iter()
            .filter_map(|piece| match piece {
                Content::Data(len) => Some(*len),
                Content::Hole(_) => None,
            })
            .collect();
        assert_eq!(data.iter().sum::<usize>() as u64, source.data_bytes().unwrap());
        assert!(data[..data.len() - 1].iter().all(|&len| len == 40_000), "{data:?}");
        assert!(found.last().unwrap().len() > 80_000, "{found:?}");
    }

    #[test]
    fn a_stream_comes_in_full_pieces_and_one_that_breaks_is_named() {
        /// Three bytes at a time, and between them a signal that nobody heeds.
        struct Trickle(usize, bool);
        impl Read for Trickle {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.1 = !self.1;
                if self.1 {
                    return Err(std::io::ErrorKind::Interrupted.into());
                }
                let len = buf.len().min(3).min(self.0);
                self.0 -= len;
                buf[..len].fill(7);
                Ok(len)
            }
        }
        let mut source = Source::stream(Box::new(Trickle(10, false)));
        let (found, bytes) = pieces(&mut source, 4);
        assert_eq!(found, [4, 4, 2].map(Content::Data));
        assert_eq!(bytes, [7; 10]);
        assert_eq!((source.len(), source.data_bytes()), (None, None));
        let broken = File::open("/proc/self/mem").unwrap();
        let mut source = Source::stream(Box::new(broken));
        let failure = source.next_piece(4096, &mut Vec::new()).unwrap_err();
        assert!(failure.message.starts_with("cannot read 'stdin': "), "{}", failure.message);
    }

    #[test]
    fn a_buffer_serves_pieces_of_any_size() {
        let mut buf = vec![1; 10];
        let mut source = Source::stream(Box::new(&[7_u8; 9][..]));
        assert_eq!(source.next_piece(4, &mut buf).unwrap(), Some(Content::Data(4)));
        assert_eq!((buf.len(), buf[3]), (4, 7));
        assert_eq!(source.next_piece(20, &mut buf).unwrap(), Some(Content::Data(5)));
        assert_eq!(buf.len(), 20);
        assert_eq!(source.next_piece(20, &mut buf).unwrap(), None);
    }

    #[test]
    fn what_is_a_stream_of_a_snapshot_is_told_by_its_first_bytes_unless_all_is_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stream");
        let bytes = [&stream::MAGIC[..], &[5; 3000]].concat();
        std::fs::write(&path, &bytes).unwrap();
        let is = |head: &[u8], choice| is_snapshot(head, choice, &path).ok();
        assert_eq!(
            [Choice::Auto, Choice::Raw].map(|as_what| is(&bytes, as_what)),
            [Some(true), Some(false)]
        );
        for (head, told) in [
            (&bytes[1..], Some(false)),
            (&bytes[..0], Some(false)),
            (&bytes[..1], None),
            (&bytes[..7], None),
            (&bytes[..8], Some(true)),
            (&bytes[1..7], Some(false)),
        ] {
            assert_eq!(is(head, Choice::Auto), told, "{head:?}");
            assert_eq!(is(head, Choice::Raw), Some(false));
        }
        let source = Source::open(&path, Choice::Auto).unwrap();
        assert_eq!(source.len(), None);
        let mut whole = Vec::new();
        source.snapshot().ok().unwrap().read_to_end(&mut whole).unwrap();
        assert!(whole == bytes, "from its first byte on");
        let source = Source::open(&path, Choice::Raw).unwrap();
        let Err(mut source) = source.snapshot() else { panic!("it was to be data") };
        assert_eq!(source.len(), Some(bytes.len() as u64));
        assert!(pieces(&mut source, 1 << 20).1 == bytes);
    }

    #[test]
    fn a_pipe_is_what_its_first_bytes_say() {
        let folder = tempfile::tempdir().unwrap();
        let open = |bytes: &[u8]| {
            let path = folder.path().join("fifo");
            std::fs::write(&path, bytes).unwrap();
            Source::pipe(path.clone(), File::open(path).unwrap(), Choice::Auto)
        };
        let data = [7; 5000];
        let mut source = open(&data).unwrap();
        assert!(pieces(&mut source, 4096).1 == data, "what was looked at comes, too");
        let snapshot = [&stream::MAGIC[..], &data].concat();
        let mut whole = Vec::new();
        open(&snapshot).unwrap().snapshot().ok().unwrap().read_to_end(&mut whole).unwrap();
        assert!(whole == snapshot);
        let image = [&b"QFI\xfb\0\0\0\x03"[..], &data].concat();
        let refused = open(&image).err().unwrap();
        assert!(refused.message.contains("a qcow2 image cannot be read from a pipe"));
        assert!(readable(&File::open("/dev/null").unwrap()).unwrap());
    }
}
