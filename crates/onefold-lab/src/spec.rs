//! The parameters of an experiment, and where each comes from.
//! Room: onefold-lab.   In: `spec.toml`.
//! Invariants: (1) every parameter says whether the paper gives it, it was calibrated, or it is
//! of no consequence  (2) unknown keys are refused.

use serde::Deserialize;

use crate::error::{LabError, Result};
use crate::judged::{Judged, Search};
use crate::plot::Drawing;

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
    /// What kind of number each published result is here.
    #[serde(default)]
    pub judged: Vec<Judged>,
    /// What was tried to make numbers come out.
    #[serde(default, rename = "search")]
    pub searches: Vec<Search>,
    /// The charts.
    #[serde(default, rename = "chart")]
    pub charts: Vec<Drawing>,
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
        for search in &spec.searches {
            if search.lines.iter().any(|line| line.len() != search.columns.len()) {
                return Err(wrong("a line of a search with more or fewer columns".to_owned()));
            }
        }
        Ok(spec)
    }

    /// Gives a parameter another value, at every size; one of the type that it has.
    pub fn set(&mut self, name: &str, value: &toml::Value) -> Result<()> {
        let found = self.parameters.iter_mut().find(|parameter| parameter.name == name);
        let Some(parameter) = found else {
            return Err(self.not(name, "there"));
        };
        let whole = |value: &toml::Value| value.is_integer() || value.is_float();
        let old = parameter.value.take().or(parameter.quick.take());
        let alike = old.is_some_and(|old| old.same_type(value) || whole(&old) && whole(value));
        (parameter.quick, parameter.full) = (None, None);
        parameter.value = Some(value.clone());
        if alike { Ok(()) } else { Err(self.not(name, "of the type of this value")) }
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
    fn parameters_take_other_values_of_their_type() {
        let mut spec = Spec::parse("p/t", GOOD).unwrap();
        spec.set("pages", &16.into()).unwrap();
        assert_eq!(
            (spec.number("pages", false).unwrap(), spec.number("pages", true).unwrap()),
            (16, 16)
        );
        spec.set("share", &1.into()).unwrap();
        assert!((spec.real("share", true).unwrap() - 1.0).abs() < 1e-9);
        let error = spec.clone().set("pages", &"many".into()).unwrap_err().to_string();
        assert!(error.ends_with("`pages` is not of the type of this value"), "{error}");
        assert!(
            spec.set("page", &16.into()).unwrap_err().to_string().ends_with("`page` is not there")
        );
    }

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
