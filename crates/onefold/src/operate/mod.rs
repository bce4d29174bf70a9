//! Operations: what can be done with a pool, whether a server has it or not.
//! Room: onefold.
//!
//! An operation is one function over an open pool. Its file in `commands/` has its request, that
//! function and the command; [`table`] lists all of them, and adding one is adding a row there.
//! [`door`] decides who calls it: this process, or the server that has the pool.

pub mod data;
pub mod door;
pub mod live;
pub mod remote_blocks;
pub mod remote_volume;
pub mod served;
pub mod table;

use std::path::Path;

use onefold_control::{Fault, Job, OperationInfo, Report};
use onefold_pool::{Pool, PoolError};
use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::pool_cache::ServedCache;
use live::Live;

/// What an operation works on.
pub struct Context<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// Its folder, as whoever asks names it.
    pub at: &'a Path,
    /// Its folder, for its files.
    pub folder: &'a Path,
    /// Its cache, if it has one and is served.
    pub cache: Option<&'a ServedCache>,
    /// Where progress goes.
    pub job: &'a Job,
    /// What only a server has.
    pub live: Option<&'a Live>,
}

impl Context<'_> {
    /// A pool's error with its name.
    pub fn failed(&self, error: PoolError) -> Failure {
        Failure::pool(self.at, error)
    }
}

/// An operation.
#[derive(Clone, Copy)]
pub struct Operation {
    /// What everybody has to know of it.
    pub info: OperationInfo,
    /// What does it.
    pub run: fn(&Context<'_>, Value) -> Result<Report>,
}

/// A request as its operation wants it.
pub fn read<R: serde::de::DeserializeOwned>(request: Value) -> Result<R> {
    let read = serde_json::from_value(request);
    read.map_err(|error| Failure::nothing_done(format!("the request makes no sense: {error}")))
}

impl Operation {
    /// Do it, and tell a failure as one that can travel.
    pub fn carry_out(
        &self,
        context: &Context<'_>,
        request: Value,
    ) -> std::result::Result<Report, Fault> {
        (self.run)(context, request).map_err(Failure::into_fault)
    }
}
