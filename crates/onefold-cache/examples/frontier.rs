//! Hit rate at a budget of flash writes: every policy and setting, on the workloads of one half.
//! Room: onefold-cache.
//! `cargo run --release -p onefold-cache --example frontier tune|report`. Policies that keep to no
//! budget of their own are given a grid of settings, and the best hit rate within the budget
//! counts, picked on the very workload that is reported: that favours them.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::collections::BTreeMap;

use onefold_cache::Choice;
use onefold_cache::simulate::{Devices, Plan, QuadrantRules, on_all_cores, run_one};
use onefold_cache::workload::WorkloadSpec;

const BUDGETS: [f64; 2] = [2.0, 5.0];
/// For each budget, the setting of lazy LFU that keeps to it on all workloads for tuning.
const ONE: [(f64, u32); 2] = [(1.5, 8), (1.0, 4)];

/// A family of workloads and a size of the cache.
struct Family {
    name: &'static str,
    spec: WorkloadSpec,
    size: f64,
}

fn base() -> WorkloadSpec {
    WorkloadSpec::default()
}

fn drift(spec: WorkloadSpec, steps: u32, share: f64) -> WorkloadSpec {
    WorkloadSpec { drift_steps: steps, drift_share: share, ..spec }
}

fn families(half: &str) -> Vec<Family> {
    let corr = WorkloadSpec { sharing_exponent: 1.0, ..base() };
    let half_corr = WorkloadSpec { sharing_exponent: 0.5, ..base() };
    let scan = |spec| WorkloadSpec { scan_every: 4_000, scan_share: 0.2, ..spec };
    let short = |spec| WorkloadSpec { read_gib: 128.0, ..spec };
    let steep = WorkloadSpec { zipf_exponent: 0.9, ..base() };
    let family = |name, spec, size| Family { name, spec, size };
    if half == "tune" {
        vec![
            family("uncorr 20%", base(), 0.2),
            family("corr.5 10%", half_corr, 0.1),
            family("drift4 uncorr 20%", drift(base(), 4, 1.0), 0.2),
            family("drift16 corr.5 20%", drift(half_corr, 16, 0.2), 0.2),
            family("scan uncorr 20%", scan(base()), 0.2),
            family("short uncorr 20%", short(base()), 0.2),
        ]
    } else {
        vec![
            family("uncorr 20%", base(), 0.2),
            family("uncorr 10%", base(), 0.1),
            family("corr1 20%", corr, 0.2),
            family("steep 5%", steep, 0.05),
            family("drift4 corr1 20%", drift(corr, 4, 1.0), 0.2),
            family("drift8 uncorr 10%", drift(base(), 8, 0.5), 0.1),
            family("drift2 steep 10%", drift(steep, 2, 1.0), 0.1),
            family("scan corr1 20%", scan(corr), 0.2),
            family("scan drift4 uncorr 10%", scan(drift(base(), 4, 0.5)), 0.1),
            family("short corr.5 20%", short(half_corr), 0.2),
        ]
    }
}

/// Settings by group; of a group, the best within the budget counts.
fn grids(toll: &[String], one: (f64, u32)) -> BTreeMap<&'static str, Vec<String>> {
    let mut grids: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let lazy = [(1.0, 1), (1.0, 2), (1.0, 4), (1.0, 8), (1.25, 4), (1.5, 4), (1.5, 8), (2.0, 8)];
    grids.insert("lazy-lfu", lazy.iter().map(|(m, d)| format!("lazy-lfu:m={m},d={d}")).collect());
    let tiny = [(10, 1), (40, 1), (40, 2), (40, 4), (160, 2), (160, 4), (160, 8), (160, 16)];
    let tiny = tiny.iter().map(|(sample, margin)| {
        format!("w-tinylfu:memory=1,counter=255,sample={sample},margin={margin}")
    });
    grids.insert("w-tinylfu", tiny.collect());
    // One setting for all, chosen on the workloads for tuning.
    grids.insert("lazy-lfu one", vec![format!("lazy-lfu:m={},d={}", one.0, one.1)]);
    grids.insert("plc", vec!["plc".into(), "plc:rules=literal".into(), "plc:f=const2".into()]);
    grids.insert("static", vec!["static".into()]);
    grids.insert("lru", vec!["lru".into()]);
    if !toll.is_empty() {
        grids.insert("toll", toll.to_vec());
    }
    grids
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let half = args.first().map_or("report", String::as_str);
    let seeds: &[u64] = if half == "tune" { &[1, 2] } else { &[21, 22, 23] };
    let only_toll = args.iter().any(|arg| arg == "only");
    let own: Vec<String> = args.iter().filter(|arg| arg.starts_with("toll")).cloned().collect();
    for family in families(half) {
        for budget in BUDGETS {
            // A policy with a budget is told it: the rest after the first fill, over the run.
            let own: Vec<String> = if own.is_empty() { vec!["toll:".into()] } else { own.clone() };
            let traces: Vec<_> = on_all_cores(seeds.len(), 0, |at| {
                let spec = WorkloadSpec { seed: seeds[at], ..family.spec };
                spec.trace().expect("a workload")
            });
            let objects = traces[0].containers() as f64 * family.size;
            let per_object = traces[0].requests.len() as f64 / objects;
            let toll: Vec<String> = own
                .iter()
                .map(|text| {
                    let rest = budget * 0.995;
                    let between = if text.ends_with(':') { "" } else { "," };
                    format!("{text}{between}fills={rest},period={per_object}")
                })
                .collect();
            let grids = if only_toll {
                BTreeMap::from([("toll", toll)])
            } else {
                grids(&toll, ONE[usize::from(budget > 2.0)])
            };
            let jobs: Vec<(&str, &String, usize)> = grids
                .iter()
                .flat_map(|(&name, texts)| texts.iter().map(move |text| (name, text)))
                .flat_map(|(name, text)| (0..seeds.len()).map(move |seed| (name, text, seed)))
                .collect();
            let futures: Vec<_> = traces
                .iter()
                .map(|trace| onefold_cache::trace::Future::of(&trace.requests))
                .collect();
            let results = on_all_cores(jobs.len(), 0, |at| {
                let (_, text, seed) = jobs[at];
                let choice = Choice::parse(text).expect("a policy");
                let plan = Plan {
                    policies: Vec::new(),
                    sizes: Vec::new(),
                    devices: Devices::default(),
                    quadrants: QuadrantRules::default(),
                    seed: 1,
                    threads: 1,
                };
                let future = Some(&futures[seed]);
                let run = run_one(&traces[seed], future, &choice, family.size, &plan);
                let run = run.expect("a run");
                (run.hit_rate * 100.0, run.fills)
            });
            print!("{:24} W<={budget} {:5.1}/c", family.name, traces[0].reads_per_container());
            for (&name, texts) in &grids {
                let mut best: Option<(f64, f64, &str)> = None;
                for text in texts {
                    let of = jobs.iter().zip(&results).filter(|(job, _)| job.1 == text);
                    let all: Vec<(f64, f64)> = of.map(|(_, &result)| result).collect();
                    let hit = all.iter().map(|r| r.0).sum::<f64>() / all.len() as f64;
                    let fills = all.iter().map(|r| r.1).fold(0.0, f64::max);
                    if only_toll {
                        print!("  {hit:.2}/{fills:.2}");
                    }
                    let within = fills <= budget || name == "lru";
                    if within && best.is_none_or(|(hit_best, ..)| hit > hit_best) {
                        best = Some((hit, fills, text));
                    }
                }
                match best.filter(|_| !only_toll) {
                    Some((hit, fills, _)) => print!("  {name} {hit:.2}/{fills:.2}"),
                    None if only_toll => {}
                    None => print!("  {name} -"),
                }
            }
            println!();
        }
    }
}
