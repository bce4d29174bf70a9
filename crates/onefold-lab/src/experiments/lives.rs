//! How long drives live in their own steady state beside plain ones, and what they do meanwhile:
//! several runs of each, one for each seed.
//! Room: onefold-lab.

use onefold_flash::run::Report;

use crate::series::{Data, Line, Spread};

/// The write amplification of a run; a life only of one that has settled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wear {
    /// Pages programmed for each that the host wrote.
    pub amplification: f64,
    /// The ends of its 95 % interval.
    between: (f64, f64),
    settled: bool,
}

impl Wear {
    /// That of a run.
    pub fn of(report: &Report) -> Self {
        let between = report.settled.write_amplification;
        Self {
            amplification: report.waf.total.unwrap_or(f64::NAN),
            between: between.map_or((f64::NAN, f64::NAN), |of| (of.low, of.high)),
            settled: report.lifetime.terabytes_written.is_some(),
        }
    }
}

/// Mean and 99th percentile of a kind of request, in microseconds.
pub fn latency_us(report: &Report, kind: &str) -> [f64; 2] {
    let latency = report.latency_ns.get(kind).and_then(Option::as_ref);
    latency.map_or([f64::NAN; 2], |of| [of.mean / 1000.0, of.p99 as f64 / 1000.0])
}

/// The mean.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let all: Vec<f64> = values.into_iter().collect();
    all.iter().sum::<f64>() / all.len() as f64
}

/// The least and the most.
pub fn ends(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// How much longer drives live than plain ones, seed by seed.
pub fn lives(runs: &[Wear], plain: &[Wear]) -> Vec<f64> {
    let pairs = plain.iter().zip(runs);
    pairs.map(|(plain, run)| plain.amplification / run.amplification).collect()
}

/// Put the write amplification of runs, and, if all have settled, their life, of which `plain` has
/// 1, as `unit` says.
pub fn put_wear(
    line: impl Fn(&str, &str) -> Line,
    (at, unit): (u64, &str),
    (runs, plain): (&[Wear], &[Wear]),
    data: &mut Data,
) {
    let (low, _) = ends(runs.iter().map(|run| run.between.0));
    let (_, high) = ends(runs.iter().map(|run| run.between.1));
    let amplification = mean(runs.iter().map(|run| run.amplification));
    let point = data.put(&line("write amplification", ""), at, amplification);
    point.range(low, high, Spread::Confidence95);
    if runs.iter().chain(plain).all(|run| run.settled) {
        let by = |end: fn(&Wear) -> f64| {
            ends(plain.iter().zip(runs).map(|(plain, run)| plain.amplification / end(run)))
        };
        let (low, high) = (by(|run| run.between.1).0, by(|run| run.between.0).1);
        let point = data.put(&line("life", unit), at, mean(lives(runs, plain)));
        point.range(low, high, Spread::Confidence95);
    }
}

/// Put a quantity of runs, with the least and the most where there are several.
pub fn put(line: &Line, at: u64, values: &[f64], data: &mut Data) {
    let (low, high) = ends(values.iter().copied());
    let point = data.put(line, at, mean(values.iter().copied()));
    if values.len() > 1 {
        point.range(low, high, Spread::Extremes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::settings::{Options, Settings};

    #[test]
    fn several_runs_have_a_range_and_one_has_none() {
        let options = Options::default();
        let settings = Settings::new(find("beyond/codeword").unwrap()[0], &options).unwrap();
        let mut data = Data::new(&settings);
        put(&Line::new("latency", "us"), 1, &[5.0], &mut data);
        put(&Line::new("latency", "us"), 2, &[5.0, 8.0], &mut data);
        let ranges = data.series[0].points.iter().map(|point| point.range);
        let ends: Vec<_> = ranges.map(|range| range.map(|range| (range.low, range.high))).collect();
        assert_eq!(ends, [None, Some((5.0, 8.0))]);
    }
}
