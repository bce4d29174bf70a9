//! What a setting in a specification is: its name, what it accepts, what it means.
//! Room: onefold-block.

use std::fmt;

use crate::nearest;

/// What a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Accepts {
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// A number from the first to the second.
    Number(f64, f64),
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// A whole number from the first to the second, or a percentage in quotes such as `"5%"`.
    WholeOrPercent(u64, u64),
}

impl Accepts {
    /// What was expected in place of a value that is not accepted, with the word that was meant,
    /// if the value is much like one.
    pub fn instead_of(&self, word: Option<&str>) -> String {
        let Self::Word(words) = self else { return self.to_string() };
        match word.and_then(|word| nearest(word, words.iter().copied())) {
            Some(near) => format!("{self}; did you mean {near}?"),
            None => self.to_string(),
        }
    }
}

/// The words of error messages and comments.
impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::Number(min, max) => write!(f, "a number from {min} to {max}"),
            Self::Switch => f.write_str("true or false"),
            Self::Word(words) => match words {
                [most @ .., last] if !most.is_empty() => {
                    write!(f, "{} or {last}", most.join(", "))
                }
                _ => f.write_str(&words.concat()),
            },
            Self::Text => f.write_str("text in quotes"),
            Self::WholeOrPercent(min, max) => {
                write!(f, "a whole number from {min} to {max}, or a percentage such as \"5%\"")
            }
        }
    }
}

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Table and name, with a dot between.
    pub path: &'static str,
    /// What it accepts.
    pub accepts: Accepts,
    /// What it means, one sentence or two, without a full stop at the end.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accepted_is_said_with_the_word_that_was_meant() {
        let words = Accepts::Word(&["off", "on", "always"]);
        assert_eq!(words.to_string(), "off, on or always");
        let meant = "off, on or always; did you mean always?";
        assert_eq!(words.instead_of(Some("allways")), meant);
        assert_eq!(words.instead_of(Some("perhaps")), "off, on or always");
        assert_eq!(words.instead_of(None), "off, on or always");
        assert_eq!(Accepts::Word(&["only"]).to_string(), "only");
        assert_eq!(Accepts::Whole(1, 8).instead_of(Some("9")), "a whole number from 1 to 8");
        let percent = "a whole number from 1 to 9, or a percentage such as \"5%\"";
        assert_eq!(Accepts::WholeOrPercent(1, 9).to_string(), percent);
    }

    #[test]
    fn a_path_is_a_table_and_a_name() {
        let key = |path| Key { path, accepts: Accepts::Text, doc: "" };
        assert_eq!((key("ssd.count").table(), key("ssd.count").name()), ("ssd", "count"));
        assert_eq!((key("seed").table(), key("seed").name()), ("", "seed"));
    }
}
