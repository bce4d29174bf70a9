//! The page docs/reproduction-full.md: quick settings beside the papers' sizes.
//! Room: onefold-lab.

use std::fmt::Write as _;

use crate::registry::Outcome;
use crate::report::{PAPERS, cells};
use crate::row::{Row, show};

const HEAD: &str = "\
# Quick settings beside full ones

Written by `onefold reproduce --full --compare FILE`. [reproduction.md](reproduction.md) comes from
sizes that take seconds; here are the same experiments at the papers' sizes, or at large ones where
a paper states none, as the parameters on that page say after *full*. CPU seconds are those of one
run on one machine, over all its cores.

| experiment | CPU seconds, quick | full | numbers | furthest apart, quick and full |
|---|---:|---:|---:|---|
";

/// An experiment's outcome, and the seconds of processor time that it took.
#[derive(Clone, Debug)]
pub struct Costed {
    /// The outcome.
    pub outcome: Outcome,
    /// Seconds of all cores.
    pub cpu_s: f64,
}

/// The page, of pairs of a quick run and a full one.
pub fn full_page(pairs: &[(Costed, Costed)]) -> String {
    let mut text = HEAD.to_owned();
    for (quick, full) in pairs {
        let both = matching(&quick.outcome, &full.outcome);
        let apart = |q: &Row, f: Option<&Row>| {
            let (q, f) = (q.measured?, f?.measured?);
            let distance = (q - f).abs() / q.abs().max(f.abs()).max(1.0);
            distance.is_finite().then_some((distance, q, f))
        };
        let compared = both.iter().filter_map(|&(q, f)| Some((q, apart(q, f)?)));
        let compared: Vec<(&Row, (f64, f64, f64))> = compared.collect();
        let worst = compared.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let worst = worst.map_or_else(String::new, |(row, (_, q, f))| {
            format!("{}, {}: {}, {} {}", row.row, row.column, show(*q), show(*f), row.unit)
        });
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.0} | {} | {worst} |",
            quick.outcome.experiment.id,
            quick.cpu_s,
            full.cpu_s,
            compared.len()
        );
    }
    for (paper, title) in PAPERS {
        let of_paper = pairs.iter().filter(|(q, _)| q.outcome.experiment.paper() == paper);
        let mut lines = String::new();
        for (quick, full) in of_paper {
            for (q, f) in matching(&quick.outcome, &full.outcome) {
                if q.published.is_some() && q.measured.is_some() {
                    line(q, f, &mut lines);
                }
            }
        }
        if !lines.is_empty() {
            let _ =
                write!(text, "\n## {title}\n\n| experiment | number | published | quick | full ");
            let _ = write!(text, "| unit | kind |\n|---|---|---:|---:|---:|---|---|\n{lines}");
        }
    }
    text
}

fn line(quick: &Row, full: Option<&Row>, text: &mut String) {
    let [name, column, published, measured, _, unit, kind] = cells(quick);
    let full = full.and_then(|row| row.measured).map_or_else(|| "-".to_owned(), show);
    let _ = writeln!(
        text,
        "| {} | {name}, {column} | {published} | {measured} | {full} | {unit} | {kind} |",
        quick.id
    );
}

/// Rows of the quick run, each with that of the same name of the full run.
fn matching<'a>(quick: &'a Outcome, full: &'a Outcome) -> Vec<(&'a Row, Option<&'a Row>)> {
    let mut left: Vec<&Row> = full.rows.iter().collect();
    let find = |row: &'a Row| {
        let same = |other: &&Row| {
            other.row == row.row && other.column == row.column && other.published == row.published
        };
        let at = left.iter().position(same);
        (row, at.map(|at| left.remove(at)))
    };
    quick.rows.iter().map(find).collect()
}
