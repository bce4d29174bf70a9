//! A volume becomes longer or shorter.
//! Room: onefold-pool.
//! Invariant: past the end of a volume there is nothing: what it grows by are zeroes, whoever wrote
//! to it while it became shorter.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use onefold_block::{ByteSize, Lba};

use crate::engine::{Engine, Inner, VolumeState};
use crate::error::PoolError;
use crate::map::{ENTRIES_PER_PAGE, height_for};
use crate::pba::MapEntry;
use crate::provide::Needs;
use crate::sync;

impl Inner {
    /// Nobody else changes the size or the note of a volume meanwhile.
    pub fn lock_properties(&self) -> MutexGuard<'_, ()> {
        sync::point("properties");
        sync::lock(&self.properties)
    }

    /// Change a volume's size, but for what is told of it if this fails.
    pub fn resize(
        &self,
        volume: &VolumeState,
        (before, size): (u64, ByteSize),
        discard: bool,
        blocks: u64,
    ) -> Result<(), PoolError> {
        let chunk = self.chunk_bytes() as u64;
        let before_blocks = before.div_ceil(chunk);
        if size.bytes() < before {
            {
                // Whoever writes looks at the size under this lock: from now on nothing comes past
                // the new end, and all that did is seen here.
                let _engine = self.engine();
                volume.size_bytes.store(size.bytes(), Ordering::Release);
            }
            if !discard {
                self.refuse_loss(volume, size, before)?;
            }
            // The tail of the last chunk must read as zeroes if the volume grows again.
            let past = before_blocks * chunk - size.bytes();
            self.zero_range(volume, size.bytes(), past, MapEntry::Hole)?;
        } else {
            self.clear_tail(volume, before)?;
        }
        self.clear_past(volume, before_blocks, blocks)?;
        let needs = Needs::of_fill(usize::from(height_for(blocks)), 0);
        drop(self.engine_with(&needs)?);
        let resize = &mut |engine: &mut Engine| {
            self.set_aside(engine, &needs)?;
            self.map.resize(volume.number, blocks)?;
            volume.next_size_bytes.store(size.bytes(), Ordering::Release);
            Ok(())
        };
        let mut undone = Ok(());
        let done = self.checkpoint_or_undo(resize, || {
            volume.next_size_bytes.store(before, Ordering::Release);
            undone = self.map.resize(volume.number, before_blocks);
        });
        undone.and(done)
    }

    /// Refuse to make a volume of `before` bytes so short that stored data would be lost.
    pub fn refuse_loss(
        &self,
        volume: &VolumeState,
        size: ByteSize,
        before: u64,
    ) -> Result<(), PoolError> {
        let lost = self.stored_past(volume, size.bytes(), before)?;
        if lost > 0 {
            let (name, lost) = (volume.name(), ByteSize(lost));
            return Err(PoolError::ShrinkLosesData { name, size, lost });
        }
        Ok(())
    }

    /// Bytes of blocks with stored data that lie wholly or partly past `offset`, of `upto` bytes.
    fn stored_past(&self, volume: &VolumeState, offset: u64, upto: u64) -> Result<u64, PoolError> {
        let chunk = self.chunk_bytes() as u64;
        let (mut at, end) = (offset / chunk, upto.div_ceil(chunk));
        let mut stored = 0;
        while at < end {
            let (run, _) = self.map.uniform_run(volume.number, Lba::new(at), end - at)?;
            if run > 0 {
                at += run;
                continue;
            }
            let batch = 512.min(end - at);
            let mut entries = Vec::with_capacity(batch as usize);
            self.map.entries(volume.number, Lba::new(at), batch, &mut entries)?;
            for (lba, entry) in (at..).zip(&entries) {
                if entry.pba().is_some()
                    && (lba > offset / chunk || self.tail_matters(volume, offset, upto)?)
                {
                    stored += chunk;
                }
            }
            at += batch;
        }
        Ok(stored)
    }

    /// Whether the chunk that `offset` cuts holds anything but zeroes from there on.
    fn tail_matters(
        &self,
        volume: &VolumeState,
        offset: u64,
        upto: u64,
    ) -> Result<bool, PoolError> {
        let chunk = self.chunk_bytes() as u64;
        let end = (offset / chunk + 1) * chunk;
        let mut tail = vec![0; (end.min(upto) - offset) as usize];
        self.read(volume, offset, &mut tail)?;
        Ok(tail.iter().any(|&byte| byte != 0))
    }

    /// Before a volume grows: in the block in which it ends there is nothing past its end, but a
    /// repair may have it as it was when the volume was longer.
    fn clear_tail(&self, volume: &VolumeState, end: u64) -> Result<(), PoolError> {
        let upto = end.next_multiple_of(self.chunk_bytes() as u64);
        if upto == end {
            return Ok(());
        }
        match self.tail_matters(volume, end, upto) {
            Ok(true) => self.zero_range(volume, end, upto - end, MapEntry::Hole),
            // What cannot be read is named when it is read.
            Err(error) if !error.is_unreadable() => Err(error),
            _ => Ok(()),
        }
    }

    /// Before a volume grows: past its end nothing can be lost, but a repair may have said so of
    /// all that is under a page in which it ends.
    fn clear_past(&self, volume: &VolumeState, end: u64, blocks: u64) -> Result<(), PoolError> {
        let upto = blocks.min(self.map.blocks_max(volume.number)?);
        let mut at = end;
        while at < upto {
            let (number, lba, mut entries) = (volume.number, Lba::new(at), Vec::new());
            let run = self.map.uniform_run(number, lba, upto - at).and_then(|(run, entry)| {
                if run > 0 {
                    entries.push(entry);
                    return Ok(run);
                }
                // Leaf by leaf: one that cannot be read keeps nothing back of those before it.
                let per_leaf = ENTRIES_PER_PAGE as u64;
                let rest = (per_leaf - at % per_leaf).min(upto - at);
                self.map.entries(number, lba, rest, &mut entries)?;
                Ok(rest)
            });
            match run {
                Ok(run) => {
                    if entries.contains(&MapEntry::Lost) {
                        self.fill_blocks(volume, lba, run, MapEntry::Hole)?;
                    }
                    at += run;
                }
                // It is for a repair, and named when it is read.
                Err(error) if error.is_unreadable() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
