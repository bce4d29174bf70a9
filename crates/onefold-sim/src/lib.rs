//! Craft: virtual time, events, resources with queues and named random streams.
//!
//! A discrete-event simulation that never looks at the wall clock. The modules in the order in
//! which a model meets them:
//! - [`time`] counts integer nanoseconds;
//! - [`random`] and [`sampling`] draw numbers that are the same on every machine;
//! - [`queue`] orders events by (time, sequence);
//! - [`resource`] makes jobs wait for servers and accounts for the time;
//! - [`pipe`] does the same without a queue in memory, where nobody overtakes;
//! - [`histogram`] counts latencies;
//! - [`mod@run`] drives a model until its work is done, and names what blocks it if it never is;
//! - [`trace`] writes what happened for a trace viewer.

pub mod histogram;
pub mod pipe;
pub mod queue;
pub mod random;
pub mod resource;
pub mod run;
pub mod sampling;
pub mod time;
pub mod trace;

mod elementary;

pub use elementary::{exp, ln};
pub use histogram::Histogram;
pub use pipe::{Load, Pipe, Served, Stations};
pub use queue::EventQueue;
pub use random::{RandomStream, RandomStreams, Ratio, RatioError};
pub use resource::{Discipline, Grant, QueueFull, Resource, ResourceState, Usage, WAITING_LIMIT};
pub use run::{Event, EventLog, Limits, Model, RunEnd, SimError, run};
pub use sampling::{Zipf, ZipfError};
pub use time::{SimSpan, SimTime};
pub use trace::ChromeTrace;
