//! Data-set profiles: content with a duplicate ratio, a hot-fingerprint ratio and a hot share.
//! Room: onefold-workload.
//! Source: [ses-dedup] Tables III and IV. "Hot" is a content with more than two copies. The paper
//! does not say of what the hot ratio is a ratio: of all contents it cannot be, since four of its
//! six data sets have too few duplicates for that, so it is of the duplicated ones. Then the three
//! numbers fix two classes: cold contents have two copies each, hot ones share the rest of the
//! redundant pages, here as evenly as integers allow.
//! Cost: 4 bytes per page of the data set.

use onefold_sim::{RandomStreams, Ratio};

use crate::content::Histogram;
use crate::request::Identity;

/// The duplicates of a data set in three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentProfile {
    /// Redundant pages, of all pages.
    pub duplicate_ratio: Ratio,
    /// Contents with more than two copies, of those with more than one.
    pub hot_fingerprint_ratio: Ratio,
    /// Redundant pages of hot contents, of all redundant pages.
    pub hot_share: Ratio,
}

/// A profile that the literature states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name of the data set.
    pub name: &'static str,
    /// Its duplicates.
    pub profile: ContentProfile,
}

/// Duplicate ratio, hot fingerprints and hot share, all in thousandths.
const fn preset(name: &'static str, duplicates: u64, fingerprints: u64, share: u64) -> Preset {
    Preset {
        name,
        profile: ContentProfile {
            duplicate_ratio: Ratio::permille(duplicates),
            hot_fingerprint_ratio: Ratio::permille(fingerprints),
            hot_share: Ratio::permille(share),
        },
    }
}

/// The data sets of [ses-dedup]: duplicate ratio from Table IV, the other two from Table III.
pub const PRESETS: [Preset; 6] = [
    preset("laptop1", 126, 176, 741),
    preset("laptop2", 299, 138, 863),
    preset("desktop1", 187, 158, 798),
    preset("desktop2", 229, 149, 811),
    preset("desktop3", 123, 188, 721),
    preset("desktop4", 308, 127, 893),
];

/// A profile that no data set can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A share above 1, or a hot-fingerprint ratio of 1, which leaves nothing to compare with.
    #[error("{field} {got}: expected a share from 0 to 1 (hot fingerprints: below 1)")]
    Share {
        /// Which number.
        field: &'static str,
        /// What it is.
        got: Ratio,
    },
    /// Hot contents with fewer than three copies each.
    #[error("{hot} hot contents with {redundant} redundant pages: expected two or more for each")]
    TooFewHotCopies {
        /// Hot contents asked for.
        hot: u64,
        /// Redundant pages left for them.
        redundant: u64,
    },
    /// Redundant hot pages without a hot content.
    #[error("{redundant} redundant hot pages but no hot content: expected a larger data set")]
    NoHotContent {
        /// Redundant pages that nobody has.
        redundant: u64,
    },
    /// More copies than pages.
    #[error("{needed} pages of duplicated content in a data set of {pages}")]
    TooManyDuplicates {
        /// Pages that duplicated contents need.
        needed: u64,
        /// Pages of the data set.
        pages: u64,
    },
    /// More pages than the generator numbers.
    #[error("a data set of {got} pages: expected at most 2^32")]
    TooManyPages {
        /// Pages asked for.
        got: u64,
    },
}

/// How many contents there are of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Classes {
    cold: u64,
    hot: u64,
    hot_redundant: u64,
}

impl ContentProfile {
    /// The profile of a preset by its name.
    pub fn named(name: &str) -> Option<Self> {
        PRESETS.iter().find(|preset| preset.name == name).map(|preset| preset.profile)
    }

    /// The contents of a data set of `pages` pages, in random order. The three ratios are met to
    /// the nearest page.
    pub fn data_set(
        &self,
        pages: u64,
        seed: u64,
    ) -> Result<impl ExactSizeIterator<Item = Identity> + use<>, ProfileError> {
        if pages > 1 << 32 {
            return Err(ProfileError::TooManyPages { got: pages });
        }
        let numbers = self.numbers(pages, seed)?;
        Ok(numbers.into_iter().map(move |number| Identity::of_number(seed, number.into())))
    }

    /// The copies in a data set of `pages` pages. Content drawn from it goes on without end, and
    /// what was drawn in the last `pages` draws has about the duplicates of the data set.
    pub fn histogram(&self, pages: u64) -> Result<Histogram, ProfileError> {
        let Classes { cold, hot, hot_redundant } = self.classes(pages)?;
        let copies = hot_redundant.checked_div(hot).unwrap_or_default();
        let more = hot_redundant - copies * hot;
        let unique = pages - 2 * cold - hot - hot_redundant;
        let classes = [(0, unique), (1, cold), (copies, hot - more), (copies + 1, more)];
        Ok(Histogram::new(&classes).expect("fewer pages than 2^64"))
    }

    fn classes(&self, pages: u64) -> Result<Classes, ProfileError> {
        let duplicates = checked("duplicate ratio", self.duplicate_ratio)?;
        let fingerprints = checked("hot-fingerprint ratio", self.hot_fingerprint_ratio)?;
        let share = checked("hot share", self.hot_share)?;
        let cold_of_all = fingerprints.complement();
        if cold_of_all.numerator() == 0 {
            return Err(ProfileError::Share { field: "hot-fingerprint ratio", got: fingerprints });
        }
        let redundant = duplicates.of(pages);
        let hot_redundant = share.of(redundant);
        // Every cold content has one redundant page.
        let cold = redundant - hot_redundant;
        let hot_to_cold = Ratio::new(fingerprints.numerator(), cold_of_all.numerator());
        let hot = hot_to_cold.map(|ratio| ratio.of(cold)).unwrap_or_default();
        if hot == 0 && hot_redundant > 0 {
            return Err(ProfileError::NoHotContent { redundant: hot_redundant });
        }
        if hot_redundant < 2 * hot {
            return Err(ProfileError::TooFewHotCopies { hot, redundant: hot_redundant });
        }
        let needed = 2 * cold + hot + hot_redundant;
        if needed > pages {
            return Err(ProfileError::TooManyDuplicates { needed, pages });
        }
        Ok(Classes { cold, hot, hot_redundant })
    }

    fn numbers(&self, pages: u64, seed: u64) -> Result<Vec<u32>, ProfileError> {
        let Classes { cold, hot, hot_redundant } = self.classes(pages)?;
        let mut numbers: Vec<u32> = Vec::with_capacity(pages as usize);
        let mut next = 0_u32;
        let mut add = |copies: u64| {
            numbers.extend((0..copies).map(|_| next));
            next = next.wrapping_add(1);
        };
        (0..cold).for_each(|_| add(2));
        for content in 0..hot {
            let extra = u64::from(content < hot_redundant % hot);
            add(1 + hot_redundant / hot + extra);
        }
        (0..pages - 2 * cold - hot - hot_redundant).for_each(|_| add(1));
        RandomStreams::new(seed).stream("content.order").shuffle(&mut numbers);
        Ok(numbers)
    }
}

fn checked(field: &'static str, got: Ratio) -> Result<Ratio, ProfileError> {
    got.share().map_err(|_| ProfileError::Share { field, got })
}
