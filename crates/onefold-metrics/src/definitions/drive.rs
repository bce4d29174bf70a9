//! An emulated drive.
//! Room: onefold-metrics.

use onefold_flash::drive::SavedHealth;

use super::{point, rows};
use crate::definition::{Definition, Kind};
use crate::sample::Sample;

fn drive(sample: &Sample) -> Option<&SavedHealth> {
    sample.drive.as_ref()
}

/// Of the drive, since it was made.
pub static METRICS: &[Definition] = rows! { drive;
    Counter "onefold_drive_host_reads_total" "Read requests" => |drive| drive.host_reads;
    Counter "onefold_drive_host_read_bytes_total"
        "Bytes read by hosts" => |drive| drive.host_bytes_read;
    Counter "onefold_drive_host_writes_total" "Write requests" => |drive| drive.host_writes;
    Counter "onefold_drive_host_written_bytes_total"
        "Bytes written by hosts" => |drive| drive.host_bytes_written;
    Counter "onefold_drive_host_flushes_total" "Flushes" => |drive| drive.host_flushes;
    Counter "onefold_drive_host_errors_total"
        "Requests answered with an error" => |drive| drive.host_errors;
    Counter "onefold_drive_pages_written_total"
        "Pages that hosts wrote, whole or in part" => |drive| drive.pages_written;
    Counter "onefold_drive_pages_trimmed_total"
        "Pages that hosts trimmed" => |drive| drive.pages_trimmed;
    Counter "onefold_drive_pages_shared_total"
        "Pages shared instead of programmed" => |drive| drive.inline_pages;
    Counter "onefold_drive_pages_merged_total"
        "Pages merged into others later" => |drive| drive.offline_pages;
    Gauge "onefold_drive_logical_pages"
        "Logical pages that hosts can address" => |drive| drive.state.logical_pages;
    Gauge "onefold_drive_mapped_pages"
        "Logical pages with data" => |drive| drive.state.mapped_pages;
    Gauge "onefold_drive_data_pages"
        "Physical pages that hold them" => |drive| drive.state.data_pages;
    Gauge "onefold_drive_shared_pages"
        "Physical pages of these that several logical ones share"
        => |drive| drive.state.shared_pages;
    Gauge "onefold_drive_bad_blocks" "Blocks out of use" => |drive| drive.state.bad_blocks;
    Counter "onefold_drive_power_cycles_total"
        "Times that it was opened" => |drive| drive.power_cycles;
};

/// Of the flash.
pub static LABELLED: &[Definition] = &[Definition {
    name: "onefold_drive_operations_total",
    kind: Kind::Counter,
    help: "Operations of the flash, by kind and cause",
    labels: &["kind", "cause"],
    status: None,
    read: |sample| {
        let operations = drive(sample).into_iter().flat_map(|drive| &drive.operations);
        let of = |(kind, causes): (&String, &std::collections::BTreeMap<String, u64>)| {
            let point = |(cause, &count): (&String, &u64)| point([kind, cause], count);
            causes.iter().map(point).collect::<Vec<_>>()
        };
        operations.flat_map(of).collect()
    },
}];
