//! The state of an estimate: complete in itself, can be written, merged and reported on.
//! Room: onefold-estimate.
//! Invariants: merging the shards of a tree, or results of disjoint inputs in the order of the
//! inputs, gives what one run over everything would have given, as long as no more files of more
//! than one segment (32 MiB) exist than file records fit the memory.

use std::collections::HashSet;
use std::path::PathBuf;

use onefold_block::ByteSize;
use onefold_content::Compression;
use serde::{Deserialize, Serialize};

use crate::error::EstimateError;
use crate::files::FileTable;
use crate::format::{Frame, Reader};
use crate::groups::{pack, unpack};
use crate::options::{Method, Options, Plan, Shard};
use crate::scan::into_inner;
use crate::table::{Entry, Table};
use crate::walk::{Breakdown, WalkFacts};
use crate::worker::{ScanFacts, Shared};

/// Settings that partial results must share to be merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub methods: Vec<Method>,
    pub primary_bytes: u32,
    pub compressions: Vec<String>,
}

/// Everything but the tables.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub settings: Settings,
    pub memory_bytes: u64,
    /// The inputs as they were named.
    pub inputs: Vec<String>,
    pub shard: Shard,
    /// Distinguishes runs.
    pub run: u64,
    /// Whether everything was looked at, apart from what the problems name.
    pub complete: bool,
    pub notes: Vec<String>,
    pub elapsed_ns: u64,
    pub walk: WalkFacts,
    pub scan: ScanFacts,
    pub breakdown: Breakdown,
    /// Level of each table.
    pub levels: Vec<u8>,
    /// Files below this size have no records.
    pub file_least_bytes: u64,
}

/// What a run found out, before it is put in words: counts per distinct chunk, or a sample of
/// them. [`Partial::report`] turns it into an answer, [`Partial::write`] into a file that
/// [`Partial::merge`] combines with others.
pub struct Partial {
    pub(crate) header: Header,
    pub(crate) plan: Plan,
    pub(crate) tables: Vec<Table>,
    pub(crate) files: FileTable,
}

impl Partial {
    pub(crate) fn new(plan: Plan, shared: Shared, inputs: Vec<String>, walk: WalkFacts) -> Self {
        let files = into_inner(shared.files);
        let header = Header {
            settings: Settings {
                methods: plan.tables.iter().map(|table| table.method).collect(),
                primary_bytes: plan.options.primary_bytes,
                compressions: plan.options.compressions.iter().map(ToString::to_string).collect(),
            },
            memory_bytes: plan.options.memory_bytes,
            inputs,
            shard: plan.options.shard,
            run: 0,
            complete: true,
            notes: Vec::new(),
            elapsed_ns: 0,
            walk,
            scan: into_inner(shared.scan),
            breakdown: into_inner(shared.breakdown),
            levels: shared.tables.iter().map(Table::level).collect(),
            file_least_bytes: files.least_bytes(),
        };
        Self { header, plan, tables: shared.tables, files }
    }

    /// Which part of the work this is.
    pub fn shard(&self) -> Shard {
        self.header.shard
    }

    /// Whether everything was looked at: not cancelled, and no shard.
    pub fn is_complete(&self) -> bool {
        self.header.complete && self.header.shard.count == 1
    }

    /// Combine results that were written by [`Partial::write`]: all shards of a tree, results of
    /// disjoint inputs, or both. `memory_bytes` is the bound for the combination; without it, the
    /// largest bound of the parts.
    pub fn merge(paths: &[PathBuf], memory_bytes: Option<u64>) -> Result<Self, EstimateError> {
        let readers = paths.iter().map(|path| Reader::open(path)).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = readers.first() else { return Err(EstimateError::NoInput) };
        check_fit(&readers)?;
        let of_parts = readers.iter().map(|r| r.header.memory_bytes).max().unwrap_or_default();
        let memory_bytes = memory_bytes.unwrap_or(of_parts);
        let plan = Plan::new(&options(&first.header.settings, memory_bytes)?)?;
        let shared = Shared::new(&plan);
        let mut merged = Self::new(plan, shared, Vec::new(), WalkFacts::default());
        for set in sets(readers)? {
            merged.absorb_set(set)?;
        }
        merged.header.levels = merged.tables.iter().map(Table::level).collect();
        merged.header.file_least_bytes = merged.files.least_bytes();
        Ok(merged)
    }

    /// Add all shards of one tree, or one whole result.
    fn absorb_set(&mut self, set: Vec<Reader>) -> Result<(), EstimateError> {
        let base = u32::try_from(self.header.walk.files).unwrap_or(u32::MAX);
        let mut walk = None;
        for mut reader in set {
            let header = reader.take_header();
            self.header.run = crate::walk::hash_bytes(self.header.run, &header.run.to_le_bytes());
            self.header.complete &= header.complete;
            self.header.elapsed_ns = self.header.elapsed_ns.saturating_add(header.elapsed_ns);
            let scan = &mut self.header.scan;
            for (sum, tally) in scan.tallies.iter_mut().zip(&header.scan.tallies) {
                sum.add(*tally);
            }
            scan.bytes = scan.bytes.saturating_add(header.scan.bytes);
            scan.hole_bytes = scan.hole_bytes.saturating_add(header.scan.hole_bytes);
            scan.unread_bytes = scan.unread_bytes.saturating_add(header.scan.unread_bytes);
            scan.problems.absorb(header.scan.problems, base);
            let extensions = self.header.breakdown.extensions.absorb(&header.breakdown.extensions);
            let folders = self.header.breakdown.folders.absorb(&header.breakdown.folders);
            match &walk {
                None => {
                    self.header.inputs.extend(header.inputs);
                    self.header.notes.extend(header.notes);
                    walk = Some(header.walk);
                }
                Some(walk) if walk.digest != header.walk.digest => {
                    let inputs = header.inputs.join(", ");
                    let note = format!("{inputs}: changed between the runs of its shards");
                    if !self.header.notes.contains(&note) {
                        self.header.notes.push(note);
                    }
                }
                Some(_) => {}
            }
            for (table, &level) in self.tables.iter().zip(&header.levels) {
                table.raise_to(level);
            }
            self.files.raise_to(header.file_least_bytes);
            let regroup = |group| {
                let (extension, folder) = unpack(group);
                let extension = *extensions.get(usize::from(extension))?;
                Some(pack(extension, *folders.get(usize::from(folder))?))
            };
            self.absorb_frames(&mut reader, base, regroup)?;
        }
        self.add_walk(walk.expect("a set has at least one part"), base);
        Ok(())
    }

    fn add_walk(&mut self, walk: WalkFacts, base: u32) {
        let sum = &mut self.header.walk;
        sum.files = sum.files.saturating_add(walk.files);
        sum.bytes = sum.bytes.saturating_add(walk.bytes);
        sum.folders = sum.folders.saturating_add(walk.folders);
        sum.symlinks = sum.symlinks.saturating_add(walk.symlinks);
        sum.hard_links = sum.hard_links.saturating_add(walk.hard_links);
        sum.hard_link_bytes = sum.hard_link_bytes.saturating_add(walk.hard_link_bytes);
        sum.problems.absorb(walk.problems, base);
        sum.digest = crate::walk::hash_bytes(sum.digest, &walk.digest.to_le_bytes());
    }

    fn absorb_frames(
        &mut self,
        reader: &mut Reader,
        base: u32,
        regroup: impl Fn(u32) -> Option<u32>,
    ) -> Result<(), EstimateError> {
        while let Some(frame) = reader.next_frame()? {
            match frame {
                Frame::Entries(entries) => {
                    let table = &self.tables[entries.table()];
                    for entry in entries.iter() {
                        let Some(group) = regroup(entry.group) else {
                            return Err(reader.bad("an entry names a group that does not exist"));
                        };
                        let first = entry.first.saturating_add(base);
                        let stored = entry.stored.as_slice();
                        table.absorb(&Entry {
                            fp: entry.fp,
                            count: entry.count,
                            len: entry.len,
                            first,
                            group,
                            stored,
                        });
                    }
                }
                Frame::Records(records) => {
                    for mut record in records {
                        let names = [Some(&mut record.first), record.second.as_mut()];
                        for name in names.into_iter().flatten() {
                            name.number = name.number.saturating_add(base);
                        }
                        self.files.add(record);
                    }
                }
                Frame::OpenFiles(files) => {
                    for mut file in files {
                        file.name.number = file.name.number.saturating_add(base);
                        self.files.add_segment(file);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The options that settings in a file stand for.
fn options(settings: &Settings, memory_bytes: u64) -> Result<Options, EstimateError> {
    let mut options = Options {
        primary_bytes: settings.primary_bytes,
        compressions: Vec::new(),
        memory_bytes,
        ..Options::default()
    };
    options.set_methods(&settings.methods)?;
    // The reader made sure that every text reads back.
    let parsed = settings.compressions.iter().filter_map(|text| text.parse::<Compression>().ok());
    options.compressions.extend(parsed);
    Ok(options)
}

/// Whether all results were made with the same settings, by different runs.
fn check_fit(readers: &[Reader]) -> Result<(), EstimateError> {
    let mut runs = HashSet::new();
    for reader in readers {
        let mismatch = |what: &str| {
            Err(EstimateError::Mismatch { path: reader.path().to_owned(), what: what.to_owned() })
        };
        if reader.header.settings != readers[0].header.settings {
            return mismatch(
                "was made with other chunk sizes or compressions than the first result",
            );
        }
        if !runs.insert(reader.header.run) {
            return mismatch("holds the result of a run that was given already");
        }
    }
    Ok(())
}

/// Sort results into sets that cover one tree each, in order of their first part.
fn sets(readers: Vec<Reader>) -> Result<Vec<Vec<Reader>>, EstimateError> {
    let mut sets: Vec<Vec<Reader>> = Vec::new();
    for reader in readers {
        let belongs = |set: &&mut Vec<Reader>| {
            let (one, other) = (&set[0].header, &reader.header);
            one.shard.count > 1
                && one.shard.count == other.shard.count
                && one.inputs == other.inputs
        };
        match sets.iter_mut().find(belongs) {
            Some(set) => set.push(reader),
            None => sets.push(vec![reader]),
        }
    }
    for set in &mut sets {
        set.sort_by_key(|reader| reader.header.shard.index);
        if let Some(pair) = set.windows(2).find(|p| p[0].header.shard == p[1].header.shard) {
            return Err(EstimateError::Mismatch {
                path: pair[1].path().to_owned(),
                what: format!("shard {} was given already", pair[1].header.shard),
            });
        }
        let Shard { count, .. } = set[0].header.shard;
        let there: HashSet<u32> = set.iter().map(|reader| reader.header.shard.index).collect();
        if let Some(missing) = (0..count).find(|index| !there.contains(index)) {
            let inputs = set[0].header.inputs.join(", ");
            return Err(EstimateError::MissingShard { inputs, missing, count });
        }
    }
    Ok(sets)
}

impl std::fmt::Debug for Partial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = ByteSize(self.header.scan.bytes);
        write!(f, "Partial({bytes} in {:?}, shard {})", self.header.inputs, self.header.shard)
    }
}
