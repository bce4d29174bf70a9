//! Who does an operation: the server that has the pool, or this process.
//! Room: onefold.
//! Invariant: either way it is the same function, and what is printed is the same.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use onefold_control::jobs::{JobView, State};
use onefold_control::{Client, ClientError, Fault, Job, Method, PREFIX, Progress, Report, Unit};
use onefold_pool::stream::{Find, Naming};
use onefold_pool::{Budgets, Pool};
use serde::Serialize;
use serde_json::Value;

use super::remote_blocks::RemoteBlocks;
use super::remote_volume::{Asked, RemoteVolume};
use super::{Context, Operation};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::open_pool;
use crate::output::Printer;
use crate::progress::{self, Bar};
use crate::random::random;

/// How long a server that has the pool may take until it can be asked.
const STARTING: Duration = Duration::from_secs(3);
/// Between two looks for it, and between two questions after a job.
const LOOK: Duration = Duration::from_millis(50);

/// How the pool is opened if no server has it.
#[derive(Clone, Copy)]
pub enum Opening {
    /// To look at it.
    Read(Budgets),
    /// To change it.
    Write(Budgets),
}

/// A pool that operations can be done with.
pub struct Door {
    at: PathBuf,
    behind: Behind,
}

enum Behind {
    Server(Mutex<Client>),
    Here { pool: Pool, writes: bool },
}

fn unanswered(pool: &Path, error: &ClientError) -> Failure {
    Failure::bad(format!("pool '{}' is served, but {error}", pool.display()))
}

impl Door {
    /// To the server that has the pool, or else to the pool itself.
    pub fn find(at: &Path, opening: Opening) -> Result<Self> {
        let open = || match opening {
            Opening::Read(budgets) => open_pool::to_read(at, budgets).map(|pool| (pool, false)),
            Opening::Write(budgets) => open_pool::to_write(at, budgets).map(|pool| (pool, true)),
        };
        Ok(match served_or(at, open)? {
            Place::Server(door) => door,
            Place::Here((pool, writes)) => {
                Self { at: at.to_owned(), behind: Behind::Here { pool, writes } }
            }
        })
    }

    /// To the server that has the pool, if one has.
    pub fn served(at: &Path) -> Result<Option<Self>> {
        let failed = |error| {
            Failure::unusable("ask the server of", at, error)
                .hint("it listens to the pool's owner, to root and to the pool's group")
        };
        let found = Client::connect(at).map_err(failed)?;
        let behind = |client| Behind::Server(Mutex::new(client));
        Ok(found.map(|client| Self { at: at.to_owned(), behind: behind(client) }))
    }

    /// To a pool that is open.
    pub fn here(at: &Path, pool: Pool) -> Self {
        Self { at: at.to_owned(), behind: Behind::Here { pool, writes: false } }
    }

    /// Do an operation.
    pub fn call(
        &self,
        operation: &Operation,
        request: &impl Serialize,
        printer: &Printer,
    ) -> Result<Report> {
        let shown = Shown::new(printer);
        // Requests are plain structs of numbers and texts, which always are JSON.
        let request = serde_json::to_value(request).unwrap_or_default();
        let report = match &self.behind {
            Behind::Server(client) => {
                let mut client = client.lock().unwrap_or_else(PoisonError::into_inner);
                ask(&mut client, &self.at, operation, &request, &shown)
            }
            Behind::Here { pool, .. } => {
                let bar = shown.clone();
                let job = &Job::watched(move |progress| bar.show(progress));
                let (at, cache, live) = (self.at.as_path(), None, None);
                let context = Context { pool, at, folder: at, cache, job, live };
                (operation.run)(&context, request)
            }
        };
        shown.finish();
        report
    }

    /// A volume, to be read and written.
    pub fn volume(&self, name: &str) -> Result<Box<dyn Asked>> {
        let failed = |error| Failure::pool(&self.at, error);
        Ok(match &self.behind {
            Behind::Server(_) => Box::new(RemoteVolume::open(&self.at, name)?),
            Behind::Here { pool, .. } => Box::new(pool.volume(name).map_err(failed)?),
        })
    }

    /// A part of the stream of a snapshot: what it begins with, or the frame from a byte of the
    /// volume on.
    pub fn stream_part(
        &self,
        name: &str,
        base: Option<&str>,
        from: Option<u64>,
    ) -> Result<Vec<u8>> {
        let failed = |error| Failure::pool(&self.at, error);
        let mut bytes = Vec::new();
        match (&self.behind, from) {
            (Behind::Server(_), _) => {
                let volume = RemoteVolume::open(&self.at, name)?;
                bytes = volume.stream_part(base, from).map_err(|e| Failure::volume(name, &e))?;
            }
            (Behind::Here { pool, .. }, None) => {
                pool.stream_header(name, base, &mut bytes).map_err(failed)?;
            }
            (Behind::Here { pool, .. }, Some(from)) => {
                pool.stream_frame(name, base, from, &mut bytes).map_err(failed)?;
            }
        }
        Ok(bytes)
    }

    /// How the pool names blocks, and what finds them by that.
    pub fn stored_blocks(&self) -> Result<(Option<Naming>, Find)> {
        match &self.behind {
            Behind::Here { pool, .. } => {
                let pool = pool.clone();
                let naming = pool.naming();
                let find: Find = Box::new(move |wanted, found| {
                    pool.stored_blocks(wanted, found);
                    Ok(())
                });
                Ok((naming, find))
            }
            Behind::Server(_) => RemoteBlocks::open(&self.at),
        }
    }

    /// Nothing more is to be done.
    pub fn close(self) -> Result<()> {
        match self.behind {
            Behind::Here { pool, writes: true } => {
                pool.close().map_err(|error| Failure::pool(&self.at, error))
            }
            _ => Ok(()),
        }
    }
}

/// Where something is done.
pub enum Place<T> {
    /// By the server that has the pool.
    Server(Door),
    /// Here, with this outcome.
    Here(T),
}

/// The server that has the pool, or else what `here` makes of the pool itself.
pub fn served_or<T>(at: &Path, here: impl Fn() -> Result<T>) -> Result<Place<T>> {
    let started = Instant::now();
    loop {
        if let Some(served) = Door::served(at)? {
            return Ok(Place::Server(served));
        }
        match here() {
            Ok(done) => return Ok(Place::Here(done)),
            Err(failure) if !failure.held_by_a_server || started.elapsed() > STARTING => {
                return Err(failure);
            }
            // It may be about to listen, or about to end.
            Err(_) => sleep(LOOK),
        }
    }
}

/// Find the pool, do one operation, and leave it in order.
pub fn call(
    at: &Path,
    opening: Opening,
    operation: &Operation,
    request: &impl Serialize,
    printer: &Printer,
) -> Result<Report> {
    let door = Door::find(at, opening)?;
    let report = door.call(operation, request, printer)?;
    door.close()?;
    Ok(report)
}

/// A name for a job that no other job has.
fn job_id() -> Result<String> {
    Ok(format!("{:032x}", u128::from_le_bytes(random()?)))
}

/// Who can tell what became of a job that no answer tells of, for this reason if it is known.
fn what_is_known(at: &Path, id: &str, error: Option<&ClientError>) -> String {
    let path = format!("{PREFIX}jobs/{id}");
    // One that says nothing is there, and nobody waits for it once more.
    let is_silent =
        matches!(error, Some(ClientError::Io(e)) if e.kind() == io::ErrorKind::WouldBlock);
    // One that ends may let a client in, and answers none.
    let answers = |mut server: Client| server.ask(Method::Get, &path, &[]).is_ok();
    if is_silent || Client::connect(at).ok().flatten().is_some_and(answers) {
        let socket = at.join(onefold_control::socket::NAME);
        format!("whether it was done is known to the server: {path} on '{}'", socket.display())
    } else {
        "the server has ended: look at the pool to see whether it was done".to_owned()
    }
}

/// Have a server do it, and wait for the end.
fn ask(
    client: &mut Client,
    at: &Path,
    operation: &Operation,
    request: &Value,
    shown: &Shown,
) -> Result<Report> {
    let id = job_id()?;
    let failed =
        |error: ClientError| unanswered(at, &error).hint(what_is_known(at, &id, Some(&error)));
    let body = request.to_string();
    let path = format!("{}?job={id}&wait=0.2", operation.info.path());
    let mut answer = client.ask(Method::Post, &path, body.as_bytes()).map_err(failed)?;
    let (mut begun, mut cancelled) = (false, false);
    interrupt::heed();
    loop {
        let said = answer.json().map_err(failed)?;
        let Ok(view) = serde_json::from_value::<JobView>(said.clone()) else {
            let fault = said.get("error").cloned().map(serde_json::from_value::<Fault>);
            return Err(match fault {
                Some(Ok(fault)) if begun => {
                    Failure::of_fault(fault).hint(what_is_known(at, &id, None))
                }
                Some(Ok(fault)) => Failure::of_fault(fault),
                _ => failed(ClientError::Nonsense(said.to_string())),
            });
        };
        begun = true;
        if let Some(progress) = &view.progress {
            shown.show(progress);
        }
        match (view.state, view.report, view.error) {
            (State::Done, Some(report), _) if cancelled && report.fault.is_some() => {
                return Err(interrupt::failure(&report.notes.join("; ")));
            }
            (State::Done, Some(report), _) => return Ok(report),
            (State::Failed, _, Some(fault)) => return Err(Failure::of_fault(fault)),
            (State::Waiting | State::Running, ..) => {}
            _ => return Err(failed(ClientError::Nonsense(said.to_string()))),
        }
        let method = if interrupt::asked() && !cancelled { Method::Delete } else { Method::Get };
        cancelled |= method == Method::Delete;
        let path = format!("{PREFIX}jobs/{id}?wait=0.5");
        answer = client.ask(method, &path, &[]).map_err(failed)?;
    }
}

/// The line of progress, once there is any.
#[derive(Clone)]
struct Shown {
    bar: Arc<Mutex<Option<Bar>>>,
    printer: Arc<Printer>,
}

impl Shown {
    fn new(printer: &Printer) -> Self {
        Self { bar: Arc::default(), printer: Arc::new(printer.another()) }
    }

    fn show(&self, progress: &Progress) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = bar.get_or_insert_with(|| match progress.unit {
            Unit::Bytes => progress::bytes(&self.printer, &progress.doing, Some(0)),
            Unit::Blocks => progress::counted(&self.printer, &progress.doing, "blocks", None),
        });
        if let Some(total) = progress.total {
            bar.set_length(total);
        }
        bar.set_position(progress.done);
    }

    fn finish(&self) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_pool_that_a_server_is_about_to_have_is_asked_for_again_and_any_other_failure_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let calls = Cell::new(0);
        let held = |held_by_a_server| {
            let mut failure = Failure::bad("it is held");
            failure.held_by_a_server = held_by_a_server;
            failure
        };
        let asked = |failures: u32, held_by_a_server| {
            calls.set(0);
            served_or(folder.path(), || {
                calls.set(calls.get() + 1);
                if calls.get() > failures { Ok(()) } else { Err(held(held_by_a_server)) }
            })
        };
        assert!(matches!(asked(0, false), Ok(Place::Here(()))) && calls.get() == 1);
        assert!(matches!(asked(1, true), Ok(Place::Here(()))) && calls.get() == 2);
        assert!(asked(1, false).is_err() && calls.get() == 1);
    }

    #[test]
    fn progress_that_is_told_is_shown_as_long_as_the_work_goes_on() {
        let shown = Shown::new(&Printer::new(true));
        let counts = || shown.bar.lock().unwrap().as_ref().map(Bar::counts);
        assert_eq!(counts(), None);
        let told = |unit, done, total| Progress { doing: "reading".to_owned(), unit, done, total };
        shown.show(&told(Unit::Blocks, 3, None));
        assert_eq!(counts(), Some((3, None)));
        shown.show(&told(Unit::Blocks, 4, Some(9)));
        assert_eq!(counts(), Some((4, Some(9))));
        shown.finish();
        assert_eq!(counts(), None);
        shown.show(&told(Unit::Bytes, 1, Some(2)));
        assert_eq!(counts(), Some((1, Some(2))));
    }
}
