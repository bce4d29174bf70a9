//! What reaches the disk and in which order, syncs and lengths among it, and what lies there in the
//! end: byte for byte as `operations.txt` has it. `ONEFOLD_UPDATE=1` writes that file anew; a
//! change of it is a change of the format, or of what a power cut may meet.

use std::fmt::Write as _;
use std::sync::Arc;

use onefold_archive::{
    AddOptions, Archive, ArchiveError, Argon2Cost, Kind, NewKey, Rewriting, Secret,
};
use onefold_block::{CrashMode, FaultKind, Folder, OpKind, SimFolder, SplitMix64};

use crate::support::{
    IDENTITY, Tree, add, add_with, assert_golden, check, create, entry, names, new_archive, open,
    read, small,
};

/// A disk, and what was told of it so far.
struct Story {
    folder: SimFolder,
    told: String,
    operations: usize,
}

impl Story {
    fn new(title: &str) -> Self {
        Self { folder: SimFolder::new(), told: format!("# {title}\n"), operations: 0 }
    }

    /// On another disk, as it is after a power cut.
    fn on(title: &str, folder: &SimFolder) -> Self {
        let folder = folder.after_crash(1, CrashMode::KeepEverything);
        Self { folder, ..Self::new(title) }
    }

    /// The operations since the last time.
    fn tell(&mut self, what: &str) {
        writeln!(self.told, "\n## {what}\n").unwrap();
        self.told += &self.folder.ops_since(&mut self.operations);
    }

    fn say(&mut self, what: &dyn std::fmt::Debug) {
        writeln!(self.told, "{what:?}").unwrap();
    }

    /// The files of the archive's folder itself.
    fn look(&mut self) {
        let folder: Arc<dyn Folder> = Arc::new(self.folder.clone());
        self.list("", &*folder);
    }

    /// All files, with their lengths and hashes. (Of what ends with its own CRC-32, the CRC-32 is
    /// always the same.)
    fn end(mut self) -> String {
        self.told.push_str("\n## files\n\n");
        for sub in ["", "containers", "versions"] {
            let within: Arc<dyn Folder> = match sub {
                "" => Arc::new(self.folder.clone()),
                sub => self.folder.subfolder(sub).unwrap(),
            };
            let slash = if sub.is_empty() { "" } else { "/" };
            self.list(&format!("{sub}{slash}"), &*within);
        }
        self.told
    }

    fn list(&mut self, before: &str, folder: &dyn Folder) {
        for name in folder.list().unwrap() {
            let file = folder.open(&name).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read(0, &mut bytes).unwrap();
            let (len, hash) = (bytes.len(), blake3::hash(&bytes).to_hex());
            writeln!(self.told, "{before}{name}: {len} bytes, {}", &hash[..8]).unwrap();
        }
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    SplitMix64::new(seed).bytes(len)
}

fn first() -> Tree {
    Tree::from([
        (b"d".to_vec(), None),
        (b"d/large".to_vec(), Some(bytes(1, 200_000))),
        (b"d/small".to_vec(), Some(bytes(2, 300))),
        (b"empty".to_vec(), Some(Vec::new())),
    ])
}

fn second() -> Tree {
    let mut tree = first();
    tree.get_mut(&b"d/large"[..]).unwrap().as_mut().unwrap().truncate(150_000);
    tree.insert(b"new".to_vec(), Some(bytes(3, 90_000)));
    tree
}

fn options(number: i64) -> AddOptions {
    AddOptions {
        time_s: number * 1000,
        label: format!("day {number}"),
        index_bytes: 1 << 20,
        ..AddOptions::default()
    }
}

/// A life without trouble.
fn a_life() -> String {
    let mut story = Story::new("a life");
    Archive::create(&story.folder, &small(), IDENTITY).unwrap();
    story.tell("an archive is made");
    let mut archive = open(&story.folder);
    story.tell("it is opened");
    for (number, tree) in (1..).zip([first(), first(), second()]) {
        let info = add_with(&mut archive, &tree, options(number)).unwrap();
        story.tell(&format!("version {number} is added"));
        story.say(&info);
    }
    let removed = archive.remove_all(&[1, 2]).unwrap();
    story.tell("versions 1 and 2 are removed");
    story.say(&removed);
    let mut heard = Vec::new();
    let report = archive.compact(0, &mut |done, total| {
        heard.push((done, total));
        true
    });
    story.tell("space is given back");
    story.say(&report.unwrap());
    story.say(&heard);
    story.say(&archive.verify(&mut |_, _| true).unwrap());
    story.tell("all is read");
    let removed = archive.remove(3).unwrap();
    story.tell("the last version is removed");
    story.say(&removed);
    story.end()
}

/// Additions that are interrupted, given up, out of space, or of nothing.
fn additions_that_end_early() -> String {
    let mut story = Story::new("additions that end early");
    Archive::create(&story.folder, &small(), IDENTITY).unwrap();
    let mut archive = open(&story.folder);
    add_with(&mut archive, &first(), options(1)).unwrap();
    story.tell("version 1");
    let begin = |archive: &mut Archive, tree: &Tree| {
        let mut adder = archive.add(options(2)).unwrap();
        for (path, content) in tree {
            let Some(content) = content else { continue };
            let entry = entry(path, Kind::File);
            adder.file(entry, false, &mut content.as_slice()).unwrap().unwrap();
        }
        drop(adder);
    };
    let other = Tree::from([(b"other".to_vec(), Some(bytes(4, 1_200_000)))]);
    begin(&mut archive, &other);
    story.tell("an addition is cut short");
    story.look();
    let mut archive = open(&story.folder);
    let mut adder = archive.add(options(2)).unwrap();
    story.tell("the next one begins");
    story.say(adder.notes());
    let content = other[&b"other"[..]].clone().unwrap();
    let half = &mut &content[..700_000];
    adder.file(entry(b"other", Kind::File), false, half).unwrap().unwrap();
    let (info, notes) = adder.commit().unwrap();
    story.tell("it needs some of what is left");
    story.say(&(info, notes));
    begin(&mut archive, &other);
    story.tell("another one is cut short");
    let discarded = archive.add(options(3)).unwrap().discard().unwrap();
    story.tell("and given up by the next one");
    story.say(&discarded);
    let nothing = Tree::from([(b"d".to_vec(), None)]);
    let refused = add_with(&mut archive, &nothing, options(3)).unwrap_err();
    assert!(matches!(refused, ArchiveError::Nothing));
    story.tell("a version of nothing is refused");
    begin(&mut archive, &other);
    story.tell("one more is cut short");
    let removed = archive.remove(2).unwrap();
    story.tell("and a removal takes it along");
    story.say(&removed);
    story.folder.fail_once(&[OpKind::Write], 4, FaultKind::Enospc);
    let refused = add_with(&mut archive, &other, options(3)).unwrap_err();
    story.folder.clear_faults();
    story.tell("there is no space for an addition");
    story.say(&refused.to_string());
    begin(&mut archive, &other);
    story.tell("that is left, and one more");
    story.look();
    let mut archive = open(&story.folder);
    let report = archive.compact(0, &mut |_, _| true).unwrap();
    story.tell("all of which goes when space is given back");
    story.say(&report);
    story.end()
}

type Damage<'a> = &'a dyn Fn(&SimFolder);

/// Copies that are lost, and written again by whoever changes something next, or by a repair.
fn lost_copies() -> String {
    let (folder, mut archive) = new_archive(&small());
    for (number, tree) in (1..).zip([first(), second(), second()]) {
        add_with(&mut archive, &tree, options(number)).unwrap();
    }
    archive.remove(1).unwrap();
    drop(archive);
    let third = 2 * 512 + 40;
    let damages: [(&str, Damage<'_>); 9] = [
        ("archive.0 is gone", &|folder| folder.remove("archive.0").unwrap()),
        ("archive.1 is damaged", &|folder| folder.flip_bit("archive.1", 40, 1).unwrap()),
        ("log.0 is gone", &|folder| folder.remove("log.0").unwrap()),
        ("log.1 is cut", &|folder| folder.truncate("log.1", 1200).unwrap()),
        ("a record is damaged in one copy", &|folder| folder.flip_bit("log.0", third, 1).unwrap()),
        ("a record is damaged in both copies", &|folder| {
            folder.flip_bit("log.0", third, 1).unwrap();
            folder.flip_bit("log.1", third, 1).unwrap();
        }),
        ("both logs are gone", &|folder| {
            folder.remove("log.0").unwrap();
            folder.remove("log.1").unwrap();
        }),
        ("both settings are gone", &|folder| {
            folder.remove("archive.0").unwrap();
            folder.remove("archive.1").unwrap();
        }),
        ("both logs end early", &|folder| {
            folder.truncate("log.0", 600).unwrap();
            folder.truncate("log.1", 600).unwrap();
        }),
    ];
    let mut told = String::new();
    for (what, damage) in damages {
        let damaged = folder.after_crash(1, CrashMode::KeepEverything);
        damage(&damaged);
        let mut story = Story::on(&format!("{what}: an addition"), &damaged);
        match Archive::open(Arc::new(story.folder.clone())) {
            Ok(mut archive) => {
                story.say(&archive.verify(&mut |_, _| true).unwrap());
                let added = add_with(&mut archive, &first(), options(9));
                story.tell("something is added");
                story.say(&added.map_err(|error| error.to_string()));
            }
            Err(error) => story.say(&error.to_string()),
        }
        told += &story.end();
        told.push('\n');
        let mut story = Story::on(&format!("{what}: a check"), &damaged);
        let report = check(&story.folder, false).unwrap();
        story.tell("it is checked");
        story.say(&report);
        let report = check(&story.folder, true).unwrap();
        story.tell("it is repaired");
        story.say(&report);
        told += &story.end();
        told.push('\n');
    }
    told
}

/// The same life, encrypted, and another secret.
fn an_encrypted_life() -> String {
    let mut story = Story::new("an encrypted life");
    create(&story.folder, true).unwrap();
    story.tell("an archive is made");
    let mut archive = open(&story.folder);
    add_with(&mut archive, &first(), options(1)).unwrap();
    story.tell("version 1 is added");
    let secret = Secret::KeyFile(vec![7; 40]);
    let (cost, salt, master) = (Argon2Cost::default(), [8; 16], [9; 32]);
    archive.change_secret(&NewKey { secret: &secret, cost, salt, master }).unwrap();
    story.tell("another secret opens it");
    add_with(&mut archive, &second(), options(2)).unwrap();
    story.tell("version 2 is added");
    story.end()
}

/// Files that cannot be read to their ends, in the middle of a version.
fn broken_sources() -> String {
    /// Gives what it has, then fails.
    struct Broken<'a>(&'a [u8]);
    impl std::io::Read for Broken<'_> {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buf)? {
                0 => Err(std::io::Error::other("a bad sector")),
                count => Ok(count),
            }
        }
    }
    let mut story = Story::new("broken sources");
    Archive::create(&story.folder, &small(), IDENTITY).unwrap();
    let mut archive = open(&story.folder);
    let mut adder = archive.add(options(1)).unwrap();
    let content = bytes(6, 3_000_000);
    for (path, len, whole) in [
        ("a", 5000, true),
        ("b", 3000, false),
        ("c", 0, true),
        ("d", 3_000_000, false),
        ("e", 700, true),
    ] {
        let (entry, mut rest) = (entry(path.as_bytes(), Kind::File), &content[..len]);
        let read = if whole {
            adder.file(entry, false, &mut rest)
        } else {
            adder.file(entry, false, &mut Broken(rest))
        };
        let read = read.unwrap().map_err(|error| error.to_string());
        story.say(&read);
    }
    let totals = *adder.totals();
    story.say(&totals);
    let (info, _) = adder.commit().unwrap();
    story.tell("a version is added");
    story.say(&info);
    story.say(&archive.verify(&mut |_, _| true).unwrap());
    story.end()
}

/// What is little used of a container is stored again, as far as that is a small part of all.
fn sparse_containers() -> String {
    let mut story = Story::new("sparse containers");
    Archive::create(&story.folder, &small(), IDENTITY).unwrap();
    let mut archive = open(&story.folder);
    let content = bytes(7, 2_000_000);
    let rewriting = Rewriting { cap: None, har: true };
    // Of the first container a tenth stays, and of the second a third, which is too much.
    let whole = &content[..];
    let less = [&content[..13_000], &content[130_000..170_000], &content[260_000..]].concat();
    for (number, content) in (1..).zip([whole, &less, &less, &less]) {
        let tree = Tree::from([(b"f".to_vec(), Some(content.to_vec()))]);
        let options = AddOptions { rewriting, ..options(number) };
        let info = add_with(&mut archive, &tree, options).unwrap();
        story.say(&info);
    }
    story.tell("four versions are added");
    story.end()
}

/// Duplicates that are stored again.
fn rewriting() -> String {
    let mut told = String::new();
    for (what, rewriting) in [
        ("a cap", Rewriting { cap: Some(1), har: false }),
        ("HAR", Rewriting { cap: None, har: true }),
    ] {
        let mut story = Story::new(what);
        Archive::create(&story.folder, &small(), IDENTITY).unwrap();
        let mut archive = open(&story.folder);
        let mut random = SplitMix64::new(31);
        let mut data = random.bytes(900_000);
        for number in 1..=4 {
            let tree = Tree::from([(b"f".to_vec(), Some(data.clone()))]);
            let options = AddOptions { rewriting, ..options(number) };
            let info = add_with(&mut archive, &tree, options).unwrap();
            story.say(&info);
            for _ in 0..40 {
                let at = random.below(data.len() as u64 - 3000) as usize;
                let fresh = random.bytes(3000);
                data[at..at + 3000].copy_from_slice(&fresh);
            }
        }
        story.tell("four versions are added");
        told += &story.end();
        told.push('\n');
    }
    told
}

#[test]
fn what_reaches_the_disk_is_what_it_was() {
    let told = [
        a_life(),
        additions_that_end_early(),
        lost_copies(),
        an_encrypted_life(),
        broken_sources(),
        sparse_containers(),
        rewriting(),
    ];
    assert_golden("operations.txt", &told.join("\n"));
}

/// Containers of a long addition are made durable some at a time.
#[test]
fn thirty_two_containers_wait_for_their_sync_and_no_more() {
    let (folder, mut archive) = new_archive(&small());
    let before = folder.op_log().lines().count();
    add(&mut archive, &Tree::from([(b"f".to_vec(), Some(bytes(5, 34 * (128 << 10))))])).unwrap();
    let log = folder.op_log();
    let lines: Vec<&str> = log.lines().skip(before).collect();
    let is = |line: &str, what: &str| line.contains(what) && line.contains(".container");
    let syncs: Vec<usize> = (0..lines.len()).filter(|&n| is(lines[n], " Sync ")).collect();
    let made = |upto: usize| lines[..upto].iter().filter(|line| is(line, " SetLen ")).count();
    assert_eq!((made(syncs[0]), made(syncs[31]), made(syncs[32])), (32, 32, syncs.len()));
    assert_eq!(syncs.len(), names(&folder, "containers").len());
    assert!(read(&archive, 1).is_ok());
}
