//! What experiments find, each run once in the process for all tests that want it.
//! Room: onefold-lab.

use std::sync::{LazyLock, OnceLock};

use onefold_lab::{At, EXPERIMENTS, Options, Outcome, Row};

/// Options that all have in common, so that what several experiments run alike is run once.
static OPTIONS: LazyLock<Options<'static>> =
    LazyLock::new(|| Options { threads: 7, ..Options::default() });

/// What an experiment finds, on many threads. Others are not run for it.
pub fn outcome(id: &str) -> &'static Outcome {
    static OUTCOMES: [OnceLock<Outcome>; EXPERIMENTS.len()] =
        [const { OnceLock::new() }; EXPERIMENTS.len()];
    let at = EXPERIMENTS.iter().position(|experiment| experiment.id == id);
    let at = at.unwrap_or_else(|| panic!("no experiment {id}"));
    OUTCOMES[at].get_or_init(|| EXPERIMENTS[at].run(&OPTIONS).unwrap())
}

/// All numbers of an experiment, with what they are of.
pub fn rows(id: &str) -> Vec<Row<'static>> {
    outcome(id).rows().collect()
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
