//! How pages are fingerprinted: real bytes by CRC, digest and parity, identities by themselves.
//! Room: onefold-flash.   In: pages.   Out: fingerprints of 32, 64 and 128 bits.
//! Source: [ses-dedup] sec. III eq. 2 (parity), [park-shin] sec. III (CRC-32), [caftl-11] (SHA-1).
//! Invariants: equal content, equal fingerprint, under any logical page number; a parity
//! fingerprint is never 0.

use onefold_block::seeded::mix64;
use onefold_code::{CodeError, PageAddress, ParityFingerprint, Truncation};
use onefold_content::{Fingerprint, FingerprintKind, Fingerprinter};

use crate::dedup::engine::{Engine, PageCompressor};

/// Makes fingerprints of pages.
pub trait Fingerprinting<Page> {
    /// Whether fingerprints cost so little that they may be made to ask for memory ahead.
    const FREE: bool = false;

    /// A light one, which says nothing for sure: CRC-32.
    fn light(&mut self, page: &Page) -> u32;

    /// 128 bits of a collision-resistant one: SHA-1 or SHA-256.
    fn strong(&mut self, page: &Page) -> u128;

    /// The parity fingerprint of the content, from the parity that the drive computes for the page
    /// scrambled with the seed of `lpn`, corrected for the scrambler.
    fn parity(&mut self, lpn: u32, page: &Page) -> u64;

    /// The parity fingerprint of a page whose plain data lies on flash.
    fn plain_parity(&mut self, page: &Page) -> u64;

    /// Digests of the parts of a page that have a codeword each, if parts are known.
    fn codewords(&mut self, page: &Page, each: &mut dyn FnMut(u128));

    /// Chooses how parity is shortened and which digest is the strong one.
    fn configure(&mut self, truncation: Truncation, strong: FingerprintKind);

    /// Says where the drive compresses. Parity is then that of what the engine puts out, but for
    /// one behind the scrambler: what comes out of that could not be corrected, so [`Self::parity`]
    /// is that of what goes in.
    fn compress(&mut self, _engine: Engine) {}
}

/// Fingerprints of 16-byte identities: the strong one is the identity, the parity one its lower
/// half. So an identity made of another fingerprint gives just that one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identities;

/// 0 marks a page without fingerprint, so nothing else may be 0.
const fn not_zero(fingerprint: u64) -> u64 {
    if fingerprint == 0 { 1 } else { fingerprint }
}

impl<Page: Copy + Into<u128>> Fingerprinting<Page> for Identities {
    const FREE: bool = true;

    fn light(&mut self, page: &Page) -> u32 {
        let whole: u128 = (*page).into();
        (mix64(whole as u64 ^ mix64((whole >> 64) as u64)) >> 32) as u32
    }

    fn strong(&mut self, page: &Page) -> u128 {
        (*page).into()
    }

    fn parity(&mut self, _lpn: u32, page: &Page) -> u64 {
        not_zero((*page).into() as u64)
    }

    fn plain_parity(&mut self, page: &Page) -> u64 {
        not_zero((*page).into() as u64)
    }

    fn codewords(&mut self, _page: &Page, _each: &mut dyn FnMut(u128)) {}

    fn configure(&mut self, _truncation: Truncation, _strong: FingerprintKind) {}
}

/// Fingerprints of real bytes, through the drive's own scrambler and code.
#[derive(Debug)]
pub struct Bytes {
    parity: ParityFingerprint,
    strong: Fingerprinter,
    light: Fingerprinter,
    page: Vec<u8>,
    stored: Vec<u8>,
    engine: Engine,
    compressor: PageCompressor,
}

impl Bytes {
    /// Fingerprints with the code and the scrambler of `parity`, for pages of its size.
    pub fn new(parity: ParityFingerprint) -> Self {
        let stored = vec![0; parity.parity_bytes()];
        Self {
            parity,
            strong: Fingerprinter::new(FingerprintKind::Sha256),
            light: Fingerprinter::new(FingerprintKind::Crc32),
            page: Vec::new(),
            stored,
            engine: Engine::None,
            compressor: PageCompressor::new(),
        }
    }

    /// What the controller does in SES-Dedup's device-side design: scramble, encode, and take the
    /// scrambler out of the parity again.
    fn through_scrambler(&mut self, lpn: u32, page: &[u8]) -> Result<u64, CodeError> {
        let page = match self.engine {
            Engine::BeforeScrambler => self.compressor.page(page),
            Engine::None | Engine::AfterScrambler => page,
        };
        self.page.clear();
        self.page.extend_from_slice(page);
        let address = PageAddress::of(u64::from(lpn));
        let seed = self.parity.scrambler().scramble(&address, &mut self.page)?;
        self.parity.code().encode_page(&self.page, &mut self.stored)?;
        self.parity.of_stored(seed, &self.stored)
    }
}

impl<Page: AsRef<[u8]>> Fingerprinting<Page> for Bytes {
    fn light(&mut self, page: &Page) -> u32 {
        let digest = self.light.hash(page.as_ref());
        let bytes = digest.as_bytes();
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn strong(&mut self, page: &Page) -> u128 {
        prefix(&self.strong.hash(page.as_ref()))
    }

    fn parity(&mut self, lpn: u32, page: &Page) -> u64 {
        let fingerprint = self.through_scrambler(lpn, page.as_ref());
        not_zero(fingerprint.expect("pages have the size that the code was built for"))
    }

    fn plain_parity(&mut self, page: &Page) -> u64 {
        let page = match self.engine {
            Engine::None => page.as_ref(),
            Engine::BeforeScrambler | Engine::AfterScrambler => self.compressor.page(page.as_ref()),
        };
        let fingerprint = self.parity.of_data(page);
        not_zero(fingerprint.expect("pages have the size that the code was built for"))
    }

    fn codewords(&mut self, page: &Page, each: &mut dyn FnMut(u128)) {
        let bytes = self.parity.code().data_bytes();
        for codeword in page.as_ref().chunks_exact(bytes) {
            each(prefix(&self.strong.hash(codeword)));
        }
    }

    fn configure(&mut self, truncation: Truncation, strong: FingerprintKind) {
        let (code, scrambler) = (self.parity.code().clone(), self.parity.scrambler().clone());
        let bytes = self.parity.parity_bytes() / code.parity_bytes() * code.data_bytes();
        self.parity = ParityFingerprint::new(code, scrambler, bytes, truncation)
            .expect("the same code took pages of this size before");
        self.strong = Fingerprinter::new(strong);
    }

    fn compress(&mut self, engine: Engine) {
        self.engine = engine;
    }
}

/// The first 128 bits of a digest.
fn prefix(digest: &Fingerprint) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    u128::from_le_bytes(bytes)
}

/// The correction of a parity fingerprint for its scrambler, done on its 8 bytes.
///
/// Shortening is affine and so is the key stream's parity in the seed, so the two can change
/// places: one 8-byte word per seed bit replaces one page parity per seed bit, and correcting is
/// an exclusive-or of as many words as the seed has ones.
#[derive(Clone, Debug)]
pub struct ShortBasis {
    words: Vec<u64>,
}

impl ShortBasis {
    /// The words of a scrambler and code.
    ///
    /// # Errors
    /// [`CodeError`] of the fingerprint.
    pub fn new(of: &ParityFingerprint) -> Result<Self, CodeError> {
        let zeros = vec![0; of.parity_bytes()];
        let constant = of.of_stored(0, &zeros)?;
        let word = |bit: u32| Ok(of.of_stored(1 << bit, &zeros)? ^ constant);
        let words = (0..of.scrambler().seed_bits()).map(word).collect::<Result<_, CodeError>>()?;
        Ok(Self { words })
    }

    /// What a fingerprint taken as if the seed were 0 is to be xored with.
    pub fn correction(&self, seed: u64) -> u64 {
        let set = |(bit, _): &(usize, &u64)| seed >> bit & 1 == 1;
        self.words.iter().enumerate().filter(set).fold(0, |sum, (_, word)| sum ^ word)
    }

    /// Bytes of the words.
    pub fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_code::{PageCode, ScramblerSpec, ldpc_by_name, preset};
    use proptest::prelude::*;

    fn fingerprint(truncation: Truncation) -> ParityFingerprint {
        let code = PageCode::Ldpc(ldpc_by_name("ses-33x256").expect("known"));
        let scrambler = preset("lba32").or_else(|_| preset(onefold_code::PRESET_NAMES[0]));
        let scrambler = ScramblerSpec::compile(&scrambler.expect("a preset")).expect("compiles");
        ParityFingerprint::new(code, scrambler, 2048, truncation).expect("2 codewords")
    }

    #[test]
    fn each_codeword_of_a_page_has_a_fingerprint() {
        let mut bytes = Bytes::new(fingerprint(Truncation::Crc64));
        let mut of = |parts: [u8; 2]| {
            let page = parts.map(|byte| [byte; 1024]).concat();
            let mut all = Vec::new();
            bytes.codewords(&page, &mut |codeword| all.push(codeword));
            all
        };
        let (first, second) = (of([7, 8]), of([8, 8]));
        assert_eq!((first.len(), second[0]), (2, second[1]));
        assert!(first[0] != first[1] && first[1] == second[0]);
    }

    proptest! {
        #[test]
        fn eight_bytes_are_corrected_as_the_whole_parity_is(
            seed in any::<u64>(),
            parity in proptest::collection::vec(any::<u8>(), 64),
        ) {
            for (truncation, name) in Truncation::ALL {
                let whole = fingerprint(truncation);
                prop_assume!(whole.scrambler().is_linear());
                let basis = ShortBasis::new(&whole).expect("a basis");
                let seed = seed & ((1 << whole.scrambler().seed_bits()) - 1);
                let slow = whole.of_stored(seed, &parity).expect("lengths");
                let raw = whole.of_stored(0, &parity).expect("lengths");
                prop_assert_eq!(slow, raw ^ basis.correction(seed), "{}", name);
            }
        }
    }
}
