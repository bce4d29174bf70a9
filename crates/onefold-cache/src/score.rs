//! Counts that fade: the logarithm of an exponentially decaying count, in integers.
//! Room: onefold-cache.
//! A request at time t adds 2^(t / half-life) to a sum that is never scaled down; the score is
//! log2 of that sum. All counts fade at one rate, so that scores compare without being touched,
//! and a container costs 4 bytes. The count at present is 2^(score - present).
//! Cost: one table look-up per request.

/// Fractional bits of a score.
const FRACTION: u32 = 16;
/// One octave.
pub const ONE: u32 = 1 << FRACTION;
/// Table steps per octave.
const STEPS: usize = 64;
/// Octaves after which a sum no longer changes.
const OCTAVES: usize = 18;

/// 2^(1/64).
const ROOT: f64 = 1.010_889_286_051_700_5;

/// Tables of 2^x and log2(1 + 2^-x); the same on every machine, being made of + - * / alone.
#[derive(Clone, Debug)]
pub struct Scores {
    /// 2^(i/64).
    powers: Vec<f64>,
    /// log2(1 + 2^-(i/64)) in fractions.
    sums: Vec<u32>,
}

impl Default for Scores {
    fn default() -> Self {
        let mut power = 1.0;
        let powers: Vec<f64> = std::iter::repeat_with(|| {
            let now = power;
            power *= ROOT;
            now
        })
        .take(STEPS * OCTAVES + 2)
        .collect();
        let sums = powers.iter().map(|power| (log2_near_one(1.0 / power) * f64::from(ONE)) as u32);
        Self { sums: sums.collect(), powers }
    }
}

/// log2(1 + y) for 0 <= y <= 1, by the series of the inverse hyperbolic tangent.
fn log2_near_one(y: f64) -> f64 {
    let s = y / (2.0 + y);
    let sum = (0..20).rev().fold(0.0, |sum, k| sum * s * s + 1.0 / f64::from(2 * k + 1));
    2.0 * s * sum / std::f64::consts::LN_2
}

impl Scores {
    /// log2(2^a + 2^b).
    pub fn sum(&self, a: u32, b: u32) -> u32 {
        let (low, high) = (a.min(b), a.max(b));
        let difference = (high - low) as usize * STEPS;
        let (step, rest) = (difference >> FRACTION, (difference % ONE as usize) as u64);
        match self.sums.get(step..step + 2) {
            Some(&[here, next]) => {
                let drop = (u64::from(here - next) * rest) >> FRACTION;
                high + (u64::from(here) - drop) as u32
            }
            _ => high,
        }
    }

    /// 2^(score - present): the faded count.
    pub fn count(&self, score: u32, present: u32) -> f64 {
        if score == 0 {
            return 0.0;
        }
        let (difference, up) = (score.abs_diff(present), score >= present);
        let (octaves, rest) = (difference >> FRACTION, difference % ONE);
        let place = rest as usize * STEPS;
        let (step, part) = (place >> FRACTION, (place % ONE as usize) as f64 / f64::from(ONE));
        let power = self.powers[step] + (self.powers[step + 1] - self.powers[step]) * part;
        let power = power * (1_u64 << octaves.min(62)) as f64;
        if up { power } else { 1.0 / power }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_fading_a_score_is_the_logarithm_of_the_count() {
        let scores = Scores::default();
        let mut score = ONE;
        for count in 2..3_000_u32 {
            score = scores.sum(score, ONE);
            let exact = f64::from(count);
            let got = scores.count(score, ONE);
            assert!((got / exact - 1.0).abs() < 0.03, "{got} for {count}");
        }
    }

    #[test]
    fn a_count_is_the_power_of_two_that_the_score_says() {
        let scores = Scores::default();
        for step in 0..6_000_u32 {
            let (score, present) = (ONE + step * 97, 4 * ONE + step % 13);
            let exact = ((f64::from(score) - f64::from(present)) / f64::from(ONE)).exp2();
            let got = scores.count(score, present);
            assert!((got / exact - 1.0).abs() < 2e-5, "{got} for {exact}");
        }
        assert!(scores.count(0, ONE) < 1e-300);
    }

    #[test]
    fn counts_halve_in_a_half_life() {
        let scores = Scores::default();
        let score = scores.sum(scores.sum(ONE, ONE), scores.sum(ONE, ONE));
        for half_lives in 0..10 {
            let got = scores.count(score, ONE * (1 + half_lives));
            let exact = 4.0 / f64::from(1 << half_lives);
            assert!((got / exact - 1.0).abs() < 0.02, "{got} for {exact}");
        }
        // What faded long ago no longer counts.
        assert_eq!(scores.sum(ONE, 30 * ONE), 30 * ONE);
    }
}
