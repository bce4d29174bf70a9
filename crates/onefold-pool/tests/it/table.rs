//! The container table: damage to it is named, and what it lists survives what a pool goes through.

use onefold_block::{BlockDevice, ByteSize, Folder, SimFolder};
use onefold_pool::format::superblock::Superblock;
use onefold_pool::{Budgets, Pool, RescuePoint};

use crate::support::{assert_sound, content, new_pool, options, small};

const CHUNKS: u64 = 300;

fn stopped_pool() -> SimFolder {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    for n in 0..CHUNKS {
        volume.write_at(n * 4096, &content(n, 4096), false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    folder
}

/// The newest checkpoint, and its file.
fn newest(folder: &SimFolder) -> (Superblock, String) {
    let read = |name: &str| {
        let media = folder.open(name).unwrap();
        let mut bytes = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut bytes).unwrap();
        (Superblock::decode(name, &bytes).unwrap(), name.to_owned())
    };
    ["super.0", "super.1"].map(read).into_iter().max_by_key(|(found, _)| found.sequence).unwrap()
}

/// Everything is there for `--rescue`, and the table's damage is named.
fn assert_rescued(folder: &SimFolder, context: &str) {
    let (pool, report) = Pool::rescue(folder, Budgets::default(), RescuePoint::Consistent).unwrap();
    let named = report.damage.iter().any(|damage| damage.contains("container table"));
    assert!(named, "{context}: {report:?}");
    let volume = pool.volume("main").unwrap();
    let mut found = vec![0; 4096];
    for n in 0..CHUNKS {
        volume.read_at(n * 4096, &mut found).unwrap();
        assert!(found == content(n, 4096), "{context}: chunk {n}");
    }
}

#[test]
fn a_damaged_page_of_the_table_is_named_and_costs_a_rescue_no_block() {
    let folder = stopped_pool();
    let slot = newest(&folder).0.table as u64 & ((1 << 48) - 1);
    for at in [0, 16, 200, 4095] {
        let hurt = folder.after_crash(1, onefold_block::CrashMode::KeepNothing);
        let map = hurt.open("map").unwrap();
        let mut byte = [0];
        map.read(slot * 4096 + at, &mut byte).unwrap();
        map.write(slot * 4096 + at, &[byte[0] ^ 4]).unwrap();
        let context = format!("byte {at}");
        let error = Pool::open(&hurt, &options()).err().expect("refused").to_string();
        assert!(error.contains("page of the container table"), "{context}: {error}");
        let report = Pool::check_in(&hurt, &mut |_, _| {}).unwrap();
        assert!(
            format!("{:?}", report.findings).contains("container table"),
            "{context}: {report:?}"
        );
        assert_rescued(&hurt, &context);
    }
}

#[test]
fn a_root_of_the_table_that_leads_nowhere_is_named() {
    let folder = stopped_pool();
    let (good, _) = newest(&folder);
    let other_page = good.volumes[0].root;
    // From the future, to no slot, past the end of the file, of another tree.
    let future = good.table + (2 << 48);
    let past = good.table | 1 << 30;
    for table in [1 << 96, 7, u128::MAX, future, past, other_page] {
        let hurt = folder.after_crash(1, onefold_block::CrashMode::KeepNothing);
        for name in ["super.0", "super.1"] {
            let bytes = Superblock { table, ..good.clone() }.encode();
            hurt.open(name).unwrap().write(0, &bytes).unwrap();
        }
        let error = Pool::open(&hurt, &options()).err().expect("refused").to_string();
        assert!(error.contains("container table"), "root {table:#x}: {error}");
        assert_rescued(&hurt, &format!("root {table:#x}"));
    }
}

#[test]
fn a_table_of_several_pages_is_what_it_was_after_every_stop() {
    let (folder, mut pool) = new_pool(&small());
    let mut before = None;
    pool.create_volume("main", ByteSize(512 << 20)).unwrap();
    for round in 0..3u64 {
        let volume = pool.volume("main").unwrap();
        assert!(before.is_none_or(|before| before == pool.space()), "round {round}");
        for n in 0..13_000 {
            let at = (round * 13_000 + n) * 4096;
            volume.write_at(at, &content(round * 13_000 + n, 4096), false).unwrap();
        }
        volume.trim(round * 13_000 * 4096, 4000 * 4096, false).unwrap();
        volume.flush().unwrap();
        drop(volume);
        pool.checkpoint().unwrap();
        let space = pool.clone();
        pool.close().unwrap();
        before = Some(space.space());
        drop(space);
        pool = Pool::open(&folder, &options()).unwrap();
    }
    let containers = pool.status().unwrap().containers;
    assert!(newest(&folder).0.next_container > 256, "{containers} containers");
    drop(pool);
    assert_sound(&folder, "after three rounds");
}
