//! Small files that are likely to be read next, given to the kernel before it asks for them.
//! Room: onefold-mount.   In: which small files were read.   Out: contents, for the kernel's
//! memory.
//! The question about a small file costs more than its answer. Who reads one file after another in
//! the order of the listing, as copying, searching and comparing do, gets the next ones unasked.
//! Invariant: nobody who answers a question waits for this. Handing over a page waits for the
//! kernel's own question about the same page, so that it takes a thread that answers none.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use fuser::{INodeNo, Notifier};
use onefold_archive::{Browser, Node};

/// The longest file that is handed over, in bytes. Of longer ones the kernel reads ahead by itself.
const SMALL: u64 = 64 << 10;
/// Entries that are looked at ahead of a reader at most.
const ENTRIES: usize = 64;
/// Bytes that are handed over ahead of a reader at most.
const BYTES: u64 = 1 << 20;
/// Entries that a reader may pass over and still be one who reads everything: folders, links, long
/// files.
const PASSED_OVER: usize = 16;
/// Readers that are followed at a time.
const TRAILS: usize = 4;

/// One reader, as far as its questions show it.
#[derive(Clone, Copy, Debug)]
struct Trail {
    name: u64,
    version: usize,
    /// The entry that was asked for last.
    last: usize,
    /// The first one that nothing was handed over of.
    reach: usize,
    window: usize,
}

/// Entries of a version to hand over.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    trail: u64,
    version: usize,
    entries: Range<usize>,
    bytes_left: u64,
}

/// Readers, the one who asked last at the end.
#[derive(Default)]
struct Trails {
    trails: VecDeque<Trail>,
    names: u64,
}

impl Trails {
    /// An entry was asked for; what to hand over now.
    fn asked(&mut self, version: usize, entry: usize) -> Option<Run> {
        let follows = |trail: &Trail| {
            let end = trail.reach.max(trail.last + 1) + PASSED_OVER;
            trail.version == version && (trail.last..=end).contains(&entry)
        };
        let Some(at) = self.trails.iter().position(follows) else {
            if self.trails.len() == TRAILS {
                self.trails.pop_front();
            }
            self.names += 1;
            let (name, reach) = (self.names, entry + 1);
            self.trails.push_back(Trail { name, version, last: entry, reach, window: 0 });
            return None;
        };
        let mut trail = self.trails.remove(at)?;
        trail.window = (2 * trail.window).clamp(4, ENTRIES);
        trail.last = entry;
        trail.reach = entry + 1 + trail.window;
        self.trails.push_back(trail);
        let entries = entry + 1..trail.reach;
        Some(Run { trail: trail.name, version, entries, bytes_left: BYTES })
    }
}

/// Whoever answers the kernel tells this of what was read.
pub struct Ahead {
    trails: Mutex<Trails>,
    runs: SyncSender<Run>,
}

/// What is to be handed over, for [`hand_over`].
pub struct Runs(Receiver<Run>);

impl Ahead {
    /// One for a mount, and its other end.
    pub fn new() -> (Self, Runs) {
        let (runs, receiver) = sync_channel(TRAILS);
        (Self { trails: Mutex::default(), runs }, Runs(receiver))
    }

    /// A file of so many bytes was read from its begin on. Call it after the kernel had its answer.
    pub fn saw(&self, node: Node, size: u64) {
        let Node::Entry(version, entry) = node else { return };
        if size > SMALL {
            return;
        }
        let run = self.trails.lock().unwrap_or_else(PoisonError::into_inner).asked(version, entry);
        if let Some(run) = run {
            // Where it does not fit, or nobody hands over any more, the kernel asks as ever.
            let _ = self.runs.try_send(run);
        }
    }
}

/// What keeps contents of files.
pub trait Keeper {
    /// Keep all of a file.
    ///
    /// # Errors
    /// If it takes none any more.
    fn keep(&self, number: u64, bytes: &[u8]) -> io::Result<()>;
}

impl Keeper for Notifier {
    fn keep(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        // A file that the kernel does not know is no error, and is kept by nobody.
        self.store(INodeNo(number), 0, bytes)
    }
}

/// Hand over what is to be, until the mount or its kernel wants no more.
pub fn hand_over(runs: &Runs, browser: &Arc<Browser>, keeper: &impl Keeper) {
    let mut going: VecDeque<Run> = VecDeque::new();
    loop {
        if going.is_empty() {
            let Ok(run) = runs.0.recv() else { return };
            going.push_back(run);
        }
        while let Ok(run) = runs.0.try_recv() {
            go_on(&mut going, run);
        }
        // Of each reader's files one, by turns.
        let Some(mut run) = going.pop_front() else { continue };
        let Some(entry) = run.entries.next() else { continue };
        if let Some((number, bytes)) = small_file(browser, Node::Entry(run.version, entry)) {
            if keeper.keep(number, &bytes).is_err() {
                return;
            }
            run.bytes_left = run.bytes_left.saturating_sub(bytes.len() as u64);
        }
        if run.bytes_left > 0 {
            going.push_back(run);
        }
    }
}

/// Take up what a reader has asked for since; what was handed over is not again.
fn go_on(going: &mut VecDeque<Run>, mut newer: Run) {
    if let Some(at) = going.iter().position(|run| run.trail == newer.trail)
        && let Some(older) = going.remove(at)
    {
        newer.entries.start = newer.entries.start.max(older.entries.start.min(newer.entries.end));
    }
    if going.len() == TRAILS {
        going.pop_front();
    }
    going.push_back(newer);
}

/// The number and content of a small file; nothing of what else there is, and of what is damaged:
/// who asks for that is told.
fn small_file(browser: &Browser, node: Node) -> Option<(u64, Vec<u8>)> {
    let file = browser.open(node).ok()?;
    let size = file.size();
    if !(1..=SMALL).contains(&size) {
        return None;
    }
    let mut bytes = Vec::with_capacity(size as usize);
    browser.read(&file, 0, size as usize, &mut bytes).ok()?;
    Some((node.number()?, bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc::TryRecvError;

    use onefold_archive::{
        AddOptions, Archive, ArchiveIdentity, ArchiveSettings, BrowseMemory, Entry, Kind, LockKind,
        Metadata, Recipe, Stamp,
    };

    use super::*;

    /// Entries of one version from its end on, as `asked` would want them.
    fn asked(trails: &mut Trails, version: usize, entry: usize) -> Option<Range<usize>> {
        trails.asked(version, entry).map(|run| run.entries)
    }

    #[test]
    fn who_reads_one_file_after_another_is_led_further_and_further() {
        let mut trails = Trails::default();
        assert_eq!(asked(&mut trails, 0, 10), None, "one file says nothing");
        assert_eq!(asked(&mut trails, 0, 11), Some(12..16));
        // The next question comes behind what was handed over.
        assert_eq!(asked(&mut trails, 0, 16), Some(17..25));
        assert_eq!(asked(&mut trails, 0, 25 + PASSED_OVER), Some(42..58));
        assert_eq!(asked(&mut trails, 0, 58), Some(59..91));
        assert_eq!(asked(&mut trails, 0, 91), Some(92..92 + ENTRIES));
        assert_eq!(asked(&mut trails, 0, 156), Some(157..157 + ENTRIES), "and no further");
    }

    #[test]
    fn who_reads_here_and_there_gets_what_was_asked_for() {
        let mut trails = Trails::default();
        for entry in [500, 100, 900, 300, 700, 50, 1_000] {
            assert_eq!(asked(&mut trails, 0, entry), None);
        }
        assert_eq!(asked(&mut trails, 0, 1_000 + PASSED_OVER + 2), None, "too far on");
        assert_eq!(asked(&mut trails, 1, 1_001), None, "of another version");
    }

    #[test]
    fn some_readers_are_followed_side_by_side() {
        let mut trails = Trails::default();
        for version in 0..TRAILS {
            assert_eq!(asked(&mut trails, version, 5), None);
        }
        for version in 0..TRAILS {
            assert_eq!(asked(&mut trails, version, 6), Some(7..11));
        }
        // One more, and the one who has not asked for longest is forgotten.
        assert_eq!(asked(&mut trails, 9, 5), None);
        assert_eq!(asked(&mut trails, 0, 11), None);
        assert_eq!(asked(&mut trails, 2, 11), Some(12..20));
    }

    #[test]
    fn what_was_handed_over_is_not_again_when_a_reader_asks_meanwhile() {
        let run = |trail, entries| Run { trail, version: 0, entries, bytes_left: BYTES };
        let mut going = VecDeque::from([run(1, 15..20), run(2, 3..9)]);
        // It has come to 15; the reader had asked for 12 before that.
        go_on(&mut going, run(1, 13..21));
        assert_eq!(going, [run(2, 3..9), run(1, 15..21)]);
        // The reader was quicker.
        go_on(&mut going, run(2, 7..15));
        assert_eq!(going, [run(1, 15..21), run(2, 7..15)]);
        // It is behind all that is wanted.
        go_on(&mut going, run(1, 10..12));
        assert_eq!(going, [run(2, 7..15), run(1, 12..12)]);
        for trail in 3..9 {
            go_on(&mut going, run(trail, 0..9));
        }
        assert_eq!(going.len(), TRAILS);
    }

    #[derive(Default)]
    struct Kept {
        files: Mutex<BTreeMap<u64, Vec<u8>>>,
        /// Takes no more than so many.
        most: Option<usize>,
    }

    impl Keeper for Kept {
        fn keep(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
            let mut files = self.files.lock().unwrap();
            if Some(files.len()) == self.most {
                return Err(io::Error::other("unmounted"));
            }
            assert!(files.insert(number, bytes.to_vec()).is_none(), "handed over once");
            Ok(())
        }
    }

    /// Files by the order of their names: every tenth one long, every seventh one empty, a folder
    /// and a link between them.
    fn files() -> Vec<(Kind, Vec<u8>)> {
        let file = |number: usize| {
            let len = match number {
                _ if number.is_multiple_of(10) => SMALL as usize + 1,
                _ if number.is_multiple_of(7) => 0,
                13 => 1,
                19 => SMALL as usize,
                _ => 1 + number * 37,
            };
            match number {
                33 => (Kind::Directory, Vec::new()),
                34 => (Kind::Symlink { target: b"035".to_vec() }, Vec::new()),
                _ => (Kind::File, vec![number as u8; len]),
            }
        };
        (0..200).map(file).collect()
    }

    fn browser(folder: &std::path::Path) -> Arc<Browser> {
        let identity = ArchiveIdentity { uuid: [7; 16], key: [8; 32] };
        Archive::create_at(folder, &ArchiveSettings::default(), identity, None, None).unwrap();
        let mut archive = Archive::open_at(folder, LockKind::Add).unwrap();
        let mut adder = archive.add(AddOptions::default()).unwrap();
        for (number, (kind, content)) in files().into_iter().enumerate() {
            let is_file = kind == Kind::File;
            let entry = Entry {
                path: format!("{number:03}").into_bytes(),
                kind,
                metadata: Metadata::default(),
                stamp: Stamp::default(),
                recipe: Recipe::default(),
            };
            if is_file {
                adder.file(entry, false, &mut content.as_slice()).unwrap().unwrap();
            } else {
                adder.entry(entry).unwrap();
            }
        }
        adder.commit().unwrap();
        drop(archive);
        let archive = Archive::open_at(folder, LockKind::Read).unwrap();
        Arc::new(Browser::new(archive, BrowseMemory::default()).unwrap())
    }

    /// What is handed over when these entries have been read.
    fn handed_over(browser: &Arc<Browser>, read: &[usize], most: Option<usize>) -> Vec<usize> {
        let (ahead, runs) = Ahead::new();
        for &entry in read {
            ahead.saw(Node::Entry(0, entry), 1);
        }
        drop(ahead);
        let kept = Kept { most, ..Kept::default() };
        hand_over(&runs, browser, &kept);
        let files = files();
        let check = |(number, bytes): (u64, Vec<u8>)| {
            let Some(Node::Entry(0, entry)) = Node::of(number) else { panic!("{number:#x}") };
            assert!(bytes == files[entry].1, "the content of {entry}");
            entry
        };
        kept.files.into_inner().unwrap().into_iter().map(check).collect()
    }

    #[test]
    fn small_files_are_handed_over_with_their_content_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let browser = browser(folder.path());
        // Not 10, 14, 20, 21 nor 28: too long or empty. 19 is as long as one may be.
        assert_eq!(handed_over(&browser, &[8, 9], None), [11, 12, 13]);
        let found = handed_over(&browser, &[8, 9, 14], None);
        // The reader is past the first ones.
        assert_eq!(found, [15, 16, 17, 18, 19, 22]);
        // Neither folder nor link.
        assert_eq!(handed_over(&browser, &[30, 31], None), [32]);
        // It goes on to the end, and no further.
        assert_eq!(handed_over(&browser, &[196, 197], None), [198, 199]);
        assert_eq!(handed_over(&browser, &[5], None), [0; 0]);
        // Long ones are not followed.
        let (ahead, runs) = Ahead::new();
        ahead.saw(Node::Entry(0, 1), SMALL + 1);
        ahead.saw(Node::Entry(0, 2), SMALL + 1);
        ahead.saw(Node::Version(0), 1);
        assert_eq!(runs.0.try_recv(), Err(TryRecvError::Empty));
        for entry in 1..3 {
            ahead.saw(Node::Entry(0, entry), SMALL);
        }
        assert!(runs.0.try_recv().is_ok());
    }

    #[test]
    fn a_kernel_that_takes_no_more_gets_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let browser = browser(folder.path());
        assert_eq!(handed_over(&browser, &[8, 9], Some(2)), [11, 12]);
        // Nobody hands over any more: who answers goes on as ever.
        let (ahead, runs) = Ahead::new();
        drop(runs);
        for entry in 0..20 {
            ahead.saw(Node::Entry(0, entry), 1);
        }
    }

    #[test]
    fn so_many_bytes_are_handed_over_ahead_of_a_reader_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let browser = browser(folder.path());
        let first = 37 * 92 + 1;
        for (bytes_left, files) in [(first, 1), (first + 1, 2), (first + 37 * 93 + 1, 2)] {
            let (ahead, runs) = Ahead::new();
            let run = Run { trail: 1, version: 0, entries: 92..99, bytes_left };
            ahead.runs.try_send(run).unwrap();
            drop(ahead);
            let kept = Kept::default();
            hand_over(&runs, &browser, &kept);
            assert_eq!(kept.files.into_inner().unwrap().len(), files);
        }
    }
}
