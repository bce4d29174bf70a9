//! How short pages get that are known by their identity alone.
//! Room: onefold-flash.   Source: [ses-dedup] sec. IV for where the engine may be.

use onefold_block::seeded::mix64;

use crate::dedup::{Engine, Wanted};
use crate::nand::Identity;

/// How short pages get that are known by their identity alone: the same content always the same.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Sub-pages of a flash page.
    pub subpages: u32,
    /// Compressed length in percent of a page, on average.
    pub percent: u32,
    /// How far it is off at most, evenly spread, in percent of a page.
    pub spread: u32,
    /// Where the engine is.
    pub engine: Engine,
    /// Behind the scrambler: the pages that come to it plain, as the host scrambled them ahead.
    pub plain: Option<Wanted>,
}

impl Sizes {
    /// Pages of the array's user that are each one of so many codewords of a flash page.
    pub const fn codewords(subpages: u32) -> Self {
        let engine = Engine::BeforeScrambler;
        Self { subpages, percent: 0, spread: 0, engine, plain: None }
    }

    /// Sub-pages that a page takes; all of them if it does not get shorter.
    pub fn subpages_of(&self, lpn: u32, page: Identity, request: Option<bool>) -> u32 {
        let shortens = match self.engine {
            Engine::None => false,
            Engine::BeforeScrambler => true,
            // Noise has no shorter form.
            Engine::AfterScrambler => {
                self.plain.as_ref().is_some_and(|plain| plain.has(lpn, request))
            }
        };
        if !shortens {
            return self.subpages;
        }
        let (low, high) = (self.percent.saturating_sub(self.spread), self.percent + self.spread);
        let drawn = mix64(page.0 as u64 ^ mix64((page.0 >> 64) as u64));
        // Thousandths, so that a few sub-pages are not all that there is between two percents.
        let permille = u64::from(low) * 10 + drawn % (u64::from(high - low) * 10 + 1);
        let subpages = (permille * u64::from(self.subpages)).div_ceil(1000);
        (subpages.max(1) as u32).min(self.subpages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(percent: u32, spread: u32, engine: Engine) -> Sizes {
        Sizes { subpages: 8, percent, spread, engine, plain: None }
    }

    #[test]
    fn lengths_are_what_was_asked_for_and_the_same_for_the_same_content() {
        let before = Engine::BeforeScrambler;
        for (percent, subpages) in [(0, 1), (1, 1), (12, 1), (13, 2), (50, 4), (51, 5), (100, 8)] {
            let found = sizes(percent, 0, before).subpages_of(7, Identity(9), None);
            assert_eq!(found, subpages, "{percent} %");
        }
        let spread = sizes(50, 25, before);
        let all: Vec<u32> = (0..4000).map(|n| spread.subpages_of(1, Identity(n), None)).collect();
        let mean = f64::from(all.iter().sum::<u32>()) / 4000.0;
        // Even between 2 and 6 sub-pages, rounded up.
        assert!((mean - 4.5).abs() < 0.05 && all.iter().all(|n| (2..=6).contains(n)), "{mean}");
        assert_eq!(
            spread.subpages_of(1, Identity(5), None),
            spread.subpages_of(2, Identity(5), None)
        );
    }

    /// In thousandths of a page, from all of the identity, rounded up to sub-pages.
    #[test]
    fn lengths_are_drawn_from_the_whole_identity_to_a_thousandth() {
        // A number that comes within a thousandth of whole sub-pages from both sides.
        let subpages = |permille: u64| (permille * 4097).div_ceil(1000).clamp(1, 4097) as u32;
        let mut random = onefold_block::SplitMix64::new(3);
        for (percent, spread, low, high) in
            [(50, 25, 250, 750), (10, 30, 0, 400), (90, 20, 700, 1100), (40, 1, 390, 410)]
        {
            let sizes = Sizes { subpages: 4097, ..sizes(percent, spread, Engine::BeforeScrambler) };
            let mut found = std::collections::BTreeSet::new();
            for _ in 0..2000 {
                let (one, two) = (random.next_u64(), random.next_u64());
                let identity = Identity(u128::from(two) << 64 | u128::from(one));
                let permille = low + mix64(one ^ mix64(two)) % (high - low + 1);
                let expected = subpages(permille);
                assert_eq!(sizes.subpages_of(7, identity, None), expected, "{identity:?}");
                found.insert(expected);
            }
            let (least, most) = (found.first().copied(), found.last().copied());
            assert_eq!([least, most], [low, high].map(|permille| Some(subpages(permille))));
        }
        let codewords = Sizes::codewords(8);
        assert!((0..100).all(|n| codewords.subpages_of(n, Identity(n.into()), None) == 1));
    }

    #[test]
    fn behind_the_scrambler_only_plain_pages_get_shorter() {
        let noise = sizes(50, 0, Engine::AfterScrambler);
        assert_eq!(noise.subpages_of(3, Identity(1), None), 8);
        let plain = Sizes { plain: Some(Wanted::default()), ..noise };
        assert_eq!(plain.subpages_of(3, Identity(1), None), 4);
        assert_eq!(
            plain.subpages_of(3, Identity(1), Some(false)),
            8,
            "scrambled by the drive alone"
        );
        assert_eq!(sizes(50, 0, Engine::None).subpages_of(3, Identity(1), None), 8);
    }
}
