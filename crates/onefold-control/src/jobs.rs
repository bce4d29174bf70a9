//! Commands under way and what became of them: a client may leave, and ask later.
//! Room: onefold-control.
//! Invariants: (1) a job is done once, however often it is sent under the same id  (2) those that
//! share a turn never run at once  (3) how many run, and how many are remembered, is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::{Fault, Report};

/// Jobs under way at most.
const RUNNING_MAX: usize = 16;
/// Jobs remembered that have ended.
const ENDED_MAX: usize = 256;
/// Longest id.
const ID_BYTES_MAX: usize = 64;

/// Who has to wait for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nobody: it only looks.
    None,
    /// One after another, and the next one waits.
    Waits(&'static str),
    /// One at a time, and the next one is refused by name.
    Refused(&'static str),
}

/// What progress counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Blocks.
    Blocks,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// What is being done.
    pub doing: String,
    /// What is counted.
    pub unit: Unit,
    /// So many are done.
    pub done: u64,
    /// Of so many, where that is known.
    pub total: Option<u64>,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It waits for another one.
    Waiting,
    /// It is under way.
    Running,
    /// It was done; the report may still say that something is wrong.
    Done,
    /// It was not done, or not all of it.
    Failed,
}

/// What there is to know of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobView {
    /// Its id.
    pub id: String,
    /// What it does.
    pub operation: String,
    /// Where it stands.
    pub state: State,
    /// How far it is, where it tells.
    pub progress: Option<Progress>,
    /// What came of it.
    pub report: Option<Report>,
    /// Why it failed.
    pub error: Option<Fault>,
}

/// A job, for whoever does it.
pub struct Job {
    progress: Mutex<Option<Progress>>,
    cancelled: AtomicBool,
    watcher: Option<Watcher>,
}

/// Who is told of progress.
type Watcher = Box<dyn Fn(&Progress) + Send + Sync>;

impl Job {
    /// One that tells its progress to `watcher` as well.
    pub fn watched(watcher: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self { watcher: Some(Box::new(watcher)), ..Self::quiet() }
    }

    /// One that nobody watches.
    pub fn quiet() -> Self {
        Self { progress: Mutex::default(), cancelled: AtomicBool::new(false), watcher: None }
    }

    /// So far it is.
    pub fn tell(&self, doing: &str, unit: Unit, done: u64, total: Option<u64>) {
        let progress = Progress { doing: doing.to_owned(), unit, done, total };
        if let Some(watcher) = &self.watcher {
            watcher(&progress);
        }
        *lock(&self.progress) = Some(progress);
    }

    /// Whether nobody wants it any more: it ends between two steps, and says what there is.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// What a job is to do.
pub type Work = Box<dyn FnOnce(&Job) -> Result<Report, Fault> + Send>;

/// The jobs of a server.
#[derive(Default)]
pub struct Jobs {
    all: Mutex<All>,
    changed: Condvar,
}

#[derive(Default)]
struct All {
    entries: BTreeMap<String, Entry>,
    /// Ids of those that have ended, the oldest first.
    ended: VecDeque<String>,
    /// Who has which turn.
    turns: BTreeMap<&'static str, String>,
    closed: bool,
    /// Jobs that their clients did not name, so far.
    unnamed: u64,
}

struct Entry {
    operation: &'static str,
    state: State,
    job: Arc<Job>,
    outcome: Option<Result<Report, Fault>>,
}

/// Why a job does not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Another one has the turn: its operation and id.
    Turn(&'static str, String),
    /// Too many are under way, or the server stops.
    Full(&'static str),
    /// The id cannot be one, or is that of another operation.
    Id,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Jobs {
    /// Begin a job, unless there is one with this id already.
    pub fn begin(
        self: &Arc<Self>,
        id: &str,
        operation: &'static str,
        turn: Turn,
        work: Work,
    ) -> Result<(), Busy> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if id.is_empty() || id.len() > ID_BYTES_MAX || !id.bytes().all(plain) {
            return Err(Busy::Id);
        }
        let job = Arc::new(Job::quiet());
        {
            let mut all = lock(&self.all);
            if let Some(entry) = all.entries.get(id) {
                return if entry.operation == operation { Ok(()) } else { Err(Busy::Id) };
            }
            if all.closed {
                return Err(Busy::Full("the server stops"));
            }
            if all.entries.len() - all.ended.len() >= RUNNING_MAX {
                return Err(Busy::Full("too many commands are under way, try again"));
            }
            let mut state = State::Running;
            if let Turn::Waits(name) | Turn::Refused(name) = turn {
                match (all.turns.get(name), turn) {
                    (Some(other), Turn::Refused(_)) => {
                        let doing = all.entries.get(other).map_or("", |entry| entry.operation);
                        return Err(Busy::Turn(doing, other.clone()));
                    }
                    (Some(_), _) => state = State::Waiting,
                    (None, _) => {
                        all.turns.insert(name, id.to_owned());
                    }
                }
            }
            let entry = Entry { operation, state, job: Arc::clone(&job), outcome: None };
            all.entries.insert(id.to_owned(), entry);
        }
        let (jobs, name) = (Arc::clone(self), id.to_owned());
        let run = move || jobs.run(&name, turn, &job, work);
        if let Err(error) = Builder::new().name("control-job".to_owned()).spawn(run) {
            let message = format!("cannot start a thread: {error}");
            self.end(id, turn, Err(Fault { message, exit_status: 2, ..Fault::default() }));
        }
        Ok(())
    }

    fn run(&self, id: &str, turn: Turn, job: &Job, work: Work) {
        self.wait_for_turn(id, turn);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(job)));
        let outcome = outcome.unwrap_or_else(|_| {
            let message = "the server failed at this; its log says where".to_owned();
            Err(Fault { message, exit_status: 1, ..Fault::default() })
        });
        self.end(id, turn, outcome);
    }

    fn wait_for_turn(&self, id: &str, turn: Turn) {
        let Turn::Waits(name) = turn else { return };
        let mut all = lock(&self.all);
        while all.turns.get(name).is_some_and(|other| other != id) {
            all = self.changed.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
        all.turns.insert(name, id.to_owned());
        if let Some(entry) = all.entries.get_mut(id) {
            entry.state = State::Running;
        }
    }

    fn end(&self, id: &str, turn: Turn, outcome: Result<Report, Fault>) {
        let mut all = lock(&self.all);
        if let Turn::Waits(name) | Turn::Refused(name) = turn
            && all.turns.get(name).is_some_and(|other| other == id)
        {
            all.turns.remove(name);
        }
        if let Some(entry) = all.entries.get_mut(id) {
            entry.state = if outcome.is_ok() { State::Done } else { State::Failed };
            entry.outcome = Some(outcome);
            all.ended.push_back(id.to_owned());
        }
        if all.ended.len() > ENDED_MAX
            && let Some(oldest) = all.ended.pop_front()
        {
            all.entries.remove(&oldest);
        }
        self.changed.notify_all();
    }

    /// An id for a job that its client does not name.
    pub fn next_id(&self) -> String {
        let mut all = lock(&self.all);
        all.unnamed += 1;
        format!("unnamed-{}", all.unnamed)
    }

    /// A job, once it has ended or `wait` is over.
    pub fn look(&self, id: &str, wait: Duration) -> Option<JobView> {
        let deadline = Instant::now() + wait;
        let mut all = lock(&self.all);
        loop {
            let entry = all.entries.get(id)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if entry.outcome.is_some() || left.is_zero() {
                return Some(view(id, entry));
            }
            let waited = self.changed.wait_timeout(all, left);
            all = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// All jobs that are known, without what came of them.
    pub fn list(&self) -> Vec<JobView> {
        let all = lock(&self.all);
        let short = |(id, entry): (&String, &Entry)| JobView { report: None, ..view(id, entry) };
        all.entries.iter().map(short).collect()
    }

    /// Nobody wants this job any more; whether there is such a job.
    pub fn cancel(&self, id: &str) -> bool {
        let all = lock(&self.all);
        let found = all.entries.get(id);
        found.inspect(|entry| entry.job.cancelled.store(true, Ordering::Release)).is_some()
    }

    /// Begin none any more, tell all to end, and wait for that; whether all have ended in time.
    pub fn close(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut all = lock(&self.all);
        all.closed = true;
        for entry in all.entries.values() {
            entry.job.cancelled.store(true, Ordering::Release);
        }
        while all.entries.len() > all.ended.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(all, left);
            all = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

fn view(id: &str, entry: &Entry) -> JobView {
    let outcome = entry.outcome.as_ref();
    JobView {
        id: id.to_owned(),
        operation: entry.operation.to_owned(),
        state: entry.state,
        progress: lock(&entry.job.progress).clone(),
        report: outcome.and_then(|outcome| outcome.as_ref().ok()).cloned(),
        error: outcome.and_then(|outcome| outcome.as_ref().err()).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    /// A job that ends when the sender says so.
    fn held() -> (std::sync::mpsc::Sender<()>, Work) {
        let (to, from) = channel::<()>();
        let work: Work = Box::new(move |_| {
            let _ = from.recv();
            Ok(Report::note("held"))
        });
        (to, work)
    }

    #[test]
    fn a_job_that_is_sent_twice_is_done_once_and_can_be_asked_for_later() {
        let (jobs, done) = (Arc::new(Jobs::default()), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 {
            let done = Arc::clone(&done);
            let work: Work = Box::new(move |_| {
                done.fetch_add(1, Ordering::SeqCst);
                Ok(Report::note("made"))
            });
            jobs.begin("a-1", "volume create", Turn::Waits("volumes"), work).unwrap();
            let view = jobs.look("a-1", LONG).unwrap();
            assert_eq!((view.state, view.report), (State::Done, Some(Report::note("made"))));
        }
        assert_eq!(done.load(Ordering::SeqCst), 1);
        assert!(jobs.look("a-2", LONG).is_none());
        for id in ["", "a b", "../x", &"x".repeat(65)] {
            assert_eq!(jobs.begin(id, "x", Turn::None, held().1), Err(Busy::Id));
        }
    }

    #[test]
    fn who_shares_a_turn_waits_or_is_refused_by_name() {
        let jobs = Arc::new(Jobs::default());
        let (release, work) = held();
        jobs.begin("first", "volume delete", Turn::Waits("volumes"), work).unwrap();
        let second: Work = Box::new(|_| Ok(Report::default()));
        jobs.begin("second", "volume create", Turn::Waits("volumes"), second).unwrap();
        assert_eq!(jobs.look("second", Duration::ZERO).unwrap().state, State::Waiting);
        let (end, work) = held();
        jobs.begin("space", "pool reclaim", Turn::Refused("space"), work).unwrap();
        let refused = jobs.begin("again", "pool deduplicate", Turn::Refused("space"), held().1);
        assert_eq!(refused, Err(Busy::Turn("pool reclaim", "space".to_owned())));
        assert!(jobs.look("again", Duration::ZERO).is_none());
        drop(release);
        assert_eq!(jobs.look("second", LONG).unwrap().state, State::Done);
        drop(end);
        assert_eq!(jobs.look("space", LONG).unwrap().state, State::Done);
        jobs.begin("later", "pool reclaim", Turn::Refused("space"), held().1).unwrap();
        assert!(jobs.close(LONG));
    }

    #[test]
    fn jobs_are_few_and_forgotten_in_order_and_one_that_fails_is_told() {
        let jobs = Arc::new(Jobs::default());
        let held: Vec<_> = (0..RUNNING_MAX)
            .map(|number| {
                let (release, work) = held();
                jobs.begin(&format!("h{number}"), "x", Turn::None, work).unwrap();
                release
            })
            .collect();
        let quick = || -> Work { Box::new(|_| panic!("on purpose")) };
        assert!(matches!(jobs.begin("q", "x", Turn::None, quick()), Err(Busy::Full(_))));
        drop(held);
        for number in 0..RUNNING_MAX {
            jobs.look(&format!("h{number}"), LONG).unwrap();
        }
        for number in 0..ENDED_MAX + 2 {
            let id = format!("q{number}");
            jobs.begin(&id, "x", Turn::None, quick()).unwrap();
            let view = jobs.look(&id, LONG).unwrap();
            assert_eq!((view.state, view.error.unwrap().exit_status), (State::Failed, 1));
        }
        assert_eq!(jobs.list().len(), ENDED_MAX);
        assert!(jobs.look("q0", LONG).is_none() && jobs.look("q2", LONG).is_some());
    }

    #[test]
    fn closing_asks_all_to_end_and_begins_none() {
        let jobs = Arc::new(Jobs::default());
        let work: Work = Box::new(|job| {
            while !job.is_cancelled() {
                std::thread::yield_now();
            }
            Ok(Report::default())
        });
        jobs.begin("w", "pool check", Turn::None, work).unwrap();
        assert!(jobs.close(LONG));
        assert!(matches!(jobs.begin("n", "x", Turn::None, held().1), Err(Busy::Full(_))));
    }

    #[test]
    fn how_far_a_job_is_can_be_seen_and_that_it_does_not_end_in_time() {
        let jobs = Arc::new(Jobs::default());
        let (release, ends) = channel::<()>();
        let (told, hears) = channel();
        let work: Work = Box::new(move |job| {
            job.tell("reading", Unit::Blocks, 3, Some(9));
            told.send(()).unwrap();
            let _ = ends.recv();
            if job.is_cancelled() { Ok(Report::note("early")) } else { Ok(Report::default()) }
        });
        let id = "x".repeat(ID_BYTES_MAX);
        jobs.begin(&id, "pool check", Turn::None, work).unwrap();
        hears.recv().unwrap();
        let view = jobs.look(&id, Duration::ZERO).unwrap();
        let (doing, unit) = ("reading".to_owned(), Unit::Blocks);
        let progress = Some(Progress { doing, unit, done: 3, total: Some(9) });
        assert_eq!((view.state, view.progress), (State::Running, progress));
        assert_eq!((view.operation.as_str(), view.report, view.error), ("pool check", None, None));
        let other = jobs.begin(&id, "pool reclaim", Turn::None, held().1);
        assert_eq!(other, Err(Busy::Id), "it is that of another operation");
        assert!(!jobs.cancel("other") && jobs.cancel(&id));
        assert!(!jobs.close(Duration::ZERO), "it is under way still");
        drop(release);
        assert!(jobs.close(LONG));
        let listed = jobs.list();
        assert_eq!((listed.len(), listed[0].state), (1, State::Done));
        assert_eq!(listed[0].report, None, "what came of it is asked for by its id");
        assert_eq!(jobs.look(&id, LONG).unwrap().report, Some(Report::note("early")));
        assert_eq!([jobs.next_id(), jobs.next_id()], ["unnamed-1", "unnamed-2"]);
    }

    #[test]
    fn progress_goes_to_who_watches_as_well() {
        let (told, hears) = channel();
        let job = Job::watched(move |progress| told.send(progress.clone()).unwrap());
        job.tell("copying", Unit::Bytes, 1, None);
        let progress = hears.try_recv().unwrap();
        assert_eq!((progress.done, progress.total, progress.unit), (1, None, Unit::Bytes));
        assert_eq!(*lock(&job.progress), Some(progress));
        assert!(!job.is_cancelled() && !Job::quiet().is_cancelled());
    }
}
