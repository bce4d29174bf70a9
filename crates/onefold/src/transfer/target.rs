//! Where an export writes to: a sparse file, a block device, or a pipe.
//! Room: onefold.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use onefold_block::ByteSize;
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::failure::{Failure, Result};
use crate::out_file::{Listed, OutFile};

/// Zeroes written at once where they cannot be left out.
static ZEROES: [u8; 1 << 16] = [0; 1 << 16];

/// An open target.
pub struct Target {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// A file of this export's own: what is not written reads as zeroes.
    Fresh(OutFile),
    /// A block device, with old data everywhere.
    Device { file: File, _listed: Listed },
    /// In order only.
    Stream { file: File, _listed: Listed },
}

impl Target {
    /// Open a file of `size_bytes`, a block device that is at least as large, a named pipe, or
    /// stdout for `-`. What exists and holds data is refused unless `force`.
    pub fn open(path: &Path, size_bytes: u64, force: bool) -> Result<Self> {
        if path == Path::new("-") {
            return Self::stdout();
        }
        let unusable = |error| Failure::unusable("write", path, error);
        let kind = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata.file_type()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(unusable(error)),
        };
        let kind = match kind {
            Some(kind) if kind.is_block_device() => Kind::Device {
                file: Self::device(path, size_bytes, force)?,
                _listed: Listed::in_place(path),
            },
            Some(kind) if !kind.is_file() && !kind.is_dir() => {
                let file = OpenOptions::new().write(true).open(path).map_err(unusable)?;
                Kind::Stream { file, _listed: Listed::in_place(path) }
            }
            _ => {
                // A disk's contents are its owner's affair; one that is replaced says whose it is.
                let create = if kind.is_none() { OutFile::create_private } else { OutFile::create };
                let file = create(path, force)?;
                file.file().set_len(size_bytes).map_err(unusable)?;
                Kind::Fresh(file)
            }
        };
        Ok(Self { path: path.to_owned(), kind })
    }

    fn device(path: &Path, size_bytes: u64, force: bool) -> Result<File> {
        let (at, unusable) = (path.display(), |error| Failure::unusable("write", path, error));
        if !force {
            return Err(Failure::nothing_done(format!("'{at}' exists already"))
                .hint("--force overwrites it"));
        }
        let mut options = OpenOptions::new();
        // The system refuses a device that is mounted.
        options.write(true).custom_flags(OFlags::EXCL.bits().cast_signed());
        let mut file = options.open(path).map_err(unusable)?;
        let room = file.seek(SeekFrom::End(0)).map_err(unusable)?;
        if room < size_bytes {
            // Both sizes may look the same when they are rounded.
            let (size, lacking) = (ByteSize(size_bytes), ByteSize(size_bytes - room));
            let message = format!("'{at}' is {lacking} smaller than the volume, which has {size}");
            return Err(Failure::nothing_done(message));
        }
        Ok(file)
    }

    fn stdout() -> Result<Self> {
        let out = std::io::stdout();
        if out.is_terminal() {
            return Err(Failure::nothing_done("stdout is a terminal, not a place for disk data")
                .hint("pipe it to a program, or name a file"));
        }
        let path = PathBuf::from("stdout");
        let fd = rustix::io::dup(&out).map_err(|e| Failure::unusable("write", &path, e))?;
        let kind = Kind::Stream { file: fd.into(), _listed: Listed::in_place(&path) };
        Ok(Self { path, kind })
    }

    /// Whether pieces must come in order.
    pub fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream { .. })
    }

    fn broke(&self, error: std::io::Error) -> Failure {
        Failure::broke("write", &self.path, error)
    }

    /// Store a piece.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let written = match &self.kind {
            Kind::Stream { file, .. } => {
                let mut file = file;
                file.write_all(data)
            }
            Kind::Fresh(file) => file.file().write_all_at(data, offset),
            Kind::Device { file, .. } => file.write_all_at(data, offset),
        };
        written.map_err(|e| self.broke(e))
    }

    /// Make a piece read as zeroes.
    pub fn zero(&self, offset: u64, len: u64) -> Result<()> {
        match &self.kind {
            Kind::Fresh(_) => return Ok(()),
            Kind::Device { file, .. } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                if fallocate(file, flags, offset, len).is_ok() {
                    return Ok(());
                }
            }
            Kind::Stream { .. } => {}
        }
        let mut at = offset;
        while at < offset + len {
            let n = (offset + len - at).min(ZEROES.len() as u64);
            self.write(at, &ZEROES[..n as usize])?;
            at += n;
        }
        Ok(())
    }

    /// Make it durable, and give a file its name. A file that is dropped without this is gone.
    pub fn finish(self) -> Result<()> {
        match self.kind {
            Kind::Fresh(file) => file.finish(),
            Kind::Device { file, .. } => {
                file.sync_all().map_err(|e| Failure::broke("write", &self.path, e))
            }
            Kind::Stream { .. } => Ok(()),
        }
    }

    /// What a failure leaves behind; nothing if it was a file.
    pub fn left_over(&self) -> Option<String> {
        let at = self.path.display();
        match self.kind {
            Kind::Fresh(_) => None,
            Kind::Device { .. } => Some(format!("'{at}' holds only a part of it now")),
            Kind::Stream { .. } => Some(format!("{at} got only a part of it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_device_is_overwritten_by_force_alone_and_where_all_of_it_fits() {
        // A file stands for the device.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        std::fs::write(&path, [7; 12_288]).unwrap();
        let refused = |size, force| Target::device(&path, size, force).unwrap_err().message;
        assert!(refused(4096, false).contains("exists already"));
        assert!(refused(12_289, true).contains("1 B smaller than the volume, which has 12.0 KiB"));
        let file = Target::device(&path, 12_288, true).unwrap();
        let kind = Kind::Device { file, _listed: Listed::in_place(&path) };
        let target = Target { path: path.clone(), kind };
        target.zero(4096, 4096).unwrap();
        target.write(512, &[1; 512]).unwrap();
        assert!(!target.is_stream() && target.left_over().unwrap().contains("only a part"));
        target.finish().unwrap();
        let expected = [&[7; 512][..], &[1; 512], &[7; 3072], &[0; 4096], &[7; 4096]].concat();
        assert!(std::fs::read(&path).unwrap() == expected);
    }

    #[test]
    fn holes_are_written_to_a_stream_and_left_out_of_a_file_which_is_its_owner_s() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stream");
        let kind =
            Kind::Stream { file: File::create(&path).unwrap(), _listed: Listed::in_place(&path) };
        let target = Target { path: path.clone(), kind };
        assert!(target.is_stream());
        for (offset, len) in [(0, 1), (1, 1 << 16), (65_537, (2 << 16) + 5)] {
            target.zero(offset, len).unwrap();
        }
        target.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == vec![0; 1 + (3 << 16) + 5]);

        let path = folder.path().join("file");
        let target = Target::open(&path, 8192, false).unwrap();
        assert!(!target.is_stream() && target.left_over().is_none());
        target.zero(0, 4096).unwrap();
        target.write(4096, &[1; 4096]).unwrap();
        target.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == [[0; 4096], [1; 4096]].concat());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
