//! What a shell offers while a command line is being typed: besides flags and files also the names
//! that only this program knows, such as the volumes of the pool that was just named.
//! Room: onefold.
//!
//! The shell's script (`onefold completions SHELL`) calls the program with [`VARIABLE`] set and the
//! words so far behind `--`. A completer never fails and never writes: where it cannot know, it
//! offers nothing.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
#[cfg(feature = "archive")]
use onefold_archive::{Archive, LockKind};
use onefold_cache::POLICIES;
use onefold_content::FingerprintKind;
use onefold_pool::{Budgets, OpenOptions, Pool};
use onefold_workload::TraceFormat;

#[cfg(feature = "models")]
mod models;

use crate::args::Args;

/// The environment variable with the shell's name, by which a shell asks for candidates.
pub const VARIABLE: &str = "ONEFOLD_COMPLETE";

/// A name, and one line of what it is.
type Candidate = (String, Option<String>);
/// All names of one sort.
type Known = fn() -> Vec<Candidate>;
/// A command, or the start of several; one of its arguments; what it is completed with.
type Rule = (&'static str, &'static str, Known);

/// Which argument of which command is completed with what. A command stands for those below it.
const RULES: &[Rule] = &[
    ("onefold serve", "cache_policy", online_policies),
    ("onefold pool", "cache_policy", online_policies),
    ("onefold volume resize", "name", volumes),
    ("onefold volume rename", "name", volumes),
    ("onefold volume allow", "name", volumes),
    ("onefold volume deny", "name", volumes),
    ("onefold volume limit", "name", volumes),
    ("onefold volume list", "name", volumes),
    ("onefold volume prune", "name", volumes),
    ("onefold volume delete", "name", volumes_and_snapshots),
    ("onefold volume snapshot", "name", volumes),
    ("onefold volume clone", "snapshot", snapshots),
    ("onefold volume rollback", "snapshot", snapshots),
    ("onefold volume hold", "snapshot", snapshots),
    ("onefold volume release", "snapshot", snapshots),
    ("onefold volume diff", "from", volumes_and_snapshots),
    ("onefold volume diff", "to", volumes_and_snapshots),
    ("onefold volume import", "name", volumes),
    ("onefold volume import", "onto", volumes_and_snapshots),
    ("onefold volume send", "name", snapshots),
    ("onefold volume send", "since", snapshots),
    ("onefold volume receive", "onto", volumes_and_snapshots),
    ("onefold volume export", "name", volumes_and_snapshots),
    ("onefold volume export", "since", snapshots),
    ("onefold", "fingerprint", fingerprints),
    ("onefold trace", "format", trace_formats),
    ("onefold trace record", "volume", volumes_and_snapshots),
];

/// And of those for archives.
#[cfg(feature = "archive")]
const ARCHIVE_RULES: &[Rule] = &[
    ("onefold archive", "version", versions),
    ("onefold archive diff", "old", versions),
    ("onefold archive diff", "new", versions),
    ("onefold archive remove", "numbers", versions),
];
#[cfg(not(feature = "archive"))]
const ARCHIVE_RULES: &[Rule] = &[];

#[cfg(feature = "models")]
const MODEL_RULES: &[Rule] = models::RULES;
#[cfg(not(feature = "models"))]
const MODEL_RULES: &[Rule] = &[];

fn rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().chain(ARCHIVE_RULES).chain(MODEL_RULES)
}

/// Answer a shell that asks for candidates or for its script, and end; else do nothing.
pub fn answer_shell() {
    CompleteEnv::with_factory(|| with_completers("", Args::command())).var(VARIABLE).complete();
}

/// The command with completers where [`RULES`] has some. `above` is the path of its parent.
fn with_completers(above: &str, command: Command) -> Command {
    let path = format!("{above} {}", command.get_name()).trim_start().to_owned();
    let below = path.clone();
    command
        .mut_args(|argument| match rule_of(&path, &argument) {
            Some(known) => argument.add(ArgValueCompleter::new(move |typed: &OsStr| {
                typed.to_str().map_or_else(Vec::new, |typed| matching(typed, known()))
            })),
            None => argument,
        })
        .mut_subcommands(|child| with_completers(&below, child))
}

fn rule_of(path: &str, argument: &Arg) -> Option<Known> {
    let covers = |command: &str| {
        path.strip_prefix(command).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let id = argument.get_id().as_str();
    rules().find(|(command, name, _)| *name == id && covers(command)).map(|rule| rule.2)
}

/// Those that continue what was typed: all of the name, or what comes after its table's dot.
fn matching(typed: &str, known: Vec<Candidate>) -> Vec<CompletionCandidate> {
    let full = known.iter().any(|(name, _)| name.starts_with(typed));
    let short = |name: &str| name.rsplit_once('.').map(|(_, last)| last.to_owned());
    known
        .into_iter()
        .filter_map(|(name, help)| {
            let name = if full { Some(name) } else { short(&name) }?;
            name.starts_with(typed)
                .then(|| CompletionCandidate::new(name).help(help.map(Into::into)))
        })
        .collect()
}

/// Words of the command line that is being typed, without flags.
fn typed_words() -> impl Iterator<Item = PathBuf> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    words.filter(|word| !word.as_encoded_bytes().starts_with(b"-")).map(PathBuf::from)
}

/// The pool among the words. None while another process serves it.
fn pool() -> Option<Pool> {
    let options = OpenOptions { read_only: true, budgets: Budgets::default() };
    let open = |folder: PathBuf| Pool::open_at(&folder, &options).ok();
    typed_words().filter(|word| word.is_dir()).find_map(open)
}

/// Its volumes, with their sizes.
fn volumes() -> Vec<Candidate> {
    let Some(status) = pool().and_then(|pool| pool.status().ok()) else { return Vec::new() };
    let name = |volume: onefold_pool::VolumeStatus| {
        (volume.name, Some(onefold_block::ByteSize(volume.size_bytes).to_string()))
    };
    status.volumes.into_iter().map(name).collect()
}

/// Its snapshots, with their sizes.
fn snapshots() -> Vec<Candidate> {
    let found = pool().and_then(|pool| pool.snapshots(None).ok()).unwrap_or_default();
    let name = |snapshot: onefold_pool::SnapshotInfo| {
        (snapshot.name, Some(onefold_block::ByteSize(snapshot.size_bytes).to_string()))
    };
    found.into_iter().map(name).collect()
}

fn volumes_and_snapshots() -> Vec<Candidate> {
    [volumes(), snapshots()].concat()
}

/// Numbers of the versions in the archive among the words, with their labels.
#[cfg(feature = "archive")]
fn versions() -> Vec<Candidate> {
    let open = |folder: PathBuf| Archive::open_at(&folder, LockKind::Read).ok();
    let Some(archive) = typed_words().filter(|word| word.is_dir()).find_map(open) else {
        return Vec::new();
    };
    let candidate = |version: &onefold_archive::VersionInfo| {
        (version.number.to_string(), Some(version.label.clone()))
    };
    archive.versions().map(candidate).collect()
}

fn online_policies() -> Vec<Candidate> {
    let online = POLICIES.iter().filter(|entry| !entry.offline);
    online.map(|entry| (entry.name.to_owned(), Some(entry.doc.to_owned()))).collect()
}

fn fingerprints() -> Vec<Candidate> {
    FingerprintKind::ALL.iter().map(|kind| (kind.to_string(), None)).collect()
}

fn trace_formats() -> Vec<Candidate> {
    TraceFormat::all().map(|format| (format.to_string(), None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths of all commands that have an argument, with the argument's name.
    fn arguments(above: &str, command: &Command, found: &mut Vec<(String, String)>) {
        let path = format!("{above} {}", command.get_name()).trim_start().to_owned();
        for argument in command.get_arguments() {
            found.push((path.clone(), argument.get_id().to_string()));
        }
        for child in command.get_subcommands() {
            arguments(&path, child, found);
        }
    }

    #[test]
    fn a_key_is_offered_by_all_of_its_name_or_by_what_is_behind_its_dot() {
        let known = || ["ftl.gc=", "ftl.spare=", "nand.spare="].map(|name| (name.to_owned(), None));
        let offered = |typed: &str| {
            let found = matching(typed, known().to_vec());
            let names = found.iter().map(|found| found.get_value().to_str().unwrap());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(offered("ftl."), "ftl.gc= ftl.spare=");
        assert_eq!(offered("sp"), "spare= spare=");
        assert_eq!(offered("x"), "");
    }

    #[test]
    fn every_rule_is_about_an_argument_that_exists_and_knows_something() {
        let mut found = Vec::new();
        arguments("", &Args::command(), &mut found);
        for &(command, name, known) in rules() {
            let meets = |(path, id): &(String, String)| path.starts_with(command) && id == name;
            assert!(found.iter().any(meets), "no argument `{name}` below `{command}`");
            let of_a_store = [
                volumes as Known,
                volumes_and_snapshots,
                snapshots,
                #[cfg(feature = "archive")]
                versions,
            ];
            let asks_a_store = of_a_store.iter().any(|ask| std::ptr::fn_addr_eq(*ask, known));
            assert!(asks_a_store || !known().is_empty(), "`{command}` `{name}` knows nothing");
        }
    }
}
