//! Everything that must hold before a change is merged, in the order in which it fails fastest.
//! Room: xtask.
//! Invariants: the last line of output is `N passed, N failed`: the tests that cargo counted, and
//! one failure for each other step that failed, so that a failed build never reads as a pass.

use std::time::{Duration, Instant};

use crate::count::Count;
use crate::{cargo, test_programs};

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
const STEPS: [Step; 14] = [
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
            FEATURES,
            "--",
            "--deny",
            "warnings",
        ],
    ),
    step(TESTS, &["test", "--workspace", "--no-fail-fast", "--features", FEATURES]),
    Step {
        name: "docs",
        args: &["doc", "--quiet", "--workspace", "--no-deps", "--features", FEATURES],
        env: &[("RUSTDOCFLAGS", "--deny warnings")],
    },
    step("binaries", &["build", "--quiet", "--workspace", "--bins", "--features", FEATURES]),
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
    step("package", &["xtask", "package", "check"]),
    step("rtl", &["xtask", "rtl", "--check"]),
    step("bench", &["xtask", "bench", "--smoke"]),
    step("breakages", &["xtask", "breakages", "--rotate", "--sample", "8"]),
];

const TESTS: &str = "tests";
/// The tests' build has all that the command can do.
pub const FEATURES: &str = "mount,parquet,s3";

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

/// Run one step; the tests count themselves.
fn execute(step: &Step, count: &mut Count) -> bool {
    if step.name == TESTS {
        return all_tests(count);
    }
    let mut command = cargo::command(step.args);
    command.envs(step.env.iter().copied());
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cannot run {}: {error}", step.line());
            false
        }
    }
}

fn all_tests(count: &mut Count) -> bool {
    match test_programs::run() {
        Ok(outcome) => {
            *count = outcome.count;
            for program in &outcome.failed {
                println!("failed; to repeat it alone: cargo test {program}");
            }
            outcome.failed.is_empty()
        }
        Err(error) => {
            println!("{error:#}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_tells_how_to_repeat_it() {
        let docs = STEPS.iter().find(|step| step.name == "docs").unwrap();
        assert_eq!(
            docs.line(),
            "RUSTDOCFLAGS='--deny warnings' cargo doc --quiet --workspace --no-deps \
             --features mount,parquet,s3"
        );
    }

    #[test]
    fn a_command_that_cannot_run_is_a_failure() {
        let missing = Step { name: "missing", args: &["no-such-subcommand"], env: &[] };
        assert!(!execute(&missing, &mut Count::default()));
    }
}
