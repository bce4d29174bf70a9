//! Scans of real files, against chunks cut by hand.
//! Room: onefold-workload.

use std::fs;

use onefold_block::SplitMix64;
use onefold_content::{ChunkSizes, Chunker, FastCdc, FingerprintKind, Fingerprinter, FixedChunker};
use onefold_workload::Identity;
use onefold_workload::scan::{ScannedChunk, scan};

fn fixed(size: usize) -> Chunker {
    Chunker::Fixed(FixedChunker::new(size).expect("a good size"))
}

fn scanned(path: &std::path::Path, chunker: &Chunker) -> Vec<ScannedChunk> {
    let mut found = Vec::new();
    let report = scan(path, chunker, |chunk| found.push(chunk)).expect("readable");
    assert_eq!(report.chunks, found.len() as u64);
    assert_eq!(report.bytes, found.iter().map(|chunk| chunk.len as u64).sum::<u64>());
    found
}

#[test]
fn an_image_is_cut_as_its_bytes_are() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    // More than two read buffers, and no whole number of chunks.
    let data = SplitMix64::new(1).bytes((2 << 20) + 777);
    fs::write(&image, &data).unwrap();
    let sizes = ChunkSizes::new(2048, 8192, 65_536).unwrap();
    for chunker in [fixed(4096), fixed(5000), fixed(3 << 20), Chunker::FastCdc(FastCdc::new(sizes))]
    {
        let mut cuts = Vec::new();
        let mut by_hand = chunker.clone();
        by_hand.push(&data, |cut| cuts.push(cut));
        cuts.extend(by_hand.finish());
        let hash = Fingerprinter::new(FingerprintKind::Blake3);
        let expected = cuts.into_iter().map(|cut| {
            let bytes = &data[cut.offset as usize..][..cut.len];
            let identity = Identity::of_fingerprint(&hash.hash(bytes));
            ScannedChunk { file: 0, offset: cut.offset, len: cut.len, identity }
        });
        assert_eq!(scanned(&image, &chunker), expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_tree_is_read_in_order_and_links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("b/deep")).unwrap();
    fs::write(root.join("c"), [3; 100]).unwrap();
    fs::write(root.join("b/deep/x"), [1; 5000]).unwrap();
    fs::write(root.join("a"), [1; 4096]).unwrap();
    fs::write(root.join("empty"), []).unwrap();
    std::os::unix::fs::symlink("a", root.join("link")).unwrap();
    std::os::unix::fs::symlink(".", root.join("loop")).unwrap();
    let chunks = scanned(root, &fixed(4096));
    let shape: Vec<_> = chunks.iter().map(|chunk| (chunk.file, chunk.offset, chunk.len)).collect();
    assert_eq!(shape, [(0, 0, 4096), (1, 0, 4096), (1, 4096, 904), (2, 0, 100)]);
    assert_eq!(chunks[0].identity, chunks[1].identity);
    let report = scan(root, &fixed(4096), |_| ()).unwrap();
    assert_eq!((report.files, report.links, report.unreadable), (4, 2, 0));
    let error = scan(&root.join("missing"), &fixed(4096), |_| ()).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}
