//! What an experiment is run with.
//! Room: onefold-lab.

use std::path::PathBuf;
use std::sync::Arc;

use onefold_sim::SimSpan;

use crate::error::{LabError, Result};
use crate::published::Published;
use crate::registry::Experiment;
use crate::shared::Shared;
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
    /// What experiments with these options have in common; a new one has them run it again.
    pub shared: Shared,
    /// Called as points are finished: experiment, finished, all. From any thread.
    pub progress: &'a (dyn Fn(&str, usize, usize) + Sync),
}

impl Default for Options<'_> {
    fn default() -> Self {
        let (set, data, shared) = (Vec::new(), Vec::new(), Shared::default());
        Self { full: false, threads: 0, set, data, shared, progress: &|_, _, _| {} }
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

    /// A time of the spec at this size, which stands there in microseconds.
    pub fn span_of_us(&self, name: &str) -> Result<SimSpan> {
        Ok(SimSpan::from_us(self.number(name)?))
    }

    /// A number of the spec at this size.
    pub fn real(&self, name: &str) -> Result<f64> {
        self.spec.real(name, self.options.full)
    }

    /// A text of the spec at this size.
    pub fn text(&self, name: &str) -> Result<&str> {
        self.spec.text(name, self.options.full)
    }

    /// What a search sets beside the parameters, deep in a model: the `KEY=VALUE`s, with spaces in
    /// between, of the parameter `also` where the experiment has one.
    pub fn also(&self) -> Result<impl Iterator<Item = &str>> {
        let has = self.spec.parameters.iter().any(|parameter| parameter.name == "also");
        Ok(if has { self.text("also")? } else { "" }.split_whitespace())
    }

    /// A part of the experiment that refuses its parameters.
    pub fn refused(&self, error: impl std::fmt::Display) -> LabError {
        LabError::Refused { id: self.id.to_owned(), problem: error.to_string() }
    }

    /// A list of whole numbers of the spec at this size.
    pub fn numbers(&self, name: &str) -> Result<Vec<u64>> {
        self.spec.numbers(name, self.options.full)
    }

    /// What `run` finds, or what it has found for another experiment that is run with the same
    /// options and has the same parameters. It depends on these alone, and `name` says what it is.
    pub fn once<T: Send + Sync + 'static>(
        &self,
        name: &str,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let full = self.options.full;
        let values = self.spec.parameters.iter().map(|one| (&one.name, one.at(full)));
        let key = format!("{name}, full {full}: {:?}", values.collect::<Vec<_>>());
        self.options.shared.once(key, run)
    }

    /// Runs `run` for every point on all threads; see [`crate::sweep()`].
    pub fn sweep<P: Sync, R: Send>(&self, points: &[P], run: impl Fn(&P) -> R + Sync) -> Vec<R> {
        let told = |done, all| (self.options.progress)(self.id, done, all);
        crate::sweep(points, self.options.threads, run, &told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;

    #[test]
    fn the_same_runs_are_made_once_and_any_other_parameter_or_size_makes_them_anew() {
        let options = Options::default();
        let in_common = |set: Vec<(String, toml::Value)>, full| Options {
            set,
            full,
            shared: options.shared.clone(),
            ..Options::default()
        };
        let mut made = 0;
        let mut once = |id: &str, name: &str, options: &Options<'_>| {
            let settings = Settings::new(find(id).unwrap()[0], options).unwrap();
            let found = settings.once(name, || {
                made += 1;
                Ok(made)
            });
            *found.unwrap()
        };
        let plain = in_common(Vec::new(), false);
        assert_eq!(once("park-shin/fig-3", "runs", &plain), 1);
        // Another experiment with the same parameters.
        assert_eq!(once("park-shin/fig-4", "runs", &plain), 1);
        assert_eq!(once("park-shin/fig-4", "others", &plain), 2);
        assert_eq!(once("ses-dedup/fig-4", "runs", &plain), 3);
        assert_eq!(once("park-shin/fig-4", "runs", &in_common(Vec::new(), true)), 4);
        let set = vec![("burst".to_owned(), 33.into())];
        assert_eq!(once("park-shin/fig-4", "runs", &in_common(set, false)), 5);
        assert_eq!(once("park-shin/fig-4", "runs", &Options::default()), 6);
        assert_eq!(once("park-shin/fig-5", "runs", &plain), 1);
    }

    #[test]
    fn who_fails_leaves_nothing_to_others() {
        let options = Options::default();
        let settings = Settings::new(find("park-shin/fig-3").unwrap()[0], &options).unwrap();
        let failed = settings.once::<u32>("runs", || Err(settings.refused("no room")));
        assert_eq!(failed.unwrap_err().to_string(), "park-shin/fig-3: no room");
        assert_eq!(*settings.once("runs", || Ok(7)).unwrap(), 7);
    }
}
