//! What an index holds, number by number, while it fills, is asked, shrinks and grows: a change of
//! any of these figures is a change of what is kept, and of what goes first.
//! Room: onefold-pool.

use std::fmt::Write as _;

use onefold_block::ContainerId;

use super::{FingerprintIndex, Place};

fn hash(n: u64) -> u64 {
    let mixed = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 29)
}

fn place(n: u64) -> Place {
    Place::new(ContainerId::new((n / 100) as u32 + 1), (n % 100) as u16).unwrap()
}

struct Story {
    index: FingerprintIndex,
    told: String,
}

impl Story {
    /// Entries, what was let go, memory, whether others and hooks go, and what stands in all tables
    /// with its ages, whatever the order.
    fn tell(&mut self, what: &str) {
        let stats = self.index.stats();
        let (full, hooks) = (self.index.is_full(), self.index.is_full_of_hooks());
        let tables = self.index.tables();
        let mut held = 0u64;
        for table in std::iter::once(&tables.now).chain(&tables.former) {
            for (number, shard) in (0..).zip(&table.shards) {
                let mut entries = Vec::new();
                shard.add_entries(&table.arena, &mut entries);
                let each = |entry: u64| hash(entry ^ number);
                held = entries.into_iter().map(each).fold(held, u64::wrapping_add);
            }
        }
        let shards = (tables.now.shards.len(), tables.former.as_ref().map(|it| it.shards.len()));
        drop(tables);
        let (entries, gone, kib) = (stats.entries, stats.let_go, stats.bytes >> 10);
        let full = (full, hooks);
        assert!(stats.bytes <= stats.budget_bytes, "{what}: {stats:?}");
        let held = held >> 32;
        writeln!(self.told, "{what}: {entries} {gone} {kib}K {full:?} {shards:?} {held:08x}")
            .unwrap();
    }

    fn insert(&self, numbers: impl Iterator<Item = u64>) {
        let entries: Vec<(u64, Place)> = numbers.map(|n| (hash(n), place(n))).collect();
        entries.chunks(150).for_each(|some| self.index.insert_many(some));
    }

    fn ask(&self, numbers: impl Iterator<Item = u64>) -> usize {
        let hashes: Vec<u64> = numbers.map(hash).collect();
        let mut found = vec![super::Candidates::default()];
        self.index.lookup_many(&hashes, &mut found);
        assert_eq!(found.len(), 1 + hashes.len());
        found.iter().map(super::Candidates::len).sum()
    }
}

const FILLED: &str = "\
filled: 1 0 128K (false, false) (16, None) 68e422bf
filled: 100 0 128K (false, false) (16, None) d977a6e4
filled: 1000 0 128K (false, false) (16, None) 3de7921c
filled: 3000 0 129K (false, false) (16, None) 38999279
429 asked for: 3000 0 129K (false, false) (16, None) 0fa71524
removed: 2727 0 129K (false, false) (16, None) 347d6a3e
full: 6045 682 130K (true, false) (16, None) 7f9ded7a
more: 6142 2585 130K (true, false) (16, None) e5328aa9
others in runs: 6143 4584 130K (true, false) (16, None) c13d2bc6
which are not asked: 6144 5583 130K (true, false) (16, None) 3d037954
ahead: 6144 6083 130K (true, false) (16, None) e8650d36
hooks: 6144 8058 130K (true, true) (16, None) 1c937156
653 of them asked for: 6144 8058 130K (true, true) (16, None) 4b1f4963
";

const RESIZED: &str = "\
full: 6134 1471 130K (true, false) (16, None) be532d76
194560: false: 6134 1471 128K (true, false) (16, None) be532d76
more: 6143 2962 128K (true, false) (16, None) 77b2db3a
174080: false: 2048 7057 128K (true, false) (16, None) 781947a5
more: 2048 8557 128K (true, true) (16, None) 0edb1f74
1048576: true: 2048 8557 128K (false, false) (16, None) 0edb1f74
more: 3548 8557 131K (false, false) (16, None) 08847afd
5242880: false: 3548 8557 131K (false, false) (16, None) 08847afd
more: 5048 8557 131K (false, false) (16, None) 755b5aae
many shards: true: 0 8557 136K (false, false) (128, Some(16)) 755b5aae
more: 1500 8557 392K (false, false) (128, Some(16)) 10e94a55
1058 in both: 1499 8557 392K (false, false) (128, Some(16)) 309dd16f
more: 2999 8557 392K (false, false) (128, Some(16)) e6c0f420
one is forgotten: 2999 8557 264K (false, false) (128, None) c9531ff7
9437184: false: 2999 8557 261K (false, false) (128, None) c9531ff7
more: 4499 8557 262K (false, false) (128, None) f31d8122
more: 5999 8557 262K (false, false) (128, None) 400e65a5
4194304: false: 5999 8557 261K (false, false) (128, None) 400e65a5
more: 7499 8557 262K (false, false) (128, None) 1fec4a2c
more: 8999 8557 263K (false, false) (128, None) 0aaa413d
3145728: false: 8999 8557 128K (false, false) (16, None) af6aa313
more: 10499 8557 128K (false, false) (16, None) d46666c9
more: 11999 8557 137K (false, false) (16, None) cf5ed32a
204800: false: 6144 14412 128K (true, false) (16, None) 5d5f28d9
more: 6144 15912 128K (true, false) (16, None) 4a1d76e6
more: 6144 17412 128K (true, false) (16, None) e0918173
163840: false: 2048 21508 128K (true, false) (16, None) 035e943c
more: 2048 23008 128K (true, false) (16, None) cefcd313
more: 2048 24508 128K (true, false) (16, None) e7f08b7e
up and down: (true, false): 2048 24508 128K (true, false) (16, None) e7f08b7e
";

#[test]
fn what_an_index_keeps_is_what_it_kept() {
    let mut story = Story { index: FingerprintIndex::new(200 << 10), told: String::new() };
    for upto in [1, 100, 1000, 3000] {
        story.insert(0..upto);
        story.tell("filled");
    }
    let found = story.ask((0..4000).step_by(7));
    story.tell(&format!("{found} asked for"));
    (0..3000).step_by(11).for_each(|n| story.index.remove(hash(n), place(n)));
    story.index.remove(hash(1), place(2));
    story.tell("removed");
    story.insert(3000..7000);
    story.tell("full");
    story.insert(7000..9000);
    story.tell("more");
    story.index.is_in_runs(ContainerId::new(70));
    story.insert(9000..11_000);
    story.tell("others in runs");
    story.index.runs_are_asked(false);
    story.insert(11_000..12_000);
    story.tell("which are not asked");
    story.index.runs_are_asked(true);
    let ahead: Vec<(u64, Place)> = (12_000..12_500).map(|n| (hash(n), place(n))).collect();
    story.index.insert_ahead(&ahead);
    story.tell("ahead");
    let hooks: Vec<u64> = (20_000..150_000).filter(|&n| super::is_hook(hash(n))).collect();
    story.insert(hooks.iter().copied());
    story.tell("hooks");
    let found = story.ask(hooks.into_iter().step_by(3));
    story.tell(&format!("{found} of them asked for"));
    assert!(story.told == FILLED, "{}", story.told);
}

#[test]
fn what_an_index_keeps_of_less_and_of_more_memory_is_what_it_kept() {
    let mut story = Story { index: FingerprintIndex::new(200 << 10), told: String::new() };
    story.insert(0..7000);
    story.insert((20_000..60_000).filter(|&n| super::is_hook(hash(n))));
    story.tell("full");
    let mut numbers = 200_000..;
    let mut more = |story: &mut Story| {
        story.insert(numbers.by_ref().take(1500));
        story.tell("more");
    };
    for budget in [190 << 10, 170 << 10, 1 << 20, 5 << 20] {
        let again = story.index.set_budget(budget);
        story.tell(&format!("{budget}: {again}"));
        more(&mut story);
    }
    let again = story.index.set_budget(17 << 20);
    story.tell(&format!("many shards: {again}"));
    more(&mut story);
    let found = story.ask((195_000..207_000).step_by(5));
    for n in [200_001, 206_001] {
        story.index.remove(hash(n), place(n));
    }
    story.tell(&format!("{found} in both"));
    more(&mut story);
    story.index.forget_former();
    story.tell("one is forgotten");
    // The second leaves shards just as much as they must have to stay as many.
    for budget in [9 << 20, 4 << 20, 3 << 20, 200 << 10, 160 << 10] {
        let again = story.index.set_budget(budget);
        story.tell(&format!("{budget}: {again}"));
        more(&mut story);
        more(&mut story);
    }
    assert_eq!(story.index.room(), 16_384);
    let again = (story.index.set_budget(17 << 20), story.index.set_budget(300 << 10));
    story.tell(&format!("up and down: {again:?}"));
    assert!(story.told == RESIZED, "{}", story.told);
}
