//! The page docs/reproduction.md and its charts, and which experiment each of their parts is of.
//! Room: onefold-lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use onefold_lab::report;
use onefold_lab::{EXPERIMENTS, Outcome};

use crate::outcomes::outcome;

/// Whether the page and its charts are written anew, in place of being compared.
fn writes() -> bool {
    std::env::var_os("ONEFOLD_UPDATE").is_some()
}

/// Compare with a file of the repository; `ONEFOLD_UPDATE=1` writes it instead.
pub fn assert_is_file(path: &Path, text: &str) {
    if writes() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    assert_same(&path.display().to_string(), &fs::read_to_string(path).unwrap_or_default(), text);
}

/// The first line that differs says where.
fn assert_same(what: &str, kept: &str, ours: &str) {
    let stale = "is stale; ONEFOLD_UPDATE=1 cargo test -p onefold-lab writes it anew";
    for (line, (a, b)) in kept.lines().zip(ours.lines()).enumerate() {
        assert_eq!(a, b, "{what} line {} {stale}", line + 1);
    }
    assert_eq!(kept, ours, "{what} {stale}");
}

pub fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// The page of all experiments.
fn whole() -> String {
    let all: Vec<Outcome> = EXPERIMENTS.iter().map(|e| outcome(e.id).clone()).collect();
    report::page(&all).unwrap()
}

/// The page of the repository, which `ONEFOLD_UPDATE=1` writes anew before anyone reads it.
fn kept() -> &'static str {
    static KEPT: OnceLock<String> = OnceLock::new();
    KEPT.get_or_init(|| {
        let path = docs("reproduction.md");
        if writes() {
            fs::write(&path, whole()).unwrap();
        }
        fs::read_to_string(path).unwrap()
    })
}

/// What a page says about an experiment.
#[derive(Debug, PartialEq)]
struct Said<'a> {
    /// The heading above its section.
    chapter: &'a str,
    /// Its lines of the two tables in front.
    overview: Vec<&'a str>,
    section: &'a str,
    /// What its chapter says that the paper states; that may be other experiments', too.
    inputs: Vec<&'a str>,
}

impl<'a> Said<'a> {
    fn of(page: &'a str, id: &str) -> Self {
        let (front, chapters) = split(page);
        let row = format!("| [{id}](#");
        let name = format!("\n`{id}`\n");
        let mut chapters = chapters.split("\n## ").filter(|chapter| chapter.contains(&name));
        let chapter = chapters.next().unwrap_or_else(|| panic!("no section {id}"));
        let (body, inputs) =
            chapter.split_once("\n<details><summary>Inputs").unwrap_or((chapter, ""));
        let mut sections = body.split("\n### ").filter(|section| section.contains(&name));
        let section = sections.next().unwrap();
        assert!(chapters.next().is_none() && sections.next().is_none(), "{id} is there twice");
        Self {
            chapter: chapter.lines().next().unwrap(),
            overview: front.lines().filter(|line| line.starts_with(&row)).collect(),
            section,
            inputs: inputs.lines().collect(),
        }
    }
}

/// What stands before the first chapter of experiments, and the chapters.
fn split(page: &str) -> (&str, &str) {
    let overview = page.find("\n## Overview\n").unwrap() + 1;
    page.split_at(page[overview..].find("\n## ").map_or(page.len(), |at| overview + at))
}

/// An experiment's part of the page, and its charts, are what comes out.
pub fn assert_shows(outcome: &Outcome) {
    let id = outcome.id;
    let ours = report::page(std::slice::from_ref(outcome)).unwrap();
    let (ours, kept) = (Said::of(&ours, id), Said::of(kept(), id));
    let what = |part: &str| format!("reproduction.md, {part} of {id}:");
    assert_eq!(ours.chapter, kept.chapter, "{id}");
    assert_same(&what("overview"), &kept.overview.join("\n"), &ours.overview.join("\n"));
    assert_same(&what("section"), kept.section, ours.section);
    let lost: Vec<_> = ours.inputs.iter().filter(|line| !kept.inputs.contains(line)).collect();
    assert!(lost.is_empty(), "{} {lost:?} are not there", what("inputs"));
    for (name, chart) in outcome.charts() {
        assert!(chart.numbers() > 1, "{name} shows nothing");
        assert_is_file(&docs(&format!("plots/{name}.svg")), &chart.svg());
    }
}

/// What experiments find is held by the test of each; what is around that takes no run.
#[test]
fn the_page_has_its_head_and_every_experiment_once_in_order() {
    let (front, chapters) = split(kept());
    let head = |page: &str| page.split("\n| experiment |").next().unwrap().to_owned();
    assert_eq!(head(front), head(&report::page(&[]).unwrap()));
    let ids = EXPERIMENTS.iter().map(|experiment| experiment.id);
    let headed = chapters.split("\n### ").skip(1).filter_map(|section| section.split('`').nth(1));
    assert!(headed.eq(ids.clone()), "sections");
    let tables: Vec<&str> = front.split("\n| experiment |").skip(1).collect();
    let [results, statements] = tables.as_slice() else { panic!("{} tables", tables.len()) };
    for table in [results, statements] {
        let of = |line: &'static str| line.strip_prefix("| [")?.split(']').next();
        let mut named: Vec<&str> = table.lines().filter_map(of).collect();
        named.dedup();
        let in_order: Vec<&str> = ids.clone().filter(|id| named.contains(id)).collect();
        assert_eq!(named, in_order);
    }
    let with = |end: &str| statements.lines().filter(|line| line.ends_with(end)).count();
    let (holds, fails) = (with("| holds |"), with("| fails |"));
    let counted = format!(" {holds} of {} statements hold here.", holds + fails);
    assert!(results.contains(&counted), "not{counted}");
}

/// Waits for all experiments, and holds what none of them holds alone: that nothing else is there.
#[test]
fn the_page_is_what_all_experiments_come_to() {
    assert_same("reproduction.md", kept(), &whole());
}
