//! `cargo xtask fuzz [--blind] [TARGET] [--inputs N] [--seed S]`.
//! Room: onefold-fuzz.

use std::process::ExitCode;

use onefold_fuzz::targets::{TARGETS, Target};
use onefold_fuzz::{meter, run};

#[global_allocator]
static ALLOCATOR: meter::Counted = meter::Counted;

const USAGE: &str = "\
usage: cargo xtask fuzz [--blind] [--inputs N] [--seed S] [TARGET ...]
       cargo xtask fuzz [--blind] --input FILE TARGET

  TARGET        what to try; all of them without a name
  --inputs N    so many inputs for each (100000)
  --seed S      which ones (1)
  --input FILE  this one alone
  --blind       with checksums that are right whatever an input has made of a file
";

struct Options {
    targets: Vec<&'static Target>,
    inputs: u64,
    seed: u64,
    input: Option<String>,
}

#[expect(clippy::disallowed_methods, reason = "a command has arguments")]
fn options() -> Result<Options, String> {
    let mut options = Options { targets: Vec::new(), inputs: 100_000, seed: 1, input: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--inputs" => options.inputs = number(value()?)?,
            "--seed" => options.seed = number(value()?)?,
            "--input" => options.input = Some(value()?),
            name => {
                let found = TARGETS.iter().find(|target| target.name == name);
                let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
                options.targets.push(found.ok_or_else(|| {
                    format!("no target is called {name}: there are {}\n\n{USAGE}", names.join(", "))
                })?);
            }
        }
    }
    if options.targets.is_empty() {
        options.targets = TARGETS.iter().collect();
    }
    Ok(options)
}

fn try_target(target: &Target, options: &Options) -> Result<(), String> {
    if let Some(path) = &options.input {
        let input = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        let cost = run::one(target, &input)?;
        println!("{}: {} bytes take {cost:?}", target.name, input.len());
        return Ok(());
    }
    let kept = run::kept(target).map_err(|broken| broken.why)?;
    let broken = match run::made(target, options.inputs, options.seed) {
        Ok(()) => {
            println!("{}: {kept} kept inputs and {} made", target.name, options.inputs);
            return Ok(());
        }
        Err(broken) => broken,
    };
    let path = run::save(target, &broken).map_err(|error| error.to_string())?;
    Err(format!(
        "{}; to see it again: cargo xtask fuzz --input {} {}",
        broken.why,
        path.display(),
        target.name
    ))
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let mut broken = false;
    for target in &options.targets {
        if let Err(why) = try_target(target, &options) {
            println!("{} IS BROKEN: {why}", target.name);
            broken = true;
        }
    }
    ExitCode::from(u8::from(broken))
}
