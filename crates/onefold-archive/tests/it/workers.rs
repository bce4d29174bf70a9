//! Several workers: what is read and found, and how often containers are turned to, is the same.

use onefold_archive::tree::restore::read_file;
use onefold_archive::{Archive, ReadTotals, VerifyReport};
use onefold_block::{Folder as _, SplitMix64};

use crate::support::{add, damage, names, new_archive, next, open, small, tree};

/// The smallest area has a quarter of two of the small containers, this one of a dozen.
const AREA_BYTES: u64 = 6 << 20;

/// The contents of files, or why they cannot be had.
type Files = Vec<Result<Vec<u8>, String>>;

/// All files of all versions, what reading them took, and what is found.
fn everything(archive: &Archive) -> (Files, Vec<ReadTotals>, VerifyReport) {
    let (mut files, mut totals) = (Vec::new(), Vec::new());
    for number in archive.versions().map(|info| info.number) {
        let version = archive.version(Some(number)).unwrap();
        for entry in (0..version.len()).map(|index| version.entry(index).unwrap()) {
            let mut bytes = Vec::new();
            let read = read_file(archive, &version, &entry, AREA_BYTES, &mut |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            });
            totals.extend(read.as_ref().ok());
            files.push(read.map(|_| bytes).map_err(|error| error.to_string()));
        }
    }
    (files, totals, archive.verify(&mut |_, _| true).unwrap())
}

#[test]
fn any_number_of_workers_reads_and_finds_the_same() {
    let (folder, mut archive) = new_archive(&small());
    let mut random = SplitMix64::new(61);
    let mut now = tree(&mut random, 12, 900_000);
    for _ in 0..3 {
        now = next(&now, &mut random);
        add(&mut archive, &now).unwrap();
    }
    drop(archive);
    for round in 0..4 {
        // The first round is of sound containers.
        let containers = names(&folder, "containers");
        for _ in 0..round {
            let name = &containers[random.below(containers.len() as u64) as usize];
            let len = folder.subfolder("containers").unwrap().open(name).unwrap().len().unwrap();
            damage(&folder, &format!("containers/{name}"), random.below(len));
        }
        let mut archive = open(&folder);
        let (files, totals, report) = everything(&archive);
        assert_eq!(report.is_sound(), round == 0);
        assert_eq!(files.iter().all(Result::is_ok), round == 0);
        let mut by_workers = Vec::new();
        for workers in [2, 3, 8] {
            archive.set_workers(workers);
            let (same_files, some_totals, same_report) = everything(&archive);
            assert!(same_files == files, "{workers} workers, round {round}");
            assert_eq!(same_report, report, "{workers} workers, round {round}");
            let bytes = |totals: &[ReadTotals]| -> Vec<u64> {
                totals.iter().map(|totals| totals.bytes).collect()
            };
            assert_eq!(bytes(&some_totals), bytes(&totals));
            by_workers.push(some_totals);
        }
        // Who is how quick decides nothing.
        assert!(by_workers.windows(2).all(|two| two[0] == two[1]), "round {round}");
    }
}

#[test]
fn verifying_with_several_workers_stops_when_it_is_told_to() {
    let (_, mut archive) = new_archive(&small());
    add(&mut archive, &tree(&mut SplitMix64::new(62), 12, 300_000)).unwrap();
    archive.set_workers(4);
    let mut told = Vec::new();
    let stopped = archive.verify(&mut |done, total| {
        told.push((done, total));
        told.len() < 3
    });
    assert!(matches!(stopped, Err(onefold_archive::ArchiveError::Interrupted)));
    let (first, total) = told[0];
    assert!(first == 0 && told.len() == 3 && told.is_sorted() && told[2].0 < total, "{told:?}");
}
