//! The options of a policy: a TOML table, checked against what the policy knows.
//! Room: onefold-flash.   In: a TOML table.   Out: values, or an error that names key and value.

use std::fmt::Write as _;

use onefold_block::nearest;
use thiserror::Error;
use toml::{Table, Value};

/// Why a policy cannot be built.
#[derive(Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum PolicyError {
    /// There is no policy of this name.
    #[error("unknown deduplication policy '{name}'{hint}: accepted are {accepted}")]
    UnknownPolicy {
        /// The name given.
        name: String,
        /// The nearest name, as a hint, or nothing.
        hint: String,
        /// The names.
        accepted: String,
    },
    /// The policy has no such option.
    #[error("policy '{policy}' has no option '{key}'{hint}: accepted are {accepted}")]
    UnknownOption {
        /// The policy.
        policy: &'static str,
        /// The key given.
        key: String,
        /// The nearest key, as a hint, or nothing.
        hint: String,
        /// The keys.
        accepted: String,
    },
    /// The option does not take this value.
    #[error("option '{key}' of policy '{policy}' is {value}: expected {accepted}")]
    Value {
        /// The policy.
        policy: &'static str,
        /// The key.
        key: &'static str,
        /// The value given.
        value: String,
        /// What it takes.
        accepted: String,
    },
    /// The policy cannot work with a drive that packs compressed pages, or not as it is set.
    #[error("policy '{policy}' on a drive that packs compressed pages: {why}")]
    Packed {
        /// The policy.
        policy: &'static str,
        /// The reason.
        why: String,
        /// The assignment with which it could.
        set: Option<String>,
    },
    /// The policy cannot work with this drive.
    #[error("policy '{policy}' is not possible here: {why}")]
    Impossible {
        /// The policy.
        policy: &'static str,
        /// The reason.
        why: String,
    },
}

/// What an option takes, with its default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A share above 0 and at most 1.
    Share(f64),
    /// A share above 0 and at most 4: a table of sets misses nothing only with room to spare.
    Multiple(f64),
    /// A count from a least to a largest value.
    Count {
        /// The default.
        default: u64,
        /// The least.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// Yes or no.
    Switch(bool),
    /// One of these words, the first being the default.
    Word(&'static [&'static str]),
    /// A list of `[first, last]` pairs of logical pages; without it, all.
    Ranges,
}

/// An option of a policy.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// The key.
    pub key: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it means, in a line.
    pub doc: &'static str,
}

impl OptionInfo {
    pub(crate) const fn new(key: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { key, kind, doc }
    }

    /// The default as it is written in TOML.
    pub fn default_text(&self) -> String {
        match self.kind {
            Kind::Share(share) | Kind::Multiple(share) => share.to_string(),
            Kind::Count { default, .. } => default.to_string(),
            Kind::Switch(on) => on.to_string(),
            Kind::Word(words) => format!("\"{}\"", words[0]),
            Kind::Ranges => "[]".to_owned(),
        }
    }

    fn accepted(&self) -> String {
        match self.kind {
            Kind::Share(_) => "a number above 0 and at most 1".to_owned(),
            Kind::Multiple(_) => "a number above 0 and at most 4".to_owned(),
            Kind::Count { min, max, .. } => format!("a whole number from {min} to {max}"),
            Kind::Switch(_) => "true or false".to_owned(),
            Kind::Word(words) => {
                let mut text = "one of".to_owned();
                for word in words {
                    let _ = write!(text, " \"{word}\"");
                }
                text
            }
            Kind::Ranges => "pairs [first, last] of logical pages, first <= last".to_owned(),
        }
    }

    fn takes(&self, value: &Value) -> bool {
        match self.kind {
            Kind::Share(_) => number(value).is_some_and(|share| share > 0.0 && share <= 1.0),
            Kind::Multiple(_) => number(value).is_some_and(|share| share > 0.0 && share <= 4.0),
            Kind::Count { min, max, .. } => {
                let whole = value.as_integer().and_then(|whole| u64::try_from(whole).ok());
                whole.is_some_and(|whole| (min..=max).contains(&whole))
            }
            Kind::Switch(_) => value.as_bool().is_some(),
            Kind::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Kind::Ranges => {
                value.as_array().is_some_and(|all| all.iter().all(|r| pair(r).is_some()))
            }
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn pair(value: &Value) -> Option<(u32, u32)> {
    let [first, last] = value.as_array()?.as_slice() else { return None };
    let page = |value: &Value| u32::try_from(value.as_integer()?).ok();
    let (first, last) = (page(first)?, page(last)?);
    (first <= last).then_some((first, last))
}

/// Checked options of one policy.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    policy: &'static str,
    known: &'static [OptionInfo],
    table: Table,
}

impl Options {
    /// Checks keys and values of a table.
    pub fn check(
        policy: &'static str,
        known: &'static [OptionInfo],
        table: &Table,
    ) -> Result<Self, PolicyError> {
        for (key, value) in table {
            let Some(info) = known.iter().find(|info| info.key == key) else {
                let accepted = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.iter().map(|info| info.key).collect::<Vec<_>>().join(", ")
                };
                let hint = hint(key, known.iter().map(|info| info.key));
                return Err(PolicyError::UnknownOption {
                    policy,
                    key: key.clone(),
                    hint,
                    accepted,
                });
            };
            if !info.takes(value) {
                let (value, accepted) = (value.to_string(), info.accepted());
                return Err(PolicyError::Value { policy, key: info.key, value, accepted });
            }
        }
        Ok(Self { policy, known, table: table.clone() })
    }

    /// The policy.
    pub fn policy(&self) -> &'static str {
        self.policy
    }

    fn kind(&self, key: &str) -> Kind {
        self.known
            .iter()
            .find(|info| info.key == key)
            .expect("policies ask for their own keys")
            .kind
    }

    pub fn share(&self, key: &str) -> f64 {
        let (Kind::Share(default) | Kind::Multiple(default)) = self.kind(key) else {
            unreachable!("{key} is a share")
        };
        self.table.get(key).and_then(number).unwrap_or(default)
    }

    pub fn count(&self, key: &str) -> u64 {
        let Kind::Count { default, .. } = self.kind(key) else { unreachable!("{key} is a count") };
        self.table.get(key).and_then(Value::as_integer).map_or(default, |whole| whole as u64)
    }

    pub fn switch(&self, key: &str) -> bool {
        let Kind::Switch(default) = self.kind(key) else { unreachable!("{key} is a switch") };
        self.table.get(key).and_then(Value::as_bool).unwrap_or(default)
    }

    pub fn word(&self, key: &str) -> &str {
        let Kind::Word(words) = self.kind(key) else { unreachable!("{key} is a word") };
        self.table.get(key).and_then(Value::as_str).unwrap_or(words[0])
    }

    pub fn ranges(&self, key: &str) -> Vec<(u32, u32)> {
        let all = self.table.get(key).and_then(Value::as_array);
        all.map(|all| all.iter().filter_map(pair).collect()).unwrap_or_default()
    }
}

/// `; did you mean 'x'?` for the known word nearest to a mistyped one, if one is near.
pub(crate) fn hint<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(word, known).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}
