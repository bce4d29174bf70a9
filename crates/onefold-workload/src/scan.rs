//! Scanner: the content of a real tree or image, chunk by chunk.
//! Room: onefold-workload.   In: a file, device or folder and a chunker.   Out: [`ScannedChunk`]s.
//! Invariants: (1) files come in order of their names, so equal trees give equal scans  (2) links
//! are not followed, and what is skipped is counted.
//! Cost: memory for one chunk and one read buffer; one BLAKE3 per chunk.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use onefold_content::{Chunker, FingerprintKind, Fingerprinter};

use crate::request::Identity;

/// Bytes read at a time, 1 MiB.
const READ_BYTES: usize = 1 << 20;

/// One chunk of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedChunk {
    /// Number of the file, in the order of the scan.
    pub file: u64,
    /// First byte within the file.
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: usize,
    /// First half of the chunk's BLAKE3.
    pub identity: Identity,
}

/// What a scan saw.
#[derive(Debug, Default)]
pub struct ScanReport {
    /// Files read to their end.
    pub files: u64,
    /// Chunks found.
    pub chunks: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Symbolic links, which are not followed.
    pub links: u64,
    /// Sockets, pipes and devices inside a folder, which are not read.
    pub special: u64,
    /// Files and folders that could not be read; of a file, chunks before the error count.
    pub unreadable: u64,
    /// The first of them, up to 16.
    pub problems: Vec<ScanError>,
}

/// A file or folder that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("reading {}", path.display())]
pub struct ScanError {
    /// Which.
    pub path: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

/// Problems that a report keeps in full.
const PROBLEMS_MAX: usize = 16;

/// Scans a file, a block device or a folder with everything in it, and hands each chunk to
/// `found`. Only the path itself must be readable; what fails inside a folder is reported.
pub fn scan(
    path: &Path,
    chunker: &Chunker,
    found: impl FnMut(ScannedChunk),
) -> Result<ScanReport, ScanError> {
    let failed = |source| ScanError { path: path.to_owned(), source };
    let mut scanner = Scanner {
        chunker: chunker.clone(),
        fingerprinter: Fingerprinter::new(FingerprintKind::Blake3),
        buffer: vec![0; READ_BYTES],
        open: Vec::new(),
        opened: 0,
        report: ScanReport::default(),
        found,
    };
    if fs::metadata(path).map_err(failed)?.is_dir() {
        let entries = sorted(path).map_err(failed)?;
        scanner.folder(entries);
    } else {
        scanner.file(path).map_err(failed)?;
    }
    Ok(scanner.report)
}

struct Scanner<F> {
    chunker: Chunker,
    fingerprinter: Fingerprinter,
    buffer: Vec<u8>,
    /// Bytes of the chunk that is not yet cut.
    open: Vec<u8>,
    /// Files opened so far, whether or not they could be read to their end.
    opened: u64,
    report: ScanReport,
    found: F,
}

impl<F: FnMut(ScannedChunk)> Scanner<F> {
    /// Goes through entries and, depth first, through what is in them; no recursion, so that no
    /// tree is too deep.
    fn folder(&mut self, entries: Vec<PathBuf>) {
        let mut stack: Vec<PathBuf> = entries.into_iter().rev().collect();
        while let Some(path) = stack.pop() {
            match self.entry(&path) {
                Ok(children) => stack.extend(children.into_iter().rev()),
                Err(source) => {
                    self.report.unreadable += 1;
                    if self.report.problems.len() < PROBLEMS_MAX {
                        self.report.problems.push(ScanError { path, source });
                    }
                }
            }
        }
    }

    /// Reads a file; of a folder, gives what is in it.
    fn entry(&mut self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let kind = fs::symlink_metadata(path)?.file_type();
        if kind.is_dir() {
            return sorted(path);
        }
        if kind.is_symlink() {
            self.report.links += 1;
        } else if kind.is_file() {
            self.file(path)?;
        } else {
            self.report.special += 1;
        }
        Ok(Vec::new())
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        self.open.clear();
        let result = self.read(&mut file);
        // Ends the chunker's stream even after an error: the next file starts afresh.
        let last = self.chunker.finish();
        if let (Ok(()), Some(cut)) = (&result, last) {
            let open = std::mem::take(&mut self.open);
            self.chunk(cut.offset, &open);
            self.open = open;
        }
        self.opened += 1;
        self.report.files += u64::from(result.is_ok());
        result
    }

    fn read(&mut self, file: &mut File) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = loop {
            let len = match file.read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => break Err(error),
            };
            self.report.bytes += len as u64;
            self.piece(&buffer[..len]);
        };
        self.buffer = buffer;
        result
    }

    /// Cuts what a piece completes and keeps the rest.
    fn piece(&mut self, piece: &[u8]) {
        let mut cuts = Vec::new();
        self.chunker.push(piece, |cut| cuts.push(cut));
        let mut rest = piece;
        for cut in cuts {
            let (end, after) = rest.split_at(cut.len - self.open.len());
            rest = after;
            if self.open.is_empty() {
                self.chunk(cut.offset, end);
            } else {
                let mut open = std::mem::take(&mut self.open);
                open.extend_from_slice(end);
                self.chunk(cut.offset, &open);
                open.clear();
                self.open = open;
            }
        }
        self.open.extend_from_slice(rest);
    }

    fn chunk(&mut self, offset: u64, data: &[u8]) {
        let identity = Identity::of_fingerprint(&self.fingerprinter.hash(data));
        self.report.chunks += 1;
        (self.found)(ScannedChunk { file: self.opened, offset, len: data.len(), identity });
    }
}

fn sorted(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use onefold_content::FixedChunker;

    use super::*;

    fn scanner<F: FnMut(ScannedChunk)>(found: F) -> Scanner<F> {
        Scanner {
            chunker: Chunker::Fixed(FixedChunker::new(4096).unwrap()),
            fingerprinter: Fingerprinter::new(FingerprintKind::Blake3),
            buffer: vec![0; 10_000],
            open: Vec::new(),
            opened: 0,
            report: ScanReport::default(),
            found,
        }
    }

    #[test]
    fn what_cannot_be_read_is_counted_and_the_first_sixteen_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut scanner = scanner(|_| ());
        let gone: Vec<PathBuf> = (0..20).map(|n| folder.path().join(format!("gone-{n}"))).collect();
        scanner.folder(gone.clone());
        let report = &scanner.report;
        assert_eq!((report.unreadable, report.problems.len()), (20, 16));
        let named = report.problems.iter().map(|problem| problem.path.clone());
        assert_eq!(named.collect::<Vec<_>>(), gone[..16], "in order");
        assert!(report.problems[0].to_string().ends_with("gone-0"));
        assert_eq!((report.files, report.chunks, report.bytes), (0, 0, 0));
    }

    #[test]
    fn a_file_that_fails_leaves_nothing_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [7; 5000]).unwrap();
        let mut chunks = Vec::new();
        let mut scanner = scanner(|chunk| chunks.push((chunk.file, chunk.offset, chunk.len)));
        scanner.file(&path).unwrap();
        // A folder can be opened, and not be read.
        scanner.file(folder.path()).unwrap_err();
        scanner.file(&path).unwrap();
        assert_eq!((scanner.report.files, scanner.report.bytes), (2, 10_000));
        assert_eq!(scanner.report.chunks, 4);
        assert_eq!(chunks, [(0, 0, 4096), (0, 4096, 904), (2, 0, 4096), (2, 4096, 904)]);
    }

    #[test]
    fn sockets_and_links_are_counted_and_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
        std::os::unix::fs::symlink("s", folder.path().join("l")).unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        let chunker = Chunker::Fixed(FixedChunker::new(4096).unwrap());
        let report = scan(folder.path(), &chunker, |_| ()).unwrap();
        assert_eq!((report.special, report.links, report.files), (1, 1, 0));
        assert_eq!((report.unreadable, report.problems.len()), (0, 0));
    }
}
