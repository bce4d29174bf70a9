//! Whether what a run measured is what endless writes would measure.
//! Room: onefold-flash.   In: the FTL's counts, now and then.   Out: [`SettledReport`].
//! A run is cut into windows of as many written pages each. It has settled if collection keeps up
//! with it in every plane, if the later half of the windows amplifies as the earlier half does, and
//! if the mean of all is known well enough. Intervals are of batch means by Student's t.
//! Cost: at most [`WINDOWS_MAX`] counts, however long the run is.

use serde::Serialize;

use crate::ftl::Counters;
use crate::op::{Cause, OpKind};

/// Windows at which pairs of them become one.
const WINDOWS_MAX: usize = 64;
/// Written pages of the first windows.
const FIRST_PAGES: u64 = 64;
/// Batches of windows, and the two-sided 5 % point of Student's t for one less.
const MANY: (usize, f64) = (16, 2.131);
/// The same for runs of few windows; with fewer still nothing is said.
const FEW: (usize, f64) = (8, 2.365);
/// Half the width of the interval of the write amplification, of its mean, that is narrow enough.
const PRECISION: f64 = 0.05;
/// Difference of the halves, of the mean, that is never called a drift.
const DRIFT: f64 = 0.01;
/// Difference of the halves in standard errors beyond which it is called one.
const DRIFT_ERRORS: f64 = 3.0;

/// Whether a run has settled, and at what.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct SettledReport {
    pub settled: bool,
    pub lacks: Option<&'static str>,
    pub requests_needed: Option<u64>,
    pub programmed_share: Option<IntervalReport>,
    pub write_amplification: Option<IntervalReport>,
    pub preconditioning_pages: u64,
}

/// A mean and its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct IntervalReport {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl IntervalReport {
    /// Of batches of nearly as many written pages each: all that was programmed over all that was
    /// written, with the variance of a ratio of sums.
    fn of(batches: &[Batch], t: f64) -> Self {
        let count = batches.len() as f64;
        let sum = |of: fn(&Batch) -> u64| batches.iter().map(of).sum::<u64>() as f64;
        let (written, programmed) = (sum(|batch| batch.written), sum(|batch| batch.programmed));
        let mean = programmed / written;
        let off = |batch: &Batch| {
            (batch.programmed as f64 - mean * batch.written as f64) / (written / count)
        };
        let squares: f64 = batches.iter().map(|batch| off(batch).powi(2)).sum();
        let half = t * (squares / (count - 1.0) / count).sqrt();
        // Fewer than none are programmed by nobody.
        Self { mean, low: (mean - half).max(0.0), high: mean + half }
    }

    /// Half its width, of its mean.
    fn relative(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { (self.high - self.mean) / self.mean }
    }
}

/// Mean and unbiased variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (n - 1.0).max(1.0))
}

/// What was counted up to some moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    written: u64,
    programmed: u64,
    all: u64,
}

impl Mark {
    /// In pages, or in codewords where the host's pages are written as so many of them each.
    fn of(counters: &Counters, codewords: u32) -> Self {
        let of_page = u64::from(codewords);
        Self {
            written: counters.host_pages_written,
            programmed: counters.ops.of(OpKind::Program, Cause::Host) * of_page,
            all: counters.ops.all(OpKind::Program) * of_page,
        }
    }
}

/// Windows that follow each other.
#[derive(Clone, Copy, Debug)]
struct Batch {
    written: u64,
    programmed: u64,
}

/// The windows of a run.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    every: u64,
    next: u64,
    codewords: u32,
    marks: Vec<Mark>,
}

impl Windows {
    /// Windows from here on.
    pub(crate) fn from(counters: &Counters, codewords: u32) -> Self {
        let (first, every) = (Mark::of(counters, codewords), FIRST_PAGES * u64::from(codewords));
        Self { every, next: first.written + every, codewords, marks: vec![first] }
    }

    /// Takes the counts if a window is over.
    #[inline]
    pub(crate) fn look(&mut self, counters: &Counters) {
        if counters.host_pages_written >= self.next {
            self.close(counters);
        }
    }

    fn close(&mut self, counters: &Counters) {
        self.marks.push(Mark::of(counters, self.codewords));
        if self.marks.len() > WINDOWS_MAX {
            let mut number = 0;
            self.marks.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every *= 2;
        }
        self.next = counters.host_pages_written + self.every;
    }

    /// All of the run up to `end` in `count` batches of as many windows each, or one more. What
    /// came after the last window belongs to it.
    fn batches(&self, count: usize, end: &Mark, of: impl Fn(&Mark) -> u64) -> Vec<Batch> {
        let windows = self.marks.len() - 1;
        let mark = |at: usize| if at == count { end } else { &self.marks[at * windows / count] };
        let batch = |at| {
            let (from, to) = (mark(at), mark(at + 1));
            Batch { written: to.written - from.written, programmed: of(to) - of(from) }
        };
        (0..count).map(batch).collect()
    }

    /// Says whether the run that ended with these counts has settled. `spare_pages` are free pages
    /// beyond those that collection keeps; requests are told from pages by `requests_per_page`.
    pub(crate) fn judge(
        &self,
        end: &Counters,
        spare_pages: u64,
        requests_per_page: f64,
    ) -> SettledReport {
        let windows = self.marks.len() - 1;
        let requests = |pages: f64| Some((pages * requests_per_page).ceil().max(1.0) as u64);
        let end = Mark::of(end, self.codewords);
        let written = (end.written - self.marks[0].written) / u64::from(self.codewords);
        let written = written as f64;
        if windows < FEW.0 {
            let lack = FEW.0 as f64 * FIRST_PAGES as f64 - written;
            let requests_needed = requests(lack).filter(|_| requests_per_page > 0.0);
            return SettledReport { lacks: Some("writes"), requests_needed, ..Default::default() };
        }
        let (count, t) = if windows < MANY.0 { FEW } else { MANY };
        let shares = self.batches(count, &end, |mark| mark.programmed);
        let amplifications = self.batches(count, &end, |mark| mark.all);
        let share = IntervalReport::of(&shares, t);
        let waf = IntervalReport::of(&amplifications, t);
        let [shares, amplifications] = [shares, amplifications].map(|batches| ratios(&batches));
        let lacks = if spare_pages > 0 {
            Some(("collection", spare_pages as f64 / share.mean.max(1e-9) + written))
        } else if drifts(&amplifications) || drifts(&shares) {
            Some(("drift", written * until_flat(&amplifications)))
        } else if waf.relative() > PRECISION {
            Some(("precision", written * ((waf.relative() / PRECISION).powi(2) - 1.0)))
        } else {
            None
        };
        SettledReport {
            settled: lacks.is_none(),
            lacks: lacks.map(|(name, _)| name),
            requests_needed: lacks.and_then(|(_, pages)| requests(pages)),
            programmed_share: Some(share),
            write_amplification: Some(waf),
            preconditioning_pages: 0,
        }
    }
}

fn ratios(batches: &[Batch]) -> Vec<f64> {
    batches.iter().map(|batch| batch.programmed as f64 / batch.written as f64).collect()
}

/// Whether the later half of the values differs from the earlier one by more than chance.
pub(super) fn drifts(values: &[f64]) -> bool {
    let (early, late) = values.split_at(values.len() / 2);
    let ((early_mean, early_variance), (late_mean, late_variance)) =
        (moments(early), moments(late));
    let off = (late_mean - early_mean).abs();
    let error = (early_variance / early.len() as f64 + late_variance / late.len() as f64).sqrt();
    let mean = f64::midpoint(early_mean, late_mean);
    off > DRIFT_ERRORS * error && off > DRIFT * mean
}

/// How many times as many pages again it takes until values that near their limit as fast as the
/// first and the last quarters of these do drift no more: each further run as long as this one
/// leaves the same share of the way. At least as many again, and at most a hundred times.
fn until_flat(values: &[f64]) -> f64 {
    let quarter = (values.len() / 4).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let first = mean(&values[..quarter]);
    let middle = mean(&values[values.len() / 2 - quarter / 2..][..quarter]);
    let last = mean(&values[values.len() - quarter..]);
    let (before, after) = ((middle - first).abs(), (last - middle).abs());
    let ratio = after / before.max(1e-12);
    if ratio.is_nan() || !(1e-6..0.99).contains(&ratio) {
        return 1.0;
    }
    // From one half of the run to the next, what is left of the way shrinks by `ratio`.
    let left = after * ratio / (1.0 - ratio);
    let wanted = DRIFT * last.abs().max(1e-12) / 2.0;
    ((wanted / left).ln() / ratio.ln() / 2.0).clamp(1.0, 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that has ended.
    struct Run {
        windows: Windows,
        end: Counters,
    }

    impl Run {
        fn judge(&self, spare_pages: u64, requests_per_page: f64) -> SettledReport {
            self.windows.judge(&self.end, spare_pages, requests_per_page)
        }
    }

    /// A run that programs `at(written)` pages for each page written.
    fn run(pages: u64, at: impl Fn(u64) -> f64) -> Run {
        let mut counters = Counters::default();
        let mut windows = Windows::from(&counters, 1);
        let (mut programmed, mut owed) = (0_u64, 0.0);
        for page in 0..pages {
            owed += at(page);
            while owed >= 1.0 {
                owed -= 1.0;
                programmed += 1;
                counters.ops.add(OpKind::Program, Cause::Host);
            }
            counters.host_pages_written += 1;
            windows.look(&counters);
        }
        assert!(windows.marks.len() <= WINDOWS_MAX && programmed > 0);
        Run { windows, end: counters }
    }

    #[test]
    fn what_stays_as_it_is_has_settled_there() {
        for pages in [1_000, 10_000, 1_000_000] {
            let report = run(pages, |page| if page % 7 < 3 { 1.5 } else { 1.0 }).judge(0, 1.0);
            assert!(report.settled, "{report:?}");
            let waf = report.write_amplification.expect("there are windows");
            assert!((waf.mean - 8.5 / 7.0).abs() < 0.02 && waf.low <= waf.mean, "{waf:?}");
            assert_eq!((report.lacks, report.requests_needed), (None, None));
        }
    }

    #[test]
    fn what_goes_on_changing_has_not_and_says_how_long_it_would_take() {
        // From 2 to 1, a factor of e every 50,000 pages: 1 % off after 230,000.
        let run_of = |pages| run(pages, |page| 1.0 + (-(page as f64) / 50_000.0).exp());
        let report = run_of(100_000).judge(0, 0.5);
        assert_eq!((report.settled, report.lacks), (false, Some("drift")));
        let needed = report.requests_needed.expect("it says");
        assert!((50_000..200_000).contains(&needed), "{needed}");
        let settled = run_of(2_000_000).judge(0, 1.0);
        assert!(settled.lacks != Some("precision"), "{settled:?}");
    }

    #[test]
    fn a_difference_that_chance_explains_is_no_drift() {
        // Each half has a mean of 10 or 13, and both together a standard error of 1.
        let three_errors = [9.0, 11.0, 9.0, 11.0, 11.0, 15.0, 13.0, 13.0];
        assert!(!drifts(&three_errors));
        assert!(drifts(&three_errors.map(|value| if value > 12.0 { value + 0.1 } else { value })));
        assert!(!drifts(&[0.0; 8]) && !drifts(&[1.5; 8]));
        // Without chance, a hundredth of the mean is.
        assert!(drifts(&[1.0, 1.0, 1.02, 1.02]) && !drifts(&[1.0, 1.0, 1.009, 1.009]));
    }

    #[test]
    fn free_space_few_writes_and_wild_ones_are_no_steady_state() {
        let steady = run(10_000, |_| 1.0);
        assert_eq!(steady.judge(500, 1.0).lacks, Some("collection"));
        assert_eq!(steady.judge(1, 1.0).lacks, Some("collection"));
        assert_eq!(steady.judge(500, 1.0).requests_needed, Some(10_500));
        let few = run(100, |_| 1.0).judge(0, 2.0);
        assert_eq!((few.lacks, few.requests_needed), (Some("writes"), Some(824)));
        let wild = |page: u64| if (page / 640).is_multiple_of(2) { 0.2 } else { 4.0 };
        let wild = run(10_240, wild).judge(0, 1.0);
        assert_eq!(wild.lacks, Some("precision"), "{wild:?}");
        assert!(wild.requests_needed.is_some_and(|more| more > 10_240), "{wild:?}");
    }

    /// Windows of a hundred written pages each, in which so many were programmed for the host, and
    /// half as many as were written besides.
    fn windows(programmed: &[u64]) -> Run {
        let mut marks = vec![Mark { written: 7, programmed: 8, all: 9 }];
        for (number, more) in (1..).zip(programmed) {
            let Mark { programmed, all, .. } = marks[marks.len() - 1];
            let (written, programmed) = (7 + 100 * number, programmed + more);
            marks.push(Mark { written, programmed, all: all + more + 50 });
        }
        let Mark { written, programmed, all } = marks[marks.len() - 1];
        let mut end = Counters { host_pages_written: written, ..Counters::default() };
        (0..programmed).for_each(|_| end.ops.add(OpKind::Program, Cause::Host));
        (programmed..all).for_each(|_| end.ops.add(OpKind::Program, Cause::Gc));
        Run { windows: Windows { every: 100, next: 0, codewords: 1, marks }, end }
    }

    #[test]
    fn windows_are_closed_when_they_are_full_and_put_together_when_they_are_many() {
        let written = |pages| -> Vec<u64> {
            let Run { windows, .. } = run(pages, |_| 1.0);
            windows.marks.iter().map(|mark| mark.written).collect()
        };
        let of = |each: u64, count| (0..=count).map(|at| at * each).collect::<Vec<_>>();
        assert_eq!((written(63), written(64)), (of(64, 0), of(64, 1)));
        let most = 64 * WINDOWS_MAX as u64;
        assert_eq!(written(most - 1), of(64, 63));
        assert_eq!(written(most), of(128, 32));
        assert_eq!((written(most + 127), written(most + 128)), (of(128, 32), of(128, 33)));
        let counters = Counters { host_pages_written: 1000, ..Counters::default() };
        let of_codewords = Windows::from(&counters, 4);
        assert_eq!((of_codewords.every, of_codewords.next), (256, 1256));
    }

    #[test]
    fn a_mean_is_known_as_well_as_its_batches_agree() {
        let judged = |programmed: &[u64]| {
            let report = windows(programmed).judge(0, 1.0);
            assert_eq!((report.settled, report.lacks), (true, None), "{report:?}");
            let [share, waf] = [report.programmed_share, report.write_amplification];
            let [share, waf] = [share, waf].map(|interval| interval.expect("there are windows"));
            let close = |number: f64, to: f64| assert!((number - to).abs() < 1e-9, "{report:?}");
            close(share.high - share.mean, share.mean - share.low);
            close(waf.high - waf.mean, share.high - share.mean);
            close(waf.mean, share.mean + 0.5);
            close(share.mean, 1.05);
            share.high - share.mean
        };
        // 2.365 sqrt(0.02 / 7 / 8) and 2.131 sqrt(0.04 / 15 / 16).
        for (each, count, half) in [
            (1, 8, 0.044_694_298_933),
            (1, 16, 0.027_511_091_703),
            (2, 16, 0.027_511_091_703),
            (3, 16, 0.027_511_091_703),
        ] {
            let alike: Vec<u64> =
                (0..count).flat_map(|at| vec![100 + 10 * (at % 2); each]).collect();
            let found = judged(&alike);
            assert!((found - half).abs() < 1e-9, "{each}, {count}: {found}");
        }
        // A page in all that was written: fewer than none is no end of an interval.
        let one: Vec<u64> = (0..16).map(|at| u64::from(at == 5)).collect();
        let share = windows(&one).judge(0, 1.0).programmed_share.expect("there are windows");
        assert!(share.low == 0.0 && share.mean < share.high - share.mean, "{share:?}");
    }

    #[test]
    fn nothing_that_a_run_wrote_is_left_out_however_many_windows_it_has() {
        for windows_of_run in 8..64 {
            // One window is unlike the others: whichever it is, it counts.
            for unlike in 0..windows_of_run {
                let mut programmed = vec![100; windows_of_run];
                programmed[unlike] = 900;
                let mut run = windows(&programmed);
                // And so does what came after the last one.
                run.end.host_pages_written += 50;
                (0..70).for_each(|_| run.end.ops.add(OpKind::Program, Cause::Host));
                let report = run.judge(0, 1.0);
                let whole = |all: usize| all as f64 / (100 * windows_of_run + 50) as f64;
                let programmed = 100 * windows_of_run + 800 + 70;
                let share = report.programmed_share.expect("there are windows");
                let waf = report.write_amplification.expect("there are windows");
                assert_eq!(share.mean.to_bits(), whole(programmed).to_bits());
                assert_eq!(waf.mean.to_bits(), whole(programmed + 50 * windows_of_run).to_bits());
                assert!(!report.settled, "{windows_of_run}, {unlike}: {report:?}");
            }
        }
    }

    #[test]
    fn what_a_run_lacks_is_told_with_how_much_it_takes() {
        let judged = |programmed: &[u64], spare, per_page| {
            let report = windows(programmed).judge(spare, per_page);
            assert!(!report.settled);
            (report.lacks.expect("it lacks something"), report.requests_needed)
        };
        // Eight windows of 64 pages; there may have been as many in larger ones.
        assert_eq!(judged(&[100; 3], 0, 2.0), ("writes", Some(2 * (512 - 300))));
        assert_eq!(judged(&[100; 7], 0, 2.0), ("writes", Some(1)));
        assert_eq!(judged(&[100; 3], 0, 0.0), ("writes", None), "a run that only reads");
        assert_eq!(judged(&[200; 8], 90, 3.0), ("collection", Some(3 * (90 / 2 + 800))));
        // From 9.5 over 5.5 to 3.5: half of what is left goes with each half of the run.
        let falls = [900, 900, 700, 500, 500, 400, 300, 300];
        assert_eq!(judged(&falls, 0, 1.0), ("drift", Some(2735)));
        // An interval of 1.5 +- 0.893886, where a twentieth of it would do.
        let wild = [0, 200].repeat(4);
        assert_eq!(judged(&wild, 0, 1.0), ("precision", Some(112_841)));
    }

    #[test]
    fn values_that_near_their_limit_are_flat_after_a_while() {
        // The quarters are of 9, 5 and 3: ln(0.0075) / ln(1/2) / 2.
        let of = until_flat(&[9.0, 9.0, 7.0, 5.0, 5.0, 4.0, 3.0, 3.0]);
        assert!((of - 3.529_446_845).abs() < 1e-9, "{of}");
        let slow = until_flat(&[100.0, 100.0, 0.0, 50.0, 50.0, 0.0, 1.0, 1.0]);
        assert_eq!(slow.to_bits(), 100.0_f64.to_bits());
        // What does not near anything, or is there, is looked at once more.
        for values in [[1.0, 9.0, 2.0, 3.0], [4.0, 3.0, 2.0, 0.0], [5.0; 4], [5.0, 1.0, 1.0, 1.0]] {
            assert_eq!(until_flat(&values).to_bits(), 1.0_f64.to_bits(), "{values:?}");
        }
        for (mean, high, half) in [(0.0, 1.0, 0.0_f64), (2.0, 3.0, 0.5)] {
            let relative = IntervalReport { mean, low: 2.0 * mean - high, high }.relative();
            assert_eq!(relative.to_bits(), half.to_bits(), "{mean}");
        }
    }
}
