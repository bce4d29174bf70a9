//! What was meant to go before the commit: debugging, holes, marks, words of one machine.
//! Room: xtask.

/// What must not stand in code. In halves, so that this file is free of them.
const CODE: [(&str, &str); 7] = [
    ("dbg", "!("),
    ("to", "do!("),
    ("unimple", "mented!("),
    ("FIX", "ME"),
    ("XX", "X"),
    ("#[ign", "ore"),
    ("#![allow(dead", "_code"),
];

/// What must not stand in any file: where one person's files or packages happen to be.
const WORDS: [(&str, &str); 8] = [
    ("/wo", "rk/"),
    ("/work", "space/"),
    ("/ho", "me/"),
    ("/ro", "ot/"),
    ("/Use", "rs/"),
    ("C:", "\\Users"),
    ("artifac", "tory"),
    ("://pro", "xy."),
];

/// Words for papers and notes that a reader of the repository does not have: sources are cited by
/// their keys in docs/bibliography.md.
const REFERENCES: [(&str, &str); 13] = [
    ("seed 0", "0"),
    ("Seed 0", "0"),
    ("facts", " on "),
    ("facts", " of "),
    ("facts", " about "),
    ("facts", " gathered"),
    ("founding", " design"),
    ("DESIGN", " section"),
    ("DESIGN", ".md"),
    ("STYLE", ".md"),
    ("POOL", ".md"),
    ("PAPERS", ".md"),
    ("the seed", " paper"),
];

/// Leftovers in Rust code.
pub fn code(text: &str) -> Vec<(usize, String)> {
    find(text, &CODE, "left over")
}

/// Words that mean nothing on another machine.
pub fn words(text: &str) -> Vec<(usize, String)> {
    find(text, &WORDS, "belongs to one machine")
}

/// References to what a reader does not have.
pub fn references(text: &str) -> Vec<(usize, String)> {
    find(text, &REFERENCES, "points at what a reader does not have")
}

fn find(text: &str, banned: &[(&str, &str)], why: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (left, right) in banned {
        let word = format!("{left}{right}");
        // Asking line by line takes ten times as long, and hardly any file has it.
        if !text.contains(&word) {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            if stands_in(&word, line) {
                found.push((number, format!("`{word}` {why}")));
            }
        }
    }
    found
}

/// Whether a line has the word, not as the end of a longer one. A path is one when it is whole:
/// `target/work/` is in the repository.
fn stands_in(word: &str, line: &str) -> bool {
    let within = |at: usize| {
        let before = line[..at].chars().next_back();
        before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
            && word.starts_with(|c: char| c.is_alphanumeric() || c == '/')
    };
    line.match_indices(word).any(|(at, _)| !within(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leftover_is_found_and_said_where() {
        for (left, right) in CODE {
            let found = code(&format!("fine\n  {left}{right}x\n"));
            assert_eq!(found.len(), 1, "{left}{right}");
            assert_eq!(found[0].0, 2);
        }
        for (left, right) in WORDS {
            assert_eq!(words(&format!("see \"{left}{right}x\"\n")).len(), 1, "{left}{right}");
        }
        for (left, right) in REFERENCES {
            let found = references(&format!("Source: {left}{right}\n"));
            assert_eq!(found.len(), 1, "{left}{right}");
        }
    }

    #[test]
    fn parts_of_longer_words_are_no_leftovers() {
        assert!(code("my_dbg!(x)\nAXXX\n").is_empty());
        assert!(words("target/work/x and ../home/x\n").is_empty());
        assert!(code("all is done\n").is_empty() && words("scan /home and /tmp\n").is_empty());
    }
}
