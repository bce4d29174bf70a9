//! How far the scrub of a pool has come and what it found: a small file in the pool's folder.
//! Room: onefold.
//! Invariant: it is a note. Whatever happens to it, a scrub begins from the start at worst.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use onefold_block::{ByteSize, FileFolder, MediaError, small_file};
use onefold_pool::Scrubbed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::plural;

/// The file.
pub const FILE: &str = "scrub.json";
/// Longest one that is believed.
const BYTES_MAX: u64 = 16 << 20;
/// Containers with findings that are kept; the rest are counted.
const FINDINGS_MAX: usize = 1000;
/// Ranges of blocks that are kept in all, so that the file stays one that is believed.
const RANGES_MAX: usize = 10_000;
const VERSION: u32 = 1;

/// Neighbouring blocks of a volume that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blocks {
    /// The volume's name, or a snapshot's.
    pub volume: String,
    /// The first one, counted in blocks of the pool.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// What is wrong in one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Its number.
    pub container: u32,
    /// What is wrong, at most twenty things.
    pub problems: Vec<String>,
    /// How much is wrong, named or not.
    pub problems_total: u64,
    /// Blocks that cannot be read for that.
    pub blocks: Vec<Blocks>,
    /// How many blocks, named or not.
    pub blocks_total: u64,
}

/// The pass that is under way, or the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubState {
    version: u32,
    /// The pool's UUID: notes of another pool say nothing of this one.
    pub pool: String,
    /// Number of the container that was read last.
    pub position: u32,
    /// Containers read in this pass.
    pub containers: u64,
    /// Records verified in this pass.
    pub records: u64,
    /// Bytes of containers read in this pass.
    pub bytes: u64,
    /// Containers in which something is wrong.
    pub findings_total: u64,
    /// Blocks that cannot be read for it.
    pub blocks_total: u64,
    /// What is wrong, container by container.
    pub findings: Vec<Finding>,
    /// When the pass came to its end, in seconds since 1970; none while it is under way.
    pub ended_s: Option<u64>,
}

impl ScrubState {
    /// A pass that begins.
    pub fn new(pool: String) -> Self {
        Self { version: VERSION, pool, ..Self::default() }
    }

    /// This pass if it is under way, else the next one: what was found stays until it is looked at
    /// again.
    pub fn unfinished(self) -> Self {
        if self.ended_s.is_none() {
            return self;
        }
        let Self { version, pool, findings, .. } = self;
        let findings_total = findings.len() as u64;
        let blocks_total = findings.iter().map(|finding| finding.blocks_total).sum();
        Self { version, pool, findings_total, blocks_total, findings, ..Self::default() }
    }

    /// Whether it has anything to tell: a container was read, or it came to its end.
    pub const fn is_begun(&self) -> bool {
        self.position > 0 || self.ended_s.is_some()
    }

    /// What the folder of a pool has; `None` if there is nothing, or nothing that makes sense.
    pub fn read(folder: &Path, pool: &str) -> Option<Self> {
        let folder = FileFolder::open(folder).ok()?;
        let bytes = small_file::read(&folder, FILE, BYTES_MAX).ok()?;
        let state: Self = serde_json::from_slice(&bytes).ok()?;
        (state.version == VERSION && state.pool == pool).then_some(state)
    }

    /// Keep it.
    pub fn write(&self, folder: &Path) -> Result<(), MediaError> {
        let bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        small_file::replace_at(&folder.join(FILE), &bytes)
    }

    /// One container more.
    pub fn add(&mut self, found: &Scrubbed) {
        self.forget_up_to(found.container.get());
        self.position = found.container.get();
        self.containers += 1;
        self.records += found.records;
        self.bytes += found.bytes;
        self.blocks_total += found.blocks_total;
        if found.problems_total == 0 {
            return;
        }
        self.findings_total += 1;
        if self.findings.len() < FINDINGS_MAX {
            let kept: usize = self.findings.iter().map(|finding| finding.blocks.len()).sum();
            let blocks = found.blocks.iter().take(RANGES_MAX - kept).map(|range| Blocks {
                volume: range.volume.clone(),
                first: range.first.get(),
                count: range.count,
            });
            self.findings.push(Finding {
                container: found.container.get(),
                problems: found.problems.clone(),
                problems_total: found.problems_total,
                blocks: blocks.collect(),
                blocks_total: found.blocks_total,
            });
        }
    }

    /// What the pass before found between the position and this container is of no account now.
    fn forget_up_to(&mut self, container: u32) {
        let Self { position, findings_total, blocks_total, .. } = self;
        self.findings.retain(|finding| {
            let former = finding.container > *position && finding.container <= container;
            if former {
                *findings_total -= 1;
                *blocks_total -= finding.blocks_total;
            }
            !former
        });
    }

    /// The pass came to its end.
    pub fn end(&mut self) {
        self.forget_up_to(u32::MAX);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.ended_s = Some(now.unwrap_or_default().as_secs());
    }

    /// What was read.
    pub fn read_text(&self) -> String {
        format!(
            "{} in {} ({})",
            plural(self.records, "record", "records"),
            plural(self.containers, "container", "containers"),
            ByteSize(self.bytes)
        )
    }

    /// What was found.
    pub fn verdict(&self) -> String {
        if self.findings_total == 0 {
            return "nothing is wrong".to_owned();
        }
        format!(
            "{} damaged, {} cannot be read",
            plural(self.findings_total, "container is", "containers are"),
            plural(self.blocks_total, "block", "blocks")
        )
    }
}

impl Finding {
    /// A line for each thing that is wrong, and one for each range of blocks.
    pub fn text(&self) -> String {
        let id = self.container;
        let mut lines = self.problems.clone();
        let unnamed = self.problems_total - self.problems.len() as u64;
        if unnamed > 0 {
            let more = plural(unnamed, "problem", "problems");
            lines.push(format!("and {more} more in container {id}"));
        }
        for Blocks { volume, first, count } in &self.blocks {
            let which = match count {
                1 => format!("block {first}"),
                _ => format!("blocks {first} to {}", first + count - 1),
            };
            lines.push(format!("volume '{volume}' {which}: cannot be read, for container {id}"));
        }
        let named: u64 = self.blocks.iter().map(|range| range.count).sum();
        if named < self.blocks_total {
            let more = plural(self.blocks_total - named, "block", "blocks");
            lines.push(format!("and {more} more for container {id}"));
        }
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{ContainerId, Lba};
    use onefold_pool::DamagedBlocks;

    use super::*;

    /// A container with so many problems, each of which costs a block.
    fn read(container: u32, problems: u64) -> Scrubbed {
        let blocks = (0..problems).map(|first| DamagedBlocks {
            volume: "v".to_owned(),
            first: Lba::new(first),
            count: 1,
        });
        Scrubbed {
            container: ContainerId::new(container),
            bytes: 4096,
            records: 10,
            problems: (0..problems).map(|number| format!("problem {number}")).collect(),
            problems_total: problems,
            blocks: blocks.collect(),
            blocks_total: problems,
        }
    }

    #[test]
    fn what_was_found_stays_until_it_is_looked_at_again() {
        let mut state = ScrubState::new("p".to_owned());
        assert!(!state.is_begun());
        let mut empty = state.clone();
        empty.end();
        assert!(empty.is_begun(), "of a pool without containers");
        for (container, problems) in [(1, 0), (3, 2), (5, 1)] {
            state.add(&read(container, problems));
        }
        assert!(state.is_begun());
        let told = |state: &ScrubState| {
            let found: Vec<u32> = state.findings.iter().map(|finding| finding.container).collect();
            (found, state.findings_total, state.blocks_total, state.verdict())
        };
        let both = "2 containers are damaged, 3 blocks cannot be read".to_owned();
        assert_eq!(told(&state), (vec![3, 5], 2, 3, both.clone()));
        assert_eq!(state.read_text(), "30 records in 3 containers (12 KiB)");
        // A pass under way goes on, and one that ended is followed by one from the start.
        assert_eq!(state.clone().unfinished(), state);
        state.end();
        let mut next = state.unfinished();
        assert_eq!((next.position, next.containers, next.ended_s), (0, 0, None));
        assert_eq!(told(&next), (vec![3, 5], 2, 3, both));
        next.add(&read(3, 0));
        let one = "1 container is damaged, 1 block cannot be read".to_owned();
        assert_eq!(told(&next), (vec![5], 1, 1, one));
        // Container 5 was given back meanwhile.
        next.end();
        assert_eq!(told(&next), (vec![], 0, 0, "nothing is wrong".to_owned()));
    }

    #[test]
    fn what_is_too_much_to_keep_is_counted() {
        let mut state = ScrubState::new("p".to_owned());
        for container in 1..=1002 {
            state.add(&read(container, 11));
        }
        let ranges: usize = state.findings.iter().map(|finding| finding.blocks.len()).sum();
        assert_eq!((state.findings.len(), ranges), (FINDINGS_MAX, RANGES_MAX));
        assert_eq!((state.findings_total, state.blocks_total), (1002, 11 * 1002));
        let folder = tempfile::tempdir().unwrap();
        state.write(folder.path()).unwrap();
        assert_eq!(ScrubState::read(folder.path(), "p"), Some(state));
        assert_eq!(ScrubState::read(folder.path(), "another"), None);
    }

    #[test]
    fn a_finding_names_what_it_can_and_counts_the_rest() {
        let blocks = |first, count| Blocks { volume: "v".to_owned(), first, count };
        let finding = Finding {
            container: 7,
            problems: vec!["bad record".to_owned()],
            problems_total: 3,
            blocks: vec![blocks(4, 1), blocks(8, 3)],
            blocks_total: 5,
        };
        let expected = "bad record\nand 2 problems more in container 7\n\
                        volume 'v' block 4: cannot be read, for container 7\n\
                        volume 'v' blocks 8 to 10: cannot be read, for container 7\n\
                        and 1 block more for container 7\n";
        assert_eq!(finding.text(), expected);
        let one = Finding { problems_total: 2, ..finding.clone() };
        assert!(one.text().contains("and 1 problem more"), "{}", one.text());
        let all = Finding { problems_total: 1, blocks_total: 4, ..finding };
        assert!(!all.text().contains("more"), "{}", all.text());
    }
}
