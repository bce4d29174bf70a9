//! Reading stored blocks as they are stored, without decoding them.
//! Room: onefold-pool.
//! Invariant: what is handed on was verified by its record's own checksum.

use onefold_block::Lba;
use onefold_content::Codec;

use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::format::record;
use crate::pba::MapEntry;
use crate::read::{FetchError, READ_PASSES, Wanted, run_len};

impl Inner {
    /// Hand on those of the blocks from `first` that are stored, in order, with their numbers.
    /// `entries` are those of a snapshot, which never change.
    pub fn read_encoded(
        &self,
        snapshot: &VolumeState,
        first: Lba,
        entries: &[MapEntry],
        each: &mut dyn FnMut(usize, Codec, &[u8]),
    ) -> Result<(), PoolError> {
        if let Some(number) = entries.iter().position(|entry| *entry == MapEntry::Lost) {
            self.explain(snapshot, first, entries, FetchError::Lost(number))?;
        }
        let wanted: Vec<Wanted> = entries
            .iter()
            .enumerate()
            .filter_map(|(number, entry)| entry.pba().map(|pba| Wanted { pba, number }))
            .collect();
        let mut scratch = self.take_scratch();
        let mut from = 0;
        let result = (|| {
            while from < wanted.len() {
                let run = &wanted[from..from + run_len(&wanted[from..])];
                // It may be on its way from memory to the store.
                let mut loaded = std::iter::repeat_with(|| self.load_run(run, &mut scratch.stored));
                let loaded = loaded
                    .by_ref()
                    .take(READ_PASSES)
                    .find(|loaded| !matches!(loaded, Err(FetchError::Gone)));
                let start = match loaded.unwrap_or(Err(FetchError::Gone)) {
                    Ok(start) => start,
                    Err(error) => {
                        self.explain(snapshot, first, entries, error)?;
                        return Err(PoolError::VolumeDeleted);
                    }
                };
                for wanted in run {
                    let record = wanted.record(&scratch.stored, start);
                    match record::verify(record, wanted.pba) {
                        Ok((codec, stored)) => each(wanted.number, codec, stored),
                        Err(problem) => {
                            let damaged = FetchError::Damaged(wanted.pba, problem);
                            self.explain(snapshot, first, entries, damaged)?;
                        }
                    }
                }
                from += run.len();
            }
            Ok(())
        })();
        self.give_scratch(scratch);
        result
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, Folder as _, SimFolder, SplitMix64};

    use super::*;
    use crate::format::container::HEADER_BYTES;
    use crate::{OpenOptions, Pool, PoolSettings};

    /// Numbers of the blocks handed on of four, of which the last is a hole, and what is said of
    /// others.
    fn read(folder: &SimFolder, lost: bool) -> (Vec<usize>, String) {
        let pool = Pool::open(folder, &OpenOptions::default()).unwrap();
        let snapshot = pool.inner.snapshot_by_name("main@one").unwrap();
        let (mut entries, mut numbers) = (Vec::new(), Vec::new());
        pool.inner.map.entries(snapshot.number, Lba::new(0), 4, &mut entries).unwrap();
        if lost {
            entries[2] = MapEntry::Lost;
        }
        let each = &mut |number, _, _: &[u8]| numbers.push(number);
        let read = pool.inner.read_encoded(&snapshot, Lba::new(0), &entries, each);
        (numbers, read.err().map(|error| error.to_string()).unwrap_or_default())
    }

    #[test]
    fn what_cannot_be_read_is_named_and_never_left_out() {
        let folder = SimFolder::new();
        let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        volume.write_at(0, &SplitMix64::new(1).bytes(3 * 4096), false).unwrap();
        drop(volume);
        pool.snapshot("main@one", 0, false).unwrap();
        pool.close().unwrap();
        // Another container, as a pool without any would not be opened.
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        pool.volume("main").unwrap().write_at(1 << 19, &[7; 4096], false).unwrap();
        pool.close().unwrap();
        assert_eq!(read(&folder, false), (vec![0, 1, 2], String::new()));
        let (_, error) = read(&folder, true);
        assert!(error.contains("LBA 2 "), "{error}");
        let containers = folder.subfolder("containers").unwrap();
        let name = &containers.list().unwrap()[0];
        // Amid the second record.
        let (media, mut byte) = (containers.open(name).unwrap(), [0]);
        let at = HEADER_BYTES as u64 + 6000;
        media.read(at, &mut byte).unwrap();
        media.write(at, &[byte[0] ^ 1]).unwrap();
        let (_, error) = read(&folder, false);
        assert!(error.contains("LBA 1,"), "{error}");
        drop(media);
        containers.remove(name).unwrap();
        let (numbers, error) = read(&folder, false);
        assert!(numbers.is_empty() && error.contains("does not exist"), "{error}");
    }
}
