//! Hit rate of a read cache within a budget of flash writes: Toll and its rivals, on the half of
//! the hostile suite that nothing was tuned on.
//! Room: onefold-lab.
//! Source: ours; the rivals as in [plc-cache], [tiny-lfu-17], [flashield-19], LARC and `LazyLFU`.

use onefold_cache::Choice;
use onefold_cache::simulate::run_one;
use onefold_cache::suite::rivals::{self, Contender};
use onefold_cache::suite::{self, Family};
use onefold_cache::trace::Trace;

use super::plc::plan;
use crate::error::Result;
use crate::row::show;
use crate::series::{Data, Line, Spread};
use crate::settings::Settings;

/// Where the mean of all families stands.
const MEAN: &str = "mean of all families";
/// By how many points Toll may be behind, and has to be ahead in half of the families.
const BEHIND: f64 = 1.0;
const AHEAD: f64 = 2.0;
/// Of the writes of the best rival, what Toll may take where it is not ahead in hits.
const FEWER: f64 = 0.75;

/// Means over the seeds.
#[derive(Clone, Copy, Debug)]
struct Reached {
    /// Hit rate in percent, and its ends.
    hits: f64,
    low: f64,
    high: f64,
    /// Most fills of the cache.
    fills: f64,
}

/// Whether so many points more are so many fewer than Toll may be behind.
fn is_behind(by: f64) -> bool {
    by < -BEHIND
}

/// Whether so many points more with so many of the rival's writes are as much as was predicted.
fn is_ahead(by: f64, of_its_writes: f64) -> bool {
    by >= AHEAD || (!is_behind(by) && of_its_writes <= FEWER)
}

fn point(traces: &[Trace], size: f64, text: &str) -> std::result::Result<Reached, String> {
    let choice = Choice::parse(text).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for trace in traces {
        let run = run_one(trace, None, &choice, size, &plan(1));
        let run = run.map_err(|error| error.to_string())?;
        all.push((run.hit_rate * 100.0, run.fills));
    }
    let hits = || all.iter().map(|&(hits, _)| hits);
    Ok(Reached {
        hits: hits().sum::<f64>() / all.len() as f64,
        low: hits().fold(f64::INFINITY, f64::min),
        high: hits().fold(f64::NEG_INFINITY, f64::max),
        fills: all.iter().map(|&(_, fills)| fills).fold(0.0, f64::max),
    })
}

/// The most hits by at most so many fills.
fn best_within(points: &[Reached], fills: f64) -> Option<Reached> {
    let within = points.iter().filter(|point| point.fills <= fills);
    within.max_by(|a, b| a.hits.total_cmp(&b.hits)).copied()
}

/// How Toll stands beside the best of its rivals.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Against {
    /// None of them keeps to the budget.
    Nobody,
    /// This one keeps to it, and Toll does not.
    OverBudget(&'static str),
    /// So many points ahead of this one, with so many of its writes.
    Rival { name: &'static str, by: f64, of_its_writes: f64 },
}

fn against_best(toll: Option<Reached>, rivals: &[(&'static str, Option<Reached>)]) -> Against {
    let best = rivals.iter().filter_map(|&(name, best)| Some((name, best?)));
    let best = best.max_by(|a, b| a.1.hits.total_cmp(&b.1.hits));
    match (toll, best) {
        (_, None) => Against::Nobody,
        (None, Some((name, _))) => Against::OverBudget(name),
        (Some(toll), Some((name, rival))) => Against::Rival {
            name,
            by: toll.hits - rival.hits,
            of_its_writes: toll.fills / rival.fills,
        },
    }
}

/// Whether so many are at least half of all.
fn is_half(count: usize, of: usize) -> bool {
    2 * count >= of
}

/// The families, each a share of its size but none smaller than the smallest.
fn families(shrink: u64) -> Vec<Family> {
    let shrunk = |family: Family| {
        let objects = (family.objects / shrink).max(family.objects.min(500));
        Family { objects, ..family }
    };
    suite::report().into_iter().map(shrunk).collect()
}

/// What one family gave: for each budget, the best of each contender.
type OfFamily = Vec<Vec<(&'static str, Option<Reached>)>>;

fn run_family(
    family: &Family,
    budgets: &[u64],
    seeds: &[u64],
) -> std::result::Result<OfFamily, String> {
    let traces: Vec<Trace> = seeds.iter().map(|&seed| family.trace(seed)).collect();
    let per_object = family.reads / family.size;
    let reach = |contender: Contender| -> std::result::Result<_, String> {
        let points = contender.settings.iter().map(|text| point(&traces, family.size, text));
        Ok((contender.name, points.collect::<std::result::Result<Vec<_>, String>>()?))
    };
    let rivals = rivals::rivals().into_iter().map(reach);
    let rivals = rivals.collect::<std::result::Result<Vec<_>, String>>()?;
    let untold = reach(rivals::untold())?;
    let mut all = Vec::new();
    for &budget in budgets {
        let toll = reach(rivals::toll(budget as f64, per_object))?;
        let contenders = std::iter::once(&toll).chain([&untold]).chain(&rivals);
        let best = contenders.map(|(name, points)| (*name, best_within(points, budget as f64)));
        all.push(best.collect());
    }
    Ok(all)
}

/// Everything at every budget.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (budgets, seeds) = (settings.numbers("fills")?, settings.numbers("seeds")?);
    let families = families(settings.number("shrink")?);
    let found = settings.sweep(&families, |family| run_family(family, &budgets, &seeds));
    let found: std::result::Result<Vec<OfFamily>, String> = found.into_iter().collect();
    let found = found.map_err(|problem| settings.refused(problem))?;
    let (mut behind, mut ahead) = (Vec::new(), Vec::new());
    for (column, &budget) in budgets.iter().enumerate() {
        let under = format!("{budget} fills");
        let of = |at: usize| &found[at][column];
        for (row, &(name, _)) in of(0).iter().enumerate() {
            let hits = Line::new("hit rate", "%").over("family", "").of(name).under(&under);
            let fills = Line::new("written", "fills of the cache").over("family", "");
            let fills = fills.of(name).under(&under);
            for (at, family) in families.iter().enumerate() {
                let best = of(at)[row].1;
                let point = data.put(&hits, family.name, best.map(|best| best.hits));
                match best {
                    Some(best) => {
                        point.range(best.low, best.high, Spread::Extremes);
                    }
                    None => {
                        point.note("no setting keeps to the budget");
                    }
                }
                data.put(&fills, family.name, best.map(|best| best.fills));
            }
            let all = (0..families.len()).map(|at| of(at)[row].1.map(|best| best.hits));
            let all: Option<Vec<f64>> = all.collect();
            let mean = all.map(|all| all.iter().sum::<f64>() / all.len() as f64);
            data.put(&hits, MEAN, mean);
            let means = Line::new("mean hit rate of all families", "%").over("budget", "fills");
            data.put(&means.of(name), under.as_str(), mean);
        }
        let difference =
            Line::new("points ahead of the best rival", "").over("family", "").of(&under);
        let mut better = 0;
        for (at, family) in families.iter().enumerate() {
            let [(_, toll), _, rivals @ ..] = &of(at)[..] else { continue };
            match against_best(*toll, rivals) {
                Against::Nobody => {}
                Against::OverBudget(name) => {
                    let point = data.put(&difference, family.name, None);
                    point.note(format!("no setting keeps to the budget, and one of {name} does"));
                    behind.push(format!("over the budget on {} at {under}", family.name));
                }
                Against::Rival { name, by, of_its_writes } => {
                    data.put(&difference, family.name, Some(by)).note(format!("against {name}"));
                    if is_behind(by) {
                        behind.push(format!("{} points on {} at {under}", show(by), family.name));
                    }
                    better += usize::from(is_ahead(by, of_its_writes));
                }
            }
        }
        ahead.push((is_half(better, families.len()), format!("{better} at {under}")));
    }
    let figure = if behind.is_empty() { "nowhere".to_owned() } else { behind.join("; ") };
    data.shows("behind-nowhere", behind.is_empty(), figure)?;
    let figures: Vec<String> = ahead.iter().map(|(_, figure)| figure.clone()).collect();
    let figure = format!("of {} families {}", families.len(), figures.join(", "));
    data.shows("ahead-in-half", ahead.iter().all(|&(holds, _)| holds), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_keeps_to_the_budget() {
        let of = |hits, fills| Reached { hits, low: hits, high: hits, fills };
        let points = [of(50.0, 2.0), of(40.0, 1.0), of(60.0, 2.1)];
        let hits = |fills| best_within(&points, fills).map(|best| best.hits as u64);
        assert_eq!([0.9, 1.0, 2.0, 3.0].map(hits), [None, Some(40), Some(50), Some(60)]);
        assert!(is_half(10, 20) && !is_half(9, 20) && !is_half(9, 19));
    }

    #[test]
    fn toll_stands_beside_the_rival_with_the_most_hits_or_is_over_the_budget() {
        let of = |hits, fills| Some(Reached { hits, low: hits, high: hits, fills });
        let rivals = [("a", of(50.0, 2.0)), ("b", of(60.0, 4.0)), ("c", None)];
        let stands = Against::Rival { name: "b", by: 2.5, of_its_writes: 0.25 };
        assert_eq!(against_best(of(62.5, 1.0), &rivals), stands);
        assert_eq!(against_best(None, &rivals), Against::OverBudget("b"));
        for toll in [None, of(62.5, 1.0)] {
            assert_eq!(against_best(toll, &rivals[2..]), Against::Nobody);
        }
    }

    #[test]
    fn toll_is_ahead_by_two_points_or_not_behind_with_a_quarter_fewer_writes() {
        assert!(is_behind(-1.1) && !is_behind(-1.0));
        for (by, of_its_writes, ahead) in [
            (2.0, 5.0, true),
            (1.9, 0.76, false),
            (1.9, 0.75, true),
            (-1.0, 0.5, true),
            (-1.1, 0.5, false),
        ] {
            assert_eq!(is_ahead(by, of_its_writes), ahead, "{by} {of_its_writes}");
        }
    }
}
