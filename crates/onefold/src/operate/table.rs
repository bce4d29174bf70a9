//! All operations, one row each.
//! Room: onefold.
//!
//! A new one: a request type and a function in its file in `commands/`, and a row here. The server,
//! the document of `onefold api` and the door find it by that.

use onefold_control::{OperationInfo, Turn};
use schemars::SchemaGenerator;

use super::{Operation, read};
use crate::commands as c;

/// Volumes are changed one after another.
const VOLUMES: Turn = Turn::Waits("volumes");
/// What moves data about is done one at a time.
const SPACE: Turn = Turn::Refused("space");

/// A row: the name, who waits, whether it changes anything, a line about it, its request, its
/// result, its function.
macro_rules! operation {
    ($name:literal, $changes:literal, $turn:expr, $summary:literal,
        $request:ty => $result:ty, $run:path) => {
        Operation {
            info: OperationInfo {
                name: $name,
                summary: $summary,
                changes: $changes,
                turn: $turn,
                request: SchemaGenerator::subschema_for::<$request>,
                result: SchemaGenerator::subschema_for::<$result>,
            },
            run: |context, request| $run(context, &read::<$request>(request)?),
        }
    };
}

/// What programs get where there is nothing to tell.
type Nothing = ();

/// Every operation.
pub static OPERATIONS: &[Operation] = &[
    VOLUME_CREATE,
    VOLUME_LIST,
    VOLUME_RESIZE,
    VOLUME_RENAME,
    VOLUME_ALLOW,
    VOLUME_DENY,
    VOLUME_LIMIT,
    VOLUME_DELETE,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOTS,
    VOLUME_CLONE,
    VOLUME_ROLLBACK,
    VOLUME_HOLD,
    VOLUME_RELEASE,
    VOLUME_PRUNE,
    VOLUME_DIFF,
    VOLUME_ADOPT,
    POOL_STATUS,
    POOL_RECLAIM,
    POOL_DEDUPLICATE,
    POOL_SCRUB,
    POOL_CHECK,
    POOL_SET,
    POOL_ADDRESSES,
    POOL_DRAIN,
];

/// The document that describes them.
pub fn document() -> serde_json::Value {
    let infos: Vec<OperationInfo> = OPERATIONS.iter().map(|operation| operation.info).collect();
    onefold_control::openapi::document(&infos)
}

/// Make a volume.
pub const VOLUME_CREATE: Operation = operation!(
    "volume create", true, VOLUMES, "Make a thin volume",
    c::volume_create::Request => Nothing, c::volume_create::operate);

/// List volumes.
pub const VOLUME_LIST: Operation = operation!(
    "volume list", false, Turn::None, "List volumes",
    c::volume_list::Request => c::volume_list::ListJson, c::volume_list::operate);

/// Resize a volume.
pub const VOLUME_RESIZE: Operation = operation!(
    "volume resize", true, VOLUMES, "Grow or shrink a volume",
    c::volume_resize::Request => Nothing, c::volume_resize::operate);

/// Rename a volume.
pub const VOLUME_RENAME: Operation = operation!(
    "volume rename", true, VOLUMES, "Give a volume another name",
    c::volume_rename::Request => Nothing, c::volume_rename::operate);

/// Let a client see a volume.
pub const VOLUME_ALLOW: Operation = operation!(
    "volume allow", true, VOLUMES, "Let a client see a volume over TLS, by its certificate's name",
    c::volume_allow::AllowRequest => Nothing, c::volume_allow::operate_allow);

/// Let a client not see a volume.
pub const VOLUME_DENY: Operation = operation!(
    "volume deny", true, VOLUMES, "Let a client see a volume over TLS no more",
    c::volume_allow::DenyRequest => Nothing, c::volume_allow::operate_deny);

/// Limit a volume.
pub const VOLUME_LIMIT: Operation = operation!(
    "volume limit", true, VOLUMES, "Limit what is asked of a volume in a second",
    c::volume_limit::Request => Nothing, c::volume_limit::operate);

/// Delete a volume.
pub const VOLUME_DELETE: Operation = operation!(
    "volume delete", true, VOLUMES, "Delete a volume or snapshot, and give back what only it held",
    c::volume_delete::Request => Nothing, c::volume_delete::operate);

/// Make a snapshot.
pub const VOLUME_SNAPSHOT: Operation = operation!(
    "volume snapshot", true, VOLUMES, "Keep what a volume is now under a name",
    c::volume_snapshot::SnapshotRequest => Nothing, c::volume_snapshot::operate_snapshot);

/// List snapshots.
pub const VOLUME_SNAPSHOTS: Operation = operation!(
    "volume snapshots", false, Turn::None, "List snapshots",
    c::volume_snapshots::Request => c::volume_snapshots::SnapshotsJson,
    c::volume_snapshots::operate);

/// Make a clone.
pub const VOLUME_CLONE: Operation = operation!(
    "volume clone", true, VOLUMES, "Make a volume that begins as what a snapshot is",
    c::volume_snapshot::CloneRequest => Nothing, c::volume_snapshot::operate_clone);

/// Roll back.
pub const VOLUME_ROLLBACK: Operation = operation!(
    "volume rollback", true, VOLUMES, "Let a volume be what its snapshot is",
    c::volume_snapshot::RollbackRequest => Nothing, c::volume_snapshot::operate_rollback);

/// Hold a snapshot.
pub const VOLUME_HOLD: Operation = operation!(
    "volume hold", true, VOLUMES, "Hold a snapshot, so that it cannot be deleted",
    c::volume_snapshot::HoldRequest => Nothing, c::volume_snapshot::operate_hold);

/// Release a snapshot.
pub const VOLUME_RELEASE: Operation = operation!(
    "volume release", true, VOLUMES, "Release a snapshot that is held",
    c::volume_snapshot::HoldRequest => Nothing, c::volume_snapshot::operate_release);

/// Delete snapshots by rules.
pub const VOLUME_PRUNE: Operation = operation!(
    "volume prune", true, VOLUMES, "Delete the snapshots of a volume that no rule keeps",
    c::volume_prune::Request => c::volume_prune::PruneJson, c::volume_prune::operate);

/// Compare two snapshots.
pub const VOLUME_DIFF: Operation = operation!(
    "volume diff", false, Turn::None, "List where two snapshots or volumes differ",
    c::volume_diff::Request => c::volume_diff::DiffJson, c::volume_diff::operate);

/// Let a volume be what was received.
pub const VOLUME_ADOPT: Operation = operation!(
    "volume adopt", true, VOLUMES, "Let a volume be what was received into a clone of its snapshot",
    c::volume_receive::AdoptRequest => Nothing, c::volume_receive::operate_adopt);

/// What the pool holds.
pub const POOL_STATUS: Operation = operation!(
    "pool status", false, Turn::None, "What the pool holds, saves and uses",
    c::pool_status::Request => crate::status_view::StatusJson, c::pool_status::operate);

/// Win space back.
pub const POOL_RECLAIM: Operation = operation!(
    "pool reclaim", true, SPACE, "Win the space of overwritten data back, now",
    c::pool_reclaim::Request => Nothing, c::pool_reclaim::operate);

/// Find copies.
pub const POOL_DEDUPLICATE: Operation = operation!(
    "pool deduplicate", true, SPACE, "Find all that is stored more than once, now",
    c::pool_deduplicate::Request => Nothing, c::pool_deduplicate::operate);

/// Verify what is stored.
pub const POOL_SCRUB: Operation = operation!(
    "pool scrub", true, Turn::Refused("scrub"), "Read and verify every stored record",
    c::pool_scrub::Request => c::pool_scrub::ScrubJson, c::pool_scrub::operate);

/// Check all of it.
pub const POOL_CHECK: Operation = operation!(
    "pool check", true, Turn::Refused("check"), "Verify everything, as it is at one moment",
    c::pool_check::Request => c::pool_check::CheckJson, c::pool_check::operate);

/// Set limits.
pub const POOL_SET: Operation = operation!(
    "pool set", true, Turn::Waits("settings"), "Set limits of the running server",
    c::pool_set::Request => Nothing, c::pool_set::operate);

/// Where it listens.
pub const POOL_ADDRESSES: Operation = operation!(
    "pool addresses", false, Turn::None, "Where the server listens for clients",
    c::pool_addresses::Request => c::pool_addresses::AddressesJson, c::pool_addresses::operate);

/// Stop the server.
pub const POOL_DRAIN: Operation = operation!(
    "pool drain", true, Turn::None, "Answer what was received, flush, and stop the server",
    c::pool_drain::Request => Nothing, c::pool_drain::operate);
