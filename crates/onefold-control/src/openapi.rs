//! The document that describes a table of operations to programs, in `OpenAPI` 3.1.
//! Room: onefold-control.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::jobs::JobView;
use crate::operation::{OperationInfo, PREFIX};

const ABOUT: &str = "A running server answers here on the socket `control` in the folder of its \
    pool, to the pool's owner, to root and to its group. Every operation is a job: a client that \
    names it with `?job=ID` can ask later what became of it, and sending it twice does it once. \
    Sizes are bytes.";

/// The document.
pub fn document(operations: &[OperationInfo]) -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    for operation in operations {
        paths.insert(operation.path(), path(operation, &mut schemas));
    }
    let job = schemas.subschema_for::<JobView>();
    let id =
        json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } });
    let answer = |what: &str| {
        json!({ "200": { "description": what, "content": content(&json!(job)) },
            "404": { "description": "no such job is known" } })
    };
    paths.insert(
        format!("{PREFIX}jobs/{{id}}"),
        json!({
            "parameters": [id],
            "get": { "summary": "What became of a job", "parameters": [wait()],
                "responses": answer("the job, once it has ended or the wait is over") },
            "delete": { "summary": "Ask a job to end between two steps",
                "responses": answer("the job as it is now") },
        }),
    );
    let listed = json!({ "200": { "description": "the jobs, without what came of them" } });
    let list = json!({ "summary": "All jobs that are known", "responses": listed });
    paths.insert(format!("{PREFIX}jobs"), json!({ "get": list }));
    json!({
        "openapi": "3.1.0",
        "info": { "title": "onefold", "version": "v1", "description": ABOUT },
        "paths": paths,
        "components": { "schemas": schemas.take_definitions(true) },
    })
}

fn wait() -> Value {
    json!({ "name": "wait", "in": "query", "schema": { "type": "number" },
        "description": "seconds to wait for the end of the job, at most 20" })
}

fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn path(operation: &OperationInfo, schemas: &mut SchemaGenerator) -> Value {
    let request = json!((operation.request)(schemas));
    let result = json!((operation.result)(schemas));
    let job = json!(schemas.subschema_for::<JobView>());
    let done = json!({ "allOf": [job], "properties": {
        "report": { "properties": { "result": result } } } });
    let id = json!({ "name": "job", "in": "query", "schema": { "type": "string" },
        "description": "a name for the job, of letters, digits and '-'" });
    let does = json!({
        "summary": operation.summary,
        "operationId": operation.name.replace(' ', "_"),
        "parameters": [id, wait()],
        "requestBody": { "content": content(&request) },
        "responses": {
            "200": { "description": "done", "content": content(&done) },
            "202": { "description": "under way: ask for the job", "content": content(&job) },
            "409": { "description": "another job has to end first" },
            "422": { "description": "nothing was done", "content": content(&job) },
            "500": { "description": "not all of it was done", "content": content(&job) },
        },
    });
    if operation.changes {
        return json!({ "post": does });
    }
    let looks = json!({
        "summary": operation.summary,
        "responses": { "200": { "description": "done", "content": content(&done) } },
    });
    json!({ "get": looks, "post": does })
}
