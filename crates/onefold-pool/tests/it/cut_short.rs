//! The power goes, or the process dies, at every change of the media in a short life: what the next
//! opening does about it, word for word as `cut_short.txt` has it. `ONEFOLD_UPDATE=1` writes that
//! file anew.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use onefold_block::{BlockDevice as _, ByteSize, CrashMode, SimFolder};
use onefold_pool::{Pool, Volume};

use crate::hooks::{Hook, HookedFolder};
use crate::support::{
    IDENTITY, assert_golden, assert_sound, content, options, read_only, small, sums,
};

const CHUNK: u64 = 4096;

fn write(volume: &Volume, blocks: std::ops::Range<u64>, seed: u64) {
    for block in blocks {
        volume.write_at(block * CHUNK, &content(block + seed, CHUNK as usize), false).unwrap();
    }
}

/// What there is, in a word for each volume.
fn held(pool: &Pool) -> String {
    let mut told = String::new();
    for (name, sum) in sums(pool) {
        write!(told, " {name} has {sum:08x}").unwrap();
    }
    told
}

/// A short life, and the disk before and after each change of it.
fn pictures() -> Vec<(String, SimFolder)> {
    let (disk, hook) = (SimFolder::new(), Hook::default());
    let folder = HookedFolder::new(disk.clone(), &hook);
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let (pictures, mut seen) = (Arc::clone(&taken), 0);
    hook.around_changes(move || {
        let done = disk.ops_since(&mut seen);
        let last = done.lines().last().unwrap_or_default().to_owned();
        if !last.is_empty() {
            pictures.lock().unwrap().push((last, disk.after_crash(1, CrashMode::KeepEverything)));
            pictures
                .lock()
                .unwrap()
                .push((String::new(), { disk.after_crash(1, CrashMode::KeepNothing) }));
        }
    });
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.create_volume_at("main", ByteSize(600 * CHUNK), 3).unwrap();
    write(&volume, 0..80, 0);
    volume.flush().unwrap();
    pool.checkpoint().unwrap();
    write(&volume, 100..190, 10_000);
    volume.trim(5 * CHUNK, 7 * CHUNK, false).unwrap();
    volume.flush().unwrap();
    pool.maintain().unwrap();
    volume.trim(0, 80 * CHUNK, false).unwrap();
    write(&volume, 300..305, 0);
    volume.flush().unwrap();
    drop(volume);
    pool.close().unwrap();
    drop(Pool::open(&folder, &options()).unwrap());
    std::mem::take(&mut *taken.lock().unwrap())
}

#[test]
fn what_is_done_after_a_cut_anywhere_is_what_was_done() {
    let (mut told, mut before) = (String::new(), [String::new(), String::new()]);
    for (number, (last, disk)) in pictures().into_iter().enumerate() {
        if !last.is_empty() {
            writeln!(told, "\n# {last}").unwrap();
        }
        let mut now = String::new();
        let reader = Pool::open(&disk, &read_only()).map(|pool| held(&pool));
        let mut seen = disk.op_log().lines().count();
        match Pool::open(&disk, &options()) {
            Ok(pool) => {
                let ops = disk.ops_since(&mut seen).replace("containers/0000000", "");
                // Which generation it is in is told elsewhere.
                for op in ops.lines().filter(|op| !op.contains("generation")) {
                    writeln!(now, "{op}").unwrap();
                }
                assert_eq!(held(&pool), reader.unwrap(), "{number}: read only");
                writeln!(now, "{}", held(&pool)).unwrap();
                if number % 8 < 2 {
                    pool.close().unwrap();
                    assert_sound(&disk, &format!("{number}: {last}"));
                }
            }
            Err(error) => writeln!(now, "{error}").unwrap(),
        }
        let what = if last.is_empty() { "a power cut" } else { "a kill" };
        let before = &mut before[number % 2];
        if *before == now {
            writeln!(told, "{what}: as before").unwrap();
        } else {
            writeln!(told, "{what}:\n{now}").unwrap();
            *before = now;
        }
    }
    assert_golden("cut_short.txt", &told);
}
