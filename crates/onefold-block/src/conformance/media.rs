//! The suite of checks for [`Folder`] and [`Media`].
//! Room: onefold-block.
//! What survives a power cut cannot be checked without cutting the power: simulated media are
//! for that ([`crate::sim_media`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{assert_same, ok};
use crate::media::{Folder, Media, MediaError};
use crate::seeded::SplitMix64;

/// Makes a new, empty folder.
pub type MakeFolder<'a> = dyn Fn() -> Arc<dyn Folder> + 'a;

/// A named check.
pub type FolderCheck = (&'static str, fn(&MakeFolder<'_>));

const MODEL_SEEDS: u64 = 4;
const MODEL_STEPS: u64 = 300;

/// Every check of the suite.
pub const CHECKS: &[FolderCheck] = &[
    ("names come and go", names_come_and_go),
    ("bad names are refused", bad_names_are_refused),
    ("creating empties", creating_empties),
    ("removed media stay readable", removed_media_stay_readable),
    ("renaming", renaming),
    ("subfolders are apart", subfolders_are_apart),
    ("empty subfolders are removed", empty_subfolders_are_removed),
    ("writes and gaps", writes_and_gaps),
    ("reads past the end", reads_past_the_end),
    ("cutting and extending", cutting_and_extending),
    ("absurd offsets", absurd_offsets),
    ("reserving and punching", reserving_and_punching),
    ("handles share one media", handles_share_one_media),
    ("threads", threads),
    ("model", model),
];

/// Put a folder and its media through every check.
pub fn check_folder(make: &MakeFolder<'_>) {
    for (_, check) in CHECKS {
        check(make);
    }
}

fn contents(media: &dyn Media) -> Vec<u8> {
    let len = ok(media.len(), "measuring");
    assert_eq!(ok(media.is_empty(), "measuring"), len == 0, "empty means no bytes");
    let mut bytes = vec![0xa5; len as usize];
    ok(media.read(0, &mut bytes), "reading all");
    bytes
}

fn assert_holds(media: &dyn Media, expected: &[u8], what: &str) {
    assert_same(&contents(media), expected, 0, what);
}

fn names(folder: &dyn Folder) -> Vec<String> {
    ok(folder.list(), "listing")
}

fn assert_not_found<T>(result: Result<T, MediaError>, what: &str) {
    match result {
        Err(MediaError::NotFound { name }) => {
            assert!(name.contains("absent"), "{what}: the error names the file, not {name}");
        }
        Err(error) => panic!("{what}: expected NotFound, got: {error}"),
        Ok(_) => panic!("{what}: expected NotFound, got success"),
    }
}

fn names_come_and_go(make: &MakeFolder<'_>) {
    let folder = make();
    assert!(names(&*folder).is_empty(), "a new folder has no names");
    assert_not_found(folder.open("absent"), "opening");
    assert_not_found(folder.remove("absent"), "removing");
    for name in ["b", "a", "C", "a.1", "00000007"] {
        ok(folder.create(name), "creating");
    }
    assert_eq!(names(&*folder), ["00000007", "C", "a", "a.1", "b"], "names are sorted");
    ok(folder.sync_names(), "syncing names");
    ok(folder.remove("a"), "removing");
    assert_eq!(names(&*folder), ["00000007", "C", "a.1", "b"]);
    ok(folder.sync_names(), "syncing names");
    ok(folder.create("absent"), "creating");
    ok(folder.remove("absent"), "removing");
    assert_not_found(folder.open("absent"), "opening what was removed");
}

fn bad_names_are_refused(make: &MakeFolder<'_>) {
    let folder = make();
    for name in ["", ".", "..", "a/b", "/a", "../a", "a\0", &"n".repeat(256)] {
        assert!(folder.create(name).is_err(), "creating {name:?}");
        assert!(folder.open(name).is_err(), "opening {name:?}");
        assert!(folder.remove(name).is_err(), "removing {name:?}");
        assert!(folder.subfolder(name).is_err(), "subfolder {name:?}");
        assert!(folder.remove_subfolder(name).is_err(), "removing subfolder {name:?}");
        assert!(folder.rename("a", name).is_err(), "renaming to {name:?}");
    }
    assert!(names(&*folder).is_empty());
    ok(folder.create(&"n".repeat(255)), "creating a long name");
}

fn creating_empties(make: &MakeFolder<'_>) {
    let folder = make();
    let old = ok(folder.create("a"), "creating");
    ok(old.write(0, b"old contents"), "writing");
    ok(old.sync(), "syncing");
    let new = ok(folder.create("a"), "creating again");
    assert_holds(&*new, b"", "a media created again");
    ok(new.write(3, b"new"), "writing");
    assert_holds(&*new, b"\0\0\0new", "old bytes must not come back");
}

fn removed_media_stay_readable(make: &MakeFolder<'_>) {
    let folder = make();
    let media = ok(folder.create("a"), "creating");
    ok(media.write(0, b"still here"), "writing");
    ok(folder.remove("a"), "removing");
    ok(folder.sync_names(), "syncing names");
    assert_holds(&*media, b"still here", "an open handle of a removed name");
    let other = ok(folder.create("a"), "creating the name anew");
    ok(other.write(0, b"other"), "writing");
    assert_holds(&*media, b"still here", "the old media beside a new one of its name");
    ok(media.write(0, b"STILL"), "writing");
    ok(media.sync(), "syncing");
    assert_holds(&*other, b"other", "the new media");
}

fn renaming(make: &MakeFolder<'_>) {
    let folder = make();
    assert_not_found(folder.rename("absent", "a"), "renaming");
    let old = ok(folder.create("a"), "creating");
    ok(old.write(0, b"old"), "writing");
    let new = ok(folder.create("b"), "creating");
    ok(new.write(0, b"new"), "writing");
    ok(folder.rename("b", "a"), "renaming over another");
    assert_eq!(names(&*folder), ["a"], "the old name is gone");
    assert_holds(&*ok(folder.open("a"), "opening"), b"new", "the new name");
    assert_holds(&*old, b"old", "an open handle of what was replaced");
    ok(new.write(3, b"er"), "writing by the handle of the old name");
    ok(folder.rename("a", "c"), "renaming to a free name");
    assert_eq!(names(&*folder), ["c"]);
    ok(folder.rename("c", "c"), "renaming to the same name");
    assert_holds(&*ok(folder.open("c"), "opening"), b"newer", "after two names more");
    ok(folder.subfolder("inner"), "making a subfolder");
    assert!(folder.rename("c", "inner").is_err(), "a folder is not replaced");
    ok(folder.sync_names(), "syncing names");
    assert_eq!(names(&*folder), ["c"]);
}

fn subfolders_are_apart(make: &MakeFolder<'_>) {
    let folder = make();
    assert!(
        matches!(folder.existing_subfolder("inner"), Err(MediaError::NotFound { .. })),
        "a subfolder that is not there"
    );
    let inner = ok(folder.subfolder("inner"), "making a subfolder");
    ok(ok(folder.create("a"), "creating").write(0, b"outer"), "writing");
    ok(ok(inner.create("a"), "creating").write(0, b"inner"), "writing");
    ok(ok(inner.subfolder("deep"), "making a subfolder").create("x"), "creating");
    assert_eq!(names(&*folder), ["a"], "subfolders are not listed as media");
    assert_eq!(names(&*inner), ["a"]);
    for again in [folder.subfolder("inner"), folder.existing_subfolder("inner")] {
        let again = ok(again, "opening a subfolder");
        assert_holds(&*ok(again.open("a"), "opening"), b"inner", "in the subfolder");
    }
    assert_holds(&*ok(folder.open("a"), "opening"), b"outer", "in the folder");
    ok(inner.remove("a"), "removing");
    assert_eq!(names(&*folder), ["a"]);
    ok(inner.sync_names(), "syncing names");
    ok(folder.sync_names(), "syncing names");
}

fn empty_subfolders_are_removed(make: &MakeFolder<'_>) {
    let folder = make();
    let missing = |name: &str, what: &str| {
        let removed = folder.remove_subfolder(name);
        assert!(matches!(removed, Err(MediaError::NotFound { .. })), "{what}: {removed:?}");
        let opened = folder.existing_subfolder(name).map(drop);
        assert!(matches!(opened, Err(MediaError::NotFound { .. })), "{what}: {opened:?}");
    };
    missing("inner", "a subfolder that is not there");
    ok(folder.create("a"), "creating");
    assert!(folder.remove_subfolder("a").is_err(), "a media is no subfolder");
    let inner = ok(folder.subfolder("inner"), "making a subfolder");
    assert!(folder.remove("inner").is_err(), "a subfolder is no media");
    ok(ok(inner.create("x"), "creating").write(0, b"inner"), "writing");
    assert!(folder.remove_subfolder("inner").is_err(), "it holds a media that is new");
    ok(inner.sync_names(), "syncing names");
    assert!(folder.remove_subfolder("inner").is_err(), "it holds a media");
    ok(inner.remove("x"), "removing");
    ok(inner.sync_names(), "syncing names");
    ok(inner.subfolder("deep"), "making a subfolder");
    assert!(folder.remove_subfolder("inner").is_err(), "it holds a subfolder");
    ok(inner.remove_subfolder("deep"), "removing a subfolder");
    ok(folder.remove_subfolder("inner"), "removing a subfolder that was emptied");
    missing("inner", "a subfolder that was removed");
    ok(folder.sync_names(), "syncing names");
    missing("inner", "a subfolder that was removed, with names synced");
    let again = ok(folder.subfolder("inner"), "making it again");
    assert_eq!(names(&*again), [""; 0], "it is empty");
    ok(ok(again.create("y"), "creating").write(0, b"again"), "writing");
    ok(again.sync_names(), "syncing names");
    ok(folder.sync_names(), "syncing names");
    let again = ok(folder.existing_subfolder("inner"), "opening it");
    assert_holds(&*ok(again.open("y"), "opening"), b"again", "in the one that was made again");
    assert_eq!(names(&*folder), ["a"]);
}

fn writes_and_gaps(make: &MakeFolder<'_>) {
    let media = ok(make().create("a"), "creating");
    assert_holds(&*media, b"", "a new media");
    ok(media.write(10, b"xyz"), "writing");
    assert_holds(&*media, b"\0\0\0\0\0\0\0\0\0\0xyz", "a gap reads as zeroes");
    ok(media.write(0, b"0123456789ab"), "writing");
    assert_holds(&*media, b"0123456789abz", "an overlapping write");
    ok(media.write(5000, b""), "writing nothing");
    assert_eq!(ok(media.len(), "measuring"), 13, "writing nothing does not grow");
    ok(media.sync(), "syncing");
    let mut expected = contents(&*media);
    expected.resize(100_000, 0);
    expected.push(7);
    ok(media.write(100_000, &[7]), "writing");
    assert_holds(&*media, &expected, "a long gap");
    ok(media.sync(), "syncing");
    ok(media.sync(), "syncing again");
    assert_holds(&*media, &expected, "after syncing");
    for from in [0, 12, 13, 50_000, 99_999, 100_000, 100_001, u64::MAX] {
        let data = ok(media.next_data(from), "looking for data");
        let passed_over = from.min(expected.len() as u64)..data.unwrap_or(expected.len() as u64);
        let lost = passed_over.clone().any(|at| expected[at as usize] != 0);
        assert!(!lost, "data between {passed_over:?} was taken for a hole");
        assert_eq!(data.is_none(), from > 100_000, "data from {from} on: {data:?}");
    }
    assert!(ok(media.allocated_bytes(), "measuring") > 0, "data takes space");
}

fn reads_past_the_end(make: &MakeFolder<'_>) {
    let media = ok(make().create("the-name"), "creating");
    ok(media.write(0, &[1; 1000]), "writing");
    for (from, count) in [(0, 1001), (999, 2), (1000, 1), (5000, 1), (u64::MAX, 1), (1 << 63, 9)] {
        match media.read(from, &mut vec![0; count]) {
            Err(MediaError::Truncated { name, len, offset, end }) => {
                assert!(name.contains("the-name"), "the error names the file, not {name}");
                let expected = (1000, from, from.saturating_add(count as u64));
                assert_eq!((len, offset, end), expected, "the error names the bytes");
            }
            other => panic!("{count} bytes at {from}: expected Truncated, got {other:?}"),
        }
    }
    let mut last = [0; 1];
    ok(media.read(999, &mut last), "reading the last byte");
    ok(media.read(1000, &mut []), "reading nothing at the end");
}

fn cutting_and_extending(make: &MakeFolder<'_>) {
    let media = ok(make().create("a"), "creating");
    let mut plain = SplitMix64::new(1).bytes(20_000);
    ok(media.write(0, &plain), "writing");
    for len in [20_000, 12_345, 30_000, 4096, 4095, 8192, 1, 0, 5000] {
        ok(media.set_len(len), format!("setting the length to {len}"));
        plain.resize(len as usize, 0);
        assert_holds(&*media, &plain, &format!("after setting the length to {len}"));
    }
    ok(media.write(6000, b"end"), "writing past the end");
    plain.resize(6000, 0);
    plain.extend(b"end");
    assert_holds(&*media, &plain, "after growing again");
}

fn absurd_offsets(make: &MakeFolder<'_>) {
    let media = ok(make().create("a"), "creating");
    ok(media.write(0, &[1; 100]), "writing");
    for offset in [u64::MAX, u64::MAX - 1, 1 << 63] {
        assert!(media.write(offset, &[1; 2]).is_err(), "writing at {offset}");
        assert!(media.set_len(offset).is_err(), "setting the length to {offset}");
        let _ = media.reserve(offset, 2);
        ok(media.punch(offset, 2), "punching where there is nothing");
    }
    assert_holds(&*media, &[1; 100], "after refused writes");
}

fn reserving_and_punching(make: &MakeFolder<'_>) {
    const RESERVED: u64 = 1 << 20;
    let media = ok(make().create("a"), "creating");
    let mut plain = SplitMix64::new(2).bytes(300_000);
    ok(media.write(0, &plain), "writing");
    for (offset, len) in [(0, RESERVED), (0, 0), (100_000, 10), (500_000, 100_000)] {
        ok(media.reserve(offset, len), format!("reserving {len} bytes at {offset}"));
        assert_holds(&*media, &plain, "reserving changes nothing");
    }
    let reserved = ok(media.allocated_bytes(), "measuring");
    ok(media.set_len(300_000), "setting the same length");
    let given_back = ok(media.allocated_bytes(), "measuring");
    // Where a media reserves at all, it gives back what lies past the length.
    let slack = 128 << 10;
    let fine = reserved < RESERVED || given_back <= 300_000 + slack;
    assert!(fine, "{given_back} bytes are taken after giving {reserved} back");

    for (start, end) in [(0, 65_536), (100_001, 200_001), (299_999, 300_000)] {
        ok(media.punch(start as u64, (end - start) as u64), "punching");
        let found = contents(&*media);
        let zeroes = found[start..end].iter().all(|&b| b == 0);
        let kept = found[start..end] == plain[start..end];
        assert!(zeroes || kept, "punched bytes {start}..{end} are neither zero nor as before");
        plain[start..end].copy_from_slice(&found[start..end]);
        assert_same(&found, &plain, 0, "the neighbours of punched bytes");
    }
    ok(media.punch(250_000, u64::MAX), "punching past the end");
    assert_same(&contents(&*media)[..250_000], &plain[..250_000], 0, "before punched bytes");
    assert_eq!(ok(media.len(), "measuring"), 300_000, "punching leaves the length");
    let plain = SplitMix64::new(3).bytes(300_000);
    ok(media.write(0, &plain), "writing into holes");
    ok(media.sync(), "syncing");
    assert_holds(&*media, &plain, "after writing into holes");
}

fn handles_share_one_media(make: &MakeFolder<'_>) {
    let folder = make();
    let one = ok(folder.create("a"), "creating");
    let two = ok(folder.open("a"), "opening");
    ok(one.write(0, b"from one"), "writing");
    assert_holds(&*two, b"from one", "the other handle");
    ok(two.set_len(4), "cutting");
    assert_holds(&*one, b"from", "the first handle");
    drop((one, two));
    assert_holds(&*ok(folder.open("a"), "opening"), b"from", "after closing");
}

fn threads(make: &MakeFolder<'_>) {
    let media = ok(make().create("a"), "creating");
    let whole = SplitMix64::new(4).bytes(80_000);
    std::thread::scope(|scope| {
        for (index, share) in whole.chunks(10_000).enumerate() {
            let media = &media;
            scope.spawn(move || {
                let base = index as u64 * 10_000;
                for (step, piece) in share.chunks(777).enumerate() {
                    let offset = base + step as u64 * 777;
                    ok(media.write(offset, piece), "writing");
                    let mut found = vec![0; piece.len()];
                    ok(media.read(offset, &mut found), "reading");
                    assert_same(&found, piece, offset, "own bytes beside other threads'");
                    if step % 4 == 0 {
                        ok(media.sync(), "syncing");
                    }
                }
            });
        }
    });
    assert_holds(&*media, &whole, "after all threads");
}

fn model(make: &MakeFolder<'_>) {
    for seed in 0..MODEL_SEEDS {
        check_model(make, seed, MODEL_STEPS);
    }
}

/// Random calls against plain vectors in a map. A failure names the seed and the step.
pub fn check_model(make: &MakeFolder<'_>, seed: u64, steps: u64) {
    let folder = make();
    let mut random = SplitMix64::new(seed);
    let mut plain: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for step in 0..steps {
        let what = format!("model seed {seed}, step {step}");
        let name = format!("file-{}", random.below(4));
        let Some(bytes) = plain.get_mut(&name) else {
            ok(folder.create(&name), &what);
            plain.insert(name, Vec::new());
            continue;
        };
        let media = ok(folder.open(&name), &what);
        let (offset, len) = (random.below(30_000) as usize, random.below(9000) as usize + 1);
        match random.below(12) {
            0..=5 => {
                let data = random.bytes(len);
                ok(media.write(offset as u64, &data), &what);
                bytes.resize(bytes.len().max(offset + len), 0);
                bytes[offset..offset + len].copy_from_slice(&data);
            }
            6 => {
                ok(media.set_len(offset as u64), &what);
                bytes.resize(offset, 0);
            }
            7 => ok(media.reserve(offset as u64, len as u64), &what),
            8 => ok(media.sync(), &what),
            9 => ok(folder.sync_names(), &what),
            10 => {
                ok(folder.remove(&name), &what);
                plain.remove(&name);
            }
            _ => {
                ok(folder.create(&name), &what);
                bytes.clear();
            }
        }
        let expected: Vec<&String> = plain.keys().collect();
        assert_eq!(names(&*folder).iter().collect::<Vec<_>>(), expected, "{what}: names");
        for (name, bytes) in &plain {
            assert_holds(&*ok(folder.open(name), &what), bytes, &format!("{what}: {name}"));
        }
    }
}
