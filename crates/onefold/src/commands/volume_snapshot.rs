//! `onefold volume snapshot`, `clone`, `rollback`, `hold` and `release`: what a volume was once.
//! Room: onefold.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use onefold_block::{BlockDevice as _, ByteSize};
use onefold_control::Report;
use onefold_pool::{Budgets, SnapshotOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::volume_delete::{clients_of, confirmed};
use crate::args::{VolumeCloneArgs, VolumeHoldArgs, VolumeRollbackArgs, VolumeSnapshotArgs};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::operate::door::{self, Opening};
use crate::operate::{Context, Operation, table};
use crate::output::Printer;
use crate::random::random;

/// Map pages looked at between two looks at whether all of a deletion is done, in bytes.
const DELETION_BYTES: u64 = 16 << 20;

/// A snapshot to make.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotRequest {
    /// Volume and name of the snapshot, such as main@monday.
    pub name: String,
    /// It cannot be deleted before it is released.
    #[serde(default)]
    pub hold: bool,
    /// Of a copy of another pool's snapshot: that one's identity, 16 hexadecimal digits.
    #[serde(default)]
    pub identity: Option<String>,
    /// Of a copy of another pool's snapshot: when that was made, in seconds since 1970.
    #[serde(default)]
    pub created_s: Option<u64>,
}

/// A clone to make.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloneRequest {
    /// The snapshot.
    pub snapshot: String,
    /// Name of the new volume.
    pub name: String,
}

/// A volume to roll back.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The snapshot.
    pub snapshot: String,
    /// Do it even though clients of the server use the volume.
    #[serde(default)]
    pub force: bool,
}

/// A snapshot to hold or to release.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldRequest {
    /// The snapshot.
    pub snapshot: String,
}

/// An identity as it is written.
pub fn identity_text(identity: u64) -> String {
    format!("{identity:016x}")
}

fn identity_of(text: &str) -> Option<u64> {
    let number = u64::from_str_radix(text, 16).ok()?;
    (identity_text(number) == text && number != 0).then_some(number)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Make a snapshot.
pub fn operate_snapshot(context: &Context<'_>, request: &SnapshotRequest) -> Result<Report> {
    let SnapshotRequest { name, hold, identity, created_s } = request;
    let identity = match identity {
        None => u64::from_le_bytes(random()?),
        Some(text) => identity_of(text)
            .ok_or_else(|| Failure::nothing_done(format!("'{text}' is no identity")))?,
    };
    let created_seconds = created_s.unwrap_or_else(now);
    let options = SnapshotOptions { created_seconds, held: *hold, identity };
    context.pool.snapshot_as(name, options).map_err(|error| context.failed(error))?;
    Ok(Report::note(format!("made snapshot '{name}'{}", if *hold { ", held" } else { "" })))
}

/// Make a volume of a snapshot.
pub fn operate_clone(context: &Context<'_>, request: &CloneRequest) -> Result<Report> {
    let CloneRequest { snapshot, name } = request;
    let made = context.pool.clone_snapshot(snapshot, name, now());
    let size = ByteSize(made.map_err(|error| context.failed(error))?.size_bytes());
    Ok(Report::note(format!("made volume '{name}' of {size} from '{snapshot}'")))
}

/// Let a volume be what its snapshot is.
pub fn operate_rollback(context: &Context<'_>, request: &RollbackRequest) -> Result<Report> {
    let failed = |error| context.failed(error);
    let name = &request.snapshot;
    let (volume, _) = onefold_pool::split_snapshot_name(name).map_err(failed)?;
    let device = context.pool.volume(volume).map_err(failed)?;
    if let Some(clients) = clients_of(context, &device)
        && !request.force
    {
        return Err(Failure::nothing_done(format!("volume '{volume}' is in use by {clients}"))
            .hint("disconnect what uses it first; --force rolls it back all the same"));
    }
    context.pool.rollback(name).map_err(failed)?;
    give_up_deleted(context)?;
    Ok(Report::note(format!("volume '{volume}' is what '{name}' is")))
}

/// Hold a snapshot.
pub fn operate_hold(context: &Context<'_>, request: &HoldRequest) -> Result<Report> {
    hold(context, &request.snapshot, true)
}

/// Release a snapshot.
pub fn operate_release(context: &Context<'_>, request: &HoldRequest) -> Result<Report> {
    hold(context, &request.snapshot, false)
}

fn hold(context: &Context<'_>, name: &str, held: bool) -> Result<Report> {
    context.pool.hold_snapshot(name, held).map_err(|error| context.failed(error))?;
    let what = if held { "held" } else { "released" };
    Ok(Report::note(format!("{what} snapshot '{name}'")))
}

/// Give up what only deleted snapshots had. What is interrupted goes on in the background, or with
/// the next deletion.
pub fn give_up_deleted(context: &Context<'_>) -> Result<()> {
    let turn = || context.pool.give_up_deleted(DELETION_BYTES);
    while !context.job.is_cancelled() && !interrupt::asked() {
        if turn().map_err(|error| context.failed(error))? {
            break;
        }
    }
    Ok(())
}

fn call(
    at: &Path,
    operation: &Operation,
    request: &impl Serialize,
    printer: &Printer,
) -> Result<()> {
    let opening = Opening::Write(Budgets::default());
    let report = door::call(at, opening, operation, request, printer)?;
    printer.report(report, false)
}

/// Make a snapshot, and say so.
pub fn snapshot(args: &VolumeSnapshotArgs, printer: &Printer) -> Result<()> {
    let (name, hold) = (args.name.clone(), args.hold);
    let request = SnapshotRequest { name, hold, identity: None, created_s: None };
    call(&args.pool, &table::VOLUME_SNAPSHOT, &request, printer)
}

/// Make a volume of a snapshot, and say so.
pub fn clone(args: &VolumeCloneArgs, printer: &Printer) -> Result<()> {
    let request = CloneRequest { snapshot: args.snapshot.clone(), name: args.name.clone() };
    call(&args.pool, &table::VOLUME_CLONE, &request, printer)
}

/// Roll a volume back, after asking where there is somebody to ask.
pub fn rollback(args: &VolumeRollbackArgs, printer: &Printer) -> Result<()> {
    let name = &args.snapshot;
    let (volume, _) = onefold_pool::split_snapshot_name(name)
        .map_err(|error| Failure::pool(&args.pool, error))?;
    let question = format!("Give up what was written to '{volume}' since '{name}'? [y/N] ");
    if !args.yes && std::io::stdin().is_terminal() && !confirmed(&question) {
        return Err(Failure::nothing_done(format!("volume '{volume}' was not rolled back")));
    }
    let request = RollbackRequest { snapshot: name.clone(), force: args.force };
    call(&args.pool, &table::VOLUME_ROLLBACK, &request, printer)
}

/// Hold a snapshot, or release it, and say so.
pub fn hold_or_release(
    args: &VolumeHoldArgs,
    operation: &Operation,
    printer: &Printer,
) -> Result<()> {
    let request = HoldRequest { snapshot: args.snapshot.clone() };
    call(&args.pool, operation, &request, printer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_written_in_one_way_and_none_is_zero() {
        for identity in [1, 0xab, u64::MAX] {
            assert_eq!(identity_of(&identity_text(identity)), Some(identity));
        }
        for bad in ["0000000000000000", "00000000000000AB", "ab", "", "+000000000000001"] {
            assert_eq!(identity_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_a_volume_lost_since_is_asked_about_and_an_identity_must_be_one() {
        use crate::commands::heard::{self, Folder};
        use crate::test_pool;

        let here = Folder::new();
        assert!(here.refused("volume rollback ./p main --yes", 2).contains("main"));
        let pool = test_pool::pool();
        pool.create_volume("v", ByteSize(1 << 20)).unwrap();
        let make = |name: &str, identity: &str| {
            let (name, identity) = (name.to_owned(), Some(identity.to_owned()));
            let request = SnapshotRequest { name, hold: false, identity, created_s: None };
            heard::operate(&pool, &table::VOLUME_SNAPSHOT, &request)
        };
        assert_eq!(make("v@a", "ab").unwrap_err().message, "'ab' is no identity");
        assert_eq!(make("v@a", "00000000000000ab").unwrap().notes, ["made snapshot 'v@a'"]);
        assert_eq!(pool.snapshots(None).unwrap()[0].identity, 0xab);
    }
}
