//! What the pages say in words about experiments on policies holds in their numbers.
//! Room: onefold-lab.

use onefold_lab::Row;

use crate::reproduction::outcomes;

fn rows(id: &str) -> &'static [Row] {
    let found = outcomes().iter().find(|outcome| outcome.experiment.id == id);
    &found.unwrap_or_else(|| panic!("no experiment {id}")).rows
}

fn value(id: &str, row: &str, column: &str) -> f64 {
    let found = rows(id).iter().find(|r| r.row == row && r.column == column);
    found.and_then(|row| row.measured).unwrap_or_else(|| panic!("{id}: no {row}, {column}"))
}

/// Mean and half the width of the interval, by the note.
fn with_interval(row: &Row) -> (f64, f64) {
    let half = row.note.strip_prefix("+- ").and_then(|rest| rest.split(' ').next());
    (row.measured.unwrap(), half.and_then(|half| half.parse().ok()).unwrap())
}

#[test]
fn gleaner_writes_soonest_in_nine_families_and_finds_most_in_all() {
    let of = |what: &str| {
        let column = format!("gleaner against the best of the others, {what}");
        let rows = rows("beyond/gleaner").iter().filter(move |row| row.column == column);
        rows.map(|row| (row.row.as_str(), with_interval(row))).collect::<Vec<_>>()
    };
    let not_soonest = ["no duplicates", "TLC, fast hashes"];
    for (family, (mean, half)) in of("write latency") {
        if not_soonest.contains(&family) {
            assert!(mean.abs() < 4.0, "{family}: {mean}");
        } else {
            assert!(mean + half < 0.0, "{family}: {mean} +- {half}");
        }
    }
    let totals = of("found in all");
    assert_eq!(totals.len(), 11);
    for (family, (mean, _)) in totals {
        assert!(mean > 0.0 || family == "no duplicates", "{family}: {mean}");
    }
    for row in rows("beyond/gleaner").iter().filter(|row| row.column == "memory, at most") {
        let all = row.measured.unwrap();
        assert!((2.0..3.0).contains(&all), "{}: every policy has the same memory: {all}", row.row);
    }
}

#[test]
fn parity_finds_more_inline_at_every_point_within_the_budget() {
    let gains: Vec<f64> = (rows("ses-dedup/fig-5").iter())
        .filter(|row| row.column == "more found by parity")
        .filter_map(|row| row.measured)
        .collect();
    assert_eq!(gains.len(), 12);
    assert!(gains.iter().all(|gain| *gain > 0.0), "{gains:?}");
    let mean = |budget: &str| value("ses-dedup/fig-5", budget, "more found by parity, mean");
    assert!((19.9..42.8).contains(&mean("budget 453 us")), "the printed range");
    assert!(mean("no limit") < 0.0, "without a budget it is the other way round");
}

#[test]
fn park_and_shin_hold_over_drives_and_seeds() {
    for (workload, printed) in [("WebVM (FIU)", -19.0), ("AppInstall", -13.0)] {
        let column = "offline_vs_online_write_latency";
        let mut fig3 = rows("park-shin/fig-3").iter();
        let row = fig3.find(|row| row.row == workload && row.column == column).unwrap();
        let range: Vec<f64> = row.note.split(" to ").filter_map(|end| end.parse().ok()).collect();
        assert!(range.len() == 2 && range[1] < 0.0, "{workload}: {}", row.note);
        assert!((row.measured.unwrap() - printed).abs() < 4.0, "{workload}");
        let copies = |scheme: &str| value("park-shin/fig-5", workload, scheme);
        assert!(copies("proposed") < copies("offline"), "{workload}");
        assert!(copies("offline") < copies("none"), "{workload}");
        let overhead = |scheme: &str| value("park-shin/fig-4", workload, scheme);
        assert!(overhead("block separation") > 1.0 && overhead("proposed") < 0.7, "{workload}");
    }
}

/// Figs. 3 to 5 are of the same runs.
#[test]
fn park_and_shin_have_one_set_of_parameters() {
    let of = |id: &str| {
        let experiment = onefold_lab::find(id).unwrap()[0];
        onefold_lab::Spec::parse(id, experiment.spec).unwrap().parameters
    };
    assert_eq!(of("park-shin/fig-3"), of("park-shin/fig-4"));
    assert_eq!(of("park-shin/fig-3"), of("park-shin/fig-5"));
}

#[test]
fn lives_grow_with_duplicates_and_most_with_inline_policies() {
    let life = |percent: u64, policy: &str| {
        let (row, column) =
            (format!("{percent} % duplicates"), format!("life beside none, {policy}"));
        value("beyond/lifetime", &row, &column)
    };
    for policy in ["caftl-offline", "crc-compare", "ses-device", "gleaner"] {
        let lives: Vec<f64> = [0, 10, 20, 30, 40, 50].map(|p| life(p, policy)).into();
        assert!(lives.is_sorted(), "{policy}: {lives:?}");
    }
    assert!(life(30, "gleaner") > life(30, "ses-device"));
    assert!(life(30, "ses-device") > life(30, "crc-compare"));
}
