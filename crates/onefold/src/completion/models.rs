//! Names that only the models know.
//! Room: onefold.

use onefold_array::spec as array;
use onefold_flash::spec as flash;
use onefold_lab::EXPERIMENTS;

use super::{Candidate, Rule, trace_formats};

/// More of [`super::RULES`].
pub const RULES: &[Rule] = &[
    ("onefold reproduce", "ids", experiments),
    ("onefold cache run", "set", cache_keys),
    ("onefold cache run", "format", trace_formats),
    ("onefold ssd", "set", drive_keys),
    ("onefold ssd", "sweep", drive_keys),
    ("onefold ssd run", "format", trace_formats),
    ("onefold array", "preset", server_presets),
    ("onefold array", "set", server_keys),
    ("onefold array", "sweep", server_keys),
];

/// Experiments, and the papers that stand for all of theirs.
fn experiments() -> Vec<Candidate> {
    let mut papers: Vec<&str> = EXPERIMENTS.iter().filter_map(|e| e.id.split('/').next()).collect();
    papers.dedup();
    let of = |paper: &str| (paper.to_owned(), Some("all of its experiments".to_owned()));
    let one = |e: &onefold_lab::Experiment| (e.id.to_owned(), Some(e.title.to_owned()));
    papers.into_iter().map(of).chain(EXPERIMENTS.iter().map(one)).collect()
}

fn cache_keys() -> Vec<Candidate> {
    onefold_cache::spec::spec_keys().into_iter().map(|key| (key + "=", None)).collect()
}

fn drive_keys() -> Vec<Candidate> {
    let key = |key: &flash::keys::Key| (format!("{}=", key.path), Some(key.doc.to_owned()));
    flash::keys::KEYS.iter().map(key).collect()
}

fn server_keys() -> Vec<Candidate> {
    let key = |key: &array::keys::Key| (format!("{}=", key.path), Some(key.doc.to_owned()));
    let load = |load: &array::LoadPreset| {
        (format!("{}={}", array::LOAD_KEY, load.name), Some(load.doc.to_owned()))
    };
    array::keys::KEYS.iter().map(key).chain(array::LOADS.iter().map(load)).collect()
}

fn server_presets() -> Vec<Candidate> {
    array::PRESETS
        .iter()
        .map(|preset| (preset.name.to_owned(), Some(preset.doc.to_owned())))
        .collect()
}
