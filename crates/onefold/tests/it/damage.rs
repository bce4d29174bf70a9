//! A bit flips in a file of a pool: the check names it and changes nothing.
//! Room: onefold.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::harness::{Sandbox, noise, tool};

/// Every file below a folder, with its bytes.
pub fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

fn pool_with_data(sandbox: &Sandbox) -> PathBuf {
    let mut data = noise(1, 5 << 20);
    data.extend_from_slice(&b"repeating words, ".repeat(1 << 16));
    fs::write(sandbox.path("data"), data).unwrap();
    sandbox.ok(&["pool", "create", "pool"]);
    sandbox.ok(&["volume", "import", "pool", "v", "data"]);
    sandbox.path("pool")
}

#[test]
fn a_flipped_bit_in_any_file_is_found_named_and_left_alone() {
    let sandbox = Sandbox::new();
    let pool = pool_with_data(&sandbox);
    sandbox.check("pool");
    let files = contents(&pool);
    assert!(files.len() >= 7, "{:?}", files.keys());
    for (path, bytes) in &files {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "lock" || name == "onefold.toml" {
            continue;
        }
        for at in [9, bytes.len() / 2, bytes.len() - 1] {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            fs::write(path, &broken).unwrap();
            let before = contents(&pool);
            let said = sandbox.onefold(&["pool", "check", "pool"]);
            let told = format!("{name} byte {at}: {}{}", said.text(), said.err);
            assert!(before == contents(&pool), "changed: {told}");
            assert_eq!(said.code, Some(1), "not found: {told}");
            let container = name.trim_end_matches(".ofc").trim_start_matches('0');
            let named = said.text().contains(name) || said.text().contains(container);
            assert!(named, "not named: {told}");
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
    let pool = pool_with_data(&sandbox);
    for (path, bytes) in contents(&pool) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name == "lock" {
            continue;
        }
        for change in ["gone", "short", "foreign"] {
            match change {
                "gone" => fs::remove_file(&path).unwrap(),
                "short" => fs::write(&path, &bytes[..bytes.len() - 7]).unwrap(),
                _ => fs::write(&path, b"something else entirely\n".repeat(200)).unwrap(),
            }
            let said = sandbox.onefold(&["pool", "check", "pool"]);
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
    let pool = pool_with_data(&sandbox);
    let containers: Vec<PathBuf> = contents(&pool.join("containers")).into_keys().collect();
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
    let said = tool("nbdsh", &["-u", &server.uri("v"), "-c", script]);
    assert_eq!(said.text(), "True ['EIO']\n");
    server.stop();
    let said = sandbox.onefold(&["volume", "export", "pool", "v", "out"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("corrupt"), "{}", said.err);
    assert!(!sandbox.path("out").exists());
}
