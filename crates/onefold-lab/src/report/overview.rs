//! The first table of the page: what the papers print, what comes out here, and whether they agree.
//! Room: onefold-lab.

use std::fmt::Write as _;

use crate::registry::Outcome;
use crate::row::{Kind, Row, show};

/// Experiments with more printed results than this have one line for all of them.
const LINES_MAX: usize = 4;
/// A result is met within so many percent of what is printed, or half a point, and near within the
/// other.
const MET: f64 = 5.0;
const NEAR: f64 = 25.0;

const HEAD: &str = "
## Overview

Results that the papers print. *Met*: within 5 % of the printed number, or half a unit of numbers
from 2 on; *near*: within 25 %; *calibrated* numbers agree because a parameter was chosen so.

| experiment | result | published | here | verdict |
|---|---|---:|---:|---|
";

/// Writes the table.
pub(super) fn write(outcomes: &[Outcome], text: &mut String) {
    text.push_str(HEAD);
    for outcome in outcomes {
        let results: Vec<&Row> = (outcome.rows.iter())
            .filter(|row| row.published.is_some() && row.kind != Kind::Given)
            .collect();
        let title = outcome.experiment.title;
        let link = format!("[{}](#{})", outcome.experiment.id, anchor(title));
        if results.len() <= LINES_MAX {
            for row in results {
                line(&link, row, text);
            }
        } else {
            summary(&link, &results, text);
        }
    }
}

fn line(link: &str, row: &Row, text: &mut String) {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), show);
    let what = row.column.replace('_', " ");
    let _ = writeln!(
        text,
        "| {link} | {}, {what}, {} | {} | {} | {} |",
        row.row,
        row.unit,
        number(row.published),
        number(row.measured),
        verdict(row)
    );
}

/// One line for many numbers.
fn summary(link: &str, results: &[&Row], text: &mut String) {
    let verdicts: Vec<&str> = results.iter().map(|row| verdict(row)).collect();
    let mut counts: Vec<String> = Vec::new();
    for word in [Verdict::MET, Verdict::NEAR, Verdict::OTHER, Verdict::CALIBRATED, Verdict::NONE] {
        let count = verdicts.iter().filter(|verdict| **verdict == word).count();
        if count > 0 {
            counts.push(format!("{count} {word}"));
        }
    }
    let compared = results.iter().filter_map(|row| Some((row.deviation?.abs(), &row.unit)));
    let worst = compared.max_by(|a, b| a.0.total_cmp(&b.0));
    let worst = worst
        .map_or_else(String::new, |(most, unit)| format!("; at most {} {unit} apart", show(most)));
    let places: Vec<&str> = results.iter().map(|row| row.place.as_str()).collect();
    let place = places.first().copied().unwrap_or_default();
    let of = if places.iter().all(|other| *other == place) { place } else { "several places" };
    let _ = writeln!(
        text,
        "| {link} | {} numbers of {of}{worst} | | | {} |",
        results.len(),
        counts.join(", ")
    );
}

/// The words of the last column.
struct Verdict;

impl Verdict {
    const MET: &'static str = "met";
    const NEAR: &'static str = "near";
    const OTHER: &'static str = "differs";
    const CALIBRATED: &'static str = "calibrated";
    const NONE: &'static str = "not reproducible";
}

fn verdict(row: &Row) -> &'static str {
    let (Some(published), Some(measured)) = (row.published, row.measured) else {
        return Verdict::NONE;
    };
    let off = (measured - published).abs();
    let beyond = row.unit.ends_with("(at least)")
        && measured.abs() >= published.abs()
        && measured * published > 0.0;
    match row.kind {
        Kind::NotReproducible => Verdict::NONE,
        Kind::Calibrated => Verdict::CALIBRATED,
        _ if beyond || off <= 0.5 && published.abs() >= 2.0 => Verdict::MET,
        _ if 100.0 * off <= MET * published.abs() => Verdict::MET,
        _ if 100.0 * off <= NEAR * published.abs() => Verdict::NEAR,
        _ => Verdict::OTHER,
    }
}

/// The anchor that a heading gets.
fn anchor(title: &str) -> String {
    let kept = title.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_go_by_the_distance_and_the_kind() {
        let row = |published: f64, measured: f64, unit: &str| {
            let mut row = Row::new("p/t", "r", "c", measured, unit);
            row.published = Some(published);
            row
        };
        for (published, measured, unit, word) in [
            (17.3, 17.28, "%", Verdict::MET),
            (5.8, 6.2, "%", Verdict::MET),
            (-19.0, -15.9, "%", Verdict::NEAR),
            (0.3, 0.6, "ratio", Verdict::OTHER),
            (0.3, 0.26, "ratio", Verdict::NEAR),
            (-30.0, -70.0, "% (at least)", Verdict::MET),
            (-30.0, 70.0, "% (at least)", Verdict::OTHER),
        ] {
            assert_eq!(verdict(&row(published, measured, unit)), word, "{published} {measured}");
        }
        assert_eq!(verdict(&row(1.0, 9.0, "").kind(Kind::Calibrated)), Verdict::CALIBRATED);
        assert_eq!(verdict(&row(1.0, 1.0, "").kind(Kind::NotReproducible)), Verdict::NONE);
        assert_eq!(anchor("PLC-Cache: what is at 20 %"), "plc-cache-what-is-at-20-");
    }
}
