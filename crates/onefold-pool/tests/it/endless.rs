//! Writes that must end, whatever happens beside them.

use onefold_block::{BlockDevice, ByteSize, SimFolder};
use onefold_pool::Pool;

use crate::hooks::{Hook, HookedFolder};
use crate::support::{IDENTITY, assert_sound, content, options, small};

/// A pass over the chunks of one write is counted; this many for one chunk never end.
const PASSES_MAX: u64 = 1000;

#[test]
fn a_write_ends_though_a_checkpoint_removes_the_container_it_was_to_share() {
    let (sim, hook) = (SimFolder::new(), Hook::default());
    let folder = HookedFolder::new(sim.clone(), &hook);
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.create_volume("main", ByteSize(8 << 20)).unwrap();
    for n in 0..1500 {
        volume.write_at(n * 4096, &content(n, 4096), false).unwrap();
    }
    volume.flush().unwrap();
    // The first container dies, which nothing has noticed yet.
    volume.trim(0, 150 * 4096, false).unwrap();
    // One duplicate found in it, given up again: the next look reads its whole directory.
    let lone = 1600 * 4096;
    volume.write_at(lone, &content(5, 4096), false).unwrap();
    volume.trim(lone, 4096, false).unwrap();
    let before = pool.status().unwrap();
    let beside = pool.clone();
    let directory = |name: &str, len: usize| name.ends_with(".container") && len > 1000;
    // The first flushes, and the second sees that nobody writes.
    hook.within_read(directory, move || (0..2).for_each(|_| beside.maintain().unwrap()));
    let writer = {
        let volume = volume.clone();
        std::thread::spawn(move || volume.write_at(lone, &content(6, 4096), false))
    };
    while !writer.is_finished() {
        let passes = pool.status().unwrap().activity.written - before.activity.written;
        assert!(passes < PASSES_MAX, "the write goes round in circles");
        std::thread::yield_now();
    }
    writer.join().unwrap().unwrap();
    assert!(hook.is_done(), "the checkpoint came while the directory was read");
    let after = pool.status().unwrap();
    assert!(after.containers < before.containers, "the checkpoint removed the container");
    assert!(after.activity.written - before.activity.written <= 3, "it takes few passes");
    let mut found = vec![0; 4096];
    volume.read_at(lone, &mut found).unwrap();
    assert!(found == content(6, 4096));
    drop(volume);
    pool.close().unwrap();
    assert_sound(&sim, "after the race");
}
