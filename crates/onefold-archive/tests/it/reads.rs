//! Which bytes of which containers are read, and in which order: as `reads.txt` has it.
//! `ONEFOLD_UPDATE=1` writes that file anew; a change of it is a change of what reading costs.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use onefold_archive::tree::restore::read_file;
use onefold_archive::{
    AddOptions, Archive, ArchiveSettings, Assembled, Assembly, BrowseMemory, Browser, Node,
    Rewriting,
};
use onefold_block::{
    ContainerId, ContainerStore, MediaError, SimFolder, SplitMix64, StoreError, StoreLayer,
};

use crate::support::{Tree, add, add_with, assert_golden, new_archive, open, small};

/// Notes what is read of a store.
struct Heard {
    inner: Arc<dyn ContainerStore>,
    told: Arc<Mutex<String>>,
    /// Longer reads fail.
    most: usize,
    /// Reads of this container panic.
    never: Option<ContainerId>,
}

impl StoreLayer for Heard {
    fn below(&self) -> &dyn ContainerStore {
        &*self.inner
    }

    fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let end = offset + buf.len() as u64;
        let fails = buf.len() > self.most;
        let outcome = if fails { " fails" } else { "" };
        writeln!(self.told.lock().unwrap(), "{id}: {offset}..{end}{outcome}").unwrap();
        assert!(self.never != Some(id), "a panic on purpose");
        if fails {
            let name = format!("{:08x}.container", id.get());
            let source = std::io::Error::other("a bad sector");
            let source = MediaError::Io { action: "read", name, source };
            return Err(StoreError::Media { id, source });
        }
        self.inner.read(id, offset, buf)
    }
}

/// An archive, and what is told of it.
struct Story {
    archive: Archive,
    told: Arc<Mutex<String>>,
}

impl Story {
    fn on(folder: &SimFolder) -> Self {
        Self::through(folder, usize::MAX, None)
    }

    fn through(folder: &SimFolder, most: usize, never: Option<ContainerId>) -> Self {
        let mut archive = open(folder);
        let told = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&told);
        archive.read_through(|inner| Arc::new(Heard { inner, told: heard, most, never }));
        Self { archive, told }
    }

    fn title(&self, title: &str) {
        writeln!(self.told.lock().unwrap(), "\n## {title}\n").unwrap();
    }

    fn say(&self, what: &dyn std::fmt::Debug) {
        writeln!(self.told.lock().unwrap(), "{what:?}").unwrap();
    }
}

/// A file in which a sixth is exchanged from version to version, and some that stay.
fn trees() -> Vec<Tree> {
    let mut random = SplitMix64::new(8);
    let mut data = random.bytes(700_000);
    let stays = random.bytes(90_000);
    let mut trees = Vec::new();
    for _ in 0..3 {
        trees.push(Tree::from([
            (b"changes".to_vec(), Some(data.clone())),
            (b"small".to_vec(), Some(stays[..100].to_vec())),
            (b"stays".to_vec(), Some(stays.clone())),
        ]));
        for _ in 0..12 {
            let at = random.below(data.len() as u64 - 9000) as usize;
            let fresh = random.bytes(9000);
            data[at..at + 9000].copy_from_slice(&fresh);
        }
    }
    trees
}

fn options(rewriting: Rewriting) -> AddOptions {
    AddOptions { rewriting, index_bytes: 1 << 20, skip_unchanged: false, ..AddOptions::default() }
}

/// Small containers, of one group each.
fn small_containers() -> String {
    let (folder, mut archive) = new_archive(&small());
    let trees = trees();
    for tree in &trees {
        add_with(&mut archive, tree, options(Rewriting::default())).unwrap();
    }
    drop(archive);
    let mut story = Story::on(&folder);
    for (path, area) in [(&b"changes"[..], 1_u64 << 20), (b"small", 0), (b"stays", 1 << 24)] {
        story.title(&format!("{} of the last version", String::from_utf8_lossy(path)));
        let version = story.archive.version(None).unwrap();
        let entry = version.find(path).unwrap();
        let totals = read_file(&story.archive, &version, &entry, area, &mut |_| Ok(())).unwrap();
        story.say(&totals);
        story.say(&totals.speed_factor());
    }
    story.title("all is verified");
    let report = story.archive.verify(&mut |_, _| true).unwrap();
    story.say(&report);
    for rewriting in [Rewriting::default(), Rewriting { cap: Some(3), har: true }] {
        story.title(&format!("the second version again, {rewriting:?}"));
        let info = add_with(&mut story.archive, &trees[1], options(rewriting)).unwrap();
        story.say(&info.totals);
    }
    story.title("versions are removed");
    let removed = story.archive.remove_all(&[1, 2]).unwrap();
    story.say(&removed);
    for percent in [40, 20, 5, 0] {
        story.title(&format!("at most {percent} percent unused"));
        let mut heard = Vec::new();
        let report = story.archive.compact(percent, &mut |done, total| {
            heard.push((done, total));
            true
        });
        story.say(&report.unwrap());
        story.say(&heard);
    }
    let report = story.archive.verify(&mut |_, _| true).unwrap();
    story.say(&report);
    std::mem::take(&mut *story.told.lock().unwrap())
}

/// Containers of many groups, read in one go and in parts.
fn large_containers() -> String {
    let settings = ArchiveSettings { container_bytes: 4 << 20, ..small() };
    let (folder, mut archive) = new_archive(&settings);
    let content = SplitMix64::new(4).bytes(6_000_000);
    add(&mut archive, &Tree::from([(b"f".to_vec(), Some(content.clone()))])).unwrap();
    drop(archive);
    let mut told = String::new();
    for area in [1_u64 << 20, 4 << 20] {
        let story = Story::on(&folder);
        story.title(&format!("in an area of {area} bytes"));
        let version = story.archive.version(None).unwrap();
        let entry = version.find(b"f").unwrap();
        let totals = read_file(&story.archive, &version, &entry, area, &mut |_| Ok(())).unwrap();
        story.say(&totals);
        story.say(&totals.speed_factor());
        told += &story.told.lock().unwrap();
    }
    let much = BrowseMemory::default();
    let little = BrowseMemory { content_bytes: 1 << 20, ..much };
    for (what, memory) in [("much", much), ("little", little)] {
        let Story { archive, told: heard } = Story::on(&folder);
        writeln!(heard.lock().unwrap(), "\n## mounted, with {what} memory\n").unwrap();
        let browser = Browser::new(archive, memory).unwrap();
        let found = browser.find(Node::Version(0), b"f").unwrap().unwrap();
        let file = browser.open(found.node).unwrap();
        let read = |from: usize, len: usize| {
            let mut bytes = Vec::new();
            browser.read(&file, from as u64, len, &mut bytes).unwrap();
            assert!(bytes == content[from..(from + len).min(content.len())]);
        };
        writeln!(heard.lock().unwrap(), "- from begin to end").unwrap();
        (0..content.len()).step_by(128 << 10).for_each(|from| read(from, 128 << 10));
        writeln!(heard.lock().unwrap(), "- the begin again").unwrap();
        read(0, 100);
        writeln!(heard.lock().unwrap(), "- here and there").unwrap();
        for from in [5_000_000, 900_000, 4_200_000, 2_000_000, 100_000, 2_300_000, 5_000_000] {
            read(from, 50);
        }
        writeln!(heard.lock().unwrap(), "- two places in turn").unwrap();
        for from in [1_500_000, 3_800_000, 1_500_000, 3_800_000] {
            read(from, 5);
        }
        writeln!(heard.lock().unwrap(), "- back to front").unwrap();
        for from in [3_000_000, 2_700_000, 2_400_000] {
            read(from, 300_000);
        }
        told += &heard.lock().unwrap();
    }
    told
}

/// Chunks that come again, backwards and as zeroes, and a disk that reads little at a time.
fn odd_files() -> String {
    let settings = ArchiveSettings { container_bytes: 4 << 20, ..small() };
    let (folder, mut archive) = new_archive(&settings);
    let content = SplitMix64::new(5).bytes(1_500_000);
    let pieces: Vec<&[u8]> = content.chunks(100_000).collect();
    let backwards: Vec<u8> = pieces.iter().rev().copied().flatten().copied().collect();
    let tree = Tree::from([
        (b"a".to_vec(), Some(content.clone())),
        (b"backwards".to_vec(), Some(backwards.clone())),
        (b"zeroes".to_vec(), Some(vec![0; 100_000])),
    ]);
    add(&mut archive, &tree).unwrap();
    drop(archive);
    let mut told = String::new();
    let story = Story::on(&folder);
    let version = story.archive.version(None).unwrap();
    for (path, expected) in [("a", &content), ("backwards", &backwards)] {
        story.title(path);
        let entry = version.find(path.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        let take = &mut |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        let totals = read_file(&story.archive, &version, &entry, 4 << 20, take).unwrap();
        assert!(bytes == *expected);
        story.say(&totals);
    }
    told += &story.told.lock().unwrap();
    let Story { archive, told: heard } = Story::on(&folder);
    let browser = Browser::new(archive, BrowseMemory::default()).unwrap();
    let found = browser.find(Node::Version(0), b"zeroes").unwrap().unwrap();
    let mut bytes = Vec::new();
    browser.read(&browser.open(found.node).unwrap(), 0, usize::MAX, &mut bytes).unwrap();
    assert!(bytes == vec![0; 100_000]);
    told += "\n## zeroes\n\n";
    told += &heard.lock().unwrap();
    for most in [300_000, 5000] {
        let story = Story::through(&folder, most, None);
        story.title(&format!("where reads of more than {most} bytes fail"));
        let version = story.archive.version(None).unwrap();
        let entry = version.find(b"a").unwrap();
        let read = read_file(&story.archive, &version, &entry, 4 << 20, &mut |_| Ok(()));
        story.say(&read.map_err(|error| error.to_string()));
        story.title("and mounted");
        let Story { archive, told: heard } = story;
        let browser = Browser::new(archive, BrowseMemory::default()).unwrap();
        let found = browser.find(Node::Version(0), b"a").unwrap().unwrap();
        let mut bytes = Vec::new();
        let file = browser.open(found.node).unwrap();
        let read = browser.read(&file, 10_000, 3 * most, &mut bytes);
        assert!(content[10_000..].starts_with(&bytes));
        let read = read.map_err(|error| error.to_string());
        writeln!(heard.lock().unwrap(), "{read:?}, {} bytes", bytes.len()).unwrap();
        told += &heard.lock().unwrap();
    }
    told
}

#[test]
fn what_is_read_of_containers_is_what_it_was() {
    let told = [small_containers(), large_containers(), odd_files()].concat();
    assert_golden("reads.txt", &told);
}

#[test]
fn chunks_of_a_container_whose_reader_fails_are_errors_and_all_others_are_read() {
    let (folder, mut archive) = new_archive(&small());
    let content = SplitMix64::new(6).bytes(400_000);
    add(&mut archive, &Tree::from([(b"f".to_vec(), Some(content.clone()))])).unwrap();
    drop(archive);
    let Story { mut archive, .. } = Story::through(&folder, usize::MAX, Some(ContainerId::new(2)));
    let version = archive.version(None).unwrap();
    let recipe = version.find(b"f").unwrap().recipe;
    let refs: Vec<_> = version.chunks(recipe).map(Result::unwrap).collect();
    for workers in [1, 3] {
        archive.set_workers(workers);
        let mut area = Assembly::<()>::new(&archive, 4 << 20);
        for chunk in &refs {
            area.push_chunk(Ok(*chunk));
        }
        let mut at = 0;
        for chunk in &refs {
            let Some(Assembled::Chunk(data)) = area.pop() else { panic!("a chunk for each") };
            let expected = &content[at..at + chunk.len as usize];
            match data {
                Ok(data) => assert!(*data == *expected && chunk.container.get() != 2),
                Err(error) => {
                    assert_eq!(error.to_string(), "read: read a container: its reader failed");
                    assert_eq!(chunk.container.get(), 2);
                }
            }
            at += expected.len();
        }
        assert!(area.pop().is_none());
        assert_eq!(area.totals().container_reads, 4);
    }
}
