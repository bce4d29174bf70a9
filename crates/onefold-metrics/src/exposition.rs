//! A sample as Prometheus reads it: `OpenMetrics`, or the older text format.
//! Room: onefold-metrics.   In: a sample, and what the client accepts.   Out: text.

use std::fmt;

use onefold_block::wrappers::{TIME_BOUNDS_NS, Times};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::definition::{Definition, Kind, Number, Point};
use crate::definitions;
use crate::sample::Sample;

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `OpenMetrics` 1.0.
    OpenMetrics,
    /// Version 0.0.4 of Prometheus's own.
    Text,
}

impl Format {
    /// The one that a client wants, by the field `Accept` of its request.
    pub fn accepted(accept: Option<&str>) -> Self {
        let asked = accept.is_some_and(|accept| accept.contains("application/openmetrics-text"));
        if asked { Self::OpenMetrics } else { Self::Text }
    }

    /// What it is called in HTTP.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// A sample in it.
    pub fn write(self, sample: &Sample) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Collected(sample.clone())));
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &registry);
        match self {
            Self::OpenMetrics => text,
            Self::Text => older(&text),
        }
    }
}

struct Collected(Sample);

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sample")
    }
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for definition in definitions::all() {
            let points = (definition.read)(&self.0);
            if !points.is_empty() {
                family(definition, &points, &mut encoder)?;
            }
        }
        Ok(())
    }
}

fn family(
    definition: &Definition,
    points: &[Point],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let unit = definition.unit().map(|unit| match unit {
        "bytes" => Unit::Bytes,
        "seconds" => Unit::Seconds,
        other => Unit::Other(other.to_owned()),
    });
    let kind = match definition.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let base = definition.base();
    let mut metric = encoder.encode_descriptor(base, definition.help, unit.as_ref(), kind)?;
    for point in points {
        if point.labels.is_empty() {
            number(definition.kind, point.number, &mut metric)?;
            continue;
        }
        let names = definition.labels.iter().copied();
        let labels: Vec<(&str, &str)> =
            names.zip(point.labels.iter().map(String::as_str)).collect();
        number(definition.kind, point.number, &mut metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn number(kind: Kind, number: Number, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    match (kind, number) {
        (Kind::Counter, Number::Whole(value)) => {
            metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
        }
        (Kind::Counter, Number::Real(value)) => {
            metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
        }
        (_, Number::Whole(value)) => metric.encode_gauge(&value),
        (_, Number::Real(value)) => metric.encode_gauge(&value),
        (_, Number::Times(times)) => histogram(&times, metric),
    }
}

fn histogram(times: &Times, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    let bounds = TIME_BOUNDS_NS.iter().map(|&bound| bound as f64 / 1e9).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(times.requests).collect();
    let count = times.requests.iter().sum();
    metric.encode_histogram::<NoLabelSet>(times.sum_ns as f64 / 1e9, count, &buckets, None)
}

/// `OpenMetrics` in the older format, which names a counter as its values are named, and knows
/// neither units nor an end.
fn older(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let counters: Vec<&str> = text.lines().filter_map(counter).collect();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => continue,
            (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest))
                if counters.contains(&name) =>
            {
                out.extend(["# ", what, " ", name, "_total ", rest]);
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// The name of a counter, if the line says that it is one.
fn counter(line: &str) -> Option<&str> {
    line.strip_prefix("# TYPE ")?.strip_suffix(" counter")
}
