//! Decoding: the working memory and the three ways in (hard flips, hard min-sum, soft min-sum).
//! Room: onefold-code.   In: received data and parity.   Out: corrected in place, and how many.

use super::code::QcLdpc;
use super::minsum::MinSum;
use crate::error::CodeError;

/// What a decoder says. A wrong codeword (a miscorrection) looks like `Corrected`: only a CRC
/// over the page (the page codec keeps one) can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// Nothing was wrong.
    Clean,
    /// So many bits of data and parity were flipped back.
    Corrected(usize),
    /// No codeword was found; data and parity are as received.
    Failed,
}

/// Decoder of one code, with its working memory; nothing is allocated while decoding.
#[derive(Debug, Clone)]
pub struct LdpcDecoder {
    pub(super) code: QcLdpc,
    minsum: MinSum,
    /// Hard decisions, data then parity.
    pub(super) hard: Vec<u8>,
    /// Scratch of the flipping decoder.
    pub(super) flip: super::flip::FlipScratch,
    max_iterations: usize,
}

/// Iterations after which decoders give up, unless told otherwise.
const MAX_ITERATIONS: usize = 20;

impl LdpcDecoder {
    /// A decoder of `code`.
    pub fn new(code: QcLdpc) -> Self {
        Self {
            minsum: MinSum::new(&code),
            hard: vec![0; code.codeword_bits() / 8],
            flip: super::flip::FlipScratch::new(&code),
            code,
            max_iterations: MAX_ITERATIONS,
        }
    }

    /// The same decoder with another limit of iterations.
    #[must_use]
    pub fn with_max_iterations(mut self, iterations: usize) -> Self {
        self.max_iterations = iterations;
        self
    }

    /// The code.
    pub fn code(&self) -> &QcLdpc {
        &self.code
    }

    /// Iterations of the last decoding by min-sum or flipping.
    pub fn iterations(&self) -> usize {
        self.minsum.iterations
    }

    fn load(&mut self, data: &[u8], parity: &[u8]) -> Result<bool, CodeError> {
        self.minsum.iterations = 0;
        if self.code.is_codeword(data, parity)? {
            return Ok(true);
        }
        self.hard[..data.len()].copy_from_slice(data);
        self.hard[data.len()..].copy_from_slice(parity);
        Ok(false)
    }

    /// Puts the hard decisions back and counts the flips.
    fn finish(&self, converged: bool, data: &mut [u8], parity: &mut [u8]) -> Decoded {
        if !converged {
            return Decoded::Failed;
        }
        let mut flipped = 0;
        for (old, &new) in data.iter_mut().chain(parity).zip(&self.hard) {
            flipped += (*old ^ new).count_ones() as usize;
            *old = new;
        }
        if flipped == 0 { Decoded::Clean } else { Decoded::Corrected(flipped) }
    }

    /// Normalized min-sum on hard decisions.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn decode(&mut self, data: &mut [u8], parity: &mut [u8]) -> Result<Decoded, CodeError> {
        if self.load(data, parity)? {
            return Ok(Decoded::Clean);
        }
        self.minsum.load_hard(&self.hard);
        let converged = self.minsum.run(&self.code, self.max_iterations, &mut self.hard);
        Ok(self.finish(converged, data, parity))
    }

    /// Normalized min-sum on soft values: one per codeword bit, data first, positive for 0; the
    /// magnitude is the reliability, at most 31 (larger values count as 31). `data` and `parity`
    /// hold the received hard decisions and are corrected in place.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn decode_soft(
        &mut self,
        soft: &[i8],
        data: &mut [u8],
        parity: &mut [u8],
    ) -> Result<Decoded, CodeError> {
        if soft.len() != self.code.codeword_bits() {
            let accepted = self.code.codeword_bits();
            return Err(CodeError::Length { what: "soft values", got: soft.len(), accepted });
        }
        if self.load(data, parity)? {
            return Ok(Decoded::Clean);
        }
        self.minsum.load_soft(soft);
        let converged = self.minsum.run(&self.code, self.max_iterations, &mut self.hard);
        Ok(self.finish(converged, data, parity))
    }

    /// Parallel bit flipping: the cheap hard-decision decoder of small controllers.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn decode_flip(
        &mut self,
        data: &mut [u8],
        parity: &mut [u8],
    ) -> Result<Decoded, CodeError> {
        if self.load(data, parity)? {
            return Ok(Decoded::Clean);
        }
        let (iterations, converged) =
            self.flip.run(&self.code, self.max_iterations, &mut self.hard);
        self.minsum.iterations = iterations;
        Ok(self.finish(converged, data, parity))
    }
}
