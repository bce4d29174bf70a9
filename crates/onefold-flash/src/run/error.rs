//! Why a run did not end well.
//! Room: onefold-flash.

use onefold_sim::SimError;
use thiserror::Error;

use crate::dedup::PolicyError;
use crate::ftl::FtlError;
use crate::spec::{DriveSpec, SpecError};

/// Why a run did not end well.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The specification makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The drive cannot be made.
    #[error("the drive cannot be made: {0}")]
    Format(FtlError),
    /// The workload makes no sense.
    #[error("workload: {0}")]
    Workload(String),
    /// A trace cannot be read.
    #[error("{0}")]
    Trace(String),
    /// A trace reads or writes more than the drive has.
    #[error(
        "request {number} ends at byte {last}, and the drive at {drive}: expected a larger drive, \
         as with geometry.blocks_per_plane={blocks}, or workload.wrap_addresses=true"
    )]
    BeyondDrive {
        /// The request, from 0.
        number: u64,
        /// The byte after its last one.
        last: u64,
        /// Bytes of the drive.
        drive: u64,
        /// Blocks of a plane with which the drive would be large enough.
        blocks: u128,
    },
    /// A request of a trace is longer than any device takes, or than this one is.
    #[error("request {number} has {pages} pages: expected at most {limit}")]
    TooLong {
        /// The request, from 0.
        number: u64,
        /// Its pages.
        pages: u64,
        /// The most.
        limit: u64,
    },
    /// A request comes later than times can be counted on from.
    #[error(
        "request {number} comes {ns} ns after the start: expected at most {} ns, which are 292 \
         years",
        onefold_sim::SimTime::LAST_ARRIVAL.ns()
    )]
    TooLate {
        /// The request, from 0.
        number: u64,
        /// When it comes.
        ns: u64,
    },
    /// No policy has this name, or its options are wrong.
    #[error("dedup: {0}")]
    Dedup(#[from] PolicyError),
    /// Writes cannot wait to be packed.
    #[error(
        "ftl.compression, or a map of codewords, packs several into a flash page, so writes wait \
         for each other in the controller's memory, and controller.write_buffer = \"through\" \
         answers none before it is in the flash: expected \"back\""
    )]
    PackingThrough,
    /// A part of a larger model is asked in pages.
    #[error(
        "dedup.policy = \"codeword\": a drive that is a part of a larger model is asked in whole \
         pages; expected another policy"
    )]
    CodewordsAttached,
    /// The controller's memory is too small for its tables.
    #[error("controller.dram_bytes = {budget}: {list} need {needed} bytes{smaller}")]
    Dram {
        /// What there is.
        budget: u64,
        /// What is needed.
        needed: u64,
        /// For what.
        list: String,
        /// The options that size tables of the policy, as a part of the sentence, or nothing.
        smaller: String,
    },
    /// The FTL failed a request.
    #[error("request {request}: {error}")]
    Ftl {
        /// The request, from 0.
        request: u64,
        /// Why.
        error: FtlError,
    },
    /// The FTL failed in an idle moment.
    #[error("background work: {error}")]
    Idle {
        /// Why.
        error: FtlError,
    },
    /// Requests are left and nothing will ever happen again.
    #[error(transparent)]
    Stalled(SimError),
    /// What is told about requests could not be written.
    #[error("{0}")]
    Log(String),
}

impl RunError {
    /// The assignment of a key with which the run would not have been refused, where there is one.
    pub fn remedy(&self, spec: &DriveSpec) -> Option<String> {
        match self {
            Self::Dram { needed, .. } => {
                Some(format!("controller.dram_bytes={}", needed.next_multiple_of(1 << 20)))
            }
            Self::Format(FtlError::NoRoom { usable, own, .. }) => {
                let left = usable.checked_sub(u64::from(*own)).filter(|&left| left > 0)?;
                let share = f64::from(spec.geometry.pages()) / left as f64 - 1.0;
                Some(format!("ftl.over_provisioning={:.4}", (share * 1e4).ceil() / 1e4))
            }
            Self::PackingThrough => Some("controller.write_buffer=back".to_owned()),
            Self::Dedup(PolicyError::Packed { set, .. }) => set.clone(),
            Self::Dedup(PolicyError::Impossible { .. }) => {
                Some("media.scrambler=lba-prbs31".to_owned())
            }
            _ => None,
        }
    }
}
