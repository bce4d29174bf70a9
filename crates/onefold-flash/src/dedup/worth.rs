//! What one more digest or entry would have saved of late, and how memory is shared by that.
//! Room: onefold-flash.
//! What is hit under any split says nothing about it, so only regrets count. A candidate without a
//! digest costs a read, or its whole program where there is no time to read it; a fingerprint that
//! is not found costs what finding it would have saved. If its digest or its entry went lately, as
//! a sample of sets remembers, a little more memory would have kept it. Memory goes to the kind
//! whose cells would have saved more.
//! Invariant: the target lies between no digests and one for each entry.

/// Entries that take the memory of a digest.
pub(crate) const ENTRIES_PER_CELL: usize = 3;
/// Regrets between two steps of the target.
const REGRETS: u32 = 16;
/// The longest step, as a share of all cells.
const STEP: f64 = 1.0 / 32.0;
/// What is left of older regrets at each step.
const FADES: f64 = 0.9;
/// A digest is asked for by an entry, so that more digests than entries are of no use.
const MOST: f64 = ENTRIES_PER_CELL as f64 / (ENTRIES_PER_CELL + 1) as f64;

/// The regrets of late.
#[derive(Clone, Debug)]
pub(crate) struct Worth {
    /// The share of the cells that is to hold digests.
    target: f64,
    learns: bool,
    /// What a read and a comparison take, as a share of a program.
    read_of_program: f64,
    /// Candidates without a digest, and those of them that were compared at once.
    undigested: f64,
    compared: f64,
    /// What one more digest, and one more entry, of each set would have saved, in programs.
    by_digest: f64,
    by_entry: f64,
    regrets: u32,
}

impl Worth {
    /// Such a share of the cells for digests at first, and for ever unless it learns.
    pub fn new(target: f64, read_of_program: f64, learns: bool) -> Self {
        Self {
            target: target.min(MOST),
            learns,
            read_of_program,
            undigested: 0.0,
            compared: 0.0,
            by_digest: 0.0,
            by_entry: 0.0,
            regrets: 0,
        }
    }

    /// The share of the cells that is to hold digests.
    pub const fn target(&self) -> f64 {
        self.target
    }

    /// A candidate without a digest was compared at once, or left for later. If its digest went
    /// lately, it would still be there if sets had one more for each `gone` of these.
    pub fn undigested(&mut self, is_compared: bool, gone: Option<f64>) {
        self.undigested += 1.0;
        self.compared += f64::from(u8::from(is_compared));
        if let Some(gone) = gone {
            self.by_digest += if is_compared { self.read_of_program } else { 1.0 } / gone;
            self.regret();
        }
    }

    /// A fingerprint came again whose entry went lately, and would still be there if sets had one
    /// more for each `gone` of these.
    pub fn unfound(&mut self, gone: f64) {
        let compared = if self.undigested > 0.0 { self.compared / self.undigested } else { 1.0 };
        self.by_entry += compared * (1.0 - self.read_of_program) / gone;
        self.regret();
    }

    fn regret(&mut self) {
        self.regrets += 1;
        if !self.learns || self.regrets < REGRETS {
            return;
        }
        self.regrets = 0;
        let entries = ENTRIES_PER_CELL as f64 * self.by_entry;
        let both = self.by_digest + entries;
        if both > 0.0 {
            let step = STEP * (self.by_digest - entries) / both;
            self.target = (self.target + step).clamp(0.0, MOST);
        }
        let Self { undigested, compared, by_digest, by_entry, .. } = self;
        for past in [undigested, compared, by_digest, by_entry] {
            *past *= FADES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELLS: f64 = 16.0;
    /// Entries and digests that went last and are remembered.
    const GONE: f64 = 2.0;

    /// What a split saves of all programs, if so many of either find a power of their number.
    fn saves(digests: f64, power: f64, read: f64, busy: f64) -> f64 {
        let entries = (CELLS - digests) * ENTRIES_PER_CELL as f64;
        let by_entry = (1.0 - busy) * (1.0 - read);
        by_entry * entries.powf(power) + (1.0 - by_entry) * digests.min(entries).powf(power)
    }

    /// The split after many duplicates whose distances are such, of which so many find no time to
    /// be read.
    fn settles(power: f64, read: f64, busy: f64, learns: bool) -> f64 {
        let mut worth = Worth::new(6.0 / CELLS, read, learns);
        let mut random = onefold_block::SplitMix64::new(3);
        let mut share = move || random.below(1 << 30) as f64 / f64::from(1 << 30);
        let (mut sum, mut counted) = (0.0, 0);
        for at in 0..400_000 {
            let digests = CELLS * worth.target();
            let entries = (CELLS - digests) * ENTRIES_PER_CELL as f64;
            let distance = 60.0 * share().powf(1.0 / power);
            let is_compared = share() >= busy;
            if distance < digests {
                continue;
            }
            if distance < entries {
                worth.undigested(is_compared, (distance < digests + GONE).then_some(GONE));
            } else if distance < entries + GONE {
                worth.unfound(GONE);
            }
            if at > 200_000 {
                sum += CELLS * worth.target();
                counted += 1;
            }
        }
        if counted > 0 { sum / f64::from(counted) } else { CELLS * worth.target() }
    }

    #[test]
    fn the_split_settles_where_it_saves_most() {
        for power in [0.2, 0.5, 0.8] {
            for (read, busy) in [(0.2, 0.0), (0.5, 0.0), (0.2, 0.5), (0.8, 0.1), (0.5, 0.9)] {
                let found = settles(power, read, busy, true);
                let all = (0..=1200).map(|n| f64::from(n) / 100.0);
                let best = all.map(|n| saves(n, power, read, busy)).fold(0.0, f64::max);
                let here = saves(found, power, read, busy);
                assert!(here > 0.98 * best, "{power}, {read}, {busy}: {found}, {}", here / best);
            }
        }
    }

    #[test]
    fn it_goes_no_further_than_a_digest_for_each_entry_and_may_stay() {
        assert!(settles(0.5, 1.0, 0.0, true) > 11.9);
        assert_eq!(settles(0.5, 1.0, 0.0, false).to_bits(), 6.0_f64.to_bits());
        assert!(settles(0.5, 0.0, 0.0, true) < 0.1);
        assert_eq!(Worth::new(99.0, 0.5, false).target().to_bits(), 0.75_f64.to_bits());
    }
}
