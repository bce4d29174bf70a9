//! The first table of the page: what the papers print, what comes out here, and whether they agree.
//! Room: onefold-lab.

use std::fmt::Write as _;

use crate::judged::Kind;
use crate::registry::Outcome;
use crate::row::{Row, show};
use crate::series::Printed;

/// Experiments with more printed results than this have one line for all but the main ones.
const LINES_MAX: usize = 4;
/// A result is met within so many percent of what is printed, and near within the other.
const MET: f64 = 5.0;
const NEAR: f64 = 25.0;

const HEAD: &str = "
## Overview

Results that the papers print, with the paper's whole claim beside ours. *Met*: within 5 % of the
printed number, or where the paper says *at least* and ours is more; *near*: within 25 %. The
verdict says how far apart the numbers are and the kind what that is worth: only a *predicted*
number that is met speaks for the model, since *calibrated* and *derived* ones are met by choice.

| experiment | result | published | here | verdict | kind |
|---|---|---:|---:|---|---|
";

/// Writes the table, and what the pictures show.
pub(super) fn write(outcomes: &[Outcome], text: &mut String) {
    text.push_str(HEAD);
    for outcome in outcomes {
        let measured = outcome.rows().filter(|row| row.point.published.is_some());
        let results: Vec<Row<'_>> = measured.filter(|row| row.point.kind != Kind::Given).collect();
        let missing = outcome.unmeasured.iter().filter(|number| number.kind != Kind::Given);
        let missing: Vec<&Printed> = missing.map(|number| &number.published).collect();
        let link = format!("[{}](#{})", outcome.id, anchor(outcome.title));
        let many = results.len() + missing.len() > LINES_MAX;
        let main = |row: &&Row<'_>| {
            !many || row.point.published.as_ref().is_some_and(|printed| printed.headline)
        };
        for row in results.iter().filter(main) {
            line(&link, row, text);
        }
        if many {
            let rest: Vec<&Row<'_>> = results.iter().filter(|row| !main(row)).collect();
            summary(&link, &rest, missing.len(), text);
        } else {
            for printed in missing {
                let value = show(printed.value);
                let name = printed.name.replace('_', " ");
                let _ = writeln!(
                    text,
                    "| {link} | {name}, {} | {value} | - | - | not-reproducible |",
                    printed.unit
                );
            }
        }
    }
    claims(outcomes, text);
}

/// Every shape of a picture, and whether it is so.
fn claims(outcomes: &[Outcome], text: &mut String) {
    let all = || outcomes.iter().flat_map(|outcome| &outcome.claims);
    let holds = all().filter(|claim| claim.holds).count();
    let _ = writeln!(
        text,
        "\nWhat the pictures show where they print no numbers, and what was predicted of our own: \
         {holds} of {} statements hold here. Each is decided by code, with its figures below.\n\n\
         | experiment | statement | here |\n|---|---|---|",
        all().count()
    );
    for outcome in outcomes {
        for claim in &outcome.claims {
            let here = if claim.holds { "holds" } else { "fails" };
            let (id, anchor) = (outcome.id, anchor(outcome.title));
            let _ = writeln!(text, "| [{id}](#{anchor}) | {} | {here} |", claim.says);
        }
    }
}

fn line(link: &str, row: &Row<'_>, text: &mut String) {
    let Some(printed) = &row.point.published else { return };
    let _ = writeln!(
        text,
        "| {link} | {}, {} | {} | {} | {} | {} |",
        printed.name.replace('_', " "),
        printed.unit,
        show(printed.value),
        row.point.measured.map_or_else(|| "-".to_owned(), show),
        verdict(row).unwrap_or("-"),
        row.point.kind.word()
    );
}

/// One line for many numbers, by kind.
fn summary(link: &str, results: &[&Row<'_>], missing: usize, text: &mut String) {
    for kind in [Kind::Predicted, Kind::Calibrated, Kind::Derived, Kind::NotReproducible] {
        let of_kind = results.iter().filter(|row| row.point.kind == kind);
        let verdicts: Vec<&str> = of_kind.filter_map(|row| verdict(row)).collect();
        let mut counts: Vec<String> = Vec::new();
        for word in [Verdict::MET, Verdict::NEAR, Verdict::OTHER] {
            let count = verdicts.iter().filter(|verdict| **verdict == word).count();
            if count > 0 {
                counts.push(format!("{count} {word}"));
            }
        }
        let without = if kind == Kind::NotReproducible { missing } else { 0 };
        let all = verdicts.len() + without;
        if without > 0 {
            counts.push(format!("{without} not measured"));
        }
        if all > 0 {
            let which = if all == 1 { "number" } else { "numbers" };
            let (counts, kind) = (counts.join(", "), kind.word());
            let _ = writeln!(text, "| {link} | {all} {which} more | | | {counts} | {kind} |");
        }
    }
}

/// The words of the verdict.
struct Verdict;

impl Verdict {
    const MET: &'static str = "met";
    const NEAR: &'static str = "near";
    const OTHER: &'static str = "differs";
}

/// How far a measured number is from the printed one.
pub(super) fn verdict(row: &Row<'_>) -> Option<&'static str> {
    let (published, measured) = (row.point.published.as_ref()?, row.point.measured?);
    let (printed, unit) = (published.value, published.unit.as_str());
    let off = 100.0 * (measured - printed).abs();
    let bound = ["(at least)", "(more than)"].iter().any(|words| unit.ends_with(words));
    let beyond = bound && measured.abs() >= printed.abs() && measured * printed > 0.0;
    Some(match off {
        _ if beyond => Verdict::MET,
        off if off <= MET * printed.abs() => Verdict::MET,
        off if off <= NEAR * printed.abs() => Verdict::NEAR,
        _ => Verdict::OTHER,
    })
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
    use crate::series::{Line, Point, Series};

    #[test]
    fn verdicts_go_by_the_distance_alone() {
        for (published, measured, unit, word) in [
            (17.3, 17.28, "%", Verdict::MET),
            (5.8, 6.2, "%", Verdict::NEAR),
            (-19.0, -15.9, "%", Verdict::NEAR),
            (0.3, 0.6, "ratio", Verdict::OTHER),
            (0.3, 0.26, "ratio", Verdict::NEAR),
            (-30.0, -70.0, "% (at least)", Verdict::MET),
            (-30.0, 70.0, "% (at least)", Verdict::OTHER),
            (66.0, 70.0, "% (more than)", Verdict::MET),
            (0.0, 0.0, "%", Verdict::MET),
            (20.0, 21.0, "%", Verdict::MET),
            (4.0, 3.0, "%", Verdict::NEAR),
            (-4.0, -5.25, "%", Verdict::OTHER),
            (66.0, 66.0, "% (at least)", Verdict::MET),
        ] {
            let printed = Printed {
                id: String::new(),
                place: String::new(),
                name: String::new(),
                value: published,
                unit: unit.to_owned(),
                config: String::new(),
                fixed: String::new(),
                why: String::new(),
                after: String::new(),
                headline: false,
            };
            let point = Point {
                at: ().into(),
                measured: Some(measured),
                range: None,
                published: Some(printed),
                deviation: None,
                kind: Kind::Calibrated,
                note: String::new(),
            };
            let series = Series { line: Line::new("x", unit), seeds: vec![], points: vec![] };
            let row = Row { series: &series, point: &point };
            assert_eq!(verdict(&row), Some(word), "{published} {measured}");
        }
        assert_eq!(anchor("PLC-Cache: what is at 20 %"), "plc-cache-what-is-at-20-");
    }
}
