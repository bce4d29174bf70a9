//! The searches of the specs: their commands can be given, and they are about what is printed.
//! Room: onefold-lab.

use onefold_lab::{EXPERIMENTS, Experiment, Options, Outcome, Search, Settings, find, report};

/// Every search, with whose it is.
fn searches() -> Vec<(&'static Experiment, Search)> {
    let options = Options::default();
    let of = |experiment: &'static Experiment| {
        let searches = Settings::new(experiment, &options).unwrap().spec.searches;
        searches.into_iter().map(move |search| (experiment, search))
    };
    EXPERIMENTS.iter().flat_map(of).collect()
}

/// What a command runs, and which parameters it gives which values.
#[derive(Debug)]
struct Command {
    ids: Vec<String>,
    set: Vec<(String, toml::Value)>,
}

impl Command {
    /// Reads `onefold reproduce ID... --set NAME=VALUE...` as a shell and then the command do.
    fn parse(text: &str) -> Self {
        let words = words(text);
        let [onefold, reproduce, rest @ ..] = words.as_slice() else { panic!("`{text}`") };
        assert_eq!((onefold.as_str(), reproduce.as_str()), ("onefold", "reproduce"), "`{text}`");
        let (mut ids, mut set) = (Vec::new(), Vec::new());
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            if word != "--set" {
                ids.push(word.clone());
                continue;
            }
            set.extend(rest.next().unwrap().parse::<toml::Table>().unwrap());
        }
        Self { ids, set }
    }

    fn experiments(&self) -> Vec<&'static Experiment> {
        self.ids.iter().flat_map(|id| find(id).unwrap()).collect()
    }

    fn options(&self) -> Options<'static> {
        Options { set: self.set.clone(), ..Options::default() }
    }
}

/// Words between spaces; what stands in single quotes is one word.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in text.split('\'').enumerate() {
        for (number, piece) in part.split(if at % 2 == 0 { ' ' } else { '\'' }).enumerate() {
            if number > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(piece);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The command of a line, and how many of its words are in it.
fn command(search: &Search, line: &[String]) -> (Command, usize) {
    let mut text = search.command.clone();
    let mut given = 0;
    for (at, word) in line.iter().enumerate() {
        let place = format!("{{{}}}", at + 1);
        if text.contains(&place) {
            assert_eq!(given, at, "`{}` passes over a column", search.command);
            text = text.replace(&place, word);
            given += 1;
        }
    }
    assert!(!text.contains(['{', '}']), "`{text}`: a place without a column");
    (Command::parse(&text), given)
}

#[test]
fn searches_are_of_their_experiment_and_set_parameters_that_are_there() {
    let searches = searches();
    assert!(!searches.is_empty());
    for (experiment, search) in &searches {
        let (id, about) = (experiment.id, search.about.trim());
        assert!(search.lines.len() > 1 && !about.is_empty(), "{id}: `{}`", search.command);
        let mut seen: Vec<&[String]> = Vec::new();
        for line in &search.lines {
            assert_eq!(line.len(), search.columns.len(), "{id}: {line:?}");
            let (command, given) = command(search, line);
            assert!(given > 0 && given < line.len(), "{id}: {line:?}");
            assert!(!seen.contains(&&line[..given]), "{id}: {line:?} is there twice");
            seen.push(&line[..given]);
            let experiments = command.experiments();
            let own = experiments.iter().any(|other| other.id == id);
            assert!(own, "{id}: `{}` does not run it", search.command);
            for other in experiments {
                let options = command.options();
                let settings = Settings::new(other, &options);
                assert!(settings.is_ok(), "{id}: {}", settings.unwrap_err());
            }
        }
    }
}

#[test]
fn searches_are_for_what_the_experiment_has_to_bring() {
    for (experiment, search) in searches() {
        let options = Options::default();
        let published = Settings::new(experiment, &options).unwrap().published;
        let numbers = published.numbers.iter().map(|number| &number.id);
        let known: Vec<&String> =
            numbers.chain(published.shapes.iter().map(|shape| &shape.id)).collect();
        let (id, sought) = (experiment.id, &search.sought);
        assert!(!sought.is_empty(), "{id}: `{}` is for nothing", search.command);
        let unknown: Vec<&String> = sought.iter().filter(|name| !known.contains(name)).collect();
        assert!(unknown.is_empty(), "{id}: {unknown:?} are neither numbers nor shapes of it");
    }
}

/// Numbers and words of what is printed, without what stands around them.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let around = |c: char| !c.is_alphanumeric() && c != '-';
    text.split_whitespace().map(move |word| word.trim_matches(around).trim_end_matches('-'))
}

/// Runs them again: every figure of a line is printed by its command. `ONEFOLD_EXPERIMENTS=all`
/// runs all of them, otherwise those that cost least are.
#[test]
fn lines_are_what_their_commands_print() {
    let all = std::env::var("ONEFOLD_EXPERIMENTS").is_ok_and(|dose| dose == "all");
    let searches = searches();
    let chosen = searches.iter().filter(|(one, _)| all || one.id == "fidr/cost");
    let mut lines = 0;
    for (experiment, search) in chosen {
        for line in &search.lines {
            let (command, given) = command(search, line);
            let options = command.options();
            let run = |one: &'static Experiment| one.run(&options).unwrap();
            let outcomes: Vec<Outcome> = command.experiments().into_iter().map(run).collect();
            let printed: String = outcomes.iter().map(report::text).collect();
            for figure in &line[given..] {
                let there = tokens(&printed).any(|word| word == figure);
                let id = experiment.id;
                assert!(there, "{id}: {line:?}: {figure} is not printed:\n{printed}");
            }
            lines += 1;
        }
    }
    assert!(lines > 1);
}

#[test]
fn what_is_in_quotes_is_one_word() {
    assert_eq!(words("a  b"), ["a", "b"]);
    assert_eq!(words("a --set 'b=\"c d\"' e"), ["a", "--set", "b=\"c d\"", "e"]);
    let command = Command::parse("onefold reproduce x/y --set 'a=\"b c=1\"' --set d=2");
    assert_eq!(command.ids, ["x/y"]);
    let expected = [("a".to_owned(), "b c=1".into()), ("d".to_owned(), 2.into())];
    assert_eq!(command.set, expected);
}
