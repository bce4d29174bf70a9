//! The way back: pages as a dump would hold them, to try recovery out.
//! Room: onefold-code.   In: scrambler, data. Out: stored pages, with out-of-band bytes and errors.
//! Invariants: same seed, same bytes.

use crate::error::CodeError;
use crate::rng::Rng;
use crate::scramble::{PageAddress, Scrambler, ScramblerSpec};

/// Makes the pages of a dump one after another, at consecutive addresses.
#[derive(Debug, Clone)]
pub struct DumpMaker {
    scrambler: Scrambler,
    next_address: u64,
    oob: usize,
    raw_bit_error_rate: f64,
    rng: Rng,
    page: Vec<u8>,
}

impl DumpMaker {
    /// Pages from `first_address` on, each followed by `oob` bytes of 0xff, with bits flipped at
    /// `raw_bit_error_rate` (in data and out-of-band bytes) from the random stream of `seed`.
    ///
    /// # Errors
    /// A description that does not compile, or an error rate outside 0 to 0.5.
    pub fn new(
        spec: &ScramblerSpec,
        first_address: u64,
        oob: usize,
        raw_bit_error_rate: f64,
        seed: u64,
    ) -> Result<Self, CodeError> {
        if !(0.0..=0.5).contains(&raw_bit_error_rate) {
            return Err(CodeError::Field {
                field: "raw bit error rate",
                value: raw_bit_error_rate.to_string(),
                accepted: "0 to 0.5",
            });
        }
        Ok(Self {
            scrambler: spec.compile()?,
            next_address: first_address,
            oob,
            raw_bit_error_rate,
            rng: Rng::new(seed),
            page: Vec::new(),
        })
    }

    /// The next page, written with `data`.
    ///
    /// # Errors
    /// [`CodeError::AddressNotCovered`].
    pub fn page(&mut self, data: &[u8]) -> Result<&[u8], CodeError> {
        self.page.clear();
        self.page.extend_from_slice(data);
        self.scrambler.scramble(&PageAddress::of(self.next_address), &mut self.page)?;
        self.page.resize(data.len() + self.oob, 0xff);
        self.rng.flip_bits(&mut self.page, self.raw_bit_error_rate);
        self.next_address = self.next_address.wrapping_add(1);
        Ok(&self.page)
    }
}
