//! Capping and HAR: fewer containers to read, for some space.

use onefold_archive::tree::restore::read_file;
use onefold_archive::{
    AddOptions, Archive, Assembled, Assembly, ReadTotals, Rewriting, SEGMENT_CHUNKS,
};
use onefold_block::SplitMix64;
use std::collections::HashSet;

use crate::support::{Tree, add_with, assert_sound, new_archive, read, small};

/// Twenty versions of one file in which a twentieth is replaced each time, at random places.
fn versions() -> Vec<Tree> {
    let mut random = SplitMix64::new(42);
    let mut data = random.bytes(1_500_000);
    let mut trees = Vec::new();
    for _ in 0..20 {
        trees.push([(b"f".to_vec(), Some(data.clone()))].into());
        for _ in 0..25 {
            let at = random.below(data.len() as u64 - 3000) as usize;
            let fresh = random.bytes(3000);
            data[at..at + 3000].copy_from_slice(&fresh);
        }
    }
    trees
}

fn restore_last(archive: &Archive) -> ReadTotals {
    let version = archive.version(None).unwrap();
    let entry = version.find(b"f").unwrap();
    read_file(archive, &version, &entry, 1 << 20, &mut |_| Ok(())).unwrap()
}

fn all_with(rewriting: Rewriting) -> (Archive, u64) {
    let (_, mut archive) = new_archive(&small());
    for tree in versions() {
        let options = AddOptions { rewriting, index_bytes: 1 << 22, ..AddOptions::default() };
        add_with(&mut archive, &tree, options).unwrap();
    }
    assert_sound(&archive, "after rewriting");
    let stored = archive.versions().map(|info| info.totals.stored_bytes).sum();
    (archive, stored)
}

#[test]
fn rewriting_trades_space_for_fewer_container_reads() {
    let trees = versions();
    let (plain, plain_stored) = all_with(Rewriting::default());
    let (capped, capped_stored) = all_with(Rewriting { cap: Some(8), har: false });
    let (har, har_stored) = all_with(Rewriting { cap: None, har: true });
    for archive in [&plain, &capped, &har] {
        assert!(read(archive, 20).unwrap() == trees[19]);
    }
    let [plain, capped, har] = [&plain, &capped, &har].map(restore_last);
    let told = format!("{plain:?} {capped:?} {har:?}");
    assert!(capped.speed_factor() > plain.speed_factor() * 1.2, "{told}");
    assert!(har.speed_factor() > plain.speed_factor() * 1.1, "{told}");
    assert!(capped_stored > plain_stored && har_stored > plain_stored);
}

#[test]
fn no_segment_refers_to_more_old_containers_than_the_cap() {
    let cap = 5;
    let (archive, _) = all_with(Rewriting { cap: Some(cap), har: false });
    let mut before: HashSet<_> = HashSet::new();
    for number in 1..=20 {
        let version = archive.version(Some(number)).unwrap();
        let entry = version.find(b"f").unwrap();
        let chunks: Vec<_> = version.chunks(entry.recipe).map(Result::unwrap).collect();
        for segment in chunks.chunks(SEGMENT_CHUNKS) {
            let old: HashSet<_> = segment
                .iter()
                .map(|chunk| chunk.container)
                .filter(|container| before.contains(container))
                .collect();
            assert!(old.len() <= cap as usize, "version {number}: {} containers", old.len());
        }
        before.extend(chunks.iter().map(|chunk| chunk.container));
    }
}

#[test]
fn a_larger_area_reads_no_more_and_gives_the_same_bytes() {
    let (archive, _) = all_with(Rewriting::default());
    let version = archive.version(None).unwrap();
    let entry = version.find(b"f").unwrap();
    let distinct: HashSet<_> =
        version.chunks(entry.recipe).map(|chunk| chunk.unwrap().container).collect();
    let mut last = u64::MAX;
    for budget in [1 << 20, 5 << 18, 6 << 18, 1 << 21, 1 << 22] {
        let totals = read_file(&archive, &version, &entry, budget, &mut |_| Ok(())).unwrap();
        assert!(totals.container_reads <= last, "{budget}");
        assert_eq!(totals.bytes, entry.recipe.size);
        last = totals.container_reads;
    }
    assert_eq!(last, distinct.len() as u64, "an area for all reads each container once");
}

#[test]
fn the_area_is_as_large_after_everything_left_it() {
    let (archive, _) = all_with(Rewriting::default());
    let version = archive.version(None).unwrap();
    let entry = version.find(b"f").unwrap();
    let mut assembly = Assembly::new(&archive, 0);
    let (mut marks, mut chunks) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut count = 0;
        while assembly.has_room() {
            assembly.push_mark(());
            count += 1;
        }
        marks.push(count);
        while assembly.pop().is_some() {}
        count = 0;
        for chunk in version.chunks(entry.recipe) {
            if !assembly.has_room() {
                break;
            }
            assembly.push_chunk(chunk);
            count += 1;
        }
        chunks.push(count);
        while assembly.pop().is_some() {}
    }
    assert!(marks[0] > 1000 && chunks[0] > 100, "{marks:?} {chunks:?}");
    assert!(marks[0] == marks[1] && chunks[0] == chunks[1], "{marks:?} {chunks:?}");
}

#[test]
fn what_is_stored_for_the_first_time_is_not_counted_as_stored_again() {
    let (plain, _) = all_with(Rewriting::default());
    assert!(plain.versions().all(|info| info.totals.rewritten_bytes == 0));
    let (capped, _) = all_with(Rewriting { cap: Some(8), har: false });
    for info in capped.versions() {
        let totals = &info.totals;
        assert!(totals.rewritten_bytes <= totals.new_bytes, "{totals:?}");
        assert!(info.number > 1 || totals.rewritten_bytes == 0, "{totals:?}");
    }
    assert!(capped.versions().any(|info| info.totals.rewritten_bytes > 0));
}

#[test]
fn marks_come_out_where_they_were_put_in() {
    let (archive, _) = all_with(Rewriting::default());
    let version = archive.version(None).unwrap();
    let entry = version.find(b"f").unwrap();
    let mut assembly = Assembly::new(&archive, 1 << 20);
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    let mut random = SplitMix64::new(1);
    for (number, chunk) in version.chunks(entry.recipe).enumerate() {
        if random.below(3) == 0 {
            assembly.push_mark(number);
            expected.push((number, None));
        }
        let chunk = chunk.unwrap();
        expected.push((0, Some(chunk.len as usize)));
        assembly.push_chunk(Ok(chunk));
        while random.below(4) == 0 {
            match assembly.pop() {
                Some(Assembled::Mark(mark)) => found.push((mark, None)),
                Some(Assembled::Chunk(data)) => found.push((0, Some(data.unwrap().len()))),
                None => break,
            }
        }
    }
    while let Some(next) = assembly.pop() {
        match next {
            Assembled::Mark(mark) => found.push((mark, None)),
            Assembled::Chunk(data) => found.push((0, Some(data.unwrap().len()))),
        }
    }
    assert!(found == expected);
}
