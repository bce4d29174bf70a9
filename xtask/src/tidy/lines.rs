//! Line by line: columns, lines of a file, characters, the header.
//! Room: xtask.

/// Most characters of a line.
const COLUMNS_MAX: usize = 100;
/// Most lines of a file.
const LINES_MAX: usize = 800;

/// Lines and files that are too long.
pub fn sizes(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            found.push((number, format!("{columns} columns, at most {COLUMNS_MAX}")));
        }
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        found.push((lines, format!("{lines} lines, at most {LINES_MAX} a file")));
    }
    found
}

/// Characters that are not ASCII.
pub fn characters(text: &str) -> Vec<(usize, String)> {
    let foreign = |line: &str| line.chars().find(|c| !c.is_ascii());
    let named = |(number, line)| foreign(line).map(|c| (number, format!("not ASCII: {c:?}")));
    (1..).zip(text.lines()).filter_map(named).collect()
}

/// The header: a sentence on what the file is and, in a crate's sources, which room it is in.
pub fn header(path: &str, text: &str) -> Vec<(usize, String)> {
    if !text.starts_with("//! ") {
        return vec![(1, "no header: a file opens with `//! <what it is>`".to_owned())];
    }
    let Some((folder, source)) = path.split_once("/src/") else { return Vec::new() };
    let krate = folder.rsplit('/').next().unwrap_or(folder);
    if ["lib.rs", "main.rs"].contains(&source) {
        return Vec::new();
    }
    let room = format!("//! Room: {krate}.");
    let mut head = text.lines().take_while(|line| line.starts_with("//!"));
    if head.any(|line| line.starts_with(&room)) {
        return Vec::new();
    }
    vec![(1, format!("no line `{room}` in the header"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_hundred_columns_is_the_longest() {
        assert!(sizes(&"x".repeat(100)).is_empty());
        let found = sizes(&format!("a\n{}\n", "x".repeat(101)));
        assert_eq!(found, [(2, "101 columns, at most 100".to_owned())]);
    }

    #[test]
    fn a_file_of_eight_hundred_lines_is_the_longest() {
        assert!(sizes(&"x\n".repeat(800)).is_empty());
        assert_eq!(sizes(&"x\n".repeat(801)).len(), 1);
    }

    #[test]
    fn other_characters_than_ascii_are_found() {
        assert!(characters("plain -- text\n").is_empty());
        let found = characters("one\ntwo \u{2014} three\n");
        assert_eq!(found[0].0, 2);
        assert!(found[0].1.contains('\u{2014}'));
    }

    #[test]
    fn headers_name_what_and_where() {
        let path = "crates/onefold-pool/src/map/tree.rs";
        assert!(header(path, "//! A tree.\n//! Room: onefold-pool.\n").is_empty());
        assert!(header(path, "//! A tree.\n//! Room: onefold-pool.   In: x.\n").is_empty());
        assert_eq!(header(path, "use std::fmt;\n").len(), 1);
        assert_eq!(header(path, "//! A tree.\n").len(), 1);
        assert_eq!(header(path, "//! A tree.\n//! Room: onefold-block.\n").len(), 1);
        assert_eq!(header(path, "//! A tree.\n\n//! Room: onefold-pool.\n").len(), 1);
        assert!(header("crates/onefold-pool/src/lib.rs", "//! The room.\n").is_empty());
        assert!(header("crates/onefold-pool/tests/it/main.rs", "//! Tests.\n").is_empty());
    }
}
