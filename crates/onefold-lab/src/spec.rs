//! The parameters of an experiment, and where each comes from.
//! Room: onefold-lab.   In: `spec.toml`.
//! Invariants: (1) every parameter says whether the paper gives it, it was calibrated, or it is
//! of no consequence  (2) unknown keys are refused.

use serde::Deserialize;

use crate::error::{LabError, Result};

/// Where a parameter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The paper states it.
    Given,
    /// It was chosen so that some published numbers come out; the note says which.
    Calibrated,
    /// Any other value would do as well: sizes of samples, seeds.
    Free,
}

impl Source {
    /// The word that reports print.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Calibrated => "calibrated",
            Self::Free => "free",
        }
    }
}

/// One parameter: `value`, or `quick` and `full`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name, unit last.
    pub name: String,
    /// The value, if it is the same in all settings.
    pub value: Option<toml::Value>,
    /// The value that takes seconds.
    pub quick: Option<toml::Value>,
    /// The value of the paper's size.
    pub full: Option<toml::Value>,
    /// The unit.
    #[serde(default)]
    pub unit: String,
    /// Where it comes from.
    pub source: Source,
    /// What a reader should know.
    #[serde(default)]
    pub note: String,
}

impl Parameter {
    /// Its value at these settings.
    pub fn at(&self, full: bool) -> Option<&toml::Value> {
        let sized = if full { &self.full } else { &self.quick };
        self.value.as_ref().or(sized.as_ref())
    }
}

/// All parameters of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What the experiment does and what cannot be reproduced, in plain words.
    pub about: String,
    /// The parameters.
    #[serde(default, rename = "parameter")]
    pub parameters: Vec<Parameter>,
    #[serde(skip)]
    id: String,
}

impl Spec {
    /// Reads and checks the spec of experiment `id`.
    pub fn parse(id: &str, text: &str) -> Result<Self> {
        let wrong =
            |problem: String| LabError::File { id: id.to_owned(), file: "spec.toml", problem };
        let mut spec: Self = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        id.clone_into(&mut spec.id);
        let mut names: Vec<&str> = Vec::new();
        for parameter in &spec.parameters {
            let Parameter { name, value, quick, full, source, note, .. } = parameter;
            let sized = quick.is_some() && full.is_some();
            if value.is_some() == (quick.is_some() || full.is_some()) || value.is_none() && !sized {
                return Err(wrong(format!("`{name}`: expected a value, or quick and full")));
            }
            if *source == Source::Calibrated && note.is_empty() {
                return Err(wrong(format!("`{name}` is calibrated: expected a note on what")));
            }
            if names.contains(&name.as_str()) {
                return Err(wrong(format!("`{name}` occurs twice")));
            }
            names.push(name);
        }
        Ok(spec)
    }

    fn value(&self, name: &str, full: bool, expected: &'static str) -> Result<&toml::Value> {
        let parameter = self.parameters.iter().find(|parameter| parameter.name == name);
        parameter.and_then(|parameter| parameter.at(full)).ok_or_else(|| self.not(name, expected))
    }

    fn not(&self, name: &str, expected: &'static str) -> LabError {
        LabError::Parameter { id: self.id.clone(), name: name.to_owned(), expected }
    }

    /// A whole number.
    pub fn number(&self, name: &str, full: bool) -> Result<u64> {
        let expected = "a whole number";
        let value = self.value(name, full, expected)?.as_integer();
        value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| self.not(name, expected))
    }

    /// A number with decimals.
    pub fn real(&self, name: &str, full: bool) -> Result<f64> {
        let value = self.value(name, full, "a number")?;
        let whole = value.as_integer().map(|value| value as f64);
        value.as_float().or(whole).ok_or_else(|| self.not(name, "a number"))
    }

    /// A list of whole numbers.
    pub fn numbers(&self, name: &str, full: bool) -> Result<Vec<u64>> {
        let expected = "a list of whole numbers";
        let list = self.value(name, full, expected)?.as_array();
        let list = list.ok_or_else(|| self.not(name, expected))?;
        let number = |value: &toml::Value| u64::try_from(value.as_integer()?).ok();
        list.iter().map(|value| number(value).ok_or_else(|| self.not(name, expected))).collect()
    }

    /// A word.
    pub fn text(&self, name: &str, full: bool) -> Result<&str> {
        let expected = "a text";
        self.value(name, full, expected)?.as_str().ok_or_else(|| self.not(name, expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "about = 'x'\n[[parameter]]\nname = 'pages'\nquick = 4\nfull = 8\n\
                        source = 'free'\n[[parameter]]\nname = 'share'\nvalue = 0.5\n\
                        source = 'calibrated'\nnote = 'to fit'\n[[parameter]]\nname = 'sizes'\n\
                        value = [1, 2]\nsource = 'given'\n";

    #[test]
    fn values_depend_on_the_settings_where_they_say_so() {
        let spec = Spec::parse("a/b", GOOD).unwrap();
        assert_eq!(
            (spec.number("pages", false).unwrap(), spec.number("pages", true).unwrap()),
            (4, 8)
        );
        assert_eq!(spec.numbers("sizes", true).unwrap(), [1, 2]);
        assert!((spec.real("share", true).unwrap() - 0.5).abs() < 1e-12);
        let error = spec.number("share", true).unwrap_err().to_string();
        assert_eq!(error, "experiments/a/b/spec.toml: parameter `share` is not a whole number");
        assert!(spec.text("nothing", true).is_err());
    }

    #[test]
    fn specs_that_leave_something_open_are_refused() {
        for (from, to) in [
            ("value = 0.5", ""),
            ("value = 0.5", "value = 0.5\nquick = 1"),
            ("quick = 4", ""),
            ("note = 'to fit'", ""),
            ("name = 'share'", "name = 'pages'"),
            ("source = 'free'", ""),
            ("source = 'free'", "source = 'guessed'"),
            ("about = 'x'", "about = 'x'\nmore = 1"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert!(Spec::parse("a/b", &text).is_err(), "{text}");
        }
    }
}
