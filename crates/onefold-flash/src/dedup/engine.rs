//! The drive's compression engine, as far as fingerprints are concerned: which bytes have a parity.
//! Room: onefold-flash.   Source: [ses-dedup] sec. IV.   In: pages.   Out: its output.
//! What compressed pages save, and the engine's time, are of the drive: `ftl.compression`.

use onefold_content::{Compression, Compressor};

use crate::dedup::options::Options;

/// Where a drive compresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Nowhere.
    #[default]
    None,
    /// Plain pages, on their way to the scrambler.
    BeforeScrambler,
    /// Scrambled pages, on their way to the code.
    AfterScrambler,
}

impl Engine {
    /// The values of the option, in the order of the variants.
    pub(crate) const NAMES: &[&str] = &["none", "before-scrambler", "after-scrambler"];

    /// The option of a policy that has it.
    pub(crate) fn of(options: &Options) -> Self {
        match options.word("compression") {
            "before-scrambler" => Self::BeforeScrambler,
            "after-scrambler" => Self::AfterScrambler,
            _ => Self::None,
        }
    }
}

/// Bytes ahead of a compressed page that say how many follow.
const LENGTH: usize = 4;

/// An LZ4 engine for pages.
#[derive(Debug)]
pub(crate) struct PageCompressor {
    lz4: Compressor,
    out: Vec<u8>,
}

impl PageCompressor {
    pub fn new() -> Self {
        Self { lz4: Compressor::new(Compression::Lz4), out: Vec::new() }
    }

    /// A page as the engine puts it out: its length, the compressed bytes and zeroes up to a page,
    /// or the page itself if that is no longer. Equal pages come out equal.
    pub fn page<'a>(&'a mut self, page: &'a [u8]) -> &'a [u8] {
        self.out.clear();
        self.out.extend_from_slice(&[0; LENGTH]);
        let room = page.len().saturating_sub(LENGTH);
        if self.lz4.compress_into(page, &mut self.out, room) == onefold_content::Codec::Raw {
            return page;
        }
        let length = (self.out.len() - LENGTH) as u32;
        self.out[..LENGTH].copy_from_slice(&length.to_le_bytes());
        self.out.resize(page.len(), 0);
        &self.out
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;

    #[test]
    fn pages_keep_their_size_and_stay_apart() {
        let mut engine = PageCompressor::new();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200u64 {
            // From all noise to all alike.
            let mut page = SplitMix64::new(seed).bytes(1024);
            page[1024 - 5 * seed as usize..].fill(7);
            let out = engine.page(&page).to_vec();
            assert_eq!(out.len(), 1024);
            assert!(out != page || seed < 10, "only noise is left as it is: {seed}");
            assert!(out == page || seed > 0, "noise has no shorter form");
            assert_eq!(engine.page(&page), out, "whatever was compressed before");
            assert!(seen.insert(out));
        }
    }
}
