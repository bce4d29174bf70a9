//! Every experiment at quick settings: fresh page, complete tables, same results on any threads.
//! Room: onefold-lab.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claims;
mod experiments;
mod outcomes;
mod page;
mod plc_cache;
mod reproduction;
mod searches;
