//! Fingerprint runs: all fingerprints of a pool with their places, sorted, on disk.
//! Room: onefold-pool.
//! Source: docs/pool-format.md, "Fingerprint runs"; sorted runs that are merged by levels as in
//! [lsm-96].
//! Invariant: runs are hints, as the index is. What they say is verified before anything is
//! shared; what they lack is read from the containers' directories again.

pub mod container_set;
pub mod filter;
pub mod lookup;
pub mod lookup_builder;
pub mod merge;
pub mod part_maker;
pub mod reader;
pub mod set;
pub mod writer;
