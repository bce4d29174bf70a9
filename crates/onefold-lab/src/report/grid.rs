//! Series as tables: a table for each quantity, of whom by where.
//! Room: onefold-lab.
//! Invariant: every number, range and note of the series is in the text.

use std::fmt::Write as _;

use crate::row::show;
use crate::series::{At, Line, Point, Quantity, Series, Spread};

/// Most columns of a table, and most characters of a note that stands in its cell.
const COLUMNS_MAX: usize = 12;
const NOTE_MAX: usize = 30;

/// Series of one quantity over the same.
struct Group<'a> {
    quantity: &'a Quantity,
    over: &'a Quantity,
    series: Vec<&'a Series>,
}

/// Writes all series that are over something, a table for each quantity.
pub(super) fn write(series: &[Series], text: &mut String) {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for one in series {
        let Line { quantity, over: Some(over), .. } = &one.line else { continue };
        match groups.iter_mut().find(|group| group.quantity == quantity && group.over == over) {
            Some(group) => group.series.push(one),
            None => groups.push(Group { quantity, over, series: vec![one] }),
        }
    }
    for group in groups {
        table(&group, text);
    }
}

fn table(group: &Group<'_>, text: &mut String) {
    let points = || group.series.iter().flat_map(|series| &series.points);
    let mut places: Vec<String> = Vec::new();
    for point in points() {
        let label = point.at.label();
        if !places.contains(&label) {
            places.push(label);
        }
    }
    let _ = write!(text, "\n{}, by {}", capital(&group.quantity.label()), group.over.label());
    let _ = writeln!(text, "{}:", printed(&points().collect::<Vec<_>>()));
    let across_places = match group.series[0].points.first().map(|point| &point.at) {
        Some(At::Number(_)) => places.len() <= COLUMNS_MAX,
        _ => group.series.len() > COLUMNS_MAX,
    };
    let labels: Vec<String> = group.series.iter().map(|series| series.line.label()).collect();
    let (down, across) = if across_places { (&labels, &places) } else { (&places, &labels) };
    let _ = write!(text, "\n| | {} |\n", across.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(across.len()));
    let inline = notes_differ(&points().collect::<Vec<_>>());
    let mut notes: Vec<(String, &str)> = Vec::new();
    for (d, name) in down.iter().enumerate() {
        let _ = write!(text, "| {name} |");
        for (a, other) in across.iter().enumerate() {
            let (of, place) = if across_places { (d, other) } else { (a, name) };
            let at = |point: &&Point| point.at.label() == *place;
            let point = group.series[of].points.iter().find(at);
            let Some(point) = point else {
                text.push_str(" |");
                continue;
            };
            let short = inline && point.note.len() <= NOTE_MAX && !point.note.is_empty();
            let note = if short { format!(" ({})", point.note) } else { String::new() };
            let _ = write!(text, " {}{note} |", cell(point));
            if !short && !point.note.is_empty() {
                notes.push((format!("{}, {place}", labels[of]), &point.note));
            }
        }
        text.push('\n');
    }
    footnotes(&notes, points().count(), text);
}

/// What a table with printed numbers is, for its caption.
fn printed(points: &[&Point]) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for point in points.iter().filter(|point| point.published.is_some()) {
        if !kinds.contains(&point.kind.word()) {
            kinds.push(point.kind.word());
        }
    }
    match kinds.as_slice() {
        [] => String::new(),
        kinds => format!("; printed / here where something is printed ({})", kinds.join(", ")),
    }
}

/// A number with what is printed and its range.
pub(super) fn cell(point: &Point) -> String {
    let here = point.measured.map_or_else(|| "-".to_owned(), show);
    let here = match point.range {
        Some(range) if range.spread == Spread::Confidence95 => {
            format!("{here} +- {}", show((range.high - range.low) / 2.0))
        }
        Some(range) => format!("{here} ({} to {})", show(range.low), show(range.high)),
        None => here,
    };
    match &point.published {
        Some(printed) => format!("{} / {here}", show(printed.value)),
        None => here,
    }
}

/// Whether there are several notes.
fn notes_differ(points: &[&Point]) -> bool {
    points.windows(2).any(|pair| pair[0].note != pair[1].note)
}

/// Notes below a table, each once.
fn footnotes(notes: &[(String, &str)], cells: usize, text: &mut String) {
    let mut seen: Vec<&str> = Vec::new();
    for (_, note) in notes {
        if seen.contains(note) {
            continue;
        }
        text.push_str(if seen.is_empty() { "\n" } else { "" });
        seen.push(note);
        let places: Vec<&str> =
            notes.iter().filter(|(_, other)| other == note).map(|(at, _)| at.as_str()).collect();
        let of = if places.len() == cells { "All".to_owned() } else { places.join("; ") };
        let _ = writeln!(text, "- {of}: {note}.");
    }
}

/// With a capital letter at its front.
pub(super) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judged::Kind;

    fn series(of: &str, points: &[(At, f64, &str)]) -> Series {
        let point = |(at, value, note): &(At, f64, &str)| Point {
            at: at.clone(),
            measured: Some(*value),
            range: None,
            published: None,
            deviation: None,
            kind: Kind::Measured,
            note: (*note).to_owned(),
        };
        let line = Line::new("time", "us").over("reads", "%").of(of);
        Series { line, seeds: vec![1], points: points.iter().map(point).collect() }
    }

    #[test]
    fn a_table_has_every_number_range_and_note() {
        let mut all = [
            series("x", &[(0.0.into(), 1.0, ""), (5.0.into(), 2.0, "short")]),
            series("y", &[(5.0.into(), 3.0, "a note that is too long for any cell of it")]),
        ];
        all[0].points[0].range(0.5, 1.5, Spread::Confidence95);
        all[1].points[0].range(2.5, 3.0, Spread::Extremes);
        let mut text = String::new();
        write(&all, &mut text);
        let table = "\nTime (us), by reads (%):\n\n| | 0 | 5 |\n|---|---:|---:|\n\
                     | x | 1 +- 0.5 | 2 (short) |\n| y | | 3 (2.5 to 3) |\n\n\
                     - y, 5: a note that is too long for any cell of it.\n";
        assert_eq!(text, table);
    }

    #[test]
    fn names_of_places_go_down() {
        let mut text = String::new();
        write(&[series("x", &[("a".into(), 1.0, ""), ("b".into(), 2.0, "")])], &mut text);
        assert!(text.ends_with("\n| | x |\n|---|---:|\n| a | 1 |\n| b | 2 |\n"), "{text}");
    }

    #[test]
    fn more_columns_than_fit_go_down() {
        let heads = |series: &[Series]| {
            let mut text = String::new();
            write(series, &mut text);
            text.lines().nth(3).unwrap().to_owned()
        };
        let named = |count: usize| -> Vec<Series> {
            (0..count).map(|at| series(&format!("s{at}"), &[("a".into(), 1.0, "")])).collect()
        };
        assert!(heads(&named(12)).ends_with(" s10 | s11 |"));
        assert_eq!(heads(&named(13)), "| | a |");
        let numbers = |count: u64| {
            let points: Vec<(At, f64, &str)> = (0..count).map(|at| (at.into(), 1.0, "")).collect();
            [series("x", &points)]
        };
        assert!(heads(&numbers(12)).ends_with(" 10 | 11 |"));
        assert_eq!(heads(&numbers(13)), "| | x |");
    }
}
