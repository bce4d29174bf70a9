//! Any bytes as what is kept of a cache, of an estimate and of a store's generation.
//! Room: onefold-fuzz.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use onefold_block::{
    ContainerId, ContainerStore as _, Folder as _, FolderContainerStore, GENERATION_FILE,
    GenerationFile, SimFolder, SplitMix64, Survival,
};
use onefold_cache::tier::{TierOptions, TierSize, TieredStore};
use onefold_cache::{Capacity, POLICIES, State, make_online};
use onefold_estimate::{Options, Partial, Progress, scan};

use super::checksums_are_blind;
use super::files::{Image, changed, image};

const OWNER: [u8; 16] = [7; 16];
const CAPACITY: Capacity = Capacity { bytes: 1 << 20, objects: 64 };

/// What can be read is taken over by a policy, or refused, and the policy works on.
pub fn policy_state(data: &[u8]) {
    let Ok(state) = State::from_bytes(data) else { return };
    let again = State::from_bytes(&state.to_bytes()).expect("it was just read");
    assert_eq!(again.to_bytes(), state.to_bytes());
    for entry in POLICIES.iter().filter(|entry| !entry.offline) {
        let mut policy = make_online(entry.name, CAPACITY, 1).expect("a policy by its name");
        let _ = policy.import(&state);
        for key in 0..50 {
            policy.access(key * 7 % 23, 40_000);
        }
    }
}

pub fn policy_states() -> Vec<Vec<u8>> {
    let state = |name: &str| {
        let mut policy = make_online(name, CAPACITY, 1).expect("a policy by its name");
        for key in 0..60 {
            policy.access(key * 7 % 23, 40_000);
        }
        policy.export().to_bytes()
    };
    POLICIES.iter().filter(|entry| !entry.offline).map(|entry| state(entry.name)).collect()
}

const BYTES: usize = 9000;

fn content(number: u32) -> Vec<u8> {
    SplitMix64::new(number.into()).bytes(BYTES)
}

fn slow() -> Arc<FolderContainerStore> {
    let slow = FolderContainerStore::new(Arc::new(SimFolder::new()));
    for number in 1..=4 {
        let id = ContainerId::new(number);
        slow.create(id, BYTES as u64).expect("nothing fails here");
        slow.append(id, 0, &content(number)).expect("nothing fails here");
        slow.seal(id, BYTES as u64).expect("nothing fails here");
    }
    Arc::new(slow)
}

fn tiered(folder: &SimFolder) -> Option<TieredStore> {
    let options = TierOptions {
        owner: OWNER,
        policy: "lru".to_owned(),
        size: TierSize::Bytes(2 << 20),
        container_bytes: BYTES as u32,
        writes_per_day: None,
        write_through: false,
        fill_at_once: false,
    };
    TieredStore::open(slow(), Arc::new(folder.clone()), options, None).ok()
}

fn read_all(store: &TieredStore) {
    for number in [1, 2, 3, 1, 4, 2] {
        let mut found = vec![0; BYTES];
        store.read(ContainerId::new(number), 0, &mut found).expect("the slow store has it");
        let right = found == content(number) || checksums_are_blind();
        assert!(right, "container {number} reads wrong");
    }
}

static TIER: LazyLock<Image> = LazyLock::new(|| {
    let folder = SimFolder::new();
    read_all(&tiered(&folder).expect("nothing fails here"));
    image(&folder, &[])
});

/// The folder of a cache of which any bytes are replaced: reads are right whatever it says.
pub fn tier(input: &[u8]) {
    let folder = changed(&TIER, &[], input);
    let _ = TieredStore::saved_status(&folder, &OWNER);
    if let Some(store) = tiered(&folder) {
        read_all(&store);
    }
}

pub fn tiers() -> Vec<Vec<u8>> {
    vec![vec![0, 1, 0, 0, 0, 9, 3]]
}

/// A folder in memory for what is read from real files.
static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder can be made")
});

pub fn partial(data: &[u8]) {
    let path = FOLDER.path().join("partial");
    std::fs::write(&path, data).expect("a file can be written");
    if let Ok(merged) = Partial::merge(&[path], Some(8 << 20)) {
        let _ = (merged.is_complete(), merged.shard());
        let _ = merged.write(&mut Vec::new());
    }
}

pub fn partials() -> Vec<Vec<u8>> {
    let tree = FOLDER.path().join("tree");
    std::fs::create_dir_all(&tree).expect("a folder can be made");
    for number in 0..4 {
        std::fs::write(tree.join(format!("f{number}")), content(number % 3)).expect("written");
    }
    let options = Options { memory_bytes: 8 << 20, ..Options::default() };
    let partial = scan(&[tree], &options, &Progress::default()).expect("nothing fails here");
    let mut bytes = Vec::new();
    partial.write(&mut bytes).expect("memory can be written");
    vec![bytes]
}

/// Any bytes as the file that says which generation a store is in: the number never goes back
/// below one that was never seen, and the store can be opened.
pub fn generation(data: &[u8]) {
    let folder = SimFolder::new();
    let media = folder.create(GENERATION_FILE).expect("nothing fails here");
    media.write(0, data).expect("nothing fails here");
    let said = GenerationFile::read(&folder, &OWNER);
    let _ = GenerationFile::problem(&folder, &OWNER);
    let mut file = GenerationFile::open(&folder, OWNER, 1000).expect("nothing fails here");
    assert!(said.is_some() || file.current().is_unaccepted());
    file.settle(Survival::Lost, Some([1; 16])).expect("nothing fails here");
    file.begin(Some([1; 16])).expect("nothing fails here");
    let now = GenerationFile::read(&folder, &OWNER).expect("it was just written");
    assert!(said.is_none_or(|said| now.number >= said.number));
}
