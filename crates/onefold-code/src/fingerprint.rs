//! Fingerprints from parity that see through the scrambler.
//! Room: onefold-code.   In: parity of a scrambled page, its seed.   Out: the parity and the
//! fingerprint that the page would have unscrambled.
//! Source: [ses-dedup] sec. III eq. 2, `(V_data xor V_scr) M = ECC`; the look-up table `V_scr M` of
//! [ses-talk] is linear in the seed, so a basis of one page parity per seed bit
//! replaces one entry per address.
//! Invariants: same data, any seed, same fingerprint.
//! Cost: basis of seed bits * page parity bytes (3.75 KiB for 15 bits and 8 KiB pages); a
//! fingerprint xors 32 bytes per four seed bits and takes one CRC-64 of 32 bytes.

use crate::crc64::crc64;
use crate::error::CodeError;
use crate::page_code::PageCode;
use crate::scramble::Scrambler;

/// Bytes kept of each codeword's parity ([ses-dedup] sec. V.B).
pub const KEPT_BYTES: usize = 4;
/// Most codewords of a page.
const MAX_CODEWORDS: usize = 64;

/// How the kept bytes of a page become 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Truncation {
    /// CRC-64 over the kept bytes of all codewords.
    #[default]
    Crc64,
    /// The first byte of each of eight codewords (more per codeword if there are fewer, folded by
    /// exclusive-or if there are more).
    Byte8,
    /// The four kept bytes of two codewords, the first and the middle one.
    Cw2,
}

impl Truncation {
    /// Every way, with its name.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Crc64, "crc64"), (Self::Byte8, "byte8"), (Self::Cw2, "cw2")];

    /// The way called `name`.
    ///
    /// # Errors
    /// [`CodeError::Field`].
    pub fn by_name(name: &str) -> Result<Self, CodeError> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(t, _)| *t).ok_or_else(|| {
            CodeError::Field {
                field: "truncation",
                value: name.to_owned(),
                accepted: "crc64, byte8, cw2",
            }
        })
    }

    /// 8 bytes of the kept bytes of all codewords.
    pub fn shorten(self, kept: &[u8]) -> u64 {
        let codewords = kept.len() / KEPT_BYTES;
        match self {
            Self::Crc64 => crc64(kept),
            Self::Byte8 => {
                let each = (8 / codewords.max(1)).clamp(1, KEPT_BYTES);
                let mut bytes = [0u8; 8];
                let picked = kept.chunks_exact(KEPT_BYTES).flat_map(|word| &word[..each]);
                for (i, &byte) in picked.enumerate() {
                    bytes[i % 8] ^= byte;
                }
                u64::from_le_bytes(bytes)
            }
            Self::Cw2 => {
                let word = |i: usize| {
                    let bytes = &kept[i * KEPT_BYTES..(i + 1) * KEPT_BYTES];
                    u64::from(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
                };
                let second = if codewords > 1 { word(codewords / 2) } else { 0 };
                word(0) | second << 32
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Correction {
    /// Page parities of the key streams of seed 0 and of each seed bit (without that of seed 0),
    /// and the kept bytes of the same by nibble of the seed.
    Basis { constant: Vec<u8>, rows: Vec<u8>, nibbles: Vec<u8> },
    /// The key stream is not linear in the seed: encode it every time.
    Direct,
}

/// Turns the parity of scrambled pages into fingerprints of their content.
#[derive(Debug, Clone)]
pub struct ParityFingerprint {
    code: PageCode,
    scrambler: Scrambler,
    page_bytes: usize,
    codewords: usize,
    truncation: Truncation,
    correction: Correction,
    /// Page parity of zeros: not 0 for CRC-32.
    zeros: Vec<u8>,
}

impl ParityFingerprint {
    /// Builds the basis for pages of `page_bytes`.
    ///
    /// # Errors
    /// [`CodeError::PageSize`].
    pub fn new(
        code: PageCode,
        scrambler: Scrambler,
        page_bytes: usize,
        truncation: Truncation,
    ) -> Result<Self, CodeError> {
        let codewords = code.codewords(page_bytes)?;
        if codewords > MAX_CODEWORDS {
            return Err(CodeError::PageSize { page: page_bytes, codeword: code.data_bytes() });
        }
        let parity_bytes = codewords * code.parity_bytes();
        let mut zeros = vec![0; parity_bytes];
        code.encode_page(&vec![0; page_bytes], &mut zeros)?;
        let mut this = Self {
            code,
            scrambler,
            page_bytes,
            codewords,
            truncation,
            correction: Correction::Direct,
            zeros,
        };
        if this.scrambler.is_linear() {
            this.correction = this.basis()?;
        }
        Ok(this)
    }

    fn basis(&self) -> Result<Correction, CodeError> {
        let bits = self.scrambler.seed_bits();
        let constant = self.keystream_parity(0)?;
        let mut rows = Vec::with_capacity(bits as usize * constant.len());
        for bit in 0..bits {
            let row = self.keystream_parity(1 << bit)?;
            rows.extend(row.iter().zip(&constant).map(|(a, b)| a ^ b));
        }
        let size = self.kept_bytes();
        let mut nibbles = vec![0u8; bits.div_ceil(4) as usize * 16 * size];
        for (index, entry) in nibbles.chunks_exact_mut(size).enumerate() {
            for bit in (0..4).filter(|bit| (index % 16) >> bit & 1 == 1) {
                let row = rows.chunks_exact(constant.len()).nth(index / 16 * 4 + bit);
                let mut kept = [0u8; MAX_CODEWORDS * KEPT_BYTES];
                if let Some(row) = row {
                    self.keep(row, &mut kept);
                }
                entry.iter_mut().zip(kept).for_each(|(e, k)| *e ^= k);
            }
        }
        Ok(Correction::Basis { constant, rows, nibbles })
    }

    /// Linear part of the parity of the key stream of `seed`.
    fn keystream_parity(&self, seed: u64) -> Result<Vec<u8>, CodeError> {
        let mut page = vec![0; self.page_bytes];
        self.scrambler.apply(seed, &mut page);
        let mut parity = vec![0; self.zeros.len()];
        self.code.encode_page(&page, &mut parity)?;
        parity.iter_mut().zip(&self.zeros).for_each(|(p, z)| *p ^= z);
        Ok(parity)
    }

    /// The code.
    pub fn code(&self) -> &PageCode {
        &self.code
    }

    /// The scrambler.
    pub fn scrambler(&self) -> &Scrambler {
        &self.scrambler
    }

    /// Parity bytes of a page.
    pub fn parity_bytes(&self) -> usize {
        self.zeros.len()
    }

    /// Bytes of the untruncated page fingerprint: four per codeword.
    pub fn kept_bytes(&self) -> usize {
        self.codewords * KEPT_BYTES
    }

    /// Bytes of the correction basis; 0 where every correction encodes the key stream.
    pub fn basis_bytes(&self) -> usize {
        match &self.correction {
            Correction::Basis { constant, rows, .. } => constant.len() + rows.len(),
            Correction::Direct => 0,
        }
    }

    fn check(&self, parity: &[u8]) -> Result<(), CodeError> {
        if parity.len() == self.zeros.len() {
            return Ok(());
        }
        let accepted = self.zeros.len();
        Err(CodeError::Length { what: "page parity", got: parity.len(), accepted })
    }

    /// Turns the parity of a page scrambled with `seed` into the parity of the page itself.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn correct_parity(&self, seed: u64, parity: &mut [u8]) -> Result<(), CodeError> {
        self.check(parity)?;
        let xor = |parity: &mut [u8], row: &[u8]| {
            parity.iter_mut().zip(row).for_each(|(p, r)| *p ^= r);
        };
        match &self.correction {
            Correction::Direct => xor(parity, &self.keystream_parity(seed)?),
            Correction::Basis { constant, rows, .. } => {
                xor(parity, constant);
                for (bit, row) in rows.chunks_exact(constant.len()).enumerate() {
                    if seed >> bit & 1 == 1 {
                        xor(parity, row);
                    }
                }
            }
        }
        Ok(())
    }

    /// The first four parity bytes of every codeword.
    fn keep(&self, parity: &[u8], kept: &mut [u8; MAX_CODEWORDS * KEPT_BYTES]) {
        let each = self.code.parity_bytes();
        for (k, p) in kept.chunks_exact_mut(KEPT_BYTES).zip(parity.chunks_exact(each)) {
            // Parities shorter than four bytes leave zeros.
            let n = each.min(KEPT_BYTES);
            k[..n].copy_from_slice(&p[..n]);
        }
    }

    /// Fingerprint of the content of a page that was scrambled with `seed`, from its stored
    /// parity alone. The parity must be free of errors (decode first, or use a saved one).
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn of_stored(&self, seed: u64, parity: &[u8]) -> Result<u64, CodeError> {
        let mut kept = [0u8; MAX_CODEWORDS * KEPT_BYTES];
        self.kept_of_stored(seed, parity, &mut kept)?;
        Ok(self.truncation.shorten(&kept[..self.kept_bytes()]))
    }

    /// Fingerprint of a page that was stored without being scrambled, from its parity alone.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn of_plain(&self, parity: &[u8]) -> Result<u64, CodeError> {
        self.check(parity)?;
        let mut kept = [0u8; MAX_CODEWORDS * KEPT_BYTES];
        self.keep(parity, &mut kept);
        Ok(self.truncation.shorten(&kept[..self.kept_bytes()]))
    }

    fn kept_of_stored(
        &self,
        seed: u64,
        parity: &[u8],
        kept: &mut [u8; MAX_CODEWORDS * KEPT_BYTES],
    ) -> Result<(), CodeError> {
        self.check(parity)?;
        let size = self.kept_bytes();
        self.keep(parity, kept);
        match &self.correction {
            Correction::Direct => {
                let mut whole = self.keystream_parity(seed)?;
                whole.iter_mut().zip(parity).for_each(|(w, p)| *w ^= p);
                self.keep(&whole, kept);
            }
            Correction::Basis { constant, nibbles, .. } => {
                let mut other = [0u8; MAX_CODEWORDS * KEPT_BYTES];
                self.keep(constant, &mut other);
                kept[..size].iter_mut().zip(&other).for_each(|(k, o)| *k ^= o);
                for (place, table) in nibbles.chunks_exact(16 * size).enumerate() {
                    let value = (seed >> (4 * place) & 15) as usize;
                    let entry = &table[value * size..(value + 1) * size];
                    kept[..size].iter_mut().zip(entry).for_each(|(k, e)| *k ^= e);
                }
            }
        }
        Ok(())
    }

    /// The whole fingerprint (four bytes per codeword) of a stored page, into `out`.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn full_of_stored(
        &self,
        seed: u64,
        parity: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodeError> {
        let accepted = self.kept_bytes();
        if out.len() != accepted {
            return Err(CodeError::Length { what: "fingerprint", got: out.len(), accepted });
        }
        let mut kept = [0u8; MAX_CODEWORDS * KEPT_BYTES];
        self.kept_of_stored(seed, parity, &mut kept)?;
        out.copy_from_slice(&kept[..accepted]);
        Ok(())
    }

    /// Fingerprint of unscrambled data, by encoding it: what [`ParityFingerprint::of_stored`]
    /// gives for any seed.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn of_data(&self, page: &[u8]) -> Result<u64, CodeError> {
        if page.len() != self.page_bytes {
            let accepted = self.page_bytes;
            return Err(CodeError::Length { what: "page", got: page.len(), accepted });
        }
        let mut parity = vec![0; self.zeros.len()];
        self.code.encode_page(page, &mut parity)?;
        self.of_plain(&parity)
    }
}
