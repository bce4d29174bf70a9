//! One build for many changes: each is compiled in beside the original, behind a switch that is
//! set from outside when a test program starts.
//! Room: xtask.
//! Source: [schemata-93]. With a rebuild for each change, two cores would be busy for days.

use std::ops::Range;

use super::sites::Change;

/// A change in a file, with the number of its switch.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Its switch; from 1.
    pub id: u32,
    /// The file's path from the root.
    pub file: String,
    /// The line on which it begins.
    pub line: usize,
    /// What is done where.
    pub change: Change,
}

/// The environment variable that turns one switch on.
pub const SWITCH: &str = "ONEFOLD_MUTANT";
/// The environment variable with the file into which reached switches are noted.
pub const REACHED: &str = "ONEFOLD_MUTANT_REACHED";

/// What is added to the crate's `lib.rs`: the switch, which also notes that somebody came by.
pub const SWITCHES: &str = r#"
#[doc(hidden)]
#[allow(clippy::all, missing_docs)]
pub(crate) fn onefold_mutant(id: u32) -> bool {
    use std::io::Write as _;
    static ACTIVE: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        std::env::var("ONEFOLD_MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(0)
    });
    static NOTES: std::sync::LazyLock<Option<std::sync::Mutex<std::fs::File>>> =
        std::sync::LazyLock::new(|| {
            let path = std::env::var_os("ONEFOLD_MUTANT_REACHED")?;
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path).ok()?;
            Some(std::sync::Mutex::new(file))
        });
    static SEEN: std::sync::Mutex<std::collections::BTreeSet<u32>> =
        std::sync::Mutex::new(std::collections::BTreeSet::new());
    if let Some(notes) = NOTES.as_ref()
        && SEEN.lock().is_ok_and(|mut seen| seen.insert(id))
        && let Ok(mut file) = notes.lock()
    {
        let _ = writeln!(file, "{id}");
    }
    *ACTIVE == id
}
"#;

/// The text with all its mutants behind their switches, and where each of them stands in it.
/// Mutants must be in order and must not overlap.
pub fn guarded(text: &str, mutants: &[&Mutant]) -> (String, Vec<(u32, Range<usize>)>) {
    let mut out = String::with_capacity(text.len() + mutants.len() * 80);
    let mut places = Vec::with_capacity(mutants.len());
    let mut done = 0;
    for mutant in mutants {
        let Change { range, with, statement, .. } = &mutant.change;
        let (id, original) = (mutant.id, &text[range.clone()]);
        out.push_str(&text[done..range.start]);
        let start = out.len();
        let switch = format!("crate::onefold_mutant({id})");
        let guarded = match (statement, original.is_empty()) {
            (true, true) => format!(" if {switch} {{ {with} }}"),
            (true, false) => format!("if {switch} {{ {with} }} else {{ {original} }}"),
            (false, _) => format!("(if {switch} {{ {with} }} else {{ {original} }})"),
        };
        out.push_str(&guarded);
        places.push((id, start..out.len()));
        done = range.end;
    }
    out.push_str(&text[done..]);
    (out, places)
}

/// Those of the changes that do not overlap with an earlier one of the list.
pub fn apart(changes: Vec<Change>) -> Vec<Change> {
    let mut kept: Vec<Change> = Vec::with_capacity(changes.len());
    for change in changes {
        let apart = |other: &Change| {
            other.range != change.range
                && (other.range.end <= change.range.start || change.range.end <= other.range.start)
        };
        if kept.iter().all(apart) {
            kept.push(change);
        }
    }
    kept.sort_by_key(|change| change.range.start);
    kept
}

/// The number of the line in which a byte stands, from 1.
pub fn line_of(text: &str, byte: usize) -> usize {
    1 + text[..byte].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(range: Range<usize>, with: &str, statement: bool) -> Change {
        Change { range, with: with.to_owned(), statement, what: String::new() }
    }

    fn mutant(id: u32, change: Change) -> Mutant {
        Mutant { id, file: "a.rs".to_owned(), line: 1, change }
    }

    #[test]
    fn originals_stand_beside_what_replaces_them() {
        let text = "fn f() { a(); b < c }";
        let mutants = [
            mutant(1, change(8..8, "return;", true)),
            mutant(2, change(9..13, "", true)),
            mutant(3, change(14..19, "b <= c", false)),
        ];
        let (out, places) = guarded(text, &mutants.iter().collect::<Vec<_>>());
        assert_eq!(
            out,
            "fn f() { if crate::onefold_mutant(1) { return; } if crate::onefold_mutant(2) {  } \
             else { a(); } (if crate::onefold_mutant(3) { b <= c } else { b < c }) }"
        );
        assert_eq!(&out[places[2].1.clone()][..26], "(if crate::onefold_mutant(");
        assert!(syn::parse_file(&out).is_ok() && syn::parse_file(SWITCHES).is_ok());
    }

    #[test]
    fn of_changes_that_overlap_the_first_stays() {
        let kept = apart(vec![
            change(10..20, "", false),
            change(12..14, "", false),
            change(20..22, "", false),
            change(4..4, "", true),
            change(4..4, "", true),
        ]);
        let ranges: Vec<_> = kept.into_iter().map(|change| change.range).collect();
        assert_eq!(ranges, [4..4, 10..20, 20..22]);
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!((line_of("a\nb", 0), line_of("a\nb", 2)), (1, 2));
    }
}
