//! An axis: from values to places, with marks at round numbers.
//! Room: onefold-lab.

/// Marks aimed at.
const MARKS: f64 = 6.0;

/// A stretch of values on a stretch of the page.
#[derive(Clone, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    log2: bool,
    from: f64,
    to: f64,
    /// Values with a mark.
    pub marks: Vec<f64>,
}

impl Axis {
    /// An axis over all finite `values` and 0, from place `from` to place `to`.
    pub fn linear(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = bounds(values.chain([0.0]));
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / MARKS);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let marks: Vec<f64> = (first..=last).map(|mark| mark as f64 * step).collect();
        let (low, high) = (first as f64 * step, last as f64 * step);
        Self { low, high, log2: false, from, to, marks }
    }

    /// An axis over all positive `values` with a mark at each, on which doublings are equal steps.
    pub fn log2(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let mut marks: Vec<f64> =
            values.filter(|value| *value > 0.0 && value.is_finite()).collect();
        marks.sort_unstable_by(f64::total_cmp);
        marks.dedup();
        let (low, high) = bounds(marks.iter().copied());
        let (low, high) = if high > low { (low, high) } else { (low / 2.0, high * 2.0) };
        Self { low: low.log2(), high: high.log2(), log2: true, from, to, marks }
    }

    /// The place of a value.
    pub fn place(&self, value: f64) -> f64 {
        let value = if self.log2 { value.log2() } else { value };
        self.from + (self.to - self.from) * (value - self.low) / (self.high - self.low)
    }
}

/// Least and greatest finite value; 1 and 1 if there are none.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low <= high { (low, high) } else { (1.0, 1.0) }
}

/// 1, 2 or 5 times a power of ten, not below `step`.
fn round_step(step: f64) -> f64 {
    let mut power = 1.0;
    while power > step {
        power /= 10.0;
    }
    while power * 10.0 <= step {
        power *= 10.0;
    }
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= step).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_cover_everything() {
        let axis = Axis::linear([3.0, 37.4, f64::NAN].into_iter(), 0.0, 100.0);
        assert_eq!(axis.marks, [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert!((axis.place(20.0) - 50.0).abs() < 1e-9);
        let axis = Axis::linear([-0.3, 0.1].into_iter(), 10.0, 0.0);
        assert!(axis.marks.len() >= 4 && axis.marks[0] <= -0.3);
        assert!(Axis::linear([0.0, 0.0].into_iter(), 0.0, 1.0).place(0.0).abs() < 1e-9);
        for (high, step) in [(6.0, 1.0), (6.1, 2.0), (13.0, 5.0), (31.0, 10.0), (0.07, 0.02)] {
            let marks = Axis::linear([high].into_iter(), 0.0, 1.0).marks;
            assert!((marks[1] - step).abs() < 1e-9 && marks[0] == 0.0, "{high}: {marks:?}");
            assert!(*marks.last().unwrap() >= high, "{high}: {marks:?}");
        }
        assert!(Axis::linear(std::iter::empty(), 0.0, 1.0).place(0.5).is_finite());
    }

    #[test]
    fn doublings_are_equal_steps() {
        let axis = Axis::log2([4.0, 8.0, 0.0, 4.0, -1.0, 16.0].into_iter(), 0.0, 10.0);
        assert_eq!(axis.marks, [4.0, 8.0, 16.0]);
        assert!((axis.place(8.0) - 5.0).abs() < 1e-9);
        assert!((Axis::log2([4.0].into_iter(), 0.0, 1.0).place(4.0) - 0.5).abs() < 1e-9);
    }
}
