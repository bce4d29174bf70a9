//! The parity of pages as it is stored: what SES-Dedup makes fingerprints of.
//! Room: onefold-flash.   Source: [ses-dedup] sec. III.

use onefold_code::ParityFingerprint;

use super::ByteNand;
use super::store::Store;
use crate::nand::NandError;

/// The parity of a page as the flash holds it, without errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredParity {
    /// The parity of all codewords of the scrambled page.
    pub parity: Vec<u8>,
    /// What the scrambler was loaded with; `None` where it was not used.
    pub scrambler_seed: Option<u64>,
}

impl StoredParity {
    /// The fingerprint of the page's content, from its stored parity alone (SES-Dedup).
    ///
    /// # Errors
    /// [`onefold_code::CodeError::Length`] for a fingerprint of another code or page size.
    pub fn fingerprint(&self, of: &ParityFingerprint) -> Result<u64, onefold_code::CodeError> {
        match self.scrambler_seed {
            Some(seed) => of.of_stored(seed, &self.parity),
            None => of.of_plain(&self.parity),
        }
    }
}

impl<S: Store> ByteNand<S> {
    /// The parity of a page as it is stored, corrected: what SES-Dedup makes fingerprints of.
    ///
    /// # Errors
    /// As [`crate::nand::Nand::read`].
    pub fn stored_parity(&mut self, ppn: u32) -> Result<StoredParity, NandError> {
        let record = self.fetch(ppn)?;
        let parity = self.oob[..self.channel.parity_bytes()].to_vec();
        let scrambler_seed = (!record.plain).then_some(record.scrambler_seed);
        Ok(StoredParity { parity, scrambler_seed })
    }
}
