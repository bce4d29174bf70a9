//! All tests, as many test programs at once as there are processors.
//! Room: xtask.
//!
//! `cargo test` runs one program after the other. A program that waits for a server, or whose last
//! test takes a minute alone, then leaves processors idle: with two of them a third of the time.
//! They run while others are still built: the last that are built leave a processor idle for a
//! minute. What else is to be done follows the build in the first lane, which takes test programs
//! after it. Of the tests that take long, a run has the share that it is told.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::ci::{FEATURES, TESTS_BUILD};
use crate::count::Count;
use crate::turn::Share;
use crate::{cargo, failures, long_tests};

/// These take longest, so they begin first: what is short fills the gaps that they leave. The
/// command's tests wait most, and most is done beside those that begin.
const FIRST: [&str; 5] = [COMMAND, "onefold-lab", "onefold-flash", "onefold-pool", "onefold-array"];

/// The package that has features.
const COMMAND: &str = "onefold";

/// Held for reading by who starts the built command.
static COMMAND_IS_USED: RwLock<()> = RwLock::new(());

/// Wait until no test program starts the built command, and let none begin that does: who builds
/// it in another form holds this.
pub fn nobody_uses_the_command() -> RwLockWriteGuard<'static, ()> {
    COMMAND_IS_USED.write().unwrap_or_else(PoisonError::into_inner)
}

/// A built test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The folder of its package, in which it runs and by whose name it is called.
    folder: PathBuf,
    /// `it`, or the name of the library or binary.
    target: String,
    path: PathBuf,
}

impl Program {
    /// From one line of `cargo build --tests --message-format json`, if it says that a test
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

    /// Whether its tests start the command.
    fn starts_the_command(&self) -> bool {
        self.package() == COMMAND
    }

    /// What is held while it runs, if its tests start the command.
    fn uses_the_command(&self) -> Option<RwLockReadGuard<'static, ()>> {
        let used = || COMMAND_IS_USED.read().unwrap_or_else(PoisonError::into_inner);
        self.starts_the_command().then(used)
    }

    /// Run it as cargo would: in its package's folder, with the programs' output kept. The tests of
    /// these names are left out.
    fn run(&self, left_out: &[&str]) -> std::io::Result<Output> {
        let _used = self.uses_the_command();
        let mut command = Command::new(&self.path);
        for test in left_out {
            command.args(["--skip", test]);
        }
        if !left_out.is_empty() {
            command.arg("--exact");
        }
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .output()
    }
}

/// What cargo has built so far: it links the command and the tests that start it in any order.
#[derive(Default)]
struct Built {
    tests: usize,
    is_command_there: bool,
    /// Test programs that wait for the command.
    held: Vec<Program>,
}

impl Built {
    /// Take one line of what cargo says. Returns the test programs that can run from now on.
    fn take(&mut self, line: &str) -> Vec<Program> {
        if let Some(program) = Program::from_message(line) {
            self.tests += 1;
            if self.is_command_there || !program.starts_the_command() {
                return vec![program];
            }
            self.held.push(program);
        } else if is_command(line) {
            self.is_command_there = true;
            return std::mem::take(&mut self.held);
        }
        Vec::new()
    }
}

/// Whether this line says that the command is there.
fn is_command(line: &str) -> bool {
    let message: Value = serde_json::from_str(line).unwrap_or_default();
    let is_binary = message["target"]["kind"][0] == "bin" && message["profile"]["test"] == false;
    is_binary && message["target"]["name"] == COMMAND && message["executable"].is_string()
}

/// What running all tests came to.
#[derive(Debug)]
pub struct Outcome {
    pub count: Count,
    pub failed: Vec<Failure>,
}

/// A test program that failed.
#[derive(Debug)]
pub struct Failure {
    /// What follows `cargo test` to run nothing else.
    pub again: String,
    /// What it said about it.
    pub told: String,
}

/// Test programs that wait to be run.
#[derive(Default)]
struct Waiting {
    line: Mutex<Line>,
    changed: Condvar,
}

#[derive(Default)]
struct Line {
    programs: Vec<Program>,
    is_complete: bool,
}

impl Waiting {
    fn add(&self, program: Program) {
        lock(&self.line).programs.push(program);
        self.changed.notify_one();
    }

    /// No more will come.
    fn complete(&self) {
        lock(&self.line).is_complete = true;
        self.changed.notify_all();
    }

    /// No more will come, and none of those that wait is run.
    fn give_up(&self) {
        lock(&self.line).programs.clear();
        self.complete();
    }

    /// The next to run, when there is one; none when all have been.
    fn next(&self) -> Option<Program> {
        let mut line = lock(&self.line);
        loop {
            let places = line.programs.iter().enumerate();
            let first = places.min_by_key(|(_, program)| program.rank()).map(|(at, _)| at);
            if let Some(first) = first {
                return Some(line.programs.remove(first));
            }
            if line.is_complete {
                return None;
            }
            line = self.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Build all tests and run this share of them, those in documentation, too; call `built` when they
/// are, and do `beside` after it.
pub fn run(
    share: Share,
    built: impl FnOnce() + Send,
    beside: impl FnOnce() + Send,
) -> Result<Outcome> {
    let (mut outcome, documentation) = in_lanes(share, |waiting| {
        build(waiting).inspect_err(|_| waiting.give_up())?;
        waiting.complete();
        built();
        let documentation = documentation();
        beside();
        documentation
    });
    outcome.add_documentation(&documentation?);
    Ok(outcome)
}

/// Run test programs in as many lanes as there are processors, of which the first begins with
/// something else: that adds them. Returns what both came to.
fn in_lanes<T: Send>(share: Share, before: impl FnOnce(&Waiting) -> T + Send) -> (Outcome, T) {
    let lanes = thread::available_parallelism().map_or(1, usize::from);
    let waiting = Waiting::default();
    let outcome = Mutex::new(Outcome { count: Count::default(), failed: Vec::new() });
    let lane = || {
        while let Some(program) = waiting.next() {
            let start = Instant::now();
            let left_out = long_tests::left_out(share, program.package(), &program.target);
            let result = program.run(&left_out);
            lock(&outcome).add(&program, &result, &left_out, start.elapsed());
        }
    };
    let before = thread::scope(|scope| {
        for _ in 1..lanes {
            scope.spawn(lane);
        }
        let before = before(&waiting);
        lane();
        before
    });
    (outcome.into_inner().unwrap_or_else(PoisonError::into_inner), before)
}

/// A lane that panicked has left nothing half done: what is behind the lock is whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Build all tests, and the binaries. Each test program waits to be run as soon as it is there.
fn build(waiting: &Waiting) -> Result<()> {
    let mut cargo = cargo::command(&TESTS_BUILD)
        .args(["--message-format", "json-render-diagnostics"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .context("cannot run cargo")?;
    let said = cargo.stdout.take().context("cargo says nothing")?;
    let mut built = Built::default();
    for line in BufReader::new(said).lines() {
        let ready = built.take(&line.context("cannot read from cargo")?);
        for program in ready {
            waiting.add(program);
        }
    }
    let status = cargo.wait().context("cannot wait for cargo")?;
    ensure!(status.success(), "the tests do not build");
    ensure!(built.tests > 0, "cargo built no test program");
    ensure!(built.is_command_there, "cargo built no {COMMAND}");
    Ok(())
}

/// Run the examples in documentation, which only cargo can.
fn documentation() -> Result<Output> {
    let args = ["test", "--workspace", "--features", FEATURES, "--doc", "--no-fail-fast"];
    cargo::command(&args).output().context("cannot run cargo")
}

impl Outcome {
    fn add(
        &mut self,
        program: &Program,
        result: &std::io::Result<Output>,
        left_out: &[&str],
        time: Duration,
    ) {
        println!(
            "\n     Ran {} of {} in {:.1} s",
            program.target,
            program.package(),
            time.as_secs_f64()
        );
        let told = match result {
            Ok(output) => {
                let before = self.count.left_out;
                let told = self.show(output);
                let count = self.count.left_out - before;
                let unknown = (count != left_out.len() as u64).then(|| {
                    format!("{count} left out of {left_out:?}: not all of them are tests here")
                });
                told.or(unknown)
            }
            Err(error) => Some(format!("cannot run {}: {error}", program.path.display())),
        };
        self.failed.extend(told.map(|told| Failure { again: program.alone(), told }));
    }

    fn add_documentation(&mut self, output: &Output) {
        let again = "--workspace --doc".to_owned();
        let told = self.show(output);
        self.failed.extend(told.map(|told| Failure { again, told }));
    }

    /// Show what was said, and count it. Returns what is to be told again, if something failed.
    fn show(&mut self, output: &Output) -> Option<String> {
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        for line in stdout.lines() {
            self.count.take(line);
            println!("{line}");
        }
        print!("{stderr}");
        (!output.status.success()).then(|| failures::told(&stdout, &stderr))
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
    fn tests_that_start_the_command_wait_until_it_is_there() {
        let line = |package: &str, target: &str, kind: &str, test: bool| {
            format!(
                r#"{{"manifest_path":"/here/{package}/Cargo.toml","profile":{{"test":{test}}},
                "target":{{"kind":["{kind}"],"name":"{target}"}},"executable":"/t/x"}}"#
            )
            .replace('\n', "")
        };
        let mut built = Built::default();
        let mut ready = |line: String| -> Vec<String> {
            built.take(&line).into_iter().map(|program| program.target).collect()
        };
        assert!(ready(line(COMMAND, "it", "test", true)).is_empty());
        assert_eq!(ready(line("onefold-pool", "it", "test", true)), ["it"]);
        assert!(ready(line(COMMAND, COMMAND, "bin", true)).is_empty(), "its own tests");
        assert!(ready(line("xtask", "xtask", "bin", false)).is_empty(), "another one");
        assert!(ready(line(COMMAND, COMMAND, "lib", false)).is_empty(), "its library");
        assert_eq!(ready(line(COMMAND, COMMAND, "bin", false)), ["it", COMMAND]);
        assert_eq!(ready(line(COMMAND, "late", "test", true)), ["late"]);
        assert_eq!((built.tests, built.held.len()), (4, 0));
    }

    #[test]
    fn the_longest_begin() {
        let waiting = Waiting::default();
        for (package, target) in [
            ("onefold-sim", "it"),
            ("onefold-pool", "onefold_pool"),
            ("onefold-pool", "it"),
            ("onefold-lab", "it"),
        ] {
            waiting.add(program(package, target));
        }
        waiting.complete();
        let order = std::iter::from_fn(|| waiting.next());
        let order: Vec<_> = order.map(|one| (one.package().to_owned(), one.target)).collect();
        let expected = [
            ("onefold-lab", "it"),
            ("onefold-pool", "it"),
            ("onefold-pool", "onefold_pool"),
            ("onefold-sim", "it"),
        ];
        assert_eq!(order, expected.map(|(package, it)| (package.to_owned(), it.to_owned())));
    }

    #[test]
    fn after_a_build_that_failed_none_begins() {
        let waiting = Waiting::default();
        waiting.add(program("onefold-sim", "it"));
        waiting.give_up();
        assert_eq!(waiting.next(), None);
    }

    #[test]
    fn a_lane_waits_for_what_is_still_built() {
        let waiting = Waiting::default();
        thread::scope(|scope| {
            let next = scope.spawn(|| (waiting.next(), waiting.next()));
            waiting.add(program("onefold-sim", "it"));
            waiting.complete();
            let (first, second) = next.join().unwrap();
            assert_eq!(first.unwrap().package(), "onefold-sim");
            assert_eq!(second, None);
        });
    }

    #[test]
    fn a_program_that_fails_or_is_not_there_is_a_failure() {
        let mut outcome = Outcome { count: Count::default(), failed: Vec::new() };
        let failing = program("..", "it");
        outcome.add(&failing, &Command::new(&failing.path).output(), &[], Duration::ZERO);
        let missing = program("gone", "gone");
        outcome.add(&missing, &missing.run(&[]), &[], Duration::ZERO);
        assert_eq!(outcome.failed.len(), 2);
        assert_eq!(outcome.failed[1].again, "-p gone --lib --bins");
        assert!(outcome.failed[1].told.starts_with("cannot run /bin/false: "));
    }

    #[test]
    fn a_test_that_is_to_be_left_out_must_be_there() {
        let mut outcome = Outcome { count: Count::default(), failed: Vec::new() };
        let program = program("onefold-pool", "it");
        let result = || {
            let line = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; \
                        1 filtered out; finished in 0.51s";
            Command::new("echo").arg(line).output()
        };
        outcome.add(&program, &result(), &["one"], Duration::ZERO);
        assert_eq!(outcome.failed.len(), 0);
        outcome.add(&program, &result(), &["one", "gone"], Duration::ZERO);
        let [Failure { again, told }] = &outcome.failed[..] else { panic!("{outcome:?}") };
        assert_eq!(again, "-p onefold-pool --test it");
        assert!(told.starts_with("1 left out of [\"one\", \"gone\"]"), "{told}");
        let said = Program { path: "echo".into(), folder: "/".into(), ..program };
        let output = said.run(&["one", "two"]).unwrap();
        assert_eq!(output.stdout, b"--skip one --skip two --exact\n");
    }

    #[test]
    fn every_program_runs_whatever_is_done_before_in_the_first_lane() {
        let program = |name: &str, path: &str| Program {
            folder: PathBuf::from("/"),
            target: name.to_owned(),
            path: PathBuf::from(path),
        };
        let (outcome, before) = in_lanes(Share::Whole, |waiting| {
            for path in ["/bin/true"; 20].into_iter().chain(["/bin/false"]) {
                waiting.add(program("it", path));
            }
            waiting.complete();
            7
        });
        assert_eq!((outcome.failed.len(), before), (1, 7));
        let (outcome, before) = in_lanes(Share::Whole, |waiting| {
            waiting.complete();
            8
        });
        assert_eq!((outcome.failed.len(), before), (0, 8));
    }

    #[test]
    fn who_builds_the_command_anew_waits_for_the_programs_that_start_it() {
        assert!(program("onefold-pool", "it").uses_the_command().is_none());
        let used = program(COMMAND, "it").uses_the_command();
        assert!(used.is_some() && COMMAND_IS_USED.try_write().is_err());
        assert!(program(COMMAND, COMMAND).uses_the_command().is_some(), "two at once");
        drop(used);
        let anew = nobody_uses_the_command();
        assert!(COMMAND_IS_USED.try_read().is_err());
        drop(anew);
    }
}
