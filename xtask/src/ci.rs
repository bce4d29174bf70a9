//! Everything that must hold before a change is merged, in the order in which it fails fastest.
//! Room: xtask.
//! What needs the tests' build runs beside the tests: most of it keeps one processor busy, and
//! tests wait for servers, so that one after the other they would leave processors idle.
//! Invariants: the last line of output is `N passed, N failed`: the tests that cargo counted, and
//! one failure for each other step that failed, so that a failed build never reads as a pass.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::count::Count;
use crate::test_programs::Failure;
use crate::turn::Share;
use crate::{cargo, long_tests, test_programs};

const USAGE: &str = "\
usage: cargo xtask ci [--keep-going] [--whole] [--after PATH]
       cargo xtask ci [--whole] --has STEP

  --keep-going     go on after a step has failed
  --whole          everything, and not only the steps beside the tests and the long tests
                   (`xtask/long-tests.txt`) whose turn it is with this commit
  --after PATH     before anything runs that is built, read PATH to its end, and fail unless its
                   last line is `installed`: `.ci/run` installs what is missing meanwhile
  --has STEP       run nothing: end with status 0 if such a run has this step, and 1 if not
";

/// What a run is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Options {
    keep_going: bool,
    whole: bool,
    after: Option<PathBuf>,
    has: Option<String>,
}

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
            "--lib",
            "--bins",
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

/// What the tests need is there: no cargo call, but somebody else's work.
const INSTALLED: Step = step("install", &[]);

/// One after the other, while the tests run, each in its turn: a commit has those of one number.
/// All numbers take about as long. The smoke test of the benchmarks shares the tests' build: it
/// shows that they run, and takes seconds instead of an optimised build's minutes.
const BESIDE: [(u64, Step); 7] = [
    (
        0,
        Step {
            name: "docs",
            args: &["doc", "--quiet", "--workspace", "--no-deps", "--features", FEATURES],
            env: &[("RUSTDOCFLAGS", "--deny warnings")],
        },
    ),
    (1, step("forms", &["xtask", "forms", "--rotate"])),
    (2, step("package", &["xtask", "package", "check"])),
    (3, step("rtl", &["xtask", "rtl", "--rotate"])),
    (3, step("bench", &["xtask", "bench", "--smoke"])),
    (4, step(BREAKAGES, &["xtask", "breakages", "--rotate", "--sample", "8"])),
    // What was not linted before: tests, examples and benchmarks.
    (
        5,
        step(
            "lints",
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
    ),
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

    /// What a person does to repeat it.
    fn again(&self) -> String {
        if self.args.is_empty() { ".ci/run".to_owned() } else { self.line() }
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
#[derive(Default)]
struct Run {
    keep_going: bool,
    record: Mutex<Record>,
}

/// Run all steps, none after one has failed unless it is to go on; what runs beside it comes to its
/// end. Returns whether all passed.
pub fn run(args: &[String]) -> Result<bool> {
    let Some(options) = options(args)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    let share = if options.whole { Share::Whole } else { Share::of_this_commit()? };
    if let Some(step) = &options.has {
        return has(share, step);
    }
    let start = Instant::now();
    let run = Run { keep_going: options.keep_going, ..Run::default() };
    for step in &BEFORE {
        run.take(step);
    }
    if let Some(path) = &options.after {
        run.wait_for(path);
    }
    run.tests(share);
    let record = run.record.into_inner().unwrap_or_else(PoisonError::into_inner);
    record.tell(start.elapsed());
    Ok(record.failed.is_empty())
}

/// The steps beside the tests that a run with this share has.
fn beside(share: Share) -> impl Iterator<Item = &'static Step> {
    BESIDE.iter().filter(move |(place, _)| share.has(*place)).map(|(_, step)| step)
}

/// Whether a run with this share has a step.
fn has(share: Share, name: &str) -> Result<bool> {
    let in_turn = BESIDE.iter().any(|(_, step)| step.name == name);
    if !in_turn && name != TESTS.name && !BEFORE.iter().any(|step| step.name == name) {
        bail!("there is no step {name}");
    }
    Ok(!in_turn || beside(share).any(|step| step.name == name))
}

/// The options, or none if help is asked for.
fn options(args: &[String]) -> Result<Option<Options>> {
    let mut options = Options::default();
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--keep-going" => options.keep_going = true,
            "--whole" => options.whole = true,
            "--has" => options.has = Some(words.next().context("--has needs a step")?.to_owned()),
            "--after" => options.after = Some(words.next().context("--after needs a path")?.into()),
            "-h" | "--help" => return Ok(None),
            other => bail!("unknown: {other}\n\n{USAGE}"),
        }
    }
    Ok(Some(options))
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

    /// Wait until somebody else has installed what the tests need, even after a failure: who
    /// starts again soon finds nothing half installed.
    fn wait_for(&self, path: &Path) {
        let start = Instant::now();
        let said = std::fs::read_to_string(path)
            .unwrap_or_else(|error| format!("cannot read {}: {error}\n", path.display()));
        let installed = said.lines().last() == Some("installed");
        println!("== {}\n{said}", INSTALLED.name);
        println!("{}", self.record().add(&INSTALLED, installed, start.elapsed()));
    }

    /// Build all tests and run this share of them, and the other steps beside them.
    fn tests(&self, share: Share) {
        if !self.goes_on() {
            return;
        }
        println!("== {}: {}", TESTS.name, TESTS.line());
        let others = long_tests::left_out_in_all(share);
        if others > 0 {
            println!("{others} long tests have their turn with other commits");
        }
        let start = Instant::now();
        let built = || println!("\nbuilt in {:.1} s", start.elapsed().as_secs_f64());
        let passed = match test_programs::run(share, built, || self.beside(share)) {
            Ok(outcome) => {
                for Failure { again, told } in &outcome.failed {
                    println!("\nfailed; to repeat it alone: cargo test {again}\n{told}");
                }
                self.record().count = outcome.count;
                outcome.failed.is_empty()
            }
            Err(error) => {
                println!("{error:#}");
                false
            }
        };
        println!("{}", self.record().add(&TESTS, passed, start.elapsed()));
    }

    /// The steps of this share for which the tests' build is enough.
    fn beside(&self, share: Share) {
        for step in beside(share) {
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
            println!("{} failed; to repeat it alone: {}", step.name, step.again());
        }
        println!("{} passed, {} failed", self.count.passed, self.failures());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::TURNS;

    #[test]
    fn a_step_tells_how_to_repeat_it() {
        let docs = beside(Share::Whole).find(|step| step.name == "docs").unwrap();
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
        assert!(record.add(&BESIDE[0].1, true, Duration::ZERO).contains("docs passed"));
        assert_eq!(record.failures(), 0);
        record.add(&TESTS, false, Duration::ZERO);
        assert_eq!(record.failures(), 1, "the tests did not build");
        record.count = Count { passed: 9, failed: 3, left_out: 0 };
        assert_eq!(record.failures(), 3);
        assert!(record.add(&BESIDE[0].1, false, Duration::ZERO).contains("docs FAILED"));
        assert_eq!(record.failures(), 4);
    }

    #[test]
    fn options_are_known_or_refused() {
        let parsed =
            |args: &[&str]| options(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>());
        assert_eq!(parsed(&[]).unwrap(), Some(Options::default()));
        let after = Some("/x".into());
        let all = Options { keep_going: true, whole: true, after, has: None };
        assert_eq!(parsed(&["--whole", "--after", "/x", "--keep-going"]).unwrap(), Some(all));
        assert_eq!(parsed(&["--help"]).unwrap(), None);
        assert!(parsed(&["--after"]).unwrap_err().to_string().contains("needs a path"));
        assert!(parsed(&["--all"]).unwrap_err().to_string().contains("unknown: --all"));
    }

    #[test]
    fn each_step_is_had_by_whoever_has_its_turn() {
        for (_, step) in &BESIDE {
            let turns = (0..TURNS).filter(|&turn| has(Share::Turn(turn), step.name).unwrap());
            assert_eq!(turns.count(), 1, "{}", step.name);
            assert!(has(Share::Whole, step.name).unwrap());
        }
        for turn in (0..TURNS).map(Share::Turn) {
            assert!(beside(turn).next().is_some(), "a run without a step beside its tests");
            assert!(has(turn, "clippy").unwrap() && has(turn, "tests").unwrap());
        }
        assert!(has(Share::Whole, "dokcs").unwrap_err().to_string().contains("no step dokcs"));
    }

    #[test]
    fn what_was_not_installed_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        for (said, failures) in [("E: it is not installed\n", 1), ("fetched\ninstalled\n", 0)] {
            std::fs::write(&told, said).unwrap();
            let run = Run::default();
            run.wait_for(&told);
            assert_eq!(run.record().failures(), failures, "{said}");
        }
        let run = Run::default();
        run.wait_for(&folder.path().join("missing"));
        assert!(!run.goes_on());
    }

    #[test]
    fn after_a_failure_nothing_begins_unless_it_is_to_go_on() {
        for keep_going in [false, true] {
            let run = Run { keep_going, ..Run::default() };
            assert!(run.goes_on());
            run.record().add(&BESIDE[0].1, false, Duration::ZERO);
            assert_eq!(run.goes_on(), keep_going);
        }
    }
}
