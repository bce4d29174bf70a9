//! Files that are long holes: what is in their chunks is known without them.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use onefold_archive::tree::restore::{RestoreOptions, read_file, restore};
use onefold_archive::tree::scan::{Root, ScanOptions, add_trees};
use onefold_archive::{AddOptions, Archive, ArchiveSettings};
use onefold_block::SplitMix64;

use crate::support::{new_archive, small};

/// An archive of one file of so many bytes, a hole but for its beginning and its end.
fn with_hole(settings: &ArchiveSettings, len: u64) -> (Archive, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let file = fs::File::create(dir.path().join("file")).unwrap();
    let data = SplitMix64::new(1).bytes(5000);
    file.set_len(len).unwrap();
    for at in [0, len - 5000] {
        file.write_all_at(&data, at).unwrap();
    }
    let (_, mut archive) = new_archive(settings);
    let options = AddOptions { index_bytes: 1 << 20, ..AddOptions::default() };
    let mut adder = archive.add(options).unwrap();
    let root = Root { path: dir.path().to_path_buf(), stored: Vec::new() };
    add_trees(&mut adder, &[root], &ScanOptions::default(), &mut |_| true).unwrap();
    adder.commit().unwrap();
    (archive, data)
}

#[test]
fn a_long_hole_is_restored_as_a_hole_without_reading_its_chunks() {
    let len = 1 << 38;
    let (archive, data) = with_hole(&ArchiveSettings::default(), len);
    let version = archive.version(None).unwrap();
    let out = tempfile::tempdir().unwrap();
    // An area that holds a few chunks: each turn of it would read their container again.
    let options =
        RestoreOptions { sparse: true, assembly_bytes: 1 << 20, ..RestoreOptions::default() };
    let report = restore(&archive, &version, &[], out.path(), &options, &mut |_| true).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.totals.bytes, len);
    let totals = report.totals;
    assert!(totals.container_reads < 10 && totals.read_bytes < 10 << 20, "{totals:?}");
    let file = fs::File::open(out.path().join("file")).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.len(), len);
    assert!(metadata.blocks() * 512 < 10 << 20, "{}", metadata.blocks());
    for (at, expected) in [(0, &data[..]), (len - 5000, &data), (len / 2, &[0; 5000])] {
        let mut found = vec![1; 5000];
        file.read_exact_at(&mut found, at).unwrap();
        assert!(found == expected, "at {at}");
    }
}

#[test]
fn zeroes_that_are_not_read_are_handed_out_and_written_all_the_same() {
    let len = 3_000_000;
    let (archive, data) = with_hole(&small(), len);
    let version = archive.version(None).unwrap();
    let expected = [&data[..], &vec![0; len as usize - 10_000], &data].concat();
    let mut found = Vec::new();
    let entry = version.find(b"file").unwrap();
    let totals = read_file(&archive, &version, &entry, 1 << 20, &mut |piece| {
        found.extend_from_slice(piece);
        Ok(())
    });
    let totals = totals.unwrap();
    assert!(found == expected && totals.bytes == len);
    assert!(totals.read_bytes < 100_000, "{totals:?}");
    for sparse in [false, true] {
        let out = tempfile::tempdir().unwrap();
        let options = RestoreOptions { sparse, ..RestoreOptions::default() };
        let report = restore(&archive, &version, &[], out.path(), &options, &mut |_| true).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        assert!(fs::read(out.path().join("file")).unwrap() == expected, "{sparse}");
        let blocks = fs::metadata(out.path().join("file")).unwrap().blocks();
        assert_eq!(blocks * 512 < len / 2, sparse, "{blocks}");
    }
}
