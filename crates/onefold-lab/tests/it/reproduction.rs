//! Same results on any threads, data and traces of the user, names, and files of what is to come.
//! Room: onefold-lab.

use std::fs;
use std::path::{Path, PathBuf};

use onefold_lab::{At, EXPERIMENTS, Kind, Options, Outcome, Row, find, sweep};

use crate::outcomes::{measured, outcome, rows};

/// A quick experiment of each kind of simulation. All spread their runs over threads by
/// `Settings::sweep`; `ONEFOLD_EXPERIMENTS=all` repeats each of them.
const REPEATED: [&str; 8] = [
    "beyond/cache-wear",
    "beyond/collisions",
    "beyond/host-cost",
    "cidr/profile",
    "fidr/chunk-size",
    "plc-cache/fig-6-8",
    "plc-cache/fig-9",
    "ses-dedup/table-3",
];

#[test]
fn one_thread_gives_what_many_give() {
    let alone = Options { threads: 1, ..Options::default() };
    let run = |outcome: &&Outcome| find(outcome.id).unwrap()[0].run(&alone).unwrap();
    let all = std::env::var("ONEFOLD_EXPERIMENTS").is_ok_and(|dose| dose == "all");
    let every = EXPERIMENTS.iter().map(|experiment| experiment.id);
    let ids = if all { every.collect() } else { REPEATED.to_vec() };
    let outcomes: Vec<&Outcome> = ids.into_iter().map(outcome).collect();
    // Each experiment has one thread, and several of them run at a time.
    let again = sweep(&outcomes, 0, run, &|_, _| {});
    for (outcome, other) in outcomes.iter().zip(again) {
        assert_eq!(outcome.series, other.series);
        assert_eq!(outcome.claims, other.claims);
    }
}

/// What was found to be called more than it is stays called by its name.
#[test]
fn numbers_that_cannot_fail_are_not_called_predicted() {
    let kind = |id: &str, name: &str| {
        let named = |row: &&Row<'_>| row.point.published.as_ref().is_some_and(|p| p.id == name);
        rows(id).iter().find(named).unwrap_or_else(|| panic!("{id}: no {name}")).point.kind
    };
    for (id, name, expected) in [
        ("ses-dedup/fig-2", "ses-dedup-099", Kind::Calibrated),
        ("ses-dedup/fig-2", "ses-dedup-098", Kind::Calibrated),
        ("ses-dedup/fig-4", "ses-dedup-100", Kind::Calibrated),
        ("ses-dedup/table-4", "ses-dedup-046", Kind::Calibrated),
        ("ses-dedup/table-4", "ses-dedup-047", Kind::Derived),
        ("ses-dedup/table-4", "ses-dedup-088", Kind::Derived),
        ("park-shin/fig-3", "park-shin-113", Kind::Calibrated),
        ("plc-cache/fig-6-8", "plc-cache-205", Kind::Derived),
        ("plc-cache/arithmetic", "plc-cache-198", Kind::Derived),
    ] {
        assert_eq!(kind(id, name), expected, "{id} {name}");
    }
    // The claim is of all flash, not of the one that was fitted.
    let most = "most that SHA-256 costs on any flash";
    assert!(measured("ses-dedup/fig-2", most, "no duplicates", "", ()) > 40.0);
}

#[test]
fn data_of_the_user_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    let mut data = vec![0; 64 << 10];
    for (at, byte) in data.iter_mut().enumerate() {
        *byte = (at >> 13) as u8 & 3;
    }
    fs::write(&file, data).unwrap();
    // What is generated beside them need not be much.
    let set = vec![("units".to_owned(), 4096.into())];
    let options = Options { data: vec![file], set, ..Options::default() };
    let outcome = find("ses-dedup/fig-1").unwrap()[0].run(&options).unwrap();
    let real = outcome.rows().filter(|row| row.point.note == "data of the user");
    let shares: Vec<f64> = real.filter_map(|row| row.point.measured).collect();
    // 16 pages of 4 KiB with 4 contents, 8 of 8 KiB with 4, 4 of 16 KiB with 2, 2 equal halves.
    assert_eq!(shares, [75.0, 50.0, 50.0, 50.0, 0.0, 0.0]);
}

/// Lines as those of FIU: a write of 4 KiB, one of 8 KiB beside it, the first once more somewhere
/// else, and a read.
fn fiu_lines() -> String {
    let line = |at: u64, sector: u64, sectors: u64, kind: char, digests: &str| {
        format!("{at} 4892 syslogd {sector} {sectors} {kind} 6 0 {digests}\n")
    };
    let digest = |page: u8| format!("{page:02x}").repeat(16);
    line(10, 640, 8, 'W', &digest(1))
        + &line(20, 6400, 16, 'W', &(digest(2) + &digest(3)))
        + &line(30, 64_000, 8, 'W', &digest(1))
        + &line(40, 640, 8, 'R', &digest(1))
}

#[test]
fn fiu_traces_of_the_user_stand_beside_isolated_writes() {
    let experiment = find("fidr/chunk-size").unwrap()[0];
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mail.blkparse"), fiu_lines()).unwrap();
    fs::write(folder.path().join("notes.txt"), "no trace").unwrap();
    fs::create_dir(folder.path().join("older")).unwrap();
    let drives = "bytes at drives for each that a client writes";
    let of = |data: Vec<PathBuf>, end: &str| -> Vec<(At, Option<f64>, String)> {
        let outcome = experiment.run(&Options { data, ..Options::default() }).unwrap();
        let named = |row: &Row<'_>| {
            let line = &row.series.line;
            line.quantity.name == drives && line.of.ends_with(end)
        };
        let rows = outcome.rows().filter(named);
        rows.map(|row| (row.point.at.clone(), row.point.measured, row.point.note.clone())).collect()
    };
    // Of 16 KiB of clients, three requests read and write the rest of a chunk each: 2 x 32 KiB / 16
    // KiB times 3. The second and the third chunk of 4 KiB need no reading.
    let new = of(vec![folder.path().to_owned()], "mail.blkparse, all chunks new");
    let at = |kib: u64| new.iter().find(|row| row.0 == kib.into()).unwrap().1.unwrap();
    assert_eq!((new.len(), at(4), at(32)), (5, 1.0, 12.0), "{new:?}");
    // Of four pages of 4 KiB one was there.
    let once = of(vec![folder.path().join("mail.blkparse")], ", duplicates once");
    assert_eq!(once[0].1, Some(0.75), "{once:?}");
    assert!(once.iter().all(|row| row.2 == "writes of a trace of the user"));
    // Without one the row says so, and what is no trace changes nothing.
    for data in [vec![], vec![folder.path().join("notes.txt")]] {
        let outcome = experiment.run(&Options { data, ..Options::default() }).unwrap();
        let row = outcome.rows().find(|row| row.series.line.of == "FIU traces").unwrap();
        assert!(row.point.measured.is_none() && row.point.note.contains("--data FILE"));
    }
    // Damage is named with its line, behind what tells the format.
    let damaged = fiu_lines().repeat(500) + "50 4892 syslogd x\n";
    fs::write(folder.path().join("mail.blkparse"), damaged).unwrap();
    let data = vec![folder.path().to_owned()];
    let error = experiment.run(&Options { data, ..Options::default() }).unwrap_err().to_string();
    assert!(error.contains("mail.blkparse': line 2001"), "{error}");
    let data = vec![folder.path().join("gone")];
    let error = experiment.run(&Options { data, ..Options::default() }).unwrap_err().to_string();
    assert!(error.contains("gone'"), "{error}");
}

#[test]
fn names_select_one_experiment_or_all_that_begin_with_it() {
    assert_eq!(find("ses-dedup/fig-1").unwrap().len(), 1);
    for group in ["ses-dedup", "plc", "beyond", "ses-dedup/fig"] {
        let found = find(group).unwrap();
        assert!(found.len() >= 2 && found.iter().all(|e| e.id.starts_with(group)), "{group}");
    }
    for nothing in ["dedup", ""] {
        let error = find(nothing).unwrap_err().to_string();
        let expected = format!("no experiment `{nothing}`: expected ses-dedup, ");
        assert!(error.starts_with(&expected), "{error}");
    }
    let error = find("ses-dedup/fig2").unwrap_err().to_string();
    assert!(error.ends_with("did you mean `ses-dedup/fig-2`?"), "{error}");
    // A letter that is missing is no wish for something else.
    let error = find("beyond/gleaner-hostil").unwrap_err().to_string();
    assert!(error.ends_with("did you mean `beyond/gleaner-hostile`?"), "{error}");
    let mut ids: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), EXPERIMENTS.len());
}

/// Published files of experiments that are still to come are well-formed already.
#[test]
fn every_published_file_is_readable() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut seen = 0;
    for paper in fs::read_dir(root).unwrap() {
        let paper = paper.unwrap().path();
        for folder in fs::read_dir(&paper).unwrap().filter(|_| paper.is_dir()) {
            let file = folder.unwrap().path().join("published.toml");
            if let Ok(text) = fs::read_to_string(&file) {
                let id = file.display().to_string();
                let read = onefold_lab::Published::parse(&id, &text);
                assert!(read.is_ok(), "{read:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > EXPERIMENTS.len());
}
