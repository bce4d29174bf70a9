//! Rows as tables of two dimensions, where they are such a table.
//! Room: onefold-lab.
//! A long list of `row, column, number` says little; the same numbers with a line for each row and
//! a column for each column are read at a glance. What fits no such table stays a list.
//! Invariant: every number and every note of the rows is in the text.

use std::fmt::Write as _;

use crate::row::{Row, show};

/// Most columns of a table, and most characters of a note that stands in its cell.
const COLUMNS_MAX: usize = 12;
const NOTE_MAX: usize = 48;
/// Groups of so few columns are set side by side if their lines are the same.
const NARROW: usize = 3;

/// Rows that share a unit and the first words of their columns.
struct Group<'a> {
    caption: String,
    unit: &'a str,
    labels: Vec<&'a str>,
    columns: Vec<String>,
    cells: Vec<&'a Row>,
}

impl<'a> Group<'a> {
    fn row(&self, label: &str, column: &str) -> Option<&'a Row> {
        let named = |row: &&&Row| row.row == label && split(&row.column).1 == column;
        self.cells.iter().find(named).copied()
    }

    /// Whether every line has every column, once.
    fn is_grid(&self) -> bool {
        let places = self.labels.len() * self.columns.len();
        let full = || {
            let all = |label: &&str| self.columns.iter().all(|c| self.row(label, c).is_some());
            self.labels.iter().all(all)
        };
        let wide = self.columns.len() <= COLUMNS_MAX && self.labels.len() >= 2;
        wide && places >= 4 && places == self.cells.len() && full()
    }
}

/// The words before the last comma of a column, and what is behind it.
fn split(column: &str) -> (&str, &str) {
    column.rsplit_once(", ").unwrap_or(("", column))
}

fn groups<'a>(rows: &[&'a Row]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for row in rows {
        let (caption, column) = split(&row.column);
        let known = groups.iter().position(|g| g.caption == caption && g.unit == row.unit);
        let at = known.unwrap_or_else(|| {
            groups.push(Group {
                caption: caption.to_owned(),
                unit: &row.unit,
                labels: Vec::new(),
                columns: Vec::new(),
                cells: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        if !group.labels.contains(&row.row.as_str()) {
            group.labels.push(&row.row);
        }
        if !group.columns.iter().any(|known| known == column) {
            group.columns.push(column.to_owned());
        }
        group.cells.push(row);
    }
    groups
}

/// Writes the rows without published numbers as tables; those that fit none are the answer.
pub(super) fn ours<'a>(rows: &[&'a Row], text: &mut String) -> Vec<&'a Row> {
    let (mut left, mut beside): (Vec<&Row>, Vec<Group<'_>>) = (Vec::new(), Vec::new());
    for group in groups(rows) {
        let narrow = group.columns.len() <= NARROW && group.labels.len() >= NARROW;
        let same = beside.first().is_none_or(|first| first.labels == group.labels);
        if !same || !narrow {
            table(&std::mem::take(&mut beside), &mut left, text);
        }
        if narrow {
            beside.push(group);
        } else {
            table(&[group], &mut left, text);
        }
    }
    table(&beside, &mut left, text);
    left
}

/// One table of groups side by side.
fn table<'a>(groups: &[Group<'a>], left: &mut Vec<&'a Row>, text: &mut String) {
    let Some(first) = groups.first() else { return };
    let complete = |group: &Group<'_>| {
        group.is_grid() || (groups.len() > 1 && group.cells.len() == group.labels.len())
    };
    if !groups.iter().all(complete) {
        left.extend(groups.iter().flat_map(|group| group.cells.iter().copied()));
        return;
    }
    let alone = groups.len() == 1;
    if alone {
        let caption = match (first.caption.as_str(), first.unit) {
            ("", unit) => format!("in {unit}"),
            (caption, "") => caption.to_owned(),
            (caption, unit) => format!("{caption}, in {unit}"),
        };
        let _ = write!(text, "\n{}:\n", capital(&caption));
    }
    let mut head = String::from("\n| |");
    for group in groups {
        for column in &group.columns {
            let name = match (alone, group.caption.as_str()) {
                (true, _) => column.clone(),
                (false, "") => format!("{column} ({})", group.unit),
                (false, caption) => format!("{caption}, {column} ({})", group.unit),
            };
            let _ = write!(head, " {} |", name.replace(" ()", ""));
        }
    }
    let columns = groups.iter().map(|group| group.columns.len()).sum();
    let _ = write!(text, "{head}\n|---|{}\n", "---:|".repeat(columns));
    let mut notes: Vec<(String, String)> = Vec::new();
    for label in &first.labels {
        let _ = write!(text, "| {label} |");
        for group in groups {
            for column in &group.columns {
                let Some(row) = group.row(label, column) else { continue };
                let value = row.measured.map_or_else(|| "-".to_owned(), show);
                let short = !row.note.is_empty() && row.note.len() <= NOTE_MAX;
                if short && differ(&group.cells) {
                    let _ = write!(text, " {value} ({}) |", row.note);
                } else {
                    let _ = write!(text, " {value} |");
                    if !row.note.is_empty() {
                        notes.push((format!("{label}, {}", row.column), row.note.clone()));
                    }
                }
            }
        }
        text.push('\n');
    }
    footnotes(&notes, columns * first.labels.len(), text);
}

/// Whether there are several notes.
fn differ(rows: &[&Row]) -> bool {
    rows.windows(2).any(|pair| pair[0].note != pair[1].note)
}

/// Notes below a table, each once.
fn footnotes(notes: &[(String, String)], cells: usize, text: &mut String) {
    let mut seen: Vec<&str> = Vec::new();
    for (_, note) in notes {
        if seen.contains(&note.as_str()) {
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

/// Writes printed numbers beside ours as tables of pairs; those that fit none are the answer.
pub(super) fn pairs<'a>(rows: &[&'a Row], text: &mut String) -> Vec<&'a Row> {
    let mut kinds: Vec<(&str, &str, &str)> = Vec::new();
    let of = |row: &'a Row| (row.kind.word(), row.unit.as_str(), row.place.as_str());
    for row in rows {
        if !kinds.contains(&of(row)) {
            kinds.push(of(row));
        }
    }
    let mut left = Vec::new();
    for kind in kinds {
        let these: Vec<&Row> = rows.iter().copied().filter(|row| of(row) == kind).collect();
        let mut labels: Vec<&str> = Vec::new();
        let mut columns: Vec<&str> = Vec::new();
        for row in &these {
            if !labels.contains(&row.row.as_str()) {
                labels.push(&row.row);
            }
            if !columns.contains(&row.column.as_str()) {
                columns.push(&row.column);
            }
        }
        let find = |label: &str, column: &str| {
            these.iter().find(|row| row.row == label && row.column == column)
        };
        let full = labels.iter().all(|label| columns.iter().all(|c| find(label, c).is_some()));
        let sized = labels.len() >= 3 && columns.len() <= COLUMNS_MAX;
        if !full || !sized || these.len() != labels.len() * columns.len() || differ(&these) {
            left.extend(these);
            continue;
        }
        let (word, unit, place) = kind;
        let _ = write!(text, "\n{place}, printed / here, in {unit} ({word}):\n\n| |");
        for column in &columns {
            let _ = write!(text, " {column} |");
        }
        let _ = write!(text, "\n|---|{}\n", "---:|".repeat(columns.len()));
        for label in &labels {
            let _ = write!(text, "| {label} |");
            for column in &columns {
                let pair = find(label, column).map(|row| [row.published, row.measured]);
                let [printed, here] =
                    pair.unwrap_or_default().map(|n| n.map_or("-".to_owned(), show));
                let _ = write!(text, " {printed} / {here} |");
            }
            text.push('\n');
        }
        let notes: Vec<(String, String)> = (these.iter())
            .filter(|row| !row.note.is_empty())
            .map(|row| (String::new(), row.note.clone()))
            .collect();
        footnotes(&notes, these.len(), text);
    }
    left
}

/// With a capital letter at its front.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(row: &str, column: &str, measured: f64, unit: &str) -> Row {
        Row::new("p/t", row, column, measured, unit)
    }

    #[test]
    fn full_grids_are_tables_and_the_rest_is_left() {
        let rows = [
            row("a", "time, x", 1.0, "us"),
            row("a", "time, y", 2.0, "us").note("short"),
            row("b", "time, x", 3.0, "us"),
            row("b", "time, y", 4.0, "us"),
            row("b", "share", 5.0, "%"),
        ];
        let mut text = String::new();
        let left = ours(&rows.iter().collect::<Vec<_>>(), &mut text);
        assert_eq!(left, [&rows[4]]);
        let table = "\nTime, in us:\n\n| | x | y |\n|---|---:|---:|\n| a | 1 | 2 (short) |\n\
                     | b | 3 | 4 |\n";
        assert_eq!(text, table);
        let left = ours(&rows[..3].iter().collect::<Vec<_>>(), &mut String::new());
        assert_eq!(left.len(), 3, "a table with a hole is none");
    }

    #[test]
    fn narrow_groups_with_the_same_lines_stand_side_by_side() {
        let mut rows = Vec::new();
        for label in ["a", "b", "c"] {
            rows.push(row(label, "share, x", 1.0, "%").note("n"));
            rows.push(row(label, "gain", 2.0, "us"));
        }
        let mut text = String::new();
        assert!(ours(&rows.iter().collect::<Vec<_>>(), &mut text).is_empty());
        assert!(text.starts_with("\n| | share, x (%) | gain (us) |\n|---|---:|---:|\n| a | 1 | 2"));
        assert!(text.ends_with("\n- a, share, x; b, share, x; c, share, x: n.\n"), "{text}");
    }
}
