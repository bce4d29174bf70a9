//! Which slots of the map file are in use: opening believes the checkpoint, a check holds it
//! against all pages, and what cannot be is named.

use onefold_block::{BlockDevice, ByteSize, CrashMode, Folder, SimFolder};
use onefold_pool::format::superblock::{RawPageRef, Superblock};
use onefold_pool::{Budgets, Pool, RescuePoint};

use crate::support::{assert_sound, content, new_pool, options, small};

const PAGE: u64 = 4096;
/// Blocks in leaves of their own, so that there is a page above them.
const BLOCKS: u64 = 20;

fn block_at(n: u64) -> u64 {
    n * 512 * 4096
}

/// A pool with two volumes, stopped cleanly.
fn stopped_pool() -> SimFolder {
    let (folder, pool) = new_pool(&small());
    for name in ["main", "other"] {
        let volume = pool.create_volume(name, ByteSize(64 << 20)).unwrap();
        for n in 0..BLOCKS {
            volume.write_at(block_at(n), &content(n, 4096), false).unwrap();
        }
    }
    pool.close().unwrap();
    folder
}

fn superblock(folder: &SimFolder) -> Superblock {
    let read = |name: &str| {
        let media = folder.open(name).unwrap();
        let mut bytes = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut bytes).unwrap();
        Superblock::decode(name, &bytes).unwrap()
    };
    ["super.0", "super.1"].map(read).into_iter().max_by_key(|found| found.sequence).unwrap()
}

fn slot_of(reference: RawPageRef) -> u64 {
    reference as u64 & ((1 << 48) - 1)
}

/// Change a page and give it the checksum that fits; returns the reference that it then needs.
fn forge_page(folder: &SimFolder, reference: RawPageRef, change: impl Fn(&mut [u8])) -> RawPageRef {
    let map = folder.open("map").unwrap();
    let mut page = vec![0; PAGE as usize];
    map.read(slot_of(reference) * PAGE, &mut page).unwrap();
    change(&mut page);
    map.write(slot_of(reference) * PAGE, &page).unwrap();
    (reference & ((1 << 96) - 1)) | RawPageRef::from(crc32fast::hash(&page)) << 96
}

/// Both checkpoints say so.
fn forge_supers(folder: &SimFolder, change: impl Fn(&mut Superblock)) {
    let mut forged = superblock(folder);
    change(&mut forged);
    for name in ["super.0", "super.1"] {
        folder.open(name).unwrap().write(0, &forged.encode()).unwrap();
    }
}

fn findings(folder: &SimFolder) -> String {
    format!("{:?}", Pool::check_in(folder, &mut |_, _| {}).unwrap().findings)
}

fn refusal(folder: &SimFolder) -> String {
    Pool::open(folder, &options()).err().expect("refused").to_string()
}

/// All blocks of a volume can be read.
fn assert_reads(pool: &Pool, name: &str) {
    let volume = pool.volume(name).unwrap();
    let mut found = vec![0; 4096];
    for n in 0..BLOCKS {
        volume.read_at(block_at(n), &mut found).unwrap();
        assert!(found == content(n, 4096), "{name}, block {n}");
    }
}

/// The first page below a root.
fn child(folder: &SimFolder, root: RawPageRef) -> RawPageRef {
    let mut bytes = [0; 16];
    folder.open("map").unwrap().read(slot_of(root) * PAGE, &mut bytes).unwrap();
    RawPageRef::from_le_bytes(bytes)
}

#[test]
fn a_slot_in_use_that_no_page_is_in_is_a_leak_that_a_check_names() {
    let folder = stopped_pool();
    assert_sound(&folder, "before");
    let good = superblock(&folder);
    let slots = folder.open("map").unwrap().len().unwrap() / PAGE;
    // The one page of the bitmap lies last; make room for a slot behind it.
    folder.open("map").unwrap().set_len((slots + 2) * PAGE).unwrap();
    assert_eq!(good.slot_pages, 1);
    let forged = forge_page(&folder, good.slots, |page| {
        page[slots as usize / 8] |= 1 << (slots % 8);
    });
    forge_supers(&folder, |superblock| superblock.slots = forged);
    let found = findings(&folder);
    assert!(found.contains(&format!("slots {slots}..{} of the map file", slots + 1)), "{found}");
    let pool = Pool::open(&folder, &options()).unwrap();
    assert_reads(&pool, "main");
}

#[test]
fn a_page_in_a_slot_that_is_free_is_damage() {
    let folder = stopped_pool();
    let good = superblock(&folder);
    let clear = |folder: &SimFolder, slot: u64| {
        let slots = superblock(folder).slots;
        let forged =
            forge_page(folder, slots, |page| page[slot as usize / 8] &= !(1 << (slot % 8)));
        forge_supers(folder, |superblock| superblock.slots = forged);
    };
    // A leaf is seen by a check alone, a root by whoever would write.
    let leaf = child(&folder, good.volumes[0].root);
    let hurt = folder.after_crash(1, CrashMode::KeepNothing);
    clear(&hurt, slot_of(leaf));
    let found = findings(&hurt);
    assert!(found.contains("volume 'main'") && found.contains("slot is free"), "{found}");
    for (named, reference) in [
        ("map of volume 'other'", good.volumes[1].root),
        ("container table", good.table),
        ("bitmap of slots", good.slots),
    ] {
        let hurt = folder.after_crash(1, CrashMode::KeepNothing);
        clear(&hurt, slot_of(reference));
        for problem in [refusal(&hurt), findings(&hurt)] {
            assert!(problem.contains(named) || problem.contains("'other'"), "{named}: {problem}");
            assert!(problem.contains("slot is free"), "{named}: {problem}");
        }
    }
}

#[test]
fn roots_that_lead_nowhere_are_named_and_never_followed() {
    let folder = stopped_pool();
    let good = superblock(&folder);
    let root = good.volumes[0].root;
    let future = root + (RawPageRef::from(good.sequence) << 48);
    let past_the_end = (root & !((1 << 48) - 1)) | 1 << 30;
    for (named, reference) in [
        ("younger", future),
        ("the file ends", past_the_end),
        ("another page claims the same slot", good.volumes[1].root),
        ("refers to no page", root & !((1 << 48) - 1)),
        ("refers to no page", u128::MAX),
    ] {
        let hurt = folder.after_crash(1, CrashMode::KeepNothing);
        forge_supers(&hurt, |superblock| superblock.volumes[0].root = reference);
        let problem = refusal(&hurt);
        assert!(problem.contains(named) && problem.contains("volume"), "{named}: {problem}");
        assert!(findings(&hurt).contains("volume"), "{named}");
    }
}

#[test]
fn a_page_from_the_future_is_named_where_it_is_read() {
    let folder = stopped_pool();
    let good = superblock(&folder);
    let root = good.volumes[0].root;
    let leaf = child(&folder, root) + (RawPageRef::from(good.sequence) << 48);
    let forged = forge_page(&folder, root, |page| page[..16].copy_from_slice(&leaf.to_le_bytes()));
    forge_supers(&folder, |superblock| superblock.volumes[0].root = forged);
    assert!(findings(&folder).contains("younger than what refers to it"), "{}", findings(&folder));
    let pool = Pool::open(&folder, &options()).unwrap();
    assert_reads(&pool, "other");
    let volume = pool.volume("main").unwrap();
    let error = volume.read_at(0, &mut [0; 4096]).unwrap_err().to_string();
    assert!(error.contains("but the newest is"), "{error}");
    volume.read_at(block_at(1), &mut [0; 4096]).unwrap();
}

#[test]
fn a_damaged_bitmap_is_named_and_costs_a_rescue_nothing() {
    let folder = stopped_pool();
    let good = superblock(&folder);
    folder.flip_bit("map", slot_of(good.slots) * PAGE + 9, 3).unwrap();
    for problem in [refusal(&folder), findings(&folder)] {
        assert!(problem.contains("bitmap of slots"), "{problem}");
    }
    let (pool, _) = Pool::rescue(&folder, Budgets::default(), RescuePoint::Newest).unwrap();
    assert_reads(&pool, "main");
    for pages in [2, 1 << 17] {
        let hurt = stopped_pool();
        forge_supers(&hurt, |superblock| superblock.slot_pages = pages);
        assert!(refusal(&hurt).contains("bitmap of slots"), "{pages}: {}", refusal(&hurt));
    }
    let hurt = stopped_pool();
    forge_supers(&hurt, |superblock| superblock.slot_pages = u32::MAX);
    assert!(refusal(&hurt).contains("makes no sense"), "{}", refusal(&hurt));
}

#[test]
fn damage_above_the_leaves_of_one_volume_keeps_no_other_from_its_clients() {
    let folder = stopped_pool();
    let root = superblock(&folder).volumes[0].root;
    folder.flip_bit("map", slot_of(root) * PAGE + 100, 3).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    assert_reads(&pool, "other");
    let volume = pool.volume("main").unwrap();
    let error = volume.read_at(0, &mut [0; 4096]).unwrap_err().to_string();
    assert!(error.contains("map page of volume 1 (level 1"), "{error}");
    pool.volume("other").unwrap().write_at(block_at(30), &content(7, 4096), true).unwrap();
    drop(volume);
    pool.close().unwrap();
    assert!(findings(&folder).contains("map page of volume 1"));
}
