//! How the volumes of a pool are shared, as it is kept with each.
//! Room: onefold.

use onefold_export::Sharing;
use onefold_pool::{Pool, Volume};

use crate::failure::{Failure, Result};

/// That of a volume, or of the volume of a snapshot. What cannot be read is nobody's.
pub fn of(volume: &Volume) -> Sharing {
    Sharing::of_any_note(&volume.note())
}

/// Change how a volume is shared, durably.
pub fn change(
    pool: &Pool,
    failed: &dyn Fn(onefold_pool::PoolError) -> Failure,
    name: &str,
    change: impl FnOnce(&mut Sharing) -> Result<()>,
) -> Result<Sharing> {
    let note = pool.volume(name).map_err(failed)?.note();
    let mut sharing = Sharing::of_note(&note).map_err(|error| {
        Failure::nothing_done(format!("how volume '{name}' is shared cannot be read: {error}"))
            .hint(
                "a newer onefold may have written it; until it is read, nobody is let in over TCP",
            )
    })?;
    change(&mut sharing)?;
    pool.set_note(name, &sharing.to_note()).map_err(failed)?;
    Ok(sharing)
}
