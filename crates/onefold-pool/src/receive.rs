//! What was received beside a volume becomes that volume.
//! Room: onefold-pool.
//! In: a snapshot of a clone. Out: the volume is what it is, and has it as its own snapshot.
//! Source: docs/stream-format.md, "How a stream is received".
//! Invariants: (1) it happens with one checkpoint, wholly or not at all; (2) nothing that was
//! written to the volume since the snapshot that the clone was made of is lost.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use onefold_content::{FingerprintKind, Fingerprinter};

use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::pool::Pool;
use crate::snapshots::{SNAPSHOT_MARK, SnapshotOptions, split_snapshot_name};

impl Inner {
    /// What a snapshot is known by in every pool that has a copy of it.
    pub fn identity_of(&self, snapshot: &VolumeState) -> u64 {
        if snapshot.identity != 0 {
            return snapshot.identity;
        }
        identity([
            &self.identity.uuid,
            &snapshot.number.to_le_bytes(),
            &snapshot.birth.to_le_bytes(),
            &snapshot.created_seconds.to_le_bytes(),
        ])
    }

    /// What a snapshot is known by once the repair that ends with checkpoint `sequence` has made
    /// something else of it. Copies of what it was are no copies of that.
    pub fn identity_after_repair(&self, snapshot: &VolumeState, sequence: u64) -> u64 {
        identity([&self.identity_of(snapshot).to_le_bytes(), &sequence.to_le_bytes()])
    }

    /// Refuse a volume that is not what its snapshot `base` is.
    fn must_be_as(
        &self,
        volume: &VolumeState,
        now: &VolumeState,
        base: &VolumeState,
    ) -> Result<(), PoolError> {
        let mut differs = false;
        self.differences([base, now], &mut |_, _| {
            differs = true;
            false
        })?;
        if differs { Err(changed_since(volume, base)) } else { Ok(()) }
    }
}

/// A number for these bytes, which is not 0.
fn identity<const N: usize>(parts: [&[u8]; N]) -> u64 {
    Fingerprinter::new(FingerprintKind::Blake3).hash(&parts.concat()).prefix64().max(1)
}

fn changed_since(volume: &VolumeState, base: &VolumeState) -> PoolError {
    PoolError::ChangedSince { name: volume.name(), base: base.name() }
}

impl Pool {
    /// Let a volume be what `received` is, the one snapshot of a clone of its snapshot `base`; that
    /// becomes the volume's own, and the clone goes. Refused if the volume was written to since.
    pub fn adopt(&self, received: &str, volume: &str, base: &str) -> Result<(), PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        let (clone, own) = split_snapshot_name(received)?;
        let volume = inner.writable_by_name(volume)?;
        let clone = inner.writable_by_name(clone)?;
        let _properties = inner.lock_properties();
        let _lineage = inner.lock_lineage();
        let received = inner.snapshot_by_name(received)?;
        let base = inner.snapshot_by_name(base)?;
        let name = format!("{}{SNAPSHOT_MARK}{own}", volume.name());
        if inner.snapshot_by_name(&name).is_ok() {
            return Err(PoolError::VolumeExists(name));
        }
        let all = inner.all_volumes();
        let others = |v: &VolumeState| {
            v.is_snapshot_of(clone.number) && !v.is_deleting() && v.number != received.number
        };
        if clone.number == volume.number || all.iter().any(|v| others(v)) {
            let why = format!("'{}' is not what a stream was received into", clone.name());
            return Err(PoolError::Setting(why));
        }
        inner.must_be_as(&volume, &volume, &base)?;
        // What the volume is becomes a snapshot without a name, to be deleted, as in a rollback.
        let mut flusher = inner.flusher();
        let mut was = None;
        inner.checkpoint_locked(&mut flusher, &mut |engine, sequence| {
            let unnamed = SnapshotOptions::default();
            let taken = inner.take_snapshot(engine, sequence, &volume, "", unnamed)?;
            was = Some(taken.snapshot);
            Ok(Some(taken))
        })?;
        let was = was.and_then(|was| inner.volume_by_number(was));
        let was = was.ok_or(PoolError::VolumeDeleted)?;
        inner.must_be_as(&volume, &was, &base)?;
        inner.become_snapshot(&mut flusher, &volume, &received, &mut || {
            if inner.map.has_changed(volume.number) {
                return Err(changed_since(&volume, &base));
            }
            name.clone_into(&mut received.name.write().unwrap_or_else(PoisonError::into_inner));
            received.origin.store(volume.number, Ordering::Release);
            clone.deleting.store(true, Ordering::Release);
            Ok(())
        })
    }
}
