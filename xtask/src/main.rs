//! The project's own machines: checks, generated files, benchmarks.
//! Room: xtask.

mod bench;
mod cargo;
mod ci;
mod circles;
mod count;
mod deny;
mod failures;
mod files;
mod floors;
mod forms;
mod fuzz;
mod guest;
mod long_tests;
mod metadata;
mod mutants;
mod package;
mod programs;
mod rtl;
mod test_programs;
mod tidy;
mod turn;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci [--whole] ...    what must hold before a change is merged: everything, or without --whole what
                      this commit has a turn of; `cargo xtask ci --help` tells more
  floors              imports go downstairs only, and in no circle
  tidy                what the compiler does not see: sizes, headers, leftovers
  deny                licences, names and sources of what we depend on, by deny.toml
  forms [--rotate]    the command builds with no features, its default ones, and each alone;
                      with --rotate in one of these forms, which the commit decides
  rtl [--check]       lint, synthesise and run rtl/, and write rtl/results.toml, or compare it;
                      with --rotate instead, synthesising one unit, which the commit decides
  mutants CRATE ...   break lines and see whether the tests notice; `cargo xtask mutants --help`
  breakages [NAME] .. breakages chosen by hand, each noticed by the test named for it; --help too
  fuzz [TARGET] ...   inputs that nobody meant, for everything that reads bytes from outside
  guest KERNEL.deb    what takes another kernel: its devices, sockets between machines
  package WHAT        what is handed out: a Debian package, a static program, an image, a site
  bench [GROUP] ...   measure, with --release; `cargo xtask bench --help` tells more
  bench --smoke       every benchmark once, at tiny sizes, with the tests' build
";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all is well.
fn run() -> Result<bool> {
    let root = root()?;
    std::env::set_current_dir(&root).with_context(|| format!("cannot enter {}", root.display()))?;
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    match (command.as_str(), rest.as_slice()) {
        ("ci", rest) => ci::run(rest),
        ("floors", []) => Ok(report("floors", &[floors::check()?, circles::check()?].concat())),
        ("tidy", []) => Ok(report("tidy", &tidy::check()?)),
        ("deny", []) => Ok(report("deny", &deny::check(&root)?)),
        ("forms", rest) => forms::run(rest),
        ("rtl", []) => rtl::run(&root, rtl::Task::Write),
        ("rtl", [flag]) if flag == "--check" => rtl::run(&root, rtl::Task::Check),
        ("rtl", [flag]) if flag == "--rotate" => rtl::run(&root, rtl::Task::Rotate),
        ("mutants", rest) => mutants::run(rest),
        ("breakages", rest) => mutants::breakages::run(rest),
        ("bench", [flag]) if flag == "--smoke" => bench::smoke(),
        ("bench", rest) => bench::run(rest),
        ("package", rest) => package::run(rest),
        ("guest", rest) => guest::run(rest),
        ("fuzz", rest) => fuzz::run(rest),
        ("" | "help" | "-h" | "--help", []) => {
            print!("{USAGE}");
            Ok(true)
        }
        _ => bail!("unknown command: {command} {}\n\n{USAGE}", rest.join(" ")),
    }
}

/// The workspace's root, which holds this crate.
fn root() -> Result<std::path::PathBuf> {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask lies in the workspace")?.to_owned())
}

/// Print what is wrong; returns whether nothing is.
fn report(what: &str, problems: &[String]) -> bool {
    for problem in problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => println!("{what}: all is well"),
        1 => println!("{what}: 1 problem"),
        count => println!("{what}: {count} problems"),
    }
    problems.is_empty()
}
