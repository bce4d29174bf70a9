//! What an experiment is run with.
//! Room: onefold-lab.

use std::path::PathBuf;

use crate::error::{LabError, Result};
use crate::published::Published;
use crate::registry::Experiment;
use crate::spec::Spec;

/// What a user chooses for all experiments.
pub struct Options<'a> {
    /// The size of the paper instead of one that takes seconds.
    pub full: bool,
    /// Threads; 0 means one per core. Results do not depend on it.
    pub threads: usize,
    /// Parameters of the spec with other values, for searches.
    pub set: Vec<(String, toml::Value)>,
    /// Trees and images of the user, for experiments on real data.
    pub data: Vec<PathBuf>,
    /// Called as points are finished: experiment, finished, all. From any thread.
    pub progress: &'a (dyn Fn(&str, usize, usize) + Sync),
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { full: false, threads: 0, set: Vec::new(), data: Vec::new(), progress: &|_, _, _| {} }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { full, threads, set, data, .. } = self;
        let mut shown = f.debug_struct("Options");
        shown.field("full", full).field("threads", threads).field("set", set);
        shown.field("data", data);
        shown.finish_non_exhaustive()
    }
}

/// What one experiment is run with.
#[derive(Debug)]
pub struct Settings<'a> {
    /// The experiment.
    pub id: &'static str,
    /// What the user chose.
    pub options: &'a Options<'a>,
    /// Its parameters.
    pub spec: Spec,
    /// What it is compared with.
    pub published: Published,
}

impl<'a> Settings<'a> {
    /// The settings of an experiment.
    pub fn new(experiment: &Experiment, options: &'a Options<'a>) -> Result<Self> {
        let id = experiment.id;
        let mut spec = Spec::parse(id, experiment.spec)?;
        for (name, value) in &options.set {
            spec.set(name, value)?;
        }
        Ok(Self { id, options, spec, published: Published::parse(id, experiment.published)? })
    }

    /// A whole number of the spec at this size.
    pub fn number(&self, name: &str) -> Result<u64> {
        self.spec.number(name, self.options.full)
    }

    /// A number of the spec at this size.
    pub fn real(&self, name: &str) -> Result<f64> {
        self.spec.real(name, self.options.full)
    }

    /// A text of the spec at this size.
    pub fn text(&self, name: &str) -> Result<&str> {
        self.spec.text(name, self.options.full)
    }

    /// A part of the experiment that refuses its parameters.
    pub fn refused(&self, error: impl std::fmt::Display) -> LabError {
        LabError::Refused { id: self.id.to_owned(), problem: error.to_string() }
    }

    /// A list of whole numbers of the spec at this size.
    pub fn numbers(&self, name: &str) -> Result<Vec<u64>> {
        self.spec.numbers(name, self.options.full)
    }

    /// Runs `run` for every point on all threads; see [`crate::sweep()`].
    pub fn sweep<P: Sync, R: Send>(&self, points: &[P], run: impl Fn(&P) -> R + Sync) -> Vec<R> {
        let told = |done, all| (self.options.progress)(self.id, done, all);
        crate::sweep(points, self.options.threads, run, &told)
    }
}
