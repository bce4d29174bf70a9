//! One worker: reads the pieces of a unit into a batch and counts the batch's chunks.
//! Room: onefold-estimate.   In: units of work.   Out: sightings in the shared tables.
//! Invariants: (1) what is counted depends on the bytes alone, not on how they fell into batches
//! (2) an entry that a batch makes in the primary table gets its stored sizes before the batch
//! ends, also when the run is cancelled.
//! Cost: every byte is read, tested for zero and hashed once, scanned once per content-defined
//! chunker, and compressed once per compression if its primary chunk was not seen before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_content::{Codec, Compressor, FingerprintKind, Fingerprinter, is_zero};
use serde::{Deserialize, Serialize};

use crate::content_defined::Stream;
use crate::files::{Content, FileTable, Named, OpenFile};
use crate::groups::{GroupTally, unpack};
use crate::image::{Handle, Inside};
use crate::options::{CHUNK_MAX_BYTES, Plan, SEGMENT_BYTES};
use crate::problems::{ProblemKind, Problems};
use crate::progress::Progress;
use crate::quick_hash::quick_hash;
use crate::read::{self, Run};
use crate::table::{Scratch, Seen, Table};
use crate::tree::{Block, Level, chunks_of, hash_leaves, join_halves, key};
use crate::walk::{Breakdown, FileRef};

/// Files are cut into blocks of this size first.
const BLOCK: u64 = CHUNK_MAX_BYTES as u64;
/// Unreadable blocks after which the rest of a segment is given up.
const READ_ERRORS_MAX: u32 = 8;
/// A pool stores a chunk raw unless compression saves at least this many bytes.
pub(crate) const ALLOCATION_UNIT_BYTES: usize = 8;

/// A file, or one segment of it.
pub(crate) struct Piece {
    pub file: Arc<FileRef>,
    /// Number of the segment.
    pub segment: u64,
}

impl Piece {
    fn start(&self) -> u64 {
        self.segment * SEGMENT_BYTES
    }

    /// One past the last byte.
    fn end(&self) -> u64 {
        // A stream is read by one worker, from front to back.
        match self.file.inside {
            Inside::Stream(_) => self.file.size,
            _ => self.file.size.min(self.start() + SEGMENT_BYTES),
        }
    }

    /// Bytes that it should have.
    pub(crate) fn planned_bytes(&self) -> u64 {
        self.end() - self.start()
    }
}

/// Exact counts of one chunk size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub chunks: u64,
    pub zero_chunks: u64,
    pub zero_bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.chunks = self.chunks.saturating_add(other.chunks);
        self.zero_chunks = self.zero_chunks.saturating_add(other.zero_chunks);
        self.zero_bytes = self.zero_bytes.saturating_add(other.zero_bytes);
    }
}

/// What reading the files gave, apart from the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScanFacts {
    /// Bytes counted, holes included.
    pub bytes: u64,
    /// Bytes of them that the file system does not hold.
    pub hole_bytes: u64,
    /// Bytes that could not be read.
    pub unread_bytes: u64,
    pub problems: Problems,
    /// One per table.
    pub tallies: Vec<Tally>,
}

/// What all workers write to.
pub(crate) struct Shared {
    pub tables: Vec<Table>,
    pub breakdown: Mutex<Breakdown>,
    pub files: Mutex<FileTable>,
    pub scan: Mutex<ScanFacts>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A piece being worked on.
struct Current {
    piece: Piece,
    content: Content,
}

/// The worker and all its memory.
pub(crate) struct Worker<'a> {
    plan: &'a Plan,
    shared: &'a Shared,
    progress: &'a Progress,
    hasher: Fingerprinter,
    encoders: Vec<Compressor>,
    streams: Vec<Stream>,
    /// Bytes of the blocks of the batch, one after another.
    buffer: Vec<u8>,
    filled: usize,
    blocks: Vec<Block>,
    /// Pieces of the unit; blocks name them by index.
    pieces: Vec<Current>,
    facts: ScanFacts,
    levels: [Level; 2],
    lists: Lists,
}

/// Lists that are rebuilt for every level, kept for their memory.
#[derive(Default)]
struct Lists {
    seen: Vec<Seen>,
    /// Where each of `seen` lies in the buffer.
    places: Vec<(usize, usize)>,
    fresh: Vec<u32>,
    scratch: Scratch,
    zero_blocks: Vec<bool>,
    padded: Vec<u8>,
    encoded: Vec<u8>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(plan: &'a Plan, shared: &'a Shared, progress: &'a Progress) -> Self {
        let options = &plan.options;
        let facts =
            ScanFacts { tallies: vec![Tally::default(); plan.tables.len()], ..Default::default() };
        Self {
            plan,
            shared,
            progress,
            hasher: Fingerprinter::new(FingerprintKind::Blake3),
            encoders: options.compressions.iter().map(|&c| Compressor::new(c)).collect(),
            streams: options.content_defined.iter().map(|&sizes| Stream::new(sizes)).collect(),
            buffer: vec![0; plan.batch_bytes],
            filled: 0,
            blocks: Vec::new(),
            pieces: Vec::new(),
            facts,
            levels: Default::default(),
            lists: Lists::default(),
        }
    }

    /// Look at all pieces of a unit.
    pub(crate) fn work(&mut self, unit: Vec<Piece>) {
        for piece in unit {
            if self.progress.is_cancelled() {
                break;
            }
            self.pieces.push(Current { piece, content: Content::default() });
            self.read_piece();
            self.end_stream();
        }
        self.process();
        self.commit();
    }

    /// Hand in what was counted aside from the tables.
    pub(crate) fn finish(self) {
        let mut scan = lock(&self.shared.scan);
        for (sum, tally) in scan.tallies.iter_mut().zip(self.facts.tallies) {
            sum.add(tally);
        }
        scan.bytes += self.facts.bytes;
        scan.hole_bytes += self.facts.hole_bytes;
        scan.unread_bytes += self.facts.unread_bytes;
    }

    fn current(&mut self) -> &mut Current {
        self.pieces.last_mut().expect("a piece is being worked on")
    }

    /// Note a problem with the current piece: its file cannot be compared with others.
    fn problem(&mut self, kind: ProblemKind, reason: &dyn ToString, unread_bytes: u64) {
        self.facts.unread_bytes += unread_bytes;
        self.progress.done(0, unread_bytes);
        let current = self.current();
        current.content.is_broken = true;
        let file = Arc::clone(&current.piece.file);
        let path = file.path.to_string_lossy().into_owned();
        // Shared at once: another worker may meet the same problem in the same file.
        lock(&self.shared.scan).problems.add(file.number, path, kind, reason.to_string());
    }

    fn read_piece(&mut self) {
        let piece = &self.current().piece;
        let (start, planned) = (piece.start(), piece.end());
        if start == planned {
            return;
        }
        let file = Arc::clone(&piece.file);
        let opened = read::open(&file).and_then(|(opened, size_now)| {
            let size_now = if file.inside == Inside::Bytes { size_now } else { planned };
            Ok((Handle::new(opened, file.inside, file.is_sparse)?, size_now))
        });
        let (handle, size_now) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                return self.problem(ProblemKind::UnreadableFile, &error, planned - start);
            }
        };
        let end = planned.min(size_now.max(start));
        if planned - start > BLOCK {
            handle.advise_sequential(start, planned);
        }
        let mut at = start;
        while at < end && !self.progress.is_cancelled() {
            match handle.next_run(at, end) {
                Run::Hole { start, end } => {
                    self.hole(end - start);
                    at = end;
                }
                Run::Data { start, end } => {
                    at = self.read_run(&handle, start, end);
                    if at < end {
                        break;
                    }
                }
            }
        }
        if self.progress.is_cancelled() {
            self.current().content.is_broken = true;
        } else if at < planned {
            self.gone(planned - at);
        }
    }

    /// The file ended earlier than when it was found.
    fn gone(&mut self, missing: u64) {
        let reason = format!("became {missing} bytes shorter while it was read");
        self.problem(ProblemKind::Changed, &reason, 0);
        self.progress.done(0, missing);
    }

    /// Read a run of data; where the file ended, or `end`.
    fn read_run(&mut self, file: &Handle, start: u64, end: u64) -> u64 {
        let (mut at, mut errors) = (start, 0);
        while at < end && !self.progress.is_cancelled() {
            if self.buffer.len() - self.filled < BLOCK as usize {
                self.process();
            }
            let room = (self.buffer.len() - self.filled) as u64;
            let want = (end - at).min(room / BLOCK * BLOCK);
            let target = &mut self.buffer[self.filled..][..want as usize];
            let (got, result) = file.fill(target, at);
            let Err(error) = result else {
                self.take(at, got as u64);
                at += got as u64;
                if (got as u64) < want {
                    return at;
                }
                continue;
            };
            // Whole blocks before the error are good; the block with the error is left out.
            let good = got as u64 / BLOCK * BLOCK;
            self.take(at, good);
            self.end_stream();
            at += good;
            errors += 1;
            // A stream cannot go on behind an error.
            let goes_on = errors < READ_ERRORS_MAX && !matches!(file, Handle::Stream(_));
            let skipped = if goes_on { BLOCK.min(end - at) } else { end - at };
            self.problem(ProblemKind::ReadError, &error, skipped);
            at += skipped;
        }
        at
    }

    /// The next `len` bytes in the buffer are those of the current file from `offset`.
    fn take(&mut self, offset: u64, len: u64) {
        let piece = self.pieces.len() as u32 - 1;
        let mut done = 0;
        while done < len {
            let part = BLOCK.min(len - done);
            self.blocks.push(Block {
                start: self.filled,
                len: part as usize,
                piece,
                index: (offset + done) / BLOCK,
                ends_stream: false,
            });
            self.filled += part as usize;
            done += part;
        }
        self.current().content.bytes += len;
        self.facts.bytes += len;
        self.progress.done(0, len);
    }

    /// Content-defined chunking starts afresh after the last byte taken.
    fn end_stream(&mut self) {
        let current = self.pieces.len() as u32 - 1;
        match self.blocks.last_mut() {
            Some(block) if block.piece == current => block.ends_stream = true,
            // Blocks of an earlier piece: nothing of this one was taken yet.
            Some(_) => {}
            None => self.finish_streams(),
        }
    }

    /// A run of whole blocks that reads as zeroes, or one that ends the file.
    fn hole(&mut self, len: u64) {
        self.end_stream();
        for (table, tally) in self.plan.tables.iter().zip(&mut self.facts.tallies) {
            let size = match table.method {
                crate::Method::Fixed { chunk_bytes } => u64::from(chunk_bytes),
                // As for a block of zeroes that is read.
                crate::Method::Cdc { .. } => BLOCK,
            };
            let chunks = len.div_ceil(size);
            tally.add(Tally { chunks, zero_chunks: chunks, zero_bytes: len });
        }
        self.facts.bytes += len;
        self.facts.hole_bytes += len;
        let content = &mut self.current().content;
        content.bytes += len;
        content.zero_bytes += len;
        self.progress.done(0, len);
    }

    /// Count the chunks of the batch and empty it.
    fn process(&mut self) {
        if self.blocks.is_empty() {
            return;
        }
        let blocks = std::mem::take(&mut self.blocks);
        let mut size = self.plan.leaf_bytes;
        let [mut level, mut next] = std::mem::take(&mut self.levels);
        hash_leaves(&self.hasher, &self.buffer, &blocks, size as usize, &mut level);
        self.find_zero_blocks(&blocks, &level, size as usize);
        loop {
            let method = crate::Method::Fixed { chunk_bytes: size };
            if let Some(table) = self.plan.tables.iter().position(|t| t.method == method) {
                self.count(table, &blocks, &level, size as usize);
            }
            if size == self.plan.top_bytes {
                break;
            }
            size *= 2;
            join_halves(&level, &blocks, size as usize, &mut next);
            std::mem::swap(&mut level, &mut next);
        }
        self.name_files(&blocks, &level, size as usize);
        self.levels = [level, next];
        self.cut_streams(&blocks);
        self.blocks = blocks;
        self.blocks.clear();
        self.filled = 0;
    }

    fn find_zero_blocks(&mut self, blocks: &[Block], level: &Level, size: usize) {
        self.lists.zero_blocks.clear();
        let mut at = 0;
        for block in blocks {
            let leaves = &level.zero[at..at + chunks_of(block, size)];
            at += leaves.len();
            let is_hole = block.len as u64 == BLOCK && leaves.iter().all(|&zero| zero);
            self.lists.zero_blocks.push(is_hole);
        }
    }

    /// Count the chunks of one fixed size.
    fn count(&mut self, table: usize, blocks: &[Block], level: &Level, size: usize) {
        let is_primary = table == self.plan.primary;
        let lists = &mut self.lists;
        lists.seen.clear();
        lists.places.clear();
        let mut tally = Tally { chunks: level.names.len() as u64, ..Tally::default() };
        let mut chunk = 0;
        for block in blocks {
            let current = &mut self.pieces[block.piece as usize];
            let (file, group) = (current.piece.file.number, current.piece.file.group);
            for within in (0..block.len).step_by(size) {
                let len = size.min(block.len - within);
                if level.zero[chunk] {
                    tally.zero_chunks += 1;
                    tally.zero_bytes += len as u64;
                    if is_primary {
                        current.content.zero_bytes += len as u64;
                    }
                } else {
                    let fp = key(level.names[chunk]);
                    lists.seen.push(Seen { fp, len: len as u32, file, group });
                    if is_primary {
                        lists.places.push((block.start + within, len));
                    }
                }
                chunk += 1;
            }
        }
        self.facts.tallies[table].add(tally);
        self.shared.tables[table].observe(&lists.seen, &mut lists.scratch, &mut lists.fresh);
        if is_primary {
            self.compress(table, size);
        }
    }

    /// Find out the stored sizes of the chunks that were new, as a pool would store them: padded
    /// with zeroes to the chunk size, and raw unless that saves an allocation unit.
    fn compress(&mut self, table: usize, size: usize) {
        let lists = &mut self.lists;
        lists.padded.resize(size, 0);
        for &fresh in &lists.fresh {
            let (start, len) = lists.places[fresh as usize];
            let mut chunk = &self.buffer[start..start + len];
            if len < size {
                lists.padded[..len].copy_from_slice(chunk);
                lists.padded[len..].fill(0);
                chunk = &lists.padded;
            }
            for (codec, encoder) in self.encoders.iter_mut().enumerate() {
                lists.encoded.clear();
                let limit = size - ALLOCATION_UNIT_BYTES;
                let stored = match encoder.compress_into(chunk, &mut lists.encoded, limit) {
                    Codec::Raw => size,
                    _ => lists.encoded.len(),
                };
                let fp = lists.seen[fresh as usize].fp;
                self.shared.tables[table].set_stored(fp, codec, stored as u32);
            }
        }
    }

    /// Add the largest chunks' fingerprints to the names of their files. Zero chunks add nothing,
    /// so that a hole and written zeroes are the same.
    fn name_files(&mut self, blocks: &[Block], level: &Level, size: usize) {
        let mut chunk = 0;
        for block in blocks {
            let first = block.index * (BLOCK / size as u64);
            let sum = &mut self.pieces[block.piece as usize].content.sum;
            for within in 0..chunks_of(block, size) {
                if !level.zero[chunk] {
                    let place = first + within as u64;
                    *sum = sum.wrapping_add(weighed(level.names[chunk], place));
                }
                chunk += 1;
            }
        }
    }

    /// Count the content-defined chunks.
    fn cut_streams(&mut self, blocks: &[Block]) {
        let first = self.plan.tables.len() - self.streams.len();
        for (i, stream) in self.streams.iter_mut().enumerate() {
            let tally = &mut self.facts.tallies[first + i];
            let lists = &mut self.lists;
            lists.seen.clear();
            let mut rest = blocks.iter().zip(&lists.zero_blocks).peekable();
            while let Some((block, &is_hole)) = rest.next() {
                let file = &self.pieces[block.piece as usize].piece.file;
                let mut sink = Sink { file, tally: &mut *tally, seen: &mut lists.seen };
                if is_hole {
                    stream.finish(|chunk| sink.chunk(chunk));
                    let len = block.len as u64;
                    tally.add(Tally { chunks: 1, zero_chunks: 1, zero_bytes: len });
                    continue;
                }
                // The blocks of one stream lie side by side: they are one piece of it.
                let (mut end, mut ends_stream) = (block.start + block.len, block.ends_stream);
                while !ends_stream && let Some((next, _)) = rest.next_if(|&(_, &is_hole)| !is_hole)
                {
                    end = next.start + next.len;
                    ends_stream = next.ends_stream;
                }
                stream.push(&self.buffer[block.start..end], |chunk| sink.chunk(chunk));
                if ends_stream {
                    stream.finish(|chunk| sink.chunk(chunk));
                }
            }
            let table = &self.shared.tables[first + i];
            table.observe(&lists.seen, &mut lists.scratch, &mut lists.fresh);
        }
    }

    /// End the streams whose last bytes were in an earlier batch.
    fn finish_streams(&mut self) {
        let first = self.plan.tables.len() - self.streams.len();
        let Some(current) = self.pieces.last() else { return };
        for (i, stream) in self.streams.iter_mut().enumerate() {
            self.lists.seen.clear();
            let mut sink = Sink {
                file: &current.piece.file,
                tally: &mut self.facts.tallies[first + i],
                seen: &mut self.lists.seen,
            };
            stream.finish(|chunk| sink.chunk(chunk));
            let lists = &mut self.lists;
            let table = &self.shared.tables[first + i];
            table.observe(&lists.seen, &mut lists.scratch, &mut lists.fresh);
        }
    }

    /// Hand in what is known of the unit's files.
    fn commit(&mut self) {
        {
            let mut breakdown = lock(&self.shared.breakdown);
            for current in &self.pieces {
                let (extension, folder) = unpack(current.piece.file.group);
                let Content { bytes, zero_bytes, .. } = current.content;
                let files = u64::from(current.piece.segment == 0);
                let tally = GroupTally { files, bytes, zero_bytes };
                breakdown.extensions.add(extension, tally);
                breakdown.folders.add(folder, tally);
                self.progress.done(files, 0);
            }
        }
        let mut files = lock(&self.shared.files);
        for current in self.pieces.drain(..) {
            let file = &current.piece.file;
            files.add_segment(OpenFile {
                size: file.size,
                name: Named::new(file.number, &file.path),
                planned_bytes: current.piece.planned_bytes(),
                content: current.content,
            });
        }
    }
}

/// Where content-defined chunks of one file go.
struct Sink<'a> {
    file: &'a FileRef,
    tally: &'a mut Tally,
    seen: &'a mut Vec<Seen>,
}

impl Sink<'_> {
    fn chunk(&mut self, chunk: &[u8]) {
        let len = chunk.len() as u32;
        self.tally.chunks += 1;
        if is_zero(chunk) {
            self.tally.zero_chunks += 1;
            self.tally.zero_bytes += u64::from(len);
        } else {
            let fp = quick_hash(chunk);
            self.seen.push(Seen { fp, len, file: self.file.number, group: self.file.group });
        }
    }
}

/// The name of a chunk times an odd number that depends on its place, so that a sum over a file's
/// chunks tells their order.
fn weighed(name: u128, place: u64) -> u128 {
    let spread = (u128::from(place) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    name.wrapping_mul((spread ^ (spread >> 64)) | 1)
}

#[cfg(test)]
mod tests;
