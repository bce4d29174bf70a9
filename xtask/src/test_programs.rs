//! All tests, as many test programs at once as there are processors.
//! Room: xtask.
//!
//! `cargo test` runs one program after the other. A program that waits for a server, or whose last
//! test takes a minute alone, then leaves processors idle: with two of them a third of the time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo;
use crate::ci::FEATURES;
use crate::count::Count;

/// These take longest, so they begin first: what is short fills the gaps that they leave.
const FIRST: [&str; 4] = ["onefold-lab", "onefold", "onefold-flash", "onefold-pool"];

/// The package that has features.
const COMMAND: &str = "onefold";

/// A built test program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    /// The folder of its package, in which it runs and by whose name it is called.
    folder: PathBuf,
    /// `it`, or the name of the library or binary.
    target: String,
    path: PathBuf,
}

impl Program {
    /// From one line of `cargo test --no-run --message-format json`, if it says that a test
    /// program is there.
    fn from_message(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let path = message["executable"].as_str()?;
        if message["profile"]["test"] != true {
            return None;
        }
        let manifest = Path::new(message["manifest_path"].as_str()?);
        Some(Self {
            folder: manifest.parent()?.to_owned(),
            target: message["target"]["name"].as_str()?.to_owned(),
            path: PathBuf::from(path),
        })
    }

    fn package(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Where it stands in line; a package's tests from outside before those within.
    fn rank(&self) -> (usize, bool) {
        let package = self.package();
        let rank = FIRST.iter().position(|&first| first == package).unwrap_or(FIRST.len());
        (rank, self.target != "it")
    }

    /// What follows `cargo test` to run nothing else.
    fn alone(&self) -> String {
        let package = self.package();
        let features =
            if package == COMMAND { format!(" --features {FEATURES}") } else { String::new() };
        let kind = if self.target == "it" { "--test it" } else { "--lib --bins" };
        format!("-p {package}{features} {kind}")
    }

    /// Run it as cargo would: in its package's folder, with the programs' output kept.
    fn run(&self) -> std::io::Result<Output> {
        Command::new(&self.path)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .output()
    }
}

/// What running all tests came to.
pub struct Outcome {
    pub count: Count,
    /// Programs that failed, each as the words that repeat it alone.
    pub failed: Vec<String>,
}

/// Build all tests and run them, those in documentation, too.
pub fn run() -> Result<Outcome> {
    let mut waiting = build()?;
    waiting.sort_by_key(Program::rank);
    let lanes = thread::available_parallelism().map_or(1, usize::from).min(waiting.len());
    let waiting = Mutex::new(VecDeque::from(waiting));
    let outcome = Mutex::new(Outcome { count: Count::default(), failed: Vec::new() });
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let Some(program) = lock(&waiting).pop_front() else { break };
                    let start = Instant::now();
                    let result = program.run();
                    lock(&outcome).add(&program, &result, start.elapsed());
                }
            });
        }
    });
    let mut outcome = outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcome.add_documentation()?;
    Ok(outcome)
}

/// A lane that panicked has left nothing half done: what is behind the lock is whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn build() -> Result<Vec<Program>> {
    let args = ["test", "--workspace", "--features", FEATURES, "--no-run"];
    let format = ["--message-format", "json-render-diagnostics"];
    let output = cargo::command(&args)
        .args(format)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "the tests do not build");
    let lines = String::from_utf8(output.stdout).context("cargo's messages are not UTF-8")?;
    let programs: Vec<Program> = lines.lines().filter_map(Program::from_message).collect();
    ensure!(!programs.is_empty(), "cargo built no test program");
    Ok(programs)
}

impl Outcome {
    fn add(&mut self, program: &Program, result: &std::io::Result<Output>, time: Duration) {
        println!(
            "\n     Ran {} of {} in {:.1} s",
            program.target,
            program.package(),
            time.as_secs_f64()
        );
        let passed = match result {
            Ok(output) => {
                self.show(output);
                output.status.success()
            }
            Err(error) => {
                println!("cannot run {}: {error}", program.path.display());
                false
            }
        };
        if !passed {
            self.failed.push(program.alone());
        }
    }

    /// The examples in documentation, which only cargo can run.
    fn add_documentation(&mut self) -> Result<()> {
        let args = ["test", "--workspace", "--features", FEATURES, "--doc", "--no-fail-fast"];
        let output = cargo::command(&args).output().context("cannot run cargo")?;
        self.show(&output);
        if !output.status.success() {
            self.failed.push("--workspace --doc".to_owned());
        }
        Ok(())
    }

    fn show(&mut self, output: &Output) {
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            self.count.take(line);
            println!("{line}");
        }
        print!("{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(package: &str, target: &str) -> Program {
        Program {
            folder: Path::new("/here/crates").join(package),
            target: target.to_owned(),
            path: PathBuf::from("/bin/false"),
        }
    }

    #[test]
    fn only_test_programs_are_taken_from_what_cargo_says() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/here/crates/a/Cargo.toml",
                "target":{{"name":"it"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
            .replace('\n', "")
        };
        let found = Program::from_message(&line(true, r#""/t/it-1""#)).unwrap();
        assert_eq!(found.package(), "a");
        assert_eq!(found.target, "it");
        assert_eq!(Program::from_message(&line(false, r#""/t/onefold""#)), None);
        assert_eq!(Program::from_message(&line(true, "null")), None);
        assert_eq!(Program::from_message(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn the_longest_begin() {
        let mut line = [
            program("onefold-sim", "it"),
            program("onefold-pool", "onefold_pool"),
            program("onefold-pool", "it"),
            program("onefold-lab", "it"),
        ];
        line.sort_by_key(Program::rank);
        let order: Vec<_> = line.iter().map(|one| (one.package(), one.target.as_str())).collect();
        let expected = [
            ("onefold-lab", "it"),
            ("onefold-pool", "it"),
            ("onefold-pool", "onefold_pool"),
            ("onefold-sim", "it"),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn a_program_that_fails_or_is_not_there_is_a_failure() {
        let mut outcome = Outcome { count: Count::default(), failed: Vec::new() };
        let failing = program("..", "it");
        outcome.add(&failing, &Command::new(&failing.path).output(), Duration::ZERO);
        let missing = program("gone", "gone");
        outcome.add(&missing, &missing.run(), Duration::ZERO);
        assert_eq!(outcome.failed.len(), 2);
        assert_eq!(outcome.failed[1], "-p gone --lib --bins");
    }
}
