//! What a door keeps with a volume: a few bytes that the pool holds and does not look into, such as
//! who may use it.
//! Room: onefold-pool.
//! Invariants: (1) a note that was set is durable, and whole or not there; (2) it goes where its
//! volume goes: it keeps it under another name, and it goes with it; a clone begins with the note
//! of the volume that it is made from, so that nothing is shown for being copied.

use std::sync::{Arc, PoisonError};

use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::format::superblock::NOTE_BYTES_MAX;
use crate::pool::Pool;
use crate::volume::Volume;

impl VolumeState {
    /// Its own note; a snapshot has none.
    pub fn note(&self) -> Arc<[u8]> {
        Arc::clone(&self.note.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_note(&self, note: Arc<[u8]>) {
        *self.note.write().unwrap_or_else(PoisonError::into_inner) = note;
    }
}

impl Inner {
    /// The note of a volume, or of that of a snapshot.
    pub fn note_of(&self, state: &VolumeState) -> Arc<[u8]> {
        if !state.is_snapshot {
            return state.note();
        }
        // A volume with snapshots cannot be deleted.
        self.volume_by_number(state.origin()).map(|volume| volume.note()).unwrap_or_default()
    }
}

impl Volume {
    /// What a door keeps with the volume, or with the volume that this is a snapshot of; empty if
    /// nothing.
    pub fn note(&self) -> Arc<[u8]> {
        self.inner.note_of(&self.state)
    }
}

impl Pool {
    /// Keep a note with a volume, in the place of the one before; an empty one is none. It is
    /// durable when this returns.
    ///
    /// # Errors
    /// A note of more than 16 KiB is refused, and the name of a snapshot.
    pub fn set_note(&self, name: &str, note: &[u8]) -> Result<(), PoolError> {
        let inner = &self.inner;
        inner.check_writable()?;
        if note.len() > NOTE_BYTES_MAX {
            let (is, most) = (note.len(), NOTE_BYTES_MAX);
            let why = format!("a volume has room for {most} bytes of settings, and these are {is}");
            return Err(PoolError::Setting(why));
        }
        let volume = inner.writable_by_name(name)?;
        let _properties = inner.lock_properties();
        {
            let mut engine = inner.engine();
            let volumes = inner.volumes.read().unwrap_or_else(PoisonError::into_inner).len();
            engine.space.note(note.len());
            if let Err(error) = engine.space.supers(volumes) {
                engine.space.note_gone(note.len());
                return Err(error);
            }
        }
        let (before, after) = (volume.note(), Arc::<[u8]>::from(note));
        let set = |note: &Arc<[u8]>| volume.set_note(Arc::clone(note));
        let done = inner.checkpoint_or_undo(
            &mut |_| {
                set(&after);
                Ok(())
            },
            || set(&before),
        );
        let gone = if done.is_ok() { before } else { after };
        inner.engine().space.note_gone(gone.len());
        done
    }
}
