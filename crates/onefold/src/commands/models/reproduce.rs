//! `onefold reproduce`: the papers' numbers beside ours.
//! Room: onefold.

use std::path::Path;

use onefold_lab::report::Costed;
use onefold_lab::{EXPERIMENTS, Experiment, LabError, Options, Outcome, Shared, find, report};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::args::models::ReproduceArgs;
use crate::failure::{Failure, Result};
use crate::out_file;
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
}

/// Run what is asked for, in the order of the list.
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
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut pairs = Vec::new();
    for experiment in chosen {
        if args.compare.is_some() {
            // Each one's cost is that of all its runs, as if it had been the only one.
            options.shared = Shared::default();
        }
        let Costed { outcome, cpu_s } = costed(experiment, &options)?;
        if let Some(folder) = &args.plots {
            plot(&outcome, folder, printer)?;
        }
        if args.json {
            outcomes.push(outcome);
            continue;
        }
        bar.suspend(|| printer.data(&(report::text(&outcome) + "\n")))?;
        if args.compare.is_some() {
            let quick = Options { full: false, threads: args.threads, ..Options::default() };
            let quick = costed(experiment, &quick)?;
            pairs.push((quick, Costed { outcome, cpu_s }));
        }
    }
    bar.finish_and_clear();
    if let Some(path) = &args.compare {
        let page = report::full_page(&pairs);
        out_file::write(path, &page, true)?;
        printer.note(&format!("written: {}", path.display()));
    }
    if args.json {
        printer.json(&Reproduced { schema_version: 2, experiments: &outcomes })
    } else {
        Ok(())
    }
}

/// Runs an experiment, and takes the time of all cores.
fn costed(experiment: &'static Experiment, options: &Options<'_>) -> Result<Costed> {
    let before = clock_gettime(ClockId::ProcessCPUTime);
    let outcome = experiment.run(options).map_err(failure)?;
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
