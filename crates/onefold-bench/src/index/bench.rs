//! A pool with little memory, what is written to it, and what its background does.
//! Room: onefold-bench.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Result, ensure};
use onefold_block::{BlockDevice, ByteSize};
use onefold_content::{FingerprintKind, Fingerprinter, is_zero};
use onefold_pool::{Budgets, Pool, Thoroughness, Volume};

use super::source::Source;
use crate::clock;
use crate::data::BLOCK;
use crate::lab::{new_pool, open_pool};

/// Bytes of a request.
const REQUEST: usize = 128 << 10;
/// Work in one step in the background, in bytes.
const STEP_BYTES: u64 = 4 << 20;
/// Between so many bytes written, the background does what it would do beside a client.
const BETWEEN: u64 = 32 << 20;
/// What its volume has room for.
pub const VOLUME_BYTES: u64 = 1 << 40;

/// What background work there is while clients write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// None.
    Nothing,
    /// As in a server.
    Levels,
}

/// A pool of its own folder.
pub struct Bench {
    pub pool: Pool,
    volume: Volume,
    budgets: Budgets,
    buffer: Vec<u8>,
    beside: Beside,
    later: Later,
    /// None where somebody else knows what is written.
    counter: Option<Counter>,
}

/// What writing took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    pub blocks: u64,
    /// Blocks found to be stored already.
    pub found: u64,
    pub cpu: f64,
}

/// What the background came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Later {
    pub found: u64,
    pub work_bytes: u64,
    pub cpu: f64,
    /// Blocks that are stored in the end.
    pub stored: u64,
}

impl Bench {
    /// A new pool with so much memory for its index.
    pub fn new(path: &Path, index_bytes: u64, beside: Beside) -> Result<Self> {
        let budgets = Budgets { index_bytes, cache_bytes: 0, ..Budgets::default() };
        let (pool, volume) = new_pool(path, budgets, ByteSize(VOLUME_BYTES))?;
        let (buffer, later) = (vec![0; REQUEST], Later::default());
        let counter = Some(Counter::default());
        Ok(Self { pool, volume, budgets, buffer, beside, later, counter })
    }

    /// What is written is not counted: the caller knows it.
    pub fn without_counter(self) -> Self {
        Self { counter: None, ..self }
    }

    /// Write all of a source, from this byte of the volume on.
    pub fn write(&mut self, source: &mut dyn Source, mut at: u64) -> Result<Written> {
        let before = self.pool.activity();
        let (mut cpu, mut rest) = (0.0, BETWEEN);
        loop {
            let len = source.fill(&mut self.buffer)?;
            if len == 0 {
                break;
            }
            if let Some(counter) = &mut self.counter {
                counter.add(&self.buffer[..len]);
            }
            let begun = clock::thread_cpu();
            self.volume.write_at(at, &self.buffer[..len], false)?;
            cpu += clock::thread_cpu() - begun;
            at += len as u64;
            rest = rest.saturating_sub(len as u64);
            if rest == 0 && self.beside == Beside::Levels {
                self.deduplicate(Thoroughness::Levels)?;
                rest = BETWEEN;
            }
        }
        self.volume.flush()?;
        let now = self.pool.activity();
        Ok(Written {
            blocks: now.written - before.written - (now.zero - before.zero),
            found: now.duplicate - before.duplicate,
            cpu,
        })
    }

    fn deduplicate(&mut self, thoroughness: Thoroughness) -> Result<()> {
        let begun = clock::thread_cpu();
        loop {
            let step = self.pool.deduplicate(STEP_BYTES, thoroughness)?;
            self.later.work_bytes += step.work_bytes;
            self.later.found += step.found;
            if step.done {
                break;
            }
        }
        self.later.cpu += clock::thread_cpu() - begun;
        Ok(())
    }

    /// What was written until now, if it was counted.
    pub fn counted(&self) -> Counted {
        self.counter.as_ref().map(Counter::counted).unwrap_or_default()
    }

    /// What look-ups on disk came to, for a row's note.
    pub fn asked(&self) -> Result<String> {
        let made = self.pool.status()?.deduplication.predictions;
        Ok(format!(
            "{} looked for on disk, {} there, {} not asked",
            made.asked, made.right, made.passed
        ))
    }

    /// Find the rest, also of the container that was being filled: opened anew, it is sealed.
    /// Returns what the background did from the beginning.
    pub fn find_all(self, path: &Path) -> Result<Later> {
        let Self { pool, volume, budgets, .. } = self;
        drop(volume);
        pool.close()?;
        let pool = open_pool(path, budgets)?;
        let volume = pool.volume("main")?;
        let mut opened = Self { pool, volume, ..self };
        opened.deduplicate(Thoroughness::Whole)?;
        let Self { pool, volume, mut later, .. } = opened;
        drop(volume);
        pool.close()?;
        let report = Pool::check_at(path, &mut |_, _| {})?;
        ensure!(report.is_sound(), "the pool is damaged: {:?}", report.findings);
        later.stored = report.live;
        Ok(later)
    }
}

/// What there is in a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Blocks that are not zero.
    pub blocks: u64,
    /// Of these, different ones.
    pub unique: u64,
}

impl Counted {
    /// Blocks that are copies of others.
    pub const fn duplicates(self) -> u64 {
        self.blocks - self.unique
    }
}

/// Counts blocks.
struct Counter {
    fingerprinter: Fingerprinter,
    known: HashSet<[u8; 16]>,
    blocks: u64,
}

impl Default for Counter {
    fn default() -> Self {
        let fingerprinter = Fingerprinter::new(FingerprintKind::Blake3);
        Self { fingerprinter, known: HashSet::new(), blocks: 0 }
    }
}

impl Counter {
    fn add(&mut self, blocks: &[u8]) {
        for block in blocks.chunks_exact(BLOCK).filter(|block| !is_zero(block)) {
            let mut key = [0; 16];
            key.copy_from_slice(&self.fingerprinter.hash(block).as_bytes()[..16]);
            self.known.insert(key);
            self.blocks += 1;
        }
    }

    fn counted(&self) -> Counted {
        Counted { blocks: self.blocks, unique: self.known.len() as u64 }
    }
}

/// Count the blocks of a source.
pub fn count(source: &mut dyn Source) -> Result<Counted> {
    let (mut counter, mut buffer) = (Counter::default(), vec![0; REQUEST]);
    loop {
        let len = source.fill(&mut buffer)?;
        if len == 0 {
            return Ok(counter.counted());
        }
        counter.add(&buffer[..len]);
    }
}
