//! From a preset, files and `KEY=VALUE`s to one checked description.
//! Room: onefold-array.
//! In order: a preset, then the file, then every `KEY=VALUE`; the last one wins.

use std::collections::BTreeMap;

use onefold_block::nearest;
use thiserror::Error;
use toml::{Table, Value};

use super::ServerSpec;
use super::keys::{Accepts, KEYS, Key, Origin};
use super::loads::{self, LOAD_KEY, LOADS};
use super::presets::{PRESETS, Preset};

/// Why a value is what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// The default or a preset, with the origin that it states.
    Known(Origin),
    /// The file or the option that the user gave.
    User(String),
}

/// Why a description is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// No TOML.
    #[error("{from}: {problem}")]
    Toml {
        /// Where.
        from: String,
        /// What the TOML reader says, with line and column.
        problem: String,
    },
    /// `KEY=VALUE` without `=`.
    #[error("--set {0}: expected KEY=VALUE, such as engine.count=2")]
    NoEquals(String),
    /// A key that does not exist.
    #[error("{from}: unknown key `{key}`{}", nearest.as_ref()
        .map_or(String::new(), |near| format!("; the nearest known one is `{near}`")))]
    UnknownKey {
        /// Where.
        from: String,
        /// The key.
        key: String,
        /// The nearest one.
        nearest: Option<String>,
    },
    /// A value that a key does not accept.
    #[error("{from}: {key} = {value}: expected {accepted}")]
    Value {
        /// Where.
        from: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is accepted.
        accepted: String,
    },
    /// A preset that does not exist.
    #[error("unknown preset `{got}`: expected one of {}", preset_names())]
    Preset {
        /// The name.
        got: String,
    },
    /// Values that are fine on their own and cannot be together.
    #[error("{0}")]
    Together(String),
}

fn preset_names() -> String {
    PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

/// A description in the making.
#[derive(Clone, Debug)]
pub struct SpecBuilder {
    values: BTreeMap<&'static str, (Value, Given)>,
}

impl SpecBuilder {
    /// Starts from a preset.
    ///
    /// # Errors
    /// [`ParseError::Preset`].
    pub fn preset(name: &str) -> Result<Self, ParseError> {
        let preset = find(name).ok_or_else(|| ParseError::Preset { got: name.to_owned() })?;
        let default = |key: &Key| {
            let value = literal(key.default).expect("a default is TOML, a test says so");
            (key.path, (value, Given::Known(key.origin)))
        };
        let mut builder = Self { values: KEYS.iter().map(default).collect() };
        builder.lay_preset(preset);
        let name = Value::String(preset.name.to_owned());
        builder.values.insert("name", (name, Given::Known(Origin::Assumed("a name"))));
        Ok(builder)
    }

    fn lay_preset(&mut self, preset: &Preset) {
        if let Some(parent) = preset.parent.and_then(find) {
            self.lay_preset(parent);
        }
        for (path, value, origin) in preset.values {
            let value = literal(value).expect("a preset's value is TOML, a test says so");
            let from = format!("preset {}", preset.name);
            self.lay(&from, path, value, Some(*origin)).expect("a preset is right, a test says so");
        }
    }

    /// Lays a TOML file over what is there. Its key `preset` starts from that preset instead, and
    /// the load that `workload.preset` names lies under its other keys.
    ///
    /// # Errors
    /// Every [`ParseError`] but those of `KEY=VALUE`.
    pub fn file(mut self, path: &str, text: &str) -> Result<Self, ParseError> {
        let from = format!("'{path}'");
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| ParseError::Toml {
            from: from.clone(),
            problem: error.to_string().trim_end().to_owned(),
        })?;
        if let Some(name) = table.remove("preset") {
            self = Self::preset(name.as_str().unwrap_or(&name.to_string()))?;
        }
        for (name, value) in table {
            match value {
                Value::Table(mut inner) => {
                    if name == "workload"
                        && let Some(load) = inner.remove("preset")
                    {
                        self.lay(&from, LOAD_KEY, load, None)?;
                    }
                    for (key, value) in inner {
                        self.lay(&from, &format!("{name}.{key}"), value, None)?;
                    }
                }
                value => self.lay(&from, &name, value, None)?,
            }
        }
        Ok(self)
    }

    /// Sets one key: its whole path, or its name alone where only one table has it. The key
    /// `workload.preset` lays a load over the keys that it knows.
    ///
    /// # Errors
    /// [`ParseError::NoEquals`], [`ParseError::UnknownKey`], [`ParseError::Value`].
    pub fn set(mut self, assignment: &str) -> Result<Self, ParseError> {
        let Some((key, text)) = assignment.split_once('=') else {
            return Err(ParseError::NoEquals(assignment.to_owned()));
        };
        let value = literal(text.trim()).unwrap_or_else(|| Value::String(text.trim().to_owned()));
        self.lay(&format!("--set {assignment}"), key.trim(), value, None)?;
        Ok(self)
    }

    /// Sets one key to a text, which is not read as anything else.
    ///
    /// # Errors
    /// [`ParseError::UnknownKey`], [`ParseError::Value`].
    pub fn set_text(mut self, key: &str, text: &str) -> Result<Self, ParseError> {
        self.lay(&format!("{key}={text}"), key, Value::String(text.to_owned()), None)?;
        Ok(self)
    }

    /// Where the value of a key comes from.
    pub fn given(&self, path: &str) -> Option<&Given> {
        self.values.get(path).map(|(_, given)| given)
    }

    /// The value of a key, as TOML.
    pub fn value(&self, path: &str) -> Option<&Value> {
        self.values.get(path).map(|(value, _)| value)
    }

    /// The keys of a run with this description whose values are our assumptions.
    pub fn assumed(&self) -> Vec<&'static str> {
        let assumed = |given: &Given| matches!(given, Given::Known(origin) if origin.is_assumed());
        KEYS.iter()
            .map(|key| key.path)
            .filter(|path| self.given(path).is_some_and(assumed))
            .collect()
    }

    /// The description.
    ///
    /// # Errors
    /// [`ParseError::Together`].
    pub fn build(&self) -> Result<ServerSpec, ParseError> {
        let mut root = Table::new();
        for (path, (value, _)) in &self.values {
            match path.split_once('.') {
                None => root.insert((*path).to_owned(), value.clone()),
                Some((table, name)) => root
                    .entry(table)
                    .or_insert_with(|| Value::Table(Table::new()))
                    .as_table_mut()
                    .expect("no key has a table's name")
                    .insert(name.to_owned(), value.clone()),
            };
        }
        let spec: ServerSpec = Value::Table(root)
            .try_into()
            .expect("every key is there and was checked when it was laid");
        spec.check().map_err(ParseError::Together)?;
        Ok(spec)
    }

    /// Lays a load, each value with its own origin.
    fn lay_load(&mut self, from: &str, name: &Value) -> Result<(), ParseError> {
        let Some(load) = name.as_str().and_then(loads::find) else {
            let (from, value) = (from.to_owned(), name.to_string());
            let (key, accepted) = (LOAD_KEY.to_owned(), load_names());
            return Err(ParseError::Value { from, key, value, accepted });
        };
        for (path, value, origin) in load.values {
            let value = literal(value).expect("a load's value is TOML, a test says so");
            self.lay(from, path, value, Some(*origin)).expect("a load is right, a test says so");
        }
        Ok(())
    }

    fn lay(
        &mut self,
        from: &str,
        path: &str,
        value: Value,
        origin: Option<Origin>,
    ) -> Result<(), ParseError> {
        if path == LOAD_KEY {
            return self.lay_load(from, &value);
        }
        let key = key_of(path).ok_or_else(|| unknown(from, path))?;
        let value = accepted(from, key, value)?;
        let given = origin.map_or_else(|| Given::User(from.to_owned()), Given::Known);
        self.values.insert(key.path, (value, given));
        Ok(())
    }
}

/// `a, b or c`.
fn load_names() -> String {
    let names: Vec<&str> = LOADS.iter().map(|load| load.name).collect();
    let (last, others) = names.split_last().expect("there are loads");
    format!("{} or {last}", others.join(", "))
}

fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

fn literal(text: &str) -> Option<Value> {
    text.parse().ok()
}

/// A key by its path, or by its name alone where only one table has it.
fn key_of(path: &str) -> Option<&'static Key> {
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Some(key);
    }
    let mut named = KEYS.iter().filter(|key| key.name() == path);
    match (named.next(), named.next()) {
        (Some(key), None) => Some(key),
        _ => None,
    }
}

fn accepted(from: &str, key: &Key, value: Value) -> Result<Value, ParseError> {
    let within = |number: f64, min: f64, max: f64| (min..=max).contains(&number);
    let taken = match (&key.accepts, &value) {
        (Accepts::Whole(min, max), Value::Integer(number)) => {
            u64::try_from(*number).is_ok_and(|number| (*min..=*max).contains(&number))
        }
        (Accepts::Number(min, max), Value::Integer(number)) => {
            let number = *number as f64;
            if within(number, *min, *max) {
                return Ok(Value::Float(number));
            }
            false
        }
        (Accepts::Number(min, max), Value::Float(number)) => within(*number, *min, *max),
        (Accepts::Text, Value::String(_)) => true,
        (Accepts::Word(words), Value::String(word)) => words.contains(&word.as_str()),
        _ => false,
    };
    if taken {
        return Ok(value);
    }
    let accepted = key.accepts.instead_of(value.as_str());
    let (from, key, value) = (from.to_owned(), key.path.to_owned(), value.to_string());
    Err(ParseError::Value { from, key, value, accepted })
}

fn unknown(from: &str, key: &str) -> ParseError {
    let nearest = nearest(key, KEYS.iter().map(|key| key.path)).map(str::to_owned);
    ParseError::UnknownKey { from: from.to_owned(), key: key.to_owned(), nearest }
}
