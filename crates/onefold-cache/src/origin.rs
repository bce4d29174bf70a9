//! What is known of a container before it is asked for: how many use it.
//! Room: onefold-cache.
//! Who is used by many may be asked for more often, or not; so that is learnt as well. Containers
//! of a class, an octave of their references each, are watched from their first request on
//! ([`crate::forecast`]), and their first count is lifted by the quotient of what came for the
//! class and for all of them. As long as a class has seen little, a part of what sets it apart from
//! the mean is believed.
//! Invariant: integers and + - * / alone. Where no references are told, nothing happens.

use crate::score::ONE;

/// The highest class, of 2^31 references and more; 0 is that of none told.
const CLASS_MAX: u32 = u32::BITS;
/// Of an octave more references than the mean, the octaves that are believed at first.
const BELIEVE: f64 = 0.25;
/// Octaves by which a first count is lifted: scores begin at one octave, and none is below 0.
const LEAST: f64 = -0.9;
const MOST: f64 = 3.0;
/// Requests foretold, or containers, that are remembered; once it is full, older ones count half.
const MEMORY: f64 = 256.0;

/// Requests that came and that were foretold without references, as the bits of floats.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    came: u64,
    foretold: u64,
}

impl Seen {
    fn add(&mut self, came: f64, foretold: f64) {
        let mut sums = [f64::from_bits(self.came) + came, f64::from_bits(self.foretold) + foretold];
        if sums[1] > MEMORY {
            sums = sums.map(|sum| sum / 2.0);
        }
        *self = Self { came: sums[0].to_bits(), foretold: sums[1].to_bits() };
    }

    /// What came over what was foretold, where `doubt` requests are taken to have come so.
    fn quotient(self, doubt: f64, begin: f64) -> f64 {
        let [came, foretold] = [self.came, self.foretold].map(f64::from_bits);
        (came + doubt * begin) / (foretold + doubt)
    }
}

/// The classes.
#[derive(Clone, Copy, Debug)]
pub struct Origins {
    all: Seen,
    classes: [Seen; CLASS_MAX as usize + 1],
    /// New containers, and the sum of their classes, as the bits of floats.
    new: u64,
    sum: u64,
}

impl Default for Origins {
    fn default() -> Self {
        Self {
            all: Seen::default(),
            classes: [Seen::default(); CLASS_MAX as usize + 1],
            new: 0,
            sum: 0,
        }
    }
}

/// The bits of a count of requests as they are, and of 0 for those of anything else.
pub fn count_of(bits: u64) -> u64 {
    let sane = (0.0..=1e12).contains(&f64::from_bits(bits));
    if sane { bits } else { 0 }
}

/// The class of so many references: none told is 0.
pub const fn class_of(references: u32) -> u32 {
    u32::BITS - references.leading_zeros()
}

impl Origins {
    /// A container of a class is asked for the first time: by how much its count is lifted, in
    /// parts of an octave.
    pub fn first(&mut self, class: u32, doubt: f64) -> i32 {
        let class = class.min(CLASS_MAX);
        if class == 0 {
            return 0;
        }
        let [mut new, mut sum] = [self.new, self.sum].map(f64::from_bits);
        if new >= MEMORY {
            (new, sum) = (new / 2.0, sum / 2.0);
        }
        (new, sum) = (new + 1.0, sum + f64::from(class));
        (self.new, self.sum) = (new.to_bits(), sum.to_bits());
        let apart = BELIEVE * (f64::from(class) - sum / new);
        let all = self.all.quotient(doubt, 1.0);
        let begin = all * onefold_sim::exp(apart * std::f64::consts::LN_2);
        let of_class = self.classes[class as usize].quotient(doubt, begin);
        let ratio = (of_class / all).clamp(1e-9, 1e9);
        let octaves = onefold_sim::ln(ratio) / std::f64::consts::LN_2;
        (octaves.clamp(LEAST, MOST) * f64::from(ONE)) as i32
    }

    /// For a container of a class, of which so many requests were foretold without references, so
    /// many came.
    pub fn learn(&mut self, class: u32, came: f64, foretold: f64) {
        let class = class.min(CLASS_MAX);
        self.all.add(came, foretold);
        self.classes[class as usize].add(came, foretold);
    }

    /// A saved state was loaded, which may say anything.
    pub fn restored(&mut self) {
        self.numbers().into_iter().for_each(|number| *number = count_of(*number));
        let [new, sum] = [self.new, self.sum].map(f64::from_bits);
        self.sum = sum.min(new * f64::from(CLASS_MAX)).to_bits();
    }

    /// What has to survive a restart, in an order that never changes.
    pub fn numbers(&mut self) -> Vec<&mut u64> {
        let seen = std::iter::once(&mut self.all).chain(&mut self.classes);
        let seen = seen.flat_map(|Seen { came, foretold }| [came, foretold]);
        seen.chain([&mut self.new, &mut self.sum]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBT: f64 = 16.0;

    /// Octaves by which a class is lifted now.
    fn octaves(origins: &Origins, class: u32) -> f64 {
        let mut copy = *origins;
        f64::from(copy.first(class, DOUBT)) / f64::from(ONE)
    }

    /// As many of each class were asked for first.
    fn met(classes: &[u32]) -> Origins {
        let mut origins = Origins::default();
        for _ in 0..500 {
            for &class in classes {
                origins.first(class, DOUBT);
            }
        }
        origins
    }

    #[test]
    fn classes_are_octaves_and_none_told_is_none() {
        assert_eq!(
            [0, 1, 2, 3, 4, 1023, 1024, u32::MAX].map(class_of),
            [0, 1, 2, 2, 3, 10, 11, 32]
        );
        let mut origins = met(&[1, 5]);
        assert_eq!(origins.first(0, DOUBT), 0);
        assert_eq!(origins.first(u32::MAX >> 1, DOUBT), origins.first(32, DOUBT));
    }

    #[test]
    fn at_first_a_quarter_of_what_sets_a_class_apart_is_believed() {
        let origins = met(&[2, 4]);
        for (class, lift) in [(2, -0.25), (3, 0.0), (4, 0.25), (7, 1.0), (32, 3.0)] {
            let got = octaves(&origins, class);
            assert!((got - lift).abs() < 0.02, "class {class}: {got}");
        }
        assert!(octaves(&met(&[9]), 9).abs() < 1e-9, "of a single class there is nothing to say");
        assert!((octaves(&met(&[31, 32]), 1) - LEAST).abs() < 1e-4, "no score is below nothing");
    }

    #[test]
    fn what_comes_for_a_class_is_learnt_whichever_way_it_goes() {
        for (many, few) in [(6.0, 1.0), (1.0, 6.0)] {
            let mut origins = met(&[2, 4]);
            for _ in 0..2_000 {
                origins.learn(2, few, 2.0);
                origins.learn(4, many, 2.0);
            }
            let (low, high) = (octaves(&origins, 2), octaves(&origins, 4));
            let apart = (high - low).exp2();
            // The lower of the two is as low as it may be.
            assert!(if many > few { apart > 3.0 } else { apart < 1.0 / 3.0 }, "{low} {high}");
            let never_seen = octaves(&origins, 3);
            assert!(never_seen.abs() < 0.1, "{never_seen}");
        }
    }

    #[test]
    fn what_a_saved_state_says_cannot_be_too_much() {
        let most = 1e12_f64.to_bits();
        for bits in [u64::MAX, f64::NAN.to_bits(), f64::INFINITY.to_bits(), 1, most] {
            for every in 1..4 {
                let mut origins = met(&[2, 4]);
                let numbers = origins.numbers().into_iter().rev().step_by(every);
                numbers.for_each(|number| *number = bits);
                origins.restored();
                let lift = octaves(&origins, 4);
                assert!((LEAST - 0.01..=MOST).contains(&lift), "{bits:x}, {every}: {lift}");
            }
        }
        let mut origins = met(&[3, 8]);
        origins.learn(3, 1.0, 2.0);
        let before: Vec<u64> = origins.numbers().into_iter().map(|number| *number).collect();
        origins.restored();
        assert_eq!(origins.numbers().into_iter().map(|number| *number).collect::<Vec<_>>(), before);
    }
}
