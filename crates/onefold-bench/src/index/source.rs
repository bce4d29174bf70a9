//! What is written: trees of files, and blocks by number.
//! Room: onefold-bench.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use onefold_block::SplitMix64;
use onefold_workload::Identity;

use crate::data::{self, BLOCK};

/// Blocks one after another.
pub trait Source {
    /// Fill whole blocks of the buffer. Returns the bytes; 0 at the end.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize>;
}

/// Files below some folders, in the order of their paths, each from a block's beginning.
pub struct Tree {
    files: Vec<(PathBuf, u64)>,
}

impl Tree {
    /// About `bytes` of files below these folders. What cannot be read is passed over.
    pub fn find(roots: &[PathBuf], bytes: u64) -> Result<Self> {
        let mut tree = Self { files: Vec::new() };
        let mut left = bytes;
        for root in roots {
            tree.add(root, &mut left).with_context(|| format!("cannot list {}", root.display()))?;
        }
        Ok(tree)
    }

    fn add(&mut self, folder: &Path, left: &mut u64) -> Result<()> {
        let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type()?;
            if *left == 0 {
                return Ok(());
            }
            if kind.is_dir() {
                self.add(&entry.path(), left)?;
            } else if kind.is_file() && File::open(entry.path()).is_ok() {
                let len = entry.metadata()?.len();
                self.files.push((entry.path(), len));
                *left = left.saturating_sub(len);
            }
        }
        Ok(())
    }

    /// All of them.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, len)| len).sum()
    }

    /// From the beginning.
    pub const fn read(&self) -> TreeReader<'_> {
        TreeReader { tree: self, next: 0, open: None }
    }
}

/// Reads the files of a tree.
pub struct TreeReader<'a> {
    tree: &'a Tree,
    next: usize,
    open: Option<(File, u64)>,
}

impl Source for TreeReader<'_> {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match &mut self.open {
                Some((_, 0)) => self.open = None,
                Some((file, left)) => {
                    let room = (buffer.len() - filled) as u64;
                    let part = &mut buffer[filled..][..room.min(*left) as usize];
                    file.read_exact(part).context("a file changed while it was read")?;
                    *left -= part.len() as u64;
                    filled += part.len();
                    if *left == 0 {
                        let whole = filled.next_multiple_of(BLOCK);
                        buffer[filled..whole].fill(0);
                        filled = whole;
                    }
                }
                None => {
                    let Some((path, len)) = self.tree.files.get(self.next) else { break };
                    self.next += 1;
                    let file = File::open(path)
                        .with_context(|| format!("cannot read {}", path.display()))?;
                    self.open = Some((file, *len));
                }
            }
        }
        Ok(filled)
    }
}

/// Blocks by their seeds.
pub struct Seeds(std::vec::IntoIter<u64>);

impl Source for Seeds {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let seeds: Vec<u64> = self.0.by_ref().take(buffer.len() / BLOCK).collect();
        let filled = seeds.len() * BLOCK;
        data::half_compressible(seeds.into_iter(), &mut buffer[..filled]);
        Ok(filled)
    }
}

/// Blocks that are nearly nothing but their numbers.
pub struct Small(std::ops::Range<u64>);

impl Small {
    /// Those with these numbers.
    pub const fn new(numbers: std::ops::Range<u64>) -> Self {
        Self(numbers)
    }
}

impl Source for Small {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        for (block, number) in buffer.chunks_exact_mut(BLOCK).zip(&mut self.0) {
            block.fill(0);
            block[..8].copy_from_slice(&(number + 1).to_le_bytes());
            filled += BLOCK;
        }
        Ok(filled)
    }
}

/// Blocks that are nearly nothing but the identities of their contents.
pub struct Identities<I>(I);

impl<I: Iterator<Item = Identity>> Identities<I> {
    /// Those of these contents.
    pub const fn new(contents: I) -> Self {
        Self(contents)
    }
}

impl<I: Iterator<Item = Identity>> Source for Identities<I> {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        for (block, identity) in buffer.chunks_exact_mut(BLOCK).zip(&mut self.0) {
            block.fill(0);
            block[..16].copy_from_slice(identity.as_bytes());
            filled += BLOCK;
        }
        Ok(filled)
    }
}

/// Three of four blocks from a working set, as fio draws them.
pub struct WorkingSet {
    seeds: Vec<u64>,
    written: usize,
}

impl WorkingSet {
    /// So many blocks.
    pub fn new(blocks: u64) -> Self {
        Self { seeds: data::working_set_seeds(75, blocks), written: 0 }
    }

    /// How many of them are different.
    pub fn unique(&self) -> u64 {
        self.seeds.iter().collect::<HashSet<_>>().len() as u64
    }
}

impl Source for WorkingSet {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let rest = &self.seeds[self.written..];
        let seeds = &rest[..rest.len().min(buffer.len() / BLOCK)];
        self.written += seeds.len();
        data::half_compressible(seeds.iter().copied(), &mut buffer[..seeds.len() * BLOCK]);
        Ok(seeds.len() * BLOCK)
    }
}

/// So many blocks, of which `percent` are copies of any of the blocks 0 to `first`, and the others
/// new, numbered from `first` on.
pub fn copies_of_random_blocks(first: u64, blocks: u64, percent: u64) -> Seeds {
    let mut random = SplitMix64::new(30 + first);
    let mut next = first;
    let mut seed = |_| {
        if random.below(100) < percent {
            return random.below(first);
        }
        next += 1;
        next - 1
    };
    let seeds: Vec<u64> = (0..blocks).map(&mut seed).collect();
    Seeds(seeds.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(source: &mut dyn Source) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), vec![7; 4 * BLOCK]);
        loop {
            let filled = source.fill(&mut buffer).unwrap();
            if filled == 0 {
                return all;
            }
            all.extend_from_slice(&buffer[..filled]);
        }
    }

    #[test]
    fn files_begin_at_blocks_and_come_in_order() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        std::fs::write(folder.path().join("b/x"), vec![2; 5 * BLOCK + 9]).unwrap();
        std::fs::write(folder.path().join("a"), [1; 100]).unwrap();
        std::fs::write(folder.path().join("c"), vec![3; BLOCK]).unwrap();
        let tree = Tree::find(&[folder.path().to_owned()], 1 << 20).unwrap();
        let mut expected = vec![1; 100];
        expected.resize(BLOCK, 0);
        expected.resize(6 * BLOCK + 9, 2);
        expected.resize(7 * BLOCK, 0);
        expected.resize(8 * BLOCK, 3);
        assert!(all(&mut tree.read()) == expected);
        assert_eq!(tree.bytes(), 109 + 6 * BLOCK as u64);
    }

    #[test]
    fn copies_are_as_many_as_asked_for() {
        let seeds: Vec<u64> = copies_of_random_blocks(1000, 10_000, 30).0.collect();
        let copies = seeds.iter().filter(|&&seed| seed < 1000).count();
        assert!((2800..3200).contains(&copies), "{copies}");
        let new: HashSet<u64> = seeds.into_iter().filter(|&seed| seed >= 1000).collect();
        assert_eq!(new.len(), 10_000 - copies);
    }
}
