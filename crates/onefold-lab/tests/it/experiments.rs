//! One test for each experiment: what it finds stands in the page and its charts, with all that its
//! paper prints beside it. It runs that experiment alone, which for half of them takes a second.
//! Room: onefold-lab.

use std::fs;

use onefold_lab::plot::palette;
use onefold_lab::{EXPERIMENTS, Kind, Options, Outcome, Settings, find};

use crate::outcomes::outcome;
use crate::page::{assert_shows, docs};

/// A test of each of these, which are ids as names of functions.
macro_rules! held {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                assert_holds(stringify!($name));
            }
        )*

        const HELD: &[&str] = &[$(stringify!($name)),*];
    };
}

held! {
    ses_dedup_arithmetic
    ses_dedup_fig_1
    ses_dedup_fig_2
    ses_dedup_fig_4
    ses_dedup_fig_5
    ses_dedup_table_3
    ses_dedup_table_4
    park_shin_fig_3
    park_shin_fig_4
    park_shin_fig_5
    plc_cache_arithmetic
    plc_cache_table_1
    plc_cache_fig_3
    plc_cache_fig_6_8
    plc_cache_fig_9
    plc_cache_fig_10_12
    plc_cache_fig_13_15
    plc_cache_fig_16_18
    plc_cache_fig_19_21
    plc_cache_fig_22_24
    plc_cache_write_amplification
    cal17_server
    cal17_intra_ssd
    cidr_profile
    cidr_one_engine
    cidr_scaling
    cidr_goals
    fidr_chunk_size
    fidr_bottlenecks
    fidr_scaling
    fidr_cost
    beyond_policies
    beyond_gleaner
    beyond_gleaner_hostile
    beyond_compression
    beyond_codeword
    beyond_host_cost
    beyond_idle_hint
    beyond_plain_patterns
    beyond_software_today
    beyond_table_index
    beyond_where
    beyond_lifetime
    beyond_collisions
    beyond_cache_frontier
    beyond_cache_wear
}

/// The name of an experiment's test.
fn test_of(id: &str) -> String {
    id.replace(['/', '-'], "_")
}

#[test]
fn every_experiment_has_a_test() {
    let names: Vec<String> = EXPERIMENTS.iter().map(|e| test_of(e.id)).collect();
    assert_eq!(HELD, names, "tests, and the experiments that they should be of");
}

fn assert_holds(test: &str) {
    let named = EXPERIMENTS.iter().find(|experiment| test_of(experiment.id) == test);
    let outcome = outcome(named.unwrap().id);
    assert_shows(outcome);
    assert_every_published_number_is_there_once_with_its_kind_and_its_date(outcome);
    assert_given_inputs_are_met(outcome);
    assert_everybody_who_is_drawn_has_a_colour(outcome);
    assert_fields_are_documented(outcome);
}

fn assert_every_published_number_is_there_once_with_its_kind_and_its_date(outcome: &Outcome) {
    let beside = outcome.rows().filter_map(|row| row.point.published.as_ref());
    let alone = outcome.unmeasured.iter().map(|number| &number.published);
    let mut seen: Vec<&str> = beside.chain(alone).map(|printed| printed.id.as_str()).collect();
    let options = Options::default();
    let published = Settings::new(find(outcome.id).unwrap()[0], &options).unwrap().published;
    let mut printed: Vec<&str> =
        published.numbers.iter().map(|number| number.id.as_str()).collect();
    seen.sort_unstable();
    printed.sort_unstable();
    assert_eq!(seen, printed, "{}", outcome.id);
    for row in outcome.rows() {
        let Some(printed) = &row.point.published else {
            assert_eq!((row.point.kind, row.point.deviation), (Kind::Measured, None));
            continue;
        };
        let off = row.point.measured.map(|measured| measured - printed.value);
        assert_eq!(row.point.deviation, off, "{row:?}");
        let dated = !printed.fixed.is_empty() && !printed.why.is_empty();
        assert!(dated || row.point.kind == Kind::Given, "{row:?}");
    }
    for number in &outcome.unmeasured {
        let silent = number.kind == Kind::NotReproducible && number.published.why.is_empty();
        assert!(!silent, "{number:?} does not say why");
    }
}

fn assert_given_inputs_are_met(outcome: &Outcome) {
    for row in outcome.rows().filter(|row| row.point.kind == Kind::Given) {
        let off = row.point.deviation.unwrap_or(0.0).abs();
        assert!(off <= 0.15, "{} {} {}: {off}", outcome.id, row.name(), row.column());
    }
}

fn assert_everybody_who_is_drawn_has_a_colour(outcome: &Outcome) {
    let options = Options::default();
    let charts = Settings::new(find(outcome.id).unwrap()[0], &options).unwrap().spec.charts;
    let drawn = |quantity: &str| charts.iter().any(|chart| chart.quantity == quantity);
    for series in outcome.series.iter().filter(|s| drawn(&s.line.quantity.name)) {
        let of = &series.line.of;
        let mean = of.starts_with("mean of");
        assert!(mean || palette::known(of).is_some(), "{}: {of}", outcome.id);
    }
}

fn assert_fields_are_documented(outcome: &Outcome) {
    let page = fs::read_to_string(docs("json.md")).unwrap();
    let page = page.split("`onefold reproduce --json`").nth(1).unwrap();
    let mut seen = Vec::new();
    fields(&serde_json::to_value(outcome).unwrap(), &mut seen);
    for field in seen {
        assert!(
            page.contains(&format!("`{field}`")),
            "docs/json.md does not say what `{field}` is"
        );
    }
}

/// The names of all fields.
fn fields(value: &serde_json::Value, seen: &mut Vec<String>) {
    match value {
        serde_json::Value::Array(values) => values.iter().for_each(|value| fields(value, seen)),
        serde_json::Value::Object(object) => {
            for (name, value) in object {
                if !seen.contains(name) {
                    seen.push(name.clone());
                }
                fields(value, seen);
            }
        }
        _ => {}
    }
}
