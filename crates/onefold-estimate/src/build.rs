//! Puts a partial result into the numbers of a report.
//! Room: onefold-estimate.   In: [`Partial`].   Out: [`Report`].

use std::collections::HashMap;

use onefold_block::{ByteSize, ChunkSize};

use crate::groups::{Groups, unpack};
use crate::options::Method;
use crate::partial::Partial;
use crate::problems::{Problem, ProblemKind};
use crate::report::{
    Answer, Compressed, Copies, DuplicateFile, Group, InputReport, Interval, ProblemReport,
    RepeatedFile, Report, SCHEMA_VERSION, SizeReport, Skew,
};
use crate::sample::{BYTES, COLD_BYTES, DUPLICATED, FPS, HOT, STORED, Sample};
use crate::table::{Entry, Table, is_known};

/// Memory of a pool's index per distinct chunk, in bytes.
pub const INDEX_BYTES_PER_CHUNK: u64 = 10;
/// Metadata of a pool per distinct chunk: its entry in a container.
pub const CONTAINER_ENTRY_BYTES: u64 = 48;
/// Metadata of a pool per chunk that is not zero: its entry in a volume's map.
pub const MAP_ENTRY_BYTES: u64 = 8;
/// Chunks of a file that must be in a sample before it is judged by them.
const FILE_SAMPLE_MIN: u64 = 400;
/// Problems in a report.
const NAMED: usize = 1000;

impl Partial {
    /// The report, with at most `rows` rows in each list.
    pub fn report(&self, rows: usize) -> Report {
        let header = &self.header;
        let primary = Primary::new(self);
        let chunk_sizes: Vec<SizeReport> = (0..self.tables.len())
            .map(|table| {
                if table == self.plan.primary {
                    self.size_report(table, &primary.sample)
                } else {
                    self.size_report(table, &sample(&self.tables[table]))
                }
            })
            .collect();
        let compression = self.compression(&primary.sample);
        let is_shard = header.shard.count > 1;
        let (extensions, folders) = (&header.breakdown.extensions, &header.breakdown.folders);
        let mut report = Report {
            schema_version: SCHEMA_VERSION,
            complete: self.is_complete(),
            exact: chunk_sizes.iter().all(|size| size.sampled_one_in == 1),
            shard: is_shard.then_some(header.shard),
            inputs: header.inputs.clone(),
            input: self.input(),
            problems: self.problems(),
            primary_chunk_bytes: self.plan.options.primary_bytes,
            copies: primary.copies(),
            skew: self.skew(&primary.sample),
            by_extension: groups(extensions, &primary.extensions, primary.one_in(), rows),
            by_folder: groups(folders, &primary.folders, primary.one_in(), rows),
            duplicate_files: self.duplicate_files(rows),
            repeated_files: self.repeated_files(&primary, rows),
            file_lists_least_bytes: self.files.least_bytes(),
            answer: answer(&chunk_sizes[self.plan.primary], &compression[0], header.scan.bytes),
            chunk_sizes,
            compression,
            notes: header.notes.clone(),
            memory_bytes: header.memory_bytes,
            elapsed_ns: header.elapsed_ns,
        };
        report.answer.next = next(&report);
        report
    }

    fn input(&self) -> InputReport {
        let (walk, scan) = (&self.header.walk, &self.header.scan);
        InputReport {
            files: walk.files,
            folders: walk.folders,
            bytes: scan.bytes,
            hole_bytes: scan.hole_bytes,
            symlinks: walk.symlinks,
            hard_links: walk.hard_links,
            hard_link_bytes: walk.hard_link_bytes,
        }
    }

    fn problems(&self) -> ProblemReport {
        let (walk, scan) = (&self.header.walk.problems, &self.header.scan.problems);
        let count = |kind| walk.count(kind) + scan.count(kind);
        let mut named: Vec<(u32, Problem)> = walk.named().chain(scan.named()).collect();
        named.sort_by(|a, b| (a.0, &a.1.path, a.1.kind).cmp(&(b.0, &b.1.path, b.1.kind)));
        ProblemReport {
            unreadable_files: count(ProblemKind::UnreadableFile),
            unreadable_folders: count(ProblemKind::UnreadableFolder),
            read_errors: count(ProblemKind::ReadError),
            changed_files: count(ProblemKind::Changed),
            special_files: count(ProblemKind::Special),
            unread_bytes: self.header.scan.unread_bytes,
            named: named.into_iter().map(|(_, problem)| problem).take(NAMED).collect(),
        }
    }

    fn size_report(&self, table: usize, sample: &Sample) -> SizeReport {
        let bytes = self.header.scan.bytes;
        let tally = self.header.scan.tallies[table];
        let filled = bytes - tally.zero_bytes;
        let unique_chunks = sample.total(FPS);
        // A sample may, by chance, stand for more than there is.
        let unique_bytes = sample.total(BYTES).min(filled);
        let duplicate_bytes = filled - unique_bytes;
        let fraction = |part: u64| if bytes == 0 { 0.0 } else { part as f64 / bytes as f64 };
        let distinct = unique_chunks as f64;
        let floor = if filled == 0 { 1.0 } else { bytes as f64 / filled as f64 };
        SizeReport {
            method: self.plan.tables[table].method,
            chunks: tally.chunks,
            zero_chunks: tally.zero_chunks,
            zero_bytes: tally.zero_bytes,
            zero_fraction: fraction(tally.zero_bytes),
            unique_chunks,
            unique_bytes,
            duplicate_bytes,
            duplicate_fraction: fraction(duplicate_bytes),
            dedup_ratio: ratio(bytes, unique_bytes),
            // Neither end can be below what leaving out zeroes gives.
            dedup_ratio_interval: sample
                .interval(|sums| bytes as f64 / sums[BYTES])
                .map(|i| Interval { low: i.low.max(floor), high: i.high.max(floor) }),
            index_memory_bytes: unique_chunks * INDEX_BYTES_PER_CHUNK,
            sampled_one_in: sample.one_in(),
            sampled_chunks: sample.len(),
            expected_false_merges: distinct * (distinct - 1.0).max(0.0) / 2f64.powi(65),
        }
    }

    fn compression(&self, sample: &Sample) -> Vec<Compressed> {
        let bytes = self.header.scan.bytes;
        let tally = self.header.scan.tallies[self.plan.primary];
        let mapped = tally.chunks - tally.zero_chunks;
        let unique_bytes = sample.total(BYTES).min(bytes - tally.zero_bytes);
        let metadata_bytes = sample.total(FPS) * CONTAINER_ENTRY_BYTES + mapped * MAP_ENTRY_BYTES;
        let one = |(codec, name): (usize, &String)| {
            let which = STORED + codec;
            let stored_bytes = sample.total(which);
            Compressed {
                compression: name.clone(),
                stored_bytes,
                stored_bytes_interval: sample.interval(|sums| sums[which]),
                compress_ratio: ratio(unique_bytes, stored_bytes),
                compress_ratio_interval: sample.interval(|sums| sums[BYTES] / sums[which]),
                total_ratio: ratio(bytes, stored_bytes),
                total_ratio_interval: sample.interval(|sums| bytes as f64 / sums[which]),
                metadata_bytes,
                total_ratio_with_metadata: ratio(bytes, stored_bytes + metadata_bytes),
            }
        };
        self.header.settings.compressions.iter().enumerate().map(one).collect()
    }

    fn skew(&self, sample: &Sample) -> Skew {
        let tally = self.header.scan.tallies[self.plan.primary];
        let filled = (self.header.scan.bytes - tally.zero_bytes) as f64;
        // Redundant bytes of hot chunks are all redundant bytes less those of the others: a
        // sample of the others says more than one of the hot, of which a few hold very much.
        let hot = |sums: &crate::sample::Sums| sums[HOT] / sums[DUPLICATED];
        let redundancy =
            |sums: &crate::sample::Sums| 1.0 - sums[COLD_BYTES] / (filled - sums[BYTES]);
        let some = sample.total(DUPLICATED) > 0;
        let estimate = |of: &dyn Fn(&crate::sample::Sums) -> f64| {
            Some(sample.estimate(of)).filter(|value| some && value.is_finite())
        };
        let interval = |of: &dyn Fn(&crate::sample::Sums) -> f64| {
            sample.interval(of).filter(|i| some && i.low.is_finite() && i.high.is_finite())
        };
        Skew {
            duplicated_chunks: sample.total(DUPLICATED),
            hot_chunks: sample.total(HOT),
            hot_fraction: estimate(&hot),
            hot_fraction_interval: interval(&hot),
            hot_redundancy_fraction: estimate(&redundancy),
            hot_redundancy_fraction_interval: interval(&redundancy),
        }
    }

    fn duplicate_files(&self, rows: usize) -> Vec<DuplicateFile> {
        let mut files: Vec<(u32, DuplicateFile)> = self
            .files
            .records()
            .filter_map(|record| {
                let duplicate_bytes = (record.count - 1) * (record.size - record.zero_bytes);
                let second = record.second.as_ref().filter(|_| duplicate_bytes > 0)?;
                let file = DuplicateFile {
                    file_bytes: record.size,
                    copies: record.count,
                    duplicate_bytes,
                    first: record.first.path.clone(),
                    second: second.path.clone(),
                };
                Some((record.first.number, file))
            })
            .collect();
        files.sort_by(|a, b| b.1.duplicate_bytes.cmp(&a.1.duplicate_bytes).then(a.0.cmp(&b.0)));
        files.into_iter().map(|(_, file)| file).take(rows).collect()
    }

    fn repeated_files(&self, primary: &Primary, rows: usize) -> Vec<RepeatedFile> {
        let one_in = primary.one_in();
        let least = match one_in {
            1 => 0,
            _ => FILE_SAMPLE_MIN * one_in * u64::from(self.plan.options.primary_bytes),
        };
        let mut files: Vec<(u32, RepeatedFile)> = self
            .files
            .records()
            .filter(|record| record.size >= least)
            .filter_map(|record| {
                let own = primary.owned.get(&record.first.number)? * one_in;
                let repeated_bytes = (record.size - record.zero_bytes).saturating_sub(own);
                let file = RepeatedFile {
                    path: record.first.path.clone(),
                    file_bytes: record.size,
                    repeated_bytes,
                    repeated_fraction: repeated_bytes as f64 / record.size as f64,
                };
                (repeated_bytes > 0).then_some((record.first.number, file))
            })
            .collect();
        files.sort_by(|a, b| b.1.repeated_bytes.cmp(&a.1.repeated_bytes).then(a.0.cmp(&b.0)));
        files.into_iter().map(|(_, file)| file).take(rows).collect()
    }
}

fn ratio(before: u64, after: u64) -> Option<f64> {
    match (before, after) {
        (0, 0) => Some(1.0),
        (_, 0) => None,
        _ => Some(before as f64 / after as f64),
    }
}

fn sample(table: &Table) -> Sample {
    let mut sample = Sample::new(table.level());
    table.visit(|part, entry| sample.add(part, entry));
    sample
}

/// Distinct and stored bytes of a group, as sampled.
#[derive(Clone, Copy, Default)]
struct Own {
    unique_bytes: u64,
    stored_bytes: u64,
}

/// What one pass over the primary table gives.
struct Primary {
    sample: Sample,
    rows: Vec<Copies>,
    extensions: Vec<Own>,
    folders: Vec<Own>,
    /// Bytes of the chunks that come first in a file, for files with records.
    owned: HashMap<u32, u64>,
}

impl Primary {
    fn new(partial: &Partial) -> Self {
        let table = &partial.tables[partial.plan.primary];
        let breakdown = &partial.header.breakdown;
        let mut primary = Self {
            sample: Sample::new(table.level()),
            rows: Vec::new(),
            extensions: vec![Own::default(); breakdown.extensions.names.len()],
            folders: vec![Own::default(); breakdown.folders.names.len()],
            owned: partial.files.records().map(|record| (record.first.number, 0)).collect(),
        };
        table.visit(|part, entry| primary.add(part, entry));
        primary
    }

    fn one_in(&self) -> u64 {
        self.sample.one_in()
    }

    fn add(&mut self, part: usize, entry: &Entry<'_>) {
        self.sample.add(part, entry);
        let len = u64::from(entry.len);
        let stored = entry.stored.first().copied().filter(|&stored| is_known(stored));
        let stored = stored.map_or(len, u64::from);
        let row = entry.count.ilog2() as usize;
        while self.rows.len() <= row {
            self.rows.push(Copies {
                copies_min: 1 << self.rows.len(),
                allocated_chunks: 0,
                allocated_bytes: 0,
                allocated_stored_bytes: 0,
                referenced_chunks: 0,
                referenced_bytes: 0,
                referenced_stored_bytes: 0,
            });
        }
        let row = &mut self.rows[row];
        row.allocated_chunks += 1;
        row.allocated_bytes += len;
        row.allocated_stored_bytes += stored;
        row.referenced_chunks = row.referenced_chunks.saturating_add(entry.count);
        row.referenced_bytes = row.referenced_bytes.saturating_add(entry.count.saturating_mul(len));
        row.referenced_stored_bytes =
            row.referenced_stored_bytes.saturating_add(entry.count.saturating_mul(stored));
        let (extension, folder) = unpack(entry.group);
        for own in
            [&mut self.extensions[usize::from(extension)], &mut self.folders[usize::from(folder)]]
        {
            own.unique_bytes += len;
            own.stored_bytes += stored;
        }
        if let Some(owned) = self.owned.get_mut(&entry.first) {
            *owned += len;
        }
    }

    fn copies(&self) -> Vec<Copies> {
        let scale = |value: u64| value.saturating_mul(self.one_in());
        let scaled = |row: &Copies| Copies {
            copies_min: row.copies_min,
            allocated_chunks: scale(row.allocated_chunks),
            allocated_bytes: scale(row.allocated_bytes),
            allocated_stored_bytes: scale(row.allocated_stored_bytes),
            referenced_chunks: scale(row.referenced_chunks),
            referenced_bytes: scale(row.referenced_bytes),
            referenced_stored_bytes: scale(row.referenced_stored_bytes),
        };
        self.rows.iter().filter(|row| row.allocated_chunks > 0).map(scaled).collect()
    }
}

fn groups(groups: &Groups, own: &[Own], one_in: u64, rows: usize) -> Vec<Group> {
    let group = |i: usize| {
        let tally = groups.tallies[i];
        let stored_bytes = own[i].stored_bytes * one_in;
        Group {
            name: groups.names[i].clone(),
            files: tally.files,
            bytes: tally.bytes,
            zero_bytes: tally.zero_bytes,
            unique_bytes: own[i].unique_bytes * one_in,
            stored_bytes,
            saved_bytes: tally.bytes as i64 - stored_bytes as i64,
        }
    };
    let mut all: Vec<Group> =
        (0..groups.names.len()).map(group).filter(|group| group.files > 0).collect();
    all.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    if all.len() > rows {
        let rest = all.split_off(rows.saturating_sub(1));
        let sum = |of: fn(&Group) -> u64| rest.iter().map(of).sum();
        all.push(Group {
            name: format!("({} others)", rest.len()),
            files: sum(|g| g.files),
            bytes: sum(|g| g.bytes),
            zero_bytes: sum(|g| g.zero_bytes),
            unique_bytes: sum(|g| g.unique_bytes),
            stored_bytes: sum(|g| g.stored_bytes),
            saved_bytes: rest.iter().map(|g| g.saved_bytes).sum(),
        });
    }
    all
}

fn answer(size: &SizeReport, compressed: &Compressed, bytes: u64) -> Answer {
    let stored = compressed.stored_bytes;
    let saved_fraction = if bytes == 0 { 0.0 } else { 1.0 - stored as f64 / bytes as f64 };
    let show = |ratio: Option<f64>| ratio.map_or("all".to_owned(), |r| format!("{r:.2}x"));
    let about = match (compressed.total_ratio_interval, compressed.total_ratio) {
        (Some(interval), Some(total)) => {
            format!("  +-{:.1} %", (interval.high - interval.low) / 2.0 / total * 100.0)
        }
        _ => String::new(),
    };
    let saved = match saved_fraction * 100.0 {
        percent if percent < -0.05 => format!("{:.1} % more than now", -percent),
        percent => format!("{:.1} % saved", percent.max(0.0)),
    };
    let line = format!(
        "dedup {}  compress {}  total {} ({saved}){about}",
        show(size.dedup_ratio),
        show(compressed.compress_ratio),
        show(compressed.total_ratio),
    );
    Answer {
        chunk_bytes: size.method.mean_bytes(),
        compression: compressed.compression.clone(),
        dedup_ratio: size.dedup_ratio,
        compress_ratio: compressed.compress_ratio,
        total_ratio: compressed.total_ratio,
        total_ratio_interval: compressed.total_ratio_interval,
        saved_fraction,
        stored_bytes: stored,
        line,
        next: String::new(),
    }
}

/// The command to run next: the rest of the work, or a pool with the settings of the answer.
fn next(report: &Report) -> String {
    if report.shard.is_some() {
        return "onefold estimate merge SHARD...".to_owned();
    }
    let mut words = vec!["onefold serve ./pool".to_owned()];
    let chunk = ByteSize(u64::from(report.answer.chunk_bytes));
    if chunk.bytes() != ChunkSize::default().bytes64() && ChunkSize::new(chunk).is_ok() {
        words.push(format!("--chunk-size {}K", chunk.bytes() >> 10));
    }
    if report.answer.compression != "lz4" {
        words.push(format!("--compression {}", report.answer.compression));
    }
    // A volume that the input fits with some air; 64 GiB is what one gets without saying so.
    let size = (report.input.bytes / 4 * 5).next_power_of_two();
    if size > 64 << 30 {
        words.push(format!("--size {}G", size >> 30));
    }
    words.join(" ")
}

impl Report {
    /// The row of the primary chunk size.
    pub fn primary(&self) -> &SizeReport {
        let method = Method::Fixed { chunk_bytes: self.primary_chunk_bytes };
        let row = self.chunk_sizes.iter().find(|row| row.method == method);
        row.expect("every report has a row for its primary size")
    }
}

#[cfg(test)]
mod tests;
