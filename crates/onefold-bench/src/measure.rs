//! How long work took, in three kinds of seconds, and medians of rounds.
//! Room: onefold-bench.
//! Invariants: what is prepared before the barrier is not measured.

use std::sync::Barrier;
use std::time::Instant;

use crate::clock;

/// What a piece of work took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU seconds, all threads together.
    pub cpu: f64,
    /// Wall seconds of the slowest thread.
    pub wall: f64,
    /// Wall seconds of the slowest thread, without those in which it was ready to run and other
    /// programs had all cores: what an idle machine would show. On a machine without these
    /// counts, the same as `wall`.
    pub undisturbed: f64,
}

impl Usage {
    /// One piece of work after another.
    pub fn and(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            wall: self.wall + other.wall,
            undisturbed: self.undisturbed + other.undisturbed,
        }
    }
}

/// Do work on this thread.
pub fn here(work: impl FnOnce()) -> Usage {
    let (wall, cpu, waited) = (Instant::now(), clock::thread_cpu(), clock::thread_waited());
    work();
    let cpu = clock::thread_cpu() - cpu;
    let waited = clock::thread_waited().zip(waited).map_or(0.0, |(after, before)| after - before);
    let wall = wall.elapsed().as_secs_f64();
    Usage { cpu, wall, undisturbed: (wall - waited).max(cpu) }
}

/// Do work on `count` threads at once; `work` is called with the number of each. The threads
/// must do all of it themselves.
pub fn on_threads(count: usize, work: impl Fn(usize) + Sync) -> Usage {
    let start = Barrier::new(count);
    let (start, work) = (&start, &work);
    std::thread::scope(|scope| {
        let run = move |number| {
            start.wait();
            here(|| work(number))
        };
        let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || run(n))).collect();
        let mut all = Usage::default();
        for thread in threads {
            let usage = thread.join().expect("a measured thread does not panic");
            all.cpu += usage.cpu;
            all.wall = all.wall.max(usage.wall);
            all.undisturbed = all.undisturbed.max(usage.undisturbed);
        }
        all
    })
}

/// The middle of some values, the upper one of an even number; zero of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The median of what `of` says of each round.
pub fn median_of<T>(rounds: &[T], of: impl Fn(&T) -> f64) -> f64 {
    median(rounds.iter().map(of).collect())
}

/// The least of what `of` says of each round.
pub fn least_of<T>(rounds: &[T], of: impl Fn(&T) -> f64) -> f64 {
    rounds.iter().map(of).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_those_of_the_sorted_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]).to_bits(), 2.0f64.to_bits());
        assert_eq!(median(vec![4.0, 1.0]).to_bits(), 4.0f64.to_bits());
        assert_eq!(median(Vec::new()).to_bits(), 0.0f64.to_bits());
    }

    #[test]
    fn threads_are_counted_together_and_the_slowest_sets_the_time() {
        let spin = |seconds: f64| {
            let until = clock::thread_cpu() + seconds;
            while clock::thread_cpu() < until {}
        };
        let usage = on_threads(2, |number| spin(0.002 * (number + 1) as f64));
        assert!(usage.cpu >= 0.006, "{usage:?}");
        assert!(usage.undisturbed >= 0.004 && usage.wall >= usage.undisturbed, "{usage:?}");
    }
}
