//! One file per command.
//! Room: onefold.

#[cfg(feature = "archive")]
pub mod archive;
#[cfg(feature = "archive")]
mod archive_add;
#[cfg(feature = "archive")]
mod archive_diff;
#[cfg(feature = "archive")]
mod archive_key;
#[cfg(feature = "mount")]
mod archive_mount;
#[cfg(feature = "archive")]
mod archive_prune;
#[cfg(feature = "archive")]
mod archive_read;
#[cfg(feature = "archive")]
mod archive_restore;
pub mod attach;
pub mod completions;
pub mod demo;
pub mod doctor;
pub mod estimate;
#[cfg(test)]
pub mod heard;
pub mod man;
#[cfg(feature = "models")]
pub mod models;
pub mod pool_addresses;
pub mod pool_check;
pub mod pool_create;
pub mod pool_deduplicate;
pub mod pool_drain;
pub mod pool_reclaim;
pub mod pool_repair;
pub mod pool_scrub;
pub mod pool_set;
pub mod pool_status;
pub mod serve;
pub mod trace_convert;
pub mod trace_info;
pub mod trace_open;
pub mod trace_record;
pub mod volume_allow;
pub mod volume_create;
pub mod volume_delete;
pub mod volume_diff;
pub mod volume_export;
pub mod volume_import;
pub mod volume_limit;
pub mod volume_list;
pub mod volume_prune;
pub mod volume_receive;
pub mod volume_rename;
pub mod volume_resize;
pub mod volume_send;
pub mod volume_send_to;
pub mod volume_snapshot;
pub mod volume_snapshots;
