//! What an open pool consists of, and who may hold which lock.
//! Room: onefold-pool.
//! Lock order: properties, reclaim, lineage, growth, flusher, engine, map; nothing else is held
//! across calls.
//! The index, directories, read cache and live containers have locks of their own that guard
//! single operations.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use onefold_block::{ContainerId, ContainerStore, Folder, FolderLock, Media};
use onefold_content::{Compressor, Decompressor, Fingerprint, Fingerprinter};

use crate::ask_runs::AskRuns;
use crate::container::buffer::Buffer;
use crate::container::directories::Directories;
use crate::container::open::OpenContainer;
use crate::container::table::ContainerTable;
use crate::counters::Counters;
use crate::deduplicate::{Deduplication, Seen};
use crate::error::PoolError;
use crate::format::frame::Entries;
use crate::format::superblock::Features;
use crate::handover::Kept;
use crate::handover::generation::OpenGeneration;
use crate::handover::take_up::TakenUp;
use crate::held::Hold;
use crate::index::{Candidates, FingerprintIndex, Place};
use crate::index_filling::IndexFilling;
use crate::journal::Journal;
use crate::live_pass::Handed;
use crate::map::{Map, PageArray, SlotBitmap};
use crate::read_cache::ReadCache;
use crate::reclaim::Reclaim;
use crate::relief::Relief;
use crate::settings::{Budgets, PoolIdentity, PoolSettings};
use crate::space::Space;
use crate::sync;

/// Buffers kept for later containers: one is enough for each thread that fills one.
const BUFFERS_KEPT_MAX: usize = 4;

/// Everything behind the handles of one open pool.
pub(crate) struct Inner {
    pub settings: PoolSettings,
    pub identity: PoolIdentity,
    pub features: Features,
    /// What it was opened with; the memory of the index and of the read cache may change.
    pub budgets: Budgets,
    pub read_only: bool,
    /// Where volumes read and write: with a cache before it, if there is one.
    pub store: Arc<dyn ContainerStore>,
    /// The same without the cache, for what is read once: recovery, checks, directories.
    pub plain: Arc<dyn ContainerStore>,
    pub map: Map,
    /// Memory of the index, its filters and directories now, in bytes.
    pub index_memory: AtomicU64,
    pub index: FingerprintIndex,
    pub index_filling: IndexFilling,
    pub directories: Directories,
    pub cache: ReadCache,
    pub fingerprinter: Fingerprinter,
    /// Containers that are read from memory.
    pub live: RwLock<HashMap<ContainerId, Arc<OpenContainer>>>,
    /// Counts commits that stored something: a plan made since the last of them is complete.
    pub stores: AtomicU64,
    /// Number of the container made last.
    pub newest: AtomicU32,
    /// Taken by whoever asks the media for space before a change.
    pub growth: Mutex<()>,
    pub engine: Mutex<Engine>,
    pub flusher: Mutex<Flusher>,
    /// What deduplication in the background is at.
    pub deduplication: Mutex<Deduplication>,
    /// Runs that writers ask.
    pub ask_runs: AskRuns,
    /// What was seen of it after its last step.
    pub deduplication_seen: Mutex<Option<Seen>>,
    /// The newest checkpoint that was found when the pool was opened.
    pub opened_at: u64,
    /// Sequence number of the newest durable checkpoint.
    pub checkpoint_sequence: AtomicU64,
    /// What winning space back is at.
    pub reclaim: Mutex<Reclaim>,
    /// Taken by whoever gives a volume another size or note, which nobody else does until it is
    /// there for good or undone.
    pub properties: Mutex<()>,
    /// Taken by whoever makes or deletes snapshots and clones, or counts on none being made.
    pub lineage: Mutex<()>,
    /// What stays as it is because a check reads it.
    pub hold: Mutex<Hold>,
    /// Taken by whoever gives pages back where they lie, and by whoever begins such a check: what
    /// was not said to be punched when it began is not punched.
    pub punching: Mutex<()>,
    /// How many wait for that.
    pub lineage_wanted: AtomicU32,
    /// What a pass over all maps is to look at again; changes with the lineage held.
    pub handed: Mutex<Handed>,
    /// Bytes that are dead in containers that snapshots refer to, about.
    pub pinned_dead: AtomicU64,
    /// Who does what has piled up.
    pub relief: Relief,
    /// Stored bytes per hundred live ones that writers keep to; 0 if they do not care.
    pub space_target: AtomicU32,
    pub volumes: RwLock<BTreeMap<u32, Arc<VolumeState>>>,
    pub counters: Counters,
    /// Why nothing is written any more, if so.
    pub poison: OnceLock<String>,
    pub scratch: Mutex<Vec<Scratch>>,
    /// Buffers of former open containers: fresh memory costs more than writing to it.
    pub buffers: Mutex<Vec<Buffer>>,
    /// What is left in memory for the next process; nothing while a pool is recovered, or if the
    /// door hands in no such memory.
    pub kept: OnceLock<Kept>,
    /// The pool's generation; none if it is rescued.
    pub generation: Option<OpenGeneration>,
    /// What the process before this one left.
    pub taken_up: TakenUp,
    /// What `status` and `check` read beside the structures above.
    pub files: Files,
    /// The locks on the pool's folder, held as long as the pool is open.
    pub guard: Option<FolderLock>,
}

/// The pool's files other than containers.
pub(crate) struct Files {
    pub supers: [Arc<dyn Media>; 2],
    pub journal: Arc<dyn Media>,
    pub map: Arc<dyn Media>,
    /// The folder of fingerprint runs; none where nothing is to be changed.
    pub fingerprints: Option<Arc<dyn Folder>>,
}

/// What changes when a write commits.
pub(crate) struct Engine {
    pub table: ContainerTable,
    /// The container being filled with new records.
    pub open: Option<Arc<OpenContainer>>,
    /// The container being filled with records that are moved.
    pub moving: Option<Arc<OpenContainer>>,
    /// An empty container in the store, set aside so that records can be moved on a full disk.
    pub spare: Option<ContainerId>,
    /// Empty containers in the store that the next ones to be filled are taken from.
    pub ready: Vec<ContainerId>,
    /// Sealed containers that are not yet durable.
    pub unsynced: Vec<Arc<OpenContainer>>,
    pub next_container: u32,
    pub next_volume: u32,
    /// The checkpoint that the journal follows.
    pub epoch: u64,
    /// Counts checkpoints that were frozen.
    pub freezes: u64,
    /// Containers off the table that a checkpoint is about to take from the store.
    pub leaving: usize,
    /// Map changes that no flush has taken yet.
    pub entries: Entries,
    /// Counts commits.
    pub generation: u64,
    pub space: Space,
}

/// What changes when something becomes durable.
pub(crate) struct Flusher {
    pub journal: Journal,
    /// Where the pages of the container table are.
    pub table: PageArray,
    /// And those of the bitmap that says which slots are in use.
    pub slots: SlotBitmap,
    /// Sequence number of the newest durable checkpoint.
    pub sequence: u64,
    /// Taken from the engine, but not yet in a durable frame.
    pub pending: Entries,
    /// Commits up to this one are durable.
    pub durable: u64,
    /// Whether the newest checkpoint says that frames may tell of sealed containers.
    pub tells_sealed: bool,
}

/// A volume, shared by all who have it open.
pub(crate) struct VolumeState {
    pub number: u32,
    /// Read by [`VolumeState::name`]; changes under the engine's lock.
    pub name: RwLock<String>,
    pub size_bytes: AtomicU64,
    /// The size that the next checkpoint has: while one is being written with which a volume
    /// grows, nobody is let past the end that it has without that.
    pub next_size_bytes: AtomicU64,
    /// Blocks with stored data; changes under the engine's lock.
    pub mapped_chunks: AtomicU64,
    pub deleting: AtomicBool,
    /// What its record in the checkpoint says besides.
    pub origin: AtomicU32,
    pub birth: u64,
    pub created_seconds: u64,
    /// It is what a volume was once, and never changes.
    pub is_snapshot: bool,
    /// The snapshot whose pages it has as long as they are not changed; 0 if none. This and the
    /// three below change under the engine's lock.
    pub parent: AtomicU32,
    /// A snapshot that is not to be deleted.
    pub held: AtomicBool,
    /// While it is being deleted: blocks from the first on that were given up or left to others.
    pub dropped: AtomicU64,
    /// Of a snapshot: what it is known by in every pool; 0 if it is of this pool alone.
    pub identity: u64,
    /// All of them were, and it is in no later checkpoint.
    pub gone: AtomicBool,
    /// What a door keeps with it; changes under the engine's lock.
    pub note: RwLock<Arc<[u8]>>,
}

/// Buffers that a write or read needs, kept from call to call.
pub(crate) struct Scratch {
    pub compressor: Compressor,
    pub decompressor: Decompressor,
    pub fingerprints: Vec<Fingerprint>,
    /// 64 bits of each, and what the index found for them.
    pub hashes: Vec<u64>,
    pub candidates: Vec<Candidates>,
    /// The index was told of neighbours since it was asked.
    pub learnt: bool,
    /// What the index is to be told.
    pub places: Vec<(u64, Place)>,
    /// Drafted records, one after another.
    pub records: Vec<u8>,
    /// Bytes read from containers.
    pub stored: Vec<u8>,
    /// One chunk.
    pub chunk: Vec<u8>,
}

impl Inner {
    pub fn engine(&self) -> MutexGuard<'_, Engine> {
        sync::point("engine");
        sync::lock(&self.engine)
    }

    pub fn flusher(&self) -> MutexGuard<'_, Flusher> {
        sync::point("flusher");
        sync::lock(&self.flusher)
    }

    pub fn live(&self, id: ContainerId) -> Option<Arc<OpenContainer>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    pub fn live_mut(
        &self,
    ) -> std::sync::RwLockWriteGuard<'_, HashMap<ContainerId, Arc<OpenContainer>>> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn newest(&self) -> ContainerId {
        ContainerId::new(self.newest.load(Ordering::Acquire))
    }

    pub fn chunk_bytes(&self) -> usize {
        self.settings.chunk_size.bytes()
    }

    /// Refuse changes where none are possible.
    pub fn check_writable(&self) -> Result<(), PoolError> {
        if self.read_only {
            return Err(PoolError::ReadOnly);
        }
        self.poison.get().map_or(Ok(()), |why| Err(PoolError::Poisoned(why.clone())))
    }

    /// After a failure that leaves it unknown what is on the media: nothing is written until the
    /// pool is reopened. A lack of space is no such failure, nor is a volume that was deleted.
    pub fn poison_unless_no_space(&self, error: PoolError) -> PoolError {
        if !error.is_no_space() && !matches!(error, PoolError::VolumeDeleted) {
            let why = error.to_string();
            if self.poison.set(why).is_ok() {
                tracing::error!("no more writes until the pool is reopened: {error}");
            }
        }
        error
    }

    /// Buffers for one call.
    pub fn take_scratch(&self) -> Scratch {
        let kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Scratch {
            compressor: Compressor::new(self.settings.compression),
            decompressor: Decompressor::new(),
            fingerprints: Vec::new(),
            hashes: Vec::new(),
            candidates: Vec::new(),
            learnt: false,
            places: Vec::new(),
            records: Vec::new(),
            stored: Vec::new(),
            chunk: vec![0; self.chunk_bytes()],
        })
    }

    /// A buffer for a container: that of a former one, if one is kept.
    pub fn take_buffer(&self) -> Result<Buffer, PoolError> {
        let former = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(former) = former {
            return Ok(former);
        }
        let capacity = self.settings.container_bytes as usize;
        match self.kept.get().and_then(|kept| kept.slot(capacity)) {
            Some(slot) => Ok(Buffer::kept(slot)),
            None => Buffer::new(capacity),
        }
    }

    /// Keep a buffer for the next container. A flush may have been here before: then it is empty.
    pub fn give_buffer(&self, mut buffer: Buffer) {
        buffer.end();
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.is_allocated() && buffers.len() < BUFFERS_KEPT_MAX {
            buffers.push(buffer);
        }
    }

    /// Memory of containers in memory and of the buffers that are kept, in bytes.
    pub fn buffer_bytes(&self) -> usize {
        let filling: usize = {
            let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
            live.values().map(|container| container.memory_bytes()).sum()
        };
        let kept: usize = {
            let buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
            buffers.iter().map(Buffer::capacity).sum()
        };
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        filling + kept + scratch.iter().map(Scratch::bytes).sum::<usize>()
    }

    /// Memory of the container table and of map changes that are not yet durable, in bytes.
    pub fn table_bytes(&self) -> usize {
        let flusher = self.flusher();
        let engine = self.engine();
        engine.table.bytes() + engine.entries.len_bytes() + flusher.pending.len_bytes()
    }

    /// Keep the buffers for the next call: as many as calls were ever made at once.
    pub fn give_scratch(&self, scratch: Scratch) {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }
}

impl Scratch {
    /// Memory in use, in bytes.
    fn bytes(&self) -> usize {
        self.fingerprints.capacity() * size_of::<Fingerprint>()
            + self.hashes.capacity() * size_of::<u64>()
            + self.candidates.capacity() * size_of::<Candidates>()
            + self.places.capacity() * size_of::<(u64, Place)>()
            + self.records.capacity()
            + self.stored.capacity()
            + self.chunk.capacity()
    }
}

impl VolumeState {
    pub fn name(&self) -> String {
        self.name.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes of the chunks that it has. A damaged checkpoint may say anything of them, which a
    /// check of the pool finds.
    pub fn mapped_bytes(&self, chunk_bytes: u64) -> u64 {
        self.mapped_chunks.load(Ordering::Relaxed).saturating_mul(chunk_bytes)
    }

    /// Whether that is its name now.
    pub fn is_named(&self, name: &str) -> bool {
        *self.name.read().unwrap_or_else(PoisonError::into_inner) == name
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    /// Refuse what ends past the end that it has by now.
    pub fn refuse_past_end(&self, end: u64) -> Result<(), PoolError> {
        let size = self.size_bytes();
        if end > size { Err(PoolError::PastEnd { end, size }) } else { Ok(()) }
    }

    /// Let it have this size from now on, and in the next checkpoint.
    pub fn set_size_bytes(&self, bytes: u64) {
        self.next_size_bytes.store(bytes, Ordering::Release);
        self.size_bytes.store(bytes, Ordering::Release);
    }

    pub fn blocks(&self, chunk_bytes: usize) -> u64 {
        self.size_bytes().div_ceil(chunk_bytes as u64)
    }
}
