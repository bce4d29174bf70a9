//! Which containers a run of file reads touches: the input of cache experiments.
//! Room: onefold-archive.
//! Source: [plc-cache] sec. V: whole containers are cached, files are read in Zipf order.

use std::collections::{HashMap, HashSet};

use onefold_block::ContainerId;
use onefold_sim::{RandomStreams, Ratio, Zipf};
use onefold_workload::{Op, Request};

use crate::error::ArchiveError;
use crate::format::entry::Kind;
use crate::version::Version;

/// Virtual time between two file reads in a trace, in nanoseconds.
pub const READ_INTERVAL_NS: u64 = 1_000_000;

/// A read of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerAccess {
    /// Which file read it belongs to, from 0.
    pub read: u64,
    /// The file, as an index into the version's entries.
    pub entry: u32,
    /// The container.
    pub container: ContainerId,
}

impl ContainerAccess {
    /// The same as a request of a trace: containers lie side by side, `container_bytes` each.
    /// Requests of one time belong to one file read. The file itself is no stream of the trace:
    /// files share containers, and streams do not share addresses.
    pub fn request(&self, container_bytes: u64) -> Request {
        Request {
            time_ns: self.read * READ_INTERVAL_NS,
            op: Op::Read,
            offset: u64::from(self.container.get()) * container_bytes,
            length: container_bytes,
            identity: None,
            stream: None,
            pid: None,
            deduplicate: None,
        }
    }
}

impl Version {
    /// The indices of all files that have content, in path order.
    pub fn files_with_content(&self) -> Result<Vec<u32>, ArchiveError> {
        let mut files = Vec::new();
        for (index, entry) in self.entries().enumerate() {
            let entry = entry?;
            if entry.kind == Kind::File && entry.recipe.chunks > 0 {
                files.push(index as u32);
            }
        }
        Ok(files)
    }

    /// The containers that a reader of the file with this index turns to, each once, in the order
    /// of its first chunk.
    pub fn containers_of(&self, index: u32) -> Result<Vec<ContainerId>, ArchiveError> {
        let (mut seen, mut order) = (HashSet::new(), Vec::new());
        for chunk in self.chunks(self.entry(index as usize)?.recipe) {
            let id = chunk?.container;
            if seen.insert(id) {
                order.push(id);
            }
        }
        Ok(order)
    }

    /// The containers that reading files in this order turns to. `take` sees each access and may
    /// end it with an error of its own.
    pub fn container_accesses<E: From<ArchiveError>>(
        &self,
        files: impl Iterator<Item = u32>,
        mut take: impl FnMut(ContainerAccess) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut known: HashMap<u32, Vec<ContainerId>> = HashMap::new();
        for (read, entry) in files.enumerate() {
            let containers = match known.entry(entry) {
                std::collections::hash_map::Entry::Occupied(found) => found.into_mut(),
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(self.containers_of(entry)?)
                }
            };
            for &container in containers.iter() {
                take(ContainerAccess { read: read as u64, entry, container })?;
            }
        }
        Ok(())
    }
}

/// Files in Zipf order: ranks are dealt to the files at random, so that popular ones lie anywhere
/// in the tree. The same seed gives the same order.
pub fn zipf_order(
    files: &[u32],
    exponent: Ratio,
    seed: u64,
) -> Result<impl Iterator<Item = u32> + use<>, ArchiveError> {
    let zipf = Zipf::new(files.len() as u64, exponent)
        .map_err(|error| ArchiveError::Setting(error.to_string()))?;
    let streams = RandomStreams::new(seed);
    let mut by_rank = files.to_vec();
    streams.stream("ranks").shuffle(&mut by_rank);
    let mut reads = streams.stream("reads");
    Ok(std::iter::repeat_with(move || by_rank[zipf.sample(&mut reads) as usize]))
}
