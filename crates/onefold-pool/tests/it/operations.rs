//! What reaches the disk and in which order, syncs and lengths among it, what is reported, and what
//! lies there in the end: byte for byte as `operations.txt` and others have it.
//! `ONEFOLD_UPDATE=1` writes these files anew; a change of one is a change of the format, or of
//! what a power cut may meet.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use onefold_block::{
    BlockDevice, ByteSize, ChunkSize, ContainerId, ContainerStore, CrashMode, FaultKind, Folder,
    OpKind, SimFolder, StoreError, StoreLayer, ZeroOptions,
};
use onefold_content::{Compression, FingerprintKind, Fingerprinter};
use onefold_pool::{
    Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings, RescuePoint, Scrubber, SpaceTarget,
    Surroundings, Thoroughness, Volume, WrapStore,
};

use crate::support::{IDENTITY, assert_golden, content, options, read_only, small};

const CHUNK: u64 = 4096;
/// Rounds of work in the background, at most.
const ROUNDS_MAX: usize = 2000;

/// A disk, and what was told of it so far.
struct Story {
    folder: SimFolder,
    told: String,
    operations: usize,
}

impl Story {
    fn new(title: &str) -> Self {
        Self { folder: SimFolder::new(), told: format!("# {title}\n"), operations: 0 }
    }

    /// On another disk, as it is after a power cut.
    fn on(title: &str, folder: &SimFolder) -> Self {
        Self { folder: folder.after_crash(1, CrashMode::KeepEverything), ..Self::new(title) }
    }

    fn create(&self, settings: &PoolSettings) -> Pool {
        Pool::create(&self.folder, settings, IDENTITY).unwrap();
        self.open()
    }

    fn open(&self) -> Pool {
        Pool::open(&self.folder, &options()).unwrap()
    }

    /// With all that is read from its containers and said of them.
    fn open_heard(&self) -> (Arc<Mutex<String>>, Pool) {
        let heard = Arc::<Mutex<String>>::default();
        let told = Arc::clone(&heard);
        let wrap: Box<WrapStore<'_>> = Box::new(move |inner, _, _| Arc::new(Heard { inner, told }));
        let around = Surroundings { wrap: Some(wrap), ..Surroundings::default() };
        (heard, Pool::open_in(&self.folder, &options(), around).unwrap())
    }

    /// The operations since the last time.
    fn tell(&mut self, what: &str) {
        writeln!(self.told, "\n## {what}\n").unwrap();
        self.told += &self.folder.ops_since(&mut self.operations);
    }

    fn say(&mut self, what: &dyn std::fmt::Debug) {
        writeln!(self.told, "{what:?}").unwrap();
    }

    fn status(&mut self, pool: &Pool) {
        writeln!(self.told, "{:#?}", pool.status().unwrap()).unwrap();
    }

    /// Work in the background until nothing is left.
    fn win_space(&mut self, pool: &Pool) {
        let target = SpaceTarget::new(1.05).unwrap();
        for _ in 0..ROUNDS_MAX {
            let step = pool.background(64 << 10, target).unwrap();
            self.say(&step);
            if step.done {
                return;
            }
        }
        panic!("it never ends");
    }

    fn deduplicate(&mut self, pool: &Pool, thoroughness: Thoroughness) {
        for _ in 0..ROUNDS_MAX {
            let step = pool.deduplicate(64 << 10, thoroughness).unwrap();
            self.say(&step);
            if step.done {
                return;
            }
        }
        panic!("it never ends");
    }

    /// What volumes and snapshots hold.
    fn read(&mut self, pool: &Pool) {
        let mut names: Vec<String> = pool.volumes().iter().map(Volume::name).collect();
        names.extend(pool.snapshots(None).unwrap().into_iter().map(|snapshot| snapshot.name));
        for name in names {
            let volume = pool.volume(&name).unwrap();
            let mut bytes = vec![0; volume.size_bytes() as usize];
            let read = volume.read_at(0, &mut bytes).map(|()| hash(&bytes));
            self.say(&(name, read.map_err(|error| error.to_string())));
            self.say(&volume.block_status(0, volume.size_bytes()).map(|found| found.len()).ok());
        }
    }

    fn check(&mut self) {
        writeln!(self.told, "{:#?}", Pool::check_in(&self.folder, &mut |_, _| {}).unwrap())
            .unwrap();
    }

    /// All files, with their lengths and hashes.
    fn end(mut self) -> String {
        self.told.push_str("\n## files\n\n");
        for sub in ["", "containers", "fingerprints"] {
            let within: Arc<dyn Folder> = match sub {
                "" => Arc::new(self.folder.clone()),
                sub => match self.folder.existing_subfolder(sub) {
                    Ok(within) => within,
                    Err(_) => continue,
                },
            };
            for name in within.list().unwrap() {
                let Ok(file) = within.open(&name) else { continue };
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read(0, &mut bytes).unwrap();
                let (len, hash) = (bytes.len(), hash(&bytes));
                writeln!(self.told, "{sub}/{name}: {len} bytes, {hash}").unwrap();
            }
        }
        self.told
    }
}

pub fn hash(bytes: &[u8]) -> String {
    let hash = Fingerprinter::new(FingerprintKind::Blake3).hash(bytes);
    let [a, b, c, d, ..] = *hash.as_bytes();
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

fn write(volume: &Volume, blocks: std::ops::Range<u64>, seed: u64) {
    for block in blocks {
        volume.write_at(block * CHUNK, &content(block + seed, CHUNK as usize), false).unwrap();
    }
}

/// A container store, with what is read from it and what it is told.
struct Heard {
    inner: Arc<dyn ContainerStore>,
    told: Arc<Mutex<String>>,
}

impl Heard {
    fn hear(&self, what: &str) {
        self.told.lock().unwrap().push_str(what);
    }
}

impl StoreLayer for Heard {
    fn below(&self) -> &dyn ContainerStore {
        &*self.inner
    }

    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.hear(&format!("read {id} bytes {offset}..{}\n", offset + buf.len() as u64));
        self.inner.read(id, offset, buf)
    }

    fn len(&self, id: ContainerId) -> Result<u64, StoreError> {
        self.hear(&format!("length of {id}\n"));
        self.inner.len(id)
    }

    fn remove(&self, id: ContainerId) -> Result<(), StoreError> {
        self.hear(&format!("remove {id}\n"));
        self.inner.remove(id)
    }

    fn tell_references(&self, totals: &[(ContainerId, u32)]) {
        let totals: Vec<_> = totals.iter().map(|(id, count)| (id.get(), *count)).collect();
        self.hear(&format!("references {totals:?}\n"));
    }

    fn tell_moved(&self, id: ContainerId) {
        self.hear(&format!("{id} is moved\n"));
    }
}

/// Written, shared, given up, moved, merged, checked and read.
fn a_life(settings: &PoolSettings) -> (SimFolder, String) {
    let mut story = Story::new(&format!("a life: {:?}", settings.compression));
    let pool = story.create(settings);
    story.tell("a pool is made and opened");
    let volume = pool.create_volume_at("main", ByteSize(700 * CHUNK), 3).unwrap();
    story.tell("a volume is made");
    write(&volume, 0..150, 0);
    story.tell("containers are filled");
    volume.flush().unwrap();
    story.tell("all is made durable");
    write(&volume, 600..650, 0);
    write(&volume, 150..200, 20_000 - 200);
    volume.write_at(5 * CHUNK + 100, &[7; 5000], true).unwrap();
    story.tell("duplicates, and pieces of blocks");
    volume.trim(20 * CHUNK, 10 * CHUNK, false).unwrap();
    let zero = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
    volume.write_zeroes(512 * CHUNK, 60 * CHUNK, zero).unwrap();
    volume.write_zeroes(3 * CHUNK + 512, 1024, ZeroOptions::default()).unwrap();
    pool.flush().unwrap();
    story.tell("holes and zeroes");
    story.status(&pool);
    pool.snapshot("main@one", 5, false).unwrap();
    story.tell("a snapshot");
    write(&volume, 0..60, 40_000);
    let clone = pool.clone_snapshot("main@one", "clone", 9).unwrap();
    write(&clone, 100..130, 50_000);
    pool.checkpoint().unwrap();
    story.tell("a clone, and a checkpoint");
    story.say(&pool.alone(None).unwrap());
    story.deduplicate(&pool, Thoroughness::Whole);
    story.tell("what is there twice is looked for");
    pool.snapshot("main@two", 6, true).unwrap();
    for block in (0..200).step_by(3) {
        volume.trim(block * CHUNK, CHUNK, false).unwrap();
    }
    pool.resize_volume("main", ByteSize(800 * CHUNK), false).unwrap();
    story.tell("holes in containers, and a larger volume");
    story.say(&pool.snapshots(None).unwrap());
    drop(clone);
    pool.delete_volume("clone").unwrap();
    pool.delete_snapshot("main@one").unwrap();
    story.tell("a volume and a snapshot are deleted");
    story.win_space(&pool);
    story.tell("space is won");
    story.say(&pool.check_beside(&mut |_, _| true).unwrap().map(|report| report.chunks));
    pool.checkpoint().unwrap();
    pool.maintain().unwrap();
    story.tell("a check beside, and a checkpoint");
    pool.set_note("main", b"who may").unwrap();
    pool.hold_snapshot("main@two", false).unwrap();
    pool.rename_volume("main", "other").unwrap();
    story.tell("a note and another name");
    story.status(&pool);
    drop(volume);
    pool.rollback("other@two").unwrap();
    story.tell("a rollback");
    story.win_space(&pool);
    story.tell("space is won again");
    pool.close().unwrap();
    story.tell("the pool is closed");
    let pool = story.open();
    story.tell("and opened");
    story.read(&pool);
    let mut scrubber = Scrubber::default();
    while let Some(step) = scrubber.step(&pool).unwrap() {
        story.say(&step);
    }
    story.deduplicate(&pool, Thoroughness::Whole);
    story.tell("it is read, scrubbed and deduplicated");
    story.status(&pool);
    drop(pool);
    story.tell("it stops");
    story.check();
    (story.folder.after_crash(1, CrashMode::KeepEverything), story.end())
}

/// Half-dead containers are emptied, and what the index missed is found.
fn moved_and_found() -> String {
    let mut story = Story::new("moved and found");
    let pool = story.create(&small());
    let volume = pool.create_volume_at("main", ByteSize(2000 * CHUNK), 1).unwrap();
    write(&volume, 0..900, 0);
    for block in (0..600).filter(|block| block % 7 != 0) {
        volume.trim(block * CHUNK, CHUNK, false).unwrap();
    }
    story.tell("much of it is dead");
    story.win_space(&pool);
    story.tell("space is won");
    story.status(&pool);
    drop(volume);
    pool.close().unwrap();
    let (heard, pool) = story.open_heard();
    // What was there before is not known to the index.
    pool.fill_index_beside();
    let volume = pool.volume("main").unwrap();
    for block in 0..200 {
        let bytes = content(650 + block, CHUNK as usize);
        volume.write_at((1000 + block) * CHUNK, &bytes, false).unwrap();
    }
    pool.checkpoint().unwrap();
    story.tell("duplicates are written");
    story.deduplicate(&pool, Thoroughness::Levels);
    story.deduplicate(&pool, Thoroughness::Whole);
    story.tell("and found");
    story.win_space(&pool);
    story.tell("what they took is won");
    assert!((0..ROUNDS_MAX).any(|_| pool.fill_index(64 << 10)));
    story.status(&pool);
    story.read(&pool);
    drop(volume);
    pool.close().unwrap();
    story.tell("it is closed");
    story.told.push_str(&heard.lock().unwrap());
    story.check();
    story.end()
}

/// A pool with a journal that is not empty, and a snapshot.
fn left() -> SimFolder {
    let folder = SimFolder::new();
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.create_volume_at("main", ByteSize(600 * CHUNK), 1).unwrap();
    write(&volume, 0..140, 0);
    pool.snapshot("main@one", 2, false).unwrap();
    write(&volume, 100..180, 5_000);
    pool.checkpoint().unwrap();
    write(&volume, 500..600, 9_000);
    volume.flush().unwrap();
    write(&volume, 0..30, 70_000);
    volume.flush().unwrap();
    write(&volume, 30..50, 80_000);
    folder.after_crash(1, CrashMode::KeepEverything)
}

type Damage<'a> = &'a dyn Fn(&SimFolder);

fn first_container(folder: &SimFolder, at: u64) {
    let containers = folder.existing_subfolder("containers").unwrap();
    let name = containers.list().unwrap().remove(0);
    containers.open(&name).unwrap().write(at, &[0xA5; 8]).unwrap();
}

/// What is damaged is named, rescued and repaired.
fn damage() -> String {
    let damages: [(&str, Damage<'_>); 9] = [
        ("nothing is damaged", &|_| {}),
        ("super.0 is gone", &|folder| folder.remove("super.0").unwrap()),
        ("super.1 is damaged", &|folder| folder.flip_bit("super.1", 60, 1).unwrap()),
        ("the journal is gone", &|folder| folder.remove("journal").unwrap()),
        ("a frame is damaged", &|folder| folder.flip_bit("journal", 100, 1).unwrap()),
        ("the map is cut", &|folder| folder.truncate("map", 4096).unwrap()),
        ("the map is gone", &|folder| folder.remove("map").unwrap()),
        ("a record is damaged", &|folder| first_container(folder, 9000)),
        ("a header is damaged", &|folder| first_container(folder, 4)),
    ];
    let left = left();
    let mut told = String::new();
    for (what, damage) in damages {
        let damaged = left.after_crash(1, CrashMode::KeepEverything);
        damage(&damaged);
        let mut story = Story::on(&format!("{what}: a rescue"), &damaged);
        let checked = Pool::check_in(&story.folder, &mut |_, _| {});
        writeln!(story.told, "{:#?}", checked.map_err(|error| error.to_string())).unwrap();
        for point in [RescuePoint::Consistent, RescuePoint::Newest] {
            match Pool::rescue(&story.folder, options().budgets, point) {
                Ok((pool, report)) => {
                    story.say(&report);
                    story.read(&pool);
                }
                Err(error) => story.say(&error.to_string()),
            }
        }
        match Pool::open(&story.folder, &read_only()) {
            Ok(pool) => {
                story.say(&pool.status().map_err(|error| error.to_string()));
                story.read(&pool);
            }
            Err(error) => story.say(&error.to_string()),
        }
        story.tell("it is rescued and read");
        told += &story.told;
        let mut story = Story::on(&format!("{what}: a repair"), &damaged);
        let fresh = PoolIdentity { uuid: [8; 16], key: [9; 32] };
        let repair = Pool::repair_in(Arc::new(story.folder.clone()), fresh, &mut |_, _| {});
        let report =
            repair.and_then(onefold_pool::Repair::apply).map_err(|error| error.to_string());
        writeln!(story.told, "{report:#?}").unwrap();
        story.tell("it is repaired");
        story.check();
        told += &story.end();
        told.push('\n');
        let mut story = Story::on(&format!("{what}: it is used"), &damaged);
        match Pool::open(&story.folder, &options()) {
            Ok(pool) => {
                story.tell("it is opened");
                let volume = pool.volume("main").unwrap();
                for (seed, block) in [(90_000, 7), (1, 200), (90_000, 550)] {
                    let bytes = content(block + seed, CHUNK as usize);
                    let written = volume.write_at(block * CHUNK + 8, &bytes, true);
                    story.say(&written.map_err(|error| error.to_string()));
                }
                story.tell("and written to");
                story.say(&pool.status().map_err(|error| error.to_string()));
                let closed = pool.close().map_err(|error| error.to_string());
                story.say(&closed);
                story.tell("and closed");
            }
            Err(error) => story.say(&error.to_string()),
        }
        told += &story.end();
        told.push('\n');
    }
    told
}

/// No space, and a disk that fails.
fn trouble() -> String {
    let mut told = String::new();
    for (what, kind, fault) in [
        ("a full disk", OpKind::Write, FaultKind::Enospc),
        ("a failed write", OpKind::Write, FaultKind::Eio),
        ("a failed sync", OpKind::Sync, FaultKind::Eio),
        ("no room in advance", OpKind::Reserve, FaultKind::Enospc),
    ] {
        for nth in [1, 2, 4] {
            let mut story = Story::new(&format!("{what}, number {nth}"));
            let pool = story.create(&small());
            let volume = pool.create_volume_at("main", ByteSize(600 * CHUNK), 1).unwrap();
            write(&volume, 0..20, 0);
            volume.flush().unwrap();
            story.folder.fail_once(&[kind], nth, fault);
            let mut failed = None;
            for block in 20..150 {
                let bytes = content(block, CHUNK as usize);
                if let Err(error) = volume.write_at(block * CHUNK, &bytes, block % 40 == 0) {
                    failed = Some((block, error.to_string()));
                    break;
                }
            }
            story.say(&failed);
            story.say(&pool.checkpoint().map_err(|error| error.to_string()));
            story.folder.clear_faults();
            let again = volume.write_at(0, &content(99, CHUNK as usize), true);
            story.say(&again.map_err(|error| error.to_string()));
            story.say(&pool.status().unwrap());
            story.say(&pool.close().map_err(|error| error.to_string()));
            story.tell("it fails");
            let pool = story.open();
            story.read(&pool);
            story.say(&pool.status().unwrap());
            pool.close().unwrap();
            story.tell("it is opened again");
            story.check();
            told += &story.end();
            told.push('\n');
        }
    }
    told
}

/// A checkpoint that finds no space, or fails, at each of its writes and syncs.
fn checkpoints_that_fail() -> String {
    let mut told = String::new();
    for (kind, fault, most) in [
        (OpKind::Write, FaultKind::Enospc, 9),
        (OpKind::Write, FaultKind::Eio, 9),
        (OpKind::Sync, FaultKind::Eio, 6),
    ] {
        for nth in 1..=most {
            let mut story = Story::new(&format!("a checkpoint, {kind:?} {nth}: {fault:?}"));
            let pool = story.create(&small());
            let volume = pool.create_volume_at("main", ByteSize(600 * CHUNK), 1).unwrap();
            write(&volume, 0..130, 0);
            pool.checkpoint().unwrap();
            write(&volume, 0..70, 1_000);
            pool.snapshot("main@one", 4, false).unwrap();
            pool.delete_snapshot("main@one").unwrap();
            write(&volume, 520..530, 2_000);
            volume.trim(0, 66 * CHUNK, false).unwrap();
            story.operations = story.folder.op_log().lines().count();
            story.folder.fail_once(&[kind], nth, fault);
            let failed = pool.checkpoint().map_err(|error| error.to_string());
            story.folder.clear_faults();
            story.say(&failed);
            story.tell("it is written, or not");
            let written = volume.write_at(5 * CHUNK, &content(7, CHUNK as usize), true);
            story.say(&written.map_err(|error| error.to_string()));
            story.say(&pool.checkpoint().map_err(|error| error.to_string()));
            story.say(&pool.status().unwrap());
            story.tell("and again");
            drop(pool);
            let pool = story.open();
            story.read(&pool);
            story.say(&pool.status().unwrap());
            pool.close().unwrap();
            story.check();
            told += &story.end();
            told.push('\n');
        }
    }
    told
}

/// Nothing can be moved, so that dead pages are given back where they lie.
fn a_full_disk() -> String {
    let mut story = Story::new("a full disk");
    let pool = story.create(&PoolSettings { compression: Compression::None, ..small() });
    let volume = pool.create_volume_at("main", ByteSize(2000 * CHUNK), 1).unwrap();
    write(&volume, 0..300, 1);
    drop(volume);
    pool.close().unwrap();
    let pool = story.open();
    let volume = pool.volume("main").unwrap();
    for block in (0..300).filter(|block| block % 16 >= 2) {
        volume.trim(block * CHUNK, CHUNK, false).unwrap();
    }
    story.folder.set_capacity(Some(story.folder.used_bytes() + (1300 << 10)));
    story.tell("most of it is dead");
    let mut refused = None;
    for block in 400..800 {
        let bytes = content(block + 10_000, CHUNK as usize);
        if let Err(error) = volume.write_at(block * CHUNK, &bytes, false) {
            refused = Some((block, error.to_string()));
            break;
        }
    }
    story.say(&refused);
    story.tell("it is filled");
    story.status(&pool);
    drop(volume);
    story.say(&pool.close().map_err(|error| error.to_string()));
    story.tell("it is closed");
    story.folder.set_capacity(None);
    let pool = story.open();
    story.read(&pool);
    drop(pool);
    story.tell("it is opened again");
    story.check();
    story.end()
}

/// Maps that do not fit into memory, larger blocks, and fingerprints that prove nothing.
fn little_memory() -> String {
    const BLOCK: u64 = 2 * CHUNK;
    /// What one leaf of the map is about.
    const LEAF: u64 = 512 * BLOCK;
    let mut story = Story::new("little memory");
    let chunk_size = ChunkSize::new(ByteSize(BLOCK)).unwrap();
    let settings = PoolSettings { fingerprint: FingerprintKind::Crc32, chunk_size, ..small() };
    Pool::create(&story.folder, &settings, IDENTITY).unwrap();
    let budgets = Budgets { map_bytes: 1 << 20, cache_bytes: 100 << 10, ..options().budgets };
    let open =
        |story: &Story| Pool::open(&story.folder, &OpenOptions { budgets, ..options() }).unwrap();
    let write = |volume: &Volume, leaves: std::ops::Range<u64>, seed: u64| {
        for leaf in leaves {
            // Every third one is the same.
            let seed = if leaf % 3 == 0 { 1 } else { seed + leaf };
            let at = leaf * LEAF + leaf % 512 * BLOCK;
            volume.write_at(at, &content(seed, BLOCK as usize), false).unwrap();
        }
    };
    let read = |volume: &Volume, leaves: std::ops::Range<u64>| {
        let mut all = Vec::new();
        for leaf in leaves {
            let mut bytes = vec![0; 3 * BLOCK as usize + 1];
            let at = leaf * LEAF + (leaf % 512).saturating_sub(1) * BLOCK;
            volume.read_at(at + 7, &mut bytes).unwrap();
            all.extend(hash(&bytes).into_bytes());
        }
        hash(&all)
    };
    let pool = open(&story);
    let volume = pool.create_volume_at("main", ByteSize(400 * LEAF), 1).unwrap();
    write(&volume, 0..300, 1000);
    story.say(&pool.status().unwrap());
    story.say(&read(&volume, 0..300));
    story.say(&pool.status().unwrap());
    pool.checkpoint().unwrap();
    pool.snapshot("main@one", 5, false).unwrap();
    write(&volume, 100..140, 5000);
    volume.trim(20 * LEAF + 300, 30 * LEAF, false).unwrap();
    let zero = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
    volume.write_zeroes(60 * LEAF - 300, 5 * LEAF, zero).unwrap();
    story.say(&pool.alone(None).unwrap());
    story.say(&volume.block_status(0, 100 * LEAF).unwrap());
    story.say(&pool.status().unwrap());
    pool.resize_volume("main", ByteSize(200 * LEAF + 5), true).unwrap();
    pool.resize_volume("main", ByteSize(250 * LEAF), true).unwrap();
    story.say(&read(&volume, 0..220));
    story.say(&pool.alone(None).unwrap());
    pool.delete_snapshot("main@one").unwrap();
    story.win_space(&pool);
    story.say(&pool.status().unwrap());
    drop(volume);
    pool.close().unwrap();
    let pool = open(&story);
    let volume = pool.volume("main").unwrap();
    story.say(&read(&volume, 0..220));
    write(&volume, 220..240, 1000);
    story.deduplicate(&pool, Thoroughness::Whole);
    story.say(&pool.status().unwrap());
    drop((volume, pool));
    story.operations = story.folder.op_log().lines().count();
    let pool = open(&story);
    story.tell("it is opened after a kill");
    story.say(&read(&pool.volume("main").unwrap(), 0..250));
    story.say(&pool.status().unwrap());
    pool.close().unwrap();
    story.check();
    story.end()
}

/// Two pools become one by streams: of a snapshot, and of what changed since.
fn streams() -> String {
    let (folder, pool) = crate::support::new_pool(&small());
    let volume = pool.create_volume_at("main", ByteSize(600 * CHUNK), 1).unwrap();
    write(&volume, 0..100, 0);
    pool.snapshot("main@one", 2, false).unwrap();
    write(&volume, 50..70, 3_000);
    volume.trim(10 * CHUNK, 20 * CHUNK, false).unwrap();
    pool.snapshot("main@two", 3, false).unwrap();
    let mut told = "# streams\n\n".to_owned();
    for (name, base) in [("main@one", None), ("main@two", Some("main@one")), ("main@two", None)] {
        let mut out = Vec::new();
        pool.stream_header(name, base, &mut out).unwrap();
        writeln!(told, "{name} since {base:?}").unwrap();
        let mut next = Some(0);
        while let Some(from) = next {
            writeln!(told, "{from}: {} bytes, {}", out.len(), hash(&out)).unwrap();
            next = pool.stream_frame(name, base, from, &mut out).unwrap();
        }
        writeln!(told, "{} bytes, {}", out.len(), hash(&out)).unwrap();
    }
    drop((folder, volume));
    told
}

#[test]
fn a_life_is_what_it_was() {
    let zstd = PoolSettings { compression: Compression::Zstd(1), ..small() };
    assert_golden("operations.txt", &[a_life(&small()).1, a_life(&zstd).1].join("\n"));
}

#[test]
fn what_is_moved_found_and_sent_is_what_it_was() {
    assert_golden("moved.txt", &[moved_and_found(), a_full_disk(), streams()].join("\n"));
}

#[test]
fn what_little_memory_holds_is_what_it_was() {
    assert_golden("little_memory.txt", &little_memory());
}

#[test]
fn trouble_is_what_it_was() {
    assert_golden("trouble.txt", &trouble());
}

#[test]
fn checkpoints_that_fail_leave_what_they_left() {
    assert_golden("checkpoints.txt", &checkpoints_that_fail());
}

#[test]
fn damage_is_what_it_was() {
    assert_golden("damage.txt", &damage());
}

#[test]
fn what_holds_the_containers_hears_how_much_each_is_worth_as_soon_as_a_pool_is_opened() {
    let story = Story::new("");
    let pool = story.create(&small());
    let volume = pool.create_volume("main", ByteSize(100 * CHUNK)).unwrap();
    write(&volume, 0..3, 0);
    write(&volume, 11..13, 0);
    drop(volume);
    pool.close().unwrap();
    let (heard, _pool) = story.open_heard();
    let heard = heard.lock().unwrap();
    assert!(heard.contains("references [(1, 5)]\n"), "{heard}");
}
