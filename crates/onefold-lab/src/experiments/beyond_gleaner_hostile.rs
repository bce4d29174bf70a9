//! Beyond the papers: gleaner where it is meant to lose, beside every other policy at its best.
//! Room: onefold-lab.
//! Rivals run in every idle order, `caftl-online` with and without a budget; the best of all of
//! them in each figure, of whichever policy and order, is what gleaner is held against.

use onefold_flash::run::Report;
use onefold_flash::spec::IdleOrder;

use crate::error::{LabError, Result};
use crate::experiments::drives::{of_written, replay_as_is, share_of_drive, with_policy, write_us};
use crate::experiments::equal_memory::{deferred_entries, dram, sized};
use crate::experiments::hostile::{FAMILIES, Family};
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Idle orders of the rivals, of which a quick run takes the first ones.
const ORDERS: [IdleOrder; 3] = [IdleOrder::DedupFirst, IdleOrder::ByNeed, IdleOrder::GcFirst];

/// A policy, the options that size its tables, and its others.
type Contender = (&'static str, &'static [&'static str], &'static str);

const SCRATCH: &str = "scratch_share = {scratch}\ndeferred_entries = {deferred}";
const GLEANER: Contender = ("gleaner", &["table_share"], SCRATCH);
/// All others. `{budget}` is the budget of inline hashing in us.
const RIVALS: [Contender; 8] = [
    ("none", &[], ""),
    ("caftl-online", &["store_share"], "background = true\nbudget_us = {budget}"),
    ("caftl-online", &["store_share"], ""),
    ("caftl-offline", &["store_share"], ""),
    ("block-separation", &["store_share", "table_share"], ""),
    ("crc-compare", &["table_share"], ""),
    ("ses-host", &["table_share"], SCRATCH),
    ("ses-device", &["table_share"], SCRATCH),
];
/// What is taken of a run.
#[derive(Clone, Copy, Debug)]
struct Figures {
    mean_us: f64,
    p99_us: f64,
    found: f64,
}

impl Figures {
    fn of(report: &Report) -> Self {
        let latency = report.latency_ns.get("write").and_then(Option::as_ref);
        let pages = report.dedup.inline_pages + report.dedup.offline_pages;
        Self {
            mean_us: write_us(report),
            p99_us: latency.map_or(f64::NAN, |latency| latency.p99 as f64 / 1000.0),
            found: of_written(report, pages),
        }
    }

    /// The mean of each figure.
    fn mean(all: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| all.iter().map(value).sum::<f64>() / all.len() as f64;
        Self { mean_us: of(|f| f.mean_us), p99_us: of(|f| f.p99_us), found: of(|f| f.found) }
    }
}

/// A figure: its name, its unit, what it is of a run, and whether more of it is better.
type Measure = (&'static str, &'static str, fn(&Figures) -> f64, bool);

const MEASURES: [Measure; 3] = [
    ("mean write latency", "us", |f| f.mean_us, false),
    ("p99 write latency", "us", |f| f.p99_us, false),
    ("found in all", "% of written pages", |f| f.found, true),
];

/// One run.
fn figures(
    settings: &Settings<'_>,
    family: &Family,
    contender: Contender,
    order: Option<IdleOrder>,
    seed: u64,
) -> Result<Figures> {
    let (mut spec, requests) = family.build(settings, seed)?;
    let share = |of: &str| Ok::<_, LabError>(share_of_drive(&spec, settings.real(of)?));
    let memory = family.memory as f64 / 100.0;
    let deferred = deferred_entries(spec.workload.requests).to_string();
    let scratch = (share("scratch_share")? * memory).to_string();
    let budget_us = settings.number("hash_budget_us")?.to_string();
    let filled = |options: &str| {
        let options = options.replace("{scratch}", &scratch).replace("{deferred}", &deferred);
        options.replace("{budget}", &budget_us)
    };
    let table = share("table_share")? * memory;
    let table = format!("{}\ntable_share = {table}", filled(SCRATCH));
    let budget = dram(&spec, "ses-device", &table);
    let (policy, keys, options) = contender;
    let options = sized(&spec, (policy, keys, &filled(options)), budget);
    with_policy(&mut spec, policy, &options);
    spec.controller.idle_order = order.unwrap_or(spec.controller.idle_order);
    Ok(Figures::of(&replay_as_is(settings, &spec, requests)?))
}

/// How far a value is from the best one, in % of that.
fn behind(value: f64, best: f64, more_is_better: bool) -> f64 {
    let off = 100.0 * if more_is_better { 1.0 - value / best } else { value / best - 1.0 };
    // Nothing where nothing was to be had.
    if off.is_nan() { 0.0 } else { off }
}

/// Whether so many % behind are more than was allowed.
fn is_missed(behind: f64, within: f64) -> bool {
    behind > within
}

/// gleaner and the best of the others on every family; losses first.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (seeds, within) = (settings.numbers("seeds")?, settings.real("within_percent")?);
    let orders = settings.number("idle_orders")? as usize;
    let mut contenders = vec![(GLEANER, None)];
    for rival in RIVALS {
        contenders.extend(ORDERS.iter().take(orders).map(|&order| (rival, Some(order))));
    }
    let mut points = Vec::new();
    for family in FAMILIES {
        for &(contender, order) in &contenders {
            points.extend(seeds.iter().map(|&seed| (family, contender, order, seed)));
        }
    }
    let found = settings.sweep(&points, |&(family, contender, order, seed)| {
        figures(settings, family, contender, order, seed)
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    let means: Vec<Figures> = found.chunks_exact(seeds.len()).map(Figures::mean).collect();
    let mut judged = Vec::new();
    for (family, of_all) in FAMILIES.iter().zip(means.chunks_exact(contenders.len())) {
        judged.push((family, MEASURES.map(|measure| beside(measure, of_all, &contenders))));
    }
    // Losses first, and the greatest of them.
    let worst = |(_, all): &(&Family, [Beside; 3])| {
        all.iter().map(|beside| beside.behind).fold(f64::NEG_INFINITY, f64::max)
    };
    judged.sort_by(|a, b| worst(b).total_cmp(&worst(a)));
    put(&judged, data);
    for (shape, kept) in [("seen", false), ("kept", true)] {
        let of = judged.iter().filter(|(family, _)| family.kept == kept);
        let missed = of.clone().filter(|judged| is_missed(worst(judged), within));
        let names: Vec<String> = missed
            .map(|judged| format!("{} by {} %", judged.0.name, show(worst(judged))))
            .collect();
        let figure = match names.len() {
            0 => format!("all {}", of.count()),
            n => format!("missed in {n} of {}: {}", of.count(), names.join(", ")),
        };
        data.shows(shape, names.is_empty(), figure)?;
    }
    Ok(())
}

/// One figure of gleaner beside the best of the others.
struct Beside {
    of_gleaner: f64,
    best: f64,
    /// Whose that is.
    whose: String,
    /// How far gleaner is behind it, in %; negative if it is better.
    behind: f64,
}

fn beside(
    (.., value, more): Measure,
    of_all: &[Figures],
    contenders: &[(Contender, Option<IdleOrder>)],
) -> Beside {
    let rivals = of_all.iter().zip(contenders).skip(1).map(|(f, contender)| (value(f), contender));
    let sign = if more { -1.0 } else { 1.0 };
    let best = rivals.min_by(|a, b| (sign * a.0).total_cmp(&(sign * b.0)));
    let (best, ((policy, ..), order)) = best.expect("there are rivals");
    let order = match order {
        Some(IdleOrder::GcFirst) => ", gc-first",
        Some(IdleOrder::ByNeed) => ", by-need",
        _ => "",
    };
    let of_gleaner = value(&of_all[0]);
    Beside {
        of_gleaner,
        best,
        whose: format!("{policy}{order}"),
        behind: behind(of_gleaner, best, more),
    }
}

fn put(judged: &[(&Family, [Beside; 3])], data: &mut Data) {
    let name = |family: &Family| {
        if family.kept { format!("{}, kept", family.name) } else { family.name.to_owned() }
    };
    let line = Line::new("gleaner behind the best of the others", "%").over("family", "");
    for (family, all) in judged {
        for ((quantity, ..), beside) in MEASURES.iter().zip(all) {
            data.put(&line.of(quantity), name(family).as_str(), beside.behind);
        }
    }
    for (at, (quantity, unit, ..)) in MEASURES.iter().enumerate() {
        let line = Line::new(quantity, unit).over("family", "");
        for (family, all) in judged {
            data.put(&line.of("gleaner"), name(family).as_str(), all[at].of_gleaner);
        }
        for (family, all) in judged {
            let best = line.of("the best of the others");
            data.put(&best, name(family).as_str(), all[at].best).note(all[at].whose.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_is_what_is_slower_or_finds_less() {
        let of = |value, best, more| behind(value, best, more).round() as i64;
        assert_eq!((of(11.0, 10.0, false), of(9.0, 10.0, false)), (10, -10));
        assert_eq!((of(9.0, 10.0, true), of(11.0, 10.0, true)), (10, -10));
        assert_eq!(of(0.0, 0.0, true), 0, "nothing was to be had");
        assert!(is_missed(5.1, 5.0) && !is_missed(5.0, 5.0));
    }
}
