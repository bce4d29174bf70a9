//! Reading runs: their segments' headers, and their pairs in order.
//! Room: onefold-pool.

use std::sync::Arc;

use onefold_block::{ContainerId, Folder, Media};

use super::writer::file_name;
use crate::error::PoolError;
use crate::format::pair::Pair;
use crate::format::run::{BLOCK_BYTES, SegmentHeader, decode_block, decode_containers};

/// The header of a segment, and the containers that it lists.
pub fn read_header(
    folder: &dyn Folder,
    name: &str,
    uuid: &[u8; 16],
) -> Result<(SegmentHeader, Vec<ContainerId>), PoolError> {
    let media = folder.open(name)?;
    let mut block = vec![0; BLOCK_BYTES];
    media.read(0, &mut block)?;
    let header = SegmentHeader::decode(&block, name, uuid)?;
    let list_bytes = u64::from(header.containers.0) * 4;
    let (len, expected) = (media.len()?, header.list_at() + list_bytes);
    if len != expected {
        let problem = format!("it has {len} bytes, but {expected} were expected");
        return Err(PoolError::corrupt(name, len.min(expected), problem));
    }
    let mut list = vec![0; list_bytes as usize];
    media.read(header.list_at(), &mut list)?;
    let containers = decode_containers(&list, name, &header)?;
    Ok((header, containers))
}

/// The pairs of a run, in order.
pub struct RunReader {
    folder: Arc<dyn Folder>,
    /// Its segments, and the one that is next.
    parts: Arc<[SegmentHeader]>,
    next_part: usize,
    open: Option<OpenSegment>,
    blocks_at_once: usize,
    bytes: Vec<u8>,
    pairs: Vec<Pair>,
    at: usize,
    read_bytes: u64,
}

struct OpenSegment {
    media: Arc<dyn Media>,
    name: String,
    next_block: u64,
    blocks: u64,
}

impl RunReader {
    /// From the first key that is `from` or more; `blocks_at_once` blocks are read at a time.
    pub fn new(
        folder: &Arc<dyn Folder>,
        parts: Arc<[SegmentHeader]>,
        from: u64,
        blocks_at_once: usize,
    ) -> Result<Self, PoolError> {
        let next_part = parts.partition_point(|part| part.last < from);
        let mut reader = Self {
            folder: Arc::clone(folder),
            parts,
            next_part,
            open: None,
            blocks_at_once: blocks_at_once.max(1),
            bytes: Vec::new(),
            pairs: Vec::new(),
            at: 0,
            read_bytes: 0,
        };
        if from > 0 {
            reader.seek(from)?;
        }
        Ok(reader)
    }

    /// The next pair, without passing it.
    pub fn peek(&mut self) -> Result<Option<Pair>, PoolError> {
        while self.at == self.pairs.len() {
            if !self.fill()? {
                return Ok(None);
            }
        }
        Ok(Some(self.pairs[self.at]))
    }

    /// Pass the pair that was peeked at.
    pub const fn pass(&mut self) {
        self.at += 1;
    }

    /// Bytes read since the last time.
    pub const fn take_read_bytes(&mut self) -> u64 {
        std::mem::replace(&mut self.read_bytes, 0)
    }

    fn open_next(&mut self) -> Result<bool, PoolError> {
        let Some(part) = self.parts.get(self.next_part) else { return Ok(false) };
        let name = file_name(part.run, part.part);
        let media = self.folder.open(&name)?;
        self.open = Some(OpenSegment { media, name, next_block: 0, blocks: part.blocks() });
        self.next_part += 1;
        Ok(true)
    }

    /// Go to the last block that begins before `from`: pairs before that follow none.
    fn seek(&mut self, from: u64) -> Result<(), PoolError> {
        if !self.open_next()? {
            return Ok(());
        }
        let blocks = self.open.as_ref().map_or(0, |open| open.blocks);
        let (mut low, mut high) = (0, blocks);
        while high - low > 1 {
            let middle = low.midpoint(high);
            self.read(middle, 1)?;
            if self.pairs.first().is_some_and(|pair| pair.key < from) {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.pairs.clear();
        if let Some(open) = &mut self.open {
            open.next_block = low;
        }
        while self.peek()?.is_some_and(|pair| pair.key < from) {
            self.pass();
        }
        Ok(())
    }

    /// More pairs; false at the end.
    fn fill(&mut self) -> Result<bool, PoolError> {
        loop {
            let ahead = self.open.as_ref().map(|open| (open.next_block, open.blocks));
            match ahead {
                Some((next, blocks)) if next < blocks => {
                    let count = (blocks - next).min(self.blocks_at_once as u64) as usize;
                    self.read(next, count)?;
                    if let Some(open) = &mut self.open {
                        open.next_block = next + count as u64;
                    }
                    return Ok(true);
                }
                _ if self.open_next()? => {}
                _ => return Ok(false),
            }
        }
    }

    /// Read and verify blocks in place of the pairs at hand.
    fn read(&mut self, first: u64, count: usize) -> Result<(), PoolError> {
        let Some(open) = &self.open else { return Ok(()) };
        self.bytes.resize(count * BLOCK_BYTES, 0);
        open.media.read((1 + first) * BLOCK_BYTES as u64, &mut self.bytes)?;
        self.read_bytes += self.bytes.len() as u64;
        self.pairs.clear();
        self.at = 0;
        for (block, number) in self.bytes.chunks_exact(BLOCK_BYTES).zip(first as u32..) {
            decode_block(block, (&open.name, number), &mut self.pairs)?;
        }
        Ok(())
    }
}
