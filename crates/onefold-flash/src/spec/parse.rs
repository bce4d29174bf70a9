//! From presets, files and `KEY=VALUE`s to one checked specification.
//! Room: onefold-flash.
//! In order: a preset, then the file, then every `KEY=VALUE`; the last one wins.

use onefold_block::nearest;
use thiserror::Error;
use toml::{Table, Value};

use crate::spec::keys::{Accepts, KEYS, Key, one_of};
use crate::spec::{BlockCount, DriveSpec, PRESET_NAMES, SpecError, presets};

/// Where a key came from, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(String),
    /// A `KEY=VALUE`.
    Set(String),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "'{path}'"),
            Self::Set(text) => write!(f, "--set {text}"),
        }
    }
}

/// Why a specification is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// No TOML.
    #[error("{from}: {problem}")]
    Toml {
        /// Where.
        from: Source,
        /// What the TOML reader says, with line and column.
        problem: String,
    },
    /// `KEY=VALUE` without `=`.
    #[error("--set {0}: expected KEY=VALUE, such as ftl.over_provisioning=0.07")]
    NoEquals(String),
    /// A key that does not exist.
    #[error("{from}: unknown key `{key}`{}", nearest.as_ref()
        .map_or(String::new(), |near| format!("; the nearest known one is `{near}`")))]
    UnknownKey {
        /// Where.
        from: Source,
        /// The key.
        key: String,
        /// The nearest one.
        nearest: Option<String>,
    },
    /// A table that does not exist, or that a value took the place of.
    #[error("{from}: `{key}` is a table of keys, not a value")]
    NotATable {
        /// Where.
        from: Source,
        /// The table.
        key: String,
    },
    /// A value that a key does not accept.
    #[error("{from}: {key} = {value}: expected {accepted}")]
    Value {
        /// Where.
        from: Source,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is accepted.
        accepted: String,
    },
    /// A preset that does not exist.
    #[error("unknown preset `{0}`: expected {list}", list = one_of(&PRESET_NAMES))]
    Preset(String),
    /// Values that are fine on their own and cannot be together.
    #[error(transparent)]
    Together(#[from] SpecError),
}

/// A specification in the making.
#[derive(Clone, Debug)]
pub struct SpecBuilder {
    table: Table,
}

impl SpecBuilder {
    /// Starts from a preset.
    ///
    /// # Errors
    /// [`ParseError::Preset`].
    pub fn preset(name: &str) -> Result<Self, ParseError> {
        let spec = presets::preset(name).ok_or_else(|| ParseError::Preset(name.to_owned()))?;
        Ok(Self::from(&spec))
    }

    /// Lays a TOML file over what is there. Its key `preset` starts from that preset instead.
    ///
    /// # Errors
    /// Every [`ParseError`] but those of `KEY=VALUE`.
    pub fn file(mut self, path: &str, text: &str) -> Result<Self, ParseError> {
        let from = Source::File(path.to_owned());
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| ParseError::Toml {
            from: from.clone(),
            problem: error.to_string().trim_end().to_owned(),
        })?;
        match table.remove("preset") {
            None => {}
            Some(Value::String(name)) => self = Self::preset(&name)?,
            Some(other) => {
                let accepted = Accepts::Word(&PRESET_NAMES).to_string();
                return Err(refused(from, "preset", &other, accepted));
            }
        }
        for (name, value) in table {
            self.lay(&from, &name, value)?;
        }
        Ok(self)
    }

    /// Sets one key: its whole path, or its name alone where only one table has it.
    ///
    /// # Errors
    /// [`ParseError::NoEquals`], [`ParseError::UnknownKey`], [`ParseError::Value`].
    pub fn set(mut self, assignment: &str) -> Result<Self, ParseError> {
        let Some((key, text)) = assignment.split_once('=') else {
            return Err(ParseError::NoEquals(assignment.to_owned()));
        };
        let from = Source::Set(assignment.to_owned());
        let (key, text) = (key.trim(), text.trim());
        let path = full_path(key).ok_or_else(|| unknown(from.clone(), key))?;
        let value = match text.parse::<Value>() {
            // A bare word is text; so is a percentage or a name that TOML would not take.
            Err(_) => Value::String(text.to_owned()),
            Ok(value) => value,
        };
        self.lay(&from, &path, value)?;
        Ok(self)
    }

    /// The specification.
    ///
    /// # Errors
    /// [`ParseError::Together`].
    pub fn build(self) -> Result<DriveSpec, ParseError> {
        let spec: DriveSpec = Value::Table(self.table)
            .try_into()
            .expect("every key is there and was checked when it was laid");
        spec.check()?;
        Ok(spec)
    }

    fn lay(&mut self, from: &Source, path: &str, value: Value) -> Result<(), ParseError> {
        let is_table = KEYS.iter().any(|key| key.table() == path);
        match value {
            Value::Table(table) if is_table => {
                // A policy takes the options of another one away, but not those beside it.
                let (policy, others): (Vec<_>, Vec<_>) =
                    table.into_iter().partition(|(name, _)| path == "dedup" && name == "policy");
                for (name, value) in policy.into_iter().chain(others) {
                    self.lay(from, &format!("{path}.{name}"), value)?;
                }
                return Ok(());
            }
            _ if is_table => {
                return Err(ParseError::NotATable { from: from.clone(), key: path.to_owned() });
            }
            _ => {}
        }
        let value = match KEYS.iter().find(|key| key.path == path) {
            Some(key) => accepted(from, key, value)?,
            None if path.starts_with("dedup.") => value,
            None => return Err(unknown(from.clone(), path)),
        };
        let (table, name) = match path.split_once('.') {
            None => (&mut self.table, path),
            Some((table, name)) => {
                let inner = self.table.get_mut(table).and_then(Value::as_table_mut);
                (inner.expect("the preset has every table"), name)
            }
        };
        // Options of another policy would only be in the way.
        if path == "dedup.policy" && table.get(name) != Some(&value) {
            table.clear();
        }
        table.insert(name.to_owned(), value);
        Ok(())
    }
}

impl From<&DriveSpec> for SpecBuilder {
    fn from(spec: &DriveSpec) -> Self {
        let table = Table::try_from(spec).expect("a specification is a table of plain values");
        Self { table }
    }
}

fn accepted(from: &Source, key: &Key, value: Value) -> Result<Value, ParseError> {
    let taken = match (&key.accepts, &value) {
        (Accepts::Whole(min, max) | Accepts::WholeOrPercent(min, max), Value::Integer(number)) => {
            u64::try_from(*number).is_ok_and(|number| (*min..=*max).contains(&number))
        }
        (Accepts::WholeOrPercent(..), Value::String(text)) => BlockCount::percent(text).is_some(),
        (Accepts::Number(min, max), Value::Integer(number)) => {
            let number = *number as f64;
            if (*min..=*max).contains(&number) {
                return Ok(Value::Float(number));
            }
            false
        }
        (Accepts::Number(min, max), Value::Float(number)) => (*min..=*max).contains(number),
        (Accepts::Switch, Value::Boolean(_)) | (Accepts::Text, Value::String(_)) => true,
        (Accepts::Word(words), Value::String(word)) => words.contains(&word.as_str()),
        _ => false,
    };
    if taken {
        return Ok(value);
    }
    let accepted = key.accepts.instead_of(value.as_str());
    Err(refused(from.clone(), key.path, &value, accepted))
}

fn refused(from: Source, key: &str, value: &Value, accepted: String) -> ParseError {
    let value = value.to_string();
    ParseError::Value { from, key: key.to_owned(), value, accepted }
}

fn unknown(from: Source, key: &str) -> ParseError {
    let paths = KEYS.iter().map(|key| key.path);
    let nearest = nearest(key, paths).map(str::to_owned).or_else(|| {
        let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
        let near = nearest(name, KEYS.iter().map(Key::name))?;
        KEYS.iter().find(|key| key.name() == near).map(|key| key.path.to_owned())
    });
    ParseError::UnknownKey { from, key: key.to_owned(), nearest }
}

/// The whole path of a key that may be given by its name alone; `None` if there is none.
pub(crate) fn full_path(key: &str) -> Option<String> {
    if KEYS.iter().any(|known| known.path == key) || key.starts_with("dedup.") {
        return Some(key.to_owned());
    }
    if key == "workload" {
        return Some("workload.pattern".to_owned());
    }
    let mut named = KEYS.iter().filter(|known| known.name() == key);
    match (named.next(), named.next()) {
        (Some(only), None) => Some(only.path.to_owned()),
        _ => None,
    }
}
