//! Frames into a volume.
//! Room: onefold-pool.
//! Source: docs/stream-format.md, "How a stream is received".
//! In: a volume that is what the base is, with room for a mark past its end. Out: what the snapshot
//! is, as far as frames came.

use onefold_block::{BlockDevice, BlockError, ZeroOptions};
use onefold_content::{Codec, Decompressor};
use thiserror::Error;

use super::frame::{Frame, Header, Item};
use super::mark::Mark;

/// After a frame that reaches or passes a multiple of so many bytes of the volume is stored, a mark
/// is written: a reception that is killed goes on from there. Senders count on it.
pub const MARK_BYTES: u64 = 64 << 20;
/// Bytes written at once.
const RUN_BYTES: usize = 1 << 20;

/// Why a frame could not be stored.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// A block of it cannot be decoded.
    #[error("the stream is damaged: the block for byte {at} of the volume: {problem}")]
    Block {
        /// Where in the volume, in bytes.
        at: u64,
        /// What was found.
        problem: String,
    },
    /// The volume failed.
    #[error(transparent)]
    Device(#[from] BlockError),
}

/// Puts frames into a volume.
pub struct Receiver<'a, D: BlockDevice + ?Sized> {
    device: &'a D,
    header: Header,
    decompressor: Decompressor,
    /// Decoded blocks that lie side by side, and where the first begins.
    run: Vec<u8>,
    run_at: u64,
    stored_bytes: u64,
    /// What comes before this byte is marked; 0 where nobody looked.
    marked: u64,
}

/// How large a volume must be while a stream is received into it.
pub fn receiving_bytes(size_bytes: u64, block_bytes: u32) -> Option<u64> {
    size_bytes.checked_next_multiple_of(block_bytes.into())?.checked_add(block_bytes.into())
}

impl<'a, D: BlockDevice + ?Sized> Receiver<'a, D> {
    /// A receiver of this stream into `device`, which has [`receiving_bytes`].
    pub fn new(header: Header, device: &'a D) -> Self {
        Self {
            device,
            header,
            decompressor: Decompressor::new(),
            run: Vec::new(),
            run_at: 0,
            stored_bytes: 0,
            marked: 0,
        }
    }

    /// Bytes of blocks that frames brought.
    pub const fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    fn mark_at(&self) -> u64 {
        self.header.size_bytes.next_multiple_of(self.device.preferred_block_bytes().into())
    }

    /// How far this stream was received; `None` if the volume is not being received into, or
    /// something else is.
    pub fn marked(&mut self) -> Result<Option<u64>, BlockError> {
        let at = self.mark_at();
        let mut bytes = [0; Mark::BYTES];
        if self.device.size_bytes().saturating_sub(at) < Mark::BYTES as u64 {
            return Ok(None);
        }
        self.device.read_at(at, &mut bytes)?;
        let mark = Mark::decode(&bytes).filter(|mark| mark.names == self.header.names);
        Ok(mark.map(|mark| {
            self.marked = mark.upto;
            mark.upto
        }))
    }

    /// What comes before this byte of the volume was marked last.
    pub const fn marked_bytes(&self) -> u64 {
        self.marked
    }

    /// Remember, durably, that the stream was received up to there.
    pub fn mark(&mut self, upto: u64) -> Result<(), BlockError> {
        let mark = Mark { names: self.header.names, upto };
        self.device.write_at(self.mark_at(), &mark.encode(), false)?;
        self.device.flush()?;
        self.marked = upto;
        Ok(())
    }

    /// Store what a frame says, and mark that where one is due.
    pub fn store(&mut self, frame: &Frame) -> Result<(), ReceiveError> {
        let chunk = self.header.chunk_size.bytes64();
        let mut at = frame.from;
        for item in frame.items() {
            let blocks = match item {
                Item::Same(blocks) | Item::Hole(blocks) | Item::Zero(blocks) => blocks,
                Item::Block(codec, stored) => {
                    self.block(at, codec, stored)?;
                    1
                }
            };
            let end = (at + blocks * chunk).min(frame.upto);
            if let Item::Hole(_) | Item::Zero(_) = item {
                self.write_run()?;
                let no_hole = matches!(item, Item::Zero(_));
                let options = ZeroOptions { no_hole, ..ZeroOptions::default() };
                self.device.write_zeroes(at, end - at, options)?;
            }
            at = end;
        }
        self.write_run()?;
        if frame.upto / MARK_BYTES > self.marked / MARK_BYTES {
            self.mark(frame.upto)?;
        }
        Ok(())
    }

    fn block(&mut self, at: u64, codec: Codec, stored: &[u8]) -> Result<(), ReceiveError> {
        if self.run.len() >= RUN_BYTES || self.run_at + self.run.len() as u64 != at {
            self.write_run()?;
            self.run_at = at;
        }
        self.stored_bytes += self.header.chunk_size.bytes64();
        let len = self.run.len();
        self.run.resize(len + self.header.chunk_size.bytes(), 0);
        let decoded = self.decompressor.decompress_into(codec, stored, &mut self.run[len..]);
        decoded.map_err(|error| ReceiveError::Block { at, problem: error.to_string() })
    }

    fn write_run(&mut self) -> Result<(), BlockError> {
        let end = self.header.size_bytes.min(self.run_at + self.run.len() as u64);
        let len = end.saturating_sub(self.run_at) as usize;
        let done = self.device.write_at(self.run_at, &self.run[..len], false);
        self.run.clear();
        done
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{ByteSize, ChunkSize, MemDevice};

    use super::*;
    use crate::stream::frame::Names;

    #[test]
    fn of_a_stream_whose_header_alone_has_come_nothing_is_stored_and_nothing_marked() {
        let header = Header {
            names: Names { base: 0, snapshot: 7 },
            name: "main@one".to_owned(),
            base_name: String::new(),
            chunk_size: ChunkSize::new(ByteSize(4096)).unwrap(),
            size_bytes: 1 << 20,
            created_seconds: 0,
        };
        let device = MemDevice::new(receiving_bytes(1 << 20, 4096).unwrap());
        let mut receiver = Receiver::new(header, &device);
        assert_eq!((receiver.stored_bytes(), receiver.marked_bytes()), (0, 0));
        receiver.marked().unwrap();
        assert_eq!((receiver.stored_bytes(), receiver.marked_bytes()), (0, 0));
    }
}
