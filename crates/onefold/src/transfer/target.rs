//! Where an export writes to: a sparse file, a block device, or a pipe.
//! Room: onefold.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use onefold_block::ByteSize;
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::failure::{Failure, Result};

/// Zeroes written at once where they cannot be left out.
static ZEROES: [u8; 1 << 16] = [0; 1 << 16];

/// An open target.
pub struct Target {
    path: PathBuf,
    file: File,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A file of this export's own: what is not written reads as zeroes.
    Fresh,
    /// A block device, with old data everywhere.
    Device,
    /// In order only.
    Stream,
}

impl Target {
    /// Open a file of `size_bytes`, a block device that is at least as large, a named pipe, or
    /// stdout for `-`. What exists and holds data is refused unless `force`.
    pub fn open(path: &Path, size_bytes: u64, force: bool) -> Result<Self> {
        if path == Path::new("-") {
            return Self::stdout();
        }
        let unusable = |error| Failure::unusable("write", path, error);
        let existing = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata.file_type()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(unusable(error)),
        };
        let at = path.display();
        let kind = match existing {
            None => Kind::Fresh,
            Some(kind) if kind.is_dir() => {
                return Err(
                    Failure::nothing_done(format!("'{at}' is a folder")).hint("name a file in it")
                );
            }
            Some(kind) if !kind.is_file() && !kind.is_block_device() => Kind::Stream,
            Some(_) if !force => {
                return Err(Failure::nothing_done(format!("'{at}' exists already"))
                    .hint("--force overwrites it"));
            }
            Some(kind) if kind.is_file() => Kind::Fresh,
            Some(_) => Kind::Device,
        };
        let mut options = OpenOptions::new();
        options.write(true).create_new(existing.is_none());
        if kind == Kind::Device {
            // The system refuses a device that is mounted.
            options.custom_flags(OFlags::EXCL.bits().cast_signed());
        }
        let mut file = options.open(path).map_err(unusable)?;
        match kind {
            Kind::Fresh => {
                // Emptied first: what is not written must read as zeroes.
                file.set_len(0).and_then(|()| file.set_len(size_bytes)).map_err(unusable)?;
            }
            Kind::Device => {
                let room = file.seek(SeekFrom::End(0)).map_err(unusable)?;
                if room < size_bytes {
                    let (room, size) = (ByteSize(room), ByteSize(size_bytes));
                    let message = format!("'{at}' has {room}, but the volume has {size}");
                    return Err(Failure::nothing_done(message));
                }
            }
            Kind::Stream => {}
        }
        Ok(Self { path: path.to_owned(), file, kind })
    }

    fn stdout() -> Result<Self> {
        let out = std::io::stdout();
        if out.is_terminal() {
            return Err(Failure::nothing_done("stdout is a terminal, not a place for disk data")
                .hint("pipe it to a program, or name a file"));
        }
        let path = PathBuf::from("stdout");
        let fd = rustix::io::dup(&out).map_err(|e| Failure::unusable("write", &path, e))?;
        Ok(Self { path, file: fd.into(), kind: Kind::Stream })
    }

    /// Whether pieces must come in order.
    pub fn is_stream(&self) -> bool {
        self.kind == Kind::Stream
    }

    fn broke(&self, error: std::io::Error) -> Failure {
        Failure::broke("write", &self.path, error)
    }

    /// Store a piece.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let written = match self.kind {
            Kind::Stream => (&self.file).write_all(data),
            Kind::Fresh | Kind::Device => self.file.write_all_at(data, offset),
        };
        written.map_err(|e| self.broke(e))
    }

    /// Make a piece read as zeroes.
    pub fn zero(&self, offset: u64, len: u64) -> Result<()> {
        match self.kind {
            Kind::Fresh => return Ok(()),
            Kind::Device => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                if fallocate(&self.file, flags, offset, len).is_ok() {
                    return Ok(());
                }
            }
            Kind::Stream => {}
        }
        let mut at = offset;
        while at < offset + len {
            let n = (offset + len - at).min(ZEROES.len() as u64);
            self.write(at, &ZEROES[..n as usize])?;
            at += n;
        }
        Ok(())
    }

    /// Make it durable, and its name.
    pub fn finish(&self) -> Result<()> {
        if self.kind == Kind::Stream {
            return Ok(());
        }
        self.file.sync_all().map_err(|e| self.broke(e))?;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| Failure::broke("sync names in", folder, e))
    }

    /// Take a file away that could not be finished.
    pub fn give_up(self) {
        if self.kind == Kind::Fresh {
            // The failure that led here is the one to tell.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
