//! `onefold reproduce`: the papers' numbers beside ours.
//! Room: onefold.

use std::path::Path;

use onefold_lab::report::Costed;
use onefold_lab::{EXPERIMENTS, Experiment, LabError, Options, Outcome, Shared, find, report};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::args::models::ReproduceArgs;
use crate::failure::{Failure, Result};
use crate::out_file::{self, OutFile};
use crate::output::Printer;
use crate::progress;
use crate::table::{Align, Table};

#[derive(Serialize)]
struct Listed {
    id: &'static str,
    title: &'static str,
}

/// What `--json` prints; see docs/json.md.
#[derive(Serialize)]
struct Reproduced<'a> {
    schema_version: u32,
    experiments: &'a [Outcome],
    failed: &'a [Failed],
}

/// Run what is asked for, in the order of the list. One that fails keeps none of the others, which
/// may take an hour, from being run and told.
pub fn run(args: &ReproduceArgs, printer: &Printer) -> Result<()> {
    let chosen = chosen(&args.ids)?;
    if args.list {
        return list(&chosen, args.json, printer);
    }
    for path in &args.data {
        std::fs::metadata(path).map_err(|error| Failure::unusable("read", path, error))?;
    }
    if let Some(folder) = &args.plots {
        std::fs::create_dir_all(folder).map_err(|e| Failure::unusable("make", folder, e))?;
    }
    if let Some(path) = &args.compare {
        // Dropped, it leaves nothing: what cannot be written is told before an hour of work.
        drop(OutFile::create(path, args.force)?);
    }
    let bar = progress::counted(printer, "", "points", None);
    let told = |id: &str, done: usize, all: usize| {
        bar.set_message(id);
        bar.show(done as u64, all as u64);
    };
    let mut options = Options {
        full: args.full,
        threads: args.threads,
        set: args.set.iter().map(|text| assignment(text)).collect::<Result<_>>()?,
        data: args.data.clone(),
        progress: &told,
        ..Options::default()
    };
    let mut found = Found::default();
    for experiment in &chosen {
        if args.compare.is_some() {
            // Each one's cost is that of all its runs, as if it had been the only one.
            options.shared = Shared::default();
        }
        match costed(experiment, &options) {
            Ok(costed) => bar.suspend(|| found.take(experiment, costed, args, printer))?,
            Err(error) => bar.suspend(|| found.fail(experiment, &error, printer)),
        }
    }
    bar.finish_and_clear();
    if let Some(path) = args.compare.as_ref().filter(|_| !found.pairs.is_empty()) {
        printer.note(&format!("written: {}", path.display()));
    }
    let Found { outcomes, failed, .. } = found;
    if args.json {
        let all = Reproduced { schema_version: 2, experiments: &outcomes, failed: &failed };
        printer.json(&all)?;
    }
    verdict(chosen.len(), &failed)
}

/// What came of those that were run so far.
#[derive(Default)]
struct Found {
    outcomes: Vec<Outcome>,
    /// Each at quick settings and full ones, where that is asked for.
    pairs: Vec<(Costed, Costed)>,
    /// Whether the file of these is one of this run.
    written: bool,
    failed: Vec<Failed>,
}

impl Found {
    /// One came to its end: it is drawn and told, or kept for the end.
    fn take(
        &mut self,
        experiment: &'static Experiment,
        costed: Costed,
        args: &ReproduceArgs,
        printer: &Printer,
    ) -> Result<()> {
        if let Some(folder) = &args.plots {
            plot(&costed.outcome, folder, printer)?;
        }
        if args.json {
            self.outcomes.push(costed.outcome);
            return Ok(());
        }
        printer.data(&(report::text(&costed.outcome) + "\n"))?;
        let Some(path) = &args.compare else { return Ok(()) };
        match self::costed(experiment, &Options { threads: args.threads, ..Options::default() }) {
            Ok(quick) => self.pairs.push((quick, costed)),
            Err(error) => self.fail(experiment, &error, printer),
        }
        // Each time: what was found in half an hour is there, whatever becomes of the rest.
        let own = std::mem::replace(&mut self.written, true);
        out_file::write(path, report::full_page(&self.pairs), args.force || own)
    }

    /// One failed. What is wrong is said now, since the others may take long.
    fn fail(&mut self, experiment: &Experiment, error: &LabError, printer: &Printer) {
        let problem = error.to_string();
        let own = format!("{}: ", experiment.id);
        let problem = problem.strip_prefix(&own).unwrap_or(&problem).to_owned();
        printer.warning(&format!("{} failed: {problem}", experiment.id));
        self.failed.push(Failed { id: experiment.id, problem });
    }
}

/// One that failed.
#[derive(Serialize)]
struct Failed {
    id: &'static str,
    problem: String,
}

/// How all of it ends, of so many.
fn verdict(all: usize, failed: &[Failed]) -> Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = failed.iter().map(|failed| failed.id).collect();
    let message = format!("{} of {all} experiments failed: {}", ids.len(), ids.join(", "));
    Err(Failure::bad(message))
}

/// Runs an experiment, and takes the time of all cores.
fn costed(
    experiment: &'static Experiment,
    options: &Options<'_>,
) -> std::result::Result<Costed, LabError> {
    let before = clock_gettime(ClockId::ProcessCPUTime);
    let outcome = experiment.run(options)?;
    let after = clock_gettime(ClockId::ProcessCPUTime);
    let nanoseconds =
        (after.tv_sec - before.tv_sec) * 1_000_000_000 + after.tv_nsec - before.tv_nsec;
    Ok(Costed { outcome, cpu_s: nanoseconds as f64 / 1e9 })
}

/// A name and its value, as TOML has it.
fn assignment(text: &str) -> Result<(String, toml::Value)> {
    let wrong = || Failure::nothing_done(format!("--set {text}: expected NAME=VALUE"));
    let (name, _) = text.split_once('=').ok_or_else(wrong)?;
    let mut table: toml::Table = text.parse().map_err(|_| wrong())?;
    let name = name.trim();
    table.remove(name).map(|value| (name.to_owned(), value)).ok_or_else(wrong)
}

/// What the names select, each experiment once.
fn chosen(ids: &[String]) -> Result<Vec<&'static Experiment>> {
    if ids.is_empty() {
        return Ok(EXPERIMENTS.iter().collect());
    }
    let mut selected = Vec::new();
    for id in ids {
        selected.extend(find(id).map_err(failure)?.iter().map(|experiment| experiment.id));
    }
    Ok(EXPERIMENTS.iter().filter(|experiment| selected.contains(&experiment.id)).collect())
}

fn failure(error: LabError) -> Failure {
    match error {
        LabError::Unknown { .. } => Failure::nothing_done(error.to_string())
            .hint("for all of them with their titles: onefold reproduce --list"),
        error => Failure::bad(error.to_string()),
    }
}

fn list(experiments: &[&'static Experiment], json: bool, printer: &Printer) -> Result<()> {
    if json {
        let listed =
            |experiment: &&Experiment| Listed { id: experiment.id, title: experiment.title };
        return printer.json(&experiments.iter().map(listed).collect::<Vec<_>>());
    }
    let mut table = Table::new(&[Align::Left, Align::Left]);
    for experiment in experiments {
        table.row([experiment.id, experiment.title]);
    }
    printer.data(&(table.lines(0).join("\n") + "\n"))
}

fn plot(outcome: &Outcome, folder: &Path, printer: &Printer) -> Result<()> {
    for (name, chart) in outcome.charts() {
        let path = folder.join(format!("{name}.svg"));
        out_file::write(&path, chart.svg(), true)?;
        printer.note(&format!("drawn: {}", path.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::Folder;

    #[test]
    fn experiments_are_chosen_once_each_and_settings_are_toml() {
        let all = chosen(&[]).unwrap();
        let first = all[0].id.to_owned();
        let twice = chosen(&[first.clone(), first.clone()]).unwrap();
        assert_eq!(twice.iter().map(|one| one.id).collect::<Vec<_>>(), [&*first]);
        assert!(chosen(&["none".to_owned()]).is_err());
        assert_eq!(assignment("a = 3").unwrap(), ("a".to_owned(), toml::Value::Integer(3)));
        for wrong in ["a", "a=", "=3", "a=b c"] {
            let message = assignment(wrong).unwrap_err().message;
            assert_eq!(message, format!("--set {wrong}: expected NAME=VALUE"));
        }
        let here = Folder::new();
        let listed = here.ok("reproduce --list").out;
        assert_eq!(listed.lines().count(), all.len());
        assert!(listed.starts_with(&format!("{first} ")), "{listed}");
        assert!(listed.contains(all[0].title));
        let one = here.ok(&format!("reproduce {first} --list --json")).json();
        assert_eq!(one, serde_json::json!([{ "id": first, "title": all[0].title }]));
        let none = here.refused("reproduce none", 2);
        assert!(
            none.ends_with("hint: for all of them with their titles: onefold reproduce --list\n")
        );
        let data = here.refused(&format!("reproduce {first} --data ./none"), 2);
        assert!(data.contains("cannot read './none'"), "{data}");
    }
}
