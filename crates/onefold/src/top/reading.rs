//! What a server says of itself, second by second.
//! Room: onefold.

use std::collections::{BTreeMap, VecDeque};

use onefold_control::jobs::JobView;
use serde::Deserialize;
use serde_json::Value;

/// Readings that are kept: two minutes, and one to begin from.
const KEPT: usize = 121;
/// Times are told of so many of the last readings.
const SPAN: usize = 10;

/// One moment.
pub struct Reading {
    /// When, in seconds since some fixed moment.
    pub at_s: f64,
    values: BTreeMap<String, Value>,
    bounds_s: Vec<f64>,
    /// Commands that it has done and does.
    pub jobs: Vec<JobView>,
}

#[derive(Deserialize)]
struct Told {
    metrics: Vec<Metric>,
    time_bounds_seconds: Vec<f64>,
    #[serde(default)]
    jobs: Vec<JobView>,
}

#[derive(Deserialize)]
struct Metric {
    name: String,
    value: Value,
}

impl Reading {
    /// What was said at a moment; `None` if it makes no sense.
    pub fn of(at_s: f64, told: Value) -> Option<Self> {
        let told: Told = serde_json::from_value(told).ok()?;
        let values = told.metrics.into_iter().map(|metric| (metric.name, metric.value)).collect();
        Some(Self { at_s, values, bounds_s: told.time_bounds_seconds, jobs: told.jobs })
    }

    /// A number, if the server has it.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.values.get(name)?.as_f64()
    }

    /// Rows of a metric with labels.
    pub fn rows(&self, name: &str) -> &[Value] {
        self.values.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The sum over exports, or over one of them, for a verb.
    fn sum(&self, name: &str, verb: &str, export: Option<&str>) -> f64 {
        let is_meant = |row: &&Value| {
            row["verb"] == verb && export.is_none_or(|export| row["export"] == export)
        };
        let rows = self.rows(name).iter().filter(is_meant);
        rows.filter_map(|row| row["value"].as_f64()).sum()
    }

    /// How many requests of a verb were in each class of times.
    fn classes(&self, verb: &str) -> Vec<f64> {
        let mut all = vec![0.0; self.bounds_s.len() + 1];
        let rows = self.rows("onefold_export_request_duration_seconds");
        for row in rows.iter().filter(|row| row["verb"] == verb) {
            let counts = row["value"]["requests"].as_array().into_iter().flatten();
            for (sum, count) in all.iter_mut().zip(counts) {
                *sum += count.as_f64().unwrap_or(0.0);
            }
        }
        all
    }
}

/// What was said lately.
#[derive(Default)]
pub struct Readings(VecDeque<Reading>);

impl Readings {
    /// One more. A server that was started anew begins a new row of them.
    pub fn push(&mut self, reading: Reading) {
        let started = |reading: &Reading| reading.number("onefold_process_start_time_seconds");
        if self.0.back().is_some_and(|last| started(last) != started(&reading)) {
            self.0.clear();
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(reading);
    }

    /// The last one.
    pub fn last(&self) -> Option<&Reading> {
        self.0.back()
    }

    /// What a verb's metric grew by in a second lately, over all exports or in one.
    pub fn rate(&self, name: &str, verb: &str, export: Option<&str>) -> f64 {
        let Some(now) = self.0.back() else { return 0.0 };
        let before = &self.0[self.0.len().saturating_sub(3)];
        rate(before, now, name, verb, export)
    }

    /// What a counter without labels grew by in a second lately.
    pub fn growth(&self, name: &str) -> f64 {
        let Some(now) = self.0.back() else { return 0.0 };
        let before = &self.0[self.0.len().saturating_sub(3)];
        let of = |reading: &Reading| reading.number(name).unwrap_or(0.0);
        let seconds = now.at_s - before.at_s;
        if seconds > 0.0 { ((of(now) - of(before)) / seconds).max(0.0) } else { 0.0 }
    }

    /// What it grew by in each second, the oldest first.
    pub fn rates(&self, name: &str, verb: &str) -> Vec<u64> {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        pairs.map(|(before, now)| rate(before, now, name, verb, None) as u64).collect()
    }

    /// The time in seconds that this share of a verb's requests did not exceed lately; `None` if
    /// there were none. Within a class times are taken to be spread evenly.
    pub fn quantile_s(&self, verb: &str, share: f64) -> Option<f64> {
        let now = self.0.back()?;
        let before = &self.0[self.0.len().saturating_sub(SPAN + 1)];
        let counts: Vec<f64> = now
            .classes(verb)
            .iter()
            .zip(before.classes(verb))
            .map(|(now, before)| (now - before).max(0.0))
            .collect();
        let wanted = share * counts.iter().sum::<f64>();
        let (mut below, mut low) = (0.0, 0.0);
        for (count, &bound) in counts.iter().zip(&now.bounds_s) {
            if *count > 0.0 && below + count >= wanted {
                return Some(low + (bound - low) * (wanted - below) / count);
            }
            (below, low) = (below + count, bound);
        }
        counts.last().filter(|&&longer| longer > 0.0).map(|_| low)
    }
}

fn rate(before: &Reading, now: &Reading, name: &str, verb: &str, export: Option<&str>) -> f64 {
    let seconds = now.at_s - before.at_s;
    let grown = now.sum(name, verb, export) - before.sum(name, verb, export);
    if seconds > 0.0 { (grown / seconds).max(0.0) } else { 0.0 }
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    /// A server with one export, of whose writes so many took 1 to 2 us and so many longer than all
    /// bounds.
    pub fn told(started: u64, quick: u64, slow: u64) -> Value {
        let labelled =
            |value: Value| json!([{ "export": "main", "verb": "write", "value": value }]);
        let times = json!({ "requests": [0, quick, slow], "sum_seconds": 0.1 });
        let metric = |name: &str, value: Value| json!({ "name": name, "value": value });
        json!({
            "time_bounds_seconds": [1e-6, 2e-6],
            "metrics": [
                metric("onefold_process_start_time_seconds", json!(started)),
                metric("onefold_process_memory_bytes", json!(9 << 20)),
                metric("onefold_connections", json!(1)),
                metric("onefold_pool_logical_bytes", json!(4_u64 << 30)),
                metric("onefold_pool_unique_bytes", json!(2_u64 << 30)),
                metric("onefold_pool_compressed_bytes", json!(1_u64 << 30)),
                metric("onefold_pool_stored_bytes", json!(1_u64 << 30)),
                metric("onefold_pool_index_memory_bytes", json!(3 << 20)),
                metric("onefold_cache_cached_bytes", json!(8 << 20)),
                metric("onefold_cache_reads_total", json!(8)),
                metric("onefold_cache_hits_total", json!(6)),
                metric("onefold_pool_moved_bytes_total", json!(quick << 20)),
                metric("onefold_pool_punched_bytes_total", json!(1)),
                metric("onefold_pool_dedup_ratio", json!(2.0)),
                metric("onefold_pool_compression_ratio", json!(2.0)),
                metric("onefold_pool_reduction_ratio", json!(4.0)),
                metric("onefold_export_bytes_total", labelled(json!((quick + slow) << 20))),
                metric("onefold_export_requests_total", labelled(json!(quick + slow))),
                metric("onefold_export_request_duration_seconds", labelled(times)),
            ],
            "jobs": [{ "id": "j", "operation": "pool scrub", "state": "running", "report": null,
                "error": null, "progress": {
                    "doing": "reading", "unit": "bytes", "done": 25, "total": 100 } }],
        })
    }

    #[test]
    fn rates_and_times_are_of_what_came_lately() {
        let mut readings = Readings::default();
        assert_eq!(readings.quantile_s("write", 0.5), None);
        readings.push(Reading::of(0.0, told(7, 1000, 0)).unwrap());
        assert_eq!(
            (readings.rate("onefold_export_requests_total", "write", None), None),
            (0.0, readings.quantile_s("write", 0.5))
        );
        readings.push(Reading::of(2.0, told(7, 1090, 10)).unwrap());
        let rate = |verb, export| {
            readings.rate("onefold_export_requests_total", verb, export).round() as u64
        };
        let rates = [rate("write", Some("main")), rate("write", Some("other")), rate("read", None)];
        assert_eq!(rates, [50, 0, 0]);
        assert_eq!(readings.rates("onefold_export_requests_total", "write"), [50]);
        // Of 100 lately, 90 were between 1 and 2 us.
        let half = readings.quantile_s("write", 0.45).unwrap();
        assert!((half - 1.5e-6).abs() < 1e-12, "{half}");
        assert_eq!(readings.quantile_s("write", 0.99), Some(2e-6), "more than the last bound");
        let mut quick = Readings::default();
        quick.push(Reading::of(0.0, told(7, 1000, 0)).unwrap());
        quick.push(Reading::of(2.0, told(7, 1090, 0)).unwrap());
        assert_eq!(quick.quantile_s("write", 1.0), Some(2e-6), "none took longer");
        let same = Readings(readings.0.drain(..1).collect());
        readings.0.push_front(Reading::of(0.0, told(7, 1000, 0)).unwrap());
        let mut at_once = same;
        at_once.push(Reading::of(0.0, told(7, 2000, 0)).unwrap());
        let rate = at_once.rate("onefold_export_requests_total", "write", None);
        assert_eq!((rate, at_once.growth("onefold_pool_moved_bytes_total")), (0.0, 0.0));
        // Times are of the last ten seconds: what was slow before is of no account.
        for (slow_from, half) in [(2, 1.5e-6), (3, 2e-6)] {
            let mut lately = Readings::default();
            for at in 0..13 {
                let slow = if at >= slow_from { 1000 } else { 0 };
                lately.push(
                    Reading::of(f64::from(at), told(7, 10 * u64::from(at as u32), slow)).unwrap(),
                );
            }
            let told = lately.quantile_s("write", 0.5).unwrap();
            assert!((told - half).abs() < 1e-12, "{slow_from}: {told}");
        }
        // Times of all classes before count, from where they begin.
        let of_classes = |at: f64, counts: [u64; 3]| {
            let rows = json!([{ "verb": "read", "value": { "requests": counts } }]);
            let name = "onefold_export_request_duration_seconds";
            let metrics = json!([{ "name": name, "value": rows }]);
            Reading::of(at, json!({ "time_bounds_seconds": [1.0, 2.0], "metrics": metrics }))
                .unwrap()
        };
        let classes = [of_classes(0.0, [0; 3]), of_classes(1.0, [10, 40, 50])];
        let classes = Readings(classes.into());
        let quantiles =
            [0.1, 0.2, 0.5, 0.9].map(|share| classes.quantile_s("read", share).unwrap());
        assert_eq!(quantiles.map(|s| (s * 100.0).round() as u32), [100, 125, 200, 200]);
        // Of the last three readings alone: 100 in four seconds.
        readings.push(Reading::of(4.0, told(7, 1140, 10)).unwrap());
        readings.push(Reading::of(6.0, told(7, 1190, 10)).unwrap());
        let rate = readings.rate("onefold_export_requests_total", "write", None);
        assert_eq!((rate, readings.growth("onefold_pool_moved_bytes_total")), (25.0, 26_214_400.0));
        // A new process counts from zero.
        readings.push(Reading::of(7.0, told(8, 1, 0)).unwrap());
        assert_eq!(readings.0.len(), 1);
        for at in 0..200 {
            readings.push(Reading::of(f64::from(at), told(8, 1, 0)).unwrap());
        }
        assert_eq!(readings.0.len(), KEPT);
        assert!(Reading::of(0.0, json!({ "metrics": 3 })).is_none());
    }
}
