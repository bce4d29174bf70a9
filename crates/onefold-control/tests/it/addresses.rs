//! What is at which address, asked of the interface itself, without a server.
//! Room: onefold-control.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use onefold_control::http::{Body, decoded, encoded};
use onefold_control::{
    Api, Fault, Job, Jobs, Method, OperationInfo, Operations, Report, Request, Response, Turn,
};
use serde_json::{Value, json};

/// Two operations; who makes a thing waits until the test lets it end.
struct Things(Mutex<Receiver<()>>);

impl Operations for Things {
    fn infos(&self) -> Vec<OperationInfo> {
        let info = |name, changes| OperationInfo {
            name,
            summary: "Things",
            changes,
            turn: Turn::None,
            request: schemars::SchemaGenerator::subschema_for::<()>,
            result: schemars::SchemaGenerator::subschema_for::<()>,
        };
        vec![info("thing make", true), info("thing list", false)]
    }

    fn run(&self, number: usize, _: Option<&[u8]>, _: Value, job: &Job) -> Result<Report, Fault> {
        if number == 1 {
            return Ok(Report::note("listed"));
        }
        self.0.lock().unwrap().recv().unwrap();
        Ok(Report::note(if job.is_cancelled() { "ended early" } else { "made" }))
    }

    fn other(&self, path: &str, _: &Request) -> Option<Response> {
        (path == "beside").then(|| Response::json(200, &json!("beside")))
    }
}

/// The status, and what is said.
fn ask(api: &Api, method: Method, path: &str, query: &[(&str, &str)]) -> (u16, Value) {
    let query = query.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let path = format!("/api/v1/{path}");
    let (headers, body) = (Vec::new(), Vec::new());
    let response = api.answer(&Request { method, path, query, headers, body, keeps: true });
    let Body::Bytes(body) = response.body else { panic!("an answer that does not end") };
    (response.status, serde_json::from_slice(&body).unwrap())
}

#[test]
fn a_job_is_ended_by_who_may_change_something_and_by_no_other() {
    for cancels in [false, true] {
        let (end, ends) = channel();
        let things = Arc::new(Things(Mutex::new(ends)));
        let jobs = Arc::new(Jobs::default());
        let [all, looks] =
            [false, true].map(|looks| Api::new(Arc::clone(&things) as _, Arc::clone(&jobs), looks));
        let (status, _) = ask(&all, Method::Post, "thing/make", &[("job", "j"), ("wait", "0")]);
        assert_eq!(status, 202);
        assert_eq!(ask(&looks, Method::Delete, "jobs/j", &[]).0, 405);
        assert_eq!(ask(&all, Method::Post, "jobs/j", &[]).0, 405);
        assert_eq!(ask(&all, Method::Delete, "jobs/other", &[]).0, 404);
        if cancels {
            assert_eq!(ask(&all, Method::Delete, "jobs/j", &[]).1["id"], "j");
        }
        end.send(()).unwrap();
        let (status, view) = ask(&looks, Method::Get, "jobs/j", &[("wait", "20")]);
        let note = if cancels { "ended early" } else { "made" };
        assert_eq!((status, &view["report"]["notes"][0]), (200, &json!(note)), "{view}");
    }
}

#[test]
fn every_address_is_in_the_document_and_answers() {
    let (end, ends) = channel();
    end.send(()).unwrap();
    let things = Arc::new(Things(Mutex::new(ends)));
    let [all, looks] = [false, true]
        .map(|looks| Api::new(Arc::clone(&things) as _, Arc::new(Jobs::default()), looks));
    let (_, document) = ask(&all, Method::Get, "openapi.json", &[]);
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let mut methods = Vec::new();
    for path in &paths {
        let of_path = document["paths"][path.as_str()].as_object().unwrap();
        let known = of_path.keys().filter(|key| *key != "parameters");
        methods.push(format!("{path} {}", known.cloned().collect::<Vec<_>>().join(" ")));
    }
    methods.sort();
    assert_eq!(
        methods,
        [
            "/api/v1/jobs get",
            "/api/v1/jobs/{id} get delete",
            "/api/v1/thing/list get post",
            "/api/v1/thing/make post",
        ]
    );
    let statuses = |api| {
        let status = |method, path| ask(api, method, path, &[]).0;
        [
            status(Method::Post, "thing/make"),
            status(Method::Get, "thing/make"),
            status(Method::Get, "thing/list"),
            status(Method::Post, "thing/list"),
            status(Method::Put, "thing/list"),
            status(Method::Get, "jobs"),
            status(Method::Get, "jobs/none"),
            status(Method::Get, "thing"),
            status(Method::Get, "beside"),
        ]
    };
    assert_eq!(statuses(&all), [200, 405, 200, 200, 405, 200, 404, 404, 200]);
    // What only looks has nothing beside its operations, as that may change something.
    assert_eq!(statuses(&looks), [403, 403, 200, 200, 405, 200, 404, 404, 404]);
}

#[test]
fn any_bytes_are_part_of_an_address() {
    assert_eq!(encoded(b"a-Z.0_~ /%+\xE9"), "a-Z.0_~%20%2F%25%2B%E9");
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(decoded(&encoded(&all)), Some(all));
    for none in ["%", "%4", "%g0", "%0g"] {
        assert_eq!(decoded(none), None, "{none}");
    }
}
