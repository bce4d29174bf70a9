//! All tests, as many test programs at once as there are processors.
//! Room: xtask.
//!
//! `cargo test` runs one program after the other. A program that waits for a server, or whose last
//! test takes a minute alone, then leaves processors idle: with two of them a third of the time.
//! What else is to be done runs in the first lane, which takes test programs after it. Of the tests
//! that take long, a run has the share that it is told.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo;
use crate::ci::{FEATURES, TESTS_BUILD};
use crate::count::Count;
use crate::long_tests::Share;

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

    /// What is held while it runs, if its tests start the command.
    fn uses_the_command(&self) -> Option<RwLockReadGuard<'static, ()>> {
        let used = || COMMAND_IS_USED.read().unwrap_or_else(PoisonError::into_inner);
        (self.package() == COMMAND).then(used)
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

/// What running all tests came to.
pub struct Outcome {
    pub count: Count,
    /// Programs that failed, each as the words that repeat it alone.
    pub failed: Vec<String>,
}

/// Run this share of the tests, those in documentation, too, and `beside` meanwhile.
pub fn run(waiting: Vec<Program>, share: Share, beside: impl FnOnce() + Send) -> Result<Outcome> {
    let (mut outcome, documentation) = in_lanes(waiting, share, || {
        let documentation = documentation();
        beside();
        documentation
    });
    outcome.add_documentation(&documentation?);
    Ok(outcome)
}

/// Run test programs in as many lanes as there are processors, of which the first begins with
/// something else. Returns what both came to.
fn in_lanes<T: Send>(
    mut waiting: Vec<Program>,
    share: Share,
    before: impl FnOnce() -> T + Send,
) -> (Outcome, T) {
    waiting.sort_by_key(Program::rank);
    let lanes = thread::available_parallelism().map_or(1, usize::from);
    let waiting = Mutex::new(VecDeque::from(waiting));
    let outcome = Mutex::new(Outcome { count: Count::default(), failed: Vec::new() });
    let lane = || {
        loop {
            let Some(program) = lock(&waiting).pop_front() else { break };
            let start = Instant::now();
            let left_out = share.left_out(program.package(), &program.target);
            let result = program.run(&left_out);
            lock(&outcome).add(&program, &result, &left_out, start.elapsed());
        }
    };
    let before = thread::scope(|scope| {
        for _ in 1..lanes {
            scope.spawn(lane);
        }
        let before = before();
        lane();
        before
    });
    (outcome.into_inner().unwrap_or_else(PoisonError::into_inner), before)
}

/// A lane that panicked has left nothing half done: what is behind the lock is whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Build all tests, and the binaries.
pub fn build() -> Result<Vec<Program>> {
    let format = ["--message-format", "json-render-diagnostics"];
    let output = cargo::command(&TESTS_BUILD)
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
        let passed = match result {
            Ok(output) => {
                let before = self.count.left_out;
                self.show(output);
                let count = self.count.left_out - before;
                let known = count == left_out.len() as u64;
                if !known {
                    println!("{count} left out of {left_out:?}: not all of them are tests here");
                }
                output.status.success() && known
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

    fn add_documentation(&mut self, output: &Output) {
        self.show(output);
        if !output.status.success() {
            self.failed.push("--workspace --doc".to_owned());
        }
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
        outcome.add(&failing, &Command::new(&failing.path).output(), &[], Duration::ZERO);
        let missing = program("gone", "gone");
        outcome.add(&missing, &missing.run(&[]), &[], Duration::ZERO);
        assert_eq!(outcome.failed.len(), 2);
        assert_eq!(outcome.failed[1], "-p gone --lib --bins");
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
        assert_eq!(outcome.failed, ["-p onefold-pool --test it"]);
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
        let all = (0..20).map(|_| program("it", "/bin/true"));
        let all = all.chain([program("it", "/bin/false")]).collect();
        let (outcome, before) = in_lanes(all, Share::Whole, || 7);
        assert_eq!((outcome.failed.len(), before), (1, 7));
        let (outcome, before) = in_lanes(Vec::new(), Share::Whole, || 8);
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
