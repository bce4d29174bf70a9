//! Threads that read and decode containers while others are written out or waited for.
//! Room: onefold-archive.
//! Invariants: (1) each question is answered, also where its work panics; (2) work is begun in the
//! order in which it was asked for; (3) work that nobody waits for any more is not begun.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::error::ArchiveError;

type Work<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Up to so many threads, each with a state of its own. They are started as work comes; one alone
/// is no thread: then work is done where it is asked for.
pub struct Workers<S> {
    make: Arc<dyn Fn() -> S + Send + Sync>,
    count: usize,
    /// The state of work that is done here.
    here: Option<S>,
    queue: Option<Sender<Work<S>>>,
    waiting: Arc<Mutex<Receiver<Work<S>>>>,
    threads: Vec<JoinHandle<()>>,
}

/// What comes of work that was asked for.
pub struct Answer<R>(Receiver<R>);

impl<R> Answer<R> {
    /// Wait for it.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] where the work came to no end.
    pub fn wait(self) -> Result<R, ArchiveError> {
        self.0.recv().map_err(|_| {
            ArchiveError::io("read a container", std::io::Error::other("its reader failed"))
        })
    }
}

impl<S: 'static> Workers<S> {
    /// Workers whose states `make` makes, at least one.
    pub fn new(count: usize, make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        let (queue, waiting) = mpsc::channel();
        Self {
            make: Arc::new(make),
            count: count.max(1),
            here: None,
            queue: Some(queue),
            waiting: Arc::new(Mutex::new(waiting)),
            threads: Vec::new(),
        }
    }

    /// How many there are at most.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Ask for work.
    pub fn ask<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut S) -> R + Send + 'static,
    ) -> Answer<R> {
        let (answer, answered) = mpsc::channel();
        let work: Work<S> = Box::new(move |state| {
            // Whoever asked may have gone meanwhile.
            let _ = answer.send(work(state));
        });
        if self.count > 1 && self.threads.len() < self.count {
            self.start_one();
        }
        match &self.queue {
            Some(queue) if !self.threads.is_empty() => {
                // The receiver is kept here, so that there always is one.
                let _ = queue.send(work);
            }
            _ => run(work, &mut self.here, &*self.make),
        }
        Answer(answered)
    }

    /// Have work done for each of `items`, and hand what comes of it out in their order, until
    /// `take` answers that it wants no more; how many it got. What was asked for by then is done in
    /// vain, and as many wait as work, so that who is done goes on.
    pub fn in_order<T: Copy, R: Send + 'static, W>(
        &mut self,
        items: &[T],
        work: impl Fn(T) -> W,
        mut take: impl FnMut(T, Result<R, ArchiveError>) -> Result<bool, ArchiveError>,
    ) -> Result<usize, ArchiveError>
    where
        W: FnOnce(&mut S) -> R + Send + 'static,
    {
        let asked_max = 2 * self.count - 1;
        let (mut left, mut asked, mut taken) = (items.iter(), VecDeque::new(), 0);
        loop {
            for &item in left.by_ref().take(asked_max - asked.len()) {
                asked.push_back((item, self.ask(work(item))));
            }
            let Some((item, answer)) = asked.pop_front() else { return Ok(taken) };
            taken += 1;
            if !take(item, answer.wait())? {
                return Ok(taken);
            }
        }
    }

    /// Start a thread; where the system gives none, those that are there do the work.
    fn start_one(&mut self) {
        let (make, waiting) = (Arc::clone(&self.make), Arc::clone(&self.waiting));
        let thread = Builder::new().name("onefold-reader".to_owned()).spawn(move || {
            let mut state = None;
            loop {
                // Held while it waits, and by no one who works.
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(work) = next else { return };
                run(work, &mut state, &*make);
            }
        });
        self.threads.extend(thread);
    }
}

/// Do some work. A panic ends that work alone: its answer is missing, and its state made anew.
fn run<S>(work: Work<S>, state: &mut Option<S>, make: &(dyn Fn() -> S + Send + Sync)) {
    let done = catch_unwind(AssertUnwindSafe(|| work(state.get_or_insert_with(make))));
    if done.is_err() {
        *state = None;
    }
}

impl<S> Workers<S> {
    /// Let go of the work that nobody has begun, and of the threads once theirs is done.
    fn close(&mut self) {
        // Whoever waits for work wakes up, and gives the receiver back.
        self.queue = None;
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.try_recv().is_ok() {}
    }
}

impl<S> Drop for Workers<S> {
    fn drop(&mut self) {
        self.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn answers_are_those_of_the_questions_for_any_number() {
        for count in [0, 1, 2, 5] {
            let mut workers = Workers::new(count, || 0_u64);
            let answers: Vec<_> = (0..100_u64).map(|n| workers.ask(move |_| n * n)).collect();
            assert_eq!(workers.threads.len(), if count < 2 { 0 } else { count });
            for (n, answer) in (0..).zip(answers) {
                assert_eq!(answer.wait().unwrap(), n * n);
            }
        }
    }

    #[test]
    fn what_comes_of_many_is_handed_out_in_their_order_as_far_as_it_is_wanted() {
        let items: Vec<u64> = (0..50).collect();
        for count in [1, 2, 5] {
            let mut workers = Workers::new(count, || ());
            let mut got = Vec::new();
            let square = |n: u64| move |(): &mut ()| n * n;
            let taken = workers.in_order(&items, square, |n, square| {
                got.push((n, square?));
                Ok(n < 20)
            });
            assert_eq!(taken.unwrap(), 21);
            assert!(got.into_iter().eq((0..=20).map(|n| (n, n * n))));
            let all = workers.in_order(&items, square, |_, _| Ok(true));
            assert_eq!(all.unwrap(), 50);
        }
    }

    #[test]
    fn as_many_work_at_once_as_there_are() {
        let mut workers = Workers::new(4, || ());
        let together = Arc::new(Barrier::new(4));
        // Each waits for three others: fewer threads would never come to an end.
        let answers: Vec<_> = (0..8)
            .map(|_| {
                let together = Arc::clone(&together);
                workers.ask(move |()| together.wait())
            })
            .collect();
        assert_eq!(answers.into_iter().flat_map(Answer::wait).count(), 8);
    }

    #[test]
    fn a_panic_is_an_error_of_its_own_question_alone() {
        for count in [1, 2] {
            let mut workers = Workers::new(count, || 7_u64);
            let broken = workers.ask(|state| {
                *state = 8;
                assert!(*state == 7, "a panic on purpose");
            });
            let error = broken.wait().unwrap_err().to_string();
            assert!(error.contains("read a container"), "{error}");
            // Of no state that a panic left.
            let sound: Vec<_> = (0..4).map(|_| workers.ask(|state| *state)).collect();
            for answer in sound {
                assert_eq!(answer.wait().unwrap(), 7);
            }
        }
    }

    #[test]
    fn what_is_waited_for_no_more_is_not_begun() {
        let begun = Arc::new(AtomicUsize::new(0));
        let (here, there) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
        let mut workers = Workers::new(2, || ());
        for _ in 0..2 {
            let (here, there) = (Arc::clone(&here), Arc::clone(&there));
            workers.ask(move |()| {
                here.wait();
                there.wait();
            });
        }
        for _ in 0..5 {
            let begun = Arc::clone(&begun);
            workers.ask(move |()| begun.fetch_add(1, Ordering::Relaxed));
        }
        // Both are busy while it is closed, and go on only then.
        here.wait();
        workers.close();
        there.wait();
        drop(workers);
        assert_eq!(begun.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn twice_as_many_less_one_are_asked_for_before_the_first_is_taken() {
        let items: Vec<u64> = (0..50).collect();
        for (count, expected) in [(1, 1), (2, 3), (5, 9)] {
            let mut workers = Workers::new(count, || ());
            let asked = std::cell::Cell::new(0);
            let ask = |n: u64| {
                asked.set(asked.get() + 1);
                move |(): &mut ()| n
            };
            let mut seen = Vec::new();
            let taken = workers.in_order(&items, ask, |n, _| {
                seen.push((n, asked.get()));
                Ok(n < 2)
            });
            assert_eq!(taken.unwrap(), 3);
            assert_eq!(seen, [(0, expected), (1, expected + 1), (2, expected + 2)]);
            assert_eq!(workers.count(), count);
        }
        let mut workers = Workers::new(2, || ());
        let failed: Result<usize, _> =
            workers.in_order(&items, |n| move |(): &mut ()| n, |_, _| Err(ArchiveError::Nothing));
        assert!(matches!(failed, Err(ArchiveError::Nothing)));
        let none = workers.in_order(&[], |n: u64| move |(): &mut ()| n, |_, _| Ok(true));
        assert_eq!(none.unwrap(), 0);
    }
}
