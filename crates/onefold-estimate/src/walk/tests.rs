//! The walk: names in order, links once, inputs checked.
//! Room: onefold-estimate.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

#[test]
fn a_folder_listed_in_windows_gives_every_name_once_and_sorted() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..50 {
        fs::write(folder.path().join(format!("{:02}", i * 37 % 50)), b"").unwrap();
    }
    for limit in [1, 7, 49, 50, 51] {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (mut names, more) = list(folder.path(), after.as_ref(), limit).unwrap();
            names.reverse();
            all.extend(names);
            if more.is_none() {
                break;
            }
            after = more;
        }
        let expected: Vec<OsString> = (0..50).map(|i| format!("{i:02}").into()).collect();
        assert_eq!(all, expected, "windows of {limit}");
    }
}

#[test]
fn inputs_inside_others_are_left_out_and_missing_ones_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let root = folder.path().to_path_buf();
    let mut notes = Vec::new();
    let paths = [inside.clone(), root.clone(), root];
    let kept = check_inputs(&paths, Choice::Auto, &mut notes).unwrap();
    assert_eq!((kept.len(), notes.len()), (1, 2));
    let missing = [folder.path().join("nothing")];
    assert!(matches!(
        check_inputs(&missing, Choice::Auto, &mut notes),
        Err(EstimateError::Input { .. })
    ));
    let null = [PathBuf::from("/dev/null")];
    let error = check_inputs(&null, Choice::Auto, &mut notes).unwrap_err().to_string();
    assert!(error.starts_with("/dev/null: is a character device"), "{error}");
    assert!(matches!(check_inputs(&[], Choice::Auto, &mut notes), Err(EstimateError::NoInput)));
}

/// FNV-1a from a seed, then the last steps of `SplitMix64`; worked out by another program.
#[test]
fn places_are_hashed_the_same_for_ever() {
    let every: Vec<u8> = (0..=255).collect();
    let found = [
        hash_bytes(0, b""),
        hash_bytes(0, b"a"),
        hash_bytes(1, b"input"),
        hash_bytes(u64::MAX, &every),
    ];
    let wanted = [
        0xf52a_15e9_a9b5_e89b,
        0x02c0_bdbf_4814_20f8,
        0xdcda_f180_aa19_90ac,
        0x3ea8_f3d3_c65d_9786,
    ];
    assert_eq!(found, wanted);
}

fn plan() -> Plan {
    Plan::new(&crate::Options { one_file_system: true, ..crate::Options::default() }).unwrap()
}

/// A walk that lists two names of a folder at a time, and what it hands out: name, number, size.
fn walked(root: &Path) -> (Vec<(String, u32, u64)>, WalkFacts, Breakdown) {
    let (plan, progress) = (plan(), Progress::new());
    let breakdown = Mutex::new(Breakdown::default());
    let inputs = check_inputs(&[root.to_path_buf()], Choice::Auto, &mut Vec::new()).unwrap();
    let mut found = Vec::new();
    let mut walk = Walk {
        plan: &plan,
        progress: &progress,
        breakdown: &breakdown,
        sink: |file: FileRef| {
            let name = file.path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            assert!(!file.is_input && file.inside == Inside::Bytes);
            let seed = hash_bytes(0, b"input");
            assert_eq!(file.place, hash_bytes(seed, name.as_bytes()));
            found.push((name, file.number, file.size));
        },
        facts: WalkFacts::default(),
        links: HashMap::new(),
        images: Images::default(),
        window: 2,
    };
    walk.input(0, &inputs[0]);
    let facts = walk.facts;
    (found, facts, breakdown.into_inner().unwrap())
}

#[test]
fn a_tree_is_walked_by_name_each_inode_once_and_links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (name, len) in [("b/2", 2), ("b/1.x", 1), ("b/deep/9", 9), ("c", 3), ("a.x", 4), ("d", 0)] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), vec![1; len]).unwrap();
    }
    fs::create_dir(root.join("none")).unwrap();
    fs::hard_link(root.join("c"), root.join("b/3")).unwrap();
    fs::hard_link(root.join("c"), root.join("z")).unwrap();
    symlink("c", root.join("link")).unwrap();
    symlink(".", root.join("b/loop")).unwrap();
    let _socket = UnixListener::bind(root.join("b/socket")).unwrap();
    let (found, facts, breakdown) = walked(root);
    let wanted = [("a.x", 4), ("b/1.x", 1), ("b/2", 2), ("b/3", 3), ("b/deep/9", 9), ("d", 0)];
    let wanted: Vec<(String, u32, u64)> =
        (0..).zip(wanted).map(|(at, (name, len))| (name.to_owned(), at, len)).collect();
    assert_eq!(found, wanted);
    assert_eq!((facts.files, facts.bytes, facts.folders), (6, 19, 4));
    assert_eq!((facts.symlinks, facts.hard_links, facts.hard_link_bytes), (2, 2, 6));
    assert!(!facts.links_forgotten);
    // Five files came before the socket.
    let named: Vec<_> = facts.problems.named().collect();
    assert_eq!((named.len(), named[0].0, named[0].1.reason.as_str()), (1, 5, "socket"));
    let mut digest = 0;
    for (name, _, size) in &found {
        let place = hash_bytes(hash_bytes(0, b"input"), name.as_bytes());
        digest = hash_bytes(digest ^ size, &place.to_le_bytes());
    }
    assert_eq!(facts.digest, digest, "of all places and sizes");
    assert_eq!(breakdown.extensions.names, ["(other)", "x", "(none)"]);
    let (own, top) = (root.display().to_string(), root.join("b").display().to_string());
    assert_eq!(breakdown.folders.names, ["(other)".to_owned(), own, top]);
}

#[test]
fn an_inode_is_known_until_its_last_name_and_past_the_limit_it_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, links: u32| {
        let path = folder.path().join(name);
        fs::write(&path, b"x").unwrap();
        (1..links).for_each(|n| fs::hard_link(&path, path.with_extension(n.to_string())).unwrap());
        fs::metadata(path).unwrap()
    };
    let (three, two) = (file("three", 3), file("two", 2));
    let mut plan = plan();
    plan.link_records = 1;
    let (progress, breakdown) = (Progress::new(), Mutex::new(Breakdown::default()));
    let mut walk = Walk {
        plan: &plan,
        progress: &progress,
        breakdown: &breakdown,
        sink: |_| (),
        facts: WalkFacts::default(),
        links: HashMap::new(),
        images: Images::default(),
        window: WINDOW,
    };
    let known = [(); 3].map(|()| walk.is_known_link(&three));
    assert_eq!((known, walk.links.len()), ([false, true, true], 0));
    assert_eq!([(); 2].map(|()| walk.is_known_link(&two)), [false, true]);
    assert!(!walk.is_known_link(&three) && !walk.facts.links_forgotten);
    assert_eq!([(); 2].map(|()| walk.is_known_link(&two)), [false, false], "there is no room");
    assert!(walk.facts.links_forgotten && walk.is_known_link(&three));

    let frame = walk.open_folder(folder.path().join("gone"), None);
    assert!(frame.names.is_empty() && frame.resume_after.is_none());
    let again = walk.open_folder(folder.path().join("gone"), Some(&"a".into()));
    assert!(again.names.is_empty());
    assert_eq!(walk.facts.folders, 1, "a folder that is listed on is no other one");
    assert_eq!(walk.facts.problems.count(ProblemKind::UnreadableFolder), 1);
    let kind = |path: &Path| kind_name(fs::symlink_metadata(path).unwrap().file_type());
    assert_eq!(kind(Path::new("/dev/null")), "character device");
    assert_eq!(kind(folder.path()), "special file");
}

#[test]
fn the_first_names_after_one_come_last_one_first() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["d", "a", "c", "b", "e"] {
        fs::write(folder.path().join(name), b"").unwrap();
    }
    let first = |after: Option<&str>, limit| {
        let after = after.map(OsString::from);
        let (names, more) = list(folder.path(), after.as_ref(), limit).unwrap();
        let words: Vec<_> = names.iter().map(|name| name.to_str().unwrap()).collect();
        (words.concat(), more.map(|name| name.into_string().unwrap()))
    };
    assert_eq!(first(None, 2), ("ba".to_owned(), Some("b".to_owned())));
    assert_eq!(first(Some("b"), 2), ("dc".to_owned(), Some("d".to_owned())));
    assert_eq!(first(Some("d"), 2), ("e".to_owned(), None));
    assert_eq!(first(None, 4), ("dcba".to_owned(), Some("d".to_owned())));
    assert_eq!(first(None, 5), ("edcba".to_owned(), None));
    assert_eq!(first(Some("e"), 1), (String::new(), None));
}
