//! The hit rate of every policy within budgets of flash writes, on the hostile suite.
//! Room: onefold-cache.
//! `cargo run --release -p onefold-cache --example frontier tune|report[/TIMES][@SEED]
//! [SETTINGS...]`: Toll beside the best of all rivals, for each family and budget, and the sum over
//! all. With settings such as `look=64,slow=10` that variant of Toll is run instead; several stand
//! side by side. `/16` makes the families 16 times smaller, but none smaller than 500 objects. Of
//! every policy the settings count that are best on the very reads reported, and of Toll those that
//! were told this budget. At the end of a line stands the most that is possible: for whoever knows
//! the law of the reads at each moment, where there is one, and for whoever knows all reads and
//! keeps to the budget; not for more than half a million reads.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use onefold_cache::Choice;
use onefold_cache::bound::{Limits, Stays};
use onefold_cache::simulate::{Plan, capacity_of, on_all_cores, run_one};
use onefold_cache::suite::{self, Family, rivals};
use onefold_cache::trace::Trace;

const BUDGETS: [f64; 4] = [2.0, 5.0, 20.0, f64::INFINITY];

/// Reads for which it does not take minutes to say how much is possible.
const BOUNDED: usize = 500_000;

/// Hit rate in percent and fills of the cache.
type Point = (f64, f64);

fn run(trace: &Trace, family: &Family, text: &str) -> Point {
    let choice = Choice::parse(text).expect("a policy");
    let run = run_one(trace, None, &choice, family.size, &Plan::of_one(1)).expect("a run");
    (run.hit_rate * 100.0, run.fills)
}

/// The best of these settings within a budget.
fn best<'a>(of: impl Iterator<Item = (&'a String, &'a Point)>, budget: f64) -> (Point, &'a str) {
    of.filter(|(_, point)| point.1 <= budget)
        .max_by(|a, b| a.1.0.total_cmp(&b.1.0))
        .map_or(((0.0, 0.0), "-"), |(text, point)| (*point, text.as_str()))
}

/// The families and the seed that this asks for.
fn asked(of: &str) -> (Vec<Family>, u64) {
    let (of, seed) = of.split_once('@').map_or((of, None), |(of, seed)| (of, Some(seed)));
    let (half, times) = of.split_once('/').unwrap_or((of, "1"));
    let (families, usual) =
        if half == "tune" { (suite::tuning(), 1) } else { (suite::report(), 41) };
    let times = times.parse().expect("how many times smaller");
    let seed = seed.map_or(usual, |seed| seed.parse().expect("a seed"));
    (families.into_iter().map(|family| family.shrunk(times)).collect(), seed)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (families, seed) = asked(args.first().map_or("report", String::as_str));
    let mut variants: Vec<String> = args.iter().skip(1).map(|text| format!(",{text}")).collect();
    if variants.is_empty() {
        variants.push(String::new());
    }
    let mut sums = vec![[0.0_f64; BUDGETS.len()]; variants.len()];
    let mut lost = vec![[0_usize; BUDGETS.len()]; variants.len()];
    for family in families {
        let trace = family.trace(seed);
        let per_object = family.reads / family.size;
        let rivals: Vec<String> = rivals::rivals().into_iter().flat_map(|c| c.settings).collect();
        let own = |variant: &String| -> Vec<String> {
            let told = BUDGETS.map(|budget| if budget.is_finite() { budget } else { 0.0 });
            let texts = told.iter().flat_map(|&fills| rivals::toll(fills, per_object).settings);
            texts.map(|text| format!("{text}{variant}")).collect()
        };
        let own: Vec<Vec<String>> = variants.iter().map(own).collect();
        let jobs: Vec<&String> = rivals.iter().chain(own.iter().flatten()).collect();
        let points = on_all_cores(jobs.len(), 0, |at| run(&trace, &family, jobs[at]));
        let (of_rivals, of_own) = points.split_at(rivals.len());
        let percent = |hits: f64| 100.0 * hits / trace.requests.len() as f64;
        let objects = capacity_of(&trace, family.size).objects as u64;
        let bounded = trace.requests.len() <= BOUNDED;
        let expected = if bounded { family.most_expected(seed, objects) } else { None };
        let stays = bounded.then(|| Stays::of_known(&trace.requests));
        for (column, budget) in BUDGETS.into_iter().enumerate() {
            print!("{:18} W<={budget:<4}", family.name);
            let (rival, rival_text) = best(rivals.iter().zip(of_rivals), budget);
            for (at, texts) in own.iter().enumerate() {
                let points = &of_own[at * texts.len()..][..texts.len()];
                // Only those that were told this budget: who was told another one and happens to
                // keep to this was not asked for it.
                let told = texts.len() / BUDGETS.len();
                let told = column * told..(column + 1) * told;
                let (own, _) = best(texts[told.clone()].iter().zip(&points[told]), budget);
                let ahead = own.0 - rival.0;
                // One family in which all rivals fail is not to outweigh the others.
                sums[at][column] += ahead.clamp(-5.0, 5.0);
                lost[at][column] += usize::from(ahead < -1.0);
                print!(" {:5.1}/{:<4.1} {ahead:+5.1} |", own.0, own.1);
            }
            let memory = rivals::memory_of(objects);
            let writes = (budget * objects as f64) as u64;
            let limits = Limits { objects, memory, writes };
            let told = expected.as_ref().map(|expected| percent(expected.within(limits)));
            let known = stays.as_ref().map(|stays| percent(stays.most_hits(limits)));
            let [told, known] =
                [told, known].map(|most| most.map_or("-".to_owned(), |most| format!("{most:.1}")));
            println!("  {:5.1}/{:<4.1} {rival_text} | {told} {known}", rival.0, rival.1);
        }
    }
    println!("budgets {BUDGETS:?}: sums of points ahead, and families more than 1 point behind");
    for (text, (sums, lost)) in variants.iter().zip(sums.iter().zip(&lost)) {
        println!("toll{text}  {sums:+.1?}  {lost:?}");
    }
}
