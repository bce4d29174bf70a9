//! The addresses of a table of operations, and of the jobs that do them.
//! Room: onefold-control.
//!
//! `POST /api/v1/volume/create` does `volume create`; those that change nothing can be asked for
//! with `GET` as well. `/api/v1/jobs/ID` says what became of it, `DELETE` asks it to end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::body;
use crate::http::{Method, Request, Response, decoded};
use crate::jobs::{Asked, Busy, Job, JobView, Jobs, State};
use crate::openapi;
use crate::operation::{OperationInfo, PREFIX};
use crate::peer::Peer;
use crate::report::{Fault, Report};
use crate::server::Handler;

/// How long an answer waits for the end of a job, unless the client says something else.
const WAIT_DEFAULT: Duration = Duration::from_secs(10);
/// And at most.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Operations, and what else is at the addresses beside them.
pub trait Operations: Send + Sync + 'static {
    /// All of them; always the same.
    fn infos(&self) -> Vec<OperationInfo>;

    /// Do the one of this number. `named` is how the client names the store.
    fn run(
        &self,
        number: usize,
        named: Option<&[u8]>,
        request: Value,
        job: &Job,
    ) -> Result<Report, Fault>;

    /// An address that is none of an operation, with what comes behind [`PREFIX`].
    fn other(&self, path: &str, request: &Request) -> Option<Response> {
        let _ = (path, request);
        None
    }
}

/// Answers requests.
pub struct Api {
    operations: Arc<dyn Operations>,
    jobs: Arc<Jobs>,
    /// Whether only what changes nothing is done.
    looks_only: bool,
}

impl Api {
    /// For these operations; with `looks_only` for those that change nothing.
    pub fn new(operations: Arc<dyn Operations>, jobs: Arc<Jobs>, looks_only: bool) -> Self {
        Self { operations, jobs, looks_only }
    }

    /// The answer to a request below `/api`.
    pub fn answer(&self, request: &Request) -> Response {
        let Some(path) = request.path.strip_prefix(PREFIX) else {
            return match request.path.as_str() {
                "/api" | "/api/" => Response::json(200, &json!({ "versions": ["v1"] })),
                path if path.starts_with("/api/") => {
                    Response::error(404, "this server speaks version v1 of the API and no other")
                }
                _ => Response::error(404, "there is nothing here; the API begins at /api/v1/"),
            };
        };
        if let Some(name) = request.asked_twice() {
            return Response::error(400, &format!("the query has '{name}' more than once"));
        }
        if path == "openapi.json" && request.method == Method::Get {
            return Response::json(200, &openapi::document(&self.operations.infos()));
        }
        if path == "jobs" && request.method == Method::Get {
            return Response::json(200, &json!({ "jobs": self.jobs.list() }));
        }
        if let Some(id) = path.strip_prefix("jobs/") {
            return self.job(id, request);
        }
        let infos = self.operations.infos();
        let name = path.replace('/', " ");
        if let Some(number) = infos.iter().position(|info| info.name == name) {
            return self.operation(number, &infos[number], request);
        }
        let other = if self.looks_only { None } else { self.operations.other(path, request) };
        other.unwrap_or_else(|| {
            Response::error(404, "there is no such operation; /api/v1/openapi.json lists all")
        })
    }

    fn job(&self, id: &str, request: &Request) -> Response {
        if request.method == Method::Delete && !self.looks_only {
            self.jobs.cancel(id);
        } else if request.method != Method::Get {
            return Response::error(405, "a job is looked at with GET and ended with DELETE");
        }
        match self.jobs.look(id, wait(request, Duration::ZERO)) {
            Some(view) => shown(&view, 200),
            None => Response::error(404, "no such job is known: it never came, or is long over"),
        }
    }

    fn operation(&self, number: usize, info: &OperationInfo, request: &Request) -> Response {
        let looks = request.method == Method::Get && !info.changes;
        if self.looks_only && info.changes {
            return Response::error(403, "nothing is changed by this address");
        }
        if !looks && request.method != Method::Post {
            return Response::error(405, "this is done with POST");
        }
        let asked = match body::object(&request.body) {
            Ok(asked) => asked,
            Err(why) => return Response::error(400, &why),
        };
        let named = request.header("onefold-pool").and_then(decoded);
        let what = Asked::of(info.name, &request.body);
        let id = request.asked("job").map_or_else(|| self.jobs.next_id(), str::to_owned);
        let operations = Arc::clone(&self.operations);
        let work = Box::new(move |job: &Job| operations.run(number, named.as_deref(), asked, job));
        match self.jobs.begin(&id, what, info.turn, work) {
            Ok(()) => {}
            Err(Busy::Id) => {
                return Response::error(
                    400,
                    "an id has 1 to 64 letters, digits and '-', and is for one request",
                );
            }
            Err(Busy::Full(why)) => return Response::error(503, why).with("Retry-After", "1"),
            Err(Busy::Turn(other, id)) => {
                let why = format!("`{}` has to wait for `{other}`, which is job {id}", info.name);
                return Response::error(409, &why);
            }
        }
        match self.jobs.look(&id, wait(request, WAIT_DEFAULT)) {
            Some(view) => shown(&view, 202),
            None => Response::error(500, "the job was forgotten before it was told"),
        }
    }
}

/// How long a client wants to wait.
fn wait(request: &Request, default: Duration) -> Duration {
    let seconds = request.asked("wait").and_then(|seconds| seconds.parse::<f64>().ok());
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.unwrap_or(default).min(WAIT_MAX)
}

fn shown(view: &JobView, under_way: u16) -> Response {
    let status = match (view.state, &view.error) {
        (State::Failed, Some(fault)) if fault.exit_status == 2 => 422,
        (State::Failed, _) => 500,
        (State::Done, _) => 200,
        (State::Waiting | State::Running, _) => under_way,
    };
    Response::json(status, &json!(view))
}

impl Handler for Api {
    fn handle(&self, request: &Request, _: Peer) -> Response {
        self.answer(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_to_wait_waits_that_long_and_no_longer_than_may_be() {
        let ms = |asked: Option<&str>| {
            let query = asked.map(|wait| ("wait".to_owned(), wait.to_owned()));
            let (method, path) = (Method::Get, String::new());
            let (headers, body, query) = (Vec::new(), Vec::new(), query.into_iter().collect());
            let request = Request { method, path, query, headers, body, keeps: true };
            wait(&request, WAIT_DEFAULT).as_millis()
        };
        for (asked, expected) in [
            (None, 10_000),
            (Some("0"), 0),
            (Some("0.25"), 250),
            (Some("20"), 20_000),
            (Some("21"), 20_000),
            (Some("1e300"), 10_000),
            (Some("-1"), 10_000),
            (Some("NaN"), 10_000),
            (Some("soon"), 10_000),
        ] {
            assert_eq!(ms(asked), expected, "{asked:?}");
        }
    }

    #[test]
    fn a_status_says_whether_all_of_it_some_of_it_or_nothing_was_done() {
        let fault = |exit_status| Some(Fault { exit_status, ..Fault::default() });
        for (state, error, status) in [
            (State::Waiting, None, 202),
            (State::Running, None, 202),
            (State::Done, None, 200),
            (State::Failed, fault(2), 422),
            (State::Failed, fault(1), 500),
        ] {
            let (id, operation) = ("j".to_owned(), "x".to_owned());
            let view = JobView { id, operation, state, progress: None, report: None, error };
            assert_eq!(shown(&view, 202).status, status, "{state:?}");
        }
    }
}
