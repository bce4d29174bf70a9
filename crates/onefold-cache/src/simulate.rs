//! The simulator: one trace, many policies and sizes, on all cores, the same result on any number.
//! Room: onefold-cache.   In: [`Trace`], [`Plan`].   Out: [`Outcomes`] per policy and size.
//! Invariants: (1) every request generated is completed  (2) the hash of a result depends on what
//! was decided and when, not on threads.
//! Cost: each policy runs over the trace on its own; the trace is read once.

mod latency;
mod quadrants;
mod run;
mod writes;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

pub use latency::{Devices, HddModel, Latency, SsdModel, lifetime_days};
pub use quadrants::{QuadrantRules, Quadrants};
pub use run::{Run, capacity_of, run_one};
pub use writes::{SlotWrite, slot_writes};

use crate::options::OptionError;
use crate::registry::Choice;
use crate::trace::{Future, Trace};

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The policies.
    pub policies: Vec<Choice>,
    /// Sizes of the cache, as shares of the data.
    pub sizes: Vec<f64>,
    /// What reads and writes take.
    pub devices: Devices,
    /// Where the quadrants meet.
    pub quadrants: QuadrantRules,
    /// Root of the random numbers of policies.
    pub seed: u64,
    /// Threads; 0 is one per core.
    pub threads: usize,
}

impl Plan {
    /// What [`run_one`] needs to know: default devices, and neither policies nor sizes, which it is
    /// given.
    pub fn of_one(seed: u64) -> Self {
        Self {
            policies: Vec::new(),
            sizes: Vec::new(),
            devices: Devices::default(),
            quadrants: QuadrantRules::default(),
            seed,
            threads: 1,
        }
    }
}

/// Results of all policies and sizes, policy by policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcomes {
    /// Reads of containers.
    pub requests: u64,
    /// Containers there are.
    pub containers: u64,
    /// The regime.
    pub reads_per_container: f64,
    /// Bytes of all containers.
    pub data_bytes: u64,
    /// Bytes read, whole containers.
    pub read_bytes: u64,
    /// One entry per policy and size.
    pub runs: Vec<Run>,
    /// Of everything above: equal results, equal hashes.
    pub result_hash: String,
}

/// Runs `count` jobs on `threads` threads, 0 for one per core; results come in order of the jobs.
pub fn on_all_cores<T: Send>(
    count: usize,
    threads: usize,
    job: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if threads == 0 { cores } else { threads }.min(count).max(1);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let result = job(at);
                    done.lock().expect("no job panics while it holds this").push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no job panics while it holds this");
    done.sort_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Simulates everything that was planned.
pub fn simulate(trace: &Trace, plan: &Plan) -> Result<Outcomes, OptionError> {
    let offline = plan.policies.iter().any(|choice| choice.entry().offline);
    let future = offline.then(|| Future::of(&trace.requests));
    let pairs: Vec<(&Choice, f64)> = plan
        .policies
        .iter()
        .flat_map(|choice| plan.sizes.iter().map(move |&size| (choice, size)))
        .collect();
    let runs = on_all_cores(pairs.len(), plan.threads, |at| {
        let (choice, size) = pairs[at];
        run_one(trace, future.as_ref(), choice, size, plan)
    });
    let runs = runs.into_iter().collect::<Result<Vec<Run>, OptionError>>()?;
    let mut outcomes = Outcomes {
        requests: trace.requests.len() as u64,
        containers: trace.containers() as u64,
        reads_per_container: trace.reads_per_container(),
        data_bytes: trace.data_bytes,
        read_bytes: trace.bytes(),
        runs,
        result_hash: String::new(),
    };
    outcomes.result_hash = outcomes.hash();
    Ok(outcomes)
}

impl Outcomes {
    fn hash(&self) -> String {
        let mut state = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |word: u64| {
            state = (state.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        };
        let head = [self.requests, self.containers, self.data_bytes, self.read_bytes];
        head.into_iter().for_each(&mut add);
        for run in &self.runs {
            run.words().into_iter().for_each(&mut add);
        }
        format!("{:016x}", crate::hash_of(state))
    }
}

/// One point of a miss-ratio curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The policy, as it was written.
    pub policy: String,
    /// Size of the cache as a share of the data.
    pub size: f64,
    /// Share of the reads that missed.
    pub miss_ratio: f64,
    /// Cache fills written.
    pub fills: f64,
}

/// Miss-ratio curves from one of `one_in` containers (SHARDS [shards-15], as miniature simulation,
/// which holds for every policy): the cache is as much smaller as the trace.
pub fn sampled_curves(
    trace: &Trace,
    plan: &Plan,
    one_in: u64,
) -> Result<Vec<CurvePoint>, OptionError> {
    let sampled = if one_in > 1 { trace.sampled(one_in) } else { trace.clone() };
    // A sample has more or fewer reads than its share, by chance and by its hottest containers.
    // SHARDS-adj: what is missing are hits of hot containers, and what is too much as well.
    let expected = trace.requests.len() as f64 / one_in as f64;
    let outcomes = simulate(&sampled, plan)?;
    let point = |run: &Run| {
        let misses = (run.requests - run.hits) as f64;
        CurvePoint {
            policy: run.policy.clone(),
            size: run.size,
            miss_ratio: (misses / expected).min(1.0),
            fills: run.fills,
        }
    };
    Ok(outcomes.runs.iter().map(point).collect())
}
