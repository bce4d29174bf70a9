//! Results: one row per figure, as a table for people, as JSON, and as a page of documentation.
//! Room: onefold-bench.

use std::fmt::Write as _;

use serde::Serialize;

/// What a figure is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// This much or more.
    AtLeast(f64),
    /// This much or less.
    AtMost(f64),
}

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A share of the reference, shown in per cent.
    Share,
    /// Times, shown as `1.85x`.
    Times,
    /// CPU seconds per GiB.
    CpuPerGib,
    /// Bytes.
    Bytes,
    /// Kibibytes.
    Kibibytes,
    /// Mebibytes.
    Mebibytes,
    /// Thousandths of a second.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// A figure in words.
    pub fn show(self, value: f64) -> String {
        match self {
            // What is nearly all is not all.
            Self::Share if (0.99..1.0).contains(&value) => format!("{:.3} %", value * 100.0),
            Self::Share => format!("{:.0} %", value * 100.0),
            Self::Times => format!("{value:.2}x"),
            Self::CpuPerGib => format!("{value:.2} s/GiB"),
            Self::Bytes => format!("{value:.1} B"),
            Self::Kibibytes => format!("{value:.1} KiB"),
            Self::Mebibytes => format!("{value:.1} MiB"),
            Self::Milliseconds => format!("{value:.2} ms"),
            Self::Seconds => format!("{value:.3} s"),
        }
    }
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which group of measurements.
    pub group: &'static str,
    /// What was measured.
    pub name: String,
    /// The figure that is compared with the goal.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// What it is to reach, if anything.
    pub goal: Option<Goal>,
    /// Absolute speed of the thing measured, in bytes per second.
    pub speed: Option<f64>,
    /// Absolute speed of the reference, in bytes per second.
    pub reference: Option<f64>,
    /// CPU seconds per GiB.
    pub cpu_per_gib: Option<f64>,
    /// Anything else to know.
    pub note: String,
}

impl Row {
    /// A row with nothing but its figure.
    pub fn new(group: &'static str, name: impl Into<String>, value: f64, unit: Unit) -> Self {
        Self {
            group,
            name: name.into(),
            value,
            unit,
            goal: None,
            speed: None,
            reference: None,
            cpu_per_gib: None,
            note: String::new(),
        }
    }

    /// `met`, `missed`, or nothing without a goal.
    pub fn verdict(&self) -> &'static str {
        match self.goal {
            None => "",
            Some(Goal::AtLeast(least)) if self.value >= least => "met",
            Some(Goal::AtMost(most)) if self.value <= most => "met",
            Some(_) => "missed",
        }
    }

    fn cells(&self) -> [String; 8] {
        let speed = |bytes: Option<f64>| match bytes {
            None => String::new(),
            Some(speed) if speed >= 1e9 => format!("{:.2} GB/s", speed * 1e-9),
            Some(speed) => format!("{:.0} MB/s", speed * 1e-6),
        };
        let goal = match self.goal {
            None => String::new(),
            Some(Goal::AtLeast(least)) => format!(">= {}", self.unit.show(least)),
            Some(Goal::AtMost(most)) => format!("<= {}", self.unit.show(most)),
        };
        [
            self.name.clone(),
            goal,
            self.unit.show(self.value),
            self.verdict().to_owned(),
            speed(self.speed),
            speed(self.reference),
            self.cpu_per_gib.map_or_else(String::new, |cpu| format!("{cpu:.2}")),
            self.note.clone(),
        ]
    }
}

const HEADS: [&str; 8] =
    ["what", "goal", "measured", "verdict", "speed", "reference", "CPU s/GiB", "note"];

/// All rows as a Markdown table, which is readable as it is.
pub fn table(rows: &[Row]) -> String {
    let cells: Vec<[String; 8]> = rows.iter().map(Row::cells).collect();
    let width = |column: usize| {
        let longest = cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
        longest.max(HEADS[column].len())
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut out = String::new();
    let mut line = |cells: [&str; 8]| {
        for (cell, width) in cells.iter().zip(widths) {
            let _ = write!(out, "| {cell:width$} ");
        }
        out.push_str("|\n");
    };
    line(HEADS);
    let rule = widths.map(|width| "-".repeat(width));
    line(std::array::from_fn(|column| rule[column].as_str()));
    for row in &cells {
        line(std::array::from_fn(|column| row[column].as_str()));
    }
    out
}

/// Which goals hold and which do not, in words; empty if there was none.
pub fn goals(rows: &[Row]) -> String {
    let count = |verdict: &str| rows.iter().filter(|row| row.verdict() == verdict).count();
    let (met, missed) = (count("met"), count("missed"));
    if met + missed == 0 {
        return String::new();
    }
    let mut out = format!("{met} of {} goals met\n", met + missed);
    for row in rows.iter().filter(|row| row.verdict() == "missed") {
        let [name, goal, measured, ..] = row.cells();
        let _ = writeln!(out, "missed: {name}: {measured}, goal {goal}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_from_goal_and_figure() {
        let row = |value, goal| Row { goal, ..Row::new("g", "n", value, Unit::Share) };
        assert_eq!(row(0.8, Some(Goal::AtLeast(0.8))).verdict(), "met");
        assert_eq!(row(0.79, Some(Goal::AtLeast(0.8))).verdict(), "missed");
        assert_eq!(row(2.0, Some(Goal::AtMost(2.0))).verdict(), "met");
        assert_eq!(row(2.1, Some(Goal::AtMost(2.0))).verdict(), "missed");
        assert_eq!(row(f64::NAN, Some(Goal::AtMost(2.0))).verdict(), "missed");
        assert_eq!(row(1.0, None).verdict(), "");
    }

    #[test]
    fn goals_that_are_missed_are_named() {
        let row = |name: &str, value, goal| Row { goal, ..Row::new("g", name, value, Unit::Times) };
        let goal = Some(Goal::AtLeast(2.0));
        let rows = [row("a", 2.0, goal), row("b", 1.5, goal), row("c", 1.0, None)];
        assert_eq!(goals(&rows), "1 of 2 goals met\nmissed: b: 1.50x, goal >= 2.00x\n");
        assert_eq!(goals(&rows[2..]), "");
    }

    #[test]
    fn tables_line_up() {
        let mut row = Row::new("g", "a long name", 0.5, Unit::Share);
        row.speed = Some(2.5e9);
        let text = table(&[row, Row::new("g", "b", 1.853, Unit::Times)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
        assert!(lines[2].contains("2.50 GB/s") && lines[3].contains("1.85x"));
    }
}
