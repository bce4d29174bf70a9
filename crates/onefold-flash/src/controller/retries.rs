//! How often a page has to be read until it can be corrected, by the wear model.
//! Room: onefold-flash.   In: the operations that the FTL issues.   Out: readings beyond the first.
//! Source: rates from [`crate::nand::wear`]; a codeword of 1,024 bytes fails by the binomial tail
//! for BCH, as often as measured for the QC-LDPC code (docs/codes.md), with any wrong bit for none.
//! Invariants: a page fails by one draw from seed, page and erase count, so that the same history
//! takes the same retries, and a lower rate never more of them.
//! Cost: a rate and a tail per reading, where it is modelled at all.

use crate::geometry::Geometry;
use crate::nand::wear::{Reading, WearModel};
use crate::op::{FlashOp, OpKind};
use crate::spec::{DriveSpec, MediaCode};

/// Data and parity bits of a codeword.
const CODEWORD_BITS: f64 = 8.0 * (1024.0 + 32.0);
/// Bits that the BCH code corrects in one.
const BCH_T: u32 = 18;
/// Raw bit error rate and share of codewords of `ses-33x256` that fail, as measured.
const LDPC_FAILS: [(f64, f64); 10] = [
    (1e-4, 2.8e-5),
    (2e-4, 3.0e-4),
    (3e-4, 2.2e-3),
    (5e-4, 1.6e-2),
    (7e-4, 7.0e-2),
    (1e-3, 0.26),
    (1.25e-3, 0.45),
    (1.5e-3, 0.62),
    (2e-3, 0.88),
    (3e-3, 1.0),
];

/// What was counted of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryCounts {
    /// Pages read from the flash.
    pub pages_read: u64,
    /// Pages of these that had to be read more than once.
    pub retried_pages: u64,
    /// Readings beyond the first.
    pub retries: u64,
    /// Pages that no retry would have brought back.
    pub uncorrectable_pages: u64,
}

/// What a block has been through.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    erases: u32,
    reads: u32,
    /// When its first page was programmed; `None` before the run.
    filled_ns: Option<u64>,
}

/// The wear of every block, as far as the run changes it.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    geometry: Geometry,
    model: WearModel,
    code: MediaCode,
    codewords: f64,
    /// Seconds for which what is there at the start has been there.
    data_age_s: u64,
    blocks: Vec<Past>,
    pub counts: RetryCounts,
}

impl Retries {
    /// For a specification that asks for it.
    pub(crate) fn new(spec: &DriveSpec) -> Option<Box<Self>> {
        if !spec.media.read_retries {
            return None;
        }
        let geometry = spec.geometry;
        let past = Past { erases: spec.media.worn_cycles as u32, ..Past::default() };
        Some(Box::new(Self {
            geometry,
            model: spec.wear_model(),
            code: spec.media.code,
            codewords: f64::from(geometry.page_bytes.div_ceil(1024)),
            data_age_s: spec.media.data_age_s,
            blocks: vec![past; geometry.blocks() as usize],
            counts: RetryCounts::default(),
        }))
    }

    /// An operation is issued: readings that it takes beyond the first.
    pub(crate) fn of(&mut self, op: FlashOp, now_ns: u64) -> u32 {
        let block = self.geometry.block_of(op.ppn);
        let past = &mut self.blocks[block as usize];
        match op.kind {
            OpKind::Erase => *past = Past { erases: past.erases + 1, ..Past::default() },
            OpKind::Program if op.ppn == self.geometry.first_page(block) => {
                past.filled_ns = Some(now_ns);
            }
            OpKind::Program => {}
            OpKind::Read => {
                past.reads = past.reads.saturating_add(1);
                let past = *past;
                return self.read(op.ppn, &past, now_ns);
            }
        }
        0
    }

    /// Whole seconds since a block was begun.
    fn age_s(&self, past: &Past, now_ns: u64) -> u64 {
        match past.filled_ns {
            Some(filled) => (now_ns - filled) / 1_000_000_000,
            None => self.data_age_s,
        }
    }

    fn read(&mut self, ppn: u32, past: &Past, now_ns: u64) -> u32 {
        let age_s = self.age_s(past, now_ns);
        let reads = u64::from(past.reads);
        let luck = self.model.luck(&Reading { ppn, erases: past.erases, reads });
        let works = |retry: &u32| {
            let rate = self.model.rate(past.erases, age_s, reads, *retry);
            luck > self.page_fails(rate)
        };
        let found = (0..=self.model.retries).find(works);
        let retries = found.unwrap_or(self.model.retries);
        self.counts.pages_read += 1;
        self.counts.retried_pages += u64::from(retries > 0);
        self.counts.retries += u64::from(retries);
        self.counts.uncorrectable_pages += u64::from(found.is_none());
        retries
    }

    /// The probability that one of a page's codewords cannot be corrected.
    fn page_fails(&self, rate: f64) -> f64 {
        let one = codeword_fails(self.code, rate);
        -(self.codewords * (-one).ln_1p()).exp_m1()
    }
}

fn codeword_fails(code: MediaCode, rate: f64) -> f64 {
    if rate <= 0.0 {
        return 0.0;
    }
    match code {
        MediaCode::None => -(CODEWORD_BITS * (-rate).ln_1p()).exp_m1(),
        MediaCode::Bch => binomial_tail(CODEWORD_BITS, rate, BCH_T),
        MediaCode::QcLdpc => interpolated(rate),
    }
}

/// The probability of more than `t` errors in `n` bits.
fn binomial_tail(n: f64, rate: f64, t: u32) -> f64 {
    let odds = rate / (1.0 - rate);
    let mut term = (n * (-rate).ln_1p()).exp();
    let mut within = term;
    for k in 0..t {
        let k = f64::from(k);
        term *= odds * (n - k) / (k + 1.0);
        within += term;
    }
    if within < 0.99 {
        return 1.0 - within;
    }
    // Few are left: their own sum is more exact than the difference.
    let mut tail = 0.0;
    for k in t..t + 64 {
        let k = f64::from(k);
        term *= odds * (n - k) / (k + 1.0);
        tail += term;
    }
    tail
}

/// Between measured points along straight lines in logarithms; below them by patterns of three
/// errors, which is what the code fails on first.
fn interpolated(rate: f64) -> f64 {
    let (first, last) = (LDPC_FAILS[0], LDPC_FAILS[LDPC_FAILS.len() - 1]);
    if rate <= first.0 {
        return first.1 * (rate / first.0).powi(3);
    }
    if rate >= last.0 {
        return 1.0;
    }
    let after = LDPC_FAILS.partition_point(|(at, _)| *at < rate);
    let ((x0, y0), (x1, y1)) = (LDPC_FAILS[after - 1], LDPC_FAILS[after]);
    let share = (rate / x0).ln() / (x1 / x0).ln();
    y0 * (y1 / y0).powf(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_the_measured_codes() {
        // docs/codes.md, "computed".
        for (rate, fails) in [(5e-4, 1.2e-7), (1e-3, 1.2e-3), (1.5e-3, 5.7e-2), (3e-3, 0.92)] {
            let got = codeword_fails(MediaCode::Bch, rate);
            assert!((got / fails - 1.0).abs() < 0.1, "{rate}: {got} against {fails}");
        }
        for (rate, fails) in LDPC_FAILS {
            assert!((interpolated(rate) - fails).abs() < 1e-9);
        }
        for code in [MediaCode::None, MediaCode::Bch, MediaCode::QcLdpc] {
            let rates = (0..200).map(|step| 1e-8 * 1.1_f64.powi(step));
            let fails: Vec<f64> = rates.map(|rate| codeword_fails(code, rate.min(0.5))).collect();
            assert!(fails.is_sorted() && fails.iter().all(|p| (0.0..=1.0).contains(p)), "{code:?}");
            assert!(codeword_fails(code, 0.0) < 1e-300);
        }
    }

    #[test]
    fn few_errors_fail_as_their_tails_and_patterns_say() {
        // More than 2 errors in 10 bits, each of them wrong one time in 25.
        let tail = binomial_tail(10.0, 0.04, 2);
        assert!((tail - 0.006_213_715_991_870_831).abs() < 1e-15, "{tail}");
        // Three bits that all have to be wrong.
        let (rate, fails) = LDPC_FAILS[0];
        assert!((interpolated(rate / 2.0) / fails - 0.125).abs() < 1e-12);
    }

    #[test]
    fn reads_are_counted_and_what_was_just_written_is_young_however_late_it_is() {
        let mut spec = DriveSpec::preset("ses-slc").expect("a preset");
        (spec.media.read_retries, spec.media.wear) = (true, crate::spec::MediaWear::Tlc);
        (spec.media.code, spec.media.worn_cycles) = (MediaCode::Bch, 2_500);
        (spec.media.rated_pe_cycles, spec.geometry.page_bytes) = (3_000, 4097);
        let op = |kind, ppn| FlashOp { kind, cause: crate::op::Cause::Host, ppn, foreground: true };
        // Retries of the pages of a block that is programmed at one time and read at another.
        let retries = |programmed_ns: u64, read_ns: u64| {
            let mut retries = Retries::new(&spec).expect("they are modelled");
            assert!((retries.codewords - 5.0).abs() < 1e-9, "the last one holds a byte");
            for ppn in 0..spec.geometry.pages_per_block {
                assert_eq!(retries.of(op(OpKind::Program, ppn), programmed_ns), 0);
            }
            let pages = 0..spec.geometry.pages_per_block;
            let again: u32 = pages.map(|ppn| retries.of(op(OpKind::Read, ppn), read_ns)).sum();
            assert_eq!(retries.blocks[0].reads, spec.geometry.pages_per_block);
            again
        };
        let late = 9_000_000_000_000_000_000;
        assert_eq!(retries(0, 0), retries(late, late));
        assert!(retries(0, late) > retries(0, 0), "what is old is read again");
        spec.media.data_age_s = 77;
        let modelled = Retries::new(&spec).expect("they are modelled");
        let age_s =
            |filled_ns| modelled.age_s(&Past { filled_ns, ..Past::default() }, 8_000_000_000);
        let filled = [None, Some(0), Some(1), Some(7_000_000_001), Some(8_000_000_000)];
        assert_eq!(filled.map(age_s), [77, 8, 7, 0, 0]);
    }
}
