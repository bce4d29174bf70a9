//! Folders of objects as their users see them: the contracts, archives on them, lost requests,
//! locks.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod archives;
mod cache;
mod crash;
mod damaged_on_the_way;
mod folders;
mod locks;
mod parts;
mod preceded;
mod requests;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod server;
mod support;
#[path = "../../../onefold-archive/tests/it/versions.rs"]
mod versions;
