//! What the thread ahead hands over.
//! Room: onefold-flash.

use std::any::Any;

use crate::controller::Placement;
use crate::ftl::{Ftl, FtlError};
use crate::nand::Nand;
use crate::run::ahead::recorder::Step;
use crate::run::error::RunError;
use crate::run::request::HostRequest;
use crate::run::settled::Windows;

/// Requests that go from thread to thread together: the other side wakes up once for them.
pub(super) const BATCH: usize = 1024;
/// What one thread says to the other: the next requests, or what it panicked with.
pub(super) type Message<N, P> = Result<Batch<N, P>, Box<dyn Any + Send>>;

/// Requests in their order, and what was decided on them.
pub(super) struct Batch<N: Nand, P> {
    pub requests: Vec<HostRequest>,
    /// What drawing the request after them failed of.
    pub failure: Option<RunError>,
    pub decisions: Decisions,
    /// TRIMs so far of which a part was beyond the drive.
    pub clipped_trims: u64,
    /// Whether no request follows.
    pub last: bool,
    /// The FTL, where nothing more is decided ahead of time.
    pub back: Option<Box<Decider<N, P>>>,
}

/// What was decided on requests one after the other.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// The number of the first of them.
    pub first: u64,
    /// How many they are.
    pub requests: usize,
    /// What the FTL asked for, for all of them.
    pub steps: Vec<Step>,
    /// What it failed of in the request after them.
    pub failure: Option<FtlError>,
}

/// What the run is done with, for the thread ahead to fill again: memory that no core has touched
/// lately costs more than what is written to it.
pub(super) enum Spent {
    Requests(Vec<HostRequest>),
    Steps(Vec<Step>),
}

/// The FTL, and what goes with its decisions.
pub(super) struct Decider<N: Nand, P> {
    pub ftl: Ftl<N, P>,
    pub windows: Windows,
    pub placement: Placement,
    /// Pages written so far: numbers for new content.
    pub fresh: u64,
}
