//! What the page says is what comes out, and nothing that a paper prints is left out of it.
//! Room: onefold-lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use onefold_lab::report;
use onefold_lab::{EXPERIMENTS, Kind, Options, Outcome, Settings, find, sweep};

/// All experiments on many threads, once for all tests.
pub fn outcomes() -> &'static [Outcome] {
    static OUTCOMES: OnceLock<Vec<Outcome>> = OnceLock::new();
    OUTCOMES.get_or_init(|| {
        let options = Options { threads: 7, ..Options::default() };
        EXPERIMENTS.iter().map(|experiment| experiment.run(&options).unwrap()).collect()
    })
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
            assert_is_file(&docs(&format!("plots/{name}.svg")), &chart.svg());
        }
    }
}

#[test]
fn one_thread_gives_what_many_give() {
    let alone = Options { threads: 1, ..Options::default() };
    let run = |outcome: &Outcome| outcome.experiment.run(&alone).unwrap().rows;
    // Each experiment has one thread, and several of them run at a time.
    let again = sweep(outcomes(), 0, run, &|_, _| {});
    for (outcome, rows) in outcomes().iter().zip(again) {
        assert_eq!(rows, outcome.rows);
    }
}

#[test]
fn every_published_number_is_there_with_its_deviation() {
    let options = Options::default();
    for outcome in outcomes() {
        let settings = Settings::new(outcome.experiment, &options).unwrap();
        let mut printed: Vec<f64> = outcome.rows.iter().filter_map(|row| row.published).collect();
        for number in &settings.published.numbers {
            let at = printed.iter().position(|value| value.to_bits() == number.value.to_bits());
            let at = at.unwrap_or_else(|| panic!("{}: {} is left out", settings.id, number.id));
            printed.swap_remove(at);
        }
        assert!(printed.is_empty(), "{}: {printed:?} are printed nowhere", settings.id);
        for row in &outcome.rows {
            let beside = row.published.zip(row.measured).map(|(p, m)| m - p);
            assert_eq!(row.deviation, beside, "{row:?}");
            assert_eq!(row.id, outcome.experiment.id);
            let silent = row.kind == Kind::NotReproducible && row.note.is_empty();
            assert!(!silent, "{row:?} does not say why");
        }
    }
}

#[test]
fn given_inputs_are_met_and_data_of_the_user_is_measured() {
    for outcome in outcomes() {
        for row in outcome.rows.iter().filter(|row| row.kind != Kind::Predicted) {
            let off = row.deviation.unwrap_or(0.0).abs();
            let bound = match row.kind {
                Kind::Given | Kind::Predicted => 0.15,
                Kind::Calibrated => 1.5,
                Kind::NotReproducible => f64::INFINITY,
            };
            assert!(off <= bound, "{} {} {}: {off}", row.id, row.row, row.column);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    let mut data = vec![0; 64 << 10];
    for (at, byte) in data.iter_mut().enumerate() {
        *byte = (at >> 13) as u8 & 3;
    }
    fs::write(&file, data).unwrap();
    let options = Options { data: vec![file], ..Options::default() };
    let outcome = find("ses-dedup/fig-1").unwrap()[0].run(&options).unwrap();
    let real = outcome.rows.iter().filter(|row| row.note == "data of the user");
    let shares: Vec<f64> = real.filter_map(|row| row.measured).collect();
    // 16 pages of 4 KiB with 4 contents, 8 of 8 KiB with 4, 4 of 16 KiB with 2, 2 equal halves.
    assert_eq!(shares, [75.0, 50.0, 50.0, 50.0, 0.0, 0.0]);
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
fn rows_are_json_with_the_documented_fields() {
    let row = serde_json::to_value(&outcomes()[0].rows[0]).unwrap();
    let fields: Vec<&String> = row.as_object().unwrap().keys().collect();
    let mut wanted = [
        "id",
        "where",
        "row",
        "column",
        "published",
        "measured",
        "unit",
        "deviation",
        "kind",
        "note",
    ];
    wanted.sort_unstable();
    assert_eq!(fields, wanted);
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
