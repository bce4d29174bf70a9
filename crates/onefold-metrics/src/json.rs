//! A sample for programs and for the page: every metric by its name.
//! Room: onefold-metrics.

use onefold_block::wrappers::{TIME_BOUNDS_NS, Times};
use serde_json::{Map, Value, json};

use crate::definition::{Definition, Number, Point};
use crate::definitions;
use crate::sample::Sample;

/// Each metric that the sample has: a number, or a list of numbers with their labels.
pub fn values(sample: &Sample) -> Map<String, Value> {
    let mut values = Map::new();
    for definition in definitions::all() {
        let points = (definition.read)(sample);
        if definition.labels.is_empty() {
            let Some(point) = points.first() else { continue };
            values.insert(definition.name.to_owned(), value(&point.number));
        } else if !points.is_empty() {
            let list = points.iter().map(|point| labelled(definition, point)).collect();
            values.insert(definition.name.to_owned(), Value::Array(list));
        }
    }
    values
}

/// What there is to be known of every metric, and its values, beside the jobs that the
/// server has.
pub fn described(sample: &Sample, jobs: &Value) -> Value {
    let mut values = values(sample);
    let described = definitions::all().filter_map(|definition| {
        let value = values.remove(definition.name)?;
        Some(json!({
            "name": definition.name,
            "kind": definition.kind.name(),
            "unit": definition.unit(),
            "help": definition.help,
            "value": value,
        }))
    });
    let described: Vec<Value> = described.collect();
    json!({ "metrics": described, "time_bounds_seconds": bounds(), "jobs": jobs })
}

/// The longest times of the classes of histograms, in seconds.
pub fn bounds() -> Vec<f64> {
    TIME_BOUNDS_NS.iter().map(|&bound| bound as f64 / 1e9).collect()
}

fn labelled(definition: &Definition, point: &Point) -> Value {
    let mut members = Map::new();
    for (name, value) in definition.labels.iter().zip(&point.labels) {
        members.insert((*name).to_owned(), json!(value));
    }
    members.insert("value".to_owned(), value(&point.number));
    Value::Object(members)
}

fn value(number: &Number) -> Value {
    match number {
        Number::Whole(value) => json!(value),
        Number::Real(value) => json!(value),
        Number::Times(Times { requests, sum_ns }) => {
            json!({ "requests": requests, "sum_seconds": *sum_ns as f64 / 1e9 })
        }
    }
}
