//! The way of a page between the host and the cells: scrambler, then code, and back.
//! Room: onefold-flash.   In: a page's bytes and its address.   Out: stored bytes, parity, CRC.
//! Source: [ses-dedup] fig. 3: LFSR scrambler seeded by the address, then LDPC.
//! Invariants: what was stored with a seed comes back with that seed, wherever it was moved to.

use onefold_code::{
    Bch, CodeError, LDPC_NAMES, PageAddress, PageCode, PageCodec, PageStatus, Scrambler,
    ScramblerSpec, SeedSource, ldpc_by_name,
};

/// The BCH code that pages can have.
pub const BCH_NAME: &str = "bch-t18-1k";
/// The code that only detects: a CRC-32 per KiB.
pub const DETECT_NAME: &str = "crc32";

/// The code called `name`: an LDPC code of `onefold-code`, `bch-t18-1k` or `crc32`.
///
/// # Errors
/// [`CodeError::NoSuchCode`] with the list of names.
pub fn page_code(name: &str) -> Result<PageCode, CodeError> {
    if name == BCH_NAME {
        return Ok(PageCode::Bch(Bch::t18_1k()));
    }
    if name == DETECT_NAME {
        return Ok(PageCode::Crc32 { data_bytes: 1024 });
    }
    if LDPC_NAMES.contains(&name) {
        return Ok(PageCode::Ldpc(ldpc_by_name(name)?));
    }
    let names = LDPC_NAMES.join(", ");
    Err(CodeError::NoSuchCode {
        reason: format!("{name:?} is unknown; accepted: {BCH_NAME}, {DETECT_NAME}, {names}"),
    })
}

/// How the bytes of pages are stored, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Name of the code, as [`page_code`] takes it.
    pub code: String,
    /// The scrambler; `None` stores bytes as they are.
    pub scrambler: Option<ScramblerSpec>,
}

/// A [`ChannelSpec`] at work.
#[derive(Clone, Debug)]
pub struct Channel {
    codec: PageCodec,
    scrambler: Option<Scrambler>,
    page_bytes: usize,
}

impl Channel {
    /// Builds the tables, for pages of `page_bytes` on a drive of `pages`.
    ///
    /// # Errors
    /// [`CodeError::NoSuchCode`], [`CodeError::PageSize`], what a scrambler refuses, and
    /// [`CodeError::AddressNotCovered`] for a seed rule that leaves addresses of the drive out.
    pub fn new(spec: &ChannelSpec, page_bytes: usize, pages: u32) -> Result<Self, CodeError> {
        let codec = PageCodec::new(page_code(&spec.code)?, page_bytes)?;
        let scrambler = spec.scrambler.as_ref().map(ScramblerSpec::compile).transpose()?;
        if let Some(scrambler) = &scrambler {
            // Linear rules cover all addresses whose bits they know; tables cover everything.
            let bits = (0..u32::BITS).map(|bit| 1 << bit).take_while(|&bit| bit < pages);
            for number in bits.chain([0]) {
                scrambler.seed(&PageAddress::of(u64::from(number)), &[])?;
            }
        }
        Ok(Self { codec, scrambler, page_bytes })
    }

    /// Parity bytes of a page.
    pub fn parity_bytes(&self) -> usize {
        self.codec.parity_bytes()
    }

    /// The code.
    pub fn code(&self) -> &PageCode {
        self.codec.code()
    }

    /// The scrambler.
    pub fn scrambler(&self) -> Option<&Scrambler> {
        self.scrambler.as_ref()
    }

    /// Whether a page may move without being scrambled and encoded anew.
    pub fn survives_moves(&self) -> bool {
        self.scrambler.as_ref().is_none_or(|s| s.seed_source().survives_moves())
    }

    /// Whether a host that scrambles ahead gets its plain data onto the flash, so that the parity
    /// is that of the data (the host-side design of SES-Dedup).
    ///
    /// # Errors
    /// [`CodeError::HostCannotKnowSeed`] for every seed source but the logical address.
    pub fn check_host_side(&self) -> Result<(), CodeError> {
        self.scrambler.as_ref().map_or(SeedSource::Lba, Scrambler::seed_source).check_host_side()
    }

    /// Scrambles `page` in place and writes its parity; seed and CRC-32 are the answer.
    ///
    /// # Errors
    /// [`CodeError::Length`], [`CodeError::AddressNotCovered`].
    pub fn store(
        &self,
        address: &PageAddress,
        page: &mut [u8],
        parity: &mut [u8],
    ) -> Result<(u64, u32), CodeError> {
        let seed = match &self.scrambler {
            Some(scrambler) => scrambler.scramble(address, page)?,
            None => 0,
        };
        Ok((seed, self.codec.encode(page, parity)?))
    }

    /// Writes the parity of a page as it is stored; its CRC-32 is the answer.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn encode(&self, page: &[u8], parity: &mut [u8]) -> Result<u32, CodeError> {
        self.codec.encode(page, parity)
    }

    /// Passes a page of a host that scrambles ahead through the scrambler with the seed of `lpn`:
    /// on its way in that leaves plain data, on its way out what the reader expects under `lpn`.
    ///
    /// # Panics
    /// For pages beyond those that the channel was made for.
    pub fn scramble(&self, lpn: u32, page: &mut [u8]) {
        if let Some(scrambler) = &self.scrambler {
            scrambler
                .scramble(&PageAddress::of(u64::from(lpn)), page)
                .expect("the addresses of the drive were checked");
        }
    }

    /// Corrects a stored page and its parity in place.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn correct(
        &mut self,
        page: &mut [u8],
        parity: &mut [u8],
        crc: u32,
    ) -> Result<PageStatus, CodeError> {
        self.codec.decode(page, parity, crc)
    }

    /// Undoes the scrambler with the seed that was stored.
    pub fn descramble(&self, seed: u64, page: &mut [u8]) {
        if let Some(scrambler) = &self.scrambler {
            scrambler.apply(seed, page);
        }
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_named_and_others_refused_by_name() {
        assert!(matches!(page_code("ses-33x256"), Ok(PageCode::Ldpc(_))));
        assert!(matches!(page_code(BCH_NAME), Ok(PageCode::Bch(_))));
        assert!(matches!(page_code(DETECT_NAME), Ok(PageCode::Crc32 { .. })));
        let refused = page_code("turbo").expect_err("there is no such code").to_string();
        assert!(refused.contains("\"turbo\"") && refused.contains(BCH_NAME), "{refused}");
    }

    #[test]
    fn a_seed_rule_that_leaves_pages_out_is_refused_at_once() {
        let mut scrambler = onefold_code::preset("lba-prbs31").expect("a preset");
        let onefold_code::SeedMap::Linear { mask, .. } = &mut scrambler.seed_map else {
            panic!("the preset is linear");
        };
        *mask = 0xff;
        let spec = ChannelSpec { code: BCH_NAME.into(), scrambler: Some(scrambler) };
        assert!(Channel::new(&spec, 8192, 256).is_ok());
        let refused = Channel::new(&spec, 8192, 257).expect_err("page 256 has no seed");
        assert!(matches!(refused, CodeError::AddressNotCovered { address: 256, .. }), "{refused}");
    }

    #[test]
    fn a_seed_rule_must_cover_the_first_page() {
        let mut scrambler = onefold_code::preset("lba-prbs31").expect("a preset");
        let onefold_code::SeedMap::Linear { mask, base, .. } = &mut scrambler.seed_map else {
            panic!("the preset is linear");
        };
        // Odd addresses alone.
        (*mask, *base) = (!1, 1);
        let spec = ChannelSpec { code: BCH_NAME.into(), scrambler: Some(scrambler) };
        for pages in [1, 2] {
            let refused = Channel::new(&spec, 8192, pages).expect_err("page 0 has no seed");
            assert!(matches!(refused, CodeError::AddressNotCovered { address: 0, .. }));
        }
    }

    #[test]
    fn a_seed_rule_must_cover_the_second_page_if_there_is_one() {
        let mut scrambler = onefold_code::preset("lba-prbs31").expect("a preset");
        let onefold_code::SeedMap::Linear { mask, .. } = &mut scrambler.seed_map else {
            panic!("the preset is linear");
        };
        *mask = !1;
        let spec = ChannelSpec { code: BCH_NAME.into(), scrambler: Some(scrambler) };
        assert!(Channel::new(&spec, 8192, 1).is_ok());
        let refused = Channel::new(&spec, 8192, 2).expect_err("page 1 has no seed");
        assert!(matches!(refused, CodeError::AddressNotCovered { address: 1, .. }));
    }

    #[test]
    fn codes_take_pages_of_whole_kibibytes() {
        for (code, parity) in [(DETECT_NAME, 4), (BCH_NAME, 32), ("ses-33x256", 32)] {
            let spec = ChannelSpec { code: code.into(), scrambler: None };
            let channel = Channel::new(&spec, 8192, 64).expect("eight codewords");
            assert_eq!((channel.parity_bytes(), channel.page_bytes()), (8 * parity, 8192));
            assert!(matches!(
                Channel::new(&spec, 8192 + 512, 64),
                Err(CodeError::PageSize { page: 8704, codeword: 1024 })
            ));
        }
    }

    #[test]
    fn the_host_side_design_is_refused_where_the_host_cannot_know_the_seed() {
        for name in onefold_code::PRESET_NAMES {
            let scrambler = onefold_code::preset(name).expect("a preset");
            let source = scrambler.seed_source;
            let spec = ChannelSpec { code: BCH_NAME.into(), scrambler: Some(scrambler) };
            let channel = Channel::new(&spec, 8192, 64).expect("presets cover every page");
            let refused = channel.check_host_side();
            assert_eq!(refused.is_ok(), source == SeedSource::Lba, "{name}");
        }
    }
}
