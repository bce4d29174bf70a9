//! Tests: which changes of a former process stand, and how they come into the journal.
//! Room: onefold-pool.

use onefold_block::{ByteSize, CrashMode, FolderContainerStore, Lba, SimFolder, SplitMix64};
use onefold_content::{Compression, Compressor};

use super::*;
use crate::format::frame::Sealed;
use crate::pba::Location;
use crate::{PoolSettings, open};

/// A pool with volumes of these sizes in bytes that nobody has open: its files, and what its newest
/// checkpoint says.
fn closed(volumes: &[(&str, u64)]) -> (Files, Superblock) {
    let folder = SimFolder::new();
    let pool = crate::empty_pool::new(&folder, &PoolSettings::default());
    for &(name, bytes) in volumes {
        drop(pool.create_volume(name, ByteSize(bytes)).unwrap());
    }
    pool.close().unwrap();
    let files = open::files(&folder).unwrap();
    let (superblock, _) = open::read_supers(&files.supers).unwrap();
    (files, superblock)
}

fn no_containers() -> FolderContainerStore {
    FolderContainerStore::new(Arc::new(SimFolder::new()))
}

fn taking<'a>(superblock: &'a Superblock, store: &'a FolderContainerStore) -> Taking<'a> {
    Taking {
        superblock,
        sealed: BTreeSet::new(),
        store,
        on_disk: None,
        slots: BTreeMap::new(),
        touched: BTreeSet::new(),
    }
}

#[test]
fn a_change_stands_if_it_ends_where_its_volume_may_or_if_that_is_gone() {
    let (_, superblock) = closed(&[("small", 512 * 4096), ("large", 1 << 30)]);
    let store = no_containers();
    let mut taking = taking(&superblock, &store);
    let mut fills = |volume: u32, first: u64, count: u64| {
        let (first, entry) = (Lba::new(first), MapEntry::Hole);
        taking.stands(&Change::Fill { volume, first, count, entry })
    };
    let [small, large] = [0, 1].map(|n| superblock.volumes[n].number);
    assert!(fills(small, 0, 512) && fills(small, 511, 1));
    assert!(!fills(small, 0, 513) && !fills(small, 512, 1));
    assert!(fills(large, 512, 512 * 255) && !fills(large, 512, (1 << 40) - 511));
    assert!(fills(77, 0, 1 << 50), "of a volume that is gone");
    let volume = small;
    let run = |first: u64| {
        let entries = vec![MapEntry::Zero; 2];
        Change::Run { volume, first: Lba::new(first), entries }
    };
    assert!(taking.stands(&run(510)) && !taking.stands(&run(511)));
}

#[test]
fn what_belongs_to_an_older_checkpoint_is_lost_if_there_is_any() {
    let (files, superblock) = closed(&[("main", 1 << 20)]);
    let store = no_containers();
    let table = ContainerTable::default();
    for is_any in [false, true] {
        let memory = onefold_block::handover::SimHandover::new();
        let mut changes = Changes::create(&memory, &[1; 16], superblock.sequence - 1).unwrap();
        if is_any {
            changes.record(&[7; 8]);
        }
        drop(changes);
        let taken = take_up(&memory.after_kill(), (&superblock, &table), &files, &store).unwrap();
        assert_eq!((taken.changes, taken.lost.is_some()), (0, is_any), "{taken:?}");
        assert!(is_any || taken.found);
    }
}

#[test]
fn what_came_after_a_freeze_is_taken_up_if_its_checkpoint_is_durable_and_said_to_be_lost_if_not() {
    let (files, superblock) = closed(&[("main", 1 << 20)]);
    let (sequence, number) = (superblock.sequence, superblock.volumes[0].number);
    let check = Superblock::checksum_in(&superblock.encode());
    let store = no_containers();
    let table = ContainerTable::default();
    let fill = |block: u64| {
        let mut entries = Entries::default();
        entries.fill(number, Lba::new(block), 1, MapEntry::Zero);
        entries.since(0).to_vec()
    };
    for durable in [false, true] {
        let memory = onefold_block::handover::SimHandover::new();
        let uuid = superblock.identity.uuid;
        let mut changes = Changes::create(&memory, &uuid, sequence - 1).unwrap();
        changes.record(&fill(1));
        changes.taken();
        changes.freeze(sequence);
        changes.record(&fill(2));
        changes.record(&fill(3));
        changes.durable();
        // Another checkpoint of that number is none that these changes follow.
        changes.writing(sequence, if durable { check } else { !check });
        drop(changes);
        let left = memory.after_kill();
        let taken = take_up(&left, (&superblock, &table), &files, &store).unwrap();
        assert_eq!(
            (taken.changes, taken.lost.is_none()),
            if durable { (2, true) } else { (0, false) }
        );
        // What is taken up is in the journal now; what was lost may be of use to who looks.
        assert_eq!(left.list().unwrap().is_empty(), durable);
    }
}

#[test]
fn what_stands_is_in_frames_of_a_mebibyte_in_its_order_up_to_what_does_not() {
    let (_, superblock) = closed(&[("main", 1 << 30)]);
    let store = no_containers();
    let number = superblock.volumes[0].number;
    // Fills, each of another block; the last of a payload may be past the end of the volume.
    let payload = |first: u64, count: usize, end: u64| {
        let mut entries = Entries::default();
        for block in first..first + count as u64 - 1 {
            entries.fill(number, Lba::new(block), 1, MapEntry::Hole);
        }
        entries.fill(number, Lba::new(end), 1, MapEntry::Zero);
        entries.since(0).to_vec()
    };
    let fill = payload(0, 1, 0).len();
    let judged = |payloads: Vec<Vec<u8>>| {
        let mut taking = taking(&superblock, &store);
        taking.judge(Left { payloads, ..Left::default() })
    };
    let (frames, taken) = judged(Vec::new());
    assert_eq!((frames.len(), taken.changes, taken.lost), (0, 0, None));
    // An eighth of a frame each, which fill frames to the last byte, and one fill more.
    let part = FRAME_BYTES / 8 / fill;
    assert_eq!(part * fill * 8, FRAME_BYTES);
    let mut all: Vec<Vec<u8>> = (0..20).map(|n| payload(n * 7, part, n)).collect();
    let (frames, taken) = judged(all.clone());
    let lens: Vec<usize> = frames.iter().map(Vec::len).collect();
    assert_eq!(lens, [FRAME_BYTES, FRAME_BYTES, FRAME_BYTES / 2]);
    assert!(frames.concat() == all.concat());
    assert_eq!((taken.changes, taken.lost), (20 * part as u64, None));
    // Nothing comes after what does not stand, or means nothing.
    for wrong in [payload(0, 2, 1 << 40), vec![9; 24], Vec::new()] {
        all[11] = wrong;
        let (frames, taken) = judged(all.clone());
        assert!(frames.concat() == all[..11].concat());
        assert_eq!((taken.changes, taken.lost.is_some()), (11 * part as u64, true));
    }
}

/// A container in a store, with records of random blocks; where these are.
fn put(store: &dyn ContainerStore, id: ContainerId, records: u64) -> Vec<Pba> {
    let mut compressor = Compressor::new(Compression::default());
    let (mut bytes, mut places) = (container::encode_header(id, &[1; 16], 3), Vec::new());
    for number in 0..records {
        let from = bytes.len();
        let chunk = SplitMix64::new(number).bytes(4096);
        let units = record::draft(&chunk, &mut compressor, &mut bytes);
        let pba = Pba { container: id, location: Location::new(from / UNIT_BYTES, units) };
        record::place(&mut bytes[from..], pba);
        places.push(pba);
    }
    store.create(id, 1 << 20).unwrap();
    store.append(id, 0, &bytes).unwrap();
    places
}

#[test]
fn a_change_stands_if_its_records_are_there_and_only_containers_that_are_there_are_synced() {
    let (_, superblock) = closed(&[("main", 1 << 30)]);
    let store = no_containers();
    let id = ContainerId::new;
    let [one, two] = [1, 2].map(|number| put(&store, id(number), 3));
    let sealed = BTreeSet::from([id(4)]);
    let mut taking = Taking { sealed, ..taking(&superblock, &store) };
    let volume = superblock.volumes[0].number;
    let mut stand = |places: &[Pba]| {
        let entries = places.iter().map(|&pba| MapEntry::Stored(pba)).collect();
        taking.stands(&Change::Run { volume, first: Lba::new(0), entries })
    };
    assert!(stand(&one) && stand(&two) && stand(&[one[2], two[0], one[0], two[2]]));
    let elsewhere = |container: u32| Pba { container: id(container), ..one[1] };
    assert!(stand(&[elsewhere(4)]), "all of it is durable");
    for wrong in [elsewhere(3), Pba { location: Location::new(7, 257), ..one[0] }] {
        assert!(!stand(&[wrong]) && !stand(&[one[0], wrong]));
    }
    let past = Location::new(one[2].location.end_bytes() / UNIT_BYTES, 257);
    assert!(!stand(&[Pba { location: past, ..one[0] }]));
    assert_eq!(taking.touched, BTreeSet::from([id(1), id(2)]));
    taking.store_containers().unwrap();
}

#[test]
fn containers_are_durable_that_a_checkpoint_or_the_journal_says_are_sealed() {
    let id = ContainerId::new;
    let mut table = ContainerTable::default();
    (1..=3).for_each(|number| table.open(id(number)));
    table.seal(id(2), 1000, 1);
    let of_journal = Sealed { id: id(5), len_bytes: 1000, chunks: 1 };
    let replay = Replay { sealed: vec![of_journal], ..Replay::default() };
    assert_eq!(sealed(&table, &replay), BTreeSet::from([id(2), id(5)]));
}

#[test]
fn the_epoch_of_a_checkpoint_that_was_written_begins_if_the_journal_is_that_of_the_one_before() {
    let folder = SimFolder::new();
    drop(crate::empty_pool::new(&folder, &PoolSettings::default()));
    let files = open::files(&folder).unwrap();
    let witness = Witness::new(Arc::clone(&files.supers[0]), 4096);
    let mut entries = Entries::default();
    entries.fill(1, Lba::new(7), 1, MapEntry::Hole);
    let replay = |epoch| journal::replay(&*files.journal, epoch, &mut |_, _| Ok(())).unwrap();
    for (begun, frames) in [(6, 1), (7, 2), (5, 0)] {
        journal::begin(&*files.journal, begun).unwrap();
        let media = Arc::clone(&files.journal);
        let mut journal = Journal::resume(media, begun, &replay(begun), witness.clone());
        journal.append(&entries).unwrap();
        begin_epoch(&files, 7, witness.clone()).unwrap();
        assert_eq!(replay(7).next_number, frames, "of epoch {begun}");
    }
}

#[test]
fn containers_are_stored_as_far_as_they_were_in_memory_whatever_of_it_is_there() {
    let folder = SimFolder::new();
    drop(crate::empty_pool::new(&folder, &PoolSettings::default()));
    let (superblock, _) = open::read_supers(&open::files(&folder).unwrap().supers).unwrap();
    let memory = onefold_block::handover::SimHandover::new();
    let bytes = SplitMix64::new(5).bytes(3000);
    let another = SplitMix64::new(6).bytes(3000);
    let half = [&bytes[..1500], &another[1500..1600]].concat();
    let all: [&[u8]; 6] = [&bytes, &half, &bytes[..10], &[], &another, &half];
    let containers = SimFolder::new();
    let store = FolderContainerStore::new(Arc::new(containers.clone()));
    let id = |number: usize| ContainerId::new(number as u32);
    let (mut slots, mut touched) = (BTreeMap::new(), BTreeSet::new());
    for (number, there) in (2..).zip(all) {
        store.create(id(number), 1 << 20).unwrap();
        store.append(id(number), 0, there).unwrap();
        touched.insert(id(number));
    }
    // Of the first nothing is there, and nothing refers to the last.
    touched.insert(id(1));
    touched.remove(&id(7));
    for number in 1..8 {
        let mut region = memory.create(&format!("container.{number}"), 4096).unwrap();
        region.bytes_mut()[..3000].copy_from_slice(&bytes);
        slots.insert(id(number), InMemory { region, end: 2000 });
    }
    let (sealed, on_disk) = (BTreeSet::new(), None);
    let taking = Taking { superblock: &superblock, sealed, store: &store, slots, on_disk, touched };
    let mut seen = 0;
    containers.ops_since(&mut seen);
    taking.store_containers().unwrap();
    let ops = containers.ops_since(&mut seen);
    let written: Vec<&str> = ops
        .lines()
        .filter_map(|op| Some(op.strip_prefix("Write ")?.split_once("bytes ")?.1))
        .collect();
    let expected = ["0..2000", "1500..2000", "10..2000", "0..2000", "0..2000"];
    assert_eq!(written, expected, "what is there is not written again");
    for number in 1..8 {
        let mut found = vec![0; store.len(id(number)).unwrap() as usize];
        store.read(id(number), 0, &mut found).unwrap();
        match number {
            // More was there than is good in memory.
            2 => assert!(found == bytes),
            6 => assert!(found[..2000] == bytes[..2000] && found[2000..] == another[2000..]),
            7 => assert!(found == half),
            _ => assert!(found == bytes[..2000], "{number}"),
        }
    }
    // All that is referred to outlives a power cut.
    let left = containers.after_crash(1, CrashMode::KeepNothing);
    let left = FolderContainerStore::new(Arc::new(left));
    for number in 1..7 {
        let len = store.len(id(number)).unwrap() as usize;
        let (mut found, mut expected) = (vec![0; len], vec![0; len]);
        store.read(id(number), 0, &mut expected).unwrap();
        left.read(id(number), 0, &mut found).unwrap();
        assert!(found == expected, "{number}");
    }
}

#[test]
fn what_does_not_begin_as_a_container_has_no_good_byte() {
    let (id, uuid) = (ContainerId::new(3), [1; 16]);
    let header = container::encode_header(id, &uuid, 5);
    let end = |bytes: &[u8], id| good_end(bytes, id, &uuid, 4096);
    assert_eq!(end(&header, id), container::HEADER_BYTES);
    assert_eq!([end(&header[..47], id), end(&header, ContainerId::new(4)), end(&[], id)], [0; 3]);
}
