//! Room: how a running server is asked and told, beside what it serves.
//!
//! [`socket`] is the socket in a store's folder, [`http`] the little of HTTP/1.1 that is spoken on
//! it, [`server`] answers in threads of its own with bounded places and times, [`guard`] keeps an
//! address for those who may see it, [`jobs`] know what
//! became of a command whose client is gone, [`api`] turns a table of operations into addresses,
//! and [`openapi`] into the document that describes them. What the operations do is the door's.

pub mod api;
mod body;
pub mod client;
pub mod guard;
pub mod http;
pub mod jobs;
pub mod openapi;
pub mod operation;
pub mod peer;
pub mod report;
pub mod server;
pub mod socket;

pub use api::{Api, Operations};
pub use client::{Answer, Client, ClientError, Credentials, client_tls};
pub use guard::{Access, Guarded, Token};
pub use http::{Method, Request, Response};
pub use jobs::{Job, Jobs, Progress, Turn, Unit};
pub use operation::{OperationInfo, PREFIX};
pub use peer::{Admission, Peer};
pub use report::{Fault, Report};
pub use server::{Handler, Limits, Server, TlsSettings};
