//! What a metric is.
//! Room: onefold-metrics.
//! Invariant: names begin with `onefold_`, end with their unit, and those of counters with `_total`
//! behind it.

use onefold_block::wrappers::Times;

use crate::sample::Sample;

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the server ends.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Requests by how long they took.
    Histogram,
}

impl Kind {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count, or bytes.
    Whole(u64),
    /// A ratio, or seconds.
    Real(f64),
    /// Times of requests.
    Times(Times),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<bool> for Number {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<Times> for Number {
    fn from(value: Times) -> Self {
        Self::Times(value)
    }
}

/// A value with what it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// One for each of the definition's labels.
    pub labels: Vec<String>,
    /// The value.
    pub number: Number,
}

/// A metric.
pub struct Definition {
    /// Its whole name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What it is, in a line, without a full stop.
    pub help: &'static str,
    /// What its values are told apart by.
    pub labels: &'static [&'static str],
    /// Where `pool status --json` shows the same number, with `.` between members.
    pub status: Option<&'static str>,
    /// Its values in a sample; none if the sample has not got the subject.
    pub read: fn(&Sample) -> Vec<Point>,
}

/// Units, as the ends of names.
const UNITS: [&str; 3] = ["bytes", "seconds", "ratio"];

impl Definition {
    /// The name without what Prometheus's formats put behind it by themselves.
    pub fn base(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        let unit = self.unit().map(|unit| format!("_{unit}"));
        unit.and_then(|unit| name.strip_suffix(unit.as_str())).unwrap_or(name)
    }

    /// The unit, where it is none of what the name says that it counts.
    pub fn unit(&self) -> Option<&'static str> {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        UNITS.into_iter().find(|unit| name.ends_with(&format!("_{unit}")))
    }
}
