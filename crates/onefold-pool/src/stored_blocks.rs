//! Stored blocks by their full fingerprints, for senders of streams.
//! Room: onefold-pool.
//! Invariant: what is handed on was read, and hashed anew to the fingerprint asked for.

use onefold_block::Lba;
use onefold_content::Fingerprint;

use crate::engine::Inner;
use crate::format::container::kept;
use crate::plan::{BATCH_CHUNKS, Named};
use crate::pool::Pool;
use crate::stream::Naming;

impl Pool {
    /// How this pool names blocks; `None` where equal names may be other blocks.
    pub fn naming(&self) -> Option<Naming> {
        let (settings, key) = (&self.inner.settings, self.inner.identity.key);
        let (kind, chunk_size) = (settings.fingerprint, settings.chunk_size);
        kind.is_strong().then_some(Naming { kind, key, chunk_size })
    }

    /// Hand on the number and the bytes of each block that is stored and found. Some that are
    /// stored may not be.
    pub fn stored_blocks(&self, wanted: &[Fingerprint], found: &mut dyn FnMut(usize, &[u8])) {
        if self.inner.settings.fingerprint.is_strong() {
            for (batch, wanted) in wanted.chunks(BATCH_CHUNKS).enumerate() {
                self.inner.stored_batch(batch * BATCH_CHUNKS, wanted, found);
            }
        }
    }
}

impl Inner {
    fn stored_batch(
        &self,
        first: usize,
        wanted: &[Fingerprint],
        found: &mut dyn FnMut(usize, &[u8]),
    ) {
        let mut scratch = self.take_scratch();
        let names: Vec<Fingerprint> = wanted.iter().map(kept).collect();
        scratch.hashes.clear();
        scratch.hashes.extend(names.iter().map(Fingerprint::prefix64));
        let mut candidates = Vec::new();
        self.index.lookup_many(&scratch.hashes, &mut candidates);
        self.ask_runs(&scratch, &mut candidates);
        let mut block = vec![0; self.chunk_bytes()];
        for (at, ((fingerprint, whole), candidates)) in
            names.iter().zip(wanted).zip(&candidates).enumerate()
        {
            let (number, chunk) = (first + at, &[][..]);
            let named = Named { number, chunk, fingerprint, lba: Lba::new(number as u64) };
            let Some(verified) = self.find_duplicate(candidates, &named, &mut scratch) else {
                continue;
            };
            // It may be gone by now, or damaged: then it is not here.
            let read = self.read_one(verified.pba(), &mut block, &mut scratch);
            if read.is_ok() && self.fingerprinter.hash(&block) == *whole {
                found(number, &block);
            }
        }
        self.give_scratch(scratch);
    }
}
