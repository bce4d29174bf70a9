//! Partial results as a file: frames, each with its own checksum.
//! Room: onefold-estimate.   The byte table is in `docs/estimate.md`.
//! Invariants: a file that reads to its end is the one that was written: every frame's checksum
//! covers its number, its kind and its bytes, and the last frame says how many there are.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use onefold_content::{Compression, FingerprintKind, Fingerprinter};

use crate::error::EstimateError;
use crate::files::{OpenFile, Record};
use crate::options::Method;
use crate::partial::{Header, Partial};
use crate::table::Entry;

const MAGIC: &[u8; 8] = b"1fold-es";
const VERSION: u32 = 1;
/// Bytes before the first frame: magic and version.
const PREAMBLE_BYTES: u64 = 12;
/// Bytes of entries put into one frame.
const ENTRIES_BYTES: usize = 256 << 10;
/// Records put into one frame.
const RECORDS: usize = 1000;
/// Largest frame accepted: a header with 60,000 groups of each kind stays far below.
const FRAME_BYTES_MAX: u32 = 64 << 20;

const KIND_HEADER: u8 = 1;
const KIND_ENTRIES: u8 = 2;
const KIND_RECORDS: u8 = 3;
const KIND_OPEN_FILES: u8 = 4;
const KIND_END: u8 = 255;

fn checksum(number: u64, kind: u8, payload: &[u8]) -> u64 {
    let hasher = Fingerprinter::new(FingerprintKind::Blake3);
    let mut message = [0; 41];
    message[..8].copy_from_slice(&number.to_le_bytes());
    message[8] = kind;
    message[9..].copy_from_slice(hasher.hash(payload).as_bytes());
    hasher.hash(&message).prefix64()
}

struct Writer<W> {
    to: W,
    frames: u64,
}

impl<W: Write> Writer<W> {
    fn frame(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let len = u32::try_from(payload.len()).ok().filter(|&len| len <= FRAME_BYTES_MAX);
        let len = len.ok_or_else(|| io::Error::other("a frame of more than 64 MiB"))?;
        self.to.write_all(&[kind])?;
        self.to.write_all(&len.to_le_bytes())?;
        self.to.write_all(payload)?;
        self.to.write_all(&checksum(self.frames, kind, payload).to_le_bytes())?;
        self.frames += 1;
        Ok(())
    }

    fn json<T: serde::Serialize + ?Sized>(&mut self, kind: u8, value: &T) -> io::Result<()> {
        let payload = serde_json::to_vec(value).map_err(io::Error::other)?;
        self.frame(kind, &payload)
    }
}

impl Partial {
    /// Write this result, for [`Partial::merge`]. The same result gives the same bytes.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        let mut writer = Writer { to, frames: 0 };
        writer.to.write_all(MAGIC)?;
        writer.to.write_all(&VERSION.to_le_bytes())?;
        writer.json(KIND_HEADER, &self.header)?;
        for (number, table) in self.tables.iter().enumerate() {
            let mut payload = vec![number as u8];
            table.visit_sorted(|entry| {
                encode(entry, &mut payload);
                if payload.len() >= ENTRIES_BYTES {
                    writer.frame(KIND_ENTRIES, &payload)?;
                    payload.truncate(1);
                }
                Ok::<(), io::Error>(())
            })?;
            if payload.len() > 1 {
                writer.frame(KIND_ENTRIES, &payload)?;
            }
        }
        let mut records: Vec<&Record> = self.files.records().collect();
        records.sort_unstable_by_key(|record| (record.size, record.sum));
        for records in records.chunks(RECORDS) {
            writer.json(KIND_RECORDS, records)?;
        }
        let mut open: Vec<&OpenFile> = self.files.open_files().collect();
        open.sort_unstable_by_key(|file| file.name.number);
        for files in open.chunks(RECORDS) {
            writer.json(KIND_OPEN_FILES, files)?;
        }
        let frames = writer.frames;
        writer.frame(KIND_END, &frames.to_le_bytes())?;
        writer.to.flush()
    }
}

fn encode(entry: &Entry<'_>, to: &mut Vec<u8>) {
    to.extend_from_slice(&entry.fp.to_le_bytes());
    to.extend_from_slice(&entry.count.to_le_bytes());
    to.extend_from_slice(&entry.len.to_le_bytes());
    // Tables without stored sizes have no owners either; `Layout` reads it back the same way.
    if !entry.stored.is_empty() {
        to.extend_from_slice(&entry.first.to_le_bytes());
        to.extend_from_slice(&entry.group.to_le_bytes());
        for stored in entry.stored {
            to.extend_from_slice(&stored.to_le_bytes());
        }
    }
}

/// An entry as it was read.
pub(crate) struct ReadEntry {
    pub fp: u64,
    pub count: u64,
    pub len: u32,
    pub first: u32,
    pub group: u32,
    pub stored: Vec<u32>,
}

/// The entries of a frame; the layout has been checked.
pub(crate) struct Entries {
    payload: Vec<u8>,
    stored: usize,
}

impl Entries {
    /// Which table they are of.
    pub(crate) fn table(&self) -> usize {
        usize::from(self.payload[0])
    }

    fn entry_bytes(stored: usize) -> usize {
        20 + if stored > 0 { 8 + 4 * stored } else { 0 }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ReadEntry> {
        let stored = self.stored;
        self.payload[1..].chunks_exact(Self::entry_bytes(stored)).map(move |bytes| {
            let (words, _) = bytes.as_chunks::<4>();
            let word = |i: usize| u32::from_le_bytes(words[i]);
            let long = |i: usize| u64::from(word(i)) | u64::from(word(i + 1)) << 32;
            let owned = stored > 0;
            ReadEntry {
                fp: long(0),
                count: long(2),
                len: word(4),
                first: if owned { word(5) } else { 0 },
                group: if owned { word(6) } else { 0 },
                stored: (7..7 + stored).map(word).take(stored).collect(),
            }
        })
    }
}

/// A frame after the header.
pub(crate) enum Frame {
    Entries(Entries),
    Records(Vec<Record>),
    OpenFiles(Vec<OpenFile>),
}

/// Reads a file frame by frame.
pub(crate) struct Reader {
    path: PathBuf,
    from: BufReader<File>,
    /// Bytes read so far.
    offset: u64,
    /// Where the frame that was read last begins.
    frame_at: u64,
    frames: u64,
    pub header: Header,
    tables: usize,
    primary: usize,
    compressions: usize,
}

impl Reader {
    /// Open a file and read its header.
    pub(crate) fn open(path: &Path) -> Result<Self, EstimateError> {
        let failed = |source| EstimateError::PartialIo { path: path.to_owned(), source };
        let mut from = BufReader::new(File::open(path).map_err(failed)?);
        let bad = |offset, what: String| {
            Err(EstimateError::BadPartial { path: path.to_owned(), offset, what })
        };
        let mut preamble = Vec::new();
        from.by_ref().take(PREAMBLE_BYTES).read_to_end(&mut preamble).map_err(failed)?;
        let Some((magic, version)) = preamble.split_first_chunk::<8>() else {
            return bad(0, "too short for a partial estimate".to_owned());
        };
        if magic != MAGIC {
            return bad(0, "is no partial estimate (the first 8 bytes are others)".to_owned());
        }
        let Ok(version) = version.try_into().map(u32::from_le_bytes) else {
            return bad(8, "ends before the version".to_owned());
        };
        if version != VERSION {
            let what = format!("has format version {version}, this program reads {VERSION}");
            return bad(8, what);
        }
        let mut raw = RawReader { path, from, offset: PREAMBLE_BYTES, frames: 0 };
        let (kind, payload) = raw.frame()?;
        if kind != KIND_HEADER {
            return bad(PREAMBLE_BYTES, format!("the first frame has kind {kind}, expected 1"));
        }
        let header: Header = match serde_json::from_slice(&payload) {
            Ok(header) => header,
            Err(error) => return bad(PREAMBLE_BYTES, format!("the header: {error}")),
        };
        if let Err(what) = check_header(&header) {
            return bad(PREAMBLE_BYTES, format!("the header: {what}"));
        }
        let settings = &header.settings;
        let is_primary = |m: &Method| *m == Method::Fixed { chunk_bytes: settings.primary_bytes };
        Ok(Self {
            path: path.to_owned(),
            offset: raw.offset,
            frame_at: PREAMBLE_BYTES,
            frames: raw.frames,
            from: raw.from,
            tables: settings.methods.len(),
            primary: settings.methods.iter().position(is_primary).unwrap_or(usize::MAX),
            compressions: settings.compressions.len(),
            header,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An error at the frame that was read last.
    pub(crate) fn bad(&self, what: &str) -> EstimateError {
        let (path, what) = (self.path.clone(), what.to_owned());
        EstimateError::BadPartial { path, offset: self.frame_at, what }
    }

    /// The next frame; `None` after the last one.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, EstimateError> {
        self.frame_at = self.offset;
        let from = self.from.by_ref();
        let mut raw =
            RawReader { path: &self.path, from, offset: self.offset, frames: self.frames };
        let (kind, payload) = raw.frame()?;
        (self.offset, self.frames) = (raw.offset, raw.frames);
        match kind {
            KIND_ENTRIES => self.entries(payload).map(Some),
            KIND_RECORDS => Ok(Some(Frame::Records(self.json(&payload)?))),
            KIND_OPEN_FILES => Ok(Some(Frame::OpenFiles(self.json(&payload)?))),
            KIND_END => {
                if payload != (self.frames - 1).to_le_bytes() {
                    return Err(self.bad("the last frame counts other frames than there are"));
                }
                let mut rest = [0];
                match self.from.read(&mut rest) {
                    Ok(0) => Ok(None),
                    Ok(_) => Err(self.bad("there are bytes after the last frame")),
                    Err(source) => {
                        Err(EstimateError::PartialIo { path: self.path.clone(), source })
                    }
                }
            }
            kind => Err(self.bad(&format!("unknown kind of frame {kind}"))),
        }
    }

    fn json<T: serde::de::DeserializeOwned>(&self, payload: &[u8]) -> Result<T, EstimateError> {
        serde_json::from_slice(payload).map_err(|error| self.bad(&error.to_string()))
    }

    fn entries(&self, payload: Vec<u8>) -> Result<Frame, EstimateError> {
        let Some((&table, rest)) = payload.split_first() else {
            return Err(self.bad("a frame of entries names no table"));
        };
        if usize::from(table) >= self.tables {
            return Err(self.bad("a frame of entries names a table that does not exist"));
        }
        let stored = if usize::from(table) == self.primary { self.compressions } else { 0 };
        if !rest.len().is_multiple_of(Entries::entry_bytes(stored)) {
            return Err(self.bad("a frame of entries holds a part of one"));
        }
        let entries = Entries { payload, stored };
        if entries.iter().any(|entry| entry.count == 0) {
            return Err(self.bad("an entry has the count 0"));
        }
        Ok(Frame::Entries(entries))
    }

    /// The header, which is needed no more for reading.
    pub(crate) fn take_header(&mut self) -> Header {
        let empty = Header {
            settings: self.header.settings.clone(),
            memory_bytes: self.header.memory_bytes,
            inputs: Vec::new(),
            shard: self.header.shard,
            run: self.header.run,
            complete: self.header.complete,
            notes: Vec::new(),
            elapsed_ns: 0,
            walk: crate::walk::WalkFacts::default(),
            scan: crate::worker::ScanFacts::default(),
            breakdown: crate::walk::Breakdown::default(),
            levels: Vec::new(),
            file_least_bytes: 0,
        };
        std::mem::replace(&mut self.header, empty)
    }
}

fn check_header(header: &Header) -> Result<(), String> {
    let settings = &header.settings;
    let tables = settings.methods.len();
    if header.levels.len() != tables || header.scan.tallies.len() != tables || tables > 250 {
        return Err(format!("{tables} chunk sizes, but other numbers of levels or tallies"));
    }
    if header.levels.iter().any(|&level| level > 60) {
        return Err("a sampling level above 60".to_owned());
    }
    if !header.breakdown.extensions.is_sound() || !header.breakdown.folders.is_sound() {
        return Err("groups whose names and bytes do not fit together".to_owned());
    }
    if !header.file_least_bytes.is_power_of_two() {
        return Err("a least file size that is no power of two".to_owned());
    }
    for text in &settings.compressions {
        text.parse::<Compression>().map_err(|error| error.to_string())?;
    }
    let shard = header.shard;
    crate::Shard::new(shard.index, shard.count).map(|_| ()).map_err(|error| error.to_string())
}

/// Reads frames and checks their checksums.
struct RawReader<'a, R> {
    path: &'a Path,
    from: R,
    offset: u64,
    frames: u64,
}

impl<R: Read> RawReader<'_, R> {
    fn bytes(&mut self, len: u32) -> Result<Vec<u8>, EstimateError> {
        // Grows with what is there, not with what a damaged length claims.
        let mut bytes = Vec::new();
        let result = self.from.by_ref().take(u64::from(len)).read_to_end(&mut bytes);
        let path = self.path.to_owned();
        result.map_err(|source| EstimateError::PartialIo { path: path.clone(), source })?;
        self.offset += bytes.len() as u64;
        if bytes.len() < len as usize {
            let what = "the file ends inside a frame: it is cut short".to_owned();
            return Err(EstimateError::BadPartial { path, offset: self.offset, what });
        }
        Ok(bytes)
    }

    fn frame(&mut self) -> Result<(u8, Vec<u8>), EstimateError> {
        let at = self.offset;
        let bad = |path: &Path, what: String| {
            Err(EstimateError::BadPartial { path: path.to_owned(), offset: at, what })
        };
        let head = self.bytes(5)?;
        let (kind, len) = (head[0], u32::from_le_bytes([head[1], head[2], head[3], head[4]]));
        if len > FRAME_BYTES_MAX {
            return bad(self.path, format!("a frame of {len} bytes, at most {FRAME_BYTES_MAX}"));
        }
        let payload = self.bytes(len)?;
        let sum = self.bytes(8)?;
        let expected = checksum(self.frames, kind, &payload);
        if sum != expected.to_le_bytes() {
            return bad(self.path, format!("frame {}: its checksum is wrong", self.frames));
        }
        self.frames += 1;
        Ok((kind, payload))
    }
}

#[cfg(test)]
mod tests;
