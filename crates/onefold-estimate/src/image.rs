//! Files that hold a disk or a stream inside: which, how long, and their bytes.
//! Room: onefold-estimate.
//! In a tree only qcow2 is looked into; what is compressed there may be anything. Inputs that a
//! person names are looked into, or refused.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use onefold_image::{Choice, DETECT_BYTES, Extent, Format, ImageError, Qcow2, decoder};

use crate::options::CHUNK_MAX_BYTES;
use crate::progress::Progress;
use crate::read::{self, Run};

/// Smaller files in a tree are not looked into.
pub(crate) const IMAGE_BYTES_MIN: u64 = 64 << 10;
/// Bytes read at once where only their number counts.
const COUNT_BYTES: usize = 1 << 18;

/// What of a file is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Inside {
    /// Its bytes.
    #[default]
    Bytes,
    /// The disk in it.
    Qcow2,
    /// What it decompresses to.
    Stream(Format),
}

/// Images that the walk met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Images {
    /// Counted by the disk inside.
    pub inside: u64,
    /// Counted as the bytes they are, since the disk inside cannot be read.
    pub as_bytes: u64,
}

impl Images {
    /// What a person should know of them.
    pub(crate) fn notes(self) -> Vec<String> {
        let plural = |count: u64| if count == 1 { "image" } else { "images" };
        let mut notes = Vec::new();
        if self.inside > 0 {
            let (count, images) = (self.inside, plural(self.inside));
            notes.push(format!(
                "{count} qcow2 or compressed {images} counted by what is inside (--format raw \
                 counts the bytes of the file)"
            ));
        }
        if self.as_bytes > 0 {
            let (count, images) = (self.as_bytes, plural(self.as_bytes));
            notes.push(format!(
                "{count} disk {images} of other formats counted as the bytes of the file: what is \
                 inside may reduce better"
            ));
        }
        notes
    }
}

fn head(file: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; DETECT_BYTES];
    let (len, read) = read::fill(file, &mut head, 0);
    read?;
    head.truncate(len);
    Ok(head)
}

/// What an input that a person named is to be read as, and whether it can be.
pub(crate) fn input(file: &File, choice: Choice) -> Result<Inside, ImageError> {
    match choice.of(&head(file)?)? {
        Format::Qcow2 => Qcow2::open(file.try_clone()?).map(|_| Inside::Qcow2),
        Format::Raw => Ok(Inside::Bytes),
        stream => {
            let mut inner = Vec::new();
            let inside = decoder(stream, file.try_clone()?)?;
            inside.take(DETECT_BYTES as u64).read_to_end(&mut inner)?;
            match Format::detect(&inner) {
                Format::Raw => Ok(Inside::Stream(stream)),
                inner => Err(ImageError::Nested { outer: stream, inner }),
            }
        }
    }
}

/// What a file in a tree is counted as; `None` for an image that cannot be read.
pub(crate) fn in_tree(file: &File, choice: Choice) -> io::Result<Option<Inside>> {
    let found = Format::detect(&head(file)?);
    if choice == Choice::Raw || found == Format::Raw || found.is_compressed_stream() {
        return Ok(Some(Inside::Bytes));
    }
    let readable = found == Format::Qcow2 && Qcow2::open(file.try_clone()?).is_ok();
    Ok(readable.then_some(Inside::Qcow2))
}

/// Length of what is counted, in bytes. A stream is read to its end for that.
pub(crate) fn len(
    file: &File,
    inside: Inside,
    file_bytes: u64,
    progress: &Progress,
) -> io::Result<u64> {
    let format = match inside {
        Inside::Bytes => return Ok(file_bytes),
        Inside::Qcow2 => {
            let image = Qcow2::open(file.try_clone()?).map_err(io::Error::other)?;
            return Ok(image.size_bytes());
        }
        Inside::Stream(format) => format,
    };
    let mut stream = stream(file, format)?;
    let (mut buffer, mut len) = (vec![0; COUNT_BYTES], 0);
    while !progress.is_cancelled() {
        match stream.read(&mut buffer)? {
            0 => break,
            more => len += more as u64,
        }
    }
    Ok(len)
}

fn stream(file: &File, format: Format) -> io::Result<Box<dyn Read + Send>> {
    // By position: the file may have been read before through another handle of it.
    let from = FromStart { file: file.try_clone()?, at: 0 };
    decoder(format, from).map_err(io::Error::other)
}

struct FromStart {
    file: File,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(buf, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

/// A file that is read for what is inside.
pub(crate) enum Handle {
    /// Its bytes; with holes, if it is sparse.
    Bytes { file: File, is_sparse: bool },
    /// The disk in it.
    Image(Box<RefCell<Qcow2>>),
    /// What it decompresses to, from front to back.
    Stream(RefCell<Box<dyn Read + Send>>),
}

impl Handle {
    pub(crate) fn new(file: File, inside: Inside, is_sparse: bool) -> io::Result<Self> {
        Ok(match inside {
            Inside::Bytes => Self::Bytes { file, is_sparse },
            Inside::Qcow2 => {
                let image = Qcow2::open(file).map_err(io::Error::other)?;
                Self::Image(Box::new(RefCell::new(image)))
            }
            Inside::Stream(format) => Self::Stream(RefCell::new(stream(&file, format)?)),
        })
    }

    /// Tell the system that a range will be read from front to back.
    pub(crate) fn advise_sequential(&self, start: u64, end: u64) {
        if let Self::Bytes { file, .. } = self {
            read::advise_sequential(file, start, end);
        }
    }

    /// The run that starts at `start`, a multiple of 128 KiB, and ends at `end` at the latest.
    pub(crate) fn next_run(&self, start: u64, end: u64) -> Run {
        let block = u64::from(CHUNK_MAX_BYTES);
        match self {
            Self::Bytes { file, is_sparse: true } => read::next_run(file, start, end),
            Self::Bytes { .. } | Self::Stream(_) => Run::Data { start, end },
            Self::Image(image) => match image.borrow_mut().extent(start, end) {
                Ok(Extent::Hole(len)) => match start + len {
                    to if to >= end => Run::Hole { start, end },
                    to if to / block * block > start => {
                        Run::Hole { start, end: to / block * block }
                    }
                    _ => Run::Data { start, end: end.min(start + block) },
                },
                Ok(Extent::Data(len)) => {
                    Run::Data { start, end: end.min((start + len).next_multiple_of(block)) }
                }
                // Reading it says what is wrong.
                Err(_) => Run::Data { start, end: end.min(start + block) },
            },
        }
    }

    /// Fill as much of `buffer` as there is, from `offset` on; a stream goes on where it is. What
    /// was read before an error is not lost: the error comes with the number of good bytes.
    pub(crate) fn fill(&self, buffer: &mut [u8], offset: u64) -> (usize, io::Result<()>) {
        match self {
            Self::Bytes { file, .. } => read::fill(file, buffer, offset),
            Self::Image(image) => {
                let mut image = image.borrow_mut();
                let left = image.size_bytes().saturating_sub(offset);
                let len = left.min(buffer.len() as u64) as usize;
                for (number, piece) in
                    buffer[..len].chunks_mut(CHUNK_MAX_BYTES as usize).enumerate()
                {
                    let done = number * CHUNK_MAX_BYTES as usize;
                    if let Err(error) = image.read_at(offset + done as u64, piece) {
                        return (done, Err(io::Error::other(error)));
                    }
                }
                (len, Ok(()))
            }
            Self::Stream(stream) => {
                let (mut stream, mut done) = (stream.borrow_mut(), 0);
                while done < buffer.len() {
                    match stream.read(&mut buffer[done..]) {
                        Ok(0) => break,
                        Ok(more) => done += more,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return (done, Err(error)),
                    }
                }
                (done, Ok(()))
            }
        }
    }
}
