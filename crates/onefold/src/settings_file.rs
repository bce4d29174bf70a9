//! From raw arguments to settled ones: flags over environment over settings files over defaults.
//! Room: onefold.
//! A setting is any flag that has an environment variable; its key in a file is its long name. A
//! table such as `[serve]` or `[pool.create]` limits keys to that command. Values from files
//! become the defaults of their flags, so that one parser and one help text serve all sources.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use toml::de::{DeTable, DeValue};

#[cfg(feature = "archive")]
use crate::archive_place;
use crate::args::Args;
use crate::args::whole_number::in_plain_words;
use crate::failure::{Failure, Result};
use crate::text_file;

/// The settings file of a pool or an archive, in its folder.
pub use onefold_pool::SETTINGS_FILE as POOL_FILE;
/// What a pool's own file may set: its memory and its cache. Listeners and keys are the server
/// owner's.
const POOL_KEYS: [&str; 10] = [
    "index-memory",
    "map-memory",
    "cache-memory",
    "cache",
    "cache-size",
    "cache-policy",
    "cache-mode",
    "cache-writes-per-day",
    "cache-years",
    "cache-endurance",
];
/// What an archive's own file may set: its cache.
#[cfg(feature = "archive")]
const ARCHIVE_KEYS: [&str; 6] = [
    "cache",
    "cache-size",
    "cache-policy",
    "cache-writes-per-day",
    "cache-years",
    "cache-endurance",
];
/// The stores with a file of their own: the argument that names their folder, and what it may set.
const STORES: &[(&str, &[&str])] = &[
    ("pool", &POOL_KEYS),
    #[cfg(feature = "archive")]
    ("store", &ARCHIVE_KEYS),
];
/// Those that say how a cache is to be.
const CACHE_KEYS: [&str; 6] = [
    "cache-size",
    "cache-policy",
    "cache-mode",
    "cache-writes-per-day",
    "cache-years",
    "cache-endurance",
];

/// The settled arguments.
pub struct Parsed {
    /// All of them.
    pub args: Args,
    /// Long names of the flags that stood on the command line.
    pub written: BTreeSet<String>,
    /// Why a settings file was left out, where that is allowed.
    pub passed_over: Vec<String>,
}

/// Why there are no arguments to work with.
pub enum ParseError {
    /// The command line; this also carries the text of `--help` and `--version`.
    Clap(clap::Error),
    /// A settings file.
    File(Failure),
}

impl From<clap::Error> for ParseError {
    fn from(error: clap::Error) -> Self {
        Self::Clap(in_plain_words(error))
    }
}

impl From<Failure> for ParseError {
    fn from(failure: Failure) -> Self {
        Self::File(failure)
    }
}

/// Parse the command line, with what the environment and the settings files say besides.
pub fn parse(args: impl Iterator<Item = OsString>) -> std::result::Result<Parsed, ParseError> {
    let args: Vec<OsString> = args.collect();
    let matches = Args::command().try_get_matches_from(&args)?;
    let leaf = leaf(&matches);
    let mut command = Args::command();
    let mut any = false;
    let mut passed_over = Vec::new();
    for (path, allowed) in files(leaf)? {
        let of_pool = allowed.is_some();
        let applied = read(&path, of_pool)
            .and_then(|text| File { path: &path, text: &text, allowed }.apply(command.clone()));
        match applied {
            Ok(applied) => command = applied,
            // What is left of the pool can be read without its limits and its cache.
            Err(failure) if of_pool && matches!(leaf.try_contains_id("rescue"), Ok(true)) => {
                passed_over.push(failure.message);
            }
            Err(failure) if of_pool => return Err(advise(failure, &path).into()),
            Err(failure) => return Err(failure.into()),
        }
        any = true;
    }
    let written = leaf
        .ids()
        .filter(|id| leaf.value_source(id.as_str()) == Some(ValueSource::CommandLine))
        .map(|id| id.as_str().replace('_', "-"))
        .collect();
    let matches = if any { command.try_get_matches_from(&args)? } else { matches };
    if takes(&Args::command(), &matches, "cache") {
        refuse_settings_of_no_cache(self::leaf(&matches), &written)?;
    }
    Ok(Parsed { args: Args::from_arg_matches(&matches)?, written, passed_over })
}

/// Whether the command that was given has such an argument. What was matched does not tell: of one
/// that a command has not, a build for use says that it was not given, and one for tests an error.
fn takes(mut command: &Command, mut matches: &ArgMatches, argument: &str) -> bool {
    while let Some((name, below)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { return false };
        (command, matches) = (found, below);
    }
    command.get_arguments().any(|known| known.get_id() == argument)
}

/// Refuse flags that say how a pool's cache is to be where it may have one, and has none.
fn refuse_settings_of_no_cache(leaf: &ArgMatches, written: &BTreeSet<String>) -> Result<()> {
    if leaf.get_one::<PathBuf>("cache").is_some() {
        return Ok(());
    }
    match CACHE_KEYS.into_iter().find(|flag| written.contains(*flag)) {
        Some(flag) => Err(Failure::nothing_done(format!("--{flag} without a cache"))
            .hint("name its folder, on a fast device: --cache FOLDER")),
        None => Ok(()),
    }
}

/// The text of a settings file. A pool's own is never empty: where it would say nothing, none is
/// written.
fn read(path: &Path, of_pool: bool) -> Result<String> {
    let unusable = |error: io::Error| Failure::unusable("read settings file", path, error);
    // Waiting for a FIFO would be waiting for ever.
    if !std::fs::metadata(path).map_err(unusable)?.is_file() {
        return Err(unusable(io::Error::other("it is not a regular file")));
    }
    let text = text_file::read(path, "settings file", text_file::SETTINGS_BYTES_MAX)?;
    if of_pool && text.trim().is_empty() {
        return Err(unusable(io::Error::other("it is empty, so it has lost what it said")));
    }
    Ok(text)
}

/// What to do about a pool's own settings file that cannot be used.
fn advise(failure: Failure, path: &Path) -> Failure {
    let at = path.display();
    failure
        .hint(format!(
            "it holds the pool's memory limits and its cache (docs/settings.md): correct it, or, \
             to go on with the defaults and without a cache, remove it: rm '{at}'"
        ))
        .hint("it holds no data; --rescue, where a command has it, works without it")
}

fn leaf(mut matches: &ArgMatches) -> &ArgMatches {
    while let Some((_, below)) = matches.subcommand() {
        matches = below;
    }
    matches
}

/// Keys that are allowed in a file; `None` stands for all of them.
type Allowed = Option<&'static [&'static str]>;

/// The files to read, the strongest last, and the keys that are allowed in each.
fn files(leaf: &ArgMatches) -> Result<Vec<(PathBuf, Allowed)>> {
    let mut files = Vec::new();
    let named = leaf.get_one::<PathBuf>("config");
    if let Some(path) = named {
        if !path.is_file() {
            let message = format!("settings file '{}' does not exist", path.display());
            return Err(Failure::nothing_done(message));
        }
    } else if let Some(path) = user_file().filter(|path| path.is_file()) {
        files.push((path, None));
    }
    for &(folder, keys) in STORES {
        let Ok(Some(folder)) = leaf.try_get_one::<PathBuf>(folder) else { continue };
        // In an object store there is none; of a folder that happens to be called so nothing is
        // meant.
        #[cfg(feature = "archive")]
        if archive_place::is_remote(folder) {
            continue;
        }
        let path = folder.join(POOL_FILE);
        // One that is there and cannot be used must not be taken for none.
        if path.symlink_metadata().is_ok() {
            files.push((path, Some(keys)));
        }
    }
    files.extend(named.map(|path| (path.clone(), None)));
    Ok(files)
}

fn user_file() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("onefold/config.toml"))
}

/// Whether a flag is a setting, which files and the environment may give as well.
pub fn is_setting(arg: &Arg) -> bool {
    arg.get_env().is_some() && arg.get_id() != "config"
}

/// Names of the settings of a command and all commands below it.
fn setting_names(command: &Command, names: &mut BTreeSet<String>) {
    let settings = command.get_arguments().filter(|arg| is_setting(arg));
    names.extend(settings.filter_map(|arg| arg.get_long()).map(str::to_owned));
    for below in command.get_subcommands() {
        setting_names(below, names);
    }
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
    allowed: Allowed,
}

impl File<'_> {
    fn apply(&self, command: Command) -> Result<Command> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().unwrap_or_default().start;
            self.wrong(at, error.message())
        })?;
        self.apply_table(command, table.get_ref(), "")
    }

    fn apply_table(&self, command: Command, table: &DeTable, scope: &str) -> Result<Command> {
        let mut command = command;
        let mut names = BTreeSet::new();
        setting_names(&command, &mut names);
        if let Some(allowed) = self.allowed {
            names.retain(|name| allowed.contains(&name.as_str()));
        }
        for (key, value) in table {
            let (name, at) = (key.get_ref().as_ref(), key.span().start);
            let below = command.find_subcommand(name).is_some() && self.allowed.is_none();
            match value.get_ref() {
                DeValue::Table(table) if below => {
                    let scope = format!("{scope}{name}.");
                    let slot = command.find_subcommand_mut(name).expect("found above");
                    *slot = self.apply_table(std::mem::take(slot), table, &scope)?;
                }
                _ if names.contains(name) => {
                    let values = self.texts(name, value.get_ref(), at)?;
                    command = self.set(command, name, &values, at)?;
                }
                _ => return Err(self.unknown(name, scope, &names, at)),
            }
        }
        Ok(command)
    }

    /// Make the values the default of a setting, in a command and all commands below it.
    fn set(&self, command: Command, name: &str, values: &[String], at: usize) -> Result<Command> {
        let mut command = command;
        let found = command.get_arguments().find(|a| is_setting(a) && a.get_long() == Some(name));
        if let Some(arg) = found {
            self.check(arg, name, values, at)?;
            let (id, values) = (arg.get_id().clone(), values.to_vec());
            command = command.mut_arg(id, |arg| arg.default_values(values));
        }
        for slot in command.get_subcommands_mut() {
            *slot = self.set(std::mem::take(slot), name, values, at)?;
        }
        Ok(command)
    }

    /// Put the values through the flag's own parser, so that a mistake is told with its line.
    fn check(&self, arg: &Arg, name: &str, values: &[String], at: usize) -> Result<()> {
        let many = matches!(arg.get_action(), clap::ArgAction::Append);
        if values.len() != 1 && !many {
            return Err(self.wrong(at, &format!("'{name}' takes one value, not a list")));
        }
        let probe = Arg::new("value").long("value").value_parser(arg.get_value_parser().clone());
        let command = Command::new("probe").no_binary_name(true).arg(probe);
        for value in values {
            let result = command.clone().try_get_matches_from([format!("--value={value}")]);
            if let Err(error) = result {
                let known: Vec<String> = arg
                    .get_possible_values()
                    .iter()
                    .map(|value| value.get_name().to_owned())
                    .collect();
                let why = error.source().map_or_else(
                    || format!("'{value}' is none of {}", known.join(", ")),
                    ToString::to_string,
                );
                return Err(self.wrong(at, &format!("bad value of '{name}': {why}")));
            }
        }
        Ok(())
    }

    fn texts(&self, name: &str, value: &DeValue, at: usize) -> Result<Vec<String>> {
        match value {
            DeValue::String(text) => Ok(vec![text.clone().into_owned()]),
            DeValue::Integer(number) => Ok(vec![number.to_string()]),
            DeValue::Float(number) => Ok(vec![number.to_string()]),
            DeValue::Array(values) => {
                let each = values.iter().map(|value| self.texts(name, value.get_ref(), at));
                Ok(each.collect::<Result<Vec<_>>>()?.concat())
            }
            other => {
                let message = format!(
                    "'{name}' is a {}, but a text, a number or a list of texts was expected",
                    other.type_str()
                );
                Err(self.wrong(at, &message))
            }
        }
    }

    fn unknown(&self, name: &str, scope: &str, known: &BTreeSet<String>, at: usize) -> Failure {
        let failure = self.wrong(at, &format!("unknown key '{scope}{name}'"));
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        if let Some(near) = onefold_block::nearest(name, known.iter().copied()) {
            return failure.hint(format!("did you mean '{scope}{near}'?"));
        }
        failure.hint(format!("accepted here: {}", known.join(", ")))
    }

    fn wrong(&self, at: usize, message: &str) -> Failure {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        Failure::nothing_done(format!("{} line {line}: {message}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(text: &str, allowed: Allowed) -> Result<Command> {
        File { path: Path::new("x.toml"), text, allowed }.apply(Args::command())
    }

    fn cache_memory(text: &str, args: &[&str]) -> u64 {
        let matches = apply(text, None).unwrap().try_get_matches_from(args).unwrap();
        leaf(&matches).get_one::<onefold_block::ByteSize>("cache_memory").unwrap().bytes()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn only_a_command_that_takes_a_cache_is_asked_for_one() {
        let set = ["onefold", "pool", "set", "p", "--cache-size", "1G"];
        let serve = ["onefold", "serve", "p", "--cache-size", "1G"];
        for (line, may_have_one) in [(&set[..], false), (&serve, true)] {
            let command = Args::command();
            let matches = command.clone().try_get_matches_from(line).unwrap();
            assert_eq!(takes(&command, &matches, "cache"), may_have_one, "{line:?}");
            // What was matched would say the same of both in a build for use.
            assert!(takes(&command, &matches, "cache_size"), "{line:?}");
            let parsed = parse(line.iter().map(OsString::from));
            assert_eq!(parsed.is_ok(), !may_have_one, "{line:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_or_has_lost_what_it_said_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings");
        std::fs::write(&file, " \n").unwrap();
        assert_eq!(read(&file, false).unwrap(), " \n");
        assert!(read(&file, true).unwrap_err().message.contains("has lost what it said"));
        std::fs::write(&file, "cache = 'x'").unwrap();
        assert_eq!(read(&file, true).unwrap(), "cache = 'x'");
        assert!(read(folder.path(), false).unwrap_err().message.contains("not a regular file"));
        assert!(apply("listen = ['tcp:127.0.0.1:1', 'unix:x']", None).is_ok());
    }

    #[test]
    fn flags_overrule_tables_and_tables_overrule_the_top() {
        let text = "cache-memory = '1M'\n[serve]\ncache-memory = 2097152\n";
        assert_eq!(cache_memory(text, &["onefold", "pool", "status", "p"]), 1 << 20);
        assert_eq!(cache_memory(text, &["onefold", "serve", "p"]), 2 << 20);
        assert_eq!(cache_memory(text, &["onefold", "serve", "p", "--cache-memory=3M"]), 3 << 20);
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_the_nearest_key() {
        for (text, expected) in [
            ("\nindx-memory = '1G'", "x.toml line 2: unknown key 'indx-memory'"),
            ("[serve]\nchunksize = '4K'", "x.toml line 2: unknown key 'serve.chunksize'"),
            ("chunk-size = '5K'", "x.toml line 1: bad value of 'chunk-size': chunk size 5 KiB"),
            ("log = 'loud'", "x.toml line 1: bad value of 'log': 'loud' is none of off, error"),
            ("size = ['1G', '2G']", "x.toml line 1: 'size' takes one value, not a list"),
            ("size = true", "x.toml line 1: 'size' is a boolean, but a text"),
            ("size = ", "x.toml line 1: "),
            ("config = 'y'", "x.toml line 1: unknown key 'config'"),
        ] {
            let failure = apply(text, None).map(|_| ()).unwrap_err();
            assert!(failure.message.starts_with(expected), "{}", failure.message);
        }
        let hint = |text| apply(text, None).map(|_| ()).unwrap_err().hints.concat();
        assert_eq!(hint("indx-memory = '1G'"), "did you mean 'index-memory'?");
        assert_eq!(hint("[serve]\nchunksize = 1"), "did you mean 'serve.chunk-size'?");
        assert!(hint("zzzzzzzzzzzz = 1").starts_with("accepted here: background, cache, "));
    }

    #[test]
    fn a_pools_own_file_sets_its_memory_and_cache_and_nothing_else() {
        assert!(apply("index-memory = '1G'", Some(&POOL_KEYS)).is_ok());
        assert!(apply("cache = '/ssd'\ncache-size = '20%'", Some(&POOL_KEYS)).is_ok());
        assert!(apply("cache-policy = 'best'", Some(&POOL_KEYS)).is_err());
        assert!(apply("listen = 'tcp:0.0.0.0:1'", Some(&POOL_KEYS)).is_err());
        assert!(apply("[serve]\nlisten = 'tcp:0.0.0.0:1'", Some(&POOL_KEYS)).is_err());
    }
    /// Inputs as for everything that `onefold-fuzz` has a target for; this reader hangs on the
    /// command's arguments. More of them: docs/testing.md.
    #[test]
    fn any_text_is_taken_as_settings_or_refused_with_its_line() {
        let kept = [
            "index-memory = '1G'\nmap-memory = '64M'\ncache-memory = 1048576\n",
            "cache = '/ssd'\ncache-size = '20%'\ncache-policy = 'toll'\ncache-mode = 'read'\n",
            "cache-writes-per-day = 0.3\ncache-years = 5\ncache-endurance = '600T'\n",
            "log = 'debug'\n[serve]\nlisten = ['tcp:127.0.0.1:10809', 'unix:x']\nread-only = 1\n",
            "[pool.create]\nchunk-size = '8K'\n[pool]\n[archive.add]\n",
            "serve = { size = '1G' }\nserve.size = 3\n\"\\u0041\" = 1\n",
        ];
        let kept = kept.map(|text| text.as_bytes().to_vec());
        let inputs = std::env::var("ONEFOLD_SETTINGS_INPUTS").map_or(1_000, |n| n.parse().unwrap());
        let mut random = onefold_block::SplitMix64::new(1);
        let command = Args::command();
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..inputs {
            let input = onefold_fuzz::mutate::input(&kept, &mut random);
            let text = String::from_utf8_lossy(&input);
            let of_stores = STORES.iter().map(|&(_, keys)| Some(keys));
            for allowed in of_stores.chain([None]) {
                let file = File { path: Path::new("x.toml"), text: &text, allowed };
                match file.apply(command.clone()) {
                    Ok(_) => taken += 1,
                    Err(failure) => {
                        assert!(failure.message.starts_with("x.toml line "), "{}", failure.message);
                        refused += 1;
                    }
                }
            }
        }
        assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
    }
}
