//! Events per second through the queue, with the ratio to other queues in the same run.
//! Room: onefold-sim.
//! Run: `cargo bench -p onefold-sim`; `-- --quick` for a look that it still works.
//! Each step takes the earliest event out and schedules one a random time later, with so many
//! pending; one thread, median of five rounds in which all take turns.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

use onefold_sim::{EventQueue, RandomStreams, SimSpan};

const ROUNDS: usize = 5;

/// An event of the size that models have.
type Payload = [u64; 2];

/// Delays with the spread of a drive's: bus, read, program, erase.
fn delays(count: usize) -> Vec<u64> {
    let mut stream = RandomStreams::new(7).stream("delays");
    let scales = [2_000, 25_000, 40_000, 300_000, 1_000_000, 2_000_000];
    let mut delay = || {
        let scale = scales[stream.below(6) as usize];
        stream.below(scale) + 1
    };
    (0..count).map(|_| delay()).collect()
}

fn ours(pending: usize, steps: usize, delays: &[u64]) -> u64 {
    let mut queue = EventQueue::new();
    for (n, &delay) in delays.iter().take(pending).enumerate() {
        queue.after(SimSpan::from_ns(delay), [n as u64, delay]);
    }
    for step in 0..steps {
        let (_, event) = queue.pop().expect("as many go in as come out");
        let delay = delays[step % delays.len()];
        queue.after(SimSpan::from_ns(delay), black_box::<Payload>(event));
    }
    queue.now().ns()
}

fn binary(pending: usize, steps: usize, delays: &[u64]) -> u64 {
    let mut queue: BinaryHeap<Reverse<(u64, u64, Payload)>> = BinaryHeap::new();
    let (mut now, mut sequence) = (0, 0);
    for (n, &delay) in delays.iter().take(pending).enumerate() {
        queue.push(Reverse((delay, sequence, [n as u64, delay])));
        sequence += 1;
    }
    for step in 0..steps {
        let Reverse((at, _, event)) = queue.pop().expect("as many go in as come out");
        now = at;
        queue.push(Reverse((now + delays[step % delays.len()], sequence, black_box(event))));
        sequence += 1;
    }
    now
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let steps = if std::env::args().any(|arg| arg == "--quick") { 10_000 } else { 1_000_000 };
    let delays = delays(1 << 16);
    println!("{:>8} {:>14} {:>24}", "pending", "M events/s", "of the library's heap");
    for pending in [16, 64, 256, 1024, 4096, 16384] {
        let (mut all, mut reference) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let speed = |run: fn(usize, usize, &[u64]) -> u64| {
                let start = Instant::now();
                let end = black_box(run(pending, steps, &delays));
                (steps as f64 / start.elapsed().as_secs_f64(), end)
            };
            let ((fast, a), (plain, b)) = (speed(ours), speed(binary));
            assert_eq!(a, b, "both order alike");
            all.push(fast);
            reference.push(plain);
        }
        let (all, reference) = (median(all), median(reference));
        println!("{pending:>8} {:>14.2} {:>24.2}", all / 1e6, all / reference);
    }
}
