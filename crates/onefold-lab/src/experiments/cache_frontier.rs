//! Hit rate of a read cache within a budget of flash writes: Toll and its rivals, on the half of
//! the hostile suite that nothing was tuned on.
//! Room: onefold-lab.
//! Source: ours; the rivals as in [plc-cache], [tiny-lfu-17], [flashield-19], LARC and `LazyLFU`.

mod possible;

use onefold_cache::simulate::run_one;
use onefold_cache::suite::rivals::{self, Contender};
use onefold_cache::suite::{self, Family};
use onefold_cache::trace::Trace;
use onefold_cache::{Choice, Plan};

use possible::{Known, Possible};

use crate::error::Result;
use crate::row::show;
use crate::series::{Data, Line, Spread};
use crate::settings::Settings;

/// Where the mean of all families stands.
const MEAN: &str = "mean of all families";
/// By how many points Toll may be behind, and has to be ahead in half of the families.
const BEHIND: f64 = 1.0;
const AHEAD: f64 = 2.0;
/// Percent of what is possible that Toll was predicted to reach in the mean of the families, and by
/// how many points it may be behind the best rival there.
const REACHED: f64 = 80.0;
const LESS: f64 = 1.0;
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
        let run = run_one(trace, None, &choice, size, &Plan::of_one(1));
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

/// The families, so many times smaller.
fn families(shrink: u64) -> Vec<Family> {
    suite::report().into_iter().map(|family| family.shrunk(shrink)).collect()
}

/// What one family gave at one budget: the best of each contender, and what was possible.
struct OfFamily {
    best: Vec<(&'static str, Option<Reached>)>,
    possible: Possible,
}

fn run_family(
    family: &Family,
    budgets: &[u64],
    seeds: &[u64],
) -> std::result::Result<Vec<OfFamily>, String> {
    let traces: Vec<Trace> = seeds.iter().map(|&seed| family.trace(seed)).collect();
    let per_object = family.reads / family.size;
    let reach = |contender: Contender| -> std::result::Result<_, String> {
        let points = contender.settings.iter().map(|text| point(&traces, family.size, text));
        Ok((contender.name, points.collect::<std::result::Result<Vec<_>, String>>()?))
    };
    let rivals = rivals::rivals().into_iter().map(reach);
    let rivals = rivals.collect::<std::result::Result<Vec<_>, String>>()?;
    let untold = reach(rivals::untold())?;
    let known = Known::of(family, seeds, &traces);
    let mut all = Vec::new();
    for &budget in budgets {
        let toll = reach(rivals::toll(budget as f64, per_object))?;
        let contenders = std::iter::once(&toll).chain([&untold]).chain(&rivals);
        let best = contenders.map(|(name, points)| (*name, best_within(points, budget as f64)));
        all.push(OfFamily { best: best.collect(), possible: known.within(budget) });
    }
    Ok(all)
}

/// Everything at every budget.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (budgets, seeds) = (settings.numbers("fills")?, settings.numbers("seeds")?);
    let families = families(settings.number("shrink")?);
    let found = settings.sweep(&families, |family| run_family(family, &budgets, &seeds));
    let found: std::result::Result<Vec<Vec<OfFamily>>, String> = found.into_iter().collect();
    let found = found.map_err(|problem| settings.refused(problem))?;
    let (mut behind, mut ahead) = (Vec::new(), Vec::new());
    let (mut open, mut shares) = (Vec::new(), Vec::new());
    for (column, &budget) in budgets.iter().enumerate() {
        let under = format!("{budget} fills");
        let of: Vec<&OfFamily> = found.iter().map(|family| &family[column]).collect();
        show_best(data, &families, &of, &under);
        let better = show_differences(data, &families, &of, &under, &mut behind);
        ahead.push((is_half(better, families.len()), format!("{better} at {under}")));
        show_possible(data, &families, &of, &under);
        let there = families.iter().zip(&of).filter(|(_, of)| of.is_open());
        let there: Vec<&str> = there.map(|(family, _)| family.name).collect();
        let figure = format!("{} at {under} ({})", there.len(), there.join(", "));
        open.push((is_half(there.len(), families.len()), figure));
        shares.push(share_reached(&of, &under));
    }
    let figure = if behind.is_empty() { "nowhere".to_owned() } else { behind.join("; ") };
    data.shows("behind-nowhere", behind.is_empty(), figure)?;
    for (id, verdicts) in [("ahead-in-half", ahead), ("possible-in-half", open)] {
        let (holds, figures) = all_of(verdicts);
        data.shows(id, holds, format!("of {} families {figures}", families.len()))?;
    }
    let (holds, figures) = all_of(shares);
    data.shows("most-of-possible", holds, figures)
}

/// Whether all hold, and what each says.
fn all_of(verdicts: Vec<(bool, String)>) -> (bool, String) {
    let holds = verdicts.iter().all(|&(holds, _)| holds);
    let figures: Vec<String> = verdicts.into_iter().map(|(_, figure)| figure).collect();
    (holds, figures.join(", "))
}

/// The best of each contender in all families at a budget.
fn show_best(data: &mut Data, families: &[Family], of: &[&OfFamily], under: &str) {
    let names: Vec<&str> = of[0].best.iter().map(|&(name, _)| name).collect();
    for (row, name) in names.into_iter().enumerate() {
        let hits = Line::new("hit rate", "%").over("family", "").of(name).under(under);
        let fills = Line::new("written", "fills of the cache").over("family", "");
        let fills = fills.of(name).under(under);
        for (family, of) in families.iter().zip(of) {
            let best = of.best[row].1;
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
        let all: Option<Vec<f64>> = of.iter().map(|of| Some(of.best[row].1?.hits)).collect();
        let mean = all.map(|all| all.iter().sum::<f64>() / all.len() as f64);
        data.put(&hits, MEAN, mean);
        let means = Line::new("mean hit rate of all families", "%").over("budget", "fills");
        data.put(&means.of(name), under, mean);
    }
}

/// By how much Toll is ahead, and where it is behind; in how many families it is as far ahead as
/// was predicted.
fn show_differences(
    data: &mut Data,
    families: &[Family],
    of: &[&OfFamily],
    under: &str,
    behind: &mut Vec<String>,
) -> usize {
    let difference = Line::new("points ahead of the best rival", "").over("family", "").of(under);
    let mut better = 0;
    for (family, of) in families.iter().zip(of) {
        let [(_, toll), _, rivals @ ..] = &of.best[..] else { continue };
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
    better
}

impl OfFamily {
    fn toll(&self) -> Option<Reached> {
        self.best.first().and_then(|&(_, toll)| toll)
    }

    /// Most hits of all rivals, in percent.
    fn rival(&self) -> Option<f64> {
        // Behind Toll as it is told the budget, and as it is not.
        let rivals = self.best.iter().skip(2).filter_map(|&(_, best)| Some(best?.hits));
        rivals.max_by(f64::total_cmp)
    }

    /// Whether nothing forbids to be as far ahead of the best rival as was predicted.
    fn is_open(&self) -> bool {
        self.rival().is_none_or(|rival| self.possible.ceiling() >= rival + AHEAD)
    }
}

/// Both bounds of all families at a budget, and how far above the best rival the lower one is.
fn show_possible(data: &mut Data, families: &[Family], at_budget: &[&OfFamily], under: &str) {
    let hits = Line::new("hit rate", "%").over("family", "").under(under);
    let (law, reads) = (hits.of("bound: the law is known"), hits.of("bound: all reads are known"));
    let above = Line::new("points from the best rival to the lower bound", "");
    let above = above.over("family", "").of(under);
    for (family, of) in families.iter().zip(at_budget) {
        let point = data.put(&law, family.name, of.possible.law);
        if of.possible.law.is_none() {
            point.note("no simple law");
        }
        data.put(&reads, family.name, Some(of.possible.reads));
        data.put(&above, family.name, of.rival().map(|rival| of.possible.ceiling() - rival));
    }
    let all = at_budget.iter().map(|of| of.possible.reads);
    data.put(&reads, MEAN, Some(all.sum::<f64>() / families.len() as f64));
    data.put(&law, MEAN, None).note("not all have one");
    let means = Line::new("mean hit rate of all families", "%").over("budget", "fills");
    let all = at_budget.iter().map(|of| of.possible.ceiling());
    let mean = all.sum::<f64>() / families.len() as f64;
    data.put(&means.of("the lower bound"), under, Some(mean));
}

/// Whether Toll reaches as much of what is possible, in the mean of the families, as was predicted.
fn share_reached(at_budget: &[&OfFamily], under: &str) -> (bool, String) {
    let mean = |hits: &dyn Fn(&OfFamily) -> Option<f64>| {
        let shares =
            at_budget.iter().map(|of| hits(of).map(|hits| 100.0 * hits / of.possible.ceiling()));
        let shares: Option<Vec<f64>> = shares.collect();
        shares.map(|all| all.iter().sum::<f64>() / all.len() as f64)
    };
    let toll = mean(&|of| Some(of.toll()?.hits));
    let rival = mean(&OfFamily::rival);
    let (Some(toll), Some(rival)) = (toll, rival) else {
        return (false, format!("nobody at {under} in some family"));
    };
    let holds = toll >= REACHED && toll >= rival - LESS;
    let [toll, rival] = [toll, rival].map(show);
    (holds, format!("Toll {toll} %, the best rival {rival} % at {under}"))
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
    fn what_is_possible_leaves_room_or_not_and_says_how_much_was_reached() {
        let best = |hits| Some(Reached { hits, low: hits, high: hits, fills: 1.0 });
        let of = |toll, untold, rival, law| OfFamily {
            best: vec![
                ("toll", best(toll)),
                ("untold", best(untold)),
                ("a", best(rival)),
                ("b", None),
            ],
            possible: Possible { law: Some(law), reads: 90.0 },
        };
        assert!(of(40.0, 55.0, 48.0, 50.0).is_open(), "Toll is no rival of its own");
        assert!(!of(40.0, 40.0, 48.1, 50.0).is_open());
        let share = |families: &[&OfFamily]| share_reached(families, "2 fills");
        let (good, bad) = (of(44.0, 1.0, 44.0, 50.0), of(38.0, 1.0, 38.0, 50.0));
        let figure = "Toll 82 %, the best rival 82 % at 2 fills".to_owned();
        assert_eq!(share(&[&good, &bad]), (true, figure));
        assert!(!share(&[&bad]).0, "76 %");
        assert!(!share(&[&of(44.0, 1.0, 45.0, 50.0)]).0, "88 % and 90 %");
        let nobody = OfFamily { best: Vec::new(), possible: good.possible };
        assert!(!share(&[&nobody]).0);
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
