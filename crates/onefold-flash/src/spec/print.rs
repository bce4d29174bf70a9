//! A specification as commented TOML.
//! Room: onefold-flash.
//! Invariant: what is printed reads back as the same specification.

use std::fmt::Write as _;

use toml::{Table, Value};

use crate::dedup::{Kind, policy_info};
use crate::spec::DriveSpec;
use crate::spec::keys::{Accepts, KEYS, TABLES};

/// Widest comment line.
const WIDTH: usize = 96;

impl DriveSpec {
    /// Every key with its meaning, what it accepts, and its value here.
    pub fn to_commented_toml(&self) -> String {
        let values = Table::try_from(self).expect("a specification is a table of plain values");
        let mut text = String::new();
        for (table, about) in TABLES {
            if !table.is_empty() {
                text.push_str("\n\n");
            }
            comment(&mut text, about);
            if !table.is_empty() {
                writeln!(text, "[{table}]").expect("strings take all text");
            }
            let inner = match table {
                "" => &values,
                _ => values[table].as_table().expect("the key of a table"),
            };
            for key in KEYS.iter().filter(|key| key.table() == table) {
                comment(&mut text, &format!("{}; {}.", key.doc, key.accepts));
                line(&mut text, key.name(), &inner[key.name()]);
            }
            if table == "dedup" {
                options(&mut text, &self.dedup.policy, inner);
            }
        }
        text
    }
}

/// Every option of a policy with its meaning, and its value; its default behind `#` where it has
/// none here. Then whatever else stands beside the policy.
fn options(text: &mut String, policy: &str, values: &Table) {
    let known = policy_info(policy).map(|info| info.options).unwrap_or_default();
    for option in known {
        let words = match option.kind {
            Kind::Word(words) => format!("; {}", Accepts::Word(words)),
            _ => String::new(),
        };
        comment(text, &format!("{}{words}.", option.doc));
        match values.get(option.key) {
            Some(value) => line(text, option.key, value),
            None => comment(text, &format!("{} = {}", option.key, option.default_text())),
        }
    }
    let is_other = |name: &str| name != "policy" && known.iter().all(|option| option.key != name);
    let others = values.iter().filter(|(name, _)| is_other(name));
    others.for_each(|(name, value)| line(text, name, value));
}

fn line(text: &mut String, name: &str, value: &Value) {
    writeln!(text, "{} = {value}", key(name)).expect("strings take all text");
}

/// A name as TOML has it: in quotes unless it is plain. Options of policies may have any.
fn key(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\U{:08X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", name.chars().map(escaped).collect::<String>())
}

/// Words as comment lines.
fn comment(text: &mut String, words: &str) {
    let mut width = WIDTH;
    for word in words.split_whitespace() {
        if width + 1 + word.len() > WIDTH {
            let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            text.push_str(newline);
            text.push('#');
            width = 1;
        }
        text.push(' ');
        text.push_str(word);
        width += 1 + word.len();
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_whatever_is_in_them() {
        for name in ["a", "a_b-9", "", "a b", "q\"\\", "n\n\u{7f}\u{0}", "\u{e4}", "a.b", "'"] {
            let line = format!("{} = 1", key(name));
            let table: Table = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(table.keys().collect::<Vec<_>>(), [name], "{line}");
        }
        assert_eq!((key("share").as_str(), key("").as_str()), ("share", "\"\""));
    }
}
