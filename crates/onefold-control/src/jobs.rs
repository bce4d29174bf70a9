//! Commands under way and what became of them: a client may leave, and ask later.
//! Room: onefold-control.
//! Invariants: (1) a job is done once, however often it is sent under the same id  (2) those that
//! share a turn never run at once  (3) how many run, and how many are remembered, is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _, RandomState};
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

    /// Nobody wants it any more.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
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
    /// Tells ids that this server gives from those of the one before it.
    server: RandomState,
}

/// What a job is: the same id stands for one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    operation: &'static str,
    /// A hash of all else that was asked.
    request: u64,
}

impl Asked {
    /// An operation, and the bytes that say what it is to do.
    pub fn of(operation: &'static str, request: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        request.hash(&mut hasher);
        Self { operation, request: hasher.finish() }
    }
}

impl From<&'static str> for Asked {
    fn from(operation: &'static str) -> Self {
        Self::of(operation, b"")
    }
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
    asked: Asked,
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
    /// The id cannot be one, or is that of another request.
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
        asked: impl Into<Asked>,
        turn: Turn,
        work: Work,
    ) -> Result<(), Busy> {
        let asked = asked.into();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if id.is_empty() || id.len() > ID_BYTES_MAX || !id.bytes().all(plain) {
            return Err(Busy::Id);
        }
        let job = Arc::new(Job::quiet());
        {
            let mut all = lock(&self.all);
            if let Some(entry) = all.entries.get(id) {
                return if entry.asked == asked { Ok(()) } else { Err(Busy::Id) };
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
                        let doing =
                            all.entries.get(other).map_or("", |entry| entry.asked.operation);
                        return Err(Busy::Turn(doing, other.clone()));
                    }
                    (Some(_), _) => state = State::Waiting,
                    (None, _) => {
                        all.turns.insert(name, id.to_owned());
                    }
                }
            }
            let entry = Entry { asked, state, job: Arc::clone(&job), outcome: None };
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

    /// An id for a job that its client does not name. Who asks for it after the server was started
    /// again is told of no other one.
    pub fn next_id(&self) -> String {
        let mut all = lock(&self.all);
        all.unnamed += 1;
        format!("unnamed-{:016x}-{}", self.server.hash_one("server"), all.unnamed)
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
        found.inspect(|entry| entry.job.cancel()).is_some()
    }

    /// Begin none any more, tell all to end, and wait for that; whether all have ended in time.
    pub fn close(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut all = lock(&self.all);
        all.closed = true;
        for entry in all.entries.values() {
            entry.job.cancel();
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
        operation: entry.asked.operation.to_owned(),
        state: entry.state,
        progress: lock(&entry.job.progress).clone(),
        report: outcome.and_then(|outcome| outcome.as_ref().ok()).cloned(),
        error: outcome.and_then(|outcome| outcome.as_ref().err()).cloned(),
    }
}

#[cfg(test)]
mod tests;
