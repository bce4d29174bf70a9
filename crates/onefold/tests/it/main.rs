//! The real binary, with real clients from the distribution. A client that is missing is a
//! failure, told by name; loop devices, FUSE and mounts need root.
//! Room: onefold.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod activation;
mod archive;
mod archive_cache;
#[cfg(feature = "s3")]
mod archive_s3;
mod array;
mod attach;
mod bounds;
mod broken_off;
mod changed_since;
mod clients;
mod command_line;
mod completion;
mod control;
mod crash;
mod damage;
mod deduplicate;
mod demo;
mod estimate;
mod file_system;
mod harness;
mod images;
mod interrupted;
#[cfg(feature = "mount")]
mod lesser_file_systems;
mod machines;
mod memory;
mod metrics;
#[cfg(feature = "mount")]
mod mount;
mod page;
mod pool_cache;
mod pool_cache_life;
mod pool_tier;
mod private;
mod reconnect;
mod record;
mod reproduce;
mod rights;
#[cfg(feature = "s3")]
#[path = "../../../onefold-objects/tests/it/server.rs"]
mod s3_server;
#[cfg(feature = "models")]
mod scrambler;
mod scrub;
mod serving;
mod session;
mod settings;
mod slow_requests;
mod small_disk;
mod snapshots;
mod space;
mod ssd;
mod ssd_idle;
mod ssd_run;
mod streams;
mod tls;
mod top;
mod trace;
mod trace_record;
mod transfer;
mod watch;
