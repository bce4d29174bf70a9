//! One number of an experiment, beside the published one.
//! Room: onefold-lab.
//! Invariant: the deviation is measured minus published, in the unit of both.

use serde::Serialize;

/// How a number came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The paper states it as an input; what is measured shows that the input was met.
    Given,
    /// A parameter was chosen so that this number comes out.
    Calibrated,
    /// It follows from given and calibrated parameters, and could have come out otherwise.
    Predicted,
    /// The paper does not say enough, or contradicts itself; the note says how.
    NotReproducible,
}

impl Kind {
    /// The word that reports print.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Calibrated => "calibrated",
            Self::Predicted => "predicted",
            Self::NotReproducible => "not-reproducible",
        }
    }
}

/// One number of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The experiment.
    pub id: String,
    /// Where the paper prints it: a table, a figure, a section; empty if it does not.
    #[serde(rename = "where")]
    pub place: String,
    /// The row, such as a data set.
    pub row: String,
    /// The column, such as a kind of flash.
    pub column: String,
    /// What the paper prints.
    pub published: Option<f64>,
    /// What came out here.
    pub measured: Option<f64>,
    /// The unit of both.
    pub unit: String,
    /// Measured minus published, in the unit.
    pub deviation: Option<f64>,
    /// How the number came about.
    pub kind: Kind,
    /// What a reader should know.
    pub note: String,
}

impl Row {
    /// A number without a published one.
    pub fn new(id: &str, row: &str, column: &str, measured: f64, unit: &str) -> Self {
        Self {
            id: id.to_owned(),
            place: String::new(),
            row: row.to_owned(),
            column: column.to_owned(),
            published: None,
            measured: Some(measured),
            unit: unit.to_owned(),
            deviation: None,
            kind: Kind::Predicted,
            note: String::new(),
        }
    }

    /// The same with another kind.
    #[must_use]
    pub fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same with a note.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }
}

/// A number for people: about three significant digits, without zeros at its end.
pub fn show(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 10_000.0 => 0,
        _ if size >= 100.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.1 => 3,
        _ => 5,
    };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text.as_str()
    };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_meaning() {
        for (value, text) in [
            (0.0, "0"),
            (-0.000_001, "0"),
            (4_194_304.0, "4194304"),
            (1084.4, "1084.4"),
            (128.0, "128"),
            (17.28, "17.28"),
            (-1.5, "-1.5"),
            (0.3526, "0.353"),
            (0.004_55, "0.00455"),
        ] {
            assert_eq!(show(value), text);
        }
    }
}
