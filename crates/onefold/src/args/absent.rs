//! Commands that this program was built without, and what to say of them.
//! Room: onefold.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;

/// A part of the program that can be left out.
struct Part {
    feature: &'static str,
    commands: &'static [&'static str],
    is_there: bool,
}

const PARTS: [Part; 3] = [
    Part { feature: "archive", commands: &["archive"], is_there: cfg!(feature = "archive") },
    Part { feature: "top", commands: &["top"], is_there: cfg!(feature = "top") },
    Part {
        feature: "models",
        commands: &["cache", "ssd", "array", "scrambler", "reproduce"],
        is_there: cfg!(feature = "models"),
    },
];

/// What the help says of them, at its end; nothing if all are there.
pub fn note() -> String {
    note_of(&PARTS)
}

fn note_of(parts: &[Part]) -> String {
    let absent = |part: &&Part| !part.is_there;
    let line = |part: &Part| format!("\n  {:9} {}", part.feature, part.commands.join(", "));
    let lines: String = parts.iter().filter(absent).map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\n\nThis program was built without these features and their commands:{lines}")
}

/// What to say if a command was asked for that this program was built without.
pub fn explain(error: &clap::Error) -> Option<Failure> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    match error.get(ContextKind::InvalidSubcommand)? {
        ContextValue::String(name) => explained(name, &PARTS),
        _ => None,
    }
}

fn explained(name: &str, parts: &[Part]) -> Option<Failure> {
    let part = parts.iter().find(|part| !part.is_there && part.commands.contains(&name))?;
    let feature = part.feature;
    let failure =
        Failure::nothing_done(format!("this program was built without the command '{name}'"));
    Some(failure.hint(format!(
        "build it with --features {feature}, or without --no-default-features, which left it out"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_was_left_out_is_told_from_one_that_never_was() {
        let part = |feature, commands, is_there| Part { feature, commands, is_there };
        let parts = [part("all", &["one", "two"] as &[_], false), part("here", &["three"], true)];
        assert_eq!(note_of(&parts[1..]), "");
        assert!(note_of(&parts).ends_with("their commands:\n  all       one, two"));
        let said = |name| explained(name, &parts).map(|failure| format!("{failure:?}"));
        assert!(said("two").is_some_and(|said| said.contains("'two'") && said.contains("all")));
        assert!(said("three").is_none() && said("four").is_none());
    }
}
