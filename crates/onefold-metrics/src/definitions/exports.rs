//! What clients ask of exports, and how long it takes.
//! Room: onefold-metrics.

use onefold_block::wrappers::{Verb, VerbStats};

use super::point;
use crate::definition::{Definition, Kind, Point};
use crate::sample::Sample;

/// Verbs whose times are worth a histogram.
const TIMED: [Verb; 4] = [Verb::Read, Verb::Write, Verb::Trim, Verb::Flush];

/// Of each export that a client has opened since the server started.
pub static METRICS: &[Definition] = &[
    Definition {
        name: "onefold_connections",
        kind: Kind::Gauge,
        help: "Clients that are connected",
        labels: &[],
        status: None,
        read: |sample| super::one(sample.connections.into()),
    },
    Definition {
        name: "onefold_export_requests_total",
        kind: Kind::Counter,
        help: "Requests of clients that ended",
        labels: &["export", "verb"],
        status: None,
        read: |sample| counted(sample, |stats| stats.requests),
    },
    Definition {
        name: "onefold_export_errors_total",
        kind: Kind::Counter,
        help: "Requests of these that failed",
        labels: &["export", "verb"],
        status: None,
        read: |sample| counted(sample, |stats| stats.errors),
    },
    Definition {
        name: "onefold_export_bytes_total",
        kind: Kind::Counter,
        help: "Bytes of the ranges of requests that succeeded",
        labels: &["export", "verb"],
        status: None,
        read: |sample| counted(sample, |stats| stats.bytes),
    },
    Definition {
        name: "onefold_export_request_duration_seconds",
        kind: Kind::Histogram,
        help: "Time from when a request was taken up until it was done, without the network",
        labels: &["export", "verb"],
        status: None,
        read: timed,
    },
];

fn counted(sample: &Sample, read: fn(VerbStats) -> u64) -> Vec<Point> {
    let mut points = Vec::new();
    for export in &sample.exports {
        let stats = export.counters.snapshot();
        let of = |verb: Verb| point([&export.name, verb.name()], read(stats.of(verb)));
        points.extend(Verb::ALL.map(of));
    }
    points
}

fn timed(sample: &Sample) -> Vec<Point> {
    let mut points = Vec::new();
    for export in &sample.exports {
        let of = |verb: Verb| point([&export.name, verb.name()], export.counters.times(verb));
        points.extend(TIMED.map(of));
    }
    points
}
