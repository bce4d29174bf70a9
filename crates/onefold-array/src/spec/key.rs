//! What a key of a server description is: a setting with its default, and where that is from.
//! Room: onefold-array.

use std::fmt;
use std::ops::Deref;

use onefold_block::setting;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A slide of the talk that the model follows, by its title.
    Published(&'static str),
    /// Another public source.
    Outside(&'static str),
    /// Computed from published values.
    Derived(&'static str),
    /// Our assumption, with its reason.
    Assumed(&'static str),
}

impl Origin {
    /// Whether it is nobody's figure but ours.
    pub const fn is_assumed(self) -> bool {
        matches!(self, Self::Assumed(_))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Published(slide) => write!(f, "published: slide \"{slide}\""),
            Self::Outside(source) => write!(f, "outside: {source}"),
            Self::Derived(how) => write!(f, "derived: {how}"),
            Self::Assumed(why) => write!(f, "assumed: {why}"),
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Its name, what it accepts and what it means.
    pub setting: setting::Key,
    /// The default, as TOML.
    pub default: &'static str,
    /// Where the default comes from.
    pub origin: Origin,
}

impl Deref for Key {
    type Target = setting::Key;

    fn deref(&self) -> &setting::Key {
        &self.setting
    }
}
