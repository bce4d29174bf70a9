//! The unique-chunk predictor: which chunks to compress before they were looked up.
//! Room: onefold-array.
//! Source: [ajdari-talk], "CIDR SW Support"; what is inside is not published, so `recent` is ours.
//! Invariants: a wrong guess costs work and never changes what is stored. A wrong *unique* is one
//! compression for nothing; a wrong *duplicate* puts the chunk into the delayed chunk buffer.

use onefold_block::SplitMix64;

use super::contents::{Content, Contents};
use crate::spec::PredictorKind;

/// Addresses that share a counter: duplicates come in files, and files in neighbourhoods.
pub const REGION_CHUNKS: u64 = 64;

/// A predictor and its score.
#[derive(Clone, Debug)]
pub struct Predictor {
    kind: PredictorKind,
    /// `recent`: for each region, how unique its last chunks were, 0 to 3.
    counters: Vec<u8>,
    score: Score,
}

/// How often the predictor was right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Score {
    /// Said unique, and was.
    pub unique_right: u64,
    /// Said unique, and was a duplicate: compressed for nothing.
    pub unique_wrong: u64,
    /// Said duplicate, and was.
    pub duplicate_right: u64,
    /// Said duplicate, and was unique: compressed later.
    pub duplicate_wrong: u64,
}

impl Score {
    /// Share of right guesses, 0 to 1; `None` without guesses.
    pub fn right_share(&self) -> Option<f64> {
        let right = self.unique_right + self.duplicate_right;
        let all = right + self.unique_wrong + self.duplicate_wrong;
        (all > 0).then(|| right as f64 / all as f64)
    }
}

impl Predictor {
    /// A predictor; `entries` is how many regions `recent` tells apart.
    pub fn new(kind: PredictorKind, entries: u64) -> Self {
        let entries = if kind == PredictorKind::Recent { entries } else { 0 };
        Self { kind, counters: vec![2; entries as usize], score: Score::default() }
    }

    /// Whether the chunk that comes to this address is taken for unique.
    pub fn is_unique(&self, address: u64, content: Content, contents: &mut Contents) -> bool {
        match self.kind {
            PredictorKind::None => false,
            PredictorKind::AllUnique => true,
            PredictorKind::Recent => self.counters[self.region(address)] >= 2,
            PredictorKind::Oracle => contents.expect(content),
        }
    }

    /// What the look-up said about a chunk, and what had been said before.
    pub fn learn(&mut self, address: u64, said_unique: bool, was_unique: bool) {
        if self.kind == PredictorKind::None {
            return;
        }
        let score = &mut self.score;
        *match (said_unique, was_unique) {
            (true, true) => &mut score.unique_right,
            (true, false) => &mut score.unique_wrong,
            (false, false) => &mut score.duplicate_right,
            (false, true) => &mut score.duplicate_wrong,
        } += 1;
        if self.kind == PredictorKind::Recent {
            let region = self.region(address);
            let counter = &mut self.counters[region];
            *counter = if was_unique { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        }
    }

    /// How often it was right.
    pub const fn score(&self) -> Score {
        self.score
    }

    fn region(&self, address: u64) -> usize {
        let mixed = SplitMix64::new(address / REGION_CHUNKS).next_u64();
        ((u128::from(mixed) * self.counters.len() as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbourhoods_are_learnt_and_the_oracle_is_never_wrong() {
        let mut contents = Contents::new(10);
        let mut recent = Predictor::new(PredictorKind::Recent, 1 << 10);
        let mut oracle = Predictor::new(PredictorKind::Oracle, 0);
        for round in 0..100_u32 {
            // One region of new contents, one of copies of them.
            for (address, content) in [(0, 100 + round), (REGION_CHUNKS, 100 + round)] {
                let said = recent.is_unique(address, content, &mut contents);
                let knew = oracle.is_unique(address, content, &mut contents);
                let unique = contents.claim(content);
                recent.learn(address, said, unique);
                oracle.learn(address, knew, unique);
            }
        }
        assert_eq!(oracle.score().right_share(), Some(1.0));
        let (right, wrong) = ((1, 2), (3, 4));
        let score = Score {
            unique_right: right.0,
            duplicate_right: right.1,
            unique_wrong: wrong.0,
            duplicate_wrong: wrong.1,
        };
        assert_eq!(score.right_share(), Some(0.3));
        let score = recent.score();
        assert_eq!((score.unique_right, score.duplicate_right), (100, 99), "{score:?}");
        assert_eq!(Predictor::new(PredictorKind::None, 0).score().right_share(), None);
    }
}
