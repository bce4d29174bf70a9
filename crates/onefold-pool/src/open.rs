//! Making a pool and opening it.
//! Room: onefold-pool.
//! Source: ARCHITECTURE.md, section 6.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use onefold_block::bytes;
use onefold_block::handover::Handover;
use onefold_block::{
    ContainerStore, Folder, FolderContainerStore, FolderLock, GENERATION_FILE, GenerationFile,
    Media, MediaError, anew, is_of_a_lock, small_file,
};
use onefold_content::Fingerprinter;

use crate::ask_runs::AskRuns;
use crate::container::directories::{self, Directories};
use crate::container::table::ContainerTable;
use crate::counters::Counters;
use crate::engine::{Engine, Files, Flusher, Inner, VolumeState};
use crate::error::PoolError;
use crate::format::frame::Entries;
use crate::format::superblock::{
    Features, KIND_SNAPSHOT, SEALED_IN_JOURNAL, Superblock, VolumeRecord,
};
use crate::format::{FORMAT_VERSION, check_version};
use crate::handover::Kept;
use crate::handover::generation::{OpenGeneration, open_generation};
use crate::handover::take_up::{TakenUp, take_up};
use crate::index::FingerprintIndex;
use crate::index_filling::IndexFilling;
use crate::journal::{self, Journal, Witness};
use crate::map::{
    Map, NO_PAGE, NO_SNAPSHOT, OnDamage, PAGE_BYTES, PageArray, PageRef, Root, SlotBitmap,
};
use crate::pba::RAW_HOLE;
use crate::read_cache::ReadCache;
use crate::relief::Relief;
use crate::settings::{Budgets, PoolIdentity, PoolSettings};
use crate::slot_uses::{self, Uses};
use crate::space::Space;

/// The two checkpoint files.
pub const SUPER_FILES: [&str; 2] = ["super.0", "super.1"];
/// The journal.
pub const JOURNAL_FILE: &str = "journal";
/// The map pages.
pub const MAP_FILE: &str = "map";
/// What the command keeps beside a pool: its settings. This room only knows that it may be there.
pub const SETTINGS_FILE: &str = "onefold.toml";
/// The folder of containers.
pub const CONTAINER_FOLDER: &str = "containers";
/// The folder of fingerprint runs.
pub const FINGERPRINT_FOLDER: &str = "fingerprints";

/// There only while a repair puts its files in place.
pub const REPAIR_FILE: &str = "repair";

const MAP_MAGIC: &[u8; 8] = b"OFMAP\0\0\n";

/// The first checkpoint's number.
const FIRST_SEQUENCE: u64 = 1;
/// No file that holds it, and the witness of its journal, is longer.
const FIRST_BYTES_MAX: u64 = 1 << 16;

/// How to open a pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Change nothing, not even to recover.
    pub read_only: bool,
    /// Memory that may be used.
    pub budgets: Budgets,
}

/// Make an empty pool in a folder that holds none.
pub(crate) fn create(
    folder: &dyn Folder,
    settings: &PoolSettings,
    identity: PoolIdentity,
) -> Result<(), PoolError> {
    settings.check()?;
    refuse_others(folder)?;
    let made = [MAP_FILE, JOURNAL_FILE, SUPER_FILES[0], SUPER_FILES[1], GENERATION_FILE];
    anew::remove_left_over(folder, made)?;
    for inside in [CONTAINER_FOLDER, FINGERPRINT_FOLDER] {
        anew::subfolder(folder, inside)?;
    }
    let map = folder.create(MAP_FILE)?;
    map.write(0, &map_header(&identity))?;
    map.sync()?;
    let superblock = Superblock {
        sequence: FIRST_SEQUENCE,
        identity,
        features: Features { must_refuse: SEALED_IN_JOURNAL, ..Features::default() },
        settings: *settings,
        next_container: 1,
        next_volume: 1,
        volumes: Vec::new(),
        table: PageRef::Uniform(RAW_HOLE).raw(),
        slots: PageRef::Uniform(RAW_HOLE).raw(),
        slot_pages: 0,
        unseen: 0,
    };
    let journal = folder.create(JOURNAL_FILE)?;
    journal::begin(&*journal, superblock.sequence)?;
    for name in SUPER_FILES {
        folder.create(name)?;
    }
    GenerationFile::create(folder, identity.uuid)?;
    folder.sync_names()?;
    // The pool exists from here on.
    small_file::replace(folder, SUPER_FILES[1], &superblock.encode())?;
    Ok(())
}

/// Refuse a folder that holds more than an interrupted creation leaves behind.
pub(crate) fn refuse_others(folder: &dyn Folder) -> Result<(), PoolError> {
    for name in folder.list()? {
        // What an interrupted creation leaves behind is no obstacle; a checkpoint is.
        let begun = name.strip_suffix(small_file::UNFINISHED);
        let ours = is_of_a_lock(&name)
            || [JOURNAL_FILE, MAP_FILE, SETTINGS_FILE, GENERATION_FILE].contains(&name.as_str())
            || begun.is_some_and(|name| name == SUPER_FILES[1] || name == SETTINGS_FILE);
        let empty_super = SUPER_FILES.contains(&name.as_str()) && folder.open(&name)?.is_empty()?;
        if !ours && !empty_super {
            return Err(PoolError::NotEmpty(name));
        }
    }
    for inside in [CONTAINER_FOLDER, FINGERPRINT_FOLDER] {
        let names = match folder.existing_subfolder(inside) {
            Err(MediaError::NotFound { .. }) => continue,
            found => found?.list()?,
        };
        if let Some(name) = names.first() {
            return Err(PoolError::NotEmpty(format!("{inside}/{name}")));
        }
    }
    Ok(())
}

pub(crate) fn map_header(identity: &PoolIdentity) -> Vec<u8> {
    let mut writer = bytes::Writer::default();
    writer.bytes(MAP_MAGIC);
    writer.u32(FORMAT_VERSION);
    writer.bytes(&identity.uuid);
    let check = crc32fast::hash(&writer.0);
    writer.u32(check);
    writer.0.resize(PAGE_BYTES, 0);
    writer.0
}

pub(crate) fn check_map_header(
    media: &dyn Media,
    identity: &PoolIdentity,
) -> Result<(), PoolError> {
    let mut found = vec![0; PAGE_BYTES];
    media.read(0, &mut found)?;
    let mut reader = bytes::Reader::new(&found);
    let (magic, version) = (reader.array::<8>(), reader.u32());
    let (_, check) = (reader.array::<16>(), reader.u32());
    let intact = magic.as_ref() == Some(MAP_MAGIC) && check == Some(crc32fast::hash(&found[..28]));
    if let Some(version) = version.filter(|_| intact) {
        check_version(MAP_FILE, version)?;
    }
    if found != map_header(identity) {
        let problem = "the header is damaged or belongs to another pool";
        return Err(PoolError::corrupt_whole(MAP_FILE, problem));
    }
    Ok(())
}

/// The newest readable checkpoint, and what is wrong with the other file, if anything.
pub(crate) fn read_supers(
    supers: &[Arc<dyn Media>; 2],
) -> Result<(Superblock, Option<PoolError>), PoolError> {
    let mut read = Vec::with_capacity(2);
    for (media, name) in supers.iter().zip(SUPER_FILES) {
        read.push(match Superblock::read(&**media, name) {
            Ok(found) => found.ok_or(PoolError::NoPool),
            Err(error @ PoolError::Media(_)) => return Err(error),
            Err(error) => Err(error),
        });
    }
    let (second, first) = (read.pop().expect("two"), read.pop().expect("two"));
    let other = |error: &PoolError| error.is_other_format();
    match (first, second) {
        (Err(error), _) | (_, Err(error)) if other(&error) => Err(error),
        (Ok(a), Ok(b)) => Ok((if a.sequence > b.sequence { a } else { b }, None)),
        (Ok(good), Err(error)) | (Err(error), Ok(good)) => {
            Ok((good, (!matches!(error, PoolError::NoPool)).then_some(error)))
        }
        (Err(PoolError::NoPool), Err(error)) | (Err(error), Err(_)) => Err(error),
    }
}

/// The first checkpoint under a name that stays: the last sync of the making of a pool, which was
/// for its name, may be what failed.
fn name_again(folder: &dyn Folder, name: &str) -> Result<Arc<dyn Media>, PoolError> {
    let bytes = small_file::read(folder, name, FIRST_BYTES_MAX)?;
    small_file::replace(folder, name, &bytes)?;
    existing(folder, name)
}

/// Media that must be there in a pool.
fn existing(folder: &dyn Folder, name: &str) -> Result<Arc<dyn Media>, PoolError> {
    folder.open(name).map_err(|error| match error {
        MediaError::NotFound { .. } => PoolError::corrupt_whole(name, "the file is missing"),
        other => other.into(),
    })
}

fn existing_containers(folder: &dyn Folder) -> Result<Arc<dyn Folder>, PoolError> {
    folder.existing_subfolder(CONTAINER_FOLDER).map_err(|error| match error {
        MediaError::NotFound { .. } => {
            PoolError::corrupt_whole(CONTAINER_FOLDER, "the folder is missing")
        }
        other => other.into(),
    })
}

/// Refuse a pool whose repair is half in place.
pub(crate) fn refuse_unfinished_repair(folder: &dyn Folder) -> Result<(), PoolError> {
    match folder.open(REPAIR_FILE) {
        Err(MediaError::NotFound { .. }) => Ok(()),
        found => found.map_err(Into::into).and(Err(PoolError::RepairUnfinished)),
    }
}

/// Open the files of a pool.
pub(crate) fn files(folder: &dyn Folder) -> Result<Files, PoolError> {
    refuse_unfinished_repair(folder)?;
    // A creation that was cut short leaves empty ones, or one of them.
    let written = |name: &&str| folder.open(name).and_then(|media| media.is_empty());
    if SUPER_FILES.iter().all(|name| match written(name) {
        Ok(empty) => empty,
        Err(error) => matches!(error, MediaError::NotFound { .. }),
    }) {
        return Err(PoolError::NoPool);
    }
    Ok(Files {
        supers: [existing(folder, SUPER_FILES[0])?, existing(folder, SUPER_FILES[1])?],
        journal: existing(folder, JOURNAL_FILE)?,
        map: existing(folder, MAP_FILE)?,
        fingerprints: None,
    })
}

/// The folder of fingerprint runs, which pools without background deduplication do not have. Who
/// may change nothing does without it.
fn fingerprints(
    folder: &dyn Folder,
    read_only: bool,
) -> Result<Option<Arc<dyn Folder>>, PoolError> {
    if !read_only {
        return Ok(Some(folder.subfolder(FINGERPRINT_FOLDER)?));
    }
    match folder.existing_subfolder(FINGERPRINT_FOLDER) {
        Err(MediaError::NotFound { .. }) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Puts something before a pool's container store, such as a cache; [`Surroundings`].
pub type WrapStore<'a> = dyn FnOnce(Plain, &PoolSettings, &PoolIdentity) -> Plain + 'a;

/// A container store as pools hold it.
type Plain = Arc<dyn ContainerStore>;

/// What a door puts around a pool.
#[derive(Default)]
pub struct Surroundings<'a> {
    /// Something before the containers, such as a cache. Whatever it is has to be a
    /// [`ContainerStore`] over the one it is given, and holds nothing that is not there as well.
    pub wrap: Option<Box<WrapStore<'a>>>,
    /// Memory of this pool alone that outlives the process: with it, acknowledged writes survive
    /// the death of the process and not only what was flushed. A pool that is opened without it
    /// after such a death has only what was flushed, and so does one that is opened read-only.
    pub handover: Option<Arc<dyn Handover>>,
}

/// Open a pool. Unless `read_only`, it is recovered and checkpointed if it was not stopped
/// cleanly.
pub(crate) fn open(
    folder: &dyn Folder,
    options: &OpenOptions,
    guard: Option<FolderLock>,
    around: Surroundings<'_>,
) -> Result<Arc<Inner>, PoolError> {
    options.budgets.check()?;
    let mut files = files(folder)?;
    files.fingerprints = fingerprints(folder, options.read_only)?;
    let (superblock, damage) = read_supers(&files.supers)?;
    if let Some(error) = &damage {
        tracing::warn!("one checkpoint is unreadable, as after a power cut: {error}");
    }
    let newest = SUPER_FILES[superblock.sequence as usize % 2];
    superblock.features.check(newest, !options.read_only)?;
    check_map_header(&*files.map, &superblock.identity)?;
    if superblock.sequence == FIRST_SEQUENCE && !options.read_only {
        files.supers[1] = name_again(folder, SUPER_FILES[1])?;
    }
    let containers = existing_containers(folder)?;
    let plain: Arc<dyn ContainerStore> = Arc::new(FolderContainerStore::new(containers));
    let maps = load_maps(&files, &superblock, options, &mut Err)?;
    let stored = maps.table.iter().any(|(_, info)| info.is_referenced());
    if stored && plain.list()?.is_empty() {
        let problem = "it is missing or empty, but the pool has data: is a disk not mounted?";
        return Err(PoolError::corrupt_whole(CONTAINER_FOLDER, problem));
    }
    let (settings, identity) = (&superblock.settings, &superblock.identity);
    let handover = around.handover.filter(|_| !options.read_only);
    let boot = handover.as_ref().map(|handover| handover.boot());
    let taken_up = match &handover {
        Some(handover) => take_up(&**handover, (&superblock, &maps.table), &files, &*plain)?,
        None => TakenUp::default(),
    };
    let store = match around.wrap {
        Some(wrap) => wrap(Arc::clone(&plain), settings, identity),
        None => Arc::clone(&plain),
    };
    let mut inner = assemble((files, maps), [store, plain], &superblock, options, guard);
    inner.taken_up = taken_up;
    add_trees(&inner, &superblock)?;
    inner.generation = Some(if options.read_only {
        OpenGeneration::look(folder, &identity.uuid)?
    } else {
        open_generation(folder, &superblock, &inner.taken_up, boot)?
    });
    let inner = Arc::new(inner);
    inner.recover(superblock.sequence, damage)?;
    inner.tell_references();
    if let Some(handover) = handover {
        inner.keep_in(handover);
    }
    inner.begin_generation(boot)?;
    Ok(inner)
}

/// Tell the map of all volumes and snapshots.
pub(crate) fn add_trees(inner: &Inner, superblock: &Superblock) -> Result<(), PoolError> {
    let births = superblock.births();
    for record in &superblock.volumes {
        let root = Root { height: record.height, reference: record.root };
        let blocks = record.size_bytes.div_ceil(inner.settings.chunk_size.bytes64());
        let shared = births.get(&record.parent).copied().unwrap_or(NO_SNAPSHOT);
        inner.map.add(record.number, root, blocks, shared)?;
    }
    inner.restore_lineage()
}

/// What the map file holds.
pub(crate) struct Maps {
    map: Map,
    pub table: ContainerTable,
    table_pages: PageArray,
    slots: SlotBitmap,
}

/// Read the container table and, unless read-only, which slots are in use. `on_damage` decides
/// whether to go on without what is damaged.
pub(crate) fn load_maps(
    files: &Files,
    superblock: &Superblock,
    options: &OpenOptions,
    on_damage: OnDamage<'_>,
) -> Result<Maps, PoolError> {
    let map = Map::new(Arc::clone(&files.map), options.budgets.map_bytes, superblock.sequence);
    // Where it refers to no page, the table's reader says so.
    let root = PageRef::from_raw(superblock.table).unwrap_or(NO_PAGE);
    let root = (root, superblock.next_container);
    let (mut table, table_pages) = ContainerTable::load(&map, root, on_damage)?;
    table.set_unseen(superblock.unseen);
    let mut slots = SlotBitmap::new();
    if !options.read_only {
        let bits;
        (slots, bits) = SlotBitmap::load(&map, slot_uses::bitmap_of(superblock), on_damage)?;
        let mut uses = Uses::new(bits, superblock.sequence);
        uses.refuse_damage_at_top(superblock, &table_pages, &slots)?;
        map.restore_slots(uses.into_bits());
    }
    Ok(Maps { map, table, table_pages, slots })
}

pub(crate) fn assemble(
    (files, maps): (Files, Maps),
    [store, plain]: [Arc<dyn ContainerStore>; 2],
    superblock: &Superblock,
    options: &OpenOptions,
    guard: Option<FolderLock>,
) -> Inner {
    let (settings, identity, budgets) = (superblock.settings, superblock.identity, options.budgets);
    let directory_bytes = directories::bytes_of_index_memory(budgets.index_bytes);
    let volumes: BTreeMap<u32, Arc<VolumeState>> =
        superblock.volumes.iter().map(|record| (record.number, volume_state(record))).collect();
    let flusher = Flusher {
        journal: new_journal(superblock, &files),
        table: maps.table_pages,
        slots: maps.slots,
        sequence: superblock.sequence,
        pending: Entries::default(),
        durable: 0,
        tells_sealed: superblock.features.must_refuse & SEALED_IN_JOURNAL != 0,
    };
    Inner {
        settings,
        identity,
        budgets,
        read_only: options.read_only,
        store,
        plain,
        map: maps.map,
        index_memory: AtomicU64::new(budgets.index_bytes),
        index: FingerprintIndex::new(budgets.index_bytes - directory_bytes),
        index_filling: IndexFilling::default(),
        directories: Directories::new(directory_bytes as usize),
        cache: ReadCache::new(budgets.cache_bytes, settings.chunk_size.bytes()),
        fingerprinter: Fingerprinter::with_key(settings.fingerprint, identity.key),
        live: RwLock::new(HashMap::new()),
        stores: AtomicU64::new(0),
        newest: AtomicU32::new(superblock.next_container - 1),
        growth: Mutex::default(),
        engine: Mutex::new(new_engine(superblock, maps.table, &files)),
        flusher: Mutex::new(flusher),
        volumes: RwLock::new(volumes),
        counters: Counters::default(),
        features: superblock.features,
        deduplication: Mutex::default(),
        deduplication_seen: Mutex::default(),
        ask_runs: AskRuns::default(),
        opened_at: superblock.sequence,
        checkpoint_sequence: AtomicU64::new(superblock.sequence),
        reclaim: Mutex::default(),
        properties: Mutex::default(),
        lineage: Mutex::default(),
        hold: Mutex::default(),
        punching: Mutex::default(),
        lineage_wanted: AtomicU32::new(0),
        handed: Mutex::default(),
        pinned_dead: AtomicU64::new(0),
        relief: Relief::default(),
        space_target: AtomicU32::new(0),
        poison: OnceLock::new(),
        scratch: Mutex::default(),
        buffers: Mutex::default(),
        files,
        kept: OnceLock::new(),
        generation: None,
        taken_up: TakenUp::default(),
        guard,
    }
}

/// The journal of the epoch that this checkpoint begins.
fn new_journal(superblock: &Superblock, files: &Files) -> Journal {
    let newest = Arc::clone(&files.supers[superblock.sequence as usize % 2]);
    let witness = Witness::new(newest, superblock.len_bytes() as u64);
    let (journal, empty) = (Arc::clone(&files.journal), journal::Replay::default());
    Journal::resume(journal, superblock.sequence, &empty, witness)
}

/// Nothing has happened since this checkpoint.
fn new_engine(superblock: &Superblock, table: ContainerTable, files: &Files) -> Engine {
    let mut space = Space::new(Arc::clone(&files.journal), files.supers.clone(), 0);
    superblock.volumes.iter().for_each(|volume| space.note(volume.note.len()));
    Engine {
        table,
        open: None,
        moving: None,
        spare: None,
        ready: Vec::new(),
        unsynced: Vec::new(),
        next_container: superblock.next_container,
        next_volume: superblock.next_volume,
        epoch: superblock.sequence,
        freezes: 0,
        leaving: 0,
        entries: Entries::default(),
        generation: 0,
        space,
    }
}

impl Inner {
    /// Keep what is not durable in this memory too. It must do without if there is none.
    fn keep_in(&self, handover: Arc<dyn Handover>) {
        let sequence = self.flusher().sequence;
        match Kept::begin(handover, self.identity.uuid, sequence) {
            Ok(kept) => drop(self.kept.set(kept)),
            Err(error) => {
                tracing::warn!("writes since the last flush would not survive a kill: {error}");
            }
        }
    }
}

pub(crate) fn volume_state(record: &VolumeRecord) -> Arc<VolumeState> {
    Arc::new(VolumeState {
        number: record.number,
        name: RwLock::new(record.name.clone()),
        size_bytes: AtomicU64::new(record.size_bytes),
        next_size_bytes: AtomicU64::new(record.size_bytes),
        mapped_chunks: AtomicU64::new(record.mapped_chunks),
        deleting: AtomicBool::new(record.deleting),
        origin: AtomicU32::new(record.origin),
        birth: record.birth,
        created_seconds: record.created_seconds,
        is_snapshot: record.kind == KIND_SNAPSHOT,
        parent: AtomicU32::new(record.parent),
        held: AtomicBool::new(record.held),
        dropped: AtomicU64::new(record.dropped),
        identity: record.identity,
        gone: AtomicBool::new(false),
        note: RwLock::new(Arc::from(record.note.as_slice())),
    })
}
