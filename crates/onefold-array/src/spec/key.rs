//! What a key of a server description is: its values, its default, and where that is from.
//! Room: onefold-array.

use std::fmt;

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

/// What a key accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Accepts {
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// A number from the first to the second.
    Number(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
}

impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::Number(min, max) => write!(f, "a number from {min} to {max}"),
            Self::Word(words) => match words {
                [most @ .., last] if !most.is_empty() => {
                    write!(f, "{} or {last}", most.join(", "))
                }
                _ => f.write_str(&words.concat()),
            },
            Self::Text => f.write_str("text in quotes"),
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Table and name, with a dot between.
    pub path: &'static str,
    /// What it accepts.
    pub accepts: Accepts,
    /// The default, as TOML.
    pub default: &'static str,
    /// Where the default comes from.
    pub origin: Origin,
    /// What it means, without a full stop at the end.
    pub doc: &'static str,
}

impl Key {
    /// The name without its table.
    pub fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }

    /// The table, empty at the top.
    pub fn table(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(table, _)| table)
    }
}
