//! Writing a segment of a run: pairs in, a durable file out, or nothing.
//! Room: onefold-pool.
//! Invariant: a segment has its name only once all of it is durable.

use std::sync::Arc;

use onefold_block::{ContainerId, Folder, Media, small_file};

use crate::error::PoolError;
use crate::format::pair::Pair;
use crate::format::run::{
    BLOCK_BYTES, PAIRS_PER_BLOCK, SegmentHeader, encode_block, encode_containers,
};

/// Bytes written at once.
const WRITE_BYTES: usize = 64 << 10;

/// A segment that is being written. Dropped without [`SegmentWriter::finish`], it was nothing.
pub struct SegmentWriter {
    folder: Arc<dyn Folder>,
    media: Arc<dyn Media>,
    name: String,
    uuid: [u8; 16],
    header: SegmentHeader,
    waiting: Vec<Pair>,
    buffer: Vec<u8>,
    blocks: u32,
    at: u64,
    done: bool,
}

/// A segment's file name.
pub fn file_name(run: u32, part: u32) -> String {
    format!("{run:08x}-{part:04x}.run")
}

/// Which segment has this name.
pub fn parse_name(name: &str) -> Option<(u32, u32)> {
    let (run, part) = name.strip_suffix(".run")?.split_once('-')?;
    let number = |digits: &str| u32::from_str_radix(digits, 16).ok();
    let (run, part) = (number(run)?, number(part)?);
    (file_name(run, part) == name).then_some((run, part))
}

impl SegmentWriter {
    /// Begin one; of the header, number of pairs, last key and containers are still open.
    pub fn begin(
        folder: &Arc<dyn Folder>,
        uuid: [u8; 16],
        header: SegmentHeader,
    ) -> Result<Self, PoolError> {
        let name = file_name(header.run, header.part);
        let media = folder.create(&unfinished(&name))?;
        Ok(Self {
            folder: Arc::clone(folder),
            media,
            name,
            uuid,
            header,
            waiting: Vec::with_capacity(PAIRS_PER_BLOCK),
            buffer: Vec::with_capacity(WRITE_BYTES + BLOCK_BYTES),
            blocks: 0,
            at: BLOCK_BYTES as u64,
            done: false,
        })
    }

    /// Pairs so far.
    pub const fn pairs(&self) -> u64 {
        self.header.pairs
    }

    /// Add a pair, which comes after all before it. Returns the bytes written now.
    pub fn push(&mut self, pair: Pair) -> Result<u64, PoolError> {
        debug_assert!(self.waiting.last().is_none_or(|last| *last <= pair));
        self.waiting.push(pair);
        self.header.pairs += 1;
        if self.waiting.len() < PAIRS_PER_BLOCK {
            return Ok(0);
        }
        self.block();
        if self.buffer.len() < WRITE_BYTES { Ok(0) } else { self.write() }
    }

    fn block(&mut self) {
        if !self.waiting.is_empty() {
            encode_block(&self.waiting, self.blocks, &mut self.buffer);
            self.blocks += 1;
            self.waiting.clear();
        }
    }

    fn write(&mut self) -> Result<u64, PoolError> {
        let bytes = self.buffer.len() as u64;
        self.media.write(self.at, &self.buffer)?;
        self.at += bytes;
        self.buffer.clear();
        Ok(bytes)
    }

    /// Make it durable, with keys up to `last` and the containers that its run covers, which its
    /// first segment tells. Returns its header.
    pub fn finish(
        mut self,
        last: u64,
        covered: &[ContainerId],
    ) -> Result<SegmentHeader, PoolError> {
        self.block();
        let (list, check) = encode_containers(covered);
        self.buffer.extend_from_slice(&list);
        if !self.buffer.is_empty() {
            self.write()?;
        }
        self.header.last = last;
        self.header.containers = (covered.len() as u32, check);
        self.media.write(0, &self.header.encode(&self.uuid))?;
        self.media.sync()?;
        self.folder.rename(&unfinished(&self.name), &self.name)?;
        self.done = true;
        self.folder.sync_names()?;
        Ok(std::mem::take(&mut self.header))
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.done {
            // What remains after a failure means nothing, and goes at the next opening.
            let _ = self.folder.remove(&unfinished(&self.name));
        }
    }
}

fn unfinished(name: &str) -> String {
    format!("{name}{}", small_file::UNFINISHED)
}
