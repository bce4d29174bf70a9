//! The code over a whole page: codewords side by side, and a CRC-32 that notices miscorrections.
//! Room: onefold-code.   In: page.   Out: parity; corrected page and a verdict.
//! Invariants: a page that decodes to other bits than were written is reported, unless its CRC-32
//! collides too.

use crate::bch::Bch;
use crate::error::CodeError;
use crate::ldpc::{Decoded, LdpcDecoder, QcLdpc};

/// What protects the codewords of a page.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "one per page codec, never in bulk")]
pub enum PageCode {
    /// A quasi-cyclic LDPC code.
    Ldpc(QcLdpc),
    /// A binary BCH code.
    Bch(Bch),
    /// CRC-32 (IEEE) over so many bytes each: detects, corrects nothing.
    Crc32 {
        /// Bytes under one CRC.
        data_bytes: usize,
    },
}

impl PageCode {
    /// Data bytes of a codeword.
    pub fn data_bytes(&self) -> usize {
        match self {
            Self::Ldpc(code) => code.data_bytes(),
            Self::Bch(code) => code.data_bytes(),
            Self::Crc32 { data_bytes } => *data_bytes,
        }
    }

    /// Parity bytes of a codeword.
    pub fn parity_bytes(&self) -> usize {
        match self {
            Self::Ldpc(code) => code.parity_bytes(),
            Self::Bch(code) => code.parity_bytes(),
            Self::Crc32 { .. } => 4,
        }
    }

    /// Codewords of a page.
    ///
    /// # Errors
    /// [`CodeError::PageSize`].
    pub fn codewords(&self, page_bytes: usize) -> Result<usize, CodeError> {
        let codeword = self.data_bytes();
        if page_bytes == 0 || codeword == 0 || !page_bytes.is_multiple_of(codeword) {
            return Err(CodeError::PageSize { page: page_bytes, codeword });
        }
        Ok(page_bytes / codeword)
    }

    /// Writes the parities of all codewords of `page`, one after another.
    ///
    /// # Errors
    /// [`CodeError::PageSize`], [`CodeError::Length`] for the parity buffer.
    pub fn encode_page(&self, page: &[u8], parity: &mut [u8]) -> Result<(), CodeError> {
        let accepted = self.codewords(page.len())? * self.parity_bytes();
        if parity.len() != accepted {
            return Err(CodeError::Length { what: "page parity", got: parity.len(), accepted });
        }
        let pairs =
            page.chunks_exact(self.data_bytes()).zip(parity.chunks_exact_mut(self.parity_bytes()));
        for (data, parity) in pairs {
            match self {
                Self::Ldpc(code) => code.encode(data, parity)?,
                Self::Bch(code) => code.encode(data, parity)?,
                Self::Crc32 { .. } => {
                    parity.copy_from_slice(&crc32fast::hash(data).to_le_bytes());
                }
            }
        }
        Ok(())
    }
}

/// What became of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageStatus {
    /// Every codeword and the CRC were right as read.
    Clean,
    /// So many bits were corrected, and the CRC agrees.
    Corrected(usize),
    /// So many codewords could not be decoded.
    Failed {
        /// Codewords without a decision.
        codewords: usize,
    },
    /// Every codeword decoded, but the CRC says that one decoded to the wrong word.
    Miscorrected,
}

/// Encodes and decodes pages with a CRC-32 over the data.
#[derive(Debug, Clone)]
pub struct PageCodec {
    code: PageCode,
    decoder: Option<LdpcDecoder>,
    page_bytes: usize,
}

impl PageCodec {
    /// A codec for pages of `page_bytes`.
    ///
    /// # Errors
    /// [`CodeError::PageSize`].
    pub fn new(code: PageCode, page_bytes: usize) -> Result<Self, CodeError> {
        code.codewords(page_bytes)?;
        let decoder = match &code {
            PageCode::Ldpc(code) => Some(LdpcDecoder::new(code.clone())),
            _ => None,
        };
        Ok(Self { code, decoder, page_bytes })
    }

    /// The code.
    pub fn code(&self) -> &PageCode {
        &self.code
    }

    /// Parity bytes of a page, without the CRC.
    pub fn parity_bytes(&self) -> usize {
        self.page_bytes / self.code.data_bytes() * self.code.parity_bytes()
    }

    /// Writes the parity of `page` and returns the CRC-32 to store with it.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn encode(&self, page: &[u8], parity: &mut [u8]) -> Result<u32, CodeError> {
        self.check(page.len(), parity.len())?;
        self.code.encode_page(page, parity)?;
        Ok(crc32fast::hash(page))
    }

    fn check(&self, page: usize, parity: usize) -> Result<(), CodeError> {
        if page != self.page_bytes {
            return Err(CodeError::Length { what: "page", got: page, accepted: self.page_bytes });
        }
        if parity != self.parity_bytes() {
            let accepted = self.parity_bytes();
            return Err(CodeError::Length { what: "page parity", got: parity, accepted });
        }
        Ok(())
    }

    /// Decodes a page in place and checks it against the CRC stored with it.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn decode(
        &mut self,
        page: &mut [u8],
        parity: &mut [u8],
        crc: u32,
    ) -> Result<PageStatus, CodeError> {
        self.check(page.len(), parity.len())?;
        let (mut corrected, mut failed) = (0, 0);
        let pairs = page
            .chunks_exact_mut(self.code.data_bytes())
            .zip(parity.chunks_exact_mut(self.code.parity_bytes()));
        for (data, parity) in pairs {
            let said = match (&self.code, &mut self.decoder) {
                (PageCode::Bch(code), _) => code.decode(data, parity)?,
                (_, Some(decoder)) => decoder.decode(data, parity)?,
                _ if crc32fast::hash(data).to_le_bytes() == parity => Decoded::Clean,
                _ => Decoded::Failed,
            };
            match said {
                Decoded::Clean => {}
                Decoded::Corrected(bits) => corrected += bits,
                Decoded::Failed => failed += 1,
            }
        }
        Ok(if failed > 0 {
            PageStatus::Failed { codewords: failed }
        } else if crc32fast::hash(page) != crc {
            PageStatus::Miscorrected
        } else if corrected > 0 {
            PageStatus::Corrected(corrected)
        } else {
            PageStatus::Clean
        })
    }
}
