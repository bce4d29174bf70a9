//! The page docs/reproduction-full.md: quick settings beside the papers' sizes.
//! Room: onefold-lab.

use std::fmt::Write as _;

use crate::registry::Outcome;
use crate::report::overview::verdict;
use crate::report::{PAPERS, cells};
use crate::row::{Row, show};
use crate::series::Claim;

const HEAD: &str = "\
# Quick settings beside full ones

Written by `onefold reproduce --full --compare FILE`. [reproduction.md](reproduction.md) comes from
sizes that take seconds; here are the same experiments at the papers' sizes, or at large ones where
a paper states none, as the parameters on that page say after *full*. What is not in the table was
not run for it. CPU seconds are those of one run on a busy machine with two cores, over both.

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
        let apart = |q: &Row<'_>, f: Option<Row<'_>>| {
            let (q, f) = (q.point.measured?, f?.point.measured?);
            let distance = (q - f).abs() / q.abs().max(f.abs()).max(1.0);
            distance.is_finite().then_some((distance, q, f))
        };
        let compared = both.iter().filter_map(|(q, f)| Some((*q, apart(q, *f)?)));
        let compared: Vec<(Row<'_>, (f64, f64, f64))> = compared.collect();
        let worst = compared.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let worst = worst.map_or_else(String::new, |(row, (_, q, f))| {
            let number = named(&row.name(), &row.column());
            format!("{number}: {}, {} {}", show(*q), show(*f), row.unit())
        });
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.0} | {} | {worst} |",
            quick.outcome.id,
            quick.cpu_s,
            full.cpu_s,
            compared.len()
        );
    }
    for (paper, title) in PAPERS {
        let of_paper = pairs.iter().filter(|(q, _)| q.outcome.paper() == paper);
        let mut lines = String::new();
        for (quick, full) in of_paper {
            for (q, f) in matching(&quick.outcome, &full.outcome) {
                if q.point.published.is_some() {
                    line(quick.outcome.id, &q, f, &mut lines);
                }
            }
        }
        if !lines.is_empty() {
            let _ =
                write!(text, "\n## {title}\n\n| experiment | number | published | quick | full ");
            let _ = write!(
                text,
                "| unit | kind | full |\n|---|---|---:|---:|---:|---|---|---|\n{lines}"
            );
        }
    }
    claims(pairs, &mut text);
    text
}

/// What is said of pictures and predicted of our own, at both sizes: first what comes out otherwise
/// at the full one.
fn claims(pairs: &[(Costed, Costed)], text: &mut String) {
    let mut all: Vec<(&str, &Claim, &Claim)> = Vec::new();
    for (Costed { outcome: quick, .. }, Costed { outcome: full, .. }) in pairs {
        for claim in &quick.claims {
            let full = full.claims.iter().find(|other| other.id == claim.id);
            all.extend(full.map(|full| (quick.id, claim, full)));
        }
    }
    if all.is_empty() {
        return;
    }
    let count = |quick: bool, full: bool| {
        let so = |&&(_, q, f): &&(&str, &Claim, &Claim)| (q.holds, f.holds) == (quick, full);
        all.iter().filter(so).count()
    };
    let _ = write!(
        text,
        "\n## What the pictures show, and what was predicted\n\nOf {} statements, held at both \
         sizes: {}; failed at both: {}; held at the quick size only: {}; at the full size only: \
         {}. Those that come out otherwise at the full size come first.\n\n\
         | experiment | statement | quick | full |\n|---|---|---|---|\n",
        all.len(),
        count(true, true),
        count(false, false),
        count(true, false),
        count(false, true)
    );
    all.sort_by_key(|(_, quick, full)| quick.holds == full.holds);
    for (id, quick, full) in all {
        let here = |claim: &Claim| {
            format!("{}: {}", if claim.holds { "holds" } else { "**fails**" }, claim.figure)
        };
        let _ = writeln!(text, "| {id} | {} | {} | {} |", quick.says, here(quick), here(full));
    }
}

fn line(id: &str, quick: &Row<'_>, full: Option<Row<'_>>, text: &mut String) {
    let [name, column, published, measured, _, unit, kind] = cells(quick);
    let verdict = full.as_ref().and_then(verdict).unwrap_or("-");
    let full = full.and_then(|row| row.point.measured).map_or_else(|| "-".to_owned(), show);
    let _ = writeln!(
        text,
        "| {id} | {} | {published} | {measured} | {full} | {unit} | {kind} | {verdict} |",
        named(&name, &column)
    );
}

/// Whose number it is, if that is said, and what.
fn named(of: &str, what: &str) -> String {
    if of.is_empty() { what.to_owned() } else { format!("{of}, {what}") }
}

/// Rows of the quick run, each with that of the same line and place of the full run.
fn matching<'a>(quick: &'a Outcome, full: &'a Outcome) -> Vec<(Row<'a>, Option<Row<'a>>)> {
    let find = |row: Row<'a>| {
        let same = |other: &Row<'_>| {
            other.series.line == row.series.line && other.point.at == row.point.at
        };
        (row, full.rows().find(same))
    };
    quick.rows().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nobodys_has_no_name_before_it() {
        assert_eq!([named("", "gain"), named("LRU", "gain")], ["gain", "LRU, gain"]);
    }
}
