//! What a tiered store writes to its fast device, counts and decides over some lives: as
//! `story.txt` has it. `ONEFOLD_UPDATE=1` writes that file anew; a change of it is a change of what
//! a cache writes, or of what it keeps.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use onefold_block::kept_text::assert_text;
use onefold_block::{ContainerStore, Folder, SimFolder, SplitMix64};
use onefold_cache::tier::{TierOptions, TierSize, TieredStore, WearBudget};

use crate::tier::{BYTES, fill, id, options, read_many, slow};

struct Story {
    slow: Arc<dyn ContainerStore>,
    fast: SimFolder,
    told: String,
    operations: usize,
}

impl Story {
    fn open(&mut self, options: TierOptions) -> TieredStore {
        let fast = Arc::new(self.fast.clone());
        TieredStore::open(Arc::clone(&self.slow), fast, options, None).unwrap()
    }

    /// What was written since, and what was counted.
    fn tell(&mut self, what: &str, store: &TieredStore) {
        writeln!(self.told, "\n## {what}\n").unwrap();
        self.told += &self.fast.ops_since(&mut self.operations);
        writeln!(self.told, "{:?}", store.status()).unwrap();
    }

    fn files(&mut self) {
        writeln!(self.told, "\n## files\n").unwrap();
        for name in self.fast.list().unwrap() {
            let file = self.fast.open(&name).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read(0, &mut bytes).unwrap();
            // What ends with its own CRC-32 always has the same, so that is left out.
            let sum = crc32fast::hash(&bytes[..bytes.len().saturating_sub(4)]);
            writeln!(self.told, "{name}: {} bytes, {sum:08x}", bytes.len()).unwrap();
        }
    }
}

fn lives(policy: &str) -> String {
    let (_, slow) = slow();
    let told = format!("# {policy}\n");
    let mut story = Story { slow, fast: SimFolder::new(), told, operations: 0 };
    let store = story.open(options(policy));
    story.tell("it is opened", &store);
    for round in 0..3 {
        read_many(&store, round, 120, "cold");
        story.tell(&format!("round {round} of reads"), &store);
    }
    store.save_changes();
    store.save();
    story.tell("it is saved", &store);
    drop(store);
    let store = story.open(options(policy));
    story.tell("it is opened again", &store);
    read_many(&store, 3, 120, "warm");
    store.tick(1_800_000_000);
    story.tell("more is read", &store);
    store.set_writes_per_day(Some(WearBudget::Bytes(3 << 20)));
    for hour in 1..4 {
        store.tick(1_800_000_000 + hour * 3600);
        read_many(&store, 10 + hour, 120, "with a budget");
    }
    story.tell("with a budget", &store);
    store.set_writes_per_day(None);
    store.resize(TierSize::Bytes(2 * BYTES)).unwrap();
    read_many(&store, 20, 120, "larger");
    story.tell("twice as large", &store);
    store.resize(TierSize::Bytes(BYTES / 2)).unwrap();
    read_many(&store, 21, 120, "smaller");
    story.tell("and half as large", &store);
    for number in [3, 4] {
        store.remove(id(number)).unwrap();
    }
    let content = SplitMix64::new(99).bytes(150_000);
    fill(&store, 50, &content);
    fill(&store, 3, &content);
    for number in [50, 3, 50] {
        for from in [0_usize, 50_000, 120_000] {
            let mut found = vec![0; 20_000];
            store.read(id(number), from as u64, &mut found).unwrap();
            assert!(found == content[from..from + 20_000]);
        }
    }
    store.save();
    story.tell("with other containers", &store);
    drop(store);
    story.files();
    // A bit of the log, and all of the newest state.
    story.fast.flip_bit("extents", 300_000, 1).unwrap();
    story.fast.remove("state.0").unwrap();
    let store = story.open(options(policy));
    story.tell("damaged and opened", &store);
    for number in [50, 3] {
        let mut found = vec![0; 150_000];
        store.read(id(number), 0, &mut found).unwrap();
        assert!(found == content);
    }
    let through = TierOptions { write_through: true, ..options(policy) };
    drop(store);
    let store = story.open(through);
    for number in 60..64 {
        fill(&store, number, &SplitMix64::new(number.into()).bytes(180_000));
    }
    story.tell("new containers are written through", &store);
    drop(store);
    story.files();
    story.told
}

#[test]
fn what_a_cache_writes_and_counts_is_what_it_was() {
    let told = ["lru", "plc"].map(lives).join("\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/story.txt");
    assert_text(&path, &told, std::env::var_os("ONEFOLD_UPDATE").is_some());
}
