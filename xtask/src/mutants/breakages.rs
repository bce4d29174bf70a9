//! `cargo xtask breakages`: each breakage that was chosen by hand is noticed by the test that is
//! named for it.
//! Room: xtask.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::chosen::{self, Breakage};
use super::programs::{Outcome, Program, Wanted};
use super::reach::Reach;
use super::schema::{Mutant, apart};
use super::tree::Copy;
use super::{COPY, LIMIT, Trial, build, reached, shuffled};

pub use super::chosen::check_list;

const USAGE: &str = "\
usage: cargo xtask breakages [--sample N] [--seed S] [--rotate] [--find] [NAME ...]

  NAME               breakages of xtask/breakages.toml, or crates; all of them without a name
  --sample N         only so many
  --seed S           which ones (1)
  --rotate           those of one test program only, which the commit that is checked out decides
  --find             say which tests notice, instead of trying the one that is named
";

#[derive(Default)]
struct Options {
    names: Vec<String>,
    sample: Option<usize>,
    seed: u64,
    rotate: bool,
    find: bool,
}

/// Run the command. Returns whether every breakage was noticed.
pub fn run(args: &[String]) -> Result<bool> {
    let Some(options) = options(args)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    let root = crate::root()?;
    let list = std::fs::read_to_string(root.join(chosen::PATH)).context(chosen::PATH)?;
    let entries = chosen::parse(&list)?;
    let turn = if options.rotate { Some(crate::turn::choice(&root)?) } else { None };
    let crates = picked(&entries, &options, turn)?;
    let copy = Copy::refresh(&root, COPY)?;
    let (mut tried, mut alive) = (0, 0);
    for (package, entries) in crates {
        tried += entries.len();
        alive += try_crate(&root, &copy, package, &entries, options.find)?;
    }
    println!("{} of {tried} breakages were noticed", tried - alive);
    Ok(alive == 0)
}

/// The options, or none if help is asked for.
fn options(args: &[String]) -> Result<Option<Options>> {
    let mut options = Options { seed: 1, ..Options::default() };
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word {
            "--sample" => options.sample = Some(value()?.parse().context("--sample")?),
            "--seed" => options.seed = value()?.parse().context("--seed")?,
            "--rotate" => options.rotate = true,
            "--find" => options.find = true,
            "-h" | "--help" => return Ok(None),
            name if !name.starts_with('-') => options.names.push(name.to_owned()),
            other => bail!("unknown: {other}\n\n{USAGE}"),
        }
    }
    Ok(Some(options))
}

/// By crate, what the options ask for.
fn picked<'a>(
    entries: &'a [Breakage],
    options: &Options,
    turn: Option<u64>,
) -> Result<BTreeMap<&'a str, Vec<&'a Breakage>>> {
    for name in &options.names {
        let known = entries.iter().any(|entry| entry.name == *name || entry.package() == name);
        ensure!(known, "no breakage and no crate with breakages is called {name}");
    }
    let wanted = |entry: &&Breakage| {
        let names = &options.names;
        names.is_empty() || names.iter().any(|n| *n == entry.name || n == entry.package())
    };
    let mut entries: Vec<&Breakage> = entries.iter().filter(wanted).collect();
    if let Some(turn) = turn {
        let program = |entry: &Breakage| (entry.package().to_owned(), entry.program.clone());
        let programs: BTreeSet<_> = entries.iter().map(|entry| program(entry)).collect();
        let chosen = programs.iter().nth(turn as usize % programs.len().max(1));
        entries.retain(|entry| chosen == Some(&program(entry)));
    }
    let order = shuffled(entries.len(), options.seed);
    let mut crates: BTreeMap<&str, Vec<&Breakage>> = BTreeMap::new();
    for &at in order.iter().take(options.sample.unwrap_or(entries.len())) {
        crates.entry(entries[at].package()).or_default().push(entries[at]);
    }
    Ok(crates)
}

/// Build a crate with these breakages and try each. Returns how many nobody noticed.
fn try_crate(
    root: &Path,
    copy: &Copy,
    package: &str,
    entries: &[&Breakage],
    find: bool,
) -> Result<usize> {
    let mut mutants = Vec::new();
    for (id, entry) in (1..).zip(entries) {
        let text = std::fs::read_to_string(root.join(&entry.file)).context(entry.file.clone())?;
        mutants.push(entry.mutant(id, &text)?);
    }
    let mut alive = 0;
    // Breakages of one place cannot be in one build.
    let mut waiting = mutants;
    while !waiting.is_empty() {
        let (now, later) = without_overlaps(waiting);
        waiting = later;
        let names = entries.iter().map(|entry| entry.program.as_str());
        let wanted = if find { Wanted::All } else { Wanted::of(names) };
        let trial = build(root, copy, (package, &wanted), now.clone())?;
        let reached = if find { reached(root, &trial.programs, None)? } else { Vec::new() };
        for mutant in &now {
            let entry = entries[mutant.id as usize - 1];
            let what = format!("{} ({}:{})", entry.name, entry.file, mutant.line);
            if !trial.mutants.iter().any(|other| other.id == mutant.id) {
                alive += 1;
                println!("does not compile: {what}");
            } else if find {
                alive += usize::from(!found(mutant, &what, &trial.programs, &reached)?);
            } else {
                alive += usize::from(!noticed(mutant, entry, &what, &trial)?);
            }
        }
    }
    Ok(alive)
}

/// Those that can be built together, in order of their places, and the rest.
fn without_overlaps(mutants: Vec<Mutant>) -> (Vec<Mutant>, Vec<Mutant>) {
    let (mut now, mut later): (Vec<Mutant>, Vec<Mutant>) = (Vec::new(), Vec::new());
    for mutant in mutants {
        let beside = now.iter().filter(|other| other.file == mutant.file);
        let mut changes: Vec<_> = beside.map(|other| other.change.clone()).collect();
        changes.push(mutant.change.clone());
        let all = changes.len();
        if apart(changes).len() == all { now.push(mutant) } else { later.push(mutant) }
    }
    now.sort_by_key(|mutant| (mutant.file.clone(), mutant.change.range.start));
    (now, later)
}

/// Whether the named test fails with the breakage.
fn noticed(mutant: &Mutant, entry: &Breakage, what: &str, trial: &Trial) -> Result<bool> {
    let Breakage { program, test, .. } = entry;
    let runs = trial.programs.iter().find(|built| built.name == *program);
    let runs = runs.with_context(|| format!("{} has no {program}", entry.package()))?;
    let start = Instant::now();
    let outcome = runs.run(mutant.id, &[test], LIMIT)?;
    let seconds = start.elapsed().as_secs_f64();
    // A slow machine proves nothing.
    let verdict = match outcome {
        Outcome::Failed => "noticed",
        Outcome::Passed => "NOT NOTICED",
        Outcome::TooLong => "NOT DECIDED IN TIME",
    };
    let noticed = outcome == Outcome::Failed;
    println!("{verdict} by {program} {test} in {seconds:.1} s: {what}");
    Ok(noticed)
}

/// Find tests that fail with the breakage, and say which one is the quickest.
fn found(mutant: &Mutant, what: &str, programs: &[Program], all: &[Reach]) -> Result<bool> {
    let mut best: Option<(Duration, String)> = None;
    for (program, reached) in programs.iter().zip(all) {
        for test in reached.tests_by(mutant.id) {
            let start = Instant::now();
            if program.run(mutant.id, &[test], LIMIT)? == Outcome::Failed {
                let time = start.elapsed();
                if best.as_ref().is_none_or(|(least, _)| time < *least) {
                    best = Some((time, format!("{} {test}", program.name)));
                }
            }
            if best.as_ref().is_some_and(|(least, _)| *least < Duration::from_secs(2)) {
                break;
            }
        }
    }
    match &best {
        Some((time, test)) => println!("found {test} in {:.1} s: {what}", time.as_secs_f64()),
        None => println!("FOUND NO TEST: {what}"),
    }
    Ok(best.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, file: &str) -> Breakage {
        Breakage {
            name: name.to_owned(),
            file: file.to_owned(),
            replace: "a".to_owned(),
            with: "b".to_owned(),
            program: "it".to_owned(),
            test: "t".to_owned(),
        }
    }

    fn names(options: &str, turn: Option<u64>) -> Vec<String> {
        let entries = [
            entry("one", "crates/x/src/a.rs"),
            entry("two", "crates/x/src/b.rs"),
            entry("three", "crates/y/src/a.rs"),
            Breakage { program: "lib".to_owned(), ..entry("four", "crates/y/src/a.rs") },
        ];
        let words: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        let options = super::options(&words).unwrap().unwrap();
        let crates = picked(&entries, &options, turn).unwrap();
        let mut names: Vec<String> = crates.values().flatten().map(|e| e.name.clone()).collect();
        names.sort();
        names
    }

    #[test]
    fn names_crates_and_turns_pick() {
        assert_eq!(names("", None), ["four", "one", "three", "two"]);
        assert_eq!(names("two three", None), ["three", "two"]);
        assert_eq!(names("x", None), ["one", "two"]);
        assert_eq!(names("--sample 1", None).len(), 1);
        assert_eq!(names("", Some(6)), ["one", "two"]);
        assert_eq!(names("", Some(7)), ["three"]);
        assert_eq!(names("", Some(8)), ["four"]);
        assert_eq!(names("x", Some(1)), ["one", "two"]);
        let nobody = Options { names: vec!["z".to_owned()], ..Options::default() };
        assert!(picked(&[entry("one", "crates/x/src/a.rs")], &nobody, None).is_err());
    }

    #[test]
    fn breakages_of_one_place_are_built_one_after_the_other() {
        let mutant = |id, text: &str| entry("one", "a.rs").mutant(id, text).unwrap();
        let (now, later) =
            without_overlaps(vec![mutant(1, "x a"), mutant(2, "xx a"), mutant(3, "a")]);
        assert_eq!(now.iter().map(|m| m.id).collect::<Vec<_>>(), [3, 1, 2]);
        assert!(later.is_empty());
        let (now, later) = without_overlaps(vec![mutant(1, "x a"), mutant(2, "x a")]);
        assert_eq!((now.len(), later.len()), (1, 1));
    }
}
