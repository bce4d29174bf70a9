//! Changes that were looked at and found to change nothing that matters, each with its reason.
//! Room: xtask.

use anyhow::{Context, Result, ensure};

use super::schema::line_of;
use super::sites::Change;

/// The list.
pub const PATH: &str = "xtask/equivalent.toml";

/// One entry: all changes of this kind on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equivalent {
    /// The file's path from the root.
    file: String,
    /// The line, without the spaces around it.
    line: String,
    /// What is done to it, as `cargo xtask mutants` says it.
    what: String,
}

impl Equivalent {
    /// Whether it is about this change in a file of this text.
    pub fn is_of(&self, file: &str, text: &str, change: &Change) -> bool {
        self.file == file
            && self.what == change.what
            && self.line == line(text, line_of(text, change.range.start))
    }
}

/// The line with this number, from 1.
fn line(text: &str, number: usize) -> &str {
    text.lines().nth(number - 1).unwrap_or_default().trim()
}

/// The entries of the list. Each must say why.
pub fn parse(text: &str) -> Result<Vec<Equivalent>> {
    let table: toml::Table = text.parse().context(PATH)?;
    let entries = table.get("equivalent").and_then(toml::Value::as_array).cloned();
    let equivalent = |entry: toml::Value| {
        let field = |name: &str| {
            let value = entry.get(name).and_then(toml::Value::as_str).map(str::to_owned);
            value.with_context(|| format!("{PATH}: no `{name}` in {entry}"))
        };
        ensure!(field("why")?.len() >= 20, "{PATH}: the reason is missing in {entry}");
        Ok(Equivalent { file: field("file")?, line: field("line")?, what: field("what")? })
    };
    entries.unwrap_or_default().into_iter().map(equivalent).collect()
}

/// What is wrong with the list, for `cargo xtask tidy`.
pub fn check_list(text_of: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let list = match parse(&text_of(PATH).unwrap_or_default()) {
        Ok(list) => list,
        Err(error) => return vec![format!("{error:#}")],
    };
    let stale = |entry: &&Equivalent| {
        let Some(text) = text_of(&entry.file) else { return true };
        let changes = super::sites::of(&text).unwrap_or_default();
        !changes.iter().any(|change| entry.is_of(&entry.file, &text, change))
    };
    let named = |entry: &Equivalent| {
        format!("{PATH}: {}: `{}`: no such change any more: {}", entry.file, entry.line, entry.what)
    };
    list.iter().filter(stale).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        [[equivalent]]
        file = "a.rs"
        line = "x + 1"
        what = "`+` becomes `-`"
        why = "x is not used afterwards"
    "#;

    #[test]
    fn an_entry_is_about_one_change_of_one_line() {
        let list = parse(LIST).unwrap();
        let text = "fn a() -> u8 {\n    x + 1\n}";
        let is_of = |file: &str, change: &Change| list[0].is_of(file, text, change);
        let changes = super::super::sites::of(text).unwrap();
        let known: Vec<&Change> = changes.iter().filter(|change| is_of("a.rs", change)).collect();
        assert_eq!((changes.len(), known.len()), (2, 1));
        assert!(!is_of("b.rs", known[0]));
    }

    #[test]
    fn a_reason_is_asked_for_and_stale_entries_are_named() {
        assert!(parse(&LIST.replace("x is not used afterwards", "")).is_err());
        let file = |text: &'static str| {
            move |path: &str| Some(if path == PATH { LIST } else { text }.to_owned())
        };
        assert!(check_list(&file("fn a() -> u8 { \n x + 1\n}")).is_empty());
        assert_eq!(check_list(&file("fn a() -> u8 { x + 2 }")).len(), 1);
    }
}
