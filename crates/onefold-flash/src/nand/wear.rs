//! How flash wears: raw bit errors by cycles, time and reads; blocks that are or go bad.
//! Room: onefold-flash.   In: what a block has been through.   Out: error rates, error positions.
//! Source, for the forms: errors of write, retention and read disturb add up and grow as a power
//! of the cycles ([mielke-08]); retention errors grow with the logarithm of time ([retention-15],
//! [luo-18]); read disturb is linear in the reads of the block, some 1e-9 to 1e-8 a read for MLC
//! ([read-disturb-15]); shifted read thresholds take back what drifted, not what was written wrong
//! (read retry, [thresholds-13]). The constants are round figures of the orders that those papers
//! report, not a fit to a chip.
//! Invariants: the same seed and history give the same errors; at a lower rate a subset of them.

use onefold_block::SplitMix64;

const HOUR_S: f64 = 3600.0;
const YEAR_S: f64 = 365.25 * 24.0 * HOUR_S;
/// The rate of a page that holds noise.
pub(crate) const RATE_MAX: f64 = 0.5;
/// Errors are looked for in no more than so many bits of a page.
const ERRORS_MAX: usize = 1 << 16;

/// The parameters of wear. Rates are raw bit error rates, errors per bit read.
#[derive(Clone, Debug, PartialEq)]
pub struct WearModel {
    /// Program and erase cycles that the maker promises.
    pub rated_cycles: u32,
    /// Rate of a new block, read at once.
    pub fresh_rate: f64,
    /// Added rate at the rated cycles, read at once.
    pub worn_rate: f64,
    /// Power of the cycles with which that grows.
    pub worn_exponent: f64,
    /// Added rate after a year without power at the rated cycles.
    pub retention_rate: f64,
    /// Power of the cycles with which retention grows.
    pub retention_exponent: f64,
    /// Added rate for each read of the block at the rated cycles.
    pub disturb_rate: f64,
    /// What plain data in the cells makes of all these rates, where the scrambler has been undone.
    pub plain_factor: f64,
    /// What neighbours in the block that hold the same bits make of them; less alike ones add
    /// their share.
    pub similar_factor: f64,
    /// Share of the errors that are noise of one reading and not of the cells, 0 to 1.
    pub noise_share: f64,
    /// Readings with shifted thresholds after the first one failed.
    pub retries: u32,
    /// What each retry leaves of the errors of retention and disturb, 0 to 1.
    pub retry_gain: f64,
    /// Share of blocks that are bad when the drive is made.
    pub factory_bad: f64,
    /// Share of blocks that fail before the rated cycles.
    pub grown_bad: f64,
    /// Weibull shape of the cycles at which blocks fail; above 1 old ones fail more often.
    pub grown_shape: f64,
    /// Seed of all chance in the cells.
    pub seed: u64,
}

/// Names that [`WearModel::preset`] knows.
pub const WEAR_NAMES: [&str; 4] = ["none", "slc", "mlc", "tlc"];

impl WearModel {
    /// Flash that never errs and never wears out.
    pub const fn none() -> Self {
        Self {
            rated_cycles: u32::MAX,
            fresh_rate: 0.0,
            worn_rate: 0.0,
            worn_exponent: 1.0,
            retention_rate: 0.0,
            retention_exponent: 1.0,
            disturb_rate: 0.0,
            plain_factor: 1.0,
            similar_factor: 1.0,
            noise_share: 0.0,
            retries: 0,
            retry_gain: 1.0,
            factory_bad: 0.0,
            grown_bad: 0.0,
            grown_shape: 1.0,
            seed: 0,
        }
    }

    /// The model of that name: `none`, `slc`, `mlc` (planar, 20 to 30 nm) or `tlc` (3D).
    ///
    /// Datasheets promise that at least 98 % of the blocks are good over the rated life; a
    /// quarter of the rest is bad from the start here.
    pub fn preset(name: &str) -> Option<Self> {
        let flash = Self {
            worn_exponent: 2.0,
            retention_exponent: 1.2,
            noise_share: 0.1,
            factory_bad: 0.005,
            grown_bad: 0.015,
            grown_shape: 3.0,
            retry_gain: 0.5,
            ..Self::none()
        };
        Some(match name {
            "none" => Self::none(),
            "slc" => Self {
                rated_cycles: 100_000,
                fresh_rate: 1e-9,
                worn_rate: 1e-7,
                retention_rate: 4e-7,
                disturb_rate: 1e-12,
                retries: 2,
                ..flash
            },
            "mlc" => Self {
                rated_cycles: 3_000,
                fresh_rate: 1e-7,
                worn_rate: 5e-5,
                retention_rate: 4e-4,
                disturb_rate: 2e-9,
                retries: 6,
                ..flash
            },
            "tlc" => Self {
                rated_cycles: 1_500,
                fresh_rate: 1e-6,
                worn_rate: 2e-4,
                retention_rate: 1.5e-3,
                disturb_rate: 4e-9,
                retries: 8,
                ..flash
            },
            _ => return None,
        })
    }

    /// The same model with other chance.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The raw bit error rate of a block after `erases` cycles, `age_s` seconds after it was
    /// programmed and `reads` readings of its pages since, at read retry number `retry`.
    pub fn rate(&self, erases: u32, age_s: u64, reads: u64, retry: u32) -> f64 {
        let cycle = f64::from(erases) / f64::from(self.rated_cycles);
        let worn = self.fresh_rate + self.worn_rate * cycle.powf(self.worn_exponent);
        let time = (age_s as f64 / HOUR_S).ln_1p() / (YEAR_S / HOUR_S).ln_1p();
        let leaked = self.retention_rate * cycle.powf(self.retention_exponent) * time;
        let disturbed = self.disturb_rate * (0.1 + 0.9 * cycle) * reads as f64;
        let drifted = (leaked + disturbed) * self.retry_gain.powi(retry as i32);
        (worn + drifted).min(RATE_MAX)
    }

    /// Whether a block is marked bad by its maker.
    pub fn is_factory_bad(&self, block: u32) -> bool {
        self.stream(1, u64::from(block), 0).uniform() < self.factory_bad
    }

    /// The number of erases at which a block fails, drawn once and for all, and whether it is
    /// the erase that fails or the program of this page after it.
    pub fn end_of_life(&self, block: u32, pages_per_block: u32) -> (u32, Option<u32>) {
        if self.grown_bad <= 0.0 {
            return (u32::MAX, None);
        }
        let mut random = self.stream(2, u64::from(block), 0);
        // Weibull: the share failed by the rated cycles is `grown_bad`.
        let scale = -(1.0 - self.grown_bad.min(0.999_999)).ln();
        let life = (-random.uniform().ln() / scale).powf(1.0 / self.grown_shape);
        let cycles = (life * f64::from(self.rated_cycles)).clamp(1.0, f64::from(u32::MAX));
        let page = random.below(u64::from(2 * pages_per_block)) as u32;
        (cycles as u32, (page < pages_per_block).then_some(page))
    }

    /// Share of the rated life that is used, in percent: the mean erase count over the rating.
    /// It may exceed 100.
    pub fn percentage_used(&self, mean_erases: f64) -> f64 {
        100.0 * mean_erases / f64::from(self.rated_cycles)
    }

    /// The bits that are wrong in a page of `bits`, for one reading at `rate`: those of the cells
    /// by page and erase count, those of the reading by the block's read count too. `flip` may
    /// hear of one bit twice.
    pub fn errors(&self, rate: f64, at: &Reading, bits: u64, mut flip: impl FnMut(u64)) -> usize {
        let cells = self.stream(3, u64::from(at.ppn), u64::from(at.erases));
        let mut noise = self.stream(4, u64::from(at.ppn), u64::from(at.erases));
        noise.state = noise.state.wrapping_add(mix(at.reads.wrapping_add(1)));
        let mut wrong = 0;
        for (mut random, share) in [(cells, 1.0 - self.noise_share), (noise, self.noise_share)] {
            let limit = rate * share;
            if limit <= 0.0 {
                continue;
            }
            // Places in the order of the rates at which they go wrong: a Poisson process, so that
            // a lower rate finds a subset.
            let mut level = 0.0;
            loop {
                level -= random.uniform().ln() / bits as f64;
                if level >= limit || wrong == ERRORS_MAX {
                    break;
                }
                flip(random.below(bits));
                wrong += 1;
            }
        }
        wrong
    }

    /// One draw for a page and the program of it that is there: above 0, at most 1.
    pub fn luck(&self, at: &Reading) -> f64 {
        self.stream(5, u64::from(at.ppn), u64::from(at.erases)).uniform()
    }

    fn stream(&self, what: u64, place: u64, time: u64) -> Stream {
        let state = mix(self.seed ^ mix(what ^ mix(place ^ mix(time))));
        Stream { state }
    }
}

/// Which reading of which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The page.
    pub ppn: u32,
    /// Erases of its block when it was programmed.
    pub erases: u32,
    /// Readings of its block since.
    pub reads: u64,
}

/// A stream of chance that is cheap to begin.
struct Stream {
    state: u64,
}

impl Stream {
    fn next_u64(&mut self) -> u64 {
        let mut random = SplitMix64::new(self.state);
        let value = random.next_u64();
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        value
    }

    /// Above 0, at most 1.
    fn uniform(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

fn mix(value: u64) -> u64 {
    SplitMix64::new(value).next_u64()
}

#[cfg(test)]
mod tests;
