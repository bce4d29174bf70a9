//! Copying what can be read of a volume, past what cannot.
//! Room: onefold.
//! Invariant: what is not listed as damaged is in the target as it is in the volume; what is listed
//! reads as zeroes there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_block::{BlockError, Extent, ExtentKind};
use serde::Serialize;

use super::target::Target;
use super::{Moved, PIECE_BYTES, Walk, in_parallel, workers};
use crate::failure::{Failure, Result};
use crate::operate::remote_volume::Asked;
use crate::progress::Bar;

/// A range of a volume that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damaged {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Why, as the first of its blocks tells.
    pub problem: String,
}

/// Whether an error says that these blocks cannot be read, and perhaps others can.
fn is_local(error: &BlockError) -> bool {
    matches!(error, BlockError::Corrupt(_) | BlockError::Io { .. })
}

/// Copy all that can be read of a volume into a target, and zeroes for the rest.
pub fn export_readable(
    volume: &dyn Asked,
    name: &str,
    target: &Target,
    bar: &Bar,
) -> Result<(Moved, Vec<Damaged>)> {
    let walk = Mutex::new(Walk::default());
    let export =
        Salvage { volume, name, target, damage: Mutex::default(), data_bytes: AtomicU64::new(0) };
    let workers = if target.is_stream() { 1 } else { workers() };
    in_parallel(workers, |stop| {
        let mut buf = vec![0; PIECE_BYTES];
        while !stop.load(Ordering::Relaxed) {
            let step = {
                let walk = &mut *walk.lock().expect("no worker panics with the walk");
                walk.next_readable(volume).map_err(|error| export.failed(&error))?
            };
            match step {
                None => break,
                Some((offset, extent, Some(error))) => {
                    export.skip(offset, extent.len_bytes, &error)?;
                }
                Some((offset, extent, None)) if extent.kind == ExtentKind::Data => {
                    export.copy(offset, &mut buf[..extent.len_bytes as usize])?;
                    bar.inc(extent.len_bytes);
                }
                Some((offset, extent, None)) => target.zero(offset, extent.len_bytes)?,
            }
        }
        Ok(())
    })?;
    let data_bytes = export.data_bytes.into_inner();
    let damage = merged(export.damage.into_inner().expect("no worker panics with the list"));
    Ok((Moved { bytes: volume.size_bytes(), data_bytes }, damage))
}

/// What the workers of one export share.
struct Salvage<'a> {
    volume: &'a dyn Asked,
    name: &'a str,
    target: &'a Target,
    damage: Mutex<Vec<Damaged>>,
    /// Copied so far.
    data_bytes: AtomicU64,
}

impl Salvage<'_> {
    fn failed(&self, error: &BlockError) -> Failure {
        Failure::volume(self.name, error)
    }

    /// Zeroes for a range that cannot be read.
    fn skip(&self, offset: u64, bytes: u64, error: &BlockError) -> Result<()> {
        let found = Damaged { offset, bytes, problem: error.to_string() };
        self.damage.lock().expect("no worker panics with the list").push(found);
        self.target.zero(offset, bytes)
    }

    /// Copy a piece, chunk by chunk if it cannot be read as a whole.
    fn copy(&self, offset: u64, piece: &mut [u8]) -> Result<()> {
        if self.read(offset, piece)?.is_ok() {
            return self.write(offset, piece);
        }
        let chunk = self.volume.preferred_block_bytes() as usize;
        for (at, block) in (offset..).step_by(chunk).zip(piece.chunks_mut(chunk)) {
            match self.read(at, block)? {
                Ok(()) => self.write(at, block)?,
                Err(error) => self.skip(at, block.len() as u64, &error)?,
            }
        }
        Ok(())
    }

    /// The outer error ends the export, the inner one costs this piece.
    fn read(&self, offset: u64, piece: &mut [u8]) -> Result<std::result::Result<(), BlockError>> {
        match self.volume.read_at(offset, piece) {
            Err(error) if !is_local(&error) => Err(self.failed(&error)),
            result => Ok(result),
        }
    }

    fn write(&self, offset: u64, piece: &[u8]) -> Result<()> {
        self.target.write(offset, piece)?;
        self.data_bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// In order, neighbours as one.
fn merged(mut damage: Vec<Damaged>) -> Vec<Damaged> {
    damage.sort_unstable_by_key(|range| range.offset);
    let mut merged: Vec<Damaged> = Vec::new();
    for range in damage {
        match merged.last_mut() {
            Some(last) if last.offset + last.bytes == range.offset => last.bytes += range.bytes,
            _ => merged.push(range),
        }
    }
    merged
}

/// Where a piece begins, what it is, and why it cannot be read if its map is damaged.
type Step = (u64, Extent, Option<BlockError>);

impl Walk {
    /// The next extent, also where the map is damaged.
    fn next_readable(
        &mut self,
        volume: &dyn Asked,
    ) -> std::result::Result<Option<Step>, BlockError> {
        let chunk = u64::from(volume.preferred_block_bytes());
        match self.next_piece(volume, PIECE_BYTES as u64) {
            Ok(piece) => return Ok(piece.map(|(offset, extent)| (offset, extent, None))),
            Err(error) if is_local(&error) => {}
            Err(error) => return Err(error),
        }
        // One block by itself may be told where all that follow it cannot.
        let offset = self.at;
        let one = chunk.min(volume.size_bytes() - offset);
        match volume.block_status(offset, one) {
            Ok(extents) if !extents.is_empty() => {
                self.extents.extend(extents);
                let piece = self.next_piece(volume, PIECE_BYTES as u64)?;
                Ok(piece.map(|(offset, extent)| (offset, extent, None)))
            }
            Ok(_) => Ok(None),
            Err(error) if is_local(&error) => {
                self.at = volume.damaged_until(offset).max(offset + one);
                let len_bytes = self.at - offset;
                Ok(Some((offset, Extent { len_bytes, kind: ExtentKind::Data }, Some(error))))
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use onefold_block::{BlockDevice, ZeroOptions};

    use super::*;

    /// A disk of eight blocks of the byte 7, the second a hole, of which some cannot be read.
    struct Bad {
        /// What reading the fourth block fails with.
        error: fn() -> BlockError,
        /// Whether the map of the last three blocks is damaged.
        map: bool,
        /// Bytes past the eight blocks.
        tail: u64,
    }

    const BLOCK: u64 = 4096;

    impl BlockDevice for Bad {
        fn size_bytes(&self) -> u64 {
            8 * BLOCK + self.tail
        }

        fn preferred_block_bytes(&self) -> u32 {
            BLOCK as u32
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), BlockError> {
            buf.fill(7);
            let read = offset..offset + buf.len() as u64;
            if read.contains(&(3 * BLOCK)) { Err((self.error)()) } else { Ok(()) }
        }

        fn block_status(
            &self,
            offset: u64,
            len: u64,
        ) -> std::result::Result<Vec<Extent>, BlockError> {
            assert!(offset + len <= self.size_bytes(), "past the end");
            if self.map && offset + len > 5 * BLOCK {
                return Err(BlockError::Corrupt("the map".to_owned()));
            }
            let block = |at: u64| Extent {
                len_bytes: BLOCK,
                kind: if at == 1 { ExtentKind::Hole } else { ExtentKind::Data },
            };
            Ok((offset / BLOCK..(offset + len) / BLOCK).map(block).collect())
        }

        fn write_at(&self, _: u64, _: &[u8], _: bool) -> std::result::Result<(), BlockError> {
            Err(BlockError::ReadOnly)
        }

        fn write_zeroes(
            &self,
            _: u64,
            _: u64,
            _: ZeroOptions,
        ) -> std::result::Result<(), BlockError> {
            Err(BlockError::ReadOnly)
        }

        fn trim(&self, _: u64, _: u64, _: bool) -> std::result::Result<(), BlockError> {
            Err(BlockError::ReadOnly)
        }

        fn flush(&self) -> std::result::Result<(), BlockError> {
            Ok(())
        }
    }

    impl Asked for Bad {
        fn damaged_until(&self, _: u64) -> u64 {
            8 * BLOCK
        }

        fn resized(&self, _: u64) {}
    }

    fn export_of(bad: &Bad, to: &Path) -> Result<(Moved, Vec<Damaged>, Vec<u8>)> {
        let target = Target::open(to, bad.size_bytes(), true)?;
        let (moved, damage) = export_readable(bad, "main", &target, &Bar::hidden())?;
        target.finish()?;
        Ok((moved, damage, std::fs::read(to).unwrap()))
    }

    #[test]
    fn damage_costs_what_it_is_in_and_is_listed_and_other_failures_end_the_export() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("out");
        let corrupt = || BlockError::Corrupt("block 3".to_owned());
        let zeroes = |blocks: &[usize]| {
            let byte = |block: usize| if block == 1 || blocks.contains(&block) { 0 } else { 7 };
            (0..8).flat_map(|block| [byte(block); BLOCK as usize]).collect::<Vec<u8>>()
        };
        let damaged = |offset, bytes, error: &BlockError| Damaged {
            offset: offset * BLOCK,
            bytes: bytes * BLOCK,
            problem: error.to_string(),
        };
        let (moved, damage, out) =
            export_of(&Bad { error: corrupt, map: false, tail: 0 }, &to).unwrap();
        assert_eq!(damage, [damaged(3, 1, &corrupt())]);
        assert!(out == zeroes(&[3]));
        assert_eq!(moved, Moved { bytes: 8 * BLOCK, data_bytes: 6 * BLOCK });

        let (moved, damage, out) =
            export_of(&Bad { error: corrupt, map: true, tail: 0 }, &to).unwrap();
        let map = BlockError::Corrupt("the map".to_owned());
        assert_eq!(damage, [damaged(3, 1, &corrupt()), damaged(5, 3, &map)]);
        assert!(out == zeroes(&[3, 5, 6, 7]) && moved.data_bytes == 3 * BLOCK);

        let gone = Bad { error: || BlockError::ShuttingDown, map: false, tail: 0 };
        let failure = export_of(&gone, &to).unwrap_err();
        assert!(failure.message.contains("main"), "{}", failure.message);
    }

    #[test]
    fn neighbours_are_one_range_with_the_first_ones_problem() {
        let range = |offset, bytes, problem: &str| {
            let problem = problem.to_owned();
            Damaged { offset, bytes, problem }
        };
        let found = vec![range(8, 4, "b"), range(0, 4, "a"), range(12, 4, "c")];
        assert_eq!(merged(found), [range(0, 4, "a"), range(8, 8, "b")]);
    }

    #[test]
    fn what_is_skipped_and_copied_is_shown_and_an_end_that_is_no_whole_block_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("out");
        let target = Target::open(&to, 8 * BLOCK, true).unwrap();
        let bar = Bar::hidden();
        let corrupt = || BlockError::Corrupt("block 3".to_owned());
        let bad = Bad { error: corrupt, map: true, tail: 0 };
        let (moved, _) = export_readable(&bad, "main", &target, &bar).unwrap();
        // The pieces that were looked at, readable or not: five blocks but for the hole.
        assert_eq!((bar.counts().0, moved.data_bytes), (4 * BLOCK, 3 * BLOCK));
        let cut = Bad { error: corrupt, map: true, tail: 100 };
        let (moved, damage, _) = export_of(&cut, &folder.path().join("cut")).unwrap();
        assert_eq!(moved.bytes, 8 * BLOCK + 100);
        assert_eq!((damage[1].offset, damage[1].bytes), (5 * BLOCK, 3 * BLOCK + 100));
        assert!(is_local(&corrupt()) && !is_local(&BlockError::ReadOnly));
    }
}
