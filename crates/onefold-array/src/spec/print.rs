//! A description as TOML that reads back as itself, each key with its meaning and its origin.
//! Room: onefold-array.

use std::fmt::Write as _;

use super::keys::{KEYS, TABLES};
use super::loads::{LOAD_KEY, LOADS};
use super::parse::{Given, SpecBuilder};

impl SpecBuilder {
    /// The whole description as commented TOML.
    pub fn print(&self) -> String {
        let mut text = String::new();
        for (table, about) in TABLES {
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = writeln!(text, "# {about}");
            if LOAD_KEY.split_once('.').is_some_and(|(of, _)| of == table) {
                let _ = writeln!(text, "# Loads by name, for {LOAD_KEY}; other keys come on top:");
                for load in LOADS {
                    let _ = writeln!(text, "#   {}: {}", load.name, load.doc);
                }
            }
            if !table.is_empty() {
                let _ = writeln!(text, "[{table}]");
            }
            for key in KEYS.iter().filter(|key| key.table() == table) {
                let value = self.value(key.path).expect("every key has a value");
                let given = match self.given(key.path) {
                    Some(Given::Known(origin)) => origin.to_string(),
                    Some(Given::User(from)) => format!("given: {from}"),
                    None => String::new(),
                };
                let _ = writeln!(text, "# {}: {}.", key.doc, key.accepts);
                let _ = writeln!(text, "# {given}");
                let _ = writeln!(text, "{} = {value}", key.name());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::TABLES;
    use crate::spec::{PRESETS, SpecBuilder};

    #[test]
    fn what_is_printed_reads_back_as_itself() {
        for preset in PRESETS {
            let builder = SpecBuilder::preset(preset.name).unwrap().set("engine.queue_batches=7");
            let builder = builder.unwrap();
            let text = builder.print();
            let again = SpecBuilder::preset("software").unwrap().file("printed", &text).unwrap();
            assert_eq!(again.build().unwrap(), builder.build().unwrap(), "{}", preset.name);
            assert!(text.contains("# given: --set engine.queue_batches=7"));
            assert_eq!(text.matches("# Loads by name").count(), 1, "where one is chosen");
            // Only between tables is a line left free.
            let free = text.lines().filter(|line| line.is_empty()).count();
            assert_eq!((free, text.starts_with('\n')), (TABLES.len() - 1, false));
        }
    }
}
