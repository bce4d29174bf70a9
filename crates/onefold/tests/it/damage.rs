//! A bit flips in a file of a pool: the check names it and changes nothing.
//! Room: onefold.

use std::fs;
use std::path::PathBuf;

use super::harness::{Sandbox, nbdsh, noise, run};

fn pool_with_data(sandbox: &Sandbox) {
    let mut data = noise(1, 5 << 20);
    data.extend_from_slice(&b"repeating words, ".repeat(1 << 16));
    fs::write(sandbox.path("data"), data).unwrap();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "import", "pool", "v", "data"]);
}

#[test]
fn a_flipped_bit_in_any_file_is_found_named_and_left_alone() {
    let sandbox = Sandbox::new();
    pool_with_data(&sandbox);
    sandbox.check("pool");
    let files = sandbox.files("pool");
    assert!(files.len() >= 6, "{:?}", files.keys());
    for (path, bytes) in &files {
        let name = path.file_name().unwrap().to_str().unwrap();
        for at in [9, bytes.len() / 2, bytes.len() - 1] {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            fs::write(path, &broken).unwrap();
            let before = sandbox.files("pool");
            let said = sandbox.onefold(&["pool", "check", "pool"]);
            let told = format!("{name} byte {at}: {}{}", said.text(), said.err);
            assert!(before == sandbox.files("pool"), "changed: {told}");
            if name == "journal" && said.code == Some(0) {
                // After a clean stop it holds nothing: a power cut may have left it like this.
                assert!(said.err.contains("1,552 references"), "{told}");
                continue;
            }
            if said.code == Some(2) {
                // A flip in a version number looks like a later version, which is refused by name.
                assert!(said.err.contains(&format!("{name} has format version")), "{told}");
                continue;
            }
            assert_eq!(said.code, Some(1), "not found: {told}");
            let number = name.trim_end_matches(".container").trim_start_matches('0');
            let shown =
                if number == name { name.to_owned() } else { format!("container {number}") };
            let other = name.starts_with("super.") && said.text().contains("the other super file");
            assert!(said.text().contains(&shown) || other, "not named: {told}");
            let json = sandbox.onefold(&["pool", "check", "pool", "--json"]);
            assert_eq!((json.code, &json.json()["sound"]), (Some(1), &false.into()));
        }
        fs::write(path, bytes).unwrap();
    }
    sandbox.check("pool");
}

#[test]
fn missing_short_and_foreign_files_are_named() {
    let sandbox = Sandbox::new();
    pool_with_data(&sandbox);
    for (path, bytes) in sandbox.files("pool") {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for change in ["gone", "short", "foreign"] {
            match change {
                "gone" => fs::remove_file(&path).unwrap(),
                "short" => fs::write(&path, &bytes[..bytes.len() - 7]).unwrap(),
                _ => fs::write(&path, b"something else entirely\n".repeat(200)).unwrap(),
            }
            let said = sandbox.onefold(&["pool", "check", "pool"]);
            if name == "journal" && said.code == Some(0) {
                // After a clean stop it holds nothing: a power cut may have left it like this.
                assert!(said.err.contains("1,552 references"), "{change}: {}", said.err);
                fs::write(&path, &bytes).unwrap();
                continue;
            }
            assert_eq!(said.code, Some(1), "{name} {change}: {}{}", said.text(), said.err);
            assert!(!said.out.is_empty(), "{name} {change} is not named");
            fs::write(&path, &bytes).unwrap();
        }
    }
    sandbox.check("pool");
}

#[test]
fn intact_data_of_a_damaged_pool_can_still_be_read() {
    let sandbox = Sandbox::new();
    pool_with_data(&sandbox);
    let containers: Vec<PathBuf> = sandbox.files("pool/containers").into_keys().collect();
    let mut bytes = fs::read(&containers[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&containers[0], bytes).unwrap();
    let server = sandbox.serve("pool", &["--read-only"]);
    let script = "
good, bad = 0, []
for at in range(0, h.get_size() // 4096):
    try:
        h.pread(4096, at * 4096)
        good += 1
    except nbd.Error as e:
        bad.append(e.errno)
print(good > 1000, bad)
";
    let said = run(&mut nbdsh(&["-u", &server.uri("v"), "-c", script]));
    assert_eq!(said.text(), "True ['EIO']\n");
    server.stop();
    let said = sandbox.onefold(&["volume", "export", "pool", "v", "out"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("corrupt") && said.err.contains("--skip-damaged"), "{}", said.err);
    assert!(!sandbox.path("out").exists());
}

#[test]
fn an_export_goes_on_past_damage_and_lists_it() {
    let sandbox = Sandbox::new();
    pool_with_data(&sandbox);
    let containers: Vec<PathBuf> = sandbox.files("pool/containers").into_keys().collect();
    let mut bytes = fs::read(&containers[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&containers[0], bytes).unwrap();
    let data = fs::read(sandbox.path("data")).unwrap();
    for file in ["out", "-"] {
        let said = sandbox.onefold(&["volume", "export", "pool", "v", file, "--skip-damaged"]);
        assert_eq!(said.code, Some(1), "{}", said.err);
        let (out, table) = match file {
            "-" => (said.out.clone(), said.err.clone()),
            file => (fs::read(sandbox.path(file)).unwrap(), said.text().to_owned()),
        };
        let rows: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        let head = rows.iter().position(|row| row.first() == Some(&"OFFSET")).unwrap();
        let at: usize = rows[head + 1][0].parse().unwrap();
        assert_eq!(rows[head + 1][1], "4096");
        assert!(said.err.contains("4 KiB in 1 place of volume 'v' cannot be read"), "{}", said.err);
        let mut expected = data.clone();
        expected.resize(out.len(), 0);
        assert!(expected[at..at + 4096] != [0; 4096]);
        expected[at..at + 4096].fill(0);
        assert!(out == expected, "{file}");
    }
    let args = ["volume", "export", "pool", "v", "out", "--force", "--skip-damaged", "--json"];
    let said = sandbox.onefold(&args);
    assert_eq!(said.code, Some(1));
    let json = said.json();
    assert_eq!((&json["damaged_bytes"], &json["rescue"]), (&4096.into(), &().into()));
    assert!(json["damaged"][0]["problem"].as_str().unwrap().contains("container 1"), "{json}");
    let said = sandbox.onefold(&["volume", "export", "pool", "v", "-", "--json"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
}

#[test]
fn a_pool_that_is_refused_is_rescued_without_a_change() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--size", "16M"]);
    let script = "
for i in range(8):
    h.pwrite(bytes([i + 1]) * 4096, i * 4096)
    h.flush()
";
    let said = run(&mut nbdsh(&["-u", &server.uri("main"), "-c", script]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    server.kill();
    let path = sandbox.path("pool/journal");
    let bytes = fs::read(&path).unwrap();
    let mut broken = bytes.clone();
    // The sixth frame with a change.
    broken[6 * 64 + 40] ^= 1;
    fs::write(&path, broken).unwrap();
    fs::remove_file(sandbox.path("pool/lock")).unwrap();
    let before = sandbox.files("pool");
    for args in
        [&["volume", "list", "pool"][..], &["serve", "pool", "--read-only", "--run", "true"]]
    {
        let said = sandbox.onefold(args);
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(said.err.contains("--rescue"), "{}", said.err);
    }
    let said = sandbox.onefold(&["serve", "pool", "--rescue", "--run", "true"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    let said = sandbox.ok(&["volume", "list", "pool", "--rescue"]);
    assert!(said.text().contains("main") && said.err.contains("frame 6"), "{}", said.err);
    assert!(
        said.err.contains("rescued from checkpoint 2 and 5 frames of the journal\n"),
        "{}",
        said.err
    );
    assert!(!said.err.contains("nothing shows that anything flushed"), "{}", said.err);
    for (point, blocks) in [("consistent", vec![6, 7, 8]), ("newest", vec![6])] {
        let rescue = format!("--rescue={point}");
        let args = ["volume", "export", "pool", "main", "out", "--force", "--json", &rescue];
        let said = sandbox.ok(&args);
        assert!(said.json()["rescue"]["missing"].as_array().is_some_and(|list| !list.is_empty()));
        let out = fs::read(sandbox.path("out")).unwrap();
        for block in 1..=8usize {
            let expected = if blocks.contains(&block) { 0 } else { block as u8 };
            assert!(out[(block - 1) * 4096..block * 4096] == [expected; 4096], "{point} {block}");
        }
        let check = format!("nbdcopy $uri copy-{point} && cmp copy-{point} out");
        sandbox.ok(&["serve", "pool", "--read-only", &rescue, "--run", &check]);
    }
    assert!(before == sandbox.files("pool"), "the pool was changed");
    assert!(!sandbox.path("pool/lock").exists());
    fs::write(&path, bytes).unwrap();
    sandbox.check("pool");
}

#[test]
fn a_damaged_journal_that_holds_flushed_data_is_never_taken_for_a_power_cut() {
    let sandbox = Sandbox::new();
    let server = sandbox.serve("pool", &["--size", "16M"]);
    let script = "
for i in range(8):
    h.pwrite(bytes([i + 1]) * 4096, i * 4096)
    h.flush()
";
    let said = run(&mut nbdsh(&["-u", &server.uri("main"), "-c", script]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    server.kill();
    sandbox.check("pool");
    let path = sandbox.path("pool/journal");
    let bytes = fs::read(&path).unwrap();
    // All but the last frame are followed by good ones.
    for at in (0..bytes.len() / 2).step_by(bytes.len() / 32) {
        let mut broken = bytes.clone();
        broken[at] ^= 1;
        fs::write(&path, broken).unwrap();
        let said = sandbox.onefold(&["pool", "check", "pool"]);
        // Padding between frames holds nothing; whatever else breaks must be told.
        let lost_nothing = said.code == Some(0) && said.err.contains(" 8 references");
        let told = said.code == Some(1) && said.text().contains("journal");
        assert!(lost_nothing || told, "byte {at} of {}: {}{}", bytes.len(), said.text(), said.err);
    }
    fs::write(&path, bytes).unwrap();
    sandbox.check("pool");
}

#[test]
fn a_pool_that_lost_its_supers_is_not_told_to_be_made_anew() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "pool"]);
    fs::write(sandbox.path("in"), noise(1, 5 << 20)).unwrap();
    sandbox.ok(&["volume", "import", "pool", "v", "in"]);
    fs::create_dir(sandbox.path("saved")).unwrap();
    for name in ["super.0", "super.1"] {
        let (from, to) = (sandbox.path("pool").join(name), sandbox.path("saved").join(name));
        fs::rename(from, to).unwrap();
    }
    let before = sandbox.files("pool");
    for args in [
        &["pool", "status", "pool"][..],
        &["pool", "create", "pool"],
        &["serve", "pool", "--run", "true"],
        &["volume", "list", "pool", "--rescue"],
    ] {
        let said = sandbox.onefold(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains("has lost super.0 and super.1"), "{args:?}: {}", said.err);
        assert!(!said.err.contains("pool create"), "{args:?}: {}", said.err);
    }
    assert!(sandbox.files("pool") == before);
    let newest = sandbox.path("saved/super.1");
    fs::rename(newest, sandbox.path("pool/super.1")).unwrap();
    fs::rename(sandbox.path("saved/super.0"), sandbox.path("pool/super.0")).unwrap();
    sandbox.check("pool");
}

#[test]
fn a_repair_says_first_what_it_does_and_leaves_a_sound_pool() {
    let sandbox = Sandbox::new();
    pool_with_data(&sandbox);
    let said = sandbox.ok(&["pool", "check", "pool", "--repair"]);
    assert!(said.err.contains("nothing to repair"), "{}", said.err);
    let said = sandbox.onefold(&["pool", "check", "pool", "--dry-run"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    // The header of the map: nothing is lost.
    let map = sandbox.path("pool/map");
    let mut bytes = fs::read(&map).unwrap();
    bytes[20] ^= 1;
    fs::write(&map, &bytes).unwrap();
    let before = sandbox.files("pool");
    let said = sandbox.onefold(&["pool", "check", "pool", "--repair", "--dry-run"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.text().contains("wrong:\n  corrupt map at byte 0"), "{}", said.text());
    assert!(said.text().contains("to be done:\n  write the map"), "{}", said.text());
    assert!(before == sandbox.files("pool"), "a dry run changes nothing");
    let said = sandbox.ok(&["pool", "check", "pool", "--repair", "--json"]);
    let json = said.json();
    assert_eq!((&json["repaired"], &json["lossless"]), (&true.into(), &true.into()), "{json}");
    sandbox.check("pool");
    sandbox.ok(&["volume", "export", "pool", "v", "copy"]);
    let data = fs::read(sandbox.path("data")).unwrap();
    assert!(fs::read(sandbox.path("copy")).unwrap()[..data.len()] == data);
    // A record: the blocks that it was are named, and stay errors.
    let container = sandbox.path("pool/containers/00000001.container");
    let mut bytes = fs::read(&container).unwrap();
    bytes[1 << 20] ^= 4;
    fs::write(&container, bytes).unwrap();
    let said = sandbox.onefold(&["pool", "check", "pool", "--repair"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.text().contains(": lost, an error to read\n"), "{}", said.text());
    assert!(said.err.contains("1 block is lost"), "{}", said.err);
    let said = sandbox.onefold(&["pool", "check", "pool", "--json"]);
    let json = said.json();
    assert_eq!((said.code, &json["sound"]), (Some(1), &true.into()), "{json}");
    assert_eq!(json["lost_blocks"], 1, "{json}");
    let said = sandbox.onefold(&["volume", "export", "pool", "v", "copy2", "--skip-damaged"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(sandbox.path("pool/map.before-repair-1").exists());
    assert!(sandbox.path("pool/containers/00000001.container.before-repair-2").exists());
}

#[test]
fn a_backup_with_holes_is_imported_over_a_volume_of_which_all_is_lost() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("data"), noise(1, 64 << 10)).unwrap();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "import", "pool", "v", "data"]);
    let container = sandbox.path("pool/containers/00000001.container");
    let bytes = fs::read(&container).unwrap();
    fs::write(&container, [&bytes[..4096], &noise(2, bytes.len() - 4096)].concat()).unwrap();
    let said = sandbox.onefold(&["pool", "check", "pool", "--repair"]);
    assert!(said.err.contains("16 blocks are lost"), "{}", said.err);
    let backup = fs::File::create(sandbox.path("backup")).unwrap();
    backup.set_len(64 << 10).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&backup, &noise(3, 8192), 32 << 10).unwrap();
    sandbox.ok(&["volume", "import", "pool", "v", "backup"]);
    sandbox.ok(&["volume", "export", "pool", "v", "copy"]);
    super::harness::assert_same(&sandbox.path("backup"), &sandbox.path("copy"));
    sandbox.check("pool");
}

#[test]
fn an_interrupted_repair_is_named_by_every_command_and_finished_by_the_next() {
    let sandbox = Sandbox::new();
    pool_with_data(&sandbox);
    fs::write(sandbox.path("pool/repair"), "onefold repair 1\n").unwrap();
    for command in [
        &["pool", "check", "pool"][..],
        &["pool", "status", "pool"],
        &["volume", "list", "pool"],
        &["volume", "list", "pool", "--rescue"],
        &["serve", "pool", "--run", "true"],
        &["pool", "check", "pool", "--repair", "--dry-run"],
    ] {
        let said = sandbox.onefold(command);
        assert_eq!(said.code, Some(1), "{command:?}: {}", said.err);
        let told = format!("{}{}", said.text(), said.err);
        assert!(told.contains("repair of this pool was interrupted"), "{command:?}: {told}");
    }
    sandbox.ok(&["pool", "check", "pool", "--repair"]);
    sandbox.check("pool");
}
