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
                let mut passes = 0;
                let start = loop {
                    match self.load_run(run, &mut scratch.stored) {
                        Ok(start) => break start,
                        // It may be on its way from memory to the store.
                        Err(FetchError::Gone) if passes < READ_PASSES => passes += 1,
                        Err(error) => {
                            self.explain(snapshot, first, entries, error)?;
                            return Err(PoolError::VolumeDeleted);
                        }
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
