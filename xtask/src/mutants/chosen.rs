//! Breakages that were chosen by hand, each with the test that must notice it.
//! Room: xtask.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use super::schema::{Mutant, line_of};
use super::sites::Change;
use super::{tree, whole};

/// The list.
pub const PATH: &str = "xtask/breakages.toml";

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breakage {
    /// What it is called on the command line.
    pub name: String,
    /// The file's path from the root.
    pub file: String,
    /// What stands there, once.
    pub replace: String,
    /// What takes its place.
    pub with: String,
    /// The test program: `lib`, `bin` or `it`.
    pub program: String,
    /// The test's full name.
    pub test: String,
}

impl Breakage {
    /// The crate that the file is in, and whose tests must notice.
    pub fn package(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }

    /// The breakage with its switch. It is a statement if it ends like one.
    pub fn mutant(&self, id: u32, text: &str) -> Result<Mutant> {
        let places: Vec<usize> = text.match_indices(&self.replace).map(|(at, _)| at).collect();
        let [start] = places[..] else {
            let times = places.len();
            anyhow::bail!("{}: `{}` stands there {times} times, not once", self.file, self.replace);
        };
        let statement = self.replace.ends_with([';', '}']);
        let change = Change {
            range: start..start + self.replace.len(),
            with: self.with.clone(),
            statement,
            what: format!("`{}` becomes `{}`", self.replace, self.with),
        };
        let line = line_of(text, start);
        Ok(Mutant { id, file: self.file.clone(), line, change })
    }
}

/// The entries of the list.
pub fn parse(text: &str) -> Result<Vec<Breakage>> {
    let table: toml::Table = text.parse().context(PATH)?;
    let entries = table.get("breakage").and_then(toml::Value::as_array).cloned();
    let field = |entry: &toml::Value, name: &str| {
        let value = entry.get(name).and_then(toml::Value::as_str);
        value.map(str::to_owned).with_context(|| format!("{PATH}: no `{name}` in {entry}"))
    };
    let breakage = |entry: toml::Value| {
        let test = field(&entry, "test")?;
        let (program, test) = test.split_once(' ').context("a test is `PROGRAM NAME`")?;
        Ok(Breakage {
            name: field(&entry, "name")?,
            file: field(&entry, "file")?,
            replace: field(&entry, "replace")?,
            with: field(&entry, "with")?,
            program: program.to_owned(),
            test: test.to_owned(),
        })
    };
    entries.unwrap_or_default().into_iter().map(breakage).collect()
}

/// What is wrong with the list, for `cargo xtask tidy`.
pub fn check_list(text_of: &dyn Fn(&str) -> Option<String>, tests: &[&str]) -> Vec<String> {
    let Some(list) = text_of(PATH) else { return Vec::new() };
    let entries = match parse(&list) {
        Ok(entries) => entries,
        Err(error) => return vec![format!("{PATH}:1: {error:#}")],
    };
    let mut names = BTreeSet::new();
    let mut sources: BTreeMap<&str, Option<Source>> = BTreeMap::new();
    let tests: BTreeSet<&str> = tests.iter().copied().flat_map(functions).collect();
    let mut found = Vec::new();
    for entry in &entries {
        let above = list.split(&format!("name = \"{}\"", entry.name)).next();
        let line = 1 + above.map_or(0, |above| above.matches('\n').count());
        if !names.insert(&entry.name) {
            found.push(format!("{PATH}:{line}: `{}` is there twice", entry.name));
        }
        let source = sources
            .entry(&entry.file)
            .or_insert_with(|| text_of(&entry.file).and_then(Source::parsed));
        if let Err(error) = check(entry, source.as_ref(), &tests) {
            found.push(format!("{PATH}:{line}: {error:#}"));
        }
    }
    found
}

/// The names of all functions of a file.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).filter_map(|rest| Some(rest.split_once('(')?.0))
}

/// A file that entries are about.
struct Source {
    text: String,
    parsed: syn::File,
}

impl Source {
    fn parsed(text: String) -> Option<Self> {
        let parsed = syn::parse_file(&text).ok()?;
        Some(Self { text, parsed })
    }
}

/// What is wrong with an entry, as far as can be seen without building: it must apply to its file,
/// and its test must be there.
fn check(breakage: &Breakage, source: Option<&Source>, tests: &BTreeSet<&str>) -> Result<()> {
    let source = source.with_context(|| format!("there is no source {}", breakage.file))?;
    ensure!(
        tree::is_source(breakage.package(), &breakage.file),
        "{}: only a crate's sources are broken, not what its tests are written with",
        breakage.file
    );
    let Change { range, with, statement, .. } = breakage.mutant(1, &source.text)?.change;
    let spaces = breakage.replace.len() - breakage.replace.trim_start().len();
    let range = range.start + spaces..range.start + spaces + breakage.replace.trim().len();
    whole::check(&source.parsed, &range)
        .and_then(|()| whole::check_other(&with, statement))
        .with_context(|| format!("{}: `{}`", breakage.name, breakage.replace))?;
    let name = breakage.test.rsplit("::").next().unwrap_or_default();
    ensure!(tests.contains(name), "{}: its test `{}` is not there", breakage.file, breakage.test);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "[[breakage]]\nname = \"limit\"\nfile = \"crates/a/src/b.rs\"\n\
                        replace = \"x < y\"\nwith = \"x <= y\"\ntest = \"it b::limits\"\n";

    #[test]
    fn an_entry_must_apply_once_and_have_its_test() {
        let entry = &parse(LIST).unwrap()[0];
        assert_eq!((entry.package(), entry.program.as_str()), ("a", "it"));
        let tests = functions("#[test]\nfn limits() {}\nfn f").collect();
        let check = |condition: &str, tests: &BTreeSet<&str>| {
            let source = Source::parsed(format!("fn f() {{ if {condition} {{}} }}")).unwrap();
            check(entry, Some(&source), tests)
        };
        assert!(check("x < y", &tests).is_ok());
        assert!(check("x < y && x < y", &tests).is_err());
        assert!(check("x > y", &tests).is_err());
        assert!(check("x < y + 1", &tests).is_err(), "not a whole expression");
        assert!(super::check(entry, None, &tests).is_err());
        assert!(check("x < y", &BTreeSet::from(["limits_2"])).is_err());
    }

    #[test]
    fn what_tests_are_written_with_is_not_broken() {
        let list = LIST.replace("src/b.rs", "src/conformance/b.rs");
        let source = Source::parsed("fn f() { x < y }".to_owned()).unwrap();
        let error = check(&parse(&list).unwrap()[0], Some(&source), &BTreeSet::from(["limits"]));
        assert!(error.unwrap_err().to_string().contains("only a crate's sources"));
    }

    #[test]
    fn each_name_is_there_once_and_problems_have_their_line() {
        let text_of = |list: String| {
            move |path: &str| {
                Some(if path == PATH { list.clone() } else { "fn f() { x < y }".to_owned() })
            }
        };
        let tests = ["fn limits() {}"];
        assert!(check_list(&text_of(LIST.to_owned()), &tests).is_empty());
        assert!(check_list(&text_of(format!("{LIST}{LIST}")), &tests)[0].contains("twice"));
        let other = LIST.replace("limit\"", "stale\"").replace("x < y", "x << y");
        let found = check_list(&text_of(format!("{LIST}{other}")), &tests);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("xtask/breakages.toml:8: "), "{found:?}");
    }

    #[test]
    fn statements_are_told_from_expressions() {
        let list = LIST.replace("x < y", "sync()?;");
        let entry = &parse(&list).unwrap()[0];
        let mutant = entry.mutant(3, "f();\nsync()?;\n").unwrap();
        assert!(mutant.change.statement && mutant.line == 2 && mutant.id == 3);
    }

    #[test]
    fn a_field_that_is_missing_is_named() {
        let error = parse(&LIST.replace("with", "width")).unwrap_err().to_string();
        assert!(error.contains("no `with`"), "{error}");
    }
}
