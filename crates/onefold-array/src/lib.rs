//! Room: a whole data reduction server in virtual time.
//!
//! What it is made of is a [`spec::ServerSpec`]: cores, memory, links, engines, drives, and where
//! each piece of work is done. What it decides, chunk by chunk, is in [`decide`], without time.
//! [`mod@run`] puts both behind a load and says what came of it, and what stops it.
//!
//! Source: [ajdari-talk] for CAL'17, CIDR, CIDR+ and FIDR; docs/array.md says what is published,
//! what is derived and what is assumed.

pub mod decide;
mod price;
pub mod run;
pub mod size;
pub mod spec;

pub use run::{Outcome, Report, RunError, RunOptions, run, simulate};
pub use spec::{ServerSpec, SpecBuilder};
