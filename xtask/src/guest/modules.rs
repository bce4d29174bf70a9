//! Modules of a kernel and those that they need, from what they say of themselves.
//! Room: xtask.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The modules of a kernel by their names, as the kernel calls them.
pub struct Modules(BTreeMap<String, PathBuf>);

impl Modules {
    /// Those below a folder.
    pub fn below(folder: &Path) -> Result<Self> {
        let mut found = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                } else if let Some((name, _)) = name.split_once(".ko") {
                    found.insert(name.replace('-', "_"), entry.path());
                }
            }
        }
        Ok(Self(found))
    }

    /// The bytes of a module and of all that it needs, in the order in which they can be loaded.
    /// What is not there is taken to be in the kernel itself.
    pub fn with_needed(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>> {
        let mut loaded = Vec::new();
        for name in names {
            self.load(name, &mut loaded)?;
        }
        Ok(loaded)
    }

    fn load(&self, name: &str, loaded: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
        let Some(file) = self.0.get(name) else { return Ok(()) };
        if loaded.iter().any(|(known, _)| known == name) {
            return Ok(());
        }
        let bytes = unpacked(file)?;
        for needed in needed(&bytes) {
            self.load(&needed.replace('-', "_"), loaded)?;
        }
        loaded.push((name.to_owned(), bytes));
        Ok(())
    }
}

fn unpacked(file: &Path) -> Result<Vec<u8>> {
    if file.extension().is_some_and(|extension| extension == "ko") {
        return Ok(std::fs::read(file)?);
    }
    let output = Command::new("xz").args(["--decompress", "--stdout"]).arg(file).output();
    let output = output.context("xz is not installed")?;
    ensure!(output.status.success(), "{} cannot be unpacked", file.display());
    Ok(output.stdout)
}

/// What a module says that it needs.
fn needed(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let at = module.windows(KEY.len()).position(|window| window == KEY);
    let Some(at) = at else { return Vec::new() };
    let rest = &module[at + KEY.len()..];
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    let words = String::from_utf8_lossy(&rest[..end]).into_owned();
    words.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_is_loaded_before_it_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("fs");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("ext4.ko"), b"x\0depends=jbd2,crc-16\0name=ext4\0").unwrap();
        std::fs::write(folder.path().join("jbd2.ko"), b"\0depends=crc-16\0").unwrap();
        std::fs::write(folder.path().join("crc-16.ko"), b"\0depends=\0").unwrap();
        let modules = Modules::below(folder.path()).unwrap();
        let loaded = modules.with_needed(&["ext4", "jbd2", "built_in"]).unwrap();
        let names: Vec<_> = loaded.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["crc_16", "jbd2", "ext4"]);
    }
}
