//! Whole files that are the same, and the largest files for their share of repeated chunks.
//! Room: onefold-estimate.
//! Invariants: which files are kept depends on the set of files alone: those of at least
//! `least_bytes`, the smallest power of two at which the records fit.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Bytes of a path that are kept: its end.
const PATH_BYTES_MAX: usize = 200;
/// Memory that one record may take, map and paths included.
pub(crate) const RECORD_BYTES_MAX: usize = 2 * (PATH_BYTES_MAX + 32) + 112;

/// What is known of a file's content, or of some of its segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    /// Bytes looked at.
    pub bytes: u64,
    /// Bytes in chunks of the primary size that are all zero.
    pub zero_bytes: u64,
    /// Sum over the file's blocks of their fingerprints, each weighed by its place.
    pub sum: u128,
    /// Some of it could not be read, or changed meanwhile: not comparable.
    pub is_broken: bool,
}

impl Content {
    pub(crate) fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.zero_bytes = self.zero_bytes.saturating_add(other.zero_bytes);
        self.sum = self.sum.wrapping_add(other.sum);
        self.is_broken |= other.is_broken;
    }
}

/// A file by its number and the end of its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Named {
    pub number: u32,
    pub path: String,
}

impl Named {
    pub(crate) fn new(number: u32, path: &Path) -> Self {
        let path = path.to_string_lossy();
        if path.len() <= PATH_BYTES_MAX {
            return Self { number, path: path.into_owned() };
        }
        let mut at = path.len() - (PATH_BYTES_MAX - 3);
        while !path.is_char_boundary(at) {
            at += 1;
        }
        Self { number, path: format!("...{}", &path[at..]) }
    }
}

/// All files of one content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub size: u64,
    pub sum: u128,
    pub zero_bytes: u64,
    /// How many there are.
    pub count: u64,
    /// The lowest-numbered one.
    pub first: Named,
    /// The next one.
    pub second: Option<Named>,
}

/// A file of which some segments are still to come, from other workers or other shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenFile {
    pub size: u64,
    pub name: Named,
    /// Bytes of its segments that were dealt with.
    pub planned_bytes: u64,
    pub content: Content,
}

/// The records.
pub(crate) struct FileTable {
    records: HashMap<(u64, u128), Record>,
    open: HashMap<u32, OpenFile>,
    capacity: usize,
    least_bytes: u64,
}

impl FileTable {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { records: HashMap::new(), open: HashMap::new(), capacity, least_bytes: 1 }
    }

    /// Files below this size are not kept.
    pub(crate) fn least_bytes(&self) -> u64 {
        self.least_bytes
    }

    /// All records, in no particular order.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// The files that are not complete, in no particular order.
    pub(crate) fn open_files(&self) -> impl Iterator<Item = &OpenFile> {
        self.open.values()
    }

    /// A segment of a file, or all of it.
    pub(crate) fn add_segment(&mut self, segment: OpenFile) {
        if segment.size < self.least_bytes {
            return;
        }
        if segment.planned_bytes == segment.size {
            self.close(segment);
            return;
        }
        match self.open.entry(segment.name.number) {
            MapEntry::Vacant(vacant) => {
                vacant.insert(segment);
                self.fit();
            }
            MapEntry::Occupied(mut occupied) => {
                let file = occupied.get_mut();
                file.planned_bytes = file.planned_bytes.saturating_add(segment.planned_bytes);
                file.content.add(segment.content);
                if file.planned_bytes >= file.size {
                    let file = occupied.remove();
                    self.close(file);
                }
            }
        }
    }

    fn close(&mut self, file: OpenFile) {
        if !file.content.is_broken && file.size > 0 && file.content.bytes == file.size {
            self.add(Record {
                size: file.size,
                sum: file.content.sum,
                zero_bytes: file.content.zero_bytes,
                count: 1,
                first: file.name,
                second: None,
            });
        }
    }

    /// Add the record of another table.
    pub(crate) fn add(&mut self, mut record: Record) {
        if record.size < self.least_bytes {
            return;
        }
        match self.records.entry((record.size, record.sum)) {
            MapEntry::Vacant(vacant) => {
                vacant.insert(record);
                self.fit();
            }
            MapEntry::Occupied(mut occupied) => {
                let held = occupied.get_mut();
                held.count = held.count.saturating_add(record.count);
                if record.first < held.first {
                    std::mem::swap(&mut held.first, &mut record.first);
                    std::mem::swap(&mut held.second, &mut record.second);
                }
                // Now `record` holds the later first file: the second is that or held's own.
                if held.second.as_ref().is_none_or(|second| record.first < *second) {
                    held.second = Some(record.first);
                }
            }
        }
    }

    /// Take the least size up to at least this.
    pub(crate) fn raise_to(&mut self, least_bytes: u64) {
        if least_bytes > self.least_bytes {
            self.least_bytes = least_bytes;
            self.records.retain(|&(size, _), _| size >= least_bytes);
            self.open.retain(|_, file| file.size >= least_bytes);
        }
    }

    fn fit(&mut self) {
        while self.records.len() > self.capacity || self.open.len() > self.capacity {
            self.raise_to(self.least_bytes * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u32, size: u64, sum: u128) -> OpenFile {
        let name = Named::new(number, Path::new(&format!("f{number}")));
        let content = Content { bytes: size, sum, ..Content::default() };
        OpenFile { size, name, planned_bytes: size, content }
    }

    fn table(files: &[OpenFile], capacity: usize) -> (u64, Vec<Record>) {
        let mut table = FileTable::new(capacity);
        for file in files {
            table.add_segment(file.clone());
        }
        let mut records: Vec<Record> = table.records().cloned().collect();
        records.sort_by_key(|record| (record.size, record.sum));
        (table.least_bytes(), records)
    }

    #[test]
    fn the_two_first_files_of_a_content_are_kept_in_any_order() {
        let mut files = vec![file(5, 9, 1), file(2, 9, 1), file(9, 9, 1), file(1, 9, 2)];
        for turn in 0..24 {
            files.rotate_left(1 + turn % 3);
            let (_, records) = table(&files, 10);
            assert_eq!(records.len(), 2);
            assert_eq!((records[0].count, records[0].first.number), (3, 2));
            assert_eq!(records[0].second.as_ref().unwrap().number, 5);
        }
    }

    #[test]
    fn the_smallest_files_go_when_records_run_out_and_order_does_not_matter() {
        let mut files: Vec<OpenFile> =
            (1..=300).map(|n| file(n, u64::from(n), u128::from(n))).collect();
        let forward = table(&files, 100);
        files.reverse();
        assert_eq!(table(&files, 100), forward);
        assert_eq!(forward.0, 256);
        assert_eq!(forward.1.len(), 45);
    }

    #[test]
    fn files_of_the_least_size_are_kept_and_smaller_ones_are_not() {
        let mut table = FileTable::new(10);
        table.raise_to(256);
        table.raise_to(64);
        assert_eq!(table.least_bytes(), 256);
        for (number, size) in [(1, 255), (2, 256), (3, 257)] {
            table.add_segment(file(number, size, 1));
            table.add_segment(OpenFile { planned_bytes: 9, ..file(10 + number, size, 1) });
        }
        let mut kept: Vec<u64> = table.records().map(|record| record.size).collect();
        let mut open: Vec<u32> = table.open_files().map(|file| file.name.number).collect();
        kept.sort_unstable();
        open.sort_unstable();
        assert_eq!((kept.as_slice(), open.as_slice()), (&[256, 257][..], &[12, 13][..]));
        table.raise_to(257);
        assert_eq!((table.records().count(), table.open_files().count()), (1, 1));
        let record = |size| Record { size, ..table.records().next().unwrap().clone() };
        let (small, fits) = (record(256), record(300));
        table.add(small);
        table.add(fits);
        assert_eq!(table.records().count(), 2);
        // Neither an empty file nor one of which bytes are missing is compared.
        let mut table = FileTable::new(10);
        table.add_segment(file(1, 0, 0));
        let mut short = file(2, 9, 0);
        short.content.bytes = 8;
        table.add_segment(short);
        assert_eq!(table.records().count(), 0);
        for number in 0..10 {
            table.add_segment(file(number, 1 + u64::from(number), 0));
        }
        assert_eq!((table.least_bytes(), table.records().count()), (1, 10), "ten fit");
    }

    #[test]
    fn segments_in_any_order_make_a_file_and_a_broken_one_makes_none() {
        let segment = |bytes: u64, sum, is_broken| OpenFile {
            size: 30,
            name: Named::new(4, Path::new("big")),
            planned_bytes: 10,
            content: Content { bytes, zero_bytes: 1, sum, is_broken },
        };
        let parts = [segment(10, 1, false), segment(10, 2, false), segment(10, 4, false)];
        let (_, records) = table(&parts, 10);
        assert_eq!((records[0].size, records[0].sum, records[0].zero_bytes), (30, 7, 3));
        let parts = [segment(10, 1, false), segment(4, 2, true), segment(10, 4, false)];
        assert_eq!(table(&parts, 10).1, []);
    }

    #[test]
    fn long_paths_keep_their_end() {
        let long = format!("/start/{}/end", "\u{e9}".repeat(300));
        let name = Named::new(0, Path::new(&long));
        assert!(name.path.len() <= PATH_BYTES_MAX && name.path.starts_with("..."));
        assert!(name.path.ends_with("/end"));
        // One byte each: 200 are kept whole, of 201 the last 197.
        let (fits, more) = ("f".repeat(200), "m".repeat(201));
        assert_eq!(Named::new(0, Path::new(&fits)).path, fits);
        assert_eq!(Named::new(0, Path::new(&more)).path, format!("...{}", "m".repeat(197)));
    }

    #[test]
    fn files_that_are_still_to_be_completed_take_no_more_records_than_there_are() {
        let mut table = FileTable::new(100);
        for number in 1..=300 {
            let size = u64::from(number);
            let part = OpenFile { planned_bytes: 0, ..file(number, size, 1) };
            table.add_segment(part);
            let open: Vec<u64> = table.open_files().map(|open| open.size).collect();
            assert!(open.len() <= 100, "{} after {number}", open.len());
            assert!(open.iter().all(|&size| size >= table.least_bytes()), "{open:?}");
        }
        assert_eq!((table.least_bytes(), table.open_files().count()), (256, 45));
    }
}
