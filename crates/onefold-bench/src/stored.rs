//! Stored bytes: all files of a pool after a clean stop, against what the same blocks would take
//! if each were stored once as LZ4 and nothing else were kept.
//! Room: onefold-bench.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use onefold_block::{BlockDevice, ByteSize};
use onefold_content::{Codec, Compression, Compressor};
use onefold_pool::Budgets;

use crate::data::{self, BLOCK};
use crate::lab::{Lab, new_pool, open_pool};
use crate::report::{Goal, Row, Unit};

const GROUP: &str = "stored";
/// Bytes of a request.
const REQUEST: usize = 128 << 10;
/// `st_blocks` counts these.
const STAT_BLOCK_BYTES: u64 = 512;

/// Bytes of all files in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Their lengths.
    pub apparent: u64,
    /// What the file system has set aside for them.
    pub allocated: u64,
}

impl Footprint {
    /// Everything under `path`.
    pub fn of(path: &Path) -> Result<Self> {
        let mut all = Self::default();
        let context = || format!("cannot measure {}", path.display());
        for entry in fs::read_dir(path).with_context(context)? {
            let entry = entry.with_context(context)?;
            let metadata = entry.metadata().with_context(context)?;
            if metadata.is_dir() {
                let inside = Self::of(&entry.path())?;
                all.apparent += inside.apparent;
                all.allocated += inside.allocated;
            } else {
                all.apparent += metadata.len();
                all.allocated += metadata.blocks() * STAT_BLOCK_BYTES;
            }
        }
        Ok(all)
    }

    /// What counts: a sparse file may be longer than what it takes, a reserved one shorter.
    pub fn worst(self) -> u64 {
        self.apparent.max(self.allocated)
    }
}

/// Measure both data sets.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let bytes = lab.pick(128 << 20, 4 << 20);
    let blocks = (bytes / BLOCK) as u64;
    let spread = data::working_set_seeds(75, 2 * blocks);
    let sets = [
        ("50 % compressible, unique", (1..=blocks).collect(), 1.85),
        ("50 % compressible, 75 % duplicates", spread[..blocks as usize].to_vec(), 4.9),
    ];
    let mut rows = Vec::new();
    for (name, seeds, goal) in sets {
        eprintln!("stored: {name}");
        let mut row = one(lab, name, &seeds)?;
        row.goal = lab.pick(Some(Goal::AtLeast(goal)), None);
        rows.push(row);
    }
    Ok(rows)
}

fn one(lab: &Lab, name: &str, seeds: &[u64]) -> Result<Row> {
    let scratch = lab.scratch()?;
    let path = scratch.path().join("pool");
    let (pool, volume) = new_pool(&path, Budgets::default(), ByteSize(64 << 30))?;
    let pieces = || seeds.chunks(REQUEST / BLOCK).zip((0..).step_by(REQUEST));
    let mut data = vec![0; REQUEST];
    for (seeds, at) in pieces() {
        let data = &mut data[..seeds.len() * BLOCK];
        data::half_compressible(seeds.iter().copied(), data);
        volume.write_at(at, data, false)?;
    }
    drop(volume);
    pool.close()?;
    let stored = Footprint::of(&path)?;

    let volume = open_pool(&path, Budgets::default())?.volume("main")?;
    let mut found = vec![0; REQUEST];
    for (seeds, at) in pieces() {
        let (data, found) = (&mut data[..seeds.len() * BLOCK], &mut found[..seeds.len() * BLOCK]);
        data::half_compressible(seeds.iter().copied(), data);
        volume.read_at(at, found)?;
        ensure!(data == found, "what was written at {at} reads back differently");
    }

    let logical = (seeds.len() * BLOCK) as f64;
    let ideal = logical / ideal_bytes(seeds) as f64;
    let ratio = logical / stored.worst() as f64;
    let (apparent, allocated) = (ByteSize(stored.apparent), ByteSize(stored.allocated));
    let note = format!("ideal {ideal:.2}x; files {apparent}, allocated {allocated}");
    Ok(Row { note, ..Row::new(GROUP, name, ratio, Unit::Times) })
}

/// Bytes of all different blocks as LZ4.
fn ideal_bytes(seeds: &[u64]) -> usize {
    let mut compressor = Compressor::new(Compression::Lz4);
    let (mut block, mut out) = (vec![0; BLOCK], Vec::new());
    let unique: HashSet<u64> = seeds.iter().copied().collect();
    let mut size = |seed: u64| {
        data::half_compressible(std::iter::once(seed), &mut block);
        out.clear();
        match compressor.compress_into(&block, &mut out, BLOCK - 1) {
            Codec::Raw => BLOCK,
            _ => out.len(),
        }
    };
    unique.into_iter().map(&mut size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_count_files_in_folders() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("a"), [1; 5000]).unwrap();
        fs::write(folder.path().join("inner/b"), [1; 300]).unwrap();
        fs::File::create(folder.path().join("sparse")).unwrap().set_len(1 << 30).unwrap();
        let found = Footprint::of(folder.path()).unwrap();
        assert_eq!(found.apparent, 5300 + (1 << 30));
        assert!(found.allocated < 1 << 20);
        assert_eq!(found.worst(), found.apparent);
    }

    #[test]
    fn the_ideal_counts_each_block_once() {
        let one = ideal_bytes(&[1]);
        assert!((2050..2200).contains(&one));
        assert!(ideal_bytes(&[1, 1, 2]).abs_diff(2 * one) < 40);
    }
}
