//! Room: the data reduction engine behind a pool of thin volumes.
//!
//! A [`Pool`] is a folder; its [`Volume`]s are block devices that share one deduplication domain.
//! ARCHITECTURE.md tells the life of a write and of a read step by step; the modules here are
//! named after its steps. In the order in which data meets them: `write`, `plan`, `verify`,
//! `index`, `commit`, `container`, `map`, `journal`, `flush`; then `read` and `read_cache`;
//! `reclaim`, `victim`, `relocate`, `punch` and `pinned`, which win space back, and `gather`, which
//! wins order back; `snapshots`, `drop_steps`, `differences` and `alone`; `notes`;
//! `stored_blocks`; `open`,
//! `recover`, `rescue`, `check` with `slot_uses`, `repair`, `scrub`, and `status` around them;
//! `format` below them all.

mod absent;
mod alone;
mod ask_runs;
mod check;
mod checkpoint;
mod commit;
mod container;
mod counters;
mod deduplicate;
mod differences;
mod drop_steps;
#[cfg(test)]
mod empty_pool;
mod engine;
mod error;
mod flush;
pub mod format;
mod gather;
mod handover;
mod held;
mod index;
mod index_filling;
mod index_memory;
#[cfg(test)]
mod interleavings;
mod journal;
mod key_hasher;
mod live_pass;
mod lock;
mod map;
mod map_pass;
mod notes;
mod open;
mod pba;
mod pinned;
mod plan;
mod pool;
mod predictor;
mod provide;
mod punch;
mod read;
mod read_cache;
mod read_encoded;
mod receive;
mod reclaim;
mod recover;
mod release;
mod relief;
mod relocate;
mod repair;
mod rescue;
mod runs;
mod scrub;
mod settings;
mod slot_uses;
mod snapshots;
mod space;
mod sparse;
mod status;
mod stored_blocks;
pub mod stream;
mod sync;
mod twins;
mod verify;
mod victim;
mod volume;
mod volumes;
mod write;

pub use check::{CheckReport, Finding};
pub use deduplicate::{DeduplicationStatus, DeduplicationStep};
pub use error::PoolError;
pub use handover::take_up::TakenUp;
pub use open::{OpenOptions, SETTINGS_FILE, Surroundings, WrapStore};
pub use pool::Pool;
pub use predictor::Predictions;
pub use reclaim::{BackgroundStep, SpaceTarget};
pub use repair::{Blocks, Repair, RepairReport};
pub use rescue::{RescuePoint, RescueReport};
pub use runs::set::Thoroughness;
pub use scrub::{DamagedBlocks, Scrubbed, Scrubber};
pub use settings::{Budgets, PoolIdentity, PoolSettings};
pub use snapshots::{SNAPSHOT_MARK, SnapshotInfo, SnapshotOptions, split_snapshot_name};
pub use status::{Activity, PoolStatus, SpaceTotals, VolumeStatus};
pub use volume::Volume;
pub use volumes::{VOLUME_BYTES_MAX_AT_4K, check_volume_name};
