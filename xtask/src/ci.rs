//! Everything that must hold before a change is merged, in the order in which it fails fastest.
//! Room: xtask.
//! Invariants: the last line of output is `N passed, N failed`: the tests that cargo counted, and
//! one failure for each other step that failed, so that a failed build never reads as a pass.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cargo;

/// One step: its name and the cargo call that repeats it.
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

const fn step(name: &'static str, args: &'static [&'static str]) -> Step {
    Step { name, args, env: &[] }
}

/// The smoke test of the benchmarks shares the tests' build: it shows that they run, and takes
/// seconds instead of an optimised build's minutes.
const STEPS: [Step; 13] = [
    step("format", &["fmt", "--all", "--check"]),
    step("floors", &["xtask", "floors"]),
    step("tidy", &["xtask", "tidy"]),
    step("deny", &["xtask", "deny"]),
    step(
        "clippy",
        &[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--features",
            "mount,parquet",
            "--",
            "--deny",
            "warnings",
        ],
    ),
    step(TESTS, &["test", "--workspace", "--no-fail-fast", "--features", "mount,parquet"]),
    Step {
        name: "docs",
        args: &["doc", "--quiet", "--workspace", "--no-deps", "--features", "mount,parquet"],
        env: &[("RUSTDOCFLAGS", "--deny warnings")],
    },
    step("binaries", &["build", "--quiet", "--workspace", "--bins", "--features", "mount,parquet"]),
    step("default features", &["check", "--quiet", "--package", "onefold", "--all-targets"]),
    step(
        "without models",
        &[
            "clippy",
            "--quiet",
            "--package",
            "onefold",
            "--no-default-features",
            "--",
            "--deny",
            "warnings",
        ],
    ),
    step("rtl", &["xtask", "rtl", "--check"]),
    step("bench", &["xtask", "bench", "--smoke"]),
    step("breakages", &["xtask", "breakages", "--rotate", "--sample", "8"]),
];

const TESTS: &str = "tests";

impl Step {
    /// The line that a person types to run this step alone.
    fn line(&self) -> String {
        let mut words: Vec<String> =
            self.env.iter().map(|(name, value)| format!("{name}='{value}'")).collect();
        words.push("cargo".to_owned());
        words.extend(self.args.iter().map(|&arg| arg.to_owned()));
        words.join(" ")
    }
}

/// What tests came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
}

impl Count {
    /// Add what one line of cargo's output says, if it is a result.
    fn take(&mut self, line: &str) {
        let Some(result) = line.trim_start().strip_prefix("test result: ") else { return };
        for part in result.split([';', '.']) {
            let mut words = part.split_ascii_whitespace();
            let number = words.next().and_then(|word| word.parse::<u64>().ok());
            match (number, words.next()) {
                (Some(number), Some("passed")) => self.passed += number,
                (Some(number), Some("failed")) => self.failed += number,
                _ => {}
            }
        }
    }
}

/// Run all steps, up to the first that fails unless `keep_going`. Returns whether all passed.
pub fn run(keep_going: bool) -> bool {
    let mut count = Count::default();
    let mut failed: Vec<&Step> = Vec::new();
    let mut times: Vec<(&str, Duration)> = Vec::new();
    for step in &STEPS {
        println!("== {}: {}", step.name, step.line());
        let start = Instant::now();
        let before = count;
        let passed = execute(step, &mut count);
        let time = start.elapsed();
        times.push((step.name, time));
        let verdict = if passed { "passed" } else { "FAILED" };
        println!("== {} {verdict} in {:.1} s\n", step.name, time.as_secs_f64());
        if !passed {
            failed.push(step);
            // A step that failed without a failed test: a build, or a crash of its own.
            count.failed += u64::from(count.failed == before.failed);
            if !keep_going {
                break;
            }
        }
    }
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    let list: Vec<String> =
        times.iter().map(|(name, time)| format!("{name} {:.0} s", time.as_secs_f64())).collect();
    println!("{} in all: {}", format_args!("{:.0} s", total.as_secs_f64()), list.join(", "));
    for step in &failed {
        println!("{} failed; to repeat it alone: {}", step.name, step.line());
    }
    println!("{} passed, {} failed", count.passed, count.failed);
    failed.is_empty()
}

/// Run one step; of the tests, show and count the output as it comes.
fn execute(step: &Step, count: &mut Count) -> bool {
    let mut command = cargo::command(step.args);
    command.envs(step.env.iter().copied());
    let outcome =
        if step.name == TESTS { counted(&mut command, count) } else { status(&mut command) };
    outcome.unwrap_or_else(|error| {
        println!("cannot run {}: {error}", step.line());
        false
    })
}

fn status(command: &mut Command) -> io::Result<bool> {
    Ok(command.status()?.success())
}

fn counted(command: &mut Command, count: &mut Count) -> io::Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            count.take(&line);
            writeln!(io::stdout(), "{line}")?;
        }
    }
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_binaries_are_added_up() {
        let mut count = Count::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; \
             finished in 0.51s",
            "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out",
            "a test said: 5 passed; 5 failed",
        ] {
            count.take(line);
        }
        assert_eq!(count, Count { passed: 15, failed: 2 });
    }

    #[test]
    fn a_step_tells_how_to_repeat_it() {
        let docs = STEPS.iter().find(|step| step.name == "docs").unwrap();
        assert_eq!(
            docs.line(),
            "RUSTDOCFLAGS='--deny warnings' cargo doc --quiet --workspace --no-deps \
             --features mount,parquet"
        );
    }

    #[test]
    fn a_command_that_cannot_run_is_a_failure() {
        let missing = Step { name: "missing", args: &["no-such-subcommand"], env: &[] };
        assert!(!execute(&missing, &mut Count::default()));
    }
}
