//! Container accesses of file reads.

use onefold_archive::{ArchiveError, ContainerAccess, zipf_order};
use onefold_block::{ContainerId, SplitMix64};
use onefold_sim::Ratio;
use std::collections::{HashMap, HashSet};

use onefold_workload::{Op, Request};

use crate::support::{Tree, add, new_archive, small, tree};

#[test]
fn a_file_read_touches_each_of_its_containers_once_in_order() {
    let (_, mut archive) = new_archive(&small());
    add(&mut archive, &tree(&mut SplitMix64::new(1), 20, 300_000)).unwrap();
    let version = archive.version(None).unwrap();
    let files = version.files_with_content().unwrap();
    assert_eq!(files.len(), 21);
    for &file in &files {
        let entry = version.entry(file as usize).unwrap();
        let mut plain: Vec<ContainerId> = Vec::new();
        for chunk in version.chunks(entry.recipe) {
            let id = chunk.unwrap().container;
            if !plain.contains(&id) {
                plain.push(id);
            }
        }
        assert_eq!(version.containers_of(file).unwrap(), plain);
    }
    let mut accesses: Vec<ContainerAccess> = Vec::new();
    let order = zipf_order(&files, Ratio::new(9, 10).unwrap(), 7).unwrap().take(500);
    version
        .container_accesses(order, |access| {
            accesses.push(access);
            Ok::<_, ArchiveError>(())
        })
        .unwrap();
    assert_eq!(accesses.last().map(|access| access.read), Some(499));
    let mut reads: HashMap<u32, u64> = HashMap::new();
    for access in &accesses {
        *reads.entry(access.entry).or_default() += 1;
    }
    let again: Vec<u32> =
        zipf_order(&files, Ratio::new(9, 10).unwrap(), 7).unwrap().take(500).collect();
    let mut counts = HashMap::new();
    for file in &again {
        *counts.entry(*file).or_insert(0_u64) += 1;
    }
    for (file, count) in counts {
        let containers = version.containers_of(file).unwrap().len() as u64;
        assert_eq!(reads[&file], count * containers);
    }
    // Which files are popular is drawn: neither the first of the tree nor the same for each seed.
    let favourites: Vec<u32> = (0..20)
        .map(|seed| {
            let order = zipf_order(&files, Ratio::new(3, 2).unwrap(), seed).unwrap();
            let mut reads: HashMap<u32, u64> = HashMap::new();
            order.take(300).for_each(|file| *reads.entry(file).or_default() += 1);
            *reads.iter().max_by_key(|(_, count)| **count).unwrap().0
        })
        .collect();
    assert!(favourites.iter().collect::<HashSet<_>>().len() > 5, "{favourites:?}");
    let request = accesses[0].request(2 << 20);
    assert_eq!(request.offset, u64::from(accesses[0].container.get()) * (2 << 20));
    assert!(zipf_order(&[], Ratio::new(1, 1).unwrap(), 1).is_err());
}

#[test]
fn an_access_is_a_request_for_its_whole_container() {
    let access = ContainerAccess { read: 3, entry: 9, container: ContainerId::new(5) };
    let expected = Request {
        time_ns: 3_000_000,
        op: Op::Read,
        offset: 5000,
        length: 1000,
        identity: None,
        stream: None,
        pid: None,
        deduplicate: None,
    };
    assert_eq!(access.request(1000), expected);
}

#[test]
fn files_without_content_and_what_is_no_file_are_not_read() {
    let (_, mut archive) = new_archive(&small());
    let content = SplitMix64::new(2).bytes(400_000);
    let tree = Tree::from([
        (b"a".to_vec(), None),
        (b"a/empty".to_vec(), Some(Vec::new())),
        (b"a/tiny".to_vec(), Some(b"x".to_vec())),
        (b"b".to_vec(), Some(content)),
    ]);
    add(&mut archive, &tree).unwrap();
    let version = archive.version(None).unwrap();
    assert_eq!(version.files_with_content().unwrap(), [2, 3]);
    let mut told = Vec::new();
    let accesses = version.container_accesses([3, 2, 3].into_iter(), |access| {
        told.push((access.read, access.entry, access.container.get()));
        if told.len() < 6 { Ok(()) } else { Err(ArchiveError::Interrupted) }
    });
    assert!(matches!(accesses, Err(ArchiveError::Interrupted)));
    let expected = [(0, 3, 1), (0, 3, 2), (0, 3, 3), (0, 3, 4), (1, 2, 1), (2, 3, 1)];
    assert_eq!(told, expected);
}
