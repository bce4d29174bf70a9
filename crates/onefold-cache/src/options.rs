//! Settings of policies by name: one declaration gives the struct, its defaults and its help.
//! Room: onefold-cache.

use std::fmt::Display;
use std::str::FromStr;

use thiserror::Error;

/// A setting of a policy, as the help shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one sentence, with its unit.
    pub doc: &'static str,
    /// Its default, as it would be written.
    pub default: String,
    /// What is accepted.
    pub accepted: String,
}

/// A policy or a setting that does not exist, or a value that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionError {
    /// No such policy.
    #[error("unknown policy `{got}`{}: accepted are {accepted}", did_you_mean(nearest.as_ref()))]
    Policy {
        /// The name given.
        got: String,
        /// The name nearest to it, if one is near.
        nearest: Option<String>,
        /// All names.
        accepted: String,
    },
    /// No such setting.
    #[error(
        "policy `{policy}` has no setting `{got}`{}: accepted are {accepted}",
        did_you_mean(nearest.as_ref())
    )]
    Name {
        /// Whose setting.
        policy: String,
        /// The name given.
        got: String,
        /// The name nearest to it, if one is near.
        nearest: Option<String>,
        /// All names, or `none`.
        accepted: String,
    },
    /// A value out of range or no value of this kind.
    #[error("policy `{policy}`: `{name}` = `{got}`: accepted is {accepted}")]
    Value {
        /// Whose setting.
        policy: String,
        /// Its name.
        name: String,
        /// The value given.
        got: String,
        /// What is accepted.
        accepted: String,
    },
    /// Something that is not NAME or NAME:KEY=VALUE,KEY=VALUE.
    #[error("policy `{got}`: expected NAME or NAME:SETTING=VALUE,SETTING=VALUE")]
    Form {
        /// The text given.
        got: String,
    },
    /// A policy that has to know the future was asked to work without it.
    #[error(
        "policy `{policy}` has to know all requests beforehand: it bounds others in \
        simulations and cannot serve requests as they come"
    )]
    Offline {
        /// Which policy.
        policy: String,
    },
    /// A cache too small for this policy.
    #[error("policy `{policy}` needs room for {needed} objects: {got} fit")]
    Small {
        /// Which policy.
        policy: String,
        /// Objects that fit.
        got: usize,
        /// Objects needed.
        needed: usize,
    },
}

pub(crate) fn did_you_mean(nearest: Option<&String>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}

/// Settings of one policy.
pub trait Settings: Default {
    /// All of them, for the help.
    fn infos() -> Vec<OptionInfo>;
    /// Sets one; `None` for a name that is none, `Some(Err)` with what is accepted for a value
    /// that is none.
    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>>;
}

/// Reads a number within a range.
pub(crate) fn parse_in<T: FromStr + PartialOrd + Display>(
    text: &str,
    low: &T,
    high: &T,
) -> Option<T> {
    text.parse().ok().filter(|value| value >= low && value <= high)
}

/// Declares a struct of numbers, each with a default and a range, both inclusive.
macro_rules! settings {
    ($(#[$outer:meta])* pub struct $name:ident {
        $(#[doc = $doc:literal] $field:ident: $type:ty = $default:expr, $low:expr => $high:expr;)*
    }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $(#[doc = $doc] pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl crate::options::Settings for $name {
            fn infos() -> Vec<crate::options::OptionInfo> {
                vec![$(crate::options::OptionInfo {
                    name: stringify!($field),
                    doc: $doc.trim_ascii(),
                    default: ($default).to_string(),
                    accepted: format!("{} to {}", $low, $high),
                },)*]
            }

            fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
                $(if name == stringify!($field) {
                    let (low, high): ($type, $type) = ($low, $high);
                    let read = crate::options::parse_in(value, &low, &high);
                    let accepted = || format!("{low} to {high}");
                    return Some(read.map(|read| self.$field = read).ok_or_else(accepted));
                })*
                let _ = (name, value);
                None
            }
        }
    };
}
pub(crate) use settings;

settings! {
    /// Nothing to set.
    pub struct NoSettings {}
}
