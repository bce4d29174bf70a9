//! What an array of bytes counts.
//! Room: onefold-flash.

use serde::{Deserialize, Serialize};

/// Counts since the array was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NandHealth {
    /// Pages read, retries not counted.
    pub reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Times that the store was asked to make things durable.
    pub syncs: u64,
    /// Readings with shifted thresholds.
    pub retries: u64,
    /// Bits read, retries counted.
    pub bits_read: u64,
    /// Bits that were read wrong.
    pub raw_bit_errors: u64,
    /// Pages that came back after correction.
    pub corrected_pages: u64,
    /// Bits corrected in them.
    pub corrected_bits: u64,
    /// Decodings that the page's CRC-32 caught as wrong.
    pub miscorrected: u64,
    /// Pages with damaged cells that second copies brought back.
    pub rescued: u64,
    /// Pages that no retry brought back.
    pub uncorrectable: u64,
    /// Pages that were moved though they could not be read: their content is lost.
    pub lost_pages: u64,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
    /// Pages moved as they were stored.
    pub copies_as_stored: u64,
    /// Pages scrambled and encoded anew to be moved.
    pub copies_encoded: u64,
    /// Pages programmed whose plain data the cells hold: the host had scrambled them ahead.
    pub plain_programs: u64,
}

impl NandHealth {
    /// Both together.
    #[must_use]
    pub const fn plus(&self, later: &Self) -> Self {
        Self {
            reads: self.reads + later.reads,
            programs: self.programs + later.programs,
            erases: self.erases + later.erases,
            syncs: self.syncs + later.syncs,
            retries: self.retries + later.retries,
            bits_read: self.bits_read + later.bits_read,
            raw_bit_errors: self.raw_bit_errors + later.raw_bit_errors,
            corrected_pages: self.corrected_pages + later.corrected_pages,
            corrected_bits: self.corrected_bits + later.corrected_bits,
            miscorrected: self.miscorrected + later.miscorrected,
            rescued: self.rescued + later.rescued,
            uncorrectable: self.uncorrectable + later.uncorrectable,
            lost_pages: self.lost_pages + later.lost_pages,
            program_failures: self.program_failures + later.program_failures,
            erase_failures: self.erase_failures + later.erase_failures,
            copies_as_stored: self.copies_as_stored + later.copies_as_stored,
            copies_encoded: self.copies_encoded + later.copies_encoded,
            plain_programs: self.plain_programs + later.plain_programs,
        }
    }
}
