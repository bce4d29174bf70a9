//! Whether a chunk that may be in a run on disk is worth a read, or is taken for unique.
//! Room: onefold-pool.
//! In: what came of the last look-ups. Out: the unique-chunk predictor of [ajdari-talk]: a verdict
//! before each look-up.
//! A chunk for whose key a filter says "perhaps" is there or is one of 256 that are not; without a
//! filter it may be any chunk. How many there are of each depends on what is written. While
//! look-ups find little, one in 32 is made all the same, so that it is noticed when that changes.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Successes are weighed so: the last 64 look-ups count about as much as all before.
const WEIGHT: u32 = 64;
/// All of them.
const ONE: u32 = 1 << 16;
/// A look-up that finds something saves compressing and storing a chunk, several times its cost.
const WORTH: u32 = ONE / 8;
/// Of those that are taken for unique, one in so many is looked for all the same.
const EXPLORED: u64 = 32;

/// What is expected, from what was seen.
pub struct Predictor {
    /// Share of look-ups that found a duplicate, of [`ONE`].
    share: AtomicU32,
    asked: AtomicU64,
    right: AtomicU64,
    passed: AtomicU64,
}

/// What it came to, in chunks, since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predictions {
    /// Look-ups on disk.
    pub asked: u64,
    /// Of these, right ones: the chunk was there.
    pub right: u64,
    /// Chunks that may have been there and were taken for unique.
    pub passed: u64,
}

impl std::ops::Add for Predictions {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            right: self.right + other.right,
            passed: self.passed + other.passed,
        }
    }
}

impl Default for Predictor {
    fn default() -> Self {
        let count = AtomicU64::default;
        Self { share: AtomicU32::new(ONE), asked: count(), right: count(), passed: count() }
    }
}

impl Predictor {
    /// Whether to look for the next chunk of which a filter says "perhaps".
    pub fn is_worth(&self) -> bool {
        if self.finds() {
            return true;
        }
        let passed = self.passed.fetch_add(1, Ordering::Relaxed);
        passed % EXPLORED == EXPLORED - 1
    }

    /// Whether look-ups find enough, by now.
    pub fn finds(&self) -> bool {
        self.share.load(Ordering::Relaxed) >= WORTH
    }

    /// It could not be looked for in time.
    pub fn pass(&self) {
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    /// What came of a look-up.
    pub fn learn(&self, found: bool) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.right.fetch_add(u64::from(found), Ordering::Relaxed);
        let share = self.share.load(Ordering::Relaxed);
        let now = share - share / WEIGHT + if found { ONE / WEIGHT } else { 0 };
        // Two at once: one of them counts.
        self.share.store(now.min(ONE), Ordering::Relaxed);
    }

    /// What it came to.
    pub fn predictions(&self) -> Predictions {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Predictions { asked: get(&self.asked), right: get(&self.right), passed: get(&self.passed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_nothing_is_asked_rarely_until_it_finds_again() {
        let predictor = Predictor::default();
        let mut asked = 0;
        for _ in 0..10_000 {
            if predictor.is_worth() {
                asked += 1;
                predictor.learn(false);
            }
        }
        assert!((300..600).contains(&asked), "{asked} of 10,000");
        let made = predictor.predictions();
        assert_eq!((made.asked, made.right), (asked, 0));
        assert!(made.passed > 9_000, "{made:?}");
        let mut chunks = 0;
        while !(predictor.is_worth() && predictor.share.load(Ordering::Relaxed) >= WORTH) {
            predictor.learn(chunks % 2 == 0);
            chunks += 1;
        }
        assert!(chunks < 40, "it took {chunks} duplicates to notice them");
        for _ in 0..1000 {
            assert!(predictor.is_worth());
            predictor.learn(true);
        }
    }

    #[test]
    fn an_eighth_of_the_look_ups_is_just_enough() {
        let predictor = Predictor::default();
        for (share, finds) in [(WORTH, true), (WORTH - 1, false)] {
            predictor.share.store(share, Ordering::Relaxed);
            assert_eq!(predictor.finds(), finds, "{share} of {ONE}");
        }
    }

    #[test]
    fn it_gives_up_after_so_many_failures_asks_every_32nd_and_believes_what_it_finds() {
        let predictor = Predictor::default();
        // A share of 65,536 that loses a 64th each time is below an eighth after 133 times.
        for n in 0..133 {
            assert!(predictor.is_worth(), "after {n} failures");
            predictor.learn(false);
        }
        assert!(!predictor.finds());
        let made = |asked, right, passed| Predictions { asked, right, passed };
        assert_eq!(predictor.predictions(), made(133, 0, 0), "nothing was passed yet");
        let asked: Vec<u64> = (1..=96).filter(|_| predictor.is_worth()).collect();
        assert_eq!(asked, [32, 64, 96]);
        predictor.pass();
        assert_eq!(predictor.predictions(), made(133, 0, 97));
        predictor.learn(true);
        assert!(predictor.finds() && predictor.is_worth());
        assert_eq!(predictor.share.load(Ordering::Relaxed), 8097 - 126 + 1024);
        (0..1000).for_each(|_| predictor.learn(true));
        assert!(predictor.share.load(Ordering::Relaxed) <= ONE);
        let both = predictor.predictions() + made(1, 2, 3);
        assert_eq!(both, made(1135, 1003, 100));
    }
}
