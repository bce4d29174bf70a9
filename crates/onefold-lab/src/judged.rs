//! What kind of number each published one is here, by decree of the spec and with its date.
//! Room: onefold-lab.   In: `[[judged]]` and `[[search]]` of `spec.toml`.
//! Invariants: (1) no experiment's code says what kind its numbers are  (2) a number that some
//! parameter was ever fitted on is called calibrated, however well or badly it comes out.

use serde::{Deserialize, Serialize};

use crate::published::Number;

/// How a number came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The paper states it as an input; what is measured shows that the input was met.
    Given,
    /// A parameter or a reading was chosen with this number in sight.
    Calibrated,
    /// Arithmetic on given or calibrated numbers; it could not have come out otherwise.
    Derived,
    /// It follows from parameters that were fixed without it, and could have come out otherwise.
    Predicted,
    /// Nothing is printed beside it.
    Measured,
    /// The paper does not say enough, or contradicts itself; the reason says how.
    NotReproducible,
}

impl Kind {
    /// The word that reports print.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Calibrated => "calibrated",
            Self::Derived => "derived",
            Self::Predicted => "predicted",
            Self::Measured => "measured",
            Self::NotReproducible => "not-reproducible",
        }
    }

    /// Whether a published number of this kind has to have a measured one beside it.
    pub const fn needs_a_measurement(self) -> bool {
        matches!(self, Self::Calibrated | Self::Derived | Self::Predicted | Self::Measured)
    }
}

/// The kind of some published numbers. A number is meant if each list that is not empty names it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// Numbers by their names in `published.toml`.
    #[serde(default)]
    pub numbers: Vec<String>,
    /// Numbers by their columns there.
    #[serde(default)]
    pub columns: Vec<String>,
    /// What kind of number they are.
    pub kind: Kind,
    /// The day on which that was fixed.
    pub fixed: toml::value::Date,
    /// Why they are of that kind.
    pub why: String,
    /// What was chosen after the result had been seen.
    #[serde(default)]
    pub after: String,
    /// Whether they are the paper's main claims.
    #[serde(default)]
    pub headline: bool,
}

impl Judged {
    /// Whether it is about a number.
    pub fn is_about(&self, number: &Number) -> bool {
        let named = |list: &[String], name: &String| list.is_empty() || list.contains(name);
        let says = !(self.numbers.is_empty() && self.columns.is_empty());
        says && named(&self.numbers, &number.id) && named(&self.columns, &number.column)
    }
}

/// What was tried to make a number come out, so that nobody need try it again.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// What was looked for: printed numbers by their names, and shapes by theirs.
    pub sought: Vec<String>,
    /// What was varied, and what was found.
    pub about: String,
    /// The day on which it was made.
    pub made: toml::value::Date,
    /// The command of each line, with the words of its first columns in place of `{1}`, `{2}`. All
    /// other words of a line are what it prints.
    pub command: String,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// The lines.
    pub lines: Vec<Vec<String>>,
}
