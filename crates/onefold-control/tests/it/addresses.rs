//! What is at which address, asked of the interface itself, without a server.
//! Room: onefold-control.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use onefold_control::http::{Body, decoded, encoded};
use onefold_control::{
    Api, Fault, Job, Jobs, Method, OperationInfo, Operations, Report, Request, Response, Turn,
};
use serde_json::{Value, json};

/// Three operations; who makes or moves a thing waits until the test lets it end.
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
        let alone = Turn::Refused("things");
        let moves = OperationInfo { turn: alone, ..info("thing move", true) };
        vec![info("thing make", true), info("thing list", false), moves]
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
    let (status, document) = ask(&all, Method::Get, "openapi.json", &[]);
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
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
            "/api/v1/thing/move post",
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
fn what_a_query_has_twice_is_refused() {
    let (_end, ends) = channel();
    let things = Arc::new(Things(Mutex::new(ends)));
    let api = Api::new(things, Arc::new(Jobs::default()), false);
    let query = [("job", "a"), ("wait", "0"), ("job", "a")];
    for (method, path) in
        [(Method::Post, "thing/make"), (Method::Get, "jobs/a"), (Method::Get, "beside")]
    {
        let (status, said) = ask(&api, method, path, &query);
        let why = "the query has 'job' more than once";
        assert_eq!((status, &said["error"]["message"]), (400, &json!(why)), "{path}");
    }
    assert_eq!(ask(&api, Method::Get, "beside", &query[..2]).0, 200);
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

#[test]
fn what_is_no_address_of_this_version_says_where_it_is() {
    let (_end, ends) = channel();
    let things = Arc::new(Things(Mutex::new(ends)));
    let api = Api::new(things, Arc::new(Jobs::default()), false);
    let at = |path: &str| {
        let (query, headers, body) = (Vec::new(), Vec::new(), Vec::new());
        let path = path.to_owned();
        let request = Request { method: Method::Get, path, query, headers, body, keeps: true };
        let response = api.answer(&request);
        let Body::Bytes(body) = response.body else { panic!("an answer that does not end") };
        let said: Value = serde_json::from_slice(&body).unwrap();
        (response.status, said["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!([at("/api").0, at("/api/").0], [200, 200]);
    assert_eq!(
        at("/api/v2/x"),
        (404, "this server speaks version v1 of the API and no other".into())
    );
    assert_eq!(at("/apix"), (404, "there is nothing here; the API begins at /api/v1/".into()));
}

#[test]
fn who_comes_second_or_is_too_many_is_told_so() {
    let (end, ends) = channel();
    let things = Arc::new(Things(Mutex::new(ends)));
    let jobs = Arc::new(Jobs::default());
    let api = Api::new(things, Arc::clone(&jobs), false);
    let go = |path: &str, id: &str| {
        let (status, said) = ask(&api, Method::Post, path, &[("job", id), ("wait", "0")]);
        (status, said["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(go("thing/move", "first").0, 202);
    let why = "`thing move` has to wait for `thing move`, which is job first".to_owned();
    assert_eq!(go("thing/move", "second"), (409, why));
    assert_eq!(ask(&api, Method::Get, "jobs/first", &[]).0, 200, "it is known");
    for number in 1..16 {
        assert_eq!(go("thing/make", &format!("j{number}")).0, 202);
    }
    let why = "too many commands are under way, try again".to_owned();
    assert_eq!(go("thing/make", "j16"), (503, why));
    (0..16).for_each(|_| end.send(()).unwrap());
    assert!(jobs.close(std::time::Duration::from_mins(1)));
    assert_eq!(go("thing/make", "late"), (503, "the server stops".to_owned()));
}

#[test]
fn what_is_asked_for_is_an_object_or_nothing() {
    let (_end, ends) = channel();
    let things = Arc::new(Things(Mutex::new(ends)));
    let api = Api::new(things, Arc::new(Jobs::default()), false);
    let twice = br#"{"a": 1, "a": 1}"#;
    for (body, status) in
        [(&b""[..], 200), (b"{}", 200), (b"[1, 2]", 400), (b"{", 400), (twice, 400)]
    {
        let (query, headers, path) = (Vec::new(), Vec::new(), "/api/v1/thing/list".to_owned());
        let (method, body) = (Method::Post, body.to_vec());
        let request = Request { method, path, query, headers, body, keeps: true };
        assert_eq!(api.answer(&request).status, status);
    }
}
