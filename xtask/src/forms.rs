//! The forms that the command can be built in: what its features leave out must not be missed.
//! Room: xtask.
//! Clippy has seen all code with all features; what is left to see is what the compiler says of a
//! form without some of them. Each costs a minute of a processor, as libraries get other features
//! as well, so that a commit has one of them, and a person who changes features has them all.

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use crate::turn::choice;

const USAGE: &str = "\
usage: cargo xtask forms [--rotate]

Whether the command and its tests build with no features, with those it has by default and with
each one alone, without a warning.

  --rotate   one of these forms only, which the commit that is checked out decides: the two that
             the README has people build come three times out of four
";

/// What cargo is told for a form, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    name: &'static str,
    args: &'static [&'static str],
}

/// What the README's first command builds.
const SMALLEST: Form = Form { name: "no features", args: &["--no-default-features"] };
const DEFAULT: Form = Form { name: "default features", args: &[] };

/// One feature alone.
macro_rules! alone {
    ($name:literal) => {
        Form { name: $name, args: &["--no-default-features", "--features", $name] }
    };
}

const ALONE: [Form; 6] = [
    alone!("archive"),
    alone!("models"),
    alone!("top"),
    alone!("parquet"),
    alone!("mount"),
    alone!("s3"),
];

/// Run the command. Returns whether every form builds.
pub fn run(args: &[String]) -> Result<bool> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let forms = match args.as_slice() {
        [] => [&[SMALLEST, DEFAULT], ALONE.as_slice()].concat(),
        ["--rotate"] => vec![of_turn(choice(&crate::root()?)?)],
        ["-h" | "--help"] => {
            print!("{USAGE}");
            return Ok(true);
        }
        _ => bail!("unknown: {}\n\n{USAGE}", args.join(" ")),
    };
    let mut all_build = true;
    for form in forms {
        let said = check(form)?;
        let verdict = if said.is_none() { "builds" } else { "FAILS" };
        println!("forms: {} {verdict}{}", form.name, said.as_deref().unwrap_or_default());
        all_build &= said.is_none();
    }
    Ok(all_build)
}

/// The form whose turn it is. A commit's number is as good as random.
fn of_turn(turn: u64) -> Form {
    match turn % 8 {
        0..4 => SMALLEST,
        4 | 5 => DEFAULT,
        _ => ALONE[(turn / 8 % ALONE.len() as u64) as usize],
    }
}

/// What the compiler has to say of a form, if anything: `cargo check` warns and succeeds.
fn check(form: Form) -> Result<Option<String>> {
    let mut command = cargo::command(&["check", "--quiet", "--package", "onefold"]);
    // The tests of most forms are those of others; of the smallest they are what is left.
    let targets = if form == SMALLEST { ["--bins", "--tests"].as_slice() } else { &[] };
    let output =
        command.args(form.args).args(targets).output().context("cannot run cargo check")?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    ensure!(output.status.success() || !said.is_empty(), "cargo check failed without a word");
    Ok((!said.is_empty()).then(|| format!("\n{said}")))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_form_has_its_turn_and_those_of_the_readme_most() {
        let mut turns: HashMap<&str, u32> = HashMap::new();
        for turn in 0..480 {
            *turns.entry(of_turn(turn).name).or_default() += 1;
        }
        assert_eq!(turns.remove(SMALLEST.name), Some(240));
        assert_eq!(turns.remove(DEFAULT.name), Some(120));
        assert!(
            turns.len() == ALONE.len() && turns.values().all(|&count| count == 20),
            "{turns:?}"
        );
    }

    #[test]
    fn every_feature_has_a_form_of_its_own() {
        let manifest = crate::root().unwrap().join("crates/onefold/Cargo.toml");
        let table: toml::Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
        let features = table["features"].as_table().unwrap().keys();
        let named: Vec<&String> = features.filter(|&name| name != "default").collect();
        assert_eq!(named.len(), ALONE.len());
        for name in named {
            assert!(ALONE.iter().any(|form| form.name == name), "{name}");
        }
    }
}
