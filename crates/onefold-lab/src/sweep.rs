//! Many points on all cores, in the order of the points whatever the order of the work.
//! Room: onefold-lab.
//! Invariant: results depend on the points alone, not on the number of threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs `run` for every point on `threads` threads (0: one per core) and returns the results in
/// the order of the points. `done` is told how many of how many are finished, from any thread. A
/// panic of `run` is passed on.
pub fn sweep<P: Sync, R: Send>(
    points: &[P],
    threads: usize,
    run: impl Fn(&P) -> R + Sync,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Vec<R> {
    let results: Vec<Mutex<Option<R>>> = points.iter().map(|_| Mutex::default()).collect();
    let run_at = |at: usize| {
        let result = run(&points[at]);
        *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    };
    share_out(points.len(), threads, &run_at, done);
    let whole = |result: Mutex<_>| result.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().filter_map(whole).collect()
}

/// Calls `run` for each number below `count` on `threads` threads, and `done` after each. It knows
/// no types of points and results, of which there are dozens: one copy does for all.
fn share_out(
    count: usize,
    threads: usize,
    run: &(dyn Fn(usize) + Sync),
    done: &(dyn Fn(usize, usize) + Sync),
) {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = if threads == 0 { cores() } else { threads }.min(count);
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < count) {
            run(at);
            done(finished.fetch_add(1, Ordering::Relaxed) + 1, count);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_threads_gives_the_same() {
        let points: Vec<u64> = (0..100).collect();
        // Work of very different length, so that threads overtake each other.
        let run =
            |&point: &u64| (0..point * point % 977 * 100).fold(point, |a, b| a ^ b.rotate_left(7));
        let alone: Vec<u64> = points.iter().map(run).collect();
        for threads in [0, 1, 2, 7, 1000] {
            let told = Mutex::new(Vec::new());
            let count = |done, all| {
                assert_eq!(all, 100);
                told.lock().unwrap().push(done);
            };
            assert_eq!(sweep(&points, threads, run, &count), alone);
            let mut told = told.into_inner().unwrap();
            told.sort_unstable();
            assert!(told.into_iter().eq(1..=100), "each number of finished points once");
        }
        assert!(sweep(&[], 4, |(): &()| (), &|_, _| {}).is_empty());
    }

    /// One of two points waits for the other: with one thread this would never end.
    #[test]
    fn as_many_points_run_at_a_time_as_was_asked_for() {
        let several = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        for threads in if several { vec![2, 0] } else { vec![2] } {
            let both = std::sync::Barrier::new(2);
            let run = |_: &u8| both.wait().is_leader();
            let mut leaders = sweep(&[0, 1], threads, run, &|_, _| {});
            leaders.sort_unstable();
            assert_eq!(leaders, [false, true], "{threads}");
        }
        let here = std::thread::current().id();
        let run = |(): &()| std::thread::current().id();
        assert_eq!(sweep(&[(), ()], 1, run, &|_, _| {}), [here, here]);
    }
}
