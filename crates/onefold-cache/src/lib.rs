//! Room: replacement and admission policies for SSD read caches, and their simulator.
//!
//! A policy decides what a fast device keeps of a slow one, container by container. The modules in
//! the order in which a request meets them:
//! - [`policy`]: the contracts, eviction and admission below, [`Policy`] above;
//! - [`registry`]: every policy by name, with its settings;
//! - [`cache`]: the two put together, over [`objects`], an index and [`counts`];
//! - [`eviction`] and [`admission`]: one policy per file;
//! - [`state`]: what is saved for a warm restart.

pub mod admission;
pub mod bound;
pub mod cache;
pub mod counts;
pub mod eviction;
pub mod forecast;
pub mod ghost;
pub mod objects;
pub mod options;
mod origin;
mod parts;
pub mod policy;
pub mod registry;
pub mod score;
pub mod simulate;
pub mod sketch;
pub mod spec;
pub mod state;
mod steady;
pub mod suite;
pub mod tier;
pub mod trace;
pub mod workload;

mod index;
mod prefetch;

pub use cache::{Cache, Capacity};
pub use index::hash_of;
pub use options::{OptionError, OptionInfo};
pub use policy::{Access, Counters, Decision, Outcome, Policy};
pub use registry::{Choice, POLICIES, make_online};
pub use simulate::{Outcomes, Plan, simulate};
pub use spec::{Spec, SpecError};
pub use state::{State, StateError};
