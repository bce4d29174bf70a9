//! What a process leaves in memory when it dies, and what the next one does with it: word for word
//! as `left_behind.txt` has it. `ONEFOLD_UPDATE=1` writes that file anew.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use onefold_block::handover::{Handover, SimHandover};
use onefold_block::{BlockDevice as _, ByteSize, SimFolder, ZeroOptions};
use onefold_pool::{Pool, Surroundings, Volume};

use crate::handover::Left;
use crate::hooks::{Hook, HookedFolder};
use crate::support::{
    IDENTITY, assert_golden, assert_sound, content, options, read_only, small, sums,
};

const CHUNK: u64 = 4096;

impl Left {
    fn around(&self) -> Surroundings<'static> {
        let handover: Arc<dyn Handover> = Arc::new(self.memory.clone());
        Surroundings { handover: Some(handover), ..Surroundings::default() }
    }

    /// The process has died: what is left, what the next one does, and what is there then.
    fn tell(&self, what: &str, told: &mut String) {
        let left = self.again();
        let (memory, disk) = (&left.memory, &left.disk);
        writeln!(told, "\n# {what}\n\nin memory: {:?}", memory.list().unwrap()).unwrap();
        match Pool::open(disk, &read_only()) {
            Ok(reader) => writeln!(told, "changes: {}", reader.changes_left_in(memory)).unwrap(),
            Err(error) => writeln!(told, "{error}").unwrap(),
        }
        let mut seen = disk.op_log().lines().count();
        let pool = match Pool::open_in(disk, &options(), left.around()) {
            Ok(pool) => pool,
            Err(error) => return writeln!(told, "{error}").unwrap(),
        };
        writeln!(told, "{:?}, {:?}", pool.taken_up(), pool.generation()).unwrap();
        told.push_str(&disk.ops_since(&mut seen));
        for (name, sum) in sums(&pool) {
            writeln!(told, "{name} has {sum:08x}").unwrap();
        }
        pool.close().unwrap();
        writeln!(told, "in memory: {:?}", memory.list().unwrap()).unwrap();
        assert_sound(disk, what);
    }
}

fn write(volume: &Volume, blocks: std::ops::Range<u64>, seed: u64) {
    for block in blocks {
        volume.write_at(block * CHUNK, &content(block + seed, CHUNK as usize), false).unwrap();
    }
}

type Harm<'a> = &'a dyn Fn(&Left);

/// What may have happened to what was left.
const HARMS: [(&str, Harm<'_>); 9] = [
    ("a journal's byte is another", &|left| left.disk.flip_bit("journal", 100, 1).unwrap()),
    ("the changes are gone", &|left| left.memory.remove("changes").unwrap()),
    ("a container is gone", &|left| left.memory.remove("container.1").unwrap()),
    ("a change is damaged", &|left| left.memory.damage("changes", 4096 + (2 << 20) + 2000, 1)),
    ("a mark is damaged", &|left| left.memory.damage("changes", 3, 1)),
    ("a record is damaged", &|left| left.memory.damage("container.1", 9000, 1)),
    ("a header is damaged", &|left| left.memory.damage("container.1", 3, 1)),
    ("a container's mark is damaged", &|left| left.memory.damage("container.1", 262_147, 1)),
    ("it was opened without the memory", &|left| {
        let pool = Pool::open(&left.disk, &options()).unwrap();
        pool.checkpoint().unwrap();
    }),
];

/// The process dies before or after each change of the media.
fn amid_a_checkpoint(life: &Left, hook: &Hook, told: &mut String, checkpoint: impl FnOnce()) {
    let left = Arc::<Mutex<Vec<(String, Left)>>>::default();
    let (taken, life) = (Arc::clone(&left), life.clone());
    let mut seen = life.disk.op_log().lines().count();
    hook.around_changes(move || {
        let done = life.disk.ops_since(&mut seen);
        taken.lock().unwrap().push((done, life.again()));
    });
    checkpoint();
    hook.around_changes(|| {});
    writeln!(told, "\n# amid a checkpoint\n").unwrap();
    for (done, left) in left.lock().unwrap().drain(..) {
        let mut seen = left.disk.op_log().lines().count();
        let pool = Pool::open_in(&left.disk, &options(), left.around()).unwrap();
        let (taken, ops) = (pool.taken_up(), left.disk.ops_since(&mut seen));
        assert!(taken.found && taken.lost.is_none(), "{done}: {taken:?}");
        let journal = ops.lines().filter(|op| op.starts_with("Write journal")).count();
        let (changes, ops) = (taken.changes, ops.lines().count());
        writeln!(told, "{done}{changes} changes, {ops} operations, {journal} frames").unwrap();
        pool.close().unwrap();
        assert_sound(&left.disk, &done);
    }
}

#[test]
fn what_a_process_leaves_is_taken_up_as_it_was() {
    let (disk, memory, hook) = (SimFolder::new(), SimHandover::new(), Hook::default());
    Pool::create(&disk, &small(), IDENTITY).unwrap();
    let (mut told, life) = (String::new(), Left { disk, memory });
    let folder = HookedFolder::new(life.disk.clone(), &hook);
    let pool = Pool::open_in(&folder, &options(), life.around()).unwrap();
    life.tell("a pool that was opened", &mut told);
    let volume = pool.create_volume_at("main", ByteSize(600 * CHUNK), 3).unwrap();
    life.tell("a volume", &mut told);
    write(&volume, 0..20, 0);
    life.tell("some blocks", &mut told);
    volume.flush().unwrap();
    life.tell("a flush", &mut told);
    write(&volume, 20..150, 0);
    volume.trim(5 * CHUNK, 3 * CHUNK, false).unwrap();
    let zero = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
    volume.write_zeroes(300 * CHUNK, 100 * CHUNK, zero).unwrap();
    life.tell("several containers, and zeroes", &mut told);
    for (what, harm) in HARMS {
        let harmed = life.again();
        harm(&harmed);
        harmed.tell(what, &mut told);
    }
    let other = Left { memory: life.memory.after_boot(), ..life.again() };
    other.tell("another start of the machine", &mut told);
    amid_a_checkpoint(&life, &hook, &mut told, || pool.checkpoint().unwrap());
    life.tell("a checkpoint", &mut told);
    let second = pool.create_volume_at("second", ByteSize(100 * CHUNK), 3).unwrap();
    write(&second, 0..30, 0);
    write(&volume, 0..70, 30_000);
    life.tell("two volumes", &mut told);
    drop(second);
    pool.delete_volume("second").unwrap();
    life.tell("one of them is deleted", &mut told);
    drop(volume);
    pool.close().unwrap();
    life.tell("it was closed", &mut told);
    assert_golden("left_behind.txt", &told);
}
