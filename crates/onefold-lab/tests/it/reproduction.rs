//! What the page says is what comes out, and nothing that a paper prints is left out of it.
//! Room: onefold-lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use onefold_lab::plot::palette;
use onefold_lab::report;
use onefold_lab::{At, EXPERIMENTS, Kind, Options, Outcome, Row, Settings, find, sweep};

/// All experiments on many threads, once for all tests.
pub fn outcomes() -> &'static [Outcome] {
    static OUTCOMES: OnceLock<Vec<Outcome>> = OnceLock::new();
    OUTCOMES.get_or_init(|| {
        let options = Options { threads: 7, ..Options::default() };
        EXPERIMENTS.iter().map(|experiment| experiment.run(&options).unwrap()).collect()
    })
}

/// All numbers of an experiment, with what they are of.
pub fn rows(id: &str) -> Vec<Row<'static>> {
    let found = outcomes().iter().find(|outcome| outcome.id == id);
    found.unwrap_or_else(|| panic!("no experiment {id}")).rows().collect()
}

/// The number of a quantity, of someone, under something, at a place.
pub fn measured(id: &str, quantity: &str, of: &str, setting: &str, at: impl Into<At>) -> f64 {
    let at = at.into();
    let rows = rows(id);
    let mut found = rows.iter().filter(|row| {
        let line = &row.series.line;
        (line.quantity.name.as_str(), line.of.as_str(), line.setting.as_str())
            == (quantity, of, setting)
            && row.point.at == at
    });
    let point = found.next().and_then(|row| row.point.measured);
    point.unwrap_or_else(|| panic!("{id}: no {quantity} of {of}, {setting}, at {at:?}"))
}

/// Compare with a file of the repository; `ONEFOLD_UPDATE=1` writes it instead.
fn assert_is_file(path: &Path, text: &str) {
    if std::env::var_os("ONEFOLD_UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    let stale = "is stale; ONEFOLD_UPDATE=1 cargo test -p onefold-lab writes it anew";
    for (line, (a, b)) in expected.lines().zip(text.lines()).enumerate() {
        assert_eq!(a, b, "{} line {} {stale}", path.display(), line + 1);
    }
    assert_eq!(expected, text, "{} {stale}", path.display());
}

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

#[test]
fn the_page_and_its_charts_are_fresh() {
    assert_is_file(&docs("reproduction.md"), &report::page(outcomes()).unwrap());
    for outcome in outcomes() {
        for (name, chart) in outcome.charts() {
            assert!(chart.numbers() > 1, "{name} shows nothing");
            assert_is_file(&docs(&format!("plots/{name}.svg")), &chart.svg());
        }
    }
}

/// The quickest experiments, which have among them lists, tables of both ways round, notes, charts
/// of both styles, statements, reasons and inputs.
const QUICKEST: [&str; 7] = [
    "ses-dedup/arithmetic",
    "plc-cache/table-1",
    "plc-cache/fig-13-15",
    "cidr/profile",
    "fidr/chunk-size",
    "fidr/cost",
    "beyond/collisions",
];

/// What a page says about each of these: its lines of the overview, its chapter and its section.
fn said_of(page: &str) -> Vec<(&str, Vec<&str>, &str)> {
    let (overview, papers) = page.split_once("\n## SES-Dedup\n").unwrap();
    let of = |id: &'static str| {
        let row = format!("| [{id}](#");
        let rows = overview.lines().filter(|line| line.starts_with(&row)).collect();
        let section = papers.split("\n### ").find(|part| part.contains(&format!("\n`{id}`\n")));
        let section = section.unwrap_or_else(|| panic!("no section {id}"));
        let end = ["\n<details><summary>Inputs", "\n## "].map(|next| section.find(next));
        let end = end.into_iter().flatten().min().unwrap_or(section.len());
        let before = &page[..page.find(&format!("\n`{id}`\n")).unwrap()];
        let chapter = before.rsplit("\n## ").next().and_then(|chapter| chapter.lines().next());
        (chapter.unwrap(), rows, &section[..end])
    };
    QUICKEST.map(of).into()
}

/// The page's writing and drawing are held in a moment; what the others find is in the whole page.
#[test]
fn the_quickest_experiments_stand_in_the_page_and_its_charts_as_they_come_out() {
    let run = |id: &&str| find(id).unwrap()[0].run(&Options::default()).unwrap();
    let outcomes: Vec<Outcome> = QUICKEST.iter().map(run).collect();
    let (ours, kept) =
        (report::page(&outcomes).unwrap(), fs::read_to_string(docs("reproduction.md")));
    let kept = kept.unwrap();
    let front = |page: &str| page.split("\n| experiment |").next().unwrap().to_owned();
    assert_eq!(front(&ours), front(&kept));
    for (ours, kept) in said_of(&ours).iter().zip(said_of(&kept)) {
        assert_eq!(*ours, kept);
    }
    // Inputs are those of all experiments of a paper.
    let inputs = |page: &str| -> Vec<String> {
        let blocks = page.split("<summary>Inputs").skip(1);
        let blocks = blocks.filter_map(|block| block.split("\n\n</details>").next());
        blocks.flat_map(str::lines).map(str::to_owned).collect()
    };
    let (some, all) = (inputs(&ours), inputs(&kept));
    assert!(some.len() > 30 && some.iter().all(|line| all.contains(line)), "{some:?}");
    let holds = outcomes.iter().flat_map(|outcome| &outcome.claims).filter(|c| c.holds).count();
    let all: usize = outcomes.iter().map(|outcome| outcome.claims.len()).sum();
    assert!(ours.contains(&format!(" {holds} of {all} statements hold here.")), "{ours}");
    for (name, chart) in outcomes.iter().flat_map(Outcome::charts) {
        assert_is_file(&docs(&format!("plots/{name}.svg")), &chart.svg());
    }
}

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
    let repeated = |outcome: &&Outcome| all || REPEATED.contains(&outcome.id);
    let outcomes: Vec<&Outcome> = outcomes().iter().filter(repeated).collect();
    assert!(all || outcomes.len() == REPEATED.len(), "an experiment has gone");
    // Each experiment has one thread, and several of them run at a time.
    let again = sweep(&outcomes, 0, run, &|_, _| {});
    for (outcome, other) in outcomes.iter().zip(again) {
        assert_eq!(outcome.series, other.series);
        assert_eq!(outcome.claims, other.claims);
    }
}

#[test]
fn every_published_number_is_there_once_with_its_kind_and_its_date() {
    let options = Options::default();
    for outcome in outcomes() {
        let settings = Settings::new(find(outcome.id).unwrap()[0], &options).unwrap();
        let beside = outcome.rows().filter_map(|row| row.point.published.as_ref());
        let alone = outcome.unmeasured.iter().map(|number| &number.published);
        let mut seen: Vec<&str> = beside.chain(alone).map(|printed| printed.id.as_str()).collect();
        let mut printed: Vec<&str> =
            settings.published.numbers.iter().map(|number| number.id.as_str()).collect();
        seen.sort_unstable();
        printed.sort_unstable();
        assert_eq!(seen, printed, "{}", outcome.id);
        for row in outcome.rows() {
            let Some(printed) = &row.point.published else {
                assert_eq!((row.point.kind, row.point.deviation), (Kind::Measured, None));
                continue;
            };
            let off = row.point.measured.map(|measured| measured - printed.value);
            assert_eq!(row.point.deviation, off, "{row:?}");
            let dated = !printed.fixed.is_empty() && !printed.why.is_empty();
            assert!(dated || row.point.kind == Kind::Given, "{row:?}");
        }
        for number in &outcome.unmeasured {
            let silent = number.kind == Kind::NotReproducible && number.published.why.is_empty();
            assert!(!silent, "{number:?} does not say why");
        }
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
fn everybody_who_is_drawn_has_a_colour() {
    for outcome in outcomes() {
        let options = Options::default();
        let settings = Settings::new(find(outcome.id).unwrap()[0], &options);
        let charts = settings.unwrap().spec.charts;
        let drawn = |quantity: &str| charts.iter().any(|chart| chart.quantity == quantity);
        for series in outcome.series.iter().filter(|s| drawn(&s.line.quantity.name)) {
            let of = &series.line.of;
            let mean = of.starts_with("mean of");
            assert!(mean || palette::known(of).is_some(), "{}: {of}", outcome.id);
        }
    }
}

#[test]
fn given_inputs_are_met_and_data_of_the_user_is_measured() {
    for outcome in outcomes() {
        for row in outcome.rows().filter(|row| row.point.kind == Kind::Given) {
            let off = row.point.deviation.unwrap_or(0.0).abs();
            assert!(off <= 0.15, "{} {} {}: {off}", outcome.id, row.name(), row.column());
        }
    }
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
    for group in ["ses-dedup", "plc", "beyond"] {
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
    let mut ids: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), EXPERIMENTS.len());
}

#[test]
fn outcomes_are_json_with_the_documented_fields() {
    let page = fs::read_to_string(docs("json.md")).unwrap();
    let page = page.split("`onefold reproduce --json`").nth(1).unwrap();
    let all = serde_json::to_value(outcomes()).unwrap();
    let mut seen = Vec::new();
    fields(&all, &mut seen);
    for field in seen {
        assert!(
            page.contains(&format!("`{field}`")),
            "docs/json.md does not say what `{field}` is"
        );
    }
}

/// The names of all fields.
fn fields(value: &serde_json::Value, seen: &mut Vec<String>) {
    match value {
        serde_json::Value::Array(values) => values.iter().for_each(|value| fields(value, seen)),
        serde_json::Value::Object(object) => {
            for (name, value) in object {
                if !seen.contains(name) {
                    seen.push(name.clone());
                }
                fields(value, seen);
            }
        }
        _ => {}
    }
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
