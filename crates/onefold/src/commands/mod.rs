//! One file per command.
//! Room: onefold.

pub mod archive;
mod archive_add;
mod archive_read;
mod archive_restore;
mod array_report;
pub mod array_run;
pub mod array_spec;
pub mod cache;
mod cache_amplification;
mod cache_trace;
pub mod completions;
pub mod estimate;
pub mod man;
pub mod pool_check;
pub mod pool_create;
pub mod pool_reclaim;
pub mod pool_status;
pub mod reproduce;
pub mod scrambler_infer;
pub mod scrambler_make;
pub mod scrambler_presets;
pub mod serve;
mod ssd_report;
pub mod ssd_run;
pub mod ssd_serve;
pub mod ssd_smart;
pub mod ssd_spec;
pub mod trace_convert;
pub mod trace_info;
pub mod trace_open;
pub mod volume_create;
pub mod volume_delete;
pub mod volume_export;
pub mod volume_import;
pub mod volume_list;
pub mod volume_resize;
