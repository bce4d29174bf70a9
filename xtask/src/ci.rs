//! Everything that must hold before a change is merged, in the order in which it fails fastest.
//! Room: xtask.
//! What needs the tests' build runs beside the tests: most of it keeps one processor busy, and
//! tests wait for servers, so that one after the other they would leave processors idle.
//! Invariants: the last line of output is `N passed, N failed`: the tests that cargo counted, and
//! one failure for each other step that failed, so that a failed build never reads as a pass.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::count::Count;
use crate::{cargo, test_programs};

/// One step: its name and the cargo call that repeats it.
#[derive(Debug)]
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

const fn step(name: &'static str, args: &'static [&'static str]) -> Step {
    Step { name, args, env: &[] }
}

/// One after the other, before anything is built to run.
const BEFORE: [Step; 5] = [
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
];

const TESTS: Step =
    step("tests", &["test", "--workspace", "--no-fail-fast", "--features", FEATURES]);

/// One after the other, while the tests run. The smoke test of the benchmarks shares the tests'
/// build: it shows that they run, and takes seconds instead of an optimised build's minutes.
const BESIDE: [Step; 6] = [
    Step {
        name: "docs",
        args: &["doc", "--quiet", "--workspace", "--no-deps", "--features", FEATURES],
        env: &[("RUSTDOCFLAGS", "--deny warnings")],
    },
    step("forms", &["xtask", "forms", "--rotate"]),
    step("package", &["xtask", "package", "check"]),
    step("rtl", &["xtask", "rtl", "--rotate"]),
    step("bench", &["xtask", "bench", "--smoke"]),
    step(BREAKAGES, &["xtask", "breakages", "--rotate", "--sample", "8"]),
];

/// It may build the command in another form, where tests and benchmarks find it.
const BREAKAGES: &str = "breakages";
/// The tests' build has all that the command can do.
pub const FEATURES: &str = "mount,parquet,s3";
/// The tests' build: all test programs, and the binaries with the libraries that tests have.
/// Examples are left to clippy: nobody runs them, and each takes seconds to link.
pub const TESTS_BUILD: [&str; 6] =
    ["build", "--workspace", "--bins", "--tests", "--features", FEATURES];

impl Step {
    /// The line that a person types to run this step alone.
    fn line(&self) -> String {
        let mut words: Vec<String> =
            self.env.iter().map(|(name, value)| format!("{name}='{value}'")).collect();
        words.push("cargo".to_owned());
        words.extend(self.args.iter().map(|&arg| arg.to_owned()));
        words.join(" ")
    }

    fn command(&self) -> std::process::Command {
        let mut command = cargo::command(self.args);
        command.envs(self.env.iter().copied());
        command
    }

    /// Run it, with its output as it comes. Returns whether it passed.
    fn run(&self) -> bool {
        match self.command().status() {
            Ok(status) => status.success(),
            Err(error) => {
                println!("cannot run {}: {error}", self.line());
                false
            }
        }
    }

    /// Run it with its output kept, so that what runs beside it does not mix with it.
    fn run_apart(&self) -> (bool, String) {
        match self.command().output() {
            Ok(output) => {
                let parts = [&output.stdout[..], &output.stderr[..]].concat();
                (output.status.success(), String::from_utf8_lossy(&parts).into_owned())
            }
            Err(error) => (false, format!("cannot run {}: {error}\n", self.line())),
        }
    }
}

/// What became of the steps so far.
#[derive(Default)]
struct Record {
    count: Count,
    failed: Vec<&'static Step>,
    times: Vec<(&'static str, Duration)>,
}

/// All steps of one run.
struct Run {
    keep_going: bool,
    record: Mutex<Record>,
}

/// Run all steps, none after one has failed unless `keep_going`; what runs beside it comes to its
/// end. Returns whether all passed.
pub fn run(keep_going: bool) -> bool {
    let start = Instant::now();
    let run = Run { keep_going, record: Mutex::default() };
    for step in &BEFORE {
        run.take(step);
    }
    run.tests();
    let record = run.record.into_inner().unwrap_or_else(PoisonError::into_inner);
    record.tell(start.elapsed());
    record.failed.is_empty()
}

impl Run {
    /// What is behind the lock is whole even if somebody panicked.
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn goes_on(&self) -> bool {
        self.keep_going || self.record().failed.is_empty()
    }

    /// Run one step alone.
    fn take(&self, step: &'static Step) {
        if self.goes_on() {
            println!("== {}: {}", step.name, step.line());
            let start = Instant::now();
            let passed = step.run();
            println!("{}", self.record().add(step, passed, start.elapsed()));
        }
    }

    /// Build all tests and run them, and the other steps beside them.
    fn tests(&self) {
        if !self.goes_on() {
            return;
        }
        println!("== {}: {}", TESTS.name, TESTS.line());
        let start = Instant::now();
        let outcome = match test_programs::build() {
            Ok(programs) => {
                println!("built in {:.1} s", start.elapsed().as_secs_f64());
                test_programs::run(programs, || self.beside())
            }
            Err(error) => Err(error),
        };
        let passed = match outcome {
            Ok(outcome) => {
                self.record().count = outcome.count;
                for program in &outcome.failed {
                    println!("failed; to repeat it alone: cargo test {program}");
                }
                outcome.failed.is_empty()
            }
            Err(error) => {
                println!("{error:#}");
                false
            }
        };
        println!("{}", self.record().add(&TESTS, passed, start.elapsed()));
    }

    /// The steps for which the tests' build is enough.
    fn beside(&self) {
        for step in &BESIDE {
            if !self.goes_on() {
                return;
            }
            let alone = (step.name == BREAKAGES).then(test_programs::nobody_uses_the_command);
            let start = Instant::now();
            let (passed, said) = step.run_apart();
            drop(alone);
            let verdict = self.record().add(step, passed, start.elapsed());
            print!("\n== {}: {}\n{said}{verdict}\n", step.name, step.line());
        }
    }
}

impl Record {
    /// Note what became of a step. Returns the line that says so.
    fn add(&mut self, step: &'static Step, passed: bool, time: Duration) -> String {
        self.times.push((step.name, time));
        if !passed {
            self.failed.push(step);
        }
        let verdict = if passed { "passed" } else { "FAILED" };
        format!("== {} {verdict} in {:.1} s\n", step.name, time.as_secs_f64())
    }

    /// One failure for each test that failed, and for each step that failed without: a build, or a
    /// crash of its own.
    fn failures(&self) -> u64 {
        let counted = |step: &&&Step| step.name == TESTS.name && self.count.failed > 0;
        let others = self.failed.len() - self.failed.iter().filter(counted).count();
        self.count.failed + others as u64
    }

    /// Tell how long everything took, what to repeat, and the count.
    fn tell(&self, total: Duration) {
        let list: Vec<String> = self
            .times
            .iter()
            .map(|(name, time)| format!("{name} {:.0} s", time.as_secs_f64()))
            .collect();
        println!("{:.0} s in all: {}", total.as_secs_f64(), list.join(", "));
        for step in &self.failed {
            println!("{} failed; to repeat it alone: {}", step.name, step.line());
        }
        println!("{} passed, {} failed", self.count.passed, self.failures());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_tells_how_to_repeat_it() {
        let docs = BESIDE.iter().find(|step| step.name == "docs").unwrap();
        assert_eq!(
            docs.line(),
            "RUSTDOCFLAGS='--deny warnings' cargo doc --quiet --workspace --no-deps \
             --features mount,parquet,s3"
        );
    }

    #[test]
    fn a_command_that_cannot_run_is_a_failure() {
        let missing = step("missing", &["no-such-subcommand"]);
        assert!(!missing.run());
        let (passed, said) = missing.run_apart();
        assert!(!passed && said.contains("no-such-subcommand"), "{said}");
    }

    #[test]
    fn the_output_of_a_step_is_kept_apart() {
        let (passed, said) = step("talks", &["--version"]).run_apart();
        assert!(passed && said.contains("cargo"), "{said}");
    }

    #[test]
    fn each_failure_counts_once_whether_tests_tell_of_it_or_not() {
        let mut record = Record::default();
        assert!(record.add(&BESIDE[0], true, Duration::ZERO).contains("docs passed"));
        assert_eq!(record.failures(), 0);
        record.add(&TESTS, false, Duration::ZERO);
        assert_eq!(record.failures(), 1, "the tests did not build");
        record.count = Count { passed: 9, failed: 3 };
        assert_eq!(record.failures(), 3);
        assert!(record.add(&BESIDE[0], false, Duration::ZERO).contains("docs FAILED"));
        assert_eq!(record.failures(), 4);
    }

    #[test]
    fn after_a_failure_nothing_begins_unless_it_is_to_go_on() {
        for keep_going in [false, true] {
            let run = Run { keep_going, record: Mutex::default() };
            assert!(run.goes_on());
            run.record().add(&BESIDE[0], false, Duration::ZERO);
            assert_eq!(run.goes_on(), keep_going);
        }
    }
}
