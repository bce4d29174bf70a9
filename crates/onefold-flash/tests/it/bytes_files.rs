//! The array of bytes in a file: opened again, and after power cuts at every operation.
//! Room: onefold-flash.

use std::sync::Arc;

use onefold_block::{CrashMode, FileFolder, Folder, SimFolder, SplitMix64};
use onefold_code::preset;
use onefold_flash::Geometry;
use onefold_flash::nand::bytes::{
    BCH_NAME, ChannelSpec, CopyFile, Description, FileStore, PageBytes, RECORD_BYTES, Store,
};
use onefold_flash::nand::{ByteNand, Nand, NandError, Oob, PageKey, Payload, WearModel};

use crate::validation::plane::plane;

const PAGE: usize = 1024;
const PAGES: u32 = 4;
const BLOCKS: u32 = 5;

fn geometry() -> Geometry {
    Geometry {
        page_bytes: PAGE as u32,
        oob_bytes: 32 + RECORD_BYTES as u32,
        ..plane(BLOCKS, PAGES)
    }
}

fn channel() -> ChannelSpec {
    ChannelSpec { code: BCH_NAME.into(), scrambler: preset("lba-prbs31").ok() }
}

fn made(folder: &dyn Folder) -> ByteNand<FileStore> {
    let media = folder.create("nand").expect("created");
    let description = Description::new(geometry(), &channel(), "");
    let store = FileStore::create(media, &description).expect("created");
    folder.sync_names().expect("synced");
    ByteNand::create(store, geometry(), &channel(), WearModel::none()).expect("created")
}

fn opened(folder: &dyn Folder) -> ByteNand<FileStore> {
    let media = folder.open("nand").expect("opened");
    let description = Description::new(geometry(), &channel(), "");
    let store = FileStore::open(media, &description).expect("opened");
    ByteNand::open(store, geometry(), &channel(), WearModel::none()).expect("opened")
}

/// The content of the page that was programmed with this sequence number.
fn content(seq: u64) -> PageBytes {
    PageBytes::from(SplitMix64::new(seq).bytes(PAGE))
}

fn oob(seq: u64) -> Oob {
    Oob { key: PageKey::Data(seq as u32), seq, seed: seq % 16, tag: seq }
}

/// What every page must or may hold: sequence numbers, 0 for erased.
#[derive(Clone, Debug)]
struct Model {
    /// Made durable by the last sync, or older.
    durable: Vec<u64>,
    /// Everything that a page has held since, in order.
    since: Vec<Vec<u64>>,
    next: [u32; BLOCKS as usize],
    seq: u64,
}

impl Model {
    fn new() -> Self {
        let pages = (PAGES * BLOCKS) as usize;
        Self {
            durable: vec![0; pages],
            since: vec![Vec::new(); pages],
            next: [0; BLOCKS as usize],
            seq: 0,
        }
    }

    /// One random operation; `Err` when the power is gone.
    fn step(
        &mut self,
        nand: &mut ByteNand<FileStore>,
        random: &mut SplitMix64,
    ) -> Result<(), NandError> {
        let block = random.below(u64::from(BLOCKS)) as u32;
        let first = (block * PAGES) as usize;
        if random.chance(1, 8) {
            nand.sync()?;
            for (durable, since) in self.durable.iter_mut().zip(&mut self.since) {
                *durable = since.last().copied().unwrap_or(*durable);
                since.clear();
            }
        } else if self.next[block as usize] == PAGES {
            for at in first..first + PAGES as usize {
                self.since[at].push(0);
            }
            self.next[block as usize] = 0;
            nand.erase(block)?;
        } else {
            let at = first + self.next[block as usize] as usize;
            self.seq += 1;
            self.since[at].push(self.seq);
            self.next[block as usize] += 1;
            nand.program(at as u32, Payload::Data(&content(self.seq)), &oob(self.seq))?;
        }
        Ok(())
    }

    /// Checks what a power cut left. Torn and lost pages are fine where nothing was durable; what
    /// is there must be what was programmed there, durable or since.
    fn check(&self, nand: &mut ByteNand<FileStore>, what: &str) {
        for at in 0..PAGES * BLOCKS {
            let (durable, since) = (self.durable[at as usize], &self.since[at as usize]);
            match nand.read_oob(at) {
                Ok(found) => {
                    let known = found.seq == durable || since.contains(&found.seq);
                    assert!(known, "{what}: page {at} holds {found:?}, not {durable}, {since:?}");
                    assert_eq!(found, oob(found.seq), "{what}: page {at}");
                    let read = nand.read(at).expect("fields that are whole name a whole page");
                    assert!(read == content(found.seq), "{what}: page {at} holds other bytes");
                }
                Err(NandError::Erased { .. } | NandError::Uncorrectable { .. }) => {
                    let untouched = since.is_empty() && durable > 0;
                    assert!(!untouched, "{what}: page {at} lost {durable}");
                }
                Err(error) => panic!("{what}: page {at}: {error}"),
            }
        }
    }
}

#[test]
fn everything_is_there_when_the_file_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = FileFolder::open(folder.path()).expect("opened");
    let mut nand = made(&folder);
    let mut model = Model::new();
    let mut random = SplitMix64::new(11);
    for round in 0..6 {
        for _ in 0..200 {
            model.step(&mut nand, &mut random).expect("done");
        }
        let erases: Vec<u32> = (0..BLOCKS).map(|block| nand.block(block).erases).collect();
        if round % 2 == 0 {
            nand.sync().expect("synced");
            drop(nand);
            nand = opened(&folder);
            let again: Vec<u32> = (0..BLOCKS).map(|block| nand.block(block).erases).collect();
            assert_eq!(again, erases, "erase counts survive");
            for at in 0..PAGES * BLOCKS {
                let expected = model.since[at as usize].last();
                let expected = expected.copied().unwrap_or(model.durable[at as usize]);
                match nand.read(at) {
                    Ok(page) => assert!(page == content(expected), "page {at}"),
                    Err(error) => {
                        assert!(matches!(error, NandError::Erased { .. }) && expected == 0);
                    }
                }
            }
        }
    }
}

#[test]
fn no_power_cut_takes_what_was_synced_or_makes_up_what_was_not_written() {
    let mut torn = 0;
    for seed in 0..200 {
        let folder = SimFolder::new();
        let mut nand = made(&folder);
        let mut model = Model::new();
        let mut random = SplitMix64::new(seed);
        folder.crash_at(folder.op_count() + 1 + random.below(250));
        while model.step(&mut nand, &mut random).is_ok() {}
        assert!(folder.has_crashed(), "seed {seed}: only the power stops it");
        assert!(nand.sync().is_err(), "seed {seed}: nothing works after a failure");
        drop(nand);
        let modes = [CrashMode::KeepNothing, CrashMode::KeepEverything, CrashMode::Random];
        for (turn, mode) in modes.into_iter().cycle().take(6).enumerate() {
            let left = folder.after_crash(seed * 31 + turn as u64, mode);
            let what = format!("seed {seed}, {mode:?} {turn}\n{}", folder.op_log());
            let mut nand = opened(&left);
            model.check(&mut nand, &what);
            torn += (0..PAGES * BLOCKS)
                .filter(|&at| matches!(nand.read_oob(at), Err(NandError::Uncorrectable { .. })))
                .count();
            go_on(&mut nand, &what);
        }
    }
    assert!(torn > 100, "the cuts tear pages: {torn}");
}

/// Whatever a cut left, the array can be used: blocks are filled up, erased and filled again.
fn go_on(nand: &mut ByteNand<FileStore>, what: &str) {
    for block in 0..BLOCKS {
        let pages = block * PAGES..(block + 1) * PAGES;
        let is_free = |nand: &mut ByteNand<FileStore>, at| {
            matches!(nand.read_oob(at), Err(NandError::Erased { .. }))
        };
        let next = pages.clone().find(|&at| is_free(nand, at)).unwrap_or(pages.end);
        assert!((next..pages.end).all(|at| is_free(nand, at)), "{what}: erased pages are the last");
        for at in next..pages.end {
            let page = content(9000 + u64::from(at));
            nand.program(at, Payload::Data(&page), &oob(9000)).expect("programmed");
            assert!(nand.read(at).expect("read") == page, "{what}");
        }
        nand.erase(block).expect("erased");
        for at in pages {
            nand.program(at, Payload::Data(&content(1)), &oob(9001)).expect("programmed");
            assert!(nand.read(at).expect("read") == content(1), "{what}");
        }
    }
}

#[test]
fn an_erased_block_gives_its_space_back() {
    let folder = SimFolder::new();
    let mut nand = made(&folder);
    let empty = folder.used_bytes();
    for at in 0..PAGES * BLOCKS {
        nand.program(at, Payload::Data(&content(1)), &oob(1)).expect("programmed");
    }
    nand.sync().expect("synced");
    let full = folder.used_bytes();
    assert!(full - empty >= u64::from(PAGES * BLOCKS) * PAGE as u64);
    for block in 0..BLOCKS {
        nand.erase(block).expect("erased");
    }
    let media: Arc<_> = folder.open("nand").expect("opened");
    assert_eq!(media.allocated_bytes().expect("known"), folder.used_bytes());
    assert!(folder.used_bytes() < empty + 3 * 4096, "{} of {full}", folder.used_bytes());
}

#[test]
fn blocks_that_were_never_written_are_known_without_reading_them() {
    // 64 KiB of out-of-band bytes a block, so that blocks share no page of the file system.
    let geometry = Geometry { pages_per_block: 512, oob_bytes: 128, ..geometry() };
    let description = Description::new(geometry, &channel(), "");
    let directory = tempfile::tempdir().expect("a folder");
    let folder = FileFolder::open(directory.path()).expect("opened");
    let copies = folder.create("copies").expect("created");
    let copies = CopyFile::create(copies, &description).expect("created");
    let media = folder.create("nand").expect("created");
    let store = FileStore::create(media, &description).expect("created").with_copies(copies);
    let mut nand =
        ByteNand::create(store, geometry, &channel(), WearModel::none()).expect("created");
    let blank = |nand: &ByteNand<FileStore>| -> Vec<bool> {
        (0..BLOCKS).map(|block| nand.store().is_blank(block).expect("known")).collect()
    };
    let holes = blank(&nand).iter().all(|&blank| blank);
    let first = geometry.first_page(2);
    for at in first..first + 3 {
        nand.program(at, Payload::Data(&content(7)), &oob(7)).expect("programmed");
    }
    nand.sync().expect("synced");
    assert!(!blank(&nand)[2], "what was written is read");
    let expected: Vec<bool> = (0..BLOCKS).map(|block| holes && block != 2).collect();
    assert_eq!(blank(&nand), expected);
    drop(nand);
    let copies = CopyFile::open(folder.open("copies").expect("there"), &description);
    let store = FileStore::open(folder.open("nand").expect("there"), &description);
    let store = store.expect("opened").with_copies(copies.expect("opened"));
    let mut nand = ByteNand::open(store, geometry, &channel(), WearModel::none()).expect("opened");
    for at in first..first + 3 {
        assert!(nand.read(at).expect("read") == content(7));
    }
    assert!(matches!(nand.read_oob(first + 3), Err(NandError::Erased { .. })));
    for block in [0, 1, 3, 4] {
        let at = geometry.first_page(block);
        assert!(matches!(nand.read_oob(at), Err(NandError::Erased { .. })), "block {block}");
        nand.program(at, Payload::Data(&content(8)), &oob(8)).expect("programmed");
    }
}

/// What a killed process wrote is in its host's cache. Whoever opens the array builds on it.
#[test]
fn what_is_found_when_it_is_opened_survives_a_power_cut_from_then_on() {
    let folder = SimFolder::new();
    let mut nand = made(&folder);
    nand.program(0, Payload::Data(&content(5)), &oob(5)).expect("programmed");
    drop(nand);
    let mut nand = opened(&folder);
    assert!(nand.read(0).expect("found") == content(5));
    let mut again = opened(&folder.after_crash(1, CrashMode::KeepNothing));
    assert!(again.read(0).expect("still there") == content(5));
}

#[test]
fn what_cells_and_copies_take_is_the_sum_of_their_files() {
    let folder = SimFolder::new();
    let description = Description::new(geometry(), &channel(), "");
    let media: Arc<_> = folder.create("nand").expect("created");
    let copies: Arc<_> = folder.create("copies").expect("created");
    let second = CopyFile::create(Arc::clone(&copies), &description).expect("created");
    let store = FileStore::create(Arc::clone(&media), &description).expect("created");
    let store = store.with_copies(second);
    let mut nand =
        ByteNand::create(store, geometry(), &channel(), WearModel::none()).expect("created");
    for at in 0..PAGES {
        nand.program(at, Payload::Data(&content(1)), &oob(1)).expect("programmed");
    }
    let taken = [&media, &copies].map(|file| file.allocated_bytes().expect("known"));
    assert!(taken[0] > 0 && taken[1] > 0, "{taken:?}");
    assert_eq!(nand.store().allocated_bytes().expect("known"), taken.iter().sum::<u64>());
}
